"""Finds dates that no option makes dates of: years of two digits, days in two orders. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date

from rowfall.core import sql
from rowfall.core.formats import ORDERS
from rowfall.core.load_command import quoted
from rowfall.core.patterns import regex

_SHORT = regex(r"(\d{1,2})([./-])(\d{1,2})\2(\d{1,2})(?: (\d{1,2}:\d\d(?::\d\d)?)( [AP]M)?)?")
_LONG = regex(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T].*)?")
_LEAST = 2  # values that differ: one alone may be a version, 1.2.23


def short_years(values: Counter[str]) -> dict[str, str]:
    """Return the formats of parseDateTime, by their order of day, month and year.

    {} where a value is no date with a year of two digits, or where their marks or times differ.
    """
    found = [_SHORT.fullmatch(value) for value in values]
    if len(found) < _LEAST or not all(found):
        return {}
    parts = [m.groups() for m in found if m]
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


def _are_padded(parts: Sequence[Sequence[str]]) -> bool:
    """Tell whether all parts of days have two digits."""
    return all(len(own[n]) == len("00") for own in parts for n in (0, 2, 3))


def _is_day(parts: dict[str, str]) -> bool:
    if len(parts["y"]) != len("00"):
        return False
    try:
        date(2000 + int(parts["y"]), int(parts["m"]), int(parts["d"]))
    except ValueError:
        return False
    return True


def parsing(formats: dict[str, str], *, empty: dict[str, bool]) -> str:
    """Return the --select that makes dates of columns, by the format of each.

    Args:
        empty: whether a column holds values that are empty.
    """
    made = []
    for name, format_ in formats.items():
        column = sql.bare_name(name)
        read = f"parseDateTime({column}, {sql.literal(format_)}, 'UTC')"
        read = read if " %" in format_ else f"toDate32({read})"
        # It raises at the empty text below a NULL of nullIf.
        made.append((column, f"if({column} = '', NULL, {read})" if empty[name] else read))
    names = ", ".join(column for column, _ in made)
    every = f"* EXCEPT ({names})" if len(made) > 1 else f"* EXCEPT {names}"
    return "--select " + quoted(", ".join([every, *(f"{e} AS {c}" for c, e in made)]))


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
