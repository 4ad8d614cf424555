"""Looks at the engine twice a second while it loads: source bytes, parts, memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from rowfall.engines.base import Engine
from rowfall.errors import RowfallError
from rowfall.events import Listener, Progressed
from rowfall.publish import ask
from rowfall.sqltext import quote

# Often enough for a steady line; each look costs the engine about a millisecond.
EVERY_SECONDS = 0.5
WATCH_LANE = 98
# Which counters hold bytes as stored, by how the engine reads.
_READ_EVENTS = (
    "ReadBufferFromFileDescriptorReadBytes",
    "ReadBufferFromS3Bytes",
    "ReadWriteBufferFromHTTPBytes",
)


class Watch:
    """Turns ticks of running statements into :class:`Progressed` events for the whole load.

    Args:
        tables: (database, name prefix) whose parts are counted, None when there are none.
    """

    def __init__(
        self,
        engine: Engine,
        emit: Listener,
        tables: tuple[str, Sequence[str]] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._emit = emit
        self._tables = tables
        self._clock = clock
        self._begin = clock()
        self._done_rows = 0
        self._done_bytes = 0
        self._running: dict[str, tuple[int, int]] = {}
        self._parts = 0
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # The look may be waiting for an engine that is busy ending; it is a daemon.
        self._thread.join(timeout=EVERY_SECONDS)

    def ticker(self, query_id: str, limit: int | None) -> Callable[[Mapping[str, int]], None]:
        """A tick receiver for one statement that reads at most ``limit`` stored bytes."""

        def tick(progress: Mapping[str, int]) -> None:
            with self._guard:
                _, stored = self._running.get(query_id, (0, 0))
                self._running[query_id] = (int(progress.get("read_rows", 0)), stored)
            self._tell()

        self._limits = {**getattr(self, "_limits", {}), query_id: limit}
        return tick

    def finished(self, query_id: str, rows: int, stored: int) -> None:
        """A statement has ended: its exact totals replace what was seen of it."""
        with self._guard:
            self._running.pop(query_id, None)
            self._done_rows += rows
            self._done_bytes += stored
        self._tell()

    def forget(self, query_id: str) -> None:
        """A statement failed: what it had read does not count."""
        with self._guard:
            self._running.pop(query_id, None)

    def _tell(self) -> None:
        with self._guard:
            rows = self._done_rows + sum(r for r, _ in self._running.values())
            stored = self._done_bytes + sum(b for _, b in self._running.values())
        memory, _ = self._engine.resident()
        self._emit(Progressed(rows, stored, self._parts, memory, self._clock() - self._begin))

    def _look(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            # An engine that just died is the executor's business, not the watch's.
            with suppress(RowfallError, ValueError, OSError):
                self._look_once()
                self._tell()

    def _look_once(self) -> None:
        counters = " + ".join(f"ProfileEvents[{quote(e)}]" for e in _READ_EVENTS)
        for query, stored in ask(
            self._engine,
            f"SELECT substring(query, 1, 80), {counters} FROM system.processes "
            "WHERE startsWith(query, '/* ')",
            lane=WATCH_LANE,
        ):
            with self._guard:
                for query_id, (rows, _) in self._running.items():
                    if query.startswith(f"/* {query_id} */"):
                        limit = self._limits.get(query_id)
                        seen = int(stored) if limit is None else min(int(stored), limit)
                        self._running[query_id] = (rows, seen)
        if self._tables is not None:
            database, prefixes = self._tables
            match = " OR ".join(f"startsWith(table, {quote(p)})" for p in prefixes)
            ((self._parts,),) = ask(
                self._engine,
                f"SELECT count() FROM system.parts WHERE active AND rows > 0 "
                f"AND database = {quote(database)} AND ({match})",
                lane=WATCH_LANE,
            )
