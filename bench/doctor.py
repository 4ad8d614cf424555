"""What ``rowfall doctor`` predicts beside the load that follows.

    python bench/doctor.py [--rounds 3] [--scale 1.0] [--only CASE,CASE] [--data FOLDER] [--slowed]

A round asks doctor and then loads, case after case, so that what else the machine does meets all
of them. The predictions are compared with the report of the load: its rows by its seconds. Real
services of tests/lab. Prints a table and writes results-doctor.json beside this file.

``--slowed`` instead makes one link slow on purpose and looks whether that is the one that is named.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import data, measure

RESULTS = Path(__file__).parent / "results-doctor.json"
# The aim: a prediction that is off by more is counted as one that is.
AIM = 0.2
# Of all processes of this machine (cgroups v1, root only): writes to a device are held back there.
THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
# Rows of each table; the smallest loads take about a second.
ROWS = {"trips": 20_000_000, "taxi": 1_000_000}
FILES = {"trips": 8, "taxi": 8}


@dataclass(frozen=True, slots=True)
class Place:
    """A target that is emptied before each load.

    Attributes:
        to: as ``--to``. ``fresh`` removes what was loaded.
    """

    to: str
    fresh: Callable[[], None]
    table: str = "t"
    environment: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def folder(root: Path) -> Iterator[Place]:
    place = root / "folder"
    yield Place(str(place), lambda: shutil.rmtree(place, ignore_errors=True))


@contextlib.contextmanager
def files(root: Path) -> Iterator[Place]:
    place = root / "files"
    yield Place(
        str(place / "rows_{n}.parquet"), lambda: shutil.rmtree(place, ignore_errors=True), ""
    )


@contextlib.contextmanager
def duckdb(root: Path) -> Iterator[Place]:
    place = root / "rows.duckdb"
    yield Place(str(place), lambda: place.unlink(missing_ok=True))


@contextlib.contextmanager
def server(root: Path) -> Iterator[Place]:
    from lab.clickhouse import ClickHouse

    with ClickHouse() as node:

        def fresh() -> None:
            node.query("DROP DATABASE IF EXISTS b SYNC")
            node.query("CREATE DATABASE b")

        fresh()
        yield Place(node.uri("b"), fresh)


@contextlib.contextmanager
def postgresql(root: Path) -> Iterator[Place]:
    from lab.postgresql import PostgresqlServer

    with PostgresqlServer() as node:
        secret = {"PGPASSWORD": node.password}
        drop = "DROP TABLE IF EXISTS t, _rowfall_loaded"
        yield Place(node.uri, lambda: node.run(drop), environment=secret)


@contextlib.contextmanager
def mariadb(root: Path) -> Iterator[Place]:
    from lab.mariadb import MariaDB

    with MariaDB(innodb_buffer_pool_size="1G", innodb_log_file_size="512M") as node:

        def fresh() -> None:
            node.query("DROP DATABASE IF EXISTS b", "CREATE DATABASE b")

        fresh()
        yield Place(node.uri("b"), fresh)


TARGETS: Mapping[str, Callable[[Path], contextlib.AbstractContextManager[Place]]] = {
    "folder": folder, "server": server, "postgresql": postgresql, "mariadb": mariadb,
    "duckdb": duckdb, "files": files,
}  # fmt: skip
# Table, extension, where it is read from, target.
CASES = (
    ("trips", "csv.gz", "disk", "folder"),
    ("taxi", "csv.gz", "disk", "folder"),
    ("taxi", "json.gz", "disk", "folder"),
    ("taxi", "parquet", "disk", "folder"),
    ("trips", "csv.gz", "s3", "folder"),
    ("taxi", "csv.gz", "disk", "server"),
    ("trips", "csv.gz", "s3", "server"),
    ("taxi", "csv.gz", "disk", "postgresql"),
    ("taxi", "parquet", "disk", "mariadb"),
    ("taxi", "csv.gz", "disk", "duckdb"),
    ("taxi", "csv.gz", "disk", "files"),
)


@dataclass(frozen=True, slots=True)
class Slowed:
    """A load with one link that is made slow.

    Attributes:
        source, to: of the command. ``prefix``: in front of it. ``options``: behind it. Rows are
            pushed where insert threads count: parts that are made here need none.
        links: either of these is the right name.
    """

    source: str
    to: str
    links: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@contextlib.contextmanager
def slow_disk(root: Path, rate: int) -> Iterator[Path]:
    """Give a file system that takes so many bytes a second."""
    from lab.disk import JournaledDisk

    disk = JournaledDisk(root, 2048)
    try:
        device = disk.path.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        THROTTLE.write_text(f"{number} {rate}")
        try:
            yield disk.path
        finally:
            THROTTLE.write_text(f"{number} 0")
    finally:
        disk.close()


@contextlib.contextmanager
def slowed(root: Path, scale: float) -> Iterator[dict[str, Slowed]]:
    """A narrow store, a slow disk, a far and a narrow server, one core, one insert thread."""
    from lab.clickhouse import ClickHouse
    from lab.proxy import Proxy

    rows = max(int(ROWS["taxi"] * scale), 1000)
    found = data.make(root, "taxi", "csv.gz", rows, FILES["taxi"])
    few = data.make(root, "taxi", "csv", 20_000, 4)
    local, small = (f"{paths[0].parent}/part_*" for paths in (found, few))
    with (
        data.served(found) as (url, keys),
        ClickHouse() as node,
        Proxy(int(url.rpartition(":")[2])) as narrow_store,
        Proxy(node.http_port) as far,
        Proxy(node.http_port) as narrow,
        slow_disk(root, 5_000_000) as disk,
    ):
        node.query("CREATE DATABASE b")
        grants = "CURRENT GRANTS(ALL ON *.*)"
        one, two = (
            node.add_user(name, grants, settings=f"max_insert_threads = {count} CONST")
            for name, count in (("one", 1), ("two", 2))
        )
        narrow_store.throttle(400_000)
        far.delay(0.025)
        narrow.throttle(2_000_000)
        bucket = f"s3://{data.BUCKET}/part_*.csv.gz"
        yield {
            "a store of 0.4 MB/s for each request": Slowed(
                bucket, str(root / "x"), ("source: reading",),
                {**keys, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{narrow_store.port}"},
            ),
            "a disk of 5 MB/s": Slowed(local, str(disk / "x"), ("target: ready rows",)),
            "a server 50 ms away": Slowed(
                small, node.uri("b", port=far.port),
                ("protocol: one row", "network: to the target"),
            ),
            "a network of 2 MB/s": Slowed(
                local, node.uri("b", port=narrow.port), ("network: to the target",)
            ),
            "one core": Slowed(
                local, "null:", ("source: parsing", "source: unpacking and parsing"),
                prefix=("taskset", "-c", "0"),
            ),
            "one insert thread": Slowed(
                local, node.uri("b", account=one), ("target: ready rows",), options=("--push",)
            ),
            "two insert threads": Slowed(
                local, node.uri("b", account=two), ("target: ready rows",), options=("--push",)
            ),
        }  # fmt: skip


def name_slowed(root: Path, scale: float, rounds: int) -> None:
    """Print which link doctor names where one is made slow."""
    with slowed(root, scale) as cases:
        for name, case in cases.items():
            for _ in range(rounds):
                table = [] if case.to == "null:" else ["--table", "t"]
                found = json.loads(measure.run(
                    [*case.prefix, data.ROWFALL, "doctor", case.source, "--to", case.to, *table,
                     *case.options, "--json"], env=case.environment,
                ).output)  # fmt: skip
                link = found["slowest"]["link"]
                right = "right" if link in case.links else f"not one of {case.links}"
                print(f"{name:38} {link:32} {right} ({found['seconds']:.0f} s)", flush=True)
                if link not in case.links:
                    for each in found["links"]:
                        print("   ", each["part"], each["name"], each["figure"],
                              each["rows_per_second"])  # fmt: skip


def name_of(case: tuple[str, str, str, str]) -> str:
    return "-".join(case)


def run(command: str, source: str, place: Place, more: Mapping[str, str]) -> dict[str, Any]:
    """The JSON document of a command about a source and a target."""
    table = ["--table", place.table] if place.table else []
    sample = measure.run(
        [data.ROWFALL, command, source, "--to", place.to, *table, "--json"],
        env={**place.environment, **more},
    )
    found: dict[str, Any] = json.loads(sample.output)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--slowed", action="store_true")
    asked = parser.parse_args()
    wanted = [name.strip() for name in asked.only.split(",") if name.strip()]
    cases = [case for case in CASES if not wanted or name_of(case) in wanted]
    if not cases:
        raise measure.BenchError(f"cases are {', '.join(map(name_of, CASES))}")
    measure.adopt_orphans()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")
    with contextlib.ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-doctor-")))
        made.chmod(0o755)
        root = asked.data or made
        os.environ["ROWFALL_HOME"] = str(made / "state")
        if asked.slowed:
            name_slowed(root, asked.scale, asked.rounds)
            return
        sources = {case[:3]: _source(stack, root, case, asked.scale) for case in cases}
        places = {
            name: stack.enter_context(TARGETS[name](made))
            for name in dict.fromkeys(case[3] for case in cases)
        }
        results: dict[str, list[dict[str, Any]]] = {name_of(case): [] for case in cases}
        for _ in range(asked.rounds):
            for case in cases:
                (source, environment), place = sources[case[:3]], places[case[3]]
                place.fresh()
                os.sync()  # what the case before has written is not to be waited for in this one
                said = run("doctor", source, place, environment)
                place.fresh()
                # A ledger of its own: the loads of rounds before count as loaded otherwise.
                shutil.rmtree(made / "state", ignore_errors=True)
                os.sync()
                loaded = run("load", source, place, environment)
                results[name_of(case)].append({
                    "predicted": said["predicted_rows_per_second"],
                    "measured": loaded["rows"] / loaded["seconds"],
                    "rows": loaded["rows"], "seconds": loaded["seconds"],
                    "slowest": said["slowest"]["link"], "doctor_seconds": said["seconds"],
                    "changes": [
                        [c["option"] or c["text"], round(c["gain"], 2)] for c in said["changes"]
                    ],
                })  # fmt: skip
                last = results[name_of(case)][-1]
                print(f"{name_of(case):32} {last['predicted']:>12,.0f} {last['measured']:>12,.0f}"
                      f" {last['predicted'] / last['measured']:6.2f}  {last['slowest']}",
                      flush=True)  # fmt: skip
    _print(results)
    if not wanted:
        RESULTS.write_text(json.dumps(
            {"cores": os.cpu_count(), "scale": asked.scale, "rows": ROWS, "cases": results},
            indent=1,
        ) + "\n")  # fmt: skip


def _source(
    stack: contextlib.ExitStack, root: Path, case: tuple[str, str, str, str], scale: float
) -> tuple[str, Mapping[str, str]]:
    table, suffix, where, _ = case
    rows = max(int(ROWS[table] * scale), 1000)
    found = data.make(root, table, suffix, rows, FILES[table])
    if where == "disk":
        return str(found[0].parent / f"part_*.{suffix}"), {}
    url, environment = stack.enter_context(data.served(found))
    del url
    return f"s3://{data.BUCKET}/part_*.{suffix}", environment


def _print(results: Mapping[str, list[dict[str, Any]]]) -> None:
    print("| case | predicted | measured | predicted / measured | slowest |\n|---|---|---|---|---|")
    off = 0
    for name, rounds in results.items():
        predicted = measure.median(each["predicted"] for each in rounds)
        measured = measure.median(each["measured"] for each in rounds)
        ratio = measure.median(each["predicted"] / each["measured"] for each in rounds)
        off += abs(ratio - 1) > AIM
        slowest = max((each["slowest"] for each in rounds),
                      key=[each["slowest"] for each in rounds].count)  # fmt: skip
        print(f"| {name} | {predicted:,.0f} | {measured:,.0f} | {ratio:.2f} | {slowest} |")
    print(f"{len(results) - off} of {len(results)} within {AIM:.0%}")


if __name__ == "__main__":
    main()
