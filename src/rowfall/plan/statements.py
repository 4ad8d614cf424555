"""The text of the INSERTs of a load, and the schema as an older server has to read it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.model import Column, Encoding, Kind, Schema, ValueCheck
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import arguments, elements, parse_type, without_nested
from rowfall.schema.projection import Scan, of_raw, of_typed
from rowfall.schema.text import whole_rows
from rowfall.schema.types.strict_reading import MISSING, TAG, strict_column

_TRIM_END = ", ' \\t')"  # written around padded values by strict_reading


def insert_select(scan: Scan, into: SqlText, only: str | None = None) -> SqlText:
    """Return the INSERT SELECT by which an engine reads the rows of one attempt itself.

    Args:
        into: what the rows go into.
        only: a condition on the rows that are kept, None for all of them.
    """
    columns = scan.schema.columns
    rows = sql.select(columns, scan.relation())
    if only is not None:
        rows = sql.only(rows, columns, only)
    return sql.insert(into, columns, rows)


def select_handed_over(scan: Scan, rows: SqlText | None = None) -> SqlText:
    """Return the SELECT of what an INSERT SELECT would store, in the types of the table.

    LowCardinality is left out of the types: the receiver of the rows makes its own dictionaries.

    Args:
        rows: another way to read the rows, None for the scan's own.
    """
    columns = scan.schema.columns
    if rows is None:
        rows = sql.select(columns, scan.relation())
    typed = ", ".join(
        f"CAST({sql.name(c.name)}, {quote(plain_type(c.type))}) AS {sql.name(c.name)}"
        for c in columns
    )
    return SqlText.of(f"SELECT {typed}\nFROM (", rows, ")")


def plain_type(type_: str) -> str:
    """Return a type without LowCardinality, also of what it holds."""
    kind = parse_type(type_)
    if not kind.nested or kind.nullable:
        inner = type_.removeprefix("LowCardinality(")
        return inner if inner == type_ else inner.removesuffix(")")
    parts = arguments(kind.args)
    types = elements(kind.args) if kind.base == "Tuple" else parts
    plain = (
        part.removesuffix(inner) + plain_type(inner)
        for part, inner in zip(parts, types, strict=True)
    )
    return f"{kind.base}({', '.join(plain)})"


def insert_raw(into: SqlText, encoding: Encoding, schema: Schema) -> SqlText:
    """Return the INSERT whose body is a file: the server checks as a local engine would."""
    structure = whole_rows.read_structure(schema.reads, encoding, raw=True)
    relation = SqlText.of(f"input({sql.literal(structure)})")
    relation = of_raw(schema, whole_rows.guarded(schema, encoding, relation, raw=True))
    return SqlText.of(
        sql.insert_select(into, schema.columns, relation),
        f"\nFORMAT {whole_rows.read_as(schema.reads, encoding).format}",
    )


def select_blocks(schema: Schema, relations: Sequence[str]) -> SqlText:
    """Return a SELECT of the blocks that relations give, as columns of the table.

    Args:
        relations: each follows FROM and gives what is read, see :func:`block_structure`.
    """
    reads = schema.projection.columns if schema.projection else schema.columns
    values = ", ".join(
        f"CAST({sql.name(c.name)}, {quote(c.type)}) AS {sql.name(c.name)}"
        if is_json(c)
        else sql.name(c.name)
        for c in reads
    )
    parts: list[str | SqlText] = []
    for relation in relations:
        rows = SqlText.of(f"SELECT {values}\nFROM {relation}")
        if schema.projection is not None:
            rows = sql.select(schema.columns, of_typed(schema, SqlText.of("(", rows, ")")))
        parts += ["\nUNION ALL " if parts else "", rows]
    return SqlText.of(*parts)


def insert_sent_blocks(into: SqlText, columns: Sequence[Column]) -> SqlText:
    """Return the INSERT whose body are Native blocks with the table's columns.

    Through input(), because only an INSERT SELECT writes with ``max_insert_threads``.
    """
    rows = select_blocks(Schema(tuple(columns)), [f"input({block_structure(columns)})"])
    return SqlText.of(sql.insert(into, columns, rows), "\nFORMAT Native")


def insert_decoded_blocks(into: SqlText, schema: Schema) -> SqlText:
    """Return the INSERT whose body are Native blocks with the columns that are read."""
    if schema.projection is None and not any(map(is_json, schema.columns)):
        # Each is a statement of its own, so there is no need of input().
        return sql.insert(into, schema.columns, SqlText.of("FORMAT Native"))
    reads = schema.projection.columns if schema.projection else schema.columns
    # What is sent as text is converted by the server.
    rows = select_blocks(schema, [f"input({block_structure(reads)})"])
    return SqlText.of(sql.insert(into, schema.columns, rows), "\nFORMAT Native")


def block_structure(columns: Sequence[Column]) -> str:
    """Return the structure of blocks as a literal: the table's columns as they are sent."""
    return sql.literal(sql.structure((c.name, sent_type(c)) for c in columns))


def is_json(column: Column) -> bool:
    """Tell whether a column has the type JSON."""
    return parse_type(column.type).base == "JSON"


def sent_type(column: Column) -> str:
    """Return the type of a column in Native blocks: JSON is text on the way.

    Its binary form differs between versions, and rowfall-decode sees no more than its end.
    """
    if not is_json(column):
        return without_nested(column.type)
    return "Nullable(String)" if parse_type(column.type).nullable else "String"


def sent_column(column: Column, kind: Kind) -> Column:
    """Return a column as the engine that reads it gives it to the one that stores it."""
    if not is_json(column):
        return column
    source, type_ = column.source or column.name, sent_type(column)
    if kind is Kind.JSON:
        return replace(column, expression=strict_column("", source, type_, kind).expression)
    value = column.expression or sql.name(source)
    return replace(column, expression=f"CAST({value}, {quote(type_)})")


# --- older servers -------------------------------------------------------------------------------

FLOAT_PROBE = "SELECT x = toFloat64('1.239') FROM format('TSV', 'x Float64', '1.239')"
"""Gives 1 where text is read as by the engine here; see :func:`for_server`."""


def is_read_by_release(schema: Schema) -> bool:
    """Tell whether older releases read text of some column otherwise than the engine here."""
    return any(
        "Float" in c.type + c.read_type or _TRIM_END in c.expression + c.check.lenient + c.check.bad
        for c in schema.reads
    )


def for_server(schema: Schema, encoding: Encoding, *, exact: bool) -> Schema:
    """Return the schema as a server has to read it.

    Args:
        exact: it reads text as the engine here. Releases such as 24.10 read 1.239 as
            1.2389999999999999 and ``-`` as 0, whatever ``precise_float_parsing`` says; there,
            floats are read as text, whose conversion is exact. And they know trimBoth with one
            argument only.
    """
    if exact or encoding.kind not in (Kind.TEXT, Kind.JSON):
        return schema
    return schema.with_reads([_carefully(c) for c in schema.reads])


def _carefully(column: Column) -> Column:
    read, expression, check = column.read_type, column.expression, column.check
    if read.startswith("Nullable(Float"):
        # The lenient way is a conversion of text. With one argument trimBoth is fast; a tab
        # around a number is an error then.
        value, bad = (x.replace(_TRIM_END, ")") for x in (check.lenient, check.bad))
        value = value if parse_type(column.type).nullable else f"assumeNotNull({value})"
        message = sql.literal(f"{TAG}a value does not fit {column.name} {column.type}")
        expression = f"tupleElement(({value}, throwIf({bad}, {message})), 1)"
        # Infinity stood for a column that the header lacks; it has to be wrong as text, too.
        lacking = f" DEFAULT {sql.literal(MISSING)}" if " DEFAULT " in read else ""
        read = f"Nullable(String){lacking}"
    return replace(
        column, read_type=read, expression=_trimmed(expression),
        check=ValueCheck(_trimmed(check.lenient), _trimmed(check.bad), _trimmed(check.shown)),
    )  # fmt: skip


def _trimmed(text: str) -> str:
    """Return SQL for servers that know trimBoth with one argument; TRIM is a regular expression."""
    if _TRIM_END not in text:
        return text
    return text.replace("trimBoth(", "trim(BOTH ' \\t' FROM ").replace(_TRIM_END, ")")
