"""Tables of a real PostgreSQL: types, keys, what a later run loads, and what goes wrong."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.test_hint_commands import typed
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.postgresql import BIN, PostgresqlServer
from lab.process import wait_until
from lab.tls import certificate
from rowfall.core.errors import SourceError
from rowfall.core.options import Options
from rowfall.sources import open_source
from rowfall.systems.postgresql import rows as postgresql_rows
from rowfall.systems.postgresql.source import PostgresSource

# One server for all of them.
pytestmark = pytest.mark.xdist_group("postgresql")

_numbers = itertools.count()
ROWS = 50_000
"""Enough to be cut into ranges."""


class Base:
    """A schema of its own in the database, and the command that loads from it."""

    def __init__(self, shell: Shell, server: PostgresqlServer) -> None:
        self.shell, self.server = shell, server
        self.schema = f"s{next(_numbers)}"
        shell.env["PGPASSWORD"] = server.password
        server.run(f"CREATE SCHEMA {self.schema}")

    def do(self, *statements: str) -> None:
        self.server.run(*(s.replace("{s}", self.schema) for s in statements))

    def uri(self, table: str) -> str:
        mark = "&" if "?" in table else "?"
        return f"{self.server.uri}/{table}{mark}schema={self.schema}"

    def load(self, table: str, *args: str) -> dict[str, Any]:
        """The report of a load that ends well."""
        return self.ends(0, table, *args, "--json").document

    def ends(self, code: int, table: str, *args: str) -> Any:
        """Run; the password is neither printed nor remembered."""
        done = self.shell.ends(code, "load", self.uri(table), *args)
        assert self.server.password not in done.out + done.err
        for ledger in self.shell.folder.rglob("*.ledger*"):
            assert self.server.password.encode() not in ledger.read_bytes()
        return done

    def row(self, sql: str) -> list[Any]:
        return self.shell.row(sql)

    def numbers(self, table: str, rows: int = ROWS, *, first: int = 1, pad: int = 100) -> None:
        """A table of some MB with an identity column, so that it is cut."""
        self.do(
            f"CREATE TABLE IF NOT EXISTS {{s}}.{table} "
            "(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int NOT NULL, pad text)",
            f"INSERT INTO {{s}}.{table} (n, pad) SELECT i, repeat('x', {pad}) "
            f"FROM generate_series({first}, {first + rows - 1}) i",
        )


@pytest.fixture
def base(shell: Shell, postgresql: PostgresqlServer) -> Iterator[Base]:
    base = Base(shell, postgresql)
    yield base
    base.do("DROP SCHEMA {s} CASCADE")


# --- types ----------------------------------------------------------------------------------------

TYPES = """CREATE TABLE {s}.types (
 id int PRIMARY KEY, s smallint, b bigint, n numeric(30,4), nn numeric, r real, d double precision,
 ok boolean, t text, v varchar(9), c char(3), day date, ts timestamp, tz timestamptz,
 ts0 timestamp(0), tm time, iv interval, m {s}.mood, j json, jb jsonb, u uuid, by bytea, ip inet,
 ai int[], at text[], ad date[], ab boolean[], dom {s}.positive, "We""ird`" int,
 twice int GENERATED ALWAYS AS (id * 2) STORED)"""
FULL = (
    "1, -32768, 9223372036854775807, 12345678901234567890123456.7891, 1.50, 1.5, 0.1, true, "
    "E'a\\tb\\\\c\\n''ü', 'v', 'c', '1900-01-01', '2024-02-29 23:59:59.123456', "
    "'2024-03-31 02:30:00+02', '2024-01-01 00:00:01', '23:59:59.5', '1 day 02:00', 'so so', "
    "'{\"a\" : 1}', '{\"a\":1}', 'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x00ff', '10.0.0.0/8', "
    "'{1,NULL,-3}', ARRAY['it''s', E'a\\\\b', NULL, E'x\\ty,z'], '{2024-01-01}', '{t,f}', 7, 8"
)


def test_types_arrive_as_they_are(base: Base) -> None:
    base.do(
        "CREATE TYPE {s}.mood AS ENUM ('good', 'so so')",
        "CREATE DOMAIN {s}.positive AS int CHECK (value > 0)", TYPES,
        f"INSERT INTO {{s}}.types VALUES ({FULL})",
        "INSERT INTO {s}.types (id, ai, at, ad, ab) VALUES (2, '{}', '{}', '{}', '{}')",
    )  # fmt: skip
    assert base.load("types")["rows"] == 2
    found = dict(base.shell.rows("SELECT name, type FROM system.columns WHERE table = 'types'"))
    assert found["id"] == "Int32"
    assert found["n"] == "Nullable(Decimal(30, 4))"
    assert found["tz"] == "Nullable(DateTime64(6, 'UTC'))"
    assert found["m"] == "LowCardinality(Nullable(String))"
    assert found["at"] == "Array(Nullable(String))"
    row = base.row(
        "SELECT * EXCEPT (n, b) REPLACE (hex(by) AS by), toString(n), toString(b) FROM types "
        "WHERE id = 1"
    )
    assert row == [
        1, -32768, "1.50", 1.5, 0.1, True, "a\tb\\c\n'ü", "v", "c  ", "1900-01-01",
        "2024-02-29 23:59:59.123456", "2024-03-31 00:30:00.000000", "2024-01-01 00:00:01",
        "23:59:59.5", "1 day 02:00:00", "so so", '{"a" : 1}', '{"a": 1}',
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00FF", "10.0.0.0/8", [1, None, -3],
        ["it's", "a\\b", None, "x\ty,z"], ["2024-01-01"], [True, False], 7, 8, 2,
        "12345678901234567890123456.7891", 9223372036854775807,
    ]  # fmt: skip
    nulls = base.row("SELECT * EXCEPT (id, twice) FROM types WHERE id = 2")
    assert [v for v in nulls if v is not None] == [[], [], [], []]


def test_a_table_that_is_there_gets_its_own_types(base: Base) -> None:
    base.do("CREATE TABLE {s}.t (id int PRIMARY KEY, n numeric, extra text)",
            "INSERT INTO {s}.t VALUES (1, 1.5, 'x'), (2, NULL, NULL)")  # fmt: skip
    args = ("--table", "a", "--type", "n Nullable(Decimal(9, 2))", "--select", "n, id")
    base.load("t", *args)
    assert base.shell.rows("SELECT id, n FROM a ORDER BY id") == [[1, 1.5], [2, None]]
    base.load("t", "--table", "b", "--type", "n Nullable(Decimal(9, 2))")
    base.load("t", "--table", "b", "--force")
    assert base.shell.row("SELECT sum(n), count() FROM b") == [3, 4]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", [(), ("--decoder", "never")])
def test_arrays_that_are_null_or_have_dimensions(base: Base, more: tuple[str, ...]) -> None:
    base.do("CREATE TABLE {s}.t (id int PRIMARY KEY, v int[][], w text[])",
            "INSERT INTO {s}.t VALUES (1, '{{1,2},{3,NULL}}', ARRAY['a''b\\', NULL]), "
            "(2, '{}', '{}')")  # fmt: skip
    base.load("t", *more)
    assert base.shell.rows("SELECT v, w FROM t ORDER BY id") == [
        [[[1, 2], [3, None]], ["a'b\\", None]], [[], []],
    ]  # fmt: skip
    base.do("INSERT INTO {s}.t VALUES (3, NULL, NULL)")
    refused = base.ends(1, "t", "--table", "u", *more)
    assert "is empty or NULL, and Array(" in refused.talk
    base.load("t", "--table", "u", "--null-lists", "empty", *more)
    assert base.shell.row("SELECT v, w FROM u WHERE id = 3") == [[], []]
    base.load("t", "--table", "x", "--type", "v Nullable(String)", "--skip", "w", *more)
    assert base.shell.rows("SELECT v FROM x ORDER BY id") == [["[[1,2],[3,NULL]]"], ["[]"], [None]]
    base.do("INSERT INTO {s}.t VALUES (4, '{7}', '{}')")
    refused = base.ends(1, "t", "--table", "y", "--null-lists", "empty", *more)
    assert '"[7]" does not fit Array(Array(Nullable(Int32)))' in refused.talk


# --- what is loaded, and what a later run adds ----------------------------------------------------


def test_a_later_run_loads_what_is_new(base: Base) -> None:
    base.numbers("t")
    assert base.load("t")["rows"] == ROWS
    again = base.ends(0, "t")
    assert "all 16 ranges are loaded already (--force loads them again)" in again.talk
    base.numbers("t", 500, first=ROWS + 1)
    assert base.load("t")["rows"] == 500
    assert base.row("SELECT count(), uniqExact(id), sum(n) FROM t") == [
        ROWS + 500, ROWS + 500, (ROWS + 500) * (ROWS + 501) // 2,
    ]  # fmt: skip


def test_rows_that_are_not_committed_yet_are_waited_for(base: Base) -> None:
    """A sequence gives numbers before rows are committed: a lower one may come later."""
    base.numbers("t", 10)
    with base.server.connect() as writer:
        writer.execute("BEGIN")
        writer.execute(f"INSERT INTO {base.schema}.t (n) VALUES (11)")
        base.numbers("t", 1, first=12)
        process = base.shell.cli.start(
            "load", base.uri("t"), "--json", env={"PGPASSWORD": base.server.password}
        )
        polls = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rowfall'"
        wait_until(lambda: base.server.ask(polls)[0][0] > 0, 30, "the load does not begin")
        writer.execute("COMMIT")
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["rows"] == 12
    assert base.row("SELECT sum(n) FROM t") == [78]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("definition", "values"),
    [
        ("id uuid PRIMARY KEY", "gen_random_uuid()"),
        pytest.param(
            "id timestamptz PRIMARY KEY",
            "timestamptz '1950-01-01' + i * interval '1 day'",
            marks=pytest.mark.long,
        ),
        ("id int", "i"),
    ],
    ids=["uuid", "timestamp", "ctid"],  # in the gate one that is a key, and none
)
def test_keys_that_do_not_grow(base: Base, definition: str, values: str) -> None:
    base.do(
        f"CREATE TABLE {{s}}.t ({definition}, n int NOT NULL, pad text)",
        f"INSERT INTO {{s}}.t SELECT {values}, i, repeat('x', 110) "
        "FROM generate_series(1, 40000) i",
        "ANALYZE {s}.t",
    )
    first = base.load("t")
    assert first["rows"] == 40_000
    assert base.row("SELECT count(), uniqExact(n), sum(n) FROM t") == [
        40_000, 40_000, 40_000 * 40_001 // 2,
    ]  # fmt: skip
    base.do(f"INSERT INTO {{s}}.t SELECT {values}, 0, '' FROM generate_series(90000, 90009) i")
    assert "loaded already" in base.ends(0, "t").talk
    assert base.row("SELECT count() FROM t") == [40_000]


def test_files_that_are_written_are_known_again(base: Base) -> None:
    """A table is cut in the same way by each run, so a file that is missing gets its own rows."""
    base.numbers("t")
    into = ("--to", "out/{n}.csv", "--files", "4")
    assert base.load("t", *into)["rows"] == ROWS
    assert base.load("t", *into)["rows"] == 0
    lost = base.shell.folder / "out/1.csv"
    before = sorted(lost.read_text().splitlines())
    lost.unlink()
    assert base.load("t", *into)["rows"] == len(before) - 1
    assert sorted(lost.read_text().splitlines()) == before
    base.numbers("t", 10, first=ROWS + 1)
    assert "are there already" in base.ends(5, "t", *into).talk
    assert base.load("t", *into, "--replace")["rows"] == ROWS + 10


@pytest.mark.long
def test_views_queries_and_partitions(base: Base) -> None:
    base.do(
        "CREATE TABLE {s}.p (id int, at date) PARTITION BY RANGE (at)",
        "CREATE TABLE {s}.p1 PARTITION OF {s}.p FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
        "CREATE TABLE {s}.p2 PARTITION OF {s}.p FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')",
        "INSERT INTO {s}.p SELECT i, date '2024-01-01' + i % 60 FROM generate_series(1, 600) i",
        "CREATE VIEW {s}.v AS SELECT id FROM {s}.p WHERE id <= 100",
        "CREATE TABLE {s}.none (id int PRIMARY KEY)",
    )
    assert base.load("p")["rows"] == 600
    assert base.load("v")["rows"] == 100
    assert f"nothing to load: {base.uri('none')} is empty" in base.ends(0, "none").talk
    base.do("INSERT INTO {s}.none VALUES (1), (2)")
    assert base.load("none")["rows"] == 2
    query = f"SELECT nullif(id % 7, 0) AS k, id FROM {base.schema}.p"
    to = ("--table", "q", "--json")
    whole = base.shell.ok("load", base.server.uri, "--query", query, *to).document
    assert whole["rows"] == 600
    base.shell.ok("load", f"{base.server.uri}?key=k", "--query", query, "--table", "keyed")
    sums = base.row("SELECT (SELECT sum(id) FROM q), (SELECT sum(id) FROM keyed)")
    assert sums == [180_300, 180_300]
    assert base.row("SELECT countIf(isNull(k)) FROM keyed") == [85]
    base.shell.ok("load", base.server.uri, "--query", query, *to)
    assert base.row("SELECT count() FROM q") == [600]


def test_the_plan_says_how_it_is_cut(base: Base) -> None:
    base.numbers("t")
    base.do("CREATE VIEW {s}.v AS SELECT n FROM {s}.t")
    said = " ".join(base.shell.ok("plan", base.uri("t")).out.split())
    name = f"{base.schema}.t is read in 16 ranges of id (its primary key)"
    assert f"{name}; a later run loads the values above {ROWS}" in said
    said = " ".join(base.shell.ok("plan", base.uri("v")).out.split())
    assert f"read as one stream: {base.schema}.v is a view" in said


def test_what_psql_shows_on_a_terminal_is_read_or_names_the_command_that_writes_rows(
    base: Base,
) -> None:
    base.do("CREATE TABLE {s}.t AS SELECT 1 AS id, 'Oslo, N' AS s UNION ALL SELECT NULL, 'b'")
    psql = f"{BIN}/psql {base.server.uri}"
    select = f"SELECT * FROM {base.schema}.t"
    for name, more in (("plain", ""), ("framed", "--pset border=2")):
        assert typed(base.shell, f'{psql} {more} -c "{select}" > box').code == 0
        assert typed(base.shell, f"rowfall load - --table {name} < box").code == 0
        assert base.shell.rows(f"SELECT * FROM {name} ORDER BY s") == [[1, "Oslo, N"], [None, "b"]]
    # Of a value with a line break psql makes two lines.
    base.do("INSERT INTO {s}.t VALUES (2, E'c\\nd')")
    for more in ("", "--pset border=2", "--expanded"):
        assert typed(base.shell, f'{psql} {more} -c "{select}" > box').code == 0
        for line in ("rowfall load - < box", "mv box box.csv; rowfall load box.csv"):
            refused = typed(base.shell, line)
            assert refused.code in (2, 4), (more, refused)
            assert "not a table that can be read" in refused.err, (more, refused)
    shown = typed(base.shell, f'{psql} -c "{select}" | rowfall load -')
    hint = re.search(r"hint: .*: (psql --csv .*)$", shown.err, re.M)
    assert hint
    command = hint[1].replace("psql", psql, 1).replace("'SELECT ...'", f'"{select}"')
    assert typed(base.shell, command).code == 0
    rows = base.shell.rows("SELECT * FROM NAME ORDER BY s")
    assert rows == [[1, "Oslo, N"], [None, "b"], [2, "c\nd"]]


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.mark.long
def test_into_a_server(base: Base, lake: Lake) -> None:
    base.numbers("t", 40_000)
    for decoder in ("auto", "never"):
        done = lake.load(base.uri("t"), "--table", decoder, "--decoder", decoder)
        assert done["rows"] == 40_000
        assert lake.row(f"SELECT count(), sum(n) FROM {{db}}.{decoder}") == [40_000, 800_020_000]
    base.numbers("t", 10, first=40_001)
    assert lake.load(base.uri("t"), "--table", "auto")["rows"] == 10


@pytest.mark.long  # 10 s with the start of the cluster
def test_into_a_cluster(shell: Shell, postgresql: PostgresqlServer, fleet: Fleet) -> None:
    base = Base(shell, postgresql)
    base.numbers("t", 100_000)
    assert fleet.load(base.uri("t"), "--table", "t")["rows"] == 100_000
    assert fleet.numbers("t") == [100_000, 100_000]
    assert sum(fleet.counts("t_local")) == 100_000
    base.numbers("t", 10, first=100_001)
    assert fleet.load(base.uri("t"), "--table", "t")["rows"] == 10
    assert fleet.numbers("t") == [100_010, 100_010]
    base.do("DROP SCHEMA {s} CASCADE")


# --- faults ---------------------------------------------------------------------------------------

GATE = 77


@pytest.fixture
def gated(base: Base) -> Iterator[Any]:
    """A view whose last rows nobody can read as long as the connection holds the gate."""
    base.numbers("t")
    base.do(
        f"CREATE FUNCTION {{s}}.gate(i bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN "
        f"IF i = 49000 THEN PERFORM pg_advisory_xact_lock_shared({GATE}); END IF; "
        "RETURN i; END $$",
        "CREATE VIEW {s}.v AS SELECT id, {s}.gate(id) AS g, n, pad FROM {s}.t",
    )
    holder = base.server.connect()
    holder.execute(f"SELECT pg_advisory_lock({GATE})")
    yield holder
    holder.close()


WAITING = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
ALL = ["SELECT count(), uniqExact(id), sum(n) FROM v", [ROWS, ROWS, ROWS * (ROWS + 1) // 2]]


def begin(base: Base, *args: str) -> Any:
    """Start a load of the view, and wait until it reads the row that is held."""
    process = base.shell.cli.start(
        "load", base.uri("v?key=id"), *args, env={"PGPASSWORD": base.server.password}
    )
    wait_until(lambda: bool(base.server.ask(WAITING)), 60, "the gate is not reached")
    return process


def test_a_connection_that_is_killed_is_made_again(base: Base, gated: Any) -> None:
    process = begin(base)
    ((pid,),) = base.server.ask(WAITING)
    base.server.run(f"SELECT pg_terminate_backend({pid})")
    gated.close()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert "trying again" in err
    assert base.row(ALL[0]) == ALL[1]


def test_a_server_that_restarts_in_the_middle(base: Base, gated: Any) -> None:
    process = begin(base)
    base.server.kill()
    base.server.start()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert base.row(ALL[0]) == ALL[1]


def loaded(base: Base) -> int:
    """The rows that the newest load has published, as another process sees them."""
    loads = base.shell.ok("status", "--json").document["loads"]
    return int(loads[0]["rows"]) if loads else 0


def test_a_killed_load_goes_on_where_it_was(base: Base, gated: Any) -> None:
    """The snapshot is gone, and the table has grown: each row of the first run comes once."""
    process = begin(base, "--attempt-bytes", "500kB")
    # The row that is held is in the last attempt; those before it are published while it waits.
    wait_until(lambda: loaded(base) > 0, 60, "nothing is published")
    process.kill()
    process.wait()
    gated.close()
    done = base.load("v?key=id")
    assert 0 < done["rows"] < ROWS
    assert base.row(ALL[0]) == ALL[1]


def test_rows_that_the_driver_reads_are_the_same(base: Base) -> None:
    """As it does where the connection is encrypted."""
    base.numbers("t", 5_000)
    base.do("INSERT INTO {s}.t (n, pad) VALUES (1, E'\\n\\\\\\td'), (2, NULL)",
            "INSERT INTO {s}.t (n, pad) VALUES (3, repeat('y', 700000))")  # fmt: skip
    select = f"SELECT * FROM {base.schema}.t"
    with base.server.connect() as connection:
        assert postgresql_rows.is_plain(connection)
        found = [
            b"".join(postgresql_rows.copy(connection, select, plain=plain))
            for plain in (True, False, True)
        ]
        with pytest.raises(postgresql_rows.ServerSaidError, match="division by zero"):
            list(postgresql_rows.copy(connection, f"{select} WHERE 1 / (id - 9) > 0", plain=True))
    assert found[0] == found[1] == found[2]
    assert found[0].count(b"\n") == 5_003


@pytest.mark.long
def test_an_encrypted_connection(shell: Shell) -> None:
    with PostgresqlServer(tls=True) as server:
        with server.connect() as connection:
            assert not postgresql_rows.is_plain(connection)
        base = Base(shell, server)
        base.numbers("t")
        assert base.load("t?sslmode=require")["rows"] == ROWS
        assert base.row("SELECT count(), sum(n) FROM t") == [ROWS, ROWS * (ROWS + 1) // 2]
        # A server runs, and is not trusted; of either direction.
        shell.write("other.pem", certificate(shell.folder)[0].read_text())
        asks = "sslmode=verify-full&sslrootcert=other.pem"
        shell.write("one.csv", "n\n1\n")
        into = ("one.csv", "--to", f"{server.uri}?{asks}", "--table", "x")
        for args in (("load", base.uri(f"t?{asks}")), ("load", *into)):
            done = shell.run(*args)
            assert done.code in (4, 5)
            assert "certificate verify failed" in done.err
            assert "?sslrootcert=FILE" in done.err


def test_a_range_that_cannot_be_read_is_named_by_its_keys(base: Base) -> None:
    base.numbers("t")
    base.do("CREATE VIEW {s}.v AS SELECT id, 1 / (id - 49999) AS x FROM {s}.t")
    said = base.ends(1, "v?key=id").talk
    assert re.search(rf"{base.schema}\.v\?by=id\[\d+:\]: division by zero", said), said


# --- bad input ------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_named(base: Base) -> None:
    base.do(
        "CREATE TABLE {s}.orders (id int PRIMARY KEY, p point)",
        "CREATE TABLE {s}.mine (id int PRIMARY KEY)",
        "DROP ROLE IF EXISTS poor", "CREATE ROLE poor LOGIN PASSWORD 'poor-secret'",
        "GRANT USAGE ON SCHEMA {s} TO poor",
    )  # fmt: skip
    said = base.ends(4, "ordres").talk
    assert f"has no table {base.schema}.ordres" in said
    assert "Did you mean" in said
    said = base.ends(4, "orders").talk
    assert "no column of ClickHouse is like p point" in said
    assert f'--query \'SELECT id, p::text AS p FROM "{base.schema}"."orders"\'' in said
    poor = base.uri("mine").replace("rowfall@", "poor:poor-secret@")
    said = base.shell.ends(4, "load", poor).talk
    assert f"the user poor may not read {base.schema}.mine" in said
    assert "poor-secret" not in said
    base.do("REVOKE ALL ON SCHEMA {s} FROM poor", "DROP ROLE poor")
    wrong = {"PGPASSWORD": "wrong"}
    said = base.shell.ends(4, "load", base.uri("mine"), env=wrong).talk
    assert "password authentication failed" in said
    assert "Set PGPASSWORD" in said
    away = base.uri("mine").replace(f":{base.server.port}/", ":1/")
    assert "Does a server run at 127.0.0.1:1?" in base.shell.ends(4, "load", away).talk
    said = base.shell.ends(4, "load", base.server.uri, "--query", "SELECT nothing").talk
    assert 'column "nothing" does not exist' in said
    base.shell.write("a.csv", "1\n")
    assert "--query is for databases" in base.shell.ends(2, "load", "a.csv", "--query", "x").talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("type_", "value", "column"),
    [
        ("date", "'infinity'", 'column "x"'),
        pytest.param("timestamp", "'-infinity'", 'column "x"', marks=pytest.mark.long),
        pytest.param("timestamp", "'20000-01-01'", 'column "x"', marks=pytest.mark.long),
        pytest.param("numeric(10, 2)", "'NaN'", 'column "x"', marks=pytest.mark.long),
        ("int[]", "'{{1,2},{3,4}}'", 'row 2 column "x"'),
        pytest.param("int[]", "NULL", 'row 2 column "x"', marks=pytest.mark.long),
    ],
)
def test_values_that_no_type_holds_are_errors(
    base: Base, type_: str, value: str, column: str
) -> None:
    good = "'{1}'" if type_ == "int[]" else "'1'" if "numeric" in type_ else "'2024-01-01'"
    base.do(f"CREATE TABLE {{s}}.t (id int PRIMARY KEY, x {type_})",
            f"INSERT INTO {{s}}.t VALUES (1, {good}), (2, {value})")  # fmt: skip
    assert column in base.ends(1, "t").talk
    assert base.row("SELECT count() FROM t") == [0]


# --- tables without a key -------------------------------------------------------------------------


def without_key(base: Base) -> None:
    """A table of which one row cannot be loaded."""
    base.numbers("t")
    base.do("CREATE TABLE {s}.h AS SELECT id, n, pad, CASE WHEN id = 49000 THEN 'infinity' "
            "ELSE '2024-01-01' END::date AS day FROM {s}.t")  # fmt: skip


def test_a_loaded_table_without_a_key_that_was_changed(base: Base) -> None:
    base.numbers("t")
    base.do("CREATE TABLE {s}.h AS SELECT id, n, pad FROM {s}.t")
    assert base.load("h")["rows"] == ROWS
    base.do("UPDATE {s}.h SET n = 0 WHERE id < 10", "SELECT pg_stat_force_next_flush()")
    assert "loaded already" in base.ends(0, "h").talk


@pytest.mark.long
@pytest.mark.parametrize("crash", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_half_loaded_table_without_a_key_that_was_changed(base: Base, crash: bool) -> None:
    """Its rows may have moved to a block that is loaded or not; a crash forgets who was updated."""
    without_key(base)
    base.ends(1, "h", "--attempt-bytes", "500kB")
    ((loaded,),) = [base.row("SELECT count() FROM h")]
    assert 0 < loaded < ROWS
    base.do("UPDATE {s}.h SET day = '2024-01-01' WHERE id = 49000")
    if crash:
        base.server.kill()
        base.server.start()
    said = base.ends(4, "h").talk
    assert "may have been updated or deleted" in said
    assert "--replace" in said
    assert base.row("SELECT count() FROM h") == [loaded]
    wrong = base.ends(2, "h", "--replace").talk
    base.shell.ok("forget", wrong.split()[-1], "--yes")
    assert base.load("h", "--replace")["rows"] == ROWS
    assert base.row("SELECT count(), uniqExact(id) FROM h") == [ROWS, ROWS]


@pytest.mark.long
def test_a_half_loaded_table_without_a_key_that_has_grown(base: Base) -> None:
    """Behind what is there: each row comes once."""
    without_key(base)
    base.ends(1, "h", "--attempt-bytes", "500kB")
    base.do("INSERT INTO {s}.h SELECT id + 100000, n, pad, day FROM {s}.h WHERE id < 11")
    base.load("h", "--max-errors", "1")
    assert base.row("SELECT count(), uniqExact(id) FROM h") == [ROWS + 9, ROWS + 9]


def test_a_new_snapshot_of_a_table_without_a_key(base: Base) -> None:
    """The connection that holds the snapshot is lost: nothing may have moved since."""
    base.numbers("t")
    base.do("CREATE TABLE {s}.h AS SELECT * FROM {s}.t")
    options = Options(patience="5s")
    source = open_source([base.uri("h").replace("@", f":{base.server.password}@", 1)], options)
    assert isinstance(source, PostgresSource)
    first, second, third = list(source.listing().splits("h"))[:3]
    drop = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = "
    read = 0
    for split in (first, second):
        read += b"".join(source.stream(split)).count(b"\n") - 1
        base.do(f"{drop} 'rowfall'")
        source._readers._idle.pop().connection.close()
    base.do("UPDATE {s}.h SET n = 0 WHERE id = 49000")
    with pytest.raises(SourceError, match="may have been updated"):
        list(source.stream(third))
    source.close()
    assert 0 < read < ROWS


def test_the_query_of_an_unknown_type_is_run_as_it_is_printed(base: Base) -> None:
    """With the port and the names as they are."""
    base.do('CREATE TABLE {s}."Odd" (id int PRIMARY KEY, "a B" int, p point)',
            """INSERT INTO {s}."Odd" VALUES (1, 2, '(3,4)')""")  # fmt: skip
    done = base.ends(4, "Odd")
    words = shlex.split(done.err.partition("Cast it: rowfall ")[2].strip())
    base.shell.ok(*words)
    assert base.shell.rows('SELECT * FROM "Odd"') == [[1, 2, "(3,4)"]]
    both = base.ends(2, "Odd", "--query", "SELECT 1")
    assert f":{base.server.port}/{base.server.database} --query" in both.talk
