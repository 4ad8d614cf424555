"""Loading out of HDFS against ``INSERT SELECT FROM hdfs()``: CSV and Parquet, embedded.

Run it with ``python bench/hdfs.py``. It starts a name node and a data node (tests/lab/hdfs.py), so
it needs Java 17 and Maven. Rounds are interleaved, figures are medians; the CPU of the two daemons
is shown apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench.measure import Sample, adopt_orphans, median, run
from lab.hdfs import Hdfs

ROWFALL = [sys.executable, "-m", "rowfall"]
FORMATS = {"csv": "CSVWithNames", "parquet": "Parquet"}
_ENGINE = """
import chdb
engine = chdb.connect({folder!r})
engine.query("CREATE DATABASE d")
engine.query({ddl!r})
engine.query("INSERT INTO d.t SELECT * FROM hdfs('{source}', '{format}')")
print(engine.query("SELECT count() FROM d.t"))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as work, Hdfs() as hdfs:
        os.chdir(work)
        for suffix in FORMATS:
            compare(hdfs, suffix, asked.rows, asked.rounds)


def compare(hdfs: Hdfs, suffix: str, rows: int, rounds: int) -> None:
    """Put the files, load them by both sides in turn, and print a line for each."""
    files = ["--to", f"{suffix}/taxi_{{n}}.{suffix}", "--files", "4"]
    run([*ROWFALL, "load", f"generate://taxi?rows={rows}", *files, "--to-format", FORMATS[suffix]])
    for path in sorted(Path(suffix).iterdir()):
        # Blocks as large as they are elsewhere.
        more = {"overwrite": "true", "blocksize": str(128 << 20)}
        hdfs.ask("PUT", f"/{path}", "CREATE", path.read_bytes(), **more)
    source = hdfs.at(f"/{suffix}/*.{suffix}")
    plan = [*ROWFALL, "plan", source, "--table", "d.t", "--json"]
    ddl = json.loads(run([*plan, "--to", "planned"]).output)["ddl"]
    script = _ENGINE.format(
        folder="engine", ddl=ddl, source=source.partition("?")[0], format=FORMATS[suffix]
    )
    sides = {
        "INSERT SELECT FROM hdfs()": [sys.executable, "-c", script],
        "rowfall": [*ROWFALL, "load", source, "--to", "rowfall", "--table", "t", "--quiet"],
        "rowfall, engine parses": [
            *ROWFALL, "load", source, "--to", "rowfall", "--table", "t", "--quiet",
            "--decoder", "never",
        ],
    }  # fmt: skip
    found: dict[str, list[tuple[Sample, float]]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, command in sides.items():
            for folder in ("engine", "rowfall"):
                run(["rm", "-rf", folder])
            before = _cpu(hdfs)
            sample = run(command, together=True)
            found[name].append((sample, _cpu(hdfs) - before))
    for name, samples in found.items():
        print(
            f"{suffix:8}{name:28}{median(s.wall for s, _ in samples):7.1f} s"
            f"{median(s.cpu for s, _ in samples):7.1f} CPU s"
            f"{median(cpu for _, cpu in samples):7.1f} CPU s of HDFS"
            f"{median(s.together for s, _ in samples) / 2**20:8.0f} MiB",
            flush=True,
        )


def _cpu(hdfs: Hdfs) -> float:
    """CPU seconds of both daemons."""
    ticks = 0
    for node in (hdfs.name_node, hdfs.data_node):
        fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
