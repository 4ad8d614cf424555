"""Files of SQLite as sources: which table, types against values, who else has the file open."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from e2e.tools import Shell, kill_while_it_loads


@contextmanager
def sqlite_at(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file)) as connection:
        yield connection
        connection.commit()


@pytest.fixture
def file(shell: Shell) -> Path:
    with sqlite_at(shell.folder / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)")
        shop.executemany("INSERT INTO orders (name) VALUES (?)", [(f"x{n}",) for n in range(1000)])
    return shell.folder / "shop.db"


def test_the_only_table_of_a_file(shell: Shell, file: Path) -> None:
    """A later run loads what has come: the key grows, also past rows that were removed."""
    assert shell.ok("load", "shop.db", "--json").document["rows"] == 1000
    for text in ("sqlite:///shop.db", "sqlite:///shop.db/orders"):  # in this folder
        assert shell.ok("load", text, "--table", "shop", "--json").document["rows"] == 0
    with sqlite_at(file) as shop:
        shop.execute("DELETE FROM orders WHERE id > 990")
        shop.executemany("INSERT INTO orders (name) VALUES (?)", [("new",), ("newer",)])
    assert shell.ok("load", "shop.db", "--json").document["rows"] == 2
    assert shell.rows("SELECT count(), uniqExact(id), max(id) FROM shop") == [[1002, 1002, 1002]]


def test_an_empty_table_is_loaded_when_rows_have_come(shell: Shell) -> None:
    """Also one whose rows have no numbers, so that nothing tells the new ones from none."""
    with sqlite_at(shell.folder / "kv.db") as made:
        made.execute("CREATE TABLE kv (k TEXT PRIMARY KEY, v) WITHOUT ROWID")
        shell.ok("load", "kv.db")
        made.execute("INSERT INTO kv VALUES ('a', 1)")
    assert shell.ok("load", "kv.db", "--json").document["rows"] == 1


@pytest.mark.long
def test_what_is_no_table_of_a_file(shell: Shell, file: Path) -> None:
    with sqlite_at(file) as shop:
        shop.execute("CREATE TABLE sales (id TEXT)")
        shop.execute("INSERT INTO sales VALUES ('a')")
    done = shell.ends(2, "load", "shop.db")
    assert "has 2 tables" in done.talk
    words = shlex.split(done.err.partition("Name one of them: ")[2].replace(",", ""))
    shell.ok("load", words[1])
    assert shell.rows("SELECT * FROM sales") == [["a"]]
    (shell.folder / "no.sqlite").write_bytes(b"SQLite format 3\0" + bytes(600))
    (shell.folder / "half.db").write_bytes(file.read_bytes()[:4096])
    (shell.folder / "secret.db").write_bytes(bytes(range(256)) * 16)
    for text, code, said in (
        (f"sqlite://{file}/sale", 4, "Did you mean sales?"),
        (f"sqlite://{file}/sales?tabel=x", 2, "Did you mean table?"),
        (f"sqlite://{file}/orders?key=name", 2, "Such are: id."),
        ("sqlite://host/shop.db", 2, "names no file"),
        ("sqlite:///no/where.db", 4, "Check the path."),
        ("sqlite:///secret.db", 4, "It is damaged, or encrypted."),
        ("no.sqlite", 4, "not a database"),
        ("half.db", 4, ".recover"),
    ):
        assert said in shell.ends(code, "load", text, "--to", "null:").talk, text


@pytest.mark.long
def test_it_is_no_target(shell: Shell, file: Path) -> None:
    (shell.folder / "a.csv").write_text("id\n1\n")
    for to in ("shop.db", "new.sqlite", "sqlite:///new.db"):
        done = shell.ends(2, "load", "a.csv", "--to", to)
        assert "does not write it" in done.talk
        shell.ok("load", "a.csv", "--to", shlex.split(done.err.partition("--to ")[2].splitlines()[1]
                 .partition("--to ")[2])[0], "--replace")  # fmt: skip


def test_values_longer_than_a_record_may_be(shell: Shell) -> None:
    """A view of some bytes made 800 MB of text, and the load took 8 GB before it refused them."""
    with sqlite_at(shell.folder / "v.db") as made:
        made.execute("CREATE VIEW v AS SELECT 1 AS id, hex(zeroblob(2000000)) AS x")
        made.execute("CREATE TABLE t AS SELECT 1 AS id, zeroblob(2000000) AS x")
    talk = shell.ends(4, "load", "sqlite:///v.db/v", "--max-record", "1MiB").talk
    assert "too big" in talk
    assert "--max-record 1GiB" in talk
    query = ("--query", "SELECT id FROM t", "--max-record", "1MiB")
    assert shell.ok("load", "v.db", *query, "--table", "w", "--json").document["rows"] == 1


# --- values ---------------------------------------------------------------------------------------


def test_values_that_are_none_of_their_column(shell: Shell) -> None:
    """SQLite keeps a word in a column of numbers: it is named with table, rowid and column."""
    with sqlite_at(shell.folder / "bad.db") as bad:
        bad.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s TEXT, x REAL, d DATE)")
        good = [(3 * n, n, f"s{n}", n / 3, "2024-01-31") for n in range(1, 2001)]
        bad.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", good)
        bad.execute("UPDATE t SET n = 'forty' WHERE id = 3000")
        bad.execute("UPDATE t SET x = 'heavy' WHERE id = 4500")
        bad.execute("UPDATE t SET n = 1.5 WHERE id = 4503")
        bad.execute("UPDATE t SET d = 'soon' WHERE id = 4506")
    done = shell.ends(1, "load", "bad.db")
    assert 'main.t?by=id rowid 3000 column "n": "forty" does not fit' in done.talk
    shell.ok("load", "bad.db", "--max-errors", "4", "--rejects", "bad.tsv")
    assert shell.rows("SELECT count() FROM bad") == [[1996]]
    rejected = (shell.folder / "bad.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in rejected] == ["3000", "4500", "4503", "4506"]
    # As texts they arrive as they are.
    types = [word for name in "nxd" for word in ("--type", f"{name} Nullable(String)")]
    shell.ok("load", "bad.db", "--table", "texts", *types)
    assert shell.rows("SELECT n, x, d FROM texts WHERE id IN (3000, 4500, 4503, 4506)") == [
        ["forty", "333.33333333333331", "2024-01-31"], [1500, "heavy", "2024-01-31"],
        ["1.5", "500.33333333333331", "2024-01-31"], [1502, "500.66666666666669", "soon"],
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("n INTEGER", "x'3132'", "X'3132' is of the type blob"),
        ("s TEXT", "x'616263'", "X'616263' is of the type blob"),
        ("x REAL", "'nan'", "'nan' is of the type text"),
        ("x", "'12'", "'12' is of the type text"),
        ("b BLOB", "7", "7 is of the type integer"),
        ("d DATETIME", "1700000000", "1700000000 is of the type integer"),
        ("n INTEGER", "''", "'' is of the type text"),
        ("x REAL", "''", "'' is of the type text"),
        ("d DATETIME", "''", "'' is of the type text"),
        ("x NUMERIC", "9007199254740993", "9007199254740993 is of the type integer"),
    ],
)
def test_values_that_a_reader_would_take_for_others(
    shell: Shell, column: str, value: str, said: str
) -> None:
    usual = {"n": "7", "s": "'a'", "x": "1.5", "b": "x'00'", "d": "'2024-01-31'"}[column[0]]
    with sqlite_at(shell.folder / "bad.db") as bad:
        bad.execute(f"CREATE TABLE t ({column})")
        bad.execute(f"INSERT INTO t VALUES {', '.join([f'({usual})'] * 50)}")
        bad.execute(f"INSERT INTO t VALUES ({value})")
    done = shell.ends(1, "load", "bad.db")
    assert f't, rowid 51, column "{column[0]}": {said}' in done.talk
    hint = done.err.partition("have SQLite make ")[2]
    command = shlex.split(hint.partition(": rowfall ")[2].splitlines()[0])
    shell.ok(*command)
    assert shell.rows("SELECT count() FROM t") == [[51]]


@pytest.mark.long
def test_moments_of_all_kinds(shell: Shell) -> None:
    """Whatever programs write: with a T, a zone, without seconds, or numbers."""
    with sqlite_at(shell.folder / "m.db") as m:
        m.execute("CREATE TABLE m (a DATETIME, b TIMESTAMP, c TIMESTAMP, d DATE)")
        m.executemany("INSERT INTO m VALUES (?, ?, ?, ?)", [
            ("2024-01-31T10:00:00.25Z", 1700000000, 1700000000123, "2024-01-31"),
            ("2024-01-31 10:00:00.123456+02:00", 0, -1, "1969-12-31"),
            ("2024-01-31T10:00", None, None, None),
            ("2024-01-31T12:59:59.999999+02:00", None, None, None),
        ])  # fmt: skip
    shell.ok("load", "m.db")
    assert shell.rows("SELECT toString(a), toString(b), toString(c), d FROM m ORDER BY a") == [
        ["2024-01-31 08:00:00.123456", "1970-01-01 00:00:00.000000", "1969-12-31 23:59:59.999000",
         "1969-12-31"],
        ["2024-01-31 10:00:00.000000", None, None, None],
        ["2024-01-31 10:00:00.250000", "2023-11-14 22:13:20.000000", "2023-11-14 22:13:20.123000",
         "2024-01-31"],
        ["2024-01-31 10:59:59.999999", None, None, None],
    ]  # fmt: skip


@pytest.mark.long
def test_tables_of_all_kinds(shell: Shell) -> None:
    with sqlite_at(shell.folder / "all.db") as made:
        made.execute("CREATE TABLE plain (a INT, rowid TEXT)")
        made.execute('CREATE TABLE "a\'b ""c" ("x y" INT, v AS ("x y" * 2))')
        made.execute("CREATE TABLE kv (k TEXT PRIMARY KEY, v) WITHOUT ROWID")
        made.execute("CREATE VIEW twice AS SELECT a * 2 AS b FROM plain")
        made.execute("CREATE VIRTUAL TABLE words USING fts5(body)")
        made.execute("INSERT INTO plain VALUES (1, 'r')")
        made.execute('INSERT INTO "a\'b ""c" VALUES (4)')
        made.execute("INSERT INTO kv VALUES ('k', 1), ('l', NULL)")
        made.execute("INSERT INTO words VALUES ('some text')")
    done = shell.ok("load", "all.db", "--tables", "*,twice,words", "--json")
    loaded = {table["source"]: table["rows"] for table in done.document["tables"]}
    assert loaded == {"plain": 1, "a'b \"c": 1, "kv": 2, "twice": 1, "words": 1}
    assert shell.rows("SELECT * FROM `a'b \"c`") == [[4, 8]]
    assert shell.rows("SELECT * FROM kv ORDER BY k") == [["k", 1], ["l", None]]
    assert shell.rows("SELECT * FROM twice") == [[2]]
    shell.ok("load", "all.db", "--query", "SELECT k, v + 1 AS w FROM kv WHERE v", "--table", "q")
    assert shell.rows("SELECT * FROM q") == [["k", 2]]


# --- others that have it open ---------------------------------------------------------------------


@pytest.mark.long
def test_a_file_that_is_written_meanwhile(shell: Shell, file: Path) -> None:
    """What is committed is loaded, also from the write-ahead log; what is not is not."""
    with closing(sqlite3.connect(file, isolation_level=None)) as shop:
        shop.execute("PRAGMA journal_mode = WAL")
        shop.execute("INSERT INTO orders (name) VALUES ('in the log')")
        shop.execute("BEGIN IMMEDIATE")
        shop.execute("INSERT INTO orders (name) VALUES ('open')")
        assert shell.ok("load", "shop.db", "--json").document["rows"] == 1001
        shop.execute("COMMIT")
        assert shell.ok("load", "shop.db", "--json").document["rows"] == 1


@pytest.mark.long
def test_a_file_that_is_locked(shell: Shell, file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as shop:
        shop.execute("BEGIN EXCLUSIVE")
        done = shell.ends(4, "load", "shop.db", "--patience", "1s")
        assert "database is locked" in done.talk
        assert "--patience 10m" in done.talk
    shell.ok("load", "shop.db", "--patience", "10m")


@pytest.mark.long
def test_a_column_that_is_followed(shell: Shell, file: Path) -> None:
    """By its moments, whatever digits they are written with."""
    with sqlite_at(file) as shop:
        shop.execute("DROP TABLE orders")
        shop.execute("CREATE TABLE e (id INTEGER PRIMARY KEY, at DATETIME)")
        shop.execute("INSERT INTO e VALUES (1, '2024-01-01 10:00:00')")
        shop.execute("INSERT INTO e VALUES (2, '2024-01-01 10:00:00.5')")
    options = ("load", "shop.db", "--table", "e", "--cursor", "at", "--json")
    assert shell.ok(*options).document["rows"] == 2
    with sqlite_at(file) as shop:
        shop.execute("INSERT INTO e VALUES (3, '2024-01-01T10:00:00.50'), (4, '2024-01-02T00:00Z')")
    assert shell.ok(*options).document["rows"] == 2
    assert shell.ok(*options).document["rows"] == 0
    assert shell.rows("SELECT count(), uniqExact(id) FROM e") == [[4, 4]]


@pytest.mark.long
def test_a_load_that_is_killed_in_the_middle(shell: Shell) -> None:
    """Each row once afterwards; ranges that were loaded before are not read again."""
    with sqlite_at(shell.folder / "big.db") as big:
        big.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL, s TEXT)")
        rows = ((n, n / 4, f"row {n} of a table") for n in range(1, 300_001))
        big.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    for _ in range(2):
        kill_while_it_loads(shell, "load", "big.db", "--table", "t", "--threads", "1")
    shell.ok("load", "big.db", "--table", "t")
    assert shell.rows("SELECT count(), uniqExact(id), sum(x) FROM t") == [
        [300_000, 300_000, 11_250_037_500]]  # fmt: skip
