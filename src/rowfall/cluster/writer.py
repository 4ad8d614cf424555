"""The writers of a load. Apart from what opens a cluster, which takes 15 ms to import."""

from __future__ import annotations

from rowfall.core.dataclass import dataclass
from rowfall.engines.base import Engine
from rowfall.targets.base import Target


@dataclass(frozen=True, slots=True)
class Writer:
    """One engine that stores rows of a load: the only one, or the chosen replica of a shard.

    Attributes:
        number: of its line in the queue.
        node: ``host:port``; "" where there is only one engine.
        target: with the table that gets its rows.
        shard: that it is a replica of; 0 where there is only one engine.
    """

    number: int
    node: str
    engine: Engine
    target: Target
    shard: int = 0
