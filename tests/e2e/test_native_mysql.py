"""New tables of MariaDB made from tables of MariaDB: SHOW CREATE TABLE and each value."""
# ruff: noqa: E501 - rows of values

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.tools import Shell
from lab.mariadb import MariaDB

pytestmark = pytest.mark.xdist_group("mysql")

_TABLE = """
CREATE TABLE t (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'a `number`, it''s (ours)',
  tiny TINYINT(3) UNSIGNED ZEROFILL DEFAULT 7, small SMALLINT, medium MEDIUMINT UNSIGNED,
  big BIGINT UNSIGNED, yes TINYINT(1) NOT NULL DEFAULT 1,
  exact DECIMAL(65,30), money DECIMAL(12,2) UNSIGNED NOT NULL DEFAULT 0.00,
  near FLOAT, rounded FLOAT(7,3), far DOUBLE,
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), seconds DATETIME,
  moment TIMESTAMP(3) NULL DEFAULT NULL,
  changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  day DATE, clock TIME(4), year YEAR,
  mood ENUM('good', 'so ''so''', 'ü', '') CHARACTER SET latin1 DEFAULT 'good', some SET('a', 'b', 'c'),
  bits BIT(13) DEFAULT b'101', flag BIT(1), doc JSON,
  code CHAR(5) CHARACTER SET latin1 COLLATE latin1_german2_ci, name VARCHAR(40) COLLATE utf8mb4_unicode_ci,
  old VARCHAR(9) CHARACTER SET cp1251, note TEXT, `a b``c` LONGTEXT COLLATE utf8mb4_bin,
  fixed BINARY(4), bytes VARBINARY(20), raw BLOB, one UUID, host INET6,
  up VARCHAR(40) COLLATE utf8mb4_unicode_ci GENERATED ALWAYS AS (UPPER(name)) STORED,
  total DECIMAL(14,2) AS (money * 2) VIRTUAL,
  PRIMARY KEY (id), UNIQUE KEY `by code` (code, medium), KEY by_name (name(7), at DESC),
  KEY by_up (up), FULLTEXT KEY words (note), CONSTRAINT `small enough` CHECK (money < 1000000)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_swedish_ci COMMENT='it''s ours'
"""
_NAMES = (
    "id, tiny, small, medium, big, yes, exact, money, near, rounded, far, at, seconds, moment, "
    "changed, day, clock, year, mood, some, bits, flag, doc, code, name, old, note, `a b``c`, "
    "fixed, bytes, raw, one, host"
)
_ROWS = (
    "(1, 255, -32768, 16777215, 18446744073709551615, 0, 12345678901234567890123456789012345."
    "123456789012345678901234567890, 999999.99, 3.4028233e38, 1234.567, 1.7976931348623157e308, "
    "'9999-12-31 23:59:59.999999', '1000-01-01 00:00:00', '2038-01-19 03:14:07.999', "
    "'1970-01-01 00:00:01', '9999-12-31', '838:59:59', 2155, 'so ''so''', 'a,c', b'1111111111111', "
    "b'1', '{\"b\": [1, null], \"a\": \"\\\\u00e4\\\\n\"}', 'straß', 'Tab\\t back\\\\slash \\n ü 😀', "
    "'мир', 'quote '' \" \\0 end', REPEAT('long ', 20000), 'ab', X'00FF5C270A09', X'', "
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2001:db8::1')",
    "(3, NULL, 32767, 0, 0, 1, -0.000000000000000000000000000001, 0, -1e-38, -0.001, 5e-300, "
    "'1000-01-01 00:00:00.000001', NULL, '1970-01-01 00:00:01.001', '2038-01-19 03:14:07', "
    "'1000-01-01', '-838:59:59', 1901, 'ü', '', b'0', b'0', '[]', '', '', '', '', '\\\\N', X'00000000', "
    "X'', X'00', NULL, '::')",
    "(4, 0, NULL, NULL, NULL, 1, NULL, 0.01, NULL, NULL, NULL, '2024-03-31 02:30:00.125', NULL, NULL, "
    "'2024-03-31 01:30:00', NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
    "NULL, NULL, NULL, NULL, NULL)",
    "(900, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, '2024-01-01', '2024-01-01', '2024-01-01', '2024-01-01', "
    "'2024-01-01', '00:00:01.5', 0, NULL, 'a,b,c', 5, 1, 'null', 'a', ' x ', 'x', 'x', 'x', 'x', 'x', "
    "'x', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '::ffff:10.0.0.1')",
)
_VALUES = tuple(f"INSERT INTO t ({_NAMES}) VALUES {row}" for row in _ROWS)


class Between:
    """Two databases of one server: rows are loaded from the first into the second."""

    def __init__(self, shell: Shell, server: MariaDB) -> None:
        self.shell, self.server = shell, server
        number = secrets.token_hex(4)
        self.here, self.there = f"here_{number}", f"there_{number}"
        server.query(f"CREATE DATABASE {self.here}", f"CREATE DATABASE {self.there}")

    def do(self, *statements: str) -> None:
        self.server.query("SET time_zone = '+00:00'", "SET sql_mode = 'STRICT_ALL_TABLES'",
                          *statements, database=self.here)  # fmt: skip

    def load(self, table: str, *more: str) -> int:
        """Load a table; return its rows."""
        done = self.shell.ok(
            "load", self.server.uri(f"{self.here}/{table}"), "--to", self.server.uri(self.there),
            "--table", table, "--json", *more,
        )  # fmt: skip
        rows: int = done.document["rows"]
        return rows

    def definition(self, database: str, table: str) -> str:
        ((_, text),) = self.server.query(f"SHOW CREATE TABLE {table}", database=database)
        return re.sub(r" AUTO_INCREMENT=\d+", "", str(text))

    def rows(self, database: str, table: str) -> list[tuple[Any, ...]]:
        return self.server.query(
            "SET time_zone = '+00:00'", f"SELECT * FROM {table} ORDER BY 1", database=database
        )

    def same(self, table: str) -> None:
        """Both tables are declared alike and hold the same values."""
        here, there = (self.definition(one, table) for one in (self.here, self.there))
        assert there == here
        self.same_rows(table)

    def same_rows(self, table: str) -> None:
        assert self.rows(self.there, table) == self.rows(self.here, table)


@pytest.fixture
def between(shell: Shell, mariadb: MariaDB) -> Iterator[Between]:
    between = Between(shell, mariadb)
    yield between
    mariadb.query(f"DROP DATABASE {between.here}", f"DROP DATABASE {between.there}")


@pytest.mark.parametrize("decoder", ["auto", pytest.param("never", marks=pytest.mark.long)])
def test_a_new_table_is_declared_as_the_other_one(between: Between, decoder: str) -> None:
    between.do(_TABLE, *_VALUES)
    assert between.load("t", "--decoder", decoder) == 4
    between.same("t")
    # It goes on as the other one: the number, what is computed, what is refused.
    between.server.query("INSERT INTO t (name) VALUES ('new')", database=between.there)
    assert between.server.query(
        "SELECT id, up, total, mood FROM t WHERE name = 'new'", database=between.there
    ) == [(901, "NEW", 0, "good")]  # fmt: skip
    between.server.query("DELETE FROM t WHERE id = 901", database=between.there)
    # A later run finds the columns in the target, and the values still come as they are.
    between.do("INSERT INTO t (name, at) SELECT CONCAT('more', id), at FROM t")
    assert between.load("t", "--decoder", decoder) == 4
    assert between.load("t", "--decoder", decoder) == 0
    between.same("t")


def test_many_tables_keep_their_keys(between: Between) -> None:
    between.do(
        "CREATE TABLE parents (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9) UNIQUE)",
        "CREATE TABLE children (a INT, b CHAR(3), parent INT, PRIMARY KEY (b, a), "
        "FOREIGN KEY (parent) REFERENCES parents (id)) CHARSET=latin1",
        "INSERT INTO parents (v) VALUES ('x'), (NULL), ('y')",
        "INSERT INTO children VALUES (1, 'a', 1), (2, 'a', NULL), (1, 'b', 3)",
    )
    between.shell.ok(
        "load", between.server.uri(between.here), "--tables", "*",
        "--to", between.server.uri(between.there),
    )  # fmt: skip
    between.same("parents")
    between.same_rows("children")
    # Foreign keys are left out, as the other table may come later; the index of it stays.
    text = between.definition(between.here, "children")
    without = re.sub(r",\n  CONSTRAINT `[^`]*` FOREIGN KEY [^\n]*", "", text)
    assert between.definition(between.there, "children") == without != text


@pytest.mark.long
def test_what_is_asked_for_wins(between: Between) -> None:
    between.do(
        "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9) CHARACTER SET "
        "latin1 NOT NULL DEFAULT 'x', y YEAR, u VARCHAR(9) AS (CONCAT(v, id)), UNIQUE (v, y))",
        "INSERT INTO t (v, y) VALUES ('a', 2001), ('b', NULL)",
    )
    own = "int(10) unsigned"
    for args, id_, v, keys in (
        (("--type", "v Nullable(String)"), own, "longtext", 1),
        (("--where", "id = 1"), own, "varchar(9)", 3),
        (("--rename", "id=number"), None, "varchar(9)", 1),
        (("--skip", "y"), own, "varchar(9)", 1),
        (("--order-by", "v"), own, "varchar(9)", 3),
    ):
        between.load("t", *args)
        found = dict(between.server.query(
            "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "
            f"'{between.there}' AND TABLE_NAME = 't'"
        ))  # fmt: skip
        assert found.get("id") == id_, args
        assert found["v"] == v, args
        rows = between.server.query("SHOW KEYS FROM t", database=between.there)
        assert len(rows) == keys, args
        between.server.query("DROP TABLE t", database=between.there)


@pytest.mark.long
def test_a_cursor_finds_a_row_again_and_there_is_room_for_it(between: Between) -> None:
    between.do(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT UNIQUE, at DATETIME NOT NULL)",
        "INSERT INTO t SELECT seq, seq, '2024-01-01' + INTERVAL seq DAY FROM seq_1_to_9",
    )
    for args, rows in ((), 10), (("--on-conflict", "replace"), 9):
        between.load("t", "--cursor", "at", *args)
        between.do("UPDATE t SET at = at + INTERVAL 1 YEAR WHERE id = 3")
        between.load("t", "--cursor", "at", *args)
        assert between.server.query("SELECT COUNT(*) FROM t", database=between.there) == [(rows,)]
        between.server.query("DROP TABLE t", database=between.there)


def test_bits_and_what_is_computed_where_rows_replace_others(between: Between) -> None:
    """All 64 bits come, as no DOUBLE has them; the server computes what it computes here, too."""
    between.do(
        "CREATE TABLE t (id INT PRIMARY KEY, wide BIT(64), way ENUM('a\\\\b', 'two\\nlines') "
        "DEFAULT 'a\\\\b', v VARCHAR(9), up VARCHAR(9) AS "
        "(UPPER(v)) STORED, low VARCHAR(9) AS (LOWER(v)))",
        "INSERT INTO t (id, wide, v) VALUES (1, 0x0123456789ABCDEF, 'Aa'), "
        "(2, 0xFFFFFFFFFFFFFFFF, 'Bb'), (3, NULL, NULL), (4, 0x8000000000000001, 'Dd')",
    )
    assert between.load("t", "--on-conflict", "replace") == 4
    between.same("t")
    between.do("UPDATE t SET v = 'New', wide = 0xFEDCBA9876543211 WHERE id = 2")
    between.load("t", "--on-conflict", "replace", "--force")
    between.same("t")


@pytest.mark.long
def test_a_default_of_a_sequence_is_left_out(between: Between) -> None:
    between.do(
        "CREATE SEQUENCE numbers",
        "CREATE TABLE t (id INT NOT NULL DEFAULT NEXTVAL(numbers) PRIMARY KEY, v INT UNIQUE)",
        "INSERT INTO t (v) VALUES (7), (8)",
    )
    assert between.load("t") == 2
    between.same_rows("t")
    definition = between.definition(between.there, "t")
    assert "nextval" not in definition
    assert "UNIQUE KEY `v` (`v`)" in definition


@pytest.mark.long
def test_a_table_with_periods_is_loaded(between: Between) -> None:
    between.do(
        "CREATE TABLE t (id INT, low DATE, high DATE, PERIOD FOR p (low, high), "
        "UNIQUE (id, p WITHOUT OVERLAPS))",
        "INSERT INTO t VALUES (1, '2024-01-01', '2024-02-01'), (1, '2024-02-01', '2024-03-01')",
    )
    assert between.load("t") == 2
    between.same_rows("t")


@pytest.mark.long
def test_what_refers_to_an_invisible_column_is_left_out_with_it(between: Between) -> None:
    between.do(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 7, hidden INT INVISIBLE "
        "DEFAULT 1, KEY by_hidden (hidden), up INT AS (hidden + 1) STORED)",
        "INSERT INTO t (id, v) VALUES (1, 2), (3, 4)",
    )
    assert between.load("t") == 2
    assert "PRIMARY KEY (`id`)" in between.definition(between.there, "t")
    between.same_rows("t")
