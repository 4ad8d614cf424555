"""A table on a cluster is known by what its nodes hold, whoever connects where, and however the
configuration lists the nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.fleet import Fleet
from e2e.tools import Shell, csv
from lab.cluster import Cluster, Node
from lab.seaweed import Seaweed

FILES, ROWS = 4, 50
ALL = FILES * ROWS
ON = "ON CLUSTER lab"
COLUMNS = "(id UInt64, name String)"
REPLICATED = (
    "ReplicatedMergeTree('/clickhouse/{database}/{table}/{shard}', '{replica}') ORDER BY id"
)


@pytest.fixture
def fleet(shell: Shell, cluster22: Cluster) -> Iterator[Fleet]:
    fleet = Fleet(shell, cluster22)
    for n in range(FILES):
        text = csv([(i, f"n{i % 7}") for i in range(n * ROWS, (n + 1) * ROWS)], "id", "name")
        shell.write(f"in/f{n}.csv", text)
    yield fleet
    cluster22.define("lab")
    fleet.drop()


def other_user(fleet: Fleet, node: int = 0, cluster: str = "lab", user: str = "other") -> Fleet:
    """Somebody whose ledger knows nothing, by way of another node."""
    shell = Shell(fleet.shell.cli, {"ROWFALL_HOME": str(fleet.shell.folder / user)})
    other = Fleet(shell, fleet.cluster)
    other.database = fleet.database
    at = fleet.cluster.url(fleet.database, node=node)
    other.to = at.replace("cluster=lab", f"cluster={cluster}")
    return other


def turned(cluster: Cluster) -> list[list[Node]]:
    """The shards in the other order, and so the replicas of each."""
    return [[node for node in reversed(cluster.nodes) if node.shard == shard] for shard in (2, 1)]


@pytest.mark.long
@pytest.mark.parametrize("by_hand", [pytest.param(False, marks=pytest.mark.long), True])
def test_shards_in_another_order(fleet: Fleet, by_hand: bool) -> None:
    if by_hand:  # each node with a UUID of its own
        for node in fleet.cluster.nodes:
            fleet.do("CREATE DATABASE {db}", node)
            fleet.do(f"CREATE TABLE {{db}}.t_local {COLUMNS} ENGINE = {REPLICATED}", node)
    load = ("in/*.csv", "--table", "t")
    assert fleet.load(*load)["rows"] == ALL
    fleet.cluster.define("lab", *turned(fleet.cluster))
    other = other_user(fleet)
    again = fleet.ok("load", *load, "--json")
    assert (again.document["rows"], again.document["splits_skipped"]) == (0, FILES)
    assert "dropped" not in again.talk
    assert other.load(*load)["splits_skipped"] == FILES
    fleet.sync("t_local")
    assert fleet.numbers("t") == [ALL, ALL]
    assert not fleet.left()


@pytest.mark.long
def test_a_shard_that_is_added_gets_its_share_of_what_is_left(fleet: Fleet) -> None:
    cluster, load = fleet.cluster, ("in/*.csv", "--table", "t")
    cluster.define("lab", [node for node in cluster.nodes if node.shard == 1])
    assert [s["rows"] for s in fleet.load(*load)["shards"]] == [ALL]
    cluster.define("lab")
    for n in range(FILES, 3 * FILES):
        text = csv([(i, "a") for i in range(n * ROWS, (n + 1) * ROWS)], "id", "name")
        fleet.shell.write(f"in/f{n}.csv", text)
    report = fleet.load(*load, "--verify")
    assert (report["splits_skipped"], report["rows"]) == (FILES, 2 * ALL)
    assert [s["rows"] for s in report["shards"]] == [ALL, ALL]
    fleet.sync("t_local")
    assert fleet.numbers("t") == [3 * ALL, 3 * ALL]
    assert not fleet.left()


def test_the_journal_is_where_it_was_begun(fleet: Fleet) -> None:
    """On the last node: without it nobody knows what is loaded; two journals are one too many."""
    cluster, load = fleet.cluster, ("in/*.csv", "--table", "t")
    keeper = cluster.nodes[3]
    cluster.define("lab", *turned(cluster))
    assert fleet.load(*load)["rows"] == ALL
    cluster.define("lab")
    keeper.kill9()
    try:
        done = fleet.ends(5, "load", *load)
        assert "no other one keeps the journal" in done.talk
        assert f"shard 2 replica 2 (127.0.0.1:{keeper.tcp})" in done.talk
    finally:
        keeper.start()
    assert fleet.load(*load)["splits_skipped"] == FILES
    journal = "{db}._rowfall_journal"
    there = f"remote('127.0.0.1:{keeper.tcp}', {journal}, '{keeper.user}', '{keeper.password}')"
    fleet.do(f"CREATE TABLE {journal} ENGINE = MergeTree ORDER BY into AS SELECT * FROM {there}")
    assert "not one journal says what was loaded" in fleet.ends(3, "load", *load).talk


@pytest.mark.long
@pytest.mark.parametrize("way", ["filter", pytest.param("distributed", marks=pytest.mark.long)])
def test_a_sharding_key_follows_the_list(fleet: Fleet, s3: Seaweed, bucket: str, way: str) -> None:
    """The shard whose node keeps the journal is the second one by then."""
    cluster = fleet.cluster
    fleet.shell.env |= s3.env
    s3.put(bucket, "a.csv", csv([(i, "a") for i in range(100)], "id", "name").encode())
    s3.put(bucket, "b.csv", csv([(i, "b") for i in range(100, 200)], "id", "name").encode())
    args = ("--table", "t", "--shard-key", "id", "--pull", "--decoder", "never", "--method", way)
    cluster.define("lab", *turned(cluster))
    fleet.load(f"s3://{bucket}/a.csv", *args)
    cluster.define("lab")
    assert fleet.load(f"s3://{bucket}/[ab].csv", *args)["rows"] == 100
    fleet.sync("t_local")
    places = "SELECT name, id % 2, _shard_num, count() FROM {db}.t GROUP BY ALL ORDER BY ALL"
    assert fleet.ask(cluster.nodes[0], places) == [
        ["a", 0, 2, 50], ["a", 1, 1, 50], ["b", 0, 1, 50], ["b", 1, 2, 50]
    ]  # fmt: skip


def test_two_users_on_two_replicas(fleet: Fleet) -> None:
    """Without ``?cluster=`` each would have a journal of its own."""
    fleet.do(f"CREATE DATABASE {{db}} {ON}")
    fleet.do(f"CREATE TABLE {{db}}.t {ON} {COLUMNS} ENGINE = {REPLICATED}")
    load = ("in/*.csv", "--table", "t")
    for node, user in ((0, "one"), (1, "two")):
        alone = other_user(fleet, node, user=user)
        cluster, alone.to = alone.to, alone.to.partition("?")[0]
        for command in ("plan", "load"):
            done = alone.ends(2, command, *load)
            assert f"{fleet.database}.t has 2 replicas" in done.talk
            shown = cluster.replace(f":{fleet.cluster.nodes[0].password}", "")
            assert f"--to '{shown}'" in done.talk
        alone.to = cluster
        assert alone.load(*load)["splits_skipped"] == node * FILES
    fleet.sync("t")
    assert sum(fleet.counts("t")) == ALL


def test_a_cluster_that_nobody_has_named(fleet: Fleet) -> None:
    """Replicas that no cluster puts into one shard; and a single replica, which needs none."""
    for node in fleet.cluster.nodes[::2]:  # of different shards
        fleet.do("CREATE DATABASE {db}", node)
        fleet.do(f"CREATE TABLE {{db}}.t {COLUMNS} ENGINE = ReplicatedMergeTree("
                 f"'/clickhouse/{fleet.database}', '{{shard}}') ORDER BY id", node)  # fmt: skip
    alone = other_user(fleet)
    alone.to = alone.to.partition("?")[0]
    load = ("in/*.csv", "--table", "t")
    assert "Add a cluster with all of them to remote_servers" in alone.ends(2, "load", *load).talk
    fleet.do("DROP TABLE {db}.t SYNC", fleet.cluster.nodes[2])
    assert alone.load(*load)["rows"] == ALL
