"""Attempts in twins of the target and of the tables behind its views, on one engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rowfall.core.model import Statement
from rowfall.publish.publisher import Staged
from rowfall.publish.staging_tables import Twins
from rowfall.run.landing.base import Done, Means, Place
from rowfall.run.landing.committing import Committing, by_staging, drop
from rowfall.run.recovery import CountError

if TYPE_CHECKING:
    from rowfall.run.executor import Executor


class Tables(Committing):
    """Attempts in twins of the target and of the tables behind its views."""

    def __init__(self, executor: Executor, means: Means, twins: Twins) -> None:
        self._place, self._twins = Place(means, twins), twins
        super().__init__(executor, means, (self._place,))

    def stage(self, place: str, lane: int) -> None:
        means = self._means
        for statement in self._twins.stage(place):
            means.engine.run(Statement(statement, means.allowed), lane=lane)

    def discard(self, place: str) -> None:
        drop(self._place, place)

    def _staged(self, place: Place, done: Done) -> Staged:
        staged, twins = super()._staged(place, done), place.twins
        if twins.keeps:
            return staged
        # A Null table keeps nothing to count, and a Log holds other rows as well.
        each = 1 + sum(v.source < 0 for v in twins.views.views)
        return replace(staged, rows=done.outcome.rows_read // each)

    def _check_count(self, done: Done, counted: Sequence[Staged]) -> int:
        twins, outcome, (staged,) = self._twins, done.outcome, counted
        if not twins.keeps:
            return 0
        rows = by_staging(twins.pairs(done.staging), staged.moves)
        expected = twins.read(rows, done.staging)
        read = outcome.rows_written if done.work.tolerant and not twins.views else outcome.rows_read
        if done.work.tolerant and twins.views:
            read = expected or staged.rows  # bad rows were read, too; they are counted
        ranges = done.work.rows
        if ranges is not None:
            # Where the engine filters, it may read more rows than there are in the ranges.
            if staged.rows != ranges:
                raise CountError(
                    f"{ranges:,} rows are in the ranges and {staged.rows:,} were stored",
                    transient=True,
                )
            return 0
        if expected is not None and read - expected not in self._counted_along(done):
            raise CountError(
                f"{read:,} rows were read and {expected:,} were stored", transient=True
            )
        if not done.work.tolerant:
            return 0
        return self._means.bad_rows.reject(done.work.splits, staged.rows)
