"""Clusters of which only one node can be reached from here: it passes statements on."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from e2e.fleet import Fleet
from e2e.tools import Shell, csv
from lab.cluster import Cluster
from lab.islet import only
from lab.seaweed import Seaweed

FILES, ROWS = 6, 2_000
KEY = ("--shard-key", "id")


NODES = ["a node that loads", "another replica"]


@pytest.fixture(params=[pytest.param(NODES[0], marks=pytest.mark.long), NODES[1]])
def fleet(
    request: pytest.FixtureRequest, shell: Shell, cluster22: Cluster, s3: Seaweed
) -> Iterator[Fleet]:
    """Through the node that keeps the journal; or through one that loads nothing."""
    fleet = Fleet(shell, cluster22)
    at = 0 if request.param == NODES[0] else 3
    fleet.to = cluster22.url(fleet.database, node=at)
    shell.env |= s3.env
    ports = only(cluster22.nodes[at].http, s3.port)
    shell.cli.program = (sys.executable, *ports, "-m", "rowfall")
    yield fleet
    fleet.drop()


@pytest.fixture
def source(s3: Seaweed, bucket: str) -> str:
    for n in range(FILES):
        rows = [(i, f"n{i % 97}") for i in range(n * ROWS, (n + 1) * ROWS)]
        s3.put(bucket, f"in/f{n}.csv", csv(rows, "id", "name").encode())
    return f"s3://{bucket}/in/*.csv"


def check(fleet: Fleet, table: str) -> None:
    """Every replica has the rows of its shard, each once."""
    fleet.sync(f"{table}_local")
    for node in fleet.cluster.nodes:
        (rows,) = fleet.ask(node, f"SELECT count() FROM {{db}}.{table}_local")
        assert rows == [FILES * ROWS // 2]
    assert fleet.numbers(table) == [FILES * ROWS, FILES * ROWS]
    assert not fleet.left()


@pytest.mark.long  # 20 s; faults/test_cluster.py hurts such a load
def test_a_load_through_one_node(fleet: Fleet, source: str) -> None:
    report = fleet.load(source, "--table", "t", "--verify", "--wait", "replicas")
    assert report["rows"] == FILES * ROWS
    check(fleet, "t")
    again = fleet.load(source, "--table", "t")
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, FILES)
    assert fleet.ok("verify", "last", "--json").document["ok"]
    assert "nothing to clean" in fleet.ok("clean", "--yes").talk


# 10 s each; faults/test_cluster.py hurts a load of the other way.
@pytest.mark.long
@pytest.mark.parametrize("way", ["filter", pytest.param("distributed", marks=pytest.mark.long)])
def test_a_sharding_key_through_one_node(fleet: Fleet, source: str, way: str) -> None:
    fleet.load(source, "--table", "t", *KEY, "--method", way, "--verify")
    check(fleet, "t")
    wrong = "SELECT countIf(id % 2 != _shard_num - 1) FROM {db}.t"
    assert fleet.ask(fleet.cluster.nodes[0], wrong) == [[0]]


@pytest.mark.long  # 15 s; test_bad_input finds them through every other way
def test_bad_rows_are_found_through_one_node(
    fleet: Fleet, source: str, s3: Seaweed, bucket: str
) -> None:
    s3.put(bucket, "in/bad.csv", b"id,name\n1000001,a\nx,b\n1000002,c\n")
    args = ("load", source, "--table", "t", "--schema", "id UInt64, name String")
    done = fleet.ends(1, *args)
    assert "bad.csv line 3 column" in done.talk
    assert fleet.load(*args[1:], "--max-errors", "1")["rows"] == 2
    assert fleet.numbers("t") == [FILES * ROWS + 2, FILES * ROWS + 2]


@pytest.mark.long
def test_the_decoder_through_one_node(fleet: Fleet, source: str) -> None:
    fleet.ok("install-decoder")
    try:
        report = fleet.load(source, "--table", "t", "--decoder", "always", "--verify")
        assert report["rows"] == FILES * ROWS
        check(fleet, "t")
    finally:
        for path in fleet.cluster.folder.rglob("rowfall-decode"):
            path.unlink()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", ["plan", "load"])
def test_rows_that_would_have_to_be_sent_from_here(fleet: Fleet, source: str, command: str) -> None:
    """Said before a table is made."""
    done = fleet.ends(5, command, source, "--table", "t", "--push")
    assert "as asked for with --push" in done.talk
    assert "is only reached through 127.0.0.1" in done.talk
    assert (
        fleet.ask(fleet.cluster.nodes[0], "SELECT 1 FROM system.databases WHERE name = '{db}'")
        == []
    )


@pytest.mark.long
def test_who_passes_statements_on_learns_no_key(fleet: Fleet, source: str, s3: Seaweed) -> None:
    fleet.load(source, "--table", "t", *KEY, "--verify")
    mark = f"concat('{s3.secret_key[:4]}', '{s3.secret_key[4:]}')"
    for node in fleet.cluster.nodes:
        node.query("SYSTEM FLUSH LOGS")
        found = f"FROM system.query_log WHERE position(query, {mark}) > 0"
        assert node.query(f"SELECT count() {found}").strip() == "0"
    for log in fleet.cluster.folder.glob("node*/service.log"):
        assert s3.secret_key not in log.read_text(errors="replace")
