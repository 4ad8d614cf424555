"""What a replicated table's Keeper has to show before its parts prove anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from rowfall.core.errors import EngineError
from rowfall.core.model import StagingPair, Statement
from rowfall.engines.base import Engine
from rowfall.ledger.leases import StagedPartition
from rowfall.publish import replicas
from rowfall.publish.replicas import listed_parts, wait_for_keeper

PAIR = StagingPair("d", "t", "_rowfall_a")
MOVES = [StagedPartition("d", "t", "_rowfall_a", "60", 10, 0, 0)]
PART, UUID = "60_1_1_0", "00000001-0000-4000-8000-000000000000"


class Replica:
    """A replica r1 and its Keeper after an ATTACH whose answer was lost.

    Attributes:
        log, pointer, queue: entries of the log, the next one that is read, the replica's queue.
        parts: the digest of a part on each replica that has it.
        active: whether the table lists the part.
        polls: what happens before the next looks, one at a time.
        dropped: what was dropped by a statement.
    """

    shared = True

    def __init__(self, *polls: Callable[[Replica], None]) -> None:
        self.log: list[str] = []
        self.pointer = 0
        self.queue: dict[str, str] = {}
        self.parts: dict[str, str] = {}
        self.active = False
        self.polls = list(polls)
        self.away = False
        self.dropped: list[str] = []

    def sleep(self, _: float) -> None:
        if not self.polls:
            raise AssertionError("it waits for nothing")
        self.polls.pop(0)(self)

    def run(self, statement: Statement, *, lane: int) -> None:
        assert str(statement.sql) == f"ALTER TABLE `d`.`t` DROP PART '{PART}'", lane
        self.dropped.append(PART)
        self.active = False
        self.parts = {}

    def ask(self, text: str, *, lane: int = 0) -> list[list[Any]]:
        assert lane == 0
        if "system.replicas" in text:
            return [[int(self.away), "/t", "/t/replicas/r1"]] if "is_readonly" in text else [["/t"]]
        if "log_pointer" in text:
            return [[str(self.pointer) if self.pointer else ""]]
        if "'/t/log'" in text:
            return [[name] for name in self.log]
        if "/queue'" in text:
            return [[name] for name, kind in self.queue.items() if kind not in ("merge", "mutate")]
        if "'/t/replicas'" in text:
            return [["r1"], ["r2"]]
        if "uniqExact(value)" in text:
            assert f"'{PART}'" in text
            return [[PART]] if len(set(self.parts.values())) > 1 else []
        if "/parts'" in text:
            return [[PART]] if "r1" in self.parts else []
        assert "system.parts" in text
        if not self.active:
            return []
        if "SELECT name" in text:
            return [[PART]]
        return [[UUID, 1, 0, "60", 1, 1]] if "uuid" in text else [["60", 1, 1]]


def run(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas.time, "sleep", replica.sleep)
    assert wait_for_keeper(replica.ask, PAIR, MOVES)
    assert not replica.polls


def arrived(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the staged parts that are found in the target."""
    monkeypatch.setattr(replicas.time, "sleep", replica.sleep)
    found = listed_parts(cast(Engine, replica), 0, PAIR, MOVES, [UUID])
    assert not replica.polls
    return found


def test_a_part_that_another_replica_called_lost_is_dropped_and_has_not_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replica attaches it again and lists it; the other one drops it minutes later."""

    def reads_the_log(at: Replica) -> None:
        at.pointer, at.queue = 1, {"queue-0000000000": "REPLACE_RANGE"}

    def attaches_it_again(at: Replica) -> None:
        at.queue = {}
        at.parts["r1"], at.active = "rows", True

    replica = Replica(reads_the_log, attaches_it_again)
    replica.log = ["log-0000000000"]
    replica.parts = {"r2": "empty"}
    assert arrived(replica, monkeypatch) == set()
    assert replica.dropped == [PART]


def test_the_drop_of_a_part_that_was_called_lost_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other replica has no part of that name any more, but its drop is not carried out."""

    def reads_the_drop(at: Replica) -> None:
        at.pointer, at.queue = 1, {"queue-0000000000": "drop"}

    def carries_it_out(at: Replica) -> None:
        at.queue, at.parts, at.active = {}, {}, False

    replica = Replica(reads_the_drop, carries_it_out)
    replica.log = ["log-0000000000"]
    replica.parts, replica.active = {"r1": "rows"}, True
    assert arrived(replica, monkeypatch) == set()
    assert not replica.dropped


def test_a_part_that_all_replicas_have_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    replica.parts, replica.active = {"r1": "rows", "r2": "rows"}, True
    assert arrived(replica, monkeypatch) == {UUID}
    assert not replica.dropped


def test_a_part_that_keeper_lists_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def comes_back(at: Replica) -> None:
        at.away = False

    def fetches(at: Replica) -> None:
        at.active = True

    replica = Replica(comes_back, fetches)
    replica.away = True
    replica.parts = {"r1": "rows", "r2": "rows"}
    run(replica, monkeypatch)


def test_merges_and_later_entries_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a table into which others insert all the time the queue is never empty."""

    def others_insert(at: Replica) -> None:
        number = at.pointer
        at.log.append(f"log-{number:010}")
        at.pointer += 1
        at.queue = {"queue-0000000000": "merge", f"queue-{number:010}": "get"}

    replica = Replica(others_insert)
    replica.log = ["log-0000000000"]
    replica.pointer = 1
    replica.queue = {"queue-0000000000": "merge", "queue-0000000007": "get"}
    run(replica, monkeypatch)


def test_an_outage_that_lasts_is_resumable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "KEEPER_SECONDS", 0.0)
    replica = Replica()
    replica.queue = {"queue-0000000003": "get"}
    with pytest.raises(EngineError, match="waited 0 seconds for the entry queue-0000000003"):
        run(replica, monkeypatch)
