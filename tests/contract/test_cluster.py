"""What a cluster is, seen through one of its nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from contract.engines import connect
from lab.clickhouse import Account
from lab.cluster import Cluster as Lab
from lab.cluster import Node as Started
from rowfall.cluster.discover import Asks, Cluster, discover
from rowfall.engines.server import Server
from rowfall.errors import TargetError
from rowfall.publish import ask
from rowfall.secrets import Secret

Login = Callable[..., Asks]


@pytest.fixture
def login() -> Iterator[Login]:
    """Ask a node as the lab's user or another one."""
    servers: list[Server] = []

    def open_(node: Started, account: Account | None = None) -> Asks:
        who = account and {"user": account.user, "password": Secret(account.password)}
        servers.append(connect(node.server, **(who or {})))
        return partial(ask, servers[-1])

    yield open_
    for server in servers:
        server.close()


@contextmanager
def paused(node: Started) -> Iterator[None]:
    node.pause()
    try:
        yield
    finally:
        node.resume()


def test_every_node_is_told_apart(cluster22: Lab, login: Login) -> None:
    found = discover(login(cluster22.nodes[0]), "lab")
    assert [(n.shard, n.replica, n.port, n.http_port) for n in found.nodes] == [
        (n.shard, n.replica, n.tcp, n.http) for n in cluster22.nodes
    ]
    assert [(n.macros["shard"], n.macros["replica"]) for n in found.nodes] == [
        ("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")
    ]  # fmt: skip
    assert {(n.host, n.tls, n.error) for n in found.nodes} == {("127.0.0.1", False, "")}
    for node, real in zip(found.nodes, cluster22.nodes, strict=True):
        assert node.version == real.query("SELECT version()").strip()
        assert node.timezone == real.query("SELECT timezone()").strip()
        assert 100 << 20 < node.memory < 750_000_000  # half of what its configuration allows
    assert found.shards == (1, 2)
    assert [n.replica for n in found.of(2)] == [1, 2]
    assert found.replicated
    assert found.internal_replication is True
    assert found.lost == ()


def test_any_node_sees_the_same_cluster(cluster4: Lab, login: Login) -> None:
    def shape(cluster: Cluster) -> list[tuple[int, int, str]]:
        return [(node.http_port, node.cores, node.name) for node in cluster.nodes]

    seen = [discover(login(node), "lab") for node in cluster4.nodes]
    assert shape(seen[0]) == shape(seen[1]) == shape(seen[2]) == shape(seen[3])
    assert seen[0].shards == (1, 2, 3, 4)
    assert not seen[0].replicated


def test_facts_are_those_of_each_node(cluster4: Lab, login: Login) -> None:
    """The entry node must not answer for the others: here one user has other limits on each."""
    rights = "REMOTE ON *.*", "SELECT ON system.*"
    entry, *others = cluster4.nodes
    account = entry.server.add_user("limited", *rights)
    for number, node in enumerate(others, 5):
        limits = f"max_threads = {number}, max_memory_usage = {number * 10_000_000}"
        node.server.add_user("limited", *rights, settings=limits)
    found = discover(login(entry, account), "lab")
    assert [node.cores for node in found.nodes[1:]] == [5, 6, 7]
    assert [node.memory for node in found.nodes[1:]] == [25_000_000, 30_000_000, 35_000_000]
    assert found.nodes[0].memory > 100 << 20


def test_an_unknown_cluster(cluster4: Lab, login: Login) -> None:
    with pytest.raises(TargetError, match="no cluster 'nowhere'") as caught:
        discover(login(cluster4.nodes[0]), "nowhere")
    assert "lab" in (caught.value.hint or "")


def test_a_node_that_is_down_and_one_that_hangs(cluster4: Lab, login: Login) -> None:
    asks, dead, frozen = login(cluster4.nodes[0]), cluster4.nodes[1], cluster4.nodes[3]
    dead.kill9()
    try:
        started = time.monotonic()
        found = discover(asks, "lab")
        assert time.monotonic() - started < 5
        assert [node.error for node in found.nodes] == ["", "connection refused", "", ""]
        assert [node.http_port for node in found.nodes] == [
            cluster4.nodes[0].http, 0, cluster4.nodes[2].http, cluster4.nodes[3].http
        ]  # fmt: skip
        assert found.lost == (2,)
        with paused(frozen):
            started = time.monotonic()
            found = discover(asks, "lab")
            assert time.monotonic() - started < 20
        assert [bool(node.error) for node in found.nodes] == [False, True, False, True]
        assert found.nodes[2].macros["shard"] == "3"
    finally:
        dead.start()
    assert [node.error for node in discover(asks, "lab").nodes] == [""] * 4


def test_missing_rights_are_named(cluster4: Lab, login: Login) -> None:
    for node in cluster4.nodes:
        account = node.server.add_user("nobody_much", "SELECT ON system.clusters")
    with pytest.raises(TargetError, match=r"REMOTE ON \*\.\*") as caught:
        discover(login(cluster4.nodes[0], account), "lab")
    assert "GRANT REMOTE ON *.* TO nobody_much" in (caught.value.hint or "")


def test_a_user_who_may_not_read_system_tables(cluster4: Lab, login: Login) -> None:
    for node in cluster4.nodes:
        account = node.server.add_user("modest", "REMOTE ON *.*", "SELECT ON system.clusters")
    found = discover(login(cluster4.nodes[0], account), "lab")
    assert [node.http_port for node in found.nodes] == [node.http for node in cluster4.nodes]
    assert all(node.memory > 100 << 20 for node in found.nodes)


def test_a_user_of_the_entry_node_only(cluster4: Lab, login: Login) -> None:
    account = cluster4.nodes[2].server.add_user("local_only", "REMOTE ON *.*", "SELECT ON system.*")
    with pytest.raises(TargetError, match=r"shard \d replica 1 .*does not answer") as caught:
        discover(login(cluster4.nodes[2], account), "lab")
    assert "every node" in (caught.value.hint or "")
