"""``rowfall export TABLE FILE``: a table of any source into files, as ``rowfall load`` does it."""

from __future__ import annotations

import csv
import os
import signal
import sqlite3
from pathlib import Path

import duckdb
import pytest
from pyarrow import parquet

from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from lab.seaweed import Seaweed

DATA = "rowfall-data"
pytestmark = pytest.mark.xdist_group("postgresql")


@pytest.fixture
def rows(shell: Shell) -> Shell:
    """Give a folder with the table ``s`` of three rows."""
    shell.write("s.csv", 'id,n\n1,a\n2,b\n3,"c ""x"""\n')
    shell.ok("load", "s.csv")
    return shell


def written(path: Path) -> list[list[str]]:
    """Return the rows of a CSV file, sorted, without its header."""
    with path.open() as file:
        return sorted(csv.reader(file))[:-1]


THREE = [["1", "a"], ["2", "b"], ["3", 'c "x"']]


def test_a_table_of_the_folder_at_hand(rows: Shell) -> None:
    done = rows.ok("export", "s", "out/s.csv", "--verify", "--json").document
    assert (done["rows"], done["outcome"]) == (3, "done")
    assert written(rows.folder / "out/s.csv") == THREE
    assert (rows.folder / "out/.s.csv.rowfall").exists()
    again = rows.ok("export", "s", "out/s.csv")
    # Of rows that were changed or removed it knows nothing, and says so.
    assert "holds all of it as it was read then" in again.talk
    # It is the load of that table: what one has written the other knows, verifies and writes again.
    assert "holds all of it" in rows.ok("load", DATA, "--table", "s", "--to", "out/s.csv").talk
    (rows.folder / "out/s.csv").unlink()
    assert rows.ok("export", "s", "out/s.csv", "--json").document["rows"] == 3
    rows.write("t.csv", "x\n7\n")
    rows.ok("load", "t.csv")
    assert "equal" in rows.ok("verify", done["load_id"]).out


@pytest.mark.parametrize("kind", ["folder", pytest.param("duckdb", marks=pytest.mark.long)])
def test_a_query_that_is_exported_every_night(rows: Shell, kind: str) -> None:
    """Nobody knows whether it gives the same as then: yesterday's file is not kept in silence."""
    at: list[str] = []
    if kind == "duckdb":
        at = ["--from", "d.duckdb"]
        rows.ok("load", "s.csv", "--to", "d.duckdb")
    export = ("export", "--query", "SELECT count(*) AS n FROM s", "n.csv", *at)
    rows.ok(*export)
    assert written(rows.folder / "n.csv") == [["3"]]
    rows.write("more.csv", "id,n\n4,d\n")
    rows.ok("load", "more.csv", "--table", "s", *(["--to", "d.duckdb"] if at else []))
    said = rows.ok(*export, "--verify").talk
    assert "is read again" in " ".join(said.split())
    assert written(rows.folder / "n.csv") == [["4"]]
    # One that somebody has changed stays, and so does the result of another query.
    rows.ends(5, *export, "--where", "n > 7")
    (rows.folder / "n.csv").write_text("mine\n")
    assert "changed since" in rows.ends(5, *export).talk
    assert (rows.folder / "n.csv").read_text() == "mine\n"


@pytest.mark.long
def test_patterns_queries_and_several_files(rows: Shell) -> None:
    rows.write("t.csv", "x\n7\n")
    rows.ok("load", "t.csv")
    many = rows.ok("export", "*", "all/{table}.parquet", "--json").document
    assert {t["source"]: t["rows"] for t in many["tables"]} == {"default.s": 3, "default.t": 1}
    assert parquet.read_table(rows.folder / "all/s.parquet").num_rows == 3
    assert parquet.read_table(rows.folder / "all/t.parquet").to_pylist() == [{"x": 7}]
    rows.ok("export", "--query", "SELECT sum(id) AS total FROM s", "sum.csv")
    assert written(rows.folder / "sum.csv") == [["6"]]
    rows.ok("export", "s", "few.csv", "--select", "n", "--where", "id > 1")
    assert written(rows.folder / "few.csv") == [["b"], ['c "x"']]


def test_names_with_dots_and_slashes(rows: Shell) -> None:
    """In the address of such a table the name is a parameter, and its database another one."""
    for name in ("d.t", "a/b c"):
        rows.ok("query", "--write", f"CREATE TABLE `{name}` ENGINE = MergeTree ORDER BY x AS "
                "SELECT 7 AS x")  # fmt: skip
    rows.ok("export", "d.t", "dot.csv")
    assert written(rows.folder / "dot.csv") == [["7"]]
    many = rows.ok("export", "*", "all/{schema}-{table}.csv", "--json").document
    assert {t["table"]: t["rows"] for t in many["tables"]} == {
        "all/default-d_t.csv": 1, "all/default-a_b c.csv": 1, "all/default-s.csv": 3
    }  # fmt: skip
    rows.ok("export", "s", "{schema}.csv")
    assert written(rows.folder / "default.csv") == THREE


def test_what_is_wrong_is_said_before_anything_is_written(rows: Shell) -> None:
    wrong = rows.ends(4, "export", "ss", "out.csv")
    assert "without a table ss" in wrong.talk
    assert "Did you mean s?" in wrong.talk
    wrong = rows.ends(2, "export", "s", "out.txt")
    assert "out.txt is not a file to write" in wrong.talk
    assert "--to-format" in wrong.talk
    wrong = rows.ends(2, "export", "s", "postgresql://host/db")
    assert "is not a file to write" in wrong.talk
    wrong = rows.ends(2, "export", "s", "out.csv", "--query", "SELECT 1")
    assert "rowfall export --query 'SELECT ...' FILE" in wrong.talk
    wrong = rows.ends(4, "export", "s", "out.csv", "--from", "clickhouse://127.0.0.1:1/x")
    assert "connection refused" in wrong.talk
    assert not list(rows.folder.glob("out*"))
    (rows.folder / "empty").mkdir()
    rows.cli.cwd = rows.folder / "empty"
    wrong = rows.ends(2, "export", "s", "out.csv")
    assert "no data folder ./rowfall-data" in wrong.talk
    assert not list((rows.folder).iterdir())


def test_hints_are_typed(rows: Shell) -> None:
    wrong = rows.ends(2, "export", "s")
    assert "Write rowfall export s s.parquet; rowfall tables lists" in wrong.talk
    rows.ok("export", "s", "s.parquet")
    assert "default.s" in rows.ok("tables").out
    wrong = rows.ends(2, "export", "s", "s.txt")
    assert "--to-format" in wrong.talk
    rows.ok("export", "s", "s.txt", "--to-format", "CSV")
    wrong = rows.ends(2, "unload", "s")
    assert "To write a file: rowfall export TABLE out.parquet." in wrong.talk
    rows.ok("export", "s", "out.parquet")
    rows.ok("export", "--query", "SELECT max(id) AS m FROM s", "m.csv")
    assert written(rows.folder / "m.csv") == [["3"]]


@pytest.mark.long
def test_the_source_may_be_a_connection_or_the_usual_target(rows: Shell) -> None:
    rows.write("rowfall.toml", f'[connections.lake]\nuri = "{rows.folder / DATA}"\n')
    rows.ok("export", "s", "a.csv", "--from", "lake")
    assert written(rows.folder / "a.csv") == THREE
    (rows.folder / DATA).rename(rows.folder / "kept")
    rows.ok("export", "s", "b.csv", env={"ROWFALL_TO": "kept"})
    assert written(rows.folder / "b.csv") == THREE


@pytest.mark.long
def test_files_that_hold_databases(shell: Shell) -> None:
    with sqlite3.connect(shell.folder / "f.db") as base:
        base.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        base.execute("INSERT INTO t VALUES (1, 'x'), (2, NULL)")
    shell.ok("export", "t", "sqlite.csv", "--from", "f.db")
    assert written(shell.folder / "sqlite.csv") == [["1", "x"], ["2", r"\N"]]
    with duckdb.connect(str(shell.folder / "g.duckdb")) as duck:
        duck.execute("CREATE SCHEMA other")
        duck.execute("CREATE TABLE t AS SELECT 7 AS a")
        duck.execute("CREATE TABLE other.t AS SELECT 8 AS a")
    wrong = shell.ends(2, "export", "t", "duck.csv", "--from", "g.duckdb")
    assert "has 2 tables t: main.t, other.t" in wrong.talk
    shell.ok("export", "other.t", "duck.csv", "--from", "g.duckdb")
    assert written(shell.folder / "duck.csv") == [["8"]]


def test_a_database_of_postgresql(shell: Shell, postgresql: PostgresqlServer) -> None:
    name = f"export_{os.getpid()}"
    postgresql.run(
        f"CREATE TABLE {name} AS SELECT i AS id, 'n' || i AS n FROM generate_series(1, 1000) i"
    )
    shell.env["PGPASSWORD"] = postgresql.password
    where = ("--from", postgresql.uri)
    try:
        wrong = shell.ends(2, "export", f"{name}s", "pg.csv", *where)
        assert f"Did you mean {name}" in wrong.talk
        done = shell.ok("export", name, "pg/{n}.csv.gz", "--verify", *where)
        assert "1,000 rows" in done.talk
        read = "SELECT count(), sum(id), max(n) FROM file('{}/pg/*.csv.gz')"
        assert shell.row(read.format(shell.folder)) == [1000, 500500, "n999"]
    finally:
        postgresql.run(f"DROP TABLE {name}")


@pytest.mark.long
def test_a_database_of_mariadb_into_a_bucket(
    shell: Shell, mariadb: MariaDB, s3: Seaweed, bucket: str
) -> None:
    name = f"export_{os.getpid()}"
    mariadb.query(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t AS SELECT 7 AS id, 'x' AS n")
    shell.env |= s3.env
    shell.ok("export", "t", f"s3://{bucket}/t.parquet", "--from", mariadb.uri(name))
    (shell.folder / "t.parquet").write_bytes(s3.get(bucket, "t.parquet"))
    table = parquet.read_table(shell.folder / "t.parquet")
    assert table.to_pylist() == [{"id": 7, "n": "x"}]


@pytest.mark.long
def test_a_server_and_a_kill(shell: Shell, clickhouse: ClickHouse) -> None:
    """A killed export is finished by the same command: no row twice, none missing."""
    name = f"export_{os.getpid()}"
    clickhouse.query(f"CREATE TABLE default.{name} (id UInt64, n String) ENGINE = MergeTree "
                     "ORDER BY id PARTITION BY id % 8")  # fmt: skip
    clickhouse.query(f"INSERT INTO default.{name} SELECT number, toString(number) "
                     "FROM numbers(4000000)")  # fmt: skip
    args = ("export", name, "k/{n}.csv.gz", "--files", "8", "--threads", "1",
            "--from", clickhouse.uri("default"))  # fmt: skip
    process = shell.cli.start(*args)
    wait_until(lambda: any(shell.folder.glob("k/*.csv.gz")), 60, "no file is written")
    assert process.poll() is None, "it was too fast to be killed"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    shell.ok(*args)
    found = shell.row(f"SELECT count(), sum(id), uniqExact(id) FROM "
                      f"file('{shell.folder}/k/*.csv.gz')")  # fmt: skip
    assert found == [4_000_000, 7_999_998_000_000, 4_000_000]
    clickhouse.query(f"DROP TABLE default.{name}")
