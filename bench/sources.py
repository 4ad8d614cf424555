"""Databases and the like as sources: rowfall against the engine's own way, in turns.

    python bench/sources.py [--rows 1000000] [--rounds 3] [CASE ...]

One function a case, in CASES. Wall seconds and CPU seconds of everything on the side of the reader,
and apart from them those of the source. Real services of tests/lab; into the embedded engine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measure
from rowfall.sources.generate import taxi

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
    """Sides that load the same rows, behind what the source takes alone; ``pid`` of the source."""

    sides: Sequence[Side]
    pid: Callable[[], int]


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process so far, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def rowfall(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rowfall", *arguments]


# Into a table by INSERT SELECT, in a process of its own.
_INSERT = """
import sys, chdb
relation, order, folder = sys.argv[1:]
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


# What the server itself takes for the rows that rowfall asks for.
_EVALUATED = """
import sys, threading
from rowfall.core.options import Options
from rowfall.sources import open_source
source = open_source([sys.argv[1]], Options())
source.listing()
line = source._marks.line(column.select for column in source.described.columns)
def read(low, high):
    source._ask(source._connect(),
                f"SELECT SUM(LENGTH({line})) FROM t WHERE trip_id >= {low} AND trip_id < {high}")
rows = int(sys.argv[2])
threads = [threading.Thread(target=read, args=(rows * n // 2, rows * (n + 1) // 2)) for n in (0, 1)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@contextlib.contextmanager
def mariadb(rows: int, folder: Path) -> Iterator[Case]:
    """MariaDB to embedded, against mysql() in one stream, its default, and in four key ranges."""
    from lab.mariadb import MariaDB

    columns = []
    for column in taxi(1).schema.columns:
        bare = column.type.removeprefix("Nullable(")
        nullable = bare != column.type
        bare = bare[:-1] if nullable else bare
        key = " PRIMARY KEY" if column.name == "trip_id" else ""
        columns.append(f"{column.name} {_MYSQL[bare]} {'' if nullable else 'NOT NULL'}{key}")
    path = taxi_file(rows, folder)
    with MariaDB(innodb_buffer_pool_size="2G") as server:
        server.query("CREATE DATABASE b", f"CREATE TABLE b.t ({', '.join(columns)})")
        with server.connect("b", local_infile=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t IGNORE 1 LINES")
            cursor.execute("ANALYZE TABLE t")
        at = f"mysql('127.0.0.1:{server.port}', 'b', 't', '{server.user}', '{server.password}')"
        ranges = " UNION ALL ".join(
            f"SELECT * FROM {at} WHERE trip_id >= {rows * n // 4} "
            f"AND trip_id < {rows * (n + 1) // 4}"
            for n in range(4)
        )
        load = rowfall("load", server.uri("b/t"), "--to", "{to}")
        alone = [sys.executable, "-c", _EVALUATED, server.uri("b/t"), str(rows)]
        yield Case(
            (
                Side("rowfall's rows, evaluated by two connections and not sent", alone),
                Side("mysql()", insert_select(at, "trip_id")),
                Side("mysql() x 4 ranges", insert_select(f"({ranges})", "trip_id")),
                Side("rowfall", load),
                Side("rowfall --decoder never", [*load, "--decoder", "never"]),
            ),
            lambda: server.pid or 0,
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
def postgresql(rows: int, folder: Path) -> Iterator[Case]:
    """PostgreSQL to embedded, against COPY into an INSERT, and postgresql() in one stream."""
    from lab.postgresql import BIN, PostgresqlServer

    columns, structure = [], []
    for column in taxi(1).schema.columns:
        bare = column.type.removeprefix("Nullable(")
        nullable = bare != column.type
        bare = bare[:-1] if nullable else bare
        key = " PRIMARY KEY" if column.name == "trip_id" else ""
        columns.append(f"{column.name} {_POSTGRESQL[bare]} {'' if nullable else 'NOT NULL'}{key}")
        structure.append(f"{column.name} {column.type}")
    path = taxi_file(rows, folder)
    with PostgresqlServer() as server:
        server.run(f"CREATE TABLE t ({', '.join(columns)})")
        with server.connect() as connection, connection.cursor() as cursor, path.open("rb") as file:
            file.readline()
            with cursor.copy("COPY t FROM STDIN") as copy:
                while data := file.read(1 << 20):
                    copy.write(data)
        server.run("VACUUM (ANALYZE) t", "CHECKPOINT")
        path.unlink()
        environment = {
            "PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": server.user,
            "PGPASSWORD": server.password, "PGDATABASE": server.database,
        }  # fmt: skip
        at = (
            f"postgresql('127.0.0.1:{server.port}', '{server.database}', 't', '{server.user}', "
            f"'{server.password}')"
        )
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
            lambda: server.pid or 0,
        )


CASES: dict[str, Callable[[int, Path], contextlib.AbstractContextManager[Case]]] = {
    "mariadb": mariadb,
    "postgresql": postgresql,
}


def compare(case: Case, rounds: int, folder: Path) -> None:
    """Run the sides in turns and print their medians."""
    taken: dict[str, list[tuple[float, float, float]]] = {side.name: [] for side in case.sides}
    for _ in range(rounds):
        for side in case.sides:
            to = folder / "to"
            shutil.rmtree(to, ignore_errors=True)
            before = cpu_of(case.pid())
            command = [part.replace("{to}", str(to)) for part in side.command]
            sample = measure.run(command, env=side.environment)
            time.sleep(_END_SECONDS)
            taken[side.name].append((sample.wall, sample.cpu, cpu_of(case.pid()) - before))
    first = measure.median(wall for wall, _, _ in taken[case.sides[1].name])
    print("| side | seconds | times | CPU of reader | CPU of source |\n|---|---|---|---|---|")
    for name, found in taken.items():
        wall, cpu, source = (measure.median(column) for column in zip(*found, strict=True))
        print(f"| {name} | {wall:.2f} | {first / wall:.2f} | {cpu:.2f} | {source:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    measure.adopt_orphans()
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    for name in asked.cases or CASES:
        with tempfile.TemporaryDirectory() as made:
            os.environ["XDG_STATE_HOME"] = made  # ledgers of servers
            folder = Path(made)
            folder.chmod(0o755)
            print(f"\n{name}: {asked.rows:,} taxi rows, {asked.rounds} rounds")
            with CASES[name](asked.rows, folder) as case:
                compare(case, asked.rounds, folder)


if __name__ == "__main__":
    main()
