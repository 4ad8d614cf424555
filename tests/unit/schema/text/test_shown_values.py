"""What columns show beyond doubt is read, and what may mean two things is left."""

from __future__ import annotations

import random

import pytest

from rowfall.schema.text.shown_values import find_shown, plain_date, plain_rows


def test_commas_between_thousands_are_shown_by_two_of_them_or_by_a_point() -> None:
    draw = random.Random(37)
    for _ in range(200):
        # 30 numbers of all sizes, of which one shows what the commas are.
        numbers = [draw.randrange(10 ** draw.randint(1, 7)) for _ in range(30)] + [1234, 2345678]
        rows = [(f"{n:,}", str(n), f"{n % 1000}.5") for n in numbers]
        assert find_shown(rows, 3, ",").numbers == (0,)
        plain = plain_rows(rows, find_shown(rows, 3, ","))
        assert [int(row[0]) for row in plain] == numbers
        # Other columns of the file are written alike.
        alike = [(row[0], f"{n % 99999:,}") for row, n in zip(rows, numbers, strict=True)]
        assert find_shown(alike, 2, ",").numbers == (0, 1)
        assert not find_shown([(row[0], "1,5") for row in rows], 2, ",")  # or are not


@pytest.mark.parametrize(
    "values",
    [
        ["1,234", "12,345", "999"],  # decimals of three digits, perhaps
        ["101,204,305", "102,110"],  # lists of codes
        ["1,234,567", "2345"], ["1,234,567", "0,123"], ["1,234,567", "12,34"], ["1,234,567", "x"],
        ["1,234,567", "012"], ["1.234.567,5", "2,345,678"], ["1,2,3", "1,234,567"], ["12", "13"],
    ],
)  # fmt: skip
def test_commas_that_may_be_others_are_left(values: list[str]) -> None:
    assert not find_shown([(value,) for value in values], 1, ",")


def test_times_of_which_each_says_utc() -> None:
    zones = ("Z", "+00:00", "+0000", "+00", " UTC", "-00:00")
    for zone in zones[1:]:
        rows = [(f"2024-02-2{n}T10:30:0{n}.5{zone}", "x") for n in range(10)]
        shown = find_shown([*rows, ("", "y")], 2, ",")
        assert shown.dates == ((0, "utc"),)
        assert plain_rows(rows, shown)[1] == ("2024-02-21T10:30:01Z", "x")
        for other in ("+02:00", "+00:30", "+0100", "", " CET", "+15:00"):
            assert not find_shown([*rows, (f"2024-02-29T10:30:00{other}", "z")], 2, ",")
        assert not find_shown([*rows, (f"2024-02-30T10:30:00{zone}", "z")], 2, ",")  # no day
    assert not find_shown([("2024-02-29T10:30:00Z",)], 1, ",")  # read as they are
    assert find_shown([("2024-02-29 10:30:00Z",)], 1, ",").dates == ((0, "utc"),)  # as no reader


SHOWN = {
    "comma, points": (";", ["1.234,56", "-7,5", "12"], (",", "."), "numbers"),
    "comma": (";", ["5,1", "-3,5", "7"], (",", ""), "numbers"),
    "comma, blanks": (";", ["1 234,50", "12,00"], (",", " "), "numbers"),
    "comma between quotes": (",", ["19,90", "5,00"], (",", ""), "numbers"),
    "apostrophes": (";", ["1'234.50", "7.25"], (".", "'"), "numbers"),
    "dollars": (",", ["$1,234.50", "-$3.10", "($2.00)"], (".", ","), "$"),
    "euros": (",", ["12,50 €", "1.234,00 €"], (",", "."), "€"),
    "percent": (",", ["12.5%", "-3%"], (".", ""), "%"),
    "whole percents": (",", ["41%", "3%"], (".", ""), "%"),
    "brackets": (",", ["(12.50)", "3.00"], (".", ""), ""),
    "minus behind": ("\t", ["1.234,56-", "99,90"], (",", "."), ""),
    "codes of money": (";", ["-23,45 PLN", "1 203,11 PLN"], (",", " "), "PLN"),
    # What may mean two things.
    "two numbers": ("\t", ["14,12", "0,33"], None, None),
    "lists": ("\t", ["11869,12010", "12227,12057"], None, None),
    "three decimals": (";", ["52,520", "13,405"], None, None),
    "one choice or two": (",", ["1,2", "3", "2,4"], None, None),
    "both marks": (";", ["1.234,5", "1,234.5"], None, None),
    "two currencies": (",", ["$5.00", "5.00 €"], None, None),
    "dollars of either kind": (",", ["$1,234", "$2,345"], None, None),
    "codes": (";", ["007,5", "012,5"], None, None),
    "a word": (";", ["1,5", "2,5", "x"], None, None),
    "all in brackets": (",", ["(1)", "(2)"], None, None),
    "telephones": (",", ["555 123 456", "444 123 456"], None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_numbers_are_read_where_their_marks_are_shown(name: str) -> None:
    mark, values, marks, unit = SHOWN[name]
    shown = find_shown([(value,) for value in values], 1, mark)
    if marks is None:
        assert not shown
        return
    assert (shown.decimal, shown.thousands) == marks
    if unit == "numbers":
        assert (shown.numbers, shown.units) == ((0,), ())
    else:
        assert (shown.numbers, shown.units) == ((), ((0, unit),))
    for (plain,) in plain_rows([(value,) for value in values], shown):
        float(plain)


def test_columns_of_one_file_are_written_alike() -> None:
    rows = [("1.234", "5,50", "x"), ("12.345", "1.100,00", "y")]
    assert find_shown(rows, 3, ";").numbers == (0, 1)
    assert find_shown([row[:1] for row in rows], 1, ";").numbers == ()  # 1.234 may be a fraction
    # A point before decimals in one column leaves commas in another to an option.
    assert not find_shown([("52.5", "5,50"), ("13.4", "6,50")], 2, ";")
    # And shows what commas are where three digits are behind each.
    assert find_shown([("52.5", "5,500"), ("13.4", "16,500")], 2, ",").numbers == (1,)


DATES = {
    "points": (["28.03.24", "05.03.24"], "dmy2", "2024-03-05"),
    "points alone": (["05.03.24", "06.03.24"], "dmy2", "2024-03-06"),
    "month first": (["06/28/24 01:00:00 PM", "06/05/24 01:15:00 AM"], "mdy2",
                    "2024-06-05 01:15:00"),
    "before 2000": (["31/03/99", "5/3/70"], "dmy2", "1970-03-05"),
    "one year": (["28/03/24", "5/3/24", "6/3/24"], "dmy2", "2024-03-06"),
    "years first or last": (["17/05/01", "12/08/03"], "", ""),
    "SAS": (["05JAN2024", "17FEB2024"], "named", "2024-02-17"),
    "SAS with times": (["05JAN2024:10:30:00", "17FEB2024:23:05:10"], "named",
                       "2024-02-17 23:05:10"),
    "month first by name": (["Mar 1, 2024, 10:12:33 AM", "Mar 14, 2024, 12:00:00 PM"], "named",
                            "2024-03-14 12:00:00"),
    "offsets": (["2024-03-01 10:12:33 +0100", "2024-04-01 01:00:00 +0200"], "", ""),
    "either order": (["05/03/24", "06/03/24"], "", ""),
    "neither": (["28/03/24", "03/28/24"], "", ""),
    "1945 or 2045": (["28.03.45", "05.03.24"], "", ""),
    "years first, perhaps": (["24-03-28", "24-03-05"], "", ""),
    "versions": (["1.2.10", "1.2.23"], "", ""),
    "some with times": (["5 Jan 2024", "6 Jan 2024 10:00"], "", ""),
    "18 or 9": (["09 Aug 18", "10 Aug 18"], "", ""),
    "18 or 9, with points": (["09. Aug 18", "10. Aug 18"], "", ""),
    "no day": (["30 Feb 2024", "1 Feb 2024"], "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", DATES)
def test_dates_are_read_where_they_mean_one_day(name: str) -> None:
    values, form, last = DATES[name]
    shown = find_shown([(value,) for value in values], 1, ",")
    assert shown.dates == (((0, form),) if form else ())
    if form:
        assert plain_date(values[-1], form) == last


def test_options_about_dates_and_numbers_have_the_last_word() -> None:
    rows = [("05/03/24", "5,5"), ("06/03/24", "6,5")]
    assert find_shown(rows, 2, ";", order="mdy").dates == ((0, "mdy2"),)
    assert find_shown(rows, 2, ";", marked=True).numbers == ()
    assert find_shown([("1,5",), ("-",)], 1, ";", ("-",)).numbers == (0,)
