"""One server of the lab: it outlives the command that started it; statements go over HTTP."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlencode

from rowfall.lab.config import Config
from rowfall.lab.process import (
    LabError,
    command_of,
    end,
    give,
    is_free,
    log_end,
    spawn,
    undisturbed,
    wait_until,
)

# A server is there after 1 s; four that start at once on two busy cores took 8 s.
_PATIENCE = 60.0
_OWN_MEMORY = re.compile(r"^RssAnon:\s+(\d+) kB$", re.M)


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
        """Number of the process, None when it is down."""
        if self._process is not None:
            self._process.poll()  # a child that has ended would stay as a zombie
        try:
            pid = int(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        # The number may have gone to another program since.
        return pid if f"--config-file={self._file}\0" in command_of(pid) else None

    @property
    def address(self) -> str:
        """Host and HTTP port."""
        return f"127.0.0.1:{self.config.http}"

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
        c = self.config
        for port in (c.http, c.tcp, c.interserver, *((c.keeper, c.raft) if c.raft else ())):
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
            self._pid_file.write_text(f"{self._process.pid}\n")

    def wait(self) -> None:
        """Wait until it answers and reaches the Keeper.

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
        socket.create_connection(("127.0.0.1", self.config.keeper), timeout=5).close()
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
        """End it and wait; the data stay. Nothing happens where it is down.

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

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the running process."""
        if self._process is None:
            raise LabError(f"{self} was not started here")
        self._process.send_signal(number)

    def query(self, sql: str, *, timeout: float = 60) -> str:
        """Run one statement as the lab's user; see :func:`ask`."""
        c = self.config
        return ask(c.http, c.user, c.password, sql, timeout=timeout)

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
