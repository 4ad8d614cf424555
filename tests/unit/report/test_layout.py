"""Long lines are broken where they stay what they are."""

from __future__ import annotations

import pytest

from rowfall.report.layout import facts, plain_facts, render, wrap, wrap_sql


def test_long_sql_is_broken_outside_of_quotes_only() -> None:
    text = (
        "INSERT INTO `a table with blanks` (`one two`, `b`)\n"
        "SELECT " + ", ".join(f"if(x{n} = 'two  \\' words', 1, 0) AS `c {n}`" for n in range(9))
        + "\nFROM file('" + "/long path" * 12 + "', 'CSV')\n-- a comment that is longer" + " x" * 60
    )  # fmt: skip
    wrapped = wrap_sql(text, 80)
    long = [line for line in wrapped.split("\n") if len(line) > 80]
    assert [line.lstrip()[:5] for line in long] == ["file(", "-- a "]
    assert wrapped.split() == text.split()
    assert "'two  \\' words'" in wrapped
    assert wrap_sql("SELECT 1") == "SELECT 1"


def test_words_that_belong_together_stay_in_one_line() -> None:
    text = "load 4a32d65d  done in 3.2 s: 0 rows from 0 of 20 files (20 loaded before) into "
    *_, last = wrap(text + "default.trips", indent="  ", whole="into default.trips").split("\n")
    assert last == "  into default.trips"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_facts_look_alike_with_and_without_rich(width: int) -> None:
    rows = [
        ("rate", "409k rows/s, 38.5 MB/s"),
        ("limit", "the CPU: 1.8 of 2 cores busy, mostly unpacking, parsing and converting (61 %)"),
        ("rejected", ""),
        ("file", "a/path/that/is/longer/than/a/line/" * 3 + " is there"),
    ]
    for some in (rows[:3], rows):
        assert plain_facts(some, width=width) == render([facts(some)], width=width)
