"""One service process: unprivileged, own data folder, free ports, health check, stopped by pid."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

# Main and gRPC ports both stay below 32768, where Linux starts to hand out ports for outgoing
# connections: nothing can take a port of a service that is down for a moment.
_PORTS = range(10_000, 22_000)
_GRPC = 10_000
_NOBODY = "nobody"


class ServiceError(RuntimeError):
    """A service did not start, died, or answered something else than it should."""


def free_ports(count: int, *, grpc: bool = False) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on; with ``grpc``, port + 10000 is free as well."""
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(ports) == count:
            break
        if _is_free(port) and (not grpc or _is_free(port + _GRPC)):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


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
        self._own(self.folder)
        atexit.register(self.close)

    def command(self) -> Sequence[str | Path]:
        """The command line; nothing secret belongs here."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """The whole environment of the process."""
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)}

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
        root = os.geteuid() == 0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [os.fspath(part) for part in self.command()],
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the terminal is pytest's to handle
                user=_NOBODY if root else None,
                group="nogroup" if root else None,
                extra_groups=[] if root else None,
            )
        try:
            wait_until(self._up, self.start_seconds, f"{self.name} to become healthy")
        except ServiceError as error:
            self.kill()
            raise ServiceError(f"{error}; its log ends:\n{self._log_end()}") from None
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
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a paused process would not see SIGTERM
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _own(self, path: Path) -> None:
        """Give ``path`` to the user that the service runs as."""
        if os.geteuid() == 0:
            shutil.chown(path, _NOBODY, "nogroup")

    def _program(self, binary: Path) -> Path:
        """``binary`` at a place where the unprivileged user may run it (homes are often closed)."""
        if os.geteuid() != 0:
            return binary
        here = self.folder / binary.name
        if not here.exists():
            try:
                here.hardlink_to(binary.resolve())
            except OSError:  # another file system
                shutil.copy(binary, here)
        return here

    @property
    def _log(self) -> Path:
        return self.folder / "service.log"

    def _log_end(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Ask every 50 ms; OSError counts as no. Raises ServiceError after ``seconds``."""
    deadline = time.monotonic() + seconds
    last: OSError | None = None
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError as error:
            last = error
        time.sleep(0.05)
    raise ServiceError(f"waited {seconds:g} s for {what}" + (f" ({last})" if last else ""))
