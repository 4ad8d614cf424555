"""Parts of nested columns that rowfall-decode copies out of columns, against those of the engine.

It may decline whatever it likes; what it takes has to be what the engine reads of the same bytes.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from contract.test_build import SEED, TYPES, Parts, compared_file, parts
from contract.test_build_columns import DECLINED, SAME, WRITERS, taken
from contract.test_build_nested import SHAPES, nested
from rowfall.core.errors import EngineError
from rowfall.decoder import installed
from rowfall.systems.lakes import parquet_files

__all__ = ["parts"]

FORMATS = ["Parquet", "ArrowStream"]
# What the engine reads of a NULL beside nested values depends on this one.
STRICT = {"input_format_null_as_default": 0}


@pytest.mark.parametrize(
    ("type_", "format"),
    # Out of the other files only the engine reads the rest of the types.
    [(t, f) for t in TYPES for f in ("Native", *FORMATS) if f == "Native" or t in SAME],
)
@pytest.mark.parametrize("key", ["", "(s, k)"])
@pytest.mark.sampled(2)
def test_nested_values_of_every_type(type_: str, key: str, format: str, parts: Parts) -> None:
    """Each file of a part is the engine's own, to the last byte."""
    columns, path = nested(parts, [(shape, type_) for shape in SHAPES], format)
    parts.drop(compared_file(parts, columns, key, path, format=format))


@pytest.mark.parametrize("format", [*FORMATS, "Native"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sampled(2)
def test_shapes(shape: str, format: str, parts: Parts) -> None:
    """In few columns, which are not sorted before the block is whole."""
    some = ["UInt32", "String", "Float64", "LowCardinality(String)", "FixedString(3)"]
    columns, path = nested(parts, [(shape, type_) for type_ in some], format)
    for key in ("", "k"):
        parts.drop(compared_file(parts, columns, key, path, format=format, sampled=True))


@pytest.mark.parametrize("format", [*FORMATS, "Native"])
@pytest.mark.parametrize("longest", [40, 600])
@pytest.mark.sampled(1)
def test_long_arrays(longest: int, format: str, parts: Parts) -> None:
    """Of which fewer rows are decoded together."""
    types = [
        ("Array(V)", "UInt64"), ("Array(V)", "String"), ("Map(String, V)", "UInt8"),
        ("Array(Nullable(V))", "FixedString(40)"),
    ]  # fmt: skip
    columns, path = nested(parts, types, format, rows=100_000 // longest, longest=longest)
    for key in ("", "k"):
        parts.drop(compared_file(parts, columns, key, path, format=format))


# --- what others write ---------------------------------------------------------------------------

COUNT = 2_000
LEAVES: Mapping[str, tuple[pa.DataType, Any]] = {
    "i8": (pa.int8(), lambda rng: rng.randrange(-128, 128)),
    "u16": (pa.uint16(), lambda rng: rng.randrange(1 << 16)),
    "i32": (pa.int32(), lambda rng: rng.randrange(-99, 99)),
    "u64": (pa.uint64(), lambda rng: rng.getrandbits(64)),
    "f32": (pa.float32(), lambda rng: rng.choice((0.5, -0.0, float("inf")))),
    "f64": (pa.float64(), lambda rng: rng.random()),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "text": (pa.string(), lambda rng: f"wörd {rng.randrange(30)}" * rng.randrange(4)),
    "binary": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(20))),
    "fixed": (pa.binary(5), lambda rng: rng.randbytes(5)),
    "date": (pa.date32(), lambda rng: datetime.date(1970, 1, 1) + datetime.timedelta(
        rng.randrange(-20_000, 40_000))),
    "time": (pa.timestamp("us", "UTC"), lambda rng: rng.randrange(-(10**15), 10**15)),
    "d9": (pa.decimal128(9, 2), lambda rng: decimal.Decimal(rng.randrange(10**9)).scaleb(-2)),
    "d38": (pa.decimal128(38, 5), lambda rng: decimal.Decimal(rng.randrange(10**30)).scaleb(-5)),
}  # fmt: skip


def made(rng: random.Random, depth: int, leaf: str) -> tuple[pa.DataType, Any]:
    """A type, and what makes values of it, some of which are NULL at every depth."""
    kinds = ("list", "struct", "map", "fixed", "large")
    kind = rng.choice(kinds) if depth else "leaf"
    nullable = rng.random() < 0.7

    def some(value: Any) -> Any:
        return (lambda: None if rng.random() < 0.2 else value()) if nullable else value

    if kind == "leaf":
        type_, value = LEAVES[leaf]
        return type_, some(lambda: value(rng))
    inner, value = made(rng, depth - 1, leaf)
    field = pa.field("element", inner, nullable=True)
    longest = rng.choice((1, 3, 6))
    if kind == "fixed":
        return pa.list_(field, 2), lambda: [value(), value()]
    if kind in ("list", "large"):
        of = pa.list_ if kind == "list" else pa.large_list
        return of(field), some(lambda: [value() for _ in range(rng.randrange(longest))])
    if kind == "map":
        # Keys may be there twice.
        key = pa.string() if rng.random() < 0.5 else pa.int32()
        makes = (lambda: f"k{rng.randrange(3)}") if key == pa.string() else lambda: rng.randrange(3)
        return pa.map_(key, inner), some(
            lambda: [(makes(), value()) for _ in range(rng.randrange(longest))]
        )
    fields = [("x", inner), ("other y", pa.int64()), ("ä", inner)][: rng.randint(1, 3)]
    type_ = pa.struct(fields)
    return type_, some(lambda: {
        name: value() if kind == inner else rng.randrange(9) for name, kind in fields
    })  # fmt: skip


def table_of_all(seed: str, rows: int = COUNT) -> pa.Table:
    rng = random.Random(f"{SEED} {seed}")
    columns = {}
    for leaf in LEAVES:
        for depth in (1, 2, 3):
            type_, value = made(rng, depth, leaf)
            columns[f"{leaf}_{depth}"] = pa.array([value() for _ in range(rows)], type_)
    return pa.table(columns)


def write(table: pa.Table, path: Path, format: str, **options: Any) -> Path:
    if format == "Parquet":
        pq.write_table(table, path, **options)
    else:
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            for batch in table.to_batches(max_chunksize=options.get("row_group_size", 700)):
                writer.write_batch(batch)
    return path


def described(parts: Parts, path: Path, format: str) -> list[tuple[str, str]]:
    """Names and types as the engine finds them."""
    answer = parts.sql(f"DESCRIBE file('{path}', '{format}')", print_pretty_type_names=0)
    found = [line.split("\t")[:2] for line in answer.splitlines()]
    return [(name, type_.replace("\\'", "'")) for name, type_ in found]


def is_taken(path: Path, format: str, name: str, type_: str) -> bool:
    code, report = taken({
        "version": 2, "inputs": [{"path": str(path)}], "format": format, "timezone": "UTC",
        "columns": [{"name": name, "type": type_}], "outputs": ["/dev/null"],
    })  # fmt: skip
    assert code in (0, 2, DECLINED), report
    return code == 0


def assert_same(
    parts: Parts, path: Path, format: str, columns: Mapping[str, str], **spec: Any
) -> None:
    """Parts hold what the engine reads, row by row."""
    if not columns:
        return
    ours, theirs = parts.create(columns, ""), parts.create(columns, "")
    parts.build(ours, columns, "", [path], format=format, **spec)
    relation = parts.relation(columns, path, format)
    parts.sql(
        f"INSERT INTO {theirs} SELECT * FROM {relation}", max_threads=1, **STRICT,
        max_insert_threads=1, input_format_parquet_preserve_order=1,
    )  # fmt: skip
    assert parts.check(ours) == []
    for name in columns:
        hashed = f"SELECT count(), sum(cityHash64(rowNumberInAllBlocks(), toString({name}))) FROM "
        answers = [parts.sql(hashed + table, max_threads=1) for table in (ours, theirs)]
        assert answers[0] == answers[1], (name, columns[name])
    parts.drop(ours, theirs)


def compare_columns(parts: Parts, path: Path, format: str) -> set[str]:
    """Compare all columns that are taken; give the types of those that are not."""
    columns = dict(described(parts, path, format))
    known = {name: type_ for name, type_ in columns.items() if is_taken(path, format, name, type_)}
    assert_same(parts, path, format, known)
    return {type_ for name, type_ in columns.items() if name not in known}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.sampled(1)
def test_parquet_of_others(writer: str, parts: Parts, tmp_path: Path) -> None:
    """NULL at every depth, in all encodings of values."""
    options = {k: v for k, v in WRITERS[writer].items() if k != "column_encoding"}
    path = write(table_of_all(writer), tmp_path / "rows.parquet", "Parquet", **options)
    declined = compare_columns(parts, path, "Parquet")
    assert all("Nullable(Tuple" in type_ for type_ in declined), declined


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(2)
def test_arrow_of_others(seed: int, parts: Parts, tmp_path: Path) -> None:
    """Structs that may be NULL are the engine's."""
    path = write(table_of_all(f"arrow {seed}"), tmp_path / "rows.arrows", "ArrowStream")
    declined = compare_columns(parts, path, "ArrowStream")
    assert all("Nullable(Tuple" in type_ for type_ in declined), declined


# --- how lists and maps were written before there was one way ------------------------------------

_SCHEMA, _GROUPS = 2, 4  # of FileMetaData
_REPETITION, _NAME, _CHILDREN, _CONVERTED, _LOGICAL = 3, 4, 5, 6, 10  # of SchemaElement
_REQUIRED, _REPEATED = 0, 2
_MAP_KEY_VALUE = 2
_I32, _BINARY = 5, 8


class Node:
    """A column of a file, or a group of them."""

    def __init__(self, elements: Iterator[Any]) -> None:
        self.fields = next(elements)
        self.children = [Node(elements) for _ in range(self.fields.number(_CHILDREN))]

    def elements(self) -> Iterator[Any]:
        if self.children:
            self.fields.values[_CHILDREN] = (_I32, len(self.children))
        yield self.fields
        for child in self.children:
            yield from child.elements()

    def paths(self, above: tuple[bytes, ...] = ()) -> Iterator[tuple[bytes, ...]]:
        for child in self.children:
            path = (*above, child.fields.values[_NAME][1])
            yield from child.paths(path) if child.children else [path]

    def named(self, name: bytes) -> Node:
        self.fields.values[_NAME] = (_BINARY, name)
        return self

    def repeated(self) -> Node:
        assert self.fields.number(_REPETITION) == _REQUIRED
        self.fields.values[_REPETITION] = (_I32, _REPEATED)
        return self

    def plain(self) -> Node:
        """Without annotations."""
        self.fields.values.pop(_CONVERTED, None)
        self.fields.values.pop(_LOGICAL, None)
        return self


def rewrite(path: Path, change: Any) -> None:
    """Change each column of a file in its footer, so that the same data are read in another way."""
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    whole = parquet_files._Reader(footer).struct()
    kind, elements = whole.values[_SCHEMA][1]
    root = Node(iter(elements))
    root.children = [change(child) for child in root.children]
    whole.values[_SCHEMA] = (whole.values[_SCHEMA][0], (kind, list(root.elements())))
    for group in whole.values[_GROUPS][1][1]:
        for chunk, names in zip(group.values[1][1][1], root.paths(), strict=True):
            chunk.values[3][1].values[3] = (chunk.values[3][1].values[3][0], (_BINARY, list(names)))
    written = bytearray()
    parquet_files._write_struct(written, whole)
    body = data[: -8 - len(footer)]
    path.write_bytes(body + written + len(written).to_bytes(4, "little") + b"PAR1")


def two_levels(name: bytes) -> Any:
    """The repeated field is the element itself."""

    def change(node: Node) -> Node:
        (middle,) = node.children
        (element,) = middle.children
        node.children = [element.repeated().named(name)]
        return node

    return change


def middle(name: bytes, element: bytes | None = None) -> Any:
    """Other names for the repeated group, and for what is in it."""

    def change(node: Node) -> Node:
        (found,) = node.children
        found.named(name)
        if element is not None:
            found.children[0].named(element)
        return node

    return change


def one_level(node: Node) -> Node:
    """A repeated field that says nothing of a list."""
    (element,) = node.children[0].children
    return element.repeated().named(node.fields.values[_NAME][1])


def converted(node: Node) -> Node:
    """Annotated in the old way only."""
    node.fields.values.pop(_LOGICAL, None)
    return node


def key_value(node: Node) -> Node:
    """The name that maps had in older files, at the repeated group, too."""
    for found in (node, *node.children):
        found.plain().fields.values[_CONVERTED] = (_I32, _MAP_KEY_VALUE)
    return node


def no_list(node: Node) -> Node:
    return node.plain()


LEGACY = {
    "hive": (middle(b"bag", b"array_element"), "lists"),
    "converted": (converted, "lists"),
    "array": (two_levels(b"array"), "lists"),
    "tuple": (two_levels(b"v_tuple"), "lists"),
    "any name": (two_levels(b"anything"), "lists"),
    "group array": (middle(b"array", b"x"), "lists"),
    "group tuple": (middle(b"flat_tuple", b"x"), "lists"),
    "no list": (no_list, "lists"),
    "one level": (one_level, "one"),
    "two required": (two_levels(b"element"), "required"),
    "converted map": (converted, "maps"),
    "key value": (key_value, "maps"),
    "map": (middle(b"map"), "maps"),
    "entries": (middle(b"entries", b"any"), "maps"),
    "no map": (no_list, "maps"),
}


def legacy_table(kind: str) -> pa.Table:
    rng = random.Random(f"{SEED} {kind}")

    def rows(value: Any, *, nulls: bool) -> list[Any]:
        return [
            None if nulls and rng.random() < 0.2 else [value() for _ in range(rng.randrange(4))]
            for _ in range(COUNT)
        ]

    pair = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("s", pa.string())])
    one = pa.struct([pa.field("x", pa.int32())])
    numbers = pa.list_(pa.field("element", pa.int32(), nullable=False))
    values: dict[str, tuple[pa.DataType, Any]] = {
        "flat": (pa.int32(), lambda: rng.randrange(99)),
        "text": (pa.string(), lambda: f"t{rng.randrange(9)}"),
        "pair": (pair, lambda: {"x": rng.randrange(9), "s": rng.choice(("a", None))}),
        "single": (one, lambda: {"x": rng.choice((1, None))}),
        "inner": (numbers, lambda: [rng.randrange(9)] * rng.randrange(3)),
    }
    required = kind in ("required", "one")
    if kind == "one":
        del values["inner"]  # a list may not be repeated itself
    columns, fields = [], []
    for name, (type_, value) in values.items():
        if kind == "maps":
            whole = pa.map_(pa.string(), pa.field("value", type_))
            made = lambda value=value: (f"k{rng.randrange(3)}", value())  # noqa: E731
        else:
            whole = pa.list_(pa.field("element", type_, nullable=False))
            made = value
        fields.append(pa.field(name, whole, nullable=not required))
        columns.append(pa.array(rows(made, nulls=not required), whole))
    return pa.table(columns, schema=pa.schema(fields))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", LEGACY)
def test_old_forms_of_lists_and_maps(form: str, parts: Parts, tmp_path: Path) -> None:
    """What they are is what the engine says: arrays, tuples in arrays, tuples of arrays."""
    change, kind = LEGACY[form]
    path = write(legacy_table(kind), tmp_path / "rows.parquet", "Parquet", row_group_size=900)
    rewrite(path, change)
    columns = dict(described(parts, path, "Parquet"))
    known = {n: type_ for n, type_ in columns.items() if is_taken(path, "Parquet", n, type_)}
    assert_same(parts, path, "Parquet", known)
    # Of a repeated group with one field, and with these names, readers make different types.
    assert len(known) >= {"group array": 0, "array": 4, "group tuple": 4}.get(form, len(columns))


# --- times in 96 bits, missing fields, damage ----------------------------------------------------


def test_old_times_in_lists(parts: Parts, tmp_path: Path) -> None:
    """INT96, as Spark writes it, at every depth."""
    rng = random.Random(SEED)
    first = datetime.datetime(1970, 1, 1)

    def time() -> datetime.datetime:
        return first + datetime.timedelta(microseconds=rng.randrange(-(10**15), 10**15))

    kind = pa.timestamp("us")
    inner = pa.struct([("x", kind), ("y", pa.string())])
    table = pa.table({
        "l": pa.array([[time()] * rng.randrange(3) for _ in range(9_000)], pa.list_(kind)),
        "m": pa.array(
            [[("k", rng.choice((time(), None)))] for _ in range(9_000)], pa.map_(pa.string(), kind)
        ),
        "s": pa.array(
            [{"n": 1, "t": rng.choice((None, [{"x": time(), "y": "a"}]))} for _ in range(9_000)],
            pa.struct([("n", pa.int32()), ("t", pa.list_(inner))]),
        ),
        "n": pa.array(range(9_000), pa.int32()),
    })  # fmt: skip
    path = tmp_path / "rows.parquet"
    old = {"use_deprecated_int96_timestamps": True, "store_schema": False, "row_group_size": 4_000}
    write(table, path, "Parquet", **old)
    assert compare_columns(parts, path, "Parquet") == set()
    late = pa.table({"l": pa.array([[first], [datetime.datetime(2300, 1, 1)]], pa.list_(kind))})
    write(late, path, "Parquet", **old)
    assert not is_taken(path, "Parquet", "l", "Array(Nullable(DateTime64(9, 'UTC')))")


PAIR = pa.struct([("x", pa.int32()), ("y", pa.string())])
IN_TUPLE = {"x": 1, "y": "a"}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("value", "type_", "wanted"),
    [
        ([1, None], pa.list_(pa.int32()), "Array(Int32)"),
        ([1 << 40], pa.list_(pa.int64()), "Array(Int32)"),
        ([1], pa.list_(pa.int32()), "Array(Array(Int32))"),
        ([[1, None]], pa.list_(pa.list_(pa.int32())), "Array(Array(Int32))"),
        ([("a", 1), ("b", None)], pa.map_(pa.string(), pa.int32()), "Map(String, Int32)"),
        ([("a", 1)], pa.map_(pa.string(), pa.int32()), "Array(Tuple(key String, value Int32))"),
        ([("a", 1)], pa.map_(pa.string(), pa.int32()), "Map(Int32, Int32)"),
        (IN_TUPLE, PAIR, "Tuple(x Int32, z String)"),
        (IN_TUPLE, PAIR, "Tuple(x Int32, Y String)"),
        (IN_TUPLE, PAIR, "Tuple(Int32)"),
        (IN_TUPLE, PAIR, "Tuple(x String, y String)"),
        (IN_TUPLE, PAIR, "Nullable(Tuple(x Int32, y String))"),
        ({"x": None, "y": "a"}, PAIR, "Tuple(x Int32, y String)"),
        (None, PAIR, "Tuple(x Int32, y Nullable(String))"),
        (IN_TUPLE, PAIR, "Map(String, String)"),
        ([datetime.date(2400, 1, 1)], pa.list_(pa.date32()), "Array(Date32)"),
        ([{"x": 1, "y": "ab"}], pa.list_(PAIR), "Array(Tuple(x Int32, y FixedString(1)))"),
        ([IN_TUPLE], pa.list_(PAIR), "Array(Tuple(x Int32, y UUID))"),
        ([None], pa.list_(pa.null()), "Array(Nullable(Int32))"),
    ],
)  # fmt: skip
def test_what_may_not_fit_is_declined(
    value: object, type_: pa.DataType, wanted: str, format: str, tmp_path: Path
) -> None:
    path = write(pa.table({"v": pa.array([value], type_)}), tmp_path / "rows", format)
    assert not is_taken(path, format, "v", wanted)


@pytest.mark.parametrize("format", FORMATS)
def test_elements_of_tuples_are_found_by_their_names(
    format: str, parts: Parts, tmp_path: Path
) -> None:
    """In another order, too, and where the file has more; without names by their places."""
    values = [{"x": n, "y": f"a{n}", "z": [n]} for n in range(COUNT)]
    fields = [("x", pa.int32()), ("y", pa.string()), ("z", pa.list_(pa.int8()))]
    whole = pa.list_(pa.field("element", pa.struct(fields), nullable=False))
    table = pa.table({"v": pa.array([[v] if v["x"] % 3 else [] for v in [
        {**value, "z": [value["x"] % 100]} for value in values]], whole)})  # fmt: skip
    path = write(table, tmp_path / "rows", format)
    for type_ in (
        "Array(Tuple(y String, x Int32, z Array(Int8)))", "Array(Tuple(z Array(Int8), y String))",
        "Array(Tuple(Int32, String, Array(Int8)))", "Array(Tuple(y LowCardinality(String)))",
        "Array(Tuple(x Nullable(Int64), z Array(Nullable(Int16))))",
    ):  # fmt: skip
        assert is_taken(path, format, "v", type_), type_
        assert_same(parts, path, format, {"v": type_})


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_lists(format: str, parts: Parts, tmp_path: Path) -> None:
    """They are declined, or what the engine makes of them; memory has an end."""
    rng = random.Random(SEED)
    values = [[f"text {n}"] * rng.randrange(4) for n in range(300)]
    inner = [[[n] * rng.randrange(3)] * rng.randrange(3) for n in range(300)]
    table = pa.table({"a": pa.array(values), "b": pa.array(inner, pa.list_(pa.list_(pa.int64())))})
    path = tmp_path / "rows"
    options = {"compression": "none", "use_dictionary": False, "data_page_size": 2000}
    write(table, path, format, **(options if format == "Parquet" else {}))
    columns = {"a": "Array(Nullable(String))", "b": "Array(Array(Nullable(Int64)))"}
    whole, compared = path.read_bytes(), 0
    hashed = "SELECT count(), sum(cityHash64(rowNumberInAllBlocks(), a, b)) FROM "
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 4))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
        path.write_bytes(data)
        spec = {
            "version": 2, "inputs": [{"path": str(path)}], "format": format, "timezone": "UTC",
            "columns": [{"name": name, "type": type_} for name, type_ in columns.items()],
            "outputs": [str(tmp_path / "blocks")], "memory_bytes": 1 << 30,
        }  # fmt: skip
        done = subprocess.run(
            [os.environ.get("ROWFALL_DECODE") or str(installed.program()), "run", "--spec", "-"],
            input=json.dumps(spec).encode(), capture_output=True, check=False,
        )  # fmt: skip
        # Where lengths lie it may also be ended by the library that reads them.
        assert done.returncode != 2, done.stderr
        if done.returncode:
            continue
        try:
            theirs = parts.sql(f"{hashed} {parts.relation(columns, path, format)}", **STRICT)
        except EngineError:
            continue
        compared += 1
        ours = parts.sql(f"{hashed} {parts.relation(columns, tmp_path / 'blocks', 'Native')}")
        assert ours == theirs
    assert 10 < compared < 150
