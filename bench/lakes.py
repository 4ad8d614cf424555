"""Iceberg and Delta tables into the embedded engine: rowfall against the engine's own readers.

    python bench/lakes.py [--rows 2000000] [--rounds 3]

Sides take turns; medians of wall and of CPU seconds of everything that a side starts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measure

ROOT = Path(__file__).resolve().parents[1]

FILES = 8
# In the folder / because the engine takes tables below its current folder only.
_INSERT = """
import os, sys, chdb
relation, folder = sys.argv[1:]
os.chdir("/")
engine = chdb.connect(folder)
engine.query("CREATE DATABASE b ENGINE = Atomic")
engine.query(f"CREATE TABLE b.t ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM {relation}")
engine.close()
"""
_ROWFALL = [sys.executable, "-m", "rowfall"]
# In a process of its own: this one has to stay small, see measure.run.
_WRITE = """
import glob, sys
sys.path[:0] = sys.argv[2:]
import pyarrow as pa
import pyarrow.parquet as parquet
from deltalake import write_deltalake
from lab.lake_tables import iceberg
folder, table = sys.argv[1], None
for name in sorted(glob.glob(f"{folder}/*.parquet")):
    rows = parquet.read_table(name)
    # Neither kind of table has unsigned numbers, or strings of a fixed length that are text.
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    fields = [pa.field(f.name, wider.get(f.type, f.type)) for f in rows.schema]
    fixed = pa.types.is_fixed_size_binary
    fields = [f.with_type(pa.binary()) if fixed(f.type) else f for f in fields]
    rows = rows.cast(pa.schema(fields))
    write_deltalake(f"{folder}/delta", rows, mode="append")
    if table is None:
        table = iceberg(f"{folder}/iceberg", rows)
    else:
        table.append(rows)
"""


def make(folder: Path, rows: int) -> None:
    """Write the same taxi rows as an Iceberg and as a Delta table, by their own libraries."""
    measure.run([
        *_ROWFALL, "load", f"generate://taxi?rows={rows}", "--to", f"{folder}/part_{{n}}.parquet",
        "--files", str(FILES),
    ])  # fmt: skip
    measure.run([sys.executable, "-c", _WRITE, str(folder), *sys.path[:3]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    measure.adopt_orphans()
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make(folder, asked.rows)
        for kind, function in (("iceberg", "icebergLocal"), ("delta", "deltaLakeLocal")):
            sides = {
                f"{function}()": [
                    sys.executable, "-c", _INSERT, f"{function}('{folder}/{kind}')", "{to}",
                ],
                "rowfall": [
                    *_ROWFALL, "load", f"{kind}+{folder}/{kind}", "--to", "{to}", "--table", "t",
                    "--order-by", "tuple()", "--quiet",
                ],
            }  # fmt: skip
            taken: dict[str, list[measure.Sample]] = {name: [] for name in sides}
            for _ in range(asked.rounds):
                for name, command in sides.items():
                    to = folder / "to"
                    shutil.rmtree(to, ignore_errors=True)
                    filled = [part.replace("{to}", str(to)) for part in command]
                    taken[name].append(measure.run(filled, together=True))
            print(f"\n{kind}: {asked.rows:,} taxi rows in {FILES} files, {asked.rounds} rounds\n")
            print("| side | seconds | times | CPU seconds | memory |\n|---|---|---|---|---|")
            first = measure.median(one.wall for one in taken[f"{function}()"])
            for name, found in taken.items():
                wall = measure.median(one.wall for one in found)
                cpu = measure.median(one.cpu for one in found)
                most = max(one.together for one in found) / (1 << 20)
                times = first / wall
                print(f"| {name} | {wall:.2f} | {times:.2f} | {cpu:.2f} | {most:.0f} MiB |")


if __name__ == "__main__":
    main()
