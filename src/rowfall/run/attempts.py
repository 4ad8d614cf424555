"""Run the attempts of a load: workers take work from a queue, one attempt after the other.

:meth:`AttemptRunner.attempt` is one attempt from its lease to the drop of its staging, in the order
of the table in ``docs/concepts/exactly-once.md``; what happens when it fails is
:meth:`AttemptRunner._failed`. The INSERT of the next attempt runs while the one before is counted
and attached: that work is the engine's locks and the disk, not its cores.
"""

from __future__ import annotations

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
)
from rowfall.core import retry, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    DataError,
    EngineError,
    Interrupted,
    ObjectChangedError,
    RowfallError,
    SourceError,
    TargetError,
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
from rowfall.core.model import ENGINE, Outcome, Plan
from rowfall.core.options import FILTER
from rowfall.core.results import AttemptRecord, Failure
from rowfall.core.signals import GO_ON, check_stopped, undisturbed
from rowfall.deliver.decode import DeclinedError
from rowfall.deliver.route import sending_since
from rowfall.deliver.watch import TotalProgress, Watch
from rowfall.engines.database import RefusedRowError, RolledBackError
from rowfall.ledger.leases import Lease, Ownership
from rowfall.publish.protocol import AttemptProgress, Step
from rowfall.run.pieces import OutputPieces, piece_name
from rowfall.run.pieces import select as select_pieces
from rowfall.run.remedies import (
    ChangedError,
    NullListsError,
    OtherColumnsError,
    Remedies,
    Remedy,
    is_read_by_server,
)
from rowfall.run.steering import Steering
from rowfall.run.work_queue import OutputPiece, Work, WorkQueue
from rowfall.schema.bad_rows.rejects import BadRows
from rowfall.schema.text import open_quotes
from rowfall.schema.types import strict_reading
from rowfall.sources.base import Queried, Source, Streamed
from rowfall.sources.compression import compression_of
from rowfall.systems.clickhouse.codes import (
    DATA_CODES,
    GONE,
    QUERY_WAS_CANCELLED,
)

# Ctrl-C must be answered within two seconds: one for a polite KILL, then the engine is left.
POLITE_SECONDS = 1.0
FIRST_LANE = 100
# The engine quotes whole buffers of data in some messages; a page is enough for anybody.
MOST_TEXT = 2_000
# What a process meets whose lease another one has ended, and whose staging tables it has taken.
LEASE_LOST_CODES = GONE | {QUERY_WAS_CANCELLED}


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
    deliveries = [prepared.delivery(session, facts, plan, writer) for writer in writers]
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
        self._notes, self._ledger, self._leases = given.notes, load.ledger, receiver.leases
        # ``sent``: as they were sent last.
        self._settings = self.sent = given.settings
        self.counts = Counts()
        self._remedies = Remedies(given, receiver, bad_rows)
        self._pieces = OutputPieces(whole=receiver.output_files)
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
            select = select_pieces(work.pieces, self._remedies.schema.columns)
        engine_reads = work.engine_reads or not self._remedies.decodes
        streams = self.steering.streams(self._given.plan.transport.streams)
        if self._remedies.alone and not engine_reads:
            settings["max_insert_threads"] = streams = 1
        order = DeliveryOrder(
            attempt.id, work.splits, receiver.insert_into(attempt.staging),
            work.schema or self._remedies.schema, settings, select, engine_reads=engine_reads,
            most_refused=work.most_refused, most_streams=streams,
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
        plan, schema = self._given.plan, work.schema or self._remedies.schema
        encoding, transport = plan.encoding, plan.transport
        if encoding is None or not encoding.is_csv or encoding.dialect is not None:
            return
        refused = strict_reading.refuses_line_breaks(schema)
        decoded = (
            transport.parser.value != ENGINE and self._remedies.decodes and not work.engine_reads
        )
        if decoded or not self._source.replayable:
            return
        splits, engine = work.splits, self._writer.engine
        if is_read_by_server(plan) and self._source.remote:
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
        self._again(*self._pieces.of(work, self._hopeful(self._remedies.of(work, error))))

    def _hopeful(self, remedy: Remedy) -> Sequence[Work]:
        """Record the splits that are given up; return the attempts that are worth making."""
        self._fail(remedy.failed)
        failed = len(self.counts.failures)
        if remedy.failed and failed >= retry.HOPELESS and self.queue.give_up():
            self._notes.add(
                "warning", f"stopped after {failed} failures: not a single file could be loaded"
            )
            return []
        return remedy.again

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


def shown(text: str) -> str:
    """Return an error's text as it is recorded: of bounded length, with odd bytes escaped."""
    return text[:MOST_TEXT].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
