"""Combinations that ``rowfall tune`` tries."""

from __future__ import annotations

import pytest

from rowfall.plan.tuning import fitting, powers

MIB = 1 << 20


@pytest.mark.parametrize(
    ("most", "counts"),
    [(1, [1]), (2, [1, 2]), (6, [1, 2, 3, 4, 6]), (59, [1, 2, 4, 8, 16, 29, 32, 59])],
)
def test_threads_are_powers_of_two_half_and_all(most: int, counts: list[int]) -> None:
    assert powers(most) == counts


@pytest.mark.parametrize(
    ("held", "sizes"),
    [(0, [16]), (16, [16]), (17, [16, 64]), (300, [16, 64, 256, 1024]),
     (5000, [16, 64, 256, 1024])],
)  # fmt: skip
def test_blocks_that_a_sample_does_not_fill_are_alike(held: int, sizes: list[int]) -> None:
    assert fitting([16, 64, 256, 1024], held) == sizes
