"""One service of the lab: a process of an unprivileged user with its own folder, ended by pid."""

from __future__ import annotations

import atexit
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from rowfall.lab import process
from rowfall.lab.process import LabError, wait_until


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
        # Not below a folder of the user's: that may be closed to the unprivileged user.
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
        """Tell whether the service answers as it should; any OSError counts as not yet."""
        raise NotImplementedError

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> Self:
        """Start (again) on the same folder and ports, and wait until the service is healthy.

        Raises:
            LabError: it ended or did not become healthy in time; quotes the end of its log.
        """
        if self.pid is not None:
            raise LabError(f"{self.name} is running already (pid {self.pid})")
        log = self.folder / "service.log"
        self._process = process.spawn(self.command(), self.folder, log, self.environment())
        try:
            wait_until(self._up, self.start_seconds, f"{self.name} to become healthy")
        except LabError as error:
            self.kill()
            raise LabError(f"{error}; its log ends:\n{process.log_end(log)}") from None
        return self

    def kill(self) -> None:
        """``kill -9``, as a crash would; the data stay."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, wait, and kill it when it does not; the data stay."""
        self._end(signal.SIGTERM)

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
            raise LabError(f"{self.name} ended with code {self._process.returncode}")
        return self.healthy()

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
