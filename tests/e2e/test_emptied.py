"""Tables that somebody has emptied: files that count as loaded are a question, not skipped."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from e2e.fleet import Fleet
from e2e.following import Follower
from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.cluster import Cluster
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer

FILES = {"a.csv": "id,name\n1,a\n2,b\n", "b.csv": "id,name\n3,c\n"}
LATER = [(100, "o")]
REPLICATED = (
    "ReplicatedMergeTree('/clickhouse/{database}/{table}/{shard}', '{replica}') ORDER BY id"
)


class Table:
    """The table t of a database, with one row of somebody else's."""

    def __init__(self, shell: Shell, to: str, do: Callable[[str], list[tuple[int, str]]]) -> None:
        self.shell, self.do = shell, do
        self.load = ("load", "[ab].csv", "--table", "t", "--to", to)
        for name, text in FILES.items():
            shell.write(name, text)

    def rows(self) -> list[tuple[int, str]]:
        return sorted(map(tuple, self.do("SELECT id, name FROM t")))  # type: ignore[arg-type]


@pytest.fixture
def postgres(shell: Shell, postgresql: PostgresqlServer) -> Iterator[Table]:
    schema = f"emptied_{id(shell)}"
    shell.env["PGPASSWORD"] = postgresql.password
    postgresql.run(f"CREATE SCHEMA {schema}")

    def do(statement: str) -> list[tuple[int, str]]:
        text = statement.replace(" t", f" {schema}.t", 1)
        if text.startswith("SELECT"):
            return postgresql.ask(text)
        postgresql.run(text)
        return []

    yield Table(shell, f"{postgresql.uri}?schema={schema}", do)
    postgresql.run(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def duck(shell: Shell) -> Table:
    import duckdb

    def do(statement: str) -> list[tuple[int, str]]:
        with duckdb.connect(Path(shell.folder, "d.duckdb")) as connection:
            return connection.execute(statement).fetchall()

    return Table(shell, "d.duckdb", do)


def asked(table: Table, *more: str) -> None:
    said = table.shell.ends(3, *table.load, *more).talk
    assert "2 files of this load count as loaded" in " ".join(said.split())
    assert "--loaded none" in said
    assert "--loaded all" in said


@pytest.mark.parametrize("grown", [False, True], ids=["empty", "grown"])
@pytest.mark.parametrize("answer", ["none", "all"])
@pytest.mark.sampled(2)
def test_postgresql(postgres: Table, answer: str, grown: bool) -> None:
    """Nothing was loaded, with exit 0: the record goes by the table, which is the same."""
    postgres.shell.ok(*postgres.load)
    for harmless in (
        "VACUUM FULL t", "ALTER TABLE t SET UNLOGGED; ALTER TABLE t SET LOGGED",
        "ALTER TABLE t ALTER id TYPE numeric", "GRANT SELECT ON t TO public",
        "ALTER TABLE t ALTER id TYPE bigint", "UPDATE t SET name = name",
    ):  # fmt: skip
        for statement in harmless.split("; "):
            postgres.do(statement)
        assert "nothing to load" in postgres.shell.ok(*postgres.load).talk
    postgres.do("VACUUM FULL t")
    postgres.do("TRUNCATE t")
    if grown:
        postgres.do("INSERT INTO t VALUES (100, 'o')")
    later = LATER if grown else []
    assert "It would fail" in postgres.shell.ok("plan", *postgres.load[1:]).out
    asked(postgres)
    assert postgres.rows() == later
    postgres.shell.ok(*postgres.load, "--loaded", answer)
    loaded = [(1, "a"), (2, "b"), (3, "c")] if answer == "none" else []
    assert postgres.rows() == sorted([*loaded, *later])
    assert "nothing to load" in postgres.shell.ok(*postgres.load).talk
    # A file that is new is no question; then all is emptied once more.
    postgres.shell.write("c.csv", "id,name\n4,d\n")
    more = ("load", "c.csv", *postgres.load[2:])
    postgres.do("TRUNCATE t")
    postgres.shell.ok(*more)
    assert postgres.rows() == [(4, "d")]


@pytest.mark.parametrize("name", ["postgres", "server"])
def test_a_followed_table(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is there to answer: what was removed stays away, and what is new is loaded."""
    table: Table = request.getfixturevalue(name)
    for key in ("PGPASSWORD", "CLICKHOUSE_PASSWORD"):
        if key in table.shell.env:
            monkeypatch.setenv(key, table.shell.env[key])
    path = str(table.shell.folder / "lake")

    def write(number: int, text: str) -> None:
        write_deltalake(path, pa.table({"id": [number], "name": [text]}), mode="append")

    write(1, "a")
    # A batch of a lake table lists all files of the snapshot.
    steps = Follower(lambda: table.do("TRUNCATE TABLE t"), lambda: write(2, "b"))
    steps.run(f"delta+{path}", table.load[-1])
    assert table.rows() == [(2, "b")]


def test_a_partitioned_table(postgres: Table) -> None:
    postgres.do("CREATE TABLE t (id bigint, name text) PARTITION BY LIST (name)")
    schema = postgres.load[-1].rpartition("=")[2]
    for name in "abc":
        postgres.do(f"CREATE TABLE {schema}.p{name} PARTITION OF t FOR VALUES IN ('{name}')")
    postgres.shell.ok(*postgres.load)
    postgres.do(f"TRUNCATE {schema}.pa")  # one month, say
    assert "nothing to load" in postgres.shell.ok(*postgres.load).talk
    postgres.do("TRUNCATE t")
    asked(postgres)


def test_duckdb(duck: Table) -> None:
    duck.shell.ok(*duck.load)
    duck.do("DELETE FROM t WHERE id < 3")
    assert "nothing to load" in duck.shell.ok(*duck.load).talk
    duck.do("TRUNCATE t")
    asked(duck)
    duck.shell.ok(*duck.load, "--loaded", "none")
    assert len(duck.rows()) == 3
    duck.do("DELETE FROM t")
    asked(duck)
    assert "--loaded all: main.t was emptied" in duck.shell.ok(*duck.load, "--loaded", "all").talk
    assert "nothing to load" in duck.shell.ok(*duck.load).talk
    assert duck.rows() == []


@pytest.mark.xdist_group("mysql")
@pytest.mark.parametrize("right", ["PROCESS", pytest.param("", marks=pytest.mark.long)])
def test_mariadb(shell: Shell, mariadb: MariaDB, right: str) -> None:
    """The number of a table within InnoDB shows it, to those who may see it."""
    database = f"emptied_{'seen' if right else 'unseen'}"
    mariadb.query(f"CREATE DATABASE {database}")
    user = f"loader{len(right)}"
    shell.env["MYSQL_PWD"] = mariadb.add_user(
        user, f"ALL ON {database}.*", *([f"{right} ON *.*"] if right else [])
    )

    def do(statement: str) -> list[tuple[int, str]]:
        return list(mariadb.query(statement.replace(" t", f" {database}.t", 1)))  # type: ignore[arg-type]

    table = Table(shell, f"mysql://{user}@127.0.0.1:{mariadb.port}/{database}", do)
    ok, load = shell.ok, table.load
    ok(*load)
    mariadb.query("SELECT SLEEP(1.1)")  # times of tables are whole seconds
    for harmless in ("OPTIMIZE TABLE t", "DELETE FROM t WHERE id = 1",
                     "INSERT INTO t VALUES (100, 'o')"):  # fmt: skip
        do(harmless)
        assert "nothing to load" in ok(*load).talk
    do("TRUNCATE TABLE t")
    do("INSERT INTO t VALUES (100, 'o')")
    if not right:
        assert "nothing to load" in ok(*load).talk
        return
    asked(table)
    ok(*load, "--loaded", "all")
    assert "nothing to load" in ok(*load).talk  # once said, it holds
    assert table.rows() == LATER
    do("TRUNCATE TABLE t")
    do("INSERT INTO t VALUES (100, 'o')")
    asked(table)
    ok(*load, "--loaded", "none")
    assert table.rows() == [(1, "a"), (2, "b"), (3, "c"), *LATER]
    assert "nothing to load" in ok(*load).talk
    do("TRUNCATE TABLE t")
    do("INSERT INTO t VALUES (100, 'o')")
    shell.write("c.csv", "id,name\n4,d\n")
    ok("load", "c.csv", *load[2:])  # a file that is new is no question
    assert table.rows() == [(4, "d"), *LATER]


HARMLESS = ("DELETE FROM t WHERE id = 1", "ALTER TABLE t UPDATE name = 'x' WHERE 1 = 1",
            "INSERT INTO t VALUES (7, 'o')", "OPTIMIZE TABLE t FINAL")  # fmt: skip


@pytest.fixture
def server(shell: Shell, clickhouse: ClickHouse) -> Iterator[Table]:
    shell.env["CLICKHOUSE_PASSWORD"] = clickhouse.password
    lake = Lake(shell, clickhouse)

    def do(statement: str) -> list[tuple[int, str]]:
        text = statement.replace(" t", " {db}.t", 1)
        if text.startswith("SELECT"):
            return lake.rows(text)  # type: ignore[return-value]
        lake.do(text)
        return []

    yield Table(shell, lake.to, do)
    lake.do("DROP DATABASE {db} SYNC")


@pytest.fixture(params=["a folder", "a server"])
def engine(request: pytest.FixtureRequest, shell: Shell) -> Table:
    """A table of ClickHouse."""
    if request.param == "a server":
        return request.getfixturevalue("server")  # type: ignore[no-any-return]
    return Table(shell, "./rowfall-data", lambda text: shell.rows(text, "--write"))  # type: ignore[arg-type,return-value]


def test_clickhouse(engine: Table) -> None:
    """Only a table without parts: a copy that somebody has made has parts like any INSERT."""
    ok, load = engine.shell.ok, engine.load
    ok(*load)
    for harmless in HARMLESS:
        engine.do(harmless)
        assert "nothing to load" in ok(*load).talk
    engine.do("TRUNCATE TABLE t")
    assert "It would fail" in ok("plan", *load[1:]).out
    asked(engine)
    assert "stay away" in ok(*load, "--loaded", "all").talk
    assert engine.rows() == []
    assert "nothing to load" in ok(*load).talk  # once said, it holds
    engine.shell.write("c.csv", "id,name\n4,d\n")
    ok("load", "c.csv", *load[2:])
    assert "nothing to load" in ok(*load).talk
    engine.do("TRUNCATE TABLE t")
    asked(engine)  # of rows that came later nobody has said it
    ok(*load, "--loaded", "none")
    assert engine.rows() == [(1, "a"), (2, "b"), (3, "c")]
    assert "nothing to load" in ok(*load).talk
    engine.do("TRUNCATE TABLE t")
    ok("load", "c.csv", *load[2:], "--force")  # no file in doubt
    assert engine.rows() == [(4, "d")]


@pytest.mark.parametrize("key", ["", pytest.param("name", marks=pytest.mark.long)])
def test_rows_of_others_in_a_folder(shell: Shell, key: str) -> None:
    """It has no log: numbers of parts are believed where fewer rows are left than were loaded."""
    table = Table(shell, "./rowfall-data", lambda text: shell.rows(text, "--write"))  # type: ignore[arg-type,return-value]
    ok, load = shell.ok, table.load
    ok(*load, *(["--partition-by", key] if key else []))
    ids = [i for (i,) in table.do("SELECT DISTINCT partition_id FROM system.parts "
                                  "WHERE table = 't' AND active")]  # fmt: skip
    for what, i in itertools.product(("DETACH", "ATTACH"), ids):
        table.do(f"ALTER TABLE t {what} PARTITION ID '{i}'")
    for harmless in (
        "OPTIMIZE TABLE t FINAL", "DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (100, 'o')",
    ):  # fmt: skip
        table.do(harmless)
        assert "nothing to load" in ok(*load).talk
    table.do("TRUNCATE TABLE t")
    table.do("INSERT INTO t VALUES (100, 'o')")
    asked(table)
    ok(*load, "--loaded", "none")
    assert table.rows() == [(1, "a"), (2, "b"), (3, "c"), (100, "o")]
    assert "nothing to load" in ok(*load).talk


@pytest.mark.parametrize("answer", ["none", "all"])
def test_rows_of_others_in_clickhouse(server: Table, answer: str) -> None:
    """The server's log tells of a TRUNCATE; numbers of parts alone would tell of too much."""
    ok, load = server.shell.ok, server.load
    ok(*load)
    # By a name without the database, as others write it, and in more than one statement.
    for again in range(2):
        server.do("/* old */ TRUNCATE TABLE t")
        server.do("INSERT INTO t VALUES (100, 'o')")
        server.do("SYSTEM FLUSH LOGS")
        assert "It would fail" in ok("plan", *load[1:]).out
        asked(server)
        assert server.rows() == LATER
        ok(*load, "--loaded", answer)
        loaded = [(1, "a"), (2, "b"), (3, "c")] if answer == "none" else []
        assert server.rows() == [*loaded, *LATER]
        assert "nothing to load" in ok(*load).talk
        if answer == "all":
            assert not again
            break
    server.shell.write("c.csv", "id,name\n4,d\n")
    ok("load", "c.csv", *load[2:])  # no file in doubt, and no TRUNCATE since
    assert "nothing to load" in ok(*load).talk


def test_a_table_whose_name_needs_quotes(server: Table) -> None:
    """The log has its name in quotes."""
    ok, load = server.shell.ok, ("load", "[ab].csv", "--table", "my-table", *server.load[-2:])
    ok(*load)
    server.do("TRUNCATE TABLE {db}.`my-table`")
    server.do("INSERT INTO {db}.`my-table` VALUES (100, 'o')")
    server.do("SYSTEM FLUSH LOGS")
    assert "--loaded none" in server.shell.ends(3, *load).talk


def test_parts_with_new_numbers(server: Table) -> None:
    """The rows are there, whatever numbers their parts have, and an old TRUNCATE is none of now."""
    ok, load = server.shell.ok, server.load
    server.do("CREATE TABLE t (id UInt64, name String) ENGINE = MergeTree ORDER BY id")
    server.do("INSERT INTO t VALUES (100, 'o')")
    server.do("TRUNCATE TABLE t")
    server.do("SYSTEM FLUSH LOGS")
    ok(*load)
    for statement in (
        "ALTER TABLE t DETACH PARTITION ID 'all'", "ALTER TABLE t ATTACH PARTITION ID 'all'",
    ):  # fmt: skip
        server.do(statement)
    server.do("SYSTEM FLUSH LOGS")
    assert "nothing to load" in ok(*load).talk
    server.do("ALTER TABLE t DROP PARTITION ID 'all'")  # rows that were removed are no question
    server.do("INSERT INTO t VALUES (100, 'o')")
    server.do("SYSTEM FLUSH LOGS")
    assert "nothing to load" in ok(*load).talk


def test_a_replica_that_has_no_parts_yet(shell: Shell, cluster22: Cluster) -> None:
    """It has not fetched them: nothing was emptied."""
    fleet = Fleet(shell, cluster22)
    shell.write("a.csv", "id,name\n1,a\n")
    shell.write("b.csv", "id,name\n3,c\n")
    load = ("[ab].csv", "--table", "t", "--shard-key", "id")  # all of them on the second shard
    nodes = sorted(cluster22.nodes, key=lambda node: (node.shard, node.replica))
    one, (first, second) = nodes[:2], nodes[2:]
    for node in nodes:
        fleet.do("CREATE DATABASE {db}", node)
        fleet.do(f"CREATE TABLE {{db}}.t_local (id UInt64, name String) ENGINE = {REPLICATED}",
                 node)  # fmt: skip
    fleet.do("SYSTEM STOP FETCHES {db}.t_local", second)
    try:
        fleet.ok("load", *load)
        assert fleet.ask(first, "SELECT count() FROM {db}.t_local") == [[2]]
        cluster22.define("lab", one, [second, first])
        assert fleet.ask(second, "SELECT count() FROM {db}.t_local") == [[0]]
        assert "nothing to load" in fleet.ok("load", *load).talk
        fleet.do("SYSTEM START FETCHES {db}.t_local", second)
        fleet.do("SYSTEM SYNC REPLICA {db}.t_local", second)
        fleet.do("TRUNCATE TABLE {db}.t_local SYNC", first)
        fleet.do("SYSTEM SYNC REPLICA {db}.t_local", second)
        assert "--loaded none" in fleet.ends(3, "load", *load).talk
    finally:
        cluster22.define("lab")
        fleet.drop()
