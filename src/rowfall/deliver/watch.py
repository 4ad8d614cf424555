"""Asks the engine while it loads, and reports twice a second: source bytes, parts, memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.events import Event, Listener, Progressed
from rowfall.core.sqltext import quote
from rowfall.engines.base import POLL_SECONDS, READ_EVENTS, SOURCE_BYTES, Engine

WATCH_LANE = 98
# Between two questions where ticks tell the bytes and only parts are asked for: each takes 6 to 12
# CPU-ms of the embedded engine, 1 % of a load of built parts when it was asked twice a second.
PARTS_SECONDS = 2.0


@dataclass(slots=True)
class _Running:
    """The progress of one statement; ``limit``: stored bytes that it reads at most, if known."""

    limit: int | None
    rows: int = 0
    stored: int = 0
    reports_bytes: bool = False  # its ticks hold the bytes that it has read

    def reads(self, stored: int) -> None:
        # Never back: where several statements feed one, those that have ended are not seen.
        most = stored if self.limit is None else min(stored, self.limit)
        self.stored = max(self.stored, most)


class TotalProgress:
    """Adds up the progress of several engines that work on one load."""

    def __init__(self, emit: Listener) -> None:
        self._emit = emit
        self._guard = threading.Lock()
        self._last: dict[int, Progressed] = {}

    def part(self, number: int) -> Listener:
        """Return the listener of one engine."""

        def listen(event: Event) -> None:
            if isinstance(event, Progressed):
                event = self._sum(number, event)
            self._emit(event)

        return listen

    def _sum(self, number: int, progressed: Progressed) -> Progressed:
        with self._guard:
            self._last[number] = progressed
            every = list(self._last.values())
        stored = [p.bytes for p in every]
        return Progressed(
            sum(p.rows for p in every),
            None if None in stored else sum(b or 0 for b in stored),
            sum(p.parts for p in every),
            max(p.memory for p in every),
            max(p.seconds for p in every),
            max(p.away for p in every),
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
        self._running: dict[str, _Running] = {}
        self._parts = 0
        self._away_since: float | None = None
        self._stop = threading.Event()
        self._guard = threading.Lock()
        # Events come in the order in which they were counted: rows would go back otherwise.
        self._telling = threading.RLock()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # The question may be waiting for an engine that is busy ending; it is a daemon.
        self._thread.join(timeout=POLL_SECONDS)

    def ticker(self, query_id: str, limit: int | None) -> Callable[[Mapping[str, int]], None]:
        """Return a receiver of ticks of a statement that reads at most ``limit`` stored bytes."""

        mine = _Running(limit)
        with self._guard:
            self._running[query_id] = mine

        def tick(progress: Mapping[str, int]) -> None:
            with self._guard:
                # A server that cannot be asked says nothing: what it has read is read all the same.
                mine.rows = max(mine.rows, int(progress.get("read_rows", 0)))
                # sent_bytes: what a program beside the engine has read.
                reports_bytes = [
                    int(progress[k]) for k in (SOURCE_BYTES, "sent_bytes") if k in progress
                ]
                if reports_bytes:
                    mine.reports_bytes = True
                    mine.reads(max(reports_bytes))
            self._emit_progress()

        return tick

    def finished(self, query_id: str, rows: int, stored: int) -> None:
        """Replace the progress of an ended statement by its exact totals."""
        with self._guard:
            self._running.pop(query_id, None)
            self._done_rows += rows
            self._done_bytes += stored
        self._emit_progress()

    def forget(self, query_id: str) -> None:
        """Count nothing of a failed statement."""
        with self._guard:
            self._running.pop(query_id, None)

    def _emit_progress(self) -> None:
        with self._telling:
            with self._guard:
                rows = self._done_rows + sum(r.rows for r in self._running.values())
                stored = self._done_bytes + sum(r.stored for r in self._running.values())
            memory, _ = self._engine.resident()
            now, since = self._clock(), self._away_since
            away = 0.0 if since is None else now - since
            self._emit(Progressed(rows, stored, self._parts, memory, now - self._begin, away))

    def _poll(self) -> None:
        asked = self._begin
        while not self._stop.wait(POLL_SECONDS):
            with self._guard:
                silent = not all(r.reports_bytes for r in self._running.values())
            pause = self._engine.pause if silent else max(self._engine.pause, PARTS_SECONDS)
            if (now := self._clock()) - asked >= pause - POLL_SECONDS / 2:
                asked = now
                # An engine that just died is the business of those who load, not of the watch; it
                # only tells people that nothing moves because a server is away.
                try:
                    self._ask_once()
                    self._away_since = None
                except (RowfallError, ValueError, OSError):
                    if self._engine.shared and self._away_since is None:
                        self._away_since = now
            with suppress(RowfallError, ValueError, OSError):
                self._emit_progress()

    def _ask_once(self) -> None:
        with self._guard:
            silent = {f"/* {i} */": r for i, r in self._running.items() if not r.reports_bytes}
        wanted = [stored_bytes("/* ")] if silent else []
        if self._tables is not None:
            database, prefixes = self._tables
            match = " OR ".join(f"startsWith(table, {quote(p)})" for p in prefixes)
            wanted.append(
                f"SELECT '', count() FROM system.parts WHERE active AND rows > 0 "
                f"AND database = {quote(database)} AND ({match})"
            )
        # Where the decoder reads for a database, no engine runs, and none is started to say so.
        if not wanted or self._engine.idle:
            return
        # In one: a question costs 2 ms of CPU for the statement, not for what it asks for.
        for query, found in self._ask(" UNION ALL ".join(wanted)):
            if not query:
                self._parts = int(found)
            for mark, running in silent.items():
                if query.startswith(mark):
                    with self._guard:
                        running.reads(int(found))

    def _ask(self, text: str) -> list[list[Any]]:
        # Not into the log of a server: two lines a second would drown everybody else's.
        return self._engine.ask(text, {"log_queries": 0}, lane=WATCH_LANE)


def stored_bytes(mark: str) -> str:
    """Return a SELECT of running statements that begin with ``mark`` and the bytes each has read.

    For an engine of our own, whose statements have their id as a comment in front.
    """
    counters = " + ".join(f"ProfileEvents[{quote(event)}]" for event in READ_EVENTS)
    return (
        f"SELECT substring(query, 1, 80), {counters} FROM system.processes "
        f"WHERE startsWith(query, {quote(mark)})"
    )
