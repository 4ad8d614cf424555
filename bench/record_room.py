"""Bytes that loaded objects cost in the record of each target, see ``many_objects.py``."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rowfall.engines.id_files import CommittedLoad, RecordFile
from rowfall.systems.lakes.files import DiskFiles
from rowfall.systems.lakes.record import LakeRecord, read_file, read_record

# Objects of one load, and loads between two times that a follower packs.
_LOAD, _STEP = 100, 25_000


def _id(number: int) -> str:
    return blake2b(f"object {number}".encode(), digest_size=16).hexdigest()


def _file(folder: Path) -> Path:
    path = folder / "a.csv"
    path.write_text("a\n1\n")
    return path


class Target(ABC):
    """A table with one row, and its record."""

    table: str | None = "t"  # None where the address names it

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack

    def load(self, uri: str) -> None:
        from rowfall import api

        api.load(str(_file(self.folder)), to=uri, table=self.table)

    def open(self, uri: str) -> Any:
        from rowfall.core.options import Options
        from rowfall.destinations.database import open_database
        from rowfall.targets import open_target

        database = open_database(open_target(uri, self.table or "", Options()), Options())
        self.stack.callback(database.close)
        database.check(dry=False)
        return database

    @abstractmethod
    def begin(self) -> None:
        """Start it, and make the table."""

    @abstractmethod
    def add(self, low: int, high: int) -> None:
        """Record objects as loaded, and pack them as a follower would."""

    @abstractmethod
    def size(self) -> int:
        """Return the bytes of the record."""

    @abstractmethod
    def among(self, ids: Sequence[str]) -> set[str]: ...

    def load_anew(self) -> dict[str, object]:
        """Return what a load of one file costs that finds this record; {} where it is not run."""
        return {}


class Lines(Target):
    """A database whose record has a line for each object."""

    database: Any

    def add(self, low: int, high: int) -> None:
        self.lines(low, high)
        before: object = None
        while (left := self.left()) and left != before:
            self.database.join_record()
            before = left

    @abstractmethod
    def lines(self, low: int, high: int) -> None: ...

    @abstractmethod
    def left(self) -> int: ...

    def among(self, ids: Sequence[str]) -> set[str]:
        return set(self.database.loaded_among(ids))


class Postgresql(Lines):
    def begin(self) -> None:
        from lab.postgresql import PostgresqlServer

        self.server = self.stack.enter_context(PostgresqlServer())
        os.environ["PGPASSWORD"] = self.server.password
        uri = f"postgresql://{self.server.user}@127.0.0.1:{self.server.port}/postgres"
        self.load(uri)
        self.database = self.open(uri)
        self.connection = self.database.connect()

    def lines(self, low: int, high: int) -> None:
        with self.connection.cursor().copy(
            "COPY _rowfall_loaded (table_id, split, attempt, load, name, whole, rows, at) "
            "FROM STDIN"
        ) as copy:
            for n in range(low, high):
                copy.write_row((
                    self.database.oid or self.database.table_id(), _id(n), f"l{n // _LOAD}_1",
                    f"l{n // _LOAD}", f"in/{n}.csv", "", 1, "2026-01-01",
                ))  # fmt: skip

    def left(self) -> int:
        return int(self._ask("SELECT count(*) FROM _rowfall_loaded"))

    def _ask(self, text: str) -> Any:
        return self.connection.execute(text).fetchone()[0]

    def size(self) -> int:
        self.connection.execute("VACUUM _rowfall_packed")
        self.connection.execute("VACUUM _rowfall_loaded")
        return int(self._ask(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND "
            "relname LIKE '\\_rowfall\\_packed%'"
        ))  # fmt: skip


class Mariadb(Lines):
    def begin(self) -> None:
        from lab.mariadb import MariaDB

        self.server = self.stack.enter_context(MariaDB())
        self.server.query("CREATE DATABASE d")
        uri = self.server.uri("d", scheme="mariadb")
        self.load(uri)
        self.database = self.open(uri)

    def lines(self, low: int, high: int) -> None:
        values = ", ".join(
            f"('d.t', '{_id(n)}', 'l{n // _LOAD}_1', 'l{n // _LOAD}', 'in/{n}.csv', '', 1, 0, "
            "'2026-01-01', (SELECT CREATE_TIME FROM information_schema.TABLES WHERE "
            "TABLE_SCHEMA = 'd' AND TABLE_NAME = 't'), 0)"
            if n == low else
            f"('d.t', '{_id(n)}', 'l{n // _LOAD}_1', 'l{n // _LOAD}', 'in/{n}.csv', '', 1, 0, "
            "'2026-01-01', '', 0)"
            for n in range(low, high)
        )  # fmt: skip
        self.server.query(
            "INSERT INTO d._rowfall_loaded (target, split, attempt, load_id, name, whole, "
            f"attempt_rows, session, loaded, table_made, gained) VALUES {values}"
        )
        self.server.query(
            "UPDATE d._rowfall_loaded SET table_made = (SELECT CREATE_TIME FROM "
            "information_schema.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 't')"
        )

    def left(self) -> int:
        ((left,),) = self.server.query("SELECT count(*) FROM d._rowfall_loaded")
        return int(left)

    def size(self) -> int:
        ((size,),) = self.server.query(
            "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME LIKE "
            "'d/\\_rowfall\\_%packed%' OR NAME LIKE 'd/\\_rowfall\\_joined%'"
        )
        return int(size)


class Duckdb(Lines):
    def begin(self) -> None:
        self.path = self.folder / "d.duckdb"
        uri = f"duckdb://{self.path}"
        self.load(uri)
        self.database = self.open(uri)
        self.before = self.path.stat().st_size

    def lines(self, low: int, high: int) -> None:
        import pyarrow as pa

        number = self.database.table_id()
        told = pa.table(
            {
                "split": [_id(n) for n in range(low, high)],
                "load": [f"l{n // _LOAD}" for n in range(low, high)],
                "name": [f"in/{n}.csv" for n in range(low, high)],
            }
        )
        with self.database.file.asking() as cursor:
            cursor.register("told", told)
            cursor.execute(
                f"INSERT INTO {self.database.record} SELECT '{number}', split, load || '_1', load, "
                "name, '', 1, TIMESTAMP '2026-01-01' FROM told"
            )

    def left(self) -> int:
        return len(self.database.rows(f"SELECT 1 FROM {self.database.record}")) - 1

    def size(self) -> int:
        self.database.rows("CHECKPOINT")
        return self.path.stat().st_size - self.before


class Clickhouse(Target):
    def begin(self) -> None:
        from lab.clickhouse import ClickHouse

        self.server = self.stack.enter_context(ClickHouse())
        uri = f"clickhouse://127.0.0.1:{self.server.http_port}/default"
        self.load(uri)
        self.server.query(
            "CREATE TABLE default._rowfall_joined (into UUID, id FixedString(16), "
            "load LowCardinality(String), day Date DEFAULT today()) ENGINE = MergeTree "
            "ORDER BY (into, id) SETTINGS index_granularity = 512"
        )

    def add(self, low: int, high: int) -> None:
        self.server.query(
            "INSERT INTO default._rowfall_joined (into, id, load) SELECT "
            "toUUID('00000000-0000-0000-0000-000000000001'), reinterpretAsFixedString(sipHash128("
            f"number)), 'l' || toString(intDiv(number, {_LOAD})) FROM numbers({low}, {high - low})"
        )

    def size(self) -> int:
        return int(self.server.query(
            "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = '_rowfall_joined'"
        ))  # fmt: skip

    def among(self, ids: Sequence[str]) -> set[str]:
        return set(ids)


class Kafka(Target):
    table = None

    def begin(self) -> None:
        from lab.kafka import Kafka as Broker

        self.broker = self.stack.enter_context(Broker())
        uri = f"kafka://{self.broker.servers}/t"
        self.broker.create("t")
        self.database = self.open(uri)
        self.database.prepare(())

    def add(self, low: int, high: int) -> None:
        from rowfall.engines.database import SplitRecord

        for start in range(low, high, _LOAD):
            records = [SplitRecord(_id(n), f"in/{n}.csv") for n in range(start, start + _LOAD)]
            load = f"l{start // _LOAD}"
            self.database._send(self.database.record.loaded(records, f"{load}_1", load, 1))
        if hasattr(self.database, "join_record"):
            self.database.join_record()

    def size(self) -> int:
        time.sleep(5)  # for the cleaner
        return sum(
            int(file.stat().st_size)
            for file in (self.broker.folder / "data").rglob("_rowfall_loaded-0/*.log")
        )

    def among(self, ids: Sequence[str]) -> set[str]:
        return set(self.database.loaded_among(ids))

    def load_anew(self) -> dict[str, object]:
        path = self.folder / f"{uuid.uuid4().hex}.csv"
        path.write_text("a\n1\n")
        rowfall = Path(sys.executable).with_name("rowfall")
        start = time.monotonic()
        load = subprocess.Popen(
            [rowfall, "load", path, "--to", f"kafka://{self.broker.servers}/t"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, used = os.wait4(load.pid, 0)
        if status:
            raise SystemExit(f"the load of one file has failed: {status}")
        return {
            "load_seconds": round(time.monotonic() - start, 1),
            "load_cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
            "load_memory_most": used.ru_maxrss << 10,
        }  # fmt: skip


class Iceberg(Target):
    table = None

    def begin(self) -> None:
        self.record = LakeRecord()

    def add(self, low: int, high: int) -> None:
        """Write the record alone: the metadata of a table tells of each of its commits besides."""
        folder = self.folder / "lake/t/_rowfall"
        folder.mkdir(parents=True, exist_ok=True)
        for start in range(low, high, _LOAD):
            load, ids = (
                f"20260101-{start // _LOAD:08}",
                [_id(n) for n in range(start, start + _LOAD)],
            )
            own = CommittedLoad(load, (f"{load}_whole1",), tuple(ids), 1, "2026-01-01T00:00:00")
            (planned,) = self.record.with_load(own, str(folder / f"{uuid.uuid4().hex}.ids"))
            with open(planned.name, "wb") as into:
                planned.write(into)
            self.record = read_record(planned.name, self._read)

    def _read(self, name: str, ids: int | None) -> RecordFile:
        known = {file.name: file for file in self.record.files}
        files = DiskFiles()
        return known.get(name) or read_file(name, ids, files.read, files.open)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.folder.rglob("_rowfall/*"))

    def among(self, ids: Sequence[str]) -> set[str]:
        return self.record.among(ids)


TARGETS: dict[str, Callable[[Path, ExitStack], Target]] = {
    "postgresql": Postgresql, "mariadb": Mariadb, "duckdb": Duckdb, "clickhouse": Clickhouse,
    "kafka": Kafka, "iceberg": Iceberg,
}  # fmt: skip


@contextmanager
def _begun(name: str) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ["ROWFALL_HOME"] = folder
        target = TARGETS[name](Path(folder), stack)
        target.begin()
        yield target


def measure(name: str, objects: int) -> dict[str, object]:
    """Return bytes of the record and of rowfall at a quarter of the objects and at all of them."""
    with _begun(name) as target:
        steps: list[dict[str, object]] = []
        began = time.process_time()
        for low in range(0, objects, _STEP):
            target.add(low, low + _STEP)
            if (low + _STEP) % (objects // 4) == 0:
                known = low + _STEP
                size = target.size()
                asked = [_id(n) for n in range(0, known, known // 500)]
                asked += [_id(n) for n in range(objects, objects + 500)]
                start = time.monotonic()
                there = target.among(asked)
                if name != "clickhouse" and len(there) != len(asked) - 500:
                    raise SystemExit(f"{len(there)} of {len(asked) - 500} objects are known")
                steps.append({
                    "objects": known, "record_bytes": size,
                    "bytes_an_object": round(size / known, 1),
                    "question_of_1000_seconds": round(time.monotonic() - start, 3),
                    "memory_most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
                    "cpu_seconds": round(time.process_time() - began, 1),
                    **target.load_anew(),
                })  # fmt: skip
                print(steps[-1], flush=True)
        return {"target": name, "steps": steps}
