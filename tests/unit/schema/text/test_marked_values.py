"""Dates with names of months or zones: those that are named are read right by the engine."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from rowfall.core import sql
from rowfall.core.sqltext import SqlText
from rowfall.schema.text.marked_values import spelled_kind
from unit.memory import Chdb

READ = {
    "31-Dec-2023": ("day", "2023-12-31"),
    "1 February 2024": ("day", "2024-02-01"),
    "Dec 31, 2023": ("day", "2023-12-31"),
    "december 1 1850": ("day", "1850-12-01"),
    "Sun, 01 Jan 2023 10:00:00 GMT": ("time", "2023-01-01T10:00:00"),
    "01 Jan 2023 10:00:00 -0130": ("time", "2023-01-01T11:30:00"),
    "Jan 5, 2023 10:30 PM": ("time", "2023-01-05T22:30:00"),
    "5-May-2023 12:05 am": ("time", "2023-05-05T00:05:00"),
    "2023-01-01T10:30:00+02:00": ("time", "2023-01-01T08:30:00"),
    "2023-01-01 10:30:00.25+02": ("time", "2023-01-01T08:30:00.250000"),
    "2023-01-01 10:30:00 UTC": ("time", "2023-01-01T10:30:00"),
    "2023-01-01T10:30Z": ("time", "2023-01-01T10:30:00"),
    "2023-01-01T23:30-05:30": ("time", "2023-01-02T05:00:00"),
}


@pytest.mark.parametrize("value", READ)
def test_what_is_named_is_what_the_engine_reads(chdb_engine: Chdb, value: str) -> None:
    kind, then = READ[value]
    assert spelled_kind(Counter([value])) == kind
    query = f"SELECT toString(parseDateTime64BestEffort({sql.literal(value)}, 6, 'UTC'))"
    ((found,),) = chdb_engine.ask(SqlText.of(query), {})
    assert datetime.fromisoformat(found).replace(tzinfo=UTC) == datetime.fromisoformat(
        then
    ).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "Dec-31-2023",  # the engine reads 2025-12-03
        "31-Feb-2023", "31-Dec-23", "2023-Dec-31", "Maybe 5, 2023", "Dec 31", "2023-01-01",
        "2023-01-01 10:30:00", "2023-01-01T10:30:00Z", "2023-01-01 24:30:00+02:00",
        "2023-13-01 10:30:00+02:00", "2023-01-01 10:30:00 CET", "2023-01-01 10:30:00.1234567+02:00",
        "1 Jan 2023 at noon", "Sun Jan 01 10:00:00 CET 2023",
    ],
)  # fmt: skip
def test_other_texts_are_not(value: str) -> None:
    assert spelled_kind(Counter([value])) == ""
