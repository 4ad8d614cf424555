"""The ways back from a cheaper reading: what failed may have been the reading, not the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.schema.codec import NUMBERS, Evidence, codec, parse_type


def is_fast(schema: Schema) -> bool:
    """Whether some integer is read as a number because the sample held no 0."""
    return any(c.read_type in NUMBERS for c in schema.columns)


def careful(schema: Schema, encoding: Encoding) -> Schema:
    """The schema with all integers of text formats read as text."""
    seen = Evidence(native=bool(encoding.null))
    return _again(schema, encoding, lambda c: c.read_type in NUMBERS, seen)


def guards_breaks(schema: Schema) -> bool:
    """Whether some string column takes a line break for a quote never closed."""
    return any(_guarded(c) for c in schema.columns)


def holds_breaks(columns: Sequence[Column]) -> bool:
    """Whether some string of CSV was seen to hold line breaks, so that they are not guarded."""
    return any(parse_type(c.type).text and not _guarded(c) for c in columns)


def with_breaks(schema: Schema, encoding: Encoding) -> Schema:
    """String columns that may hold line breaks, when all quotes are known to be closed."""
    return _again(schema, encoding, _guarded, Evidence(breaks=True, native=bool(encoding.null)))


def _guarded(column: Column) -> bool:
    return "line break in" in column.expression


def _again(
    schema: Schema, encoding: Encoding, which: Callable[[Column], bool], seen: Evidence
) -> Schema:
    csv = encoding.is_csv
    columns = tuple(
        replace(codec(c.name, c.source, c.type, Kind.TEXT, csv=csv, seen=seen), reason=c.reason)
        if which(c)
        else c
        for c in schema.columns
    )
    return replace(schema, columns=columns)
