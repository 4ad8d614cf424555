"""Attempts that are staged in tables: one commit, after which they can only be published."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from rowfall.core.model import PULL, Pair, Statement
from rowfall.core.parallel import on_all
from rowfall.engines.ask import asker
from rowfall.ledger.leases import Move
from rowfall.publish.publisher import PUBLISH_LANE, Publisher, Staged
from rowfall.run.landing.base import Done, Landed, Means, Place
from rowfall.targets import staging

if TYPE_CHECKING:
    from rowfall.run.executor import Executor


_Found = TypeVar("_Found")


class Committing(ABC):
    """What is staged, on one place or several, becomes visible on all of them, or nowhere."""

    def __init__(self, executor: Executor, means: Means, places: Sequence[Place]) -> None:
        self._executor, self._means, self._places = executor, means, places
        self._committing: set[str] = set()

    def bound(self, attempt: str) -> bool:
        return attempt in self._committing

    def finish(self, done: Done) -> Landed | None:
        """See :meth:`rowfall.run.landing.base.Landing.finish`: exactly once rests on this order."""
        means, executor = self._means, self._executor
        means.claims.counting(done.attempt)
        counted = on_all(lambda place: self._staged(place, done), self._places)
        rejected = self._check_count(done, counted)
        checksum = self._checksum(done) if executor.verifies else None
        for place, staged in zip(self._places, counted, strict=True):
            place.means.calm(staged)
        rows = sum(staged.rows for staged in self._once(counted))
        moves = [move for staged in counted for move in staged.moves]
        # Even where the line's fate is unknown nothing may be taken back: others may have seen it.
        self._committing.add(done.attempt)
        if not means.claims.commit(done.attempt, rows, moves):
            self._committing.discard(done.attempt)
            executor.lost(done.work, done.attempt, done.staging)
            return None
        # Those of several places are in the journal: the ledger's say nothing of places.
        means.ledger.attempt_loaded(done.attempt, rows, () if means.together else moves)

        def publish(pair: tuple[Place, Staged]) -> None:
            executor.publish_staged(done.attempt, pair[1], pair[0].means)

        on_all(publish, list(zip(self._places, counted, strict=True)))
        means.claims.landed(done.attempt)
        means.ledger.attempt_published(done.attempt, means.into)
        self.discard(done.staging)
        each = tuple(Landed(s.rows, s.parts, s.bytes) for s in counted)
        parts, size = sum(s.parts for s in counted), sum(s.bytes for s in counted)
        return Landed(rows, parts, size, rejected, checksum, each if means.together else ())

    @abstractmethod
    def stage(self, place: str, lane: int) -> None:
        """Make the staging place of an attempt."""

    @abstractmethod
    def discard(self, place: str) -> None:
        """Remove what an attempt left; harmless when there is nothing."""

    @abstractmethod
    def _check_count(self, done: Done, counted: Sequence[Staged]) -> int:
        """Rows in staging have to be those that were read. Returns how many were left out.

        Args:
            counted: what each place has got.

        Raises:
            CountError: they are not.
        """

    def _once(self, found: Sequence[_Found]) -> Sequence[_Found]:
        """Of what was found on each place, that of all rows once: some may hold the same ones."""
        return found

    def _staged(self, place: Place, done: Done) -> Staged:
        """What one place has got of an attempt."""
        pairs, fixed = place.twins.pairs(done.staging), place.twins.fixed(done.staging)
        return _publisher(place).staged(pairs, self._executor.plan.schema.row_bytes, fixed)

    def _checksum(self, done: Done) -> tuple[int, int]:
        columns = self._executor.plan.schema.columns

        def one(place: Place) -> tuple[int, int]:
            database = place.means.target.database
            return _publisher(place).checksum(database, done.staging, columns)

        found = self._once(on_all(one, self._places))
        return sum(rows for rows, _ in found), sum(total for _, total in found) % (1 << 64)

    def _counted_along(self, done: Done) -> tuple[int, ...]:
        """Rows that an attempt may have read besides those of its files.

        Servers before 25.1 skip objects that are missing; there the statement counts the objects
        itself, and that reads one row each (sources/_relation.py).
        """
        pulls = self._executor.plan.transport.delivery.value == PULL
        return (0, len(done.work.splits)) if self._means.target.server and pulls else (0,)


def _publisher(place: Place) -> Publisher:
    return Publisher(place.means.engine, place.means.ledger, PUBLISH_LANE)


def drop(place: Place, staged: str) -> None:
    """Remove what an attempt left on one place."""
    engine = place.means.engine
    asks = asker(engine, lane=PUBLISH_LANE)
    for statement in staging.discard(asks, staged, place.twins.databases):
        engine.run(Statement(statement), lane=PUBLISH_LANE)


def by_staging(pairs: Sequence[Pair], moves: Sequence[Move]) -> dict[str, int]:
    """Rows in each staging table."""
    rows = dict.fromkeys((pair.staging for pair in pairs), 0)
    for move in moves:
        rows[move.staging] += move.rows
    return rows
