"""Sharding keys: the shard that a row belongs on, as Distributed tables compute it.

ClickHouse writes out each shard as often as its weight says, one after the other, and a row belongs
on the one at the place ``key % length`` of that list. Negative keys count as unsigned numbers of
their own width (``createBlockSelector.cpp``).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.core.model import Ask
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote

if TYPE_CHECKING:
    from rowfall.cluster.topology import Cluster

RAND = "rand()"
# Sharding keys that are as well served by any even share.
_FREE = frozenset({RAND, "rand32()", "rand64()", "randcanonical()"})
# Each reading of a file would give another value: a row could be kept by all shards or by none.
_VARYING = regex(
    r"\b(rand\w*|generate\w+|fuzz\w+|now\w*|today|yesterday|uptime|rowNumber\w+|nonDeterministic\w*|"
    r"hostName|fqdn|serverUUID|dictGet\w*|joinGet\w*|current\w+|shardNum|tcpPort)\s*\(",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ShardingKey:
    """The sharding key of a table.

    Attributes:
        cluster: its name.
        expression: SQL of the table's columns.
        weights: of the shards, in their order; 0 for one that gets no new rows.
        unreplicated: each replica has a table of its own, and rows that are sent to a shard are
            written to all of them by the cluster (``internal_replication = 0``).
    """

    cluster: str
    expression: str
    weights: tuple[int, ...]
    unreplicated: bool = False

    @property
    def shares(self) -> tuple[float, ...]:
        """Return the share of the rows that each shard gets if the key distributes them evenly."""
        total = sum(self.weights)
        return tuple(weight / total for weight in self.weights)

    @property
    def varies(self) -> bool:
        """True when reading a row again may give its key another value."""
        return _VARYING.search(self.expression) is not None

    @property
    def slot(self) -> str:
        """Return SQL of the place of a row among those of all shards."""
        # Shorter numbers are filled up with zeros: -1 as Int32 is 4,294,967,295.
        return f"reinterpretAsUInt64({self.expression}) % {sum(self.weights)}"

    @property
    def ends(self) -> tuple[int, ...]:
        """Return the place behind the last one of each shard."""
        return tuple(itertools.accumulate(self.weights))

    def condition(self, at: int) -> str:
        """Return SQL that is true for the rows of the shard at this position, from 0."""
        start, stop = sum(self.weights[:at]), sum(self.weights[: at + 1])
        if start == stop:
            return "0"
        if stop - start == 1:
            return f"{self.slot} = {start}"
        return f"{self.slot} BETWEEN {start} AND {stop - 1}"


def is_free(key: str) -> bool:
    """Tell whether rows may be on any shard by this sharding key."""
    return key.replace(" ", "").lower() in _FREE


def read_sharding_key(
    asks: Ask, cluster: Cluster, key: str, *, unreplicated: bool = False
) -> ShardingKey:
    """Return the key with the weights of the shards, on which all nodes have to agree.

    Args:
        unreplicated: see :class:`ShardingKey`.

    Raises:
        TargetError: they do not; or a shard is away, so that its rows could go nowhere, or a
            replica that would never get them.
    """
    from rowfall.cluster.topology import on_nodes  # 40 kB of code that only clusters need

    away = next((node for node in cluster.nodes if node.error is not None), None)
    if unreplicated and away is not None:
        raise TargetError(
            f"{away.name} of the cluster {cluster.name!r} does not answer: {away.error}; the "
            "replicas have tables of their own, and it would never get the rows of this load",
            hint="Start it again, or make the table a Replicated one.",
            transient=True,
        )
    if cluster.lost:
        raise TargetError(
            f"shard {cluster.lost[0]} of the cluster {cluster.name!r} does not answer, and {key} "
            "says which rows belong there",
            hint="Start it again; rows of a table with a sharding key cannot go to another shard.",
            transient=True,
        )
    found = asks(on_nodes(cluster.name, (
        "SELECT arraySort(groupUniqArray((shard_num, shard_weight))) AS weights "
        f"FROM system.clusters WHERE cluster = {quote(cluster.name)}"
    )))  # fmt: skip
    said = {cluster.nodes[int(number) - 1]: _weights(weights) for number, weights in found}
    first = next(iter(said))
    for node, weights in said.items():
        if weights != said[first]:
            raise TargetError(
                f"{first.name} and {node.name} do not agree on the shards of {cluster.name!r}: "
                f"their weights are {said[first]} and {weights}",
                hint="Give all servers the same remote_servers: they would put rows elsewhere.",
            )
    weights = said[first]
    if not any(weights):
        raise TargetError(f"no shard of the cluster {cluster.name!r} has a weight")
    return ShardingKey(cluster.name, key, weights, unreplicated)


def _weights(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(int(weight) for _, weight in rows)
