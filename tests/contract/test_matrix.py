"""Every source with every target: exact rows, and nothing when it is loaded again.

Driven by the registries: a source or target without a row here fails. The gate tries each of them
once, mostly with one of its own kind, which needs no second service; ``make test-all`` tries all.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from deltalake import write_deltalake

import rowfall
from contract.stores import object_store
from contract.values import duckdb_at
from e2e.test_to_kafka import committed
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.cluster import Cluster
from lab.hdfs import Hdfs
from lab.http import Web
from lab.kafka import Kafka
from lab.lake_tables import iceberg
from lab.mariadb import SINGLESTORE_URL, GivenServer, MariaDB
from lab.postgresql import PostgresqlServer
from lab.seaweed import Seaweed
from rowfall.sources import REGISTRY as SOURCES
from rowfall.targets import REGISTRY as TARGETS

_numbers = itertools.count()

COUNT = 200
ROWS = [(i, f"n{i}, \"ö\" 'x'", i / 4) for i in range(COUNT)]
Found = list[tuple[int, str, float]]


def _name(kind: str) -> str:
    return f"{kind}_{os.getpid()}_{next(_numbers)}"


@dataclass
class Bench:
    """What sources and targets are made with."""

    shell: Shell
    request: pytest.FixtureRequest
    monkeypatch: pytest.MonkeyPatch

    def service(self, name: str) -> Any:
        return self.request.getfixturevalue(name)


# --- sources --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class From:
    """A source that holds :data:`ROWS`.

    Attributes:
        args: SOURCE and options of the load. ``stdin``: what is piped in.
        rows: how rows are loaded where no command does; given the keywords of ``rowfall.load``.
        again: rows of a second load: more than 0 where a source cannot be known again.
        expected: of the rows, where they are not ROWS.
    """

    args: tuple[str, ...] = ()
    stdin: str | None = None
    frame: Any = None
    again: int = 0
    columns: tuple[str, str, str] = ("id", "s", "x")


def _csv() -> str:
    quoted = ('"' + s.replace('"', '""') + '"' for _, s, _ in ROWS)
    lines = (f"{i},{s},{x}" for (i, _, x), s in zip(ROWS, quoted, strict=True))
    return "\n".join(["id,s,x", *lines, ""])


def _table() -> pa.Table:
    ids, texts, numbers = zip(*ROWS, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "s": texts, "x": numbers})


def _file(bench: Bench) -> From:
    bench.shell.write("in/a.csv", _csv())
    return From((str(bench.shell.folder / "in/a.csv"),))


def _archive(bench: Bench) -> From:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner/a.csv", _csv())
    bench.shell.write("in/a.zip", packed.getvalue())
    return From((str(bench.shell.folder / "in/a.zip"),))


def _stdin(bench: Bench) -> From:
    return From(("-", "--format", "CSVWithNames"), _csv(), again=COUNT)


def _frame(bench: Bench) -> From:
    return From(frame=_table())


def _object(scheme: str) -> Callable[[Bench], From]:
    def make(bench: Bench) -> From:
        store = object_store(scheme, bench.request, bench.monkeypatch)
        store.put("a.csv", _csv().encode())
        return From((store.at("a.csv"),))

    return make


def _http(bench: Bench) -> From:
    web: Web = bench.service("web")
    return From((web.put(f"{_name('matrix')}.csv", _csv().encode()),))


def _hdfs(bench: Bench) -> From:
    hdfs: Hdfs = bench.service("hdfs")
    path = f"/{_name('matrix')}/a.csv"
    hdfs.put(path, _csv().encode())
    return From((hdfs.at(path),))


def _generate(bench: Bench) -> From:
    select = "toInt64(document_id) AS id, "
    select += "concat('n', toString(id), ', \"ö\" \\'x\\'') AS s, id / 4 AS x"
    args = (f"generate://random?rows={COUNT}&bytes=8", "--select", f"{select}")
    return From(args)


def _topic(bench: Bench) -> From:
    kafka: Kafka = bench.service("kafka")
    topic = kafka.create()
    kafka.send(topic, [json.dumps({"id": i, "s": s, "x": x}).encode() for i, s, x in ROWS])
    return From((f"kafka://{kafka.servers}/{topic}", "--format", "JSONEachRow"))


def _iceberg(bench: Bench) -> From:
    folder = str(bench.shell.folder / _name("ice"))
    iceberg(folder, _table())
    return From((f"iceberg+{folder}",))


def _delta(bench: Bench) -> From:
    folder = str(bench.shell.folder / _name("delta"))
    write_deltalake(folder, _table())
    return From((f"delta+{folder}",))


def _of_mysql(bench: Bench) -> From:
    server: MariaDB = bench.service("mariadb")
    database = _name("matrix")
    server.query(
        f"CREATE DATABASE {database} CHARACTER SET utf8mb4",
        f"CREATE TABLE {database}.src (id BIGINT PRIMARY KEY, s VARCHAR(50) NOT NULL, "
        "x DOUBLE NOT NULL)",
    )
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO src VALUES (%s, %s, %s)", ROWS)
    return From((server.uri(f"{database}/src"),))


def _of_postgresql(bench: Bench) -> From:
    server: PostgresqlServer = bench.service("postgresql")
    bench.shell.env["PGPASSWORD"] = server.password
    table = _name("matrix")
    server.run(f"CREATE TABLE {table} (id bigint PRIMARY KEY, s text NOT NULL, x float8 NOT NULL)")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s)", ROWS)
    return From((f"{server.uri}/{table}",))


def _of_clickhouse(bench: Bench) -> From:
    server: ClickHouse = bench.service("clickhouse")
    database = _name("matrix")
    server.query(f"CREATE DATABASE {database}")
    server.query(f"CREATE TABLE {database}.src (id Int64, s String, x Float64) "
                 "ENGINE = MergeTree ORDER BY id")  # fmt: skip
    rows = "\n".join(json.dumps({"id": i, "s": s, "x": x}) for i, s, x in ROWS)
    server.query(f"INSERT INTO {database}.src FORMAT JSONEachRow\n{rows}")
    return From((f"{server.uri(database)}/src",))


def _of_duckdb(bench: Bench) -> From:
    file = bench.shell.folder / f"{_name('src')}.duckdb"
    with duckdb_at(file) as do:
        do("CREATE TABLE src (id BIGINT PRIMARY KEY, s VARCHAR NOT NULL, x DOUBLE NOT NULL)")
        for row in ROWS:
            do("INSERT INTO src VALUES (?, ?, ?)", row)
    return From((f"duckdb://{file}/src",))


def _of_sqlite(bench: Bench) -> From:
    file = bench.shell.folder / f"{_name('src')}.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "CREATE TABLE src (id INTEGER PRIMARY KEY, s TEXT NOT NULL, x REAL NOT NULL)"
        )
        connection.executemany("INSERT INTO src VALUES (?, ?, ?)", ROWS)
        connection.commit()
    return From((f"sqlite://{file}/src",))


def _of_folder(bench: Bench) -> From:
    bench.shell.write("in/src.csv", _csv())
    folder = bench.shell.folder / _name("tables")
    bench.shell.ok("load", "in/src.csv", "--to", str(folder), "--type", "id Int64",
                   "--type", "s String", "--type", "x Float64")  # fmt: skip
    return From((f"folder://{folder}/src",))


FROM: dict[str, Callable[[Bench], From]] = {
    "file": _file,
    "folder": _of_folder,
    "archive": _archive,
    "stdin": _stdin,
    "s3": _object("s3"),
    "gs": _object("gs"),
    "az": _object("az"),
    "http": _http,
    "hdfs": _hdfs,
    "arrow": _frame,
    "generate": _generate,
    "kafka": _topic,
    "iceberg": _iceberg,
    "delta": _delta,
    "mysql": _of_mysql,
    "clickhouse": _of_clickhouse,
    "postgresql": _of_postgresql,
    "duckdb": _of_duckdb,
    "sqlite": _of_sqlite,
}
# The same code as another one, or nothing to run it against.
SAME_SOURCES = {
    "https": "http", "mariadb": "mysql", "singlestore": "mysql", "clickhouses": "clickhouse",
    "postgres": "postgresql",
}  # fmt: skip

# --- targets --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class To:
    """A target.

    Attributes:
        to: the URI. ``table``: it takes ``--table``.
        read: returns its rows; None where it keeps none.
        remembers: a second load loads nothing.
    """

    to: str
    table: bool = True
    read: Callable[[], Found] | None = None
    args: tuple[str, ...] = ()
    remembers: bool = True


def _queried(bench: Bench, to: str, table: str = "t") -> Callable[[], Found]:
    def read() -> Found:
        done = bench.shell.ok("query", f"SELECT id, s, x FROM {table}", "--to", to, "--format",
                              "JSONCompactEachRow")  # fmt: skip
        rows = (json.loads(line) for line in done.out.splitlines())
        return [(int(i), str(s), float(x)) for i, s, x in rows]

    return read


def _folder(bench: Bench) -> To:
    to = str(bench.shell.folder / _name("folder"))
    return To(to, read=_queried(bench, to))


def _server(bench: Bench) -> To:
    server: ClickHouse = bench.service("clickhouse")
    database = _name("into")
    server.query(f"CREATE DATABASE {database}")
    to = server.uri(database)
    return To(to, read=_queried(bench, to))


def _cluster(bench: Bench) -> To:
    cluster: Cluster = bench.service("cluster21")
    to = cluster.url(_name("into"))
    return To(to, read=_queried(bench, to))


def _into_postgresql(bench: Bench) -> To:
    server: PostgresqlServer = bench.service("postgresql")
    bench.shell.env["PGPASSWORD"] = server.password
    schema = _name("into")
    server.run(f"CREATE SCHEMA {schema}")
    to = f"{server.uri}?schema={schema}"
    return To(to, read=_queried(bench, to))


def _into_duckdb(bench: Bench) -> To:
    to = str(bench.shell.folder / f"{_name('into')}.duckdb")
    return To(to, read=_queried(bench, to))


def _into_mysql(bench: Bench) -> To:
    server: MariaDB = bench.service("mariadb")
    database = _name("into")
    server.query(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    to = server.uri(database)
    return To(to, read=_queried(bench, to))


def _into_singlestore(bench: Bench) -> To:
    """Into the live server of ``make test-singlestore``; MariaDB stands in elsewhere."""
    given = GivenServer(SINGLESTORE_URL) if SINGLESTORE_URL else None
    server: MariaDB | GivenServer = given or bench.service("mariadb")
    database = _name("into")
    server.query(f"CREATE DATABASE {database}")
    if given is not None:
        bench.request.addfinalizer(lambda: given.query(f"DROP DATABASE {database}"))
    to = server.uri(database, scheme="singlestore")
    return To(to, read=_queried(bench, to))


def _into_topic(bench: Bench) -> To:
    kafka: Kafka = bench.service("kafka")
    topic = kafka.create()

    def read() -> Found:
        rows = (json.loads(value) for _, value in committed(kafka, topic))
        return [(int(row["id"]), row["s"], float(row["x"])) for row in rows]

    return To(f"kafka://{kafka.servers}/{topic}", False, read, ("--transactional",))


def _into_iceberg(bench: Bench) -> To:
    to = f"iceberg+{bench.shell.folder / _name('ice')}/t"
    return To(to, False, _queried(bench, to))


def _of_parquet(data: Any) -> Found:
    return [(row["id"], row["s"], row["x"]) for row in parquet.read_table(data).to_pylist()]


def _export(bench: Bench) -> To:
    path = bench.shell.folder / f"{_name('out')}.parquet"
    return To(str(path), False, lambda: _of_parquet(path))


def _export_s3(bench: Bench) -> To:
    store: Seaweed = bench.service("s3")
    bench.shell.env |= store.env
    bucket = _name("export").replace("_", "-")
    store.create_bucket(bucket)
    return To(f"s3://{bucket}/out.parquet", False,
              lambda: _of_parquet(io.BytesIO(store.get(bucket, "out.parquet"))))  # fmt: skip


def _nowhere(bench: Bench) -> To:
    return To("null:", False, remembers=False)


TO: dict[str, Callable[[Bench], To]] = {
    "folder": _folder,
    "clickhouse": _server,
    "cluster": _cluster,
    "postgresql": _into_postgresql,
    "duckdb": _into_duckdb,
    "mysql": _into_mysql,
    "singlestore": _into_singlestore,
    "kafka": _into_topic,
    "iceberg": _into_iceberg,
    "file": _export,
    "s3": _export_s3,
    "null": _nowhere,
}
SAME_TARGETS = {"clickhouses": "clickhouse", "mariadb": "mysql"}

# What the gate tries; the service of the one is that of the other, as far as they need any.
GATE = {
    ("file", "folder"), ("folder", "duckdb"), ("archive", "iceberg"), ("stdin", "file"),
    ("s3", "s3"), ("gs", "null"),
    ("az", "null"), ("http", "file"), ("hdfs", "null"), ("arrow", "folder"), ("generate", "file"),
    ("kafka", "kafka"), ("iceberg", "iceberg"), ("delta", "folder"), ("mysql", "mysql"),
    ("clickhouse", "clickhouse"), ("postgresql", "postgresql"), ("file", "cluster"),
    ("file", "singlestore"), ("duckdb", "duckdb"), ("sqlite", "duckdb"),
}  # fmt: skip
# The worker that has the service; a cluster's is the longest, so it comes first.
_WORKERS = (
    ("cluster", "cluster21"), ("hdfs", "hdfs"), ("kafka", "kafka"), ("postgresql", "postgresql"),
    ("mysql", "mysql"), ("singlestore", "mysql"), ("clickhouse", "server"),
)  # fmt: skip


def test_every_source_and_target_has_a_row() -> None:
    assert {*FROM, *SAME_SOURCES} == {*SOURCES, "archive"}
    assert {*TO, *SAME_TARGETS} == {*TARGETS, "cluster"}
    assert {source for source, _ in GATE} == {*FROM}
    assert {target for _, target in GATE} == {*TO}


def _pairs() -> list[Any]:
    found = []
    for source, target in itertools.product(FROM, TO):
        marks = [] if (source, target) in GATE else [pytest.mark.long]
        group = next((group for kind, group in _WORKERS if kind in (source, target)), "")
        if group:
            marks.append(pytest.mark.xdist_group(group))
        found.append(pytest.param(source, target, marks=marks, id=f"{source}-{target}"))
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("source", "target"), _pairs())
def test_source_into_target(
    source: str, target: str, rowfall: Any, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    bench = Bench(Shell(rowfall), request, monkeypatch)
    given, into = FROM[source](bench), TO[target](bench)
    for variable in os.environ.keys() & {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID",
                                         "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}:  # fmt: skip
        bench.shell.env.setdefault(variable, os.environ[variable])
    report = _load(bench, given, into)
    assert (report["outcome"], report["rows"]) == ("done", COUNT)
    if into.read is not None:
        assert sorted(into.read()) == ROWS
    again = _load(bench, given, into)
    more = given.again if into.remembers else COUNT
    assert (again["outcome"], again["rows"]) == ("done", more)
    if into.read is not None and not given.again:
        assert sorted(into.read()) == ROWS


def _load(bench: Bench, given: From, into: To) -> dict[str, Any]:
    if given.frame is not None:
        return _load_frame(bench, given, into)
    table = ("--table", "t") if into.table else ()
    # A file that is written again is one that somebody else has made: it is asked for.
    args = ("load", *given.args, "--to", into.to, *table, *into.args, "--json")
    if given.stdin is None:
        return bench.shell.ok(*args).document
    again = () if into.read is None or into.table else ("--force",)
    return bench.shell.ok(*args, *again, stdin=given.stdin).document


def _load_frame(bench: Bench, given: From, into: To) -> dict[str, Any]:
    for name, value in (("HOME", str(bench.shell.cli.home)), *bench.shell.env.items()):
        bench.monkeypatch.setenv(name, value)
    bench.monkeypatch.chdir(bench.shell.folder)
    options: dict[str, Any] = {"transactional": True} if into.args else {}
    found = rowfall.load(
        given.frame, to=into.to, table="t" if into.table else None, batch_id="b1", **options
    )
    return {"outcome": found.outcome, "rows": found.rows}
