"""One node of the lab's cluster: a ClickHouse server that outlives the command that started it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from rowfall.lab.ask import ask
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
        """Of the process, None when it is down."""
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
        """Resident bytes that are its own, without those of the program file; 0 when down."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        found = _OWN_MEMORY.search(status)
        return int(found[1]) << 10 if found else 0

    def check_ports(self) -> None:
        """Raises LabError where somebody else listens."""
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
        """Wait until the Keeper inside of it answers; as :meth:`wait`."""
        self._wait(self._keeper_listens, "to start the Keeper")

    def state(self) -> str:
        """``down``, ``up``, or ``silent``: there, and does not answer or not reach the Keeper."""
        if self.pid is None:
            return "down"
        try:
            return "up" if self.answers() else "silent"
        except OSError:
            return "silent"

    def answers(self) -> bool:
        """Whether it runs statements and reaches the Keeper; OSError counts as no."""
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
            LabError: it belongs to somebody else, or does not end.
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
        """Run one statement as the lab's user; see :func:`rowfall.lab.ask.ask`."""
        c = self.config
        return ask(c.http, c.user, c.password, sql, timeout=timeout)

    def __str__(self) -> str:
        return f"node {self.number} (shard {self.shard}, replica {self.replica})"
