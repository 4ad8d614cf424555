"""Parquet and Arrow files as rowfall-decode describes them, compared with what the engine says."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.schema import inference
from rowfall.schema.table_changes import TargetColumns
from rowfall.schema.types import arrow_files, bytes_columns, footers, null_lists, parquet_files
from rowfall.sources import open_source
from rowfall.systems.clickhouse.embedded import Embedded

PARQUET = Encoding("Parquet", "none", Kind.TYPED)
ARROW = Encoding("Arrow", "none", Kind.TYPED)
DESCRIBED = {
    "use_hive_partitioning": 0, "schema_inference_make_columns_nullable": 3,
    "print_pretty_type_names": 0,
}  # fmt: skip


def _of(name: str, type_: pa.DataType, *, optional: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=optional)


_INT, _TEXT = pa.int32(), pa.string()
_REQUIRED, _OPTIONAL = _of("a", _INT), _of("b", _INT, optional=True)
TYPES: dict[str, pa.DataType] = {
    **{f"{s}int{b}": getattr(pa, f"{s}int{b}")() for s in ("", "u") for b in (8, 16, 32, 64)},
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(),
    "bool": pa.bool_(), "string": _TEXT, "large": pa.large_string(), "binary": pa.binary(),
    "fixed": pa.binary(5), "date32": pa.date32(), "date64": pa.date64(),
    **{f"timestamp_{unit}": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")},
    **{f"zoned_{unit}": pa.timestamp(unit, "Europe/Berlin") for unit in ("ms", "us", "ns")},
    "time32": pa.time32("ms"), "time64": pa.time64("us"), "time_ns": pa.time64("ns"),
    "decimal5": pa.decimal128(5, 2), "decimal18": pa.decimal128(18, 4),
    "decimal38": pa.decimal128(38, 10), "decimal60": pa.decimal256(60, 3),
    "dictionary": pa.dictionary(_INT, _TEXT), "duration": pa.duration("ms"),
    "list": pa.list_(_INT), "lists": pa.list_(pa.list_(_TEXT)),
    "list_filled": pa.list_(_of("element", _INT)), "sized": pa.list_(pa.float32(), 3),
    "struct": pa.struct([_REQUIRED, _OPTIONAL]), "struct_filled": pa.struct([_REQUIRED]),
    "struct_free": pa.struct([_OPTIONAL, _of("b c", _TEXT, optional=True)]),
    "deep": pa.struct([_of("t", pa.struct([_REQUIRED])), _REQUIRED]),
    "deep_free": pa.struct([_of("t", pa.struct([_REQUIRED]), optional=True)]),
    "struct_list": pa.struct([_of("l", pa.list_(_INT)), _REQUIRED]),
    "structs": pa.list_(_of("element", pa.struct([_REQUIRED, _OPTIONAL]), optional=True)),
    "structs_filled": pa.list_(_of("element", pa.struct([_REQUIRED]), optional=True)),
    "map": pa.map_(_TEXT, _INT), "maps": pa.map_(_INT, pa.list_(_TEXT)),
    "map_struct": pa.map_(_TEXT, _of("value", pa.struct([_REQUIRED]), optional=True)),
}  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Iterator[Embedded]:
    engine = Embedded(None)
    yield engine
    engine.close()


@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_columns_are_described_alike(tmp_path: Path, engine: Embedded, version: str) -> None:
    """Names, types and the words of footers: of each type alone, and whether it may be NULL."""
    for name, type_ in TYPES.items():
        for nullable in (True, False):
            path = tmp_path / f"{name}_{nullable}.parquet"
            schema = pa.schema([pa.field("c d", type_, nullable=nullable)])
            pq.write_table(
                schema.empty_table(), path, version=version,
                use_deprecated_int96_timestamps=name == "timestamp_ns",
            )  # fmt: skip
            source = open_source([str(path)], Options())
            splits = list(source.listing().splits(""))
            query = SqlText.of("DESCRIBE TABLE ", source.relation(splits, PARQUET, ""))
            wanted = [(row[0], row[1]) for row in engine.ask(query, DESCRIBED)]
            sample = parquet_files.read(source, splits, PARQUET)
            assert sample is not None
            assert parquet_files.described(sample.files[0]) == wanted, name
            question = footers.question(source, splits, PARQUET)
            known = footers.read_answer(engine.ask(question, {}))
            assert parquet_files.footers_of(sample.files) == known, name


# Of Arrow the engine alone describes what only it reads.
OF_ENGINE = {"float16", "date64", "time32", "time64", "time_ns", "decimal60", "duration"}


@pytest.mark.parametrize("format_", ["Arrow", "ArrowStream"])
def test_columns_of_arrow_are_described_alike(
    tmp_path: Path, engine: Embedded, format_: str
) -> None:
    """Each type alone, and whether it may be NULL."""
    encoding = Encoding(format_, "none", Kind.TYPED)
    for name, type_ in TYPES.items():
        for nullable in (True, False):
            path = tmp_path / f"{name}_{nullable}"
            schema = pa.schema([pa.field("c d", type_, nullable=nullable)])
            new = pa.ipc.new_file if format_ == "Arrow" else pa.ipc.new_stream
            with new(path, schema) as writer:
                writer.write_table(schema.empty_table())
            source = open_source([str(path)], Options(format=format_))
            splits = list(source.listing().splits(""))
            sample = arrow_files.read(source, splits, encoding)
            found = None if sample is None else arrow_files.described(sample.files[0])
            assert (found is None) == (name in OF_ENGINE), name
            if found is not None:
                query = SqlText.of("DESCRIBE TABLE ", source.relation(splits, encoding, ""))
                assert found == [(row[0], row[1]) for row in engine.ask(query, DESCRIBED)], name


@pytest.mark.parametrize("zeros", [True, False])
def test_bytes_of_arrow_are_found_as_the_engine_finds_them(
    tmp_path: Path, engine: Embedded, zeros: bool
) -> None:
    """Each value alone, as each type that may have it."""
    values = (b"a", b"\xff", b"a\0", b"\0a", "grün".encode(), b"", b"a\0\0\0\xff")
    for number, value in enumerate(values):
        fields = {"bytes": pa.binary(), "large": pa.large_binary(), "fixed": pa.binary(5)}
        if b"\xff" not in value:
            fields |= {"text": _TEXT, "words": pa.dictionary(_INT, _TEXT)}
        columns = [
            pa.array([None, value.ljust(5, b"\0") if name == "fixed" else value]).cast(type_)
            for name, type_ in fields.items()
        ]
        path = tmp_path / f"{number}.arrow"
        table = pa.table(columns, names=list(fields))
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        source = open_source([str(path)], Options())
        (split,) = source.listing().splits("")
        reads = [Column(name, "Nullable(String)", source=name) for name in fields]
        reads[2] = replace(reads[2], type="Nullable(FixedString(5))")
        query = bytes_columns.question(reads, source.relation([split], ARROW, ""), zeros=zeros)
        ((*counts,),) = engine.ask(query, {})
        wanted = {name for name, count in zip(fields, counts, strict=True) if int(count)}
        assert arrow_files.no_texts(source, split, ARROW, [*fields], zeros=zeros) == wanted, value


def _draw(r: random.Random, type_: pa.DataType, few: int) -> Any:
    """Return a value of a type, of which there are some ``few`` different ones."""
    n = r.randrange(few)
    if pa.types.is_struct(type_):
        return {field.name: _value(r, field, few) for field in type_}
    if pa.types.is_map(type_):
        return [(str(n) if type_.key_type == _TEXT else n, _value(r, type_.item_field, few))]
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        count = 3 if pa.types.is_fixed_size_list(type_) else r.randrange(3)
        return [_value(r, type_.value_field, few) for _ in range(count)]
    if pa.types.is_dictionary(type_) or type_ in (_TEXT, pa.large_string()):
        return f"word {n}" * (n % 3)
    if pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return bytes([n % 256]) * (5 if pa.types.is_fixed_size_binary(type_) else n % 9)
    if pa.types.is_decimal(type_):
        return Decimal(n % 100).scaleb(-type_.scale)
    if pa.types.is_boolean(type_):
        return n % 2 == 0
    if pa.types.is_date(type_):
        return date(2024, 1, 1) + timedelta(n)
    if pa.types.is_timestamp(type_):
        return datetime(2024, 1, 1) + timedelta(seconds=n)
    if pa.types.is_time(type_):
        return (datetime(2024, 1, 1) + timedelta(seconds=n)).time()
    if pa.types.is_duration(type_):
        return timedelta(seconds=n)
    if pa.types.is_floating(type_):
        return n / 8 if type_ != pa.float16() else float(n % 100)
    return n % 100


def _value(r: random.Random, field: pa.Field, few: int) -> Any:
    return None if field.nullable and r.random() < 0.2 else _draw(r, field.type, few)


def _table(r: random.Random, fields: Sequence[pa.Field], nulls: Mapping[str, float]) -> pa.Table:
    rows, arrays = r.choice((0, 1, 40, 3000)), []
    for field in fields:
        few = r.choice((2, 30, 100_000))
        values = [
            None if field.nullable and r.random() < nulls[field.name] else _draw(r, field.type, few)
            for _ in range(rows)
        ]
        arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=pa.schema(fields))


def _write_arrow(table: pa.Table, path: Path, packed: str | None, rows: int) -> None:
    options = pa.ipc.IpcWriteOptions(compression=packed)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)


def _files(seed: int, folder: Path, suffix: str) -> list[str]:
    """Write one to three files, whose columns are mostly the same."""
    r = random.Random(seed)
    known = sorted(TYPES.keys() - OF_ENGINE if suffix == "arrow" else TYPES)
    names = r.sample(known, r.randint(1, 9))
    fields = [
        pa.field(r.choice((name, f"{name}_id", f"{name} x")), TYPES[name], r.random() < 0.6)
        for name in names
    ]
    nulls = {field.name: r.choice((0.0, 0.0, 0.3, 1.0)) for field in fields}
    paths = []
    for number in range(r.choice((1, 1, 2, 3))):
        path = folder / f"{number}.{suffix}"
        table = _table(r, fields, nulls)
        if number and r.random() < 0.3:  # pandas' way: an int with a NULL is a double
            at = next((i for i, f in enumerate(fields) if f.type == _INT), None)
            if at is not None:
                column = table.column(at).cast(pa.float64())
                table = table.set_column(at, pa.field(fields[at].name, pa.float64()), column)
        if suffix == "arrow":
            packed, rows = r.choice((None, "lz4", "zstd")), r.choice((7, 1000, 100_000))
            _write_arrow(table, path, packed, rows)
        else:
            pq.write_table(
                table, path, row_group_size=r.choice((7, 1000, 100_000)),
                write_statistics=r.random() < 0.8, version=r.choice(("1.0", "2.6")),
            )  # fmt: skip
        paths.append(str(path))
    return paths


def _plain(schema: Schema) -> Schema:
    """Return a schema whose types are written on one line."""

    def line(text: str) -> str:
        return " ".join(text.replace("(\n", "(").split()).replace("( ", "(")

    columns = tuple(
        replace(c, type=line(c.type), read_type=line(c.read_type), reason=line(c.reason),
                expression=line(c.expression))
        for c in schema.columns
    )  # fmt: skip
    return replace(schema, columns=columns, row_bytes=round(schema.row_bytes, 3))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(200))
def test_the_same_table_is_made_without_an_engine(
    tmp_path: Path, engine: Embedded, seed: int
) -> None:
    """Types, sorting key, notes and bytes of a row; and what is compared before rows are read."""
    suffix = "arrow" if seed % 4 == 3 else "parquet"
    source = open_source(_files(seed, tmp_path, suffix), Options())
    listing, encoding = source.listing(), ARROW if suffix == "arrow" else PARQUET

    def refused(*_: object) -> list[list[Any]]:
        raise AssertionError("the engine was asked")

    with_engine = inference.schema_for(source, listing, encoding, Options(), engine.ask)
    alone = TargetColumns(alone=True)
    without = inference.schema_for(source, listing, encoding, Options(), refused, alone)
    assert without[0] == with_engine[0]
    assert _plain(without[1]) == _plain(with_engine[1])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(60))
def test_null_lists_are_found_as_pyarrow_finds_them(
    tmp_path: Path, engine: Embedded, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = random.Random(seed)
    names = r.sample([name for name, type_ in TYPES.items() if type_.num_fields], 4)
    fields = [pa.field(name, TYPES[name], r.random() < 0.8) for name in names]
    nulls = dict.fromkeys(names, 0.0) | {r.choice(names): r.choice((0.0, 0.001, 0.2))}
    path, encoding = tmp_path / "lists.parquet", PARQUET
    if seed % 3 == 0:
        path, encoding = tmp_path / "lists.arrow", ARROW
        _write_arrow(_table(r, fields, nulls), path, None, r.choice((9, 5000)))
    else:
        pq.write_table(_table(r, fields, nulls), path, row_group_size=r.choice((9, 5000)))
    source = open_source([str(path)], Options())
    listing = source.listing()
    _, schema = inference.schema_for(source, listing, encoding, Options(), engine.ask)
    columns = [c for c in schema.reads if null_lists.holds_lists(c.type)]
    (split,) = listing.splits("")
    here = null_lists.null_lists(source, split, encoding, columns, engine.ask)
    with monkeypatch.context() as patched:
        patched.setattr(parquet_files, "null_lists", lambda *_: None)
        assert here == null_lists.null_lists(source, split, encoding, columns, engine.ask)


@pytest.mark.parametrize("cut", [9, 200, 400])
def test_a_broken_file_is_left_to_the_engine(tmp_path: Path, cut: int) -> None:
    table = pa.table({"a": [1, 2]})
    for path, encoding in ((tmp_path / "a.parquet", PARQUET), (tmp_path / "a.arrow", ARROW)):
        pq.write_table(table, path) if encoding is PARQUET else _write_arrow(table, path, None, 9)
        path.write_bytes(path.read_bytes()[:-cut])
        source = open_source([str(path)], Options())
        splits = list(source.listing().splits(""))
        read = parquet_files.read if encoding is PARQUET else arrow_files.read
        assert read(source, splits, encoding, ["a"], 5) is None
