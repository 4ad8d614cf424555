"""Replicas and nodes of the simulator's model beside a real cluster; see ``test_model.py``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from operator import attrgetter
from typing import Any

import pytest

from contract.clusters import Login
from contract.test_model import Both
from lab.cluster import Cluster, Node
from rowfall.cluster.tables import find_tables
from rowfall.cluster.topology import discover
from rowfall.core.model import StagingPair, Statement
from rowfall.core.sqltext import SqlText
from rowfall.publish.attach import Publisher
from rowfall.systems.clickhouse import staging
from simulator.server import Keeper, Table
from simulator.server import Server as Model

_numbers = itertools.count()


class Replica(Both):
    """One replica of a table, real and modelled."""

    def __init__(self, node: Node, database: str, number: int, keeper: Keeper) -> None:
        super().__init__(Login(node).server, database)
        self.model = Model(host=f"n{number}", number=number)
        self._node, self._keeper = node, keeper

    def create(self, table: str) -> None:
        full = (f"ReplicatedMergeTree('/model/{self.database}', '{self.model.host}') PARTITION BY "
                "p ORDER BY k SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1, "
                "old_parts_lifetime = 1000")  # fmt: skip
        at = f"`{self.database}`.`{table}`"
        text = f"CREATE TABLE {at} (p UInt8, k UInt64) ENGINE = {full}"
        self.engine.run(Statement(SqlText.of(text)))
        uuid = self.model.uuid()
        self.model.add(Table(
            self.database, table, uuid, "ReplicatedMergeTree", full, keeper=self._keeper,
        ))  # fmt: skip

    def sync(self) -> None:
        """Let this replica have what the others have done."""
        self._node.sync(f"{self.database}.t")
        self.model.fetch()
        self._learn()

    def stage(self, name: str, rows: list[tuple[str, str, int]]) -> StagingPair:
        found = staging.facts(self.engine.ask, self.database, "t")
        assert found is not None
        for statement in staging.clone(found, name):
            self.run(Statement(statement))
        self.insert(name, rows)
        return StagingPair(self.database, "t", name)

    def parts(self) -> list[list[Any]]:
        return self.ask(
            "SELECT name, partition_id, rows, toString(uuid), level, min_block_number, "
            "max_block_number, engine, active FROM system.parts WHERE "
            f"database = '{self.database}' AND table = 't' AND active AND rows > 0"
        )


@pytest.fixture
def replicas(cluster22: Cluster) -> Iterator[tuple[Replica, Replica]]:
    database, keeper = f"model_{os.getpid()}_{next(_numbers)}", Keeper()
    with ExitStack() as stack:
        found = []
        for number, node in enumerate(cluster22.nodes[2:4]):
            one = Replica(node, database, number, keeper)
            stack.callback(one.engine.close)
            node.query(f"CREATE DATABASE {database}")
            stack.callback(node.query, f"DROP DATABASE {database} SYNC")
            one.create("t")
            found.append(one)
        one, other = found
        one.model.layout = other.model.layout = [[one.model, other.model]]
        other.uuids = one.uuids
        yield one, other


def test_replicas_of_the_model_have_the_parts_of_real_ones(
    replicas: tuple[Replica, Replica],
) -> None:
    one, other = replicas
    ledger: Any = None
    publisher = Publisher(one, ledger)  # type: ignore[arg-type]
    pair = one.stage("_rowfall_a_1", [("r", "1", 1), ("r", "2", 2)])
    moves = publisher.staged([pair], 1.0).moves
    publisher.publish("a_1", moves)
    assert {row[5] for row in one.parts()} == {1}  # numbers are those of each partition
    # Carried out once more, its parts are those of before: they are left out.
    publisher.publish("a_1", moves)
    one.parts()
    other.sync()
    other.parts()
    other.insert("t", [("r", "1", 3)])
    other.parts()
    one.sync()
    one.run(Statement(SqlText.of(f"OPTIMIZE TABLE `{one.database}`.`t` FINAL")))
    one.parts()
    other.sync()
    assert {row[4] for row in other.parts()} == {1}


def test_nodes_of_the_model_are_asked_like_real_ones(replicas: tuple[Replica, Replica]) -> None:
    """What the code finds out about a cluster has the same shape as at a real one."""
    one, other = replicas
    found = discover(one.model.carry_out, "c")
    assert [node.shard for node in found.nodes] == [1, 1]
    assert {node.address for node in found.up} == {"n0:9000", "n1:9000"}
    real = discover(one.engine.ask, "lab")
    alike = ("error", "http_port", "facts.cores", "facts.memory", "facts.timezone")
    for name in alike:
        kinds = [{type(attrgetter(name)(node)) for node in nodes} for nodes in (found.up, real.up)]
        assert kinds[0] == kinds[1], name
    tables = find_tables(one.model.carry_out, found, one.database, "t")
    mine = find_tables(one.engine.ask, real, one.database, "t")
    assert tables.direct is mine.direct is True
    assert tables.own.engine.meaning == mine.own.engine.meaning
    assert tables.columns != ()
    other.model.up = False
    away = discover(one.model.carry_out, "c")
    assert [node.error is None for node in away.nodes] == [True, False]
