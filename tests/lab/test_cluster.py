"""The lab's cluster is a real one: ON CLUSTER, replication, Distributed, a node that is killed."""

from __future__ import annotations

import pytest

from lab.cluster import Cluster
from lab.http import Web
from lab.process import ServiceError


def test_replicates_and_distributes(cluster22: Cluster) -> None:
    one, two, three, four = cluster22.nodes
    assert [(x.shard, x.replica) for x in cluster22.nodes] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    one.query("CREATE DATABASE lab_rows ON CLUSTER lab")
    one.query(
        "CREATE TABLE lab_rows.t ON CLUSTER '{cluster}' (a UInt64) "
        "ENGINE = ReplicatedMergeTree ORDER BY a"
    )
    one.query(
        "CREATE TABLE lab_rows.d ON CLUSTER lab AS lab_rows.t "
        "ENGINE = Distributed(lab, lab_rows, t, a)"
    )
    one.query(
        "INSERT INTO lab_rows.d SETTINGS distributed_foreground_insert = 1 "
        "SELECT number FROM numbers(1000)"
    )
    for node in cluster22.nodes:  # either replica may have been the one that was written to
        node.sync("lab_rows.t")
    for node in (two, four):
        assert node.query("SELECT count(), sum(a % 2) FROM lab_rows.t") == (
            "500\t0\n" if node is two else "500\t500\n"
        )
    assert three.query("SELECT count(), sum(a) FROM lab_rows.d") == "1000\t499500\n"
    one.query("DROP DATABASE lab_rows ON CLUSTER lab SYNC")


def test_a_killed_node_comes_back_with_its_data(cluster22: Cluster) -> None:
    one, *_, four = cluster22.nodes
    one.query("CREATE DATABASE lab_kill ON CLUSTER lab")
    one.query(
        "CREATE TABLE lab_kill.t ON CLUSTER lab (a UInt64) ENGINE = ReplicatedMergeTree ORDER BY a"
    )
    four.query("INSERT INTO lab_kill.t VALUES (7)")
    four.kill9()
    with pytest.raises(OSError, match="refused"):
        four.query("SELECT 1")
    four.start()
    assert four.query("SELECT a FROM lab_kill.t") == "7\n"
    one.query("DROP DATABASE lab_kill ON CLUSTER lab SYNC")


def test_the_keeper_may_go_away(cluster22: Cluster) -> None:
    one, two, *_ = cluster22.nodes
    one.query("CREATE DATABASE lab_keeper ON CLUSTER lab")
    one.query(
        "CREATE TABLE lab_keeper.t ON CLUSTER lab (a UInt64) "
        "ENGINE = ReplicatedMergeTree ORDER BY a"
    )
    one.kill9()
    with pytest.raises(ServiceError, match=r"KEEPER|READ_ONLY|999"):
        two.query("INSERT INTO lab_keeper.t SETTINGS insert_keeper_max_retries = 0 VALUES (1)")
    one.start()
    cluster22.wait()
    two.query("INSERT INTO lab_keeper.t VALUES (2)")
    one.sync("lab_keeper.t")
    assert one.query("SELECT a FROM lab_keeper.t") == "2\n"
    one.query("DROP DATABASE lab_keeper ON CLUSTER lab SYNC")


def test_one_that_is_paused_does_not_answer(cluster22: Cluster) -> None:
    two = cluster22.nodes[1]
    two.pause()
    with pytest.raises(TimeoutError):
        two.query("SELECT 1", timeout=0.5)
    two.resume()
    assert two.query("SELECT 1") == "1\n"


def test_an_error_is_the_servers(cluster22: Cluster) -> None:
    with pytest.raises(ServiceError, match="Code: 60"):
        cluster22.nodes[1].query("SELECT * FROM missing")


def test_nodes_read_addresses(cluster22: Cluster, web: Web) -> None:
    url = web.put("lab/cluster.csv", b"1\n2\n")
    for node in cluster22.nodes:
        assert node.query(f"SELECT sum(a) FROM url('{url}', CSV, 'a UInt8')") == "3\n"


def test_four_shards(cluster4: Cluster) -> None:
    counted = cluster4.nodes[3].query("SELECT count() FROM clusterAllReplicas(lab, system.one)")
    assert counted == "4\n"
    assert cluster4.url("db", "a@b", "c/d", node=2).startswith(
        "clickhouse://a%40b:c%2Fd@127.0.0.1:"
    )
