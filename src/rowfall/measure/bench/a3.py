"""A3: thirteen ways into ClickHouse, a dump, and the same CSV into other systems."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from rowfall.core import uri
from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchRound, PublishedFigure
from rowfall.core.sql import literal
from rowfall.lab.postgresql import find_postgresql
from rowfall.measure.bench import published
from rowfall.measure.bench.places import DatabaseServer, UnavailableError
from rowfall.measure.bench.ways import (
    PIPE,
    ArticleTable,
    BenchWorkshop,
    Method,
    PipedFrom,
    files_relation,
    pids_of,
    table_of,
    with_settings,
)
from rowfall.measure.processes import BenchError, run

FULL_ROWS = 2_000_000
_SHAPE = table_of("taxi", "ENGINE = MergeTree ORDER BY tuple()")
_FILES = 4
_FORMATS = {"parquet": "Parquet", "csv.gz": "CSVWithNames", "csv": "CSVWithNames",
            "json": "JSONEachRow", "json.gz": "JSONEachRow"}  # fmt: skip
_TITLES = {"parquet": "Parquet", "csv.gz": "CSV.gz", "csv": "CSV", "json": "JSON",
           "json.gz": "JSON.gz"}  # fmt: skip


def comparisons(shop: BenchWorkshop) -> Iterator[ArticleTable]:
    """Give the comparisons of the article."""
    rows = shop.rows(FULL_ROWS)
    for suffix, title in _TITLES.items():
        one, all_ = _disk(shop, rows, suffix)
        yield ArticleTable("A3", f"{title} from disk, one file after another", rows, one)
        yield ArticleTable("A3", f"{title} from disk, all files", rows, all_)
    for suffix in ("parquet", "csv"):
        yield ArticleTable("A3", f"{_TITLES[suffix]} from HDFS", rows, _hdfs(shop, rows, suffix))
    yield ArticleTable("A3", "From PostgreSQL", rows, _from_postgresql(shop, rows))
    yield ArticleTable("A3", "From MySQL", rows, _from_mysql(shop, rows))
    yield ArticleTable("A3", "From Kafka, a topic of one partition", rows, _from_kafka(shop, rows))
    yield ArticleTable("A3", "Dump to JSON", rows, _dump(shop, rows))
    yield ArticleTable("A3", "CSV into PostgreSQL", rows, _to_postgresql(shop, rows))
    yield ArticleTable("A3", "CSV into MySQL", rows, _to_mysql(shop, rows))
    yield ArticleTable("A3", "CSV into Kafka", rows, _to_kafka(shop, rows))


# --- files on disk -------------------------------------------------------------------------------


def _disk(shop: BenchWorkshop, rows: int, suffix: str) -> tuple[list[Method], list[Method]]:
    """Return the methods that read with one thread, and those that use all cores."""

    def files() -> list[Path]:
        return shop.files("taxi", rows, suffix, _FILES)

    def one_by_one() -> BenchRound:
        return shop.engine([
            _SHAPE.ddl("t"),
            *(with_settings(f"INSERT INTO t SELECT * FROM {_file(path, suffix)}", max_threads=1)
              for path in files()),
        ])  # fmt: skip

    def at_once() -> BenchRound:
        relation = files_relation(files(), _FORMATS[suffix], _SHAPE)
        insert = f"INSERT INTO t SELECT * FROM {relation}"
        return shop.engine([_SHAPE.ddl("t"), with_settings(insert, max_threads=shop.cores)])

    def load(*arguments: str) -> Callable[[], BenchRound]:
        return lambda: _load(shop, str(files()[0].parent / f"*.{suffix}"), *arguments)

    one, four = published.A3.get(f"{suffix}-1"), published.A3.get(f"{suffix}-4")
    return (
        [Method("INSERT SELECT", BY_HAND, one_by_one, one),
         Method("rowfall load --threads 1", ROWFALL, load("--threads", "1"), one)],
        [Method("INSERT SELECT", BY_HAND, at_once, four),
         Method("rowfall load", ROWFALL, load(), four)],
    )  # fmt: skip


def _file(path: Path, suffix: str) -> str:
    structure = literal(_SHAPE.structure)
    return f"file({literal(str(path))}, {literal(_FORMATS[suffix])}, {structure})"


def _load(
    shop: BenchWorkshop, source: str, *arguments: str, servers: Sequence[int] = (),
    env: dict[str, str] | None = None,
) -> BenchRound:  # fmt: skip
    """Run rowfall into a new folder, into the table that the sides by hand fill."""
    return shop.load(
        source, str(shop.fresh() / "data"), "--table", "t", "--order-by", "tuple()", *arguments,
        servers=servers, env=env,
    )  # fmt: skip


# --- HDFS ----------------------------------------------------------------------------------------


def _hdfs(shop: BenchWorkshop, rows: int, suffix: str) -> list[Method]:
    def at() -> str:
        address = shop.places.hdfs()
        return _put_hdfs(address, shop.files("taxi", rows, suffix, _FILES), suffix)

    def hand() -> BenchRound:
        where = literal(at().partition("?")[0])
        relation = f"hdfs({where}, {literal(_FORMATS[suffix])}, {literal(_SHAPE.structure)})"
        return shop.engine([_SHAPE.ddl("t"), f"INSERT INTO t SELECT * FROM {relation}"])

    figure = published.A3[f"{suffix}-hdfs"]
    return [
        Method("INSERT SELECT FROM hdfs()", BY_HAND, hand, figure),
        Method("rowfall load hdfs://", ROWFALL, lambda: _load(shop, at()), figure),
    ]


def _put_hdfs(address: str, files: Sequence[Path], suffix: str) -> str:
    """Write files by WebHDFS, and return the address of their pattern."""
    found = uri.parse(address)
    web = f"{found.host}:{found.query.get('http', '9870')}"
    folder = f"/rowfall-bench-{files[0].parent.name}"
    for path in files:
        query = (
            f"/webhdfs/v1{quote(f'{folder}/{path.name}')}?op=CREATE&overwrite=true"
            f"&blocksize={128 << 20}&noredirect=true&user.name={quote(found.user)}"
        )
        where = urlsplit(json.loads(_asked(web, query, b""))["Location"])
        _asked(where.netloc, f"{where.path}?{where.query}", path.read_bytes())
    base, mark, rest = address.partition("?")
    return f"{base.rstrip('/')}{folder}/*.{suffix}{mark}{rest}"


def _asked(where: str, query: str, body: bytes) -> bytes:
    client = http.client.HTTPConnection(where, timeout=60)
    try:
        client.request("PUT", query, body, {"Content-Type": "application/octet-stream"})
        answer = client.getresponse()
        text = answer.read()
    finally:
        client.close()
    if answer.status >= 300:
        raise UnavailableError(f"the name node refuses to write: {answer.status} {text[:80]!r}")
    return text


# --- databases -----------------------------------------------------------------------------------


def _filled(shop: BenchWorkshop, server: DatabaseServer, rows: int) -> str:
    """Load the rows into a table of a database where it has not got them; return its name."""
    name = f"taxi_{rows}"
    csv = str(shop.files("taxi", rows, "csv", _FILES)[0].parent / "*.csv")
    made = shop.folder / "data" / f"{name}.{server.address.partition(':')[0]}.{server.port}"
    if not made.exists():
        _drop(shop, server, name)
        shop.load(csv, server.address, "--table", name, "--schema", _SHAPE.structure,
                  password=server.password, env=_login(server))  # fmt: skip
        made.write_text("")
        for table in (name, "by_hand", "by_rowfall"):
            shop.places.at_end(partial(_drop, shop, server, table))
    return name


def _drop(shop: BenchWorkshop, server: DatabaseServer, name: str) -> None:
    """Drop a table of the benchmark, and what rowfall has on record about it."""
    drops = [f"DROP TABLE IF EXISTS {table}" for table in (name, "_rowfall_loaded")]
    if server.address.startswith("postgresql:"):
        run([_psql(), "-q", *(part for drop in drops for part in ("-c", drop))],
            env=_login(server))  # fmt: skip
    else:
        statements_of_mysql(shop, server, drops)


def _from_postgresql(shop: BenchWorkshop, rows: int) -> list[Method]:
    def hand() -> BenchRound:
        server = shop.places.postgresql()
        table = _filled(shop, server, rows)
        relation = f"file({literal(PIPE)}, 'CSV', {literal(_SHAPE.structure)})"
        return shop.engine(
            [_SHAPE.ddl("t"), f"INSERT INTO t SELECT * FROM {relation}"],
            piped=PipedFrom([_psql(), "-qc", f"COPY {table} TO STDOUT WITH (FORMAT csv)"],
                            _login(server)), servers=server.pids,
        )  # fmt: skip

    def load() -> BenchRound:
        server = shop.places.postgresql()
        at = f"{server.address}/{_filled(shop, server, rows)}"
        return _load(shop, at, servers=server.pids, env=_login(server))

    figure = published.A3["postgresql"]
    return [
        Method("psql COPY TO STDOUT | INSERT", BY_HAND, hand, figure),
        Method("rowfall load postgresql://", ROWFALL, load, figure),
    ]


def _psql() -> str:
    programs = find_postgresql()
    found = shutil.which("psql") or (programs and str(programs / "psql"))
    if not found:
        raise UnavailableError("no program psql on PATH")
    return str(found)


def _login(server: DatabaseServer) -> dict[str, str]:
    """Return the variables of PostgreSQL's and MySQL's own programs, which rowfall reads, too."""
    return {
        "PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.user,
        "PGPASSWORD": server.password, "PGDATABASE": server.database,
        "MYSQL_PWD": server.password,
    }  # fmt: skip


def _from_mysql(shop: BenchWorkshop, rows: int) -> list[Method]:
    def hand() -> BenchRound:
        server = shop.places.mysql()
        table = _filled(shop, server, rows)
        given = (f"{server.host}:{server.port}", server.database, table, server.user,
                 server.password)  # fmt: skip
        relation = f"mysql({', '.join(map(literal, given))})"
        return shop.engine(
            [_SHAPE.ddl("t"), f"INSERT INTO t {_SHAPE.select(relation)}"], servers=server.pids
        )

    def load() -> BenchRound:
        server = shop.places.mysql()
        at = f"{server.address}/{_filled(shop, server, rows)}"
        return _load(shop, at, servers=server.pids, env=_login(server))

    figure = published.A3["mysql"]
    return [
        Method("INSERT SELECT FROM mysql()", BY_HAND, hand, figure),
        Method("rowfall load mysql://", ROWFALL, load, figure),
    ]


# --- Kafka ---------------------------------------------------------------------------------------

# Of a statement that reads a topic: what it has read ends it after 500,000 rows or a second.
_KAFKA = (
    "CREATE TABLE bench.q ({columns}) ENGINE = Kafka SETTINGS kafka_broker_list = {servers}, "
    "kafka_topic_list = {topic}, kafka_group_name = {group}, kafka_format = 'CSV', "
    "kafka_num_consumers = 1, kafka_commit_on_select = 1, kafka_max_block_size = 500000, "
    "kafka_flush_interval_ms = 1000"
)
# The statement by hand is run again and again until all rows are there, or time is up.
_MOST_STATEMENTS = 60


def _topic(shop: BenchWorkshop, rows: int) -> str:
    """Return the address of a topic that holds the rows as CSV, filled once for a run."""
    made = shop.made.get("topic")
    if made is None:
        made = shop.places.topic(f"rowfall-bench-taxi-{os.urandom(4).hex()}")
        shop.load(str(_csv(shop, rows)[0].parent / "*.csv"), made, "--to-format", "CSV")
        shop.made["topic"] = made
    return made


def _from_kafka(shop: BenchWorkshop, rows: int) -> list[Method]:
    def hand() -> BenchRound:
        broker, _, topic = _topic(shop, rows).removeprefix("kafka://").partition("/")
        lab = shop.places.cluster(1)
        node = lab.nodes[0]
        node.query("CREATE DATABASE IF NOT EXISTS bench")
        for name in ("q", "t"):
            node.query(f"DROP TABLE IF EXISTS bench.{name} SYNC")
        node.query(_SHAPE.ddl("bench.t"))
        group = f"bench-{os.getpid()}-{os.urandom(4).hex()}"
        node.query(_KAFKA.format(
            columns=_SHAPE.structure, servers=literal(broker), topic=literal(topic),
            group=literal(group),
        ))  # fmt: skip
        insert = with_settings(
            "INSERT INTO bench.t SELECT * FROM bench.q", stream_like_engine_allow_direct_select=1
        )
        found, stored = None, 0
        for _ in range(_MOST_STATEMENTS):
            one = shop.client(lab, [insert])
            found = one if found is None else replace(
                found, wall=found.wall + one.wall, cpu=found.cpu + one.cpu,
                server_cpu=found.server_cpu + one.server_cpu,
            )  # fmt: skip
            stored = int(node.query("SELECT count() FROM bench.t"))
            if stored >= rows:
                return replace(found, rows=stored)
        raise BenchError(f"{stored:,} of {rows:,} rows came in {_MOST_STATEMENTS} statements")

    def load(into_server: bool) -> BenchRound:
        source = _topic(shop, rows)
        form = ("--format", "CSV", "--schema", _SHAPE.structure)
        if not into_server:
            return _load(shop, source, *form)
        lab = shop.places.cluster(1)
        node = lab.nodes[0]
        node.query("CREATE DATABASE IF NOT EXISTS bench")
        node.query("DROP TABLE IF EXISTS bench.t SYNC")
        node.query("DROP TABLE IF EXISTS bench._rowfall_journal SYNC")
        to = lab.uri("bench").partition("?")[0]
        return shop.load(source, to, "--table", "t", "--order-by", "tuple()", *form,
                         password=lab.password, servers=pids_of(lab))  # fmt: skip

    return [
        Method("INSERT SELECT from a Kafka engine table", BY_HAND, hand, published.A3_KAFKA),
        Method("rowfall load kafka:// into the server", ROWFALL, lambda: load(True),
               published.A3_KAFKA),
        Method("rowfall load kafka:// into a folder", ROWFALL, lambda: load(False),
               published.A3_KAFKA),
    ]  # fmt: skip


# --- the other direction -------------------------------------------------------------------------


def _dump(shop: BenchWorkshop, rows: int) -> list[Method]:
    def table() -> Path:
        folder = shop.folder / "data" / f"taxi-{rows}-table"
        if not folder.exists():
            csv = str(shop.files("taxi", rows, "csv", _FILES)[0].parent / "*.csv")
            shop.load(csv, str(folder), "--table", "t", "--schema", _SHAPE.structure)
        return folder

    def hand() -> BenchRound:
        to = literal(str(shop.fresh() / "t.json"))
        write = f"INSERT INTO FUNCTION file({to}, 'JSONEachRow') SELECT * FROM default.t"
        return shop.engine([write], folder=table(), count="SELECT count() FROM default.t")

    def load() -> BenchRound:
        return shop.load(str(table()), str(shop.fresh() / "t_{n}.json"), "--table", "t")

    figure = published.A3["dump"]
    return [
        Method("INSERT INTO FUNCTION file()", BY_HAND, hand, figure),
        Method("rowfall load FOLDER --to t_{n}.json", ROWFALL, load, figure),
    ]


def _csv(shop: BenchWorkshop, rows: int) -> list[Path]:
    return shop.files("taxi", rows, "csv", _FILES)


def _into(shop: BenchWorkshop, server: DatabaseServer, rows: int, name: str) -> BenchRound:
    """Load the CSV into an empty table of a database."""
    _drop(shop, server, name)
    pattern = str(_csv(shop, rows)[0].parent / "*.csv")
    return shop.load(
        pattern, server.address, "--table", name, "--schema", _SHAPE.structure,
        password=server.password, servers=server.pids, env=_login(server),
    )  # fmt: skip


def _to_postgresql(shop: BenchWorkshop, rows: int) -> list[Method]:
    def hand() -> BenchRound:
        server = shop.places.postgresql()
        like, env = _filled(shop, server, rows), _login(server)
        run([_psql(), "-qc", "DROP TABLE IF EXISTS by_hand", "-c",
             f"CREATE TABLE by_hand (LIKE {like})"], env=env)  # fmt: skip
        copies = [rf"\copy by_hand FROM '{path}' WITH (FORMAT csv, HEADER, NULL '\N')"
                  for path in _csv(shop, rows)]  # fmt: skip
        command = [_psql(), "-q", *(part for copy in copies for part in ("-c", copy))]
        found, _ = shop.measured(command, env=env, servers=server.pids)
        count = run([_psql(), "-Atc", "SELECT count(*) FROM by_hand"], env=env).output
        return replace(found, rows=int(count))

    def load() -> BenchRound:
        return _into(shop, shop.places.postgresql(), rows, "by_rowfall")

    figure: PublishedFigure = published.A3["to-postgresql"]
    return [Method(r"psql \copy", BY_HAND, hand, figure),
            Method("rowfall load --to postgresql://", ROWFALL, load, figure)]  # fmt: skip


# One connection that loads files one after another; driver and server are the same for both sides.
_LOAD_DATA = """
import json, os, sys, pymysql
asked = json.load(sys.stdin)
connection = pymysql.connect(
    host=asked["host"], port=asked["port"], user=asked["user"], password=asked["password"],
    database=asked["database"], local_infile=True, autocommit=True)
with connection.cursor() as cursor:
    for statement in asked["run"]:
        cursor.execute(statement)
    rows = cursor.fetchall()
print(rows[0][0] if rows else 0)
"""


def statements_of_mysql(
    shop: BenchWorkshop, server: DatabaseServer, statements: Sequence[str]
) -> tuple[BenchRound, int]:
    """Run statements by PyMySQL in a process of its own; return what the last one selects."""
    try:
        import pymysql  # noqa: F401
    except ImportError:
        raise UnavailableError("PyMySQL is not installed: pip install 'rowfall[mysql]'") from None
    asked = {"host": server.host, "port": server.port, "user": server.user,
             "password": server.password, "database": server.database,
             "run": list(statements)}  # fmt: skip
    found, output = shop.measured([sys.executable, "-c", _LOAD_DATA],
                                  stdin=json.dumps(asked).encode(),
                                  servers=server.pids)  # fmt: skip
    return found, int(output)


def _to_mysql(shop: BenchWorkshop, rows: int) -> list[Method]:
    def hand() -> BenchRound:
        server = shop.places.mysql()
        like = _filled(shop, server, rows)
        statements_of_mysql(
            shop, server, ["DROP TABLE IF EXISTS by_hand", f"CREATE TABLE by_hand LIKE {like}"]
        )
        found, _ = statements_of_mysql(shop, server, [
            f"LOAD DATA LOCAL INFILE {literal(str(path))} INTO TABLE by_hand FIELDS TERMINATED BY "
            "',' OPTIONALLY ENCLOSED BY '\"' IGNORE 1 LINES" for path in _csv(shop, rows)
        ])  # fmt: skip
        _, count = statements_of_mysql(shop, server, ["SELECT count(*) FROM by_hand"])
        return replace(found, rows=count)

    def load() -> BenchRound:
        return _into(shop, shop.places.mysql(), rows, "by_rowfall")

    figure = published.A3["to-mysql"]
    return [Method("LOAD DATA LOCAL INFILE", BY_HAND, hand, figure),
            Method("rowfall load --to mysql://", ROWFALL, load, figure)]  # fmt: skip


def _to_kafka(shop: BenchWorkshop, rows: int) -> list[Method]:
    def topic() -> str:
        return shop.places.topic(f"rowfall-bench-{os.urandom(4).hex()}")

    def hand() -> BenchRound:
        program, at = _console_producer(), topic()
        broker, _, name = at.removeprefix("kafka://").partition("/")
        files = " ".join(shlex.quote(str(path)) for path in _csv(shop, rows))
        feed = f"tail -q -n +2 {files} | {program} --bootstrap-server {broker} --topic {name}"
        found, _ = shop.measured(["bash", "-o", "pipefail", "-c", f"{feed} > /dev/null"])
        return replace(found, rows=rows)

    def load() -> BenchRound:
        pattern = str(_csv(shop, rows)[0].parent / "*.csv")
        return shop.load(pattern, topic(), "--to-format", "CSV")

    figure = published.A3["to-kafka"]
    return [Method("kafka-console-producer", BY_HAND, hand, figure),
            Method("rowfall load --to kafka://", ROWFALL, load, figure)]  # fmt: skip


def _console_producer() -> str:
    """Return the command of Kafka's own producer: on PATH, or of the jars in ROWFALL_KAFKA."""
    for name in ("kafka-console-producer.sh", "kafka-console-producer"):
        if found := shutil.which(name):
            return shlex.quote(found)
    jars = os.environ.get("ROWFALL_KAFKA")
    if not jars or shutil.which("java") is None:
        raise UnavailableError(
            "no program kafka-console-producer.sh on PATH; ROWFALL_KAFKA names a folder of jars"
        )
    return f"java -Xmx512M -cp {shlex.quote(f'{jars}/*')} kafka.tools.ConsoleProducer"
