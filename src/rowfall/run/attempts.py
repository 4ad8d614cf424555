"""Run the attempts of a load: workers take work from a queue, one attempt after the other.

:meth:`AttemptRunner.attempt` is one attempt from its lease to the drop of its staging, in the order
of the table in ``docs/concepts/exactly-once.md``; what happens when it fails is
:meth:`AttemptRunner._failed`. The INSERT of the next attempt runs while the one before is counted
and attached: that work is the engine's locks and the disk, not its cores.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace

from rowfall.contracts.delivery import Delivery, DeliveryOrder
from rowfall.contracts.destination import Gauge, LoadRun, PreparedLoad, ReceiverInputs
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Amounts, Counts, Done, Tries
from rowfall.contracts.receiver import (
    Counted,
    CountError,
    Notes,
    Receiver,
    Revivals,
    StagedAttempt,
    first_line,
)
from rowfall.core import retry, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    DataError,
    EngineError,
    Interrupted,
    LockLostError,
    MemoryOverrunError,
    ObjectChangedError,
    RecordTooLongError,
    RowfallError,
    SourceError,
    SourceGoneError,
    TargetError,
    UnclosedQuoteError,
    UsageError,
)
from rowfall.core.events import (
    AttemptEnded,
    AttemptPublished,
    AttemptStarted,
    Listener,
    Retried,
    SplitFailed,
)
from rowfall.core.listing import Split
from rowfall.core.load_command import with_target
from rowfall.core.model import ENGINE, PULL, PUSH, Kind, Outcome, Plan, Schema, Setting
from rowfall.core.options import FILTER
from rowfall.core.results import AttemptRecord, Failure
from rowfall.core.signals import GO_ON, check_stopped, undisturbed
from rowfall.decoder import rewriting
from rowfall.decoder.process import DecoderFailure
from rowfall.deliver.decode import DeclinedError
from rowfall.deliver.route import sending_since
from rowfall.deliver.watch import TotalProgress, Watch
from rowfall.engines.database import RefusedRowError, RolledBackError
from rowfall.ledger.leases import Lease, Ownership
from rowfall.plan.settings import lower
from rowfall.publish.protocol import AttemptProgress, Step
from rowfall.run.pieces import OutputPieces, piece_name
from rowfall.run.pieces import select as select_pieces
from rowfall.run.steering import Steering
from rowfall.run.work_queue import OutputPiece, Work, WorkQueue
from rowfall.schema import avro_blocks
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.bad_rows.declined_rows import declined_row
from rowfall.schema.bad_rows.rejects import BadRows, TooManyBadRowsError
from rowfall.schema.text import long_records, open_quotes
from rowfall.schema.types import strict_reading
from rowfall.sources.base import Queried, Source, Streamed, Unreadable
from rowfall.sources.compression import compression_of
from rowfall.stores.objects import ObjectSource
from rowfall.systems.clickhouse.codes import (
    BROKEN_OFF,
    DATA_CODES,
    GONE,
    LIBRARY_ERROR,
    MEMORY_LIMIT,
    QUERY_WAS_CANCELLED,
    SOCKET_TIMEOUT,
    broken_off,
    is_one_value,
)
from rowfall.systems.clickhouse.prestart import is_installed

# Ctrl-C must be answered within two seconds: one for a polite KILL, then the engine is left.
POLITE_SECONDS = 1.0
FIRST_LANE = 100
# The engine quotes whole buffers of data in some messages; a page is enough for anybody.
MOST_TEXT = 2_000
# One thread, so that rows are sent as they stand in the file.
IN_ORDER = {"max_threads": 1, "max_insert_threads": 1, "input_format_parallel_parsing": 0}
# What a process meets whose lease another one has ended, and whose staging tables it has taken.
LEASE_LOST_CODES = GONE | {QUERY_WAS_CANCELLED}


class ChangedError(SourceError):
    """Objects that are not what was listed, each with what happened to it."""

    def __init__(self, changed: Sequence[tuple[Split, str]]) -> None:
        super().__init__("the source changed during the load")
        self.changed = changed


class OtherColumnsError(ChangedError):
    """Objects whose columns are not those of the load, each with what differs."""


class NullListsError(ChangedError):
    """Objects with lists or maps that are NULL, each with the columns that hold them."""


def run_attempts(load: LoadRun, facts: LoadFacts, plan: Plan, prepared: PreparedLoad) -> Done:
    """Load every group of a plan. What stops everything is in the result, not raised."""
    session = load.session
    queue = WorkQueue(len(session.writers), load.ledger.attempts(load.id))
    notes = Notes(session.emit)
    pulled = facts.source_for(plan.transport)
    bad_rows = BadRows(session.source, plan, session.reader, session.options, pulled)
    progress = TotalProgress(load.emit)
    # What all shards read at the same time, one runner carries out.
    writers = session.writers
    if plan.transport.sharding.value == FILTER:
        writers = writers[:1]
    runners = []
    deliveries = [prepared.delivery(facts, plan, writer) for writer in writers]
    for writer, delivery in zip(writers, deliveries, strict=True):
        given = ReceiverInputs(load, plan, writer, notes, Revivals(notes), queue.stopped)
        runners.append(AttemptRunner(
            given, prepared.receiver(given), delivery=delivery, bad_rows=bad_rows, queue=queue,
            emit=progress.part(writer.number),
        ))  # fmt: skip
    started, engine_cpu = time.monotonic(), session.engine.cpu_seconds()
    cpu_here = session.cpu_seconds_here()
    if not any(group.indexes for group in plan.work.groups):
        notes.add("info", _why_nothing(session.source, plan, written=facts.export is not None))
    problem = None
    try:
        _fill(queue, plan, session.target_key)
        _run_all(runners, queue)
    except RowfallError as error:
        problem = prepared.cause(error)
    since = sending_since(deliveries[0], started)
    if since > started:
        filled = f"buffers were filled in {units.duration(since - started)} before (--prefill)"
        notes.add("info", f"the clock starts with the first byte that was sent: {filled}")
        started = since
    return Done(
        tuple(runner.counts for runner in runners), runners[0].sent, tuple(notes.texts),
        problem, started, engine_cpu, cpu_here,
        tuple(step for runner in runners for step in runner.steering.steps),
    )  # fmt: skip


def _why_nothing(source: Source, plan: Plan, *, written: bool) -> str:
    listing = plan.listing
    if not len(listing) or listing.total_rows == 0:
        return f"nothing to load: {plan.source} is empty"
    if written:
        # Versions of files show that they were changed; what a query gives, and rows of databases
        # that were changed or removed, have none.
        then = ""
        if isinstance(source, Queried):
            then = " as it was read then, and what has changed there since may not show"
        return f"nothing to do: {plan.to.text} holds all of it{then} (--replace writes it again)"
    one, unit = len(listing) == 1, listing.unit
    what = f"the {unit} is" if one else f"all {len(listing):,} {unit}s are"
    return f"nothing to load: {what} loaded already (--force loads {'it' if one else 'them'} again)"


def _fill(queue: WorkQueue, plan: Plan, key: str) -> None:
    """Put what a plan wants loaded into the lines of its writers.

    Args:
        key: the target key that split ids are made with.
    """
    for number, group in enumerate(plan.work.groups):
        if group.indexes:
            splits = list(plan.listing.splits(key, group.indexes))
            queue.put(group.writer, Work(number, splits))


def _run_all(runners: Sequence[AttemptRunner], queue: WorkQueue) -> None:
    """Let runners empty the queue.

    The main thread only waits, so Ctrl-C is answered whatever they do.

    Raises:
        Interrupted: Ctrl-C; what was running is dropped, the ledger can go on.
        RowfallError: target or ledger failed, or an engine cannot be kept alive.
    """
    with ExitStack() as stack:
        try:
            # Of workers that are being started some would go on, and nobody would end them.
            with undisturbed():
                for runner in runners:
                    runner.start()
                    stack.callback(runner.close)
            while any(runner.works for runner in runners):
                for runner in runners:
                    runner.wait(0.2)
                check_stopped()
        except KeyboardInterrupt:
            queue.stop()
            deadline = time.monotonic() + POLITE_SECONDS
            ending = [
                threading.Thread(target=runner.interrupt, args=(deadline,), daemon=True)
                for runner in runners
            ]
            for thread in ending:
                thread.start()
            for thread in ending:
                thread.join()
            raise Interrupted("interrupted", hint=GO_ON) from None
    if queue.fatal is not None:
        raise queue.fatal


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt while it runs.

    Attributes:
        staging: name of its staging table or file. ``stored``: bytes of its splits, as stored.
        marks: names of what it has begun, and when, as of ``time.monotonic``.
    """

    id: str
    work: Work
    staging: str
    stored: int
    started: float
    progress: AttemptProgress = field(default_factory=AttemptProgress)
    marks: list[tuple[str, float]] = field(default_factory=list)

    def enter(self, step: Step) -> None:
        """Go on to the next step of the protocol."""
        self.progress.enter(step)
        self.mark(step.name.lower())

    def mark(self, name: str) -> None:
        """Note when something of that name began."""
        self.marks.append((name, time.monotonic()))

    def steps(self) -> tuple[tuple[str, float], ...]:
        """Return what was marked with its seconds; the last one ends now."""
        ends = [*(at for _, at in self.marks[1:]), time.monotonic()]
        return tuple((name, end - at) for (name, at), end in zip(self.marks, ends, strict=True))

    def delivered(self, outcome: Outcome) -> StagedAttempt:
        """Return the attempt as receivers know it."""
        work = self.work
        return StagedAttempt(
            self.id, self.staging, work.number, work.splits, work.rows, outcome, work.skips_bad_rows
        )


class AttemptRunner:
    """Carries out the attempts of one writer.

    Args:
        given: what the ``receiver`` was made of, too.
        bad_rows: finds the rows behind an error of the engine.
        queue: of the load; runners of other writers may take from it, too.
        emit: of the progress of this writer.
    """

    def __init__(
        self, given: ReceiverInputs, receiver: Receiver, *, delivery: Delivery, bad_rows: BadRows,
        queue: WorkQueue, emit: Listener,
    ) -> None:  # fmt: skip
        load = given.load
        self._given, self._receiver, self._load_id = given, receiver, load.id
        self._source, self._delivery, self._bad_rows = load.session.source, delivery, bad_rows
        self.queue, self._writer, self._emit = queue, given.writer, emit
        self.steering = Steering(_gauge(given), load.emit, given.stopped, given.writer.node)
        options = load.session.options
        self._longest, self._verify = units.parse_size(options.max_record), options.verify
        self._patience = units.parse_duration(options.patience)
        self._notes, self._ledger, self._leases = given.notes, load.ledger, receiver.leases
        # ``sent``: as they were sent last.
        self._settings = self.sent = given.settings
        self.counts = Counts()
        self._schema: Schema = given.plan.schema
        self._pieces = OutputPieces(whole=receiver.output_files)
        self._decodes = True  # until the decoder has declined too much
        self._declined = 0
        self._declined_at: dict[str, DecoderFailure] = {}  # by the ids of splits
        self._guard = threading.Lock()
        self._running: set[str] = set()
        self._publishing: threading.Thread | None = None
        self._publish_turn = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._watch = Watch(given.writer.engine, emit, receiver.watched)

    # --- one attempt --------------------------------------------------------------------------

    def attempt(self, work: Work, lane: int) -> Iterator[bool]:
        """Carry out one attempt.

        Yields True once, when its rows are in staging: from then on the next one may be inserted.
        """
        attempt = self._start(work)
        receiver, enter = self._receiver, attempt.enter
        enter(Step.LEASE)
        if not self._lease(attempt):
            return
        try:
            self._announce(attempt)
            enter(Step.STAGE)
            receiver.stage(attempt.staging, lane)
            enter(Step.DELIVER)
            delivered = attempt.delivered(self._deliver(attempt, lane))
            attempt.mark("wait_turn")
            staged = time.monotonic()
            yield True
            began = time.monotonic()
            enter(Step.CHECK_SOURCE)
            if not work.pieces:
                self._check_source(work.splits)
                self._check_quotes(work)
            enter(Step.COUNT)
            counted = self._counted(work, delivered)
            rejected = self._reject(delivered, counted)
            if work.piece:
                self._keep(attempt, delivered, counted, rejected)
                return
            attempt.mark("wait_merges")
            receiver.wait_for_room(counted)
            enter(Step.SYNC_STAGED)
            receiver.sync(delivered)
            enter(Step.COMMIT)
            if not receiver.commit(delivered, counted):
                self._lost(attempt)
                return
            enter(Step.PUBLISH)
            written = receiver.publish(delivered, counted)
            enter(Step.SYNC_TARGET)
            receiver.sync(delivered)
            enter(Step.RECORD)
            receiver.record(delivered)
            enter(Step.DROP)
            receiver.discard(attempt.staging)
            for piece in work.pieces:
                # Open until now: after a crash the next run removes it.
                self._ledger.attempt_ended(piece.attempt, "lost", "it is a piece of an output")
            self._pieces.remove(work.pieces)
        except RowfallError as error:
            self._failed(attempt, error)
            return
        self._count(attempt, delivered, counted, rejected, written, (staged, began))

    def _start(self, work: Work) -> _Attempt:
        """Record an attempt before anything reaches the target."""
        attempt_id = f"{self._load_id}_{self.queue.serial()}"
        given = self._given
        staging = given.writer.target.staging_name(attempt_id, work.number, given.plan.encoding)
        if work.piece:
            staging = piece_name(staging, attempt_id)
        stored = 0 if work.pieces else sum(split.size or 0 for split in work.splits)
        attempt = _Attempt(attempt_id, work, staging, stored, time.monotonic())
        attempt.enter(Step.START)
        self._ledger.attempt_started(
            attempt_id, self._load_id, staging, given.load.key, work.splits
        )
        return attempt

    def _lease(self, attempt: _Attempt) -> bool:
        """Ask for the splits of an attempt.

        Returns:
            False when others hold or have loaded some: what is free is queued, the rest waits.
        """
        work = attempt.work
        lease = self._leases.lease(
            attempt.id, work.splits, self._receiver.nodes or self._writer.node
        )
        if lease.whole:
            return True
        self._leases.release(attempt.id)
        self._ledger.attempt_ended(attempt.id, "lost", "other processes hold some of its files")
        recovery = self._receiver.recovery
        if lease.lost and recovery is not None:
            recovery.end(lease.lost)
            work = self._without_kept(work, lease, recovery.kept)
        loaded = [s for s in work.splits if s.id in lease.loaded]
        if loaded:
            self._ledger.loaded_elsewhere(self._load_id, (s.id for s in loaded))
            self._add(Counts(elsewhere=len(loaded)))
        busy = [s for s in work.splits if s.id in lease.busy]
        free = [s for s in work.splits if s.id not in lease.busy and s.id not in lease.loaded]
        if busy:
            self.queue.hold(self._writer.number, replace(work, splits=busy))
        if free:
            self.queue.again(self._writer.number, replace(work, splits=free))
        return False

    def _without_kept(self, work: Work, lease: Lease, kept: Mapping[str, RowfallError]) -> Work:
        """Record that splits fail whose rows are staged and cannot become visible.

        Nobody may load them again: these rows may become visible later.

        Returns:
            The others.
        """
        why = {i: error for name, error in kept.items() for i in lease.of_lost.get(name, ())}
        self._fail([(split, why[split.id]) for split in work.splits if split.id in why])
        return replace(work, splits=[split for split in work.splits if split.id not in why])

    def _announce(self, attempt: _Attempt) -> None:
        """Emit that an attempt begins, and make sure that its files have the columns of the load.

        Raises:
            ChangedError: some have others.
        """
        splits = attempt.work.splits
        self._add(Counts(tries=Tries(attempts=1)))
        self._emit(AttemptStarted(attempt.id, len(splits), attempt.stored or None))
        others = () if attempt.work.pieces else self._bad_rows.other_types(splits)
        if others:
            raise OtherColumnsError(others)
        if nulls := () if attempt.work.pieces else self._bad_rows.null_lists(splits):
            raise NullListsError(nulls)

    def _deliver(self, attempt: _Attempt, lane: int) -> Outcome:
        """Insert the rows of an attempt into staging."""
        work, receiver = attempt.work, self._receiver
        self.sent = self.steering.applied(work.failed.settings or self._settings)
        settings = {s.name: s.value for s in self.sent}
        settings |= receiver.settings(attempt.staging)
        select = None
        if work.skips_bad_rows:
            select, lenient = self._bad_rows.select_good_rows(work.splits)
            settings |= lenient
        if work.pieces:
            select = select_pieces(work.pieces, self._schema.columns)
        order = DeliveryOrder(
            attempt.id, work.splits, receiver.insert_into(attempt.staging),
            work.schema or self._schema,
            settings, select, engine_reads=work.engine_reads or not self._decodes,
            most_refused=work.most_refused,
            most_streams=self.steering.streams(self._given.plan.transport.streams),
        )  # fmt: skip
        with self._guard:
            self._running.add(attempt.id)
        self._add(Counts(tries=Tries(query_ids=(attempt.id,))))
        try:
            tick = self._watch.ticker(attempt.id, attempt.stored or None)
            return self._delivery.insert(order, lane, tick)
        finally:
            with self._guard:
                self._running.discard(attempt.id)

    def _counted(self, work: Work, delivered: StagedAttempt) -> Counted:
        """Count what is staged of an attempt.

        Raises:
            CountError: not what was read, or not what the pieces hold that it puts together.
        """
        counted = self._receiver.count(delivered, checksum=self._verify)
        rows = sum(piece.rows for piece in work.pieces)
        if work.pieces and counted.rows != rows:
            raise CountError(
                f"{rows:,} rows are in pieces and {counted.rows:,} were written", transient=True
            )
        return counted

    def _keep(
        self, attempt: _Attempt, delivered: StagedAttempt, counted: Counted, rejected: int
    ) -> None:
        """Keep the rows of an attempt as a piece of their output, which the last one completes."""
        outcome, work = delivered.outcome, attempt.work
        self.queue.loaded()
        self._add(
            Counts(
                amounts=Amounts(rejected=rejected, raw=outcome.bytes_read, stored=attempt.stored),
                helper=outcome.helper,
            )
        )
        self._watch.finished(attempt.id, outcome.rows_read, attempt.stored)
        self._leases.release(attempt.id)
        piece = OutputPiece(attempt.id, attempt.staging, tuple(work.splits), counted.rows)
        for whole in self._pieces.add(work, piece):
            self.queue.again(self._writer.number, whole)

    def _check_source(self, splits: Sequence[Split]) -> None:
        """Make sure that the objects are still those that were listed.

        Raises:
            ChangedError: some are not.
        """
        # Ranges of rows of one file ask once; of text each range was read on its own.
        objects = {_object(split): split for split in splits}
        wrong = {_object(s): what for s, what in self._source.changed([*objects.values()])}
        changed = [(split, wrong[_object(split)]) for split in splits if _object(split) in wrong]
        if changed:
            raise ChangedError(changed)

    def _check_quotes(self, work: Work) -> None:
        """Make sure that no quote is open where a file ends that an engine has parsed.

        Raises:
            UnclosedQuoteError: one is, and the engine has taken the rest for its value.
        """
        plan, schema = self._given.plan, work.schema or self._schema
        encoding, transport = plan.encoding, plan.transport
        if encoding is None or not encoding.is_csv or encoding.dialect is not None:
            return
        refused = strict_reading.refuses_line_breaks(schema)
        decoded = transport.parser.value != ENGINE and self._decodes and not work.engine_reads
        if decoded or not self._source.replayable:
            return
        splits, engine = work.splits, self._writer.engine
        if self._is_read_by_server and self._source.remote:
            # What is packed has to be read once more as a whole, which its server does best.
            packed = [s for s in splits if compression_of(s.uri, encoding) != "none"]
            if packed and self._bad_rows.quotes_are_closed_for(packed, engine):
                splits = [s for s in splits if s not in packed]
        found = open_quotes.first(self._source, splits, encoding, self._longest, breaks=not refused)
        if found is not None:
            raise found

    def _reject(self, delivered: StagedAttempt, counted: Counted) -> int:
        """Write the bad rows that were left out into the rejects file; return how many."""
        refused, skips = delivered.outcome.refused, delivered.skips_bad_rows
        if not (skips or refused) or not counted.checked:
            return 0
        return self._bad_rows.reject(delivered.splits, counted.rows, refused, skips=skips)

    def _count(
        self, attempt: _Attempt, delivered: StagedAttempt, counted: Counted, rejected: int,
        written: int, times: tuple[float, float],
    ) -> None:  # fmt: skip
        """Count and report a published attempt.

        Args:
            written: bytes of files.
            times: when its rows were in staging, and when it was its turn to be published.
        """
        splits, outcome, (staged, began) = delivered.splits, delivered.outcome, times
        ended = time.monotonic()
        self.steering.counted(counted.rows)
        self.queue.loaded()
        record = AttemptRecord(
            attempt.id, len(splits), splits[0].name if splits else "", counted.rows,
            attempt.stored, counted.bytes + written, counted.parts,
            round(ended - attempt.started, 3), round(staged - attempt.started, 3),
            round(began - staged, 3), round(ended - began, 3), round(outcome.helper.waited, 3),
        )  # fmt: skip
        self._add(
            Counts(
                amounts=Amounts(
                    rows=counted.rows,
                    rejected=rejected,
                    stored=attempt.stored,
                    raw=0 if attempt.work.pieces else outcome.bytes_read,
                    written=counted.bytes + written,
                    parts=counted.parts,
                ),
                loaded=len(splits),
                publish_seconds=ended - began,
                helper=outcome.helper,
                loaded_ids=(tuple(s.id for s in splits),) if self._verify else (),
                shares=(counted.shares,) if len(counted.shares) > 1 else (),
                checksum=counted.checksum,
                tries=Tries(ended=(record,)),
            )
        )
        self._watch.finished(attempt.id, outcome.rows_read, attempt.stored)
        seconds = time.monotonic() - attempt.started
        self._emit(AttemptPublished(attempt.id, len(splits), counted.rows, seconds))
        self._emit(AttemptEnded(record, attempt.steps()))

    def _add(self, counts: Counts) -> None:
        with self._guard:
            self.counts += counts

    # --- what goes wrong ----------------------------------------------------------------------

    def _failed(self, attempt: _Attempt, error: RowfallError) -> None:
        """Clear away a failed attempt, and load what of it can be loaded in another attempt.

        Raises:
            RowfallError: ``error``, where another attempt may not be made or would not help.
        """
        work = attempt.work
        self._watch.forget(attempt.id)
        taken_back = isinstance(error, RolledBackError | RefusedRowError)  # by the target itself
        if not (attempt.progress.may_discard or taken_back):
            # Its rows may be visible in part: only publishing may go on, at the next run.
            raise error
        if self.queue.stopped.is_set():
            return  # the interrupt clears away; the engine may be gone already
        self._given.revivals.revive(error, self._writer.engine)
        if error.code in LEASE_LOST_CODES and self._leases.ownership(attempt.id) is Ownership.TAKEN:
            # Whoever has ended the lease has also ended the INSERT and dropped what was staged.
            self._lost(attempt)
            return
        streamed = isinstance(self._source, Streamed)
        read = isinstance(error, SourceError) or error.code in DATA_CODES or streamed
        if read and not work.pieces:
            # Half of a file that is being written, and a stream that broke, read like bad data.
            try:
                changed = self._source.changed(work.splits)
                error = ChangedError(changed) if changed else error
            except SourceError as cause:  # what a pipe has met, or the store is away
                error = cause
        if work.piece:
            OutputPiece(attempt.id, attempt.staging, (), 0).remove()
        else:
            self._receiver.discard(attempt.staging)
        self._leases.release(attempt.id)
        self._ledger.attempt_ended(attempt.id, "failed", shown(error.message))
        record = AttemptRecord(
            attempt.id, len(work.splits), work.splits[0].name if work.splits else "",
            seconds=round(time.monotonic() - attempt.started, 3), outcome="failed",
            error=shown(error.message),
        )  # fmt: skip
        self._add(Counts(tries=Tries(ended=(record,))))
        # That rowfall-decode leaves something to the engine is no error of anybody.
        exit_code = 0 if isinstance(error, DeclinedError) else error.exit_code
        self._emit(AttemptEnded(record, attempt.steps(), exit_code, error.code))
        self._again(*self._pieces.of(work, self._remedy(work, error)))

    def _remedy(self, work: Work, error: RowfallError) -> Sequence[Work]:
        """Return the attempts that replace a failed one; record the splits that are given up.

        Raises:
            RowfallError: ``error``, where nothing of this helps.
        """
        if isinstance(error, LockLostError):
            raise error  # nothing of this process may become visible any more
        if isinstance(error, SourceGoneError):
            raise error  # each of the files left would be looked for by itself
        if self._receiver.unstaged:
            return self._without(work, [(s, _half_visible(s, error)) for s in work.splits])
        if not self._source.replayable:
            # What was read of stdin is gone: another try would load the rest as if it were all.
            if error.code == MEMORY_LIMIT:
                memory = self._writer.engine.facts.memory
                error = long_records.too_large_stream(work.splits[0].name, memory)
            if error.code in DATA_CODES and not isinstance(error, DataError):
                error = data_errors.explain_engine_error(
                    error.code, error.message, work.splits[0].name
                )
            return self._without(work, [(s, error) for s in work.splits])
        if isinstance(error, RefusedRowError):
            if again := self._around_refused(work):
                return [again]
            return self._halves(work, self._bad_rows.locate(work.splits, error))
        if isinstance(error, DeclinedError):
            return self._read_by_engine(work, error)
        if not is_installed() and (told := self._declined_row(work, error)):
            return self._without(work, [told])
        if isinstance(error, MemoryOverrunError) and not error.own:
            return [work]  # whose statement it was fails, or is cut in two
        if error.code == MEMORY_LIMIT and not work.failed.lowered:
            if broken := self._too_large_blocks(work):
                return self._without(work, broken)
            error = self._too_long(work) or error
        if isinstance(error, RecordTooLongError):
            return self._halves(work, error)
        if isinstance(error, UnclosedQuoteError):
            schema = work.schema or self._schema
            skips = self._bad_rows.may_be_left_out and not work.skips_bad_rows
            if skips and strict_reading.refuses_line_breaks(schema):
                # The reader of bad rows counts the lines that the quote swallows.
                return [replace(work, skips_bad_rows=True, engine_reads=True)]
            # The engine would take all that follows the quote for one value.
            one = [s for s in work.splits if s.id == error.split_id]
            return self._without(work, [(one[0], error)]) if one else self._halves(work, error)
        if isinstance(error, NullListsError):
            return self._without(work, [(s, self._null_lists(s, n)) for s, n in error.changed])
        if isinstance(error, OtherColumnsError):
            return self._without(work, [(s, _differs(s, what)) for s, what in error.changed])
        if isinstance(error, ChangedError):
            return self._without(work, [(s, _changed(s, what)) for s, what in error.changed])
        if isinstance(error, ObjectChangedError) and work.failed.tries >= retry.MOST_TRANSIENT:
            return self._halves(work, error)  # it says which object only to people
        if error.code == MEMORY_LIMIT and work.failed.lowered < retry.MOST_LOWERED:
            self._notes.add(
                "warning",
                "out of memory: blocks are made smaller, and the files are tried once more",
            )
            self.sent = lower(work.failed.settings or self._settings)
            return [replace(work, failed=work.failed.lower(self.sent))]
        if isinstance(error, MemoryOverrunError) or (self._typed and is_one_value(error)):
            return self._halves(work, error)
        if error.code != MEMORY_LIMIT:
            if work.pieces and error.code in DATA_CODES:
                # Their rows have been read; the format cannot hold them.
                return self._without(work, [(s, error) for s in work.splits])
            if self._is_sent_as_it_is(work, error):
                self._notes.add("info", f"{first_line(error)}; the engine here reads it instead")
                return [replace(work, engine_reads=True)]
            if error.code in DATA_CODES or isinstance(error, DataError):
                return self._bad_data(work, error)
            if error.code == LIBRARY_ERROR and self._typed:
                return self._halves(work, error)
            if error.transient and self._may_try(work, error):
                self._notes.add("warning", f"{first_line(error)}; trying again")
                time.sleep(max(retry.pause(work.failed.tries + 1), error.ask_after or 0.0))
                return [replace(work, failed=replace(work.failed, tries=work.failed.tries + 1))]
            if self._broke_off(error):
                return self._halves(work, error)
            if isinstance(error, SourceError) and not error.transient:
                return self._halves(work, error)
            if isinstance(error, SourceError):
                # One that breaks off again and again takes no other with it.
                about = [s for s in work.splits if s.uri == error.object] or work.splits
                return self._without(work, [(s, error) for s in about])
        raise error

    def _may_try(self, work: Work, error: RowfallError) -> bool:
        """Tell whether another try is due: a few, or until patience ends where a server is busy."""
        tries = work.failed.tries
        if error.code == SOCKET_TIMEOUT and self._broke_off(error):
            return (tries + 1) * retry.HUNG_SECONDS < self._patience
        waits = error.ask_after is not None and retry.waited(tries + 1) <= self._patience
        return waits or tries < retry.MOST_TRANSIENT

    def _broke_off(self, error: RowfallError) -> bool:
        """Tell whether the engine here could not read an object far away to its end."""
        far = isinstance(self._source, ObjectSource) and self._source.remote
        return far and error.code in BROKEN_OFF and self._given.plan.to.placement == "embedded"

    @property
    def _typed(self) -> bool:
        encoding = self._given.plan.encoding
        return encoding is not None and encoding.kind is Kind.TYPED

    @property
    def _is_read_by_server(self) -> bool:
        """Tell whether a server fetches and reads files by itself."""
        plan = self._given.plan
        return plan.transport.delivery.value == PULL and plan.to.placement != "embedded"

    def _is_sent_as_it_is(self, work: Work, error: RowfallError) -> bool:
        """Tell whether a file with types has failed that an older server was to read by itself.

        The reader here knows newer ones (halves of floats, BYTE_STREAM_SPLIT), and names a value.
        """
        if work.engine_reads or work.skips_bad_rows or not self._typed:
            return False
        pushed = self._given.plan.transport.delivery.value == PUSH
        return pushed and (error.code == LIBRARY_ERROR or error.code in DATA_CODES)

    def _too_long(self, work: Work) -> RecordTooLongError | None:
        """Return the error about a record that is too long for any memory; None where none is."""
        encoding = self._given.plan.encoding
        return long_records.find(self._source, work.splits, encoding, self._longest)

    def _too_large_blocks(self, work: Work) -> list[tuple[Split, RowfallError]]:
        """Return the errors about Avro files of which a block takes more memory than there is."""
        encoding, source = self._given.plan.encoding, self._source
        if encoding is None or encoding.format != "Avro" or not isinstance(source, ObjectSource):
            return []
        memory = self._given.load.session.reader.memory
        # The block, a value of it, and the column that holds this.
        return avro_blocks.too_large(source, work.splits, memory, memory // 4)

    def _null_lists(self, split: Split, names: str) -> DataError:
        """Return the error about lists or maps that are NULL in some columns of a file."""
        empty = self._bad_rows.takes_empty_lists(split)
        return DataError(
            f"{split.name} was refused: a list or a map in {names} is NULL, and the table has no "
            "NULL for it",
            uri=split.uri,
            hint=data_errors.EMPTY_LISTS if empty else data_errors.CORRECT,
        )

    def _too_large(self, split: Split) -> SourceError:
        """Return the error about an object of which one value takes more memory than there is."""
        most = units.memory(self._writer.engine.facts.memory)
        return SourceError(
            f"{split.name}: one value, block or page of it takes more memory than --memory allows "
            f"({most})",
            hint="Give more with --memory, or write the file with smaller ones.",
            code=MEMORY_LIMIT,
        )

    def _around_refused(self, work: Work) -> Work | None:
        """Return the attempt again, leaving out rows that the database refuses; None if it may not.

        Only an attempt of one file, read in order: the database counts the rows.
        """
        alone = len(work.splits) == 1 and work.most_refused is None
        if not alone or not self._bad_rows.may_be_left_out or self._given.plan.encoding is None:
            return None
        if not self._receiver.skips_refused_rows:
            return None
        settings = {s.name: s for s in work.failed.settings or self._settings}
        for name, value in IN_ORDER.items():
            settings[name] = Setting(name, value, "rows that are refused are counted", routine=True)
        return replace(
            work, most_refused=self._bad_rows.most_left, engine_reads=True,
            failed=replace(work.failed, settings=tuple(settings.values())),
        )  # fmt: skip

    def _read_by_engine(self, work: Work, error: DeclinedError) -> Sequence[Work]:
        """Let the engine, which has the last word, read what the decoder declined."""
        split, alone = error.split, not is_installed()
        if alone and split is not None and error.said is not None:
            if self._writer.engine.kind == "embedded":
                return self._without(work, [(split, declined_row(self._source, split, error.said))])
            self._declined_at[split.id] = error.said
        self._declined += 1
        self._notes.add("info", f"{first_line(error)}; the engine reads it instead")
        rest = [s for s in work.splits if s != split]
        # Without an engine here only what rowfall-decode has said about a file names its bad row.
        most = self._declined > retry.MOST_DECLINED and not alone
        if most or split is None or not rest:
            # The next ones would be declined, too.
            self._decodes = self._decodes and not most
            return [replace(work, engine_reads=True)]
        own = replace(work, splits=[split], engine_reads=True)
        return [replace(work, splits=rest), own]

    def _declined_row(self, work: Work, error: RowfallError) -> tuple[Split, DataError] | None:
        """Return the file of an attempt that a server refused, and the value that was declined.

        None where ``error`` is about something else.
        """
        found = [s for s in work.splits if s.id in self._declined_at]
        if len(found) != 1 or error.code not in DATA_CODES:
            return None
        split = found[0]
        return split, declined_row(self._source, split, self._declined_at[split.id], error)

    def _bad_data(self, work: Work, error: RowfallError) -> Sequence[Work]:
        """Return the next attempts after bad data: by another reader, or without rows or files."""
        if changed := self._source.changed(work.splits):
            # A cut or overwritten object explains any complaint about its last row.
            return self._without(work, [(s, _changed(s, what)) for s, what in changed])
        opened = self._bad_rows.open_ended(work.splits)
        if 0 < len(opened) < len(work.splits):
            # Their last fields are read in another way than those of the others.
            rest = [split for split in work.splits if split not in opened]
            return [replace(work, splits=rest), replace(work, splits=opened)]
        schema = work.schema or self._schema
        other = (
            None
            if work.skips_bad_rows
            else self._bad_rows.other_reading(work.splits, schema, error)
        )
        if other is not None:
            if strict_reading.reads_numbers(schema):
                # A zero in one object: the others will hold some, too. Line breaks are different:
                # whether all quotes are closed is asked for each group.
                self._schema = other
            return [replace(work, schema=other)]
        if self._bad_rows.may_be_left_out and not work.skips_bad_rows:
            return [replace(work, skips_bad_rows=True)]
        found: Sequence[tuple[Split, RowfallError]] = self._bad_rows.explain(work.splits, error)
        if isinstance(error, TooManyBadRowsError):
            # The count is the news; where the first one is stands in it, too.
            found = [(split, error) for split, _ in found]
        elif (
            self._typed
            and self._is_read_by_server
            and (work.skips_bad_rows or not _names_row(found))
        ):
            # The reader of another release raises at a value before any check can leave it out.
            for _, one in found:
                # Others help there, too.
                if one.hint in (None, data_errors.CORRECT) or "--max-errors" in one.hint:
                    one.hint = data_errors.READ_HERE
        return self._without(work, found) if found else self._halves(work, error)

    def _halves(self, work: Work, error: RowfallError) -> Sequence[Work]:
        """Return the halves of a group with a bad object that no error names; one alone fails."""
        if len(work.splits) == 1:
            split = work.splits[0]
            if error.code == LIBRARY_ERROR:
                error = data_errors.unreadable(split.name, error)
            elif error.code == MEMORY_LIMIT:
                error = self._too_large(split)
            elif self._broke_off(error):
                error = broken_off(split.name, error)
            return self._without(work, [(split, error)])
        half = len(work.splits) // 2
        return [replace(work, splits=part) for part in (work.splits[:half], work.splits[half:])]

    def _without(self, work: Work, errors: Sequence[tuple[Split, RowfallError]]) -> Sequence[Work]:
        """Record failed splits; return the others of the group."""
        bad = {split.id for split, _ in errors}
        self._fail(errors)
        failed = len(self.counts.failures)
        if failed >= retry.HOPELESS and self.queue.give_up():
            self._notes.add(
                "warning", f"stopped after {failed} failures: not a single file could be loaded"
            )
            return []
        rest = [s for s in work.splits if s.id not in bad]
        return [replace(work, splits=rest)] if rest else []

    def _fail(self, errors: Sequence[tuple[Split, RowfallError]]) -> None:
        """Record failed splits."""
        for split, error in errors:
            message, hint = shown(error.message), self._bad_rows.tried_hint(split, error)
            hint = None if hint is None else self._receiver.hint(hint)
            hint = with_target(hint, self._given.plan.to.text)
            self._ledger.split_failed(self._load_id, split.id, message, hint)
            lasting = isinstance(error, DataError) or error.code in DATA_CODES
            lasting = lasting or (
                isinstance(error, SourceError | TargetError | UsageError)
                and not error.transient
                # The same command lists what is there then.
                and not isinstance(error, ObjectChangedError)
            )
            failure = Failure(split.name, message, hint, lasting, error.code)
            if isinstance(error, DataError):
                value = None if error.value is None else shown(error.value)
                failure = replace(failure, line=error.line, column=error.column, value=value)
            self._add(Counts(failures=(failure,)))
            self._emit(SplitFailed(split.name, message, hint, error.exit_code, error.code))

    def _lost(self, attempt: _Attempt) -> None:
        """Load the splits of an attempt again whose lease was ended before its commit."""
        self._notes.add(
            "warning",
            "another process has ended the lease of this one, which was not renewed in time: the "
            "last files are loaded again",
        )
        self._receiver.discard(attempt.staging)
        self._ledger.attempt_ended(attempt.id, "lost", "its lease ran out")
        self._again(attempt.work)

    def _again(self, *works: Work) -> None:
        """Put work back to the front of the queue."""
        self._add(Counts(tries=Tries(retries=len(works))))
        if works:
            self._emit(Retried(len(works)))
        self.queue.again(self._writer.number, *works)

    # --- workers ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to take work; :meth:`close` follows."""
        self._watch.__enter__()
        self._workers = [
            threading.Thread(target=self.work, args=(lane,), daemon=True)
            for lane in range(FIRST_LANE, FIRST_LANE + self._given.plan.work.lanes)
        ]
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        """End what :meth:`start` began, except the workers."""
        self._watch.__exit__()
        self._pieces.remove()

    @property
    def works(self) -> bool:
        """Tell whether some worker has not ended, or something is being published."""
        publishing = self._publishing
        if publishing is not None and publishing.is_alive():
            return True
        return any(worker.is_alive() for worker in self._workers)

    def wait(self, seconds: float) -> None:
        """Wait for the workers, but not for long: a join without end would keep Ctrl-C waiting."""
        for thread in (*self._workers, *([self._publishing] if self._publishing else ())):
            thread.join(seconds)

    def work(self, lane: int) -> None:
        """Take work and carry it out until there is none."""
        while (work := self.queue.take(self._writer.number)) is not None:
            try:
                self.steering.before()
                if self.queue.stopped.is_set():
                    self.queue.release()
                    return
                attempt = self.attempt(work, lane)
                if next(attempt, False):
                    self.publish(attempt)
            except Exception as error:  # handed to the main thread, which raises it
                self._stop(error)
            self.queue.release()

    def publish(self, attempt: Iterator[bool]) -> None:
        """Let an attempt go on whose rows are in staging, if possible in the background."""
        if not self._receiver.in_background:
            next(attempt, False)
            return
        if self._publishing is not None:
            self._publishing.join()
        self.queue.join()  # released in _publish_later
        # A daemon: a statement that hangs does not keep the process from ending.
        thread = threading.Thread(target=self._publish_later, args=(attempt,), daemon=True)
        # Known when it runs: who waits for the workers joins it, which ends with an error before.
        thread.start()
        self._publishing = thread

    def _publish_later(self, attempt: Iterator[bool]) -> None:
        try:
            with self._publish_turn:
                next(attempt, False)
        except Exception as error:
            self._stop(error)
        finally:
            self.queue.release()

    def _stop(self, error: Exception) -> None:
        """Stop the whole load; of a cluster the error says where it was."""
        ours = isinstance(error, EngineError | TargetError) and "node " not in str(error)
        if ours and isinstance(error, RowfallError) and self._writer.node:
            error.message = f"node {self._writer.node}: {error.message}"
        self.queue.fail(error)

    def interrupt(self, deadline: float) -> None:
        """Stop what runs: politely until ``deadline``, then by leaving the engine."""
        with self._guard:
            running = tuple(self._running)

        def kill() -> None:
            for attempt in running:
                self._delivery.kill(attempt)

        polite = threading.Thread(target=kill, daemon=True)
        polite.start()
        for thread in (polite, *self._workers):
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in (polite, *self._workers)):
            self._writer.engine.abandon()


def _gauge(given: ReceiverInputs) -> Gauge | None:
    """Return what tells how full the server is; None where a load is to stay as planned."""
    session = given.load.session
    if session.options.no_adapt or session.scratch:
        return None
    return session.destination.gauge(session, given.writer)


def _object(split: Split) -> str:
    """Return the name of the object that is checked after a split was read."""
    # Only ranges of rows of a file are read by an engine that opens the file itself.
    return split.name if split.part is None or split.of_text else split.uri


def _names_row(found: Sequence[tuple[Split, RowfallError]]) -> bool:
    return all(re.search(r" row \d+ ", error.message) for _, error in found)


def _half_visible(split: Split, error: RowfallError) -> RowfallError:
    return TargetError(
        f"{split.name}: {first_line(error)}; some of its rows may be in the table",
        hint="A table without parts cannot take half a load back: truncate it and load again.",
    )


def _changed(split: Split, what: str) -> SourceError:
    other = what.startswith(("changed from", "somebody writes"))
    made = ObjectChangedError if other else SourceError
    if isinstance(what, Unreadable):
        return SourceError(f"{split.name}: {what}", hint=what.hint)
    return made(
        f"{split.name}: {what}",
        hint=rewriting.hint(what)
        or "Nothing of it is visible. Run the same command again when nobody writes it any more.",
    )


def _differs(split: Split, what: str) -> SourceError:
    hint = "Nothing of it is visible. Load it into a table of its own with --table"
    if "missing" in what:
        hint += ", or all files into a new one with --union-by-name"
    return SourceError(f"{split.name}: {what}", hint=f"{hint}.")


def shown(text: str) -> str:
    """Return an error's text as it is recorded: of bounded length, with odd bytes escaped."""
    return text[:MOST_TEXT].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
