"""Tell how busy this machine was with the work of others while something was measured."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rowfall.core.dataclass import dataclass

# Share of the cores that was idle, below which whoever wants one has to wait for it.
_FULL = 0.15


@dataclass(slots=True)
class Contention:
    """The CPU of this machine during a measurement.

    Attributes:
        seconds: wall seconds. ``idle``: share of all cores, 0..1; 1 where nobody knows.
        busy: CPU seconds that all processes have used.
    """

    seconds: float = 0.0
    idle: float = 1.0
    busy: float = 0.0

    def others(self, own: float) -> float:
        """Return the share of the CPU that others had, 0 where there was enough for all.

        Args:
            own: CPU seconds that were used for what was measured.
        """
        if self.idle > _FULL or self.busy <= 0:
            return 0.0
        return max(0.0, 1 - own / self.busy)


@contextmanager
def contention() -> Iterator[Contention]:
    """Give what is filled in when the block has ended."""
    found, before, began = Contention(), _cpu(), time.monotonic()
    try:
        yield found
    finally:
        found.seconds = time.monotonic() - began
        after = _cpu()
        if before is not None and after is not None:
            total, idle = (a - b for a, b in zip(after, before, strict=True))
            found.idle = idle / total if total > 0 else 1.0
            found.busy = total - idle


def _cpu() -> tuple[float, float] | None:
    """Return the seconds of all cores since the start of the machine, and those without work."""
    try:
        with open("/proc/stat", encoding="ascii") as stat:
            values = [int(word) for word in stat.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(values) / ticks, (values[3] + values[4]) / ticks
