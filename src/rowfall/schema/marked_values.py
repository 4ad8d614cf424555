"""Finds the columns whose numbers or dates are written with other marks or in another order. Pure.

The options say how (``--decimal ,``, ``--dates dmy``), the sample shows in which columns: those in
which nine of ten values are written so. They are rewritten before they are read; the others are bad
rows, or make the column text, which stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from rowfall.core.model import Column, Dialect, Encoding
from rowfall.schema.type_names import parse_type

_PARTS = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?:[ T].*)?\Z")


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
    empty = {"", "\\N", *dialect.nulls}
    columns = [
        [row[i].strip() for row in rows if row[i].strip() not in empty] for i in range(len(names))
    ]
    number = _number(dialect)
    numbers = tuple(
        i for i, values in enumerate(columns)
        if marked and _most([bool(number.match(value)) for value in values])
        and not any(map(_is_code, values))
    )  # fmt: skip
    dates = tuple(
        (i, order) for i, values in enumerate(columns)
        if order and _most([_is_date(value, order) for value in values])
    )  # fmt: skip
    header = tuple(names) if encoding.has_header else ()
    return replace(encoding, dialect=replace(dialect, numbers=numbers, dates=dates, header=header))


def _most(fits: Sequence[bool]) -> bool:
    return bool(fits) and sum(fits) >= 0.9 * len(fits)


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
