"""What a replicated table's Keeper has to show before its parts prove anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowfall.core.errors import EngineError
from rowfall.core.model import Pair
from rowfall.ledger.leases import Move
from rowfall.publish import evidence
from rowfall.publish.evidence import wait_for_keeper

PAIR = Pair("d", "t", "_rowfall_a")
MOVES = [Move("d", "t", "_rowfall_a", "60", 10, 0, 0)]
PART = "60_1_1_0"


class Replica:
    """A replica r1 and its Keeper after an ATTACH whose answer was lost.

    Attributes:
        log, pointer, queue: entries of the log, the next one that is read, the replica's queue.
        parts: the digest of a part on each replica that has it.
        active: parts that the table lists.
        polls: what happens before the next looks, one at a time.
    """

    def __init__(self, *polls: Callable[[Replica], None]) -> None:
        self.log: list[str] = []
        self.pointer = 0
        self.queue: dict[str, str] = {}
        self.parts: dict[str, str] = {}
        self.active: set[str] = set()
        self.polls = list(polls)
        self.away = False

    def sleep(self, _: float) -> None:
        if not self.polls:
            raise AssertionError("it waits for nothing")
        self.polls.pop(0)(self)

    def ask(self, text: str) -> list[list[Any]]:
        if "system.replicas" in text:
            return [[int(self.away), "/t", "/t/replicas/r1"]]
        if "log_pointer" in text:
            return [[str(self.pointer) if self.pointer else ""]]
        if "'/t/log'" in text:
            return [[name] for name in self.log]
        if "/queue'" in text:
            return [[name] for name, kind in self.queue.items() if kind not in ("merge", "mutate")]
        if "'/t/replicas'" in text:
            return [["r1"], ["r2"]]
        if "/parts'" in text:
            digests = set(self.parts.values())
            return [[PART, int("r1" in self.parts), int(len(digests) > 1)]] if digests else []
        assert "system.parts" in text
        return [["60", 1, 1]] if self.active else []


def run(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence.time, "sleep", replica.sleep)
    assert wait_for_keeper(replica.ask, PAIR, MOVES)
    assert not replica.polls


def test_a_part_that_another_replica_called_lost_is_waited_for_until_it_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replica attaches it again and lists it, while its drop is not even in the log yet."""

    def reads_the_log(at: Replica) -> None:
        at.pointer, at.queue = 1, {"queue-0000000000": "REPLACE_RANGE"}

    def attaches_it_again(at: Replica) -> None:
        at.queue = {}
        at.parts["r1"], at.active = "rows", {PART}

    def drops_the_empty_part(at: Replica) -> None:
        at.log.append("log-0000000001")
        del at.parts["r2"]

    def reads_the_drop(at: Replica) -> None:
        at.pointer, at.queue = 2, {"queue-0000000001": "drop"}

    def drops_it(at: Replica) -> None:
        at.queue, at.parts, at.active = {}, {}, set()

    replica = Replica(
        reads_the_log, attaches_it_again, drops_the_empty_part, reads_the_drop, drops_it
    )
    replica.log = ["log-0000000000"]
    replica.parts = {"r2": "empty"}
    run(replica, monkeypatch)
    assert not replica.active


def test_a_part_that_keeper_lists_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def comes_back(at: Replica) -> None:
        at.away = False

    def fetches(at: Replica) -> None:
        at.active = {PART}

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

    replica = Replica(others_insert, others_insert)
    replica.log = ["log-0000000000"]
    replica.pointer = 1
    replica.queue = {"queue-0000000000": "merge", "queue-0000000007": "get"}
    run(replica, monkeypatch)


def test_an_outage_that_lasts_is_resumable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "KEEPER_SECONDS", 0.0)
    replica = Replica()
    replica.queue = {"queue-0000000003": "get"}
    with pytest.raises(EngineError, match="waited 0 seconds for the entry queue-0000000003"):
        run(replica, monkeypatch)
