"""Many seeds of followed sources: late names, overwrites, stale listings, kills."""

from __future__ import annotations

import os

import pytest

from gate import ALL
from simulator.watching import simulate

# 4 ms each; the gate has a second of them.
SEEDS = int(os.environ.get("ROWFALL_SIM_SEEDS", "20000" if ALL else "300"))
# Seeds of a search for what was put back.
MOST = 400


def violation(seeds: range, old: str = "") -> str:
    """Return the first violation among some seeds; "" where there is none."""
    for seed in seeds:
        try:
            simulate(seed, old)
        except AssertionError as error:
            return f"seed {seed}: {error}"
    return ""


@pytest.mark.timeout(max(120, SEEDS // 50))
@pytest.mark.parametrize("share", range(4))
def test_no_seed_breaks_a_promise(share: int) -> None:
    assert not violation(range(share, SEEDS, 4))


@pytest.mark.parametrize(
    ("old", "wrong"),
    [
        ("digests of unfinished chunks", "missing"),
        ("taken at the first look", "half of an object"),
        ("only behind the last name", "missing"),
        ("what was told is forgotten", "missing"),
        ("no leases", "twice"),
        ("overwritten unnoticed", "overwritten unnoticed"),
        ("attempts end behind the question", "overwritten unnoticed"),
    ],
)
def test_the_simulator_finds_what_would_be_wrong(old: str, wrong: str) -> None:
    found = violation(range(MOST), old)
    assert wrong in found, found or f"nothing in {MOST} seeds"
