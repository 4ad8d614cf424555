"""A data folder as a source: its tables, whatever the target is, while others load into it."""

from __future__ import annotations

import contextlib
import csv
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from lab.seaweed import Seaweed

DATA = "rowfall-data"
STEPPER = Path(__file__).parents[1] / "faults" / "stepper.py"


@pytest.fixture
def rows(shell: Shell) -> Shell:
    """Give a folder with one table ``s`` of three rows."""
    shell.write("s.csv", 'id,n,at\n1,a,2024-01-01\n2,b,2024-01-02\n3,"c ""x""",2024-02-01\n')
    shell.ok("load", "s.csv")
    return shell


def written(path: Path) -> list[list[str]]:
    with path.open() as file:
        return sorted(csv.reader(file))[:-1]  # but the header


def test_into_a_file_and_again(rows: Shell) -> None:
    done = rows.ok("load", f"./{DATA}", "--table", "s", "--to", "out.csv", "--json")
    assert done.document["rows"] == 3
    expected = [["1", "a", "2024-01-01"], ["2", "b", "2024-01-02"], ["3", 'c "x"', "2024-02-01"]]
    assert written(rows.folder / "out.csv") == expected
    again = rows.ok("load", f"./{DATA}", "--table", "s", "--to", "out.csv")
    assert "holds all of it" in again.talk
    # There is only one table.
    rows.ok("load", DATA, "--to", "out.parquet")
    assert rows.row("SELECT count(), max(n) FROM file('out.parquet')") == [3, 'c "x"']


def test_no_table_of_many_goes_into_its_own_folder(rows: Shell) -> None:
    """Where the names of tables name their targets, one of them may be the source."""
    rows.write("t.csv", "x\n7\n")
    rows.ok("load", "t.csv", "--to", "t")
    rows.ok("load", "s.csv", "--to", "t")
    wrong = rows.ends(2, "load", "t", "--tables", "*", "--to", "./{table}")
    assert "is the source and the target of this load" in wrong.talk
    assert rows.row("SELECT count() FROM t", "--to", "t") == [1]
    assert rows.row("SELECT count() FROM s", "--to", "s") == [3]


def test_rows_that_are_deleted_stay_away_and_new_ones_follow(rows: Shell) -> None:
    rows.ok("query", "--write", "DELETE FROM s WHERE id = 2")
    rows.ok("load", DATA, "--to", "other")
    assert rows.rows("SELECT id FROM s ORDER BY id", "--to", "other") == [[1], [3]]
    rows.write("more.csv", "id,n,at\n9,z,2024-03-01\n")
    rows.ok("load", "more.csv", "--table", "s")
    assert rows.ok("load", DATA, "--to", "other", "--json").document["rows"] == 1
    assert rows.rows("SELECT id FROM s ORDER BY id", "--to", "other") == [[1], [3], [9]]
    assert rows.ok("load", DATA, "--to", "other", "--json").document["rows"] == 0
    # Types and key are those of the table.
    look = "SELECT name, type FROM system.columns WHERE table = 's' AND database = 'default'"
    assert rows.rows(look) == rows.rows(look, "--to", "other")


def test_numbers_that_are_used_again_are_not_taken_for_loaded_rows(rows: Shell) -> None:
    rows.ok("load", DATA, "--to", "other")
    rows.ok("query", "--write", "TRUNCATE TABLE s")
    assert "nothing to load" in rows.ok("load", DATA, "--to", "other").talk
    rows.write("n.csv", "id,n,at\n4,d,2024-01-01\n5,e,2024-01-02\n6,f,2024-02-01\n")
    rows.ok("load", "n.csv", "--table", "s")
    assert rows.ok("load", DATA, "--to", "other", "--json").document["rows"] == 3
    assert rows.ok("load", DATA, "--to", "other", "--json").document["rows"] == 0
    assert rows.row("SELECT count(), sum(id) FROM s", "--to", "other") == [6, 21]


def test_of_partitions_only_the_one_that_lost_rows_begins_anew(rows: Shell) -> None:
    rows.write("p.csv", "id,m\n1,1\n2,2\n")
    rows.ok("load", "p.csv", "--table", "p", "--partition-by", "m")
    rows.ok("load", DATA, "--table", "p", "--to", "other")
    rows.ok("query", "--write", "ALTER TABLE p DROP PARTITION 2")
    rows.write("q.csv", "id,m\n3,2\n4,1\n")
    rows.ok("load", "q.csv", "--table", "p")
    done = rows.ok("load", DATA, "--table", "p", "--to", "other", "--json")
    assert done.document["rows"] == 2
    found = rows.rows("SELECT id FROM p ORDER BY id", "--to", "other")
    assert found == [[1], [2], [3], [4]]


def test_rows_that_vanish_without_a_word_are_a_question(rows: Shell) -> None:
    """Somebody else's hands: the last part is taken away as no query of rowfall does it."""
    rows.write("more.csv", "id,n,at\n9,z,2024-03-01\n")
    rows.ok("load", "more.csv", "--table", "s")
    rows.ok("load", DATA, "--to", "other")
    (last,) = (rows.folder / DATA / "store").glob("*/*/all_2_2_0")
    shutil.move(last, rows.folder / "gone")
    wrong = rows.ends(4, "load", DATA, "--to", "other")
    assert "cannot tell which rows" in wrong.talk
    done = rows.ok("load", DATA, "--to", "other", "--replace", "--json")
    assert done.document["rows"] == 3


def test_the_table_is_named(rows: Shell) -> None:
    rows.write("t.csv", "x\n7\n")
    rows.ok("load", "t.csv")
    wrong = rows.ends(2, "load", DATA, "--to", "out.csv")
    assert "a data folder with 2 tables: s, t" in wrong.talk
    assert "--table s" in wrong.talk
    wrong = rows.ends(4, "load", DATA, "--table", "tt", "--to", "out.csv")
    assert "Did you mean t?" in wrong.talk
    wrong = rows.ends(2, "load", DATA, "--table", "t")
    assert "is the source and the target" in wrong.talk
    wrong = rows.ends(2, "load", DATA, "t.csv", "--to", "out.csv")
    assert "one kind of source" in wrong.talk
    wrong = rows.ends(2, "load", DATA, "--table", "t", "--to", "out.csv", "--delimiter", ";")
    assert "--delimiter is for files" in wrong.talk
    assert not (rows.folder / "out.csv").exists()
    rows.ok("load", DATA, "--table", "default.t", "--to", "out.csv")
    assert written(rows.folder / "out.csv") == [["7"]]
    rows.ok("load", DATA, "--query", "SELECT sum(id) AS total FROM s", "--to", "sum.csv")
    assert written(rows.folder / "sum.csv") == [["6"]]
    (rows.folder / "none" / "metadata").mkdir(parents=True)
    (rows.folder / "none" / "rowfall.ledger").touch()
    assert "without a table" in rows.ends(4, "load", "none", "--to", "x.csv").talk


def test_other_databases_of_the_folder(rows: Shell) -> None:
    rows.ok("query", "--write", "CREATE DATABASE `shop-1`")
    rows.ok("query", "--write", "CREATE TABLE `shop-1`.`a.b` ENGINE = MergeTree ORDER BY id "
            "AS SELECT id FROM s")  # fmt: skip
    wrong = rows.ends(2, "load", DATA, "--to", "out.csv")
    assert "s, shop-1.a.b" in wrong.talk
    rows.ok("load", DATA, "--table", "shop-1.a.b", "--to", "out.csv")
    assert written(rows.folder / "out.csv") == [["1"], ["2"], ["3"]]


def test_while_a_load_into_the_folder_runs(rows: Shell) -> None:
    """It reads what is published; the load goes on."""
    loading = rows.cli.start(
        "load", "generate://trips?rows=50000000", "--table", "g", "--threads", "1",
    )  # fmt: skip
    lock = rows.folder / DATA / "rowfall.lock"
    wait_until(lambda: lock.read_text().startswith(str(loading.pid)), 30, "it has no lock")
    try:
        rows.ok("load", DATA, "--table", "s", "--to", "out.csv")
        assert loading.poll() is None
    finally:
        loading.kill()
        loading.communicate()
    assert len(written(rows.folder / "out.csv")) == 3
    assert not list((rows.folder / DATA).glob("rowfall.query-*"))


def test_a_load_that_was_killed_while_its_rows_became_visible(rows: Shell) -> None:
    """The hint's command is what helps."""
    rows.write("more.csv", "id,n,at\n9,z,2024-03-01\n")
    old = rows.folder / "old"
    shutil.copytree(rows.folder / DATA, old, symlinks=True)

    def hurt(number: int) -> list[str]:
        steps = rows.folder / f"steps{number}"
        subprocess.run(
            [sys.executable, STEPPER, steps, str(number), "after", "kill -9 rowfall", "load",
             "more.csv", "--table", "s"],
            cwd=rows.folder, env={**os.environ, "HOME": str(rows.cli.home)}, check=number == 0,
        )  # fmt: skip
        return steps.read_text().splitlines()

    attach = next(n for n, step in enumerate(hurt(0), 1) if "ATTACH PARTITION ALL FROM" in step)
    shutil.rmtree(rows.folder / DATA)
    old.rename(rows.folder / DATA)
    hurt(attach)
    wrong = rows.ends(4, "load", DATA, "--to", "out.csv")
    assert "killed while its rows became visible" in wrong.talk
    assert not (rows.folder / "out.csv").exists()
    rows.ok(*shlex.split(wrong.talk.partition("Bring it to an end first: rowfall ")[2]))
    rows.ok("load", DATA, "--to", "out.csv")
    assert [row[0] for row in written(rows.folder / "out.csv")] == ["1", "2", "3", "9"]


def test_it_is_a_source_like_any_other(rows: Shell) -> None:
    """Columns are chosen, rows filtered, all is planned, and the bound holds."""
    shutil.move(rows.folder / DATA, rows.folder / "it's here")
    plan = rows.ok("plan", "it's here", "--to", "other")
    assert "`at`" in plan.out
    assert not (rows.folder / "other").exists()
    rows.ok("load", "it's here", "--to", "other", "--select", "n", "--where", "id > 1",
            "--memory", "1GiB")  # fmt: skip
    assert rows.rows("SELECT * FROM s ORDER BY 1", "--to", "other") == [["b"], ['c "x"']]


# --- targets and faults ---------------------------------------------------------------------------


def test_into_a_server(rows: Shell, clickhouse: ClickHouse) -> None:
    lake = Lake(rows, clickhouse)
    assert lake.load(DATA)["rows"] == 3
    assert lake.load(DATA)["rows"] == 0
    assert lake.row("SELECT count(), sum(id), max(n) FROM {db}.s") == [3, 6, 'c "x"']


def test_into_postgresql(rows: Shell, postgresql: PostgresqlServer) -> None:
    rows.env["PGPASSWORD"] = postgresql.password
    schema = f"folder{os.getpid()}"
    postgresql.run(f"CREATE SCHEMA {schema}")
    to = ("--to", f"{postgresql.uri}?schema={schema}")
    rows.ok("load", DATA, "--table", "s", *to)
    assert rows.ok("load", DATA, "--table", "s", *to, "--json").document["rows"] == 0
    found = postgresql.ask(f"SELECT id, n, at::text FROM {schema}.s ORDER BY id")
    assert found == [(1, "a", "2024-01-01"), (2, "b", "2024-01-02"), (3, 'c "x"', "2024-02-01")]


def _wait_for_attempts(ledger: Path) -> None:
    """Wait until two attempts are loaded."""

    def some() -> bool:
        if not ledger.exists():
            return False
        with contextlib.closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as db:
            try:
                found = db.execute("SELECT count(*) FROM attempt WHERE state = 'published'")
                return int(found.fetchone()[0]) >= 2
            except sqlite3.OperationalError:  # its tables are not there yet
                return False

    wait_until(some, 60, "nothing is loaded")


def test_a_killed_load_is_finished_by_the_same_command(shell: Shell) -> None:
    shell.ok("load", "generate://trips?rows=400000", "--table", "t", "--partition-by",
             "vehicle_id % 16")  # fmt: skip
    args = ("load", DATA, "--to", "other", "--attempt-bytes", "1K")
    process = shell.cli.start(*args)
    _wait_for_attempts(shell.folder / "other" / "rowfall.ledger")
    process.kill()
    process.communicate()
    done = shell.ok(*args, "--json")
    assert 0 < done.document["rows"] < 400_000
    look = "SELECT count(), sum(cityHash64(*)) FROM t"
    assert shell.row(look) == shell.row(look, "--to", "other")
    assert not list((shell.folder / DATA).glob("rowfall.query-*"))  # of the killed one


def test_copies_of_a_folder_in_an_archive_and_in_a_bucket_are_no_data(
    rows: Shell, s3: Seaweed, bucket: str
) -> None:
    rows.write("in/a.json", '{"id":7}\n')
    shutil.copytree(rows.folder / DATA, rows.folder / "in" / DATA, symlinks=False)
    rows.write("in/.out.csv.rowfall", "{}")
    shutil.make_archive(str(rows.folder / "in"), "tar", rows.folder, "in")
    done = rows.ok("load", "in.tar", "--table", "x")
    assert "rowfall's own" in done.talk
    assert rows.rows("SELECT * FROM x") == [[7]]
    for path in (rows.folder / "in").rglob("*"):
        if path.is_file():
            s3.put(bucket, str(path.relative_to(rows.folder)), path.read_bytes())
    rows.env |= s3.env
    for table, source in (("y", "in/"), ("z", "in/**.json")):
        done = rows.ok("load", f"s3://{bucket}/{source}", "--table", table)
        assert "of rowfall's own (in/rowfall-data/" in done.talk
        assert rows.rows(f"SELECT * FROM {table}") == [[7]]
    wrong = rows.ends(4, "load", f"s3://{bucket}/in/{DATA}/", "--table", "w")
    assert "of rowfall's own" in wrong.talk


# --- many tables ----------------------------------------------------------------------------------


def outcomes(document: dict[str, Any]) -> dict[str, int]:
    return {table["source"]: table["rows"] for table in document["tables"]}


@pytest.fixture
def two(rows: Shell) -> Shell:
    """Give a folder with the tables ``s``, ``shop.t`` and a view."""
    rows.ok("query", "--write", "CREATE DATABASE shop")
    rows.ok("query", "--write", "CREATE TABLE shop.t ENGINE = MergeTree ORDER BY id PARTITION BY "
            "id % 2 AS SELECT id, n FROM s")  # fmt: skip
    rows.ok("query", "--write", "CREATE VIEW v AS SELECT count() FROM s")
    return rows


def test_all_tables_of_a_folder(two: Shell) -> None:
    plan = two.ok("plan", DATA, "--tables", "*", "--to", "other")
    assert "all tables are of one moment" in plan.talk + " ".join(plan.out.split())
    assert not (two.folder / "other").exists()
    many = ("load", DATA, "--tables", "*", "--to", "other", "--json")
    done = two.ok(*many).document
    assert outcomes(done) == {"default.s": 3, "shop.t": 3}
    assert any("1 view left out" in note for note in done["notes"])
    assert two.row("SELECT count(), sum(id) FROM t", "--to", "other") == [3, 6]
    # Together or one by one, it is the same load of each.
    assert outcomes(two.ok(*many).document) == {"default.s": 0, "shop.t": 0}
    for words in ((DATA, "--table", "s"), (f"folder://./{DATA}/shop.t", "--table", "t")):
        one = two.ok("load", *words, "--to", "other", "--json").document
        assert (one["rows"], one["splits_skipped"]) == (0, 1 if "s" in words else 2)
    two.ok("query", "--write", "INSERT INTO shop.t VALUES (9, 'z')")
    assert outcomes(two.ok(*many).document) == {"default.s": 0, "shop.t": 1}
    wrong = two.ends(2, "load", DATA, "--tables", "*")
    assert "is the source and the target" in wrong.talk
    wrong = two.ends(2, "load", DATA, "--tables", "x*", "--to", "other")
    assert "Its tables: default.s, default.v, shop.t" in wrong.talk


@pytest.mark.long
def test_a_table_of_a_folder_has_an_address(two: Shell) -> None:
    at = f"folder://{two.folder / DATA}"
    two.ok("load", f"{at}/shop.t", "--to", "other", "--table", "mine")
    assert two.row("SELECT count() FROM mine", "--to", "other") == [3]
    two.ok("load", f"folder://./{DATA}/s", "--to", "other")
    assert two.row("SELECT count() FROM s", "--to", "other") == [3]
    wrong = two.ends(4, "load", f"{at}/nothing", "--to", "other")
    assert "without a table nothing" in wrong.talk
    wrong = two.ends(2, "load", "folder:///nowhere/t", "--to", "other")
    assert "names no data folder" in wrong.talk
    wrong = two.ends(2, "load", f"{at}/s", "--query", "SELECT 1", "--to", "other")
    assert "exclude each other" in wrong.talk
    wrong = two.ends(2, "load", f"{at}/s", "--tables", "*", "--to", "other")
    assert f"{at} --tables" in wrong.talk


@pytest.mark.long
def test_an_export_of_one_of_several_tables_is_verified_and_gone_on_with(two: Shell) -> None:
    """The record names the table: its folder alone would not."""
    done = two.ok("load", DATA, "--table", "shop.t", "--to", "t.csv", "--json").document
    assert "equal" in two.ok("verify", done["load_id"]).out


@pytest.mark.long
def test_all_tables_into_a_server_and_a_database(
    two: Shell, clickhouse: ClickHouse, postgresql: PostgresqlServer
) -> None:
    lake = Lake(two, clickhouse)
    to = ("--to", clickhouse.uri(lake.database))
    assert outcomes(two.ok("load", DATA, "--tables", "*", *to, "--json").document) == {
        "default.s": 3, "shop.t": 3,
    }  # fmt: skip
    assert lake.row("SELECT count(), sum(id), max(n) FROM {db}.t") == [3, 6, 'c "x"']
    two.env["PGPASSWORD"] = postgresql.password
    schema = f"folders{os.getpid()}"
    postgresql.run(f"CREATE SCHEMA {schema}")
    to = ("--to", f"{postgresql.uri}?schema={schema}")
    two.ok("load", DATA, "--tables", "*", "--table", "of_{table}", *to)
    assert postgresql.ask(f"SELECT sum(id) FROM {schema}.of_t") == [(6,)]
    assert two.ok("load", DATA, "--tables", "*", "--table", "of_{table}", *to, "--json").document[
        "rows"
    ] == 0  # fmt: skip


@pytest.mark.long
def test_a_killed_command_of_many_tables_is_finished_by_the_same(shell: Shell) -> None:
    for n in range(4):
        shell.ok("load", f"generate://trips?rows={(n + 1) * 100_000}&seed={n}", "--table", f"t{n}",
                 "--partition-by", "vehicle_id % 8")  # fmt: skip
    args = ("load", DATA, "--tables", "t*", "--to", "other", "--attempt-bytes", "1K")
    process = shell.cli.start(*args)
    _wait_for_attempts(shell.folder / "other" / "rowfall.ledger")
    process.kill()
    process.communicate()
    done = shell.ok(*args, "--json").document
    assert 0 < done["rows"] < 1_000_000
    for n in range(4):
        look = f"SELECT count(), sum(cityHash64(*)) FROM t{n}"
        assert shell.row(look) == shell.row(look, "--to", "other")
    assert not list((shell.folder / DATA).glob("rowfall.query-*"))
