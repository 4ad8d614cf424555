"""rowfall.read against what polars, pandas and DuckDB read by themselves, in turns.

    python bench/read.py [--rows 1000000] [--rounds 3] [--folder DIR] [CASE ...]

CPU-seconds of a whole process, with its imports and programs; medians of the rounds, and the share
of the library's own. Writes results-read.json.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent

OWN, OURS = "own", "rowfall"
# What each side does with {path}; `frame` is what comes out of it.
CASES: dict[str, tuple[str, str, str, str, float]] = {
    "csv.gz to polars": (
        # By its first 100 rows polars takes columns of some files for numbers that are text.
        "csv.gz", "import polars",
        "frame = polars.read_csv(path, try_parse_dates=True, infer_schema_length=10_000)",
        "import rowfall; frame = polars.DataFrame(rowfall.read(path))", 0.5,
    ),
    "csv.gz to pandas": (
        "csv.gz", "import pandas", "frame = pandas.read_csv(path)",
        "import rowfall; frame = rowfall.read(path).df()", 0.3,
    ),
    "json.gz to DuckDB": (
        "json.gz", "import duckdb",
        "duckdb.sql(f\"CREATE TABLE t AS SELECT * FROM read_json('{path}')\")",
        "import rowfall; rows = rowfall.read(path); "
        "duckdb.sql('CREATE TABLE t AS SELECT * FROM rows')", 0.6,
    ),
}  # fmt: skip
"""Case -> end of the file, imports, the library's own call, that with rowfall, and the aim."""


def call_once(imports: str, call: str, path: Path) -> tuple[float, float]:
    """Return CPU-seconds and seconds of a process that makes one call."""
    text = f"import sys\n{imports}\npath = sys.argv[1]\n{call}\n"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-c", text, str(path)], check=True, stdout=subprocess.DEVNULL)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(cpu, 2), round(seconds, 2)


def main() -> None:
    """Run the cases, print a table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    # As installers leave all packages: otherwise rowfall alone is compiled in each process, which
    # takes 0.3 CPU-seconds.
    compileall.compile_dir(HERE.parent / "src/rowfall", quiet=1)
    results = {}
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made)
        for name in asked.cases:
            end, imports, own, ours, aim = CASES[name]
            path = folder / f"taxi-{asked.rows}.{end}"
            if not path.exists():
                form = "JSONEachRow" if end.startswith("json") else "CSVWithNames"
                source = f"generate://taxi?rows={asked.rows}"
                command = [sys.executable, "-m", "rowfall", "load", source, "--to", str(path)]
                subprocess.run([*command, "--to-format", form, "--quiet"], check=True)
            found: dict[str, list[tuple[float, float]]] = {OWN: [], OURS: []}
            for _ in range(asked.rounds):
                found[OWN].append(call_once(imports, own, path))
                found[OURS].append(call_once(imports, ours, path))
            cpu = {side: statistics.median(c for c, _ in all_) for side, all_ in found.items()}
            share = cpu[OURS] / cpu[OWN]
            results[name] = {
                "rows": asked.rows, "bytes": path.stat().st_size, "rounds": found,
                "cpu_seconds": cpu, "share": round(share, 3), "aim": aim,
            }  # fmt: skip
            print(
                f"{name:<20} own {cpu[OWN]:6.2f}  rowfall {cpu[OURS]:6.2f} CPU-seconds"
                f"  share {share:.2f} (aim {aim})",
                flush=True,
            )
    libraries = ("polars", "pandas", "duckdb", "pyarrow", "nanoarrow")
    document = {
        "cores": len(os.sched_getaffinity(0)),
        "versions": {name: version(name) for name in libraries},
        "cases": results,
    }
    (HERE / "results-read.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
