"""Finds the rows of a source that do not fit a schema, with file, line and column."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from rowfall.core import engine_formats, sql, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    DataError,
    RowfallError,
    SourceError,
)
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import parse_type
from rowfall.core.value_kinds import MISSING_WORDS
from rowfall.decoder import installed
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.bad_rows.data_errors import CONTAINERS, same_object
from rowfall.schema.bad_rows.misfits import FileRows, are_all, find_misfits
from rowfall.schema.bad_rows.queries import (
    LONG,
    MALFORMED,
    BadRow,
    LenientReader,
    TriedRemedies,
    UnfitColumn,
    not_checkable,
    read_bad_row,
)
from rowfall.schema.bad_rows.tried_types import candidates, taken_types
from rowfall.schema.column_facts import RunSelect
from rowfall.schema.text.headers import parse_header
from rowfall.schema.text.records import IN_ORDER, lines_relation
from rowfall.schema.types import (
    nested_reading,
)
from rowfall.schema.types.nested_nulls import with_empty_lists
from rowfall.sources.base import Numbered, Ranged, RewritesToCsv, Source
from rowfall.systems.clickhouse.codes import NO_NULL

_SPLITS = 50
"""Splits that one search reads side by side."""
NEAR, FAR, _PIECE = 1 << 30, 64 << 20, 8 << 20
"""Bytes before a range that are read to count lines, of a file here and of one far away: about a
second each for every error."""
_ONE_BLOCK = {"max_threads": 1, "max_block_size": 16, "input_format_parallel_parsing": 0}


@dataclass(frozen=True, slots=True)
class BadRowSearch:
    """Finds the rows that do not fit a schema.

    Attributes:
        source: as the engine behind ``ask`` has to name it.
        schema: with all integers of text read as text.
        ask: runs a SELECT with settings and gives its rows.
        opened: names of splits that end in a delimiter, without a line end.
        objects: rows of JSON have no lines of their own.
    """

    source: Source
    encoding: Encoding
    schema: Schema
    ask: RunSelect
    opened: frozenset[str] = frozenset()
    objects: bool = False

    @property
    def reader(self) -> LenientReader:
        """Return the queries of this search."""
        return LenientReader(self.source, self.encoding, self.schema, self.opened, self.objects)

    def explain(
        self, splits: Sequence[Split], error: RowfallError
    ) -> list[tuple[Split, DataError]]:
        """Return the splits that hold what the engine refused, each with its first bad row.

        An empty list: nobody can tell which split it was.
        """
        code = error.code
        named = data_errors.named_object(error.message)
        suspects = [s for s in splits if named and same_object(s.uri, named)] or list(splits)
        if len(suspects) == 1 and (code in CONTAINERS or self.encoding.kind is Kind.TYPED):
            known, readable = (
                (None, False) if code in CONTAINERS else self._find_readable(suspects[0])
            )
            told = known or self._of_engine(error, suspects[0], readable=readable)
            return [(suspects[0], told)]
        found: list[tuple[Split, DataError]] = []
        for start in range(0, len(suspects), _SPLITS):
            for split in self._with_bad_rows(suspects[start : start + _SPLITS]):
                first = self.find_first(split)
                if first is not None:
                    found.append((split, first))
        if not found and len(suspects) == 1:
            return [(suspects[0], self._of_engine(error, suspects[0]))]
        return found

    def find_first(self, split: Split) -> DataError | None:
        """Return the first bad row of a split as an error; None when all rows fit.

        Raises:
            RowfallError: the split cannot be read to its first bad row.
        """
        reader, header = self.reader, self.header_of(split)
        wrong = data_errors.header_error(split, self.schema, header, self.encoding)
        if wrong is not None:
            return wrong
        rows = self.ask(reader.first_bad_row_query(split, header), reader.settings)
        if not rows:
            return None
        bad, before = read_bad_row(rows[0]), 0
        if bad.which == MALFORMED and _goes_on(bad.value or ""):
            # No line of this file is a row.
            return None if self.objects else replace(self, objects=True)._first_object(split)
        query = reader.breaks_query(split, bad.row, header)
        if query is not None:
            ((before,),) = self.ask(query, reader.settings)
        line, where = reader.line_of(bad.row, int(before or 0)), ""
        line = None if self.objects else line
        if bad.which == LONG and line is not None:
            bad = replace(bad, fields=len(self._fields_of(split, line)))
        dialect = self.encoding.dialect
        if dialect is not None and dialect.comment_found and bad.fields == 1 and line is not None:
            # It may be a line that begins as comments do, which is written as one field.
            bad = replace(bad, value="".join(self._fields_of(split, line)))
        if split.of_text and line is not None:
            line, where = line_in_file(self.source, split, line - int(self.encoding.has_header))
        if line is not None:
            (line,) = lines_in_source(self.source, split, self.encoding, [line])
            if isinstance(self.source, Numbered):
                where = f"{split.uri} {self.source.number} {line}"
        place = data_errors.RowPlace(split, line, where)
        trial = self._try_remedies(split, header, bad)
        schema, width = self.schema, len(header)
        error = data_errors.bad_row_error(place, self.encoding, schema, bad, trial, width)
        if isinstance(self.source, Numbered):
            return data_errors.without_file(error)
        return error

    def _first_object(self, split: Split) -> DataError | None:
        """Return the first bad row where rows are objects of an array; None where none is known."""
        try:
            return self.find_first(split)
        except RowfallError:
            return None  # something in it is no object: the engine's error says what

    def _try_remedies(self, split: Split, header: Sequence[str], bad: BadRow) -> TriedRemedies:
        """Return the remedies for a bad row, after trying other types on its value."""
        columns = self.schema.columns
        left_out = not_checkable(columns, self.encoding) is None and not self.objects
        rewritten = self.encoding.kind is Kind.TEXT and isinstance(self.source, RewritesToCsv)
        if bad.which <= 0 or data_errors.is_foreign(bad.value):
            return TriedRemedies(left_out=left_out)
        if self.encoding.kind is Kind.TEXT and bad.fields < len(header or columns):
            filled = self._filled(header, bad.fields) if rewritten and bad.fields else None
            return TriedRemedies(left_out=left_out, rewritten=rewritten, filled=filled)
        try:
            found = find_misfits(self.reader, FileRows([(split, header)]), self.ask)
        except RowfallError:
            found = []  # it cannot be read so far
        own = data_errors.column_of(bad, columns, len(header))
        value = data_errors.without_null_mark(bad.value, parse_type(own.type))
        first = next((m for m in found if m.column == own), UnfitColumn(own, value, ()))
        misfits = [replace(first, value=value), *(m for m in found if m.column != own)]
        tried = tuple(replace(m, types=self._taken(m, split, header)) for m in misfits)
        as_value = (own.type,) if own.notation and own.notation.canonical else ()
        settings = self.reader.settings
        taken = taken_types(own, value, as_value, self.encoding, self.ask, settings)
        word = self._null_word(value, [m.column for m in misfits], FileRows([(split, header)]))
        return TriedRemedies(tried, bool(taken), left_out, word=word)

    def _null_word(self, value: str | None, columns: Sequence[Column], rows: FileRows) -> str:
        """Return a word that means NULL and is all that does not fit; "" for none."""
        word = (value or "").strip()
        if (
            word not in MISSING_WORDS
            or not self.encoding.is_csv
            or installed.program() is None
            or not all(parse_type(column.type).nullable for column in columns)
        ):
            return ""
        try:
            return word if are_all(word, columns, self.reader, rows, self.ask) else ""
        except RowfallError:
            return ""

    def _filled(self, header: Sequence[str], there: int) -> dict[str, str] | None:
        """Return the types that columns need for NULL, which a row of so many fields lacks.

        None where no type of some column takes it.
        """
        settings, types = self.reader.settings, dict[str, str]()
        order = list(header) or [column.source for column in self.schema.columns]
        for column in self.schema.columns:
            if column.source not in order[there:]:
                continue
            wanted = (column.type, *candidates(column, None))
            taken = taken_types(column, None, wanted, self.encoding, self.ask, settings)
            if not taken:
                return None
            if taken[0] != column.type:
                types[column.name] = taken[0]
        return types

    def _taken(self, misfit: UnfitColumn, split: Split, header: Sequence[str]) -> tuple[str, ...]:
        column, value, reader = misfit.column, misfit.value, self.reader
        if engine_formats.are_given(self.encoding.format):
            return ()  # numbers there are read as no text, and --schema names the types
        long = nested_reading.is_nested(column.type) and self._has_long_integers(
            column, split, header
        )
        types = [*misfit.types, *candidates(column, value, long_integers=long)]
        if misfit.nulls:  # of which arrays, maps and tuples take none
            known = [(type_, parse_type(type_)) for type_ in types]
            types = [t if k.nullable else f"Nullable({t})" for t, k in known if k.known]
        return taken_types(column, value, types, self.encoding, self.ask, reader.settings)

    def _has_long_integers(self, column: Column, split: Split, header: Sequence[str]) -> bool:
        """Tell whether some value of a column holds integers that a float may not."""
        relation = self.reader.relation(split, header)
        long = f"match(toString({sql.name(column.source)}), '[0-9]{{16}}')"
        query = SqlText.of(f"SELECT max(ifNull({long}, 0)) FROM ", relation)
        try:
            return bool(int(self.ask(query, self.reader.settings)[0][0] or 0))
        except RowfallError:
            return True

    def _fields_of(self, split: Split, line: int) -> Sequence[str]:
        """Return the fields of a line; () where they cannot be told."""
        for _, text in self.ask(
            numbered_lines(self.source, split, self.encoding, [line]), IN_ORDER
        ):
            if not self.encoding.is_csv:
                return str(text).split("\t")
            with suppress(csv.Error):
                mark = self.encoding.delimiter
                return next(csv.reader([str(text)], delimiter=mark, strict=True), ())
        return ()

    def header_of(self, split: Split) -> tuple[str, ...]:
        """Return the column names of one file with a header, () for files without."""
        query = self.reader.header_query(split)
        rows = [] if query is None else self.ask(query, _ONE_BLOCK)
        return parse_header(str(rows[0][0]), self.encoding) if rows else ()

    def _with_bad_rows(self, splits: Sequence[Split]) -> list[Split]:
        """Return the splits with bad rows; a single one without reading it twice."""
        if len(splits) == 1:
            return list(splits)
        headers = [self.header_of(split) for split in splits]
        pairs = zip(splits, headers, strict=True)
        differ = [s for s, h in pairs if data_errors.header_error(s, self.schema, h, self.encoding)]
        if differ:
            return differ
        # Splits are read side by side here, each by one thread: only counts are asked for.
        settings = {**self.reader.settings, "max_threads": 4}
        counts = self.ask(self.reader.count_query(splits, headers), settings)
        return [splits[int(i)] for i, n in sorted(counts) if n]

    def _find_readable(self, split: Split) -> tuple[DataError | None, bool]:
        """Return the first bad row, and whether the file can be read to it, or to its end."""
        try:
            return self.find_first(split), True
        except RowfallError:
            return None, False  # the engine's own words are better

    def _of_engine(self, error: RowfallError, split: Split, *, readable: bool = True) -> DataError:
        """Return the engine's error in plain words; what its hint names is tried on the file.

        Args:
            readable: each row of it can be checked, so that bad ones can be left out.
        """
        found = data_errors.explain_engine_error(error.code, error.message, split.uri)
        column = data_errors.nested_misfit_column(error.message)
        if column is not None and not self._holds_objects(column, split):
            found.hint = data_errors.as_text(column)
        variant = data_errors.null_in_variant(error.message)
        if variant is not None:
            objects = self._holds_objects(variant, split)
            found.hint = data_errors.of_variant(variant, objects=objects)
        if error.code == NO_NULL:
            found.hint = self._for_null(error.message, split)
        if found.hint == data_errors.EMPTY_LISTS and not self.takes_empty_lists(split):
            found.hint = data_errors.CORRECT
        if readable and not_checkable(self.schema.columns, self.encoding) is None:
            return found
        return data_errors.without_leaving_out(found)

    def _for_null(self, message: str, split: Split) -> str:
        """Return the hint about a NULL that a column does not take, tried on such a value."""
        named = [c for c in self.schema.columns if data_errors.names_column(message, c)]
        wanted = named or [
            c for c in self.schema.columns if not parse_type(c.type).nullable and not c.optional
        ]
        if len(wanted) != 1:
            return data_errors.CORRECT
        (column,) = wanted
        types = taken_types(
            column, None, candidates(column, None), self.encoding, self.ask, self.reader.settings
        )
        trial = TriedRemedies((UnfitColumn(column, None, types),), left_out=False)
        return data_errors.remedies(column, self.schema, trial)

    def takes_empty_lists(self, split: Split) -> bool:
        """Tell whether a file is read with empty lists and maps in place of those that are NULL.

        All of it is: a row behind may not fit for another reason.
        """
        schema = self.schema
        if self.encoding.format == "Avro":
            schema = replace(schema, columns=with_empty_lists(schema.columns))
        error, readable = replace(self, schema=schema)._find_readable(split)
        return readable and error is None

    def _holds_objects(self, column: str, split: Split) -> bool:
        """Tell whether all values of a column of JSON are objects, as the type JSON wants them."""
        if self.encoding.kind is not Kind.JSON:
            return True
        kind = f"JSONType(line, {quote(column)})"
        query = SqlText.of(
            f"SELECT countIf({kind} NOT IN ('Object', 'Null')) FROM ",
            lines_relation(self.source, [split], self.encoding), " WHERE isValidJSON(line)",
        )  # fmt: skip
        try:
            return not int(self.ask(query, {})[0][0])
        except RowfallError:
            return True  # it cannot be read so far


def lines_in_source(
    source: Source, split: Split, encoding: Encoding, lines: Sequence[int]
) -> list[int]:
    """Return the lines of an object in which lines stand as they are read.

    They differ where text is rewritten: comments and empty lines are left out. Of messages their
    offsets.

    Args:
        lines: in ascending order.
    """
    if isinstance(source, Numbered):
        return source.numbers(split, lines)
    if encoding.dialect is None or not isinstance(source, RewritesToCsv) or not encoding.is_csv:
        return list(lines)
    try:
        found = source.lines_in(split, encoding, lines)
    except RowfallError:
        return list(lines)  # what is wrong with the file is another matter
    return found if len(found) == len(lines) else list(lines)


def numbered_lines(
    source: Source, split: Split, encoding: Encoding, wanted: Sequence[int]
) -> SqlText:
    """Return the query for (number from 1, text) of some lines; to be read in order."""
    return SqlText.of(
        "SELECT n, line FROM (SELECT rowNumberInAllBlocks() + 1 AS n, line FROM ",
        lines_relation(source, [split], encoding),
        f") WHERE n IN ({', '.join(map(str, wanted))})",
    )


def line_in_file(source: Source, split: Split, line: int) -> tuple[int, str]:
    """Return the line number in the file for one in a range of text, and what names it.

    Its number is that in the whole file, or else counted from the first byte of the range.

    Args:
        line: without the header.
    """
    start, near = split.start or 0, uri.scheme_of(split.uri) == uri.FILE
    if isinstance(source, Ranged) and split.part and start <= (NEAR if near else FAR):
        whole = replace(split, size=split.part.size)
        try:
            pieces = range(0, start, _PIECE)
            line += sum(
                source.part(whole, at, min(_PIECE, start - at)).count(b"\n") for at in pieces
            )
            return line, f"{split.uri} line {line}"
        except SourceError:
            pass  # what is wrong with the file is another matter; this is about the row
    return line, f"{split.uri} line {line} from byte {start:,} on"


def _goes_on(line: str) -> bool:
    """Tell whether a line is the beginning of JSON over several lines, or of an array."""
    text = line.strip()
    return re.match(r"\[\s*([\[{]|\Z)", text) is not None or (
        text.startswith("{") and text.endswith(("{", ",", "[", ":"))
    )
