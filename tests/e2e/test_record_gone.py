"""The record beside a table of a database is gone: its rows are a question."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyiceberg.catalog
import pytest

from e2e.lake import JOURNAL, Lake
from e2e.test_adopt import answers
from e2e.test_to_kafka import committed, topics
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka
from lab.lake_tables import DictCatalog
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from lab.process import wait_until

ROWS = "id,name\n1,a\n2,b\n"


@pytest.fixture
def schema(shell: Shell, postgresql: PostgresqlServer) -> Iterator[str]:
    name = f"gone{os.getpid()}"
    shell.env["PGPASSWORD"] = postgresql.password
    postgresql.run(f"CREATE SCHEMA {name}")
    yield name
    postgresql.run(f"DROP SCHEMA {name} CASCADE")


def test_postgresql(shell: Shell, postgresql: PostgresqlServer, schema: str) -> None:
    shell.write("a.csv", ROWS)
    to = ("--to", f"{postgresql.uri}?schema={schema}", "--table", "t")
    shell.ok("load", "a.csv", *to)
    postgresql.run(f"DROP TABLE {schema}._rowfall_loaded")
    done = shell.ends(3, "load", "a.csv", *to)
    assert "holds rows that nobody has on record" in done.err
    assert "It would fail" in shell.ok("plan", "a.csv", *to).out
    assert postgresql.ask(f"SELECT count(*) FROM {schema}.t") == [(2,)]
    for _ in range(2):
        shell.ok(*answers(done.err)["adopt"])
    shell.ok("load", "a.csv", *to)
    assert postgresql.ask(f"SELECT count(*) FROM {schema}.t") == [(2,)]
    # People insert, and a load of another file asks nothing.
    postgresql.run(f"INSERT INTO {schema}.t VALUES (9, 'own')")
    shell.write("b.csv", "id,name\n3,c\n")
    shell.ok("load", "b.csv", *to)
    # A table of one's own.
    postgresql.run(f"CREATE TABLE {schema}.u (id int, name text)",
                   f"INSERT INTO {schema}.u VALUES (1, 'own')")  # fmt: skip
    own = (*to[:-1], "u")
    done = shell.ends(3, "load", "b.csv", *own)
    shell.ok(*answers(done.err)["load"])
    shell.ok("load", "a.csv", *own)
    assert postgresql.ask(f"SELECT count(*) FROM {schema}.u") == [(4,)]


class OfPostgresql:
    """A schema of PostgreSQL whose record is set back to an earlier copy."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._server, self._schema = request.getfixturevalue("postgresql"), "set_back"
        self.do("DROP SCHEMA IF EXISTS {s} CASCADE", "CREATE SCHEMA {s}")
        self.to = f"{self._server.uri}?schema={self._schema}"

    def do(self, *statements: str) -> None:
        self._server.run(*(text.replace("{s}", self._schema) for text in statements))

    def count(self) -> int:
        return int(self._server.ask(f"SELECT count(*) FROM {self._schema}.t")[0][0])


class OfMariaDB:
    """The same of MariaDB."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._server, self._name = request.getfixturevalue("mariadb"), "set_back"
        self._server.query("DROP DATABASE IF EXISTS set_back", "CREATE DATABASE set_back")
        self.to = self._server.uri(self._name)

    def do(self, *statements: str) -> None:
        self._server.query(*(text.replace("{s}", self._name) for text in statements))

    def count(self) -> int:
        return int(self._server.query(f"SELECT COUNT(*) FROM {self._name}.t")[0][0])


def _set_back(base: OfPostgresql | OfMariaDB) -> None:
    base.do("DELETE FROM {s}._rowfall_loaded",
            "INSERT INTO {s}._rowfall_loaded SELECT * FROM {s}.kept")  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kind", [OfPostgresql, OfMariaDB])
def test_an_older_copy_of_the_record(
    shell: Shell, request: pytest.FixtureRequest, kind: type[OfPostgresql | OfMariaDB], large: bool
) -> None:
    """The machine that loaded the rows knows more than the record: that is a question."""
    base = kind(request)
    shell.env |= {"PGPASSWORD": PostgresqlServer.password, "MYSQL_PWD": MariaDB.password}
    many = 30_000 if large else 2  # in ranges, of which the older copy knows none
    more = ("--attempt-bytes", "100kB") if large else ()
    to = ("--to", base.to, "--table", "t", *more)
    shell.write("a.csv", ROWS)
    shell.write("b.csv", "id,name\n" + "".join(f"{i},name of {i}\n" for i in range(many)))
    shell.ok("load", "a.csv", *to)
    base.do("CREATE TABLE {s}.kept AS SELECT * FROM {s}._rowfall_loaded")
    shell.ok("load", "b.csv", *to)
    shell.write("c.csv", "id,name\n5,c\n")
    _set_back(base)
    assert "It would fail" in shell.ok("plan", "[ab].csv", *to).out
    done = shell.ends(3, "load", "[ab].csv", *to)
    assert "record _rowfall_loaded beside the table does not know of them" in done.err
    assert f"the table holds {2 + many:,} rows" in done.err
    assert base.count() == 2 + many
    shell.ok("load", "c.csv", *to)  # which has nothing to do with it
    found = answers(done.err)
    shell.ok(*found["adopt"])
    assert "nothing to load" in shell.ok("load", "[abc].csv", *to).talk
    assert base.count() == 3 + many
    # Both were set back: what the record does not know is not there, and is loaded.
    _set_back(base)
    base.do("DELETE FROM {s}.t WHERE NOT (id IN (1, 2) AND name IN ('a', 'b'))")
    done = shell.ends(3, "load", "[abc].csv", *to)
    assert (
        "--loaded all is no answer here"
        in shell.ends(2, "load", "[abc].csv", *to, "--loaded", "all").talk
    )
    shell.ok(*answers(done.err)["load"])
    assert base.count() == 3 + many
    assert "nothing to load" in shell.ok("load", "[abc].csv", *to).talk
    # Without any rows nobody asks.
    base.do("DELETE FROM {s}._rowfall_loaded", "DELETE FROM {s}.t")
    shell.ok("load", "[abc].csv", *to)
    assert base.count() == 3 + many


def _on_another_machine(shell: Shell) -> None:
    shell.env["ROWFALL_HOME"] = str(shell.folder / "another-home")


def _settle_by_adopting(shell: Shell, to: tuple[str, ...], count: Callable[[], int]) -> None:
    """Rows of a.csv and b.csv are there, and nobody knows: the question, and its answer."""
    before = count()
    assert "It would fail" in shell.ok("plan", "[ab].csv", *to).out
    done = shell.ends(3, "load", "[ab].csv", *to)
    assert "that nobody has on record" in done.err
    assert count() == before
    adopt = answers(done.err)["adopt"]
    assert len(shell.ok(*adopt, "--dry-run", "--json").document["splits"]) == 2
    shell.ends(3, "load", "[ab].csv", *to)
    assert len(shell.ok(*adopt, "--json").document["splits"]) == 2
    assert shell.ok(*adopt, "--json").document["splits"] == []
    assert "nothing to load" in shell.ok("load", "[ab].csv", *to).talk
    _on_another_machine(shell)
    shell.write("c.csv", "id,name\n7,c\n")
    shell.ok("load", "[abc].csv", *to)
    assert count() == before + 1


def _files(shell: Shell) -> None:
    shell.write("a.csv", ROWS)
    shell.write("b.csv", "id,name\n3,a\n4,b\n")


def test_a_journal_of_a_server_and_a_new_machine(shell: Shell, clickhouse: ClickHouse) -> None:
    """Nobody but the journal knew of the rows that another machine has loaded."""
    lake = Lake(shell, clickhouse)
    shell.env["CLICKHOUSE_PASSWORD"] = clickhouse.password
    _files(shell)
    to = ("--to", lake.to, "--table", "t")
    shell.ok("load", "[ab].csv", *to)
    lake.do(f"DROP TABLE {{db}}.{JOURNAL} SYNC")
    _on_another_machine(shell)
    _settle_by_adopting(shell, to, lambda: int(lake.row("SELECT count() FROM {db}.t")[0]))
    lake.do("DROP DATABASE {db} SYNC")


@pytest.mark.parametrize("answer", ["all", "journal"])
def test_an_older_copy_of_the_journal(shell: Shell, clickhouse: ClickHouse, answer: str) -> None:
    lake = Lake(shell, clickhouse)
    shell.env["CLICKHOUSE_PASSWORD"] = clickhouse.password
    _files(shell)
    to = ("--to", lake.to, "--table", "t")
    shell.ok("load", "a.csv", *to)
    lake.do(f"CREATE TABLE {{db}}.kept AS {{db}}.{JOURNAL}",
            f"INSERT INTO {{db}}.kept SELECT * FROM {{db}}.{JOURNAL}")  # fmt: skip
    shell.ok("load", "b.csv", *to)
    lake.do(f"TRUNCATE TABLE {{db}}.{JOURNAL} SYNC",
            f"INSERT INTO {{db}}.{JOURNAL} SELECT * FROM {{db}}.kept")  # fmt: skip
    assert "It would fail" in shell.ok("plan", "[ab].csv", *to).out
    done = shell.ends(3, "load", "[ab].csv", *to)
    assert f"--loaded {answer}" in done.err
    assert lake.row("SELECT count() FROM {db}.t") == [4]
    shell.ok("load", "[ab].csv", *to, "--loaded", answer)
    assert lake.row("SELECT count() FROM {db}.t") == [4 if answer == "all" else 6]
    _on_another_machine(shell)
    assert "nothing to load" in shell.ok("load", "[ab].csv", *to).talk
    lake.do("DROP DATABASE {db} SYNC")


def test_mariadb_and_a_new_machine(shell: Shell, mariadb: MariaDB) -> None:
    shell.env["MYSQL_PWD"] = mariadb.password
    mariadb.query("DROP DATABASE IF EXISTS gone", "CREATE DATABASE gone")
    _files(shell)
    to = ("--to", mariadb.uri("gone"), "--table", "t")
    shell.ok("load", "[ab].csv", *to)
    mariadb.query("DROP TABLE gone._rowfall_loaded")
    _on_another_machine(shell)
    _settle_by_adopting(shell, to, lambda: int(mariadb.query("SELECT COUNT(*) FROM gone.t")[0][0]))


def test_iceberg_and_rows_of_others(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else has written the files' rows; a record that is gone is an error of its own."""
    _files(shell)
    catalogue = DictCatalog("lab", warehouse=str(shell.folder / "wh"))
    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", lambda name, **more: catalogue)
    ids = pa.array([1, 2, 3, 4], pa.int64())
    rows = pa.table({"id": ids, "name": ["a", "b"] * 2})
    catalogue.create_table("gone.t", rows.schema).append(rows)
    _settle_by_adopting(
        shell, ("--to", "iceberg://lab/gone.t"),
        lambda: catalogue.load_table("gone.t").scan().count(),
    )  # fmt: skip


def test_what_has_no_record_of_tables(shell: Shell) -> None:
    _files(shell)
    done = shell.ends(2, "adopt", "a.csv", "--to", "out/{n}.csv")
    assert "has no table, and what is adopted is in one already" in done.err


_TOPIC = "_rowfall_loaded"


def _drop_record(kafka: Kafka) -> None:
    kafka.drop(_TOPIC)
    wait_until(lambda: _TOPIC not in topics(kafka), 10, "the record to go")


@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize(
    "more",
    [pytest.param((), marks=pytest.mark.long, id=""),
     pytest.param(("--transactional",), id="transactional")],
)  # fmt: skip
def test_a_topic_and_a_new_machine(shell: Shell, kafka: Kafka, more: tuple[str, ...]) -> None:
    _files(shell)
    topic = kafka.create()
    to = ("--to", f"kafka://{kafka.servers}/{topic}", *more)
    shell.ok("load", "[ab].csv", *to)
    _drop_record(kafka)
    _on_another_machine(shell)
    _settle_by_adopting(shell, to, lambda: len(committed(kafka, topic)))


@pytest.mark.long
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize("answer", ["adopt", "load"])
def test_an_older_copy_of_the_record_of_a_topic(shell: Shell, kafka: Kafka, answer: str) -> None:
    """Copied back from a mirror: all that came after the copy was sent again."""
    _files(shell)
    topic = kafka.create()
    to = ("--to", f"kafka://{kafka.servers}/{topic}", "--transactional")
    shell.ok("load", "a.csv", *to)
    kept = committed(kafka, _TOPIC)
    shell.ok("load", "b.csv", *to)
    _drop_record(kafka)
    kafka.create(_TOPIC, **{"cleanup.policy": "compact"})
    producer = kafka.producer()
    for key, value in kept:
        producer.produce(_TOPIC, value, key)
    producer.flush()
    assert "It would fail" in shell.ok("plan", "[ab].csv", *to).out
    done = shell.ends(3, "load", "[ab].csv", *to)
    assert "record _rowfall_loaded beside the table does not know of them" in done.err
    assert len(committed(kafka, topic)) == 4
    shell.ok(*answers(done.err)[answer])
    assert len(committed(kafka, topic)) == (4 if answer == "adopt" else 6)
    assert "nothing to load" in shell.ok("load", "[ab].csv", *to).talk
