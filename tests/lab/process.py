"""One service process: unprivileged, own data folder, free ports, health check, stopped by pid."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

from rowfall.lab import process, service
from rowfall.lab.process import LabError, free_ports, wait_until

__all__ = [
    "UNVERIFIED", "Service", "ServiceError", "free_ports", "let_pass", "reachable", "wait_until",
]  # fmt: skip

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


def let_pass(seconds: float, why: str) -> None:
    """Let time pass where it is what a test is about: nothing tells of an event to wait for.

    Args:
        why: what the time is for.
    """
    assert why
    time.sleep(seconds)


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


class Service(service.Service):
    """A service that tests can freeze."""

    def pause(self) -> None:
        """Freeze the process: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)
        if self.pid is not None:
            wait_until_stopped(self.pid)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self.pid is None:
            raise ServiceError(f"{self.name} is not running")
        self._process.send_signal(number)
