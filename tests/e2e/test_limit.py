"""Loads of some rows: --limit takes the first ones, --sample a share that is always the same."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import pytest

from e2e.lake import Lake
from e2e.test_to_postgresql import Into
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer
from lab.process import wait_until


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


SUMS = "SELECT count(), uniqExact(id), min(id), max(id) FROM t"


def files(shell: Shell, *rows: int, ends: str = "csv") -> None:
    """Write a0.csv, a1.csv, ... with consecutive ids."""
    first = 0
    for number, count in enumerate(rows):
        lines = "".join(f"{first + n},n{n % 3},{n}.5\n" for n in range(count))
        shell.write(f"a{number}.{ends}", f"id,name,v\n{lines}")
        first += count


def test_the_first_rows_of_the_first_files(shell: Shell) -> None:
    files(shell, 30, 50, 70, 90, 1000)
    report = shell.ok("load", "a*.csv", "--table", "t", "--limit", "100", "--json").document
    assert (report["rows"], report["splits"]) == (100, 4)  # two do not hold them, so four are taken
    assert shell.rows(SUMS) == [[100, 100, 0, 99]]
    again = shell.ok("load", "a*.csv", "--table", "t", "--limit", "100")
    assert "nothing to load" in again.err
    shell.write("a00.csv", "id,name,v\n7,x,1\n")  # listed first, and no reason to load more
    shell.ok("load", "a*.csv", "--table", "t", "--limit", "100")
    assert shell.rows(SUMS) == [[100, 100, 0, 99]]


def test_the_whole_load_asks_before_it_adds_the_rows_again(shell: Shell) -> None:
    files(shell, 30, 50)
    shell.ok("load", "a*.csv", "--table", "t", "--limit", "10")
    for options in ([], ["--limit", "20"], ["--sample", "50%"]):
        done = shell.ends(3, "load", "a*.csv", "--table", "t", *options)
        assert "default.t would get rows twice: of 1 file of this load it holds rows" in done.talk
        assert "changed since" not in done.err
    plan = " ".join(shell.ok("plan", "a*.csv", "--table", "t").out.split())
    assert "It would fail: default.t would get rows twice" in plan
    shell.write("b.csv", "id,name,v\n500,x,1\n")
    shell.ok("load", "b.csv", "--table", "t")  # another file is nobody's business
    (line,) = [text for text in done.err.splitlines() if "To be there twice" in text]
    words = shlex.split(line.partition(": rowfall ")[2])
    assert words[0] == "load"
    assert "--force-append" in words
    shell.ok("load", "a*.csv", "--table", "t", "--force-append")
    assert shell.rows(SUMS) == [[91, 81, 0, 500]]


def test_some_rows_of_what_is_loaded_already(shell: Shell) -> None:
    files(shell, 30)
    shell.ok("load", "a0.csv", "--table", "t")
    for option in (["--limit", "3"], ["--sample", "50%"]):
        done = shell.ends(3, "load", "a0.csv", "--table", "t", *option)
        assert "it holds rows already, with all of their rows (" in done.talk
    shell.ok("load", "a0.csv", "--table", "t", "--limit", "3", "--replace")
    assert shell.rows(SUMS) == [[3, 3, 0, 2]]
    shell.ends(3, "load", "a0.csv", "--table", "t")  # also of a table that was replaced


def test_no_row_behind_the_limit_is_converted(shell: Shell) -> None:
    rows = "".join(f"{n}\n" for n in range(70_000))
    shell.write("a.csv", f"id\n{rows}x\n{rows}")
    shell.ok("load", "a.csv", "--table", "t", "--schema", "id Int64", "--limit", "70000")
    assert shell.rows("SELECT count(), uniqExact(id) FROM t") == [[70_000, 70_000]]
    done = shell.ends(1, "load", "a.csv", "--table", "u", "--schema", "id Int64", "--limit",
                      "70001")  # fmt: skip
    assert "line 70002" in done.err


def test_a_condition_comes_before_the_limit(shell: Shell) -> None:
    files(shell, 30, 50, 70)
    shell.ok("load", "a*.csv", "--table", "t", "--where", "id >= 25", "--select", "id",
             "--limit", "20")  # fmt: skip
    assert shell.rows(SUMS) == [[20, 20, 25, 44]]


def test_stdin_generators_and_exports(shell: Shell) -> None:
    files(shell, 30, 50)
    text = (shell.folder / "a1.csv").read_text()
    shell.ok("load", "-", "--table", "p", "--limit", "7", stdin=text)
    shell.ok("load", "generate://trips?rows=1e9", "--table", "g", "--limit", "5")
    assert shell.rows("SELECT count() FROM g") == [[5]]
    shell.ok("load", "a*.csv", "--to", "out.csv", "--limit", "33")
    assert len((shell.folder / "out.csv").read_text().splitlines()) == 34
    done = shell.ok("load", "a*.csv", "--to", "out.csv", "--limit", "33")
    assert "holds all of it" in done.err


def test_a_share_of_all_files(shell: Shell) -> None:
    files(shell, 3000, 3000, 3000)
    shell.ok("load", "a*.csv", "--table", "t", "--sample", "10%")
    ((rows, ids, *_),) = shell.rows(SUMS)
    assert rows == ids
    assert 700 < rows < 1100
    spread = shell.rows("SELECT count() FROM t GROUP BY intDiv(id, 3000)")
    assert len(spread) == 3
    assert min(n for (n,) in spread) > 200
    # The same ones from another format, in other pieces, by another reader.
    shell.ok("load", "a*.csv", "--to", "all.parquet")
    shell.ok("load", "all.parquet", "--table", "u", "--sample", "10 %", "--threads", "1")
    assert shell.rows("SELECT sum(id) FROM t") == shell.rows("SELECT sum(id) FROM u")
    assert "nothing to load" in shell.ok("load", "a*.csv", "--table", "t", "--sample", "10%").err
    files(shell, 3000, 3000, 3000, 3000)
    again = shell.ok("load", "a3.csv", "--table", "t", "--sample", "10%", "--json").document
    assert again["rows"] > 200  # a file that came since


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample", "0%"], "'0%' is not a share of the rows"),
        (["--sample", "101%"], "'101%' is not a share of the rows"),
        (["--sample", "x"], "'x' is not a share of the rows"),
        (["--limit", "0"], "invalid value for '--limit'"),
        (["--limit", "5", "--sample", "1%"], "--limit and --sample exclude each other"),
        (["--limit", "5", "--follow"], "--limit and --follow exclude each other"),
        (["--nrows", "5"], "It is --limit N, for the first rows, or --sample 1% of all."),
    ],
)
def test_what_makes_no_sense(shell: Shell, options: list[str], message: str) -> None:
    files(shell, 3)
    assert message in shell.ends(2, "load", "a0.csv", "--table", "t", *options).err


@pytest.mark.long
@pytest.mark.parametrize("how", ["--push", "--pull"])
def test_into_a_server(lake: Lake, how: str) -> None:
    files(lake.shell, 30, 50, 70)
    options = [how] if how == "--push" else []
    assert lake.load("a*.csv", "--table", "t", "--limit", "60", *options)["rows"] == 60
    assert lake.rows("SELECT count(), uniqExact(id), max(id) FROM {db}.t") == [[60, 60, 59]]
    done = lake.ends(3, "load", "a*.csv", "--table", "t")
    assert "would get rows twice" in done.err
    lake.load("a*.csv", "--table", "s", "--sample", "30%", *options)
    ((rows,),) = lake.rows("SELECT count() FROM {db}.s")
    assert 20 < rows < 70
    text = (lake.shell.folder / "a1.csv").read_text()
    lake.ok("load", "-", "--table", "p", "--limit", "7", stdin=text)
    assert lake.rows("SELECT count() FROM {db}.p") == [[7]]


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
def test_from_and_into_postgresql(shell: Shell, postgresql: PostgresqlServer) -> None:
    into = Into(shell, postgresql)
    into.do("CREATE TABLE {s}.k (id bigint PRIMARY KEY, name text)",
            "INSERT INTO {s}.k SELECT n, 'n' || n FROM generate_series(1, 50000) n")  # fmt: skip
    source = f"{postgresql.uri}/k?schema={into.schema}"
    shell.ok("load", source, "--table", "t", "--limit", "1234")
    assert shell.rows(SUMS) == [[1234, 1234, 1, 1234]]
    into.do("INSERT INTO {s}.k VALUES (60000, 'x')")
    assert "loaded already" in shell.ok("load", source, "--table", "t", "--limit", "1234").err
    assert "would get rows twice" in shell.ends(3, "load", source, "--table", "t").err
    shell.ok("load", source, "--table", "u", "--sample", "10%")
    ((rows,),) = shell.rows("SELECT count() FROM u")
    assert 4_500 < rows < 5_500
    files(shell, 30, 50)
    into.ends(0, "load", "a*.csv", "--table", "t", "--limit", "40")
    assert into.ask("SELECT count(*), max(id) FROM {s}.t") == [(40, 39)]
    assert "would get rows twice" in into.ends(3, "load", "a*.csv", "--table", "t").err
    into.ends(0, "load", "a*.csv", "--table", "u", "--sample", "50%")
    assert 20 < into.ask("SELECT count(*) FROM {s}.u")[0][0] < 60


@pytest.mark.long
def test_into_a_file_of_duckdb(shell: Shell) -> None:
    files(shell, 30, 50)
    for _ in range(2):
        shell.ok("load", "a*.csv", "--to", "x.duckdb", "--table", "t", "--limit", "40")
    assert (
        "would get rows twice"
        in shell.ends(3, "load", "a*.csv", "--to", "x.duckdb", "--table", "t").err
    )
    report = shell.ok("load", "duckdb:///x.duckdb/t", "--table", "d", "--json").document
    assert report["rows"] == 40


@pytest.mark.long
@pytest.mark.parametrize("option", [("--limit", "2500"), ("--sample", "40%")])
def test_a_killed_load_goes_on_with_the_same_rows(
    shell: Shell, tmp_path: Path, option: tuple[str, str]
) -> None:
    files(shell, *[1000] * 6)
    command = ("load", "a*.csv", "--table", "t", "--attempt-bytes", "1KB", *option)
    process = shell.cli.start(*command)
    ledger = shell.folder / "rowfall-data/rowfall.ledger"
    wait_until(lambda: ledger.exists() or process.poll() is not None, 30, "the load to begin")
    process.send_signal(signal.SIGKILL)
    process.wait()
    shell.ok(*command)
    shell.ok("load", "a*.csv", "--table", "u", *option)
    assert shell.rows(SUMS) == shell.rows(SUMS.replace("FROM t", "FROM u"))
