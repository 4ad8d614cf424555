"""New tables of PostgreSQL made from tables of PostgreSQL: types, NOT NULL, keys, values."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.tools import Shell
from lab.postgresql import PostgresqlServer

pytestmark = pytest.mark.xdist_group("postgresql")

_numbers = itertools.count()


class Between:
    """Two schemas of one database: rows are loaded from the first into the second."""

    def __init__(self, shell: Shell, server: PostgresqlServer) -> None:
        self.shell, self.server = shell, server
        number = f"{os.getpid()}_{next(_numbers)}"
        self.here, self.there = f"here{number}", f"there{number}"
        shell.env["PGPASSWORD"] = server.password
        self.do("CREATE SCHEMA {s}", "CREATE SCHEMA {t}")

    def _named(self, statement: str) -> str:
        return statement.replace("{s}", self.here).replace("{t}", self.there)

    def do(self, *statements: str) -> None:
        self.server.run(*map(self._named, statements))

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.ask(self._named(statement))

    def args(self, table: str, *more: str) -> tuple[str, ...]:
        source = f"{self.server.uri}/{table}?schema={self.here}"
        to = f"{self.server.uri}?schema={self.there}"
        return ("load", source, "--to", to, "--table", table, *more)

    def load(self, table: str, *more: str) -> dict[str, Any]:
        return self.shell.ends(0, *self.args(table, *more), "--json").document

    def columns(self, schema: str, table: str) -> list[tuple[Any, ...]]:
        """Name, type and NOT NULL of each column."""
        return self.ask(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE "
            f"attrelid = '{schema}.{table}'::regclass AND attnum > 0 ORDER BY attnum"
        )

    def key(self, schema: str, table: str) -> list[tuple[Any, ...]]:
        return self.ask(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'p' AND "
            f"conrelid = '{schema}.{table}'::regclass"
        )

    def same(self, table: str) -> None:
        """Both tables are alike, and hold the same rows."""
        assert self.columns(self.there, table) == self.columns(self.here, table)
        assert self.key(self.there, table) == self.key(self.here, table)
        self.same_rows(table)

    def same_rows(self, table: str) -> None:
        """As their texts: json has no equality, and infinity no value in Python."""
        texts = "SELECT r::text FROM {}.{} AS r ORDER BY 1"
        there = self.ask(texts.format(self.there, table))
        assert there
        assert there == self.ask(texts.format(self.here, table))


@pytest.fixture
def between(shell: Shell, postgresql: PostgresqlServer) -> Iterator[Between]:
    between = Between(shell, postgresql)
    yield between
    between.do("DROP SCHEMA {s} CASCADE", "DROP SCHEMA {t} CASCADE")


def test_a_new_table_has_types_and_key_of_the_other_one(between: Between) -> None:
    between.do(
        'CREATE TABLE {s}.t (b varchar(5), "A b" int, at timestamp(3) NOT NULL, j jsonb, '
        'PRIMARY KEY ("A b", b))',
        "INSERT INTO {s}.t VALUES ('x', 1, '2024-03-31 02:30:00.125', '{\"a\": [1, null]}'), "
        "('y', 1, '1970-01-01', NULL)",
    )
    assert between.load("t")["rows"] == 2
    between.same("t")
    assert between.load("t")["rows"] == 0


# Of each type least and greatest values that come through, and what is written in an odd way.
VALUES = {
    "boolean": ["true", "false"],
    "smallint": ["-32768", "32767"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "real": ["-3.4028235e38", "1e-45", "0.1", "NaN"],
    "double precision": ["-1.7976931348623157e308", "5e-324", "0.1", "NaN"],
    "numeric": ["NaN", "1e-200", "-12345678901234567890.0100", "Infinity", "-Infinity"],
    "numeric(12,3)": ["-999999999.999", "0.001"],
    "numeric(90,10)": ["1" * 80 + ".0000000001", "NaN"],
    "text": ["", "tab\t back\\slash \n 'quote' \"double\" {a,b} NULL \\N ü", " "],
    "character varying(5)": ["", "a\\b", "  x  "],
    "character varying": ["x"],
    "character(3)": ["a", "   "],
    "json": ['{"b" : 1,  "a":"\\u00e4\\n", "b":2}', "null", "[]"],
    "jsonb": ['{"b": 1, "a": "\\u00e4\\n\\\\"}', "null", "1e400"],
    "xml": ["<a b='1'>x</a>"],
    "inet": ["10.0.0.1", "10.0.0.1/8", "::1", "fe80::1/64"],
    "cidr": ["10.0.0.0/8", "10.1.2.3/32", "2001:db8::/32"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "date": ["0001-01-01", "9999-12-31"],
    "time without time zone": ["00:00:00", "24:00:00", "23:59:59.999999"],
    "time(0) without time zone": ["12:00:01"],
    "time with time zone": ["23:59:59.5+15:59", "00:00:00-15:59", "12:00:00+05:30"],
    "timestamp without time zone": ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"],
    "timestamp(0) without time zone": ["2024-03-31 02:30:00"],
    "timestamp with time zone": ["0001-01-01 00:00:00+00", "2024-03-31 02:30:00.123456+02"],
    "timestamp(3) with time zone": ["2024-03-31 02:30:00.123+02"],
    "interval": ["-178000000 years", "1 mon -3 days +04:05:06.7", "-1 mon 3 days -00:00:00.000001"],
    "interval day to second(3)": ["1 day 02:03:04.567"],
    "bit(4)": ["0101"],
    "bit varying(9)": ["", "111"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "bytea": ["", "\\x00ff5c27090a"],
    "smallint[]": ["{}", "{-1,NULL,32767}"],
    "boolean[]": ["{t,NULL,f}"],
    "text[]": ['{"",NULL,"NULL","a\\"b\\\\c","{d,e}"," \'f\' "}'],
    "character varying(5)[]": ['{"a,b",NULL}'],
    "numeric[]": ["{NaN,NULL,1.50}"],
    "numeric(9,2)[]": ["{-0.01,NULL,1.50}"],
    "date[]": ["{1900-01-01,NULL}"],
    "timestamp without time zone[]": ['{"2024-03-31 02:30:00.5",NULL}'],
    "timestamp with time zone[]": ['{"2024-03-31 02:30:00.5+02",NULL}'],
    "interval[]": ['{"1 mon -3 days +04:05:06.7",NULL}'],
    "uuid[]": ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}"],
    "jsonb[]": ['{"{\\"a\\": \\"b\\\\\\\\c\\"}",NULL,"null"}'],
    "inet[]": ["{10.0.0.1/8,NULL}"],
}


def _filled(between: Between, types: dict[str, list[str]]) -> None:
    """Make a table of these types, with their values and, where they may be, NULL."""
    columns = [f"c{n} {type_}" for n, type_ in enumerate(types)]
    between.do(f"CREATE TABLE {{s}}.t (id int PRIMARY KEY, {', '.join(columns)})")
    most = max(map(len, types.values()))
    with between.server.connect() as connection:
        for row in range(most + 1):
            values = [
                found[row] if row < len(found) else found[0] if type_.endswith("[]") else None
                for type_, found in types.items()
            ]
            marks = ", ".join(f"%s::text::{type_}" for type_ in types)
            connection.execute(
                f"INSERT INTO {between.here}.t VALUES ({row}, {marks})".encode(), values
            )


@pytest.mark.long
@pytest.mark.parametrize("type_", VALUES)
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_values_of_a_type_come_through(between: Between, type_: str, decoder: str) -> None:
    """By whoever reads and writes them: rowfall-decode or the engine."""
    _filled(between, {type_: VALUES[type_]})
    between.load("t", "--decoder", decoder)
    between.same("t")


@pytest.mark.long
def test_a_later_run_goes_on_in_the_table_that_was_made(between: Between) -> None:
    """Its columns are then read from the target: the values still come as they are."""
    _filled(between, VALUES)
    between.do("ALTER TABLE {s}.t ALTER id ADD GENERATED ALWAYS AS IDENTITY (START 100)")
    assert between.load("t")["rows"] == 6
    names = ", ".join(f"c{n}" for n in range(len(VALUES)))
    between.do(f"INSERT INTO {{s}}.t ({names}) SELECT {names} FROM {{s}}.t ORDER BY id")
    assert between.load("t")["rows"] == 6
    assert between.load("t")["rows"] == 0
    between.same("t")


@pytest.mark.long
def test_what_is_asked_for_wins(between: Between) -> None:
    between.do(
        "CREATE TABLE {s}.t (id int PRIMARY KEY, at timestamp, tm time, ip inet)",
        "INSERT INTO {s}.t VALUES (1, '2024-01-01', '01:02:03', '10.0.0.0/8')",
        "INSERT INTO {s}.t VALUES (2)",
    )
    types = {"id": "integer", "at": "timestamp without time zone",
             "tm": "time without time zone", "ip": "inet"}  # fmt: skip
    key = [("PRIMARY KEY (id)",)]
    for args, changed, wanted in (
        (("--type", "tm Nullable(String)"), {"tm": "text"}, key),
        (("--type", "id Int64"), {"id": "bigint"}, []),
        (("--where", "id = 1"), {}, key),
        (("--rename", "ip=address"), {"ip": None, "address": "inet"}, key),
        (("--rename", "id=number"), {"id": None, "number": "integer"},
         [("PRIMARY KEY (number)",)]),
        (("--skip", "id"), {"id": None}, []),
        (("--select", "id, at, tm, ip"),
         {"at": "timestamp(6) with time zone", "tm": "text", "ip": "text"}, []),
    ):  # fmt: skip
        between.load("t", *args)
        found = {name: type_ for name, type_, _ in between.columns(between.there, "t")}
        assert found == {n: t for n, t in {**types, **changed}.items() if t}, args
        assert between.key(between.there, "t") == wanted, args
        between.do("DROP TABLE {t}.t")


@pytest.mark.long
def test_types_that_are_defined_in_one_database_become_what_they_were(between: Between) -> None:
    between.do(
        "CREATE TYPE {s}.mood AS ENUM ('good', 'so so')",
        "CREATE DOMAIN {s}.code AS varchar(4) CHECK (value <> '')",
        "CREATE TABLE {s}.t (m {s}.mood PRIMARY KEY, ms {s}.mood[], c {s}.code, o oid, n name, "
        'w "char", cs {s}.code[], grid int[][], raw bytea[])',
        "INSERT INTO {s}.t VALUES ('so so', '{good}', 'ab', 7, 'n', 'w', '{a,NULL}', "
        "'{{1,2},{3,4}}', '{\"\\\\x00ff\"}')",
    )
    between.load("t")
    assert [type_ for _, type_, _ in between.columns(between.there, "t")] == [
        "text", "text[]", "character varying(4)", "bigint", "text", "text",
        "character varying(4)[]", "jsonb", "text[]",
    ]  # fmt: skip
    assert between.key(between.there, "t") == [("PRIMARY KEY (m)",)]
    assert between.ask("SELECT m, ms, c, cs, grid, raw FROM {t}.t") == [
        ("so so", ["good"], "ab", ["a", None], [[1, 2], [3, 4]], ["00ff"])
    ]


@pytest.mark.long
def test_a_query_has_types_and_no_key(between: Between) -> None:
    between.do(
        "CREATE TABLE {s}.t (id int PRIMARY KEY, at timestamp(3), v varchar(9))",
        "INSERT INTO {s}.t VALUES (1, '2024-01-01 00:00:00.125', 'x')",
    )
    source, to = between.server.uri, f"{between.server.uri}?schema={between.there}"
    query = f"SELECT at, v, at::time AS tm, 1.5 AS n FROM {between.here}.t"
    between.shell.ends(0, "load", source, "--query", query, "--to", to, "--table", "q")
    assert between.columns(between.there, "q") == [
        ("at", "timestamp(3) without time zone", False), ("v", "character varying(9)", False),
        ("tm", "time without time zone", False), ("n", "numeric", False),
    ]  # fmt: skip
    assert between.key(between.there, "q") == []
    assert between.ask("SELECT v, tm::text, n::text FROM {t}.q") == [("x", "00:00:00.125", "1.5")]


@pytest.mark.long
def test_a_parent_s_key_is_not_that_of_its_heirs(between: Between) -> None:
    between.do(
        "CREATE TABLE {s}.t (id int PRIMARY KEY, at timestamp)",
        "CREATE TABLE {s}.heir () INHERITS ({s}.t)",
        "INSERT INTO {s}.t VALUES (1, '2024-01-01')",
        "INSERT INTO {s}.heir VALUES (1, '2024-01-02')",
        "CREATE TABLE {s}.parts (id int PRIMARY KEY, at timestamp) PARTITION BY RANGE (id)",
        "CREATE TABLE {s}.part PARTITION OF {s}.parts FOR VALUES FROM (0) TO (9)",
        "INSERT INTO {s}.parts VALUES (1, '2024-01-01')",
    )
    assert between.load("t")["rows"] == 2
    assert between.key(between.there, "t") == []
    between.same_rows("t")
    between.load("parts")
    between.same("parts")


@pytest.mark.long
def test_versions_of_a_row_need_room_or_the_key(between: Between) -> None:
    """A cursor finds a row that was updated again."""
    between.do(
        "CREATE TABLE {s}.t (id int PRIMARY KEY, at timestamp NOT NULL)",
        "INSERT INTO {s}.t SELECT i, '2024-01-01'::timestamp + i * interval '1 day' "
        "FROM generate_series(1, 9) i",
    )
    for args, rows, key in (
        ((), 10, []),
        (("--on-conflict", "replace"), 9, [("PRIMARY KEY (id)",)]),
    ):
        between.load("t", "--cursor", "at", *args)
        between.do("UPDATE {s}.t SET at = at + interval '1 year' WHERE id = 3")
        between.load("t", "--cursor", "at", *args)
        assert between.ask("SELECT count(*) FROM {t}.t") == [(rows,)]
        assert between.key(between.there, "t") == key
        between.do("DROP TABLE {t}.t")


@pytest.mark.long
@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz"])
def test_infinity_is_refused_with_its_row(between: Between, type_: str) -> None:
    """It does not come through: no value of the way has its place."""
    between.do(
        f"CREATE TABLE {{s}}.t (id int PRIMARY KEY, at {type_})",
        "INSERT INTO {s}.t VALUES (1, '2024-01-01'), (2, 'infinity')",
    )
    done = between.shell.ends(1, *between.args("t"))
    assert "infinity" in done.talk
    assert between.ask("SELECT count(*) FROM {t}.t") == [(0,)]
    between.load("t", "--max-errors", "1")
    assert between.ask("SELECT id, at IS NOT NULL FROM {t}.t") == [(1, True)]


@pytest.mark.long
def test_two_loads_that_share_a_key_say_so(between: Between) -> None:
    between.do("CREATE TABLE {s}.t (id int PRIMARY KEY)", "INSERT INTO {s}.t VALUES (7)")
    between.load("t")
    done = between.shell.ends(1, *between.args("t", "--force"))
    assert "--on-conflict" in done.talk
    assert "7" in done.talk
    assert between.ask("SELECT id FROM {t}.t") == [(7,)]
    between.load("t", "--force", "--on-conflict", "skip")
    assert between.ask("SELECT id FROM {t}.t") == [(7,)]
