"""``make bench`` for a cluster: rowfall, and four statements that people type by hand.

All nodes are on this machine and share its cores, so CPU seconds and the bytes between nodes say
more than wall time. Writes ``bench/RESULTS-cluster.md`` and ``results-cluster.json`` at full size;
any other scale writes beside its data.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import data
from bench.data import BUCKET, ROWFALL, report
from bench.measure import Result, Sample, agree, fastest, median, ratio, run
from bench.table import markdown
from lab.cluster import Cluster, Node

HERE = Path(__file__).resolve().parent
ROWS, FILES = 20_000_000, 100
# Times those rows: what a load and a shard cost whatever they load is then a tenth for each row.
SIZES = (1, 10)
SHARDS = (1, 2, 4)
# Caches fill and first merges of the system's own tables end; then a stretch of nothing.
SETTLE_SECONDS, IDLE_SECONDS = 5.0, 10.0
# What rowfall makes of the files by itself, but for the merges.
TABLE = (
    "CREATE TABLE bench.t_local ON CLUSTER lab (c1 UInt16, c2 UInt16, c3 UInt8) ENGINE = MergeTree "
    "ORDER BY (c1, c3, c2) SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1",
    "CREATE TABLE bench.t ON CLUSTER lab AS bench.t_local "
    "ENGINE = Distributed(lab, bench, t_local, rand())",
)
HOW = """\
Clusters of 1, 2 and 4 shards without replicas, the S3 service and rowfall share this machine: more
shards bring no more cores. All clusters run all the time, and their sides take turns into tables
that are empty each time; medians with the fastest and the slowest round. CPU seconds are those of
rowfall, of the programs it starts, and of all nodes, less what the nodes use while there is nothing
to do ("idle", measured for ten seconds before); the S3 service is not counted. "Between nodes" are
the bytes that the nodes received by ClickHouse's own protocols for the load, by their query logs,
statements included, as a share of what the objects hold when unpacked. "Imbalance" is how much more
rows than the average the fullest shard has. `local` is `rowfall load` with `--pull` and the
engine's own reader, as the others read; "as it plans" has no option at all. The others are one
INSERT SELECT each, without staging, which the first node is sent: from s3Cluster() through the
Distributed table; the same with `parallel_distributed_insert_select=2`; from s3(); and from
cluster(lab, view(...)), where each shard reads objects of its own. They plan, check and record
nothing: half a second or more, which is much of a load of 20 M rows and little of one of 200 M. All
sides have to store the same rows. The tables are there before, and never merge: merges are no part
of a load, and four servers get round to more of them while it runs than one does (of 200 M rows, 13
parts were left on four and 40 on one), which would be counted for one side only. "Against one
shard" is what each row costs more CPU: every shard has connections, statements and a staging table
of its own, so this falls as a load grows, as ten times the rows show."""


@dataclass(frozen=True, slots=True)
class Side:
    """A name for the table; the options of ``rowfall load``, or None for a statement by hand."""

    name: str
    options: Sequence[str] | None


LOCAL = Side("local", ("--pull", "--decoder", "never"))
PLANNED = Side("local, as it plans", ())
OTHERS = tuple(
    Side(name, None) for name in ("s3cluster", "s3cluster-parallel", "distributed", "views")
)
# 2: every shard runs the INSERT SELECT on its own and writes into its local table.
PARALLEL = {"s3cluster-parallel": 2, "views": 2}
COLUMNS = "c1, c2, c3"
STRUCTURE = "c1 UInt16, c2 UInt16, c3 UInt8"


@dataclass(slots=True)
class Costs:
    """What each round of one side has cost besides time."""

    between: list[int]
    imbalance: list[float]


class Bench:
    """One cluster and the files to load."""

    def __init__(self, cluster: Cluster, files: Sequence[Path], env: dict[str, str],
                 state: Path) -> None:  # fmt: skip
        self.cluster, self.files, self.env, self.state = cluster, files, env, state
        self.shards = len(cluster.nodes)
        self.load = os.getloadavg()[0]
        self.idle = self._idle()

    def _idle(self) -> float:
        """CPU seconds a second of all nodes while nobody asks anything."""
        time.sleep(SETTLE_SECONDS)
        before, began = self._cpu(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        return (self._cpu() - before) / (time.monotonic() - began)

    def once(self, side: Side, result: Result, costs: Costs) -> None:
        """Run a side once into empty tables, and add what was measured and stored."""
        first = self.cluster.nodes[0]
        for table in ("t", "t_local", "_rowfall_journal"):
            first.query(f"DROP TABLE IF EXISTS bench.{table} ON CLUSTER lab SYNC")
        for statement in TABLE:
            first.query(statement)
        os.sync()
        before = self._cpu()
        if side.options is None:
            prefix = f"{side.name}_{len(result.wall)}_"  # of its query id
            sample = self._by_hand(side.name, prefix)
        else:
            home = str(self.state / f"{self.shards}-{len(result.wall)}")
            sample = run(
                [ROWFALL, "load", f"s3://{BUCKET}/part_*.csv.gz", *side.options, "--table", "t",
                 "--to", self.cluster.url("bench"), "--json"],
                env={"ROWFALL_HOME": home, **self.env},
            )  # fmt: skip
            prefix = f"{report(sample.output)['load_id']}_"
        cpu = self._cpu() - before - self.idle * sample.wall
        counts = [int(node.query("SELECT count() FROM bench.t_local")) for node in self._nodes]
        rows, checksum = first.query(
            "SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM bench.t"
        ).split()
        result.add(Sample(sample.wall, sample.cpu + cpu, 0, 0, b""), int(rows))
        result.parts.append(sum(
            int(node.query("SELECT count() FROM system.parts WHERE active AND database = 'bench' "
                           "AND table = 't_local'")) for node in self._nodes
        ))  # fmt: skip
        result.checksums.append(checksum)
        costs.imbalance.append(max(counts) * len(counts) / sum(counts) - 1)
        costs.between.append(sum(self._received(node, prefix) for node in self._nodes))

    def _by_hand(self, name: str, prefix: str) -> Sample:
        """Send the statement of a side to the first node, in the way that people do."""
        first = self.cluster.nodes[0]
        asked = urlencode({
            "user": first.user, "password": first.password, "query_id": f"{prefix}0",
            "parallel_distributed_insert_select": PARALLEL.get(name, 0),
            # Otherwise rows wait in the queue of the Distributed table when the statement is done.
            "distributed_foreground_insert": 1,
        })  # fmt: skip
        text = f"INSERT INTO bench.t ({COLUMNS})\n{self._select(name)}"
        began = time.monotonic()
        with urlopen(f"http://127.0.0.1:{first.http}/?{asked}", text.encode()) as answer:
            answer.read()
        return Sample(time.monotonic() - began, 0.0, 0, 0, b"")

    def _select(self, name: str) -> str:
        every = "part_*.csv.gz"
        if name == "distributed":
            return f"SELECT {COLUMNS} FROM {self._objects(every)}"
        if name != "views":
            function = self._objects(every).replace("s3(", "s3Cluster(lab, ", 1)
            return f"SELECT {COLUMNS} FROM {function}"
        # What every node is sent: of these SELECTs a node reads only the one of its own shard. A
        # condition that is false for all rows keeps the objects of the others from being opened.
        # Not shardNum(), which is 0 here (24.10): the INSERT is sent on as the shard's own.
        parts = []
        for at, node in enumerate(self._nodes):
            uuid = node.query("SELECT serverUUID()").strip()
            names = ",".join(path.name for path in self.files[at :: self.shards])
            parts.append(f"SELECT {COLUMNS} FROM {self._objects('{' + names + '}')}\n"
                         f"WHERE toString(serverUUID()) = '{uuid}'")  # fmt: skip
        union = "\nUNION ALL ".join(parts)
        return f"SELECT {COLUMNS} FROM cluster(lab, view({union}))"

    def _objects(self, pattern: str) -> str:
        names = ("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        endpoint, key, secret = (self.env[f"AWS_{name}"] for name in names)
        url = f"{endpoint}/{BUCKET}/{pattern}"
        return f"s3('{url}', '{key}', '{secret}', 'CSV', '{STRUCTURE}', 'gzip')"

    @property
    def _nodes(self) -> Sequence[Node]:
        return self.cluster.nodes

    def _cpu(self) -> float:
        """User and system seconds of all nodes and of what they have started."""
        total = 0
        for node in self._nodes:
            fields = Path(f"/proc/{node.pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(map(int, fields[11:15]))
        return total / os.sysconf("SC_CLK_TCK")

    def _received(self, node: Node, prefix: str) -> int:
        node.query("SYSTEM FLUSH LOGS")
        return int(node.query(
            "SELECT sum(ProfileEvents['NetworkReceiveBytes']) FROM system.query_log WHERE "
            f"type != 'QueryStart' AND startsWith(initial_query_id, '{prefix}')"
        ))  # fmt: skip


class Series:
    """What one cluster's sides took, round by round."""

    def __init__(self, bench: Bench, sides: Sequence[Side]) -> None:
        self.bench, self.sides = bench, sides
        self.results = [Result(side.name, "cluster") for side in sides]
        self.costs = [Costs([], []) for _ in sides]

    def once(self) -> None:
        """One round of all sides."""
        for side, result, cost in zip(self.sides, self.results, self.costs, strict=True):
            self.bench.once(side, result, cost)
            took = f"{result.wall[-1]:7.2f} s wall {result.cpu[-1]:7.2f} s CPU"
            print(f"  {self.bench.shards} shards {took} {cost.between[-1]:12,} B  {side.name}",
                  flush=True)  # fmt: skip

    def found(self, rows: int) -> dict[str, Any]:
        """Raises BenchError when the rows of the sides differ."""
        return {
            "rounds": len(self.results[0].wall), "date": datetime.now(UTC).date().isoformat(),
            "idle": self.bench.idle, "load": self.bench.load,
            "checksum": agree(self.results, rows),
            "sides": [result.to_json() for result in self.results],
            "between": [median(c.between) for c in self.costs],
            "imbalance": [max(c.imbalance) for c in self.costs],
        }  # fmt: skip


def page(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = ["# Benchmark results: a cluster", "", HOW, "",
             f"{found['cores']} cores, ClickHouse {found['server']}.", ""]  # fmt: skip
    for size in sorted(found["sizes"].values(), key=lambda size: int(size["rows"])):
        lines += [
            f"## {size['rows']:,} rows", "",
            f"Trips data in {size['files']} csv.gz files, {size['bytes'] / 1e6:.0f} MB as stored, "
            f"{size['raw'] / 1e6:.0f} MB unpacked.", "",
        ]  # fmt: skip
        for shards in sorted(size["clusters"], key=int):
            lines += _section(size, shards)
    return "\n".join(lines).rstrip() + "\n"


def _section(size: dict[str, Any], shards: str) -> list[str]:
    """One cluster's table and what it says about the aims."""
    case = size["clusters"][shards]
    results = [Result.from_json(side) for side in case["sides"]]
    local, planned, *others = results
    single = size["clusters"].get("1", {"sides": ()})
    alone = {side["name"]: median(side["cpu"]) for side in single["sides"]}
    rows = [
        (r.name, f"{median(r.wall):.2f} ({min(r.wall):.2f}-{max(r.wall):.2f})",
         f"{median(r.cpu):.1f}", f"{median(r.cpu) / size['rows'] * 1e6:.3f}",
         f"{median(r.cpu) / alone[r.name] - 1:+.1%}" if r.name in alone else "-",
         f"{between / size['raw']:.3%}", f"{uneven:.1%}", f"{ratio(r, local):.2f}")
        for r, between, uneven in zip(results, case["between"], case["imbalance"], strict=True)
    ]  # fmt: skip
    head = ("side", "wall s", "CPU s", "CPU s per million rows", "against one shard",
            "between nodes", "imbalance", "ratio to local")  # fmt: skip
    about = (
        f"{case['rounds']} rounds; {case['date']}; idle: {case['idle']:.2f} CPU s a second; load "
        f"average before {case['load']:.2f}."
    )
    title = "1 shard" if shards == "1" else f"{shards} shards"
    lines = [f"### {title}", "", about, "", *markdown(head, rows), ""]
    if others:
        best = fastest(others)
        lines += [
            f"`local` takes {ratio(local, best):.2f} of the time of the best of the other four "
            f"({best.name}), {ratio(planned, best):.2f} as it plans (aim: at most 0.90).", "",
        ]  # fmt: skip
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the ways into a cluster.")
    parser.add_argument("--shards", default=",".join(map(str, SHARDS)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)),
                        help="times the rows of the first")  # fmt: skip
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/rowfall-bench")
    options = parser.parse_args(arguments)
    out = HERE if options.scale == 1 else options.data
    options.data.mkdir(parents=True, exist_ok=True)
    before = out / "results-cluster.json"
    # What is not measured now keeps what was measured before; each has its date.
    found: dict[str, Any] = json.loads(before.read_text()) if before.exists() else {"sizes": {}}
    found["cores"] = os.cpu_count()
    state = options.data / f"state-{os.getpid()}-cluster"
    for times in map(int, options.sizes.split(",")):
        rows = int(ROWS * options.scale) * times
        files = data.make(options.data, "trips", "csv.gz", rows, FILES)
        size = found["sizes"].setdefault(str(times), {"clusters": {}})
        size |= {
            "rows": rows, "files": FILES, "bytes": sum(path.stat().st_size for path in files),
            "raw": _unpacked(files),
        }  # fmt: skip
        with data.served(files) as (_, env), ExitStack() as stack:
            series = []
            for shards in map(int, options.shards.split(",")):
                own = (LOCAL, PLANNED)
                sides = own if shards == 1 else (*own, *OTHERS)
                cluster = stack.enter_context(Cluster.start(shards, 1))
                cluster.nodes[0].query("CREATE DATABASE IF NOT EXISTS bench ON CLUSTER lab")
                found["server"] = cluster.nodes[0].query("SELECT version()").strip()
                bench = Bench(cluster, files, env, state / str(rows))
                series.append(Series(bench, sides))
            for number in range(1, options.rounds + 1):
                print(f"\n{rows:,} rows, round {number}", flush=True)
                for each in series:
                    each.once()
            for each in series:
                size["clusters"][str(each.bench.shards)] = each.found(rows)
            before.write_text(json.dumps(found, indent=1) + "\n")
            (out / "RESULTS-cluster.md").write_text(page(found))
    print(f"\nwritten: {out / 'RESULTS-cluster.md'}")
    return 0


def _unpacked(files: Sequence[Path]) -> int:
    """Bytes of text, by the last four bytes of each gzip file (all are below 4 GiB)."""
    return sum(int.from_bytes(path.read_bytes()[-4:], "little") for path in files)


if __name__ == "__main__":
    raise SystemExit(main())
