"""Work that waits for an attempt, shared by all writers of one load.

Each writer has its own line. One that finds its line empty takes from the longest one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.model import Schema, Setting

# Somebody else loads the last files: asking again costs two small SELECTs.
WAIT_SECONDS = 1.0
# Half of an attempt is worth taking over only if it is more work than its fixed cost of 0.1 to
# 0.4 s: 16 MiB of packed text take one core about that long.
SHARED_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """Rows of some splits of an output.

    Attributes:
        attempt: id of the one that has written it.
        path: of the Native file; there may be none where there are no rows.
    """

    attempt: str
    path: str
    splits: tuple[Split, ...]
    rows: int

    def remove(self) -> None:
        """Remove the file."""
        Path(self.path).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class FailedTries:
    """How attempts at some splits have failed.

    Attributes:
        tries: that failed for a passing reason. ``lowered``: for want of memory.
        settings: lowered ones for the next; None for those of the writer that takes it.
        alone: several threads of rowfall-decode took too much.
    """

    tries: int = 0
    lowered: int = 0
    settings: tuple[Setting, ...] | None = None
    alone: bool = False

    def lower(self, settings: tuple[Setting, ...]) -> FailedTries:
        """Return the state after one more try that wanted too much memory."""
        return replace(self, settings=settings, lowered=self.lowered + 1)


@dataclass(frozen=True, slots=True)
class Work:
    """Splits that are to be loaded by one attempt, and what earlier attempts have taught.

    Attributes:
        number: of the plan's group.
        failed: how earlier attempts have failed.
        skips_bad_rows: bad rows are left out. ``engine_reads``: the decoder has declined it.
        schema: another way to read the rows; None for that of the plan.
        most_refused: see :class:`rowfall.contracts.delivery.DeliveryOrder`.
        piece: its rows are a part of an output file. ``pieces``: those that it puts together.
    """

    number: int
    splits: Sequence[Split]
    failed: FailedTries = FailedTries()
    skips_bad_rows: bool = False
    engine_reads: bool = False
    schema: Schema | None = None
    most_refused: int | None = None
    piece: bool = False
    pieces: tuple[OutputPiece, ...] = ()

    @property
    def size(self) -> int:
        """Return the stored bytes, as far as they are known."""
        return sum(split.size or 0 for split in self.splits)

    @property
    def rows(self) -> int | None:
        """Return the rows of ranges of rows; None for other splits: theirs are not known yet."""
        found = [split.rows for split in self.splits]
        return None if None in found else sum(rows or 0 for rows in found)


class WorkQueue:
    """The lines of all writers.

    Args:
        writers: how many there are.
        serial: number of the last attempt of an earlier run of the load.

    Attributes:
        stopped: set on Ctrl-C; nobody takes anything any more.
        fatal: what stopped everything.
    """

    def __init__(self, writers: int = 1, serial: int = 0) -> None:
        self.changed = threading.Condition()
        self.stopped = threading.Event()
        self.fatal: BaseException | None = None
        self._lines: list[deque[Work]] = [deque() for _ in range(writers)]
        self._held: list[list[Work]] = [[] for _ in range(writers)]
        self._busy = 0
        self._serial = serial
        self._loaded = False

    def put(self, writer: int, work: Work) -> None:
        """Add work to the end of a line."""
        with self.changed:
            self._lines[writer].append(work)
            self.changed.notify_all()

    def again(self, writer: int, *works: Work) -> None:
        """Put work back to the front of a line."""
        with self.changed:
            self._lines[writer].extendleft(reversed(works))
            self.changed.notify_all()

    def hold(self, writer: int, work: Work) -> None:
        """Put work aside that another process holds; it is tried when everything else is done."""
        with self.changed:
            self._held[writer].append(work)

    def take(self, writer: int) -> Work | None:
        """Return the next work; None when there never will be any. :meth:`release` ends it."""
        while True:
            with self.changed:
                while not self._ended:
                    if work := self._next(writer):
                        self._busy += 1
                        return work
                    if not self._busy:
                        break
                    # Somebody else's attempt may still fail and come back in pieces.
                    self.changed.wait(0.5)
                if self._ended or not any(self._held):
                    return None
                # Everything else is done: see what became of what other processes hold.
                self.changed.wait(WAIT_SECONDS)
                for line, held in zip(self._lines, self._held, strict=True):
                    line.extend(held)
                    held.clear()

    def _next(self, writer: int) -> Work | None:
        if self._lines[writer]:
            return self._lines[writer].popleft()
        # Generated rows have no size: then the number counts.
        line = max(self._lines, key=lambda one: (sum(work.size for work in one), len(one)))
        if not line:
            return None
        work = line.pop()
        if line or len(work.splits) == 1 or work.size < SHARED_BYTES:
            return work
        # The last one that waits: its own writer will want some of it, too. Every second split, as
        # the largest come first; of ranges, which are alike, the neighbours stay together.
        half = len(work.splits) // 2
        own, taken = work.splits[::2], work.splits[1::2]
        if work.splits[0].part is not None:
            own, taken = work.splits[:half], work.splits[half:]
        line.append(replace(work, splits=own))
        return replace(work, splits=taken)

    def join(self) -> None:
        """Count work that goes on in the background; :meth:`release` ends it."""
        with self.changed:
            self._busy += 1

    def release(self) -> None:
        """End work, done or failed."""
        with self.changed:
            self._busy -= 1
            self.changed.notify_all()

    def serial(self) -> int:
        """Return a number that no other attempt of the load has."""
        with self.changed:
            self._serial += 1
            return self._serial

    def loaded(self) -> None:
        """Note that something has become visible: what waits is worth trying."""
        with self.changed:
            self._loaded = True

    def give_up(self) -> bool:
        """Forget all that waits; return False when something is loaded, so that there is hope."""
        with self.changed:
            if self._loaded:
                return False
            for line in (*self._lines, *self._held):
                line.clear()
            return True

    def fail(self, error: BaseException) -> None:
        """Stop everything: the first reason counts."""
        with self.changed:
            self.fatal = self.fatal or error
            self.changed.notify_all()

    def stop(self) -> None:
        """Hand out nothing any more."""
        with self.changed:
            self.stopped.set()
            self.changed.notify_all()

    @property
    def _ended(self) -> bool:
        return self.stopped.is_set() or self.fatal is not None
