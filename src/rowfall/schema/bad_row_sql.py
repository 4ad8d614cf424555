"""Finds the rows behind an engine's error, and reads around them: SQL builders, no I/O.

The lenient relation gives every field of a text file as a string, so that nothing raises; the
codec's ``bad`` expressions then tell which field does not fit. Settings that it needs are in
:func:`settings`. One thread reads in file order, so record numbers are line numbers but for the
header and for line breaks inside quotes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.core.sqltext import SqlText, quote
from rowfall.schema.codec import MISSING, parse_type
from rowfall.schema.reader_settings import reader_settings
from rowfall.sources.base import Source

SHOWN = 60
"""Characters of a bad value in an error."""

ROW, WHICH, LINE, EXTRA = "rowfall_row", "rowfall_which", "rowfall_line", "rowfall_extra"

MALFORMED, LONG, UNKNOWN = -1, -2, -3
"""Reasons beside the number of a column (from 1): not JSON, too many fields, unknown keys."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that does not fit.

    Attributes:
        row: number of the record, 0-based, header not counted.
        which: number of the column from 1, or one of the negative reasons.
        value: its text, None when there is none; shortened.
        breaks: line breaks inside this record.
        fields: fields that the record has, 0 when not counted.
    """

    row: int
    which: int
    value: str | None
    breaks: int
    fields: int


def settings(encoding: Encoding, schema: Schema) -> dict[str, str | int | float]:
    """For every statement of this module: lenient, in file order."""
    chosen = {s.name: s.value for s in reader_settings(encoding, schema.columns)}
    kind = "csv" if encoding.is_csv else "tsv"
    if encoding.kind is Kind.TEXT:
        chosen[f"input_format_{kind}_allow_variable_number_of_columns"] = 1
        chosen[f"input_format_{kind}_skip_first_lines"] = int(encoding.has_names)
    # Records are counted as they are read: nothing may filter them before.
    return {
        **chosen, "max_threads": 1, "max_insert_threads": 1, "input_format_parallel_parsing": 0,
        "input_format_skip_unknown_fields": 1, "input_format_parquet_filter_push_down": 0,
        "input_format_parquet_page_filter_push_down": 0, "optimize_move_to_prewhere": 0,
        "query_plan_filter_push_down": 0, "prefer_column_name_to_alias": 1,
    }  # fmt: skip


# --- relations --------------------------------------------------------------------------------


def header_query(source: Source, split: Split, encoding: Encoding) -> SqlText | None:
    """Gives the first line of a file with names: each file may order its columns in its own way."""
    if encoding.kind is not Kind.TEXT or not encoding.has_names:
        return None
    lines = replace(encoding, format="LineAsString")
    relation = source.relation([split], lines, "`line` String")
    return SqlText.of("SELECT line FROM ", relation, " LIMIT 1")


def lenient_relation(
    source: Source,
    split: Split,
    encoding: Encoding,
    schema: Schema,
    header: Sequence[str] = (),
) -> SqlText:
    """``(SELECT number of the record, every field as text, what is wrong FROM split)``.

    Args:
        header: names in the order of this file; the schema's order when empty.
    """
    if encoding.kind is Kind.JSON:
        inner, which = _json(source, split, encoding, schema)
    elif encoding.kind is Kind.TEXT:
        inner, which = _text(source, split, encoding, schema, header)
    else:
        # A range holds neighbours in the order of the file.
        inner = _numbered("*", source.relation([split], encoding, ""), split.start or 0)
        which = [(c.bad, n) for n, c in enumerate(schema.columns, 1) if c.bad]
    choice = ", ".join(f"{condition}, {number}" for condition, number in which)
    found = f"toInt32(multiIf({choice}, 0))" if choice else "toInt32(0)"
    return SqlText.of(f"(SELECT *, {found} AS {WHICH} FROM ", inner, ")")


def _text(
    source: Source, split: Split, encoding: Encoding, schema: Schema, header: Sequence[str]
) -> tuple[SqlText, list[tuple[str, int]]]:
    is_csv = encoding.is_csv
    order = list(header) or [c.source for c in schema.columns]
    type_ = f"Nullable(String) DEFAULT {quote(MISSING)}"
    structure = sql.structure([(n, type_) for n in order] + [(EXTRA, type_)])
    bare = replace(encoding, format="CSV" if is_csv else "TSV")
    relation = source.relation([split], bare, structure)
    numbers = {c.source: n for n, c in enumerate(schema.columns, 1)}
    missing = quote(MISSING)
    which = [(f"ifNull({sql.name(n)} = {missing}, 0)", numbers[n]) for n in order if n in numbers]
    which += [(c.bad, n) for n, c in enumerate(schema.columns, 1) if c.bad]
    which.append((f"ifNull({EXTRA} != {missing}, 1)", LONG))
    return _numbered("*", relation), which


def _json(
    source: Source, split: Split, encoding: Encoding, schema: Schema
) -> tuple[SqlText, list[tuple[str, int]]]:
    """Line by line, so that one broken line cannot hide another."""
    lines = replace(encoding, format="LineAsString")
    relation = source.relation([split], lines, f"`{LINE}` String")
    broken = f"NOT isValidJSON({LINE}) OR JSONType({LINE}) != 'Object'"
    parts, which = [LINE, ROW], [(broken, MALFORMED)]
    keys = ", ".join(quote(c.source) for c in schema.columns)
    for number, column in enumerate(schema.columns, 1):
        key, x = quote(column.source), sql.name(column.source)
        text = f"if(JSONType({LINE}, {key}) = 'String', JSONExtractString({LINE}, {key}), "
        text += f"JSONExtractRaw({LINE}, {key}))"
        parts.append(f"if(JSONType({LINE}, {key}) = 'Null', NULL, {text}) AS {x}")
        if column.bad:
            which.append((column.bad, number))
        if parse_type(column.type).base in ("String", "FixedString", "Decimal"):
            # The engine's JSON functions print fractions anew; only what stands there is kept.
            exact = f"position({LINE}, ifNull({x}, '')) > 0"
            which.append((f"JSONType({LINE}, {key}) = 'Double' AND NOT {exact}", number))
    unknown = f"arrayExists(k -> k NOT IN ({keys}), JSONExtractKeys({LINE}))"
    which.append((unknown, UNKNOWN))
    where = f" WHERE notEmpty(trimBoth({LINE}, ' \\t\\r'))"
    # Numbered before empty lines are left out: it is the number of the line.
    numbered = _numbered(LINE, relation)
    return SqlText.of(f"(SELECT {', '.join(parts)} FROM ", numbered, where, ")"), which


def _numbered(columns: str, relation: SqlText, first: int = 0) -> SqlText:
    number = f"rowNumberInAllBlocks() + {first}" if first else "rowNumberInAllBlocks()"
    return SqlText.of(f"(SELECT {columns}, {number} AS {ROW} FROM ", relation, ")")


def _line_breaks(encoding: Encoding, schema: Schema) -> str:
    """SQL for the line breaks inside one record: only quoted CSV fields can hold any."""
    if not encoding.is_csv:
        return "0"
    texts = [f"nullIf({sql.name(c.source)}, {quote(MISSING)})" for c in schema.columns]
    return " + ".join(f"ifNull(countSubstrings({text}, '\\n'), 0)" for text in texts)


# --- statements -------------------------------------------------------------------------------


def guilty_query(
    source: Source,
    splits: Sequence[Split],
    encoding: Encoding,
    schema: Schema,
    headers: Sequence[Sequence[str]] = (),
) -> SqlText:
    """Number of bad rows per split, as (index, count); splits are read side by side."""
    parts: list[str | SqlText] = []
    for index, split in enumerate(splits):
        header = headers[index] if headers else ()
        relation = lenient_relation(source, split, encoding, schema, header)
        parts += [" UNION ALL " if parts else ""]
        parts += [f"SELECT {index} AS i, countIf({WHICH} != 0) AS n FROM ", relation]
    return SqlText.of(*parts)


def diagnose(
    source: Source,
    split: Split,
    encoding: Encoding,
    schema: Schema,
    header: Sequence[str] = (),
    most: int = 1,
) -> SqlText:
    """The first ``most`` bad rows of one split, for :func:`read_bad`."""
    relation = lenient_relation(source, split, encoding, schema, header)
    values = [f"toString({sql.name(c.source)})" for c in schema.columns]
    value = f"arrayElement([{', '.join(values)}], {WHICH})"
    if encoding.kind is Kind.JSON:
        value = f"if({WHICH} < 0, {LINE}, {value})"
    else:
        value = f"if({WHICH} < 0, NULL, {value})"
    order = [sql.name(n) for n in header or [c.source for c in schema.columns]]
    fields = f"arrayCount(x -> ifNull(x != {quote(MISSING)}, 1), [{', '.join(order)}])"
    count = fields if encoding.kind is Kind.TEXT else "0"
    return SqlText.of(
        f"SELECT {ROW}, {WHICH}, substringUTF8({value}, 1, {SHOWN + 1}), "
        f"{_line_breaks(encoding, schema)}, {count} FROM ", relation,
        f" WHERE {WHICH} != 0 LIMIT {most}",
    )  # fmt: skip


def read_bad(rows: Sequence[Sequence[object]]) -> list[BadRow]:
    """The answer to :func:`diagnose`."""
    return [
        BadRow(
            int(str(row[0])), int(str(row[1])), None if row[2] is None else str(row[2]),
            int(str(row[3])), int(str(row[4])),
        )
        for row in rows
    ]  # fmt: skip


def breaks_query(
    source: Source,
    split: Split,
    encoding: Encoding,
    schema: Schema,
    row: int,
    header: Sequence[str] = (),
) -> SqlText | None:
    """Line breaks inside the records before record ``row``: what lines have over records."""
    breaks = _line_breaks(encoding, schema)
    if breaks == "0" or not row:
        return None
    relation = lenient_relation(source, split, encoding, schema, header)
    return SqlText.of(f"SELECT sum({breaks}) FROM (SELECT * FROM ", relation, f" LIMIT {row})")


def line_of(row: int, breaks_before: int, encoding: Encoding) -> int | None:
    """1-based line of a record, None where a format has no lines."""
    if encoding.kind not in (Kind.TEXT, Kind.JSON):
        return None
    header = int(encoding.kind is Kind.TEXT and encoding.has_names)
    return row + 1 + header + breaks_before


def good_rows(
    source: Source,
    splits: Sequence[Split],
    encoding: Encoding,
    schema: Schema,
    headers: Sequence[Sequence[str]] = (),
) -> SqlText:
    """The relation of only the rows that fit, its columns named and ordered as the table's.

    Raises:
        UsageError: a nested column cannot be checked value by value.
    """
    _checkable(schema.columns, encoding)
    pairs = [(c.lenient or sql.name(c.source), sql.name(c.name)) for c in schema.columns]
    values = ", ".join(f"{value} AS {name}" for value, name in pairs)
    parts: list[str | SqlText] = []
    for index, split in enumerate(splits):
        header = headers[index] if headers else ()
        relation = lenient_relation(source, split, encoding, schema, header)
        parts += [" UNION ALL " if parts else "", f"SELECT {values} FROM ", relation]
        parts += [f" WHERE {WHICH} = 0"]
    return SqlText.of("(", *parts, ")")


def bad_rows(
    source: Source, split: Split, encoding: Encoding, schema: Schema, header: Sequence[str] = ()
) -> SqlText:
    """Rows for the rejects file: object, record (from 1), column, reason, lines, text.

    ``lines`` counts what a quote never closed has swallowed: errors are counted in lines, so that
    one bad quote is not one error.
    """
    _checkable(schema.columns, encoding)
    relation = lenient_relation(source, split, encoding, schema, header)
    names = "[" + ", ".join(quote(c.name) for c in schema.columns) + "]"
    types = "[" + ", ".join(quote(c.type) for c in schema.columns) + "]"
    fields = ", ".join(f"toString({sql.name(c.source)})" for c in schema.columns)
    short = f"has([{fields}], {quote(MISSING)})"
    reason = (
        f"multiIf({WHICH} = {MALFORMED}, 'not a JSON object', {WHICH} = {LONG}, 'too many fields', "
        f"{WHICH} = {UNKNOWN}, 'unknown key', {short}, 'too few fields', concat('does not fit ', "
        f"arrayElement({types}, greatest({WHICH}, 1))))"
    )
    column = f"if({WHICH} > 0, arrayElement({names}, greatest({WHICH}, 1)), '')"
    text = LINE
    if encoding.kind is not Kind.JSON:
        shown = [_as_csv(sql.name(c.source)) for c in schema.columns]
        mark = quote(encoding.delimiter if encoding.is_csv else "\t")
        text = f"arrayStringConcat([{', '.join(shown)}], {mark})"
    return SqlText.of(
        f"SELECT {quote(split.uri)} AS object, {ROW} + 1 AS record, {column} AS column, "
        f"{reason} AS reason, 1 + {_line_breaks(encoding, schema)} AS lines, {text} AS text FROM ",
        relation, f" WHERE {WHICH} != 0",
    )  # fmt: skip


def _as_csv(x: str) -> str:
    plain = f"ifNull(toString({x}), '')"
    quoted = f"concat('\"', replaceAll({plain}, '\"', '\"\"'), '\"')"
    return f"multiIf(ifNull(toString({x}) = {quote(MISSING)}, 0), '', " \
           f"match({plain}, '[\",\\\\n]'), {quoted}, {plain})"  # fmt: skip


def _checkable(columns: Sequence[Column], encoding: Encoding) -> None:
    for column in columns:
        if not column.lenient and encoding.kind is not Kind.TYPED:
            raise UsageError(
                f"bad rows cannot be left out: {column.name} {column.type} cannot be checked",
                hint="Load that column as String with --type, or leave out --max-errors.",
            )
