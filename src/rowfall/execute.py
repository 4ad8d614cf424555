"""The executor: takes a plan's groups one after another, stages, checks, publishes, records.

The INSERT of the next attempt runs while the one before is counted and attached (that work is
the engine's locks and the disk, not its cores). Every transition is in the ledger, and for shared
targets in the journal, before the action that depends on it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rowfall import retry, staging
from rowfall.delivery import Delivery, Order
from rowfall.doctor import Doctor
from rowfall.engines.base import Engine
from rowfall.errors import Interrupted, RowfallError, TargetError
from rowfall.events import AttemptPublished, AttemptStarted, Listener, Note, SplitFailed
from rowfall.journal import Claims
from rowfall.ledger import Ledger
from rowfall.model import Failure, Outcome, Plan, Schema, Setting, Split, Statement
from rowfall.publish import Publisher, Staged, ask
from rowfall.recovery import ChangedError, CountError, Recovery, Work, shown
from rowfall.sources.base import Source
from rowfall.targets.base import STAGING_PREFIX, Publish, Target
from rowfall.twins import Twins
from rowfall.watch import Watch

# Ctrl-C must be answered within two seconds: one for a polite KILL, then the engine is left.
POLITE_SECONDS = 1.0
PUBLISH_LANE = 1
FIRST_LANE = 100
# Somebody else loads the last files: a look costs two small SELECTs.
WAIT_SECONDS = 1.0


@dataclass(slots=True)
class Tally:
    """What the executor counted; the report is made from it."""

    rows: int = 0
    rejected: int = 0
    stored: int = 0
    raw: int = 0
    written: int = 0
    parts: int = 0
    landed: int = 0
    elsewhere: int = 0
    attempts: int = 0
    retries: int = 0
    publish_seconds: float = 0.0
    helper_seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settings: tuple[Setting, ...] = ()
    landed_ids: set[str] = field(default_factory=set)
    query_ids: list[str] = field(default_factory=list)
    checksum: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """An attempt whose INSERT has ended well: rows are staged, nothing is visible."""

    work: Work
    attempt: str
    staging: str
    outcome: Outcome
    stored: int
    started: float


@dataclass(frozen=True, slots=True)
class Means:
    """What a load works with; every part was opened by the job.

    Attributes:
        engine: stores the rows. ``delivery`` gets them there.
        twins: staging tables, None for targets that are files.
        into: the ledger's key of the place where attempts are published.
        identity: the key that split ids are made with: the target's, whatever ``into`` is.
        rescue: brings attempts of dead processes to an end, so that their splits are free.
        allowed: settings for CREATE TABLE: what the target has, its twin may have.
        calm: waits until the target can take the parts of an attempt.
    """

    engine: Engine
    source: Source
    target: Target
    ledger: Ledger
    claims: Claims
    delivery: Delivery
    doctor: Doctor
    twins: Twins | None
    into: str
    identity: str
    emit: Listener
    allowed: Mapping[str, int]
    rescue: Callable[[Sequence[str]], None]
    calm: Callable[[Staged], None]


class Executor:
    """Runs one load to its end. Workers take work from a queue; the main thread only waits, so
    Ctrl-C is answered whatever they do."""

    def __init__(
        self,
        means: Means,
        plan: Plan,
        load_id: str,
        *,
        verify: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.means, self.plan, self.load_id = means, plan, load_id
        self.ledger, self.emit = means.ledger, means.emit
        self.tally = Tally(settings=plan.settings, checksum=(0, 0) if verify else None)
        self.publisher = Publisher(means.engine, means.ledger, lane=PUBLISH_LANE)
        self.schema: Schema = plan.schema
        self.decodes = True  # until the decoder has declined too much
        self._recovery = Recovery(self)
        self._queue: deque[Work] = deque()
        self._waiting: list[Work] = []
        self._busy = 0
        self._stop = False
        self._fatal: BaseException | None = None
        self._overwrite = overwrite
        self._serial = means.ledger.attempts(load_id)
        self._changed = threading.Condition()
        self._running: set[str] = set()
        self._committing: set[str] = set()
        self._publishing: threading.Thread | None = None
        self._publish_turn = threading.Lock()

    def run(self) -> Tally:
        """Load every group. Failed splits are in the tally; what stops everything is raised.

        Raises:
            Interrupted: Ctrl-C; what was running is dropped, the ledger can go on.
            RowfallError: target or ledger failed, or the engine cannot be kept alive.
        """
        for number, group in enumerate(self.plan.groups):
            if group.indexes:
                splits = list(self.plan.listing.splits(self.means.identity, group.indexes))
                self._queue.append(Work(number, splits, settings=self.plan.settings))
        watched = None
        target = self.means.target
        if self._attaches:
            watched = (target.database, (target.table, STAGING_PREFIX))
        with Watch(self.means.engine, self.emit, watched) as self._watch:
            workers = [
                threading.Thread(target=self._work, args=(lane,), daemon=True)
                for lane in range(FIRST_LANE, FIRST_LANE + self.plan.lanes)
            ]
            try:
                for worker in workers:
                    worker.start()
                for worker in workers:
                    # A join without timeout would keep Ctrl-C waiting.
                    while worker.is_alive():
                        worker.join(0.2)
            except KeyboardInterrupt:
                self._interrupt(workers)
                raise Interrupted(
                    "interrupted", hint="Run the same command again to go on."
                ) from None
        if self._fatal is not None:
            raise self._fatal
        return self.tally

    @property
    def _attaches(self) -> bool:
        return self.means.target.caps.publish is Publish.ATTACH

    # --- work ---------------------------------------------------------------------------------

    def _work(self, lane: int) -> None:
        while (work := self._take()) is not None:
            try:
                self._attempt(work, lane)
            except Exception as error:  # handed to the main thread, which raises it
                with self._changed:
                    self._fatal = self._fatal or error
            self._release()

    def _take(self) -> Work | None:
        while True:
            with self._changed:
                while not (self._stop or self._fatal):
                    if self._queue:
                        self._busy += 1
                        return self._queue.popleft()
                    if not self._busy:
                        break
                    # Somebody else's attempt may still fail and come back in pieces.
                    self._changed.wait(0.5)
                if self._stop or self._fatal or not self._waiting:
                    return None
                # Everything else is done: see what became of what other processes hold.
                self._changed.wait(WAIT_SECONDS)
                self._queue.extend(self._waiting)
                self._waiting.clear()

    def _release(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def again(self, *works: Work) -> None:
        """Put work back to the front of the queue."""
        with self._changed:
            self.tally.retries += len(works)
            self._queue.extendleft(reversed(works))
            self._changed.notify_all()

    def give_up(self) -> bool:
        """Forget all queued work; False when something has landed, so that there is hope."""
        with self._changed:
            if self.tally.landed:
                return False
            self._queue.clear()
            self._waiting.clear()
            return True

    @property
    def stopping(self) -> bool:
        return self._stop

    def _attempt(self, work: Work, lane: int) -> None:
        """One try at one group: claim, stage, insert; what follows depends on the target."""
        with self._changed:
            self._serial += 1
            attempt = f"{self.load_id}_{self._serial}"
        means = self.means
        place = means.target.staging_name(attempt, work.number, self.plan.encoding)
        self.ledger.attempt_started(attempt, self.load_id, place, means.into, work.splits)
        if not self._claimed(work, attempt):
            return
        self.tally.attempts += 1
        stored = sum(s.size or 0 for s in work.splits)
        self.emit(AttemptStarted(attempt, len(work.splits), stored or None))
        started = time.monotonic()
        try:
            if others := means.doctor.other_types(work.splits):
                raise ChangedError(others)
            if means.twins is not None:
                for statement in means.twins.stage(place):
                    means.engine.run(Statement(statement, means.allowed), lane=lane)
            outcome = self._insert(work, attempt, place, lane, stored)
        except RowfallError as error:
            self._watch.forget(attempt)
            self._recovery.failed(work, attempt, place, error)
            return
        done = Done(work, attempt, place, outcome, stored, started)
        if not self._attaches:
            self._finish(done)
            return
        if self._publishing is not None:
            self._publishing.join()
        with self._changed:
            self._busy += 1  # the publisher's share, released in _finish_later
        # A daemon: a statement that hangs does not keep the process from ending.
        self._publishing = threading.Thread(target=self._finish_later, args=(done,), daemon=True)
        self._publishing.start()

    def _claimed(self, work: Work, attempt: str) -> bool:
        """Whether all splits are ours; if not, what is free is queued again, the rest waits."""
        claim = self.means.claims.claim(attempt, work.splits)
        if claim.whole:
            return True
        self.means.claims.release(attempt)
        self.ledger.attempt_ended(attempt, "lost", "other processes hold some of its files")
        if claim.lost:
            self.means.rescue(claim.lost)
        landed = [s for s in work.splits if s.id in claim.landed]
        if landed:
            self.ledger.landed_elsewhere(self.load_id, (s.id for s in landed))
            self.tally.elsewhere += len(landed)
        busy = [s for s in work.splits if s.id in claim.busy]
        free = [s for s in work.splits if s.id not in claim.busy and s.id not in claim.landed]
        with self._changed:
            if free:
                self._queue.appendleft(replace(work, splits=free))
            if busy:
                self._waiting.append(replace(work, splits=busy))
        return False

    def _insert(self, work: Work, attempt: str, place: str, lane: int, stored: int) -> Outcome:
        settings = {s.name: s.value for s in work.settings}
        if self.means.target.caps.publish is Publish.AT_ONCE:
            # An object that an earlier attempt of ours may have written is ours to overwrite.
            own = self._overwrite or self.ledger.attempts_into(place) > 1
            settings["s3_truncate_on_insert"] = int(own)
        select = None
        if work.tolerant:
            select, lenient = self.means.doctor.tolerant(work.splits)
            settings |= lenient
        twins = self.means.twins
        if twins is not None:
            settings |= twins.settings
        sink = self.means.target.table if twins is not None and twins.direct else place
        order = Order(
            attempt, work.splits, sink, work.schema or self.schema, settings, select,
            engine_reads=work.engine_reads or not self.decodes,
        )  # fmt: skip
        with self._changed:
            self._running.add(attempt)
            self.tally.query_ids.append(attempt)
        try:
            return self.means.delivery.insert(
                order, lane, self._watch.ticker(attempt, stored or None)
            )
        finally:
            with self._changed:
                self._running.discard(attempt)

    # --- from staged to visible ---------------------------------------------------------------

    def _finish_later(self, done: Done) -> None:
        try:
            with self._publish_turn:
                self._finish(done)
        except Exception as error:
            with self._changed:
                self._fatal = self._fatal or error
        finally:
            self._release()

    def _finish(self, done: Done) -> None:
        """Check and publish one staged attempt; errors decide what is tried again."""
        begin = time.monotonic()
        try:
            changed = self.means.source.changed(done.work.splits)
            if changed:
                raise ChangedError(changed)
            rows = self._publish(done) if self._attaches else self._publish_file(done)
        except RowfallError as error:
            self._watch.forget(done.attempt)
            if done.attempt in self._committing:
                # Its rows may be visible in part: only publishing may go on, at the next run.
                raise
            self._recovery.failed(done.work, done.attempt, done.staging, error)
            return
        if rows is None:
            return
        tally = self.tally
        with self._changed:
            tally.rows += rows
            tally.landed += len(done.work.splits)
            if tally.checksum is not None:
                tally.landed_ids.update(s.id for s in done.work.splits)
            tally.stored += done.stored
            tally.raw += done.outcome.bytes_read
            tally.helper_seconds += done.outcome.helper_seconds
            tally.publish_seconds += time.monotonic() - begin
        self._watch.finished(done.attempt, done.outcome.rows_read, done.stored)
        self.emit(
            AttemptPublished(
                done.attempt, len(done.work.splits), rows, time.monotonic() - done.started
            )
        )

    def _publish(self, done: Done) -> int | None:
        """Attach the attempt; returns its rows, None when it was not ours any more."""
        means = self.means
        assert means.twins is not None  # noqa: S101 - every target that attaches has them
        pairs = means.twins.pairs(done.staging)
        fixed = means.twins.fixed(done.staging)
        staged = self.publisher.staged(pairs, self.plan.schema.row_bytes, fixed)
        if not means.twins.keeps:
            # A Null table keeps nothing to count, and a Log holds other rows as well.
            each = 1 + sum(v.source < 0 for v in means.twins.views.views)
            staged = replace(staged, rows=done.outcome.rows_read // each)
        self._check_count(done, staged)
        if self.tally.checksum is not None:
            self._add_checksum(done.staging)
        means.calm(staged)
        # Even where the line's fate is unknown nothing may be taken back: others may have seen it.
        self._committing.add(done.attempt)
        if not means.claims.commit(done.attempt, staged.rows, staged.moves):
            self._committing.discard(done.attempt)
            self.lost(done.work, done.attempt, done.staging)
            return None
        self.ledger.attempt_loaded(done.attempt, staged.rows, staged.moves)
        self._recovery.publish(done.attempt, staged.moves, means)
        means.claims.landed(done.attempt)
        self.ledger.attempt_published(done.attempt, means.into)
        self.discard(done.staging)
        with self._changed:
            self.tally.parts += staged.parts
            self.tally.written += staged.bytes
        return staged.rows

    def lost(self, work: Work, attempt: str, place: str) -> None:
        """Somebody has expired an attempt of ours before its commit: load its splits again."""
        self.note("warning", "this process was taken for dead: its last files are loaded again")
        self.discard(place)
        self.ledger.attempt_ended(attempt, "lost", "its lease ran out")
        self.again(work)

    def _publish_file(self, done: Done) -> int:
        """Make a written file visible; returns its rows."""
        target = self.means.target
        publish = target.caps.publish
        if publish is Publish.RENAME and self._writes_failed():
            wanted = target.staging_name("", done.work.number, self.plan.encoding)
            raise TargetError(
                f"cannot write {wanted}: the disk is full, or took only a part of it",
                hint="Free some space and run the same command again.",
            )
        rows = done.outcome.rows_written or done.outcome.rows_read
        self.ledger.attempt_loaded(done.attempt, rows, ())
        if publish is Publish.RENAME:
            final = Path(target.staging_name("", done.work.number, self.plan.encoding))
            self.tally.written += _rename(Path(done.staging), final)
        self.ledger.attempt_published(done.attempt, self.means.into)
        return rows

    def _writes_failed(self) -> bool:
        """Whether a write to a file has failed since this engine started: its INSERT INTO file()
        ends well even on a full disk."""
        event = "event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0"
        ((failed,),) = ask(
            self.means.engine, f"SELECT count() FROM system.events WHERE {event}", lane=PUBLISH_LANE
        )
        return bool(failed)

    def _add_checksum(self, place: str) -> None:
        columns = self.plan.schema.columns
        rows, total = self.publisher.checksum(self.means.target.database, place, columns)
        before = self.tally.checksum or (0, 0)
        self.tally.checksum = (before[0] + rows, (before[1] + total) % (1 << 64))

    def _check_count(self, done: Done, staged: Staged) -> None:
        """Rows in staging have to be those that were read.

        Raises:
            CountError: they are not.
        """
        twins, outcome = self.means.twins, done.outcome
        assert twins is not None  # noqa: S101 - every target that attaches has them
        if not twins.keeps:
            return
        rows = dict.fromkeys((p.staging for p in twins.pairs(done.staging)), 0)
        for move in staged.moves:
            rows[move.staging] += move.rows
        expected = twins.read(rows, done.staging)
        read = outcome.rows_written if done.work.tolerant and not twins.views else outcome.rows_read
        if done.work.tolerant and twins.views:
            read = expected or staged.rows  # bad rows were read, too; the doctor counts them
        if expected is not None and read - expected not in self._counted_along(done):
            raise CountError(
                f"{read:,} rows were read and {expected:,} were stored", transient=True
            )
        if done.work.tolerant:
            with self._changed:
                self.tally.rejected += self.means.doctor.reject(done.work.splits, staged.rows)

    def _counted_along(self, done: Done) -> tuple[int, ...]:
        """Rows that an attempt may have read besides those of its files.

        Servers before 25.1 skip objects that are missing; there the statement counts the objects
        itself, and that reads one row each (sources/_relation.py).
        """
        pulls = self.means.target.server is not None and self.plan.delivery == "pull"
        return (0, len(done.work.splits)) if pulls else (0,)

    # --- what goes wrong ----------------------------------------------------------------------

    def without(self, work: Work, guilty: Sequence[tuple[Split, RowfallError]]) -> None:
        """Record failed splits and load the others of the group again."""
        bad = {split.id for split, _ in guilty}
        for split, error in guilty:
            message = shown(error.message)
            self.ledger.split_failed(self.load_id, split.id, message, error.hint)
            self.tally.failures.append(Failure(split.name, message, error.hint))
            self.emit(SplitFailed(split.name, message, error.hint))
        failures = self.tally.failures
        if len(failures) >= retry.HOPELESS and self.give_up():
            self.note("warning", f"stopped after {len(failures)} failures: nothing fits so far")
            return
        rest = [s for s in work.splits if s.id not in bad]
        if rest:
            self.again(replace(work, splits=rest))

    def note(self, level: str, text: str) -> None:
        """Tell the user now and keep it for the report."""
        self.tally.notes.append(text)
        self.emit(Note(level, text))

    def publish_staged(self, attempt: str, staged: Staged, means: Means) -> None:
        """Attach a committed attempt, see :meth:`rowfall.recovery.Recovery.publish`."""
        self._recovery.publish(attempt, staged.moves, means)

    def discard(self, place: str) -> None:
        """Remove what an attempt left; harmless when there is nothing."""
        means = self.means
        if means.twins is not None:

            def asks(text: str) -> list[list[Any]]:
                return ask(means.engine, text, lane=PUBLISH_LANE)

            for statement in staging.discard(asks, place, means.twins.databases):
                means.engine.run(Statement(statement), lane=PUBLISH_LANE)
        elif means.target.caps.publish is Publish.RENAME and place:
            Path(place).unlink(missing_ok=True)

    def _interrupt(self, workers: Sequence[threading.Thread]) -> None:
        """Stop what runs: politely for a second, then by leaving the engine."""
        with self._changed:
            self._stop = True
            running = tuple(self._running)
            self._changed.notify_all()

        def kill() -> None:
            for attempt in running:
                self.means.delivery.kill(attempt)

        polite = threading.Thread(target=kill, daemon=True)
        polite.start()
        deadline = time.monotonic() + POLITE_SECONDS
        for thread in (polite, *workers):
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(t.is_alive() for t in (polite, *workers)):
            self.means.engine.abandon()


def _rename(place: Path, final: Path) -> int:
    """Make a finished file visible under its name, durably. Returns its bytes."""
    if not place.exists():
        return 0  # no rows, no file
    with place.open("rb+") as file:
        os.fsync(file.fileno())
    size = place.stat().st_size
    place.replace(final)
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size
