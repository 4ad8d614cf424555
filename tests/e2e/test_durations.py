"""Durations of Parquet and Arrow, numbers in a unit that the engine does not know."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from e2e.tools import Done, Shell
from lab.clickhouse import ClickHouse

UNITS = {"s": (0, "Second"), "ms": (3, "Millisecond"), "us": (6, "Microsecond"),
         "ns": (9, "Nanosecond")}  # fmt: skip
SHOWN = {"s": "00:00:05", "ms": "00:00:05.005", "us": "00:00:05.005000", "ns": "00:00:05.005000000"}


def put(shell: Shell, name: str, *columns: pa.Array) -> Path:
    """Write a file with the columns a, b, and so on."""
    path = shell.write(name, b"")
    table = pa.table(list(columns), names=list("abcdef"[: len(columns)]))
    if name.endswith("parquet"):
        parquet.write_table(table, path)
    else:
        with ipc.new_file(path, table.schema) as out:
            out.write_table(table)
    return path


def put_durations(shell: Shell, name: str, unit: str, *milliseconds: int | None) -> None:
    """Write a file with the column a, of durations."""
    each = 10 ** UNITS[unit][0] / 1000
    values = [None if one is None else int(one * each) for one in milliseconds]
    put(shell, name, pa.array(values, pa.int64()).cast(pa.duration(unit)))


def select_of(done: Done) -> str:
    """The expressions of the hint of an error."""
    return shlex.split(done.err.partition("--select ")[2].partition("\n")[0])[0]


def test_durations_are_no_seconds(shell: Shell) -> None:
    """5,005 milliseconds were stored as 01:23:25, by --type and in a table with such a column."""
    put_durations(shell, "a.parquet", "ms", 5005, None)
    shell.ok("query", "--write", "CREATE TABLE t (a Nullable(Time64(3))) ORDER BY ()")
    done = shell.ends(2, "load", "a.parquet", "--table", "t")
    assert "a.parquet: the numbers of a are duration[ms] of Arrow" in done.talk
    shell.ok("load", "a.parquet", "--table", "t", "--select", select_of(done))
    assert shell.rows("SELECT toString(a) FROM t ORDER BY 1") == [["00:00:05.005"], [None]]
    # A clock shows 999 hours; what is computed is refused where it does not fit, and not cut off.
    put_durations(shell, "b.parquet", "ms", 3_600_000_000)
    shell.ends(1, "load", "b.parquet", "--table", "t", "--select", select_of(done))


@pytest.mark.long
@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("unit", UNITS)
def test_durations_of_each_unit(shell: Shell, unit: str, form: str) -> None:
    name, (digits, word) = f"a.{form}", UNITS[unit]
    put_durations(shell, name, unit, 5005, None)
    clock = f"Time64({digits})" if digits else "Time"
    moment = f"DateTime64({digits}, 'UTC')" if digits else "DateTime('UTC')"
    shell.ok("query", "--write", f"CREATE TABLE made (a Nullable({clock})) ORDER BY ()")
    shell.ok("query", "--write", f"CREATE TABLE moments (a Nullable({moment})) ORDER BY ()")
    shell.ends(2, "load", name, "--table", "moments")
    for given in (("t", "--type", f"a Nullable({clock})"), ("made",), ("made", "--select", "*")):
        done = shell.ends(2, "load", name, "--table", *given)
        assert f"the numbers of a are duration[{unit}] of Arrow" in done.talk
        assert name in done.talk or "--select" in given
    done = shell.ends(2, "load", name, "--table", "made")
    for table in ("t", "made"):
        shell.ok("load", name, "--table", table, "--select", select_of(done))
        assert shell.rows(f"SELECT toString(a) FROM {table} ORDER BY 1") == [[SHOWN[unit]], [None]]
    done = shell.ends(2, "load", name, "--table", "moments")
    shell.ok("load", name, "--table", "moments", "--select", select_of(done))
    assert shell.row("SELECT toString(max(a)) FROM moments") == [f"1970-01-01 {SHOWN[unit]}"]
    # A type that counts the same takes them as they are, one that counts finer has a hint.
    shell.ok("load", name, "--table", "same", "--type", f"a Nullable(Interval{word})")
    assert shell.row("SELECT max(toInt64(a)) FROM same") == [5005 * 10**digits // 1000]
    if unit != "ns":
        wanted = "Nullable(IntervalNanosecond)"
        done = shell.ends(2, "load", name, "--table", "finer", "--type", f"a {wanted}")
        shell.ok("load", name, "--table", "finer", "--select", select_of(done))
        exact = 5005 * 10**digits // 1000 * 10 ** (9 - digits)
        assert shell.row("SELECT max(toInt64(a)) FROM finer") == [exact]
    if unit != "s":
        done = shell.ends(2, "load", name, "--table", "x", "--type", "a Nullable(IntervalSecond)")
        assert "--select" not in done.talk
    shell.ok("load", name, "--table", "n")
    assert shell.row("SELECT max(toInt64(a)) FROM n") == [5005 * 10**digits // 1000]


@pytest.mark.long
def test_durations_in_lists_and_structs(shell: Shell) -> None:
    kind = pa.duration("ms")
    lists = pa.array([[5005, None], []], pa.list_(kind))
    structs = pa.array([{"x": 5005}, {"x": None}], pa.struct([("x", kind)]))
    put(shell, "l.parquet", lists)
    put(shell, "s.parquet", structs)
    wanted = "a Array(Nullable(Time64(3)))"
    done = shell.ends(2, "load", "l.parquet", "--table", "t", "--type", wanted)
    assert "the numbers of a are duration[ms] of Arrow" in done.talk
    shell.ok("load", "l.parquet", "--table", "t", "--select", select_of(done))
    query = "SELECT arrayMap(v -> ifNull(toString(v), ''), a) FROM t ORDER BY length(a)"
    assert shell.rows(query) == [[[]], [["00:00:05.005", ""]]]
    wanted = "a Tuple(x Nullable(DateTime64(3)))"
    done = shell.ends(2, "load", "s.parquet", "--table", "s", "--type", wanted)
    assert "--skip a" in done.talk


@pytest.mark.long
def test_files_whose_durations_count_other_units(shell: Shell) -> None:
    """The reader puts the numbers of each file into a column: 5 s in ms were 5 ms in us."""
    for at in range(10):  # some of which are in no sample
        put_durations(shell, f"in/{at}.parquet", "ms" if at == 8 else "us", 5005)
    done = shell.ends(1, "load", "in", "--table", "t")
    assert "8.parquet" in done.talk
    assert "a is duration[ms] instead of duration[us]" in done.talk
    assert shell.row("SELECT count(), any(a) FROM t") == [9, 5_005_000]


@pytest.mark.long
@pytest.mark.parametrize("way", ["--pull", "--push", ""])
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_durations_into_a_server(
    shell: Shell, clickhouse: ClickHouse, way: str, decoder: str
) -> None:
    clickhouse.query("CREATE DATABASE IF NOT EXISTS durations")
    clickhouse.query("DROP TABLE IF EXISTS durations.t SYNC")
    clickhouse.query("CREATE TABLE durations.t (a DateTime64(3, 'UTC')) ORDER BY ()")
    put_durations(shell, "a.parquet", "ms", 5005)
    where = ("--to", clickhouse.uri("durations"), "--decoder", decoder)
    where += (way,) if way == "--push" else ()
    done = shell.ends(2, "load", "a.parquet", "--table", "t", *where)
    assert "the numbers of a are duration[ms] of Arrow" in done.talk
    shell.ok("load", "a.parquet", "--table", "t", "--select", select_of(done), *where)
    found: Any = clickhouse.query("SELECT toString(a) FROM durations.t").strip()
    assert found == "1970-01-01 00:00:05.005"


@pytest.mark.long
@pytest.mark.parametrize("to", ["x.duckdb", "iceberg+x"])
def test_durations_into_files(shell: Shell, to: str) -> None:
    put_durations(shell, "a.parquet", "ms", 5005)
    name = () if to.startswith("iceberg") else ("--table", "t")
    given = ("load", "a.parquet", "--to", to.replace("+x", f"+{shell.folder}/lake"), *name)
    done = shell.ends(2, *given, "--type", "a DateTime64(6, 'UTC')")
    shell.ok(*given, "--select", select_of(done))
