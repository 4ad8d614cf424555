"""Totals, rates and forecast of a running load, from its events. Pure but for the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rowfall.core import events

NOW_SECONDS = 3.0  # what "now" is averaged over
ETA_SECONDS = 30.0  # the forecast looks further back, or it jumps with every stall

Clock = Callable[[], float]


class Meter:
    """Totals, rates and forecast of a load, fed with events; knows nothing of how it is shown."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._heard_at = clock()
        self._samples: deque[tuple[float, int, int]] = deque()
        self.total_bytes: int | None = None
        self.total_rows: int | None = None
        self.latest = events.Progressed(0, None, 0, 0, 0.0)
        self.moving = False

    def started(self, event: events.LoadStarted) -> None:
        self.total_bytes = event.total_bytes or None
        self.total_rows = event.total_rows or None
        self._heard_at = self._clock()

    def progressed(self, event: events.Progressed) -> None:
        self.latest = event
        self.moving = True
        self._heard_at = self._clock()
        self._samples.append((event.seconds, event.rows, event.bytes or 0))
        # One sample older than the window stays, as the point that the rate is measured from.
        while len(self._samples) > 2 and self._samples[1][0] < event.seconds - ETA_SECONDS:
            self._samples.popleft()

    @property
    def seconds(self) -> float:
        """Since the load began, going on between events so that a stall is seen."""
        return self.latest.seconds + max(self._clock() - self._heard_at, 0.0)

    def rates(self, window: float) -> tuple[float, float]:
        """(rows, bytes) per second over the last ``window`` seconds."""
        start, rows, size = 0.0, 0, 0
        since = self.seconds - window
        for sample in self._samples:
            if sample[0] > since:
                break
            start, rows, size = sample
        # From that sample on, though it is older than the window: sparse events are no bursts.
        span = max(self.seconds - start, 1e-3)
        return (
            max(self.latest.rows - rows, 0) / span,
            max((self.latest.bytes or 0) - size, 0) / span,
        )

    def averages(self) -> tuple[float, float]:
        """(rows, bytes) per second since the load began."""
        span = max(self.seconds, 1e-3)
        return self.latest.rows / span, (self.latest.bytes or 0) / span

    @property
    def by_bytes(self) -> bool:
        return self.total_bytes is not None and self.latest.bytes is not None

    @property
    def share(self) -> float | None:
        """Part done, 0..1, by bytes or, for generators, by rows; None when the end is unknown."""
        if self.by_bytes:
            return min((self.latest.bytes or 0) / (self.total_bytes or 1), 1.0)
        if self.total_rows is not None:
            return min(self.latest.rows / self.total_rows, 1.0)
        return None

    @property
    def eta(self) -> float | None:
        """Seconds left, None when unknown or when nothing moves."""
        share = self.share
        if share is None or not self.moving:
            return None
        rows, size = self.rates(ETA_SECONDS)
        if self.by_bytes:
            left, rate = (self.total_bytes or 0) - (self.latest.bytes or 0), size
        else:
            left, rate = (self.total_rows or 0) - self.latest.rows, rows
        return max(left, 0) / rate if rate > 0 else None
