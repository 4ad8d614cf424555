"""Gives items of known sizes to shards, so that all of them finish at about the same time.

Longest first, each to the shard that would finish it earliest (LPT). With m equal shards that
takes at most 4/3 - 1/(3m) of the best possible time, and next to nothing more than it where no
single item is a large part of a shard's share.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

from rowfall.core.dataclass import dataclass

# Shards of one class share a heap, and every item is compared with all heaps. A million items and
# 1,000 shards took 1.4 CPU seconds with one class, 1.9 with two, 2.5 with eight. A cluster has one
# or two kinds of servers; only measured speeds are all different: 0.0005 % off the bound with 8
# classes.
MOST_CLASSES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """An assignment of items to shards.

    Attributes:
        shard_of: for each item, in the order given, the index of its shard.
        loads: for each shard, the sum of its items' sizes.
        counts: for each shard, how many items it has.
        speeds: as given, size per second of each shard.
        lower_bound: seconds that no assignment of these items to these shards can beat.
    """

    shard_of: array[int]
    loads: array[float]
    counts: array[int]
    speeds: array[float]
    lower_bound: float

    @property
    def makespan(self) -> float:
        """Return the seconds until the last shard is done."""
        return max(load / rate for load, rate in zip(self.loads, self.speeds, strict=True))

    @property
    def imbalance(self) -> float:
        """Return the excess time of the slowest shard over an even spread, a fraction: 0.03 is 3 %.

        With equal speeds this is the largest load / the mean load - 1.
        """
        even = math.fsum(self.loads) / math.fsum(self.speeds)
        return self.makespan / even - 1 if even else 0.0

    def members(self) -> list[array[int]]:
        """Return for each shard the indexes of its items, ascending."""
        found = [array("l") for _ in self.speeds]
        for index, shard in enumerate(self.shard_of):
            found[shard].append(index)
        return found


def assign(sizes: Iterable[float | None], speeds: Sequence[float]) -> Assignment:
    """Give every item to a shard; the same input always gives the same answer.

    O(n log n), in arrays: a million items and 1,000 shards take 1.4 to 2.5 s and 95 MB.

    Args:
        sizes: of the items by index, e.g. bytes; None (not known) counts as the mean of the others.
        speeds: size per second of each shard; all 1 where they are equal.

    Raises:
        ValueError: no shard, a speed that is not above zero, a size below zero, or not a number.
    """
    rates = array("d", speeds)
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise ValueError("every shard needs a speed above zero, and there has to be one")
    values = _known(sizes)
    order = array("l", sorted(range(len(values)), key=values.__getitem__, reverse=True))
    given = Assignment(
        array("i", bytes(4 * len(values))), array("d", bytes(8 * len(rates))),
        array("l", [0] * len(rates)), rates,
        lower_bound(array("d", (values[index] for index in order)), rates),
    )  # fmt: skip
    classes = _classes(rates)
    if len(classes) == 1:
        _place_alike(values, order, classes[0], given)
    else:
        _place(values, order, classes, given)
    return given


def lower_bound(falling: Sequence[float], speeds: Sequence[float]) -> float:
    """Return the seconds that no assignment beats: the largest of three bounds.

    - The j largest items keep at most j shards busy, at best the j fastest; all items, all shards.
    - Of the km + 1 largest items some shard of m gets k + 1, at best the fastest and the smallest.

    Args:
        falling: sizes, the largest first.
    """
    if not falling:
        return 0.0
    sums = array("d", accumulate(falling, initial=0.0))
    fastest = sorted(speeds, reverse=True)
    together = list(accumulate(fastest))
    shards = len(fastest)
    bound = sums[-1] / together[-1]
    bound = max(
        bound, *(sums[j] / together[j - 1] for j in range(1, min(len(falling), shards) + 1))
    )
    for k in range(1, (len(falling) - 1) // shards + 1):
        last = k * shards + 1
        bound = max(bound, (sums[last] - sums[last - k - 1]) / fastest[0])
    return bound


def fill(sizes: Sequence[float], loads: Sequence[float], speeds: Sequence[float]) -> list[int]:
    """Give the ranges of large files to shards, neighbours together: one request reads a run.

    Args:
        sizes: of the ranges, in their order.
        loads: what each shard has already.

    Returns:
        For each range the index of its shard, ascending.
    """
    # The level that all reach together; a shard that has more than that gets nothing.
    busy = list(range(len(speeds)))
    while True:
        total = math.fsum(sizes) + math.fsum(loads[shard] for shard in busy)
        level = total / math.fsum(speeds[shard] for shard in busy)
        below = [shard for shard in busy if loads[shard] < level * speeds[shard]]
        if len(below) in (0, len(busy)):
            break
        busy = below
    found: list[int] = []
    given, place, end = 0.0, 0, level * speeds[busy[0]] - loads[busy[0]]
    for size in sizes:
        while given + size / 2 > end and place < len(busy) - 1:
            place += 1
            end += level * speeds[busy[place]] - loads[busy[place]]
        found.append(busy[place])
        given += size
    return found


def cut(sizes: Sequence[float], most: float, most_items: int) -> list[range]:
    """Return neighbours in groups of about equal size, as indexes.

    Args:
        most: about how much a group holds; an item larger than that is a group of its own.
        most_items: how many items a group holds at most.
    """
    total = math.fsum(sizes)
    share = total / max(1, round(total / most)) if most else total
    groups: list[range] = []
    start, size, given = 0, 0.0, 0.0
    for index, own in enumerate(sizes):
        # Close the group where the running total passes its share, so that no last one is tiny.
        full = given + size + own / 2 > share * (len(groups) + 1)
        if index > start and (full or index - start >= most_items):
            groups.append(range(start, index))
            given += size
            start, size = index, 0.0
        size += own
    if start < len(sizes):
        groups.append(range(start, len(sizes)))
    return groups


def _known(sizes: Iterable[float | None]) -> array[float]:
    """Return the sizes, with the mean of the known ones (1 if there are none) for the others."""
    values = array("d", (-1.0 if size is None else _checked(size) for size in sizes))
    missing = sum(1 for value in values if value < 0)
    if missing:
        known = math.fsum(value for value in values if value >= 0)
        mean = known / (len(values) - missing) if missing < len(values) else 1.0
        for index, value in enumerate(values):
            if value < 0:
                values[index] = mean
    return values


def _checked(size: float) -> float:
    if not 0 <= size < math.inf:
        raise ValueError(f"{size!r} is not a size")
    return size


# (seconds until it is done, items, shard): of equal shards the one with fewer items, so that items
# without a size do not all go to one; then the first.
_Heap = list[tuple[float, int, int]]


def _classes(rates: Sequence[float]) -> list[_Heap]:
    """Return a heap of shards for each speed; many different speeds share ``MOST_CLASSES``."""
    found: dict[float, _Heap] = {}
    lowest, spread = min(rates), math.log(max(rates) / min(rates))
    few = len(set(rates)) <= MOST_CLASSES
    for shard, rate in enumerate(rates):
        step = rate if few else int(math.log(rate / lowest) / spread * (MOST_CLASSES - 1e-6))
        found.setdefault(step, []).append((0.0, 0, shard))
    return list(found.values())


def _place_alike(
    values: Sequence[float], order: Sequence[int], heap: _Heap, given: Assignment
) -> None:
    """Give items to equal shards: the one that is done first finishes any item first."""
    shard_of, loads, counts, rate = given.shard_of, given.loads, given.counts, given.speeds[0]
    for index in order:
        _, _, shard = heap[0]
        shard_of[index] = shard
        loads[shard] += values[index]
        counts[shard] += 1
        heapq.heapreplace(heap, (loads[shard] / rate, counts[shard], shard))


def _place(
    values: Sequence[float], order: Sequence[int], classes: Sequence[_Heap], given: Assignment
) -> None:
    """Give items to the shard that finishes first; of each class only one is compared."""
    shard_of, loads, counts, rates = given.shard_of, given.loads, given.counts, given.speeds
    for index in order:
        size = values[index]
        best = (math.inf, 0, 0)
        into = classes[0]
        for heap in classes:
            done, count, shard = heap[0]
            ends = (done + size / rates[shard], count, shard)
            if ends < best:
                best, into = ends, heap
        shard = best[2]
        shard_of[index] = shard
        loads[shard] += size
        counts[shard] += 1
        heapq.heapreplace(into, (loads[shard] / rates[shard], counts[shard], shard))
