"""Tables followed by a column (``--cursor``): each row once, late ones too, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer

# One server for all of them.
pytestmark = pytest.mark.xdist_group("postgresql")

_numbers = itertools.count()
COUNT = "SELECT count(), uniqExact(id), sum(v) FROM orders"


class Shop:
    """A schema of its own with a table of orders, and the command that follows it."""

    def __init__(self, shell: Shell, server: PostgresqlServer) -> None:
        self.shell, self.server = shell, server
        self.schema = f"cursor{next(_numbers)}"
        shell.env["PGPASSWORD"] = server.password
        self.do("CREATE SCHEMA {s}")

    def do(self, *statements: str) -> None:
        self.server.run(*(s.replace("{s}", self.schema) for s in statements))

    def uri(self, table: str = "orders") -> str:
        return f"{self.server.uri}/{table}?schema={self.schema}"

    def load(self, *args: str, table: str = "orders", cursor: str = "at") -> dict[str, Any]:
        """The report of a load that ends well."""
        return self.shell.ok(
            "load", self.uri(table), "--cursor", cursor, *args, "--json"
        ).document  # fmt: skip

    def talk(self, code: int, *args: str, command: str = "load") -> str:
        done = self.shell.ends(code, command, self.uri(), *args)
        return " ".join(done.talk.split())

    def orders(self, rows: int = 100) -> None:
        """Orders a second apart, up to 2024-01-01 00:01:40."""
        self.do(
            "CREATE TABLE {s}.orders (id int PRIMARY KEY, at timestamptz, v int)",
            "INSERT INTO {s}.orders SELECT i, '2024-01-01 UTC'::timestamptz + "
            f"i * interval '1 s', 1 FROM generate_series(1, {rows}) i",
        )

    def order(self, id_: int, seconds: float, v: int = 1) -> None:
        self.do(
            f"INSERT INTO {{s}}.orders VALUES ({id_}, '2024-01-01 UTC'::timestamptz + "
            f"{seconds} * interval '1 s', {v})"
        )


@pytest.fixture
def shop(shell: Shell, postgresql: PostgresqlServer) -> Iterator[Shop]:
    shop = Shop(shell, postgresql)
    yield shop
    shop.do("DROP SCHEMA {s} CASCADE")


def test_new_rows_and_late_ones_are_loaded_once(shop: Shop) -> None:
    shop.orders()
    shop.do("INSERT INTO {s}.orders VALUES (900, NULL, 1)")
    assert shop.load()["rows"] == 101
    assert shop.load()["rows"] == 0
    shop.order(101, 101)
    shop.order(901, 100, 5)  # the value of the last one
    shop.order(902, 30.5, 7)  # and one that is a minute late
    assert shop.load()["rows"] == 3
    assert shop.shell.row(COUNT) == [104, 104, 101 + 1 + 5 + 7]
    shop.order(903, 101, 9)  # late ones alone, twice
    assert shop.load()["rows"] == 1
    shop.order(904, 101, 9)
    assert shop.load()["rows"] == 1
    shop.order(905, 101.000002, 9)
    assert shop.load()["rows"] == 1
    shop.do("INSERT INTO {s}.orders VALUES (906, NULL, 1)")  # no run but the first reads these
    assert shop.load()["rows"] == 0
    assert shop.shell.row(COUNT) == [107, 107, 114 + 27]


@pytest.mark.long
def test_a_row_that_was_changed_comes_again_as_a_new_version(shop: Shop) -> None:
    shop.orders(10)
    shop.load()
    shop.do("UPDATE {s}.orders SET v = 50, at = at + interval '20 s' WHERE id = 3")
    assert shop.load()["rows"] == 1
    assert shop.shell.rows("SELECT v FROM orders WHERE id = 3 ORDER BY v") == [[1], [50]]
    shop.load("--table", "newest", "--upsert", "id")
    shop.do("UPDATE {s}.orders SET v = 60, at = at + interval '20 s' WHERE id = 3")
    shop.order(11, 5, 1)  # late, by ten seconds and more
    assert shop.load("--table", "newest", "--upsert", "id")["rows"] == 2
    assert shop.shell.row("SELECT count(), uniqExact(id), max(v) FROM newest") == [11, 11, 60]


@pytest.mark.long
def test_what_is_below_the_overlap_is_not_seen(shop: Shop) -> None:
    shop.orders(1000)
    shop.load("--cursor-overlap", "10s")
    shop.order(1001, 985)
    assert shop.load("--cursor-overlap", "10s")["rows"] == 0
    said = shop.talk(0, "--cursor", "at", "--cursor-overlap", "30s")
    assert "rows behind at 2024-01-01 00:16:40 are read, and 1 row that came late" in said
    assert "(the overlap is 30s); rows that come later below the overlap are not seen" in said
    assert shop.shell.row("SELECT count() FROM orders") == [1001]


KINDS = {
    "int": ("int", "i", "'7'", "1000"),
    "day": ("date", "date '2024-01-01' + i", "date '2024-01-01' + 9", "1d"),
    "decimal": ("numeric(10, 2)", "i / 4.0", "2.50", "0"),
    "text": ('text COLLATE "C"', "'2024-' || lpad(i::text, 4, '0')", "'2024-0010'", "0"),
    "uuid": (
        "uuid", "('018cc251-f4' || lpad(to_hex(i), 2, '0') || '-7000-8000-000000000000')::uuid",
        "'018cc251-f40a-7000-9000-000000000000'", "5m",
    ),
    "micros": ("timestamp(6)", "timestamp '2024-01-01' + i * interval '1 us'",
               "'2024-01-01 00:00:00.000010'", "5m"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_column_is_followed(shop: Shop, kind: str) -> None:
    type_, value, again, overlap = KINDS[kind]
    shop.do(
        f"CREATE TABLE {{s}}.t (id int PRIMARY KEY, c {type_})",
        f"INSERT INTO {{s}}.t SELECT i, {value} FROM generate_series(1, 10) i",
    )
    first = shop.load(table="t", cursor="c")
    assert first["rows"] == 10
    shop.do(f"INSERT INTO {{s}}.t VALUES (11, {again})")
    assert shop.load(table="t", cursor="c")["rows"] == 1
    shop.do(f"INSERT INTO {{s}}.t SELECT i, {value} FROM generate_series(12, 15) i")
    assert shop.load(table="t", cursor="c")["rows"] == 4
    assert shop.load(table="t", cursor="c")["rows"] == 0
    assert shop.shell.row("SELECT count(), uniqExact(id) FROM t") == [15, 15]
    said = " ".join(shop.shell.ok("plan", shop.uri("t"), "--cursor", "c").out.split())
    assert f"(the overlap is {overlap})" in said


@pytest.mark.long
def test_a_query_is_followed_with_a_key_of_its_own(shop: Shop) -> None:
    shop.orders(10)
    query = ["--query", f"SELECT id, at, v FROM {shop.schema}.orders WHERE v > 0", "--table", "q"]
    uri = shop.server.uri
    done = shop.shell.ends(2, "load", uri, *query, "--cursor", "at")
    assert "nothing tells rows of the query apart" in done.talk
    assert "--key id" in done.talk
    for rows, id_ in ((10, 11), (1, 12), (1, 13)):
        done = shop.shell.ok("load", uri, *query, "--cursor", "at", "--key", "id", "--json")
        assert done.document["rows"] == rows
        shop.order(id_, 10)
    assert shop.shell.row("SELECT count(), uniqExact(id) FROM q") == [12, 12]


@pytest.mark.long
def test_a_table_without_a_key(shop: Shop) -> None:
    shop.do(
        "CREATE TABLE {s}.log (n bigint, v int)",
        "INSERT INTO {s}.log SELECT i, 1 FROM generate_series(1, 10) i",
    )
    said = shop.shell.ends(2, "load", shop.uri("log"), "--cursor", "n", "--cursor-overlap", "0")
    assert "nothing tells rows of" in said.talk
    shop.do("CREATE UNIQUE INDEX ON {s}.log (n)")
    assert shop.load("--cursor-overlap", "0", table="log", cursor="n")["rows"] == 10
    shop.do("INSERT INTO {s}.log VALUES (11, 1)")
    assert shop.load("--cursor-overlap", "0", table="log", cursor="n")["rows"] == 1
    assert shop.load("--cursor-overlap", "0", table="log", cursor="n")["rows"] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("args", "said", "hint"),
    [
        (["--cursor", "att"], "--cursor att: ", "Did you mean at?"),
        (["--cursor", "doc"], "--cursor doc: ", "which is no text"),
        (["--cursor", "name"], "sorts by the collation", "Name an integer, a date"),
        (["--cursor", "f"], "as double precision, which is nothing that grows", "Name an integer"),
        (["--cursor", "r"], "the highest value of r is a0eebc99", "another version than 7"),
        (["--cursor", "at", "--key", "idd"], "--key idd: ", "Did you mean id?"),
        (["--cursor", "at", "--cursor-overlap", "7"], "does not fit at", "Give a time"),
        (["--cursor", "id", "--cursor-overlap", "5m"], "does not fit id", "Give a number"),
        (["--cursor-overlap", "5m"], "--cursor-overlap is for --cursor", "Name a column"),
        (["--cursor", "at", "--to", "out.csv"], "--cursor needs a table", "Name a folder"),
    ],
)
def test_bad_columns(shop: Shop, args: list[str], said: str, hint: str) -> None:
    shop.orders(3)
    shop.do(
        "ALTER TABLE {s}.orders ADD doc jsonb, ADD f double precision, ADD r uuid",
        'ALTER TABLE {s}.orders ADD name text COLLATE "und-x-icu"',
        "UPDATE {s}.orders SET r = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    )
    text = shop.talk(4 if "r" in args else 2, *args)
    assert said in text
    assert hint in text


def test_files_have_no_cursor(shell: Shell) -> None:
    shell.write("a.csv", "a,b\n1,2\n")
    done = shell.ends(2, "load", "a.csv", "--cursor", "a")
    assert "--cursor is for tables and queries of databases, and a.csv is none" in done.talk


def test_another_column_than_before(shop: Shop) -> None:
    shop.orders(10)
    shop.load()
    for args, now in ((["--cursor", "id"], "--cursor id"), ([], "no --cursor")):
        text = shop.talk(2, *args)
        assert f"with --cursor at, and is now to be loaded with {now}" in text
        assert "Go on with --cursor at, or load all of it anew" in text
    shop.load("--replace", cursor="id")
    assert shop.load(cursor="id")["rows"] == 0
    assert shop.shell.row("SELECT count() FROM orders") == [10]
    plain = shop.shell.ok("load", shop.uri(), "--table", "plain", "--json").document
    assert plain["rows"] == 10
    text = shop.talk(2, "--cursor", "at", "--table", "plain")
    assert "with no --cursor" in text
    assert "Leave out --cursor" in text


def test_a_table_that_was_set_back(shop: Shop) -> None:
    shop.orders(1000)
    shop.load("--cursor-overlap", "10s")
    shop.do("DELETE FROM {s}.orders WHERE id > 995")  # the newest: no more than the overlap
    assert shop.load("--cursor-overlap", "10s")["rows"] == 0
    shop.do("DELETE FROM {s}.orders WHERE id > 500")
    text = shop.talk(4, "--cursor", "at", "--cursor-overlap", "10s")
    assert "loaded up to at 2024-01-01 00:16:40" in text
    assert "the highest value is 2024-01-01 00:08:20 now: the table was set back" in text
    assert shop.load("--cursor-overlap", "10s", "--loaded", "all")["rows"] == 0
    shop.order(2000, 1001)
    assert shop.load("--cursor-overlap", "10s")["rows"] == 1
    shop.do("DELETE FROM {s}.orders WHERE id = 2000")
    shop.talk(4, "--cursor", "at", "--cursor-overlap", "10s")
    assert shop.load("--cursor-overlap", "10s", "--replace")["rows"] == 500
    assert shop.shell.row("SELECT count() FROM orders") == [500]


SOURCES = ("mariadb", "duckdb", "clickhouse", "folder")


class Other:
    """A table of another database than PostgreSQL: integers ``id`` and times ``at``."""

    def __init__(self, kind: str, request: pytest.FixtureRequest, shell: Shell) -> None:
        self.kind, self.shell, self.name = kind, shell, f"cursor{next(_numbers)}"
        self.more: list[str] = []
        if kind == "mariadb":
            self.mariadb: MariaDB = request.getfixturevalue("mariadb")
            self.mariadb.query(f"CREATE DATABASE {self.name}")
            self.uri = self.mariadb.uri(f"{self.name}/orders")
        elif kind == "duckdb":
            self.path = shell.folder / "shop.duckdb"
            self.uri = f"duckdb://{self.path}/orders"
        elif kind == "clickhouse":
            self.lake = Lake(shell, request.getfixturevalue("clickhouse"))
            self.uri = f"{self.lake.to}/orders"
            self.more = ["--key", "id"]
        else:
            self.uri = "shop"
            self.more = ["--key", "id", "--table", "orders"]
        types = {
            "mariadb": "int PRIMARY KEY, at datetime(6)",
            "duckdb": 'int PRIMARY KEY, "at" timestamp',
        }
        if kind == "folder":
            shell.write("one.csv", "id,at\n0,2023-12-31 00:00:00.000001\n")
            shell.ok("load", "one.csv", "--to", "shop", "--table", "orders", "--type", "id Int32",
                     "--type", "at DateTime64(6, 'UTC')")  # fmt: skip
        else:
            type_ = types.get(kind, "Int32, at DateTime64(6, 'UTC')")
            self.do(
                f"CREATE TABLE orders (id {type_})"
                + (" ENGINE = MergeTree ORDER BY id" if kind == "clickhouse" else "")
            )

    def do(self, *statements: str) -> None:
        if self.kind == "mariadb":
            self.mariadb.query(*statements, database=self.name)
        elif self.kind == "duckdb":
            with duckdb.connect(str(self.path)) as connection:
                for statement in statements:
                    connection.execute(statement)
        elif self.kind == "clickhouse":
            self.lake.do(*(s.replace("orders", "{db}.orders") for s in statements))
        else:
            for statement in statements:
                self.shell.ok("query", statement, "--to", "shop", "--write")

    def add(self, *rows: tuple[int, float]) -> None:
        values = ", ".join(
            f"({id_}, '{datetime(2024, 1, 1) + timedelta(seconds=at)}')" for id_, at in rows
        )
        self.do(f"INSERT INTO orders VALUES {values}")

    def load(self, *args: str) -> int:
        done = self.shell.ok(
            "load", self.uri, "--cursor", "at", *self.more, *args, "--json"
        )  # fmt: skip
        return int(done.document["rows"])


@pytest.mark.long
@pytest.mark.parametrize("kind", SOURCES)
def test_other_databases_are_followed(
    request: pytest.FixtureRequest, shell: Shell, kind: str
) -> None:
    other = Other(kind, request, shell)
    other.add(*((i, i) for i in range(1, 101)))
    out = ["--to", "out"] if kind == "folder" else []
    look = ("SELECT count(), uniqExact(id), sum(id) FROM orders", *out)
    rows = 100 + (kind == "folder")
    assert other.load(*out) == rows
    other.add((101, 100), (102, 100.5), (103, 50))
    assert other.load(*out) == 3
    other.add((104, 100.5), (105, 20.25))
    assert other.load(*out) == 2
    other.add((106, 100.500002), (107, 100.25))
    assert other.load(*out) == 2
    assert other.load(*out) == 0
    assert shell.row(*look) == [rows + 7, rows + 7, 107 * 108 // 2]
    plain = shell.ends(2, "load", other.uri, *(other.more[2:] if out else ()), *out)
    assert "with --cursor at" in plain.talk


TARGETS = ("server", "postgresql", "mariadb", "duckdb", "iceberg")


@pytest.mark.long
@pytest.mark.parametrize("kind", TARGETS)
def test_targets_are_compared(request: pytest.FixtureRequest, shop: Shop, kind: str) -> None:
    shop.orders()
    if kind == "server":
        to = Lake(shop.shell, request.getfixturevalue("clickhouse")).to
    elif kind == "postgresql":
        to = shop.server.uri
        shop.do("CREATE SCHEMA IF NOT EXISTS {s}_to")
    elif kind == "mariadb":
        mariadb: MariaDB = request.getfixturevalue("mariadb")
        name = f"cursor{next(_numbers)}"
        mariadb.query(f"CREATE DATABASE {name}")
        to = mariadb.uri(name)
    elif kind == "duckdb":
        to = f"duckdb://{shop.shell.folder}/to.duckdb"
    else:
        to = f"iceberg+file://{shop.shell.folder}/lake/orders"
    args = ["--to", to]
    if kind == "postgresql":
        args += ["--table", f"{shop.schema}_to.orders"]
    assert shop.load(*args)["rows"] == 100
    shop.order(101, 100)
    shop.order(102, 30.5)
    assert shop.load(*args)["rows"] == 2
    shop.order(103, 101.25)
    shop.order(104, 101)
    assert shop.load(*args)["rows"] == 2
    assert shop.load(*args)["rows"] == 0
    if kind == "postgresql":
        shop.do("DROP SCHEMA {s}_to CASCADE")


@pytest.mark.long
def test_forget_and_adopt(shop: Shop) -> None:
    shop.orders(10)
    first = shop.load()["load_id"]
    shop.order(11, 11)
    second = shop.load()["load_id"]
    shop.shell.ok("forget", second, "--yes")
    assert shop.load()["rows"] == 1  # its row is loaded again
    shop.shell.ok("forget", first, "--yes")
    assert shop.load()["rows"] == 10
    shop.shell.ok("load", shop.uri(), "--table", "moved")
    shop.do("CREATE TABLE {s}.orders2 AS SELECT * FROM {s}.orders",
            "ALTER TABLE {s}.orders2 ADD PRIMARY KEY (id)")  # fmt: skip
    shop.shell.ok("adopt", shop.uri("orders2"), "--table", "moved", "--cursor", "at")
    shop.do("INSERT INTO {s}.orders2 SELECT 12, max(at) + interval '1 s', 1 FROM {s}.orders2")
    assert shop.load("--table", "moved", table="orders2")["rows"] == 1
    assert shop.shell.row("SELECT count() FROM moved") == [12]


@pytest.mark.long
def test_many_tables_are_followed_by_one_column(shop: Shop) -> None:
    shop.orders(10)
    shop.do("CREATE TABLE {s}.more (id int PRIMARY KEY, at timestamptz)",
            "INSERT INTO {s}.more SELECT id, at FROM {s}.orders")  # fmt: skip
    command = ("load", shop.server.uri, "--tables", f"{shop.schema}.*", "--cursor", "at")
    shop.shell.ok(*command)
    shop.order(11, 11)
    shop.order(12, 9.5)  # late
    shop.do("INSERT INTO {s}.more SELECT 20, max(at) + interval '1 s' FROM {s}.more")
    shop.shell.ok(*command)
    names = [str(name) for (name,) in shop.shell.rows(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND "
        "(name LIKE '%orders' OR name LIKE '%more') ORDER BY name DESC"
    )]  # fmt: skip
    counts = [shop.shell.row(f"SELECT count(), uniqExact(id) FROM `{name}`") for name in names]
    assert counts == [[12, 12], [11, 11]], names
    shop.do("CREATE TABLE {s}.odd (id int PRIMARY KEY)", "INSERT INTO {s}.odd VALUES (1)")
    done = shop.shell.run(*command)
    assert done.code != 0
    assert "--cursor at: " in done.talk
    assert "has no such column" in " ".join(done.talk.split())
