"""Parts of tables with partitions that rowfall-decode writes, against those of the engine."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.test_build import (
    NULL,
    OF_ITSELF,
    SEED,
    TYPES,
    Columns,
    Parts,
    Rows,
    compact_data,
    dictionaries,
    either,
    is_compact,
    kinds,
    marks,
    parts,
    pool,
    table_of,
    unpacked,
)  # fmt: skip
from rowfall.core.model import Column, Schema
from rowfall.core.sqltext import SqlText
from rowfall.decoder import installed
from rowfall.decoder.documents import Input, PartPartition, Spec
from rowfall.decoder.documents import InputColumn as Written
from rowfall.decoder.process import DecoderProcess
from rowfall.deliver.build import handed_rows, partitions
from rowfall.plan import keys, table_definition

__all__ = ["parts"]
ROWS = 6_000
NUMBERS = itertools.count()


def partition_key(by: str, columns: Columns) -> keys.PartitionKey:
    found = keys.partition_key(by, schema(columns).columns)
    assert isinstance(found, keys.PartitionKey), found
    return found


def schema(columns: Columns) -> Schema:
    return Schema(tuple(Column(name, type_, source=name) for name, type_ in columns.items()))


def build(
    parts: Parts, table: str, by: str, columns: Columns, key: str, path: Path, **spec: Any
) -> tuple[int, str]:
    """Build a table as rowfall.deliver.build does it; return how the program has ended."""
    folder = parts._folder / f"partitions{next(NUMBERS)}"
    folder.mkdir()
    table_ = table_definition.parse(parts.sql(f"SHOW CREATE TABLE {table} FORMAT TSVRaw"))
    assert table_ is not None
    found = partition_key(table_.clauses["PARTITION"].removeprefix("BY "), columns)
    names = list(columns)
    outputs = [folder / str(n) for n in range(spec.pop("outputs", 1))]
    asked = Spec(
        inputs=(Input(str(path)),),
        format=spec.pop("format", "CSV"),
        null=NULL,
        trim_strings=False,
        timezone="UTC",
        parts=True,
        partition_by=PartPartition(
            found.used,
            str(folder / "keys"),
            **{"hold_bytes": 1 << 30, **spec.pop("partition_by", {})},
        ),
        layout=table_definition.layout(table_, set(columns)),
        columns=tuple(
            Written(name, type_, position=n) for n, (name, type_) in enumerate(columns.items())
        ),
        sort_by=tuple(names.index(k) for k in key.strip("()").split(", ")),
        outputs=tuple(str(output) for output in outputs),
        **spec,
    )

    def answers(question: str, about: Mapping[str, Any]) -> Mapping[str, Any]:
        assert question == "partitions"
        place = SqlText.of(f"file('{about['file']}'")
        return partitions(found, parts._engine, handed_rows(schema(columns), about, place), 7)

    child = DecoderProcess(str(installed.program()), asked, answers)
    assert child.wait(60)
    code, last = child.end()
    if code:
        return code, last
    place = parts.place(table) / "detached"
    for number, part in enumerate(p for output in outputs for p in sorted(output.iterdir())):
        part.rename(place / f"{part.name.rpartition('_')[0]}_{number}_{number}_0")
    parts.sql(f"ALTER TABLE {table} ATTACH PARTITION ALL")
    return code, last


def parts_of(parts: Parts, table: str) -> dict[str, Path]:
    """The parts of a table, each partition with one."""
    found = parts.sql(
        f"SELECT partition_id, path FROM system.parts WHERE table = '{table}' AND active"
    ).splitlines()
    by_id = dict(line.split("\t") for line in found)
    assert len(by_id) == len(found)
    return {id_: Path(path) for id_, path in by_id.items()}


def compared(
    parts: Parts, columns: Columns, by: str, key: str, rows: Rows, more: str = "", **spec: Any
) -> int:
    """Build a table of rows; see :func:`compared_file`."""
    path = parts.file(columns, rows)
    count = compared_file(parts, columns, by, key, path, more, **spec)
    path.unlink()
    return count


def compared_file(
    parts: Parts, columns: Columns, by: str, key: str, path: Path, more: str = "", **spec: Any
) -> int:
    """Assert that a built table is what the engine writes; return how many partitions it has."""
    more += either(columns, key, by)
    ours = parts.create(columns, key, more, partition=by)
    code, last = build(parts, ours, by, columns, key, path, **spec)
    assert code == 0, last
    plain = parts.create(columns, key, more, partition=by)
    parts.insert(plain, columns, path, spec.get("format", "CSV"))
    for verb in ("DETACH", "ATTACH"):
        parts.sql(f"ALTER TABLE {plain} {verb} PARTITION ALL")
    count = same_parts(parts, ours, plain)
    whole = "SELECT count(), sum(cityHash64(tuple(*))) FROM"
    assert parts.sql(f"{whole} {ours}") == parts.sql(f"{whole} {plain}")
    parts.drop(ours, plain)
    return count


def same_parts(parts: Parts, ours: str, plain: str) -> int:
    """Assert that the parts of two tables are the same; return how many there are."""
    assert parts.check(ours) == []
    mine, theirs = (parts_of(parts, table) for table in (ours, plain))
    assert mine.keys() == theirs.keys()
    for id_, folder in mine.items():
        same_files(folder, theirs[id_])
    return len(mine)


def same_files(mine: Path, theirs: Path) -> None:
    """Assert that two parts are the same, but for dictionaries."""
    low = dictionaries(mine)
    assert sorted(p.name for p in mine.iterdir()) == sorted(p.name for p in theirs.iterdir())
    for file in mine.iterdir():
        name = file.name
        if name == "serialization.json":
            assert kinds(file) == kinds(theirs / name)
        elif name in OF_ITSELF:
            continue
        elif file.suffix in (".txt", ".dat", ".idx"):
            assert file.read_bytes() == (theirs / name).read_bytes(), (mine, name)
        elif file.suffix == ".cmrk2":
            assert marks(file) == marks(theirs / name), (mine, name)
        elif name == "data.bin" and is_compact(mine):
            assert compact_data(mine, ()) == compact_data(theirs, ()), mine
        elif file.suffix == ".cidx" or (file.suffix == ".bin" and name not in low):
            assert unpacked(file) == unpacked(theirs / name), (mine, name)


def few(rng: random.Random, type_: str, some: int = 12) -> list[str]:
    return pool(rng, type_, ROWS, defaults=0.1, some=some)


NO_PARTITIONS_OF = ("Float32", "Float64")


@pytest.mark.parametrize("type_", [type_ for type_ in TYPES if type_ not in NO_PARTITIONS_OF])
@pytest.mark.sampled
def test_a_partition_key_of_every_type(type_: str, parts: Parts) -> None:
    rng = random.Random(f"{SEED} {type_}")
    columns = {"p": type_, "n": "UInt32", "s": "String"}
    rows = table_of(few(rng, type_), few(rng, "UInt32"), few(rng, "String", 400))
    assert compared(parts, columns, "p", "n", rows) > 1


def test_names_of_columns(parts: Parts) -> None:
    rng = random.Random(SEED)
    columns = {"p q.\u00e4": "UInt8", "x" * 130: "String", "n": "UInt32"}
    rows = table_of(few(rng, "UInt8", 3), few(rng, "String", 3), few(rng, "UInt32"))
    assert compared(parts, columns, f"(`p q.\u00e4`, {'x' * 130})", "n", rows) > 5


NULLABLE = [type_ for type_ in TYPES if keys._field(type_)]


@pytest.mark.parametrize("by", ["p", "(p, u)", "(e, p)", "(lower(toString(p)), e)"])
@pytest.mark.parametrize("type_", NULLABLE)
@pytest.mark.sampled(10)
def test_partition_keys_that_are_null(type_: str, by: str, parts: Parts) -> None:
    """The names of partitions, and the least and greatest values, with NULL in some and in all."""
    rng = random.Random(f"{SEED} {type_} {by}")
    low = type_.startswith("Low")
    columns = {
        "p": "LowCardinality(Nullable(String))" if low else f"Nullable({type_})",
        "e": "Nullable(Int16)", "u": "UInt8", "n": "UInt32",
    }  # fmt: skip
    rows = table_of(
        pool(rng, type_, ROWS, 0.2, 0.2, some=6), pool(rng, "Int16", ROWS, 0.2, 0.3, some=3),
        pool(rng, "UInt8", ROWS, 0.2, some=3), few(rng, "UInt32"),
    )  # fmt: skip
    assert compared(parts, columns, by, "n", rows, ", allow_nullable_key = 1") > 1


@pytest.mark.parametrize(
    ("by", "count"),
    [
        ("toYYYYMM(t)", 12), ("(toDate(t), p % 3)", 30), ("toMonday(m)", 10),
        ("intDiv(n, 100000000)", 10), ("n % 200", 40), ("modulo(i, 100)", 40),
        ("intDiv(i, 300000000)", 10), ("(s, p)", 100), ("substring(s, 1, 1)", 5),
        ("(p > 100, lower(s))", 10), ("cityHash64(s) % 5", None), ("toYear(t) + p", 20),
        ("(toStartOfHour(m), toYYYYMMDD(m))", 30), ("tuple(p)", 10),
    ],
)  # fmt: skip
@pytest.mark.sampled
def test_partition_keys_of_expressions(by: str, count: int | None, parts: Parts) -> None:
    rng = random.Random(f"{SEED} {by}")
    columns = {
        "p": "UInt8", "t": "DateTime('America/New_York')", "m": "DateTime64(3, 'UTC')",
        "n": "UInt32", "i": "Int32", "s": "LowCardinality(String)", "text": "Nullable(String)",
    }  # fmt: skip
    texts = pool(rng, "String", ROWS, defaults=0.1, nulls=0.1)
    # Other years have no rules of their zone, and another time may exist twice.
    local = [f"20{10 + int(v[2:4]) % 20}{v[4:11]}12{v[13:]}" for v in few(rng, "DateTime", 60)]
    rows = table_of(
        few(rng, "UInt8"), local, few(rng, "DateTime64(3, 'UTC')", 60),
        few(rng, "UInt32", 300), few(rng, "Int32", 300), few(rng, "String"), texts,
    )  # fmt: skip
    if "cityHash64" in by:
        found = keys.partition_key(by, schema(columns).columns)
        assert isinstance(found, str)
        assert "rule of its own" in found
        return
    assert compared(parts, columns, by, "(s, n)", rows) >= (count or 2) // 2


# Each with the values at both of its ends, in ranges that fit into one byte, into two, and into
# just more than each: blocks are held by their differences to the least value.
NEAR = {
    **{
        f"{sign}Int{bits}": (low, low + (1 << bits) - 1)
        for bits in (8, 16, 32, 64)
        for sign, low in (("", -(1 << bits - 1)), ("U", 0))
    },
    "Date": (0, 65_535),
    "DateTime": (0, (1 << 32) - 1),
    "DateTime64(0, 'UTC')": (0, 4_000_000_000),
    "Decimal(9, 0)": (-999_999_999, 999_999_999),
    "Decimal(18, 0)": (-(10**18) + 1, 10**18 - 1),
    "Nullable(Int32)": (-(1 << 31), (1 << 31) - 1),
}


def near(rng: random.Random, type_: str, span: int, *, high: bool) -> list[str]:
    low, most = NEAR[type_]
    first = max(low, most - span) if high else low
    numbers = [first, *(first + rng.randint(0, span) for _ in range(ROWS - 2)), first + span]
    numbers = [min(number, most) for number in numbers]
    if type_ == "Date":
        return [str(date(1970, 1, 1) + timedelta(days=number)) for number in numbers]
    if type_.startswith("DateTime"):
        begin = datetime(1970, 1, 1, tzinfo=UTC)
        return [f"{begin + timedelta(seconds=n):%Y-%m-%d %H:%M:%S}" for n in numbers]
    return [NULL if type_ == "Nullable(Int32)" and n % 7 == 0 else str(n) for n in numbers]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("high", [False, True])
@pytest.mark.parametrize("span", [0, 255, 256, 65_535, 65_536])
def test_values_that_are_near_each_other(span: int, high: bool, parts: Parts) -> None:
    """Of partitions by a column and by an expression, and of rows that stand together."""
    rng = random.Random(f"{SEED} {span} {high}")
    columns = {"p": "Int16", **{f"c{n}": type_ for n, type_ in enumerate(NEAR)}, "k": "UInt32"}
    cells = [near(rng, type_, span, high=high) for type_ in NEAR]
    keys_ = few(rng, "UInt32", 900)
    for by, pool_ in (("p", few(rng, "Int16", 5)), ("intDiv(p, 7)", ["-8", "-7", "0", "6", "7"])):
        numbers = pool_[:ROWS] if len(pool_) >= ROWS else rng.choices(pool_, k=ROWS)
        rows = table_of(numbers, *cells, keys_)
        for ordered in (rows, sorted(rows, key=lambda row: int(row[0]))):
            compared(parts, columns, by, "k", ordered, block_rows=1_500, chunk_bytes=1 << 16)


def test_rows_of_a_partition_are_one_part(parts: Parts) -> None:
    """Out of many small blocks and with many columns, too."""
    rng = random.Random(SEED)
    columns = {"p": "UInt8", "k": "UInt32", **{f"c{n}": "String" for n in range(10)}}
    cells = [few(rng, "String", 50) for _ in range(10)]
    rows = table_of(few(rng, "UInt8"), few(rng, "UInt32", 3000), *cells)
    compared(parts, columns, "p", "k", rows, block_rows=500, chunk_bytes=4096)


def test_what_is_held_has_a_limit(parts: Parts) -> None:
    rng = random.Random(SEED)
    columns = {"p": "UInt8", "k": "UInt32"}
    path = parts.file(columns, table_of(few(rng, "UInt8", 3), few(rng, "UInt32", 3000)))
    table = parts.create(columns, "k", partition="p")
    limit = {"hold_bytes": 10_000}
    assert build(
        parts, table, "p", columns, "k", path, block_rows=500, chunk_bytes=2000, partition_by=limit
    )[0] == 0  # fmt: skip
    assert parts.check(table) == []
    found = parts.sql(
        f"SELECT count(), sum(rows) FROM system.parts WHERE table = '{table}' AND active"
    )
    made, rows = map(int, found.split("\t"))
    assert rows == ROWS
    assert 6 <= made <= 20


def declined() -> Iterator[tuple[str, dict[str, str], dict[str, Any], str]]:
    yield "p", {"p": "UInt32"}, {"max_partitions": 5}, "max_partitions_per_insert_block is 5"
    yield "toString(p)", {"p": "UInt32"}, {}, "more than 4096 partitions"


@pytest.mark.parametrize(("by", "more", "limits", "why"), list(declined()))
def test_too_many_partitions_are_declined(
    by: str, more: dict[str, str], limits: dict[str, Any], why: str, parts: Parts
) -> None:
    columns = {**more, "k": "UInt32"}
    many = 6 if limits else 5_000
    path = parts.file(columns, [(str(n % many), "1") for n in range(5_000)])
    table = parts.create(columns, "k", partition=by)
    code, last = build(parts, table, by, columns, "k", path, partition_by=limits)
    assert (code, why in last) == (3, True), last
    assert not list((parts.place(table) / "detached").glob("*_*"))
    parts.drop(table)


@pytest.mark.parametrize(
    ("by", "why"),
    [
        ("f", "uses floats (f)"), ("toDate(now())", "uses now"),
        ("i", "Nullable(UUID) may be NULL"),
        ("(p, cityHash64(p) % 3)", "by a rule of its own"), ("1", "no column of the load"),
        ("a[1]", "uses nested values (a)"), ("length(a)", "uses nested values (a)"),
    ],
)  # fmt: skip
def test_keys_that_only_the_engine_follows(by: str, why: str) -> None:
    columns = {"p": "UInt32", "f": "Float64", "i": "Nullable(UUID)", "a": "Array(UInt8)"}
    found = keys.partition_key(by, schema(columns).columns)
    assert isinstance(found, str)
    assert why in found
