"""Whether the defaults of ``rowfall load`` are within 5 % of the best that ``rowfall tune`` finds.

    python bench/tune.py [--quick] [--rounds 3] [--budget 2m] [--scale 1.0] [--only CASE,CASE]
                         [--data FOLDER] [--results FILE] [--again | --missing]

A matrix of trips, taxi and lineitem in csv.gz, JSON and Parquet, from disk and from S3, into a
folder and a server. Each case is swept; where a combination beats the default by more than 5 %,
both load all rows in turns, ``--rounds`` times, and the median of the ratios counts: one sweep
alone is no proof. ``--quick`` takes seven cases and at most ten minutes. Prints a table with the
load average of the machine.

Each case is written to results-tune.json beside this file as soon as it is known, with the commit,
the scale and the decoder it was measured with. A case that was measured so already is left out, so
a run can be split: another commit, scale, budget or number of rounds measures it anew, and so does
``--again``. ``--missing`` takes only cases that the file holds nothing of.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import data, measure
from bench.doctor import TARGETS, Place

RESULTS = Path(__file__).parent / "results-tune.json"
AIM = 0.05
# Rows of each table; the smallest load takes about a second on two cores.
ROWS = {"trips": 20_000_000, "taxi": 1_000_000, "lineitem": 2_000_000}
FILES = 8
CASES = tuple(itertools.product(
    ROWS, ("csv.gz", "json", "parquet"), ("disk", "s3"), ("folder", "server")
))  # fmt: skip
Case = tuple[str, str, str, str]  # table, format, where it is read from, target
# One of each table, format, source and target, and two of each pair that behave differently.
QUICK = (
    ("trips", "csv.gz", "disk", "folder"), ("trips", "csv.gz", "s3", "server"),
    ("taxi", "csv.gz", "disk", "folder"), ("taxi", "json", "disk", "folder"),
    ("taxi", "parquet", "disk", "server"), ("lineitem", "csv.gz", "disk", "server"),
    ("lineitem", "parquet", "s3", "folder"),
)  # fmt: skip
# Seven sweeps and what is confirmed of them, with files and servers, in ten minutes.
QUICK_BUDGET, QUICK_SECONDS, QUICK_SCALE = "40s", 570.0, 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """How much is measured.

    Attributes:
        until: as of ``time.monotonic``, when no further case is begun; 0 for never.
    """

    rounds: int
    budget: str
    scale: float
    until: float


class Results:
    """What is known of the cases, in a file that is written after each of them.

    Args:
        path: of the file. ``run``: how they are measured now; a case holds what it was measured
            with, and counts as known only where that is the same.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self._path, self._run = path, dict(run)
        self.cases: dict[str, dict[str, Any]] = {}
        if path.exists():
            self.cases = json.loads(path.read_text())["cases"]

    def left(
        self, cases: Sequence[Case], *, again: bool, missing: bool
    ) -> list[Case]:  # fmt: skip
        """The cases that are yet to be measured."""
        if again:
            return list(cases)
        known = {
            name for name, found in self.cases.items() if missing or found.get("run") == self._run
        }
        return [case for case in cases if "-".join(case) not in known]

    def add(self, name: str, found: Mapping[str, Any]) -> None:
        """Write a case; a file that is cut off by a crash is never left behind."""
        self.cases[name] = {"run": self._run, **found}
        order = ["-".join(case) for case in CASES]
        cases = {name: self.cases[name] for name in order if name in self.cases}
        whole = {"cores": os.cpu_count(), "rows": ROWS, "cases": cases}
        growing = self._path.with_suffix(".growing")
        growing.write_text(json.dumps(whole, indent=1) + "\n")
        growing.replace(self._path)


def commit() -> str:
    """The commit that is measured, with "+" behind it where source has been changed since."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[1]), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "crates")
    return git("rev-parse", "--short=12", "HEAD") + "+" * bool(changed)


def document(*words: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The JSON document of a command."""
    found: dict[str, Any] = json.loads(
        measure.run([data.ROWFALL, *words, "--json"], env=env).output
    )
    return found


def flags(options: Mapping[str, Any]) -> list[str]:
    """The options of a cell as words of a command."""
    words = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{name.replace('_', '-')}", str(one)]
    return words


def load(
    source: str, place: Place, env: Mapping[str, str], state: Path, *more: str
) -> float:  # fmt: skip
    """Rows a second of one load into an emptied place."""
    place.fresh()
    shutil.rmtree(state, ignore_errors=True)  # else the files count as loaded
    os.sync()
    words = ("load", source, "--to", place.to, "--table", place.table, "--no-adapt", *more)
    report = document(*words, env=env)
    return float(report["rows"]) / float(report["seconds"])


def confirmed(
    source: str, place: Place, env: Mapping[str, str], options: Mapping[str, Any], asked: Asked
) -> list[float]:  # fmt: skip
    """Ratios of the best cell to the default, in turns, of all rows."""
    state = Path(os.environ["ROWFALL_HOME"])
    ratios = []
    for number in range(asked.rounds):
        sides = [[], flags(options)]
        rates = {}
        for side in sides if number % 2 else sides[::-1]:
            rates[bool(side)] = load(source, place, env, state, *side)
        ratios.append(rates[True] / rates[False])
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", default="2m")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--again", action="store_true")
    which.add_argument("--missing", action="store_true")
    given = parser.parse_args()
    asked = Asked(given.rounds, given.budget, given.scale, 0.0)
    if given.quick:
        until = time.monotonic() + QUICK_SECONDS
        asked = Asked(given.rounds, QUICK_BUDGET, given.scale * QUICK_SCALE, until)
    wanted = [name.strip() for name in given.only.split(",") if name.strip()]
    cases = [case for case in (QUICK if given.quick else CASES)
             if not wanted or "-".join(case) in wanted]  # fmt: skip
    if not cases:
        raise measure.BenchError(f"cases are {', '.join(map('-'.join, CASES))}")
    measure.adopt_orphans()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")
    how = {"commit": commit(), "scale": asked.scale, "budget": asked.budget, "rounds": asked.rounds}
    results = Results(given.results, how)
    cases = results.left(cases, again=given.again, missing=given.missing)
    with contextlib.ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-tune-")))
        made.chmod(0o755)
        os.environ["ROWFALL_HOME"] = str(made / "state")
        root = given.data or made
        places = {
            name: stack.enter_context(TARGETS[name](made))
            for name in dict.fromkeys(case[3] for case in cases)
        }
        sources: dict[tuple[str, ...], tuple[str, Mapping[str, str]]] = {}
        for case in cases:
            left = asked.until - time.monotonic()
            if asked.until and left < 30:
                print(f"{'-'.join(case):32} not begun: --quick has no time left", flush=True)
                continue
            if case[:3] not in sources:
                sources[case[:3]] = prepare(stack, root, case, asked.scale)
            found = measured(*sources[case[:3]], places[case[3]], asked)
            results.add("-".join(case), found)
            tell("-".join(case), found)
    off = [name for name, found in results.cases.items() if found["ratio"] > 1 + AIM]
    known = len(results.cases)
    print(f"{known - len(off)} of {known} defaults within {AIM:.0%} of the best")
    print(overview(results.cases))


def overview(cases: Mapping[str, Mapping[str, Any]]) -> str:
    """The best beside the default in every case, as Markdown; nothing where it is not measured."""
    ways = [(to, where) for to in ("folder", "server") for where in ("disk", "s3")]
    lines = ["| | " + " | ".join(f"{where} to {to}" for to, where in ways) + " |"]
    lines.append("|---|" + "---:|" * len(ways))
    for table, suffix in dict.fromkeys(case[:2] for case in CASES):
        found = [cases.get(f"{table}-{suffix}-{where}-{to}") for to, where in ways]
        ratios = ["" if one is None else f"{one['ratio']:.2f}" for one in found]
        lines.append(f"| {table} {suffix} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def prepare(
    stack: contextlib.ExitStack, root: Path, case: tuple[str, ...], scale: float
) -> tuple[str, Mapping[str, str]]:
    """The source of a case, and the environment that reaches it."""
    table, suffix, where, _ = case
    found = data.make(root, table, suffix, max(int(ROWS[table] * scale), 1000), FILES)
    if where == "disk":
        return str(found[0].parent / f"part_*.{suffix}"), {}
    _, environment = stack.enter_context(data.served(found))
    return f"s3://{data.BUCKET}/part_*.{suffix}", environment


def measured(
    source: str, more: Mapping[str, str], place: Place, asked: Asked
) -> dict[str, Any]:  # fmt: skip
    """The sweep of one case, and what is left of it in turns."""
    env = {**place.environment, **more}
    place.fresh()
    before = os.getloadavg()[0]
    found = document(
        "tune", source, "--to", place.to, "--table", place.table, "--budget", asked.budget, env=env
    )
    default = next(cell for cell in found["cells"] if "default" in cell["marks"])
    formula = next((cell for cell in found["cells"] if "formula" in cell["marks"]), None)
    best = found["best"]
    ratio = swept = rate(best) / rate(default)
    turns: list[float] = []
    # A sweep names the largest of many noisy figures: it is too good by as much as they differ.
    if best["options"] and (not asked.until or asked.until - time.monotonic() > 45):
        turns = confirmed(source, place, env, best["options"], asked)
        ratio = measure.median(turns)
    return {
        "default": round(rate(default)), "best": round(rate(best)), "ratio": round(ratio, 3),
        "swept": round(swept, 3), "turns": [round(turn, 3) for turn in turns],
        "choices": best["choices"], "options": best["options"],
        "default_choices": default["choices"],
        "formula": None if formula is None or formula["figures"] is None
        else round(rate(formula) / rate(default), 3),
        "load_average": [round(before, 2), round(os.getloadavg()[0], 2)],
        "seconds": round(found["seconds"], 1),
        "cells": [
            {"choices": cell["choices"], "marks": cell["marks"], **cell["figures"]}
            for cell in found["cells"] if cell["figures"]
        ],
    }  # fmt: skip


def rate(cell: Mapping[str, Any]) -> float:
    """Rows a second of a cell."""
    return float(cell["figures"]["rows_per_second"])


def tell(name: str, found: Mapping[str, Any]) -> None:
    """Print a line about one case."""
    turns = " ".join(f"{turn:.2f}" for turn in found["turns"])
    print(
        f"{name:32} default {found['default']:>11,}  best {found['swept']:.2f} x"
        f"{f'  in turns {turns}' if turns else ''}  formula {found['formula'] or '-'}  "
        f"load {found['load_average'][0]}  {shlex.join(flags(found['options'])) or 'default'}",
        flush=True,
    )


if __name__ == "__main__":
    main()
