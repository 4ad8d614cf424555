"""Other ways into a cluster, to compare with: what people type by hand, one statement each.

They insert through the Distributed table and know nothing of staging, so a crash may lose or
repeat rows. ``s3cluster``: all nodes read, one of them collects and sends. ``s3cluster-parallel``:
the server gives objects to nodes, each writes what it reads. ``views``: each shard reads its own
objects through ``cluster(name, view(...))``. That is no stored view, whose definition would keep
the keys of the store, also after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rowfall import sql
from rowfall.delivery import Order
from rowfall.engines.base import Engine, Tick
from rowfall.errors import TargetError, UsageError
from rowfall.jobs import Job
from rowfall.listing import Split
from rowfall.model import Outcome, Statement
from rowfall.publish import asker
from rowfall.shards import Shards, uuids_of
from rowfall.sqltext import SqlText, quote

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
        text = SqlText.of("INSERT INTO ", into, f" ({names})\n", self._relation(order))
        statement = Statement(text, settings, query_id=order.attempt)
        return self._engine.run(statement, lane=lane, on_tick=on_tick)

    def kill(self, attempt: str) -> None:
        self._engine.kill(attempt)

    def _relation(self, order: Order) -> SqlText:
        cluster = self._shards.cluster.name
        if self._name == "views":
            names = ", ".join(sql.name(c.name) for c in order.schema.columns)
            head = f"SELECT {names} FROM cluster({sql.name(cluster)}, view("
            return SqlText.of(head, self._by_shard(order), "))")
        select = self._select(order, order.splits)
        everywhere = f"\\1s3Cluster({quote(cluster)}, "
        parts = [_S3.sub(everywhere, p) if isinstance(p, str) else p for p in select.parts]
        return SqlText.of(*parts)

    def _by_shard(self, order: Order) -> SqlText:
        """What every node is sent: of its SELECTs a node reads only the one that is its shard's.

        A condition that is false for all rows keeps the others' objects from being looked at.
        """
        cluster = self._shards.cluster
        uuids = uuids_of(asker(self._shards.entry), cluster)
        if away := next((node for node in cluster.nodes if node not in uuids), None):
            raise TargetError(
                f"{away.name} does not answer; if it came back now, it would know no files to read",
                hint="Start it again, or leave out --method views.",
                transient=True,
            )
        pieces: list[str | SqlText] = []
        for at, shard in enumerate(cluster.shards):
            own = order.splits[at :: len(cluster.shards)]
            # Not shardNum(), which is 0 here (24.10): the INSERT is sent on as the shard's own.
            nodes = ", ".join(quote(uuids[node]) for node in cluster.of(shard))
            if own:
                where = f"\nWHERE toString(serverUUID()) IN ({nodes})"
                pieces += ["\nUNION ALL " if pieces else "", self._select(order, own), where]
        return SqlText.of(*pieces)

    def _select(self, order: Order, splits: Sequence[Split]) -> SqlText:
        columns = order.schema.columns
        structure = sql.structure((c.source or c.name, c.read_type or c.type) for c in columns)
        relation = self._job.puller.relation(splits, self._job.encoding, structure)
        return SqlText.of(f"SELECT {sql.projection(columns)}\nFROM ", relation)
