"""Parts of tables whose keys have expressions, against those of the engine."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.test_build import (
    NULL,
    ONE_BLOCK,
    SEED,
    TYPES,
    Columns,
    Parts,
    Rows,
    either,
    parts,
    pool,
    table_of,
)  # fmt: skip
from contract.test_build_partitions import NUMBERS, same_files, same_parts, schema
from rowfall.core import sql
from rowfall.core.errors import EngineError
from rowfall.core.model import Column, Statement
from rowfall.core.sqltext import SqlText
from rowfall.decoder import installed
from rowfall.decoder.documents import Input, PartPartition, Spec
from rowfall.decoder.documents import InputColumn as Written
from rowfall.decoder.process import DecoderProcess
from rowfall.deliver.build import IN_ORDER, handed_rows, key_values, partitions
from rowfall.deliver.streams import into_file
from rowfall.plan import keys, table_definition

__all__ = ["parts"]
ROWS = 12_500  # of two granules, in compact parts, too
COLUMNS = {
    "t": "DateTime('America/New_York')", "m": "DateTime64(3, 'UTC')", "d": "Date", "n": "UInt32",
    "i": "Int32", "f": "Float64", "s": "String", "l": "LowCardinality(String)", "p": "UInt8",
    "e": "Nullable(Int32)", "x": "Nullable(String)", "u": "UUID",
}  # fmt: skip
SETTINGS = "assign_part_uuids = 1, allow_nullable_key = 1"


def create(parts: Parts, columns: Columns, tail: str, more: str = "") -> str:
    table = f"t{next(parts._numbers)}"
    listed = sql.structure(columns.items())
    engine = tail if tail.split("(")[0].split()[0].endswith("MergeTree") else f"MergeTree {tail}"
    parts.sql(
        f"CREATE TABLE {table} ({listed}) ENGINE = {engine} "
        f"SETTINGS {SETTINGS}{either(columns, engine)}" + (f", {more}" if more else "")
    )
    return table


def build(
    parts: Parts, table: str, columns: Columns, path: Path, *, failing: bool = False, **spec: Any
) -> tuple[int, str, list[int]]:
    """Build a table as rowfall.deliver.build does it.

    Returns how the program has ended, and how many rows it has asked about, question by question.
    """
    folder = parts._folder / f"keys{next(NUMBERS)}"
    folder.mkdir()
    outputs = [folder / str(n) for n in range(spec.pop("outputs", 1))]
    found = table_definition.parse(parts.sql(f"SHOW CREATE TABLE {table} FORMAT TSVRaw"))
    assert found is not None
    assert table_definition.refusal(found, set(columns)) is None
    given = schema(columns)
    question = keys.question_of_types(found.sorting_key, given.columns)
    types = [str(row[1]) for row in parts._engine.ask(question)] if question else []
    sorting = keys.sorting_key(found.sorting_key, given.columns, list(columns), types)
    assert isinstance(sorting, keys.SortingKey), sorting
    document = Spec(
        inputs=(Input(str(path)),),
        format=spec.pop("format", "CSV"),
        null=NULL,
        trim_strings=False,
        timezone="UTC",
        parts=True,
        layout=table_definition.layout(found, set(columns)),
        columns=tuple(
            Written(name, type_, position=n) for n, (name, type_) in enumerate(columns.items())
        ),
        sort_by=sorting.places(len(columns)),
        primary=found.primary_elements,
        computed=sorting.computed(str(folder / "values")),
        outputs=tuple(str(output) for output in outputs),
        **spec,
    )
    by = found.clauses.get("PARTITION", "").removeprefix("BY ")
    partition: Any = keys.partition_key(by, given.columns, list(columns)) if by else None
    if partition is not None:
        by_key = PartPartition(partition.used, str(folder / "keys"), hold_bytes=1 << 30)
        document = replace(document, partition_by=by_key)
    asked = []

    def answers(question: str, about: Mapping[str, Any]) -> Mapping[str, Any]:
        handed = handed_rows(given, about, SqlText.of(f"file('{about['file']}'"))
        if question == "partitions":
            return partitions(partition, parts._engine, handed, 7)
        assert question == "keys"
        if failing:
            raise EngineError("nobody computes it")
        values = into_file(key_values(sorting, about["expressions"], handed), about["into"])
        parts._engine.run(Statement(values, IN_ORDER, alters=None), lane=7)
        rows = f"SELECT count() FROM file('{about['into']}', 'Native')"
        asked.append(int(parts.sql(rows)))
        return {}

    child = DecoderProcess(str(installed.program()), document, answers)
    assert child.wait(60)
    code, last = child.end()
    if not code:
        assert {path.name for path in folder.iterdir()} <= {*(p.name for p in outputs), "keys"}
        place = parts.place(table) / "detached"
        for number, part in enumerate(p for output in outputs for p in sorted(output.iterdir())):
            id_ = part.name.rpartition("_")[0] or "all"
            part.rename(place / f"{id_}_{number}_{number}_0")
        parts.sql(f"ALTER TABLE {table} ATTACH PARTITION ALL")
    return code, last, asked


def insert(parts: Parts, table: str, columns: Columns, path: Path) -> None:
    parts.sql(
        f"INSERT INTO {table} SELECT * FROM {parts.relation(columns, path)}",
        **ONE_BLOCK, optimize_on_insert=0,
    )  # fmt: skip


def compared(
    parts: Parts, columns: Columns, tail: str, rows: Rows, more: str = "", **spec: Any
) -> list[int]:
    """Assert that a built table is what the engine writes; return what was asked."""
    path = parts.file(columns, rows)
    ours = create(parts, columns, tail, more)
    code, last, asked = build(parts, ours, columns, path, **spec)
    assert code == 0, last
    plain = create(parts, columns, tail, more)
    insert(parts, plain, columns, path)
    for verb in ("DETACH", "ATTACH"):
        parts.sql(f"ALTER TABLE {plain} {verb} PARTITION ALL")
    same_parts(parts, ours, plain)
    # With parts of the engine, and each other's.
    found = []
    for table in (ours, plain):
        insert(parts, table, columns, path)
        parts.sql(f"OPTIMIZE TABLE {table} FINAL")
        assert parts.check(table) == []
        found.append(parts.sql(f"SELECT count(), sum(cityHash64(tuple(*))) FROM {table}"))
    assert found[0] == found[1]
    parts.drop(ours, plain)
    path.unlink()
    return asked


def cells(rng: random.Random, columns: Columns, some: int, rows: int = ROWS) -> list[list[str]]:
    found = []
    for type_ in columns.values():
        bare = type_.removeprefix("Nullable(").removesuffix(")") if type_[0] == "N" else type_
        kind = "DateTime" if bare.startswith("DateTime('") else bare
        values = pool(rng, kind, rows, 0.1, 0.2 * (bare != type_), some=some)
        if kind == "DateTime":
            # Other years have no rules of their zone, and another time may exist twice.
            values = [f"20{10 + int(v[2:4]) % 20}{v[4:11]}12{v[13:]}" for v in values]
        found.append(values)
    return found


KEYS = [
    "(toStartOfHour(t), n)", "(toDate(t), cityHash64(s))", "intDiv(n, 100000000)", "lower(s)", "-i",
    "(toYYYYMM(m), lower(l), i)", "n % 7", "(bitXor(n, 5), s)", "f * 2", "toFloat32(n)",
    "(toStartOfInterval(m, toIntervalMinute(10)), n)", "(i + p, concat(s, l))", "toMinute(m)",
    "(sipHash64(u), d)", "(e + 1, n)", "(n, upper(x))", "(length(s), toString(n))", "toHour(m)",
    "(ifNull(e, 0), toDecimal64(n, 2))", "(toUInt128(n), toFixedString(substring(s, 1, 1), 3))",
    "(toStartOfFiveMinutes(t), toStartOfTenMinutes(m))", "toStartOfMinute(t)",
    "(CAST(p % 2, 'Enum8(''a'' = 0, ''b'' = 1)'), isNull(x))", "(toTimeZone(t, 'Asia/Kathmandu'))",
    "toIPv4(n)", "(e IS NULL, xxHash32(u), n)", "(d, f / 3, reverse(s))", "cityHash64(s, n, x)",
]  # fmt: skip


@pytest.mark.parametrize("some", [5, 300, ROWS])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.sampled(7)
def test_expressions(key: str, some: int, parts: Parts) -> None:
    rng = random.Random(f"{SEED} {key} {some}")
    compared(parts, COLUMNS, f"ORDER BY {key}", table_of(*cells(rng, COLUMNS, some)))


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.sampled(4)
def test_values_of_every_type(type_: str, parts: Parts) -> None:
    """Few of them and many; the expression gives them back as they are."""
    columns = {"k": type_, "n": "Nullable(UInt32)", "q": f"Nullable({type_})", "b": "UInt8"}
    if type_.startswith("Low"):
        columns["q"] = "LowCardinality(Nullable(String))"
    for some in (40, 5_000):
        rng = random.Random(f"{SEED} {type_} {some}")
        rows = table_of(
            pool(rng, type_, 5_000, 0.1, some=some), pool(rng, "UInt32", 5_000, 0.1, 0.1),
            pool(rng, type_, 5_000, 0.1, 0.2, some=some), pool(rng, "UInt8", 5_000, 0.3),
        )  # fmt: skip
        for key in ("(materialize(k), b)", "(b, if(b > 100, k, k))", "(materialize(q), b)"):
            compared(parts, columns, f"ORDER BY {key}", rows)


TAILS = [
    "PARTITION BY toYYYYMM(t) ORDER BY (toStartOfHour(t), n)",
    "PARTITION BY p % 5 ORDER BY (cityHash64(s), lower(l))",
    "PARTITION BY (l, toDate(m)) ORDER BY intDiv(i, 7)",
    "PRIMARY KEY toDate(t) ORDER BY (toDate(t), cityHash64(s), n)",
    "PRIMARY KEY (p, lower(s)) ORDER BY (p, lower(s), toStartOfHour(m), i)",
    "PRIMARY KEY tuple() ORDER BY (lower(s), p)",
    "PRIMARY KEY p ORDER BY (p, n)",
    "ORDER BY (p, cityHash64(s)) SAMPLE BY cityHash64(s)",
    "PARTITION BY toYYYYMM(m) ORDER BY (n, s) SAMPLE BY n",
    "ReplacingMergeTree(n) ORDER BY (toStartOfDay(t), lower(l))",
    "ReplacingMergeTree PARTITION BY p % 3 ORDER BY (e + 1, cityHash64(x))",
    "SummingMergeTree PRIMARY KEY (p, toStartOfHour(t)) ORDER BY (p, toStartOfHour(t), l, n)",
    "AggregatingMergeTree ORDER BY (upper(x), n % 100)",
]


@pytest.mark.parametrize("some", [7, 3_000])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.sampled(4)
def test_tables(tail: str, some: int, parts: Parts) -> None:
    rng = random.Random(f"{SEED} {tail} {some}")
    if "PARTITION" in tail and some > 7:
        some = 12
    compared(parts, COLUMNS, tail, table_of(*cells(rng, COLUMNS, some)), block_rows=ROWS)


def test_columns_that_are_called_like_expressions(parts: Parts) -> None:
    rng = random.Random(SEED)
    columns = {"key 1": "UInt32", "key 0": "String", "a b": "Int8"}
    rows = table_of(*cells(rng, columns, 40, 5_000))
    for tail in ("(`key 1` + 1, lower(`key 0`), `a b`)", "(upper(`key 0`), -`key 1`)"):
        compared(parts, columns, f"ORDER BY {tail}", rows)
        compared(parts, columns, f"PARTITION BY `a b` % 3 ORDER BY {tail}", rows)


@pytest.mark.parametrize("rows", [1, 2, 9, 8_192, 16_384, 16_385])
def test_few_rows_and_whole_granules(rows: int, parts: Parts) -> None:
    rng = random.Random(f"{SEED} {rows}")
    columns = {"t": "DateTime('UTC')", "s": "String"}
    values = table_of(pool(rng, "DateTime", rows, 0.1), pool(rng, "String", rows, 0.1, some=rows))
    compared(parts, columns, "ORDER BY (toStartOfHour(t), lower(s))", values)


def test_granules_count_the_bytes_of_the_key(parts: Parts) -> None:
    """The engine has computed the key when it looks how large a block is."""
    rng = random.Random(SEED)
    texts = ["x" * rng.randrange(4000) for _ in range(100)]
    columns = {"k": "Int32", "s": "String"}
    rows = [(str(rng.randrange(10**6)), rng.choice(texts)) for _ in range(16_000)]
    path = parts.file(columns, rows)
    index = "SELECT * EXCEPT part_name FROM mergeTreeIndex(currentDatabase(), {}) ORDER BY ALL"
    for key in ("concat(s, 'x')", "repeat(s, 2)", "(substring(s, 1, 10), -k)"):
        ours, theirs = (create(parts, columns, f"ORDER BY {key}") for _ in range(2))
        assert build(parts, ours, columns, path)[0] == 0
        parts.insert(theirs, columns, path)
        mine, other = (parts.sql(index.format(table)) for table in (ours, theirs))
        assert mine == other
        assert mine.count("\n") > 3
        assert parts.contents(ours) == parts.contents(theirs)
        parts.drop(ours, theirs)


def test_few_values_are_asked_for_once(parts: Parts) -> None:
    """Also of many blocks and two threads; many values come as whole blocks."""
    rows = 12_000  # of three whole blocks
    rng = random.Random(SEED)
    columns = {"t": "DateTime('UTC')", "s": "String", "n": "UInt32"}
    texts, numbers = (pool(rng, t, rows, 0.1, some=rows) for t in ("String", "UInt32"))
    times = [f"2020-01-01 {n % 24:02}:{n % 60:02}:{n * 7 % 60:02}" for n in range(rows)]
    path = parts.file(columns, table_of(times, texts, numbers))
    unmerged = "max_bytes_to_merge_at_max_space_in_pool = 1"
    table = create(parts, columns, "ORDER BY (toStartOfHour(t), lower(s))", unmerged)
    code, last, asked = build(
        parts, table, columns, path, block_rows=4_000, chunk_bytes=20_000, outputs=2
    )
    assert code == 0, last
    assert sum(n for n in asked if n < 1_000) == 24 * 4  # quarters of an hour
    assert sum(n for n in asked if n >= 1_000) == rows
    assert parts.check(table) == []
    unsorted = (
        "SELECT countIf(k < before) FROM (SELECT (toStartOfHour(t), lower(s)) AS k, "
        "lagInFrame(k, 1, k) OVER (PARTITION BY _part ORDER BY _part_offset) AS before "
        f"FROM {table})"
    )
    assert parts.sql(unsorted) == "0"
    assert int(parts.sql(f"SELECT count() FROM {table}")) == rows
    index = (
        "SELECT countIf(\"toStartOfHour(t)\" != toStartOfHour(toDateTime('2020-01-01 00:00:00'))) "
        f"FROM mergeTreeIndex(currentDatabase(), {table}) WHERE mark_number = 0"
    )
    assert parts.sql(index) == "0"
    parts.drop(table)


def test_many_columns_and_dictionaries_of_parquet(parts: Parts) -> None:
    """Which stay dictionaries but for the columns of the key."""
    rng = random.Random(SEED)
    columns = {
        "l": "LowCardinality(String)", "o": "LowCardinality(String)", "n": "UInt32",
        **{f"c{n}": "String" for n in range(12)},
    }  # fmt: skip
    rows = table_of(*cells(rng, columns, 50))
    written = parts.written(columns, parts.relation(columns, parts.file(columns, rows)), "Parquet")
    for key in ("(upper(l), n)", "(upper(o), -n)", "(o, cityHash64(l))"):
        ours, theirs = (create(parts, columns, f"ORDER BY {key}") for _ in range(2))
        code, last, _ = build(parts, ours, columns, written, format="Parquet")
        assert code == 0, last
        parts.insert(theirs, columns, written, "Parquet")
        parts.attach_again(theirs)
        assert parts.check(ours) == []
        same_files(parts.part(ours), parts.part(theirs))
        assert parts.contents(ours) == parts.contents(theirs)
        parts.drop(ours, theirs)


def test_what_is_not_answered_is_declined(parts: Parts) -> None:
    columns = {"k": "UInt32"}
    path = parts.file(columns, [(str(n),) for n in range(1_000)])
    table = create(parts, columns, "ORDER BY -k")
    code, last, _ = build(parts, table, columns, path, failing=True)
    assert (code, "nobody computes it" in last) == (3, True), last
    # intDiv by a column that is 0: the engine's INSERT fails, too.
    table = create(parts, {"k": "UInt32", "z": "UInt32"}, "ORDER BY intDiv(k, z)")
    path = parts.file({}, [("7", "0")])
    code, last, _ = build(parts, table, {"k": "UInt32", "z": "UInt32"}, path)
    assert (code, "ivision by zero" in last) == (3, True), last
    assert not list((parts.place(table) / "detached").glob("*_*"))


@pytest.mark.parametrize(
    ("key", "types", "why"),
    [
        ("a DESC", (), "its key is reversed (a DESC)"),
        ("(a, made)", (), "its key uses made, which the load does not fill"),
        ("a, made + 1", ("UInt8", "UInt8"), "its key uses made, which the load does not fill"),
        ("now() + a", ("DateTime",), "its key uses now"),
        ("arr", (), "its key uses nested values (arr)"),
        ("length(arr)", ("UInt64",), "its key uses nested values (arr)"),
        ("-a", (), "the engine does not tell the type of -a in its key"),
        ("-a", ("Array(UInt8)",), "only the engine sorts by Array(UInt8) (-a in its key)"),
        ("f(a)", ("IntervalDay",), "only the engine sorts by IntervalDay (f(a) in its key)"),
        ("a, 1", ("UInt8", "UInt8"), "its key uses no column of the load in 1"),
    ],
)
def test_keys_that_only_the_engine_follows(key: str, types: Sequence[str], why: str) -> None:
    columns = [Column("a", "UInt8"), Column("arr", "Array(UInt8)")]
    assert keys.sorting_key(key, columns, ["a", "arr", "made"], types) == why


@pytest.mark.parametrize(
    ("key", "elements"),
    [
        ("", []), ("tuple()", []), ("()", []), ("a", ["a"]), ("(a)", ["a"]), ("a, b", ["a", "b"]),
        ("(a, f(b, c))", ["a", "f(b, c)"]), ("tuple(a)", ["a"]), ("(a + 1) * 2", ["(a + 1) * 2"]),
        ("f(a), g(b)", ["f(a)", "g(b)"]), ("(a + 1) * (b)", ["(a + 1) * (b)"]),
    ],
)  # fmt: skip
def test_elements_of_keys(key: str, elements: Sequence[str]) -> None:
    assert keys.sorting_elements(key) == elements
