"""Databases as targets: rowfall against the database's own loader, in turns.

    python bench/targets.py [--rows 1000000] [--rounds 3] [CASE ...]

One function a case, in CASES. Wall seconds, CPU seconds of the side that loads, and apart from them
those of the database. Real services of tests/lab; the table is made anew before each run, without
keys, and its rows are counted after it.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measure
from bench.sources import _MYSQL, _POSTGRESQL, _SMALL, Side, cpu_of, rowfall, small_file
from rowfall.sources.recipes import taxi


@dataclass(frozen=True, slots=True)
class Case:
    """Sides that load the same rows, the one to beat first.

    Attributes:
        pid: of the database. ``fresh`` makes its table anew, ``count`` counts the rows.
    """

    sides: Sequence[Side]
    pid: Callable[[], int]
    fresh: Callable[[], None]
    count: Callable[[], int]
    environment: Mapping[str, str] = field(default_factory=dict)


def taxi_csv(rows: int, folder: Path) -> Path:
    """Write the rows as CSV with a header."""
    path = folder / "taxi.csv"
    measure.run([*rowfall("load", f"generate://taxi?rows={rows}", "--to", str(path))])
    return path


def halved(path: Path, folder: Path) -> list[str]:
    """Write every second line into each of two files, with the header."""
    halves = []
    with path.open("rb") as file:
        header = file.readline()
        lines = file.readlines()
    for number in range(2):
        half = folder / f"half{number}.csv"
        half.write_bytes(header + b"".join(lines[number::2]))
        halves.append(str(half))
    return halves


def taxi_columns(types: Mapping[str, str]) -> str:
    """Return the columns of the taxi table with types of a database."""
    columns = []
    for column in taxi(1).schema.columns:
        bare = column.type.removeprefix("Nullable(")
        nullable = bare != column.type
        bare = bare[:-1] if nullable else bare
        columns.append(f"{column.name} {types[bare]} {'' if nullable else 'NOT NULL'}")
    return ", ".join(columns)


# Starts one loader for each of some files, all at once.
_SIDE_BY_SIDE = """
import subprocess, sys
program, command, *files = sys.argv[1:]
started = [subprocess.Popen([program, "-qc", command.replace("{file}", f)]) for f in files]
sys.exit(any([process.wait() for process in started]))
"""


@contextlib.contextmanager
def postgresql(rows: int, folder: Path) -> Iterator[Case]:
    r"""Taxi CSV into PostgreSQL, against \copy in one stream and in two, of a file cut before."""
    from lab.postgresql import BIN, PostgresqlServer

    path = taxi_csv(rows, folder)
    halves = halved(path, folder)
    columns = taxi_columns(_POSTGRESQL)
    with PostgresqlServer() as server:

        def fresh() -> None:
            server.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t ({columns})", "CHECKPOINT")

        environment = {
            "PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": server.user,
            "PGPASSWORD": server.password, "PGDATABASE": server.database,
        }  # fmt: skip
        copy = r"\copy t FROM '{file}' WITH (FORMAT csv, HEADER, NULL '\N')"
        psql = str(BIN / "psql")
        load = rowfall("load", str(path), "--table", "t", "--to", server.uri)
        two = [sys.executable, "-c", _SIDE_BY_SIDE, psql, copy, *halves]
        yield Case(
            (
                Side(r"\copy", [psql, "-qc", copy.replace("{file}", str(path))]),
                Side(r"2 x \copy of halves", two),
                Side("rowfall", load),
                Side("rowfall --streams 1", [*load, "--streams", "1"]),
                Side("rowfall --streams 4", [*load, "--streams", "4"]),
                Side("rowfall --decoder never", [*load, "--decoder", "never"]),
            ),
            lambda: server.pid or 0,
            fresh,
            lambda: int(server.ask("SELECT count(*) FROM t")[0][0]),
            environment,
        )


@contextlib.contextmanager
def mariadb(rows: int, folder: Path, packed: bool = False) -> Iterator[Case]:
    """Taxi CSV into MariaDB, against its client in one stream and in two, of a file cut before."""
    from lab.mariadb import MariaDB, client

    path = taxi_csv(rows, folder)
    halves = halved(path, folder)
    if packed:
        measure.run(["gzip", "-1", str(path), *halves])
        path, halves = Path(f"{path}.gz"), [f"{half}.gz" for half in halves]
    columns = taxi_columns({**_MYSQL, "String": "TEXT"})
    with MariaDB(innodb_buffer_pool_size="2G", innodb_log_file_size="1G") as server:
        server.query("CREATE DATABASE b")

        def fresh() -> None:
            server.query(f"CREATE OR REPLACE TABLE b.t ({columns})", "DROP TABLE IF EXISTS "
                         "b._rowfall_loaded")  # fmt: skip

        program, environment = client()
        own = [program, "--no-defaults", "--local-infile=1", "-h127.0.0.1", f"-P{server.port}",
               f"-u{server.user}", f"-p{server.password}", "b", "-e"]  # fmt: skip
        load_data = (
            "LOAD DATA LOCAL INFILE '{file}' INTO TABLE t FIELDS TERMINATED BY ',' OPTIONALLY "
            "ENCLOSED BY '\"' IGNORE 1 LINES"
        )
        load = rowfall("load", str(path), "--table", "t", "--to", server.uri("b"))
        one, two = (
            [sys.executable, "-c", _TOGETHER, load_data, *files, "--", *own]
            for files in ([str(path)], halves)
        )
        yield Case(
            (
                Side("LOAD DATA LOCAL INFILE", one),
                Side("2 x LOAD DATA of halves", two),
                Side("rowfall", load),
                Side("rowfall --streams 1", [*load, "--streams", "1"]),
                Side("rowfall --streams 4", [*load, "--streams", "4"]),
                Side("rowfall --decoder never", [*load, "--decoder", "never"]),
            ),
            lambda: server.pid or 0,
            fresh,
            lambda: int(server.query("SELECT count(*) FROM b.t")[0][0]),
            environment,
        )


# Starts one client for each of some files, all at once; what is packed comes through a pipe.
_TOGETHER = """
import subprocess, sys
at = sys.argv.index("--")
text, files, command = sys.argv[1], sys.argv[2:at], sys.argv[at + 1:]
started = []
for file in files:
    read = None
    if file.endswith(".gz"):
        started.append(subprocess.Popen(["gzip", "-dc", file], stdout=subprocess.PIPE))
        file, read = "/dev/stdin", started[-1].stdout
    started.append(subprocess.Popen([*command, text.replace("{file}", file)], stdin=read))
    if read:
        read.close()
sys.exit(any([process.wait() for process in started]))
"""


@contextlib.contextmanager
def clickhouse(rows: int, folder: Path) -> Iterator[Case]:
    """CSV of five columns into a server, whose types nobody names, against an INSERT by HTTP."""
    from lab.clickhouse import ClickHouse

    path = small_file(rows, folder)
    with ClickHouse() as server:

        def fresh() -> None:
            server.query("DROP DATABASE IF EXISTS b SYNC")  # with the record of what was loaded
            server.query("CREATE DATABASE b")
            server.query(f"CREATE TABLE b.t ({_SMALL}) ENGINE = MergeTree ORDER BY id")

        url = f"{server.endpoint}/?user={server.user}&password={server.password}&query="
        insert = f"{url}INSERT%20INTO%20b.t%20FORMAT%20CSVWithNames"
        load = rowfall("load", str(path), "--table", "t", "--to", server.uri("b"))
        yield Case(
            (
                Side("INSERT by curl", ["curl", "-sSf", "--data-binary", f"@{path}", insert]),
                Side("rowfall", load),
            ),
            lambda: server.pid or 0,
            fresh,
            lambda: int(server.query("SELECT count() FROM b.t")),
        )


# Rows of TPC-H's lineitem, as dbgen spreads them, about.
_LINEITEM = """
COPY (SELECT range // 4 + 1 AS l_orderkey, hash(range) % 200000 AS l_partkey,
  hash(range + 1) % 10000 AS l_suppkey, range % 4 + 1 AS l_linenumber,
  hash(range + 2) % 50 + 1 AS l_quantity, (hash(range + 3) % 9000000 + 90000) / 100 AS
  l_extendedprice, (hash(range + 4) % 11) / 100 AS l_discount, (hash(range + 5) % 9) / 100 AS l_tax,

  ['A', 'N', 'R'][(hash(range + 6) % 3)::INT + 1] AS l_returnflag,
  ['O', 'F'][(hash(range + 7) % 2)::INT + 1] AS
  l_linestatus, DATE '1992-01-02' + (hash(range + 8) % 2526)::INT AS l_shipdate,
  DATE '1992-01-31' + (hash(range + 9) % 2466)::INT AS l_commitdate,
  DATE '1992-01-04' + (hash(range + 10) % 2554)::INT AS l_receiptdate,
  ['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN'][
  (hash(range + 11) % 4)::INT + 1]
  AS l_shipinstruct, ['TRUCK', 'MAIL', 'REG AIR', 'AIR', 'FOB', 'RAIL', 'SHIP'][
  (hash(range + 12) % 7)::INT + 1] AS l_shipmode,
  substr(md5(range::VARCHAR) || ' ' || md5((range + 1)::VARCHAR), 1,
  (hash(range + 13) % 34 + 10)::INT) AS l_comment FROM range({rows})) TO '{path}' (HEADER)
"""


@contextlib.contextmanager
def duckdb(rows: int, folder: Path, kind: str = "taxi") -> Iterator[Case]:
    """CSV into a file of DuckDB, against its own COPY of it into the same table."""
    import duckdb as driver

    path, file = folder / f"{kind}.csv.gz", folder / "b.duckdb"
    if kind == "lineitem":
        path = folder / "lineitem.csv"
        driver.execute(_LINEITEM.format(rows=rows, path=path))
    else:
        to = ("--to", str(path))
        measure.run([*rowfall("load", f"generate://{kind}?rows={rows}", *to)])
    load = rowfall("load", str(path), "--table", "t", "--to", str(file))
    measure.run(load)
    with driver.connect(str(file)) as made:
        ((create,),) = made.execute(
            "SELECT sql FROM duckdb_tables() WHERE table_name = 't'"
        ).fetchall()

    def fresh() -> None:
        for old in folder.glob("b.duckdb*"):
            old.unlink()
        with driver.connect(str(file)) as connection:
            connection.execute(create)

    def count() -> int:
        with driver.connect(str(file)) as connection:
            return int(connection.execute("SELECT count(*) FROM t").fetchall()[0][0])

    own = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute(sys.argv[2])"
    copy = rf"COPY t FROM '{path}' (FORMAT csv, HEADER, NULLSTR '\N')"
    yield Case(
        (
            Side("COPY", [sys.executable, "-c", own, str(file), copy]),
            Side("rowfall", load),
            Side("rowfall --decoder never", [*load, "--decoder", "never"]),
        ),
        lambda: 0,
        fresh,
        count,
    )


# Partitions times transactions: one of each file, and of each range of a large one.
_MARKERS = 100


@contextlib.contextmanager
def kafka(rows: int, folder: Path, partitions: int = 1) -> Iterator[Case]:
    """Taxi CSV into a topic, against Kafka's own console producer as it comes, and tuned.

    Its jar of 3.9 is the last that the broker's own dependencies hold. Both sides wait for all
    replicas, of which there is one.
    """
    from confluent_kafka import Consumer, TopicPartition

    from lab.kafka import Kafka, console_producer

    path = taxi_csv(rows, folder)
    bare = folder / "bare.csv"  # lines are messages, also a header
    with path.open("rb") as file:
        file.readline()
        bare.write_bytes(file.read())
    topic = "t"
    with Kafka() as server:
        consumer = Consumer({"bootstrap.servers": server.servers, "group.id": "bench"})

        def fresh() -> None:
            if topic in server.admin.list_topics(timeout=10).topics:
                server.drop(topic)
                while topic in server.admin.list_topics(timeout=10).topics:
                    time.sleep(0.1)
            server.create(topic, partitions)

        def count() -> int:
            ends = (consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
                    for number in range(partitions))  # fmt: skip
            found = sum(ends)
            # Each transaction leaves a marker in the partitions that it has written.
            return rows if rows <= found <= rows + _MARKERS else found

        own = " ".join(map(shlex.quote, console_producer(server.servers, topic)))
        tuned = "--batch-size 1000000 --max-memory-bytes 134217728 --compression-codec lz4"
        feed = f"< {shlex.quote(str(bare))} > /dev/null"
        to = f"kafka://{server.servers}/{topic}"
        load = rowfall("load", str(path), "--to", to, "--to-format", "CSV")
        yield Case(
            (
                Side("console producer", ["bash", "-c", f"{own} {feed}"]),
                Side("console producer, tuned", ["bash", "-c", f"{own} {tuned} {feed}"]),
                Side("rowfall", load),
                Side("rowfall --transactional", [*load, "--transactional"]),
                Side("rowfall --decoder never", [*load, "--decoder", "never"]),
            ),
            lambda: server.pid or 0,
            fresh,
            count,
        )
        consumer.close()


CASES: dict[str, Callable[[int, Path], contextlib.AbstractContextManager[Case]]] = {
    "postgresql": postgresql,
    "mariadb": mariadb,
    "mariadb-gz": partial(mariadb, packed=True),
    "clickhouse": clickhouse,
    "duckdb": duckdb,
    "duckdb-trips": partial(duckdb, kind="trips"),
    "duckdb-lineitem": partial(duckdb, kind="lineitem"),
    "kafka": kafka,
    "kafka-4": partial(kafka, partitions=4),
}


def compare(case: Case, rows: int, rounds: int, folder: Path) -> None:
    """Run the sides in turns and print their medians."""
    taken: dict[str, list[tuple[float, float, float]]] = {side.name: [] for side in case.sides}
    for _ in range(rounds):
        for side in case.sides:
            case.fresh()
            before = cpu_of(case.pid())
            sample = measure.run(side.command, env={**case.environment, **side.environment})
            time.sleep(0.5)  # until the database has counted those of its processes that ended
            taken[side.name].append((sample.wall, sample.cpu, cpu_of(case.pid()) - before))
            if (count := case.count()) != rows:
                raise measure.BenchError(f"{side.name}: {count:,} rows are there")
    first = measure.median(wall for wall, _, _ in taken[case.sides[0].name])
    print("| side | seconds | times | CPU of loader | CPU of database |\n|---|---|---|---|---|")
    for name, found in taken.items():
        wall, cpu, database = (measure.median(column) for column in zip(*found, strict=True))
        print(f"| {name} | {wall:.2f} | {first / wall:.2f} | {cpu:.2f} | {database:.2f} |")


if __name__ == "__main__":
    measure.run_cases(__doc__, CASES, compare)
