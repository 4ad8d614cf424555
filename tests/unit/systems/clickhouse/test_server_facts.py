"""What a load may use of a server that others share a machine with."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pytest

from rowfall.core.errors import EngineError, UsageError
from rowfall.systems.clickhouse.http import Address
from rowfall.systems.clickhouse.profile import UserProfile, read_profile
from rowfall.systems.clickhouse.server_facts import (
    MEMORY_PER_CORE,
    ask_at_once,
    may_sync,
    read_facts,
)
from rowfall.systems.clickhouse.status import StatementStatus

LIMIT, FREE = 40 << 30, 64 << 30
AT = Address("h", 8123, False, "u", None)


class Machine:
    """Answers as a server on 16 cores that may take ``LIMIT`` bytes, of which none are taken."""

    def __init__(self, *left: str) -> None:
        self.left = left

    def learn(self, text: str) -> list[list[Any]]:
        if "version()" not in text:
            return [[LIMIT]]  # whether anything is taken or not
        own = ["24.10.2.80", "16", "0", "0", "0", "UTC", "h"]
        answers = {"limit": LIMIT, "taken": 0, "free": FREE}
        left = [[name, [[str(answers[name])]]] for name in self.left]
        return [["own", [own]], *left]


@pytest.mark.parametrize(
    ("sharing", "cores", "memory"),
    [
        (1, 16, LIMIT // 2),
        (2, 8, FREE // 4),  # its own limit is its own
        (4, 4, FREE // 8),
        (64, 1, FREE // 128),
    ],
)
def test_servers_of_one_machine_share_it(sharing: int, cores: int, memory: int) -> None:
    status = cast("StatementStatus", Machine("limit", "taken", "free"))
    facts, readonly, _ = read_facts(status, AT, UserProfile(), None, None, sharing)
    assert (facts.cores, facts.memory, readonly) == (cores, memory, 0)


def test_what_was_asked_for_is_not_shared() -> None:
    status = cast("StatementStatus", Machine("limit", "taken", "free"))
    facts, _, _ = read_facts(status, AT, UserProfile(), 5 << 30, 12, 4)
    assert (facts.cores, facts.memory) == (12, 5 << 30)


def test_more_than_the_server_may_take_is_refused() -> None:
    status = cast("StatementStatus", Machine("limit", "taken", "free"))
    with pytest.raises(UsageError, match="is more than the 40"):
        read_facts(status, AT, UserProfile(), LIMIT + 1, None, 1)


def test_where_nothing_can_be_read_memory_follows_the_cores() -> None:
    status = cast("StatementStatus", Machine())
    facts, _, _ = read_facts(status, AT, UserProfile(), None, None, 2)
    assert facts.memory == 8 * MEMORY_PER_CORE


@pytest.mark.parametrize(
    ("grants", "may"),
    [
        (["GRANT SELECT ON d.* TO u"], False),
        (["GRANT SELECT ON *.* TO u", "GRANT SYSTEM SYNC FILE CACHE ON *.* TO u"], True),
        (["GRANT SELECT, SYSTEM, dictGet ON *.* TO u WITH GRANT OPTION"], True),
        (["GRANT ALL ON *.* TO u", "REVOKE SYSTEM SYNC FILE CACHE ON *.* FROM u"], False),
    ],
)
def test_the_right_to_flush_disks_is_read_from_the_grants(grants: list[str], may: bool) -> None:
    assert may_sync(grants, whole=True) == may
    assert may_sync(grants, whole=False)  # the first attempt says it


def test_profile_and_limits_are_one_question() -> None:
    """Each was a question of its own, and a setting a document of JSON."""
    asked = []

    class Server:
        def __init__(self) -> None:
            self.learnt: dict[str, list[list[Any]]] = {}

        def learn(self, text: str, **_: str) -> list[list[Any]]:
            if text in self.learnt:
                return self.learnt.pop(text)
            asked.append(text)
            profile = [["max_threads", "0", None, None, "8"], ["final", "1", None, None, "0"]]
            return [*Machine("limit", "taken", "free").learn(text), ["profile", profile]]

    status = cast("StatementStatus", Server())
    ask_at_once(status)
    found = read_profile(status.learn, {})
    assert found.changeable == {"max_threads"}
    facts, _, _ = read_facts(status, AT, found, None, None, 2)
    assert (facts.cores, facts.memory) == (8, FREE // 4)
    assert len(asked) == 1


def test_what_may_not_be_asked_at_once_is_asked_for_by_itself() -> None:
    class Strict:
        learnt: ClassVar[dict[str, list[list[Any]]]] = {}

        def learn(self, text: str, **_: str) -> list[list[Any]]:
            if "system.metrics" in text:
                raise EngineError("not enough privileges", code=497)
            if "system.settings" in text:
                return [["max_threads", 0, None, None, "8"]]
            return Machine().learn(text)

    status = cast("StatementStatus", Strict())
    ask_at_once(status)
    facts, _, _ = read_facts(status, AT, read_profile(status.learn, {}), None, None, 1)
    assert (facts.cores, facts.memory) == (16, 16 * MEMORY_PER_CORE)
