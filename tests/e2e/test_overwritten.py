"""``--on-change error`` into targets that keep no small tables, and into a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from e2e.following import Follower, put
from e2e.test_to_kafka import committed
from e2e.tools import Shell
from lab.cluster import Cluster
from lab.kafka import Kafka


def check(shell: Shell, to: str, rows: Callable[[], list[int]], table: str | None = None) -> None:
    """Overwrite files while they are followed and while nobody looks, and settle one of them."""
    folder = shell.folder / "in"
    folder.mkdir()
    put(folder / "m.csv", 1)
    put(folder / "n.csv", 2)
    first = Follower(partial(put, folder / "m.csv", 3, 33), partial(put, folder / "o.csv", 4))
    first.run(str(folder), to, on_change="error", table=table)
    assert sorted(rows()) == [1, 2, 4]
    ((name, said),) = first.failed
    assert Path(name).name == "m.csv"
    assert said.startswith("overwritten since it was loaded: 4 bytes of ")
    put(folder / "n.csv", 5, 55)
    then = Follower(partial(put, folder / "p.csv", 6))
    then.wanted = {str(folder / "m.csv")}
    then.run(str(folder), to, on_change="error", table=table)
    assert [Path(one).name for one, _ in then.failed] == ["n.csv"]
    assert sorted(rows()) == [1, 2, 3, 4, 6, 33]


@pytest.mark.long
@pytest.mark.xdist_group("kafka")
def test_into_a_topic(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create()
    check(
        shell, f"kafka://{kafka.servers}/{topic}",
        lambda: [json.loads(value)["a"] for _, value in committed(kafka, topic)],
    )  # fmt: skip


def test_into_a_table_of_iceberg(shell: Shell) -> None:
    to = f"iceberg+{shell.folder}/lake/t"

    def rows() -> list[int]:
        shell.ok("load", to, "--table", "seen", "--to", "read", "--replace")
        return [row[0] for row in shell.rows("SELECT a FROM seen", "--to", "read")]

    check(shell, to, rows)


@pytest.mark.long
def test_into_a_cluster(shell: Shell, cluster21: Cluster) -> None:
    database = f"overwritten_{os.getpid()}"
    for node in cluster21.nodes:
        node.query(f"CREATE DATABASE IF NOT EXISTS {database}")

    def rows() -> list[int]:
        text = f"SELECT a FROM {database}.t_local"
        return [int(n) for node in cluster21.nodes for n in node.query(text).split()]

    check(shell, cluster21.url(database), rows, "t")
    for node in cluster21.nodes:
        node.query(f"DROP DATABASE {database} SYNC")
