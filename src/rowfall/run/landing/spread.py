"""Attempts in twins on every shard of a cluster, because each row belongs on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from rowfall.core.errors import RowfallError
from rowfall.core.model import Statement
from rowfall.core.parallel import on_all
from rowfall.publish.publisher import PUBLISH_LANE, Staged
from rowfall.run.landing.base import Done, Means, Place
from rowfall.run.landing.committing import Committing, by_staging, drop
from rowfall.run.recovery import CountError

if TYPE_CHECKING:
    from rowfall.run.executor import Executor


_Found = TypeVar("_Found")


class Spread(Committing):
    """One claim and one commit for what is staged on all shards of a cluster."""

    def __init__(self, executor: Executor, means: Means) -> None:
        super().__init__(executor, means, means.together)
        # Where the cluster writes to each replica of a shard, they hold the same rows.
        shards = [place.means.shard for place in self._places]
        self._first = [shards.index(shard) for shard in shards]

    def stage(self, place: str, lane: int) -> None:
        def one(at: Place) -> None:
            for statement in at.twins.stage(place):
                # Not on ``lane``, where an attempt of that shard may be running.
                at.means.engine.run(Statement(statement, at.means.allowed), lane=PUBLISH_LANE)

        on_all(one, self._places)

    def discard(self, place: str) -> None:
        def one(at: Place) -> None:
            try:
                drop(at, place)
            except RowfallError as error:
                if error.code or not error.transient:
                    raise
                at.means.engine.revive()  # it may be the one that the attempt has failed for
                drop(at, place)

        on_all(one, self._places)

    def _staged(self, place: Place, done: Done) -> Staged:
        staged = super()._staged(place, done)
        moves = tuple(replace(move, node=place.means.place) for move in staged.moves)
        return replace(staged, moves=moves)

    def _once(self, found: Sequence[_Found]) -> Sequence[_Found]:
        return [found[at] for at in dict.fromkeys(self._first)]

    def _check_replicas(self, counted: Sequence[Staged]) -> None:
        """Raises CountError when the replicas of a shard have not got the same number of rows."""
        for at, first in enumerate(self._first):
            one, other = counted[first].rows, counted[at].rows
            if one != other:
                raise CountError(
                    f"{one:,} rows were stored on {self._places[first].means.place} and {other:,} "
                    f"on {self._places[at].means.place}, which is a replica of it",
                    transient=True,
                )

    def _check_count(self, done: Done, counted: Sequence[Staged]) -> int:
        self._check_replicas(counted)
        rows = sum(staged.rows for staged in self._once(counted))
        if done.work.tolerant:
            return self._means.bad_rows.reject(done.work.splits, rows)
        reader, own = next(
            (place, staged)
            for place, staged in zip(self._places, counted, strict=True)
            if place.means.place == self._means.place
        )
        # The statement's own shard reads again for views what it has got; others count their own.
        staged = by_staging(reader.twins.pairs(done.staging), own.moves)
        again = reader.twins.read(staged, done.staging)
        read = done.outcome.rows_read - ((again or own.rows) - own.rows)
        if read - rows not in self._counted_along(done):
            raise CountError(
                f"{read:,} rows were read and {rows:,} were stored on all shards", transient=True
            )
        return 0
