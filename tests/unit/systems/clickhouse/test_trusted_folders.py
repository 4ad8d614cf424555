"""Whose data folder is trusted."""

from __future__ import annotations

import os
import stat

import pytest

from rowfall.systems.clickhouse.embedded import distrust

ROOT, USER, OTHER = 0, 1000, 1001
HOME, SHARED = 0o755, 0o1777


def status(owner: int, mode: int) -> os.stat_result:
    return os.stat_result((stat.S_IFDIR | mode, 0, 0, 2, owner, owner, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("user", "owner", "mode", "above", "trusted"),
    [
        (USER, USER, 0o700, SHARED, True),
        (USER, USER, 0o777, HOME, True),  # it is theirs to decide
        (USER, ROOT, 0o777, HOME, True),  # as containers get their volumes
        (USER, OTHER, 0o775, HOME, True),  # a group
        (USER, OTHER, 0o777, HOME, False),
        (USER, OTHER, 0o1777, HOME, False),
        (ROOT, USER, 0o755, HOME, True),  # the user of a service
        (ROOT, USER, 0o777, HOME, False),
        (ROOT, USER, 0o755, SHARED, False),  # made in /tmp before root came
        (ROOT, ROOT, 0o755, SHARED, True),
    ],
)
def test_who_is_trusted(user: int, owner: int, mode: int, above: int, trusted: bool) -> None:
    why = distrust(status(owner, mode), status(ROOT, above), user)
    assert (why is None) == trusted
