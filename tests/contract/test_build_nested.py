"""Parts with arrays, maps and tuples that rowfall-decode writes, against those of the engine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from contract import test_build_partitions
from contract.test_build import (
    SEED,
    TYPES,
    Parts,
    assert_found,
    compared_file,
    parts,
    pool,
    table_of,
)

__all__ = ["parts"]
ROWS = 9_000
# Types made of V, and values of them: v is one of V, s some of them, many of these the default, i
# their numbers, n the number of the row.
SHAPES = {
    "Array(V)": "{s}",
    "Array(Nullable(V))": "arrayMap((x, j) -> if((n + j) % 3 = 0, NULL, x), {s}, {i})",
    "Array(Array(V))": "arrayMap(j -> arraySlice({s}, 1, j - 1), {i})",
    "Array(Array(Array(Nullable(V))))": (
        "arrayMap(j -> arrayMap(l -> arraySlice({s}, l), {i}), {i})"
    ),
    "Map(String, V)": "mapFromArrays(arrayMap(j -> repeat('k', j), {i}), {s})",
    "Map(LowCardinality(String), Array(V))": (
        "mapFromArrays(arrayMap(j -> toString(j % 9 + n % 70), {i}), "
        "arrayMap(j -> arraySlice({s}, j), {i}))"
    ),
    "Tuple(V, Nullable(V))": "({v}, if(n % 3 = 0, NULL, {v}))",
    "Tuple(x1 V, `and more.` Array(V), `ä` Map(UInt8, V))": "({v}, {s}, mapFromArrays({i}, {s}))",
    "Tuple(a Tuple(b V, c Tuple(V)), d V)": "(({v}, tuple({v})), {v})",
    "Array(Tuple(x V, y Array(Tuple(V, String))))": (
        "arrayMap((x, j) -> (x, arrayMap(y -> (y, repeat('z', n % 3)), arraySlice({s}, j))), "
        "{s}, {i})"
    ),
    "Map(UInt16, Map(String, Tuple(a V, b LowCardinality(Nullable(String)))))": (
        "mapFromArrays({i}, arrayMap(j -> mapFromArrays(arrayMap(l -> toString(l), {i}), "
        "arrayMap((x, l) -> (x, if(l % 2 = 0, NULL, toString(n % 5))), {s}, {i})), {i}))"
    ),
}


def typed(shape: str, type_: str) -> str:
    if type_.startswith("Low"):
        shape = shape.replace("Nullable(V)", "LowCardinality(Nullable(String))")
    return shape.replace("V", type_)


def nested(
    parts: Parts, types: Sequence[tuple[str, str]], format: str = "JSONEachRow",
    rows: int = ROWS, defaults: float = 0.3, longest: int = 5,
) -> tuple[dict[str, str], Path]:  # fmt: skip
    """A file of two flat columns, which may be keys, and one for each of pairs of shape and V."""
    rng = random.Random(f"{SEED} {types} {format}")
    flat = {"n": "UInt32", "k": "UInt32", "s": "LowCardinality(String)"}
    cells = [[str(n) for n in range(rows)], [str(rng.randrange(rows // 3)) for _ in range(rows)]]
    cells.append([f"{rng.randrange(9)} s" for _ in range(rows)])
    made = {"k": ("UInt32", "k"), "s": ("LowCardinality(String)", "s")}
    windows = []
    for number, (shape, type_) in enumerate(types):
        flat[f"v{number}"] = type_
        cells.append(pool(rng, type_, rows, defaults))
        windows.append(
            f"groupArray(v{number}) OVER (ORDER BY n ROWS BETWEEN {longest - 1} PRECEDING AND "
            f"CURRENT ROW) AS w{number}"
        )
        size = f"greatest(0, toInt64(cityHash64(n, {number}) % {longest + 3}) - 2)"
        some = f"arraySlice(w{number}, 1, {size})"
        text = SHAPES[shape].format(v=f"v{number}", s=some, i=f"arrayEnumerate({some})")
        whole = typed(shape, type_)
        escaped = whole.replace("\\", "\\\\").replace("'", "\\'")
        made[f"c{number}"] = (whole, f"CAST({text}, '{escaped}')")
    file = parts.file(flat, table_of(*cells))
    source = f"(SELECT *, {', '.join(windows)} FROM {parts.relation(flat, file)})"
    selected = ", ".join(f"{text} AS {name}" for name, (_, text) in made.items())
    columns = {name: type_ for name, (type_, _) in made.items()}
    path = parts.written(
        columns, f"(SELECT {selected} FROM {source} ORDER BY n)", format,
        # As rowfall has it read: NULL is no empty field.
        output_format_json_quote_64bit_integers=0,
    )  # fmt: skip
    file.unlink()
    return columns, path


@pytest.mark.parametrize("key", ["", "(s, k)"])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.sampled(6)
def test_nested_values_of_every_type(type_: str, key: str, parts: Parts) -> None:
    columns, path = nested(parts, [(shape, type_) for shape in SHAPES])
    parts.drop(compared_file(parts, columns, key, path, format="JSONEachRow"))


@pytest.mark.parametrize("format", ["CSV", "TSV", "JSONEachRow"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sampled(4)
def test_shapes_of_every_format(shape: str, format: str, parts: Parts) -> None:
    """In few columns, which are not sorted before the block is whole."""
    some = ["UInt32", "String", "Float64", "LowCardinality(String)", "FixedString(3)"]
    columns, path = nested(parts, [(shape, type_) for type_ in some], format)
    for key in ("", "k"):
        table = compared_file(parts, columns, key, path, format=format, sampled=True)
        if key:
            assert_found(parts, table, "k BETWEEN 100 AND 200")
        parts.drop(table)


@pytest.mark.parametrize("key", ["", "k"])
@pytest.mark.parametrize("longest", [40, 600])
def test_long_arrays(longest: int, key: str, parts: Parts) -> None:
    """Of which a granule fills several compressed blocks, or only some rows fill a granule."""
    types = [
        ("Array(V)", "UInt64"), ("Array(V)", "String"), ("Map(String, V)", "UInt8"),
        ("Array(Nullable(V))", "FixedString(40)"),
    ]  # fmt: skip
    rows = 100_000 // longest
    columns, path = nested(parts, types, rows=rows, longest=longest)
    parts.drop(compared_file(parts, columns, key, path, format="JSONEachRow"))
    sizes = ", max_compress_block_size = 30000, min_compress_block_size = 5000"
    sizes += ", index_granularity = 300"
    parts.drop(compared_file(parts, columns, key, path, format="JSONEachRow", settings=sizes))


def test_one_array_is_a_table(parts: Parts) -> None:
    """Of whose columns the engine counts no defaults."""
    columns = {"a": "Array(Array(UInt8))"}
    made = "(SELECT arrayMap(i -> range(i), range(number % 5)) FROM numbers(20000))"
    path = parts.written(columns, made, "JSONEachRow")
    parts.drop(compared_file(parts, columns, "", path, format="JSONEachRow"))


def test_arrays_that_are_all_empty(parts: Parts) -> None:
    """Whole granules of them, and whole columns."""
    shapes = [(shape, type_) for shape in SHAPES for type_ in ("LowCardinality(String)", "Int8")]
    columns, path = nested(parts, shapes, defaults=1)
    names = ", ".join(
        f"if(k % 900 < 890 OR {number % 2} = 0, defaultValueOfTypeName($${type_}$$), {name}) "
        f"AS {name}"
        for number, (name, type_) in enumerate(columns.items()) if name[0] == "c"
    )  # fmt: skip
    source = f"(SELECT k, s, {names} FROM {parts.relation(columns, path, 'JSONEachRow')})"
    empty = parts.written(columns, source, "JSONEachRow")
    for key in ("", "k"):
        parts.drop(compared_file(parts, columns, key, empty, format="JSONEachRow"))
    few = parts.written(columns, f"(SELECT * FROM {source} LIMIT 1)", "JSONEachRow")
    parts.drop(compared_file(parts, columns, "k", few, format="JSONEachRow", sampled=True))


CODECS = {
    "NONE": [("Array(V)", "String"), ("Map(String, V)", "UInt64")],
    "ZSTD(3)": [("Array(V)", "LowCardinality(String)"), ("Tuple(V, Nullable(V))", "Float64")],
    "Default": [("Array(Nullable(V))", "Int32")],
    "Delta, LZ4": [
        ("Array(V)", "UInt16"), ("Tuple(V, Nullable(V))", "Int64"),
        ("Tuple(x1 V, `and more.` Array(V), `ä` Map(UInt8, V))", "UInt32"),
    ],
    "Delta(8), ZSTD(1)": [("Array(Array(V))", "UInt8")],
    "DoubleDelta": [("Array(V)", "UInt64"), ("Array(Nullable(V))", "DateTime")],
    "Gorilla, LZ4": [("Array(V)", "Float32"), ("Tuple(V, Nullable(V))", "Float64")],
    "T64": [("Array(Array(Array(Nullable(V))))", "Int16"), ("Tuple(V, Nullable(V))", "UInt32")],
    "T64('bit'), ZSTD(1)": [("Array(V)", "Date")],
}  # fmt: skip


def test_codecs(parts: Parts) -> None:
    """Of values; their sizes are compressed by those codecs that take any bytes."""
    types = [one for some in CODECS.values() for one in some]
    columns, path = nested(parts, types)
    chosen = [codec for codec, some in CODECS.items() for _ in some]
    codecs = {f"c{number}": codec for number, codec in enumerate(chosen)}
    sizes = ", min_compress_block_size = 5000, max_compress_block_size = 30000"
    for key, settings in (("k", ""), ("", f"{sizes}, index_granularity = 1000")):
        table = compared_file(
            parts, columns, key, path, format="JSONEachRow", codecs=codecs, settings=settings
        )
        parts.insert(table, columns, path, "JSONEachRow")
        parts.sql(f"OPTIMIZE TABLE {table} FINAL")
        assert parts.check(table) == []
        parts.drop(table)


@pytest.mark.parametrize("values", [200, 8_191, 15_000])
@pytest.mark.sampled(2)
def test_dictionaries_in_arrays(values: int, parts: Parts) -> None:
    """Of a whole part, or of each granule; read as a whole and from the middle."""
    columns = {"k": "UInt32", "v": "Array(LowCardinality(String))"}
    made = f"arrayMap(i -> toString(cityHash64(number, i) % {values}), range(number % 4))"
    source = f"(SELECT cityHash64(number) % 5000, {made} FROM numbers(30000))"
    path = parts.written(columns, source, "TSV")
    ours = compared_file(parts, columns, "k", path, format="TSV", granules=False)
    theirs = parts.create(columns, "k")
    parts.insert(theirs, columns, path, "TSV")
    for query in (
        "SELECT count(), uniqExact(v), sum(cityHash64(v)) FROM {}",
        "SELECT k, v FROM {} WHERE k = 77 ORDER BY ALL",
        "SELECT count() FROM {} WHERE k > 3000 AND has(v, '7')",
        "SELECT sum(cityHash64(v)) FROM (SELECT v FROM {} LIMIT 900 OFFSET 20000)",
        "SELECT arrayJoin(v) AS w, count() FROM {} WHERE k < 1500 GROUP BY w ORDER BY ALL",
        "SELECT sum(length(v)) FROM {} PREWHERE k % 7 = 0",
    ):
        answers = [parts.sql(query.format(t), max_threads=1) for t in (ours, theirs)]
        assert answers[0] == answers[1], query
    parts.drop(ours, theirs)


def test_they_merge_with_the_engines_parts(parts: Parts) -> None:
    some = ["UInt8", "String", "LowCardinality(String)"]
    columns, path = nested(parts, [(s, t) for s in SHAPES for t in some], defaults=0.98)
    ours, theirs = parts.create(columns, "k"), parts.create(columns, "k")
    parts.insert(ours, columns, path, "JSONEachRow")
    parts.build(ours, columns, "k", [path], format="JSONEachRow")
    parts.insert(theirs, columns, path, "JSONEachRow")
    parts.insert(theirs, columns, path, "JSONEachRow")
    for table in (ours, theirs):
        parts.sql(f"OPTIMIZE TABLE {table} FINAL")
        assert parts.check(table) == []
    assert parts.contents(ours) == parts.contents(theirs)
    query = (
        "SELECT column, serialization_kind, subcolumns.names, subcolumns.types "
        "FROM system.parts_columns WHERE table = '{}' AND active ORDER BY column"
    )
    assert parts.sql(query.format(ours)) == parts.sql(query.format(theirs))
    parts.drop(ours, theirs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by", ["s", "k % 7"])
@pytest.mark.parametrize("wide", [False, True])
def test_partitions(by: str, wide: bool, parts: Parts) -> None:
    """Of several blocks, whose rows come in any order, and in that of their partitions."""
    some = ["UInt32", "String", "LowCardinality(String)"]
    shapes = list(SHAPES) if wide else list(SHAPES)[::4]
    columns, path = nested(parts, [(s, t) for s in shapes for t in some], rows=6_000)
    relation = parts.relation(columns, path, "JSONEachRow")
    order = by.strip("()")
    grouped = parts.written(columns, f"(SELECT * FROM {relation} ORDER BY {order})", "JSONEachRow")
    for rows in (path, grouped):
        found = test_build_partitions.compared_file(
            parts, columns, by, "k", rows, format="JSONEachRow", block_rows=2_000,
            chunk_bytes=1 << 16,
        )  # fmt: skip
        assert found >= 7


def test_blocks_and_outputs(parts: Parts) -> None:
    """No row is lost, and each part is in order."""
    columns, path = nested(parts, [(shape, "String") for shape in SHAPES])
    ours = parts.create(columns, "(s, k)", ", max_bytes_to_merge_at_max_space_in_pool = 1")
    theirs = parts.create(columns, "(s, k)")
    parts.build(
        ours, columns, "(s, k)", [path, path], format="JSONEachRow", outputs=2, block_rows=2_000
    )
    for _ in range(2):
        parts.insert(theirs, columns, path, "JSONEachRow")
    assert parts.check(ours) == []
    whole = "SELECT count(), sum(cityHash64(*)) FROM {}"
    assert parts.sql(whole.format(ours)) == parts.sql(whole.format(theirs))
    parts.drop(ours, theirs)
