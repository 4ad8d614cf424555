"""What a load may use of a server that others share a machine with."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from rowfall.core.errors import UsageError
from rowfall.systems.clickhouse.http import Address
from rowfall.systems.clickhouse.profile import UserProfile
from rowfall.systems.clickhouse.server_facts import MEMORY_PER_CORE, may_sync, read_facts
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
        part = re.search(r"intDiv\(toInt64\(value\), (\d+)\)", text)
        assert part
        answers = {"limit": LIMIT, "free": FREE // int(part[1])}
        left = [answers[name] for name in self.left]
        return [["24.10.2.80", 16, 0, 0, 0, "UTC", "h", left]]


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
    status = cast("StatementStatus", Machine("limit", "free"))
    facts, readonly, _ = read_facts(status, AT, UserProfile(), None, None, sharing)
    assert (facts.cores, facts.memory, readonly) == (cores, memory, 0)


def test_what_was_asked_for_is_not_shared() -> None:
    status = cast("StatementStatus", Machine("limit", "free"))
    facts, _, _ = read_facts(status, AT, UserProfile(), 5 << 30, 12, 4)
    assert (facts.cores, facts.memory) == (12, 5 << 30)


def test_more_than_the_server_may_take_is_refused() -> None:
    status = cast("StatementStatus", Machine("limit", "free"))
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
