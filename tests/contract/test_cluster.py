"""What a cluster is, seen through one of its nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from contract.clusters import Login, add_user, down, paused
from lab.clickhouse import Account
from lab.cluster import Cluster as Lab
from lab.cluster import Node as Started
from rowfall.cluster.topology import Cluster, discover
from rowfall.core.errors import TargetError
from rowfall.core.model import Ask

Log = Callable[..., Ask]


@pytest.fixture
def login() -> Iterator[Log]:
    """Ask a node as the lab's user or another one."""
    logins: list[Login] = []

    def open_(node: Started, account: Account | None = None) -> Ask:
        logins.append(Login(node, account))
        return logins[-1].asks

    yield open_
    for one in logins:
        one.server.close()


def test_every_node_is_told_apart(cluster22: Lab, login: Log) -> None:
    found = discover(login(cluster22.nodes[0]), "lab")
    assert [(n.shard, n.replica, n.port, n.http_port) for n in found.nodes] == [
        (n.shard, n.replica, n.tcp, n.http) for n in cluster22.nodes
    ]
    assert [(n.facts.macros["shard"], n.facts.macros["replica"]) for n in found.nodes] == [
        ("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")
    ]  # fmt: skip
    assert {(n.host, n.tls, n.error) for n in found.nodes} == {("127.0.0.1", False, None)}
    for node, real in zip(found.nodes, cluster22.nodes, strict=True):
        assert node.facts.version == real.query("SELECT version()").strip()
        assert node.facts.timezone == real.query("SELECT timezone()").strip()
        limit = "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'"
        assert 100 << 20 < node.facts.memory < int(real.query(limit)) // 2
    assert found.shards == (1, 2)
    assert [n.replica for n in found.of(2)] == [1, 2]
    assert found.replicated
    assert found.internal_replication is True
    assert found.lost == ()


def test_any_node_sees_the_same_cluster(cluster4: Lab, login: Log) -> None:
    def shape(cluster: Cluster) -> list[tuple[int, int, str]]:
        return [(node.http_port, node.facts.cores, node.name) for node in cluster.nodes]

    seen = [discover(login(node), "lab") for node in cluster4.nodes]
    assert shape(seen[0]) == shape(seen[1]) == shape(seen[2]) == shape(seen[3])
    assert seen[0].shards == (1, 2, 3, 4)
    assert not seen[0].replicated


def test_facts_are_those_of_each_node(cluster4: Lab, login: Log) -> None:
    """The entry node must not answer for the others: here one user has other limits on each."""
    rights = "REMOTE ON *.*", "SELECT ON system.*"
    entry, *others = cluster4.nodes
    account = add_user(entry, "limited", *rights)
    for number, node in enumerate(others, 5):
        limits = f"max_threads = {number}, max_memory_usage = {number * 10_000_000}"
        add_user(node, "limited", *rights, settings=limits)
    found = discover(login(entry, account), "lab")
    assert [node.facts.cores for node in found.nodes[1:]] == [5, 6, 7]
    assert [node.facts.memory for node in found.nodes[1:]] == [25_000_000, 30_000_000, 35_000_000]
    assert found.nodes[0].facts.memory > 100 << 20


def test_an_unknown_cluster(cluster4: Lab, login: Log) -> None:
    with pytest.raises(TargetError, match="no cluster 'nowhere'") as caught:
        discover(login(cluster4.nodes[0]), "nowhere")
    assert "lab" in (caught.value.hint or "")


@pytest.mark.long
def test_a_node_that_is_down_and_one_that_hangs(cluster4: Lab, login: Log) -> None:
    asks, dead, frozen = login(cluster4.nodes[0]), cluster4.nodes[1], cluster4.nodes[3]
    with down(dead):
        started = time.monotonic()
        found = discover(asks, "lab")
        assert time.monotonic() - started < 5
        assert [node.error for node in found.nodes] == [None, "connection refused", None, None]
        assert [node.http_port for node in found.nodes] == [
            cluster4.nodes[0].http, 0, cluster4.nodes[2].http, cluster4.nodes[3].http
        ]  # fmt: skip
        assert found.lost == (2,)
        with paused(frozen):
            started = time.monotonic()
            found = discover(asks, "lab")
            assert time.monotonic() - started < 20
        assert [bool(node.error) for node in found.nodes] == [False, True, False, True]
        assert found.nodes[2].facts.macros["shard"] == "3"
    assert [node.error for node in discover(asks, "lab").nodes] == [None] * 4


def test_missing_rights_are_named(cluster4: Lab, login: Log) -> None:
    account = add_user(cluster4.nodes, "nobody_much", "SELECT ON system.clusters")
    with pytest.raises(TargetError, match=r"REMOTE ON \*\.\*") as caught:
        discover(login(cluster4.nodes[0], account), "lab")
    assert "GRANT REMOTE ON *.* TO nobody_much" in (caught.value.hint or "")


def test_a_user_who_may_not_read_system_tables(cluster4: Lab, login: Log) -> None:
    account = add_user(cluster4.nodes, "modest", "REMOTE ON *.*", "SELECT ON system.clusters")
    found = discover(login(cluster4.nodes[0], account), "lab")
    assert [node.http_port for node in found.nodes] == [node.http for node in cluster4.nodes]
    assert all(node.facts.memory > 100 << 20 for node in found.nodes)


def test_a_user_of_the_entry_node_only(cluster4: Lab, login: Log) -> None:
    account = add_user(cluster4.nodes[2], "local_only", "REMOTE ON *.*", "SELECT ON system.*")
    with pytest.raises(TargetError, match=r"shard \d replica 1 .*does not answer") as caught:
        discover(login(cluster4.nodes[2], account), "lab")
    assert "every node" in (caught.value.hint or "")
