"""What a load takes on N nodes, projected from the rate of one core. Pure.

    wall      = start + the slowest node: its attempts one after the other
    attempt   = max(its bytes / node rate, its busiest core / core rate) + ATTEMPT_COST
    node rate = min(cores x core rate, network, store / nodes)

Which node gets which file is what :mod:`rowfall.plan.balance` says, and attempts are cut
as the planner cuts them. A compressed text file cannot be cut, so it keeps one core: the files of
an attempt are given to the node's cores in the same way. Cores that have none wait for the end of
the attempt.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapreplace

from rowfall.core import units
from rowfall.core.model import Encoding, Kind
from rowfall.plan.attempts import MOST_SPLITS, attempt_bytes
from rowfall.plan.balance import Assignment, assign, cut, lower_bound

# Seconds before the first row is read: processes start, the first statement is planned (as in the
# planner's forecast; a load of 1,000 rows takes 0.44 s in all).
START_SECONDS = 0.3
# Seconds that an attempt costs beside its rows: staging, counting, publishing, 0.1 to 0.4 measured.
ATTEMPT_COST = 0.25
# Requests a second that S3 promises for each prefix of a bucket (GET and HEAD).
PREFIX_REQUESTS = 5_500
# An object is looked at when it is planned and before it is published, and read in ranges of this.
LOOKS = 2
RANGE_BYTES = 4 << 20
# Work so much longer than with all cores busy to the end is the files' fault, not the rate's.
UNEVEN = 1.1


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
class Work:
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
class Node:
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


def is_whole(encoding: Encoding | None) -> bool:
    """Whether a file of this encoding keeps one core: only plain text and Parquet can be cut."""
    if encoding is None or encoding.format == "Parquet":
        return False
    return encoding.kind is Kind.TYPED or encoding.compression != "none"


def requests_rate(sizes: Sequence[float], prefixes: int) -> float:
    """Bytes a second that S3 gives at most, at :data:`PREFIX_REQUESTS` for each prefix."""
    requests = sum(LOOKS + math.ceil(size / RANGE_BYTES) for size in sizes)
    total = math.fsum(sizes)
    return total * PREFIX_REQUESTS * prefixes / requests if total else math.inf


@dataclass(frozen=True, slots=True)
class _Slowest:
    """The node that works longest: seconds of work, and of that with all files in one attempt."""

    seconds: float
    at_once: float
    attempts: int


def project(work: Work, node: Node, nodes: int) -> Projection:
    """The load on ``nodes`` equal nodes; a million files on 1,000 take 4 to 5 s."""
    total = math.fsum(work.sizes)
    rate = min(node.cores * node.core_rate, node.network, work.store / nodes)
    given = assign(work.sizes, array("d", [rate]) * nodes)
    slowest = _slowest(work, node, given, rate)
    costs = slowest.attempts * ATTEMPT_COST
    wall = work.start + slowest.seconds + costs
    limit, sentence = _limit(work, node, nodes, rate, slowest, wall)
    best = given.lower_bound
    if work.whole:
        cores = array("d", [node.core_rate]) * (node.cores * nodes)
        best = max(best, lower_bound(array("d", sorted(work.sizes, reverse=True)), cores))
    return Projection(
        nodes=nodes,
        seconds=wall,
        node_seconds=nodes * wall,
        cost=None if node.price is None else node.price * nodes * wall / 3600,
        bytes_per_second=total / wall,
        rows_per_second=None if work.rows is None else work.rows / wall,
        node_rate=rate,
        start_seconds=work.start,
        attempts=slowest.attempts,
        attempt_seconds=costs,
        idle_seconds=max(0.0, slowest.seconds - slowest.at_once),
        files_least=min(given.counts),
        files_most=max(given.counts),
        imbalance=given.imbalance,
        makespan=slowest.seconds,
        lower_bound=best,
        limit=limit,
        limited_by=sentence,
    )


def _slowest(work: Work, node: Node, given: Assignment, rate: float) -> _Slowest:
    mean = math.fsum(work.sizes) / max(1, len(work.sizes))
    most = work.attempt or attempt_bytes(node.core_rate, node.cores, mean)

    def seconds(sizes: Sequence[float]) -> float:
        even = math.fsum(sizes) / rate
        return max(even, _busiest(sizes, node.cores) / node.core_rate) if work.whole else even

    worst, longest, mine = 0.0, array("d"), [range(0)]
    for members in given.members():
        sizes = array("d", (work.sizes[index] for index in members))
        parts = cut(sizes, most, MOST_SPLITS)
        took = math.fsum(seconds(sizes[part.start : part.stop]) for part in parts)
        if took >= worst:
            worst, longest, mine = took, sizes, parts
    return _Slowest(worst, seconds(longest), len(mine))


def _busiest(sizes: Sequence[float], cores: int) -> float:
    """What the busiest core gets, longest first; balance.assign without the answer to who gets what
    (a million files: 0.5 s instead of 2)."""
    loads = [0.0] * cores
    for size in sorted(sizes, reverse=True):
        heapreplace(loads, loads[0] + size)
    return max(loads)


def _limit(
    work: Work, node: Node, nodes: int, rate: float, slowest: _Slowest, wall: float
) -> tuple[Limit, str]:
    """What sets the time; ``rate`` is that of a node."""
    if wall - slowest.seconds > slowest.seconds:
        return Limit.START, "start-up and bookkeeping: there is too little to load"
    uneven = slowest.at_once * nodes * rate / math.fsum(work.sizes)
    waiting = slowest.seconds / slowest.at_once
    if uneven > UNEVEN and uneven >= waiting:
        return _uneven(work, node, nodes, rate, slowest.at_once)
    if waiting > UNEVEN:
        files = len(work.sizes) / nodes / slowest.attempts
        return Limit.ATTEMPTS, (
            f"the end of attempts: {files:,.1f} files in each keep {node.cores} cores, which wait "
            "for the last one; a larger --attempt-bytes makes fewer ends"
        )
    if rate == node.cores * node.core_rate:
        return Limit.CORES, f"the cores: {units.byte_rate(rate)} a node"
    could = f"the cores could load {units.byte_rate(node.cores * node.core_rate)}"
    if rate == node.network:
        return Limit.NETWORK, f"the network: {units.byte_rate(rate)} a node; {could} on each"
    return Limit.STORE, (
        f"the store: {units.byte_rate(work.store)} for all nodes, {work.why_store}; {could} on each"
    )


def _uneven(work: Work, node: Node, nodes: int, rate: float, seconds: float) -> tuple[Limit, str]:
    """One file is too large, or there are too few of them."""
    largest, alone = max(work.sizes), node.core_rate if work.whole else rate
    places = nodes * node.cores if work.whole else nodes
    equal = largest < 2 * math.fsum(work.sizes) / len(work.sizes)
    if largest / alone > seconds / UNEVEN and not (equal and len(work.sizes) < places):
        what = "keeps one core" if work.whole else "is read by one node"
        return Limit.LARGEST, (
            f"the largest file: {units.size(largest)} {what} for {units.duration(largest / alone)}"
        )
    what = "cores" if work.whole else "nodes"
    if len(work.sizes) < places:
        return Limit.FILES, (
            f"too few files: {len(work.sizes):,} for {places:,} {what}, the others stay idle"
        )
    return Limit.FILES, (
        f"too few files: {len(work.sizes) / places:.2f} for each of {places:,} {what}, "
        "which does not come out even"
    )
