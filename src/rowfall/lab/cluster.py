"""The lab: a folder that holds a cluster called ``lab``, which can be started and ended.

One Keeper inside of node 1 serves all nodes. Three would survive the loss of one, but on one
machine they would all be lost together.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from rowfall.core import disk
from rowfall.core.patterns import regex
from rowfall.core.signals import undisturbed
from rowfall.lab.config import ClusterConfig, Config, Ports
from rowfall.lab.process import (
    LabError,
    LabUsageError,
    closed,
    command_of,
    end,
    free_ports,
    give,
    is_free,
    log_end,
    program,
    spawn,
    wait_until,
)

NAME, USER = "lab", "lab"
_VERSION = 1
_FILE, _PASSWORD = "lab.json", "password"
_PORTS = ("http", "tcp", "interserver")
# Half of the machine for all servers together. With 1 GB a server loads, with small blocks; more
# than 8 GB is of no use for trying out.
_LEAST, _MOST = 1 << 30, 8 << 30


class Lab:
    """A cluster in a folder of its own; made by :meth:`make`, found again by :meth:`open`.

    Attributes:
        folder: absolute.
        nodes: shard by shard; the first one runs the Keeper, without which there is no ON CLUSTER
            and no insert into a replicated table.
    """

    def __init__(self, folder: Path, document: dict[str, Any], password: str) -> None:
        self.folder = folder
        self.shards, self.replicas = int(document["shards"]), int(document["replicas"])
        self.password = password
        self.nodes = self._nodes(document)

    def _nodes(self, document: dict[str, Any]) -> Sequence[LabNode]:
        every: list[dict[str, int]] = document["nodes"]
        tcp = [node["tcp"] for node in every]
        cluster = ClusterConfig(
            NAME,
            document["secret"],
            [tcp[at : at + self.replicas] for at in range(0, len(tcp), self.replicas)],
        )
        nodes = []
        for at, node in enumerate(every):
            folder = self.folder / f"node{at + 1}"
            shard, replica = at // self.replicas + 1, at % self.replicas + 1
            ports = Ports(
                node["http"], node["tcp"], node["interserver"], keeper=document["keeper"],
                raft=0 if at else document["raft"],
            )  # fmt: skip
            config = Config(
                folder, folder / "data", ports, USER, self.password, document["memory"],
                shard=str(shard), replica=str(replica), cluster=cluster,
            )  # fmt: skip
            nodes.append(LabNode(at + 1, shard, replica, config))
        return nodes

    @classmethod
    def make(cls, folder: Path, shards: int, replicas: int, memory: int | None = None) -> Self:
        """Make a lab in a folder that is missing or empty; nothing is started.

        Args:
            memory: limit of each server in bytes; by default half of the machine for all together.

        Raises:
            LabUsageError: the folder cannot be used.
        """
        folder = folder.absolute()
        barred = closed(folder)
        if barred is not None:
            raise LabUsageError(
                f"make a lab in {folder}: servers that root starts run as the user nobody, who may "
                f"not enter {barred}",
                hint="Choose another folder with --folder, or run it as an ordinary user.",
            )
        count = shards * replicas
        document = {
            "rowfall_lab": _VERSION,
            "shards": shards,
            "replicas": replicas,
            "memory": memory or _share(count),
            "secret": secrets.token_hex(16),
            **_ports(count),
        }
        password = secrets.token_hex(16)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise LabUsageError(
                    f"make a lab in {folder}: it holds other files",
                    hint="Choose a folder that is missing or empty with --folder.",
                )
            # Servers that root starts run as another user, who has to enter it.
            folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
            _write(folder / _PASSWORD, password)
            _write(folder / _FILE, json.dumps(document, indent=2) + "\n")
        except OSError as error:
            raise LabUsageError(f"make a lab in {folder}: {error.strerror}") from None
        return cls(folder, document, password)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the lab in ``folder``, running or not.

        Raises:
            LabUsageError: there is none.
        """
        folder = folder.absolute()
        try:
            document = json.loads((folder / _FILE).read_text())
            if document["rowfall_lab"] != _VERSION:
                raise LabUsageError(f"open the lab in {folder}: another version of rowfall made it")
            return cls(folder, document, (folder / _PASSWORD).read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise LabUsageError(
                f"open the lab in {folder}: there is no lab",
                hint="'rowfall lab up' makes one; --folder says where it is.",
            ) from None
        except OSError as error:
            raise LabUsageError(f"open the lab in {folder}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise LabUsageError(
                f"open the lab in {folder}: {_FILE} is damaged ({error!r})"
            ) from None

    @staticmethod
    def within(folder: Path) -> bool:
        """Tell whether the folder holds a lab."""
        return (folder / _FILE).exists()

    def up(self, binary: Path) -> None:
        """Start the servers that are down, wait until all answer and ON CLUSTER works.

        Raises:
            LabUsageError: all are running.
            LabError: a port is taken, or a server does not come up; those started are ended again.
        """
        with self._locked():
            down = [node for node in self.nodes if node.pid is None]
            if not down:
                raise LabUsageError(
                    f"start the lab in {self.folder}: it is running already",
                    hint="'rowfall lab status' shows it, 'rowfall lab down' ends it.",
                )
            for node in down:
                node.check_ports()
            try:
                self._start(down, program(binary, self.folder))
            except BaseException:
                with undisturbed():  # by a second Ctrl-C
                    for node in down:
                        node.end(signal.SIGKILL)
                raise

    def _start(self, down: Sequence[LabNode], binary: Path) -> None:
        first, *others = down
        try:
            first.begin(binary)
            if first is self.nodes[0]:
                # A server that finds no Keeper looks for it again after five seconds only.
                first.wait_for_keeper()
            for node in others:
                node.begin(binary)
        except OSError as error:
            raise LabUsageError(f"run {binary}: {error.strerror}") from None
        for node in down:
            node.wait()
        self.wait()

    def wait(self) -> None:
        """Wait until all nodes carry out a statement ON CLUSTER.

        Raises:
            LabError: not within a minute; shows the end of node 1's log.
        """
        try:
            # 0.1 s after the start; after the Keeper was away the nodes look for it every 5 s.
            wait_until(self._obeys, 60, "all nodes to carry out a statement ON CLUSTER")
        except LabError as error:
            log = self.nodes[0].log
            raise LabError(f"start the lab: {error}; {log} ends:\n{log_end(log)}") from None

    def _obeys(self) -> bool:
        sql = (
            f"DROP TABLE IF EXISTS default._rowfall_lab ON CLUSTER {NAME} "
            "SETTINGS distributed_ddl_task_timeout = 10"
        )
        try:
            return len(self.nodes[0].query(sql).splitlines()) == len(self.nodes)
        except LabError as error:
            raise OSError(str(error)) from None

    def down(self, *, remove: bool = False) -> int:
        """End all servers and return how many were running.

        Args:
            remove: delete the folder, too.

        Raises:
            LabError: one of them belongs to another user, or does not end.
        """
        with self._locked():
            running = [node for node in self.nodes if node.pid is not None]
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(LabNode.end, [node for node in running if node is not self.nodes[0]]))
            self.nodes[0].end()  # last: the others close their sessions with the Keeper
            if remove:
                shutil.rmtree(self.folder)
            return len(running)

    def uri(self, database: str = "default") -> str:
        """Return the address for ``--to``, of node 1, without the password."""
        port = self.nodes[0].config.ports.http
        return f"clickhouse://{USER}@127.0.0.1:{port}/{database}?cluster={NAME}"

    @property
    def password_file(self) -> Path:
        return self.folder / _PASSWORD

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with os.fdopen(disk.open_own(self.folder / "lock", os.O_RDWR | os.O_CREAT)) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LabUsageError(
                    f"use the lab in {self.folder}: another command is starting or ending it"
                ) from None
            yield


def _share(count: int) -> int:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(_LEAST, min(_MOST, machine // 2 // count))


def _ports(count: int) -> dict[str, Any]:
    keeper, raft, *others = free_ports(2 + count * len(_PORTS))
    nodes = [dict(zip(_PORTS, others[at::count], strict=True)) for at in range(count)]
    return {"keeper": keeper, "raft": raft, "nodes": nodes}


def _write(path: Path, text: str) -> None:
    """Write a new file that only this user may read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


# --- one server ----------------------------------------------------------------------------------

# A server is there after 1 s; four that start at once on two busy cores took 8 s.
_PATIENCE = 60.0
_OWN_MEMORY = regex(r"^RssAnon:\s+(\d+) kB$", re.M)


class LabNode:
    """One server, found again by the process id in its folder.

    Attributes:
        number: from 1, shard by shard.
        shard, replica: from 1, as in the macros.
        config: ports, account and folders.
    """

    def __init__(self, number: int, shard: int, replica: int, config: Config) -> None:
        self.number, self.shard, self.replica = number, shard, replica
        self.config = config
        self.log = config.folder / "service.log"
        self._file = config.folder / "config.xml"
        self._pid_file = config.folder / "pid"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Return the number of the process, None when the server is down."""
        # A child is asked for itself: its command line stays empty until the kernel has read the
        # program from the disk. A child that has ended would stay as a zombie.
        if self._process is not None and self._process.poll() is None:
            return self._process.pid
        try:
            pid = int(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        # The number may have gone to another program since.
        return pid if f"--config-file={self._file}\0" in command_of(pid) else None

    @property
    def address(self) -> str:
        """Return host and HTTP port."""
        return f"127.0.0.1:{self.config.ports.http}"

    def memory(self) -> int:
        """Return the resident bytes without those of the program file; 0 when it is down."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        found = _OWN_MEMORY.search(status)
        return int(found[1]) << 10 if found else 0

    def check_ports(self) -> None:
        """Raise LabError where another program listens on one of its ports."""
        own = self.config.ports
        keeper = (own.keeper, own.raft) if own.raft else ()
        for port in (own.http, own.tcp, own.interserver, *keeper):
            if not is_free(port):
                raise LabError(
                    f"start {self}: port {port} of 127.0.0.1 is taken",
                    hint=f"End what listens there (ss -ltnp 'sport = {port}' shows it), or make "
                    "another lab with --folder.",
                )

    def begin(self, program: Path) -> None:
        """Start the process; :meth:`wait` for it.

        Raises:
            OSError: the program cannot be run.
        """
        folder = self.config.folder
        folder.mkdir(mode=0o700, exist_ok=True)
        give(folder)
        self.config.write(self._file)
        with undisturbed():
            self._process = spawn(
                (program, "server", f"--config-file={self._file}"),
                folder,
                self.log,
                {"CLICKHOUSE_WATCHDOG_ENABLE": "0"},  # one process, whose id is ours
            )
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with os.fdopen(disk.open_own(self._pid_file, flags), "w") as file:
                file.write(f"{self._process.pid}\n")

    def wait(self) -> None:
        """Wait until the server answers and reaches the Keeper.

        Raises:
            LabError: it has ended, or does not answer in time; shows the end of its log.
        """
        self._wait(self.answers, "to answer")

    def wait_for_keeper(self) -> None:
        """Wait until the Keeper inside of it answers; raises as :meth:`wait`."""
        self._wait(self._keeper_listens, "to start the Keeper")

    def state(self) -> str:
        """Return ``down``, ``up``, or ``silent``: it does not answer, or not reach the Keeper."""
        if self.pid is None:
            return "down"
        try:
            return "up" if self.answers() else "silent"
        except OSError:
            return "silent"

    def answers(self) -> bool:
        """Return True when it runs statements and reaches the Keeper.

        Raises:
            OSError: it does not.
        """
        try:
            self.query("SELECT count() FROM system.zookeeper WHERE path = '/'", timeout=5)
        except LabError as error:  # the Keeper needs a moment longer than the server
            raise OSError(str(error)) from None
        return True

    def _keeper_listens(self) -> bool:
        # It does so when it has elected itself, not before.
        socket.create_connection(("127.0.0.1", self.config.ports.keeper), timeout=5).close()
        return True

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        def there() -> bool:
            if self.pid is None:
                raise LabError(f"start {self}: it has ended")
            return condition()

        try:
            wait_until(there, _PATIENCE, f"{self} {what}")
        except LabError as error:
            raise LabError(f"{error}; {self.log} ends:\n{log_end(self.log)}") from None

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the server and wait; the data stay. Do nothing where it is down.

        Raises:
            LabError: it belongs to another user, or does not end.
        """
        pid = self.pid
        if pid is None:
            return
        try:
            end(pid, number)
        except PermissionError:
            raise LabError(f"end {self}: process {pid} belongs to another user") from None
        if self._process is not None:
            self._process.wait()

    def query(self, sql: str, *, timeout: float = 60) -> str:
        """Run one statement as the lab's user; see :func:`ask`."""
        c = self.config
        return ask(c.ports.http, c.user, c.password, sql, timeout=timeout)

    def __str__(self) -> str:
        return f"node {self.number} (shard {self.shard}, replica {self.replica})"


def ask(
    port: int,
    user: str,
    password: str,
    sql: str,
    *,
    body: bytes | None = None,
    settings: Mapping[str, str | int] | None = None,
    timeout: float = 60,
) -> str:
    """Run one statement on 127.0.0.1; ``body`` holds the rows of an INSERT.

    Raises:
        LabError: the server refuses it; with the server's message.
        OSError: it cannot be reached.
    """
    parameters = {"wait_end_of_query": 1, **(settings or {})}
    if body is not None:
        parameters["query"] = sql
    # Not urllib, which would ask the proxy of the environment.
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(
            "POST",
            f"/?{urlencode(parameters)}",
            body=sql.encode() if body is None else body,
            headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": password},
        )
        with connection.getresponse() as answer:
            text = answer.read().decode(errors="replace")
    except HTTPException as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise LabError(text.strip())
    return text
