"""Other ways into a cluster, to compare with: what people type by hand, one statement each.

They insert through the Distributed table and know nothing of staging, so a crash may lose or repeat
rows. ``s3cluster``: all nodes read, one of them collects
and sends. ``s3cluster-parallel``: the server gives objects to nodes, each writes what it reads.
``views``: each shard has a view of its own objects and reads that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rowfall import sql
from rowfall.delivery import Order
from rowfall.engines.base import Engine, Tick
from rowfall.errors import RowfallError, UsageError
from rowfall.jobs import Job
from rowfall.listing import Split
from rowfall.model import Outcome, Statement
from rowfall.shards import Shards
from rowfall.sqltext import SqlText, quote
from rowfall.targets.base import STAGING_PREFIX

# 2: each shard runs the whole INSERT SELECT on its local table.
_PARALLEL: Mapping[str, int] = {"s3cluster-parallel": 2, "views": 2}
_S3 = re.compile(r"(\A|FROM )s3\(")


class ByMethod:
    """The delivery of a ``--method`` that is :data:`rowfall.ways.BY_HAND`.

    Args:
        engine: the node that was named, which runs the statement.

    Raises:
        UsageError: the source is not in S3, or the nodes cannot read it.
    """

    def __init__(self, name: str, job: Job, shards: Shards, engine: Engine) -> None:
        if job.how is None or not job.how.pull or not job.sources[0].startswith("s3://"):
            raise UsageError(
                f"--method {name} needs objects in S3 that the nodes can read",
                hint="Leave it out: the shards then load by themselves, from anywhere.",
            )
        if shards.mirrored and name in _PARALLEL:
            raise UsageError(
                f"--method {name} writes to one replica of each shard, and each has a table of "
                "its own",
                hint="Leave it out, or take --method s3cluster.",
            )
        self._name, self._job, self._shards, self._engine = name, job, shards, engine

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        names = ", ".join(sql.name(c.name) for c in order.schema.columns)
        into = self._job.target.into(order.staging, order.schema)
        settings = {
            **order.settings,
            "parallel_distributed_insert_select": _PARALLEL.get(self._name, 0),
            # Otherwise rows wait in the queue of the Distributed table when the statement is done.
            "distributed_foreground_insert": 1,
        }
        view = f"{STAGING_PREFIX}{order.attempt}_view"
        try:
            relation = self._relation(order, view)
            text = SqlText.of("INSERT INTO ", into, f" ({names})\n", relation)
            statement = Statement(text, settings, query_id=order.attempt)
            return self._engine.run(statement, lane=lane, on_tick=on_tick)
        finally:
            if self._name == "views":
                with suppress(RowfallError):  # rowfall clean finds it
                    self._drop(view)

    def kill(self, attempt: str) -> None:
        self._engine.kill(attempt)

    def _relation(self, order: Order, view: str) -> SqlText:
        if self._name == "views":
            self._make(view, order)
            cluster, database = self._shards.cluster.name, self._shards.tables.local[0]
            where = f"{sql.name(cluster)}, {sql.qualified(database, view)}"
            names = ", ".join(sql.name(c.name) for c in order.schema.columns)
            return SqlText.of(f"SELECT {names} FROM cluster({where})")
        select = self._select(order, order.splits)
        everywhere = f"\\1s3Cluster({quote(self._shards.cluster.name)}, "
        parts = [_S3.sub(everywhere, p) if isinstance(p, str) else p for p in select.parts]
        return SqlText.of(*parts)

    def _select(self, order: Order, splits: Sequence[Split]) -> SqlText:
        columns = order.schema.columns
        structure = sql.structure((c.source or c.name, c.read_type or c.type) for c in columns)
        relation = self._job.puller.relation(splits, self._job.encoding, structure)
        return SqlText.of(f"SELECT {sql.projection(columns)}\nFROM ", relation)

    def _make(self, view: str, order: Order) -> None:
        """A view on each shard that shows its own objects, on all of its replicas."""
        database, shards = self._shards.tables.local[0], self._shards
        numbers = shards.cluster.shards
        for at, shard in enumerate(numbers):
            own = order.splits[at :: len(numbers)]
            # A shard without objects still has to have a view.
            select = self._select(order, own or order.splits[:1])
            end = "" if own else " LIMIT 0"
            head = f"CREATE VIEW {sql.qualified(database, view)} AS "
            for node in shards.cluster.of(shard):
                if not node.error:
                    shards.reach(node).run(Statement(SqlText.of(head, select, end)))

    def _drop(self, view: str) -> None:
        name = sql.qualified(self._shards.tables.local[0], view)
        for node in self._shards.cluster.up:
            self._shards.reach(node).run(Statement(SqlText.of(f"DROP VIEW IF EXISTS {name} SYNC")))
