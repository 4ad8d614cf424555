"""Dates with names of months or zones: those that are named are read right by the engine."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from rowfall.core import sql
from rowfall.core.model import Dialect
from rowfall.core.sqltext import SqlText
from rowfall.schema.text.marked_values import (
    shown_order,
    spelled_kind,
    spelled_reading,
    suggest,
)
from rowfall.schema.text.odd_dates import reading, short_years
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
    "2023-01-01 10:30:00.1234567+02:00": ("time", "2023-01-01T08:30:00.123456"),
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
        "2023-13-01 10:30:00+02:00", "2023-01-01 10:30:00 CET", "2023-01-01 10:30:00 [Europe/Ulm]",
        "1 Jan 2023 at noon", "Sun Jan 01 10:00:00 CET 2023",
    ],
)  # fmt: skip
def test_other_texts_are_not(value: str) -> None:
    assert spelled_kind(Counter([value])) == ""


def test_times_with_the_names_of_their_zones() -> None:
    value = "2014-05-07 13:29:50.439+0100 [Europe/London]"
    assert spelled_kind(Counter([value])) == "zoned"
    read = "parseDateTime64BestEffort(trim(splitByChar('[', t)[1]), 6, 'UTC')"
    assert spelled_reading("t", "zoned", empty=False) == read


def test_times_that_go_on_within_an_hour_show_the_order_of_days() -> None:
    first = datetime(2024, 3, 1, 21)
    for order, form in (("dmy", "%d/%m/%Y %H:%M:%S"), ("mdy", "%m/%d/%Y %H:%M:%S")):
        for minutes in (1, 60):
            times = [first + timedelta(minutes=minutes * n) for n in range(400)][:: 60 // minutes]
            rows = [(f"{own:{form}}",) for own in times]
            assert shown_order("t", rows[:8]) == order  # over midnight
            assert shown_order("t", rows[:2]) == ""
            assert shown_order("t", [*rows[:8], *rows[:8]]) == ""
        days = [(f"{first + timedelta(days=n):{form[:8]}}",) for n in range(9)]
        assert shown_order("t", days) == ""  # or the first ones of months


@pytest.mark.parametrize(
    ("values", "formats"),
    [
        (["5-Jan-09", "16-Feb-10"], {"dmy": "%e-%b-%y"}),
        (["05 JAN 09", "16 FEB 10"], {"dmy": "%d %b %y"}),
        (["5-Jan-09", "31-Feb-10"], {}), (["5-Jan-09", "5/Jan/09"], {}), (["5-Jan-09"], {}),
        (["5-Jan-09", "x"], {}),
    ],
)  # fmt: skip
def test_dates_with_the_name_of_a_month_and_a_short_year(
    chdb_engine: Chdb, values: list[str], formats: dict[str, str]
) -> None:
    assert short_years(Counter(values)) == formats
    for value, form in zip(values, formats.values(), strict=False):
        query = f"SELECT toString({reading(sql.literal(value), form)})"
        assert chdb_engine.ask(SqlText.of(query), {}) == [["2009-01-05"]]


def test_numbers_in_one_column_are_said() -> None:
    for values, count in (
        (["255 250 250", "248  248 255"], 3), (["255 250 250", "248 248"], 0), (["1 2", "3 4"], 0),
        (["030 1234 567", "040 2345 678"], 0), (["255 250 250", "word"], 0),
    ):  # fmt: skip
        said = suggest(Dialect(), ["c"], [(v,) for v in values], [(v,) for v in values], {}, ["c"])
        told = [one.text for one in said if "set apart by blanks" in one.text]
        assert [f"{count} numbers" in text for text in told] == ([True] if count else [])
