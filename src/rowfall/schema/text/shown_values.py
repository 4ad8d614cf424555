"""Finds columns of numbers and dates, however written, where the sample leaves no doubt. Pure.

``1.234,56`` shows which mark stands in front of decimals, ``31.12.23`` where the day stands, and
what stands beside all numbers of a column is a unit. rowfall-decode rewrites such values
(crates/rowfall-decode/src/input/rewrite/values.rs), and leaves those behind the sample that are
written otherwise as they are, which whoever reads numbers or times refuses. What may mean two
things is left to an option; see :mod:`rowfall.schema.text.marked_values`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from functools import partial

from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex
from rowfall.core.value_kinds import value_class
from rowfall.schema.text import odd_numbers

_MARKS_OF_COMMAS = ("", ".", " ", "\u00a0", "\u202f", "'", "\u2019")
_MARKS_OF_POINTS = ("", ",", "'", " ", "\u00a0", "\u202f", "\u2019")


@dataclass(frozen=True, slots=True)
class ShownValues:
    """Columns that are rewritten, by their index.

    Attributes:
        decimal, thousands: marks in numbers.
        numbers: columns with these marks and nothing beside the digits.
        units: what stands beside the digits of the others; "" where negative ones are in brackets
            or have their minus behind them.
        dates: how dates are written, as :class:`rowfall.core.model.Dialect` has it.
    """

    decimal: str = "."
    thousands: str = ""
    numbers: tuple[int, ...] = ()
    units: tuple[tuple[int, str], ...] = ()
    dates: tuple[tuple[int, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.numbers or self.units or self.dates)


def find_shown(
    rows: Sequence[Sequence[str]], width: int, delimiter: str, nulls: Sequence[str] = (),
    *, order: str = "", marked: bool = False,
) -> ShownValues:  # fmt: skip
    """Return what the values of columns show.

    Args:
        rows: of the sample, without a header, all as wide.
        delimiter: of the text: beside semicolons a comma stands in front of decimals.
        nulls: words that are no values.
        order: of day, month and year, as an option says; "" for none.
        marked: an option says how numbers are written.
    """
    columns = [_filled(column, nulls) for column in zip(*rows, strict=True)][:width]
    dates = {i: form for i, own in enumerate(columns) if (form := _form_of_dates(own))}
    if not any(len(columns[i]) > 1 for i in dates) and not any(
        _LONG_YEAR.search(next(iter(columns[i]))) for i in dates
    ):
        dates = {}  # one such value alone may be a word: 5-Jan-09
    short = {i: own for i, values in enumerate(columns) if (own := _orders_of_two(values))}
    shared = set(DAYS_FIRST).intersection(*short.values())
    if order:
        shared &= {f"{order}2"}
    if len(shared) == 1:
        dates |= dict.fromkeys(short, shared.pop())
    told = tuple(sorted(dates.items()))
    found = {} if marked else {
        i: held for i, own in enumerate(columns) if i not in dates and (held := _numbers_of(own))
    }  # fmt: skip
    marks = _marks(found, columns, delimiter)
    if marks is None:
        return ShownValues(dates=told)
    decimal, thousands = marks
    numbers, units = [], []
    pattern = re.compile(_number_pattern(decimal, thousands))
    for i, held in found.items():
        if not all(map(pattern.fullmatch, held.digits)):
            continue
        if held.unit or held.bookkept:
            units.append((i, held.unit))
        elif any((thousands and thousands in d) or (decimal != "." and decimal in d)
                 for d in held.digits) and not _is_left(held, marks):  # fmt: skip
            numbers.append(i)
    return ShownValues(decimal, thousands, tuple(numbers), tuple(units), told)


_LONG_YEAR = regex(r"\d{4}")
DAYS_FIRST = ("dmy2", "mdy2")
"""Forms of dates with years of two digits."""


def _filled(column: Sequence[str], nulls: Sequence[str]) -> Counter[str]:
    """Return the values of a column that are there, and how often each is."""
    values = Counter(map(str.strip, column))
    for word in ("", "\\N", *nulls):
        values.pop(word, None)
    return values


# --- numbers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbers of a column as they are written.

    Attributes:
        digits: of each, with their marks.
        unit: beside the digits of all.
        bookkept: some are negative by brackets, or by a minus behind them.
    """

    digits: tuple[str, ...]
    unit: str
    bookkept: bool


_MARKED = regex(r"[^0-9.+\n-]|-\n")


def _numbers_of(values: Counter[str]) -> _Numbers | None:
    """Return the numbers of a column; None where some value is none, or all are plain."""
    if not values or not any(map(str.isdigit, next(iter(values)))):
        return None
    joined = "\n".join(values) + "\n"  # searched at once: most columns hold nothing of it
    if not _MARKED.search(joined):
        # Points alone may be of thousands where other columns show it.
        if "." not in joined or not all(map(_POINTS.fullmatch, values)):
            return None
        return _Numbers(tuple(v.lstrip("-") for v in values), "", bookkept=False)
    parts = odd_numbers.parts_of(values)
    return None if parts is None else _Numbers(parts.digits, parts.unit, parts.bookkept)


_POINTS = regex(r"-?(?:0|[1-9]\d{0,2}(?:\.\d{3})*)")


def _marks(
    found: Mapping[int, _Numbers], columns: Sequence[Counter[str]], delimiter: str
) -> tuple[str, str] | None:
    """Return the marks before decimals and between thousands; None where nothing shows them.

    None, too, where columns show different ones.
    """
    decimals: set[str] = set()
    groups: set[str] = set()
    for held in found.values():
        shown, between = _shown_marks(held, delimiter)
        decimals |= shown
        groups |= between
    points = _have_points(columns)
    commas = [d for held in found.values() for d in held.digits if "," in d]
    if not decimals and (points or not commas):
        decimals = {"."} if found and (points or any(map(_is_odd, found.values()))) else set()
    if len(decimals) != 1:
        return None
    decimal = decimals.pop()
    if decimal == "," and points:
        return None  # some numbers have points before their decimals
    if decimal == "." and commas:
        # Behind each comma there are three digits, or some are no numbers of this kind.
        if any(_may_have_commas(held) for held in found.values()):
            return None
        groups |= {","}
    groups.discard(decimal)
    known = _MARKS_OF_COMMAS if decimal == "," else _MARKS_OF_POINTS
    tried = [mark for mark in known if mark in groups or not (mark or groups)]
    if not tried:
        return None
    return decimal, max(tried, key=lambda mark: _fitting(found, decimal, mark))


def _is_odd(held: _Numbers) -> bool:
    return bool(held.unit) or held.bookkept


def _may_have_commas(held: _Numbers) -> bool:
    """Tell whether commas may stand before decimals: not three digits behind each."""
    commas = [d for d in held.digits if "," in d]
    return not all(map(_COMMAS.fullmatch, commas)) and all(
        _DECIMALS.fullmatch(d) or _WHOLE.fullmatch(d) or _LONG_DECIMALS.fullmatch(d)
        for d in held.digits
    )


def _fitting(found: Mapping[int, _Numbers], decimal: str, thousands: str) -> int:
    pattern = re.compile(_number_pattern(decimal, thousands))
    return sum(all(map(pattern.fullmatch, held.digits)) for held in found.values())


def _shown_marks(held: _Numbers, delimiter: str) -> tuple[set[str], set[str]]:
    """Return marks before decimals, and those between thousands, that numbers show beyond doubt."""
    decimals: set[str] = set()
    groups: set[str] = set()
    for digits in held.digits:
        if both := _BOTH.fullmatch(digits):
            groups.add(both[1])
            decimals.add(both[2])
        elif several := _SEVERAL.fullmatch(digits):
            groups.add(several[1])
            if several[1] == "," or delimiter == ";":
                decimals.add("." if several[1] == "," else ",")
        elif one := _ONE.fullmatch(digits):
            groups.add(one[1])
    commas = [d for d in held.digits if _DECIMALS.fullmatch(d)]
    if commas and all(_DECIMALS.fullmatch(d) or _WHOLE.fullmatch(d) for d in held.digits):
        # Beside other delimiters 12,34 may be two numbers, of which none begins with a zero.
        sure = delimiter == ";" or bool(held.unit) or any(map(_ZERO_FIRST.fullmatch, commas))
        if sure:
            decimals.add(",")
    if held.unit and any(_POINT.fullmatch(d) for d in held.digits):
        decimals.add(".")
    return decimals, groups


_BOTH = regex(r"\d{1,3}(?:([., '\u2019\u00a0\u202f])\d{3})(?:\1\d{3})*(?!\1)([.,])\d+")
_SEVERAL = regex(r"[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})+")
# No other number has these marks.
_ONE = regex(r"[1-9]\d{0,2}(?:([ '\u2019\u00a0\u202f])\d{3})(?:\1\d{3})*")
_DECIMALS = regex(r"\d+,\d{1,2}")
_LONG_DECIMALS = regex(r"\d+,\d{4,}|0,\d+")
_WHOLE = regex(r"\d+|\d{1,3}(?:[. \u00a0\u202f']\d{3})+(?:,\d+)?")
_ZERO_FIRST = regex(r"\d+,0\d")
_POINT = regex(r"\d+\.\d{1,2}")
_COMMAS = regex(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")


def _have_points(columns: Sequence[Counter[str]]) -> bool:
    """Tell whether a column of plain numbers has points before decimals."""
    return any(
        any(_FRACTION.fullmatch(v) for v in values) and value_class([*values]) == "number"
        for values in columns
        if values
    )


# Three digits behind the point may be thousands.
_FRACTION = regex(r"-?\d+\.(?:\d{1,2}|\d{4,})")


def _is_left(held: _Numbers, marks: tuple[str, str]) -> bool:
    """Tell whether a column is better left as it is written: codes, and lists of numbers."""
    decimal, thousands = marks
    if decimal == "." and thousands == ",":
        # Four digits without a comma are written by another rule, and three before each are codes.
        grouped = [d for d in held.digits if "," in d]
        return any(len(d.partition(".")[0]) > len("999") and "," not in d for d in held.digits) or (
            all(len(d.partition(",")[0]) == len("999") for d in grouped)
        )
    if thousands in (" ", "\u00a0", "\u202f") and not any(decimal in d for d in held.digits):
        # 123 456 and 234 567 may be telephone numbers.
        return len({len(d) for d in held.digits}) < 2
    return False


def _number_pattern(decimal: str, thousands: str) -> str:
    whole = rf"[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+|\d+" if thousands else r"\d+"
    return rf"(?:{whole})(?:{re.escape(decimal)}\d+)?"


# --- dates ---------------------------------------------------------------------------------------

_CLOCK = r"\d{1,2}:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:[ \u202f]?[AaPp][Mm])?"
_TWO = regex(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(\d\d)(?:[ T]({_CLOCK}))?")
_NAME = (
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|january|february|march|april|june|july|"
    "august|september|october|november|december"
)
_NAMED = regex(rf"(\d{{1,2}})[-/.]? ?({_NAME})[-/.,]? ?(\d{{4}}|\d\d)(?:(?:[ T:]|, )({_CLOCK}))?",
               re.I)  # fmt: skip
_MONTH_FIRST = regex(
    rf"({_NAME})[-/.,]? ?(\d{{1,2}})[-/.,]? ?(\d{{4}})(?:(?:[ T:]|, )({_CLOCK}))?", re.I
)
_WITH_OFFSET = regex(
    rf"(\d{{4}})-(\d\d)-(\d\d)[ T]({_CLOCK}) ?([-+](?:0\d|1[0-4])(?::?[0-5]\d)?|Z|UTC)"
)
_YEAR_BEHIND_BLANK = regex(r"\S+ [^\W\d_]+[.,]? \d\d(?:\D.*)?")
_MONTHS = [name.strip() for name in _NAME.split("|")[:12]]
_LEAST = 2  # values that differ: one alone may be a version


def _form_of_dates(values: Counter[str]) -> str:
    """Return how all dates of a column are written; "" for others, and where it is in doubt."""
    first = next(iter(values), "")
    if _WITH_OFFSET.fullmatch(first):
        if value_class([*values]) == "time":
            return ""  # readers take them as they are
        form = "utc"
    elif first.isascii() and first.upper() != first.lower() and (
        _NAMED.fullmatch(first) or _MONTH_FIRST.fullmatch(first)
    ):  # fmt: skip
        if _YEAR_BEHIND_BLANK.fullmatch(first):
            return ""  # 18 Aug 09 may be of 2018
        form = "named"
    else:
        return ""
    made = [plain_date(value, form) for value in values]
    timed = {len(own) > len("2024-01-01") for own in made}
    return form if all(made) and len(timed) == 1 else ""


_AT_UTC = ("Z", "UTC", "+00:00", "-00:00", "+0000", "-0000", "+00")


def _orders_of_two(values: Counter[str]) -> set[str]:
    """Return the forms that make dates of all values of a column, with years of two digits."""
    if not _TWO.fullmatch(next(iter(values), "")):
        return set()
    parts = [_TWO.fullmatch(value) for value in values]
    timed = all(m is not None and m[5] is not None for m in parts)
    if (len(parts) < _LEAST and not timed) or not all(parts):
        return set()
    if len({(m[2], m[5] is None) for m in parts if m}) > 1:
        return set()
    mark = next(m[2] for m in parts if m)
    padded = all(len(m[1]) == len(m[3]) == len("00") for m in parts if m)
    if mark == "." and not padded:
        return set()  # 1.2.10 is a version
    first, last = {m[1] for m in parts if m}, {m[4] for m in parts if m}
    if mark != "." and len(last) * 2 > len(first) and all(
        _exists(2000 + int(m[1]), int(m[3]), int(m[4])) for m in parts if m
    ):  # fmt: skip
        return set()  # the year may come first, which changes less often than the day
    # Between points the day comes first, wherever they are written.
    return {form for form in (DAYS_FIRST[:1] if mark == "." else DAYS_FIRST)
            if all(plain_date(value, form) for value in values)}  # fmt: skip


def plain_date(value: str, form: str) -> str:
    """Return a date as readers take it, as rowfall-decode rewrites it; "" where it does not."""
    value = value.strip()
    if form in ("dmy2", "mdy2"):
        if (found := _TWO.fullmatch(value)) is None:
            return ""
        day, month = (found[1], found[3]) if form == "dmy2" else (found[3], found[1])
        return _iso(found[4], int(month), day, found[5])
    if form == "named":
        if found := _NAMED.fullmatch(value):
            return _iso(found[3], _month(found[2]), found[1], found[4])
        if found := _MONTH_FIRST.fullmatch(value):
            return _iso(found[3], _month(found[1]), found[2], found[4])
        return ""
    if (found := _WITH_OFFSET.fullmatch(value)) is None:
        return ""
    if found[5] not in _AT_UTC:
        return ""  # an offset other than zero is lost in UTC
    local = _iso(found[1], int(found[2]), found[3], found[4])
    return f"{local.replace(' ', 'T')}Z" if local else ""


def _month(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _iso(year: str, month: int, day: str, clock: str | None) -> str:
    number = int(year)
    if len(year) == len("24"):
        # Up to 29 it is of this century, from 70 on of the last one, to all who guess.
        if 30 <= number < 70:
            return ""
        number += 2000 if number < 30 else 1900
    if not _exists(number, month, int(day)):
        return ""
    if clock is None:
        return f"{number:04}-{month:02}-{int(day):02}"
    told = clock.replace("\u202f", " ").upper()
    half = told[-2:] if told.endswith("M") else ""
    bare = told.removesuffix(half).strip()
    parts = bare.split(":")
    hour = int(parts[0])
    if half:
        if not 1 <= hour <= 12:
            return ""
        hour = hour % 12 + 12 * (half == "PM")
    try:
        of_day = time.fromisoformat(":".join((f"{hour:02}", *parts[1:]))[:8])
    except ValueError:
        return ""
    return f"{number:04}-{month:02}-{int(day):02} {of_day.isoformat()}"


# --- rewriting -----------------------------------------------------------------------------------


def plain_rows(rows: Sequence[tuple[str, ...]], shown: ShownValues) -> list[tuple[str, ...]]:
    """Return rows with the values of such columns as they are rewritten."""
    if not shown:
        return [*rows]
    made: dict[int, Callable[[str], str]] = {}
    for i in shown.numbers:
        made[i] = _plain_number(shown, "")
    for i, unit in shown.units:
        made[i] = _plain_number(shown, unit)
    for i, form in shown.dates:
        made[i] = partial(_plain_date, form=form)
    found = []
    for row in rows:
        values = [*row]
        for i, make in made.items():
            values[i] = make(row[i])
        found.append(tuple(values))
    return found


def _plain_number(shown: ShownValues, unit: str) -> Callable[[str], str]:
    def plain(value: str) -> str:
        parts = odd_numbers.parts_of(Counter([value.strip()])) if value.strip() else None
        if parts is None or parts.unit != unit:
            return value
        digits = parts.digits[0]
        if shown.thousands:
            digits = digits.replace(shown.thousands, "")
        return ("-" if parts.negative else "") + digits.replace(shown.decimal, ".")

    return plain


def _plain_date(value: str, form: str) -> str:
    return plain_date(value, form) or value
