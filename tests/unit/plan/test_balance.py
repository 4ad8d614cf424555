"""Who gets which file."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.plan.balance import Assignment, assign, cut, fill

SIZES = st.lists(st.one_of(st.none(), st.integers(0, 10**12)), max_size=60)
SPEEDS = st.lists(st.sampled_from([0.5, 1.0, 1.7, 4.0]), min_size=1, max_size=12)
FEW = st.lists(st.integers(1, 40), min_size=1, max_size=7)

# What sums of floats in another order may differ by.
CLOSE = 1e-9


def known(sizes: Sequence[float | None]) -> list[float]:
    told = [size for size in sizes if size is not None]
    mean = sum(told) / len(told) if told else 1.0
    return [mean if size is None else size for size in sizes]


def best(sizes: Sequence[float], speeds: Sequence[float]) -> float:
    """The shortest makespan, by trying every assignment."""
    shortest = math.inf
    for choice in product(range(len(speeds)), repeat=len(sizes)):
        loads = [0.0] * len(speeds)
        for size, shard in zip(sizes, choice, strict=True):
            loads[shard] += size
        shortest = min(shortest, max(a / b for a, b in zip(loads, speeds, strict=True)))
    return shortest


def lognormal(count: int, seed: int, sigma: float = 1.0) -> list[float]:
    chance = random.Random(seed)
    return [chance.lognormvariate(17, sigma) for _ in range(count)]


@given(SIZES, SPEEDS)
def test_every_item_goes_to_one_shard_and_loads_are_their_sums(
    sizes: list[float | None], speeds: list[float]
) -> None:
    found = assign(sizes, speeds)
    assert len(found.shard_of) == len(sizes)
    members = found.members()
    assert sorted(index for part in members for index in part) == list(range(len(sizes)))
    values = known(sizes)
    for shard, part in enumerate(members):
        assert all(found.shard_of[index] == shard for index in part)
        assert found.counts[shard] == len(part)
        assert found.loads[shard] == pytest.approx(sum(values[i] for i in part), rel=CLOSE)
    slowest = max(a / b for a, b in zip(found.loads, speeds, strict=True))
    assert found.makespan == slowest


@given(SIZES, SPEEDS)
def test_the_bounds_hold(sizes: list[float | None], speeds: list[float]) -> None:
    found = assign(sizes, speeds)
    assert found.makespan >= found.lower_bound * (1 - CLOSE)
    assert found.imbalance >= -CLOSE
    if len(set(speeds)) == 1:
        # Greedy: when the last item was placed, no shard had less than this one.
        shards, values = len(speeds), known(sizes)
        largest = max(values, default=0.0)
        worst = sum(values) / shards + (1 - 1 / shards) * largest
        assert found.makespan * speeds[0] <= worst * (1 + CLOSE)


@given(FEW, st.integers(1, 3))
def test_equal_shards_are_within_the_bound_of_longest_first(sizes: list[int], shards: int) -> None:
    found, shortest = assign(sizes, [1.0] * shards), best(sizes, [1.0] * shards)
    assert found.makespan <= shortest * (4 / 3 - 1 / (3 * shards)) * (1 + CLOSE)
    assert found.lower_bound <= shortest * (1 + CLOSE)


@given(FEW, st.lists(st.sampled_from([1.0, 1.5, 3.0]), min_size=2, max_size=3))
def test_unequal_shards_are_within_theirs(sizes: list[int], speeds: list[float]) -> None:
    found, shortest = assign(sizes, speeds), best(sizes, speeds)
    shards = len(speeds)
    assert found.makespan <= shortest * 2 * shards / (shards + 1) * (1 + CLOSE)
    assert found.lower_bound <= shortest * (1 + CLOSE)


@given(SIZES, SPEEDS)
def test_the_same_again(sizes: list[float | None], speeds: list[float]) -> None:
    assert assign(iter(sizes), speeds).shard_of == assign(sizes, speeds).shard_of


@pytest.mark.parametrize("shards", [2, 4])
def test_a_hundred_equal_files(shards: int) -> None:
    found = assign([25e6] * 100, [1.0] * shards)
    assert found.imbalance == 0
    assert set(found.counts) == {100 // shards}


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("shards", [2, 4])
def test_a_hundred_files_of_all_sizes(shards: int, seed: int) -> None:
    sizes = lognormal(100, seed)
    found = assign(sizes, [1.0] * shards)
    allowed = found.lower_bound / (sum(sizes) / shards) - 1  # by the largest file
    assert found.imbalance <= max(0.03, allowed + CLOSE)


def test_a_file_that_is_larger_than_a_share_sets_the_time() -> None:
    found = assign([100.0, *[1.0] * 20], [1.0] * 4)
    assert found.makespan == found.lower_bound == 100.0
    assert found.imbalance == pytest.approx(100 / 30 - 1)


def test_equal_files_that_cannot_be_even_have_an_exact_bound() -> None:
    found = assign([3.0] * 100, [1.0] * 3)
    assert found.makespan == found.lower_bound == 34 * 3.0


def test_a_server_twice_as_fast_gets_twice_as_much() -> None:
    found = assign([1.0] * 300, [1.0, 2.0])
    assert list(found.loads) == [100.0, 200.0]
    assert found.imbalance == 0


def test_many_different_speeds() -> None:
    chance = random.Random(5)
    speeds = [chance.uniform(1, 4) for _ in range(40)]
    found = assign(lognormal(10_000, 5), speeds)
    assert found.makespan <= found.lower_bound * 1.01


def test_unknown_sizes_count_as_the_mean() -> None:
    assert list(assign([4.0, None, 8.0], [1.0]).loads) == [18.0]
    assert list(assign([None] * 6, [1.0, 1.0]).loads) == [3.0, 3.0]


def test_empty_files_are_spread_too() -> None:
    assert list(assign([0] * 8, [1.0] * 4).counts) == [2] * 4


def test_nothing_to_do() -> None:
    found = assign([], [1.0, 2.0])
    assert isinstance(found, Assignment)
    assert (found.makespan, found.lower_bound, found.imbalance) == (0, 0, 0)


@pytest.mark.parametrize("speeds", [[], [1.0, 0.0], [-1.0], [math.nan], [math.inf]])
def test_speeds_that_are_none(speeds: list[float]) -> None:
    with pytest.raises(ValueError, match="speed above zero"):
        assign([1.0], speeds)


@pytest.mark.parametrize("size", [-1, math.nan, math.inf])
def test_sizes_that_are_none(size: float) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        assign([1.0, size], [1.0])


@given(
    st.lists(st.integers(0, 100), max_size=60),
    st.sampled_from([0, 10, 100, 1e9, math.inf]),
    st.integers(1, 20),
)
def test_groups_hold_every_item_once_and_in_order(
    sizes: list[int], most: float, most_items: int
) -> None:
    groups = cut(sizes, most, most_items)
    assert [index for group in groups for index in group] == list(range(len(sizes)))
    assert all(0 < len(group) <= most_items for group in groups)
    if most and max(sizes, default=0) <= most and most_items >= len(sizes):
        assert all(sum(sizes[i] for i in group) <= 2.5 * most for group in groups)


def test_groups_are_equal() -> None:
    assert cut([1.0] * 10, 3.4, 99) == [range(3), range(3, 7), range(7, 10)]
    assert cut([1.0] * 10, 100, 4) == [range(4), range(4, 8), range(8, 10)]
    assert cut([50.0, 1, 1, 1, 1], 2, 99)[0] == range(1)
    assert cut([], 2, 99) == []


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=400),
    loads=st.lists(st.integers(0, 400), min_size=1, max_size=9),
)
def test_ranges_fill_what_files_have_left_in_runs(sizes: list[int], loads: list[int]) -> None:
    speeds = [1.0] * len(loads)
    found = fill(sizes, loads, speeds)
    assert found == sorted(found)
    after = [float(load) for load in loads]
    for size, shard in zip(sizes, found, strict=True):
        after[shard] += size
    level = max([*(load for load in loads), (sum(sizes) + sum(loads)) / len(loads)])
    assert max(after) <= level + 2 * 5


def test_ranges_of_one_file_are_shared_by_speed() -> None:
    assert fill([1] * 8, [0, 0], [1.0, 3.0]).count(0) == 2
    assert fill([1] * 4, [10, 0, 0], [1.0] * 3) == [1, 1, 2, 2]
