"""SQL that finds the rows that do not fit, and reads the others. Text only.

The lenient relation gives every field of a text file as a string, so that nothing raises; the
``bad`` expression of each column then says which field does not fit. Settings that it needs are in
:attr:`LenientReader.settings`. One thread reads in file order, so record numbers are line numbers
but for the header and for line breaks inside quotes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.engine_formats import are_given
from rowfall.core.errors import UsageError
from rowfall.core.formats import LAKES
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.core.sqltext import SqlText, quote
from rowfall.schema.text.records import IN_ORDER, lines_relation
from rowfall.schema.text.whole_rows import (
    END,
    EXTRA,
    first_as_written,
    read_as,
    read_structure,
    unescaped,
)
from rowfall.schema.types import nested_reading
from rowfall.schema.types.reader_settings import BLANKS, nulls_are_guarded, reader_settings
from rowfall.schema.types.strict_reading import MISSING
from rowfall.sources.base import Source

SHOWN = 60
"""Characters of a bad value in an error."""

WHOLE = 1 << 16
"""Characters of a bad value on which types are tried before an error names them: of a longer one
nothing is known but that a String takes it."""

ROW, WHICH, LINE = "rowfall_row", "rowfall_which", "rowfall_line"
WRITTEN = "rowfall_written"
"""The line with its numbers in quotes: the engine's JSON functions would print them anew."""

MALFORMED, LONG, UNKNOWN, OPEN = -1, -2, -3, -4
"""Reasons beside the number of a column (from 1): not JSON, too many fields, unknown keys, no
delimiter at the end of the row."""


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


@dataclass(frozen=True, slots=True)
class UnfitColumn:
    """A column that some value does not fit.

    Attributes:
        value: one of them, None for NULL.
        types: that would take all values, the best one first; () where none is known.
        nulls: some values of it are NULL, beside those that do not fit.
    """

    column: Column
    value: str | None
    types: tuple[str, ...]
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class TriedRemedies:
    """Remedies for a bad row that have been tried on it.

    Attributes:
        misfits: columns whose values do not fit, with the types that take the value shown.
        as_value: the type that the column has takes it, too, where ``--type`` names it.
        left_out: the row can be told from good ones, so that ``--max-errors`` leaves it out.
        rewritten: the text can be rewritten before it is read, as ``--blank-lines`` needs.
        filled: of a row that is too short, types by column that NULL needs in place of the
            fields that it lacks, () where each takes it as it is; None where none would do.
        word: which ``--null`` takes for NULL: nothing else in the file does not fit; "" for none.
    """

    misfits: Sequence[UnfitColumn] = field(default=())
    as_value: bool = False
    left_out: bool = True
    rewritten: bool = False
    filled: Mapping[str, str] | None = None
    word: str = ""


@dataclass(frozen=True, slots=True)
class LenientReader:
    """Queries that read what a strict reader refuses.

    Attributes:
        source: as the engine that runs the queries has to name it.
        schema: with all integers of text read as text.
        opened: names of splits that end in a delimiter: their last field is not an empty string.
        objects: rows of JSON are the objects of an array, or go over several lines.
    """

    source: Source
    encoding: Encoding
    schema: Schema
    opened: frozenset[str] = frozenset()
    objects: bool = False

    @property
    def settings(self) -> dict[str, str | int | float]:
        """Return the settings for every query of this module: lenient, in file order."""
        settings = {s.name: s.value for s in reader_settings(self.encoding, self.schema.columns)}
        kind = "csv" if self.encoding.is_csv else "tsv"
        if self.encoding.kind is Kind.TEXT:
            settings[f"input_format_{kind}_allow_variable_number_of_columns"] = 1
            settings[f"input_format_{kind}_skip_first_lines"] = int(self.encoding.has_header)
        # Records are counted as they are read: nothing may filter them before.
        return {
            **settings, **IN_ORDER, "max_insert_threads": 1,
            "input_format_skip_unknown_fields": 1, "input_format_parquet_filter_push_down": 0,
            "input_format_parquet_page_filter_push_down": 0, "optimize_move_to_prewhere": 0,
            "prefer_column_name_to_alias": 1,
        }  # fmt: skip

    def header_query(self, split: Split) -> SqlText | None:
        """Return the query for the header line of a file, which has its own order of columns."""
        if not self.encoding.has_header:
            return None
        lines = lines_relation(self.source, [split], self.encoding)
        return SqlText.of("SELECT line FROM ", lines, " LIMIT 1")

    def relation(self, split: Split, header: Sequence[str] = ()) -> SqlText:
        """Return ``(SELECT number of the record, every field as text, what is wrong FROM split)``.

        Args:
            header: names in the order of this file; the schema's order when empty.
        """
        if self.encoding.kind is Kind.JSON:
            inner, which = self._json(split)
        elif self.encoding.kind is Kind.TEXT:
            inner, which = self._text(split, header)
        else:
            # A range holds neighbours in the order of the file.
            structure = ""
            # Without one, a table of a lake shows its columns and no rows, and some files none.
            form = self.encoding.format
            needed = form in LAKES or are_given(form)
            if needed or nulls_are_guarded(self.encoding, self.schema.columns):
                structure = read_structure(self.schema.columns, self.encoding)
            rows = self.source.relation([split], self.encoding, structure)
            inner = _numbered("*", rows, split.start or 0)
            which = [(c.check.bad, n) for n, c in enumerate(self.schema.columns, 1) if c.check.bad]
        choice = ", ".join(f"{condition}, {number}" for condition, number in which)
        found = f"toInt32(multiIf({choice}, 0))" if choice else "toInt32(0)"
        return SqlText.of(f"(SELECT *, {found} AS {WHICH} FROM ", inner, ")")

    def _text(self, split: Split, header: Sequence[str]) -> tuple[SqlText, list[tuple[str, int]]]:
        order = list(header) or [c.source for c in self.schema.columns]
        type_ = f"Nullable(String) DEFAULT {quote(MISSING)}"
        # Behind the delimiter at the end of a row nothing stands, and there is one.
        ends = [(END, type_)] if self.encoding.trailing else []
        structure = sql.structure([(n, type_) for n in order] + ends + [(EXTRA, type_)])
        encoding = read_as(self.schema.columns, self.encoding.without_header())
        relation = self.source.relation([split], encoding, structure)
        numbers = {c.source: n for n, c in enumerate(self.schema.columns, 1)}
        missing = quote(MISSING)
        which = [
            (f"ifNull({sql.name(n)} = {missing}, 0)", numbers[n]) for n in order if n in numbers
        ]
        which += [(c.check.bad, n) for n, c in enumerate(self.schema.columns, 1) if c.check.bad]
        if self.encoding.trailing:
            which.append((f"ifNull({END} = {missing}, 0)", OPEN))
            which.append((f"ifNull({END} != '', 0)", LONG))
        which.append((f"ifNull({EXTRA} != {missing}, 1)", LONG))
        columns = "*"
        if split.name in self.opened:
            last = sql.name(order[-1])
            columns = f"* REPLACE (nullIf({last}, '') AS {last})"
        if fields := unescaped(self.schema.columns, self.encoding, order[-1]):
            listed = ", ".join(f"{value} AS {sql.name(n)}" for n, value in fields.items())
            columns = f"* REPLACE ({listed})"
        lacked = [c.source for c in self.schema.columns if c.optional and c.source not in order]
        columns += "".join(f", CAST(NULL, 'Nullable(String)') AS {sql.name(n)}" for n in lacked)
        # Rows may be short here, so blanks count everywhere: behind a closing quote they raise.
        keeps = {BLANKS: 1} if first_as_written(self.schema.columns, self.encoding, order) else {}
        return _numbered(columns, SqlText.of(relation, sql.settings_clause(keeps))), which

    def _json(self, split: Split) -> tuple[SqlText, list[tuple[str, int]]]:
        """Return the relation of JSON, read line by line: one broken line cannot hide another."""
        # Numbers are of any size. JSONExtract would give the first of two values of a key.
        broken = f"NOT {nested_reading.is_row(LINE, WRITTEN)}"
        parts, which = [LINE, ROW, WRITTEN], [(broken, MALFORMED)]
        keys = ", ".join(quote(c.source) for c in self.schema.columns)
        if not self.encoding.ignores:
            # Before the columns: an object with "V" in place of "v" lacks "v", too.
            unknown = f"arrayExists(k -> k NOT IN ({keys}), JSONExtractKeys({WRITTEN}))"
            which.append((unknown, UNKNOWN))
        for number, column in enumerate(self.schema.columns, 1):
            key, x = quote(column.source), sql.name(column.source)
            text = _member(column)
            parts.append(f"if(JSONType({WRITTEN}, {key}) = 'Null', NULL, {text}) AS {x}")
            if column.check.bad:
                which.append((column.check.bad, number))
        # Old releases know trimBoth with one argument only.
        where = f" WHERE match({LINE}, '[^ \\t\\r]')"
        # Numbered before empty lines are left out: it is the number of the line.
        columns = f"{LINE}, {nested_reading.with_numbers_as_strings(LINE)} AS {WRITTEN}"
        lines = lines_relation(self.source, [split], self.encoding, LINE)
        if self.objects:
            texts = self.encoding.read_as("JSONAsString")
            lines = self.source.relation([split], texts, f"`{LINE}` String")
        numbered = _numbered(columns, lines)
        return SqlText.of(f"(SELECT {', '.join(parts)} FROM ", numbered, where, ")"), which

    def _line_breaks(self) -> str:
        """Return SQL for the line breaks inside one record: only quoted CSV fields can hold any."""
        if not self.encoding.is_csv:
            return "0"
        texts = [f"nullIf({sql.name(c.source)}, {quote(MISSING)})" for c in self.schema.columns]
        return " + ".join(f"ifNull(countSubstrings({text}, '\\n'), 0)" for text in texts)

    def count_query(
        self, splits: Sequence[Split], headers: Sequence[Sequence[str]] = ()
    ) -> SqlText:
        """Return the query for (index, bad rows) of each split; splits are read side by side."""
        parts: list[str | SqlText] = []
        for index, split in enumerate(splits):
            header = headers[index] if headers else ()
            relation = self.relation(split, header)
            parts += [" UNION ALL " if parts else ""]
            parts += [f"SELECT {index} AS i, countIf({WHICH} != 0) AS n FROM ", relation]
        return SqlText.of(*parts)

    def first_bad_row_query(self, split: Split, header: Sequence[str] = ()) -> SqlText:
        """Return the query for the first bad row of one split, see :func:`read_bad_row`."""
        relation = self.relation(split, header)
        values = [c.check.shown or f"toString({sql.name(c.source)})" for c in self.schema.columns]
        value = f"arrayElement([{', '.join(values)}], {WHICH})"
        if self.encoding.kind is Kind.JSON:
            known = ", ".join(quote(c.source) for c in self.schema.columns)
            keys = f"arrayFilter(k -> k NOT IN ({known}), JSONExtractKeys({WRITTEN}))"
            keys = f"arrayStringConcat({keys}, ', ')"
            value = f"multiIf({WHICH} = {UNKNOWN}, {keys}, {WHICH} < 0, {LINE}, {value})"
        else:
            value = f"if({WHICH} < 0, NULL, {value})"
        order = [sql.name(n) for n in header or [c.source for c in self.schema.columns]]
        fields = f"arrayCount(x -> ifNull(x != {quote(MISSING)}, 1), [{', '.join(order)}])"
        count = fields if self.encoding.kind is Kind.TEXT else "0"
        return SqlText.of(
            f"SELECT {ROW}, {WHICH}, substringUTF8({value}, 1, {WHOLE + 1}), "
            f"{self._line_breaks()}, {count} FROM ", relation,
            f" WHERE {WHICH} != 0 LIMIT 1",
        )  # fmt: skip

    def breaks_query(self, split: Split, row: int, header: Sequence[str] = ()) -> SqlText | None:
        """Return the query for the line breaks inside the records before record ``row``.

        None where there cannot be any.
        """
        breaks = self._line_breaks()
        if breaks == "0" or not row:
            return None
        relation = self.relation(split, header)
        return SqlText.of(f"SELECT sum({breaks}) FROM (SELECT * FROM ", relation, f" LIMIT {row})")

    def line_of(self, row: int, breaks_before: int) -> int | None:
        """Return the 1-based line of a record, None where a format has no lines."""
        if self.encoding.kind not in (Kind.TEXT, Kind.JSON):
            return None
        header = int(self.encoding.has_header)
        return row + 1 + header + breaks_before

    def good_rows(self, splits: Sequence[Split], headers: Sequence[Sequence[str]] = ()) -> SqlText:
        """Return the relation of the rows that fit, its columns named and ordered as the table's.

        Raises:
            UsageError: a nested column cannot be checked value by value.
        """
        _check_columns(self.schema.columns, self.encoding)
        # Names of their own first: old releases take a name inside of an expression for the value
        # that is to be called so.
        columns = self.schema.columns
        ways = [c.check.lenient or sql.name(c.source) for c in columns]
        made = [f"{value} AS rowfall_{n}" for n, value in enumerate(ways)]
        named = ", ".join(f"rowfall_{n} AS {sql.name(c.name)}" for n, c in enumerate(columns))
        values = ", ".join(made)
        parts: list[str | SqlText] = []
        for index, split in enumerate(splits):
            header = headers[index] if headers else ()
            relation = self.relation(split, header)
            parts += [" UNION ALL " if parts else "", f"SELECT {named} FROM (SELECT {values} FROM "]
            parts += [relation, f" WHERE {WHICH} = 0)"]
        return SqlText.of("(", *parts, ")")

    def rejects_query(self, split: Split, header: Sequence[str] = ()) -> SqlText:
        """Return the query for (object, record from 1, column, reason, lines, text) of bad rows.

        ``lines`` counts what a quote never closed has swallowed: errors are counted in lines, so
        that one bad quote is not one error.
        """
        _check_columns(self.schema.columns, self.encoding)
        relation = self.relation(split, header)
        names = "[" + ", ".join(quote(c.name) for c in self.schema.columns) + "]"
        types = "[" + ", ".join(quote(c.type) for c in self.schema.columns) + "]"
        fields = ", ".join(f"toString({sql.name(c.source)})" for c in self.schema.columns)
        short = f"has([{fields}], {quote(MISSING)})"
        reason = (
            f"multiIf({WHICH} = {MALFORMED}, 'not a JSON object', "
            f"{WHICH} = {LONG}, 'too many fields', {WHICH} = {UNKNOWN}, 'unknown key', "
            f"{WHICH} = {OPEN}, 'no delimiter at its end', "
            f"{short}, 'too few fields', "
            f"concat('does not fit ', arrayElement({types}, greatest({WHICH}, 1))))"
        )
        column = f"if({WHICH} > 0, arrayElement({names}, greatest({WHICH}, 1)), '')"
        text = LINE
        if self.encoding.kind is not Kind.JSON:
            shown = [_as_csv(sql.name(c.source)) for c in self.schema.columns]
            mark = quote(self.encoding.delimiter if self.encoding.is_csv else "\t")
            text = f"arrayStringConcat([{', '.join(shown)}], {mark})"
        return SqlText.of(
            f"SELECT {quote(split.uri)} AS object, {ROW} + 1 AS record, {column} AS column, "
            f"{reason} AS reason, 1 + {self._line_breaks()} AS lines, {text} AS text FROM ",
            relation, f" WHERE {WHICH} != 0",
        )  # fmt: skip


def _member(column: Column) -> str:
    """Return SQL for the text of a member of a line of JSON, as the strict reader takes it."""
    key = quote(column.source)
    whole = nested_reading.member_as_written(LINE, column.source)
    if nested_reading.is_nested(column.type) or column.type == "Dynamic":
        return whole
    kind = f"JSONType({WRITTEN}, {key})"
    return (
        f"multiIf({kind} = 'String', JSONExtractString({WRITTEN}, {key}), "
        f"{kind} IN ('Object', 'Array'), {whole}, JSONExtractRaw({WRITTEN}, {key}))"
    )


def _numbered(columns: str, relation: SqlText, first: int = 0) -> SqlText:
    number = f"rowNumberInAllBlocks() + {first}" if first else "rowNumberInAllBlocks()"
    return SqlText.of(f"(SELECT {columns}, {number} AS {ROW} FROM ", relation, ")")


def read_bad_row(row: Sequence[Any]) -> BadRow:
    """Read the answer to :meth:`LenientReader.first_bad_row_query`."""
    number, which, value, breaks, fields = row
    text = None if value is None else str(value)
    return BadRow(int(number), int(which), text, int(breaks), int(fields))


def _as_csv(x: str) -> str:
    plain = f"ifNull(toString({x}), '')"
    quoted = f"concat('\"', replaceAll({plain}, '\"', '\"\"'), '\"')"
    return f"multiIf(ifNull(toString({x}) = {quote(MISSING)}, 0), '', " \
           f"match({plain}, '[\",\\\\n]'), {quoted}, {plain})"  # fmt: skip


def not_checkable(columns: Sequence[Column], encoding: Encoding) -> Column | None:
    """Return the first column that cannot be checked value by value; None where each can."""
    if encoding.kind is Kind.TYPED:
        return None
    return next((column for column in columns if not column.check.lenient), None)


def _check_columns(columns: Sequence[Column], encoding: Encoding) -> None:
    column = not_checkable(columns, encoding)
    if column is not None:
        raise UsageError(
            f"bad rows cannot be left out: {column.name} {column.type} cannot be checked",
            hint="Load that column as String with --type, or leave out --max-errors.",
        )
