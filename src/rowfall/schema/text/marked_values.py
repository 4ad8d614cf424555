"""Finds the columns whose numbers or dates are written with other marks or in another order. Pure.

The options say how (``--decimal ,``, ``--dates dmy``), the sample shows in which columns: those in
which nine of ten values are written so. They are rewritten before they are read; the others are bad
rows, or make the column text, which stays as it is written.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from functools import partial
from itertools import pairwise

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.formats import ORDERS, spelled_mark
from rowfall.core.model import Column, Dialect, Encoding
from rowfall.core.patterns import regex
from rowfall.core.type_names import Type, parse_type
from rowfall.core.value_kinds import NULL_WORDS, value_class
from rowfall.schema.text import odd_dates, odd_numbers
from rowfall.schema.text.shown_values import ShownValues

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
    # Names that were given, or made of those of the header, are not those of the files.
    header = tuple(names) if encoding.has_header and not encoding.header else ()
    return replace(encoding, dialect=replace(dialect, numbers=numbers, dates=dates, header=header))


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A sentence about columns of text that options read as numbers and dates.

    Attributes:
        flags: that do, of all values seen; None where only the user knows which, or none does yet.
    """

    text: str
    flags: str | None = None


def suggest(
    dialect: Dialect, names: Sequence[str], rows: Sequence[Sequence[str]],
    every: Sequence[Sequence[str]], words: Mapping[int, Sequence[str]], known: Sequence[str],
) -> Sequence[Suggestion]:  # fmt: skip
    """Return the options that make numbers and dates of columns, tried on all values seen.

    Args:
        known: the value of each column that is no exception: its name, or its unit.
        rows: some of the sample, see :func:`find_columns`; ``every`` are all of it.
        words: for NULL, by the columns that hold numbers or times besides.
    """
    unknown = {i: {*own} - {*dialect.nulls} for i, own in words.items()}
    words = {i: sorted(own) for i, own in unknown.items() if own}
    held = {word for own in words.values() for word in own}
    nulls = (*dialect.nulls, *held)
    columns = _columns(rows, len(names), nulls)
    marks, numbers = _marks_of(columns, dialect)
    ordered = any(form in ORDERS for _, form in dialect.dates)
    orders, dates = ([], set()) if ordered else _orders_of(columns)
    fits: dict[int, Callable[[str], bool]] = {}
    fits |= {i: _reads_dates(columns[i], orders[0]) for i in dates}
    fits |= {i: _reads_numbers(_with(dialect, marks[0])) for i in numbers}
    if (dialect.decimal, dialect.thousands) != (".", ""):
        marks = []  # they are read so already
    fits |= {i: _reads_plain(columns[i]) for i in words if i not in fits}
    odd = {}
    for i, fit in fits.items():
        (values,) = _columns([(row[i],) for row in every], 1, nulls)
        odd[i] = next((value for value in values if not fit(value)), None)
    found = {i for i, value in odd.items() if value is None}
    flags: list[str] = []
    if numbers & found:
        # 1,234 may be either: commas in front of decimals, or of three digits.
        flags += filter(None, [" or ".join(dict.fromkeys(_flags(*own) for own in marks))])
    if dates & found:
        flags.append(" or ".join(f"--dates {order}" for order in orders))
    if needed := sorted(held & {word for i in found for word in words.get(i, ())}):
        listed = ",".join(needed)
        # A word that begins with a dash would be taken for an option.
        flags.append(f"--null{'=' if listed.startswith('-') else ' '}{shlex.quote(listed)}")
    said = []
    if found and flags:
        options = " ".join(flags)
        text = f"text as it is written: {_some([names[i] for i in sorted(found)])}"
        said.append(Suggestion(
            f"{text}; {options} makes numbers and dates of it",
            None if " or " in options else options,  # the user knows which
        ))  # fmt: skip
    plain = {i for i in range(len(names)) if i not in odd}
    every_value = _columns(every, len(names), ()) if plain else ()
    short = {i: own for i in plain if (own := odd_dates.short_years(every_value[i]))}
    if short:
        said += _of_short_years({names[i]: own for i, own in short.items()},
                                {names[i]: _empty(every, i) for i in short})  # fmt: skip
    mixed = {i: two for i in plain if (two := odd_dates.both_orders(every_value[i]))}
    said += [
        Suggestion(
            f"text as it is written: {names[i]}, which holds days in two orders, {day_first} and "
            f"{month_first}; no option reads both"
        )
        for i, (day_first, month_first) in mixed.items()
    ]
    plain -= {*short, *mixed}
    may_be = {
        i: maybe for i in plain if (maybe := _odd_values([row[i] for row in every], dialect.nulls))
    }
    ways = {i: sqls for i, held in may_be.items() if (sqls := _odd_readings(names[i], held))}
    plain -= {*ways}
    unlike = {
        i: two for i, held in may_be.items()
        if i not in ways and (two := odd_numbers.of_several_units(held.values))
    }  # fmt: skip
    said += [
        Suggestion(
            f"text as it is written: {names[i]}, which holds amounts of several kinds, {one} and "
            f"{other}; no option makes one number of both"
        )
        for i, (one, other) in unlike.items()
    ]
    plain -= {*unlike}
    kinds = {i: kind for i in plain if columns[i] and (kind := spelled_kind(columns[i]))}
    for i in plain - set(kinds):
        value = _exception(columns[i])
        odd[i] = value if value != known[i].strip() else None
    for i, kind in kinds.items():
        (values,) = _columns([(row[i],) for row in every], 1, ())
        odd[i] = next((value for value in values if spelled(value) != kind), None)
    ways |= {i: [spelled_reading(names[i], kind, empty=_empty(every, i))]
             for i, kind in kinds.items() if odd[i] is None}  # fmt: skip
    said += of_readings({names[i]: ways[i] for i in sorted(ways)})
    lists = {i: many for i in plain if (many := _numbers_in(columns[i]))}
    said += [
        Suggestion(
            f"text as it is written: {names[i]}, which holds {count} numbers, set apart by blanks"
        )
        for i, count in lists.items()
    ]
    left = [f'{names[i]} for "{value}"' for i, value in sorted(odd.items()) if value is not None]
    if (word := _word_for_none(odd.values())) and not dialect.nulls:
        some = [names[i] for i, value in sorted(odd.items()) if value == word]
        flags_ = f"--null{'=' if word.startswith('-') else ' '}{shlex.quote(word)}"
        said.append(Suggestion(
            f"text as it is written: {_some(some)}; {flags_} makes numbers and dates of it", flags_,
        ))  # fmt: skip
        left = [one for one in left if not one.endswith(f'for "{word}"')]
    if left:
        said.append(Suggestion(
            f"text as it is written: {_some(left)}; all others are numbers or dates"
        ))  # fmt: skip
    return said


def _word_for_none(values: Iterable[str | None]) -> str:
    """Return the word that stands for no value, as loggers write it; "" where none is likely.

    Marks alone, or a letter or two that stand in several columns of numbers.
    """
    held = Counter(value for value in values if value)
    for word, columns in held.most_common(1):
        marks = not any(map(str.isalnum, word)) and "," not in word
        if marks or (columns > 1 and len(word) <= len("MM") and word.isalpha()):
            return word
    return ""


def _of_short_years(
    formats: Mapping[str, dict[str, str]], empty: dict[str, bool]
) -> list[Suggestion]:
    """Return what is to be said about columns with years of two digits, by order of the parts."""
    told = f"text as it is written: {_some([*formats])}, with years of two digits"
    orders = [order for order in ORDERS if all(order in own for own in formats.values())]
    flags = [
        odd_dates.parsing({name: own[order] for name, own in formats.items()}, empty=empty)
        for order in orders
    ]
    if not flags:
        return [Suggestion(told)]
    text = f"{told}; {' or '.join(flags)} makes dates of it, 70 to 99 of them before 2000"
    return [Suggestion(text, flags[0] if len(flags) == 1 else None)]


@dataclass(frozen=True, slots=True)
class _OddValues:
    """Values of a column that may be odd numbers or dates.

    Attributes:
        values: as they are without blanks around them; ``blanks``: some have such.
        empty: those that stand for no value, which are not among ``values``.
    """

    values: Counter[str]
    empty: Sequence[str]
    blanks: bool


def _odd_values(rows: Sequence[str], nulls: Sequence[str]) -> _OddValues | None:
    """Return the values of a column that may be odd numbers or dates; None for most columns.

    Args:
        nulls: what is NULL by the options given; words that stand for no value are as well.
    """
    shown = (value for value in map(str.strip, rows) if value and value not in NULL_WORDS)
    first = next(shown, "")
    # Most columns of numbers are plain, and without one that is not the patterns need no compiling.
    if value_class([first]) == "number" and not odd_numbers.have_signs(rows):
        return None
    if not (odd_dates.may_be(first) or odd_numbers.may_be(first)):
        return None  # without a look at all rows: most columns of text are words
    values = Counter(map(str.strip, rows))
    empty = sorted(word for word in values if word in ("", *NULL_WORDS, *nulls))
    for word in empty:
        values.pop(word)
    blanks = any(value != value.strip() for value in rows)
    return _OddValues(values, empty, blanks) if values else None


def _odd_readings(name: str, own: _OddValues) -> list[str]:
    """Return SQL that makes numbers or dates of a column; [] for none, two where one is right."""
    column = sql.bare_name(name)
    if own.blanks:
        column = f"trim({column})"
    made = []
    if format_ := odd_dates.signed(own.values):
        made = [odd_dates.reading(column, format_)]
    elif both := odd_dates.beside_year_first(own.values):
        made = [odd_dates.reading(column, *formats) for formats in both.values()]
    elif numbers := odd_numbers.odd_numbers(own.values):
        made = [odd_numbers.reading(column, numbers, marks) for marks in numbers.marks]
    return [odd_dates.unless_empty(column, read, own.empty) for read in made]


def of_readings(made: Mapping[str, list[str]]) -> list[Suggestion]:
    """Return what is to be said about columns that SQL reads, by the ways in which each may be."""
    found = []
    if sure := {name: reads[0] for name, reads in made.items() if len(reads) == 1}:
        found.append((_some([*sure]), [odd_dates.selecting(sure)]))
    found += [
        (name, [odd_dates.selecting({name: own}) for own in reads])
        for name, reads in made.items()
        if len(reads) > 1
    ]
    return [
        Suggestion(
            f"text as it is written: {names}; {' or '.join(flags)} makes numbers and dates of it",
            flags[0] if len(flags) == 1 else None,  # the user knows which
        )
        for names, flags in found
    ]


_NUMBERS = regex(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?: +-?(?:0|[1-9]\d*)(?:\.\d+)?){2,}")


def _numbers_in(values: Counter[str]) -> int:
    """Return how many numbers each value holds, three at least; 0 where they are no numbers."""
    if not values or not _NUMBERS.fullmatch(next(iter(values))):
        return 0
    counts = {len(v.split()) if _NUMBERS.fullmatch(v) else 0 for v in values}
    return counts.pop() if len(counts) == 1 else 0


def _exception(values: Counter[str]) -> str | None:
    """Return the only value of a column of numbers or times that is none; None where there is none.

    Of a few rows it is one among three; of more, one of ten rows may hold it.
    """
    if not values.total() >= _FEW_ROWS or len(values) == 1:
        return None
    found = None
    kinds = set()
    for value in values:
        if kind := "amount" if odd_numbers.has_unit(value) else value_class([value]):
            kinds.add(kind)
        if kind not in ("number", "time", "amount"):
            if found is not None:
                return None
            found = value
    kinds.discard("text")
    if found is None or len(kinds) > 1 or _is_code(found):
        return None
    return found if values[found] <= max(1, values.total() // 10) else None


_FEW_ROWS = 4


def _empty(rows: Sequence[Sequence[str]], column: int) -> bool:
    return any(not row[column].strip() for row in rows)


# Dates and times that no order of numbers describes, and parseDateTime64BestEffort reads right. It
# takes "Dec-31-2023" for another year, so only what it was tried on is named.
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|january|february|march|april|june|july|"
    "august|september|october|november|december)"
)
_OF_DAY = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?"
_ZONE = r"(?:[-+](?:0\d|1[0-4])(?::?[0-5]\d)?|UTC|GMT)"
_WITH_ZONE = regex(rf"(\d{{4}})-(\d\d)-(\d\d)[ T]{_OF_DAY} ?(?:{_ZONE}|Z)", re.I)
_NAMED_ZONE = regex(r" ?\[[A-Za-z_/+-]+\]\Z")  # as Java writes it behind the offset
_WITH_MONTH = regex(
    rf"(?:(?:mon|tue|wed|thu|fri|sat|sun), )?(\d{{1,2}})[- ]{_MONTH}[- ](\d{{4}})"
    rf"(?:[ T]({_OF_DAY})(?: ?[ap]m)?(?: {_ZONE})?)?",
    re.I,
)
_MONTH_FIRST = regex(rf"{_MONTH} (\d{{1,2}}),? (\d{{4}})(?: ({_OF_DAY})(?: ?[ap]m)?)?", re.I)


def spelled_kind(values: Counter[str]) -> str:
    """Return whether most values are days or times with a zone or the name of a month."""
    kind = spelled(next(iter(values)))
    if not kind or not _most(values, lambda value: spelled(value) == kind):
        return ""
    # Times that end in Z, all of them, are read as they are.
    return kind if any(value_class([value]) == "text" for value in values) else ""


def spelled(value: str) -> str:
    """Return "day", or "time", of a value with a zone or the name of a month; "" of others.

    Of one with the name of its zone behind the offset "zoned".
    """
    if value.endswith("]") and (found := _WITH_ZONE.fullmatch(_NAMED_ZONE.sub("", value))):
        return "zoned"
    if found := _WITH_ZONE.fullmatch(value):
        year, month, day, timed = found[1], int(found[2]), found[3], True
    elif value.upper() == value.lower():
        return ""  # without a letter no month: the patterns of months take 3 ms to compile
    elif found := _WITH_MONTH.fullmatch(value):
        year, month, day, timed = found[3], _number_of(found[2]), found[1], found[4] is not None
    elif found := _MONTH_FIRST.fullmatch(value):
        year, month, day, timed = found[3], _number_of(found[1]), found[2], found[4] is not None
    else:
        return ""
    try:
        date(int(year), month, int(day))
    except ValueError:
        return ""
    return "time" if timed else "day"


def _number_of(month: str) -> int:
    return _MONTHS.index(month[:3].lower()) + 1


def spelled_reading(name: str, kind: str, *, empty: bool) -> str:
    """Return SQL that parses a column, by its kind and whether it has empty values."""
    column = sql.bare_name(name)
    value = f"nullIf({column}, '')" if empty else column
    if kind == "zoned":
        value = f"trim(splitByChar('[', {value})[1])"
    read = f"parseDateTime64BestEffort({value}, 6, 'UTC')"
    return f"toDate32({read})" if kind == "day" else read


def _some(shown: Sequence[str]) -> str:
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _with(dialect: Dialect, marks: tuple[str, str]) -> Dialect:
    return replace(dialect, decimal=marks[0], thousands=marks[1])


def _marks_of(
    columns: Sequence[Counter[str]], dialect: Dialect
) -> tuple[list[tuple[str, str]], set[int]]:
    """Return marks by which most columns of text are numbers, and these columns."""
    if (own := (dialect.decimal, dialect.thousands)) != (".", ""):
        return [own], {
            i for i, values in enumerate(columns)
            if _are_numbers(values, dialect) and not _are_numbers(values, Dialect())
            and any(mark and mark in value for mark in own for value in values)
        }  # fmt: skip
    text = {i for i, values in enumerate(columns) if not _are_numbers(values, dialect)}
    fits = {
        (decimal, thousands): {
            i for i in text
            if _are_numbers(columns[i], _with(dialect, (decimal, thousands)))
            and _show(columns[i], decimal, thousands)
        }
        for decimal, thousands in _MARKS
    }  # fmt: skip
    best = max(fits.values(), key=len)
    same = [marks for marks in _MARKS if best and fits[marks] == best]
    return same[:1] + [marks for marks in same[1:] if marks == (".", ",")], best


def _show(values: Counter[str], decimal: str, thousands: str) -> bool:
    """Tell whether values hold the marks, so that nothing plainer reads them.

    Digits with points or blanks alone are numbers where they have groups of several lengths:
    1.234 and 10.345.678; 123 456 and 234 567 may be telephone numbers.
    """
    held = [v for v in values if thousands and thousands in v]
    if thousands and not held:
        return False
    if decimal != "." and any(decimal in v for v in values):
        return True
    if thousands not in (".", " "):
        return bool(held)
    lengths = {len(v.lstrip("-")) for v in held}
    return len(lengths) > 1 and (thousands != "." or any(v.count(".") > 1 for v in held))


def _orders_of(columns: Sequence[Counter[str]]) -> tuple[list[str], set[int]]:
    """Return orders of day, month and year by which most columns are dates, and these columns."""
    days = {
        order: {
            i
            for i, own in enumerate(columns)
            if _most(own, partial(_is_foreign_date, order=order))
        }
        for order in ORDERS
    }  # fmt: skip
    most = max(days.values(), key=len)
    return [order for order in days if most and days[order] == most], most


def shown_order(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the only order of day, month and year that makes dates of columns; "" for none.

    Every value of such a column has to be a date by it, and no column one by another.

    Args:
        rows: of the sample, without a header, all as wide as ``names``.
    """
    columns = _columns(rows, len(names), ())
    orders, dates = _orders_of(columns)
    held = {value for i in dates for value in columns[i]}
    if len(orders) > 1 and held and all(map(_POINTED.fullmatch, held)) and "dmy" in orders:
        orders = ["dmy"]  # between points the day comes first, wherever they are written
    if len(orders) > 1:
        steady = [
            order for order in orders
            if dates and all(_goes_on([row[i] for row in rows], order) for i in dates)
        ]  # fmt: skip
        orders = steady if len(steady) == 1 else []
    if len(orders) != 1:
        return ""
    for i in dates:
        reads = _reads_dates(columns[i], orders[0])
        if not all(map(reads, columns[i])):
            return ""
    rest = [own for i, own in enumerate(columns) if i not in dates]
    return "" if _orders_of(rest)[1] else orders[0]


_POINTED = regex(r"\d\d\.\d\d\.\d{4}(?:[ T].*)?")


def _goes_on(values: Sequence[str], order: str) -> bool:
    """Tell whether times follow each other within an hour by an order, over midnight, too.

    A logger has written them; by another order each midnight would be one of a month. Days alone
    may be the first ones of months.
    """
    times: list[datetime] = []
    for value in values:
        found = _PARTS.match(value.strip())
        day, clock = _date_and_time(value.strip())
        if found is None or not _is_date(day, order) or not clock:
            return False
        parts = dict(zip(order, (found[1], found[3], found[4]), strict=True))
        try:
            own = date(int(parts["y"]), int(parts["m"]), int(parts["d"]))
            times.append(datetime.combine(own, time.fromisoformat(clock)))
        except ValueError:
            return False
    steps = {b - a for a, b in pairwise(times)}
    nights = sum(a.date() != b.date() for a, b in pairwise(times))
    return nights > 0 and timedelta(0) <= min(steps) <= max(steps) <= _STEP


_STEP = timedelta(hours=1)


def with_shown(encoding: Encoding, names: Sequence[str], shown: ShownValues) -> Encoding:
    """Return the encoding by which the columns of :func:`find_shown` are rewritten."""
    dialect = encoding.dialect or Dialect()
    if shown.numbers or shown.units:
        dialect = replace(
            dialect, decimal=shown.decimal, thousands=shown.thousands, numbers=shown.numbers,
            units=shown.units,
        )  # fmt: skip
    held = {i for i, _ in shown.dates}
    dates = (*(own for own in dialect.dates if own[0] not in held), *shown.dates)
    header = tuple(names) if encoding.has_header and not encoding.header else ()
    return replace(encoding, dialect=replace(dialect, dates=dates, header=header))


def _reads_dates(values: Counter[str], order: str) -> Callable[[str], bool]:
    """Return a predicate: a value is a date, with or without a time like most of the column.

    What stands behind a date has to be a time of day that the rewriting knows.
    """
    timed = _most(values, lambda value: _date_and_time(value)[1])

    def reads(value: str) -> bool:
        day, time = _date_and_time(value)
        known = _is_date(day, order) or _is_date(day, "ymd")  # as it is, too
        return known and bool(time) == timed and (not time or _is_time(time))

    return reads


def _date_and_time(value: str) -> tuple[str, str]:
    day, _, time = value.replace("T", " ", 1).partition(" ")
    return day, time.strip()


def _is_time(value: str) -> bool:
    found = _CLOCK.fullmatch(value)
    if not found:
        return False
    hour = int(found[1])
    return 1 <= hour <= 12 if found[2] else hour < 24


_CLOCK = regex(r"(\d{1,2}):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?: ?([AaPp][Mm]))?")


def _reads_numbers(dialect: Dialect) -> Callable[[str], bool]:
    number = _number(dialect)
    return lambda value: number.match(value) is not None and not _is_code(value)


def _reads_plain(values: Counter[str]) -> Callable[[str], bool]:
    """Return a predicate: a value is of the class (number, time, bool) of the column's values."""
    some = value_class([*values])
    return lambda value: some in ("number", "time", "bool") and value_class([value]) == some


_ISO = regex(r"\d{4}-\d\d-\d\d")
# Marks before decimals and between three digits, by how common they are.
_MARKS = (
    (",", ""), (",", "."), (",", " "), (".", ","), (".", "'"),
    (",", "\u00a0"), (",", "\u202f"), (".", " "), (".", "\u00a0"), (".", "\u202f"),
)  # fmt: skip


def _flags(decimal: str, thousands: str) -> str:
    flags = [f"--decimal {decimal}"] if decimal != "." else []
    mark = spelled_mark(thousands)
    return " ".join(flags + ([f"--thousands {shlex.quote(mark)}"] if mark else []))


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
    if dialect is None or not (
        dialect.numbers or dialect.units or dialect.dates or dialect.missing
    ):
        return encoding
    order = dialect.header or [column.source for column in columns]
    texts = {
        i for i, name in enumerate(order)
        if any(c.source == name and parse_type(c.type).text for c in columns)
    }  # fmt: skip
    numbers = tuple(i for i in dialect.numbers if i not in texts)
    units = tuple((i, unit) for i, unit in dialect.units if i not in texts)
    dates = tuple((i, order) for i, order in dialect.dates if i not in texts)
    # What a column without NULL makes of an empty field is not what such a word means.
    takers = {
        i for i, name in enumerate(order)
        if any(c.source == name and _takes_missing(parse_type(c.type)) for c in columns)
    }  # fmt: skip
    missing = tuple((i, words) for i, words in dialect.missing if i in takers)
    dialect = replace(dialect, numbers=numbers, units=units, dates=dates, missing=missing)
    return replace(encoding, dialect=dialect)


def _takes_missing(target: Type) -> bool:
    return target.nullable and not target.text and not target.base.startswith("Enum")


def describe_missing(encoding: Encoding, columns: Sequence[Column]) -> str:
    """Return a sentence about words that are NULL in columns of numbers and times; "" for none."""
    dialect = encoding.dialect
    if dialect is None or not dialect.missing:
        return ""
    names = dialect.header or [column.source for column in columns]
    words = list(dict.fromkeys(word for _, own in dialect.missing for word in own))
    some = _some([names[i] for i, _ in dialect.missing])
    keeps = shlex.quote(f"{names[dialect.missing[0][0]]} String")
    return (
        f"{' and '.join(words)} {'is' if len(words) == 1 else 'are'} NULL in {some}, where all "
        f"else is a number or a time; --type {keeps} keeps it as it is written"
    )


def describe_dates(encoding: Encoding, columns: Sequence[Column]) -> str:
    """Return a sentence about dates whose order the sample shows; "" for none, or by an option."""
    dialect = encoding.dialect
    if dialect is None or not dialect.dates or any(column < 0 for column, _ in dialect.dates):
        return ""
    names = dialect.header or [column.source for column in columns]
    told = []
    for form in dict.fromkeys(form for _, form in dialect.dates):
        some = [names[i] for i, own in dialect.dates if own == form]
        what = _FORMS[form]
        if form == "utc":
            what += ", and is read so" if len(some) == 1 else ", and are read so"
        told.append(_held(some, what))
    return ". ".join(told)


_FORMS = {
    "dmy": "dates written as day, month, year",
    "mdy": "dates written as month, day, year",
    "ymd": "dates written as year, month, day",
    "utc": "times at UTC, as each says",
    "dmy2": "dates written as day, month, year, of which 70 to 99 are before 2000",
    "mdy2": "dates written as month, day, year, of which 70 to 99 are before 2000",
    "named": "dates with the names of months",
}


def describe_numbers(encoding: Encoding, columns: Sequence[Column]) -> str:
    """Return a sentence about numbers that are rewritten; "" for none."""
    dialect = encoding.dialect
    if dialect is None or not (dialect.numbers or dialect.units):
        return ""
    names = dialect.header or [column.source for column in columns]
    marks = []
    if dialect.decimal == ",":
        marks.append("decimal commas")
    if dialect.thousands:
        mark = {",": "commas", ".": "points", "'": "apostrophes"}.get(dialect.thousands, "blanks")
        mark = "apostrophes" if dialect.thousands == "\u2019" else mark
        marks.append(f"{mark} between thousands")
    told = []
    if dialect.numbers:
        some = [names[i] for i in dialect.numbers]
        told.append(_held(some, f"numbers with {' and '.join(marks)}"))
    for unit in dict.fromkeys(unit for _, unit in dialect.units):
        some = [names[i] for i, own in dialect.units if own == unit]
        what = f"numbers with {unit}, which is left out" if unit else (
            "numbers of which negative ones are in brackets or have a minus behind them"
        )  # fmt: skip
        told.append(_held(some, what))
    return ". ".join(told)


def _held(some: Sequence[str], what: str) -> str:
    return (
        f"{_some(some)} {'holds' if len(some) == 1 else 'hold'} {what}; "
        f"--type {shlex.quote(f'{some[0]} String')} keeps it as it is written"
    )


def _number(dialect: Dialect) -> re.Pattern[str]:
    """Return the pattern of numbers with the marks of a dialect."""
    mark, decimal = re.escape(dialect.thousands), re.escape(dialect.decimal)
    grouped = rf"\d{{1,3}}(?:{mark}\d{{3}})+|" if mark else ""
    return re.compile(rf"-?(?:(?:{grouped}\d+)(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][-+]?\d+)?\Z")


def _is_code(value: str) -> bool:
    """Tell whether digits are no number: codes begin with zeros."""
    return len(value) > 1 and value[0] == "0" and value[1].isdigit()


def _is_foreign_date(value: str, order: str) -> bool:
    return (not _ISO.match(value) or bool(_MINUTES.fullmatch(value))) and _is_date(value, order)


# What no reader takes for a time as it is, and --dates ymd makes one of.
_MINUTES = regex(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")


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
