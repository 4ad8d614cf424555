"""Project a load to N nodes from the rate of one core. Pure.

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
from heapq import heapreplace

from rowfall.core import units
from rowfall.core.model import Encoding, Kind
from rowfall.core.projection import ATTEMPT_COST, Limit, LoadWork, NodeCapacity, Projection
from rowfall.plan.attempts import MOST_SPLITS, attempt_bytes
from rowfall.plan.balance import Assignment, assign, cut, lower_bound

# Requests a second that S3 promises for each prefix of a bucket (GET and HEAD).
PREFIX_REQUESTS = 5_500
# An object is looked at when it is planned and before it is published, and read in ranges of this.
LOOKS = 2
RANGE_BYTES = 4 << 20
# Work so much longer than with all cores busy to the end is the files' fault, not the rate's.
UNEVEN = 1.1


def is_whole(encoding: Encoding | None) -> bool:
    """Return true if a file keeps one core busy: only plain text and Parquet can be cut."""
    if encoding is None or encoding.format == "Parquet":
        return False
    return encoding.kind is Kind.TYPED or encoding.compression != "none"


def requests_rate(sizes: Sequence[float], prefixes: int) -> float:
    """Return the most bytes a second of S3, at :data:`PREFIX_REQUESTS` for each prefix."""
    requests = sum(LOOKS + math.ceil(size / RANGE_BYTES) for size in sizes)
    total = math.fsum(sizes)
    return total * PREFIX_REQUESTS * prefixes / requests if total else math.inf


@dataclass(frozen=True, slots=True)
class _Slowest:
    """The node that works longest: seconds of work, and of that with all files in one attempt."""

    seconds: float
    at_once: float
    attempts: int


def project(work: LoadWork, node: NodeCapacity, nodes: int) -> Projection:
    """Project the load to ``nodes`` equal nodes; a million files on 1,000 take 4 to 5 s."""
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


def _slowest(work: LoadWork, node: NodeCapacity, given: Assignment, rate: float) -> _Slowest:
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
    """Return the bytes of the busiest core, with the largest files given first.

    balance.assign also tells which core gets which file: 2 s instead of 0.5 for a million files.
    """
    loads = [0.0] * cores
    for size in sorted(sizes, reverse=True):
        heapreplace(loads, loads[0] + size)
    return max(loads)


def _limit(
    work: LoadWork, node: NodeCapacity, nodes: int, rate: float, slowest: _Slowest, wall: float
) -> tuple[Limit, str]:
    """Find what limits the speed and say it; ``rate`` is the bytes a second of a node."""
    if wall - slowest.seconds > slowest.seconds:
        return (
            Limit.START,
            "starting and bookkeeping: there is too little to load",
        )
    uneven = slowest.at_once * nodes * rate / math.fsum(work.sizes)
    waiting = slowest.seconds / slowest.at_once
    if uneven > UNEVEN and uneven >= waiting:
        return _uneven(work, node, nodes, rate, slowest.at_once)
    if waiting > UNEVEN:
        files = len(work.sizes) / nodes / slowest.attempts
        return Limit.ATTEMPTS, (
            f"the end of each attempt: {node.cores} cores share {files:,.1f} files, and those that "
            "are done wait for the last one; a larger --attempt-bytes makes them wait less often"
        )
    if rate == node.cores * node.core_rate:
        return Limit.CORES, f"the cores: each node loads {units.byte_rate(rate)}"
    could = f"the cores of a node could load {units.byte_rate(node.cores * node.core_rate)}"
    if rate == node.network:
        return Limit.NETWORK, f"the network: {units.byte_rate(rate)} reach each node; {could}"
    return Limit.STORE, (
        f"the store: it gives {units.byte_rate(work.store)} to all nodes together "
        f"({work.why_store}); {could}"
    )


def _uneven(
    work: LoadWork, node: NodeCapacity, nodes: int, rate: float, seconds: float
) -> tuple[Limit, str]:
    """Say that one file is too large, or that there are too few files."""
    largest, alone = max(work.sizes), node.core_rate if work.whole else rate
    slots = nodes * node.cores if work.whole else nodes
    equal = largest < 2 * math.fsum(work.sizes) / len(work.sizes)
    if largest / alone > seconds / UNEVEN and not (equal and len(work.sizes) < slots):
        what = "keeps one core busy" if work.whole else "is read by one node"
        return Limit.LARGEST, (
            f"the largest file: it has {units.size(largest)} and {what} for "
            f"{units.duration(largest / alone)}"
        )
    what = "cores" if work.whole else "nodes"
    if len(work.sizes) < slots:
        return Limit.FILES, (
            f"too few files: {len(work.sizes):,} for {slots:,} {what}, so some {what} have nothing "
            "to do"
        )
    return Limit.FILES, (
        f"too few files: {len(work.sizes) / slots:.2f} for each of {slots:,} {what}, so that some "
        "load one more than others"
    )
