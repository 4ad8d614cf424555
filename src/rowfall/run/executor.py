"""The executor: takes a plan's groups one after another, stages, checks, publishes, records.

The INSERT of the next attempt runs while the one before is counted and attached (that work is
the engine's locks and the disk, not its cores). Every transition is in the ledger, and for shared
targets in the journal, before the action that depends on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from rowfall.core import retry
from rowfall.core.errors import EngineError, Interrupted, RowfallError, TargetError
from rowfall.core.events import AttemptPublished, AttemptStarted, Note, SplitFailed
from rowfall.core.listing import Split
from rowfall.core.model import Outcome, Plan, Schema
from rowfall.core.results import Failure
from rowfall.deliver.delivery import Order
from rowfall.deliver.watch import Watch
from rowfall.publish.publisher import Staged
from rowfall.run.landing import landing
from rowfall.run.landing.base import Done, Means
from rowfall.run.recovery import ChangedError, Recovery, shown
from rowfall.run.tally import Tally
from rowfall.run.work_queue import Work, WorkQueue
from rowfall.targets.base import STAGING_PREFIX, Publish

# Ctrl-C must be answered within two seconds: one for a polite KILL, then the engine is left.
POLITE_SECONDS = 1.0
FIRST_LANE = 100


class Executor:
    """Loads on one engine: the only one, or that of a shard. Workers take work from the queue.

    Args:
        queue: of the load; executors of other engines may work on it, too.
        verify: add up a checksum of what lands.
        overwrite: objects of an export that are there already may be replaced.
    """

    def __init__(
        self,
        means: Means,
        plan: Plan,
        load_id: str,
        queue: WorkQueue,
        *,
        verify: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.means, self.plan, self.load_id, self.queue = means, plan, load_id, queue
        self.ledger, self.emit, self.verifies = means.ledger, means.emit, verify
        self.tally = Tally(settings=means.settings, checksum=(0, 0) if verify else None)
        self.schema: Schema = plan.schema
        self.decodes = True  # until the decoder has declined too much
        self._recovery = Recovery(self)
        self._landing = landing(self, means)
        self._overwrite = overwrite
        self._guard = threading.Lock()
        self._running: set[str] = set()
        self._publishing: threading.Thread | None = None
        self._publish_turn = threading.Lock()
        self._workers: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to take work; :meth:`finish` follows."""
        target = self.means.target
        watched = (target.database, (target.table, STAGING_PREFIX)) if self._attaches else None
        self._watch = Watch(self.means.engine, self.emit, watched)
        self._watch.__enter__()
        self._workers = [
            threading.Thread(target=self._work, args=(lane,), daemon=True)
            for lane in range(FIRST_LANE, FIRST_LANE + self.plan.lanes)
        ]
        for worker in self._workers:
            worker.start()

    @property
    def works(self) -> bool:
        """Whether some worker has not ended, or something is being published."""
        publishing = self._publishing
        if publishing is not None and publishing.is_alive():
            return True
        return any(worker.is_alive() for worker in self._workers)

    def wait(self, seconds: float) -> None:
        """Wait for the workers, but not for long: a join without end would keep Ctrl-C waiting."""
        for thread in (*self._workers, *([self._publishing] if self._publishing else ())):
            thread.join(seconds)

    def finish(self) -> None:
        """Nobody looks at the engine any more."""
        self._watch.__exit__()

    @property
    def _attaches(self) -> bool:
        return self.means.target.caps.publish is Publish.ATTACH

    # --- work ---------------------------------------------------------------------------------

    def _work(self, lane: int) -> None:
        while (work := self.queue.take(self.means.writer)) is not None:
            try:
                self._attempt(work, lane)
            except Exception as error:  # handed to the main thread, which raises it
                self._fail(error)
            self.queue.release()

    def again(self, *works: Work) -> None:
        """Put work back to the front of the queue."""
        with self._guard:
            self.tally.retries += len(works)
        self.queue.again(self.means.writer, *works)

    def _fail(self, error: Exception) -> None:
        """Stop everything; of a cluster the error says where."""
        ours = isinstance(error, EngineError | TargetError) and "node " not in str(error)
        if ours and isinstance(error, RowfallError) and self.means.place:
            error.message = f"node {self.means.place}: {error.message}"
        self.queue.fail(error)

    @property
    def stopping(self) -> bool:
        return self.queue.stopping

    def _attempt(self, work: Work, lane: int) -> None:
        """One try at one group: claim, stage, insert; what follows depends on the target."""
        attempt = f"{self.load_id}_{self.queue.serial()}"
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
            if others := means.bad_rows.other_types(work.splits):
                raise ChangedError(others)
            self._landing.stage(place, lane)
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
        self.queue.join()  # the publisher's share, released in _finish_later
        # A daemon: a statement that hangs does not keep the process from ending.
        self._publishing = threading.Thread(target=self._finish_later, args=(done,), daemon=True)
        self._publishing.start()

    def _claimed(self, work: Work, attempt: str) -> bool:
        """Whether all splits are ours; if not, what is free is queued again, the rest waits."""
        claim = self.means.claims.lease(attempt, work.splits, self.means.places)
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
        if busy:
            self.queue.hold(self.means.writer, replace(work, splits=busy))
        if free:
            self.queue.again(self.means.writer, replace(work, splits=free))
        return False

    def _insert(self, work: Work, attempt: str, place: str, lane: int, stored: int) -> Outcome:
        settings = {s.name: s.value for s in work.settings or self.means.settings}
        if self.means.target.caps.publish is Publish.AT_ONCE:
            # An object that an earlier attempt of ours may have written is ours to overwrite.
            own = self._overwrite or self.ledger.attempts_into(place) > 1
            settings["s3_truncate_on_insert"] = int(own)
        select = None
        if work.tolerant:
            select, lenient = self.means.bad_rows.select_good_rows(work.splits)
            settings |= lenient
        twins = self.means.twins
        if twins is not None:
            settings |= twins.settings
        sink = self.means.target.table if twins is not None and twins.direct else place
        order = Order(
            attempt, work.splits, sink, work.schema or self.schema, settings, select,
            engine_reads=work.engine_reads or not self.decodes,
        )  # fmt: skip
        with self._guard:
            self._running.add(attempt)
            self.tally.query_ids.append(attempt)
        try:
            return self.means.delivery.insert(
                order, lane, self._watch.ticker(attempt, stored or None)
            )
        finally:
            with self._guard:
                self._running.discard(attempt)

    # --- from staged to visible ---------------------------------------------------------------

    def _finish_later(self, done: Done) -> None:
        try:
            with self._publish_turn:
                self._finish(done)
        except Exception as error:
            self._fail(error)
        finally:
            self.queue.release()

    def _finish(self, done: Done) -> None:
        """Check and publish one staged attempt; errors decide what is tried again."""
        begin = time.monotonic()
        try:
            changed = self._changed(done.work.splits)
            if changed:
                raise ChangedError(changed)
            landed = self._landing.finish(done)
        except RowfallError as error:
            self._watch.forget(done.attempt)
            if self._landing.bound(done.attempt):
                # Its rows may be visible in part: only publishing may go on, at the next run.
                raise
            self._recovery.failed(done.work, done.attempt, done.staging, error)
            return
        if landed is None:
            return
        self.queue.landed()
        tally = self.tally
        with self._guard:
            tally.rows += landed.rows
            tally.parts += landed.parts
            tally.written += landed.bytes
            tally.rejected += landed.rejected
            tally.shares.append(landed.shares)
            tally.landed += len(done.work.splits)
            if tally.checksum is not None and landed.checksum is not None:
                rows, total = tally.checksum
                more, own = landed.checksum
                tally.checksum = (rows + more, (total + own) % (1 << 64))
                tally.landed_ids.update(s.id for s in done.work.splits)
            tally.stored += done.stored
            tally.raw += done.outcome.bytes_read
            tally.helper_seconds += done.outcome.helper_seconds
            tally.writing_seconds += done.outcome.writing_seconds
            tally.waited_seconds += done.outcome.waited_seconds
            tally.publish_seconds += time.monotonic() - begin
        self._watch.finished(done.attempt, done.outcome.rows_read, done.stored)
        self.emit(
            AttemptPublished(
                done.attempt, len(done.work.splits), landed.rows, time.monotonic() - done.started
            )
        )

    def _changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """See :meth:`rowfall.sources.base.Source.changed`; ranges of rows of one file ask once."""
        objects = {_object(split): split for split in splits}
        wrong = {_object(s): what for s, what in self.means.source.changed([*objects.values()])}
        return [(split, wrong[_object(split)]) for split in splits if _object(split) in wrong]

    def lost(self, work: Work, attempt: str, place: str) -> None:
        """Somebody has expired an attempt of ours before its commit: load its splits again."""
        self.note("warning", "this process was taken for dead: its last files are loaded again")
        self.discard(place)
        self.ledger.attempt_ended(attempt, "lost", "its lease ran out")
        self.again(work)

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
        if len(failures) >= retry.HOPELESS and self.queue.give_up():
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
        """Attach a committed attempt, see :meth:`rowfall.run.recovery.Recovery.publish`."""
        self._recovery.publish(attempt, staged.moves, means)

    def discard(self, place: str) -> None:
        """Remove what an attempt left; harmless when there is nothing."""
        self._landing.discard(place)

    def interrupt(self, deadline: float) -> None:
        """Stop what runs: politely until ``deadline``, then by leaving the engine."""
        with self._guard:
            running = tuple(self._running)

        def kill() -> None:
            for attempt in running:
                self.means.delivery.kill(attempt)

        polite = threading.Thread(target=kill, daemon=True)
        polite.start()
        for thread in (polite, *self._workers):
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(t.is_alive() for t in (polite, *self._workers)):
            self.means.engine.abandon()


def _object(split: Split) -> str:
    """What is looked at after a split was read; of text each range was read on its own."""
    return split.name if split.of_text else split.uri


def run_all(executors: Sequence[Executor], queue: WorkQueue) -> None:
    """Let executors empty the queue; the main thread only waits, so Ctrl-C is answered whatever
    they do. Failed splits are in their tallies; what stops everything is raised.

    Raises:
        Interrupted: Ctrl-C; what was running is dropped, the ledger can go on.
        RowfallError: target or ledger failed, or an engine cannot be kept alive.
    """
    with ExitStack() as stack:
        for executor in executors:
            executor.start()
            stack.callback(executor.finish)
        try:
            while any(executor.works for executor in executors):
                for executor in executors:
                    executor.wait(0.2)
        except KeyboardInterrupt:
            queue.stop()
            deadline = time.monotonic() + POLITE_SECONDS
            ending = [
                threading.Thread(target=e.interrupt, args=(deadline,), daemon=True)
                for e in executors
            ]
            for thread in ending:
                thread.start()
            for thread in ending:
                thread.join()
            raise Interrupted("interrupted", hint="Run the same command again to go on.") from None
    if queue.fatal is not None:
        raise queue.fatal


def fill(queue: WorkQueue, plan: Plan, identity: str) -> None:
    """Put what a plan wants loaded into the lines of its writers.

    Args:
        identity: the key that split ids are made with.
    """
    for number, group in enumerate(plan.groups):
        if group.indexes:
            splits = list(plan.listing.splits(identity, group.indexes))
            queue.put(group.writer, Work(number, splits))
