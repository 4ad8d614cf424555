"""A load as a process of its own session, and the folder by which it is found again.

The folder is named after the task instance and its command, not after the try: a try that begins
while the load of an earlier one still runs waits for that. It holds no secret. What is in it::

    lock           held by the load as long as it runs
    command.json   the command, without secrets
    pid            of the leader of its session, and the host that it runs on
    out, log       its stdout (one JSON document) and its stderr
    exit           its exit code; not there while it runs, and after a crash
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

# A load that is told to end takes back what is not visible yet, which takes seconds; Airflow gives
# a task a minute (killed_task_cleanup_time), and a trigger half of it (on_kill_timeout).
END_SECONDS = 25.0
_LOOK_SECONDS = 0.1
# Who looks whether a load runs holds its lock for some microseconds; a load holds it for longer.
_TRIES = 5
# Of the environment of a worker: what Airflow itself is told, passwords of other connections among
# it. AWS_*, proxies and PATH are for the load as well.
_OF_AIRFLOW = ("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__", "_AIRFLOW")


@dataclass(frozen=True)
class LoadResult:
    """How a load has ended.

    Attributes:
        code: exit code; negative for the signal that has killed it, None where nobody has written
            it down: the machine or the container went away under it.
        document: what it has printed; empty for nothing.
    """

    code: int | None
    document: Mapping[str, Any]


class LoadProcess:
    """A load and its folder, which need not be there yet."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def named(cls, parent: str | Path, task: Sequence[str], command: Sequence[str]) -> LoadProcess:
        """Return the load of a task instance: another command of it is another load."""
        digest = sha256(json.dumps([*task, *command]).encode()).hexdigest()[:24]
        return cls(Path(parent) / digest)

    # --- beginning ------------------------------------------------------------------------------

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Start the load, unless it runs or has ended well; return whether it was started.

        Args:
            environment: in addition to that of this process; secrets belong here.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked(fcntl.LOCK_EX, _TRIES) as lock:
            if lock is None or self._exit() == 0:
                return False
            for name in ("exit", "out", "log", "pid"):
                (self.folder / name).unlink(missing_ok=True)
            text = json.dumps([*command], indent=2)
            (self.folder / "command.json").write_text(text, encoding="utf-8")
            inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OF_AIRFLOW)}
            # By its path: importing the package would import Airflow.
            runner = Path(__file__).with_name("runner.py")
            process = subprocess.Popen(
                [sys.executable, "-I", runner, self.folder.absolute(), str(lock)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**inherited, **environment}, pass_fds=(lock,), start_new_session=True,
            )  # fmt: skip
            where = {"pid": process.pid, "host": socket.gethostname()}
            (self.folder / "pid").write_text(json.dumps(where), encoding="utf-8")
        # It is nobody's child to wait for: whoever started it may be gone before it ends.
        process.returncode = 0
        return True

    # --- looking ----------------------------------------------------------------------------------

    def is_here(self) -> bool:
        """Tell whether this machine sees the folder; another one may not."""
        return self.folder.is_dir()

    def running(self) -> bool:
        """Tell whether the load runs; False where the folder is not to be seen."""
        with suppress(FileNotFoundError), self._locked(fcntl.LOCK_SH) as lock:
            return lock is None
        return False

    def result(self) -> LoadResult:
        """Return how the load has ended, which it must have."""
        document: Any = None
        with suppress(OSError, ValueError):
            document = json.loads((self.folder / "out").read_bytes())
        return LoadResult(self._exit(), document if isinstance(document, dict) else {})

    def said(self) -> Iterator[str]:
        """Give the lines that the load has written to stderr until it ends, as they come."""
        pending = b""
        position = 0
        while True:
            more = self.running()  # before what it has written: the last line is not missed
            with suppress(FileNotFoundError), (self.folder / "log").open("rb") as log:
                log.seek(position)
                piece = log.read()
                position += len(piece)
                *lines, pending = (pending + piece).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in lines)
            if not more:
                if pending:
                    yield pending.decode("utf-8", "replace")
                return
            time.sleep(_LOOK_SECONDS)

    # --- ending -----------------------------------------------------------------------------------

    def interrupt(self) -> bool:
        """Ask the load to end, as Ctrl-C does; return whether it runs on this machine."""
        return self._signal(signal.SIGINT)

    def kill(self) -> bool:
        """End the load at once; what is not visible yet is taken back by the next one."""
        return self._signal(signal.SIGKILL)

    def end(self, seconds: float = END_SECONDS) -> bool:
        """Interrupt the load, and kill it where it does not end; return whether it ran here."""
        if not self.interrupt():
            return False
        deadline = time.monotonic() + seconds
        while self.running() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        return not self.running() or self.kill()

    def remove(self) -> None:
        """Remove the folder of a load that has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> bool:
        if not self.running():  # the id may belong to another process by now
            return False
        with suppress(OSError, ValueError, KeyError):
            where = json.loads((self.folder / "pid").read_bytes())
            if where["host"] == socket.gethostname():
                os.killpg(where["pid"], number)
                return True
        return False

    def _exit(self) -> int | None:
        with suppress(OSError, ValueError):
            return int((self.folder / "exit").read_text(encoding="utf-8"))
        return None

    @contextmanager
    def _locked(self, kind: int, tries: int = 1) -> Iterator[int | None]:
        """Give the descriptor of the lock, None where somebody holds it.

        Args:
            kind: ``LOCK_EX`` to hold it, ``LOCK_SH`` to look whether somebody does.

        Raises:
            FileNotFoundError: the folder is not there.
        """
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield lock if _lock(lock, kind, tries) else None
        finally:
            os.close(lock)  # a process that has inherited it holds the lock on


def _lock(descriptor: int, kind: int, tries: int) -> bool:
    for left in reversed(range(tries)):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                time.sleep(_LOOK_SECONDS)
        else:
            return True
    return False
