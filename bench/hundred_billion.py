"""``make bench-100b``: 100 billion rows into one embedded table, exactly once, in slices.

    python bench/hundred_billion.py --work DIR [--rows 1e11] [--distinct 1e9] [--files 1000]
                                    [--slice 2h | --slice-rows 5e9] [--kills 2] [--check]
                                    [--attempt-bytes SIZE] [--note TEXT]

Each run goes on where the last one has stopped; ``DIR/state.json`` remembers, and the page of
results says how many of the rows have been loaded so far. The rows are those of
``generate://trips``: ``--distinct`` of them, written once into files of ``rows / files``, and then
linked under as many names as it takes. rowfall knows files by name, size and time, so that each
link is loaded as a file of its own. At equal distances on the way rowfall is killed with kill -9,
with its engine at work, and run again.

After each slice the count is compared with what the ledger says; at the end (or with ``--check``)
so are the sums and a checksum of all rows, with what ClickHouse's own reader finds in the files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.data import ROWFALL, make, table
from bench.measure import BenchError, adopt_orphans, children, run
from rowfall.core.sql import literal
from rowfall.core.units import parse_duration

TARGET = 100_000_000_000
NAME = "trip_info"
PARTITION_BY = "duration_seconds"
RESULTS = Path(__file__).resolve().parent / "RESULTS-100b.md"
# The totals alone, of which the figures in README.md are made.
TOTALS = Path(__file__).resolve().parent / "results-100b.json"
# What the article and its peers have published for 100 billion rows of this table: seconds, vCPUs.
PUBLISHED = (
    ("ClickHouse, one server of 32 vCPUs", 1115.4, 32),
    ("ClickHouse, 10 servers of 16 vCPUs", 252.9, 160),
    ("SingleStore, 16 leaves and 3 aggregators, 256 vCPUs", 656.0, 256),
)
# Distance, duration, vehicle and the hash of all three; sums of UInt64 wrap, on both sides alike.
SUMS = (
    "count(), sum(toUInt64(distance_miles)), sum(toUInt64(duration_seconds)), "
    "sum(toUInt64(vehicle_id)), "
    "sum(cityHash64(toUInt32(distance_miles), toUInt32(duration_seconds), toUInt8(vehicle_id)))"
)
# A merge holds its parts and what it makes of them at the same time, in both of its two threads;
# parts of one attempt that is repeated wait to be removed.
HEADROOM = 2.5
LOOK_EVERY = 0.2  # seconds
# After Ctrl-C rowfall lets nothing go on for longer than two seconds; then it closes the engine.
STOP_SECONDS = 60


class State:
    """What slices have done, kept beside the data; written as a whole or not at all."""

    def __init__(self, path: Path, asked: dict[str, int]) -> None:
        self.path = path
        self.found: dict[str, Any] = {"asked": asked, "slices": [], "kills": [], "checks": []}
        with suppress(FileNotFoundError):
            self.found = json.loads(path.read_text())
        if self.found["asked"] != asked:
            raise BenchError(
                f"{path.parent} holds a run of {self.found['asked']}: give the same numbers, or "
                "another folder with --work"
            )

    def save(self) -> None:
        growing = self.path.with_suffix(".growing")
        growing.write_text(json.dumps(self.found, indent=1) + "\n")
        os.replace(growing, self.path)

    def total(self, what: str) -> float:
        return float(sum(one[what] for one in self.found["slices"]))


class Bench:
    """The files, the table, and the runs of one folder."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.work: Path = given.work
        self.rows, self.files, self.kills = int(given.rows), given.files, given.kills
        self.more = ["--attempt-bytes", given.attempt_bytes] if given.attempt_bytes else []
        self.file_rows = self.rows // self.files
        self.distinct_files = max(1, min(self.files, round(given.distinct / self.file_rows)))
        self.distinct = self.distinct_files * self.file_rows
        if self.file_rows * self.files != self.rows or self.files % self.distinct_files:
            raise BenchError(
                f"{self.rows:,} rows do not go into {self.files} files of equal size, each of "
                f"{self.distinct_files} distinct ones as often as the others"
            )
        self.data, self.links = self.work / "data", self.work / "files"
        self.work.mkdir(parents=True, exist_ok=True)
        asked = {"rows": self.rows, "files": self.files, "distinct": self.distinct}
        self.state = State(self.work / "state.json", asked)

    # --- what is loaded ---------------------------------------------------------------------------

    def prepare(self) -> None:
        """Write the distinct files, link them, count what they hold, and ask for the space.

        Raises:
            BenchError: the disk is too small for the table.
        """
        made = make(self.work, "trips", "csv.gz", self.distinct, self.distinct_files)
        self.links.mkdir(exist_ok=True)
        for number in range(self.files):
            link = self.links / f"vehicles_{number:04d}.csv.gz"
            if not link.exists():
                os.link(made[number % len(made)], link)
        found = self.state.found
        if "sums" not in found:
            print("counting each distinct file with ClickHouse's own reader ...", flush=True)
            found["sums"] = [self._sums_of(path) for path in made]
            for sums, path in zip(found["sums"], made, strict=True):
                if sums[0] != self.file_rows:
                    raise BenchError(f"{path} holds {sums[0]:,} rows, not {self.file_rows:,}")
            found["source_bytes"] = sum(path.stat().st_size for path in made)
        if "row_bytes" not in found:
            found["row_bytes"] = self._row_bytes()
        self.state.save()
        left = self.rows - self.loaded_rows()
        need = int(found["row_bytes"] * left * HEADROOM)
        free = shutil.disk_usage(self.work).free
        print(
            f"{found['row_bytes']:.3f} bytes a row: the rest takes {need / 2**30:.1f} GiB with its "
            f"merges, {free / 2**30:.1f} GiB are free", flush=True,
        )  # fmt: skip
        if need > free:
            raise BenchError(
                f"{need / 2**30:.1f} GiB are needed and {free / 2**30:.1f} are free: name a larger "
                "disk with --work"
            )

    def _sums_of(self, path: Path) -> list[int]:
        structure = literal(table("trips").structure)
        sql = f"SELECT {SUMS} FROM file({literal(str(path))}, 'CSV', {structure})"
        ask = "import sys, chdb; print(chdb.query(sys.argv[1], 'TSV'))"
        return [int(one) for one in run([sys.executable, "-c", ask, sql]).output.split()]

    def _row_bytes(self) -> float:
        """Load one file into a table that is thrown away, and return what a row of it takes."""
        probe = self.work / "probe"
        shutil.rmtree(probe, ignore_errors=True)
        first = self.links / "vehicles_0000.csv.gz"
        run(self._load(str(first), probe))
        (size,) = self._ask(
            f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = '{NAME}'", probe
        )
        shutil.rmtree(probe)
        return float(size / self.file_rows)

    def _load(self, source: str, data: Path) -> list[str | Path]:
        return [
            ROWFALL, "load", source, "--to", data, "--table", NAME, "--json",
            "--schema", table("trips").structure, "--order-by", table("trips").order_by,
            "--partition-by", PARTITION_BY, *self.more,
        ]  # fmt: skip

    def _ask(self, sql: str, data: Path) -> list[int]:
        found = run([ROWFALL, "query", sql, "--to", data, "--format", "TSV"]).output.split()
        return [int(one) for one in found]

    # --- what has been loaded ---------------------------------------------------------------------

    def loaded(self) -> list[str]:
        """Return the files that the ledger calls loaded."""
        ledger = self.data / "rowfall.ledger"
        if not ledger.exists():
            return []
        with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True, timeout=30)) as open_:
            rows = open_.execute("SELECT DISTINCT uri FROM split WHERE state = 'landed'")
            return sorted(str(uri) for (uri,) in rows)

    def loaded_rows(self) -> int:
        return int(len(self.loaded()) * self.file_rows)

    def check(self, *, whole: bool) -> None:
        """Compare the table with the files that the ledger calls loaded.

        Raises:
            BenchError: a row is missing, or there twice.
        """
        if not self.data.exists():
            return
        files = self.loaded()
        known = self.state.found["sums"]
        numbers = [int(Path(uri).name[len("vehicles_") :].split(".")[0]) for uri in files]
        expected = [sum(known[n % len(known)][at] for n in numbers) % 2**64 for at in range(5)]
        asked = SUMS if whole else "count()"
        start = time.perf_counter()
        sample = run([ROWFALL, "query", f"SELECT {asked} FROM {NAME}", "--to", self.data,
                      "--format", "TSV"])  # fmt: skip
        found = [int(one) for one in sample.output.split()]
        if found != expected[: len(found)]:
            raise BenchError(f"the table has {found}, and the loaded files {expected}")
        seconds = time.perf_counter() - start
        print(f"checked: {found[0]:,} rows{', their sums and checksum' if whole else ''}, exactly "
              f"those of {len(files):,} files ({seconds:.0f} s)", flush=True)  # fmt: skip
        if whole:
            self.state.found["checks"].append(
                {"rows": found[0], "checksum": found[-1], "seconds": seconds, "cpu": sample.cpu}
            )
            self.state.save()

    # --- one slice --------------------------------------------------------------------------------

    def slice(self, seconds: float, rows: int) -> None:
        """Load until the time or the rows of a slice are over, all is there, or a kill is due."""
        begin, end = time.perf_counter(), self.loaded_rows() + rows
        while (at := self.loaded_rows()) < min(self.rows, end):
            left = seconds - (time.perf_counter() - begin)
            if left <= 0:
                return
            self._run_once(at, end, left)

    def _run_once(self, before: int, end: int, seconds: float) -> None:
        found = self.state.found
        due = len(found["kills"]) + 1
        kill_at = self.rows * due // (self.kills + 1) if due <= self.kills else None
        said = self.work / "last-run.log"
        others = set(children(os.getpid()))
        start = time.perf_counter()
        with said.open("wb") as log:
            process = subprocess.Popen(
                [os.fspath(part) for part in self._load(str(self.links / "*.csv.gz"), self.data)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            ended, cpu, stop_by = "", 0.0, 0.0
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    cpu += usage.ru_utime + usage.ru_stime
                    break
                now = time.perf_counter() - start
                if not ended:
                    loaded = self.loaded_rows()
                    if kill_at is not None and loaded >= kill_at:
                        process.kill()
                        ended = "kill -9"
                    elif (now > seconds or loaded >= end) and loaded < self.rows:
                        process.send_signal(signal.SIGINT)
                        ended = "slice"
                        stop_by = now + STOP_SECONDS
                elif ended == "slice" and now > stop_by:
                    raise BenchError(f"rowfall does not stop: see {said}")
                time.sleep(LOOK_EVERY)
            # The engine of a killed rowfall: it ends by itself, and its CPU counts.
            for orphan in set(children(os.getpid())) - others:
                _, _, usage = os.wait4(orphan, 0)
                cpu += usage.ru_utime + usage.ru_stime
        wall = time.perf_counter() - start
        after = self.loaded_rows()
        if ended == "kill -9":
            found["kills"].append({"rows": after})
        found["slices"].append(
            {"before": before, "after": after, "wall": wall, "cpu": cpu, "ended": ended or "done"}
        )
        self.state.save()
        print(f"{after:,} of {self.rows:,} rows after {wall:,.0f} s, {cpu:,.0f} CPU-s "
              f"({ended or 'done'})", flush=True)  # fmt: skip
        code = process.returncode
        if code and not ended:
            raise BenchError(f"rowfall load ended with {code}: {said.read_text()[-2000:]}")
        self.check(whole=False)

    def totals(self) -> dict[str, Any]:
        """Return what has been loaded so far, and what that took."""
        return {
            "rows": self.loaded_rows(),
            "cores": os.cpu_count(),
            "kills": len(self.state.found["kills"]),
            "wall": round(self.state.total("wall")),
            "cpu": round(self.state.total("cpu")),
        }

    # --- the page of results ----------------------------------------------------------------------

    def page(self) -> str:
        """Return the page of results, true for what has been run so far."""
        found, state = self.state.found, self.state
        loaded, wall, cpu = self.loaded_rows(), state.total("wall"), state.total("cpu")
        copies = self.files // self.distinct_files
        whole = loaded == self.rows
        checks = [one for one in found["checks"] if one["rows"] == loaded]
        lines = [
            f"# {_short(self.rows)} rows, {os.cpu_count()} cores, exactly once",
            "",
            f"What repeats: {self.distinct:,} distinct rows in {self.distinct_files:,} csv.gz "
            f"files ({found['source_bytes'] / 1e9:.2f} GB), each file loaded under {copies:,} "
            "names; rows of `generate://trips` take 100 values, as those of the article do.",
            "",
            f"Loaded so far: **{loaded:,} of {self.rows:,} rows** ({loaded / self.rows:.1%})"
            + ("." if whole else ": the figures below are those of this part."),
            "",
            f"Table: `MergeTree PARTITION BY {PARTITION_BY} ORDER BY {table('trips').order_by}`, "
            f"UInt32, UInt32, UInt8, in a folder of one machine ({_machine()}).",
            "",
            "| load | rows | wall | CPU or vCPU minutes | rows per CPU-second |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        if cpu:
            done = state.total("after") - state.total("before")
            lines.append(
                f"| rowfall, {os.cpu_count()} cores | {done:,.0f} | {_clock(wall)} | "
                f"{cpu / 60:,.1f} | {done / cpu / 1e6:.2f} M |"
            )
        for name, seconds, cores in PUBLISHED:
            lines.append(
                f"| {name} (published) | {TARGET:,} | {_clock(seconds)} | "
                f"{seconds * cores / 60:,.0f} | {TARGET / seconds / cores / 1e6:.2f} M |"
            )
        lines += [
            "",
            "rowfall's CPU time is user and system time of all its processes, background merges, "
            "kills and starts included; that of the published loads is wall time times vCPUs.",
            "",
            *([found["note"], ""] if found.get("note") else []),
            "| from row | to row | wall s | CPU s | M rows/s | ended by |",
            "| ---: | ---: | ---: | ---: | ---: | --- |",
        ]
        for one in found["slices"]:
            rate = (one["after"] - one["before"]) / one["wall"] / 1e6
            lines.append(f"| {one['before']:,} | {one['after']:,} | {one['wall']:,.0f} | "
                         f"{one['cpu']:,.0f} | {rate:.2f} | {one['ended']} |")  # fmt: skip
        killed = ", ".join(f"{one['rows']:,}" for one in found["kills"]) or "none yet"
        lines += ["", f"Killed with kill -9 (rowfall at work, no warning) at row: {killed}.", ""]
        if checks:
            one = checks[-1]
            lines.append(
                f"Checked: {one['rows']:,} rows, the sums of their three columns and the checksum "
                f"{one['checksum']} (`sum(cityHash64(...))`) are those of the loaded files as "
                f"ClickHouse's own reader finds them; the query took {one['seconds']:.0f} s."
            )
        else:
            lines.append("The count was compared after each run, and the checksum not yet.")
        lines += ["", "Made by `make bench-100b`; run it again to go on.", ""]
        return "\n".join(lines)


def _short(rows: int) -> str:
    return f"{rows // 10**9} billion" if rows % 10**9 == 0 else f"{rows / 1e6:,.0f} million"


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), platform.machine(),
    )  # fmt: skip
    return f"{os.cpu_count()} cores of {model}, {memory:.0f} GiB"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Load 100 billion rows, in slices.")
    parser.add_argument("--work", type=Path, required=True, help="folder for files, table, state")
    parser.add_argument("--rows", type=float, default=TARGET)
    parser.add_argument("--files", type=int, default=1000, help="names of files (default 1000)")
    parser.add_argument("--distinct", type=float, default=1e9, help="distinct rows (default 1e9)")
    parser.add_argument("--slice", default="2h", help="stop after this time (default 2h)")
    parser.add_argument("--slice-rows", type=float, default=TARGET, help="or after these rows")
    parser.add_argument("--kills", type=int, default=2, help="kill -9 on the way (default 2)")
    parser.add_argument("--attempt-bytes", help="as of rowfall load, for small rehearsals")
    parser.add_argument("--note", help="for the page of results: what else the machine did")
    parser.add_argument(
        "--check", action="store_true", help="compare the checksum of what is there"
    )
    given = parser.parse_args(arguments)
    try:
        bench = Bench(given)
        if given.note is not None:
            bench.state.found["note"] = given.note
        adopt_orphans()
        bench.prepare()
        if not given.check:
            bench.slice(parse_duration(given.slice), int(given.slice_rows))
        if given.check or bench.loaded_rows() == bench.rows:
            bench.check(whole=True)
    except BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 2
    # Only the whole of it is a result to keep; any other count is a rehearsal.
    page = RESULTS if bench.rows == TARGET else bench.work / RESULTS.name
    page.write_text(bench.page())
    if bench.rows == TARGET:
        TOTALS.write_text(json.dumps(bench.totals(), indent=1) + "\n")
    print(f"{bench.loaded_rows():,} of {bench.rows:,} rows; see {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
