"""Kafka against the engine's own ways: CSV messages, and what a statement costs besides its rows.

python bench/kafka.py [--rows 1000000] [--rounds 3] [--partitions 1,4] [--of taxi|small]
python bench/kafka.py --rebalance       why an INSERT SELECT from a topic may be very slow

A broker and a server of the test lab on this machine. Rates are messages a second, each a row of
taxi (51 columns, 460 bytes) or a small one (5 columns, 44 bytes); CPU is that of rowfall and the
engine together, and of the broker, apart.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.data import ROWFALL
from bench.measure import BenchError, median, run
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka

_TICK = 100  # of /proc, a second
# The Kafka engine of the test server (24.10) reads nothing from brokers of 4.3: "Required feature
# not supported by broker".
_BROKER = "3.9.1"
# What a select from a topic needs on a server.
_SELECT = {"stream_like_engine_allow_direct_select": 1}
_MOST_SECONDS = 120


def cpu_of(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def written(rows: int, folder: Path, of: str) -> Path:
    """Return a file of CSV with a header, as it is sent line by line."""
    path = folder / f"{of}.csv"
    if of == "taxi":
        run([str(ROWFALL), "load", f"generate://taxi?rows={rows}", "--to", str(path)])
    else:
        with path.open("w") as file:
            file.write("id,name,quantity,at,price\n")
            file.writelines(
                f"{i},item {i % 1000},{i * 7 % 1000},2024-01-01 00:{i % 60:02}:00,{i % 97}.5\n"
                for i in range(rows)
            )
    return path


def filled(broker: Kafka, path: Path, partitions: int) -> tuple[str, int]:
    topic, count = broker.create(partitions=partitions), 0
    producer = broker.producer()
    with path.open("rb") as file:
        next(file)
        for line in file:
            while True:
                try:
                    producer.produce(topic, line.rstrip(b"\n"), partition=count % partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
            count += 1
    if producer.flush(120):
        raise BenchError("the broker did not take all messages")
    return topic, count


class Bench:
    """One broker, one server, and a topic of each number of partitions."""

    def __init__(self, broker: Kafka, server: ClickHouse, folder: Path) -> None:
        self.broker, self.server, self.folder = broker, server, folder
        self._made = 0

    def columns(self, path: Path) -> str:
        """Return the columns of the table, as rowfall makes it."""
        plan = run([str(ROWFALL), "plan", str(path), "--json"]).output
        found = json.loads(plan)["schema"]["columns"]
        return ", ".join(f"`{c['name']}` {c['type']}" for c in found)

    def name(self) -> str:
        self._made += 1
        return f"t{self._made}"

    def rowfall(self, topic: str, to: str) -> Callable[[int], tuple[float, float]]:
        def side(rows: int) -> tuple[float, float]:
            before = cpu_of(self.server.pid)
            where = str(self.folder / self.name()) if not to else self.server.uri("default")
            source = f"kafka://{self.broker.servers}/{topic}"
            more = ("--to", where, "--table", self.name(), "--json")
            done = run([str(ROWFALL), "load", source, *more])
            if json.loads(done.output)["rows"] != rows:
                raise BenchError(f"rowfall loaded {json.loads(done.output)['rows']} of {rows}")
            if not to:
                shutil.rmtree(where)
            return done.wall, done.cpu + cpu_of(self.server.pid) - before

        return side

    def queue(self, topic: str, columns: str, **settings: int) -> str:
        name = self.name()
        more = "".join(f", {key} = {value}" for key, value in settings.items())
        self.server.query(
            f"CREATE TABLE {name} ({columns}) ENGINE = Kafka SETTINGS "
            f"kafka_broker_list = '{self.broker.servers}', kafka_topic_list = '{topic}', "
            f"kafka_group_name = '{name}{time.time_ns()}', kafka_format = 'CSV', "
            f"kafka_commit_on_select = 1{more}"
        )
        return name

    def select(self, topic: str, columns: str) -> Callable[[int], tuple[float, float]]:
        """INSERT SELECT with defaults, again and again, until all rows are there."""

        def side(rows: int) -> tuple[float, float]:
            table, queue = self.name(), self.queue(topic, columns)
            self.server.query(f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY ()")
            began, before, count = time.monotonic(), cpu_of(self.server.pid), 0
            while count < rows and time.monotonic() - began < _MOST_SECONDS:
                self.server.query(f"INSERT INTO {table} SELECT * FROM {queue}", settings=_SELECT)
                count = int(self.server.query(f"SELECT count() FROM {table}"))
            # Whoever gives up is measured by what he has got.
            wall = (time.monotonic() - began) * rows / max(1, count)
            self.server.query(f"DROP TABLE {queue}")
            self.server.query(f"DROP TABLE {table}")
            return wall, (cpu_of(self.server.pid) - before) * rows / max(1, count)

        return side

    def view(
        self, topic: str, columns: str, partitions: int
    ) -> Callable[[int], tuple[float, float]]:
        """Measure a tuned queue with a materialized view, until all rows are there."""

        def side(rows: int) -> tuple[float, float]:
            table, view = self.name(), self.name()
            queue = self.queue(
                topic, columns, kafka_num_consumers=min(2, partitions),
                kafka_thread_per_consumer=1, kafka_max_block_size=500_000,
                kafka_poll_max_batch_size=100_000, kafka_flush_interval_ms=2000,
            )  # fmt: skip
            self.server.query(f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY ()")
            began, before, count = time.monotonic(), cpu_of(self.server.pid), 0
            self.server.query(
                f"CREATE MATERIALIZED VIEW {view} TO {table} AS SELECT * FROM {queue}"
            )
            while count < rows and time.monotonic() - began < _MOST_SECONDS:
                time.sleep(0.1)
                count = int(self.server.query(f"SELECT count() FROM {table}"))
            wall = (time.monotonic() - began) * rows / max(1, count)
            cpu = (cpu_of(self.server.pid) - before) * rows / max(1, count)
            for name in (view, queue, table):
                self.server.query(f"DROP TABLE {name}")
            return wall, cpu

        return side


def compare(rows: int, rounds: int, partitions: list[int], of: str) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        Kafka(version=_BROKER) as broker,
        ClickHouse() as server,
    ):
        folder = Path(name)
        bench, path = Bench(broker, server, folder), written(rows, folder, of)
        columns = bench.columns(path)
        for count in partitions:
            topic, sent = filled(broker, path, count)
            sides: dict[str, Callable[[int], tuple[float, float]]] = {
                "rowfall, folder": bench.rowfall(topic, ""),
                "rowfall, server": bench.rowfall(topic, "server"),
                "queue and view, tuned": bench.view(topic, columns, count),
                "INSERT SELECT, defaults": bench.select(topic, columns),
            }
            found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
            for _ in range(rounds):
                for side, measure in sides.items():
                    before = cpu_of(broker.pid)
                    wall, cpu = measure(sent)
                    found[side].append((wall, cpu, cpu_of(broker.pid) - before))
            for side, samples in found.items():
                wall, cpu, apart = (median([s[i] for s in samples]) for i in range(3))
                print(f"{count} partitions  {side:24} {sent / wall:10,.0f} rows/s  "
                      f"CPU {cpu:6.2f} s  broker {apart:6.2f} s", flush=True)  # fmt: skip


def rebalance(rows: int) -> None:
    """Measure statements of an INSERT SELECT by what their consumers wait for."""
    with tempfile.TemporaryDirectory() as name, ClickHouse() as server:
        path = written(rows, Path(name), "taxi")
        for delay in (3000, 0):
            with Kafka(delay, _BROKER) as broker:
                bench = Bench(broker, server, Path(name))
                columns = bench.columns(path)
                topic, _ = filled(broker, path, 1)
                for block in (100, 10_000, 65_536):
                    # By default it gives up after half a second without a message: before the
                    # first one of a broker that is busy.
                    queue = bench.queue(
                        topic, columns, kafka_max_block_size=block, kafka_poll_timeout_ms=3000
                    )
                    seconds, got = [], 0
                    table = bench.name()
                    server.query(f"CREATE TABLE {table} ({columns}) ENGINE = Memory")
                    for _ in range(4):
                        began = time.monotonic()
                        server.query(f"INSERT INTO {table} SELECT * FROM {queue}", settings=_SELECT)
                        seconds.append(time.monotonic() - began)
                    got = int(server.query(f"SELECT count() FROM {table}"))
                    shown = " ".join(f"{s:.1f}" for s in seconds)
                    rate = got / sum(seconds)
                    print(f"group.initial.rebalance.delay.ms={delay}, block {block}: "
                          f"{got:,} rows by 4 statements in {shown} s, {rate:,.0f} rows/s",
                          flush=True)  # fmt: skip
                    server.query(f"DROP TABLE {queue}")
                    server.query(f"DROP TABLE {table}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", default="1,4")
    parser.add_argument("--of", default="taxi", choices=("taxi", "small"))
    parser.add_argument("--rebalance", action="store_true")
    given = parser.parse_args()
    if given.rebalance:
        rebalance(given.rows)
    else:
        compare(given.rows, given.rounds, [int(p) for p in given.partitions.split(",")], given.of)


if __name__ == "__main__":
    main()
