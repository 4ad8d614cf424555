"""Finds the columns whose numbers or dates are written with other marks or in another order. Pure.

The options say how (``--decimal ,``, ``--dates dmy``), the sample shows in which columns: those in
which nine of ten values are written so. They are rewritten before they are read; the others are bad
rows, or make the column text, which stays as it is written.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from rowfall.core.formats import ORDERS
from rowfall.core.model import Column, Dialect, Encoding
from rowfall.core.patterns import regex
from rowfall.core.type_names import parse_type

_PARTS = regex(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?:[ T].*)?\Z")


def find_columns(
    encoding: Encoding, names: Sequence[str], rows: Sequence[Sequence[str]]
) -> Encoding:
    """Return the encoding whose dialect names the columns of such numbers and dates.

    Args:
        rows: of the sample, without a header, all as wide as ``names``.
    """
    dialect = encoding.dialect
    if dialect is None or dialect.numbers:
        return encoding
    marked = (dialect.decimal, dialect.thousands) != (".", "")
    order = next((order for column, order in dialect.dates if column < 0), "")
    if not marked and not order:
        return encoding
    columns = _columns(rows, len(names), dialect.nulls)
    numbers = tuple(
        i for i, values in enumerate(columns) if marked and _are_numbers(values, dialect)
    )
    dates = tuple(
        (i, order) for i, values in enumerate(columns)
        if order and _most(values, partial(_is_date, order=order))
    )  # fmt: skip
    # Names that the user has given are not those of the files.
    header = tuple(names) if encoding.has_header and not encoding.renamed else ()
    return replace(encoding, dialect=replace(dialect, numbers=numbers, dates=dates, header=header))


def suggest(
    dialect: Dialect, names: Sequence[str], rows: Sequence[Sequence[str]],
    words: Mapping[int, Sequence[str]],
) -> str | None:  # fmt: skip
    """Return a sentence with the options that read columns as numbers and dates, which stay text.

    Args:
        rows: of the sample, see :func:`find_columns`.
        words: for NULL, by the columns that hold numbers or times besides.
    """
    nulls = sorted({word for held in words.values() for word in held} - {*dialect.nulls})
    columns = _columns(rows, len(names), (*dialect.nulls, *nulls))
    found, flags = set(words) if nulls else set(), []
    if (dialect.decimal, dialect.thousands) == (".", ""):
        text = {i for i, values in enumerate(columns) if not _are_numbers(values, dialect)}
        fits = {
            (decimal, thousands): {
                i for i in text
                if _are_numbers(columns[i], replace(dialect, decimal=decimal, thousands=thousands))
                and any((decimal if decimal != "." else thousands) in v for v in columns[i])
            }
            for decimal, thousands in _MARKS
        }  # fmt: skip
        best = max(fits.values(), key=len)
        same = [marks for marks in _MARKS if best and fits[marks] == best]
        # 1,234 may be either: commas in front of decimals, or of three digits.
        flags += [" or ".join(dict.fromkeys(
            _flags(*marks) for marks in same[:1] + [m for m in same if m == (".", ",")]
        ))] if same else []  # fmt: skip
        found |= best
    if not dialect.dates:
        days = {
            order: {
                i
                for i, own in enumerate(columns)
                if _most(own, partial(_is_foreign_date, order=order))
            }
            for order in ORDERS
        }
        most = max(days.values(), key=len)
        if most:
            flags.append(" or ".join(f"--dates {o}" for o in days if days[o] == most))
        found |= most
    if nulls:
        listed = ",".join(nulls)
        # A word that begins with a dash would be taken for an option.
        flags.append(f"--null{'=' if listed.startswith('-') else ' '}{shlex.quote(listed)}")
    if not found:
        return None
    shown = [names[i] for i in sorted(found)]
    listed = ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
    return f"text as it is written: {listed}; {' '.join(flags)} makes numbers and dates of it"


_ISO = regex(r"\d{4}-\d\d-\d\d")
# Marks before decimals and between three digits, by how common they are. Digits with blanks and
# nothing else are telephone numbers more often.
_MARKS = ((",", ""), (",", "."), (",", " "), (".", ","), (".", "'"))


def _flags(decimal: str, thousands: str) -> str:
    flags = [f"--decimal {decimal}"] if decimal != "." else []
    return " ".join(flags + ([f"--thousands {shlex.quote(thousands)}"] if thousands else []))


def _are_numbers(values: Counter[str], dialect: Dialect) -> bool:
    number = _number(dialect)
    return _most(values, number.match) and not any(map(_is_code, values))


def _columns(
    rows: Sequence[Sequence[str]], width: int, nulls: Sequence[str]
) -> list[Counter[str]]:  # fmt: skip
    """Return the values of each column that are there, and how often each is."""
    found = [Counter(map(str.strip, column)) for column in zip(*rows, strict=True)]
    for values in found:
        for empty in ("", "\\N", *nulls):
            values.pop(empty, None)
    return found or [Counter() for _ in range(width)]


def _most(values: Counter[str], fits: Callable[[str], object]) -> bool:
    """Tell whether nine of ten values fit; of those that do not, only so many are looked at."""
    left = values.total()
    least = 0.9 * left
    for value, times in values.items():
        if not fits(value):
            left -= times
            if left < least:
                return False
    return left > 0


def only_where_read(encoding: Encoding, columns: Sequence[Column]) -> Encoding:
    """Return the encoding without columns that are read as text, which stays as it is written."""
    dialect = encoding.dialect
    if dialect is None or not (dialect.numbers or dialect.dates):
        return encoding
    order = dialect.header or [column.source for column in columns]
    texts = {
        i for i, name in enumerate(order)
        if any(c.source == name and parse_type(c.type).text for c in columns)
    }  # fmt: skip
    numbers = tuple(i for i in dialect.numbers if i not in texts)
    dates = tuple((i, order) for i, order in dialect.dates if i not in texts)
    return replace(encoding, dialect=replace(dialect, numbers=numbers, dates=dates))


def _number(dialect: Dialect) -> re.Pattern[str]:
    """Return the pattern of numbers with the marks of a dialect."""
    mark, decimal = re.escape(dialect.thousands), re.escape(dialect.decimal)
    grouped = rf"\d{{1,3}}(?:{mark}\d{{3}})+|" if mark else ""
    return re.compile(rf"-?(?:(?:{grouped}\d+)(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][-+]?\d+)?\Z")


def _is_code(value: str) -> bool:
    """Tell whether digits are no number: codes begin with zeros."""
    return len(value) > 1 and value[0] == "0" and value[1].isdigit()


def _is_foreign_date(value: str, order: str) -> bool:
    return not _ISO.match(value) and _is_date(value, order)


def _is_date(value: str, order: str) -> bool:
    found = _PARTS.match(value)
    if not found:
        return False
    parts = dict(zip(order, (found[1], found[3], found[4]), strict=True))
    try:
        date(int(parts["y"]), int(parts["m"]), int(parts["d"]))
    except ValueError:
        return False
    return len(parts["y"]) == 4
