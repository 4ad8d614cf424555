"""Many tables of one source: which, in which moment, under which names, and each of them once."""

from __future__ import annotations

import itertools
import json
import random
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.catalog
import pymysql
import pytest
from deltalake import write_deltalake

from e2e.lake import Lake
from e2e.tools import Shell, csv
from lab import lake_tables
from lab.clickhouse import ClickHouse
from lab.lake_tables import DictCatalog
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from rowfall.core.errors import SourceError
from rowfall.core.options import Options
from rowfall.sources import open_source
from rowfall.sources.many import open_tables
from rowfall.systems.mysql.tables import MySQLTables

pytestmark = pytest.mark.xdist_group("postgresql")

_numbers = itertools.count()


class Base:
    """A database of its own on a server of PostgreSQL."""

    def __init__(self, shell: Shell, server: PostgresqlServer) -> None:
        self.shell, self.server = shell, server
        self.name = f"many{next(_numbers)}"
        server.run(f"CREATE DATABASE {self.name}")
        shell.env["PGPASSWORD"] = server.password
        self.uri = server.uri.rpartition("/")[0] + f"/{self.name}"

    def do(self, *statements: str) -> None:
        with self.server.connect(self.name) as connection:
            for statement in statements:
                connection.execute(statement)

    def numbers(self, table: str, rows: int) -> None:
        self.do(
            f"CREATE TABLE {table} (id int PRIMARY KEY, n int)",
            f"INSERT INTO {table} SELECT i, i % 7 FROM generate_series(1, {rows}) i",
        )

    def load(self, *args: str, code: int = 0) -> dict[str, Any]:
        return self.shell.ends(code, "load", self.uri, *args, "--json").document


@pytest.fixture
def base(shell: Shell, postgresql: PostgresqlServer) -> Iterator[Base]:
    made = Base(shell, postgresql)
    yield made
    postgresql.run(f"DROP DATABASE {made.name} WITH (FORCE)")


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {
        table["source"]: "before" if table["loaded_before"] else table["outcome"]
        for table in document["tables"]
    }


# --- PostgreSQL -----------------------------------------------------------------------------------


def test_all_tables_of_a_database(base: Base) -> None:
    base.numbers("orders", 3000)
    base.do(
        "CREATE SCHEMA sales", "CREATE TABLE sales.refunds (k text, v numeric(9, 2))",
        "INSERT INTO sales.refunds VALUES ('a', 1.5), ('b', NULL)",
        "CREATE TABLE nothing (id uuid PRIMARY KEY, at timestamptz)",
        "CREATE VIEW recent AS SELECT * FROM orders",
        "CREATE TABLE events (day date, x int) PARTITION BY RANGE (day)",
        "CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO "
        "('2025-01-01')",
        "INSERT INTO events SELECT '2024-01-01', i FROM generate_series(1, 40) i",
        'CREATE TABLE "Odd, näme.x/y" (a int)', 'INSERT INTO "Odd, näme.x/y" VALUES (1), (2)',
    )  # fmt: skip
    found = base.load("--tables", "*")
    assert found["exit"] == 0
    assert outcomes(found) == dict.fromkeys(
        ("public.orders", "sales.refunds", "public.nothing", "public.events",
         "public.Odd, näme.x/y"), "done"
    )  # fmt: skip
    assert found["rows"] == 3044
    assert "one snapshot" in found["snapshot"]
    assert any("public.events_1" in note for note in found["notes"])
    assert any("1 view left out" in note for note in found["notes"])
    row = base.shell.row
    assert row("SELECT count(), sum(id), uniqExact(id) FROM orders") == [3000, 4501500, 3000]
    assert row("SELECT count(), sum(x) FROM events") == [40, 820]
    assert row("SELECT sum(a) FROM `default`.`Odd, näme_x/y`") == [3]
    types = dict(base.shell.rows(
        "SELECT name, type FROM system.columns WHERE table IN ('nothing', 'refunds')"
    ))  # fmt: skip
    assert types["at"] == "Nullable(DateTime64(6, 'UTC'))"
    assert types["v"] == "Nullable(Decimal(9, 2))"
    keys = "SELECT name, sorting_key FROM system.tables WHERE database = 'default' AND name = {}"
    assert row(keys.format("'nothing'")) == ["nothing", "id"]
    again = base.load("--tables", "*")
    assert again["rows"] == 0
    assert outcomes(again)["public.orders"] == "before"
    base.do("INSERT INTO nothing VALUES (gen_random_uuid(), now())")
    assert base.load("--tables", "*")["rows"] == 1
    # What is named is loaded, whatever it is.
    named = base.load("--tables", "public.recent,events_1", "--table", "x_{schema}_{table}")
    assert outcomes(named) == {"public.recent": "done", "public.events_1": "done"}
    assert row("SELECT count() FROM x_public_recent") == [3000]


def test_it_is_the_load_of_each_table(base: Base) -> None:
    """Typed one by one or together: what is loaded is loaded, and what is unfinished goes on."""
    base.numbers("a", 50)
    base.do("CREATE SCHEMA other", "CREATE TABLE other.b (id int)",
            "INSERT INTO other.b VALUES (1)")  # fmt: skip
    one = base.shell.ok("load", f"{base.uri}/a", "--json").document
    assert one["rows"] == 50
    assert outcomes(base.load("--tables", "*")) == {"public.a": "before", "other.b": "done"}
    for address in ("a", "public.a", "other.b"):
        done = base.shell.ok("load", f"{base.uri}/{address}", "--json")
        assert (done.document["rows"], done.document["splits_skipped"]) == (0, 1), address
    both = base.load("--tables", "*", "--replace")
    assert both["rows"] == 51
    assert base.shell.row("SELECT count() FROM a") == [50]


def test_a_table_that_cannot_be_read_does_not_stop_the_others(base: Base) -> None:
    base.numbers("a", 10)
    base.numbers("b", 20)
    base.do("CREATE TABLE p (at point)", "CREATE TABLE secret (id int)",
            "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'r'",
            "GRANT SELECT ON a, b, p TO reader")  # fmt: skip
    uri = base.uri.replace("rowfall@", "reader:r@")
    done = base.shell.ends(4, "load", uri, "--tables", "*", "--json")
    assert outcomes(done.document) == {
        "public.a": "done", "public.b": "done", "public.p": "failed", "public.secret": "failed",
    }  # fmt: skip
    problems = {t["source"]: t["problem"] for t in done.document["tables"]}
    assert "GRANT SELECT ON public.secret TO reader" in problems["public.secret"]["hint"]
    assert "--query" in problems["public.p"]["hint"]
    assert done.document["outcome"] == "partial"
    assert ":r@" not in done.out + done.err
    text = base.shell.ends(4, "load", uri, "--tables", "*")
    assert "2 of 4 tables loaded: 0 rows" in text.talk
    assert "run the same command again" in text.talk
    assert max(map(len, text.err.splitlines())) <= 200
    base.do("GRANT SELECT ON secret TO reader")
    base.shell.ok("load", uri, "--tables", "*", "--exclude", "p")
    base.do("DROP OWNED BY reader", "DROP ROLE reader")


def test_one_snapshot_whatever_is_committed_meanwhile(base: Base) -> None:
    """Two tables whose sums are one: money goes from one to the other all the time."""
    base.do("CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (id int, v int)",
            "INSERT INTO a SELECT i, 100 FROM generate_series(1, 2000) i",
            "INSERT INTO b SELECT i, 100 FROM generate_series(1, 2000) i")  # fmt: skip
    stop, moved = threading.Event(), threading.Event()

    def move() -> None:
        with base.server.connect(base.name) as connection:
            while not stop.is_set():
                connection.execute(
                    "WITH x AS (UPDATE a SET v = v - 1 WHERE id = 7) "
                    "UPDATE b SET v = v + 1 WHERE id = 7"
                )
                moved.set()

    mover = threading.Thread(target=move)
    mover.start()
    moved.wait(10)
    try:
        base.load("--tables", "*")
    finally:
        stop.set()
        mover.join()
    ((a,), (b,)) = (base.shell.row(f"SELECT sum(v) FROM {name}") for name in "ab")
    assert a < 200_000
    assert a + b == 400_000


def test_tables_wait_for_who_alters_them(base: Base) -> None:
    """DROP and TRUNCATE wait for the snapshot: after them it would show no rows."""
    base.numbers("a", 10)
    base.do("CREATE TABLE gone (id int)", "INSERT INTO gone VALUES (1)")
    source = open_tables(base.uri.replace("@", f":{base.server.password}@"), Options())
    found = source.list_tables()
    source.begin(found, 4)
    for statement in ("TRUNCATE gone", "DROP TABLE gone", "ALTER TABLE a ADD COLUMN x int"):
        with pytest.raises(Exception, match="lock timeout"):
            base.do("SET lock_timeout = '50ms'", statement)
    source.close()
    base.do("DROP TABLE gone")


@pytest.mark.long
def test_a_table_that_is_gone_when_its_turn_comes(base: Base) -> None:
    """One that was dropped between the list and the locks fails alone."""
    base.numbers("a", 10)
    base.do("CREATE TABLE gone (id int)", "CREATE TABLE emptied (id int)",
            "INSERT INTO emptied VALUES (1)")  # fmt: skip
    source = open_tables(base.uri.replace("@", f":{base.server.password}@"), Options())
    found = {table.name: table for table in source.list_tables()}
    base.do("DROP TABLE gone")
    source.begin(list(found.values()), 4)
    with pytest.raises(SourceError, match="has no table"):
        source.open(found["gone"], Options())
    opened = source.open(found["a"], Options())
    assert len(opened.listing()) == 1
    source.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("code", "args", "text"),
    [
        (2, ("--tables", "ordrs"), "has no table like ordrs"),
        (2, ("--tables", "*", "--exclude", "nothing"), "has no table like --exclude nothing"),
        (2, ("--exclude", "a"), "--tables '*' for all tables"),
        (2, ("--tables", "*", "--to", "x.parquet"), "goes: '{table}_x.parquet'"),
        (2, ("--tables", "*", "--table", "x"), "--table 'x_{table}'"),
        (2, ("--tables", "*", "--query", "SELECT 1"), "--tables and --query exclude each other"),
        (2, ("--tables", "*", "--follow"), "--tables and --follow exclude each other"),
        (2, ("--tables", "*", "--schema", "a Int8"), "--tables and --schema exclude each other"),
        (2, ("--tables", "*", "--watch-port", "0"), "--tables and --watch-port exclude each"),
        (2, ("--tables", "*", "--max-errors", "1", "--rejects", "r.tsv"), "'{table}_r.tsv'"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_loaded(
    base: Base, code: int, args: tuple[str, ...], text: str
) -> None:
    base.numbers("orders", 5)
    base.numbers("b", 5)
    assert text in base.shell.ends(code, "load", base.uri, *args).talk
    assert not (base.shell.folder / "rowfall-data").exists()


def test_names_that_meet_are_refused(base: Base) -> None:
    base.numbers("orders", 5)
    base.do("CREATE SCHEMA s", "CREATE TABLE s.orders (id int)")
    done = base.shell.ends(2, "load", base.uri, "--tables", "*")
    assert "public.orders and s.orders would both be loaded into orders" in done.talk
    assert "--table '{schema}_{table}'" in done.talk
    assert not (base.shell.folder / "rowfall-data").exists()
    base.load("--tables", "*", "--table", "{schema}_{table}")
    assert base.shell.row("SELECT count() FROM public_orders") == [5]


@pytest.mark.long
def test_a_source_that_is_one_table_or_not_there(base: Base) -> None:
    base.numbers("orders", 5)
    done = base.shell.ends(2, "load", f"{base.uri}/orders", "--tables", "*")
    assert f"rowfall load {base.uri} --tables orders" in done.talk
    base.shell.ok("load", base.uri, "--tables", "orders")
    missing = base.uri.replace(base.name, "nothing")
    assert 'database "nothing" does not exist' in base.shell.ends(
        4, "load", missing, "--tables", "*").talk  # fmt: skip


@pytest.mark.long
def test_the_plan_lists_tables_and_writes_nothing(base: Base) -> None:
    base.numbers("orders", 3000)
    base.numbers("b", 5)
    base.do("ANALYZE")
    text = base.shell.ok("plan", base.uri, "--tables", "*").out
    lines = text.splitlines()
    assert lines[0] == "2 tables, about 3.00k rows"
    assert [line.split()[:3] for line in lines[5:7]] == [
        ["public.orders", "orders", "~3.00k"], ["public.b", "b", "~5"],
    ]  # fmt: skip
    assert max(map(len, lines[4:-1])) <= 80
    alone = next(line for line in lines if "rowfall plan" in line).strip()
    assert alone.endswith(f"rowfall plan {base.uri}/orders --table orders")
    found = base.shell.ok("plan", base.uri, "--tables", "*", "--json").document
    assert [t["rows"] for t in found["tables"]] == [3000, 5]
    assert found["rowfall_tables_plan"] == 1
    assert not (base.shell.folder / "rowfall-data").exists()


@pytest.mark.long
def test_every_kind_of_target(
    base: Base, clickhouse: ClickHouse, postgresql: PostgresqlServer
) -> None:
    lake = Lake(base.shell, clickhouse)
    base.numbers("a", 300)
    base.numbers("b", 40)
    base.do("CREATE TABLE e (id int PRIMARY KEY, t text)")
    look = "SELECT count(), sum(id), sum(n) FROM {}"
    expected = [300, 45150, 903]
    base.load("--tables", "*", "--to", lake.to)
    assert lake.row(look.format("{db}.a")) == expected
    assert lake.row("SELECT count() FROM {db}.e") == [0]
    base.load("--tables", "*", "--to", "all.duckdb")
    assert base.shell.row(look.format("a"), "--to", "all.duckdb") == expected
    assert base.shell.row("SELECT count(*) FROM e", "--to", "all.duckdb") == [0]
    base.load("--tables", "*", "--to", "out/{table}_{n}.parquet")
    assert sorted(p.name for p in (base.shell.folder / "out").glob("[!.]*")) == [
        "a_0.parquet", "b_0.parquet"]  # fmt: skip
    base.do("CREATE SCHEMA copy")
    base.load("--tables", "public.*", "--to", base.uri, "--table", "copy.{table}")
    with postgresql.connect(base.name) as connection:
        assert connection.execute("SELECT count(*), sum(n) FROM copy.a").fetchone() == (300, 903)
        assert connection.execute("SELECT count(*) FROM copy.e").fetchone() == (0,)
    base.load("--tables", "public.*", "--to", "null:")


@pytest.mark.long
def test_status_shows_a_line_for_all_tables(base: Base) -> None:
    for name in "abc":
        base.numbers(name, 10)
    base.load("--tables", "*")
    base.load("--tables", "*")
    base.shell.ok("load", f"{base.uri}/a", "--table", "alone")
    lines = base.shell.ok("status").out.splitlines()
    assert len(lines) == 3
    assert "3/3" in lines[2]
    assert lines[2].split()[0] == "tables"
    assert lines[2].endswith(" *")
    assert len(base.shell.ok("status", "-v").out.splitlines()) == 8
    assert len(base.shell.ok("status", "--json").document["loads"]) == 7


@pytest.mark.long
def test_tables_that_are_followed_by_a_cursor(base: Base, shell: Shell, mariadb: MariaDB) -> None:
    for name in "ab":
        base.do(f"CREATE TABLE {name} (id int PRIMARY KEY, at timestamp)",
                f"INSERT INTO {name} SELECT i, '2024-01-01'::timestamp + i * interval '1 second' "
                "FROM generate_series(1, 50) i")  # fmt: skip
    args = ("--tables", "*", "--cursor", "at")
    assert base.load(*args)["rows"] == 100
    base.do("INSERT INTO b VALUES (51, '2024-01-02')")
    assert base.load(*args)["rows"] == 1
    assert base.shell.row("SELECT count(), uniqExact(id) FROM b") == [51, 51]
    refused = shell.ends(2, "load", mariadb.uri("mysql"), *args).talk
    assert "--tables and --cursor exclude each other for mysql" in refused


@pytest.mark.long
def test_one_moment_of_mariadb_whatever_is_committed_meanwhile(mariadb: MariaDB) -> None:
    """All sessions see the same of a counter that somebody increments as fast as he can."""
    name = f"m_{secrets.token_hex(4)}"
    mariadb.query(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.a (v INT)",
                  f"INSERT INTO {name}.a VALUES (0)")  # fmt: skip
    stop, moved = threading.Event(), threading.Event()

    def count() -> None:
        with pymysql.connect(host="127.0.0.1", port=mariadb.port, user=mariadb.user,
                             password=mariadb.password, autocommit=True) as connection:  # fmt: skip
            cursor = connection.cursor()
            while not stop.is_set():
                cursor.execute(f"UPDATE {name}.a SET v = v + 1")
                moved.set()

    counter = threading.Thread(target=count)
    counter.start()
    assert moved.wait(10)
    source = MySQLTables(mariadb.uri(name), Options())
    try:
        said = source.begin(source.list_tables(), 12)
    finally:
        stop.set()
        counter.join()
    seen = set()
    for _ in range(12):
        with source._sessions.take().cursor() as cursor:
            cursor.execute(f"SELECT v FROM {name}.a")
            seen.add(cursor.fetchone())
    assert len(seen) == 1
    assert "nobody could commit" in said
    source.close()


@pytest.mark.long
def test_a_named_load_of_many_tables(base: Base) -> None:
    base.numbers("a", 10)
    base.do("CREATE TABLE p (at point)")
    base.shell.write(
        "rowfall.toml", f'[loads.shop]\nsource = "{base.uri}"\ntables = "*"\nexclude = ["p"]\n'
    )
    (done,) = base.shell.ok("run", "shop", "--json").document["loads"]
    assert (done["outcome"], done["rows"]) == ("done", 10)
    assert outcomes(done["report"]) == {"public.a": "done"}
    (half,) = base.shell.ends(4, "run", "shop", "--exclude", "a", "--json").document["loads"]
    assert outcomes(half["report"]) == {"public.p": "failed"}


@pytest.mark.long
def test_ctrl_c_ends_all_loads_and_the_command_goes_on(base: Base) -> None:
    base.numbers("big", 300_000)
    for number in range(12):
        base.numbers(f"t{number}", 50)
    running = base.shell.cli.start("load", base.uri, "--tables", "*", env=base.shell.env)
    wait_until(lambda: (base.shell.folder / "rowfall-data/rowfall.ledger").exists(), 20, "a ledger")
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert running.wait(20) == 130
    assert time.monotonic() - began < 10
    base.load("--tables", "*")
    assert base.shell.row("SELECT count(), uniqExact(id), sum(n) FROM big")[:2] == [300_000] * 2
    assert base.shell.row("SELECT count(), uniqExact(id) FROM t7") == [50, 50]


@pytest.mark.long
@pytest.mark.parametrize("target", ["folder", "server", "postgresql", "duckdb", "files"])
def test_a_load_that_is_killed_again_and_again(
    base: Base, clickhouse: ClickHouse, target: str
) -> None:
    """Each row is there once afterwards, whatever was running when the process died."""
    base.numbers("big", 400_000)
    for number in range(40):
        base.numbers(f"t{number}", 20 + number)
    base.do("CREATE SCHEMA copy")
    lake = Lake(base.shell, clickhouse)
    to = {"folder": "data", "server": lake.to, "postgresql": base.uri, "duckdb": "d.duckdb",
          "files": "out/{table}_{n}.parquet"}[target]  # fmt: skip
    args = ["--tables", "public.*", "--to", to]
    if target == "postgresql":
        args += ["--table", "copy.{table}"]
    seed = random.Random(target)
    killed = 0
    for _ in range(6):
        running = base.shell.cli.start("load", base.uri, *args, env=base.shell.env)
        try:
            running.wait(seed.uniform(0.6, 4.0))
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            killed += 1
    assert killed
    done = base.load(*args)
    assert done["exit"] == 0
    look = "SELECT count(*), count(DISTINCT id), sum(n) FROM {}"
    for name, rows in (("big", 400_000), ("t0", 20), ("t39", 59)):
        wanted = [rows, rows, sum(i % 7 for i in range(1, rows + 1))]
        if target == "postgresql":
            with base.server.connect(base.name) as connection:
                found = list(connection.execute(look.format(f"copy.{name}")).fetchone())
        elif target == "server":
            found = lake.row(look.format(f"{{db}}.{name}"))
        elif target == "files":
            path = base.shell.folder / f"out/{name}_0.parquet"
            ids = pq.read_table(path).to_pydict()
            found = [len(ids["id"]), len(set(ids["id"])), sum(ids["n"])]
        else:
            found = base.shell.row(look.format(name), "--to", to)
        assert [int(value) for value in found] == wanted, name


# --- the other sources ----------------------------------------------------------------------------


def test_tables_of_mariadb(shell: Shell, mariadb: MariaDB) -> None:
    name = f"m_{secrets.token_hex(4)}"
    mariadb.query(f"CREATE DATABASE {name}")
    mariadb.query(
        "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO a (v) SELECT CONCAT('v', seq) FROM seq_1_to_500",
        "CREATE TABLE b (k INT, d DATE)", "INSERT INTO b VALUES (1, '2024-01-01'), (2, NULL)",
        "CREATE TABLE `o.dd``x` (i INT)", "INSERT INTO `o.dd``x` VALUES (5)",
        "CREATE TABLE nothing (id BIGINT PRIMARY KEY)", "CREATE VIEW v AS SELECT * FROM a",
        "CREATE SEQUENCE s", database=name,
    )  # fmt: skip
    uri = mariadb.uri(name)
    done = shell.ok("load", uri, "--tables", "*", "--json")
    found = done.document
    assert outcomes(found) == dict.fromkeys(
        (f"{name}.{table}" for table in ("a", "b", "nothing", "o.dd`x")), "done"
    )
    assert found["rows"] == 503
    assert "nobody could commit" in found["snapshot"]
    assert any("1 view left out" in note for note in found["notes"])
    assert shell.row("SELECT count(), max(id), uniqExact(v) FROM a") == [500, 500, 500]
    mariadb.query("INSERT INTO a (v) VALUES ('new')", database=name)
    again = shell.ok("load", uri, "--tables", "*", "--json").document
    assert again["rows"] == 1
    one = shell.ok("load", mariadb.uri(f"{name}/a"), "--json").document
    assert one["rows"] == 0
    # Without a database in the address, patterns name it.
    server = mariadb.uri(name).replace(f"/{name}", "")
    all_ = shell.ok("load", server, "--tables", f"{name}.b", "--table", "c", "--json").document
    assert outcomes(all_) == {f"{name}.b": "done"}


@pytest.mark.long
def test_a_user_of_mariadb_who_may_not_lock(shell: Shell, mariadb: MariaDB) -> None:
    name = f"m_{secrets.token_hex(4)}"
    mariadb.query(f"CREATE DATABASE {name}", f"CREATE USER {name} IDENTIFIED BY 'pw'",
                  f"CREATE TABLE {name}.a (id INT)", f"INSERT INTO {name}.a VALUES (1)",
                  f"CREATE TABLE {name}.b (id INT)", f"GRANT SELECT ON {name}.a TO {name}",
                  f"CREATE TABLE {name}.c (id INT)", f"GRANT INSERT ON {name}.c TO {name}",
                  )  # fmt: skip
    uri = f"mysql://{name}:pw@127.0.0.1:{mariadb.port}/{name}"
    done = shell.ends(4, "load", uri, "--tables", "*", "--json")
    assert "milliseconds apart" in done.document["snapshot"]
    assert outcomes(done.document) == {f"{name}.a": "done", f"{name}.c": "failed"}
    problem = next(t["problem"] for t in done.document["tables"] if t["problem"])
    assert "GRANT SELECT" in problem["hint"]
    mariadb.query(f"DROP USER {name}")


@pytest.mark.long
def test_a_table_of_mariadb_that_is_dropped_or_altered_meanwhile(
    shell: Shell, mariadb: MariaDB
) -> None:
    """It fails alone: MySQL has no lock that a reader could hold on tables it has not read yet."""
    name = f"m_{secrets.token_hex(4)}"
    mariadb.query(f"CREATE DATABASE {name}")
    for table in ("a", "dropped", "altered"):
        mariadb.query(f"CREATE TABLE {table} (id INT PRIMARY KEY)",
                      f"INSERT INTO {table} VALUES (1), (2)", database=name)  # fmt: skip
    source = open_tables(mariadb.uri(name), Options(patience="1s"))
    found = {table.name: table for table in source.list_tables()}
    source.begin(list(found.values()), 3)
    mariadb.query("DROP TABLE dropped", "ALTER TABLE altered ADD COLUMN x INT, ALGORITHM=COPY",
                  database=name)  # fmt: skip
    for table, text in (("dropped", "doesn't exist"), ("altered", "definition has changed")):
        opened = source.open(found[table], Options())
        (split,) = opened.listing().splits("t")
        with pytest.raises(SourceError, match=text):
            list(opened.stream(split))
    opened = source.open(found["a"], Options())
    (split,) = opened.listing().splits("t")
    assert b"".join(opened.stream(split)).count(b"\n") == 3
    source.close()


@pytest.mark.long
def test_tables_of_clickhouse(shell: Shell, clickhouse: ClickHouse) -> None:
    there = Lake(shell, clickhouse)
    there.do(
        "CREATE TABLE {db}.a (id UInt32, v String) ENGINE = MergeTree ORDER BY id",
        "INSERT INTO {db}.a SELECT number, 'v' FROM numbers(1000)",
        "CREATE TABLE {db}.m (x UInt8) ENGINE = Memory", "INSERT INTO {db}.m VALUES (1), (2)",
        "CREATE TABLE {db}.none (x UInt8) ENGINE = MergeTree ORDER BY x",
        "CREATE VIEW {db}.v AS SELECT * FROM {db}.a",
        "CREATE TABLE {db}.d AS {db}.a ENGINE = Merge('{db}', '^a$')",
    )  # fmt: skip
    done = shell.ok("load", there.to, "--tables", "*", "--json").document
    names = [f"{there.database}.{name}" for name in ("a", "m", "none")]
    assert outcomes(done) == dict.fromkeys(names, "done")
    assert "no snapshot of several tables" in done["snapshot"]
    assert shell.row("SELECT count(), sum(id) FROM a") == [1000, 499500]
    assert shell.row("SELECT count() FROM none") == [0]
    there.do("INSERT INTO {db}.a SELECT number + 1000, 'v' FROM numbers(10)")
    assert shell.ok("load", there.to, "--tables", "*", "--exclude", "m", "--json").document[
        "rows"] == 10  # fmt: skip


@pytest.mark.long
def test_tables_of_a_file_of_duckdb(shell: Shell) -> None:
    import duckdb

    path = shell.folder / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR)")
        connection.execute("INSERT INTO a SELECT i, 'v' || i FROM range(2000) t(i)")
        connection.execute("CREATE SCHEMA s; CREATE TABLE s.b AS SELECT 1 AS x")
        connection.execute("CREATE TABLE none (id UUID); CREATE VIEW v AS FROM a")
    for source in ("shop.duckdb", f"duckdb://{path}"):
        done = shell.ok("load", source, "--tables", "*", "--json").document
        assert done["rows"] == (2001 if source == "shop.duckdb" else 0)
        assert set(outcomes(done)) == {"main.a", "s.b", "main.none"}
    assert shell.row("SELECT count(), sum(id) FROM a") == [2000, 1999000]
    assert shell.ok("load", f"duckdb://{path}/a", "--json").document["rows"] == 0
    refused = shell.ends(2, "load", f"duckdb://{path}/a", "--tables", "*")
    assert "is one table" in refused.talk


def test_folders_of_a_folder(shell: Shell) -> None:
    shell.write("lake/orders/1.csv", csv([(1, "a"), (2, "b")], "id", "v"))
    shell.write("lake/orders/2.csv", csv([(3, "c")], "id", "v"))
    shell.write("lake/events/2024/01/x.jsonl", "".join(f'{{"n": {i}}}\n' for i in range(50)))
    shell.write("lake/empty/.keep", "")
    shell.write("lake/readme.csv", "a,b\n1,2\n")
    done = shell.ok("load", "lake", "--tables", "*", "--json").document
    assert outcomes(done) == {"events": "done", "orders": "done"}
    assert done["rows"] == 53
    assert any("1 file lies in no sub-folder" in note for note in done["notes"])
    assert shell.row("SELECT count(), sum(id) FROM orders") == [3, 6]
    shell.write("lake/orders/3.csv", csv([(4, "d")], "id", "v"))
    shell.write("lake/broken/1.csv", "a,b\n1,2\n3\n4,5\n")
    shell.write("lake/events/2.jsonl", '{"n": "x"}\n')
    done = shell.ends(1, "load", "lake", "--tables", "*", "--json").document
    assert outcomes(done) == {"orders": "done", "events": "partial", "broken": "failed"}
    assert shell.ok("load", "lake/orders", "--json").document["rows"] == 0
    for wrong, text in (("lake/readme.csv", "is one table"), ("lake/orders", "is one table"),
                        ("nothing", "there is no folder"), ("lake/*", "is a pattern")):  # fmt: skip
        assert text in shell.run("load", wrong, "--tables", "*").talk


@pytest.mark.long
def test_lake_tables_in_a_folder_of_folders(shell: Shell) -> None:
    """They are read as tables; one that the engine has to read below / is loaded alone."""
    data = pa.table({"id": pa.array(range(9), pa.int64()), "v": pa.array(range(9), pa.int64())})
    write_deltalake(str(shell.folder / "lake/d"), data)
    lake_tables.iceberg(str(shell.folder / "lake/i"), data)
    moved = lake_tables.iceberg(str(shell.folder / "lake/moved"), data)
    with moved.update_schema() as change:
        change.rename_column("v", "w")
    moved.append(data.rename_columns(["id", "w"]))
    folder = next((shell.folder / "lake/i").rglob("metadata")).parent
    assert folder.is_dir()
    done = shell.ends(4, "load", "lake", "--tables", "*", "--json").document
    assert outcomes(done) == {"d": "done", "i": "done", "moved": "failed"}
    hint = next(t["problem"]["hint"] for t in done["tables"] if t["problem"])
    assert hint == "Load it alone: rowfall load iceberg+lake/moved"
    shell.ok(*hint.partition("rowfall ")[2].split())
    assert shell.row("SELECT count(), sum(w) FROM moved") == [18, 72]
    assert "is one table" in shell.ends(2, "load", "lake/d", "--tables", "*").talk


@pytest.mark.long
def test_tables_of_an_iceberg_namespace(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = DictCatalog("many", warehouse=str(shell.folder / "warehouse"))
    monkeypatch.setattr(lake_tables, "PLACES", {})
    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", lambda name, **more: catalogue)
    for name, rows in (("shop.a", 30), ("shop.b", 5), ("other.c", 1)):
        data = pa.table({"id": pa.array(range(rows), pa.int64())})
        catalogue.create_table(name, data.schema).append(data)
    catalogue.create_table("shop.none", data.schema)
    planned = shell.ok("plan", "iceberg://many/shop", "--tables", "*", "--json").document
    assert [(t["source"], t["rows"]) for t in planned["tables"]] == [("shop.a", 30), ("shop.b", 5)]
    done = shell.ok("load", "iceberg://many/shop", "--tables", "*", "--json").document
    assert outcomes(done) == {"shop.a": "done", "shop.b": "done"}
    assert done["rows"] == 35
    assert done["notes"] == ["1 table without rows left out: shop.none"]
    none = shell.ends(4, "load", "iceberg://many/shop", "--tables", "none").talk
    assert "that was chosen has rows" in none
    assert "its newest when the load began" in done["snapshot"]
    every = shell.ok("load", "iceberg://many", "--tables", "*", "--json").document
    assert outcomes(every) == {"shop.a": "before", "shop.b": "before", "other.c": "done"}
    one = shell.ok("load", "iceberg://many/shop.a", "--json").document
    assert one["rows"] == 0
    assert "is one table" in shell.ends(2, "load", "iceberg://many/shop.a", "--tables", "*").talk
    assert "no namespace shp" in shell.ends(4, "load", "iceberg://many/shp", "--tables", "*").talk


@pytest.mark.long
def test_an_iceberg_table_is_read_in_the_snapshot_of_the_beginning(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = DictCatalog("many", warehouse=str(shell.folder / "warehouse"))
    monkeypatch.setattr(lake_tables, "PLACES", {})
    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", lambda name, **more: catalogue)
    data = pa.table({"id": pa.array(range(7), pa.int64())})
    table = catalogue.create_table("shop.a", data.schema)
    table.append(data)
    source = open_tables("iceberg://many/shop", Options())
    found = source.measure(source.list_tables())
    table.append(data)
    assert len(source.open(found[0], Options()).listing()) == 1
    assert len(open_source([source.address(found[0])], Options()).listing()) == 2


@pytest.mark.long
def test_the_library_loads_tables(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    import rowfall

    base.numbers("a", 10)
    base.numbers("b", 10)
    monkeypatch.setenv("PGPASSWORD", base.server.password)
    monkeypatch.chdir(base.shell.folder)
    report = rowfall.load_tables(base.uri, tables="*", exclude="b", to="data")
    assert [t.outcome for t in report.tables] == ["done"]
    assert [t.table for t in rowfall.plan_tables(base.uri, tables="*", to="data").tables] == [
        "a", "b"]  # fmt: skip
    with pytest.raises(rowfall.UsageError, match="this is one load"):
        rowfall.load(base.uri, tables="*", to="data")


@pytest.mark.long
def test_a_line_of_progress_counts_tables(base: Base) -> None:
    base.numbers("a", 10)
    base.numbers("b", 10)
    done = base.shell.ok("load", base.uri, "--tables", "*", "-v", "--log-file", "log.json",
                         "--log-format", "json")  # fmt: skip
    assert "2 tables, about" in done.talk or "2 tables" in done.talk
    events = [json.loads(line) for line in (base.shell.folder / "log.json").read_text().split("\n")
              if line]  # fmt: skip
    names = [event["event"] for event in events]
    assert names.count("table_ended") == 2
    assert names.count("tables_started") == 1
