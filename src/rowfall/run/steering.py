"""Look at a server between attempts, and change what the next one takes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from rowfall.contracts.destination import Gauge
from rowfall.core.errors import RowfallError
from rowfall.core.events import Listener, Steered
from rowfall.core.model import Setting
from rowfall.core.steering import Backoff, Observation, Pressure, SteeringStep, decide, high, said

# At most one look in so many seconds, three small SELECTs: a thousandth of an attempt's 20 s, and
# parts and memory of a server do not turn faster. The first one comes as long after the start, so
# that a short load asks nothing.
LOOK_SECONDS = 5.0
# An attempt that waits for pressure to go away goes on after this: who fills the server may never
# stop, and a quarter of the threads is little.
MOST_WAIT = 60.0

_INSERTING = "max_insert_threads"
_THREADS = ("max_threads", _INSERTING)
# Smaller blocks than this, in rows or bytes, are all overhead.
_LEAST_BLOCK = 8_192
_BLOCKS = (
    "min_insert_block_size_rows", "min_insert_block_size_bytes",
    "input_format_parquet_max_block_size", "input_format_parquet_prefer_block_bytes",
)  # fmt: skip


class Steering:
    """The course of the attempts of one writer.

    Args:
        gauge: None where there is nothing to look at, or the user wants none of it.
        node: of a cluster, "" otherwise. ``stopped``: set on Ctrl-C.
    """

    def __init__(
        self, gauge: Gauge | None, emit: Listener, stopped: threading.Event, node: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._gauge, self._emit, self._stopped = gauge, emit, stopped
        self._node, self._clock = node, clock
        self._began = self._looked = clock()
        self._course, self._rows = Backoff(), 0
        self._turn, self._counting = threading.Lock(), threading.Lock()
        self.steps: tuple[SteeringStep, ...] = ()

    def before(self) -> None:
        """Look, if it is time, and wait where that was decided."""
        if self._gauge is None:
            return
        with self._turn:  # one of several lanes looks; the others get what it has found
            if self._clock() - self._looked >= LOOK_SECONDS:
                self._look()
            until = self._clock() + MOST_WAIT
            while self._course.waits and self._clock() < until:
                if self._stopped.wait(LOOK_SECONDS):
                    return
                if high(self._look()) is None:
                    return

    def counted(self, rows: int) -> None:
        """Count rows of an attempt that has ended."""
        with self._counting:
            self._rows += rows

    def applied(self, settings: Iterable[Setting]) -> tuple[Setting, ...]:
        """Return the settings as the course has them."""
        course, planned = self._course, tuple(settings)
        if not course.level:
            return planned
        threads = max((int(s.value) for s in planned if s.name == _INSERTING), default=1)
        # Blocks grow as far as there are fewer threads that hold one.
        fewer = threads / max(1, int(threads * course.share))
        blocks = min(course.blocks, fewer) if course.blocks > 1 else course.blocks
        factors = {**dict.fromkeys(_THREADS, course.share), **dict.fromkeys(_BLOCKS, blocks)}
        why = f"steering: {course.cause} of the server"
        return tuple(_by(one, factors.get(one.name, 1.0), why) for one in planned)

    def streams(self, planned: int) -> int | None:
        """Return the connections for an attempt; None for as many as were planned."""
        if not self._course.level or not planned:
            return None
        return max(1, round(planned * self._course.share))

    def _look(self) -> Pressure:
        assert self._gauge is not None  # noqa: S101 - who looks has one
        try:
            pressure = self._gauge.look()
        except RowfallError:
            pressure = Pressure()  # the attempt itself meets what is wrong
        now = self._clock()
        with self._counting:
            seconds, rows = now - self._looked, self._rows
            self._looked, self._rows = now, 0
        seen = Observation(now - self._began, pressure, rows / seconds if seconds else 0.0)
        self._course, step = decide(self._course, seen)
        if step is not None:
            step = replace(step, node=self._node)
            self.steps += (step,)
            self._emit(Steered(said(step)))
        return pressure


def _by(setting: Setting, factor: float, why: str) -> Setting:
    """Return a setting by a factor; 0 means something else, and is left alone."""
    if factor == 1 or not isinstance(setting.value, int) or not setting.value:
        return setting
    least = 1 if setting.name in _THREADS else _LEAST_BLOCK
    value = max(least, int(setting.value * factor))
    return setting if value == setting.value else Setting(setting.name, value, why)
