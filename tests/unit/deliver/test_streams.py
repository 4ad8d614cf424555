"""What is sent when rows are pushed: which way each file goes, and where big ones are cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.formats import find
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Facts, Kind, Schema
from rowfall.core.sqltext import SqlText
from rowfall.deliver import streams
from rowfall.deliver.streams import StreamPiece
from rowfall.plan import statements, transport
from rowfall.schema.text import records
from rowfall.schema.types.strict_reading import strict_column

MIB = 1 << 20
BOM = "\ufeff".encode()
CSV = Encoding("CSV", "none", Kind.TEXT)
TSV = Encoding("TSV", "none", Kind.TEXT)
JSON = Encoding("JSONEachRow", "none", Kind.JSON)
PARQUET = Encoding("Parquet", "none", Kind.TYPED)
SCHEMA = Schema(
    (strict_column("a", "a", "Int64", Kind.TEXT), strict_column("b", "b", "String", Kind.TEXT))
)


def split(name: str, size: int | None = 100 * MIB) -> Split:
    return Split("0" * 32, name, "v", size)


def encoding(format: str, compression: str = "none") -> Encoding:
    return Encoding(format, compression, find(format).kind)


def deliver(*splits: Split, how: Encoding | None = CSV, stream: bool = False) -> transport.SentAs:
    return transport.sent_as(splits, how, SCHEMA, stream=stream)


# --- which way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", ["none", "gzip", "zstd", "lz4", "xz", "bz2", "auto"])
def test_text_files_go_as_they_are(packed: str) -> None:
    for format in ("CSV", "TSV", "JSONEachRow"):
        found = deliver(split("/d/a"), split("/d/b"), how=encoding(format, packed))
        assert len(found.raw) == 2
        assert not found.blocks
        assert "as they are" in found.reason


@pytest.mark.parametrize(
    ("splits", "how", "reason"),
    [
        ([split("s3://b/k")], CSV, "the source is read here"),
        ([split("https://h/a.csv")], CSV, "the source is read here"),
        ([split("generate://trips")], None, "rows are made here"),
        ([split("/d/a", 40_000), split("/d/b", 40_000)], CSV, "on average would be a part each"),
        ([split("/d/a")], encoding("CSVWithNames", "zstd"), "header inside zstd"),
        ([split("/d/a")], encoding("TSVWithNames", "lz4"), "header inside lz4"),
        ([split("/d/a")], encoding("Parquet"), "of Parquet in memory"),
        ([split("/d/a", MIB)], encoding("Avro", "gzip"), "Avro inside gzip"),
    ],
)
def test_the_rest_goes_as_blocks(splits: list[Split], how: Encoding | None, reason: str) -> None:
    found = deliver(*splits, how=how)
    assert not found.raw
    assert found.blocks == tuple(splits)
    assert reason in found.reason


def test_one_small_file_goes_as_it_is() -> None:
    assert deliver(split("/d/a", 100)).raw


def test_files_of_one_attempt_may_go_both_ways() -> None:
    found = deliver(split("/d/a", 60 * MIB), split("/d/b", 70 * MIB), how=encoding("Parquet"))
    assert [s.uri for s in found.raw] == ["/d/a"]
    assert [s.uri for s in found.blocks] == ["/d/b"]
    assert "as they are" in found.reason
    assert "Parquet in memory" in found.reason


def test_the_compression_of_mixed_files_is_told_by_their_names() -> None:
    mixed = encoding("CSVWithNames", "auto")
    found = deliver(split("/d/a.csv.gz"), split("/d/b.csv.zst"), how=mixed)
    assert [s.uri for s in found.raw] == ["/d/a.csv.gz"]


def test_stdin_goes_on_as_it_comes() -> None:
    assert deliver(split("stdin://", None), stream=True).raw


def test_a_statement_too_long_for_a_url_is_not_sent() -> None:
    columns = tuple(
        strict_column(f"column_{n}", f"column_{n}", "Int64", Kind.TEXT) for n in range(3_000)
    )
    found = transport.sent_as([split("/d/a")], CSV, Schema(columns), stream=False)
    assert found.blocks
    assert "too many columns" in found.reason


def test_statements_name_columns_and_read_types() -> None:
    raw = str(statements.insert_raw(SqlText.of("`d`.`s`"), CSV, SCHEMA))
    assert raw.startswith(
        "INSERT INTO `d`.`s` (`a`, `b`)\nSELECT accurateCast(`a`, 'Int64') AS `a`"
    )
    assert "rowfall_extra" not in raw, "input() applies no DEFAULT, so short rows would pass"
    assert raw.endswith("\nFORMAT CSV")
    assert "FROM input('`a` String" in raw
    blocks = str(statements.insert_sent_blocks(SqlText.of("`d`.`s`"), SCHEMA.columns))
    assert "input('`a` Int64, `b` String')\nFORMAT Native" in blocks


def test_the_local_engine_reads_as_the_server_would() -> None:
    facts = Facts("1", 8, 1 << 30, frozenset({"max_threads", "date_time_overflow_behavior", "x"}))
    given = {"max_threads": 64, "x": 1, "only_the_server": 1}
    local = streams.local_settings(given, CSV, SCHEMA.columns, facts, 2)
    assert local == {"max_threads": 4, "date_time_overflow_behavior": "throw", "x": 1}


def test_the_local_engine_keeps_to_its_own_memory() -> None:
    """Statements that read for a server had no limit, and its shares of Parquet."""
    waiting = "input_format_parquet_memory_high_watermark"
    names = {"max_threads", "max_memory_usage", "max_memory_usage_for_user", waiting}
    facts = Facts("1", 8, 1 << 30, frozenset(names))
    given = {"max_threads": 2, "max_memory_usage": 64 << 30, waiting: 4 << 30}
    local = streams.local_settings(given, PARQUET, SCHEMA.columns, facts, 2)
    assert local["max_memory_usage"] == local["max_memory_usage_for_user"] == 849 << 20
    assert local[waiting] == ((1024 - 350) << 20) // 8 // 2
    assert local["max_threads"] == 2, "half of what the plan had, after a try that took too much"
    assert streams.local_settings(given, CSV, SCHEMA.columns, facts, 2)["max_threads"] == 4


@pytest.mark.parametrize(
    ("head", "format", "fits"),
    [
        (b"a,b\n1,2\n", "CSVWithNames", True),
        (b"b,a,c\r\n", "CSVWithNames", True),
        (BOM + b'"a","b"\n', "CSVWithNames", True),
        (b"a\n", "CSVWithNames", False),
        (b"A,b\n", "CSVWithNames", False),
        (b'a,"b\n', "CSVWithNames", False),
        (b"a,b\xff\n", "CSVWithNames", False),
        (b"", "CSVWithNames", False),
        (b"a\tb\n", "TSVWithNames", True),
        (b"a,b\n", "TSVWithNames", False),
    ],
)
def test_a_header_is_looked_at(head: bytes, format: str, fits: bool) -> None:
    assert streams.header_fits(head, encoding(format), SCHEMA.columns) is fits


# --- cutting -------------------------------------------------------------------------------------


class InvalidError(Exception):
    """The engine's reader would refuse the text."""


def csv_starts(text: bytes) -> Iterator[int]:
    """Where records start, by the rules of the engine's reader, byte for byte."""
    at = len(BOM) if text.startswith(BOM) else 0
    yield 0
    while at < len(text):
        if text[at : at + 1] == b'"':
            at += 1
            while text[at : at + 1] != b'"' or text[at : at + 2] == b'""':
                if at >= len(text):
                    raise InvalidError
                at += 2 if text[at : at + 2] == b'""' else 1
            at += 1
        else:
            while at < len(text) and text[at] not in b",\r\n":
                at += 1
        if at >= len(text):
            return
        if text[at : at + 2] in (b"\r\n", b"\n\r"):
            at += 2
            yield at
        elif text[at : at + 1] == b"\n":
            at += 1
            yield at
        elif text[at : at + 1] == b",":
            at += 1
        else:
            raise InvalidError


def tsv_starts(text: bytes) -> Iterator[int]:
    """The same for TSV: a backslash takes the next byte with it."""
    yield 0
    at = 0
    while at < len(text):
        ends = text[at : at + 1] == b"\n"
        at += 2 if text[at : at + 1] == b"\\" else 1
        if ends:
            yield at


def before_the_error(starts: Iterator[int]) -> tuple[set[int], float]:
    """Record starts, and how far they are certain."""
    found: set[int] = set()
    try:
        found.update(each for each in _noted(starts, found))
    except InvalidError:
        return found, max(found)
    return found, float("inf")


def _noted(starts: Iterator[int], found: set[int]) -> Iterator[int]:
    for each in starts:
        found.add(each)
        yield each


def cuts(text: bytes, how: Encoding, every: int) -> list[int]:
    return list(
        records.record_starts(lambda at, length: text[at : at + length], len(text), how, every)
    )


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a few bytes are a big file."""
    monkeypatch.setattr(streams, "LEAST_PIECE", 1)


scans = st.integers(1, 40)
csv_texts = st.text(alphabet='ab",\n\r\ufeff', max_size=120).map(str.encode)
csv_fields = st.one_of(
    st.text(alphabet="ab ", max_size=4),
    st.text(alphabet='ab",\n\r', max_size=8).map(lambda t: '"' + t.replace('"', '""') + '"'),
    st.sampled_from(['12" x 3', 'a""b', 'x"', "", '""', '""""']),
)
csv_files = st.lists(
    st.tuples(
        st.lists(csv_fields, min_size=1, max_size=4), st.sampled_from(["\n", "\r\n", "\n\r"])
    ),
    max_size=12,
).map(lambda rows: "".join(",".join(fields) + end for fields, end in rows).encode())


@given(st.one_of(csv_texts, csv_files), scans, st.integers(1, 30))
def test_csv_is_cut_only_where_records_start(text: bytes, scan: int, every: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "SCAN", scan)
        found = cuts(text, CSV, every)
    starts, certain = before_the_error(csv_starts(text))
    assert [cut for cut in found if cut <= certain and cut not in starts] == []
    assert all(b - a >= every for a, b in pairwise([0, *found]))


@given(st.text(alphabet="ab\\\n\t\r", max_size=120).map(str.encode), scans, st.integers(1, 30))
def test_tsv_is_cut_only_where_records_start(text: bytes, scan: int, every: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "SCAN", scan)
        found = cuts(text, TSV, every)
    assert set(found) <= set(tsv_starts(text))


json_values = st.recursive(
    st.one_of(st.text(alphabet='a"\\{}\n', max_size=6), st.integers(0, 9), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("k{", max_size=2), inner),
    max_leaves=6,
)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.text('a"', max_size=2), json_values, max_size=3),
            st.sampled_from([None, 1]),
            st.sampled_from(["\n", "\r\n", "\n\n", " ", ""]),
        ),
        max_size=10,
    ),
    scans,
    st.integers(1, 30),
)
def test_json_is_cut_only_where_records_start(
    rows: list[tuple[dict[str, object], int | None, str]], scan: int, every: int
) -> None:
    text, starts = b"", set()
    for value, indent, end in rows:
        starts.add(len(text))
        text += (json.dumps(value, indent=indent) + end).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "SCAN", scan)
        found = cuts(text, JSON, every)
    assert set(found) <= starts


def test_line_breaks_within_json_strings_are_no_places() -> None:
    text = b'{"a":"}\n{\\""}\n{"a":1}\n'
    assert cuts(text, JSON, 1) == [text.index(b'{"a":1}')]


@given(csv_files, st.sampled_from(["CSV", "CSVWithNames"]), scans, st.integers(1, 60))
def test_pieces_are_the_file(text: bytes, format: str, scan: int, every: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "SCAN", scan)
        patch.setattr(streams, "LEAST_PIECE", 1)
        found = list(
            streams.pieces(lambda at, n: text[at : at + n], len(text), encoding(format), {}, every)
        )
    assert b"".join(text[p.start : p.stop] for p in found) == text
    assert [p.last for p in found] == [False] * (len(found) - 1) + [True]
    assert found[0].head == b""
    if format == "CSVWithNames":
        heads = {p.head for p in found[1:]}
        assert all(text.startswith(head) and head.endswith((b"\n", b"\r")) for head in heads)
        assert len(heads) <= 1


def test_what_is_really_there_is_found() -> None:
    """The properties above would hold for a search that never finds anything."""
    rows = [f'{n},"a ""b"",\n{n}",c\r\n'.encode() for n in range(50_000)]
    text = b"".join(rows)
    found = cuts(text, CSV, 100_000)
    assert len(found) == len(text) // 100_000 - (len(text) % 100_000 < len(rows[-1]))
    assert max(b - a for a, b in pairwise([0, *found])) < 100_000 + 2 * len(rows[-1])
    plain = b"".join(f'{{"a":{n},"b":"x\\"y"}}\n'.encode() for n in range(50_000))
    assert len(cuts(plain, JSON, 100_000)) == len(plain) // 100_000
    tabs = b"".join(f"{n}\ta\\\\\n".encode() for n in range(50_000))
    assert len(cuts(tabs, TSV, 100_000)) == len(tabs) // 100_000


def test_a_quote_within_a_value_ends_the_search() -> None:
    good = b'1,"a"\n' * 10
    assert cuts(good + b'2,12" x 3\n' + good, CSV, 6) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "SCAN", 30)
        found = cuts(good + b'2,12" x 3\n' + good, CSV, 6)
    # What was found before it stays true; the rest is one piece.
    assert found
    assert set(found) <= set(range(6, len(good) + 1, 6))


@pytest.mark.parametrize(
    "settings", [{"format_csv_allow_single_quotes": 1}, {"format_csv_allow_double_quotes": 0}]
)
def test_other_quotes_are_not_guessed(settings: dict[str, int]) -> None:
    text = b"1,2\n" * 100
    found = list(streams.pieces(lambda at, n: text[at : at + n], 400, CSV, settings, 40))
    assert found == [StreamPiece(0, 400)]


def test_only_the_last_piece_may_end_with_an_empty_line() -> None:
    settings = {"input_format_csv_skip_trailing_empty_lines": 1, "other": 1}
    assert streams.piece_settings(settings, StreamPiece(0, 9)) == settings
    inner = streams.piece_settings(settings, StreamPiece(0, 9, last=False))
    assert inner == {"input_format_csv_skip_trailing_empty_lines": 0, "other": 1}


def test_files_are_cut_where_that_keeps_streams_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LEAST_PIECE", 16 * MIB)
    big, small = split("/a", 1000 * MIB), split("/b", 50 * MIB)
    assert streams.piece_size([big], 1) == 0
    assert streams.piece_size([big], 4) == streams.PIECE_BYTES
    assert streams.piece_size([big, small], 4) == streams.PIECE_BYTES
    assert streams.piece_size([split("/a", 200 * MIB)], 4) == 50 * MIB
    assert streams.piece_size([small] * 20, 2) == 0
    assert streams.piece_size([split("/a", 20 * MIB)], 4) == 0
