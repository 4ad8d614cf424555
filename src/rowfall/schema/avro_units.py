"""Finds the columns of Avro whose numbers are times, by the schema of a file or a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from rowfall.schema.time_units import Units


def times(schema: Mapping[str, Any]) -> Units:
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
