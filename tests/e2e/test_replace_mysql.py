"""--replace into MariaDB: the old rows or the new ones, and what the table has besides stays."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from e2e.tools import Shell
from lab.mariadb import MariaDB

pytestmark = pytest.mark.xdist_group("mysql")

_TABLE = (
    "CREATE TABLE t (id INT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'a number', "
    "v VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german1_ci NOT NULL DEFAULT 'none', "
    "n DECIMAL(9,2) DEFAULT (1 + 1), made TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3), "
    "kind ENUM('a', 'b''c') NOT NULL DEFAULT 'a', "
    "up VARCHAR(20) CHARACTER SET latin1 AS (UPPER(v)) STORED, low VARCHAR(20) AS (LOWER(v)), "
    "PRIMARY KEY (id), UNIQUE KEY unequal (v, id), KEY by_v (v(3) DESC), FULLTEXT KEY words (v), "
    "CONSTRAINT small CHECK (n < 1000)) ENGINE=InnoDB AUTO_INCREMENT=7001 ROW_FORMAT=DYNAMIC "
    "COMMENT 'it''s ours' PARTITION BY HASH (id) PARTITIONS 3"
).replace(", FULLTEXT KEY words (v)", "")  # which no partitioned table may have
_ROWS = "INSERT INTO t (id, v, n) SELECT seq, 'old', seq FROM seq_1_to_50"


class Into:
    """A database with a table that has all that a table may have, and a file to load into it."""

    def __init__(self, shell: Shell, server: MariaDB) -> None:
        self.shell, self.server, self.name = shell, server, f"rep_{secrets.token_hex(4)}"
        self.user = f"{self.name}_user"
        server.query(f"CREATE DATABASE {self.name}")
        self.do(_TABLE, _ROWS)
        self.write(3)

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.query(*statements, database=self.name)

    def write(self, n: int, rows: int = 1000) -> None:
        lines = "".join(f"{i},new{n},{i % 10}.25\n" for i in range(1, rows + 1))
        self.shell.write("new.csv", f"id,v,n\n{lines}")

    def args(self, **more: str) -> tuple[str, ...]:
        return (
            "load", "new.csv", "--to", self.server.uri(self.name, **more), "--table", "t",
            "--on-missing-column", "default", "--replace",
        )  # fmt: skip

    def definition(self) -> str:
        ((_, text),) = self.do("SHOW CREATE TABLE t")
        return str(text)

    def rows(self) -> list[tuple[Any, ...]]:
        return self.do("SELECT COUNT(*), MIN(v), MAX(v) FROM t")

    def tables(self) -> list[str]:
        return [str(one) for (one,) in self.do("SHOW TABLES")]


@pytest.fixture
def into(shell: Shell, mariadb: MariaDB) -> Iterator[Into]:
    into = Into(shell, mariadb)
    yield into
    mariadb.query(f"DROP DATABASE {into.name}", f"DROP USER IF EXISTS '{into.user}'@'%'")


def test_a_table_is_replaced_with_all_that_it_has(into: Into) -> None:
    before = into.definition()
    assert "AUTO_INCREMENT=7001" in before
    into.do("CREATE VIEW w AS SELECT v, COUNT(*) AS c FROM t GROUP BY v")
    password = into.server.add_user(into.user, f"SELECT (v) ON {into.name}.t")
    for n in (3, 4):
        into.write(n)
        done = into.shell.ok(*into.args(), "--json")
        assert done.document["rows"] == 1000
        assert into.do("SELECT COUNT(*), MIN(v), MAX(up), SUM(n) FROM t") == [
            (1000, f"new{n}", f"NEW{n}", 4750)
        ]
        assert into.definition() == before
        assert into.tables() == ["_rowfall_loaded", "t", "w"]
    # What knows the table by its name goes on with the new one.
    assert into.do("SELECT v, c FROM w") == [("new4", 1000)]
    with pymysql.connect(
        host="127.0.0.1", port=into.server.port, user=into.user, password=password,
        database=into.name,
    ) as theirs, theirs.cursor() as cursor:  # fmt: skip
        cursor.execute("SELECT MAX(v) FROM t")
        assert cursor.fetchone() == ("new4",)
    into.do("INSERT INTO t (v) VALUES ('next')")
    assert into.do("SELECT id FROM t WHERE v = 'next'") == [(7001,)]
    # The record is that of the new table: the file is loaded, and the next one is not.
    assert "nothing to load" in into.shell.ok(*into.args()[:-1]).talk
    into.write(5)
    assert "Duplicate entry" in into.shell.ends(1, *into.args()[:-1]).talk


@pytest.mark.long
def test_a_table_that_is_missing_is_made(into: Into) -> None:
    into.do("DROP TABLE t")
    for n in (1, 2):
        into.write(n)
        assert into.shell.ok(*into.args(), "--json").document["rows"] == 1000
        assert into.rows() == [(1000, f"new{n}", f"new{n}")]
    assert into.tables() == ["_rowfall_loaded", "t"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("CREATE TABLE child (t INT UNSIGNED, CONSTRAINT points FOREIGN KEY (t) REFERENCES u (id))",
         "the foreign key points of {s}.child"),
        ("CREATE TABLE other (id INT UNSIGNED PRIMARY KEY); "
         "ALTER TABLE u ADD CONSTRAINT own FOREIGN KEY (id) REFERENCES other (id)",
         "the foreign key own"),
        ("CREATE TRIGGER x BEFORE INSERT ON u FOR EACH ROW SET NEW.v = 'x'", "the trigger x"),
    ],
)  # fmt: skip
def test_what_would_be_lost_is_refused_before_anything_is_read(
    into: Into, made: str, words: str
) -> None:
    into.do("CREATE TABLE u (id INT UNSIGNED PRIMARY KEY, v VARCHAR(9))", *made.split("; "))
    into.do("INSERT IGNORE INTO u VALUES (1, 'old')") if "own" not in made else None
    before = into.tables()
    for command in ("plan", "load"):
        args = [word if word != "t" else "u" for word in into.args()[1:]]
        done = into.shell.ends(5, command, *args, "--skip", "n")
        said = " ".join(done.talk.split())
        assert words.replace("{s}", into.name) in said
        assert "Drop it and make it again after the load" in said
    assert into.tables() == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("CREATE VIEW u AS SELECT id, v, n FROM t", "it is a view"),
        ("CREATE TABLE u (id INT UNSIGNED PRIMARY KEY, v VARCHAR(9), n INT) WITH SYSTEM VERSIONING",
         "its history would be lost"),
    ],
)  # fmt: skip
def test_what_is_no_plain_table_is_refused(into: Into, made: str, words: str) -> None:
    into.do(made)
    args = [word if word != "t" else "u" for word in into.args()]
    said = " ".join(into.shell.ends(5, *args).talk.split())
    assert words in said
    assert into.rows() == [(50, "old", "old")]


@pytest.mark.long
def test_readers_see_the_old_rows_or_the_new_ones(into: Into) -> None:
    into.write(5, 20_000)
    seen: set[tuple[object, ...]] = set()
    over = threading.Event()

    def read() -> None:
        with into.server.connect(into.name) as connection, connection.cursor() as cursor:
            while not over.is_set():
                cursor.execute("SELECT COUNT(*), MIN(v), MAX(v) FROM t")
                seen.update(cursor.fetchall())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for n in (6, 7):
            into.shell.ok(*into.args())
            into.write(n, 20_000)
    finally:
        over.set()
        thread.join()
    assert seen <= {(50, "old", "old"), (20_000, "new5", "new5"), (20_000, "new6", "new6")}
    assert len(seen) > 1


def test_a_table_that_others_use_is_waited_for_and_stays(into: Into) -> None:
    with into.server.connect(into.name) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM t LIMIT 1")
        done = into.shell.ends(5, *into.args(), "--patience", "1s")
        said = " ".join(done.talk.split())
        assert "is used by another session for longer than 1 s (--patience)" in said
        assert "SHOW PROCESSLIST names the session" in said
        cursor.execute("COMMIT")
    assert into.rows() == [(50, "old", "old")]
    # All rows are there already.
    assert into.shell.ok(*into.args(), "--json").document["rows"] in (0, 1000)
    assert into.rows() == [(1000, "new3", "new3")]
    assert into.tables() == ["_rowfall_loaded", "t"]


@pytest.mark.long
def test_what_a_load_that_is_given_up_has_left_is_removed(into: Into) -> None:
    into.shell.write("bad.csv", "id,v,n\n1,x,1\n2,y,5000\n")  # against the CHECK
    args = [word if word != "new.csv" else "*.csv" for word in into.args()]
    into.shell.ends(1, *args)
    assert into.rows() == [(50, "old", "old")]
    (left,) = (one for one in into.tables() if one.startswith("_rowfall_gathers_"))
    done = into.shell.ok("clean", "--to", into.server.uri(into.name), "--yes")
    assert left in done.talk + done.out
    assert into.tables() == ["_rowfall_loaded", "t"]
    assert into.do("SELECT COUNT(*) FROM _rowfall_loaded") == [(0,)]


@pytest.mark.long
def test_rights_that_are_missing_are_said_before_anything_is_read(into: Into) -> None:
    password = into.server.add_user(
        into.user, f"SELECT, INSERT, UPDATE, DELETE, CREATE ON {into.name}.*"
    )
    args = into.args(user=into.user, password=password)
    said = " ".join(into.shell.ends(5, *args).talk.split())
    assert f"{into.user}@% lacks the right to ALTER, DROP, TRIGGER" in said
    hint = re.search(r"(GRANT .*?;)", said)
    assert hint is not None
    into.server.query(hint[1])
    assert into.shell.ok(*args, "--json").document["rows"] == 1000
    assert into.rows() == [(1000, "new3", "new3")]


@pytest.mark.long
def test_rights_to_a_table_that_is_missing_are_asked_for_as_well(into: Into) -> None:
    """Or all rows would be loaded, and could not be put into their place."""
    into.do("DROP TABLE t")
    password = into.server.add_user(into.user, f"SELECT, INSERT, UPDATE, CREATE ON {into.name}.*")
    args = into.args(user=into.user, password=password)
    said = " ".join(into.shell.ends(5, *args).talk.split())
    assert "lacks the right to ALTER, DROP, TRIGGER" in said
    assert into.tables() == []
