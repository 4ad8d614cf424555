"""What the planner looks at: everything a plan is made from, gathered beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from rowfall.core.listing import Listing
from rowfall.core.model import Encoding, Facts, Schema
from rowfall.core.options import Options
from rowfall.sources.base import Source
from rowfall.targets.base import Target


@dataclass(frozen=True, slots=True)
class WriterFacts:
    """One shard's node, ``host:port``, and what its engine can do."""

    shard: int
    node: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Link:
    """The way to the servers that blocks are pushed to.

    Attributes:
        near: they are on this machine.
        rate: bytes a second that the network carries, None where it could not be measured.
    """

    near: bool = False
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything the planner looks at."""

    source: Source
    target: Target
    listing: Listing
    encoding: Encoding | None
    schema: Schema
    facts: Facts
    options: Options
    landed: frozenset[int] = frozenset()
    """Indexes of the listing that are in the target already."""
    remote: bool = False
    placement: str = "embedded"
    delivery: str = "pull"
    why: str = ""
    views: tuple[str, ...] = ()
    undecoded: str = "the rows are not text on this machine"
    """Why rowfall-decode does not parse them; "" if it does."""
    sorted_by: tuple[str, ...] = ()
    """Columns that it sorts blocks by."""
    unbuilt: str = "rowfall-decode does not parse them"
    """Why the engine writes the parts; "" where rowfall-decode does."""
    exact: bool = True
    """The engine that stores takes floats of text exactly (see bodies.for_server)."""
    writers: tuple[WriterFacts, ...] = ()
    """The shards of a cluster; ``facts`` are then those of the first."""
    home: str = ""
    """Of a cluster: the table on each shard that gets the rows."""
    spread: str = ""
    """See :class:`rowfall.core.model.Plan`; of several shards."""
    why_spread: str = ""
    only: str = ""
    """Of ``filter``: what is true for the rows of the first shard."""
    ddl: str = ""
    """What makes the tables of a cluster; "" when they are there."""
    cutting: tuple[str, ...] = ()
    """Which large files are loaded in ranges, and why others are not."""
    cores_here: int = 1
    """Of this machine, which make the blocks that are pushed; ``facts`` are the target's."""
    link: Link | None = None
    """None where nothing depends on it."""
