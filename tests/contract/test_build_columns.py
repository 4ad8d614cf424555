"""Parts that rowfall-decode makes of Parquet, Arrow and Native against those of the engine.

It may decline whatever it likes; what it takes has to be what the engine reads of the same bytes.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from contract.test_build import ROWS, SEED, TYPES, Parts, compared, parts, pool, table_of
from rowfall.decoder import installed
from rowfall.systems.lakes import parquet_files

__all__ = ["parts"]

DECLINED = 3
# Types of ClickHouse whose values come back from these formats as they were.
SAME = [
    t for t in TYPES
    if not t.startswith(("UUID", "IPv", "Enum", "DateTime", "Date", "Bool"))
    and "128" not in t and "256" not in t and "76" not in t
] + ["Date32", "Bool", "DateTime64(3, 'UTC')"]  # fmt: skip


def columns_of(
    rng: random.Random, types: Sequence[str]
) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    """Two columns that may be keys, and of each type one with and one without NULL."""
    columns = {"a": "Int32", "b": "String"}
    values = [pool(rng, type_, ROWS, defaults=0.2) for type_ in columns.values()]
    for number, type_ in enumerate(types):
        low = type_.startswith("Low")
        nullable = "LowCardinality(Nullable(String))" if low else f"Nullable({type_})"
        for name, kind, nulls in (("some", type_, 0), ("nulls", nullable, 0.3)):
            columns[f"{name}_{number}"] = kind
            values.append(pool(rng, type_, ROWS, 0.3, nulls))
    return columns, table_of(*values)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", ["", "(b, a)"])
@pytest.mark.parametrize("format", ["Parquet", "ArrowStream", "Arrow", "Native"])
def test_files_of_a_part(format: str, key: str, parts: Parts) -> None:
    """Each file of a part is the engine's own, to the last byte."""
    types = list(TYPES) if format == "Native" else SAME
    columns, rows = columns_of(random.Random(f"{SEED} {format} {key}"), types)
    parts.drop(compared(parts, columns, key, rows, format=format))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", [1, 12], ids=["narrow", "wide"])
def test_workers_share_a_file(more: int, parts: Parts) -> None:
    """No row is lost, and each part is in order, whatever each of them took."""
    rng = random.Random(f"{SEED} {more}")
    count = 300_000
    columns = {
        "k": "Int32", "s": "String", "few": "LowCardinality(String)",
        "many": "LowCardinality(Nullable(String))", **{f"n{n}": "Int64" for n in range(more)},
    }  # fmt: skip
    made = ", ".join(
        [f"toInt32(cityHash64(number, {rng.randrange(99)}) % 5000)", "toString(number % 777)"]
        + ["toString(intDiv(number, 9000) % 3)"]
        + ["nullIf(repeat(toString(cityHash64(number) % 12000), number % 12000 % 5), '7')"]
        + [f"toInt64(cityHash64(number, {n}))" for n in range(more)]
    )
    source = f"(SELECT {made} FROM numbers({count}))"
    for format in ("Parquet", "ArrowStream", "Native"):
        path = parts.written(columns, source, format, output_format_parquet_row_group_size=290_000)
        key = "(few, s, k)"
        ours = parts.create(columns, key, ", max_bytes_to_merge_at_max_space_in_pool = 1")
        parts.build(ours, columns, key, [path], format=format, outputs=3, block_rows=40_000)
        assert parts.check(ours) == []
        whole = "SELECT count(), sum(cityHash64(*)) FROM {}"
        named = ", ".join(f"x.{n + 1} AS {name}" for n, name in enumerate(columns))
        assert parts.sql(whole.format(ours)) == parts.sql(
            whole.format(f"(SELECT {named} FROM (SELECT tuple(*) AS x FROM {source}))")
        )
        unsorted = (
            f"SELECT countIf({key} < before) FROM (SELECT few, s, k, lagInFrame({key}, 1, {key}) "
            f"OVER (PARTITION BY _part ORDER BY _part_offset) AS before FROM {ours})"
        )
        assert parts.sql(unsorted) == "0"
        parts.drop(ours)


# Two files become one part, or one of them several; strings of the first one have dictionaries.
WIDE_COLUMNS = {
    "k": "Int32", "s": "String", "some": "Nullable(String)", "low": "LowCardinality(String)",
    "list": "Array(String)", "t": "DateTime64(3, 'UTC')", **{f"n{n}": "UInt32" for n in range(6)},
}  # fmt: skip


def wide_file(parts: Parts, count: int, first: int, size: int, **settings: int) -> Path:
    """A file of strings of about ``size`` bytes, one of 90 values each."""
    numbers = ", ".join(f"toUInt32(cityHash64(n, {number}))" for number in range(6))
    source = (
        "(SELECT toInt32(cityHash64(n) % 7000), "
        "repeat(toString(n % 90), intDiv(n % 90 * {size}, 180)), "
        "if(n % 11 = 0, NULL, toString(n % 90)), toString(n % 33), "
        "arrayMap(x -> repeat(toString(n % 90), intDiv({size}, 4)), range(n % 3)), "
        f"fromUnixTimestamp64Milli(toInt64(n * 1001), 'UTC'), {numbers} "
        f"FROM (SELECT number + {first} AS n FROM numbers({count})))"
    ).replace("{size}", str(size))
    return parts.written(WIDE_COLUMNS, source, "Parquet", **settings)


@pytest.mark.parametrize("key", ["", "(s, k)"])
@pytest.mark.parametrize(
    ("size", "most", "parts_of"),
    [
        pytest.param(30, 256 << 20, [60_000], id="as a whole"),
        # 3 kB a row, of which the file tells nothing: shorter granules than it was begun with.
        pytest.param(3000, 256 << 20, [60_000], id="longer than they look"),
        # The lists take 30 MB, where the other columns take 5.
        pytest.param(1000, 12 << 20, None, id="more than the memory"),
    ],
)
def test_parts_of_whole_columns(
    size: int, most: int, parts_of: list[int] | None, key: str, parts: Parts
) -> None:
    """Column by column where that is possible, and else as blocks: the rows are the same."""
    paths = [
        wide_file(parts, 35_000, 0, size, output_format_parquet_row_group_size=20_000),
        wide_file(parts, 25_000, 35_000, size, output_format_parquet_max_dictionary_size=0),
    ]
    strings = [pq.ParquetFile(path).metadata.row_group(0).column(1) for path in paths]
    assert ["RLE_DICTIONARY" in found.encodings for found in strings] == [True, False]
    unmerged = ", max_bytes_to_merge_at_max_space_in_pool = 1, min_bytes_for_wide_part = 0"
    ours = parts.create(WIDE_COLUMNS, key, unmerged)
    parts.build(
        ours, WIDE_COLUMNS, key, paths, format="Parquet", block_rows=100_000, block_bytes=most
    )
    assert parts.check(ours) == []
    found = parts.sql(
        f"SELECT rows, marks FROM system.parts WHERE table = '{ours}' AND active ORDER BY rows"
    )
    sizes = [tuple(map(int, line.split())) for line in found.splitlines()]
    assert sum(rows for rows, _ in sizes) == 60_000
    if parts_of:
        assert [rows for rows, _ in sizes] == parts_of
        granule = min(8192, 10_485_760 // (1 + sum_of_bytes(parts, ours) // 60_000))
        assert abs(sizes[0][1] - 60_000 / granule) < 3
    else:
        assert len(sizes) > 2
    whole = "SELECT count(), sum(cityHash64(*)) FROM {}"
    both = " UNION ALL ".join(
        f"SELECT * FROM {parts.relation(WIDE_COLUMNS, path, 'Parquet')}" for path in paths
    )
    assert parts.sql(whole.format(ours)) == parts.sql(whole.format(f"({both})"))
    unsorted = (
        "SELECT countIf((s, k) < before) FROM (SELECT s, k, lagInFrame((s, k), 1, (s, k)) "
        f"OVER (PARTITION BY _part ORDER BY _part_offset) AS before FROM {ours})"
    )
    assert not key or parts.sql(unsorted) == "0"
    parts.drop(ours)


def test_no_worker_takes_the_files_of_all_others(parts: Parts) -> None:
    """Files are held until their part is written: one worker must not hold more than its share."""
    paths = [wide_file(parts, 10_000, number * 10_000, 30) for number in range(8)]
    ours = parts.create(WIDE_COLUMNS, "", ", max_bytes_to_merge_at_max_space_in_pool = 1")
    sized = [{"path": str(path), "size": path.stat().st_size} for path in paths]
    parts.build(
        ours, WIDE_COLUMNS, "", paths, format="Parquet", outputs=2, block_rows=70_000,
        inputs=sized,
    )  # fmt: skip
    found = parts.sql(f"SELECT rows FROM system.parts WHERE table = '{ours}' AND active")
    rows = [int(line) for line in found.splitlines()]
    assert sum(rows) == 80_000
    assert max(rows) <= 40_000, rows
    parts.drop(ours)


def test_lists_leave_no_memory(parts: Parts) -> None:
    """Of twelve columns of lists, 18 MB each, one is in memory."""
    columns = {"k": "UInt32", **{f"list{n}": "Array(UInt32)" for n in range(12)}}
    made = ", ".join(f"range(toUInt32(number % 40 + {n % 2}))" for n in range(12))
    source = f"(SELECT toUInt32(number), {made} FROM numbers(200_000))"
    path = parts.written(columns, source, "Parquet", output_format_parquet_row_group_size=200_000)
    ours = parts.create(columns, "")
    parts.build(ours, columns, "", [path], format="Parquet", memory_bytes=140 << 20)
    query = "SELECT count(), sum(k), sum(length(list0)), sum(arraySum(list11)) FROM "
    assert parts.sql(query + ours) == parts.sql(query + parts.relation(columns, path, "Parquet"))
    assert parts.sql(f"SELECT rows FROM system.parts WHERE table = '{ours}' AND active") == "200000"
    parts.drop(ours)


def sum_of_bytes(parts: Parts, table: str) -> int:
    """Bytes of all rows in memory."""
    return int(parts.sql(f"SELECT sum(byteSize(*)) FROM {table}"))


# --- what others write ---------------------------------------------------------------------------

COUNT = 3_000


def arrays(rng: np.random.Generator) -> dict[str, pa.Array]:
    """Columns of every type that Parquet knows, some values NULL, none, all."""
    numbers = rng.integers(-(2**62), 2**62, COUNT)
    few = rng.integers(0, 40, COUNT)
    days = rng.integers(-25_000, 120_000, COUNT)
    words = [f"word {n} ä" * (n % 5) for n in few]
    found: dict[str, pa.Array] = {
        **{
            f"i{signed}{bits}": pa.array(numbers.astype(f"{signed}int{bits}"))
            for bits in (8, 16, 32, 64)
            for signed in ("", "u")
        },
        "f32": pa.array(rng.random(COUNT), pa.float32()),
        "f64": pa.array(rng.choice([0.0, -0.0, 1.5, np.inf, np.nan], COUNT)),
        "f16": pa.array(rng.random(COUNT).astype(np.float16)),
        "bool": pa.array(few % 2 == 0),
        "text": pa.array(words),
        "long": pa.array(["x" * int(n) for n in rng.integers(0, 400, COUNT)]),
        "binary": pa.array([bytes([n, 255, 0]) for n in few], pa.binary()),
        "fixed": pa.array([bytes([n]) * 5 for n in few], pa.binary(5)),
        "sixteen": pa.array([bytes([n]) * 16 for n in few], pa.binary(16)),
        "date": pa.array(days.astype("int32"), pa.int32()).cast(pa.date32()),
        **{
            f"t_{unit}_{(zone or chr(48))[-3:]}": pa.array(
                days * 86_400 * scale + few, pa.timestamp(unit, zone)
            )
            for unit, scale in (("ms", 1000), ("us", 10**6))
            for zone in (None, "UTC", "Europe/Berlin")
        },
        "t_ns": pa.array((days // 2) * 86_400 * 10**9 + few, pa.timestamp("ns")),
        "time": pa.array(few, pa.time64("us")),
        **{
            f"d{digits}_{scale}": pa.array(
                [decimal.Decimal(int(n)).scaleb(-scale) for n in numbers % 10**7],
                pa.decimal128(digits, scale),
            )
            for digits, scale in ((9, 2), (18, 0), (38, 10))
        },
        "d76": pa.array([decimal.Decimal(int(n)) for n in few], pa.decimal256(60, 3)),
    }
    nulls = {
        f"{name}_null": pa.array(
            [None if n % 3 == 0 else v for n, v in zip(few, column.to_pylist(), strict=True)],
            column.type,
        )
        for name, column in found.items()
        if name != "f16"
    }
    return {**found, **nulls, "empty": pa.array([None] * COUNT, pa.int32())}


WRITERS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False, "compression": "none"},
    "snappy": {"compression": "snappy"},
    "gzip": {"compression": "gzip", "data_page_version": "2.0"},
    "brotli": {"compression": "brotli"},
    "zstd": {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": False},
    "lz4": {"compression": "lz4", "data_page_size": 1000},
    "old": {"version": "1.0", "use_deprecated_int96_timestamps": True, "store_schema": False},
    "spilled": {"dictionary_pagesize_limit": 60, "data_page_size": 300},
    "groups": {"row_group_size": 701, "write_page_checksum": True, "write_page_index": True},
    "delta": {"use_dictionary": False, "column_encoding": "DELTA"},
    "split": {"use_dictionary": False, "column_encoding": "BYTE_STREAM_SPLIT"},
}
_DELTA = {
    pa.int32(): "DELTA_BINARY_PACKED", pa.int64(): "DELTA_BINARY_PACKED",
    pa.string(): "DELTA_BYTE_ARRAY", pa.binary(): "DELTA_LENGTH_BYTE_ARRAY",
}  # fmt: skip
_SPLIT = {pa.float32(), pa.float64(), pa.int32(), pa.int64(), pa.binary(5)}


def taken(program_spec: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [os.environ.get("ROWFALL_DECODE") or str(installed.program()), "run", "--spec", "-"],
        input=json.dumps(program_spec).encode(), capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.sampled(1)
def test_files_of_others(writer: str, parts: Parts, tmp_path: Path) -> None:
    """Types, encodings and codecs as pyarrow writes them: rows are those that the engine reads."""
    options = dict(WRITERS[writer])
    table = pa.table(arrays(np.random.default_rng(SEED)))
    encoding = options.pop("column_encoding", None)
    if encoding == "DELTA":
        options["column_encoding"] = {
            f.name: _DELTA[f.type] for f in table.schema if f.type in _DELTA
        }
    elif encoding:
        options["column_encoding"] = {f.name: encoding for f in table.schema if f.type in _SPLIT}
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, **options)
    declined = {name for name in columns_taken(parts, path) if name}
    assert declined <= {
        name for name in table.schema.names
        if name.startswith(("f16", "time", "d76", "sixteen", "empty"))
        # Of the years up to 2298 nanoseconds hold those up to 2262, for the engine, too.
        or (writer == "old" and name.startswith(("t_ms", "t_us")))
    }, writer  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("writer", ["plain", "gzip", "lz4", "spilled", "groups"])
def test_old_times_are_taken(writer: str, parts: Parts, tmp_path: Path) -> None:
    """INT96, as Spark writes it: to nanoseconds, and to the type that lake tables give it."""
    rng = np.random.default_rng(SEED)
    count, path = 9_000, tmp_path / "rows.parquet"  # of two batches
    first, last = (np.datetime64(y, "ns").astype("int64") for y in ("1900-01-01", "2262-04-11"))
    whole = rng.integers(first // 1000 + 1, last // 1000, count) * 1000
    values = {
        "fine": whole + rng.integers(0, 1000, count),
        "whole": whole,
        "before": -rng.integers(0, 10**9, count),
        "few": whole[rng.integers(0, 20, count)],
        "even": rng.integers(-(2**31), 2**33, count) * 10**9,
    }
    table = pa.table({
        f"{name}{mark}": pa.array(found, pa.timestamp("ns"), mask=rng.random(count) < share)
        for name, found in values.items()
        for mark, share in (("", 0), ("_null", 0.3))
    })  # fmt: skip
    pq.write_table(
        table, path, **WRITERS[writer], use_deprecated_int96_timestamps=True, store_schema=False
    )
    assert {pq.ParquetFile(path).schema.column(n).physical_type for n in range(10)} == {"INT96"}
    assert list(columns_taken(parts, path)) == []
    columns = {
        "whole": "DateTime64(6, 'UTC')", "few_null": "Nullable(DateTime64(6, 'UTC'))",
        "even": "DateTime64(3, 'UTC')", "even_null": "Nullable(DateTime64(0, 'UTC'))",
    }  # fmt: skip
    ours, theirs = parts.create(columns, ""), parts.create(columns, "")
    parts.build(ours, columns, "", [path], format="Parquet", outputs=2)
    parts.insert(theirs, columns, path, "Parquet")
    summed = "SELECT count(), sum(cityHash64(tuple(*))) FROM {}"
    assert parts.sql(summed.format(ours)) == parts.sql(summed.format(theirs))
    parts.drop(ours, theirs)


def without_new_types(path: Path) -> None:
    """Take the logical types out of a file's footer: writers before 2018 knew converted ones."""
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    reader = parquet_files._Reader(footer)
    for number, type_ in reader.fields():
        if number == parquet_files._SCHEMA:
            break
        reader.skip(type_)
    begin = reader.at
    elements = [reader.struct() for _ in range(reader.list_head()[0])]
    taken = [element.values.pop(parquet_files._LOGICAL, None) for element in elements]
    assert any(taken)
    written = bytearray()
    parquet_files._write_list_head(written, len(elements))
    for element in elements:
        parquet_files._write_struct(written, element)
    footer = footer[:begin] + written + footer[reader.at :]
    path.write_bytes(data[: -8 - int.from_bytes(data[-8:-4], "little")])
    with path.open("ab") as file:
        file.write(footer + len(footer).to_bytes(4, "little") + b"PAR1")


def test_converted_types_are_taken(parts: Parts, tmp_path: Path) -> None:
    """What they say of integers, texts, dates, times and decimals is what the engine says."""
    path = tmp_path / "rows.parquet"
    columns = arrays(np.random.default_rng(SEED))
    table = pa.table({name: column for name, column in columns.items() if name != "f16"})
    pq.write_table(table, path, store_schema=False)
    without_new_types(path)
    declined = set(columns_taken(parts, path))
    assert declined <= {
        name for name in table.schema.names
        if name.startswith(("time", "d76", "sixteen", "empty"))
    }  # fmt: skip


@pytest.mark.parametrize("year", [1, 1600, 1677, 2263, 2300, 9999])
def test_old_times_that_nanoseconds_do_not_hold_are_declined(year: int, tmp_path: Path) -> None:
    """They would come out as other times; the engine says that they are out of range."""
    times = [datetime.datetime(2020, 1, 1), datetime.datetime(year, 1, 1), None]
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({"t": pa.array(times, pa.timestamp("us"))}), path,
        use_deprecated_int96_timestamps=True, store_schema=False,
    )  # fmt: skip
    for wanted in ("Nullable(DateTime64(9, 'UTC'))", "Nullable(DateTime64(6, 'UTC'))"):
        code, report = taken({
            "version": 2, "inputs": [{"path": str(path)}], "format": "Parquet", "timezone": "UTC",
            "columns": [{"name": "t", "type": wanted}], "outputs": ["/dev/null"],
        })  # fmt: skip
        assert code == DECLINED, (wanted, report)


def columns_taken(parts: Parts, path: Path) -> Iterator[str]:
    """Build each column apart and compare it with the engine's; give the names of declined ones."""
    described = [
        line.split("\t")[:2]
        for line in parts.sql(f"DESCRIBE file('{path}', 'Parquet')").splitlines()
    ]
    described = [[name, type_.replace("\\'", "'")] for name, type_ in described]
    known = []
    for name, type_ in described:
        spec = {
            "version": 2, "inputs": [{"path": str(path)}], "format": "Parquet", "timezone": "UTC",
            "columns": [{"name": name, "type": type_}], "outputs": ["/dev/null"],
        }  # fmt: skip
        code, report = taken(spec)
        if code:
            assert code in (DECLINED, 2), report
            yield name
        else:
            known.append((name, type_))
    columns = dict(known)
    ours = parts.create(columns, "")
    parts.build(ours, columns, "", [path], format="Parquet")
    theirs = parts.create(columns, "")
    parts.insert(theirs, columns, path, "Parquet")
    assert parts.check(ours) == []
    for name in columns:
        hashed = f"SELECT count(), sum(cityHash64(rowNumberInAllBlocks(), {name})) FROM {{}}"
        answers = [parts.sql(hashed.format(t), max_threads=1) for t in (ours, theirs)]
        assert answers[0] == answers[1], (name, columns[name])
    parts.drop(ours, theirs)


@pytest.mark.parametrize("damage", ["cut", "footer", "page", "empty", "text"])
def test_damaged_files_are_declined(damage: str, parts: Parts, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table = pa.table({"n": list(range(5000)), "s": [f"text {n}" for n in range(5000)]})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-100:]
    elif damage == "footer":
        data[-200:-100] = b"\xff" * 100
    elif damage == "page":
        data[len(data) // 2] ^= 1
    elif damage == "empty":
        data.clear()
    else:
        data[:] = b"no columns at all\n" * 100
    path.write_bytes(data)
    spec = {
        "version": 2, "inputs": [{"path": str(path)}], "format": "Parquet",
        "columns": [{"name": "n", "type": "Int64"}, {"name": "s", "type": "String"}],
        "outputs": [str(tmp_path / "0")], "parts": True, "memory_bytes": 1 << 30,
    }  # fmt: skip
    code, report = taken(spec)
    assert code == DECLINED, report


@pytest.mark.parametrize("format", ["ArrowStream", "Native"])
def test_streams_that_end_too_early_are_no_whole_ones(format: str, parts: Parts) -> None:
    columns = {"n": "Int64", "s": "String"}
    path = parts.written(columns, "(SELECT number, toString(number) FROM numbers(9000))", format)
    data = path.read_bytes()
    for size in (1, 9, len(data) // 3, len(data) // 2, len(data) - 20):
        path.write_bytes(data[:size])
        code, report = taken({
            "version": 2, "inputs": [{"path": str(path)}], "format": format,
            "columns": [{"name": n, "type": t} for n, t in columns.items()],
            "outputs": ["/dev/null"],
        })  # fmt: skip
        assert code in (3, 4), (size, report)


@pytest.mark.parametrize(
    ("value", "type_", "wanted"),
    [
        (None, pa.int32(), "Int32"),
        (2**34, pa.timestamp("s"), "DateTime64(0)"),
        (1_000_001, pa.timestamp("us"), "DateTime64(3)"),
        (datetime.datetime(2400, 1, 1), pa.timestamp("ms"), "DateTime64(6)"),
        (datetime.date(2400, 1, 1), pa.date32(), "Date32"),
        (datetime.datetime(2400, 1, 1), pa.timestamp("us"), "DateTime64(6)"),
        (decimal.Decimal(10**9), pa.decimal128(20, 0), "Decimal(9, 0)"),
        (2**31, pa.int64(), "Int32"),
        (-5, pa.int32(), "UInt64"),
        (2**32 - 1, pa.timestamp("s"), "DateTime"),
        (b"abcde", pa.binary(), "FixedString(4)"),
        ("x", pa.string(), "UInt8"),
        ([1], pa.list_(pa.int32()), "Int32"),
    ],
)  # fmt: skip
def test_what_may_not_fit_is_declined(
    value: object, type_: pa.DataType, wanted: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"v": pa.array([value], type_)}), path)
    code, report = taken({
        "version": 2, "inputs": [{"path": str(path)}], "format": "Parquet", "timezone": "UTC",
        "columns": [{"name": "v", "type": wanted}], "outputs": ["/dev/null"],
    })  # fmt: skip
    assert code in (2, DECLINED), report


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["v", "v"])
    for table in (pa.table({"other": [1]}), twice):
        pq.write_table(table, path)
        code, _ = taken({
            "version": 2, "inputs": [{"path": str(path)}], "format": "Parquet",
            "columns": [{"name": "v", "type": "Int64"}], "outputs": ["/dev/null"],
        })  # fmt: skip
        assert code == DECLINED
