"""Loading into real clusters as a user does it: each shard gets its own share, once."""

from __future__ import annotations

import json
import threading
import time

import pytest

from e2e.fleet import Fleet
from e2e.tools import Shell, csv
from lab.process import let_pass, wait_until
from lab.seaweed import Seaweed

HEAD = ("id", "name")


def text(start: int, stop: int) -> str:
    return csv([(i, f"n{i % 97}") for i in range(start, stop)], *HEAD)


def files(fleet: Fleet, count: int = 8, rows: int = 1_000) -> str:
    """Files of equal size whose ids are different, those that are missing; returns the source."""
    for n in range(count):
        if (fleet.shell.folder / f"in/f{n}.csv").exists():
            continue  # written again it would be another version
        fleet.shell.write(f"in/f{n}.csv", text(n * rows, (n + 1) * rows))
    return "in/*.csv"


def objects(fleet: Fleet, s3: Seaweed, bucket: str, count: int = 8, rows: int = 1_000) -> str:
    for n in range(count):
        s3.put(bucket, f"in/f{n}.csv", text(n * rows, (n + 1) * rows).encode())
    return f"s3://{bucket}/in/*.csv"


# --- what lands where -----------------------------------------------------------------------------


@pytest.mark.long
def test_servers_of_one_machine_share_its_cores(fleet: Fleet) -> None:
    source = files(fleet)
    asked = ("plan", source, "--table", "t", "--json")
    server = fleet.cluster.url().partition("?")[0]
    alone = fleet.shell.ok(*asked, "--to", server).document["facts"]
    shared = fleet.ok(*asked).document["writers"]
    assert [writer["cores"] for writer in shared] == [max(1, alone["cores"] // 2)] * 2
    chosen = fleet.ok(*asked, "--threads", "3").document["writers"]
    assert [writer["cores"] for writer in chosen] == [3, 3]


def test_every_shard_gets_its_share_in_its_local_table(fleet: Fleet) -> None:
    source = files(fleet)
    planned = fleet.ok("plan", source, "--table", "t", "--json").document
    assert [(s["shard"], s["splits"]) for s in planned["writers"]] == [(1, 4), (2, 4)]
    assert "ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}')" in planned["ddl"]
    report = fleet.load(source, "--table", "t", "--verify")
    assert [(s["shard"], s["rows"], s["splits"]) for s in report["shards"]] == [
        (1, 4_000, 4), (2, 4_000, 4),
    ]  # fmt: skip
    assert report["imbalance"] <= 0.03
    assert fleet.counts("t_local") == [4_000, 4_000]
    assert fleet.numbers("t") == [8_000, 8_000]
    queue = "SELECT sum(data_files) FROM system.distribution_queue WHERE database = '{db}'"
    assert all(fleet.ask(node, queue) in ([[0]], [[None]]) for node in fleet.cluster.nodes)
    assert not fleet.left()
    again = fleet.load(source, "--table", "t")
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, 8)


def test_shards_pull_their_own_objects(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    source = objects(fleet, s3, bucket, rows=20_000)
    report = fleet.load(source, "--table", "t", "--pull", "--decoder", "never", env=s3.env)
    assert fleet.counts("t_local") == [80_000, 80_000]
    assert fleet.numbers("t") == [160_000, 160_000]
    read = sum(shard["bytes_source"] for shard in report["shards"])
    received = sum(shard["bytes_received"] for shard in report["shards"])
    # The statements themselves; rows go from the store to their shard and nowhere else.
    assert read > 1_000_000
    assert received < read / 100
    assert all(shard["requests"] >= 4 for shard in report["shards"])


def test_every_shard_decodes_its_own_objects(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    source = objects(fleet, s3, bucket)
    pull = ("load", source, "--table", "t", "--pull")
    done = fleet.ends(2, *pull, "--decoder", "always", env=s3.env)
    assert "rowfall-decode" in done.talk
    away = fleet.cluster.nodes[3]
    away.stop()
    try:
        talk = fleet.ok("install-decoder").talk
        assert "shard 2 replica 2 (" in talk
        assert ") did not answer: run this again when they are up" in talk
    finally:
        away.start()
        fleet.cluster.wait()
    assert fleet.ok("install-decoder", "--json").document["away"] == []
    try:
        planned = fleet.ok("plan", *pull[1:], "--json", env=s3.env).document
        assert planned["decoder"] == "rowfall-decode"
        report = fleet.load(*pull[1:], "--verify", "--decoder", "always", env=s3.env)
        assert report["rows"] == 8_000
        assert fleet.counts("t_local") == [4_000, 4_000]
    finally:
        for path in fleet.cluster.folder.rglob("rowfall-decode"):
            path.unlink()


def test_the_other_replica_follows(fleet: Fleet) -> None:
    done = fleet.ok("load", files(fleet), "--table", "t", "--wait", "replicas")
    assert "all 4 replicas have the rows" in done.talk
    for node in fleet.cluster.nodes:
        assert fleet.ask(node, "SELECT count() FROM {db}.t_local") == [[4_000]]


@pytest.mark.long
def test_tables_that_are_there_are_used_as_they_are(fleet: Fleet) -> None:
    on = "ON CLUSTER lab"
    fleet.do(f"CREATE DATABASE {{db}} {on}")
    fleet.do(
        f"CREATE TABLE {{db}}.mine {on} (id UInt64, name String) ENGINE = "
        "ReplicatedMergeTree('/clickhouse/{database}/{table}/{shard}', '{replica}') ORDER BY name"
    )
    fleet.do(f"CREATE TABLE {{db}}.every {on} AS {{db}}.mine "
             "ENGINE = Distributed(lab, '{db}', mine, rand())")  # fmt: skip
    done = fleet.ok("load", files(fleet), "--table", "every")
    assert "creating" not in done.err
    assert fleet.counts("mine") == [4_000, 4_000]
    # Without a Distributed table the one on each shard is meant, and it has these files.
    again = fleet.load("in/*.csv", "--table", "mine")
    assert again["splits_skipped"] == 8
    fleet.load(files(fleet, 12), "--table", "mine", "--verify")
    assert sum(fleet.counts("mine")) == 12_000
    assert json.loads(fleet.ok("verify", "last", "--json").out)["target_rows"] == 12_000


def test_a_table_that_one_shard_lacks_is_made_there(fleet: Fleet) -> None:
    fleet.do("CREATE DATABASE {db} ON CLUSTER lab")
    for node in fleet.cluster.nodes:
        if node.shard == 2:
            fleet.do(
                "CREATE TABLE {db}.t_local (id UInt64, name String) ENGINE = ReplicatedMergeTree("
                "'/clickhouse/{database}/{table}/{shard}', '{replica}') ORDER BY name", node
            )  # fmt: skip
    fleet.load(files(fleet, 6), "--table", "t")
    assert fleet.counts("t_local") == [3_000, 3_000]
    kind = "SELECT type FROM system.columns WHERE table = 't_local' AND name = 'name' LIMIT 1"
    assert fleet.ask(fleet.cluster.nodes[0], kind) == [["String"]]  # of the one that was there


def test_a_shard_that_has_lost_its_table_is_not_taken_for_full(fleet: Fleet) -> None:
    source = files(fleet, 4)
    fleet.load(source, "--table", "t")
    for node in fleet.cluster.nodes:
        if node.shard == 2:
            fleet.do("DROP TABLE {db}.t_local SYNC", node)
    done = fleet.ends(5, "load", source, "--table", "t")
    lost = fleet.first()[1]
    assert f"{fleet.database}.t_local on 127.0.0.1:{lost.tcp} is not the table" in done.talk
    for node in fleet.cluster.nodes:
        if node.shard == 1:
            fleet.do("DROP TABLE {db}.t_local SYNC", node)
    report = fleet.load(source, "--table", "t")
    assert report["rows"] == 4_000
    assert fleet.numbers("t") == [4_000, 4_000]


def test_rows_may_be_sent_on_without_a_key(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    """``distributed`` is exactly once, whatever the key; the other replicas follow."""
    source = objects(fleet, s3, bucket)
    report = fleet.load(source, "--table", "t", "--method", "distributed", "--pull", "--verify",
                        "--wait", "replicas", env=s3.env)  # fmt: skip
    assert report["rows"] == 8_000
    for node in fleet.cluster.nodes:
        (count,) = fleet.ask(node, "SELECT count() FROM {db}.t_local")[0]
        assert 3_500 < count < 4_500
    assert fleet.numbers("t") == [8_000, 8_000]
    assert not fleet.left()


@pytest.mark.long
@pytest.mark.parametrize("way", ["filter", "distributed"])
def test_a_key_works_where_another_replica_loads(
    fleet: Fleet, s3: Seaweed, bucket: str, way: str
) -> None:
    """Staging is on one replica of each shard, and rows have to find that one."""
    source = objects(fleet, s3, bucket)
    first, second = (node for node in fleet.cluster.nodes if node.shard == 2)
    args = (source, "--table", "t", "--shard-key", "cityHash64(name)", "--method", way)
    fleet.load(*args, "--pull", env=s3.env)
    s3.put(bucket, "in/more.csv", text(8_000, 9_000).encode())
    first.kill9()
    try:
        report = fleet.load(*args, "--pull", env=s3.env)
        assert (report["rows"], report["splits_skipped"]) == (1_000, 8)
    finally:
        first.start()
    fleet.sync("t_local")
    wrong = "SELECT countIf(cityHash64(name) % 2 != _shard_num - 1), count() FROM {db}.t"
    assert fleet.ask(second, wrong) == [[0, 9_000]]


# --- what is refused ------------------------------------------------------------------------------


def test_views_of_the_distributed_table_would_see_nothing(fleet: Fleet) -> None:
    source = files(fleet, 2)
    fleet.load(source, "--table", "t")
    fleet.do(
        "CREATE MATERIALIZED VIEW {db}.seen (n UInt64) ENGINE = MergeTree ORDER BY n AS "
        "SELECT id AS n FROM {db}.t"
    )
    done = fleet.ends(2, "load", files(fleet, 4), "--table", "t")
    assert "feeds materialized views" in done.talk
    fleet.sync("t_local")
    assert fleet.numbers("t") == [2_000, 2_000]


@pytest.mark.long
def test_views_of_the_local_tables_get_every_row_once(fleet: Fleet) -> None:
    fleet.load(files(fleet, 2), "--table", "t")
    on = "ON CLUSTER lab"
    fleet.do(f"CREATE TABLE {{db}}.seen {on} (n UInt64) ENGINE = MergeTree ORDER BY n")
    fleet.do(f"CREATE MATERIALIZED VIEW {{db}}.sees {on} TO {{db}}.seen AS "
             "SELECT id AS n FROM {db}.t_local")  # fmt: skip
    fleet.load(files(fleet, 8), "--table", "t")
    seen = [fleet.ask(node, "SELECT count() FROM {db}.seen")[0][0] for node in fleet.first()]
    assert sum(seen) == 6_000
    assert all(seen)


def test_an_unknown_cluster_names_those_that_there_are(fleet: Fleet) -> None:
    to = fleet.to.replace("cluster=lab", "cluster=nope")
    done = fleet.shell.ends(5, "load", files(fleet), "--to", to)
    assert "the server knows no cluster 'nope'" in done.talk
    assert "lab" in done.talk


@pytest.mark.parametrize("option", ["--atomic", "--replace"])
def test_what_needs_one_table_is_refused(fleet: Fleet, option: str) -> None:
    done = fleet.ends(2, "load", files(fleet), option)
    assert "each shard of a cluster has its own" in done.talk


def test_options_of_clusters_need_one(shell: Shell) -> None:
    shell.write("a.csv", text(0, 3))
    done = shell.ends(2, "load", "a.csv", "--skip-unavailable-shards")
    assert "needs a cluster" in done.talk


# --- nodes that are away --------------------------------------------------------------------------


@pytest.mark.long
def test_a_shard_that_is_away_is_an_error_unless_asked_for(fleet: Fleet) -> None:
    source = files(fleet)
    fleet.load(source, "--table", "t")
    more = "more/*.csv"
    for n in range(4):
        fleet.shell.write(f"more/g{n}.csv", text(100_000 + n * 10, 100_010 + n * 10))
    away = [node for node in fleet.cluster.nodes if node.shard == 2]
    for node in away:
        node.kill9()
    try:
        done = fleet.ends(5, "load", more, "--table", "t")
        assert "no replica of shard 2" in done.talk
        assert "--skip-unavailable-shards" in done.talk
        done = fleet.ok("load", more, "--table", "t", "--skip-unavailable-shards")
        assert "THE LOAD GOES INTO SOME SHARDS ONLY" in done.talk
    finally:
        for node in away:
            node.start()
    fleet.sync("t_local")
    assert fleet.counts("t_local") == [4_040, 4_000]
    assert fleet.numbers("t") == [8_040, 8_040]


def test_another_replica_takes_over(fleet: Fleet) -> None:
    first, second = (node for node in fleet.cluster.nodes if node.shard == 2)
    fleet.load(files(fleet, 2), "--table", "t")
    first.kill9()
    try:
        report = fleet.load(files(fleet, 8), "--table", "t", "--verify")
        assert report["splits_skipped"] == 2
        assert [s["node"] for s in report["shards"]][1].endswith(f":{second.tcp}")
    finally:
        first.start()
    fleet.sync("t_local")
    assert fleet.numbers("t") == [8_000, 8_000]


@pytest.mark.long  # 10 s; the gate kills nodes in faults/test_cluster.py
def test_a_shard_killed_in_the_middle_costs_no_row(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    source = objects(fleet, s3, bucket, count=24, rows=20_000)
    killed = next(node for node in fleet.cluster.nodes if (node.shard, node.replica) == (2, 1))
    args = ("load", source, "--table", "t", "--attempt-bytes", "1MB", "--json")
    codes = []

    def run() -> None:
        codes.append(fleet.shell.run(*args, "--to", fleet.to, env=s3.env).code)

    thread = threading.Thread(target=run)
    thread.start()
    staged = "SELECT count() FROM system.tables WHERE database = '{db}' AND name LIKE '\\_rowfall%'"
    wait_until(lambda: fleet.ask(killed, staged)[0][0] > 0, 60, "nothing is staged on the shard")
    killed.kill9()
    let_pass(1, "a second without the shard")
    killed.start()
    thread.join(200)
    deadline = time.monotonic() + 200
    while codes[-1] != 0 and time.monotonic() < deadline:
        codes.append(fleet.shell.run(*args, "--to", fleet.to, env=s3.env).code)
    assert codes[-1] == 0, codes
    done = fleet.ok("verify", "last", "--json", env=s3.env)
    assert json.loads(done.out)["ok"]
    fleet.sync("t_local")
    assert fleet.numbers("t") == [480_000, 480_000]
    assert not fleet.left()


# --- tables that stay empty -----------------------------------------------------------------------


@pytest.mark.long
def test_tables_that_a_failed_load_has_made_go_away(fleet: Fleet) -> None:
    """The next load makes them anew, with other types; ``rowfall clean`` drops them."""
    fleet.shell.write("bad.csv", csv([(1, "a"), ("x", "b")], *HEAD))
    wrong = ("bad.csv", "--table", "t", "--schema", "id UInt64, name String")
    tables = "SELECT name FROM system.tables WHERE database = '{db}' AND name LIKE 't%' ORDER BY 1"
    fleet.ends(1, "load", *wrong)
    assert all(fleet.ask(n, tables) == [["t"], ["t_local"]] for n in fleet.cluster.nodes)
    found = fleet.ok("clean", "--json", "--dry-run").document["leftovers"]
    assert sorted({each["name"] for each in found}) == ["t", "t_local"]
    fleet.ok("clean", "--yes")
    assert not any(fleet.ask(node, tables) for node in fleet.cluster.nodes)
    fleet.ends(1, "load", *wrong)
    report = fleet.load("bad.csv", "--table", "t", "--type", "id String")
    assert report["rows"] == 2
    kind = "SELECT type FROM system.columns WHERE database = '{db}' AND name = 'id'"
    assert fleet.ask(fleet.cluster.nodes[0], kind) == [["String"], ["String"]]
    assert "nothing to clean" in fleet.ok("clean", "--yes").talk


@pytest.mark.long
def test_an_empty_table_of_somebody_else_stays(fleet: Fleet) -> None:
    fleet.shell.write("bad.csv", csv([(1, "a"), ("x", "b")], *HEAD))
    load = ("load", "bad.csv", "--table", "t", "--schema", "id UInt64, name String")
    fleet.ends(1, *load)
    for table in ("t", "t_local"):
        fleet.do(f"DROP TABLE {{db}}.{table} ON CLUSTER lab SYNC")
    fleet.do("CREATE TABLE {db}.t_local ON CLUSTER lab (id UInt64, name String) ENGINE = "
             "ReplicatedMergeTree ORDER BY id")  # fmt: skip
    made = "SELECT uuid FROM system.tables WHERE database = '{db}' AND name = 't_local'"
    before = fleet.ask(fleet.cluster.nodes[0], made)
    for _ in range(2):
        fleet.ends(1, *load)
    assert "nothing to clean" in fleet.ok("clean", "--yes").talk
    assert fleet.ask(fleet.cluster.nodes[0], made) == before


def test_the_plan_says_what_the_disks_of_the_nodes_have(fleet: Fleet) -> None:
    found = fleet.ok("plan", "generate://trips?rows=1e5", "--table", "t", "--json")
    forecast = found.document["forecast"]
    assert forecast["disk"] < 1e7 < forecast["disk_free"]
