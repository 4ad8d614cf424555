"""Rows in memory: data frames, Arrow tables and readers, into tables of every kind."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import rowfall
from e2e.fleet import Fleet
from e2e.lake import Lake
from lab.clickhouse import ClickHouse
from rowfall.core.errors import RowfallError, UsageError
from rowfall.stores.frames import arrow_rows

ROWS = 300_000


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.fixture
def to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "data"


def numbers(count: int = ROWS) -> pa.Table:
    return pa.table({"id": range(count), "name": [f"n{n % 9}" for n in range(count)]})


def ask(sql: str, to: Path) -> list[tuple[Any, ...]]:
    return list(rowfall.query(sql, to=to))


def test_a_batch_is_loaded_once(to: Path) -> None:
    first = rowfall.load(numbers(), to=to, table="t", batch_id="2026-11-23")
    assert (first.outcome, first.rows, first.splits) == ("done", ROWS, 1)
    again = rowfall.load(numbers(), to=to, table="t", batch_id="2026-11-23")
    assert (again.rows, again.splits_skipped) == (0, 1)
    other = rowfall.load(numbers(10), to=to, table="t", batch_id="2026-11-24")
    assert other.rows == 10
    for _ in range(2):  # without a name each call is a load of its own
        assert rowfall.load(numbers(10), to=to, table="t").rows == 10
    assert ask("SELECT count(), sum(id) FROM t", to) == [
        (ROWS + 30, ROWS * (ROWS - 1) // 2 + 3 * 45)
    ]
    with pytest.raises(UsageError, match="handed over in Python"):
        rowfall.verify(first.load_id, to=to)


def frames(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    table = numbers(1000)
    yield "pyarrow table", table
    yield "record batch", table.to_batches()[0]
    yield "reader", table.to_reader(max_chunksize=100)
    pq.write_table(table, tmp_path / "x.parquet")
    yield "data set", ds.dataset(tmp_path / "x.parquet")
    yield "pandas", table.to_pandas()
    yield "pandas with an index", table.to_pandas().set_index("id")
    yield "pandas, some rows", table.to_pandas().iloc[::-1]
    yield "polars", pl.from_arrow(table)


def load_frames(to: Path) -> None:
    for kind, frame in frames(to.parent):
        report = rowfall.load(frame, to=to, table="t", batch_id=kind)
        assert (report.outcome, report.rows) == ("done", 1000), kind


def test_whatever_has_rows(to: Path) -> None:
    """Loaded by a process of its own, as users have it: libraries of frames bring threads along."""
    ran = subprocess.run(
        [sys.executable, "-c", "import sys, pathlib, e2e.test_frames as frames\n"
         "frames.load_frames(pathlib.Path(sys.argv[1]))", str(to)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ask("SELECT count(), sum(id), uniqExact(name) FROM t", to) == [(8000, 8 * 499_500, 9)]
    described = ask("DESCRIBE t", to)
    assert [row[:2] for row in described] == [
        ("id", "Int64"), ("name", "LowCardinality(String)")
    ]  # fmt: skip


def typed() -> pa.Table:
    stamp = dt.datetime(2026, 11, 23, 1, 2, 3, 456_789)
    utc = dt.UTC
    return pa.table(
        {
            "n": pa.array([1, None, 3], pa.int32()),
            "u": pa.array([2**64 - 1, 0, 1], pa.uint64()),
            "f": pa.array([1.5, float("nan"), None], pa.float64()),
            "half": pa.array([0.5, 1.0, 2.0], pa.float16()),
            "b": pa.array([True, None, False]),
            "s": pa.array(["a", None, "é\0"], pa.large_string()),
            "view": pa.array(["v" * 20, "w", None], pa.string_view()),
            "dict": pa.array(["x", None, "x"]).dictionary_encode(),
            "bin": pa.array([b"\xff\x00", b"", b"z"], pa.binary()),
            "fixed": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
            "d": pa.array([Decimal("1.23"), None, Decimal("-9.99")], pa.decimal128(10, 2)),
            "wide": pa.array([Decimal(10) ** 40, Decimal(0), Decimal(1)], pa.decimal256(50, 0)),
            "day": pa.array([dt.date(1925, 1, 1), None, dt.date(2026, 11, 23)]),
            "at": pa.array([stamp.replace(tzinfo=utc)] * 3, pa.timestamp("us", "Asia/Tokyo")),
            "naive": pa.array([stamp, None, stamp], pa.timestamp("ms"), safe=False),
            "list": pa.array([[1, None], [], [3]], pa.list_(pa.int64())),
            "texts": pa.array([["p"], ["q", "r"], []], pa.list_(pa.string_view())),
            "struct": pa.array([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}, {"x": 3, "y": "c"}]),
            "map": pa.array([[("k", 1)], [], [("l", 2)]], pa.map_(pa.string(), pa.int64())),
        }
    )


TYPED = (
    "SELECT toString(tuple(n, u, f, half, b, s, view, dict, hex(bin), fixed, d, wide, day, at, "
    "naive, list, texts, struct, map)) FROM {} ORDER BY u DESC"
)  # fmt: skip
WANTED = [
    "(1,18446744073709551615,1.5,0.5,true,'a','vvvvvvvvvvvvvvvvvvvv','x','FF00','ab',1.23,"
    "10000000000000000000000000000000000000000,'1925-01-01','2026-11-23 10:02:03.456789',"
    "'2026-11-23 01:02:03.456',[1,NULL],['p'],(1,'a'),{'k':1})",
    "(3,1,NULL,2,false,'é\\0',NULL,'x','7A','ef',-9.99,1,'2026-11-23','2026-11-23 10:02:03.456789',"
    "'2026-11-23 01:02:03.456',[3],[],(3,'c'),{'l':2})",
    "(NULL,0,nan,1,NULL,NULL,'w',NULL,'','cd',NULL,0,NULL,'2026-11-23 10:02:03.456789',"
    "NULL,[],['q','r'],(2,'b'),{})",
]


@pytest.mark.sampled(1)
def test_every_type_arrives_unchanged(to: Path, lake: Lake) -> None:
    for name, data in (("t", typed()), ("r", typed().to_reader())):
        assert rowfall.load(data, to=to, table=name, encoding="binary").outcome == "done"
        assert [row[0] for row in ask(TYPED.format(name), to)] == WANTED
    types = dict(row[:2] for row in ask("DESCRIBE t", to))
    assert (types["at"], types["d"]) == ("DateTime64(6, 'Asia/Tokyo')", "Nullable(Decimal(10, 2))")
    assert rowfall.load(typed(), to=lake.to, table="t", encoding="binary").rows == 3
    assert [row[0] for row in lake.rows(TYPED.format("{db}.t"))] == WANTED
    assert rowfall.load(numbers(), to=lake.to, table="n", batch_id="1").rows == ROWS
    assert rowfall.load(numbers(), to=lake.to, table="n", batch_id="1").rows == 0
    assert lake.row("SELECT count(), sum(id) FROM {db}.n") == [ROWS, ROWS * (ROWS - 1) // 2]


def test_what_cannot_be_loaded_is_said(to: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for data, said in (
        (twice, "several columns are named 'a'"),
        (pa.table({"a": [None, None]}), "type null, which no column can keep"),
        (pa.table({"a": pa.array([1], pa.duration("s"))}), "type duration"),
        (pa.table({"a": pa.array([[1], None])}), "arrays, maps and tuples cannot be NULL"),
        (pd.DataFrame({"v": pd.Series([1, "a"], dtype=object)}), "'v': row 2 is 'a', of the type"),
        (pd.DataFrame({"v": pd.Series([1, 2**65], dtype=object)}), f"'v': row 2 is {2**65}, a num"),
        (pd.DataFrame({"v": [1 + 2j]}), r"'v': row 1 is \(1\+2j\), of the type complex"),
        (pd.DataFrame({"v": pd.period_range("2024-01", periods=2, freq="M")}), "'v' holds periods"),
        (pl.DataFrame({"v": pl.Series([2**70], dtype=pl.Int128)}), "'v' is of the polars type Int"),
        (pl.DataFrame({"v": pl.Series([object()], dtype=pl.Object)}), "'v' is of the polars type"),
        (pd.DataFrame(), "no columns"),
    ):
        with pytest.raises(RowfallError, match=said):
            rowfall.load(data, to=to, table="bad")
    with pytest.raises(UsageError, match="no name that could be"):
        rowfall.load(numbers(1), to=to)
    with pytest.raises(UsageError, match="names rows in memory"):
        rowfall.load("x.csv", to=to, batch_id="1")


def test_categories_of_polars(to: Path) -> None:
    """At any depth: pyarrow takes no values of dictionaries of views."""
    frame = pl.DataFrame({
        "id": [1, 2],
        "c": pl.Series(["a", None], dtype=pl.Categorical),
        "e": pl.Series(["b", "c"], dtype=pl.Enum(["b", "c"])),
        "l": pl.Series([["x"], ["y", None]], dtype=pl.List(pl.Categorical)),
    })  # fmt: skip
    assert rowfall.load(frame, to=to, table="t", batch_id="1").rows == 2
    assert ask("SELECT id, c, e, l FROM t ORDER BY id", to) == [
        (1, "a", "b", ["x"]), (2, None, "c", ["y", None]),
    ]  # fmt: skip


def test_what_is_nearly_a_frame(to: Path) -> None:
    """Each ended with an exception of pandas, polars or pyarrow that names nothing."""
    rowfall.load(pd.Series([1, 2], name="v"), to=to, table="s")
    assert ask("SELECT sum(v) FROM s", to) == [(3,)]
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    wrong: list[tuple[Any, str]] = [
        (twice, "several columns are named 'a'"), ([{"a": 1}], "not dict"),
        (pl.LazyFrame({"a": [1]}), "holds no rows yet"), (None, "not iterable"),
    ]  # fmt: skip
    for rows, message in wrong:
        with pytest.raises(UsageError, match=message):
            rowfall.load(rows, to=to, table="t")


def test_hints_for_types_that_arrow_lacks(to: Path) -> None:
    """What the hints say, done."""
    wide = pl.DataFrame({"v": pl.Series([2**70, None], dtype=pl.Int128)})
    text = wide.with_columns(pl.col("v").cast(pl.String))
    rowfall.load(text, to=to, table="a", type={"v": "Nullable(Int128)"}, batch_id="1")
    assert ask("SELECT toString(v) FROM a WHERE v > 0", to) == [(str(2**70),)]
    mixed = pd.DataFrame({"v": pd.Series([1, 2**65], dtype=object)})
    mixed["v"] = mixed["v"].astype(str)
    rowfall.load(mixed, to=to, table="b", type={"v": "Int256"}, batch_id="1")
    assert ask("SELECT toString(max(v)) FROM b", to) == [(str(2**65),)]


def test_no_rows(to: Path) -> None:
    empty = numbers(10).slice(0, 0)
    assert rowfall.load(empty, to=to, table="t", batch_id="0").outcome == "done"
    assert ask("SELECT count() FROM t", to) == [(0,)]
    assert rowfall.load(numbers(10), to=to, table="t", batch_id="1").rows == 10


def test_a_reader_that_breaks_leaves_nothing(to: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from numbers(200_000).to_batches(max_chunksize=10_000)
        raise OSError("the query was lost")

    schema = numbers(1).schema
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(rowfall.LoadError, match="the query was lost") as error:
        rowfall.load(reader, to=to, table="t", batch_id="1")
    report = error.value.report
    assert report.outcome == "failed"
    assert "the query was lost" in report.failures[0].error
    assert ask("SELECT count() FROM t", to) == [(0,)]
    assert rowfall.load(numbers(10), to=to, table="t", batch_id="1").rows == 10


def test_rows_of_a_reader_are_not_held(to: Path) -> None:
    """Two hundred times as many rows as are sampled, each once."""
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for n in range(400):
            read += 1
            yield pa.record_batch({"id": range(10_000 * n, 10_000 * n + 10_000)})

    schema = pa.schema([("id", pa.int64())])
    rows = arrow_rows(pa.RecordBatchReader.from_batches(schema, batches()), "", rowfall.Options())
    assert read <= 3
    del rows
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    assert rowfall.load(reader, to=to, table="t").rows == 4_000_000
    assert ask("SELECT count(), sum(id) FROM t", to) == [(4_000_000, 4_000_000 * 3_999_999 // 2)]


@pytest.mark.long
def test_shards(fleet: Fleet, to: Path) -> None:
    assert rowfall.load(numbers(), to=fleet.to, table="n", batch_id="1").rows == ROWS
    assert rowfall.load(numbers(), to=fleet.to, table="n", batch_id="1").rows == 0


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.9, 1.3, 1.8])
def test_killed_and_called_again(to: Path, tmp_path: Path, seconds: float) -> None:
    script = tmp_path / "load.py"
    script.write_text(
        "import pyarrow as pa, rowfall\n"
        "rows = pa.table({'id': range(3_000_000)})\n"
        "print('begins', flush=True)\n"
        f"rowfall.load(rows, to={str(to)!r}, table='t', batch_id='1')\n"
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=os.environ)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    subprocess.run([sys.executable, script], check=True, timeout=90)
    assert ask("SELECT count(), sum(id) FROM t", to) == [(3_000_000, 3_000_000 * 2_999_999 // 2)]


@pytest.mark.parametrize("build", ["on", "off"])
def test_parts_are_made_of_them(to: Path, build: str) -> None:
    table = pa.table({
        "id": range(20_000), "word": [f"w{n % 70}" for n in range(20_000)],
        "some": [None if n % 3 else n / 7 for n in range(20_000)],
    })  # fmt: skip
    done = rowfall.load(table, to=to, table="t", order_by="(word, id)", build=build)
    assert (done.rows, done.notes) == (20_000, ())
    query = "SELECT count(), sum(id), uniqExact(word), countIf(isNull(some)), sum(some) > 0 FROM t"
    assert ask(query, to) == [(20_000, 199_990_000, 70, 13_333, True)]
    ((path,),) = ask("SELECT any(path) FROM system.parts WHERE active", to)
    # rowfall-decode packs the checksums as LZ4.
    packed = (to / path / "checksums.txt").read_bytes()[len("checksums format version: 4\n") :]
    assert packed[16] == (0x82 if build == "on" else 0x90)
