"""From staged to visible: what an attempt has written is checked, and becomes part of the target.

Tables are staged in twins and attached; files are written under another name and renamed, or by
a store that shows only whole objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rowfall import staging
from rowfall.delivery import Delivery
from rowfall.doctor import Doctor
from rowfall.engines.base import Engine
from rowfall.errors import RowfallError, TargetError
from rowfall.events import Listener
from rowfall.journal import Claims
from rowfall.ledger import Ledger, Move
from rowfall.model import Outcome, Pair, Setting, Statement
from rowfall.parallel import on_all
from rowfall.publish import Publisher, Staged, ask, asker
from rowfall.recovery import CountError
from rowfall.sources.base import Source
from rowfall.targets.base import Publish, Target
from rowfall.twins import Twins
from rowfall.workqueue import Work

if TYPE_CHECKING:
    from rowfall.execute import Executor

PUBLISH_LANE = 1


@dataclass(frozen=True, slots=True)
class Means:
    """What an executor works with; every part was opened by the job.

    Attributes:
        engine: stores the rows. ``delivery`` gets them there.
        twins: staging tables, None for targets that are files.
        into: the ledger's key of the place where attempts are published.
        identity: the key that split ids are made with: the target's, whatever ``into`` is.
        settings: for the INSERT.
        rescue: brings attempts of dead processes to an end, so that their splits are free.
        allowed: settings for CREATE TABLE: what the target has, its twin may have.
        calm: waits until the target can take the parts of an attempt.
        check: raises TargetError when the target is not the table any more that the load began
            with.
        seat: the number of this engine's line in the queue; ``place`` is its name in the journal.
        together: the means of all seats, itself among them, where each attempt is staged on all
            of them because a sharding key says which rows belong where; else ().
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
    settings: tuple[Setting, ...]
    emit: Listener
    allowed: Mapping[str, int]
    rescue: Callable[[Sequence[str]], None]
    calm: Callable[[Staged], None]
    check: Callable[[], None]
    seat: int = 0
    place: str = ""
    together: tuple[Means, ...] = ()

    @property
    def places(self) -> str:
        """Where attempts are staged, as the journal has it."""
        return ",".join(each.place for each in self.together) or self.place


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
class Landed:
    """What of an attempt is visible now; ``checksum`` as of :func:`rowfall.publish.checksum`.

    ``shares``: of one that was staged on several seats, what each of them has got.
    """

    rows: int
    parts: int
    bytes: int
    rejected: int = 0
    checksum: tuple[int, int] | None = None
    shares: tuple[Landed, ...] = ()


class Landing(Protocol):
    """How attempts of one load become visible."""

    def stage(self, place: str, lane: int) -> None:
        """Make the staging place of an attempt."""

    def finish(self, done: Done) -> Landed | None:
        """Check an attempt and make it visible; None when it was not ours any more."""

    def bound(self, attempt: str) -> bool:
        """Whether an attempt may be visible in part, so that nothing may be taken back."""

    def discard(self, place: str) -> None:
        """Remove what an attempt left; harmless when there is nothing."""


def landing(executor: Executor, means: Means) -> Landing:
    """The one that fits the target."""
    if means.together:
        return Spread(executor, means)
    if means.twins is not None:
        return Tables(executor, means, means.twins)
    return Files(executor, means)


class Tables:
    """Attempts in twins of the target and of the tables behind its views."""

    def __init__(self, executor: Executor, means: Means, twins: Twins) -> None:
        self._executor, self._means, self._twins = executor, means, twins
        self._committing: set[str] = set()

    def stage(self, place: str, lane: int) -> None:
        means = self._means
        for statement in self._twins.stage(place):
            means.engine.run(Statement(statement, means.allowed), lane=lane)

    def bound(self, attempt: str) -> bool:
        return attempt in self._committing

    def finish(self, done: Done) -> Landed | None:
        means, twins, executor = self._means, self._twins, self._executor
        schema = executor.plan.schema
        pairs, fixed = twins.pairs(done.staging), twins.fixed(done.staging)
        staged = executor.publisher.staged(pairs, schema.row_bytes, fixed)
        if not twins.keeps:
            # A Null table keeps nothing to count, and a Log holds other rows as well.
            each = 1 + sum(v.source < 0 for v in twins.views.views)
            staged = replace(staged, rows=done.outcome.rows_read // each)
        rejected = self._check_count(done, staged)
        checksum = None
        if executor.verifies:
            database = means.target.database
            checksum = executor.publisher.checksum(database, done.staging, schema.columns)
        means.calm(staged)
        # Even where the line's fate is unknown nothing may be taken back: others may have seen it.
        self._committing.add(done.attempt)
        if not means.claims.commit(done.attempt, staged.rows, staged.moves):
            self._committing.discard(done.attempt)
            executor.lost(done.work, done.attempt, done.staging)
            return None
        means.ledger.attempt_loaded(done.attempt, staged.rows, staged.moves)
        executor.publish_staged(done.attempt, staged, means)
        means.claims.landed(done.attempt)
        means.ledger.attempt_published(done.attempt, means.into)
        self.discard(done.staging)
        return Landed(staged.rows, staged.parts, staged.bytes, rejected, checksum)

    def _check_count(self, done: Done, staged: Staged) -> int:
        """Rows in staging have to be those that were read. Returns how many were left out.

        Raises:
            CountError: they are not.
        """
        twins, outcome = self._twins, done.outcome
        if not twins.keeps:
            return 0
        rows = _by_staging(twins.pairs(done.staging), staged.moves)
        expected = twins.read(rows, done.staging)
        read = outcome.rows_written if done.work.tolerant and not twins.views else outcome.rows_read
        if done.work.tolerant and twins.views:
            read = expected or staged.rows  # bad rows were read, too; the doctor counts them
        ranges = done.work.rows
        if ranges is not None:
            # Where the engine filters, it may read more rows than there are in the ranges.
            if staged.rows != ranges:
                raise CountError(
                    f"{ranges:,} rows are in the ranges and {staged.rows:,} were stored",
                    transient=True,
                )
            return 0
        if expected is not None and read - expected not in counted_along(
            self._executor, self._means, done
        ):
            raise CountError(
                f"{read:,} rows were read and {expected:,} were stored", transient=True
            )
        if not done.work.tolerant:
            return 0
        return self._means.doctor.reject(done.work.splits, staged.rows)

    def discard(self, place: str) -> None:
        means = self._means

        asks = asker(means.engine, lane=PUBLISH_LANE)
        for statement in staging.discard(asks, place, self._twins.databases):
            means.engine.run(Statement(statement), lane=PUBLISH_LANE)


def counted_along(executor: Executor, means: Means, done: Done) -> tuple[int, ...]:
    """Rows that an attempt may have read besides those of its files.

    Servers before 25.1 skip objects that are missing; there the statement counts the objects
    itself, and that reads one row each (sources/_relation.py).
    """
    pulls = executor.plan.delivery == "pull"
    return (0, len(done.work.splits)) if means.target.server and pulls else (0,)


class Spread:
    """Attempts in twins on every shard of a cluster, because each row belongs on one of them.

    One claim and one commit: what is staged on all shards becomes visible on all of them, or
    nowhere.
    """

    def __init__(self, executor: Executor, means: Means) -> None:
        self._executor, self._means = executor, means
        self._committing: set[str] = set()

    def stage(self, place: str, lane: int) -> None:
        def one(means: Means) -> None:
            for statement in _twins(means).stage(place):
                # Not on ``lane``, where an attempt of that shard may be running.
                means.engine.run(Statement(statement, means.allowed), lane=PUBLISH_LANE)

        on_all(one, self._means.together)

    def bound(self, attempt: str) -> bool:
        return attempt in self._committing

    def finish(self, done: Done) -> Landed | None:
        means, executor = self._means, self._executor
        counted = on_all(lambda each: self._staged(each, done), means.together)
        rejected = self._check_count(done, counted)
        for each, staged in zip(means.together, counted, strict=True):
            each.calm(staged)
        sums = self._checksums(done) if executor.verifies else None
        rows = sum(staged.rows for staged in counted)
        moves = [move for staged in counted for move in staged.moves]
        self._committing.add(done.attempt)
        if not means.claims.commit(done.attempt, rows, moves):
            self._committing.discard(done.attempt)
            executor.lost(done.work, done.attempt, done.staging)
            return None
        # Moves are for those who have no journal.
        means.ledger.attempt_loaded(done.attempt, rows, ())

        def publish(pair: tuple[Means, Staged]) -> None:
            executor.publish_staged(done.attempt, pair[1], pair[0])

        on_all(publish, list(zip(means.together, counted, strict=True)))
        means.claims.landed(done.attempt)
        means.ledger.attempt_published(done.attempt, means.into)
        self.discard(done.staging)
        shares = tuple(Landed(s.rows, s.parts, s.bytes) for s in counted)
        parts, size = sum(s.parts for s in counted), sum(s.bytes for s in counted)
        return Landed(rows, parts, size, rejected, sums, shares)

    def _staged(self, means: Means, done: Done) -> Staged:
        """What one shard has got of an attempt."""
        twins = _twins(means)
        pairs, fixed = twins.pairs(done.staging), twins.fixed(done.staging)
        publisher = Publisher(means.engine, means.ledger, PUBLISH_LANE)
        staged = publisher.staged(pairs, self._executor.plan.schema.row_bytes, fixed)
        moves = tuple(replace(move, place=means.place) for move in staged.moves)
        return replace(staged, moves=moves)

    def _checksums(self, done: Done) -> tuple[int, int]:
        columns = self._executor.plan.schema.columns

        def one(means: Means) -> tuple[int, int]:
            publisher = Publisher(means.engine, means.ledger, PUBLISH_LANE)
            return publisher.checksum(means.target.database, done.staging, columns)

        found = on_all(one, self._means.together)
        return sum(rows for rows, _ in found), sum(total for _, total in found) % (1 << 64)

    def _check_count(self, done: Done, counted: Sequence[Staged]) -> int:
        """All shards together have to hold the rows that were read. Returns how many were left
        out.

        Raises:
            CountError: they do not.
        """
        rows = sum(staged.rows for staged in counted)
        if done.work.tolerant:
            return self._means.doctor.reject(done.work.splits, rows)
        own = counted[[each.place for each in self._means.together].index(self._means.place)]
        # The statement's own shard reads again for views what it has got; others count their own.
        twins = _twins(self._means)
        again = twins.read(_by_staging(twins.pairs(done.staging), own.moves), done.staging)
        read = done.outcome.rows_read - ((again or own.rows) - own.rows)
        if read - rows not in counted_along(self._executor, self._means, done):
            raise CountError(
                f"{read:,} rows were read and {rows:,} were stored on all shards", transient=True
            )
        return 0

    def discard(self, place: str) -> None:
        def drop(means: Means) -> None:
            asks = asker(means.engine, lane=PUBLISH_LANE)
            for statement in staging.discard(asks, place, _twins(means).databases):
                means.engine.run(Statement(statement), lane=PUBLISH_LANE)

        def one(means: Means) -> None:
            try:
                drop(means)
            except RowfallError as error:
                if error.code or not error.transient:
                    raise
                means.engine.revive()  # it may be the one that the attempt has failed for
                drop(means)

        on_all(one, self._means.together)


def _twins(means: Means) -> Twins:
    assert means.twins is not None  # noqa: S101 - of a table
    return means.twins


def _by_staging(pairs: Sequence[Pair], moves: Sequence[Move]) -> dict[str, int]:
    """Rows in each staging table."""
    rows = dict.fromkeys((pair.staging for pair in pairs), 0)
    for move in moves:
        rows[move.staging] += move.rows
    return rows


class Files:
    """Attempts that are files, objects, or nothing at all."""

    def __init__(self, executor: Executor, means: Means) -> None:
        self._executor, self._means = executor, means
        self._renames = means.target.caps.publish is Publish.RENAME

    def stage(self, place: str, lane: int) -> None:
        """Nothing: the INSERT makes the file."""

    def bound(self, attempt: str) -> bool:
        return False

    def finish(self, done: Done) -> Landed:
        means = self._means
        final = means.target.staging_name("", done.work.number, self._executor.plan.encoding)
        if self._renames and self._writes_failed():
            raise TargetError(
                f"cannot write {final}: the disk is full, or took only a part of it",
                hint="Free some space and run the same command again.",
            )
        rows = done.outcome.rows_written or done.outcome.rows_read
        means.ledger.attempt_loaded(done.attempt, rows, ())
        written = _rename(Path(done.staging), Path(final)) if self._renames else 0
        means.ledger.attempt_published(done.attempt, means.into)
        return Landed(rows, 0, written)

    def _writes_failed(self) -> bool:
        """Whether a write to a file has failed since this engine started: its INSERT INTO file()
        ends well even on a full disk."""
        event = "event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0"
        ((failed,),) = ask(
            self._means.engine,
            f"SELECT count() FROM system.events WHERE {event}",
            lane=PUBLISH_LANE,
        )
        return bool(failed)

    def discard(self, place: str) -> None:
        if self._renames and place:
            Path(place).unlink(missing_ok=True)


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
