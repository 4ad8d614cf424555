"""Parsing alone: rowfall-decode beside the CSV readers of pyarrow, polars, DuckDB and chDB.

    python bench/parse.py                 writes bench/RESULTS-parse.md
    python bench/parse.py --scale 0.1     a rehearsal: prints the page

The other readers are installed into a virtual environment beside the data; nothing of them is part
of rowfall. Below all of them stand a copy of the bytes and unpacking alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.data import FILES, make, scaled, table
from bench.decoder_spec import spec
from bench.measure import BenchError, median, run
from bench.table import markdown
from rowfall.core.machine import usable_cores
from rowfall.decoder import installed

HERE = Path(__file__).resolve().parent
DEFAULT_DATA = Path.home() / ".cache/rowfall-bench"
PACKAGES = ("pyarrow", "polars", "duckdb", "isal")
PARSERS = ("rowfall-decode", "pyarrow", "polars", "duckdb", "chdb")
FLOORS = {"csv": ("memcpy",), "csv.gz": ("isal", "gzip")}
TITLES = {
    "rowfall-decode": "rowfall-decode, to Native", "pyarrow": "pyarrow.csv.read_csv",
    "polars": "polars.read_csv", "duckdb": "DuckDB read_csv", "chdb": "chDB, SELECT * FORMAT Null",
    "memcpy": "read and copy the bytes", "isal": "unpack only, ISA-L", "gzip": "unpack only, gzip",
}  # fmt: skip
CASES = tuple((name, suffix) for name in ("trips", "taxi") for suffix in ("csv", "csv.gz"))
HOW = """\
Each reader is a process of its own that reads all files, makes typed columns of every field, and
drops them; the sides take turns, and the figures are medians. Seconds are those after the imports,
with all threads: every reader uses as many as it wants. All get the same types, as far as they have
them, and the text that means NULL; none has to guess. Text per CPU second is the uncompressed text,
in MB (10^6 bytes), by the CPU seconds of all threads together: what one core does.

They do not do the same: rowfall-decode declines what it is not sure of, and its blocks are ready to
be sent; chDB wraps a number that does not fit; pyarrow and polars build whole tables file by file;
DuckDB runs the query under `EXPLAIN ANALYZE`, which drops its rows."""


BUSY = "The machine was not idle before the run: CPU seconds stand that, wall times do not."


@dataclass
class Side:
    """What a reader did in all rounds."""

    name: str
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    version: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare parsers of CSV.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full row counts")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder for the data")
    given = parser.parse_args(arguments)
    root: Path = given.data.expanduser().resolve()
    root.mkdir(parents=True, exist_ok=True)
    before = os.getloadavg()[0]
    try:
        python = environment(root)
        parts = []
        versions: dict[str, str] = {}
        for name, suffix in CASES:
            rows = scaled(name, given.scale)
            files = {s: make(root, name, s, rows, FILES[name]) for s in ("csv", "csv.gz")}
            size = sum(path.stat().st_size for path in files["csv"])
            sides = measure(python, name, suffix, files[suffix], rows, given.rounds)
            versions |= {side.name: side.version for side in sides if side.version}
            parts += ["", f"## {name}, {suffix}", "", _size(name, rows, size, files[suffix]), ""]
            parts += sides_table(sides, size)
    except BenchError as error:
        print(f"parse: error: {error}", file=sys.stderr)
        return 2
    page = "\n".join([*_head(versions, given.rounds, before), *parts, ""])
    if given.scale == 1:
        (HERE / "RESULTS-parse.md").write_text(page)
    print(page)
    return 0


def environment(root: Path) -> Path:
    """The Python that has the other readers; made once."""
    folder = root / "readers"
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(PACKAGES)} into {folder} ...", flush=True)
        growing = root / "readers.growing"
        shutil.rmtree(growing, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", growing], check=True)
        python_new = str(growing / "bin/python")
        install = [python_new, "-m", "pip", "install", "-q", *PACKAGES]
        subprocess.run(install, check=True)
        growing.rename(folder)
    return python


def measure(
    python: Path, name: str, suffix: str, files: Sequence[Path], rows: int, rounds: int
) -> list[Side]:
    """All readers of one case, round by round.

    Raises:
        BenchError: a reader failed, or read another number of rows.
    """
    paths = [str(path) for path in files]
    made = table(name)
    job = {
        "files": paths, "columns": made.columns, "null": "\\N" if name == "taxi" else "",
        "program": installed.program(), "spec": spec(name, paths, ["/dev/null"] * usable_cores()),
    }  # fmt: skip
    sides = [Side(reader) for reader in (*PARSERS, *FLOORS[suffix])]
    for number in range(rounds):
        for side in sides:
            # chDB and the program are rowfall's own; the others live beside the data.
            own = side.name in ("chdb", "rowfall-decode")
            command: list[str | Path] = [sys.executable if own else python, HERE / "readers.py"]
            request = json.dumps({**job, "reader": side.name}).encode()
            found = json.loads(run(command, stdin=request).output)
            if side.name in PARSERS and found["rows"] != rows:
                raise BenchError(f"{side.name} read {found['rows']:,} rows of {name}, not {rows:,}")
            side.cpu.append(found["cpu"])
            side.wall.append(found["wall"])
            side.version = found["version"]
            print(f"{name} {suffix} {number + 1} {side.name}: {found['cpu']:.2f} s", flush=True)
    return sides


def sides_table(sides: Sequence[Side], size: int) -> list[str]:
    base = median(sides[0].cpu)
    rows = []
    for side in sides:
        cpu = median(side.cpu)
        rows.append((
            TITLES[side.name],
            f"{cpu:.2f} ({min(side.cpu):.2f}-{max(side.cpu):.2f})",
            f"{median(side.wall):.2f}",
            f"{size / 1e6 / cpu:,.0f}",
            f"{cpu / base:.2f}",
        ))  # fmt: skip
    return markdown(("reader", "CPU s", "wall s", "MB/s per core", "CPU to rowfall-decode"), rows)


def _size(name: str, rows: int, size: int, files: Sequence[Path]) -> str:
    packed = sum(path.stat().st_size for path in files)
    told = f"{rows:,} rows of {len(table(name).columns)} columns in {len(files)} files"
    return f"{told}, {size / 1e6:,.0f} MB of text" + (
        f", {packed / 1e6:,.0f} MB packed." if packed != size else "."
    )


def _head(versions: dict[str, str], rounds: int, load: float) -> list[str]:
    model = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")),
        platform.processor(),
    )  # fmt: skip
    machine = [
        ("cores", str(usable_cores())), ("CPU", model), ("kernel", platform.release()),
        *sorted(versions.items()),
        ("Python", platform.python_version()), ("rounds", str(rounds)),
        ("date", f"{datetime.now(UTC):%Y-%m-%d}"), ("load average before", f"{load:.2f}"),
    ]  # fmt: skip
    busy = load > 0.5
    return [
        "# Parsing alone", "", *markdown(("machine", ""), machine), "",
        *([f"**{BUSY}**", ""] if busy else []),
        HOW,
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
