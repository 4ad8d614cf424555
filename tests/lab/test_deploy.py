"""What ``deploy/`` gives to servers: read by ClickHouse itself, and of one mind about names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.clickhouse import binary

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text()


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("cluster.xml", "macros.shard", "2"),
        ("cluster.xml", "macros.replica", "clickhouse-2-1"),
        ("cluster.xml", "remote_servers.lab.secret", "a secret"),
        ("cluster.xml", "interserver_http_host", "clickhouse-2-1"),
        ("cluster.xml", "zookeeper.node.host", "keeper"),
        ("users.xml", "users.rowfall.password", "a password"),
        ("keeper.xml", "keeper_server.raft_configuration.server.hostname", "keeper"),
    ],
)
def test_the_server_reads_it(file: str, key: str, value: str) -> None:
    environment = {"SHARD": "2", "REPLICA": "clickhouse-2-1", "CLUSTER_SECRET": "a secret"}
    done = subprocess.run(
        [binary(), "extract-from-config", f"--config-file={DEPLOY / file}", f"--key={key}"],
        env={**environment, "ROWFALL_PASSWORD": "a password"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == value, done.stderr


def test_every_name_is_a_service_and_the_other_way_round() -> None:
    services = set(re.findall(r"^  ([a-z0-9-]+):$", COMPOSE.partition("services:")[2], re.M))
    services -= {"s3", "rowfall"}
    text = "".join((DEPLOY / file).read_text() for file in ("cluster.xml", "keeper.xml"))
    assert services == set(re.findall(r"<host(?:name)?>(.+?)<", text))


def test_every_server_says_who_it_is() -> None:
    found = re.findall(
        r"^  clickhouse-(\d)-(\d):\n.*\n.*SHARD: \"(\d)\", REPLICA: clickhouse-(\d)-(\d)\}"
        r"(?:\n.*){3}\n      - data-(\d)-(\d):",
        COMPOSE,
        re.M,
    )
    assert len(found) == 4
    for shard, replica, *others in found:
        assert others == [shard, shard, replica, shard, replica]
