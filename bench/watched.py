"""What it costs a load to be watched: by the live page, by Prometheus, by a collector that is away.

    python bench/watched.py [--rounds 5] [--rows 2000000] [--data FOLDER]

A round loads the same files once in each way, in turns. Given are CPU-seconds of all processes of a
load, and those of rowfall's own process alone, which is the one that is watched: what else the
machine does moves the former by some percent. Prints a table.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# As Prometheus scrapes by default.
SCRAPE_SECONDS = 15.0
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to be watched.

    Attributes:
        options: of the load. ``address``: what stands in front of the URL that it says.
        look: given the URL, looks until the load ends.
        environment: variables of the load.
    """

    options: tuple[str, ...] = ()
    address: str = ""
    look: Callable[[str], None] = lambda url: None
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU-seconds of all processes of a load, and of rowfall's own."""

    all: float
    own: float


def follow_page(url: str) -> None:
    """Read the states of the page as a browser does."""
    asked = f"{url}events"
    with contextlib.suppress(OSError), urllib.request.urlopen(asked, timeout=60) as states:  # noqa: S310 - our own
        for _ in states:
            pass


def scrape(url: str) -> None:
    with contextlib.suppress(OSError):
        while True:
            urllib.request.urlopen(url, timeout=5).read()  # noqa: S310 - our own
            time.sleep(SCRAPE_SECONDS)


WAYS = {
    "nobody": Way(),
    "live page": Way(("--watch-port", "0"), "live page: ", follow_page),
    "metrics": Way(("--metrics-port", "0"), "metrics: ", scrape),
    "collector away": Way(environment=(("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),)),
}


def load(way: Way, files: Path, folder: Path) -> Cost:
    """Load into a new folder and return what it cost."""
    target = folder / "lake"
    shutil.rmtree(target, ignore_errors=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "rowfall", "load", f"{files}/*.csv.gz", "--to", str(target),
         "--table", "t", *way.options],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), **dict(way.environment)},
    )  # fmt: skip

    def listen() -> None:
        for line in process.stderr or ():
            if way.address and (found := re.search(rf"{way.address}(\S+)", line)):
                threading.Thread(target=way.look, args=(found[1],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    own = 0.0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        own = max(own, _own(process.pid))
        time.sleep(0.05)
    own = max(own, _own(process.pid))  # a process that nobody has waited for keeps its figures
    _, code, usage = os.wait4(process.pid, 0)
    if code:
        raise SystemExit(f"the load has failed with {code}")
    return Cost(usage.ru_utime + usage.ru_stime, own)


def _own(pid: int) -> float:
    """Return the CPU-seconds of a process without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def main() -> None:
    given = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--rows", type=int, default=2_000_000)
    given.add_argument("--data", type=Path)
    asked = given.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder, files = Path(made), asked.data or Path(made, "files")
        if not files.exists():
            subprocess.run(
                [sys.executable, "-m", "rowfall", "load", f"generate://taxi?rows={asked.rows}",
                 "--to", f"{files}/{{n}}.csv.gz", "--files", "4", "-q"],
                check=True,
            )  # fmt: skip
        costs: dict[str, list[Cost]] = {name: [] for name in WAYS}
        for _ in range(asked.rounds):
            for name, way in WAYS.items():
                costs[name].append(load(way, files, folder))
    plain = costs["nobody"]
    whole = statistics.median(cost.all for cost in plain)
    print("| watched by | CPU s of all | of rowfall's own process | more, of the whole load |")
    print("|---|---:|---:|---:|")
    for name, found in costs.items():
        own = statistics.median(cost.own for cost in found)
        more = own - statistics.median(cost.own for cost in plain)
        total = statistics.median(cost.all for cost in found)
        print(f"| {name} | {total:.2f} | {own:.2f} | {more / whole:+.1%} |", flush=True)


if __name__ == "__main__":
    main()
