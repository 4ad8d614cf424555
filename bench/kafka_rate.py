"""The rate of INSERT SELECT from a Kafka engine table in small statements, as an article had it.

    python bench/kafka_rate.py [--statements 4] [--rows 10000] [--blocks 10000]

It came to 3,170 rows a second and gave Kafka up. Statements of as many rows each read one partition
of taxi messages, with the settings of its table, from a broker that lets a new consumer group wait
for three seconds (``group.initial.rebalance.delay.ms``, the default of brokers) and from one that
does not. Real services of tests/lab.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measure
from bench.sources import BROKER, rowfall
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka
from rowfall.sources.recipes import taxi

_DELAYS = (3000, 0)
_POLL_MS = 3000
# Seconds of one statement: with blocks of 100 rows it takes three minutes.
_LONGEST = 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=4)
    parser.add_argument("--rows", type=int, default=10_000, help="messages of each statement")
    parser.add_argument("--blocks", type=int, default=10_000, help="kafka_max_block_size")
    asked = parser.parse_args()
    print("| `group.initial.rebalance.delay.ms` | seconds of each statement | rows/s |")
    print("|---|---|---|")
    for delay in _DELAYS:
        seconds, rows = _statements(delay, asked.statements, asked.rows, asked.blocks)
        times = ", ".join(f"{one:.1f}" for one in seconds)
        print(f"| {delay} | {times} | {rows / sum(seconds):,.0f} |", flush=True)


def _statements(delay: int, count: int, rows: int, blocks: int) -> tuple[list[float], int]:
    """The seconds of statements one after the other, and the rows that they have stored."""
    columns = ", ".join(f"{c.name} {c.type}" for c in taxi(1).schema.columns)
    with Kafka(delay, version=BROKER) as broker, ClickHouse() as server:
        topic = broker.create()
        path = Path(server.folder) / "taxi.csv"
        measure.run([*rowfall("load", f"generate://taxi?rows={count * rows}", "--to", str(path))])
        with path.open("rb") as file:
            next(file)
            broker.send(topic, (line[:-1] for line in islice(file, count * rows)), 0)
        ask = partial(server.query, timeout=_LONGEST)
        ask("CREATE DATABASE b")
        ask(f"CREATE TABLE b.t ({columns}) ENGINE = MergeTree ORDER BY ()")
        ask(
            f"CREATE TABLE b.q ({columns}) ENGINE = Kafka SETTINGS "
            f"kafka_broker_list = '{broker.servers}', kafka_topic_list = '{topic}', "
            "kafka_group_name = 'readers', kafka_format = 'CSV', kafka_commit_on_select = 1, "
            f"kafka_max_block_size = {blocks}, kafka_poll_timeout_ms = {_POLL_MS}"
        )
        direct = "stream_like_engine_allow_direct_select = 1"
        seconds = []
        for _ in range(count):
            began = time.monotonic()
            ask(f"INSERT INTO b.t SELECT * FROM b.q SETTINGS {direct}")
            seconds.append(time.monotonic() - began)
        return seconds, int(ask("SELECT count() FROM b.t"))


if __name__ == "__main__":
    main()
