"""Files of DuckDB as sources and targets: which table, types, conflicts, refusals, commands."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from contract.values import duckdb_at
from e2e.following import Follower, put
from e2e.tools import Shell
from faults.bombs import measure, rowfall
from rowfall import api
from rowfall.engines import file_database
from rowfall.run import follow


@pytest.fixture
def file(shell: Shell) -> Path:
    with duckdb_at(shell.folder / "shop.duckdb") as do:
        do("CREATE SEQUENCE numbers")
        do("CREATE TABLE orders (id BIGINT PRIMARY KEY DEFAULT nextval('numbers'), name VARCHAR)")
        do("INSERT INTO orders (name) SELECT 'x' || n FROM generate_series(1, 1000) AS g(n)")
    return shell.folder / "shop.duckdb"


def test_the_only_table_of_a_file(shell: Shell, file: Path) -> None:
    """A later run loads what has come: the key grows."""
    assert shell.ok("load", "shop.duckdb", "--json").document["rows"] == 1000
    assert shell.ok("load", "duckdb:///shop.duckdb", "--table", "shop", "--json").document[
        "rows"] == 0  # fmt: skip
    with duckdb_at(file) as do:
        do("INSERT INTO orders (name) VALUES ('new'), ('newer')")
    assert shell.ok("load", "shop.duckdb", "--json").document["rows"] == 2
    found = shell.ok("query", "SELECT count(), uniqExact(id), max(id) FROM shop", "--format", "TSV")
    assert found.out.split() == ["1002", "1002", "1002"]


def test_what_is_no_table_of_a_file(shell: Shell, file: Path) -> None:
    """Each hint names what loads it."""
    assert "as a local file: rowfall load " in shell.ends(4, "load", "*.duckdb").talk
    with duckdb_at(file) as do:
        do("CREATE TABLE sales (id INT, took INTERVAL)")
        do("INSERT INTO sales VALUES (1, INTERVAL 2 HOUR)")
    done = shell.ends(2, "load", "shop.duckdb")
    assert "has 2 tables" in done.talk
    words = shlex.split(done.err.partition("Name one of them: ")[2].replace(",", ""))
    done = shell.ends(4, "load", words[1])
    assert "no column of ClickHouse is like took INTERVAL" in done.talk
    cast = shlex.split(done.err.partition("rowfall load ")[2])
    shell.ok("load", *cast)
    assert shell.ok("query", "SELECT * FROM sales", "--format", "TSV").out == "1\t02:00:00\n"
    for text, code, said in (
        (f"duckdb://{file}/sale", 4, "Did you mean sales?"),
        (f"duckdb://{file}/sales?tabel=x", 2, "Did you mean table?"),
        (f"duckdb://{file}/orders?key=name", 2, "Such are: id."),
        ("duckdb://host/shop.duckdb", 2, "names no file"),
        ("duckdb:///no/where.duckdb", 4, "Check the path."),
    ):
        assert said in shell.ends(code, "load", text, "--to", "null:").talk
    (shell.folder / "half.duckdb").write_bytes(file.read_bytes()[:3000])
    assert "half.duckdb: Could not read" in shell.ends(4, "load", "half.duckdb").talk


# --- as a target ----------------------------------------------------------------------------------


def ask(shell: Shell, query: str, file: str = "into.duckdb") -> list[tuple[Any, ...]]:
    with duckdb_at(shell.folder / file) as do:
        return do(query).fetchall()


def test_types_of_a_new_table(shell: Shell) -> None:
    """Written by rowfall-decode and by the engine: the same types, and the same values."""
    types = (
        "a UInt8", "b Int128", "c Nullable(UInt64)", "d Decimal(20, 4)", "e DateTime",
        "f DateTime64(3)", "g DateTime64(9)", "h Enum8('x' = 1, 'it\\'s' = 2)", "i UUID",
        "j Bool", "k Date", "l FixedString(4)", "m IPv4", "n Float32", "o Nullable(String)",
    )  # fmt: skip
    row = ("200,-170141183460469231731687303715884105728,18446744073709551615,-1.2345,"
           "2024-01-01 00:00:01,2024-01-01 00:00:00.123,2024-01-01 00:00:00.123456789,it's,"
           "123e4567-e89b-12d3-a456-426614174000,true,2024-02-29,ab,10.0.0.1,0.1,é")  # fmt: skip
    names = ",".join(text.partition(" ")[0] for text in types)
    nulls = row.replace("18446744073709551615", "").removesuffix("é")
    shell.write("t.csv", f"{names}\n{row}\n{nulls}\n")
    given = [word for text in types for word in ("--type", text)]
    for table, more in (("decoded", ()), ("engine", ("--decoder", "never"))):
        shell.ok("load", "t.csv", "--to", "into.duckdb", "--table", table, *given, *more)
        made = dict(ask(shell, f"SELECT column_name, data_type FROM duckdb_columns() WHERE "
                               f"table_name = '{table}'"))  # fmt: skip
        assert made == {
            "a": "UTINYINT", "b": "HUGEINT", "c": "UBIGINT", "d": "DECIMAL(20,4)",
            "e": "TIMESTAMP", "f": "TIMESTAMP", "g": "TIMESTAMP_NS", "h": "ENUM('x', 'it''s')",
            "i": "UUID", "j": "BOOLEAN", "k": "DATE", "l": "BLOB", "m": "VARCHAR", "n": "FLOAT",
            "o": "VARCHAR",
        }  # fmt: skip
        shell.ok("load", "t.csv", "--to", "into.duckdb", "--table", table, *given, "--force")
    texts = ", ".join(f"{name}::VARCHAR" for name in names.split(","))
    found = [ask(shell, f"SELECT {texts} FROM {table} ORDER BY c") for table in
             ("decoded", "engine")]  # fmt: skip
    assert found[0] == found[1]
    assert len(found[0]) == 4
    assert found[0][0][:8] == (
        "200", "-170141183460469231731687303715884105728", "18446744073709551615", "-1.2345",
        "2024-01-01 00:00:01", "2024-01-01 00:00:00.123", "2024-01-01 00:00:00.123456789", "it's",
    )  # fmt: skip
    assert found[0][0][11] == "ab\\x00\\x00"
    assert found[0][-1][2] is None


def test_conflicts(shell: Shell) -> None:
    with duckdb_at(shell.folder / "into.duckdb") as do:
        do("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR NOT NULL)")
        do("INSERT INTO t VALUES (1, 'old'), (2, 'old')")
    shell.write("a.csv", "id,name\n2,new\n3,first\n3,last\n")
    to = ("--to", "into.duckdb", "--table", "t")
    done = shell.ends(3, "load", "a.csv", *to)
    assert "holds rows" in done.talk
    done = shell.ends(1, "load", "a.csv", *to, "--force-append")
    assert "a.csv line" in done.talk
    assert "--on-conflict skip" in done.talk
    assert ask(shell, "SELECT * FROM t ORDER BY id") == [(1, "old"), (2, "old")]
    shell.ok("load", "a.csv", *to, "--on-conflict", "skip")
    assert ask(shell, "SELECT * FROM t ORDER BY id") == [(1, "old"), (2, "old"), (3, "first")]
    shell.ok("load", "a.csv", *to, "--on-conflict", "replace", "--force")
    assert ask(shell, "SELECT * FROM t ORDER BY id") == [(1, "old"), (2, "new"), (3, "last")]
    with duckdb_at(shell.folder / "into.duckdb") as do:
        do("CREATE TABLE c (id INT CHECK (id < 3), name VARCHAR)")
    done = shell.ends(1, "load", "a.csv", "--to", "into.duckdb", "--table", "c")
    assert "a.csv" in done.talk
    assert "CHECK constraint failed" in done.talk


@pytest.mark.long
def test_replace_loads_ranges_of_a_table_anew(shell: Shell, file: Path) -> None:
    """The record of the old rows has the same ranges, or some that overlap."""
    to = ("--to", "into.duckdb", "--table", "c", "--replace", "--json")
    for name, more in (("x1", 0), ("x1", 0), ("x1", 5), ("y", 0)):
        with duckdb_at(file) as do:
            do(f"INSERT INTO orders (name) SELECT 'z' FROM range({more})")
            if name == "y":
                do("UPDATE orders SET name = 'y' WHERE id = 1")
        done = shell.ok("load", "shop.duckdb", *to).document
        with duckdb_at(file) as do:
            ((rows,),) = do("SELECT count(*) FROM orders").fetchall()
        assert done["rows"] == rows
        found = ask(shell, "SELECT count(*), count(DISTINCT id), min(name) "
                    "FILTER (WHERE id = 1) FROM c")  # fmt: skip
        assert found == [(rows, rows, name)]


def test_replace_exchanges_the_rows_and_keeps_what_hangs_on_the_table(shell: Shell) -> None:
    with duckdb_at(shell.folder / "into.duckdb") as do:
        do('CREATE TABLE "a (b" (id INT PRIMARY KEY, name VARCHAR, n INT DEFAULT 7)')
        do('CREATE INDEX by_name ON "a (b" (name)')
        do("COMMENT ON TABLE \"a (b\" IS 'theirs'")
        do("COMMENT ON COLUMN \"a (b\".name IS 'it''s a name'")
        do('CREATE VIEW seen AS SELECT * FROM "a (b"')
        do("INSERT INTO \"a (b\" VALUES (9, 'old', 1)")
    plain = ("--to", "into.duckdb", "--table", "a (b", "--on-missing-column", "default")
    to = (*plain, "--replace")
    for text in ("id,name\n1,x\n2,y\n", "id,name\n2,z\n"):
        shell.write("a.csv", text)
        shell.ok("load", "a.csv", *to)
    assert ask(shell, "SELECT * FROM seen") == [(2, "z", 7)]
    with duckdb_at(shell.folder / "into.duckdb") as do:
        found = do("SELECT comment FROM duckdb_tables() WHERE table_name = 'a (b'").fetchall()
        assert found[0][0].startswith("theirs [rowfall ")
        assert found[0][0].count("rowfall") == 1
        found = do("SELECT comment FROM duckdb_columns() WHERE column_name = 'name' "
                   "AND table_name = 'a (b'")  # fmt: skip
        assert found.fetchall() == [("it's a name",)]
        assert do("SELECT index_name FROM duckdb_indexes()").fetchall() == [("by_name",)]
        with pytest.raises(Exception, match="Duplicate key"):
            do("INSERT INTO \"a (b\" VALUES (2, 'twice', 1)")
        assert do("SELECT count(*) FROM _rowfall_loaded").fetchall() == [(1,)]
        do('CREATE TABLE child (parent INT REFERENCES "a (b"(id))')
    # What the rows were replaced by counts as loaded, and nothing else does.
    assert "already" in shell.ok("load", "a.csv", *plain).talk
    shell.write("a.csv", "id,name\n3,no\n")
    done = shell.ends(5, "load", "a.csv", *to)
    assert "foreign key" in done.talk
    assert ask(shell, "SELECT * FROM seen") == [(2, "z", 7)]
    assert "_rowfall_gathers_" in shell.ok("clean", "--to", "into.duckdb", "--dry-run").out
    shell.ok("clean", "--to", "into.duckdb", "--yes")
    with duckdb_at(shell.folder / "into.duckdb") as do:
        found = do("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
        assert found == [("_rowfall_loaded",), ("a (b",), ("child",)]


def test_upsert_goes_by_columns_that_need_no_constraint(shell: Shell) -> None:
    to = ("--to", "into.duckdb", "--table", "t")
    shell.write("old.csv", "id,day,name\n1,1,a\n1,2,b\n2,1,c\n2,1,d\n,1,e\n")
    shell.ok("load", "old.csv", *to)
    shell.write("new.csv", "id,day,name\n2,1,C\n3,1,F\n")
    shell.ok("load", "new.csv", *to, "--upsert", "id, day")
    rows = [(1, 1, "a"), (1, 2, "b"), (2, 1, "C"), (3, 1, "F"), (None, 1, "e")]
    asked = "SELECT * FROM t ORDER BY id NULLS LAST, day"
    assert ask(shell, asked) == rows
    assert "already" in shell.ok("load", "*.csv", *to, "--upsert", "id").talk
    for text, said in (
        ("id,day,name\n7,1,x\n7,1,y\n", "id = 7, day = 1 occurs 2 times in the load"),
        ("id,day,name\n7,1,x\n,1,y\n", "1 row of the load have NULL in the key (id, day)"),
    ):
        shell.write("bad.csv", text)
        assert said in shell.ends(4, "load", "bad.csv", *to, "--upsert", "id, day").talk
        assert ask(shell, asked) == rows
    with duckdb_at(shell.folder / "into.duckdb") as do:
        assert do("SELECT count(*) FROM duckdb_tables()").fetchall() == [(2,)]
    shell.write("bad.csv", "id,day,name\n8,1,x\n")
    shell.ok("load", "bad.csv", *to, "--upsert", "id, day")
    assert len(ask(shell, asked)) == len(rows) + 1
    done = shell.ends(2, "load", "new.csv", *to, "--upsert", "no", "--force")
    assert "has no column no" in done.talk
    done = shell.ends(2, "load", "new.csv", *to, "--upsert", "id", "--on-conflict", "skip")
    assert "Leave one of them out" in done.talk


def test_nothing_of_a_gathered_load_is_visible_where_a_file_failed(shell: Shell) -> None:
    for option in (("--replace",), ("--upsert", "id"), ("--atomic",)):
        for path in ("a.csv", "b.csv", "into.duckdb"):
            (shell.folder / path).unlink(missing_ok=True)
        with duckdb_at(shell.folder / "into.duckdb") as do:
            do("CREATE TABLE t (id INT, CHECK (id < 3))")
        shell.write("a.csv", "id\n1\n")
        shell.write("b.csv", "id\n5\n")
        to = ("--to", "into.duckdb", "--table", "t", *option)
        done = shell.ends(1, "load", "?.csv", *to, "--attempt-bytes", "1")
        assert "nothing is visible in main.t: some files failed" in done.talk
        assert ask(shell, "SELECT * FROM t") == []
        shell.write("b.csv", "id\n2\n")
        assert shell.ok("load", "?.csv", *to, "--json").document["rows"] == 1
        assert sorted(ask(shell, "SELECT * FROM t")) == [(1,), (2,)]


def test_text_that_is_not_utf8_is_refused(shell: Shell) -> None:
    """By its value; a column of BLOB takes it."""
    rows = {"id": [1, 2], "name": [b"ok", b"\xff\xfe"]}
    parquet.write_table(pa.table(rows), shell.folder / "a.parquet")
    with duckdb_at(shell.folder / "into.duckdb") as do:
        do("CREATE TABLE t (id BIGINT, name VARCHAR)")
    for more in ((), ("--decoder", "never")):
        done = shell.ends(1, "load", "a.parquet", "--to", "into.duckdb", "--table", "t", *more)
        assert "a.parquet: a text is not UTF-8" in done.talk
        assert "in column name" in done.talk
        assert ask(shell, "SELECT * FROM t") == []
    shell.ok("load", "a.parquet", "--to", "into.duckdb", "--table", "b")
    assert ask(shell, "SELECT hex(name) FROM b ORDER BY id") == [("6F6B",), ("FFFE",)]


def test_bytes_of_csv_are_refused_where_text_is_wanted(shell: Shell) -> None:
    """Also where the decoder takes any bytes, and says so in the stream of Arrow."""
    (shell.folder / "a.csv").write_bytes(b"id,name\n1,\xc3\xb8\n2,\xff\xfe\n")
    with duckdb_at(shell.folder / "into.duckdb") as do:
        do("CREATE TABLE t (id BIGINT, name VARCHAR)")
    load = ("load", "a.csv", "--to", "into.duckdb", "--encoding", "binary", "--table")
    done = shell.ends(1, *load, "t")
    assert "a text is not UTF-8" in done.talk
    assert ask(shell, "SELECT * FROM t") == []
    shell.ok(*load, "b")
    assert ask(shell, "SELECT hex(name) FROM b ORDER BY id") == [("C3B8",), ("FFFE",)]


@pytest.mark.long
def test_the_memory_of_a_load_holds(shell: Shell) -> None:
    """Row groups of 51 columns, in two threads."""
    shell.ok("load", "generate://taxi?rows=600000", "--to", "taxi.csv.gz")
    load = rowfall("load", "taxi.csv.gz", "--to", "into.duckdb", "--memory", "512MiB")
    taken = measure([*load, "--threads", "2"], shell.folder, os.environ)
    assert taken.code == 0, taken.out
    assert taken.peak <= 1.15 * (512 << 20), f"{taken.peak >> 20} MiB"
    assert ask(shell, "SELECT count(*) FROM taxi") == [(600_000,)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("made", "code"),
    [
        ("VIEW t AS SELECT range(200000000) AS a", 1),
        ("VIEW t AS SELECT repeat('x', 1000000000) AS a", 1),
        ("TABLE t AS SELECT repeat('x', 10000) AS a FROM range(60000)", 0),
    ],
)
def test_the_memory_of_a_load_from_a_file_holds(shell: Shell, made: str, code: int) -> None:
    """11 GB were taken for a list of a view, and 1.2 GB for rows of 10 kB."""
    with duckdb_at(shell.folder / "a.duckdb") as do:
        do(f"CREATE {made}")
    load = rowfall("load", "a.duckdb", "--to", "into", "--memory", "1GiB")
    taken = measure(load, shell.folder, os.environ)
    assert taken.code == code, taken.out
    assert taken.peak <= 1.15 * (1 << 30), f"{taken.peak >> 20} MiB"
    if code:
        assert "more than the 1GiB of --memory" in " ".join(taken.out.split())


def test_commands_on_the_target(shell: Shell) -> None:
    for number in (1, 2):
        shell.write(f"in/{number}.csv", f"id,name\n{number},x\n")
    to = ("--to", "into.duckdb")
    assert shell.ok("plan", "in/*.csv", *to, "--table", "t")
    assert not (shell.folder / "into.duckdb").exists()
    load = shell.ok("load", "in/*.csv", *to, "--table", "t", "--json").document["load_id"]
    assert shell.ok("verify", load, *to)
    assert "done" in shell.ok("status", *to).out
    shell.ok("clean", *to)
    assert shell.ok("query", "SELECT count(*), [1, NULL], {'a': 1::HUGEINT} FROM t", *to,
                    "--format", "TSV").out == "2\t[1,NULL]\t(1)\n"  # fmt: skip
    assert "read-only" in shell.ends(5, "query", "DELETE FROM t", *to).talk
    shell.ok("query", "DELETE FROM t WHERE id = 1", *to, "--write")
    shell.ok("forget", load, *to, "--yes")
    assert shell.ok("load", "in/1.csv", *to, "--table", "t", "--json").document["rows"] == 1
    assert ask(shell, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    with duckdb_at(shell.folder / "into.duckdb") as do:
        do("CREATE OR REPLACE TABLE t AS SELECT 9 AS id, 'own' AS name")
    shell.ends(3, "load", "in/*.csv", *to, "--table", "t")
    shell.ok("adopt", "in/*.csv", *to, "--table", "t")
    assert shell.ok("load", "in/*.csv", *to, "--table", "t", "--json").document["rows"] == 0
    for text, said in (
        ("duckdb:///no/where.duckdb", "/no does not exist"),
        (f"duckdb://{shell.folder}/into.duckdb/t", "one table too many"),
        ("duckdb:///into.duckdb?x=1", "has no parameter"),
    ):
        assert said in shell.run("load", "in/1.csv", "--to", text).talk
    done = shell.ends(4, "load", "duckdb:///into.duckdb/t", *to, "--table", "u")
    assert "is the source and the target of this load" in done.talk
    done = shell.ends(2, "load", "in/1.csv", "--to", "duckdb:///into.duckdb/u")
    shell.ok("load", "in/1.csv", *shlex.split(done.err.partition("Write ")[2].rstrip(".\n")))
    assert ask(shell, "SELECT id FROM u") == [(1,)]


def test_a_column_rowid_hides_the_numbers_of_rows(shell: Shell) -> None:
    """Such a table is read as one stream, and nothing is decided by the order of its rows."""
    with duckdb_at(shell.folder / "a.duckdb") as do:
        do("CREATE TABLE t AS SELECT 7 AS ROWID, range AS id FROM range(300000)")
    done = shell.ok("load", "a.duckdb", "--to", "b.csv")
    assert "as one stream: it has a column rowid" in done.talk
    with (shell.folder / "b.csv").open() as file:
        assert sum(int(line.split(",")[1]) for line in list(file)[1:]) == 299_999 * 150_000
    with duckdb_at(shell.folder / "into.duckdb") as do:
        do("CREATE TABLE t (id BIGINT PRIMARY KEY, rowid BIGINT)")
    shell.write("c.csv", "id,rowid\n1,2\n1,1\n")
    done = shell.ends(2, "load", "c.csv", "--to", "into.duckdb", "--table", "t",
                      "--on-conflict", "replace")  # fmt: skip
    assert "a column rowid hides" in done.talk


def test_a_file_is_known_by_its_first_bytes(shell: Shell) -> None:
    shell.write("a.csv", "id\n1\n")
    with duckdb_at(shell.folder / "shop.db") as do:
        do("CREATE TABLE other (id INT)")
    shell.ok("load", "a.csv", "--to", "shop.db", "--table", "t")
    assert ask(shell, "SELECT * FROM t", "shop.db") == [(1,)]
    shell.write("text.duckdb", "no database")
    assert "is a file" in shell.ends(2, "load", "a.csv", "--to", "text.duckdb").talk


def test_other_loads_never_import_it(shell: Shell) -> None:
    shell.write("a.csv", "id\n1\n")
    done = shell.cli("load", "a.csv", "--to", "out.csv", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    assert "rowfall.run" in done.stderr
    assert "duckdb" not in done.stderr


@pytest.mark.long
def test_a_followed_folder_and_a_record_that_is_joined(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was loaded long ago is known in 30 bytes a file, and forgotten with its load."""
    monkeypatch.setattr(follow, "KEPT", 2)
    monkeypatch.setattr(follow, "JOINED_AT_ONCE", 1)
    monkeypatch.setattr(file_database, "_JOINED_AGE", "0 seconds")
    folder, to = shell.folder / "in", f"duckdb://{shell.folder}/new.duckdb"
    folder.mkdir()

    def file(*numbers: int) -> None:
        for number in numbers:
            put(folder / f"{number}.csv", number)

    def ask(text: str) -> list[Any]:
        with duckdb_at(shell.folder / "new.duckdb") as do:
            return list(do(text).fetchall())

    def skipped() -> list[int]:
        done = shell.ok("load", str(folder), "--table", "t", "--to", to, "--json").document
        return [done["splits_skipped"], done["rows"]]

    Follower(*(partial(file, number) for number in range(1, 7))).run(str(folder), to)
    ((left,),) = ask("SELECT count(*) FROM _rowfall_loaded")
    ((moved,),) = ask("SELECT sum(octet_length(ids)) // 16 FROM _rowfall_packed")
    assert left + moved == 6
    assert moved >= 3
    Follower(partial(file, *range(7, 107))).run(str(folder), to)
    assert ask("SELECT count(*), count(DISTINCT a) FROM t") == [(106, 106)]
    assert skipped() == [106, 0]
    oldest = min(api.loads(to=to), key=lambda one: one.started)
    assert oldest.rows >= 4
    ask(f"DELETE FROM t WHERE a <= {oldest.rows}")
    assert api.forget(oldest.load_id, to=to) == oldest.rows
    assert skipped() == [106 - oldest.rows, oldest.rows]
    assert ask("SELECT count(*), count(DISTINCT a) FROM t") == [(106, 106)]
    # Another table in its place holds nothing of it.
    one = str(folder / "1.csv")
    shell.ok("load", one, "--replace", "--table", "t", "--to", to)
    assert ask("SELECT count(*) FROM _rowfall_packed") == [(0,)]
    assert skipped() == [1, 105]
