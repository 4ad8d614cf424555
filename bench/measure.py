"""Whole processes measured: wall, CPU and memory of a command and of everything it started."""

from __future__ import annotations

import argparse
import compileall
import contextlib
import ctypes
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_EVERY = 0.02
# As an installation has its byte code: without, each start compiles for 0.6 CPU-seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class BenchError(Exception):
    """A side failed, or its rows are not the rows of the others: no figure is worth showing."""


@dataclass(frozen=True, slots=True)
class Sample:
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


@dataclass(slots=True)
class Result:
    """What one side did in all rounds; one entry per round in every list.

    Attributes:
        kind: ``engine``, ``rowfall``, ``engine floor``, ``rowfall floor``.
        settings: what was set by hand.
        parts, stored: active parts and their bytes after the run; empty for floors.
        notes: the side's own report per round, for results.json only.
        single, final: wall and CPU seconds of merges after the run, until each partition is one
            part, and until OPTIMIZE FINAL is done; empty where they were not measured.
    """

    name: str
    kind: str
    settings: dict[str, int] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    largest: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    single: list[tuple[float, float]] = field(default_factory=list)
    final: list[tuple[float, float]] = field(default_factory=list)

    def add(self, sample: Sample, rows: int) -> None:
        self.wall.append(sample.wall)
        self.cpu.append(sample.cpu)
        self.largest.append(sample.largest)
        self.rows.append(rows)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(**found)


def median(values: Iterable[float]) -> float:
    """The middle value. Raises BenchError for none: an empty side must not look like a fast one."""
    ordered = list(values)
    if not ordered:
        raise BenchError("there is nothing to take a median of")
    return statistics.median(ordered)


def ratio(side: Result, base: Result) -> float:
    """How many times as long ``side`` takes as ``base``, by medians."""
    return median(side.wall) / median(base.wall)


def fastest(results: Iterable[Result]) -> Result:
    """The result with the smallest median wall time."""
    return min(results, key=lambda result: median(result.wall))


def overlap(one: Result, other: Result) -> bool:
    """Whether the slowest round of the faster side is slower than the fastest of the other."""
    return max(min(one.wall), min(other.wall)) <= min(max(one.wall), max(other.wall))


def agree(results: Iterable[Result], rows: int) -> str:
    """The one checksum of all runs that stored rows.

    Raises:
        BenchError: a run read or stored another number of rows, or other rows, than the others.
    """
    seen: dict[str, str] = {}
    for result in results:
        for found in result.rows:
            if found != rows:
                raise BenchError(f"{result.name}: {found:,} rows instead of {rows:,}")
        for checksum in result.checksums:
            seen.setdefault(checksum, result.name)
    if len(seen) > 1:
        told = "; ".join(f"{name} has {checksum}" for checksum, name in seen.items())
        raise BenchError(f"the sides stored different rows: {told}")
    return next(iter(seen), "")


def run_cases(
    title: str | None,
    known: Mapping[str, Callable[[int, Path], AbstractContextManager[Any]]],
    compare: Callable[[Any, int, int, Path], None],
) -> None:
    """Compare the cases that the command line names, each in a folder of its own.

    Args:
        compare: called with the case, its rows, the rounds and its folder.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    adopt_orphans()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")
    # As an installer leaves it: a fresh checkout would compile 160 modules in each run, half a
    # second of CPU, where byte code is not kept.
    compileall.compile_dir(Path(__file__).parents[1] / "src/rowfall", quiet=1)
    for name in asked.cases or known:
        with tempfile.TemporaryDirectory() as made:
            os.environ["XDG_STATE_HOME"] = made  # ledgers of servers
            folder = Path(made)
            folder.chmod(0o755)
            print(f"\n{name}: {asked.rows:,} taxi rows, {asked.rounds} rounds")
            with known[name](asked.rows, folder) as case:
                compare(case, asked.rows, asked.rounds, folder)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that their CPU is counted too."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def run(
    command: Sequence[str | Path],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    together: bool = False,
) -> Sample:
    """Run a command to its end and measure it; ``env`` is added to this process' own.

    The kernel starts a new process' memory mark at that of the process that started it, so this
    process has to stay small (it imports no engine).

    Raises:
        BenchError: the command failed; quotes the end of what it said.
    """
    before = set(children(os.getpid()))
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
        _, status, usage = os.wait4(process.pid, 0)
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
        raise BenchError(f"exit code {process.returncode}\n{said[-2000:]}")
    return Sample(wall, cpu, largest * 1024, highest, output)


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
    """Processes that ``pid`` has started and that have not been waited for."""
    found: list[int] = []
    # It may end between any two looks.
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return below + [further for child in below for further in descendants(child)]


def resident(pid: int) -> int:
    """Resident bytes of a process, 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
