"""Values of ``rowfall scale``: rates, work, node, and a projection for each number of nodes."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from enum import StrEnum

from rowfall.core.model import Encoding

# Seconds before the first row is read: processes start, the first statement is planned (as in the
# planner's forecast; a load of 1,000 rows takes 0.44 s in all).
START_SECONDS = 0.3
# Seconds that an attempt costs beside its rows: staging, counting, publishing, 0.1 to 0.4 measured.
ATTEMPT_COST = 0.25


@dataclass(frozen=True, slots=True)
class Rates:
    """What one core does.

    Attributes:
        core: source bytes (generated rows: bytes in memory) turned into rows of a table, a second.
        reading: the same when rows are dropped; None when not known.
        rows_per_byte: rows in a source byte; None when not known.
        origin: ``given``, ``ledger``, ``sample`` or ``planner``.
        why: where they are from, one clause.
    """

    core: float
    reading: float | None
    rows_per_byte: float | None
    origin: str
    why: str


class Limit(StrEnum):
    """What would have to be better for the load to be faster."""

    CORES = "cores"
    NETWORK = "network"
    STORE = "store"
    LARGEST = "largest file"
    ATTEMPTS = "attempts"
    FILES = "files"
    START = "start"


@dataclass(frozen=True, slots=True)
class LoadWork:
    """What is to be loaded.

    Attributes:
        sizes: source bytes of the files, in the order of the listing.
        whole: a file keeps one core busy, because it cannot be cut.
        store: bytes a second that the store gives all nodes together, inf for no limit;
            ``why_store`` says where that is from.
        start: seconds until the first node begins.
        rows: all rows, None when not known.
        attempt: bytes of an attempt; None for those that the planner chooses.
    """

    sizes: array[float]
    whole: bool
    start: float = START_SECONDS
    store: float = math.inf
    why_store: str = ""
    rows: float | None = None
    attempt: float | None = None


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One of the equal servers.

    Attributes:
        cores: of one node.
        core_rate: source bytes that a core turns into rows of a table in a second.
        network: bytes a second that a node can get, inf for no limit.
        price: of a node for an hour, None when not known.
    """

    cores: int
    core_rate: float
    network: float = math.inf
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """A load on so many nodes.

    Attributes:
        seconds: wall time: ``start_seconds``, ``makespan`` and ``attempt_seconds``.
        node_seconds: of all nodes together. ``cost``: what they cost, None without a price.
        rows_per_second: None where rows are not known.
        node_rate: bytes a second of one node while all of its cores are busy.
        attempts: of the slowest node; ``attempt_seconds`` is what they cost beside their rows.
        idle_seconds: of ``makespan``, what the slowest node would save if its cores did not wait
            for the end of each attempt.
        files_least, files_most: of the node with the fewest and the most.
        imbalance: how much longer than the average the slowest node takes, by bytes alone.
        makespan: seconds of work of the slowest node; nothing can beat ``lower_bound``.
        limit, limited_by: see :class:`Limit`, and the same as a sentence.
    """

    nodes: int
    seconds: float
    node_seconds: float
    cost: float | None
    bytes_per_second: float
    rows_per_second: float | None
    node_rate: float
    start_seconds: float
    attempts: int
    attempt_seconds: float
    idle_seconds: float
    files_least: int
    files_most: int
    imbalance: float
    makespan: float
    lower_bound: float
    limit: Limit
    limited_by: str


@dataclass(frozen=True, slots=True)
class ScaleReport:
    """The answer of ``rowfall scale``.

    Attributes:
        source, target: as typed, without secrets; ``target`` "" for the default.
        encoding: None for generated rows, whose ``bytes`` are those in memory.
        files, bytes, largest: of the listing.
        projections: one for each number of nodes, in the order asked for.
        notes: what the numbers leave out.
        planning_cpu_seconds: of this process for all of it, a sample's engine not among them.
        peak_memory: bytes resident in this process at its highest.
    """

    source: str
    target: str
    encoding: Encoding | None
    files: int
    bytes: float
    largest: float
    rates: Rates
    work: LoadWork
    node: NodeCapacity
    projections: tuple[Projection, ...]
    notes: tuple[str, ...]
    planning_cpu_seconds: float
    peak_memory: int
