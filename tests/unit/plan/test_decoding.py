"""What the decoder is asked for, and when it is not asked at all."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lab.process import let_pass
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Column, Encoding, Facts, Kind, Projection, Schema
from rowfall.decoder.abilities import flat_types
from rowfall.deliver.decode import chunks, decoder_inputs, decoder_spec
from rowfall.plan.decoding import refusal, sort_columns, stores
from rowfall.plan.statements import plain_type
from rowfall.schema.types.strict_reading import TextTraits, strict_column

FACTS = Facts("26.9", 2, 1 << 30, timezone="UTC")
CSV = Encoding("CSVWithNames", "gzip", Kind.TEXT)
JSON = Encoding("JSONEachRow", "none", Kind.JSON)


def listing(uri: str = "/data/a.csv.gz") -> Listing:
    made = Listing()
    made.add(uri, "1", 10)
    return made


def schema(type_: str, seen: TextTraits | None = None) -> Schema:
    return Schema((strict_column("a", "a", type_, Kind.TEXT, traits=seen),), row_bytes=8.0)


@pytest.mark.parametrize(
    "type_",
    ["UInt8", "Nullable(Int64)", "String", "LowCardinality(String)", "Decimal(9, 2)", "Date",
     "DateTime", "DateTime('UTC')", "DateTime64(3)", "DateTime64(3, 'UTC')",
     "DateTime64(3, 'Asia/Tokyo')", "UUID", "Array(Nullable(UInt8))",
     "Map(LowCardinality(String), Array(Decimal(9, 2)))", "Array(Tuple(a Float64, `b c` Date))",
     "Array(Enum8('x,(' = 1, 'it\\'s)' = 2))", "Tuple(UInt8, Tuple(a String, b Date))"],
)  # fmt: skip
def test_what_it_reads(type_: str) -> None:
    assert refusal(listing(), CSV, schema(type_), FACTS) is None


@pytest.mark.parametrize(
    ("why", "refused"),
    [
        ("nested unknown", (listing(), CSV, schema("Array(JSON)"), FACTS)),
        ("nested NULL", (listing(), CSV, schema("Array(Nullable(Tuple(UInt8)))"), FACTS)),
        ("nested key", (listing(), CSV, schema("Map(Array(UInt8), UInt8)"), FACTS)),
        ("nested dictionary", (listing(), CSV, schema("Array(LowCardinality(UInt8))"), FACTS)),
        ("dictionary", (listing(), CSV, schema("LowCardinality(FixedString(3))"), FACTS)),
        ("nested zone", (listing(), CSV, schema("Array(DateTime('Asia/Urumqi'))"), FACTS)),
        (
            "Tuple between tabs",
            (listing(), replace(CSV, delimiter="\t"), schema("Tuple(UInt8, String)"), FACTS),
        ),
        ("wide Tuple", (listing(), JSON, schema(f"Tuple({', '.join(['UInt8'] * 65)})"), FACTS)),
        ("zone", (listing(), CSV, schema("DateTime('Asia/Urumqi')"), FACTS)),
        ("zone of a DateTime64", (listing(), CSV, schema("DateTime64(3, 'Asia/Urumqi')"), FACTS)),
        ("server's zone", (listing(), CSV, schema("DateTime"), replace(FACTS, timezone="CET"))),
        ("epoch", (listing(), CSV, schema("DateTime", TextTraits(shape="epoch")), FACTS)),
        ("stdin", (listing("-"), CSV, schema("UInt8"), FACTS)),
        ("format", (listing(), replace(CSV, format="TSKV"), schema("UInt8"), FACTS)),
        ("snappy", (listing(), replace(CSV, compression="snappy"), schema("UInt8"), FACTS)),
        ("Parquet", (listing(), Encoding("Parquet", "none", Kind.TYPED), schema("UInt8"), FACTS)),
        ("made", (listing(), None, schema("UInt8"), FACTS)),
    ],
    ids=lambda x: x if isinstance(x, str) else "case",
)
def test_what_the_engine_reads(
    why: str, refused: tuple[Listing, Encoding | None, Schema, Facts]
) -> None:
    assert refusal(*refused)


_RANDOM = Encoding("Random", "none", Kind.TYPED)


@pytest.mark.parametrize(
    ("number", "text", "made"),
    [
        ("UInt64", "String", True),
        ("Nullable(Int64)", "LowCardinality(Nullable(String))", True),
        ("UInt32", "String", False),
        ("UInt64", "FixedString(512)", False),
        ("String", "String", False),
    ],
)
def test_it_makes_rows_of_these_types(number: str, text: str, made: bool) -> None:
    own = {"document_id": "UInt64", "payload": "String"}
    wanted = zip(own, (number, text), strict=True)
    columns = tuple(strict_column(n, n, t, Kind.TYPED, own[n]) for n, t in wanted)
    rows = listing("generate://random?seed=1&bytes=512")
    assert (refusal(rows, _RANDOM, Schema(columns), FACTS) is None) == made
    selected = Schema(columns, projection=Projection(columns, "document_id, payload"))
    assert refusal(rows, _RANDOM, selected, FACTS)


PARQUET = Encoding("Parquet", "none", Kind.TYPED)
ARROW = Encoding("ArrowStream", "none", Kind.TYPED)


@pytest.mark.parametrize(
    ("type_", "source", "encoding", "copied"),
    [
        ("Array(Nullable(Int32))", "Array(Nullable(Int32))", PARQUET, True),
        # A NULL is an error then, whoever reads.
        ("Array(Int32)", "Array(Nullable(Int32))", PARQUET, True),
        (
            "Map(LowCardinality(String), Float64)", "Map(String, Nullable(Float64))", PARQUET,
            True,
        ),
        (
            "Tuple(a Tuple(b Int8), c Date32)", "Tuple(a Tuple(b Nullable(Int8)), c Date32)",
            PARQUET, True,
        ),
        ("Tuple(a Tuple(x Int8))", "Tuple(a Tuple(b Nullable(Int8)))", PARQUET, False),
        ("Tuple(b String, a Int8)", "Tuple(a Int8, b String)", PARQUET, False),
        ("Array(Int64)", "Array(Nullable(Int32))", PARQUET, False),
        ("Array(UUID)", "Array(UUID)", PARQUET, False),
        ("Nullable(Tuple(a Int8))", "Nullable(Tuple(a Int8))", ARROW, False),
        # Read as Nullable a struct is NULL, and else a tuple of NULLs; in Arrow it is an error.
        ("Array(Tuple(a Nullable(Int8)))", "Array(Nullable(Tuple(a Int8)))", PARQUET, False),
        ("Array(Tuple(a Nullable(Int8)))", "Array(Nullable(Tuple(a Int8)))", ARROW, True),
    ],
)  # fmt: skip
def test_which_nested_columns_are_copied(
    type_: str, source: str, encoding: Encoding, *, copied: bool
) -> None:
    column = strict_column("a", "a", type_, Kind.TYPED, source)
    found = refusal(listing("/data/a"), encoding, Schema((column,), row_bytes=8.0), FACTS)
    assert (found is None) is copied


@pytest.mark.parametrize(
    ("type_", "plain"),
    [
        ("LowCardinality(Nullable(String))", "Nullable(String)"),
        ("Array(LowCardinality(String))", "Array(String)"),
        (
            "Map(LowCardinality(String), Tuple(`a b` LowCardinality(String), c Tuple(d Int8)))",
            "Map(String, Tuple(`a b` String, c Tuple(d Int8)))",
        ),
        ("Tuple(Enum8('LowCardinality(' = 1), Date)", "Tuple(Enum8('LowCardinality(' = 1), Date)"),
    ],
)  # fmt: skip
def test_types_of_what_is_handed_over(type_: str, plain: str) -> None:
    assert plain_type(type_) == plain


def test_a_number_that_looks_like_an_epoch_is_a_number() -> None:
    assert refusal(listing(), CSV, schema("UInt32", TextTraits(shape="epoch")), FACTS) is None
    assert refusal(listing(), CSV, schema("UInt8", TextTraits(padded=True)), FACTS) is None


def test_spec_takes_blocks_from_the_settings() -> None:
    read = decoder_inputs([Split("0" * 32, "/data/a.csv.gz", "1", 10)])
    settings = {"min_insert_block_size_rows": 7, "min_insert_block_size_bytes": 99}
    made = decoder_spec(read, CSV, schema("UInt8"), settings, ["/p0"])
    assert (made.block_rows, made.block_bytes) == (7, 99)
    assert made.columns[0].position is None
    plain = decoder_spec(read, replace(CSV, format="CSV"), schema("UInt8"), settings, ["/p0"])
    assert plain.columns[0].position == 0
    odd = replace(CSV, header=("c1", "a"))
    skipped = decoder_spec(read, odd, schema("UInt8"), settings, ["/p0"])
    assert (skipped.skip_header, skipped.file_columns) == (True, 2)
    assert skipped.columns[0].position == 1


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("b, a", (1, 0)),
        ("`b`", (1,)),
        ("", ()),
        ("toYYYYMM(a), b", ()),
        ("c", ()),
        ("n", ()),
    ],
)
def test_blocks_are_sorted_by_keys_of_columns(key: str, columns: tuple[int, ...]) -> None:
    table = Schema((Column("a", "UInt8"), Column("b", "UInt8"), Column("n", "Array(UInt8)")))
    assert sort_columns(key, table) == columns


def test_a_silent_pipe_gives_signs_of_life(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as end:
            end.write(b"one")
            let_pass(0.5, "the pipe is silent")
            end.write(b"two")

    writer = threading.Thread(target=write)
    writer.start()
    pieces = list(chunks(str(path), 0.1))
    writer.join()
    assert b"".join(pieces) == b"onetwo"
    assert b"" in pieces[1:-1]


def test_nested_types_are_taken_apart() -> None:
    assert flat_types("Map(String, Array(Nullable(Decimal(9, 2))))") == (
        "String", "Nullable(Decimal(9, 2))",
    )  # fmt: skip
    tuple_ = "Tuple(a UInt8, `b c` Enum8('x,(' = 1, 'it\\'s' = 2), d Tuple(UInt8, DateTime('UTC')))"
    assert flat_types(tuple_) == (
        "UInt8", "Enum8('x,(' = 1, 'it\\'s' = 2)", "UInt8", "DateTime('UTC')",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "stored"),
    [
        ("UInt8", True), ("Array(Nullable(String))", True), ("JSON", False),
        ("Map(LowCardinality(String), Tuple(a Array(Date), `b c` Enum8('x,(' = 1)))", True),
        ("Array(LowCardinality(UInt8))", False), ("Array(JSON)", False),
        ("Nullable(Tuple(UInt8))", False), ("Array(DateTime('Asia/Urumqi'))", False),
        ("Map(Array(UInt8), UInt8)", False),
    ],
)  # fmt: skip
def test_what_parts_hold(type_: str, stored: bool) -> None:
    assert stores(Column("c", type_), FACTS) is stored


def test_a_tuple_of_json_is_decoded() -> None:
    assert refusal(listing(), JSON, schema("Tuple(a UInt8, b Array(String))"), FACTS) is None
