"""What the profile of a server's user makes of the settings that a load needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rowfall.core.errors import TargetError
from rowfall.systems.clickhouse.profile import judge, read_profile

Row = Sequence[Any]
# As a server lists them by default.
DEFAULTS: dict[str, Row] = {
    name: (name, 0, None, None, value)
    for name, value in (
        ("limit", "0"), ("offset", "0"), ("read_overflow_mode", "throw"),
        ("result_overflow_mode", "throw"), ("allow_ddl", "1"), ("alter_sync", "1"),
        ("use_query_cache", "0"), ("join_use_nulls", "0"), ("max_result_rows", "0"),
        ("max_threads", "2"),
    )
}  # fmt: skip


def rows(*changed: Row) -> list[Row]:
    return list({**DEFAULTS, **{str(row[0]): row for row in changed}}.values())


def test_nothing_is_sent_by_default() -> None:
    found = judge(rows(), {})
    assert found.changeable == frozenset(DEFAULTS)
    assert (found.statements, found.questions, found.refused) == ({}, {}, ())
    assert found.constraints == {}


def test_what_a_profile_sets_is_sent_as_it_has_to_be() -> None:
    found = judge(rows(
        ("limit", 0, None, None, "100"), ("alter_sync", 0, None, None, "2"),
        ("join_use_nulls", 0, None, None, "1"), ("max_result_rows", 0, None, None, "10"),
    ), {})  # fmt: skip
    assert found.statements == {"limit": 0, "alter_sync": 1}
    assert found.questions == {
        "limit": 0, "alter_sync": 1, "join_use_nulls": 0, "max_result_rows": 0
    }  # fmt: skip
    assert found.refused == ()


@pytest.mark.parametrize(
    "row",
    [
        ("limit", 1, None, None, "100"),
        ("alter_sync", 0, "2", None, "2"),
        ("read_overflow_mode", 1, None, None, "break"),
        ("allow_ddl", 0, None, None, "0"),
    ],
    ids=str,
)
def test_what_may_not_be_changed_is_refused_and_not_sent(row: Row) -> None:
    found = judge(rows(row), {})
    assert [(one.name, one.value) for one in found.refused] == [(row[0], row[4])]
    assert row[0] not in {**found.statements, **found.questions}


def test_what_is_wished_for_is_no_reason_to_refuse() -> None:
    found = judge(rows(("max_result_rows", 1, None, None, "10")), {})
    assert (found.refused, found.questions) == ((), {})


def test_what_the_user_gives_is_not_overruled() -> None:
    found = judge(rows(), {"limit": "5", "max_threads": "3"})
    assert [(one.name, one.value, one.given) for one in found.refused] == [("limit", "5", True)]
    assert found.statements == {}


def test_a_limit_that_cuts_the_list_of_settings_is_found_all_the_same() -> None:
    def ask(text: str, **settings: str) -> list[list[Any]]:
        if settings.get("limit") == "0":
            raise TargetError("Setting limit should not be changed", code=452)
        return [[1]] if text == "SELECT 1" else [list(DEFAULTS["max_threads"])]

    found = read_profile(ask, {})
    assert [(one.name, one.needed) for one in found.refused] == [("limit", 0)]
