"""Finds the columns of Avro whose numbers are times in a unit that the engine does not know.

It reads timestamps in milliseconds and microseconds, and days. Times of day, local timestamps and
nanoseconds are the numbers in the file, which a column of times would take for seconds: 1005
milliseconds of ``time-millis`` were stored as 00:16:45.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex
from rowfall.core.type_names import TIMES
from rowfall.schema.bad_rows.data_errors import plain_name, shell_word
from rowfall.schema.column_facts import ColumnFacts

_DIGITS = {
    "time-millis": 3, "time-micros": 6, "timestamp-nanos": 9,
    "local-timestamp-millis": 3, "local-timestamp-micros": 6, "local-timestamp-nanos": 9,
}  # fmt: skip
"""Digits of a second that the numbers of a logical type count, where the engine knows no unit."""
_TIMES = regex(rf"\b(?:{'|'.join(TIMES)})\b")
_FROM_UNIX = {3: "Milli", 6: "Micro", 9: "Nano"}


def with_units(
    columns: Sequence[ColumnFacts], schemas: Iterable[Mapping[str, Any]]
) -> list[ColumnFacts]:
    """Return the columns with the unit of their numbers, as the schemas of the files say."""
    units: dict[str, str] = {}
    for schema in schemas:
        units |= _units(schema)
    return [
        replace(c, declared=replace(c.declared, unit=units[c.name])) if c.name in units else c
        for c in columns
    ]


def other_units(first: Mapping[str, Any], other: Mapping[str, Any], names: Container[str]) -> str:
    """Return a clause on columns whose times count other units than in the first file; "" for none.

    The engine's reader puts the numbers of each file into a column as they are.

    Args:
        names: of the columns that are read.
    """
    ours, theirs = _times(first), _times(other)
    return "; ".join(
        f"{name} is {_listed(found)} instead of {_listed(ours[name])}"
        for name, found in theirs.items()
        if name in names and found != ours.get(name, found)
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


def _units(schema: Mapping[str, Any]) -> dict[str, str]:
    found = {name: [u for u in units if u in _DIGITS] for name, units in _times(schema).items()}
    return {name: units[0] for name, units in found.items() if units}


def _times(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the logical types of the numbers in each column that are times; {} of no schema."""
    with suppress(LookupError, TypeError, AttributeError, RecursionError):
        records = dict(_records(schema))
        return {str(f["name"]): tuple(_logical(f["type"], dict(records))) for f in schema["fields"]}
    return {}


def _records(type_: Any) -> Iterator[tuple[str, Any]]:
    """Give the records in a type, at any depth, by their name."""
    if isinstance(type_, list):
        for part in type_:
            yield from _records(part)
    elif isinstance(type_, dict):
        if type_.get("type") == "record":
            yield str(type_["name"]).rpartition(".")[2], type_
        for part in _parts(type_):
            yield from _records(part)


def _logical(type_: Any, records: dict[str, Any]) -> Iterator[str]:
    """Give the logical types of times in a type, at any depth.

    Args:
        records: what their names stand for; each is taken once, as it may be part of itself.
    """
    if isinstance(type_, str):
        yield from _logical(records.pop(type_.rpartition(".")[2], []), records)
    elif isinstance(type_, list):
        for part in type_:
            yield from _logical(part, records)
    elif isinstance(type_, dict):
        unit = str(type_.get("logicalType", ""))
        if type_.get("type") in ("int", "long") and ("time" in unit or unit == "date"):
            yield unit
        for part in _parts(type_):
            yield from _logical(part, records)


def _parts(type_: Mapping[str, Any]) -> list[Any]:
    """Return the types that stand in one."""
    inner = [type_[word] for word in ("type", "items", "values") if word in type_]
    return inner + [field["type"] for field in type_.get("fields", ())]


def check_unit(name: str, type_: str, found: ColumnFacts) -> None:
    """Check that numbers in a unit that is not seconds are not to be read as times.

    Args:
        name, type_: of the column that they are to be stored in.

    Raises:
        UsageError: they are; the hint is what computes the times.
    """
    unit = found.declared.unit
    if not unit or not _TIMES.search(type_):
        return
    hint = f"Leave out the type: {name} is stored as the numbers in the file."
    if not found.declared.nested:
        digits = _DIGITS[unit]
        x = plain_name(found.source)
        if unit.startswith("time-"):
            numbers = f"CAST({x} AS Nullable(Decimal(18, {digits})))"
            value = f"CAST({numbers} / {10**digits} AS Nullable(Time64({digits})))"
        else:
            value = f"fromUnixTimestamp64{_FROM_UNIX[digits]}({x}, 'UTC')"
        select = shell_word(f"* EXCEPT ({x}), {value} AS {plain_name(name)}")
        hint = f"Have them computed, without a --type for it: --select {select}"
    raise UsageError(
        f"the numbers of {found.source} are {unit} of Avro, a unit that {type_} does not know",
        hint=hint,
    )
