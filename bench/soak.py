"""A folder or bucket that is followed while it is written, and killed again and again.

    python bench/soak.py [--minutes 30] [--store folder|s3] [--rate 20] [--kill 20] [--server]

A producer writes files of a few rows under random names and overwrites some of those that are
loaded. ``rowfall load --follow`` is killed (SIGKILL) every 20 seconds and started again; with
``--server`` every other kill is one of the server. Another process looks at the table four times a
second. In the end every version that could be seen must be in the table exactly once. Prints a
summary, and writes results-soak.json and results-soak.svg beside this file.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measure
from lab.clickhouse import ClickHouse
from lab.process import ServiceError
from lab.seaweed import Seaweed

RESULTS = Path(__file__).parent / "results-soak.json"
PLOT = RESULTS.with_suffix(".svg")
# Of the files written, so many overwrite another one; only one that is in the table, so that no
# version is gone before anybody could have read it.
OVERWRITTEN = 0.05
ROWS = 3
# The aim for the 99th percentile of the time from a file's last byte to its rows in the table.
AIM_SECONDS = 5.0


@dataclass
class State:
    """What the threads share.

    Attributes:
        written: version -> when it was complete. ``visible``: version -> seconds until it was seen.
        names: version -> its name; ``newest``: name -> its last version.
        memory: (second, bytes resident in rowfall's own process).
        kills: (as of ``time.monotonic``, what was killed).
    """

    written: dict[int, float] = field(default_factory=dict)
    visible: dict[int, float] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    memory: list[tuple[float, int]] = field(default_factory=list)
    kills: list[tuple[float, str]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class Producer(threading.Thread):
    """Writes files at a steady rate."""

    def __init__(self, state: State, place: Folder | Bucket, rate: float) -> None:
        super().__init__(daemon=True)
        self._state, self._place, self._rate = state, place, rate

    def run(self) -> None:
        draw = random.Random(1)  # noqa: S311 - the same names each time
        state, version = self._state, 0
        begun = time.monotonic()
        while not state.stop.is_set():
            version += 1
            loaded = list(state.visible)
            name = f"{draw.randrange(1 << 64):016x}.csv"
            if loaded and draw.random() < OVERWRITTEN:
                other = state.names[draw.choice(loaded)]
                if state.newest[other] in state.visible:
                    name = other
            rows = "".join(f"{version},{row}\n" for row in range(ROWS))
            state.names[version], state.newest[name] = name, version
            self._place.put(name, f"version,row\n{rows}")
            state.written[version] = time.monotonic()
            state.stop.wait(max(0.0, begun + version / self._rate - time.monotonic()))


class Folder:
    """A local folder: files are renamed into it, as most programs do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "in"
        self._folder.mkdir()
        self.source = str(self._folder)
        self.environment: dict[str, str] = {}

    def put(self, name: str, text: str) -> None:
        hidden = self._folder / f".{name}"
        hidden.write_text(text)
        hidden.rename(self._folder / name)


class Bucket:
    """A bucket of an S3 service."""

    def __init__(self, service: Seaweed) -> None:
        self._service = service
        service.create_bucket("soak")
        self.source = "s3://soak/in/"
        self.environment = dict(service.env)

    def put(self, name: str, text: str) -> None:
        self._service.put("soak", f"in/{name}", text.encode())


def look(state: State, server: ClickHouse) -> None:
    """Note when versions become visible."""
    while not state.stop.wait(0.25):
        try:
            seen(state, server)
        except (ServiceError, OSError):
            continue  # it was killed


def seen(state: State, server: ClickHouse) -> None:
    missing = [v for v in list(state.written) if v not in state.visible]
    if not missing:
        return
    low = min(missing)
    text = server.query(f"SELECT DISTINCT version FROM soak.t WHERE version >= {low}")
    now = time.monotonic()
    for line in text.split():
        version = int(line)
        if version in state.written and version not in state.visible:
            state.visible[version] = now - state.written[version]


def resident(pid: int) -> int:
    """Return the bytes resident in a process and the children that it has, without a server."""
    total = 0
    for one in (pid, *_children(pid)):
        try:
            with open(f"/proc/{one}/statm", encoding="ascii") as file:
                total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return total


def _children(pid: int) -> Sequence[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def plot(state: State, begun: float) -> str:
    """Return lag and memory over time as SVG."""
    lags = [(state.written[v] - begun, lag) for v, lag in sorted(state.visible.items())]
    memory = [(at, size / (1 << 20)) for at, size in state.memory]
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="420" font-family="sans-serif" '
        'font-size="12"><rect width="800" height="420" fill="white"/>'
    ]
    for top, title, points, colour in (
        (20, "seconds until visible", lags, "#d95f02"), (220, "memory, MiB", memory, "#1b9e77"),
    ):  # fmt: skip
        most_x = max((x for x, _ in points), default=1.0) or 1.0
        most_y = max((y for _, y in points), default=1.0) or 1.0
        dots = "".join(
            f'<circle cx="{50 + 730 * x / most_x:.1f}" cy="{top + 160 - 150 * y / most_y:.1f}" '
            f'r="1.2" fill="{colour}"/>' for x, y in points
        )  # fmt: skip
        parts.append(
            f'<text x="50" y="{top}">{title} (highest {most_y:.1f}), {most_x:.0f} s</text>'
            f'<path d="M50 {top + 5}V{top + 160}H780" fill="none" stroke="#888"/>{dots}'
        )
    return "".join([*parts, "</svg>\n"])


def follow(
    given: argparse.Namespace, place: Folder | Bucket, server: ClickHouse
) -> dict[str, object]:
    """Run the soak; return its figures."""
    state = State()
    server.query("CREATE DATABASE IF NOT EXISTS soak")
    server.query(
        "CREATE TABLE soak.t (version UInt64, row UInt8, at DateTime64(3) DEFAULT now64(3)) "
        "ORDER BY version"
    )
    command = [
        str(Path(sys.executable).parent / "rowfall"), "load", place.source, "--to",
        server.uri("soak"), "--table", "t", "--follow", "--header", "yes", "--quiet",
    ]  # fmt: skip
    environment = os.environ | place.environment

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    with TemporaryDirectory() as scratch, open(Path(scratch) / "log", "w+b") as log:
        environment["ROWFALL_HOME"] = scratch
        begun = time.monotonic()
        running = start()
        Producer(state, place, given.rate).start()
        looks = threading.Thread(target=look, args=(state, server), daemon=True)
        looks.start()
        last = begun
        while time.monotonic() - begun < given.minutes * 60:
            time.sleep(0.5)
            state.memory.append((time.monotonic() - begun, resident(running.pid)))
            if running.poll() is not None:
                log.seek(0)
                raise SystemExit(f"rowfall has ended: {log.read()[-3000:].decode()}")
            if time.monotonic() - last >= given.kill:
                last = time.monotonic()
                servers = given.server and len(state.kills) % 2 == 1
                state.kills.append((last, "server" if servers else "rowfall"))
                if servers:
                    server.kill()
                    server.start()
                else:
                    running.send_signal(signal.SIGKILL)
                    running.wait()
                    running = start()
        state.stop.set()
        looks.join()
        until = time.monotonic() + 60
        while len(state.visible) < len(state.written) and time.monotonic() < until:
            time.sleep(0.2)
            seen(state, server)
        running.send_signal(signal.SIGTERM)
        ended = time.monotonic()
        running.wait(30)
        return figures(state, server, begun, time.monotonic() - ended)


def lags_by_kill(state: State) -> dict[str, float]:
    """Return the longest lag of what rowfall, or the server, was killed over, and of others."""
    longest: dict[str, float] = {}
    for version, lag in state.visible.items():
        written = state.written[version]
        while_killed = [what for at, what in state.kills if written - 3 < at < written + lag]
        what = while_killed[0] if while_killed else "neither"
        longest[what] = max(longest.get(what, 0.0), round(lag, 3))
    return longest


def figures(state: State, server: ClickHouse, begun: float, ending: float) -> dict[str, object]:
    """Return the figures of a run, after a look at every row."""
    counts = {
        int(version): int(count)
        for version, count in (
            line.split()
            for line in server.query(
                "SELECT version, count() FROM soak.t GROUP BY version"
            ).splitlines()
        )
    }
    missing = [v for v in state.written if counts.get(v, 0) == 0]
    wrong = {v: n for v, n in counts.items() if n != ROWS}
    lags = sorted(state.visible.values())
    memory = [size for _, size in state.memory]
    third = max(1, len(memory) // 3)
    record = server.query(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'soak' AND "
        "table LIKE '\\_rowfall%'"
    )
    PLOT.write_text(plot(state, begun))
    return {
        "versions": len(state.written), "overwritten": len(state.written) - len(state.newest),
        "kills": len(state.kills), "missing": len(missing), "wrong": len(wrong),
        "lag_p50": round(lags[len(lags) // 2], 3), "lag_p99": round(lags[len(lags) * 99 // 100], 3),
        "lag_most": round(lags[-1], 3), "lag_most_by_kill": lags_by_kill(state),
        "memory_first_third": max(memory[:third]), "memory_last_third": max(memory[-third:]),
        "record_bytes_per_version": round(int(record or 0) / max(1, len(state.written)), 1),
        "seconds_to_end": round(ending, 2),
    }  # fmt: skip


def main() -> int:
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--minutes", type=float, default=30.0)
    words.add_argument("--store", choices=("folder", "s3"), default="folder")
    words.add_argument("--rate", type=float, default=20.0, help="files a second")
    words.add_argument("--kill", type=float, default=20.0, help="seconds between kills")
    words.add_argument("--server", action="store_true", help="kill the server, too")
    given = words.parse_args()
    if not measure.is_release():
        raise SystemExit("rowfall-decode is the one for tests: run 'make decoder'")
    # As an installer leaves it: each start after a kill would compile 160 modules otherwise.
    compileall.compile_dir(Path(__file__).parents[1] / "src/rowfall", quiet=1)
    with TemporaryDirectory() as folder, ClickHouse() as server:
        if given.store == "s3":
            with Seaweed() as service:
                found = follow(given, Bucket(service), server)
        else:
            found = follow(given, Folder(Path(folder)), server)
    found = {"store": given.store, "minutes": given.minutes, "rate": given.rate, **found}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    good = not found["missing"] and not found["wrong"]
    slow = float(str(found["lag_p99"])) > AIM_SECONDS
    if slow:
        print(f"the 99th percentile is above {AIM_SECONDS} s")
    return int(not good or slow)


if __name__ == "__main__":
    sys.exit(main())
