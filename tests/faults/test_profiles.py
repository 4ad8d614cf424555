"""What the profile of the loading user sets, on two replicas of which one is away.

It holds for the statements that stage, publish and keep the journal as well. No row may be lost or
doubled, nothing may get stuck, and the replica that was away gets everything when it is back.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from contract.clusters import add_user, down
from e2e.fleet import Fleet
from e2e.tools import Shell, csv
from faults.conftest import Survived
from lab.cluster import Cluster

_numbers = itertools.count()
# Shard 1 has the Keeper and the journal on its first replica; the second one goes away.
AWAY = 1
# The rights of docs/guides/servers.md and cluster.md, and that to make the database.
GRANTS = (
    "SELECT, INSERT, ALTER DELETE, CREATE TABLE, DROP TABLE, CREATE DATABASE ON *.*",
    "REMOTE, CLUSTER, CREATE TEMPORARY TABLE ON *.*",
)
# Each would wait for both replicas, keep rows back, take equal rows for a repetition, or cut what
# is read.
PROFILES = {
    "quorum": "insert_quorum = 2, insert_quorum_timeout = 1000",
    "quorum, one at a time": "insert_quorum = 2, insert_quorum_parallel = 0, "
                             "insert_quorum_timeout = 1000, select_sequential_consistency = 1",
    "quorum of the majority": "insert_quorum = 'auto', insert_quorum_timeout = 1000",
    "deduplication": "insert_deduplicate = 1, deduplicate_blocks_in_dependent_materialized_views = "
                     "1, insert_deduplication_token = 'same'",
    "no deduplication": "insert_deduplicate = 0",
    "asynchronous": "async_insert = 1, wait_for_async_insert = 0, async_insert_deduplicate = 1",
    "asynchronous, waited for": "async_insert = 1, wait_for_async_insert = 1",
    "all replicas": "alter_sync = 2, replication_wait_for_inactive_replica_timeout = 2",
    "nobody": "alter_sync = 0",
    "limits": "limit = 5, max_rows_to_read = 100000, read_overflow_mode = 'break', "
              "max_result_rows = 3, result_overflow_mode = 'break'",
    "other answers": "join_use_nulls = 1, use_query_cache = 1, final = 1, "
                     "data_type_default_nullable = 1",
    "one at a time": "max_insert_threads = 1, max_threads = 1, lock_acquire_timeout = 5",
}  # fmt: skip
ROWS, PARTITIONS = 600, 3


class Load:
    """A database of its own, and somebody with this profile who loads into it."""

    def __init__(self, shell: Shell, cluster: Cluster, settings: str) -> None:
        self.fleet = Fleet(shell, cluster)
        name = f"profile_{os.getpid()}_{next(_numbers)}"
        account = add_user(cluster.nodes, name, *GRANTS, settings=settings)
        self.fleet.to = cluster.url(self.fleet.database, account.user, account.password)
        self.files = 0
        # Written again, a file would be another version.
        self.folder = f"in{next(_numbers)}"

    def more(self) -> str:
        """Write another file for each shard, of the same rows in each partition."""
        for _ in range(2):
            first = self.files * ROWS
            lines = [(first + i, i % PARTITIONS) for i in range(ROWS)]
            self.fleet.shell.write(f"{self.folder}/f{self.files}.csv", csv(lines, "id", "p"))
            self.files += 1
        return self.source

    @property
    def source(self) -> str:
        return f"{self.folder}/*.csv"

    def command(self, *options: str) -> tuple[str, ...]:
        return ("load", self.more(), "--table", "t", "--partition-by", "p", "--order-by", "id",
                "--schema", "id UInt64, p UInt8", *options)  # fmt: skip

    def check(self) -> None:
        """Every row is there once, on each replica; nothing is left."""
        fleet = self.fleet
        fleet.sync("t_local")
        rows = ROWS * self.files
        for shard in (1, 2):
            own = [n for n in fleet.cluster.nodes if n.shard == shard]
            held = [fleet.ask(n, "SELECT count(), sum(id) FROM {db}.t_local")[0] for n in own]
            assert held[0] == held[1]
        assert fleet.numbers("t") == [rows, rows]
        assert fleet.left() == set()


@pytest.fixture
def loads(rowfall: object, cluster22: Cluster) -> Iterator[list[Load]]:
    made: list[Load] = []
    yield made
    for one in made:
        one.fleet.drop()


def begin(loads: list[Load], rowfall: object, cluster: Cluster, settings: str) -> Load:
    loads.append(Load(Shell(rowfall), cluster, settings))
    return loads[-1]


@pytest.mark.long
def test_no_profile_waits_for_the_replica_that_is_away(
    cluster22: Cluster, rowfall: object, loads: list[Load], survived: Survived
) -> None:
    """All of it together, but for what contradicts."""
    wanted = ("quorum, one at a time", "deduplication", "asynchronous", "all replicas", "limits",
              "other answers")  # fmt: skip
    load = begin(loads, rowfall, cluster22, ", ".join(PROFILES[name] for name in wanted))
    load.fleet.ok(*load.command())
    with down(cluster22.nodes[AWAY]):
        load.fleet.ok(*load.command())
        again = load.fleet.ok("load", load.source, "--table", "t", "--json").document
        assert (again["splits_loaded"], again["splits_skipped"]) == (0, 4)
    load.check()
    survived("profile, a replica away")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [(), ("--shard-key", "id"), ("--decoder", "never")], ids=str)
def test_each_profile_with_a_replica_away(
    cluster22: Cluster, rowfall: object, loads: list[Load], survived: Survived,
    options: tuple[str, ...],
) -> None:  # fmt: skip
    for settings in PROFILES.values():
        load = begin(loads, rowfall, cluster22, settings)
        load.fleet.ok(*load.command(*options))
    with down(cluster22.nodes[AWAY]):
        for load in loads:
            load.fleet.ok(*load.command(*options))
            again = load.fleet.ok(
                "load", load.source, "--table", "t", "--json", *options[2:]
            ).document
            assert (again["splits_loaded"], again["splits_skipped"]) == (0, 4)
    for load in loads:
        load.check()
        survived("profile, a replica away")


@pytest.mark.long
def test_a_quorum_that_cannot_be_had_without_staging(
    cluster22: Cluster, rowfall: object, loads: list[Load], survived: Survived
) -> None:
    """--direct inserts into the replicated table itself: it says why, and goes on later."""
    load = begin(loads, rowfall, cluster22, PROFILES["quorum, one at a time"])
    load.fleet.ok(*load.command())
    with down(cluster22.nodes[AWAY]):
        failed = load.fleet.shell.run(*load.command("--direct"), "--to", load.fleet.to)
        assert failed.code not in (0, 70)
        assert "quorum" in failed.talk
    load.fleet.sync("t_local")
    load.fleet.ok("load", load.source, "--table", "t", "--direct")
    load.fleet.sync("t_local")
    # Without staging, what was inserted before the quorum failed may be there twice.
    assert load.fleet.numbers("t")[1] == ROWS * load.files
    survived("quorum without staging, a replica away")


@pytest.mark.long
def test_a_replica_goes_away_before_each_attempt(
    cluster22: Cluster, rowfall: object, loads: list[Load], survived: Survived
) -> None:
    """It hangs: connections stay open, and nothing answers."""
    load = begin(loads, rowfall, cluster22, PROFILES["all replicas"])
    load.fleet.ok(*load.command())
    node = cluster22.nodes[AWAY]
    node.pause()
    try:
        load.fleet.ok(*load.command())
    finally:
        node.resume()
    load.check()
    survived("profile, a replica hangs")
