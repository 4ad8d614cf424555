"""Keeper stops answering in the middle of an ATTACH, at any of its many steps."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from contract.clusters import Login
from faults.conftest import Survived
from faults.kills import rounds
from lab.cluster import Cluster, Node
from lab.process import let_pass
from rowfall.core.errors import RowfallError
from rowfall.core.model import StagingPair, Statement
from rowfall.ledger import Ledger
from rowfall.ledger.leases import StagedPartition
from rowfall.publish.attach import Publisher
from rowfall.systems.clickhouse.staging import clone, facts

PARTITIONS = 100
# A request to Keeper is given up after 10 s (operation_timeout_ms), and the session with it.
AWAY_SECONDS = 12.0
_numbers = itertools.count()


class Target:
    """A replicated table of a shard without the node that runs the Keeper, and its twin."""

    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        self.keeper, (self.node, self.other) = cluster.nodes[0], cluster.nodes[2:4]
        self.engine = Login(self.node).server
        self.database = f"keeper_{os.getpid()}_{next(_numbers)}"
        self.publisher = Publisher(self.engine, ledger)
        for node in (self.node, self.other):
            node.query(f"CREATE DATABASE {self.database}")
            node.query(
                f"CREATE TABLE {self.database}.t (k UInt64) ENGINE = ReplicatedMergeTree"
                f"('/tables/{self.database}', 'r{node.replica}') ORDER BY k "
                f"PARTITION BY k % {PARTITIONS}"
            )

    def stage(self) -> Sequence[StagedPartition]:
        found = facts(lambda text: self.engine.ask(text), self.database, "t")
        assert found is not None
        for statement in clone(found, "_rowfall_a"):
            self.engine.run(Statement(statement))
        self.node.query(f"INSERT INTO {self.database}._rowfall_a SELECT number FROM numbers(1000)")
        return self.publisher.staged([StagingPair(self.database, "t", "_rowfall_a")], 8.0).moves

    def publish(self, moves: Sequence[StagedPartition]) -> None:
        """As a load does it: a failed try is settled before the next one."""
        for tries in range(20):
            try:
                settled = self.publisher.settle("a", moves) if tries else moves
                self.publisher.publish("a", settled)
                return
            except RowfallError as error:
                if not error.transient:
                    raise
                let_pass(1, "Keeper is asked again")
        pytest.fail("Keeper is back, but nothing can be attached")

    def count(self, node: Node) -> list[int]:
        node.sync(f"{self.database}.t")
        found = node.query(f"SELECT count(), uniqExact(k) FROM {self.database}.t")
        return [int(number) for number in found.split()]

    def close(self) -> None:
        self.engine.close()
        for node in (self.node, self.other):
            with contextlib.suppress(Exception):
                node.query(f"DROP DATABASE {self.database} SYNC")


@pytest.fixture
def target(cluster22: Cluster, tmp_path: Path) -> Iterator[Target]:
    ledger = Ledger(tmp_path / "rowfall.ledger")
    target = Target(cluster22, ledger)
    yield target
    target.close()
    ledger.close()


@pytest.mark.parametrize("number", range(rounds(40)))
def test_keeper_away_in_the_middle_of_an_attach(
    target: Target, chance: random.Random, survived: Survived, number: int
) -> None:
    """Parts that were linked and taken back are attached again, those that were committed not."""
    moves = target.stage()
    hurt = threading.Timer(chance.uniform(0, 1.2), target.keeper.pause)
    back = threading.Timer(AWAY_SECONDS, target.keeper.resume)
    hurt.start()
    back.start()
    try:
        target.publish(moves)
    finally:
        hurt.join()
        back.join()
        target.keeper.resume()
    assert target.count(target.node) == [1000, 1000]
    assert target.count(target.other) == [1000, 1000]
    survived("Keeper away in an ATTACH")
