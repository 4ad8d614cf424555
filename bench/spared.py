"""``make bench`` for servers that are spared: what a load takes of them, with all merges.

``rowfall load --build on`` against ``INSERT SELECT FROM s3()`` as the articles tune it. The CPU is
that of the server process alone. Writes ``bench/RESULTS-spared.md`` and ``results-spared.json`` at
full size; any other scale writes beside its data.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import data
from bench.data import BUCKET, ROWFALL, report
from bench.measure import BenchError, run
from bench.server import SERVER_MEMORY, TUNED, cpu_seconds, rounded
from lab.clickhouse import ClickHouse
from lab.cluster import Cluster
from lab.disk import JournaledDisk
from rowfall.core.sql import literal, settings_clause

HERE = Path(__file__).resolve().parent
# A question as a dashboard asks it, of 5 M rows: some tens of milliseconds.
DASHBOARD = (
    "SELECT vehicle_id, count(), avg(distance_miles), uniq(duration_seconds) FROM bench.dash "
    "GROUP BY vehicle_id ORDER BY vehicle_id"
)
DASHBOARD_ROWS = 5_000_000
IDLE_SECONDS = 10.0
# For the rows of the largest case, and parts that wait to be deleted.
DISK_MEGABYTES = 16_384
SHARDING_KEY = "cityHash64(distance_miles)"
HOW = """\
One ClickHouse server, the S3 service and rowfall share this machine; the sides take turns,
medians of all rounds. "Server CPU" is that of the server process from the first statement until
each partition is one part: parts that a side leaves are merged by `OPTIMIZE TABLE ... PARTITION
ID ... FINAL`. Both sides have to store the same rows. What the server uses while there is
nothing to do is taken off. The whole load is counted, with rowfall's own questions and its journal;
the probe of the layout is in the first round only, as later loads remember it. The server's data
lies on an ext4 with a journal. For the dashboard 8 M taxi rows are loaded, with `--spare-servers`
where parts are built, and the server has one core of its own, the builder, the S3 service and who
asks the other one, as if they were another machine; the builder runs at nice 19, as it does where
the server is on its machine. "Between nodes" are the bytes that nodes received by statements of
other nodes."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of data, and what the server may take at most of the tuned INSERT SELECT."""

    title: str
    table: str
    suffix: str
    format: str
    rows: int
    files: int
    aim: int
    partition_by: str = ""


CASES = {
    "taxi": Case("Taxi, csv.gz", "taxi", "csv.gz", "CSV", 2_000_000, 4, 15),
    "trips": Case(
        "Trips, csv.gz, 84 partitions", "trips", "csv.gz", "CSV", 20_000_000, 20, 40,
        "(duration_seconds, bitAnd(vehicle_id, 3))",
    ),
    "trips-whole": Case("Trips, csv.gz", "trips", "csv.gz", "CSV", 20_000_000, 20, 40),
    "trips-100m": Case(
        "Trips, csv.gz, 84 partitions", "trips", "csv.gz", "CSV", 100_000_000, 20, 40,
        "(duration_seconds, bitAnd(vehicle_id, 3))",
    ),
    "trips-200m": Case(
        "Trips, csv.gz, 84 partitions", "trips", "csv.gz", "CSV", 200_000_000, 20, 40,
        "(duration_seconds, bitAnd(vehicle_id, 3))",
    ),
    "trips-100m-whole": Case("Trips, csv.gz", "trips", "csv.gz", "CSV", 100_000_000, 20, 40),
    "lineitem": Case("TPC-H lineitem, Parquet", "lineitem", "parquet", "Parquet", 6_000_000, 4, 10),
}  # fmt: skip
# A load of half a minute: of a short one the slowest question alone is the 99th percentile.
DASHBOARD_CASE = replace(CASES["taxi"], rows=8_000_000, files=16)
OTHERS = {"dashboard": DASHBOARD_CASE, "sharding": CASES["trips"]}


def idle_rate(pid: int) -> float:
    """Return the CPU seconds a second of a server while nobody asks anything."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


class Side:
    """Files in S3 that go into a table of one server, in one of two ways."""

    def __init__(self, server: ClickHouse, case: Case, files: Sequence[Path], state: Path,
                 s3: tuple[str, dict[str, str]]) -> None:  # fmt: skip
        self.server, self.case, self.files, self.state = server, case, files, state
        self.endpoint, self.env = s3
        self.table = data.table(case.table)
        self.idle = idle_rate(process_of(server))

    def begin(self) -> None:
        for name in ("t", "_rowfall_journal"):
            self.server.query(f"DROP TABLE IF EXISTS bench.{name} SYNC")
        by = f"PARTITION BY {self.case.partition_by}" if self.case.partition_by else ""
        self.server.query(
            f"CREATE TABLE bench.t ({self.table.structure}) ENGINE = MergeTree {by} "
            f"ORDER BY {self.table.order_by}"
        )
        os.sync()

    def select(self) -> None:
        keys = (self.env["AWS_ACCESS_KEY_ID"], self.env["AWS_SECRET_ACCESS_KEY"])
        url = f"{self.endpoint}/{BUCKET}/part_*.{self.case.suffix}"
        place = ", ".join(map(literal, (url, *keys, self.case.format, self.table.structure)))
        query = f"INSERT INTO bench.t SELECT * FROM s3({place}){settings_clause(TUNED)}"
        self.server.query(query, timeout=600)

    def build(self, *flags: str) -> None:
        """Load by parts; ``flags``: in place of ``--build on``."""
        source = f"s3://{BUCKET}/part_*.{self.case.suffix}"
        told = report(run(
            [ROWFALL, "load", source, *(flags or ("--build", "on")), "--table", "t", "--json",
             "--to", self.server.uri("bench")],
            env={"ROWFALL_HOME": str(self.state), **self.env},
        ).output)  # fmt: skip
        if told["notes"]:
            raise BenchError(f"parts were not built: {told['notes']}")

    def merge(self) -> int:
        """Make one part of each partition; returns how many parts there were."""
        found = self.server.query(
            "SELECT partition_id, count() FROM system.parts WHERE active AND database = 'bench' "
            "AND table = 't' GROUP BY 1"
        )
        parts = {id_: int(count) for id_, count in map(str.split, found.splitlines())}
        for id_ in (id_ for id_, count in parts.items() if count > 1):
            self.server.query(f"OPTIMIZE TABLE bench.t PARTITION ID '{id_}' FINAL", timeout=600)
        return sum(parts.values())

    def measured(self, load: Callable[[], None]) -> dict[str, Any]:
        self.begin()
        pid = process_of(self.server)
        before, began = cpu_seconds(pid), time.monotonic()
        load()
        wall = time.monotonic() - began
        loaded = cpu_seconds(pid) - self.idle * wall
        parts = self.merge()
        merged = cpu_seconds(pid) - self.idle * (time.monotonic() - began)
        names = ", ".join(rounded(name, kind) for name, kind in self.table.columns)
        asked = f"SELECT count(), sum(cityHash64(toString(tuple({names})))) FROM bench.t"
        rows, checksum = self.server.query(asked, timeout=600).split()
        return {
            "wall": wall, "loaded": loaded - before, "merged": merged - before, "parts": parts,
            "rows": int(rows), "checksum": checksum,
        }  # fmt: skip


def process_of(server: ClickHouse) -> int:
    """Return the process id of a server. Raises BenchError where it has ended."""
    if server.pid is None:
        raise BenchError("the server has ended")
    return server.pid


def compare(side: Side, rounds: int) -> dict[str, Any]:
    """Both ways in turns. Raises BenchError where their rows differ."""
    busy = os.getloadavg()[0]
    found: dict[str, list[dict[str, Any]]] = {"select": [], "build": []}
    for number in range(1, rounds + 1):
        for name, load in (("select", side.select), ("build", side.build)):
            one = side.measured(load)
            found[name].append(one)
            took = f"{one['wall']:6.2f} s wall  server CPU {one['loaded']:6.2f} s"
            print(f"  round {number}  {took}, merged {one['merged']:6.2f} s  {one['parts']} parts  "
                  f"{name}", flush=True)  # fmt: skip
    stored = {(one["rows"], one["checksum"]) for one in (*found["select"], *found["build"])}
    if len(stored) > 1:
        raise BenchError(f"the sides stored different rows: {stored}")
    ((rows, _),) = stored
    return {"title": side.case.title, "rows": rows, "aim": side.case.aim, "rounds": rounds,
            "load": busy, "date": datetime.now(UTC).date().isoformat(), **found}  # fmt: skip


# --- a dashboard ----------------------------------------------------------------------------------


class Dashboard:
    """Asks one question over and over again, and keeps how long each took."""

    def __init__(self, server: ClickHouse) -> None:
        asked = {"user": server.user, "password": server.password, "query": DASHBOARD}
        self._path = f"/?{urlencode(asked)}"
        self._port, self._stop = server.http_port, threading.Event()
        self.seconds: list[float] = []

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        while not self._stop.is_set():
            began = time.perf_counter()
            connection.request("GET", self._path)
            connection.getresponse().read()
            self.seconds.append(time.perf_counter() - began)
            time.sleep(0.02)

    @contextmanager
    def asking(self) -> Iterator[None]:
        thread = threading.Thread(target=self._ask, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


def dashboard(side: Side, rounds: int) -> dict[str, Any]:
    """Time a question while nothing is loaded, the server pulls, and parts are built."""
    server = side.server
    trips = data.table("trips")
    server.query(f"CREATE TABLE IF NOT EXISTS bench.dash ({trips.structure}) ENGINE = MergeTree "
                 f"ORDER BY {trips.order_by}")  # fmt: skip
    if server.query("SELECT count() FROM bench.dash") == "0\n":
        server.query(
            "INSERT INTO bench.dash SELECT rand() % 800, rand(1) % 800, rand(2) % 60 "
            f"FROM numbers({DASHBOARD_ROWS})"
        )
    cores = sorted(os.sched_getaffinity(0))
    for task in Path(f"/proc/{process_of(server)}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores[:1])
    os.sched_setaffinity(0, cores[1:] or cores)
    ways: dict[str, Callable[[], None]] = {
        "idle": lambda: time.sleep(IDLE_SECONDS), "pull": side.select,
        "build": lambda: side.build("--spare-servers"),
    }  # fmt: skip
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for number in range(1, rounds + 1):
        for name, load in ways.items():
            side.begin()
            asked = Dashboard(server)
            with asked.asking():
                load()
            cuts = quantiles(asked.seconds, n=100)
            found[name].append({"p50": cuts[49], "p99": cuts[98], "asked": len(asked.seconds)})
            print(f"  round {number}  p50 {1e3 * cuts[49]:6.1f} ms  p99 {1e3 * cuts[98]:6.1f} ms  "
                  f"{len(asked.seconds)} times  {name}", flush=True)  # fmt: skip
    os.sched_setaffinity(0, cores)
    return {"rounds": rounds, "date": datetime.now(UTC).date().isoformat(), **found}


# --- shards ---------------------------------------------------------------------------------------


def between(cluster: Cluster, since: str) -> int:
    """Return the bytes that nodes have received by statements of other nodes since some time."""
    total = 0
    for node in cluster.nodes:
        node.query("SYSTEM FLUSH LOGS")
        total += int(node.query(
            "SELECT sum(ProfileEvents['NetworkReceiveBytes']) FROM system.query_log WHERE type != "
            f"'QueryStart' AND NOT is_initial_query AND event_time_microseconds >= '{since}'"
        ))  # fmt: skip
    return total


def sharding(files: Sequence[Path], s3: tuple[str, dict[str, str]], state: Path,
             rounds: int) -> dict[str, Any]:  # fmt: skip
    """Count the bytes between two shards, by a synchronous distributed insert and by parts."""
    endpoint, env = s3
    trips = data.table("trips")
    keys = (env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"])
    url = f"{endpoint}/{BUCKET}/part_*.csv.gz"
    place = ", ".join(map(literal, (url, *keys, "CSV", trips.structure)))
    found: dict[str, list[int]] = {"insert": [], "build": []}
    cluster = Cluster.start(2, 1)
    try:
        first = cluster.nodes[0]
        first.query("CREATE DATABASE bench ON CLUSTER lab")
        for number in range(1, rounds + 1):
            sums = set()
            for name, moved in found.items():
                for table in ("t", "t_local", "_rowfall_journal"):
                    first.query(f"DROP TABLE IF EXISTS bench.{table} ON CLUSTER lab SYNC")
                first.query(f"CREATE TABLE bench.t_local ON CLUSTER lab ({trips.structure}) "
                            f"ENGINE = MergeTree ORDER BY {trips.order_by}")  # fmt: skip
                first.query("CREATE TABLE bench.t ON CLUSTER lab AS bench.t_local ENGINE = "
                            f"Distributed(lab, bench, t_local, {SHARDING_KEY})")  # fmt: skip
                since = first.query("SELECT now64(6)").strip()
                if name == "insert":
                    first.query(f"INSERT INTO bench.t SELECT * FROM s3({place}) SETTINGS "
                                "distributed_foreground_insert = 1")  # fmt: skip
                else:
                    told = report(run(
                        [ROWFALL, "load", f"s3://{BUCKET}/part_*.csv.gz", "--build", "on",
                         "--table", "t", "--to", cluster.url("bench"), "--json"],
                        env={"ROWFALL_HOME": str(state / f"shards{number}"), **env},
                    ).output)  # fmt: skip
                    if told["notes"]:
                        raise BenchError(f"parts were not built: {told['notes']}")
                moved.append(between(cluster, since))
                sums.add(tuple(node.query(
                    "SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM bench.t_local"
                ) for node in cluster.nodes))  # fmt: skip
                print(f"  round {number}  {moved[-1]:12,} bytes  {name}", flush=True)
            if len(sums) > 1:
                raise BenchError(f"the shards have different rows: {sums}")
    finally:
        cluster.stop()
    return {"rounds": rounds, "date": datetime.now(UTC).date().isoformat(), **found}


# --- results --------------------------------------------------------------------------------------


def page(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "# Benchmark results: servers that are spared", "", HOW, "",
        f"{found['cores']} cores, ClickHouse {found['server']}. The builder lets others go first: "
        "where the load average before was high, its wall time means nothing.", "",
        "| data | rows | server CPU s, INSERT SELECT | of them merges | "
        "server CPU s, built parts | share | aim | wall s | load average |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for case in found["cases"].values():
        middle = {
            (side, name): median(one[name] for one in case[side])
            for side in ("select", "build") for name in ("merged", "loaded", "wall")
        }  # fmt: skip
        select, built = middle["select", "merged"], middle["build", "merged"]
        lines.append(
            f"| {case['title']} | {case['rows']:,} | {select:.2f} | "
            f"{select - middle['select', 'loaded']:.2f} | {built:.2f} | 1/{select / built:.0f} | "
            f"1/{case['aim']} | {middle['select', 'wall']:.1f} and {middle['build', 'wall']:.1f} | "
            f"{case['load']:.1f} |"
        )
    if asked := found.get("dashboard"):
        lines += ["", "A question in a loop, milliseconds:", ""]
        lines += ["| while | p50 | p99 | p99 against idle |", "| --- | ---: | ---: | ---: |"]
        idle = median(one["p99"] for one in asked["idle"])
        for name, text in (("idle", "nothing is loaded"), ("pull", "the server pulls"),
                           ("build", "parts are built")):  # fmt: skip
            p50, p99 = (1e3 * median(one[p] for one in asked[name]) for p in ("p50", "p99"))
            lines.append(f"| {text} | {p50:.1f} | {p99:.1f} | {p99 / 1e3 / idle:.2f} |")
    if moved := found.get("sharding"):
        insert, built = median(moved["insert"]), median(moved["build"])
        lines += [
            "",
            f"Sharding key `{SHARDING_KEY}`, 2 shards: {insert:,.0f} bytes between nodes by a "
            f"synchronous distributed insert, {built:,.0f} by built parts "
            f"(1/{insert / max(1, built):,.0f}; aim 1/10).",
        ]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure what loads take of a server.")
    parser.add_argument("--cases", default=",".join((*CASES, *OTHERS)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/rowfall-bench")
    options = parser.parse_args(arguments)
    out = HERE if options.scale == 1 else options.data
    options.data.mkdir(parents=True, exist_ok=True)
    before = out / "results-spared.json"
    # What is not measured now keeps what was measured before; each has its date.
    found: dict[str, Any] = json.loads(before.read_text()) if before.exists() else {"cases": {}}
    found["cores"] = os.cpu_count()
    names = options.cases.split(",")
    with (
        closing(JournaledDisk(options.data, DISK_MEGABYTES)) as disk,
        ClickHouse(memory=SERVER_MEMORY, power=disk) as server,
    ):
        server.query("CREATE DATABASE IF NOT EXISTS bench")
        found["server"] = server.query("SELECT version()").strip()
        for name in names:
            case = OTHERS.get(name) or CASES[name]
            print(f"\n{case.title}: {name}", flush=True)
            rows = max(int(case.rows * options.scale), 100 * case.files)
            files = data.make(options.data, case.table, case.suffix, rows, case.files)
            state = options.data / f"state-{os.getpid()}-{name}"
            with data.served(files) as s3:
                side = Side(server, case, files, state, s3)
                if name in CASES:
                    found["cases"][name] = compare(side, options.rounds)
                elif name == "dashboard":
                    found[name] = dashboard(side, options.rounds)
                else:
                    found[name] = sharding(files, s3, state, options.rounds)
            (out / "results-spared.json").write_text(json.dumps(found, indent=1) + "\n")
            (out / "RESULTS-spared.md").write_text(page(found))
    print(f"\nwritten: {out / 'RESULTS-spared.md'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
