"""One service process: unprivileged, own data folder, free ports, health check, stopped by pid."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from rowfall.lab import process
from rowfall.lab.process import LabError, free_ports, wait_until

__all__ = ["UNVERIFIED", "Service", "ServiceError", "free_ports", "reachable", "wait_until"]

ServiceError = LabError
# Options of Java: released classes are not verified again at each start, which was 0.9 of Kafka's
# 5.6 and 1.8 of HDFS's 15.2 s of CPU.
UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")


def reachable(path: Path) -> Path:
    """Return ``path``, or its twin of hard links that the user of the services may read.

    Home folders are often closed to it. Made once for a machine: 500 MB are not copied for each
    server to the file system of its data, nor the 55,000 files of Azurite.
    """
    if process.closed(path) is None:
        return path
    shared = Path("/var/tmp", f"rowfall-lab-{os.geteuid()}")  # noqa: S108 - the owner is checked
    shared.mkdir(mode=0o755, exist_ok=True)
    if shared.is_symlink() or shared.stat().st_uid != os.geteuid():
        raise ServiceError(f"{shared} belongs to somebody else")
    stat = path.stat()
    twin = shared / f"{path.name}-{stat.st_ino}-{stat.st_mtime_ns}"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not twin.exists():
            with tempfile.TemporaryDirectory(dir=shared) as folder:
                made = Path(folder, "made")
                if path.is_dir():
                    shutil.copytree(path, made, copy_function=_link, symlinks=True)
                else:
                    _link(path, made)
                made.rename(twin)
    return twin


def wait_until_stopped(pid: int) -> None:
    """Wait until every thread of a process has met SIGSTOP: one that runs may still answer."""

    def stopped() -> bool:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        # The state stands behind the name in brackets, which may hold blanks.
        return all((t / "stat").read_text().rpartition(")")[2].split()[0] in "TtZ" for t in tasks)

    wait_until(stopped, 10, f"process {pid} does not stop")


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


class Service:
    """Base of the starters: a process that can be killed and started again on the same data.

    Used as a context manager; :attr:`folder` is removed at the end. Subclasses say what to run
    (:meth:`command`) and how to see that it is up (:meth:`healthy`).

    Attributes:
        folder: everything that the service writes, its log (``service.log``) included.
        pid: of the running process, None when it is down.
    """

    name = "service"
    start_seconds = 60.0

    def __init__(self) -> None:
        # Not below pytest's tmp_path: that is closed to the unprivileged user.
        self.folder = Path(tempfile.mkdtemp(prefix=f"rowfall-lab-{self.name}-"))
        self._process: subprocess.Popen[bytes] | None = None
        process.give(self.folder)
        atexit.register(self.close)

    def command(self) -> Sequence[str | Path]:
        """The command line; nothing secret belongs here."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """The environment of the process, besides PATH and HOME."""
        return {}

    def healthy(self) -> bool:
        """Whether the service answers as it should; any OSError counts as not yet."""
        raise NotImplementedError

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> Self:
        """Start (again) on the same folder and ports, and wait until the service is healthy.

        Raises:
            ServiceError: it ended or did not become healthy in time; quotes the end of its log.
        """
        if self.pid is not None:
            raise ServiceError(f"{self.name} is running already (pid {self.pid})")
        log = self.folder / "service.log"
        self._process = process.spawn(self.command(), self.folder, log, self.environment())
        try:
            wait_until(self._up, self.start_seconds, f"{self.name} to become healthy")
        except ServiceError as error:
            self.kill()
            raise ServiceError(f"{error}; its log ends:\n{process.log_end(log)}") from None
        return self

    def kill(self) -> None:
        """``kill -9``, as a crash would; the data stay."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, wait, and kill it when it does not; the data stay."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Freeze the process: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)
        if self.pid is not None:
            wait_until_stopped(self.pid)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the process and remove its data; may be called more than once."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _up(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise ServiceError(f"{self.name} ended with code {self._process.returncode}")
        return self.healthy()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self.pid is None:
            raise ServiceError(f"{self.name} is not running")
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        ended, self._process = self._process, None
        if ended is not None and ended.poll() is None:
            process.end(ended.pid, number)
            ended.wait()

    def _own(self, path: Path) -> None:
        """Give ``path`` to the user that the service runs as."""
        process.give(path)

    def _program(self, binary: Path) -> Path:
        """``binary`` at a place where the unprivileged user may run it."""
        return process.program(binary, self.folder)
