"""Many seeds of the simulator; each runs the protocol among faults that the seed decides."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest

from gate import ALL
from simulator import seams
from simulator.world import simulate

# A million takes three hours of one core: `make simulate` does that.
SEEDS = int(os.environ.get("ROWFALL_SIM_SEEDS", "100000" if ALL else "10000"))
# So many tests share them, so that workers take turns.
SHARES = 20
# What the code is known to fail at.
SPARED: Sequence[str] = (
    "late ATTACH", "EXCHANGE with a copy", "ADD COLUMN", "BACKUP and RESTORE", "DETACH and ATTACH",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with seams.installed():
        yield


def violation(seeds: Sequence[int], old: Sequence[str] = ()) -> str:
    """Return the first violation among some seeds; "" where there is none."""
    for seed in seeds:
        try:
            simulate(seed, old, SPARED)
        except AssertionError as error:
            again = " ".join(f"--old {name!r}" for name in old)
            return (
                f"seed {seed}: {error} "
                f"(cd tests && python -m simulator --seed {seed} {again})"
            )  # fmt: skip
    return ""


@pytest.mark.timeout(max(120, SEEDS // SHARES))
@pytest.mark.parametrize("share", range(SHARES))
def test_no_seed_breaks_a_promise(share: int) -> None:
    assert not violation(range(share, SEEDS, SHARES))


def test_a_seed_repeats_a_run() -> None:
    traces = [simulate(7, spared=SPARED, tracing=True).trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 10


# --- what earlier versions did --------------------------------------------------------------------

OLD = {
    "no sync": "missing",
}
"""Behaviours that are put back one by one, and the violation that the simulator finds then."""


@pytest.mark.parametrize("old", OLD)
def test_the_simulator_finds_what_was_wrong(old: str) -> None:
    found = violation(range(2_000), [old])
    assert OLD[old] in found, found or "nothing in 2,000 seeds"
