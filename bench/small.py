"""The small figures: start-up, a tiny load, planning a million objects, and the memory limit."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from bench.data import FILES, ROWFALL, make, report, scaled, table
from bench.measure import BenchError, median, run

HELP_RUNS, TINY_RUNS = 10, 5
TINY_ROWS = 1000
OBJECTS = 1_000_000
LIMITS = {"1GiB": 1 << 30, "2GiB": 2 << 30}
MANY_FILES = 2000
_PROBE = Path(__file__).with_name("plan_probe.py")


def figures(root: Path, work: Path, scale: float) -> dict[str, Any]:
    """All of them, ready for results.json.

    Raises:
        BenchError: a command failed or lost rows.
    """
    print("small: rowfall --help", flush=True)
    shown = [run([ROWFALL, "--help"]).wall for _ in range(HELP_RUNS)]
    return {
        "help": {"wall": median(shown), "all": shown},
        "tiny": _tiny(root, work),
        "plan": _plan(scale),
        "memory": _memory(root, work, scale),
    }


def _tiny(root: Path, work: Path) -> dict[str, Any]:
    """A file that nobody has looked at yet: types are inferred, the folder and table are made."""
    print(f"small: a load of {TINY_ROWS:,} rows", flush=True)
    (path,) = make(root, "trips", "csv", TINY_ROWS, 1)
    walls = [_load(work, str(path), TINY_ROWS)["wall"] for _ in range(TINY_RUNS)]
    return {"rows": TINY_ROWS, "wall": median(walls), "all": walls}


def _plan(scale: float) -> dict[str, Any]:
    objects = max(1000, int(OBJECTS * min(scale, 1.0)))
    print(f"small: planning {objects:,} objects", flush=True)
    found: dict[str, Any] = json.loads(run([sys.executable, _PROBE, str(objects)]).output)
    return found


def _memory(root: Path, work: Path, scale: float) -> list[dict[str, Any]]:
    """The same rows in few and in many files, against two limits."""
    rows = scaled("trips", scale)
    given = table("trips")
    schema = ["--schema", given.structure, "--order-by", given.order_by]
    found = []
    for files in (FILES["trips"], MANY_FILES):
        count = min(files, rows)
        paths = make(root, "trips", "csv.gz", rows, count)
        size = sum(len(path.read_bytes()) for path in paths)  # into the page cache
        for text, limit in LIMITS.items():
            print(f"small: {count} files with --memory {text}", flush=True)
            pattern = str(paths[0].parent / "part_*.csv.gz")
            made = _load(work, pattern, rows, *schema, "--memory", text)
            found.append(
                {"files": count, "bytes": size, "limit": limit, "limit_text": text, **made}
            )
    return found


def _load(work: Path, source: str, rows: int, *options: str) -> dict[str, Any]:
    """One load into a fresh folder: wall and CPU seconds, memory of its processes."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command: list[str | Path] = [
        ROWFALL,
        "load",
        source,
        "--to",
        work / "data",
        "--table",
        "t",
        "--json",
        *options,
    ]
    try:
        sample = run(command, env={"ROWFALL_HOME": str(work / "state")}, together=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    told = report(sample.output)
    if told["rows"] != rows:
        raise BenchError(f"rowfall load {source}: {told['rows']:,} rows instead of {rows:,}")
    return {
        "wall": sample.wall,
        "cpu": sample.cpu,
        "largest": sample.largest,
        "together": sample.together,
        "retries": told["retries"],
    }
