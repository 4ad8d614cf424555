"""Tell how many processes wanted the cores of this machine while something was measured."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex

# Looks at what is ready to run: often enough for a second's load, and 0.1 % of a core.
_LOOK_SECONDS = 0.05
_RUNNING = regex(rb"^procs_running (\d+)", re.M)


@dataclass(slots=True)
class Contention:
    """The demand for the CPU of this machine during a measurement.

    Attributes:
        factor: threads that were ready to run for each core, 1 where there were fewer, and of a
            process that goes before others (nice below 0), which has not waited for theirs.
    """

    factor: float = 1.0

    def without(self, seconds: float, cpu: float, cores: int) -> float:
        """Return the seconds that something would have taken without the work of others.

        Its threads waited for a core as long as it took others to use it; what it waited for
        besides, a disk or a network, it would have waited for in any case.

        Args:
            cpu: seconds that it used on ``cores`` of this machine.
        """
        return max(cpu / cores, seconds - cpu * (self.factor - 1) / cores, 1e-3)


@contextmanager
def contention() -> Iterator[Contention]:
    """Give what is filled in when the block has ended."""
    found, ended, seen = Contention(), threading.Event(), list[int]()

    def look() -> None:
        while not ended.wait(_LOOK_SECONDS):
            if (count := _running()) is not None:
                seen.append(count)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
        if seen and os.getpriority(os.PRIO_PROCESS, 0) >= 0:
            # One that was ready is the look itself.
            ready = sum(seen) / len(seen) - 1
            found.factor = max(1.0, ready / (os.cpu_count() or 1))


def _running() -> int | None:
    """Return the number of threads that run or are ready to; None without /proc/stat."""
    try:
        with open("/proc/stat", "rb") as stat:
            match = _RUNNING.search(stat.read())
    except OSError:
        return None
    return int(match[1]) if match else None
