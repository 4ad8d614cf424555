"""Tables of a real PostgreSQL as targets: types, tables that are there, conflicts, refusals."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from e2e.following import Follower, put
from e2e.test_avro import put_times
from e2e.test_durations import put_durations, select_of
from e2e.tools import Done, Shell, csv, made
from lab.kafka import Kafka
from lab.postgresql import PostgresqlServer
from rowfall import api
from rowfall.core.listing import CUT_LEAST
from rowfall.core.options import Options
from rowfall.destinations.database import open_database
from rowfall.run import follow
from rowfall.systems.postgresql import joined
from rowfall.systems.postgresql.database import PostgresDatabase
from rowfall.targets import open_target

pytestmark = pytest.mark.xdist_group("postgresql")

_numbers = itertools.count()


class Into:
    """A schema of its own in the database, and the command that loads into it."""

    def __init__(self, shell: Shell, server: PostgresqlServer) -> None:
        self.shell, self.server = shell, server
        self.schema = f"to{os.getpid()}_{next(_numbers)}"
        shell.env["PGPASSWORD"] = server.password
        server.run(f"CREATE SCHEMA {self.schema}")
        self.uri = f"{server.uri}?schema={self.schema}"

    def do(self, *statements: str) -> None:
        self.server.run(*(s.replace("{s}", self.schema) for s in statements))

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.ask(statement.replace("{s}", self.schema))

    def ends(self, code: int, *args: str) -> Done:
        """Run; the password is neither printed nor remembered."""
        done = self.shell.ends(code, *args, "--to", self.uri)
        assert self.server.password not in done.out + done.err
        for ledger in self.shell.cli.home.rglob("*.ledger*"):
            assert self.server.password.encode() not in ledger.read_bytes()
        return done

    def load(self, *args: str) -> dict[str, Any]:
        """The report of a load that ends well."""
        return self.ends(0, "load", *args, "--json").document

    def types(self, table: str = "t") -> dict[str, str]:
        return dict(self.server.ask(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = "
            f"'{self.schema}.{table}'::regclass AND attnum > 0"
        ))  # fmt: skip


@pytest.fixture
def into(shell: Shell, postgresql: PostgresqlServer) -> Iterator[Into]:
    into = Into(shell, postgresql)
    yield into
    into.do("DROP SCHEMA {s} CASCADE")


@pytest.mark.parametrize("type_", ["BIGINT", "NUMERIC(20, 0)"])
def test_rows_of_a_generator_are_those_of_the_engine(into: Into, type_: str) -> None:
    """Whoever makes them."""
    rows = "generate://random?rows=3000&bytes=37&seed=3"
    into.do(f"CREATE TABLE {{s}}.t (payload TEXT NOT NULL, document_id {type_})")
    look = "SELECT count(*), sum(document_id), md5(string_agg(payload, ',' ORDER BY document_id))"
    found = []
    for more in ((), ("--decoder", "never", "--force")):
        assert into.load(rows, "--table", "t", *more)["rows"] == 3_000
        found += into.ask(f"{look} FROM {{s}}.t")
        into.do("TRUNCATE {s}.t")
    assert found[0][:2] == (3_000, 3_000 * 2_999 // 2)
    assert found[0] == found[1]


def test_files_are_loaded_once(into: Into) -> None:
    for number in range(3):
        rows = [(i, f"n{i}") for i in range(number * 1000, (number + 1) * 1000)]
        into.shell.write(f"in/{number}.csv", csv(rows, "id", "name"))
    plan = into.ends(0, "plan", "-v", "in/*.csv", "--table", "t").out
    assert "COPY" in plan
    assert "CREATE TABLE IF NOT EXISTS" in plan
    assert "committed in one transaction" in " ".join(plan.split())
    assert not into.ask("SELECT to_regclass('{s}.t')")[0][0]
    report = into.load("in/*.csv", "--table", "t")
    assert (report["rows"], report["splits_loaded"]) == (3000, 3)
    assert into.ask("SELECT count(*), sum(id), min(name) FROM {s}.t") == [(3000, 4498500, "n0")]
    again = into.load("in/*.csv", "--table", "t")
    assert (again["rows"], again["splits_skipped"]) == (0, 3)
    # Another machine knows nothing but what the database tells it.
    for ledger in into.shell.cli.home.rglob("*.ledger*"):
        ledger.unlink()
    into.shell.write("in/3.csv", csv([(9000, "n9000")], "id", "name"))
    more = into.load("in/*.csv", "--table", "t")
    assert (more["rows"], more["splits_skipped"]) == (1, 3)
    assert into.ask("SELECT count(*), count(DISTINCT split) FROM {s}._rowfall_loaded") == [(4, 4)]
    forced = into.load("in/3.csv", "--table", "t", "--force")
    assert forced["rows"] == 1
    assert into.ask("SELECT count(*) FROM {s}.t") == [(3002,)]


def test_a_table_that_is_made_anew_gets_everything_again(into: Into) -> None:
    into.shell.write("a.csv", csv([(1,), (2,)], "id"))
    into.load("a.csv", "--table", "t")
    into.do("DROP TABLE {s}.t")
    assert into.load("a.csv", "--table", "t")["rows"] == 2
    assert into.ask("SELECT count(*) FROM {s}.t") == [(2,)]


WRITTEN_TYPES = {
    "i": "Int64", "u": "UInt64", "wide": "Int128", "f": "Float32", "d": "Float64",
    "p": "Decimal(9, 2)", "q": "Decimal(38, 10)", "ok": "Bool", "s": "Nullable(String)",
    "day": "Date", "far": "Date32", "at": "DateTime('UTC')", "zone": "DateTime('Asia/Tokyo')",
    "ts": "DateTime64(6, 'UTC')", "id": "UUID", "v4": "IPv4", "v6": "IPv6",
    "e": "Enum8('it\\'s' = 1, 'b' = 2)", "none": "Nullable(Int32)",
}  # fmt: skip
WRITTEN = r"""
SELECT number - 1500 AS i, number * 6148914691236517 AS u, toInt128(i) * 1000000000000000000 AS wide,
toFloat32(sin(number)) AS f, cos(number) * exp10(number % 60 - 30) AS d, toDecimal32(i, 2) / 8 AS p,
toDecimal128(i, 10) / 3 AS q, number % 2 = 0 AS ok, if(number % 7, concat('tab\t\\N quote\' feed \f ',
'bell \b \r\n é', toString(number)), NULL) AS s, toDate('2024-02-29') + number AS day,
toDate32('1950-01-01') + number AS far, toDateTime('2001-01-01 00:00:00', 'UTC') + number * 99999 AS at,
toString(at) AS zone, toDateTime64('2001-01-01 00:00:00.5', 6, 'UTC') + number / 7 AS ts,
toUUID('123e4567-e89b-12d3-a456-426614174000') AS id, toIPv4(number) AS v4,
toIPv6(concat('fe80::', toString(number % 1000), if(number % 2, ':0:1', ''))) AS v6,
if(number % 3, 'b', 'it\'s') AS e, if(number % 5, number, NULL) AS none FROM numbers(3000)
"""  # noqa: E501
VALUES = (
    "SELECT toInt8(-1) AS i8, toUInt32(4294967295) AS u32, toUInt64(18446744073709551615) AS u64, "
    "toFloat32(0.1) AS f32, 0.1 AS f64, toDecimal64('12.34', 2) AS dec, true AS ok, "
    "'a\\tb\\\\c\\n\\'ü\\r\\f' AS s, toDate('2024-02-29') AS day, "
    "toDateTime64('2024-02-29 23:59:59.123456', 6, 'UTC') AS ts, "
    "CAST(NULL AS Nullable(Int32)) AS nothing, ['it''s', 'a\"b\\\\c', ''] AS arr, "
    "[1, 2]::Array(Int32) AS ints, map('k', 1) AS m, toFixedString('ab', 4) AS fs"
)


def test_types_of_a_new_table(into: Into) -> None:
    into.shell.write("t.parquet", made(VALUES, "Parquet"))
    into.load("t.parquet", "--table", "t")
    types = into.types()
    assert types["i8"] == "smallint"
    assert types["u32"] == "bigint"
    assert types["u64"] == "numeric(20,0)"
    assert types["dec"].startswith("numeric(")
    assert types["arr"] == "text[]"
    assert types["m"] == "jsonb"
    ((*row,),) = into.ask(
        "SELECT i8, u32, u64::text, f32, f64, dec::text, ok::text, s, day::text, ts::text, "
        "nothing, arr, ints, m FROM {s}.t"
    )
    assert row == [
        -1, 4294967295, "18446744073709551615", pytest.approx(0.1), 0.1, "12.34", row[6],
        "a\tb\\c\n'ü\r\f", "2024-02-29", row[9], None, ["it's", 'a"b\\c', ""], [1, 2], {"k": 1},
    ]  # fmt: skip
    assert row[9].startswith("2024-02-29 23:59:59.123456")


def test_both_writers_write_the_same(into: Into) -> None:
    """rowfall-decode in binary and as text, the engine, and it for what rowfall-decode declines."""
    into.shell.write("t.csv", made(WRITTEN, "CSVWithNames"))
    types = [f"{name} {type_}" for name, type_ in WRITTEN_TYPES.items()]
    options = [word for one in types for word in ("--type", one)]
    plan = " ".join(into.ends(0, "plan", "-v", "t.csv", "--table", "a", *options).out.split())
    assert "written in binary by rowfall-decode" in plan
    assert "FROM STDIN (FORMAT binary)" in plan
    assert into.load("t.csv", "--table", "a", *options)["rows"] == 3000
    # Addresses of a table that is there are text.
    into.do("CREATE TABLE {s}.e (LIKE {s}.a)", "CREATE TABLE {s}.f (LIKE {s}.a)")
    plan = " ".join(into.ends(0, "plan", "-v", "t.csv", "--table", "e").out.split())
    assert "written as text by rowfall-decode" in plan
    into.load("t.csv", "--table", "e")
    into.load("t.csv", "--table", "f", "--decoder", "never")
    never = ("--decoder", "never")
    plan = " ".join(
        into.ends(0, "plan", "-v", "t.csv", "--table", "b", *never, *options).out.split()
    )
    assert "written as text by the engine" in plan
    into.load("t.csv", "--table", "b", *never, *options)
    assert into.types("a") == into.types("b")
    # Fractions of seconds before 1970 are the engine's: what was sent before them is taken back.
    later = WRITTEN.replace("numbers(3000)", "numbers(9000)").replace(
        "'2001-01-01 00:00:00.5', 6, 'UTC') + number / 7",
        "'1970-01-01 00:15:00.5', 6, 'UTC') - number / 7",
    )
    assert later.count("1970") == 1
    into.shell.write("u.csv", made(later, "CSVWithNames"))
    done = into.ends(0, "load", "u.csv", "--table", "c", *options)
    assert "the engine reads it instead" in done.talk
    into.load("u.csv", "--table", "d", *never, *options)
    for one, other, rows in (("a", "b", 3000), ("e", "f", 3000), ("c", "d", 9000)):
        tables = (
            f"(TABLE {{s}}.{one} EXCEPT TABLE {{s}}.{other})",
            f"(TABLE {{s}}.{other} EXCEPT TABLE {{s}}.{one})",
        )
        assert into.ask(f"{tables[0]} UNION ALL {tables[1]}") == []
        for table in (one, other):
            assert into.ask(f"SELECT count(*) FROM {{s}}.{table}") == [(rows,)]


# Types of columns, and what is written into them.
_COLUMNS = {
    "two": ("smallint", "number * 109 - 32_000"),
    "four": ("int", "number * 7_000_000 - 2_000_000_000"),
    "eight": ("bigint", "toInt64(number * 1e16) - 5_000_000_000_000_000_000"),
    "ok": ("boolean", "number % 3 = 0"), "real": ("real", "number / 7"),
    "double": ("double precision", "number * exp10(number % 40) / 7 - 5"),
    "money": ("numeric(9,2)", "toDecimal64(number * 101, 2) / 4 - 9_999"),
    "tiny": ("numeric(18,17)", "number / 1024"), "deep": ("numeric(18,18)", "number / 65536"),
    "long": ("numeric(50,20)", "concat('-', toString(number), repeat('7', number % 28), '.', '5')"),
    "whole": ("numeric(30)", "number * 10000 - 10000"),
    "day": ("date", "toDate32(number * 97 - 20_000)"),
    "at": ("timestamp(3)", "toDateTime64(946684800 + number * 86_399 + number / 8, 3, 'UTC')"),
    "zone": ("timestamptz", "toDateTime64(number * 8_639_999 + number / 64, 6, 'UTC')"),
    "uid": ("uuid", "toUUID('123e4567-e89b-12d3-a456-426614174000')"),
    "word": ("varchar(9)", "repeat('é', number % 9)"),
    "fixed": ("char(4)", "['é', 'ab ', ''][1 + number % 3]"),
    "doc": ("jsonb", "concat('{\"b\":', toString(number), ',\"a\":[1]}')"),
    "said": ("json", "concat('[', toString(number), ', \"a\"]')"),
    "nonneg": ("{s}.positive", "number"),
}  # fmt: skip


def test_columns_of_a_table_get_the_same_in_binary(into: Into) -> None:
    """Each type, with every seventh value NULL, also through the table of --on-conflict."""
    values = ", ".join(
        f"if(number % 7 = 3, NULL, {value}) AS {name}" for name, (_, value) in _COLUMNS.items()
    )
    text = made(f"SELECT number AS id, {values} FROM numbers(500)", "CSVWithNames")
    into.shell.write("t.csv", text)
    into.do("CREATE DOMAIN {s}.positive AS int CHECK (VALUE >= 0)")
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in _COLUMNS.items())
    rows = []
    for table, more in (("a", ()), ("b", ("--decoder", "never")), ("c", ("--on-conflict", "skip"))):
        into.do(f"CREATE TABLE {{s}}.{table} (n int PRIMARY KEY, {columns})")
        options = ("t.csv", "--table", table, "--rename", "id=n", *more)
        plan = " ".join(into.ends(0, "plan", "-v", *options).out.split())
        assert ("written in binary" in plan) == (table != "b")
        assert "the engine reads it instead" not in into.ends(0, "load", *options).talk
        rows.append(into.ask(f"SELECT t::text FROM {{s}}.{table} AS t ORDER BY n"))
    assert len(rows[0]) == 500
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_a_zero_byte_is_refused_whatever_follows(into: Into, decoder: str) -> None:
    """COPY would take 12 behind it for a part of an octal number, a line end."""
    into.shell.write("t.csv", 'id,s\n1,a\n2,"b\x0012"\n')
    done = into.ends(1, "load", "t.csv", "--table", "t", "--decoder", decoder)
    assert "0x00" in done.talk
    assert into.ask("SELECT count(*) FROM {s}.t") == [(0,)]


def test_a_table_that_is_there_keeps_its_definition(into: Into) -> None:
    into.do(
        "CREATE TYPE {s}.mood AS ENUM ('good', 'bad')",
        "CREATE TABLE {s}.t (id int GENERATED ALWAYS AS IDENTITY, n numeric, m {s}.mood, "
        "tz timestamptz, u uuid, j jsonb, word varchar(5), twice int GENERATED ALWAYS AS (k * 2) "
        "STORED, k int NOT NULL, d int DEFAULT 7, iv interval)",
    )  # fmt: skip
    into.shell.write(
        "t.csv",
        "n,m,tz,u,j,word,k,iv\n"
        '1.50,good,2024-03-31 02:30:00,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,"{""a"": 1}",abc,4,'
        "1 day\n,,,,,,5,\n",
    )
    assert into.load("t.csv", "--table", "t")["rows"] == 2
    found = into.ask(
        "SELECT id, n::text, m::text, tz::text, u::text, j, word, k, twice, d, iv::text FROM {s}.t "
        "ORDER BY k"
    )
    assert found[0] == (
        found[0][0], "1.50", "good", found[0][3], "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", {"a": 1},
        "abc", 4, 8, 7, "1 day",
    )  # fmt: skip
    assert found[1] == (found[1][0], *[None] * 6, 5, 10, 7, None)


def test_arrays_go_into_a_table_that_is_there(into: Into) -> None:
    """From rows that have arrays, also a second time; fields of CSV are what PostgreSQL writes."""
    for number in (1, 2):
        row = {"id": number, "v": [1, 2], "s": ["a,b", 'q"x', None]}
        into.shell.write(f"{number}.jsonl", json.dumps(row) + "\n")
        assert into.load(f"{number}.jsonl", "--table", "t")["rows"] == 1
    into.shell.write("c.csv", 'id,v,s\n3,"{1,2}","{""a,b"",""q\\""x"",NULL}"\n')
    assert into.load("c.csv", "--table", "t")["rows"] == 1
    assert into.ask("SELECT id, v, s FROM {s}.t ORDER BY id") == [
        (number, [1, 2], ["a,b", 'q"x', None]) for number in (1, 2, 3)
    ]
    assert into.types()["s"] == "text[]"
    into.do("CREATE TABLE {s}.own (id int, v smallint[], s varchar(3)[])")
    assert into.load("1.jsonl", "--table", "own")["rows"] == 1
    into.shell.write("d.jsonl", '{"id":9,"v":[40000],"s":[]}\n')
    assert "40000" in into.ends(1, "load", "d.jsonl", "--table", "own").talk
    # Between two tables of PostgreSQL.
    uri = into.uri.replace("?", "/own?")
    into.ends(0, "load", uri, "--table", "t", "--force-append")
    assert into.ask("SELECT v, s FROM {s}.t WHERE id = 1") == [([1, 2], ["a,b", 'q"x', None])] * 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["jsonb", "json", "text"])
def test_nested_values_are_json_in_a_table_that_is_there(into: Into, kind: str) -> None:
    """It had the engine's own text, as {'k':1.5}, which is no JSON."""
    sql = "SELECT map('k', 1.5) AS m, tuple(1, NULL)::Tuple(a UInt8, b Nullable(String)) AS t"
    into.shell.write("a.parquet", made(f"{sql}, ['a', NULL] AS s", "Parquet"))
    for _ in range(2):
        into.load("a.parquet", "--table", "new", "--force")
    into.do(f"CREATE TABLE {{s}}.own (m {kind}, t {kind}, s {kind})")
    into.load("a.parquet", "--table", "own", "--force")
    row = ({"k": 1.5}, {"a": 1, "b": None})
    assert into.ask("SELECT m, t, s FROM {s}.new") == [(*row, ["a", None])] * 2
    columns = "m::jsonb, t::jsonb, s::jsonb"
    assert into.ask(f"SELECT {columns} FROM {{s}}.own") == [(*row, ["a", None])]


def test_a_value_that_cannot_be_read(into: Into) -> None:
    into.do("CREATE TABLE {s}.t (id int, n int)")
    into.shell.write("t.csv", "id,n\n1,2\n3,x\n4,5\n")
    done = into.ends(1, "load", "t.csv", "--table", "t")
    assert "t.csv line 3" in done.talk
    assert '"x" does not fit' in done.talk
    assert "Change the type of the column in the table, or leave bad rows out" in done.talk
    assert into.ask("SELECT count(*) FROM {s}.t") == [(0,)]
    into.load("t.csv", "--table", "t", "--max-errors", "1", "--rejects", "bad.tsv")
    assert into.ask("SELECT sum(id) FROM {s}.t") == [(5,)]
    assert "3,x" in (into.shell.folder / "bad.tsv").read_text()


def test_a_value_that_the_table_refuses(into: Into) -> None:
    into.do("CREATE TABLE {s}.t (id int CHECK (id > 0), word varchar(3))")
    into.shell.write("in/bad.csv", "id,word\n1,abc\n2,abcd\n")
    into.shell.write("in/good.csv", "id,word\n5,abc\n")
    done = into.ends(1, "load", "in/*.csv", "--table", "t")
    assert "bad.csv line 3" in done.talk
    assert "word" in done.talk
    assert "character varying(3)" in done.talk
    assert into.ask("SELECT id FROM {s}.t") == [(5,)]
    into.shell.write("in/bad.csv", "id,word\n-1,abc\n")
    done = into.ends(1, "load", "in/*.csv", "--table", "t")
    assert "t_id_check" in done.talk
    assert into.ask("SELECT id FROM {s}.t") == [(5,)]


def test_conflicts(into: Into) -> None:
    into.do("CREATE TABLE {s}.t (id int PRIMARY KEY, v text)", "INSERT INTO {s}.t VALUES (1, 'o')")
    into.shell.write("t.csv", "id,v\n1,new\n2,b\n2,c\n")
    done = into.ends(1, "load", "t.csv", "--table", "t", "--force-append")
    assert "--on-conflict skip" in done.talk
    assert "t.csv line 2: " in done.talk
    into.load("t.csv", "--table", "t", "--on-conflict", "skip")
    found = into.ask("SELECT * FROM {s}.t ORDER BY id")
    assert found[0] == (1, "o")
    assert len(found) == 2
    assert into.load("t.csv", "--table", "t", "--on-conflict", "skip")["rows"] == 0
    into.shell.write("u.csv", "id,v\n1,new\n3,d\n")
    into.load("u.csv", "--table", "t", "--on-conflict", "replace")
    assert into.ask("SELECT * FROM {s}.t WHERE id <> 2 ORDER BY id") == [(1, "new"), (3, "d")]
    into.do("CREATE TABLE {s}.nokey (id int, v text)")
    done = into.ends(2, "load", "t.csv", "--table", "nokey", "--on-conflict", "replace")
    assert "no primary key" in done.talk


def test_refusals(into: Into) -> None:
    into.do(
        "CREATE TABLE {s}.t (id int)", "CREATE VIEW {s}.v AS SELECT 1 AS id",
        "DROP ROLE IF EXISTS weak", "CREATE ROLE weak LOGIN PASSWORD 'weak-secret'",
        "GRANT USAGE ON SCHEMA {s} TO weak",
    )  # fmt: skip
    into.shell.write("t.csv", "id\n1\n")
    server, good = into.server, into.uri
    try:
        assert "is a view" in into.ends(5, "load", "t.csv", "--table", "v").talk
        assert "no schema" in into.ends(5, "load", "t.csv", "--table", "nowhere.t").talk
        weak = good.replace(f"{server.user}@", "weak:weak-secret@")
        into.uri = weak
        done = into.ends(5, "load", "t.csv", "--table", "t")
        assert f'GRANT INSERT ON "{into.schema}"."t" TO "weak"' in done.talk
        assert "weak-secret" not in done.out + done.err
        into.do("ALTER ROLE weak SET default_transaction_read_only = on")
        assert "is read-only" in into.ends(5, "load", "t.csv", "--table", "t").talk
        into.uri = weak.replace("weak-secret", "wrong-one")
        assert "password authentication failed" in into.ends(5, "load", "t.csv").talk
        into.uri = good.replace("/lab?", "/nowhere?")
        assert '"nowhere" does not exist' in into.ends(5, "load", "t.csv").talk
        into.uri = good.replace(f":{server.port}", ":1")
        assert "cannot connect" in into.ends(5, "load", "t.csv").talk
        into.uri = good
        into.shell.write("o.csv", "id,more\n1,2\n")
        assert "more" in into.ends(5, "load", "o.csv", "--table", "t").talk
        for option in ("--atomic", "--direct", "--widen"):
            into.ends(2, "load", "t.csv", "--table", "t", option)
        into.ends(2, "load", "t.csv", "--table", "new", "--order-by", "id")
        into.shell.ends(2, "load", "t.csv", "--on-conflict", "skip")
    finally:
        into.do("DROP OWNED BY weak", "DROP ROLE weak")


def test_commands_on_the_target(into: Into) -> None:
    into.shell.write("in/a.csv", csv([(i, i / 4) for i in range(100)], "id", "x"))
    load_id = into.load("in/a.csv", "--table", "t")["load_id"]
    done = into.ends(0, "query", "SELECT count(*) AS n, sum(x) AS s FROM t", "--format", "TSV")
    assert done.out.split() == ["100", "1237.5"]
    twice = "SELECT count(*), count(DISTINCT x) FROM t"
    head = into.ends(0, "query", twice, "--format", "TSVWithNames").out.splitlines()[0]
    assert head == "count\tcount_2"
    shown = into.ends(0, "query", "SELECT NULL AS a, ARRAY[1,2] AS b, true AS c").out
    assert shown == "a\tb\tc\n\\N\t{1,2}\ttrue\n"
    assert "read-only" in into.ends(5, "query", "DELETE FROM t").talk
    writes = "COMMIT; BEGIN READ WRITE; DROP TABLE t; COMMIT"
    for several in (
        f"SHOW search_path; {writes}",
        f"SELECT 1) AS a; {writes}; SELECT * FROM (SELECT 1",
    ):
        assert "multiple commands" in into.ends(5, "query", several).talk
    assert load_id[:8] in into.ends(0, "status").out
    found = into.ends(0, "verify", load_id, "--json").document
    assert (found["ok"], found["source_rows"], found["target_rows"]) == (True, 100, 100)
    assert not json.loads(into.ends(0, "clean", "--json").out).get("dropped")
    into.do("DELETE FROM {s}.t WHERE id < 10")
    into.ends(7, "verify", load_id)
    into.ends(0, "forget", load_id, "--yes")
    assert into.load("in/a.csv", "--table", "t")["rows"] == 100
    assert into.ask("SELECT count(*) FROM {s}.t") == [(190,)]


def test_a_large_file_goes_over_several_connections(into: Into) -> None:
    count = 2 * CUT_LEAST // 40
    rows = [(i, f"{i:030}") for i in range(count)]
    into.shell.write("t.csv", csv(rows, "id", "pad"))
    plan = " ".join(
        into.ends(0, "plan", "-v", "t.csv", "--table", "t", "--streams", "3").out.split()
    )
    assert "so that all connections work" in plan
    assert "3, each with transactions of its own" in plan
    report = into.load("t.csv", "--table", "t", "--streams", "3")
    assert report["rows"] == count
    assert report["splits"] > 2
    total = count * (count - 1) // 2
    assert into.ask("SELECT count(*), sum(id), count(DISTINCT pad) FROM {s}.t") == [
        (count, total, count)
    ]
    # Whole now, and it is known which ranges there were.
    assert into.load("t.csv", "--table", "t", "--streams", "1")["rows"] == 0


@pytest.mark.parametrize(
    "kind",
    ["stdin", "postgresql"]
    + [pytest.param(k, marks=pytest.mark.long) for k in ("csv.gz", "json", "generate")],
)
def test_other_sources(into: Into, kind: str) -> None:
    rows = "SELECT number AS id, toString(number) AS name FROM numbers(1000)"
    source = f"s.{kind}"
    if kind == "csv.gz":
        import gzip

        into.shell.write(source, gzip.compress(made(rows, "CSVWithNames")))
    elif kind == "json":
        into.shell.write(source, made(rows, "JSONEachRow"))
    elif kind == "generate":
        source = "generate://trips?rows=1000"
    elif kind == "postgresql":
        into.do("CREATE TABLE {s}.src AS SELECT i AS id FROM generate_series(0, 999) i")
        source = f"{into.server.uri}/src?schema={into.schema}"
    if kind == "stdin":
        text = made(rows, "CSVWithNames").decode()
        args = ("load", "-", "--format", "CSVWithNames", "--table", "t", "--to", into.uri)
        into.shell.ok(*args, stdin=text)
    else:
        into.load(source, "--table", "t")
    assert into.ask("SELECT count(*) FROM {s}.t") == [(1000,)]


@pytest.mark.long  # the server starts again
def test_an_unlogged_table_is_emptied_with_its_record(
    shell: Shell, postgresql: PostgresqlServer
) -> None:
    """A crash of the server empties it: what is loaded is forgotten in the same moment."""
    into = Into(shell, postgresql)
    try:
        shell.write("t.csv", csv([(i,) for i in range(100)], "id"))
        into.load("t.csv", "--table", "t", "--unlogged")
        assert into.ask("SELECT relpersistence FROM pg_class WHERE oid = '{s}.t'::regclass") == [
            ("u",)
        ]
        postgresql.kill()
        postgresql.start()
        assert into.ask("SELECT count(*) FROM {s}.t") == [(0,)]
        assert into.load("t.csv", "--table", "t")["rows"] == 100
        assert into.ask("SELECT count(*) FROM {s}.t") == [(100,)]
    finally:
        into.do("DROP SCHEMA {s} CASCADE")


@pytest.mark.long  # the start of a broker
def test_a_topic_goes_on_behind_what_is_loaded(into: Into, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, [f'{{"id": {i}}}'.encode() for i in range(1000)])
    source = f"kafka://{kafka.servers}/{topic}"
    options = ("--table", "t", "--format", "JSONEachRow")
    assert into.load(source, *options)["rows"] == 1000
    kafka.send(topic, [f'{{"id": {i}}}'.encode() for i in range(1000, 1500)])
    for ledger in into.shell.cli.home.rglob("*.ledger*"):
        ledger.unlink()
    assert into.load(source, *options)["rows"] == 500
    assert into.ask("SELECT count(*), count(DISTINCT id), sum(id) FROM {s}.t") == [
        (1500, 1500, 1499 * 750)
    ]


def test_rows_that_the_server_refuses_are_left_out(into: Into) -> None:
    """Out of range, too long, a CHECK, a key that is there: by --max-errors, with their lines."""
    into.do(
        "CREATE TABLE {s}.t (id int PRIMARY KEY, n smallint NOT NULL CHECK (n <> 13), "
        "s varchar(5))",
        "INSERT INTO {s}.t VALUES (7, 0, 'old')",
    )
    bad = {7: "7,1,x", 10: "10,99999,a", 100: "100,1,toolong", 300: "300,13,a"}
    text = "".join(f"{bad.get(i, f'{i},{i % 10},a')}\n" for i in range(5_000))
    into.shell.write("in/a.csv", f"id,n,s\n{text}")
    into.shell.write("in/b.csv", "id,n,s\n6000,1,b\n")
    into.ends(1, "load", "in/*.csv", "--table", "t", "--max-errors", "3", "--force-append")
    assert into.ask("SELECT count(*) FROM {s}.t WHERE id < 6000") == [(1,)]
    report = into.load("in/*.csv", "--table", "t", "--max-errors", "4", "--rejects", "r.tsv")
    assert report["rows_rejected"] == 4
    assert into.ask("SELECT count(*), max(id) FROM {s}.t") == [(4_998, 6000)]
    lines = (into.shell.folder / "r.tsv").read_text().splitlines()[1:]
    found = [line.split("\t") for line in lines]
    assert [(row[1], row[4]) for row in found] == [(str(i + 2), bad[i]) for i in bad]
    assert found[1][2] == "n"
    assert "duplicate key" in found[0][3]
    assert into.load("in/*.csv", "--table", "t", "--max-errors", "4")["rows"] == 0


def test_the_plan_counts_what_each_row_costs(into: Into) -> None:
    into.do(
        "CREATE TABLE {s}.r (id int PRIMARY KEY)",
        "CREATE TABLE {s}.t (id int PRIMARY KEY REFERENCES {s}.r, n int CHECK (n > 0))",
        "CREATE INDEX ON {s}.t (n)",
    )
    into.shell.write("t.csv", "id,n\n1,1\n")
    plan = into.ends(0, "plan", "t.csv", "--table", "t", "--json").document
    assert plan["upkeep"].startswith("2 indexes, 1 foreign key, 1 CHECK: kept up with each row")


def test_bytes_go_into_columns_of_bytes(into: Into) -> None:
    """Of a source that tells bytes from text; of files of text those that PostgreSQL reads."""
    import pyarrow as pa
    from pyarrow import parquet

    odd = [b"\x00\xff\\x\t", b"", None]
    for name, start in (("one", 0), ("two", 3)):
        made = pa.table({
            "id": range(start, start + 3), "b": odd, "s": ["x", "y", None],
            "f": pa.array([b"a\0b", b"\0\0\0", b"abc"], pa.binary(3)),
            "a": pa.array([odd, [], [b"\\"]], pa.list_(pa.binary())),
        })  # fmt: skip
        parquet.write_table(made, into.shell.folder / f"{name}.parquet")
    for name in ("one", "two"):  # the second one into a table that is there
        assert into.load(f"{name}.parquet", "--table", "t")["rows"] == 3
        assert into.load(f"{name}.parquet", "--table", "t")["rows"] == 0
    kinds = into.types()
    assert [kinds[c] for c in "bsfa"] == ["bytea", "text", "bytea", "bytea[]"]
    rows = into.ask("SELECT id, b, s, f, a FROM {s}.t ORDER BY id")
    for start in (0, 3):
        assert rows[start : start + 3] == [
            (start, odd[0], "x", b"a\0b", odd), (start + 1, b"", "y", b"\0\0\0", []),
            (start + 2, None, None, b"abc", [b"\\"]),
        ]  # fmt: skip
    into.shell.write("text.csv", "id,b,s,f,a\n9,\\x6100,z,abc,{}\n")
    into.load("text.csv", "--table", "t")
    assert into.ask("SELECT b FROM {s}.t WHERE id = 9") == [(b"a\0",)]
    made = pa.table({"id": [1], "b": [b"text"]})
    parquet.write_table(made, into.shell.folder / "texts.parquet")
    into.load("texts.parquet", "--table", "u", "--type", "b String")
    assert into.types("u")["b"] == "text"


def test_what_is_no_text_is_found(into: Into) -> None:
    """The server names neither column nor value of bytes that are not text."""
    select = "SELECT number AS id, 'x' AS a, if(number = 7, 'a\\0b', 'c') AS b FROM numbers(9)"
    into.shell.write("one.csv", "n\n1\n")
    into.shell.ok("load", "one.csv", "--to", "data")
    made = into.shell.ok("query", select, "--to", "data", "--format", "JSONEachRow")
    into.shell.write("made.jsonl", made.out)
    done = into.ends(1, "load", "made.jsonl", "--table", "t")
    assert "'a\\x00b' in column b" in done.talk
    assert "--encoding binary makes one of each text of a new table" in done.talk
    into.load("made.jsonl", "--table", "v", "--encoding", "binary")
    assert into.ask("SELECT b FROM {s}.v WHERE id = 7") == [(b"a\0b",)]


def test_a_followed_folder_and_a_record_that_is_joined(
    into: Into, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was loaded long ago is known in 30 bytes a file, whoever asks."""
    monkeypatch.setattr(follow, "KEPT", 2)
    monkeypatch.setattr(follow, "JOINED_AT_ONCE", 1)
    monkeypatch.setattr(joined, "AGE", "0 seconds")
    monkeypatch.setenv("PGPASSWORD", into.server.password)
    folder = into.shell.folder / "in"
    folder.mkdir()

    def file(*numbers: int) -> None:
        for number in numbers:
            put(folder / f"{number}.csv", number)

    steps = [partial(file, number) for number in range(1, 7)]
    Follower(*steps).run(str(folder), into.uri)
    counts = (
        "SELECT (SELECT count(*) FROM {s}._rowfall_loaded), sum(length(ids)) / 16 "
        "FROM {s}._rowfall_packed"
    )
    ((left, moved),) = into.ask(counts)
    assert left + moved == 6
    assert moved >= 3
    Follower(partial(file, *range(7, 1007))).run(str(folder), into.uri)
    assert into.ask("SELECT count(*), count(DISTINCT a) FROM {s}.t") == [(1006, 1006)]
    assert into.load(str(folder), "--table", "t")["splits_skipped"] == 1006
    other = {"ROWFALL_HOME": str(into.shell.folder / "elsewhere")}
    done = into.shell.ok(
        "load", str(folder), "--table", "t", "--to", into.uri, "--json", env=other
    )  # fmt: skip
    assert json.loads(done.out)["splits_loaded"] == 0
    # Another one that holds these in its own transaction finds out as well.
    assert into.ask("SELECT count(*), count(DISTINCT a) FROM {s}.t") == [(1006, 1006)]
    # The load that stands for the oldest batches is forgotten with all of them.
    oldest = min(api.loads(to=into.uri), key=lambda one: one.started)
    assert oldest.rows >= 5
    into.do(f"DELETE FROM {{s}}.t WHERE a <= {oldest.rows}")
    assert api.forget(oldest.load_id, to=into.uri) == oldest.rows
    assert into.load(str(folder), "--table", "t")["rows"] == oldest.rows
    assert into.ask("SELECT count(*), count(DISTINCT a) FROM {s}.t") == [(1006, 1006)]


def test_ids_that_an_earlier_version_has_joined_are_read_and_packed(
    into: Into, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", into.server.password)
    for name in "ab":
        into.shell.write(f"{name}.csv", "a\n1\n")
    loads = [into.load(f"{name}.csv", "--table", "t")["load_id"] for name in "ab"]
    into.do(
        "CREATE TABLE {s}._rowfall_joined (id uuid PRIMARY KEY, table_id oid NOT NULL, "
        "day smallint NOT NULL, load text NOT NULL)",
        "WITH gone AS (DELETE FROM {s}._rowfall_loaded RETURNING split, table_id, load) "
        "INSERT INTO {s}._rowfall_joined SELECT md5(table_id::text || split)::uuid, table_id, "
        "2000, load FROM gone",
    )
    assert into.load("a.csv", "b.csv", "--table", "t")["splits_skipped"] == 2
    with closing(_database(into)) as database:
        database.join_record()
    assert into.ask("SELECT count(*) FROM {s}._rowfall_joined") == [(0,)]
    assert into.load("a.csv", "b.csv", "--table", "t")["splits_skipped"] == 2
    into.shell.ok("forget", loads[0], "--to", into.uri, "--yes")
    assert into.load("a.csv", "b.csv", "--table", "t")["splits_skipped"] == 1


def _database(into: Into) -> PostgresDatabase:
    database = open_database(open_target(into.uri, "t", Options()), Options())
    assert isinstance(database, PostgresDatabase)
    database.check(dry=False)
    return database


@pytest.mark.parametrize(("type_", "name", "shown"), [
    ("time", "a.avro", "00:00:01.005"),
    pytest.param("interval", "a.parquet", "00:00:01.005", marks=pytest.mark.long),
    ("timestamp", "a.avro", "1970-01-01 00:00:01.005"),
    pytest.param("timestamptz", "a.parquet", "1970-01-01 00:00:01.005+00",
                 marks=pytest.mark.long),
])  # fmt: skip
def test_milliseconds_are_no_clock(into: Into, type_: str, name: str, shown: str) -> None:
    """The server took 1005 milliseconds for five past ten, or for 1005 seconds."""
    into.do(f"CREATE TABLE {{s}}.t (a {type_})")
    if name == "a.avro":
        put_times(into.shell, name, "time-millis", 1005)
    else:
        put_durations(into.shell, name, "ms", 1005)
    done = into.ends(2, "load", name, "--table", "t")
    assert f"{name}: the numbers of a are " in done.talk
    into.load(name, "--table", "t", "--select", select_of(done))
    assert into.ask("SELECT a::text FROM {s}.t") == [(shown,)]
