"""Builds for clusters whose sharding key says where a row belongs.

The rows of an attempt are read once, here: rowfall-decode makes parts for each shard, and each
takes over its own. No row passes between nodes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.contracts.delivery import DeliveryOrder
from rowfall.core.model import Column
from rowfall.core.sqltext import SqlText
from rowfall.decoder.documents import PartPartition, PartShard, Spec
from rowfall.deliver.build import IN_ORDER, BuildRun, held_bytes, partitions
from rowfall.deliver.decode import DeclinedError
from rowfall.deliver.server_build import BuildForServer
from rowfall.engines.base import on_all
from rowfall.plan import keys, merging
from rowfall.plan.table_definition import Definition


class BuildForShards(BuildForServer):
    """Delivers parts to the shards of a cluster, each those of the rows that belong there.

    Args:
        first: the delivery to one of them, whose engine answers questions.
        shards: those to each, by the places of the shards in the list of the cluster.
    """

    def __init__(
        self, first: BuildForServer, shards: Sequence[BuildForServer], key: ShardingKey
    ) -> None:
        super().__init__(*first.given)
        self._shards, self._key = shards, key

    def prove(self, order: DeliveryOrder, lane: int) -> None:
        """Prove that all shards read the same parts.

        Raises:
            DeclinedError: one does not, and all may get the rows in another way.
            TargetError: one does not, and parts are asked for.
            RowfallError: one cannot be asked at the moment.
        """
        # Parts are made by the definition of one: with another primary key, which tables with the
        # same sorting key may have, their index could not be read.
        if len({_needs(shard.definition(order, lane)) for shard in self._shards}) > 1:
            self.refuse("the tables of the shards differ in more than their columns")
        for shard in self._shards:
            try:
                shard.prove(order, lane)
            finally:
                self._proven = shard.refused

    def prove_anew(self, order: DeliveryOrder, lane: int) -> None:
        for shard in self._shards:
            try:
                shard.prove_anew(order, lane)
            finally:
                self._proven = shard.refused

    def _partitioned(
        self, run: BuildRun, table: Definition, stored: Sequence[Column], asked: Spec
    ) -> Spec:
        asked = super()._partitioned(run, table, stored, asked)
        use = keys.shard_use(self._key.expression, stored)
        if isinstance(use, str):
            raise DeclinedError(f"parts of the shards cannot be built: {use}", None)
        by = asked.partition_by
        if by is None:
            file = str(Path(run.outputs[0]).parent / "keys.native")
            by = PartPartition((), file=file, hold_bytes=held_bytes(run.order))
            asked = replace(asked, block_bytes=merging.HELD_BLOCK)
        shard = PartShard(self._key.ends, use.hash, use.column, use.used)
        return replace(asked, partition_by=replace(by, shard=shard))

    def _partitions(self, run: BuildRun, rows: SqlText, lane: int) -> Mapping[str, Any]:
        """Return the partitions of values, and the shard of each where no hash of it says that."""
        use = keys.shard_use(self._key.expression, run.order.schema.columns)
        if isinstance(use, keys.ShardUse) and use.hash is not None:
            return super()._partitions(run, rows, lane)
        slots = self._engine.ask(
            SqlText.of(f"SELECT {self._key.slot} FROM (", rows, ")"), IN_ORDER, lane=lane
        )
        found: Sequence[Sequence[Any]] = [["all", ""] for _ in slots]
        if run.partitioning is not None:
            found = partitions(run.partitioning, self._engine, rows, lane)["partitions"]
        ends = self._key.ends
        places = (bisect_right(ends, int(slot)) for (slot,) in slots)
        return {"partitions": [[*one, at] for one, at in zip(found, places, strict=True)]}

    def _hand_over(self, run: BuildRun, parts: Mapping[str, Path]) -> float:
        own: dict[int, dict[str, Path]] = {}
        for name, part in parts.items():
            number, _, rest = name.partition(".")
            own.setdefault(int(number), {})[rest] = part

        def one(at: int) -> float:
            order, shard = run.order, self._shards[at]
            return shard.restore(order.staging, own[at], order.attempt, run.lane)

        return sum(on_all(one, sorted(own)))

    def complete(self, run: BuildRun, table: Definition) -> float:
        return sum(on_all(lambda shard: shard.complete(run, table), self._shards))

    def kill(self, attempt: str) -> None:
        run = self._running.get(attempt)
        super().kill(attempt)
        on_all(lambda shard: shard.kill_statements(attempt, run), self._shards)


def _needs(table: Definition) -> tuple[object, ...]:
    """Return what parts of a table must have beside its columns, which are the same everywhere."""
    made = (table.indices, table.projections, table.constraints)
    return (table.primary_elements, table.expires, *map(frozenset, made))
