"""Results of sides, and the command line of the benchmarks that compare cases."""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from rowfall.measure.processes import (
    BenchError,
    adopt_orphans,
    children,
    descendants,
    resident,
    run,
)
from rowfall.measure.processes import ProcessSample as Sample

__all__ = [
    "BenchError", "Result", "Sample", "adopt_orphans", "children", "descendants", "resident",
    "run",
]  # fmt: skip

# As an installation has its byte code: without, each start compiles for 0.6 CPU-seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@dataclass(slots=True)
class Result:
    """What one side did in all rounds; one entry per round in every list.

    Attributes:
        kind: ``engine``, ``rowfall``, ``engine floor``, ``rowfall floor``.
        settings: what was set by hand.
        parts, stored: active parts and their bytes after the run; empty for floors.
        notes: the side's own report per round, for results.json only.
        single, final: wall and CPU seconds of merges after the run, until each partition is one
            part, and until OPTIMIZE FINAL is done; empty where they were not measured.
    """

    name: str
    kind: str
    settings: dict[str, int] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    largest: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    single: list[tuple[float, float]] = field(default_factory=list)
    final: list[tuple[float, float]] = field(default_factory=list)

    def add(self, sample: Sample, rows: int) -> None:
        self.wall.append(sample.wall)
        self.cpu.append(sample.cpu)
        self.largest.append(sample.largest)
        self.rows.append(rows)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(**found)


def is_release() -> bool:
    """Tell whether rowfall-decode is what users get.

    The one for tests (``make test``) has checks and is optimised less: its loads take up to twice
    the CPU, which no results may say.
    """
    return not list(Path(sys.prefix).glob(".decoder-quick-*"))


def median(values: Iterable[float]) -> float:
    """The middle value. Raises BenchError for none: an empty side must not look like a fast one."""
    ordered = list(values)
    if not ordered:
        raise BenchError("there is nothing to take a median of")
    return statistics.median(ordered)


def ratio(side: Result, base: Result) -> float:
    """How many times as long ``side`` takes as ``base``, by medians."""
    return median(side.wall) / median(base.wall)


def fastest(results: Iterable[Result]) -> Result:
    """The result with the smallest median wall time."""
    return min(results, key=lambda result: median(result.wall))


def overlap(one: Result, other: Result) -> bool:
    """Whether the slowest round of the faster side is slower than the fastest of the other."""
    return max(min(one.wall), min(other.wall)) <= min(max(one.wall), max(other.wall))


def agree(results: Iterable[Result], rows: int) -> str:
    """The one checksum of all runs that stored rows.

    Raises:
        BenchError: a run read or stored another number of rows, or other rows, than the others.
    """
    seen: dict[str, str] = {}
    for result in results:
        for found in result.rows:
            if found != rows:
                raise BenchError(f"{result.name}: {found:,} rows instead of {rows:,}")
        for checksum in result.checksums:
            seen.setdefault(checksum, result.name)
    if len(seen) > 1:
        told = "; ".join(f"{name} has {checksum}" for checksum, name in seen.items())
        raise BenchError(f"the sides stored different rows: {told}")
    return next(iter(seen), "")


def run_cases(
    title: str | None,
    known: Mapping[str, Callable[[int, Path], AbstractContextManager[Any]]],
    compare: Callable[[Any, int, int, Path], None],
) -> None:
    """Compare the cases that the command line names, each in a folder of its own.

    Args:
        compare: called with the case, its rows, the rounds and its folder.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    adopt_orphans()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")
    # As an installer leaves it: a fresh checkout would compile 160 modules in each run, half a
    # second of CPU, where byte code is not kept.
    compileall.compile_dir(Path(__file__).parents[1] / "src/rowfall", quiet=1)
    for name in asked.cases or known:
        with tempfile.TemporaryDirectory() as made:
            os.environ["XDG_STATE_HOME"] = made  # ledgers of servers
            folder = Path(made)
            folder.chmod(0o755)
            print(f"\n{name}: {asked.rows:,} taxi rows, {asked.rounds} rounds")
            with known[name](asked.rows, folder) as case:
                compare(case, asked.rows, asked.rounds, folder)
