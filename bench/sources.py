"""Databases, Kafka, HDFS, lake tables, rows in memory: rowfall against the engine's way, in turns.

    python bench/sources.py [--rows 1000000] [--rounds 3] [CASE ...]

One function a case, in CASES. Wall seconds and CPU seconds of everything on the side of the reader,
and apart from them those of the source. Real services of tests/lab; into the embedded engine, of
topics and in the cases of databases that end in `-server` into a server, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measure
from rowfall.sources.recipes import taxi

if TYPE_CHECKING:
    from lab.mariadb import MariaDB
    from lab.postgresql import PostgresqlServer

ROOT = Path(__file__).resolve().parents[1]

_TICKS = os.sysconf("SC_CLK_TCK")
# Processes of a server that have read count when they have ended, a moment after their client.
_END_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Side:
    """One way to load the rows.

    Attributes:
        command: {to} stands for an empty folder, where the rows go.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """Sides that load the same rows; ``pids`` of the source.

    Attributes:
        first: number of the side that the others are compared with; before it what the source
            takes alone.
        server: pids of a server that stores the rows: its CPU is the reader's.
        fresh: makes room in it for the next side.
    """

    sides: Sequence[Side]
    pids: Callable[[], Sequence[int]] = lambda: ()
    first: int = 0
    server: Callable[[], Sequence[int]] = lambda: ()
    fresh: Callable[[], None] = lambda: None


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process, 0 for none, and of its children that have ended."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def rowfall(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rowfall", *arguments]


# Into a table by INSERT SELECT, in a process of its own.
_INSERT = """
import os, sys, chdb
relation, order, folder = sys.argv[1:]
os.chdir("/")  # the engine takes lake tables below its current folder only
engine = chdb.connect(folder)
engine.query("CREATE DATABASE b ENGINE = Atomic")
engine.query(f"CREATE TABLE b.t ENGINE = MergeTree ORDER BY {order} AS SELECT * FROM {relation}")
engine.close()
"""


def insert_select(relation: str, order: str) -> list[str]:
    return [sys.executable, "-c", _INSERT, relation, order, "{to}"]


def taxi_file(rows: int, folder: Path) -> Path:
    """Write the rows as TSV with a header."""
    path = folder / "taxi.tsv"
    measure.run([*rowfall("load", f"generate://taxi?rows={rows}", "--to", str(path))])
    return path


# --- MariaDB --------------------------------------------------------------------------------------

_MYSQL = {
    "UInt32": "INT UNSIGNED", "UInt8": "TINYINT UNSIGNED", "Int8": "TINYINT", "Float64": "DOUBLE",
    "Float32": "FLOAT", "String": "VARCHAR(60)", "DateTime": "DATETIME",
    "FixedString(1)": "CHAR(1)",
}  # fmt: skip


def _columns(types: Mapping[str, str]) -> Iterator[str]:
    """Give the columns of the taxi table with types of a database, and its key."""
    for column in taxi(1).schema.columns:
        bare = column.type.removeprefix("Nullable(")
        nullable = bare != column.type
        bare = bare[:-1] if nullable else bare
        key = " PRIMARY KEY" if column.name == "trip_id" else ""
        yield f"{column.name} {types[bare]} {'' if nullable else 'NOT NULL'}{key}"


# What the server itself takes for the rows that rowfall asks for.
_READ = """
import sys
from concurrent.futures import ThreadPoolExecutor
from rowfall.core.options import Options
from rowfall.sources import open_source
from rowfall.systems.mysql import wire
source = open_source([sys.argv[1]], Options())
source.listing()
def read(low, high):
    connection, condition = source._connect(), f"trip_id >= {low} AND trip_id < {high}"
    statement = source._statement(source.described.columns, condition, binary=True)
    relay = wire.relayed(connection, wire.prepare(connection, statement)[0])
    for piece in relay.pieces():
        if not piece and relay.is_complete():
            break
rows = int(sys.argv[2])
with ThreadPoolExecutor(2) as threads:
    list(threads.map(read, (0, rows // 2), (rows // 2, rows)))
"""


@contextlib.contextmanager
def mariadb_rows(rows: int, folder: Path) -> Iterator[MariaDB]:
    """Give a MariaDB with the taxi rows in its table b.t."""
    from lab.mariadb import MariaDB

    columns = ", ".join(_columns(_MYSQL))
    path = taxi_file(rows, folder)
    with MariaDB(innodb_buffer_pool_size="2G") as server:
        server.query("CREATE DATABASE b", f"CREATE TABLE b.t ({columns})")
        with server.connect("b", local_infile=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t IGNORE 1 LINES")
            cursor.execute("ANALYZE TABLE t")
        path.unlink()
        yield server


def _by_mysql(server: MariaDB) -> str:
    """Return the engine's own way to read the rows."""
    return f"mysql('127.0.0.1:{server.port}', 'b', 't', '{server.user}', '{server.password}')"


@contextlib.contextmanager
def mariadb(rows: int, folder: Path) -> Iterator[Case]:
    """MariaDB to embedded, against mysql() in one stream, its default, and in four key ranges."""
    with mariadb_rows(rows, folder) as server:
        at = _by_mysql(server)
        ranges = " UNION ALL ".join(
            f"SELECT * FROM {at} WHERE trip_id >= {rows * n // 4} "
            f"AND trip_id < {rows * (n + 1) // 4}"
            for n in range(4)
        )
        load = rowfall("load", server.uri("b/t"), "--to", "{to}")
        alone = [sys.executable, "-c", _READ, server.uri("b/t"), str(rows)]
        yield Case(
            (
                Side("rowfall's rows, read by two connections and thrown away", alone),
                Side("mysql()", insert_select(at, "trip_id")),
                Side("mysql() x 4 ranges", insert_select(f"({ranges})", "trip_id")),
                Side("rowfall", load),
                Side("rowfall --decoder never", [*load, "--decoder", "never"]),
            ),
            lambda: [server.pid or 0],
            first=1,
        )


# --- PostgreSQL -----------------------------------------------------------------------------------

_POSTGRESQL = {
    "UInt32": "BIGINT", "UInt8": "SMALLINT", "Int8": "SMALLINT", "Float64": "DOUBLE PRECISION",
    "Float32": "REAL", "String": "TEXT", "DateTime": "TIMESTAMP(0)", "FixedString(1)": "TEXT",
}  # fmt: skip
# What the article does by hand: psql writes CSV into the client's INSERT.
_PIPE = """
import subprocess, sys, chdb
program, table, structure, order, folder = sys.argv[1:]
copy = subprocess.Popen(
    [program, "-qc", f"COPY {table} TO STDOUT WITH (FORMAT csv)"], stdout=subprocess.PIPE)
engine = chdb.connect(folder)
engine.query("CREATE DATABASE b ENGINE = Atomic")
engine.query(f"CREATE TABLE b.t ({structure}) ENGINE = MergeTree ORDER BY {order}")
engine.query(f"INSERT INTO b.t SELECT * FROM "
             f"file('/dev/fd/{copy.stdout.fileno()}', 'CSV', '{structure}')")
engine.close()
sys.exit(copy.wait())
"""


@contextlib.contextmanager
def postgresql_rows(rows: int, folder: Path) -> Iterator[PostgresqlServer]:
    """Give a PostgreSQL with the taxi rows in its table t."""
    from lab.postgresql import PostgresqlServer

    path = taxi_file(rows, folder)
    with PostgresqlServer() as server:
        server.run(f"CREATE TABLE t ({', '.join(_columns(_POSTGRESQL))})")
        with server.connect() as connection, connection.cursor() as cursor, path.open("rb") as file:
            file.readline()
            with cursor.copy("COPY t FROM STDIN") as copy:
                while data := file.read(1 << 20):
                    copy.write(data)
        server.run("VACUUM (ANALYZE) t", "CHECKPOINT")
        path.unlink()
        yield server


def _by_postgresql(server: PostgresqlServer) -> str:
    """Return the engine's own way to read the rows."""
    return (
        f"postgresql('127.0.0.1:{server.port}', '{server.database}', 't', '{server.user}', "
        f"'{server.password}')"
    )


@contextlib.contextmanager
def postgresql(rows: int, folder: Path) -> Iterator[Case]:
    """PostgreSQL to embedded, against COPY into an INSERT, and postgresql() in one stream."""
    from lab.postgresql import BIN

    structure = [f"{column.name} {column.type}" for column in taxi(1).schema.columns]
    with postgresql_rows(rows, folder) as server:
        environment = {
            "PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": server.user,
            "PGPASSWORD": server.password, "PGDATABASE": server.database,
        }  # fmt: skip
        at = _by_postgresql(server)
        load = rowfall("load", f"{server.uri}/t", "--to", "{to}")
        pipe = [sys.executable, "-c", _PIPE, str(BIN / "psql"), "t", ", ".join(structure)]
        halves = (f"SELECT * FROM t WHERE trip_id {sign} {rows // 2}" for sign in ("<", ">="))
        alone = [f"{BIN / 'psql'} -qc \"COPY ({half}) TO '/dev/null'\" & " for half in halves]
        yield Case(
            (
                Side(
                    "COPY TO '/dev/null' by two connections",
                    ["sh", "-c", "".join(alone) + "wait"],
                    environment,
                ),
                Side("COPY CSV | INSERT", [*pipe, "trip_id", "{to}"], environment),
                Side("postgresql()", insert_select(at, "trip_id")),
                Side("rowfall", load, environment),
                Side("rowfall --decoder never", [*load, "--decoder", "never"], environment),
            ),
            lambda: [server.pid or 0],
            first=1,
        )


# --- Kafka ----------------------------------------------------------------------------------------

# The Kafka engine of the test server (24.10) reads nothing from brokers of 4.3: "Required feature
# not supported by broker".
BROKER = "3.9.1"
_SMALL = "id UInt32, name String, quantity UInt16, at DateTime, price Float64"
_QUEUE = (
    "CREATE TABLE q ({columns}) ENGINE = Kafka SETTINGS kafka_broker_list = '{servers}', "
    "kafka_topic_list = '{topic}', kafka_group_name = '{group}', kafka_format = 'CSV', "
    "kafka_commit_on_select = 1{more}"
)
_TUNED = (
    ", kafka_num_consumers = {consumers}, kafka_thread_per_consumer = 1, "
    "kafka_max_block_size = 500000, kafka_poll_max_batch_size = 100000, "
    "kafka_flush_interval_ms = 2000"
)
# Runs statements in a server, the last one again and again until the table t has all rows. A group
# of its own reads the topic from its beginning.
_UNTIL = """
import sys, time, urllib.request
url, rows, *statements, again = sys.argv[1:]
def ask(text):
    return urllib.request.urlopen(url, text.encode()).read()
for text in statements:
    ask(text.replace("{group}", str(time.time_ns())))
deadline = time.monotonic() + 240
while int(ask("SELECT count() FROM t")) < int(rows):
    if time.monotonic() > deadline:
        sys.exit("not all rows came within four minutes")
    ask(again)
"""


def small_file(rows: int, folder: Path) -> Path:
    """Write rows of 44 bytes as CSV with a header."""
    path = folder / "small.csv"
    with path.open("w") as file:
        file.write("id,name,quantity,at,price\n")
        file.writelines(
            f"{i},item {i % 1000},{i * 7 % 1000},2024-01-01 00:{i % 60:02}:00,{i % 97}.5\n"
            for i in range(rows)
        )
    return path


def kafka(of: str, partitions: int, rows: int, folder: Path) -> Iterator[Case]:
    """Messages of CSV into a folder and a server, against a queue of the server, with and without
    a view, whose settings are its defaults and tuned."""
    from lab.clickhouse import ClickHouse
    from lab.kafka import Kafka

    if of == "small":
        path, columns = small_file(rows, folder), _SMALL
    else:
        path = folder / "taxi.csv"
        measure.run([*rowfall("load", f"generate://taxi?rows={rows}", "--to", str(path))])
        columns = ", ".join(f"{c.name} {c.type}" for c in taxi(1).schema.columns)
    with Kafka(version=BROKER) as broker, ClickHouse() as server:
        topic = broker.create(partitions=partitions)
        with path.open("rb") as file:
            next(file)
            for number in range(partitions):
                count = rows * (number + 1) // partitions - rows * number // partitions
                broker.send(topic, (line[:-1] for line in islice(file, count)), number)
        path.unlink()
        table = f"CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY ()"
        queue = {"columns": columns, "servers": broker.servers, "topic": topic, "group": "{group}"}
        tuned = _TUNED.format(consumers=min(2, partitions))
        url = f"{server.endpoint}/?database=b&user={server.user}&password={server.password}"
        until = [sys.executable, "-c", _UNTIL, url, str(rows), table]
        load = [
            *rowfall("load", f"kafka://{broker.servers}/{topic}", "--format", "CSV", "--table"),
            "t", "--schema", columns, "--order-by", "tuple()", "--to",
        ]  # fmt: skip

        def fresh() -> None:
            server.query("DROP DATABASE IF EXISTS b SYNC")
            server.query("CREATE DATABASE b")

        yield Case(
            (
                Side(
                    "queue and view, tuned",
                    [
                        *until, _QUEUE.format(**queue, more=tuned),
                        "CREATE MATERIALIZED VIEW v TO t AS SELECT * FROM q", "SELECT sleep(0.1)",
                    ],
                ),
                Side(
                    "INSERT SELECT, defaults",
                    [
                        *until, _QUEUE.format(**queue, more=""), "INSERT INTO t SELECT * FROM q "
                        "SETTINGS stream_like_engine_allow_direct_select = 1",
                    ],
                ),
                Side("rowfall into a folder", [*load, "{to}"]),
                Side("rowfall into a server", [*load, server.uri("b")]),
            ),
            lambda: [broker.pid or 0],
            server=lambda: [server.pid or 0],
            fresh=fresh,
        )  # fmt: skip


# --- databases into a server ----------------------------------------------------------------------


@contextlib.contextmanager
def into_server(kind: str, rows: int, folder: Path) -> Iterator[Case]:
    """A database into a server of 24.10, against that server's own function for it."""
    from lab.clickhouse import ClickHouse

    ways: dict[str, tuple[Any, Any]] = {
        "postgresql": (postgresql_rows, _by_postgresql), "mysql": (mariadb_rows, _by_mysql),
    }  # fmt: skip
    made, by = ways[kind]
    with made(rows, folder) as source, ClickHouse() as server:

        def fresh() -> None:
            server.query("DROP DATABASE IF EXISTS b SYNC")
            server.query("CREATE DATABASE b")

        if kind == "postgresql":
            address = f"{source.uri.replace('@', f':{source.password}@', 1)}/t"
        else:
            address = source.uri("b/t")
        url = f"{server.endpoint}/?database=b&user={server.user}&password={server.password}"
        own = "CREATE TABLE t ENGINE = MergeTree ORDER BY trip_id AS SELECT * FROM " + by(source)
        load = rowfall("load", address, "--table", "t", "--to", server.uri("b"))
        yield Case(
            (
                Side(f"{kind}()", [sys.executable, "-c", _UNTIL, url, str(rows), own, "SELECT 1"]),
                Side("rowfall", load),
            ),
            lambda: [source.pid or 0],
            server=lambda: [server.pid or 0],
            fresh=fresh,
        )


# --- HDFS -----------------------------------------------------------------------------------------


_INTO = """
import sys, chdb
ddl, relation, folder = sys.argv[1:]
engine = chdb.connect(folder)
engine.query("CREATE DATABASE b ENGINE = Atomic")
engine.query(ddl)
engine.query(f"INSERT INTO b.t SELECT * FROM {relation}")
engine.close()
"""


def hdfs(format: str, rows: int, folder: Path) -> Iterator[Case]:
    """HDFS to embedded, against INSERT SELECT FROM hdfs(); needs Java 17 and Maven."""
    from lab.hdfs import Hdfs

    suffix = {"CSVWithNames": "csv", "Parquet": "parquet"}[format]
    names = [
        *rowfall("load", f"generate://taxi?rows={rows}"),
        "--to-format",
        format,
        "--files",
        "4",
    ]
    measure.run([*names, "--to", f"{folder}/files/taxi_{{n}}.{suffix}"])
    with Hdfs() as nodes:
        for path in sorted((folder / "files").iterdir()):
            # Blocks as large as they are elsewhere.
            more = {"overwrite": "true", "blocksize": str(128 << 20)}
            nodes.ask("PUT", f"/in/{path.name}", "CREATE", path.read_bytes(), **more)
        source = nodes.at(f"/in/*.{suffix}")
        # Into the table that rowfall makes: the types that the engine would guess are wider.
        planned = rowfall("plan", source, "--table", "b.t", "--json", "--to", str(folder / "none"))
        ddl = json.loads(measure.run(planned).output)["ddl"]
        relation = f"hdfs('{source.partition('?')[0]}', '{format}')"
        load = rowfall("load", source, "--to", "{to}", "--table", "b.t", "--quiet")
        yield Case(
            (
                Side("hdfs()", [sys.executable, "-c", _INTO, ddl, relation, "{to}"]),
                Side("rowfall", load),
                Side("rowfall --decoder never", [*load, "--decoder", "never", "--build", "off"]),
            ),
            lambda: [nodes.name_node.pid or 0, nodes.data_node.pid or 0],
        )


# --- lake tables ----------------------------------------------------------------------------------

# In a process of its own: this one has to stay small, see measure.run.
_LAKES = """
import glob, sys
sys.path[:0] = sys.argv[2:]
import pyarrow as pa
import pyarrow.parquet as parquet
from deltalake import write_deltalake
from lab.lake_tables import iceberg
folder, table = sys.argv[1], None
for name in sorted(glob.glob(f"{folder}/*.parquet")):
    rows = parquet.read_table(name)
    # Neither kind of table has unsigned numbers, or strings of a fixed length that are text.
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    fields = [pa.field(f.name, wider.get(f.type, f.type)) for f in rows.schema]
    fixed = pa.types.is_fixed_size_binary
    fields = [f.with_type(pa.binary()) if fixed(f.type) else f for f in fields]
    rows = rows.cast(pa.schema(fields))
    write_deltalake(f"{folder}/delta", rows, mode="append")
    if table is None:
        table = iceberg(f"{folder}/iceberg", rows)
    else:
        table.append(rows)
"""


def lake(kind: str, of: str, rows: int, folder: Path) -> Iterator[Case]:
    """Eight files of a lake table, written by its own library, against the engine's own reader."""
    files = ["--to", f"{folder}/part_{{n}}.parquet", "--files", "8"]
    measure.run(rowfall("load", f"generate://{of}?rows={rows}", *files))
    measure.run([sys.executable, "-c", _LAKES, str(folder), *sys.path[:3]])
    function = {"iceberg": "icebergLocal", "delta": "deltaLakeLocal"}[kind]
    load = rowfall("load", f"{kind}+{folder}/{kind}", "--to", "{to}", "--table", "t", "--quiet")
    relation = f"{function}('{folder}/{kind}')"
    yield Case((
        Side(f"{function}()", insert_select(relation, "tuple()")),
        Side("rowfall", [*load, "--order-by", "tuple()"]),
        Side("rowfall --build off", [*load, "--order-by", "tuple()", "--build", "off"]),
    ))  # fmt: skip


# --- rows in memory -------------------------------------------------------------------------------

_MAKE_FRAME = """
import sys
import numpy as np, pyarrow as pa
rows, random = int(sys.argv[2]), np.random.default_rng(1)
table = pa.table({
    "id": np.arange(rows), "v": random.random(rows),
    "k": random.integers(0, 1000, rows, dtype="int32"),
    "at": pa.array(np.arange(rows) * 1_000_000, pa.timestamp("us", "UTC")),
    "s": pa.array(random.integers(0, 100_000, rows)).cast("string"),
})
with pa.OSFile(sys.argv[1], "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
    writer.write_table(table)
"""
# Its bytes are in memory already: the file was just written.
_FRAME = """
import sys
import pyarrow as pa
table = pa.ipc.open_file(pa.memory_map(sys.argv[1])).read_all()
"""
_BY_PYTHON = f"""{_FRAME}
import chdb
engine = chdb.connect(sys.argv[2])
engine.query("CREATE DATABASE b")
engine.query("CREATE TABLE b.t (id Int64, v Float64, k Int32, at DateTime64(6, 'UTC'), s String) "
             "ENGINE = MergeTree ORDER BY tuple()")
engine.query("INSERT INTO b.t SELECT * FROM Python(table)")
engine.close()
"""
_BY_ROWFALL = f"""{_FRAME}
import rowfall
more = {{name: value or True for name, _, value in (word.partition("=") for word in sys.argv[3:])}}
rowfall.load(table, to=sys.argv[2], table="t", type={{"s": "String"}}, order_by="tuple()", **more)
"""


@contextlib.contextmanager
def frames(rows: int, folder: Path) -> Iterator[Case]:
    """Ten times as many rows of five columns in memory, against chDB's own Python().

    That does not wait for the disk, as no_sync=True does not.
    """
    path = str(folder / "frame")
    measure.run([sys.executable, "-c", _MAKE_FRAME, path, str(10 * rows)])
    load = [sys.executable, "-c", _BY_ROWFALL, path, "{to}"]
    yield Case((
        Side("Python()", [sys.executable, "-c", _BY_PYTHON, path, "{to}"]),
        Side("rowfall.load", load),
        Side("rowfall.load(no_sync=True)", [*load, "no_sync"]),
        Side('rowfall.load(build="off")', [*load, "build=off"]),
    ))  # fmt: skip


def _case(make: Callable[..., Iterator[Case]], *kind: str | int) -> Any:
    return contextlib.contextmanager(partial(make, *kind))


CASES: dict[str, Callable[[int, Path], contextlib.AbstractContextManager[Case]]] = {
    "mariadb": mariadb,
    "postgresql": postgresql,
    "mariadb-server": partial(into_server, "mysql"),
    "postgresql-server": partial(into_server, "postgresql"),
    "kafka": _case(kafka, "taxi", 1),
    "kafka-4": _case(kafka, "taxi", 4),
    "kafka-small": _case(kafka, "small", 1),
    "kafka-small-4": _case(kafka, "small", 4),
    "hdfs-csv": _case(hdfs, "CSVWithNames"),
    "hdfs-parquet": _case(hdfs, "Parquet"),
    "iceberg": _case(lake, "iceberg", "taxi"),
    "delta": _case(lake, "delta", "taxi"),
    "iceberg-narrow": _case(lake, "iceberg", "trips"),
    "delta-narrow": _case(lake, "delta", "trips"),
    "frames": frames,
}


def compare(case: Case, rows: int, rounds: int, folder: Path) -> None:
    """Run the sides in turns and print their medians."""
    taken: dict[str, list[tuple[float, ...]]] = {side.name: [] for side in case.sides}
    for turn in range(rounds):
        for number, side in enumerate(case.sides):
            # Nothing is removed before all have had their turns, see `once` in sides.py.
            to = folder / f"to-{turn}-{number}"
            case.fresh()
            os.sync()
            before, stored = (sum(map(cpu_of, pids())) for pids in (case.pids, case.server))
            command = [part.replace("{to}", str(to)) for part in side.command]
            sample = measure.run(command, env=side.environment, together=True)
            time.sleep(_END_SECONDS if case.pids() else 0)
            source = sum(map(cpu_of, case.pids())) - before
            cpu = sample.cpu + sum(map(cpu_of, case.server())) - stored
            taken[side.name].append((sample.wall, cpu, source, sample.together / 2**20))
    first = measure.median(found[0] for found in taken[case.sides[case.first].name])
    print("| side | seconds | times | CPU of reader | CPU of source | memory |")
    print("|---|---|---|---|---|---|")
    for name, found in taken.items():
        wall, cpu, source, most = (measure.median(column) for column in zip(*found, strict=True))
        times = f"{first / wall:.2f} | {cpu:.2f} | {source:.2f} | {most:.0f} MiB"
        print(f"| {name} | {wall:.2f} | {times} |", flush=True)


if __name__ == "__main__":
    measure.run_cases(__doc__, CASES, compare)
