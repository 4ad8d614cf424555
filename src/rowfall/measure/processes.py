"""Whole processes measured: wall, CPU and memory of a command and of everything it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_EVERY = 0.02
# Of what a command that failed has said.
_MOST_SAID = 2_000


class BenchError(EngineError):
    """A side failed, or its rows are not the rows of the others: no figure is worth showing."""


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One command, measured.

    Attributes:
        wall: seconds from start to exit.
        cpu: user + system seconds of the process and all its descendants.
        largest: resident bytes of the largest of these processes at its highest point.
        together: highest sum of the resident bytes of all of them; 0 unless asked for.
        output: what it wrote to stdout.
    """

    wall: float
    cpu: float
    largest: int
    together: int
    output: bytes


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that their CPU is counted too."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def run(
    command: Sequence[str | Path],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    together: bool = False,
    keep: Iterable[int] = (),
) -> ProcessSample:
    """Run a command to its end and measure it; ``env`` is added to this process' own.

    The kernel starts a new process' memory mark at that of the process that started it, so this
    process has to stay small (it imports no engine).

    Args:
        keep: children of this process that are none of the command's, as servers.

    Raises:
        BenchError: the command failed; quotes the end of what it said.
    """
    before = {*children(os.getpid()), *keep}
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as talk,
    ):
        given.write(stdin)
        given.seek(0)
        start = time.perf_counter()
        process = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdin=given, stdout=out, stderr=talk, env={**os.environ, **(env or {})},
        )  # fmt: skip
        watch = _Together(process.pid) if together else None
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:  # Ctrl-C: the command has got it as well
            _end(process)
            raise
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu, largest = usage.ru_utime + usage.ru_stime, usage.ru_maxrss
        # What outlives its parent is ours now: waited for and counted, so nothing is for free.
        for orphan in set(children(os.getpid())) - before:
            _, _, usage = os.wait4(orphan, 0)
            cpu += usage.ru_utime + usage.ru_stime
            largest = max(largest, usage.ru_maxrss)
        highest = watch.stop() if watch is not None else 0
        out.seek(0)
        talk.seek(0)
        output, said = out.read(), talk.read().decode(errors="replace").strip()
    if process.returncode:
        raise BenchError(f"exit code {process.returncode}\n{said[-_MOST_SAID:]}")
    return ProcessSample(wall, cpu, largest * 1024, highest, output)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command that is no longer wanted, with what it has started."""
    family = [process.pid, *descendants(process.pid)]
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)  # rowfall lets nothing go on for longer than two seconds
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


class _Together(threading.Thread):
    """Looks at the resident memory of a process and its descendants fifty times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._highest = 0
        self._done = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._done.wait(_LOOK_EVERY):
            family = [self._pid, *descendants(self._pid)]
            self._highest = max(self._highest, sum(map(resident, family)))

    def stop(self) -> int:
        self._done.set()
        self.join()
        return self._highest


def children(pid: int) -> list[int]:
    """Return the processes that ``pid`` has started and that have not been waited for."""
    found: list[int] = []
    # It may end between any two looks.
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the processes that ``pid`` and its children have started."""
    below = children(pid)
    return below + [further for child in below for further in descendants(child)]


def resident(pid: int) -> int:
    """Return the resident bytes of a process, 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process, 0 for none, and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS
