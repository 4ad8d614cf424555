"""Columns of formats with types, as the engine describes them, and types that fit several files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rowfall.core import formats
from rowfall.core.errors import SourceError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.core.type_names import parse_type
from rowfall.schema.column_facts import ColumnFacts, DeclaredType, Relate, RunSelect
from rowfall.schema.text.text_format import UNSURE
from rowfall.schema.types import footers
from rowfall.schema.types.strict_reading import days_of


def described(
    relate: Relate, splits: Sequence[Split], encoding: Encoding, ask: RunSelect
) -> list[ColumnFacts]:
    """Return names and types as the engine describes them."""
    fixed: dict[str, str | int | float] = {
        "input_format_try_infer_dates": 0, "input_format_try_infer_datetimes": 0,
        "use_hive_partitioning": 0, "schema_inference_make_columns_nullable": 3,
        "input_format_parallel_parsing": 0,
    }  # fmt: skip
    rows = ask(SqlText.of("DESCRIBE TABLE ", relate(splits[:1], encoding, "")), fixed)
    if not rows:
        raise SourceError(f"{splits[0].uri} holds no columns")
    return as_described([(str(row[0]), str(row[1])) for row in rows], encoding)


def as_described(types: Sequence[tuple[str, str]], encoding: Encoding) -> list[ColumnFacts]:
    """Return columns as their names and types say."""
    columns = []
    for name, declared in types:
        type_ = parse_type(declared)
        if type_.base in _SHAPES and encoding.format == "Parquet":
            columns.append(ColumnFacts(name, DeclaredType("Nullable(String)", why=_WKB)))
            continue
        if type_.base == "Nothing":  # a column of Avro that holds NULL alone, as no column does
            columns.append(ColumnFacts(name, DeclaredType("Nullable(String)")))
            continue
        nested = type_.base in ("Array", "Tuple", "Map", "JSON", "Object", "Variant", "Dynamic")
        if encoding.format == "BSONEachRow":
            declared = _SHORT.sub("Int64", declared.replace(*_OF_BSON))
        if encoding.format in formats.ARROW:
            declared = _DICTIONARY.sub(_of_dictionary, declared)
        days = days_of(declared) if encoding.format in formats.ARROW else declared
        given = DeclaredType(days, nested, stored=declared if days != declared else "")
        columns.append(ColumnFacts(name, given))
    return columns


# BSON counts milliseconds, which the engine reads as they are into a type that it says has six
# digits of a second: 2023 was 1970.
_OF_BSON = ("DateTime64(6", "DateTime64(3")
# Each document has its own length of a number, and the reader keeps the bits that the column has.
_SHORT = regex(r"\bInt32\b")
# Dictionaries of Arrow, of which tables take only those of strings.
_DICTIONARY = regex(r"LowCardinality\((?:Nullable\((\w+(?:\([^()]*\))?)\)|(\w+(?:\([^()]*\))?))\)")


def _of_dictionary(found: re.Match[str]) -> str:
    bare = found[1] or found[2]
    if bare.startswith(("String", "FixedString")):
        return found[0]
    return f"Nullable({bare})" if found[1] else bare


# What the engine makes of the geometries of GeoParquet. None of them takes NULL: where one stands,
# reading fails, or gives the point (0, 0) in a column of several shapes.
_SHAPES = frozenset((
    "Point", "Ring", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "Geometry",
))  # fmt: skip
_WKB = "geometries of GeoParquet as their bytes (WKB), as those of the engine take no NULL"


def note_geometries(columns: Sequence[ColumnFacts]) -> tuple[tuple[str, str], ...]:
    names = [column.name for column in columns if column.declared.why == _WKB]
    if not names:
        return ()
    how = f"readWKBPoint({names[0]}) and its like read them, --type '{names[0]} Point' loads points"
    return ((UNSURE, f"{', '.join(names)}: {_WKB}; {how}"),)


def declared_as(found: ColumnFacts, type_: str) -> str:
    """Return the type to read a column as: the declared one, or a geometry type that was named.

    Not ``Geometry``, in which NULL would be a point.
    """
    wanted = parse_type(type_)
    shape = found.declared.why == _WKB and wanted.base in _SHAPES and wanted.base != "Geometry"
    return type_ if shape else found.declared.type


def merged_columns(kinds: Sequence[Sequence[ColumnFacts]], *, union: bool) -> list[ColumnFacts]:
    """Return columns with types that the values of several files fit, those of the first first."""
    merged = {column.name: column for column in kinds[0]}
    for columns in kinds[1:]:
        for column in columns:
            known = merged.get(column.name)
            if known is None:
                if union:
                    merged[column.name] = replace(column, optional=True)
                continue
            type_ = footers.supertype(known.declared.type, column.declared.type)
            if type_ is not None:
                merged[column.name] = replace(known, declared=replace(known.declared, type=type_))
    for columns in kinds if union else ():
        for name in merged.keys() - {column.name for column in columns}:
            merged[name] = replace(merged[name], optional=True)
    return [
        replace(c, declared=_nullable(c.declared)) if c.optional else c for c in merged.values()
    ]


def _nullable(given: DeclaredType) -> DeclaredType:
    stored = given.stored and _made_nullable(given.stored)
    return replace(given, type=_made_nullable(given.type), stored=stored)


def _made_nullable(type_: str) -> str:
    known = parse_type(type_)
    return f"Nullable({known.bare})" if known.known and not known.nullable else type_
