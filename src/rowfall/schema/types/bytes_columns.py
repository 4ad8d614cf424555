"""Columns whose strings are bytes and no text, for targets that have a type for each.

ClickHouse keeps both as String. A database or a lake has ``bytea``, BLOB or ``binary`` for bytes,
and refuses them in columns of text, which hold UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.model import Column, Schema
from rowfall.core.sqltext import SqlText
from rowfall.core.type_names import arguments, parse_type
from rowfall.schema.types.footers import FileColumn

_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
"""Types of Parquet without a word that says what the bytes mean."""
# Of formats that have one type for both: what is no text can be no text of the table either.
SAMPLE_ROWS = 10_000
"""Rows in which bytes that are no text are looked for."""


def with_bytes(schema: Schema, names: Collection[str]) -> Schema:
    """Return the schema whose columns of strings are marked that hold bytes.

    Args:
        names: of the columns in the source.
    """
    projection = schema.projection
    sources = {} if projection is None else {c.name: c.source for c in projection.columns}
    columns = tuple(
        replace(column, binary=holds_strings(column.type)
                and sources.get(column.name, column.source or column.name) in names)
        for column in schema.columns
    )  # fmt: skip
    return schema if columns == schema.columns else replace(schema, columns=columns)


def as_in_table(schema: Schema, names: Collection[str]) -> Schema:
    """Return the schema whose columns are marked that hold bytes in a table that is there.

    A cast to String cuts the zero bytes at the end of a FixedString, in an array, too, and bytes
    are kept.
    """
    columns = []
    for column in schema.columns:
        if column.name in names:
            x = re.escape(str(sql.name(column.source)))
            cast = rf"accurateCastOrNull\(({x}|e\d+), 'String'\)"
            kept = re.sub(cast, r"concat(\1, '')", column.expression)
            padded = "FixedString" in column.read_type and holds_strings(column.read_type)
            column = replace(column, binary=True, expression=kept if padded else column.expression)
        columns.append(column)
    return replace(schema, columns=tuple(columns))


def question(columns: Sequence[Column], relation: SqlText, *, zeros: bool) -> SqlText:
    """Return the question which of some columns hold what is not a text in the first rows.

    Args:
        zeros: texts of the target may have zero bytes.

    Its answer is one row with a number for each column.
    """
    counts = (
        f"sum({no_text(column.type, sql.name(column.source), zeros=zeros)})" for column in columns
    )
    names = ", ".join(sql.name(column.source) for column in columns)
    return SqlText.of(
        f"SELECT {', '.join(counts)} FROM (SELECT {names} FROM ", relation,
        f" LIMIT {SAMPLE_ROWS})",
    )  # fmt: skip


def no_text(type_: str, x: str, *, zeros: bool = False) -> str:
    """Return SQL that is 1 where a string, or one in an array, is not text of a database.

    Texts are UTF-8; ``zeros``: with zero bytes, which PostgreSQL does not take. Those at the end of
    a FixedString are no part of it.
    """
    kind = parse_type(type_)
    if kind.base == "Array":
        return f"arrayExists(e -> {no_text(kind.args, 'e', zeros=zeros)}, {x})"
    text = f"trim(TRAILING '\\0' FROM toString({x}))" if kind.base == "FixedString" else x
    zero = "" if zeros else f"position({text}, '\\0') > 0 OR "
    return f"ifNull({zero}NOT isValidUTF8({text}), 0)"


def holds_strings(type_: str) -> bool:
    """Tell whether a type is that of strings, or of arrays of them."""
    kind = parse_type(type_)
    if kind.base == "Array":
        (element,) = arguments(kind.args)
        return holds_strings(element)
    return kind.base in ("String", "FixedString")


def of_footers(footers: Iterable[Mapping[str, FileColumn]]) -> frozenset[str]:
    """Return the names of columns that are bytes in all of some Parquet files."""
    texts, found = set[str](), set[str]()
    for columns in footers:
        for path, column in columns.items():
            (found if column.type in _BYTES else texts).add(path.partition(".")[0])
    return frozenset(found - texts)


def without(schema: Schema, but: Collection[str]) -> Schema:
    """Return the schema in which only some columns, by their names in the table, hold bytes."""
    columns: tuple[Column, ...] = tuple(
        replace(column, binary=False) if column.binary and column.name not in but else column
        for column in schema.columns
    )
    return schema if columns == schema.columns else replace(schema, columns=columns)
