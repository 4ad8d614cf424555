"""The name that somebody most likely meant."""

from __future__ import annotations

import pytest

from rowfall.core.nearest import did_you_mean, nearest


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("ctiy", "city"), ("CITY", "city"), ("tabel", "table"), ("taxi", None), ("", None)],
)
def test_nearest(typed: str, meant: str | None) -> None:
    assert nearest(typed, ["city", "table", "started_at"]) == meant


def test_the_name_is_given_as_it_is_written() -> None:
    assert did_you_mean("orderid", ["OrderId"]) == "Did you mean OrderId? "
    assert did_you_mean("xyz", ["OrderId"]) == ""
