"""What a terminal of 80 columns shows of a load: how often the line changes, and its forecast.

    python bench/progress.py              writes bench/RESULTS-progress.md
    python bench/progress.py --scale 0.1  a rehearsal: prints the page

Each case runs once, on a terminal that keeps every line with the time when it was drawn.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fcntl import ioctl
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.data import ROWFALL, make
from bench.measure import BenchError
from bench.table import markdown
from lab.clickhouse import ClickHouse
from rowfall.core import units

HERE = Path(__file__).resolve().parent
ROWS, COLUMNS = 24, 80
# Of taxi rows in csv.gz: 500 MB, in one file and in twenty.
TAXI_ROWS, MANY_FILES = 5_300_000, 20
# Time enough for the slowest case on a busy machine.
MOST_SECONDS = 600.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SHARE = re.compile(r"^\s*(\d+)%")
_ETA = re.compile(r"ETA (\S+)")
_CLOCK = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the terminal, and the seconds since the command was started."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a course of lines shows.

    Attributes:
        seconds: from the start of the command to its end.
        first: seconds until the first line of progress.
        changes: lines of progress that differ from the one before.
        longest: the longest time in seconds without one, between the first and the last.
        forecast: seconds in all as said after a third of the way; None where none was said.
    """

    seconds: float
    first: float
    changes: int
    longest: float
    forecast: float | None


def record(command: str, env: Mapping[str, str]) -> tuple[list[Line], float]:
    """Run a shell command on a terminal of its own; return its lines and the seconds it took.

    Raises:
        BenchError: it failed.
    """
    begin = time.monotonic()
    terminal, own = pty.openpty()
    ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    child = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=own, stdout=own, stderr=own, env={**os.environ, **env}
    )
    os.close(own)
    lines, rest = list[Line](), ""
    while time.monotonic() - begin < MOST_SECONDS:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            read = os.read(terminal, 1 << 16)
        except OSError:  # the other side has closed it
            break
        at = time.monotonic() - begin
        *whole, rest = re.split(r"[\r\n]+", rest + read.decode(errors="replace"))
        lines += [Line(at, text) for one in [*whole, rest] if (text := _CONTROL.sub("", one))]
    os.close(terminal)
    if child.wait(MOST_SECONDS):
        raise BenchError(f"{command}: " + "\n".join(line.text for line in lines[-5:]))
    return lines, time.monotonic() - begin


def judge(lines: Sequence[Line], seconds: float) -> Seen:
    """Return what the lines of progress show.

    Raises:
        BenchError: there are none, or one is wider than the terminal.
    """
    drawn = [line for line in lines if "rows" in line.text and ("/s" in line.text)]
    course = [
        line for n, line in enumerate(drawn) if n == 0 or line.text != drawn[n - 1].text
    ]  # fmt: skip
    if not course or max(len(line.text) for line in course) > COLUMNS:
        raise BenchError("no progress was drawn, or a line was wider than the terminal")
    gaps = [later.at - line.at for line, later in itertools.pairwise(course)]
    forecast = None
    for line in course:
        share, eta = _SHARE.match(line.text), _ETA.search(line.text)
        left = None if eta is None else _seconds(eta[1])
        if share and int(share[1]) >= 33 and left is not None:  # a third of the way
            forecast = line.at + left
            break
    return Seen(seconds, course[0].at, len(course), max(gaps, default=0.0), forecast)


def _seconds(text: str) -> float | None:
    found = re.findall(r"(\d+(?:\.\d+)?)(min|s|m|h)", text)
    return sum(float(number) * _CLOCK[unit] for number, unit in found) if found else None


def commands(
    root: Path, scale: float, server: str, folder: Path
) -> dict[str, tuple[str, int]]:  # fmt: skip
    """Return the command of each case and the bytes that it loads."""
    rowfall = shlex.quote(str(ROWFALL))
    (one,) = make(root, "taxi", "csv.gz", int(TAXI_ROWS * scale), 1)
    many = make(root, "taxi", "csv.gz", int(TAXI_ROWS * scale), MANY_FILES)
    size = one.stat().st_size
    sizes = sum(file.stat().st_size for file in many)
    load = f"{rowfall} load {shlex.quote(str(one))} --to"
    into = [shlex.quote(str(folder / name)) for name in ("one", "many", "pipe")]
    return {
        "one file": (f"{load} {into[0]} --table t", size),
        "20 files": (f"{rowfall} load {many[0].parent}/'*.csv.gz' --to {into[1]} --table t", sizes),
        "a server": (f"{load} {shlex.quote(server)} --table t", size),
        "a pipe": (
            f"zcat {one} | {rowfall} load - --format CSVWithNames --to {into[2]} --table t", size,
        ),
    }  # fmt: skip


def page(found: Mapping[str, tuple[Seen, int]]) -> str:
    rows = [
        (
            name, units.size(size), f"{seen.seconds:.1f} s", f"{seen.first:.1f} s",
            str(seen.changes), f"{seen.longest:.1f} s",
            "-" if seen.forecast is None else f"{seen.forecast:.1f} s",
            "-" if seen.forecast is None else f"{seen.forecast / seen.seconds - 1:+.0%}",
        )
        for name, (seen, size) in found.items()
    ]  # fmt: skip
    head = ("load of", "bytes", "in all", "first line", "changes", "longest without one",
            "said at a third", "off by")  # fmt: skip
    return "\n".join([
        "# Progress on a terminal", "",
        "Lines of progress as a terminal of 80 columns shows them: how many differ from the one",
        "before, the longest time without a change, and what the line forecasts for the whole load",
        "after a third of the way (now + ETA). A pipe has no known size, so no forecast. Made by",
        f"`bench/progress.py` on {os.cpu_count()} cores, {datetime.now(UTC):%Y-%m-%d}.", "",
        *markdown(head, rows), "",
    ])  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Record the progress of four loads.")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/rowfall-bench")
    options = parser.parse_args(arguments)
    options.data.mkdir(parents=True, exist_ok=True)
    folder = options.data / f"progress-{os.getpid()}"
    env = {"ROWFALL_HOME": str(folder / "state"), "TERM": "xterm-256color"}
    found = {}
    try:
        with ClickHouse() as server:
            server.query("CREATE DATABASE IF NOT EXISTS bench")
            every = commands(options.data, options.scale, server.uri("bench"), folder)
            for name, (command, size) in every.items():
                print(f"{name}: {command}", flush=True)
                lines, seconds = record(command, env)
                found[name] = (judge(lines, seconds), size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = page(found)
    print(text)
    if options.scale == 1:
        (HERE / "RESULTS-progress.md").write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
