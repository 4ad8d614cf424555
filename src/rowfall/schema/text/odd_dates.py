"""Finds dates that no option makes dates of, and writes the SQL that does. Pure.

Years of two digits, days in two orders, dates beside others that have their year first, and those
whose parts have a sign behind them, as in China, Japan and Korea.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date

from rowfall.core import sql
from rowfall.core.formats import ORDERS
from rowfall.core.load_command import quoted
from rowfall.core.patterns import regex

_SHORT = regex(r"(\d{1,2})([./-])(\d{1,2})\2(\d{1,2})(?: (\d{1,2}:\d\d(?::\d\d)?)( [AP]M)?)?")
_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_SHORT_NAMED = regex(rf"(\d{{1,2}})([-/ ])({'|'.join(_NAMES)})([-/ ])(\d\d)", re.I)
_DAY = r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})"
_LONG, _LONG_DAY = regex(rf"{_DAY}(?:[ T].*)?"), regex(_DAY)
_SIGNED = regex(r"(\d{4})(年|년)( ?)(\d{1,2})(月|월)( ?)(\d{1,2})(日|일)")
_YEAR_FIRST = regex(r"(\d{4})([./-])(\d\d)\2(\d\d)")
# parseDateTime has no other years, and raises at them.
_YEARS = range(1970, 2106)
_LEAST = 2  # values that differ: one alone may be a version, 1.2.23


def short_years(values: Counter[str]) -> dict[str, str]:
    """Return the formats of parseDateTime, by their order of day, month and year.

    {} where a value is no date with a year of two digits, or where their marks or times differ.
    """
    if named := _with_month(values):
        return {"dmy": named}
    found = [_SHORT.fullmatch(value) for value in values]
    parts = [m.groups() for m in found if m]
    # With a time of day behind it, one value alone is no code.
    if len(parts) < len(found) or not (len(parts) >= _LEAST or (parts and parts[0][4])):
        return {}
    marks = {own[1] for own in parts}
    times = {(own[4].count(":") if own[4] else 0, bool(own[5])) for own in parts}
    if len(marks) > 1 or len(times) > 1 or (marks == {"."} and not _are_padded(parts)):
        return {}  # 1.2.3 is a version
    mark, (colons, halves) = marks.pop(), times.pop()
    clock = ("", " %H:%i", " %H:%i:%S")[colons]
    clock = clock.replace("%H", "%I") + " %p" if halves else clock
    if clock and any(len(own[4].partition(":")[0]) < len("00") for own in parts):
        return {}
    padded = _are_padded(parts)
    codes = {"d": "%d" if padded else "%e", "m": "%m" if padded else "%c", "y": "%y"}
    found_orders = {
        order: mark.join(codes[part] for part in order) + clock
        for order in ORDERS
        if all(_is_day(dict(zip(order, (own[0], own[2], own[3]), strict=True))) for own in parts)
    }
    if mark != "-" and len(found_orders) > 1:
        found_orders.pop("ymd", None)  # 15/04/23 is nobody's year 2015
    return found_orders


def _with_month(values: Counter[str]) -> str:
    """Return the format of dates such as 5-Jan-09; "" for other values."""
    found = [_SHORT_NAMED.fullmatch(value) for value in values]
    if len(found) < _LEAST or not all(found):
        return ""
    parts = [m.groups() for m in found if m]
    marks = {(own[1], own[3]) for own in parts}
    months = [str(_NAMES.index(own[2].lower()) + 1) for own in parts]
    days = all(_is_date(f"20{own[4]}", month, own[0])
               for own, month in zip(parts, months, strict=True))  # fmt: skip
    if len(marks) > 1 or not days:
        return ""
    first, second = marks.pop()
    code = "%d" if all(len(own[0]) == len("00") for own in parts) else "%e"
    return f"{code}{first}%b{second}%y"


def _are_padded(parts: Sequence[Sequence[str]]) -> bool:
    """Tell whether all parts of days have two digits."""
    return all(len(own[n]) == len("00") for own in parts for n in (0, 2, 3))


def _is_day(parts: dict[str, str]) -> bool:
    return len(parts["y"]) == len("00") and _is_date(f"20{parts['y']}", parts["m"], parts["d"])


def may_be(value: str) -> bool:
    """Tell whether a value may be a date of :func:`signed` or :func:`beside_year_first`."""
    return any(p.fullmatch(value) for p in (_SIGNED, _YEAR_FIRST, _LONG_DAY))


def signed(values: Counter[str]) -> str | None:
    """Return the format of parseDateTime of dates such as 2024年1月5日; None for other values."""
    if not _SIGNED.fullmatch(next(iter(values))):
        return None
    found = [_SIGNED.fullmatch(value) for value in values]
    if not all(found):
        return None
    parts = [m.groups() for m in found if m]
    # What stands between the numbers has to be the same everywhere.
    if len({(own[1], own[2], own[4], own[5], own[7]) for own in parts}) > 1:
        return None
    if not all(_is_date(own[0], own[3], own[6]) for own in parts):
        return None
    own = parts[0]
    return f"%Y{own[1]}{own[2]}%c{own[4]}{own[5]}%e{own[7]}"


def beside_year_first(values: Counter[str]) -> dict[str, tuple[str, str]]:
    """Return formats of dates of which some have their year first and some their day or month.

    {} for other values; else by the order of those others, (format of the first, of the others).
    """
    first, others = [], []
    for value in values:
        if found := _YEAR_FIRST.fullmatch(value):
            first.append(found.groups())
        elif found := _LONG_DAY.fullmatch(value):
            others.append(found.groups())
        else:
            return {}
    marks = {own[1] for own in first}, {own[1] for own in others}
    if not all(len(own) == 1 for own in marks):
        return {}
    if not all(_is_date(own[0], own[2], own[3]) for own in first):
        return {}
    (mark,), (other,) = marks
    named: dict[str, tuple[str, str]] = {}
    for order, day, month in (("dmy", 0, 2), ("mdy", 2, 0)):
        if all(_is_date(own[3], own[month], own[day]) for own in others):
            codes = ("%e", "%c") if order == "dmy" else ("%c", "%e")
            named[order] = (mark.join(("%Y", "%m", "%d")), other.join((*codes, "%Y")))
    return named


def _is_date(year: str, month: str, day: str) -> bool:
    try:
        date(int(year), int(month), int(day))
    except ValueError:
        return False
    return int(year) in _YEARS


def reading(column: str, format_: str, others: str = "") -> str:
    """Return SQL that makes dates or times of a text, and raises at all that is none.

    Args:
        column: as SQL names it. ``others``: the format of dates without their year first.
    """
    read = f"parseDateTime({column}, {sql.literal(format_)}, 'UTC')"
    if others:
        later = f"parseDateTime({column}, {sql.literal(others)}, 'UTC')"
        read = f"if(match({column}, '^[0-9]{{4}}'), {read}, {later})"
    return read if " %H" in format_ or " %I" in format_ else f"toDate32({read})"


def parsing(formats: dict[str, str], *, empty: dict[str, bool]) -> str:
    """Return the --select that makes dates of columns, by the format of each.

    Args:
        empty: whether a column holds values that are empty.
    """
    made = {name: reading(sql.bare_name(name), format_) for name, format_ in formats.items()}
    return selecting({name: unless_empty(sql.bare_name(name), read, [""] if empty[name] else [])
                      for name, read in made.items()})  # fmt: skip


def unless_empty(column: str, read: str, words: Sequence[str]) -> str:
    """Return SQL that is NULL where a column holds some words: what reads it raises below nullIf.

    Args:
        words: "" for an empty column; as ``read`` where there are none.
    """
    if not words:
        return read
    if len(words) == 1:
        return f"if({column} = {sql.literal(words[0])}, NULL, {read})"
    return f"if({column} IN ({', '.join(map(sql.literal, words))}), NULL, {read})"


def selecting(made: Mapping[str, str]) -> str:
    """Return the --select that replaces columns by SQL, for a shell."""
    names = [sql.bare_name(name) for name in made]
    every = f"* EXCEPT ({', '.join(names)})" if len(made) > 1 else f"* EXCEPT {names[0]}"
    listed = (f"{read} AS {name}" for name, read in zip(names, made.values(), strict=True))
    return "--select " + quoted(", ".join([every, *listed]))


def both_orders(values: Counter[str]) -> tuple[str, str] | None:
    """Return a date that has its day first and one that has its month first; None without both."""
    day_first = month_first = ""
    for value in values:
        found = _SHORT.fullmatch(value) or _LONG.fullmatch(value)
        if found is None or not (0 < int(found[1]) <= _DAYS and 0 < int(found[3]) <= _DAYS):
            return None
        if int(found[1]) > _MONTHS and int(found[3]) > _MONTHS:
            return None  # a number of parts
        day_first = day_first or (value if int(found[1]) > _MONTHS else "")
        month_first = month_first or (value if int(found[3]) > _MONTHS else "")
    return (day_first, month_first) if day_first and month_first else None


_DAYS, _MONTHS = 31, 12
