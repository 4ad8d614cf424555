"""The executor: takes a plan's groups one after another, stages, checks, publishes, records.

The INSERT of the next attempt runs while the one before is counted and moved (that work is
the engine's locks and the disk, not its cores). Every transition is in the ledger before the
action that depends on it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from rowfall import fastpath, planner, retry
from rowfall.doctor import Doctor, TooManyBadRowsError
from rowfall.engines.codes import DATA_CODES, MEMORY_LIMIT
from rowfall.engines.embedded import Embedded
from rowfall.errors import (
    DataError,
    EngineError,
    Interrupted,
    RowfallError,
    SourceError,
    TargetError,
)
from rowfall.events import (
    AttemptPublished,
    AttemptStarted,
    Listener,
    Note,
    SplitFailed,
)
from rowfall.ledger import Ledger
from rowfall.model import Failure, Outcome, Plan, Schema, Setting, Split, Statement
from rowfall.publish import Publisher, ask
from rowfall.sources.base import Source
from rowfall.targets.base import Publish, Target
from rowfall.targets.table import STAGING_PREFIX
from rowfall.tune import lower
from rowfall.watch import Watch

# Ctrl-C must be answered within two seconds: one for a polite KILL, then the child is ended.
POLITE_SECONDS = 1.0
PUBLISH_LANE = 1
# The engine quotes whole buffers of data in some messages; a page is enough for anybody.
MOST_TEXT = 2_000


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
    attempts: int = 0
    retries: int = 0
    publish_seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settings: tuple[Setting, ...] = ()
    landed_ids: set[str] = field(default_factory=set)
    checksum: tuple[int, int] | None = None


@dataclass(slots=True)
class Work:
    """Splits that are to be loaded by one attempt, with the history that decides what next."""

    number: int
    splits: list[Split]
    tries: int = 0
    lowered: int = 0
    settings: tuple[Setting, ...] = ()
    tolerant: bool = False
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """An attempt whose INSERT has ended well: rows are staged, nothing is visible."""

    work: Work
    attempt: str
    staging: str
    outcome: Outcome
    stored: int
    started: float


class ChangedError(SourceError):
    """Objects that are not what was listed, each with what happened to it."""

    def __init__(self, changed: Sequence[tuple[Split, str]]) -> None:
        super().__init__("the source changed during the load")
        self.changed = changed


class Executor:
    """Runs one load to its end. Workers take work from a queue; the main thread only waits, so
    Ctrl-C is answered whatever they do."""

    def __init__(
        self,
        *,
        engine: Embedded,
        source: Source,
        target: Target,
        ledger: Ledger,
        plan: Plan,
        load_id: str,
        into: str,
        emit: Listener,
        doctor: Doctor,
        verify: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.engine, self.source, self.target = engine, source, target
        self.ledger, self.plan, self.doctor = ledger, plan, doctor
        self.load_id, self.into, self.emit = load_id, into, emit
        self.tally = Tally(settings=plan.settings, checksum=(0, 0) if verify else None)
        self._publisher = Publisher(
            engine, ledger, target.database, target.table, lane=PUBLISH_LANE
        )
        self._schema = plan.schema
        self._queue: deque[Work] = deque()
        self._busy = 0
        self._stop = False
        self._fatal: BaseException | None = None
        self._deaths = 0
        self._overwrite = overwrite
        self._serial = ledger.attempts(load_id)
        self._changed = threading.Condition()
        self._running: set[str] = set()
        self._publishing: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="publish")

    def run(self) -> Tally:
        """Load every group. Failed splits are in the tally; what stops everything is raised.

        Raises:
            Interrupted: Ctrl-C; what was running is dropped, the ledger can go on.
            RowfallError: target or ledger failed, or the engine cannot be kept alive.
        """
        for number, group in enumerate(self.plan.groups):
            if group.indexes:
                splits = list(self.plan.listing.splits(self.into, group.indexes))
                self._queue.append(Work(number, splits, settings=self.plan.settings))
        watched = None
        if self.target.caps.publish is Publish.MOVE:
            watched = (self.target.database, (self.target.table, STAGING_PREFIX))
        with Watch(self.engine, self.emit, watched) as self._watch:
            workers = [
                threading.Thread(target=self._work, args=(lane,), daemon=True)
                for lane in range(100, 100 + self.plan.lanes)
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
            finally:
                self._pool.shutdown(wait=False)
        if self._fatal is not None:
            raise self._fatal
        return self.tally

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
        with self._changed:
            while not (self._stop or self._fatal):
                if self._queue:
                    self._busy += 1
                    return self._queue.popleft()
                if not self._busy:
                    return None
                # Somebody else's attempt may still fail and come back in pieces.
                self._changed.wait(0.5)
            return None

    def _release(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def _again(self, *works: Work) -> None:
        with self._changed:
            self.tally.retries += len(works)
            self._queue.extendleft(reversed(works))
            self._changed.notify_all()

    def _attempt(self, work: Work, lane: int) -> None:
        """One try at one group: stage, insert; what follows depends on the kind of target."""
        with self._changed:
            self._serial += 1
            attempt = f"{self.load_id}_{self._serial}"
        staging = self.target.staging_name(attempt, work.number, self.plan.encoding)
        self.ledger.attempt_started(attempt, self.load_id, staging, work.splits)
        self.tally.attempts += 1
        stored = sum(s.size or 0 for s in work.splits)
        self.emit(AttemptStarted(attempt, len(work.splits), stored or None))
        started = time.monotonic()
        try:
            if others := self.doctor.other_types(work.splits):
                raise ChangedError(others)
            for statement in self.target.stage(staging, self.plan.schema):
                self.engine.run(Statement(statement), lane=lane)
            outcome = self._insert(work, attempt, staging, lane, stored)
        except RowfallError as error:
            self._watch.forget(attempt)
            self._recover(work, attempt, staging, error)
            return
        done = Done(work, attempt, staging, outcome, stored, started)
        if self.target.caps.publish is not Publish.MOVE:
            self._finish(done)
            return
        if self._publishing is not None:
            self._publishing.result()
        with self._changed:
            self._busy += 1  # the publisher's share, released in _finish_later
        self._publishing = self._pool.submit(self._finish_later, done)

    def _insert(self, work: Work, attempt: str, staging: str, lane: int, stored: int) -> Outcome:
        settings = {s.name: s.value for s in work.settings}
        if self.target.caps.publish is Publish.AT_ONCE:
            # An object that an earlier attempt of ours may have written is ours to overwrite.
            own = self._overwrite or self.ledger.attempts_into(staging) > 1
            settings["s3_truncate_on_insert"] = int(own)
        if work.tolerant:
            sql, lenient = self.doctor.tolerant(staging, work.splits)
            settings |= lenient
        else:
            schema = work.schema or self._schema
            sql = planner.statement(
                self.source, self.target, schema, self.plan.encoding, work.splits, staging
            )
        with self._changed:
            self._running.add(attempt)
        try:
            return self.engine.run(
                Statement(sql, settings, query_id=attempt),
                lane=lane,
                on_tick=self._watch.ticker(attempt, stored or None),
            )
        finally:
            with self._changed:
                self._running.discard(attempt)

    # --- from staged to visible ---------------------------------------------------------------

    def _finish_later(self, done: Done) -> None:
        try:
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
            self._check_unchanged(done)
            rows = self._publish(done)
        except RowfallError as error:
            self._watch.forget(done.attempt)
            if self.ledger.attempt_state(done.attempt) == "loaded":
                # Its rows are partly visible: only publishing may go on, at the next run.
                raise
            self._recover(done.work, done.attempt, done.staging, error)
            return
        tally = self.tally
        with self._changed:
            tally.rows += rows
            tally.landed += len(done.work.splits)
            if tally.checksum is not None:
                tally.landed_ids.update(s.id for s in done.work.splits)
            tally.stored += done.stored
            tally.raw += done.outcome.bytes_read
            tally.publish_seconds += time.monotonic() - begin
        self._watch.finished(done.attempt, done.outcome.rows_read, done.stored)
        self.emit(
            AttemptPublished(
                done.attempt, len(done.work.splits), rows, time.monotonic() - done.started
            )
        )

    def _check_unchanged(self, done: Done) -> None:
        changed = self.source.changed(done.work.splits)
        if changed:
            raise ChangedError(changed)

    def _publish(self, done: Done) -> int:
        """Make the attempt visible; returns its rows."""
        publish = self.target.caps.publish
        if publish is Publish.MOVE:
            staged = self._publisher.staged(done.staging, self.plan.schema.row_bytes)
            self._check_count(done, staged.rows)
            if self.tally.checksum is not None:
                self._add_checksum(done.staging)
            self.ledger.attempt_loaded(done.attempt, staged.rows, staged.moves)
            self._publisher.publish(done.attempt, done.staging, staged.moves, self.into)
            for statement in self.target.discard(done.staging):
                self.engine.run(Statement(statement), lane=PUBLISH_LANE)
            with self._changed:
                self.tally.parts += staged.parts
                self.tally.written += staged.bytes
            return staged.rows
        if publish is Publish.RENAME and self._writes_failed():
            wanted = self.target.staging_name("", done.work.number, self.plan.encoding)
            raise TargetError(
                f"cannot write {wanted}: the disk is full, or took only a part of it",
                hint="Free some space and run the same command again.",
            )
        rows = done.outcome.rows_written or done.outcome.rows_read
        self.ledger.attempt_loaded(done.attempt, rows, ())
        if publish is Publish.RENAME:
            final = Path(self.target.staging_name("", done.work.number, self.plan.encoding))
            self.tally.written += _rename(Path(done.staging), final)
        self.ledger.attempt_published(done.attempt, self.into)
        return rows

    def _writes_failed(self) -> bool:
        """Whether a write to a file has failed since this engine started: its INSERT INTO file()
        ends well even on a full disk."""
        event = "event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0"
        ((failed,),) = ask(
            self.engine, f"SELECT count() FROM system.events WHERE {event}", lane=PUBLISH_LANE
        )
        return bool(failed)

    def _add_checksum(self, staging: str) -> None:
        rows, total = self._publisher.checksum(staging, [c.name for c in self.plan.schema.columns])
        before = self.tally.checksum or (0, 0)
        self.tally.checksum = (before[0] + rows, (before[1] + total) % (1 << 64))

    def _check_count(self, done: Done, staged: int) -> None:
        read = done.outcome.rows_written if done.work.tolerant else done.outcome.rows_read
        if staged != read:
            raise EngineError(f"{read:,} rows were read and {staged:,} were stored", transient=True)
        if done.work.tolerant:
            with self._changed:
                self.tally.rejected += self.doctor.reject(done.work.splits, staged)

    # --- what goes wrong ----------------------------------------------------------------------

    def _recover(self, work: Work, attempt: str, staging: str, error: RowfallError) -> None:
        """Clear away a failed attempt and decide what of it is tried again, and how."""
        with self._changed:
            if self._stop:
                return  # the interrupt clears away; the engine may be gone already
            if isinstance(error, EngineError) and error.code == 0 and error.transient:
                self._revive(error)
        if isinstance(error, SourceError) or error.code in DATA_CODES:
            # Half of a file that is being written looks like bad data.
            changed = self.source.changed(work.splits)
            error = ChangedError(changed) if changed else error
        for statement in self.target.discard(staging):
            self.engine.run(Statement(statement), lane=PUBLISH_LANE)
        _unlink(self.target, staging)
        self.ledger.attempt_ended(attempt, "failed", _shown(error.message))
        if not self.source.replayable:
            # What was read of stdin is gone: another try would load the rest as if it were all.
            self._without(work, [(s, error) for s in work.splits])
        elif isinstance(error, ChangedError):
            self._without(work, [(s, _changed_error(s, what)) for s, what in error.changed])
        elif error.code == MEMORY_LIMIT:
            self._lower(work, error)
        elif error.code in DATA_CODES or isinstance(error, DataError):
            self._bad_data(work, error)
        elif error.transient and work.tries < retry.MOST_TRANSIENT:
            work.tries += 1
            self._note("warning", f"{error.message.splitlines()[0][:200]}; trying again")
            time.sleep(retry.pause(work.tries))
            self._again(work)
        elif isinstance(error, SourceError) and not error.transient:
            self._bisect(work, error)
        elif isinstance(error, SourceError):
            self._without(work, [(s, error) for s in work.splits])
        else:
            raise error

    def _revive(self, error: EngineError) -> None:
        """A new engine process after a death, a few times; then the error is final."""
        self._deaths += 1
        if self._deaths > retry.MOST_DEATHS:
            raise EngineError(error.message, hint=error.hint)
        self._note("warning", f"{error.message}; starting it again")
        self.engine.restart()

    def _lower(self, work: Work, error: RowfallError) -> None:
        if work.lowered >= retry.MOST_LOWERED:
            raise error
        self._note("warning", "out of memory: blocks are made smaller, trying once more")
        self.tally.settings = work.settings = lower(work.settings)
        work.lowered += 1
        self._again(work)

    def _bad_data(self, work: Work, error: RowfallError) -> None:
        """Try another way of reading, then around the bad rows, then without the bad objects."""
        if changed := self.source.changed(work.splits):
            # A cut or overwritten object explains any complaint about its last row.
            self._without(work, [(s, _changed_error(s, what)) for s, what in changed])
            return
        schema = work.schema or self._schema
        other = None if work.tolerant else self.doctor.second_look(work.splits, schema)
        if other is not None:
            work.schema = other
            if fastpath.is_fast(schema):
                # A zero in one object: the others will hold some, too. Line breaks are different:
                # whether all quotes are closed is asked for each group.
                self._schema = other
            self._again(work)
            return
        if self.doctor.tolerates and not work.tolerant:
            work.tolerant = True
            self._again(work)
            return
        guilty: Sequence[tuple[Split, RowfallError]] = self.doctor.explain(work.splits, error)
        if isinstance(error, TooManyBadRowsError):
            # The count is the news; where the first one is stands in it, too.
            guilty = [(split, error) for split, _ in guilty]
        if guilty:
            self._without(work, guilty)
        else:
            self._bisect(work, error)

    def _bisect(self, work: Work, error: RowfallError) -> None:
        """Nobody can say which object it was: halves of the group find out."""
        if len(work.splits) == 1:
            self._without(work, [(work.splits[0], error)])
            return
        half = len(work.splits) // 2
        first, second = work.splits[:half], work.splits[half:]
        self._again(replace(work, splits=first), replace(work, splits=second))

    def _without(self, work: Work, guilty: Sequence[tuple[Split, RowfallError]]) -> None:
        """Record failed splits and load the others of the group again."""
        bad = {split.id for split, _ in guilty}
        for split, error in guilty:
            message = _shown(error.message)
            self.ledger.split_failed(self.load_id, split.id, message, error.hint)
            self.tally.failures.append(Failure(split.name, message, error.hint))
            self.emit(SplitFailed(split.name, message, error.hint))
        failures = self.tally.failures
        if len(failures) >= retry.HOPELESS and not self.tally.landed:
            self._note("warning", f"stopped after {len(failures)} failures: nothing fits so far")
            with self._changed:
                self._queue.clear()
            return
        rest = [s for s in work.splits if s.id not in bad]
        if rest:
            self._again(replace(work, splits=rest))

    def _note(self, level: str, text: str) -> None:
        self.tally.notes.append(text)
        self.emit(Note(level, text))

    def _interrupt(self, workers: Sequence[threading.Thread]) -> None:
        """Stop what runs: politely for a second, then with the engine's process."""
        with self._changed:
            self._stop = True
            running = tuple(self._running)
            self._changed.notify_all()

        def kill() -> None:
            for attempt in running:
                self.engine.kill(attempt)

        polite = threading.Thread(target=kill, daemon=True)
        polite.start()
        deadline = time.monotonic() + POLITE_SECONDS
        for thread in (polite, *workers):
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(t.is_alive() for t in (polite, *workers)):
            self.engine.terminate()


def _changed_error(split: Split, what: str) -> SourceError:
    return SourceError(
        f"{split.name}: {what}",
        hint="Nothing of it is visible. Run the same command again when it is whole and at rest.",
    )


def _shown(text: str) -> str:
    """An error's text as it is recorded: of bounded length, bytes that are no text escaped."""
    return text[:MOST_TEXT].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _rename(staging: Path, final: Path) -> int:
    """Make a finished file visible under its name, durably. Returns its bytes."""
    if not staging.exists():
        return 0  # no rows, no file
    with staging.open("rb+") as file:
        os.fsync(file.fileno())
    size = staging.stat().st_size
    staging.replace(final)
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size


def _unlink(target: Target, staging: str) -> None:
    if target.caps.publish is Publish.RENAME and staging:
        Path(staging).unlink(missing_ok=True)
