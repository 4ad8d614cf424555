"""Clusters with ``internal_replication = 0``: whatever the tables are, every replica has each row
of its shard once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.fleet import Fleet
from e2e.tools import Shell, csv
from lab import mirror
from lab.cluster import Cluster
from lab.seaweed import Seaweed

FILES, ROWS = 6, 1_000
ALL = FILES * ROWS
COLUMNS = "id UInt64, name String"
HASHES = "SELECT count(), sum(cityHash64(id, name)) FROM {db}.t_local"


@pytest.fixture
def fleet(shell: Shell, cluster22: Cluster) -> Iterator[Fleet]:
    fleet = Fleet(shell, cluster22)
    mirror.configure(cluster22)
    fleet.to = fleet.to.replace("cluster=lab", f"cluster={mirror.NAME}")
    yield fleet
    fleet.drop()


@pytest.fixture(params=["pull", "push"])
def load(request: pytest.FixtureRequest, fleet: Fleet, s3: Seaweed, bucket: str) -> tuple[str, ...]:
    """The same files in S3, which the nodes read, and here."""
    for n in range(FILES):
        text = csv([(i, f"n{i % 97}") for i in range(n * ROWS, (n + 1) * ROWS)], "id", "name")
        s3.put(bucket, f"in/f{n}.csv", text.encode())
        fleet.shell.write(f"in/f{n}.csv", text)
    fleet.shell.env |= s3.env
    if request.param == "push":
        return ("in/*.csv", "--table", "t")
    return (f"s3://{bucket}/in/*.csv", "--table", "t", "--pull", "--decoder", "never")


def held(fleet: Fleet) -> list[tuple[int, int]]:
    """Rows of each shard and a sum of their hashes, which all of its replicas have."""
    found: dict[int, set[tuple[int, int]]] = {}
    for node in fleet.cluster.nodes:
        rows, total = map(int, fleet.ask(node, HASHES)[0])
        found.setdefault(node.shard, set()).add((rows, total))
    assert all(len(each) == 1 for each in found.values()), found
    return [each.pop() for each in found.values()]


@pytest.mark.parametrize(
    "load", ["pull", pytest.param("push", marks=pytest.mark.long)], indirect=True
)
@pytest.mark.parametrize("key", [pytest.param("rand()", marks=pytest.mark.long), "id"])
def test_plain_tables(fleet: Fleet, load: tuple[str, ...], key: str) -> None:
    mirror.create(fleet.cluster, fleet.database, COLUMNS, key)
    planned = fleet.ok("plan", *load, "--json").document
    assert (planned["spread"], len(planned["writers"])) == ("distributed", 4)
    report = fleet.load(*load, "--verify")
    assert report["rows"] == ALL
    assert [(s["shard"], s["rows"]) for s in report["shards"]] == [
        (node.shard, held(fleet)[node.shard - 1][0]) for node in fleet.cluster.nodes
    ]
    assert sum(rows for rows, _ in held(fleet)) == ALL
    assert all(rows for rows, _ in held(fleet))
    assert fleet.numbers("t") == [ALL, ALL]
    if key == "id":
        wrong = "SELECT countIf(id % 2 != _shard_num - 1) FROM {db}.t"
        assert fleet.ask(fleet.cluster.nodes[0], wrong) == [[0]]
    again = fleet.load(*load)
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, FILES)
    assert fleet.ok("verify", "last", "--json").document["ok"]
    assert not fleet.left()


@pytest.mark.sampled(1)
def test_plain_tables_of_one_shard(fleet: Fleet, load: tuple[str, ...]) -> None:
    mirror.create(fleet.cluster, fleet.database, COLUMNS)
    fleet.to = fleet.to.replace(f"cluster={mirror.NAME}", f"cluster={mirror.PAIR}")
    report = fleet.load(*load[:2], "t_local", *load[3:], "--verify")
    assert report["rows"] == ALL
    assert [rows for rows, _ in held(fleet)] == [ALL, 0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", [pytest.param("rand()", marks=pytest.mark.long), "id"])
def test_tables_that_replicate_by_themselves(fleet: Fleet, load: tuple[str, ...], key: str) -> None:
    """As those that rowfall makes; with a key, each shard reads what it keeps."""
    args = ("load", *load, "--shard-key", key, "--schema", COLUMNS)
    if key == "id" and "--pull" not in load:
        assert "the tables replicate by themselves, too" in fleet.ends(2, *args).talk
        return
    fleet.load(*args[1:], "--wait", "replicas")
    assert sum(rows for rows, _ in held(fleet)) == ALL
    assert fleet.numbers("t") == [ALL, ALL]


@pytest.mark.long
@pytest.mark.parametrize("load", ["pull"], indirect=True)
def test_a_replica_that_is_away_would_miss_the_rows(fleet: Fleet, load: tuple[str, ...]) -> None:
    mirror.create(fleet.cluster, fleet.database, COLUMNS)
    away = fleet.cluster.nodes[3]
    away.stop()
    try:
        done = fleet.ends(5, "load", *load, "--skip-unavailable-shards")
        assert "would never get the rows of this load" in done.talk
    finally:
        away.start()
        fleet.cluster.wait()
    assert fleet.load(*load)["rows"] == ALL
    assert sum(rows for rows, _ in held(fleet)) == ALL


@pytest.mark.sampled(1)
@pytest.mark.parametrize("load", ["pull"], indirect=True)
@pytest.mark.parametrize("more", [("--direct",), ("--method", "filter")])
def test_ways_that_would_leave_a_replica_without_rows(
    fleet: Fleet, load: tuple[str, ...], more: tuple[str, ...]
) -> None:
    mirror.create(fleet.cluster, fleet.database, COLUMNS)
    assert "a table of its own" in fleet.ends(2, "load", *load, *more).talk
    assert held(fleet) == [(0, 0), (0, 0)]
