"""Pushes rows to a server: several HTTP streams at once, each an INSERT with its own query id.

A stream that fails ends the others, and its error is the attempt's. Nothing is repeated here:
the staging table of a failed attempt is dropped by whoever made it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from rowfall.cluster.writer import Writer
from rowfall.contracts.delivery import DeliveryOrder
from rowfall.contracts.destination import Session
from rowfall.contracts.facts import LoadFacts
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError, UsageError
from rowfall.core.listing import Split
from rowfall.core.model import Column, Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.deliver.streams import (
    POLL_SECONDS,
    BlockStream,
    FileStream,
    StdinStream,
    Stream,
    Values,
    file_pieces,
    local_select,
    local_settings,
    odd_header,
    padded,
    piece_size,
)  # fmt: skip
from rowfall.deliver.watch import WATCH_LANE, stored_bytes
from rowfall.engines.base import SOURCE_BYTES, Engine, Tick
from rowfall.plan import statements
from rowfall.plan.transport import SentAs, sent_as
from rowfall.schema.projection import Scan
from rowfall.schema.text.headers import Headers
from rowfall.schema.text.whole_rows import raw_settings
from rowfall.sources.compression import compression_of
from rowfall.systems.clickhouse.codes import QUERY_WAS_CANCELLED
from rowfall.systems.clickhouse.embedded import Embedded

# Every stream ticks twice a second; the local engine is asked once for all of them.
ASK_SECONDS = 0.4
# Killing waits for a block of work to end; a server that does not answer is left alone after it.
STOP_SECONDS = 60.0
_LANES = 1000  # of the streams, clear of all others


class StoppedError(Exception):
    """Raised inside a body whose attempt has been ended."""


@dataclass(frozen=True, slots=True)
class Insert:
    """The INSERTs of one attempt.

    Attributes:
        staging: the table that gets the rows.
        settings: of each stream's INSERT, so with its share of cores and memory.
        attempt: streams get the query ids ``<attempt>_0``, ``<attempt>_1``, ...
        most_streams: at once; None for as many as there are.
    """

    staging: SqlText
    settings: Values
    attempt: str
    most_streams: int | None = None


class Pusher:
    """Sends the rows of attempts to one server.

    Args:
        streams: INSERTs at once.
        reader: gives a local engine in memory; asked for only where rows go as blocks. It stays
            the caller's. None: there is none.
        packed: its blocks are compressed.
    """

    def __init__(
        self, server: Engine, *, streams: int, reader: Callable[[], Embedded] | None,
        number: int = 0, packed: bool = False,
    ) -> None:  # fmt: skip
        self.streams = max(1, streams)
        # Lanes of the engine that reads are shared with the pushers of other servers.
        self._first_lane = _LANES + number * self.streams
        self._server = server
        self._reader = reader
        self._packed = packed
        self._running: dict[str, _PushedAttempt] = {}

    def insert(
        self, scan: Scan, into: Insert, on_tick: Tick | None = None, *, here: bool = False
    ) -> Outcome:
        """Send all rows of a scan into a table that is there.

        Args:
            on_tick: called from several threads in turn, with ``read_rows``, ``read_bytes``,
                ``written_rows`` and ``sent_bytes`` (of the bodies) of all streams together.
            here: see :func:`rowfall.plan.transport.sent_as`.

        Returns:
            The sums; ``seconds`` is wall time, ``peak_memory`` that of as many statements as run
            at once, ``cpu_seconds`` and ``events`` are the server's.

        Raises:
            RowfallError: what the first stream that failed said; all others have ended.
            EngineError: code 394, after :meth:`kill`.
            UsageError: blocks are needed and there is no local engine.
        """

        def streams(run: _PushedAttempt) -> Iterator[Stream]:
            once = not scan.source.replayable
            sends = sent_as(scan.splits, scan.encoding, scan.schema, stream=once, here=here)
            return self._pieces(run, sends, scan, into)

        return self._perform(into, streams, on_tick)

    def insert_selects(
        self, selects: Sequence[Statement], columns: Sequence[Column], into: Insert,
        on_tick: Tick | None = None,
    ) -> Outcome:  # fmt: skip
        """Send what SELECTs of the local engine give, each as a stream of blocks.

        Args:
            columns: of the table, as the SELECTs give them.

        Raises:
            RowfallError: see :meth:`insert`.
        """

        def streams(run: _PushedAttempt) -> Iterator[Stream]:
            text = statements.insert_sent_blocks(into.staging, columns)
            for select in selects:
                insert = Statement(text, into.settings)
                yield BlockStream(run, self._engine(), select, insert, packed=self._packed)

        return self._perform(into, streams, on_tick)

    def kill(self, attempt: str) -> None:
        """End every stream of an attempt; returns when they have ended, or after 60 s."""
        run = self._running.get(attempt)
        if run is not None:
            run.stop()

    def _perform(
        self,
        into: Insert,
        streams: Callable[[_PushedAttempt], Iterator[Stream]],
        on_tick: Tick | None,
    ) -> Outcome:
        run = self._running[into.attempt] = _PushedAttempt(
            self._server, into.attempt, on_tick, self._first_lane
        )
        try:
            return run.perform(streams(run), self._most(into))
        finally:
            del self._running[into.attempt]

    def _most(self, into: Insert) -> int:
        """Return the streams of an attempt at once."""
        return min(self.streams, into.most_streams or self.streams)

    def _pieces(
        self, run: _PushedAttempt, delivery: SentAs, scan: Scan, into: Insert
    ) -> Iterator[Stream]:
        """Give what there is to send, found while it is sent: cutting reads ahead."""
        source, encoding, schema = scan.source, scan.encoding, scan.schema
        staging, settings = into.staging, into.settings
        left = list(delivery.blocks)
        if delivery.raw and encoding is not None:
            text = statements.insert_raw(staging, encoding, schema)
            insert = Statement(text, raw_settings(settings))
            if not source.replayable:
                yield StdinStream(run, source, encoding, insert)
                return
            every = piece_size(delivery.raw, self.streams)
            for split in delivery.raw:
                odd = odd_header(source, split, encoding, schema.reads)
                if odd or padded(source, split, encoding):
                    left.append(split)  # the local engine reads it, or says what is wrong
                    continue
                packed = compression_of(split.uri, encoding)
                for piece in file_pieces(split, encoding, settings, every):
                    yield FileStream(run, split.uri, piece, packed, insert)
        if not left:
            return
        engine, columns = self._engine(), schema.columns
        # One stream counts the rows of --limit, as they are selected here.
        count = 1 if schema.limit else min(self._most(into), len(left))
        local = local_settings(settings, encoding, schema.reads, engine.facts, count)
        insert = Statement(statements.insert_sent_blocks(staging, columns), settings)
        if schema.limit:
            local |= {"max_threads": 1}
        elif schema.projection is not None:
            insert = Statement(statements.insert_decoded_blocks(staging, schema), settings)
        for number in range(count):
            # The server selects: so all rows that are read here have to arrive there.
            query = local_select(replace(scan, splits=left[number::count]))
            select = Statement(query, local)
            exact = not schema.limit  # rows behind the last one may have been read, too
            yield BlockStream(run, engine, select, insert, packed=self._packed, exact=exact)

    def _engine(self) -> Embedded:
        if self._reader is None:
            raise UsageError("these rows can be sent only by an engine that reads them here")
        return self._reader()


class _PushedAttempt:
    """The streams of one attempt: starts, counts, and ends them together."""

    def __init__(self, server: Engine, name: str, on_tick: Tick | None, first_lane: int) -> None:
        self.server = server
        self._first_lane = first_lane
        self._name = name
        self._on_tick = on_tick
        self._stopped = threading.Event()
        self._taking = threading.Lock()
        self._changed = threading.Condition()  # guards all that follows
        self._error: BaseException | None = None
        self._count = 0
        self._running: dict[str, Stream] = {}
        self._seen: dict[str, Mapping[str, int]] = {}
        self._sent = 0
        self._outcomes: list[Outcome] = []
        self._ticking = threading.Lock()

    def perform(self, streams: Iterator[Stream], most: int) -> Outcome:
        """Run all streams, at most so many at once. Raises the first error."""
        started = time.monotonic()
        workers = [
            threading.Thread(target=self._work, args=(streams, self._first_lane + n), daemon=True)
            for n in range(most)
        ]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():  # a join without timeout would keep Ctrl-C waiting
                    worker.join(POLL_SECONDS)
        except BaseException:
            self.stop()
            raise
        if self._error is not None:
            raise self._error
        if self._stopped.is_set():
            raise EngineError("the attempt has been ended", code=QUERY_WAS_CANCELLED)
        return self._sum(time.monotonic() - started, most)

    def _work(self, streams: Iterator[Stream], lane: int) -> None:
        query_id = ""
        try:
            while True:
                with self._taking:  # an iterator runs in one thread at a time
                    stream = None if self._stopped.is_set() else next(streams, None)
                if stream is None:
                    return
                with self._changed:
                    query_id = f"{self._name}_{self._count}"
                    self._count += 1
                    self._running[query_id] = stream
                outcome = stream.send(query_id, lane)
                with self._changed:
                    self._outcomes.append(outcome)
                    self._seen[query_id] = _progress(outcome)
                    self._running.pop(query_id)
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._running.pop(query_id, None)
                self._changed.notify_all()
                if self._stopped.is_set():
                    return  # a consequence
                self._error = error
            self.stop()

    def stop(self) -> None:
        """End all streams and wait for it."""
        self._stopped.set()
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            with self._changed:
                running = dict(self._running)
            if not running:
                return
            # Again and again: a small body may be out before the server knows the statement.
            for query_id, stream in running.items():
                threading.Thread(target=stream.kill, args=(query_id,), daemon=True).start()
            with self._changed:
                self._changed.wait_for(lambda: not self._running, 1.0)

    def check(self) -> None:
        """Raise StoppedError once the attempt has been ended."""
        if self._stopped.is_set():
            raise StoppedError

    def sending(self, body: Iterator[bytes]) -> Iterator[bytes]:
        """Give ``body``, counted, and ended with the attempt."""
        for data in body:
            self.check()
            yield data
            with self._changed:
                self._sent += len(data)

    def ticker(self, query_id: str) -> Tick:
        """Return the receiver of the ticks of one stream."""

        def tick(progress: Mapping[str, int]) -> None:
            with self._changed:
                self._seen[query_id] = dict(progress)
                total = Counter({"sent_bytes": self._sent})
                for seen in self._seen.values():
                    total.update(seen)
            if self._on_tick is not None:
                with self._ticking:
                    self._on_tick(total)

        return tick

    def _sum(self, seconds: float, most: int) -> Outcome:
        events: Counter[str] = Counter()
        for outcome in self._outcomes:
            events.update(outcome.events)
        peaks = sorted((o.peak_memory for o in self._outcomes), reverse=True)
        return Outcome(
            rows_read=sum(o.rows_read for o in self._outcomes),
            rows_written=sum(o.rows_written for o in self._outcomes),
            bytes_read=sum(o.bytes_read for o in self._outcomes),
            seconds=seconds,
            cpu_seconds=sum(o.cpu_seconds for o in self._outcomes),
            peak_memory=sum(peaks[:most]),
            events=events,
        )


def _progress(outcome: Outcome) -> Mapping[str, int]:
    return {
        "read_rows": outcome.rows_read,
        "read_bytes": outcome.bytes_read,
        "written_rows": outcome.rows_written,
    }


class Push:
    """Rows that only this machine can read are sent over several connections."""

    def __init__(
        self, pusher: Pusher, session: Session, facts: LoadFacts, writer: Writer,
        headers: Headers | None = None,
    ) -> None:  # fmt: skip
        self._pusher = pusher
        self._headers = headers
        self._session = session
        self._facts = facts
        self._writer = writer

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        session, facts = self._session, self._facts
        on_tick = _Reading(session.reader, facts, order).over(on_tick)
        into = self._writer.target.into(order.staging, order.schema)
        # A row that waits in the server's queue would be missing when staging is counted.
        settings = self._writer.engine.facts.known({**order.settings, "async_insert": 0})
        insert = Insert(into, settings, order.attempt, order.most_streams)
        if order.select is not None:
            select = Statement(order.select, session.reader.facts.known(order.settings))
            return self._pusher.insert_selects([select], order.schema.columns, insert, on_tick)
        scan = Scan(facts.source, order.splits, facts.encoding, order.schema, self._headers)
        return self._pusher.insert(scan, insert, on_tick, here=order.engine_reads)

    def kill(self, attempt: str) -> None:
        self._pusher.kill(attempt)


class _Reading:
    """Adds the bytes of the source to the ticks of a push.

    They are what was sent of files that go as they are, and what the local engine has read of the
    others.
    """

    def __init__(self, reader: Engine, facts: LoadFacts, order: DeliveryOrder) -> None:
        self._reader = reader
        self._mark = f"/* {order.attempt}_"
        self._stored: dict[str, int] = {}
        self._asked = 0.0
        once = not facts.source.replayable
        raw: Sequence[Split] = ()
        if order.select is None:
            raw = sent_as(
                order.splits, facts.encoding, order.schema, stream=once, here=order.engine_reads
            ).raw
        sizes = [split.size for split in raw]
        # Of a stream nobody knows the size: all that is sent counts.
        self._raw = None if None in sizes else sum(size or 0 for size in sizes)
        self._blocks = len(raw) < len(order.splits)

    def over(self, on_tick: Tick) -> Tick:
        def tick(progress: Mapping[str, int]) -> None:
            sent = progress.get("sent_bytes", 0)
            stored = sent if self._raw is None else min(sent, self._raw)
            if self._blocks:
                stored += self._read_here()
            on_tick({**progress, "sent_bytes": 0, SOURCE_BYTES: stored})

        return tick

    def _read_here(self) -> int:
        if time.monotonic() - self._asked > ASK_SECONDS:
            self._asked = time.monotonic()
            with suppress(RowfallError):
                self._stored |= {
                    query.split(" */")[0]: int(size)
                    for query, size in self._reader.ask(stored_bytes(self._mark), lane=WATCH_LANE)
                }
        return sum(self._stored.values())
