"""Numbers that are times in a unit of which the engine knows nothing.

Avro's times of day, local timestamps and nanoseconds, and durations of Arrow and Parquet, are the
numbers in the file, which a column of times would take for seconds: 1005 milliseconds of
``time-millis`` were stored as 00:16:45. What a file says of its columns is found in
:mod:`rowfall.schema.avro_units` and :mod:`rowfall.schema.arrow_units`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex
from rowfall.core.type_names import TIMES, Type, parse_type
from rowfall.schema.bad_rows.data_errors import plain_name, shell_word
from rowfall.schema.column_facts import ColumnFacts

Units = Mapping[str, Sequence[str]]
"""Names of columns -> the words of their format for the times that are in their values."""

_DIGITS = {
    "time-millis": 3, "time-micros": 6, "timestamp-nanos": 9,
    "local-timestamp-millis": 3, "local-timestamp-micros": 6, "local-timestamp-nanos": 9,
    "duration[s]": 0, "duration[ms]": 3, "duration[us]": 6, "duration[ns]": 9,
}  # fmt: skip
"""Digits of a second that the numbers of such a word count, where the engine knows no unit."""
_TIMES = regex(rf"\b(?:{'|'.join(TIMES)}|Interval\w+)\b")
_NAMES = {0: "Second", 3: "Milli", 6: "Micro", 9: "Nano"}
_INTERVALS = {d: f"Interval{name}{'second' * (d > 0)}" for d, name in _NAMES.items()}
_CLOCKS = ("Time", "Time64")


def with_units(columns: Sequence[ColumnFacts], files: Iterable[Units]) -> list[ColumnFacts]:
    """Return the columns with the unit of their numbers, as the files say."""
    units: dict[str, str] = {}
    for file in files:
        for name, words in file.items():
            if known := [word for word in words if word in _DIGITS]:
                units[name] = known[0]
    return [
        replace(c, declared=replace(c.declared, unit=units[c.name])) if c.name in units else c
        for c in columns
    ]


def other_units(first: Units, other: Units, names: Container[str]) -> str:
    """Return a clause on columns whose times count other units than in the first file; "" for none.

    The engine's reader puts the numbers of each file into a column as they are.

    Args:
        names: of the columns that are read.
    """
    return "; ".join(
        f"{name} is {_listed(found)} instead of {_listed(first[name])}"
        for name, found in other.items()
        if name in names and found != first.get(name, found)
    )


def _listed(units: Sequence[str]) -> str:
    return ", ".join(units) or "numbers without a unit"


def units_selected(
    select: str, columns: Iterable[ColumnFacts], types: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the units of those columns of ``--select`` that are columns of the source as they are.

    Args:
        types: name and type of what it gives. What is computed of a number may be another one.
    """
    units = {column.name: column.declared.unit for column in columns if column.declared.unit}
    if not units:
        return {}
    found = dict(units)
    for item in sql.items(sql.tokens(select)):
        words = [word for word in sql.tokens(item) if word.strip()]
        for at, word in enumerate(words[1:], 1):
            named = words[at - 1].upper() == "AS" or (at == len(words) - 1 and words[-2] != ".")
            if named and word.upper() != "AS" and (name := sql.identifier(word)):
                plain = "".join(words[1:-1]).upper() in ("", "AS")
                found[name] = units.get(sql.identifier(words[0]) or "", "") if plain else ""
    return {name: found[name] for name, _ in types if found.get(name)}


def check_unit(name: str, type_: str, found: ColumnFacts, file: str) -> None:
    """Check that numbers in a unit that is not seconds are not to be read as times.

    Args:
        name, type_: of the column that they are to be stored in.
        file: that says the unit; "" for what ``--select`` gives.

    Raises:
        UsageError: they are; the hint is what computes the times.
    """
    unit = found.declared.unit
    if not unit or not _TIMES.search(type_):
        return
    duration = unit.startswith("duration")
    if duration and parse_type(type_).base == _INTERVALS[_DIGITS[unit]]:
        return  # it counts the same
    x, wanted = plain_name(found.source), parse_type(type_)
    value = _computed(x, unit, wanted)
    if found.declared.nested:
        # Lists of numbers; the parts of other values have no short way to be computed.
        own = parse_type(found.declared.type)
        flat = own.base == wanted.base == "Array" and parse_type(own.args).bits > 0
        value = _computed("v", unit, parse_type(wanted.args)) if flat else ""
        value = value and f"arrayMap(v -> {value}, {x})"
    if value:
        select = shell_word(f"* EXCEPT ({x}), {value} AS {plain_name(name)}")
        hint = f"Have them computed, without a --type for it: --select {select}"
    else:
        hint = f"Leave out the type: {name} is stored as the numbers in the file. Of a table that "
        hint += f"is there, leave out the column: --skip {x}"
    where = f"{file}: " if file else ""
    format_ = "Arrow" if duration else "Avro"
    raise UsageError(
        f"{where}the numbers of {found.source} are {unit} of {format_}, a unit that {type_} does "
        "not know",
        hint=hint,
    )


def _computed(x: str, unit: str, wanted: Type) -> str:
    """Return SQL for the times that numbers ``x`` of a unit are, of the kind that is wanted.

    Returns "" where there is none that loses nothing.
    """
    digits, number = _DIGITS[unit], f"toInt64({x})"
    moment = "timestamp" in unit
    if wanted.base.startswith("Interval"):
        finer = [name for d, name in _INTERVALS.items() if d >= digits]
        known = wanted.base in finer and not moment
        return f"CAST(to{_INTERVALS[digits]}({number}) AS Nullable({wanted.base}))" if known else ""
    if moment or wanted.base not in _CLOCKS:
        # Times of day and durations are moments of 1970 where the column has days.
        if not digits:
            return f"toDateTime64({number}, 0, 'UTC')"
        return f"fromUnixTimestamp64{_NAMES[digits]}({number}, 'UTC')"
    unit_ = 10**digits
    if not unit.startswith("time-"):
        # The cast makes 999:59:59 of all that is longer.
        beyond = f"abs({number}) >= {3_600_000 * unit_}"
        number = f"{number} + throwIf(ifNull({beyond}, 0), 'a duration of 1,000 hours or more')"
    seconds = f"CAST({number} AS Nullable(Decimal(18, {digits})))"
    seconds = f"{seconds} / {unit_}" if digits else seconds
    return f"CAST({seconds} AS Nullable(Time64({digits})))"
