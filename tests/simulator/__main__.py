# ruff: noqa: T201 - it is a command
"""Runs seeds: ``python -m simulator --seed 7`` prints one, ``--seeds 0-9999`` searches."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from simulator import seams
from simulator.world import simulate


def main() -> int:
    """Run what the arguments say; return 1 when a property does not hold."""
    parser = argparse.ArgumentParser(prog="simulator")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", default="0-999")
    parser.add_argument("--old", action="append", default=[], help="an old behaviour, by name")
    parser.add_argument("--spare", action="append", default=[], help="what does not happen")
    parser.add_argument("--focus", default="", help="a name in world.FOCUS")
    parser.add_argument("--most", type=int, default=1, help="stop after so many violations")
    given = parser.parse_args()
    low, _, high = given.seeds.partition("-")
    seeds = [given.seed] if given.seed is not None else range(int(low), int(high or low) + 1)
    found, began = 0, time.process_time()
    with seams.installed():
        for seed in seeds:
            try:
                world = simulate(
                    seed, given.old, given.spare, given.focus, tracing=given.seed is not None
                )
                if given.seed is not None:
                    print("\n".join(world.trace))
            except AssertionError as error:
                found += 1
                if given.seed is not None:
                    print("\n".join(error.world.trace))  # type: ignore[attr-defined]
                    traceback.print_exc()
                print(f"seed {seed}: {type(error).__name__}: {error}")
                if found >= given.most:
                    break
    seconds = time.process_time() - began
    print(f"{len(seeds)} seeds, {found} violations, {seconds:.1f} s of CPU")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
