"""Totals and notes at the end of a file, and rows that only look so."""

from __future__ import annotations

import shlex

import pytest

from rowfall.schema.text.last_rows import find_last_rows

NAMES = ("city", "year", "n")
ROWS = [("Oslo", "2020", "1"), ("Bern", "2021", "2"), ("Rome", "2022", "3")]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ([("Total", "", "6")], ("the last line holds a total", "--where \"city != 'Total'\"")),
        ([("Insgesamt:", "", "6")],
         ("the last line holds a total", "--where \"city != 'Insgesamt:'\"")),
        ([("Source: x", "", "")],
         ("the last line holds one text at most", "--where \"city != 'Source: x'\"")),
        ([("Total", "", "6"), ("", "", ""), ("it's", "", "")],
         ("the last 3 rows hold a total and a note",
          "--where " + shlex.quote(r"city NOT IN ('Total', '', 'it\'s')"))),
        # A text stands in several columns, or the blank is a value, too: nothing tells them apart.
        ([("", "", ""), ("", "Source", "")],
         ("the last 2 rows hold one text at most", "--where \"year NOT IN ('', 'Source')\"")),
    ],
)  # fmt: skip
def test_what_is_no_row(last: list[tuple[str, ...]], said: tuple[str, str]) -> None:
    assert find_last_rows(NAMES, ROWS + last) == said


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [*ROWS, ("", "", "")],  # the columns say that values are missing
        [*ROWS, ("Total", "", "")][1:],  # too few above it
        [("Total", "2020", "1"), *ROWS, ("Total", "2021", "6")],  # a value like any other
        [("Oslo", "", ""), *ROWS, ("Bern", "", "")],  # values are missing in other rows, too
        [*ROWS, ("1", "", "")],
        [*ROWS, ("NULL", "", "")],
        [*ROWS, ("Totality", "2020", "3")],
        [("a", ""), ("b", ""), ("c", ""), ("d", "")],
        [],
    ],
)
def test_rows(rows: list[tuple[str, ...]]) -> None:
    assert find_last_rows(NAMES[: len(rows[0]) if rows else 3], rows) is None


def test_a_blank_that_is_a_value_elsewhere_has_no_condition() -> None:
    rows = [*ROWS, ("", "2023", "4"), ("", "", ""), ("Source", "", "")]
    assert find_last_rows(NAMES, rows) == ("the last 2 rows hold one text at most", None)
