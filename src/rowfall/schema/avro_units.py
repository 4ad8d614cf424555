"""Finds the columns of Avro whose numbers are times in a unit that the engine does not know.

It reads timestamps in milliseconds and microseconds, and days. Times of day, local timestamps and
nanoseconds are the numbers in the file, which a column of times would take for seconds: 1005
milliseconds of ``time-millis`` were stored as 00:16:45.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

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
        with suppress(LookupError, TypeError, AttributeError, RecursionError):  # no such schema
            units |= _units(schema)
    return [
        replace(c, declared=replace(c.declared, unit=units[c.name])) if c.name in units else c
        for c in columns
    ]


def _units(schema: Mapping[str, Any]) -> dict[str, str]:
    found = ((str(f["name"]), next(_logical(f["type"]), "")) for f in schema["fields"])
    return {name: unit for name, unit in found if unit}


def _logical(type_: Any) -> Iterator[str]:
    """Give the logical types in a type, at any depth, whose unit the engine does not know."""
    if isinstance(type_, list):
        for part in type_:
            yield from _logical(part)
    elif isinstance(type_, dict):
        unit = type_.get("logicalType")
        if unit in _DIGITS and type_.get("type") in ("int", "long"):
            yield str(unit)
        for part in (type_.get("type"), type_.get("items"), type_.get("values")):
            yield from _logical(part)
        for field in type_.get("fields", ()):
            yield from _logical(field["type"])


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
        f"the numbers of {found.source} are {unit} of Avro, which {type_} would take for seconds",
        hint=hint,
    )
