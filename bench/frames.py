"""Loading an Arrow table from Python against chDB's own ``Python()``, into an embedded folder.

Run it with ``python bench/frames.py``. Each side makes the same table in a process of its own and
times the load; its CPU is that of the process and its children less that of making the table.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import Sample, adopt_orphans, median, run

_TABLE = """
import time
import numpy as np, pyarrow as pa
rows, random = {rows}, np.random.default_rng(1)
table = pa.table({{
    "id": np.arange(rows), "v": random.random(rows),
    "k": random.integers(0, 1000, rows, dtype="int32"),
    "at": pa.array(np.arange(rows) * 1_000_000, pa.timestamp("us", "UTC")),
    "s": pa.array(random.integers(0, 100_000, rows)).cast("string"),
}})
"""
_SIDES = {
    "nothing": "begun = time.time()",
    "Python()": """
import chdb
engine = chdb.connect("engine")
engine.query("CREATE DATABASE d")
engine.query("CREATE TABLE d.t (id Int64, v Float64, k Int32, at DateTime64(6, 'UTC'), s String) "
             "ENGINE = MergeTree ORDER BY tuple()")
begun = time.time()
engine.query("INSERT INTO d.t SELECT * FROM Python(table)")
""",
    "rowfall.load": """
import rowfall
begun = time.time()
rowfall.load(table, to="rowfall", table="t", type={"s": "String"}, order_by="tuple()")
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    adopt_orphans()
    found: dict[str, list[Sample]] = {name: [] for name in _SIDES}
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for _ in range(asked.rounds):
            for name, script in _SIDES.items():
                run(["rm", "-rf", "engine", "rowfall"])
                text = f"{_TABLE.format(rows=asked.rows)}{script}\nprint(time.time() - begun)"
                found[name].append(run([sys.executable, "-c", text], together=True))
    base = median(sample.cpu for sample in found.pop("nothing"))
    for name, samples in found.items():
        print(
            f"{name:14}{median(float(s.output) for s in samples):7.2f} s"
            f"{median(s.cpu for s in samples) - base:7.2f} CPU s"
            f"{median(s.together for s in samples) / 2**20:8.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
