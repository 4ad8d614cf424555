"""rowfall undo takes exactly the rows of one load out again, or changes nothing."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from e2e.lake import Lake
from e2e.test_to_postgresql import Into
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer
from rowfall.ledger.leases import this_process

SUMS = "SELECT count(), uniqExact(id), sum(id) FROM t"
PART = "SELECT count() FROM system.detached_parts"


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def files(shell: Shell, count: int = 3, rows: int = 100) -> None:
    for number in range(count):
        lines = "".join(f"{rows * number + n},{n % 3}\n" for n in range(rows))
        shell.write(f"a{number}.csv", f"id,k\n{lines}")


def load(shell: Shell, *args: str) -> str:
    """The id of a load into t."""
    found = shell.ok("load", *args, "--table", "t", "--json").document
    return str(found["load_id"])


def test_one_load_of_three_and_its_files_again(shell: Shell) -> None:
    files(shell)
    load(shell, "a0.csv", "--partition-by", "k")
    second = load(shell, "a1.csv")
    load(shell, "a2.csv")
    shown = shell.ok("undo", second, "--dry-run", "--json").document
    assert (shown["rows"], shown["parts"], shown["done"], shown["by"]) == (100, 3, False, "parts")
    asked = shell.ends(2, "undo", second)
    assert f"rowfall undo {second[:8]} --yes" in asked.err
    assert shell.rows(SUMS) == [[300, 300, sum(range(300))]]
    done = shell.ok("undo", second[:8], "--yes")
    assert "100 rows of load" in done.err
    rest = [200, 200, sum(range(100)) + sum(range(200, 300))]
    assert shell.rows(SUMS) == [rest]
    assert shell.rows(PART) == [[0]]
    assert "undone" in shell.ok("status").out
    assert "was undone or forgotten" in shell.ends(2, "undo", second, "--yes").talk
    load(shell, "a*.csv")
    assert shell.rows(SUMS) == [[300, 300, sum(range(300))]]
    load(shell, "a*.csv")
    assert shell.rows(SUMS) == [[300, 300, sum(range(300))]]


@pytest.mark.parametrize("change", ["OPTIMIZE TABLE t FINAL", "DELETE FROM t WHERE id = 3"])
def test_parts_that_were_merged_or_changed_are_not_guessed(shell: Shell, change: str) -> None:
    files(shell)
    first = load(shell, "a0.csv")
    load(shell, "a1.csv")
    shell.ok("query", "--write", change)
    before = shell.rows(SUMS)
    done = shell.ends(3, "undo", first, "--yes")
    assert "of their 1 part 0 are left as they were" in done.talk
    assert "--add-column file=_path" in done.err
    assert shell.rows(SUMS) == before
    again = shell.ok("load", "a0.csv", "--table", "t")
    assert "nothing to load" in again.err


def test_the_column_with_the_names_of_files(shell: Shell) -> None:
    files(shell)
    first = load(shell, "a0.csv", "a1.csv", "--add-column", "file=_path")
    second = load(shell, "a2.csv", "--add-column", "file=_path")
    shell.ok("query", "--write", "OPTIMIZE TABLE t FINAL")
    shown = shell.ok("undo", first, "--dry-run").err
    assert "(by file)" in shown
    shell.ok("undo", first, "--yes")
    assert shell.rows(SUMS) == [[100, 100, sum(range(200, 300))]]
    load(shell, "a*.csv", "--add-column", "file=_path")
    assert shell.rows(SUMS) == [[300, 300, sum(range(300))]]
    shell.ok("query", "--write", "INSERT INTO t SELECT * FROM t WHERE id = 250")
    shell.ok("query", "--write", "OPTIMIZE TABLE t FINAL")
    done = shell.ends(3, "undo", second, "--yes")
    assert "101 rows have the names of its files in file, and it has brought 100" in done.talk
    assert shell.rows("SELECT count() FROM t") == [[301]]


def test_a_load_of_a_file_that_another_one_has_loaded_too(shell: Shell) -> None:
    files(shell)
    first = load(shell, "a0.csv", "--add-column", "file=_path")
    load(shell, "a0.csv", "--add-column", "file=_path", "--force")
    shell.ok("query", "--write", "OPTIMIZE TABLE t FINAL")
    done = shell.ends(3, "undo", first, "--yes")
    assert "has brought rows of the same files" in done.talk or "rows have the names" in done.talk
    assert shell.rows("SELECT count() FROM t") == [[200]]


@pytest.mark.parametrize("option", [("--replace",), ("--upsert", "id")])
def test_what_has_taken_the_place_of_other_rows(shell: Shell, option: tuple[str, ...]) -> None:
    files(shell)
    load(shell, "a0.csv")
    second = load(shell, "a1.csv", *option)
    done = shell.ends(3, "undo", second, "--yes")
    assert f"with {option[0]} they have taken the place of others" in done.talk


def test_atomic_loads_and_limits(shell: Shell) -> None:
    files(shell)
    load(shell, "a0.csv")
    second = load(shell, "a1.csv", "a2.csv", "--atomic", "--attempt-bytes", "1KB")
    shell.ok("undo", second, "--yes")
    assert shell.rows(SUMS) == [[100, 100, sum(range(100))]]
    limited = load(shell, "a1.csv", "--limit", "7")
    asked = shell.ends(3, "load", "a1.csv", "--table", "t")
    assert f"rowfall undo {limited[:8]} --yes" in asked.err
    shell.ok("undo", limited[:8], "--yes")
    load(shell, "a*.csv")
    assert shell.rows(SUMS) == [[300, 300, sum(range(300))]]


def test_the_command_that_is_named_knows_the_folder(shell: Shell) -> None:
    """A load is known by its own target alone: without it "no loads match" was the answer."""
    files(shell)
    load = ("load", "a1.csv", "--table", "t", "--to", "my data")
    shell.ok(*load, "--limit", "7")
    said = shell.ends(3, *load).err
    command = next(line for line in said.splitlines() if "rowfall undo" in line)
    _, undo = command.split("first: rowfall ")
    shell.ok(*shlex.split(undo))
    shell.ok(*load)


def test_views_are_asked_about(shell: Shell) -> None:
    files(shell)
    shell.ok(
        "query", "--write", "CREATE TABLE t (id Int64, k Int64) ENGINE = MergeTree ORDER BY id"
    )
    shell.ok("query", "--write", "CREATE TABLE s (k Int64, n UInt64) ENGINE = MergeTree ORDER BY k")
    shell.ok("query", "--write", "CREATE MATERIALIZED VIEW v TO s AS SELECT k, count() AS n FROM t "
             "GROUP BY k")  # fmt: skip
    load(shell, "a0.csv")
    second = load(shell, "a1.csv")
    total = "SELECT (SELECT count() FROM t), (SELECT sum(n) FROM s)"
    assert shell.rows(total) == [[200, 200]]
    done = shell.ends(3, "undo", second, "--yes")
    assert "views have made rows of them for default.s" in done.talk
    assert "--views" in done.err
    assert shell.rows(total) == [[200, 200]]
    assert "default.s" in shell.ok("undo", second, "--views", "--yes").talk
    assert shell.rows(total) == [[100, 100]]


def test_what_cannot_be_undone(shell: Shell) -> None:
    files(shell)
    assert "no loads match" in shell.ends(2, "undo", "0123", "--yes").err
    first = load(shell, "a0.csv")
    shell.ok("query", "--write", "DROP TABLE t")
    assert "dropped or replaced" in shell.ends(3, "undo", first, "--yes").talk
    shell.ok("load", "a0.csv", "--to", "out.csv")
    done = shell.ends(2, "undo", "last", "--to", "out.csv", "--yes")
    assert "cannot be taken out again" in done.talk


def test_a_load_that_has_not_ended(shell: Shell) -> None:
    files(shell)
    first = load(shell, "a0.csv")
    with closing(sqlite3.connect(shell.folder / "rowfall-data/rowfall.ledger")) as ledger:
        ledger.execute("UPDATE load SET state = 'running', owner = ?", (this_process(),))
        ledger.commit()
        assert f"rowfall status {first[:8]}" in shell.ends(3, "undo", first, "--yes").err
        shell.ok("status", first[:8])
        ledger.execute("UPDATE load SET state = 'done', owner = ''")
        ledger.execute("UPDATE attempt SET state = 'started'")
        ledger.commit()
    assert f"rowfall resume {first[:8]}" in shell.ends(3, "undo", first, "--yes").err
    shell.run("resume", first[:8])
    assert shell.rows("SELECT count() FROM t") == [[100]]


# Ends the process before or after a statement or a line of the ledger: the n-th of these.
KILLER = """
import os, signal, sys
from rowfall.ledger import Ledger
from rowfall.systems.clickhouse.embedded import Embedded
left = [int(sys.argv[1])]
def killing(function, counts):
    def run(self, *args, **keywords):
        if counts(*args):
            left[0] -= 1
            if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)
        found = function(self, *args, **keywords)
        if counts(*args):
            left[0] -= 1
            if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)
        return found
    return run
for name in ("step", "forget", "end"):
    setattr(Ledger, name, killing(getattr(Ledger, name), lambda *_: True))
Embedded.run = killing(Embedded.run, lambda s, *_: "ALTER TABLE" in str(s.sql))
from rowfall.cli import main
main(["undo", sys.argv[2], "--yes"])
"""


@pytest.mark.long
@pytest.mark.parametrize("at", range(1, 15))
@pytest.mark.parametrize("by", ["parts", "column"])
def test_a_kill_at_each_step(shell: Shell, by: str, at: int) -> None:
    files(shell)
    column = ["--add-column", "file=_path"]
    load(shell, "a0.csv", "--partition-by", "k", *column)
    victim = load(shell, "a1.csv", *column)
    load(shell, "a2.csv", *column)
    if by == "column":
        shell.ok("query", "--write", "OPTIMIZE TABLE t FINAL")
    process = subprocess.run(
        [sys.executable, "-c", KILLER, str(at), victim], cwd=shell.folder, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(shell.cli.home)},
    )  # fmt: skip
    assert process.returncode == -signal.SIGKILL or at > 10
    done = shell.run("load", "a1.csv", "--table", "t", *column)
    if done.code == 3:  # some of it is gone: nobody loads over it
        assert f"rowfall undo {victim[:8]} --yes" in done.err
        shell.ok("undo", victim, "--yes")
        assert shell.rows(SUMS) == [[200, 200, sum(range(100)) + sum(range(200, 300))]]
        load(shell, "a1.csv", *column)
    assert shell.rows(SUMS) == [[300, 300, sum(range(300))]]
    assert shell.rows(PART) == [[0]]


@pytest.mark.long
def test_a_server(lake: Lake) -> None:
    files(lake.shell)
    for name in ("a0.csv", "a1.csv", "a2.csv"):
        lake.load(name, "--table", "t")
    ids = [r["load_id"] for r in lake.ok("status", "--json").document["loads"]]
    lake.ok("undo", ids[1], "--yes")
    sums = SUMS.replace("FROM t", "FROM {db}.t")
    assert lake.rows(sums) == [[200, 200, sum(range(100)) + sum(range(200, 300))]]
    lake.load("a*.csv", "--table", "t")
    assert lake.rows(sums) == [[300, 300, sum(range(300))]]
    lake.do("ALTER TABLE {db}.t DELETE WHERE id = 203 SETTINGS mutations_sync = 2")
    assert "merged or changed" in lake.ends(3, "undo", ids[0], "--yes").talk


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
def test_postgresql(shell: Shell, postgresql: PostgresqlServer) -> None:
    into = Into(shell, postgresql)
    files(shell)
    column = ["--add-column", "file=_path", "--table", "t"]
    for name in ("a0.csv", "a1.csv"):
        into.ends(0, "load", name, *column)
    into.ends(0, "undo", "last", "--yes")
    assert into.ask("SELECT count(*), max(id) FROM {s}.t") == [(100, 99)]
    into.ends(0, "load", "a*.csv", *column)
    assert into.ask("SELECT count(*), count(DISTINCT id) FROM {s}.t") == [(300, 300)]
    into.do("UPDATE {s}.t SET file = 'x' WHERE id = 150")
    assert "199 rows have the names" in into.ends(3, "undo", "last", "--yes").talk
    into.ends(0, "load", "a0.csv", "--table", "u")
    assert "nothing tells them from others" in into.ends(3, "undo", "last", "--yes").talk
