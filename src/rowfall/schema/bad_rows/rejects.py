"""The bad rows of one load: explained, or left out, counted and written to the rejects file.

:class:`BadRows` counts over the whole load: ``--max-errors N`` or ``--max-error-ratio R``,
whichever allows more. A group with bad rows is loaded again from the lenient relation (every field
as text, checked value by value), and its bad rows are written to the rejects file before it is
published.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from rowfall.core import disk, sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    DataError,
    RowfallError,
    TargetError,
    without_letters,
)
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind, Plan, Refused, Schema
from rowfall.core.options import Options
from rowfall.core.own_files import REJECTS_NAME
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine
from rowfall.engines.database import RefusedRowError
from rowfall.schema import file_units, time_units
from rowfall.schema.bad_rows.data_errors import same_object
from rowfall.schema.bad_rows.search import (
    BadRowSearch,
    line_in_file,
    lines_in_source,
    numbered_lines,
)
from rowfall.schema.declared_columns import described
from rowfall.schema.projection import Scan, of_typed
from rowfall.schema.text.file_ends import matters, open_ended, quoted_last
from rowfall.schema.text.records import IN_ORDER, lines_relation
from rowfall.schema.text.whole_rows import (
    LAST_EMPTY,
    last_name,
    with_loose_blanks,
    with_open_end,
)
from rowfall.schema.time_units import Units
from rowfall.schema.types import (
    bytes_columns,
    footers,
    npy_files,
    parquet_files,
    strict_reading,
)
from rowfall.schema.types.footers import Footer
from rowfall.schema.types.null_lists import null_lists
from rowfall.sources.base import Numbered, Source
from rowfall.stores.objects import ObjectSource
from rowfall.systems.clickhouse.codes import BLANKS_REFUSED

# Finding bad rows runs beside nothing else, but not on a lane that the watch or a KILL needs.
LANE = 3
REJECTS = REJECTS_NAME
# A quote never closed swallows the rest of a file; its first lines show what it was.
MOST_LINES = 100
COLUMNS = ("object", "line", "column", "reason", "text")
_SOME = 4
_SHOWN = 200  # characters of a value
"""Lines that are named of a value that a database refuses."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """One row that was left out; ``lines`` counts what a quote never closed has swallowed."""

    uri: str
    line: int
    column: str
    reason: str
    lines: int
    text: str


class TooManyBadRowsError(DataError):
    """The load has met more bad rows than it may leave out."""


class BadRows:
    """The bad rows of one load: explained, or left out and counted.

    Args:
        engine: of this machine, which reads the source once more.
        loading: the source as the engine that loads has to name it.
    """

    def __init__(
        self, source: Source, plan: Plan, engine: Engine, options: Options, loading: Source
    ) -> None:
        self._source = source
        self._loading = loading
        self._plan = plan
        self._engine = engine
        self._options = options
        self._known: Footer | None = None
        self._units: Units | None = None
        self._open_ends: set[str] = set()
        self._rejected = 0
        self._read = 0
        self._guard = threading.Lock()

    @property
    def may_be_left_out(self) -> bool:
        """True where the options allow some bad rows."""
        return self._options.max_errors > 0 or self._options.max_error_ratio > 0

    @property
    def most_left(self) -> int:
        """Return the number of rows that may still be left out.

        No limit (2^62) with ``--max-error-ratio``, which is checked when all rows are counted.
        """
        if self._options.max_error_ratio > 0:
            return 1 << 62
        with self._guard:
            return max(0, self._options.max_errors - self._rejected)

    @property
    def rejects_path(self) -> Path:
        """Return the file that bad rows are written to."""
        return Path(self._options.rejects or REJECTS)

    def explain(
        self, splits: Sequence[Split], error: RowfallError
    ) -> list[tuple[Split, DataError]]:
        """Return the splits that hold what the engine refused, each with its first bad row."""
        if self._plan.encoding is None or not self._source.replayable:
            return []
        self.open_ended(splits)
        try:
            return self._search.explain(splits, error)
        except RowfallError:
            # The search met the same trouble (a broken archive): halves of the group will tell.
            return []

    def locate(self, splits: Sequence[Split], error: RefusedRowError) -> DataError:
        """Return an error of a database about a value with the file, and the lines that hold it."""
        found, split = error.message, splits[0]
        if len(splits) > 1:
            return error
        encoding, column = self._plan.encoding, error.column
        by_name = {c.name: c for c in self._plan.schema.columns}
        where, wanted = split.name, error.condition.replace("{}", "v")
        if error.row is not None:
            error.line = error.row if encoding is None else self._line(split, encoding, error.row)
            text = encoding is not None and encoding.kind in (Kind.TEXT, Kind.JSON)
            where += f" {'line' if text else 'row'} {error.line}"
        if error.no_text and encoding is not None:
            self._find_text(split, encoding, error)
            column, found = error.column, error.message
        if error.value is not None:
            wanted = wanted or f"toString(v) = {quote(error.value)}"
        if encoding is not None and column in by_name and wanted:
            schema, own = self._plan.schema, by_name[column]
            value = own.expression or sql.name(own.source or own.name)
            rows = SqlText.of(
                "SELECT n, toString(v) FROM (SELECT rowNumberInAllBlocks() + 1 AS n, "
                f"{value} AS v FROM ",
                Scan(self._source, [split], encoding, schema).relation(),
                f") WHERE {wanted} LIMIT {_SOME}",
            )  # fmt: skip
            with suppress(RowfallError):
                refused = self._ask(rows, self._some_columns())
                lines = [self._line(split, encoding, int(n)) for n, _ in refused]
                if lines:
                    if error.value is None:
                        error.value = str(refused[0][1])
                        found += f": {error.value[:_SHOWN]!r}"
                    what = "line" if encoding.kind in (Kind.TEXT, Kind.JSON) else "row"
                    where += f" {what}{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
                    error.line = lines[0]
        error.uri, error.message = split.uri, f"{where}: {found}"
        return error

    def _some_columns(self) -> dict[str, str | int | float]:
        """Return the settings of a query that reads some columns of rows, in their order."""
        settings = {s.name: s.value for s in self._plan.work.settings}
        # Native has all columns, and its reader refuses those that it is not asked for.
        return {**settings, **IN_ORDER, "input_format_skip_unknown_fields": 1}

    def _find_text(self, split: Split, encoding: Encoding, error: RefusedRowError) -> None:
        """Find the column and the value that a database refuses, where it names neither."""
        schema, parts = self._plan.schema, list[str]()
        for column in schema.columns:
            if not bytes_columns.holds_strings(column.type):
                continue
            value = column.expression or sql.name(column.source or column.name)
            wrong = bytes_columns.no_text(column.type, value)
            parts += [wrong, f"({quote(column.name)}, ifNull(toString({value}), ''))"]
        if not parts:
            return
        found = f"multiIf({', '.join(parts)}, ('', ''))"
        rows = SqlText.of(
            f"SELECT f.1, f.2 FROM (SELECT {found} AS f FROM ",
            Scan(self._source, [split], encoding, schema).relation(),
            ") WHERE f.1 != '' LIMIT 1",
        )
        with suppress(RowfallError):
            for name, value in self._ask(rows, self._some_columns()):
                error.column, error.value = str(name), str(value)
                error.message += f": {error.value[:_SHOWN]!r} in column {name}"

    def _line(self, split: Split, encoding: Encoding, row: int) -> int:
        if split.of_text:
            return line_in_file(self._source, split, row)[0]
        return row + int(encoding.has_header)

    def other_types(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Return files whose columns differ from those of the sampled file, and how.

        The reader casts to the types that it is given and leaves out columns that it is not asked
        for, both without a word. Footers are read in one statement, a few milliseconds a file.
        """
        encoding = self._plan.encoding
        if encoding is None or not self._source.replayable:
            return []
        if encoding.format in file_units.FORMATS and (units := self._other_units(splits, encoding)):
            return units
        if encoding.format in footers.NAMED and any(c.optional for c in self._plan.schema.reads):
            return self._other_columns(splits, encoding)
        if encoding.format == npy_files.FORMAT:
            (column, *_) = self._plan.schema.reads
            read = column.read_type or column.type
            arrays = ((s, npy_files.misfit(self._source, s, encoding, read)) for s in splits)
            return [(s, what) for s, what in arrays if what]
        if encoding.format != "Parquet" or self._plan.schema.checks.footers_fit:
            return []
        try:
            found = self._footers(splits, encoding)
            if self._known is None:
                first = self._source.sample(self._plan.listing, 1)
                among = (footer for footer in found if _any_same(first[0].uri, footer.paths))
                self._known = next(among, None) or self._footers(first, encoding)[0]
        except RowfallError:
            return []  # a broken file: the INSERT meets it, too, and finds out which
        reads, some = self._plan.schema.reads, footers.some_columns(self._options)
        others = []
        for footer in found:
            if differ := footers.misfits(footer, self._known, reads, some=some):
                what = f"other columns than in the first file: {'; '.join(differ[:5])}"
                others += [(s, what) for s in splits if _any_same(s.uri, footer.paths)]
        return others

    def null_lists(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Return the files in which a list or a map is NULL, and the columns that hold it.

        Raises:
            SourceError: a file cannot be read.
        """
        encoding, schema = self._plan.encoding, self._plan.schema
        columns = [c for c in schema.reads if c.name in schema.lists]
        if encoding is None or not columns:
            return []
        found = []
        for split in {split.uri: split for split in splits}.values():
            names = null_lists(self._source, split, encoding, columns, self._ask)
            if names:
                found += [(s, ", ".join(names)) for s in splits if s.uri == split.uri]
        return found

    def tried_hint(self, split: Split, error: RowfallError) -> str | None:
        """Return the hint of an error without --quote none, where that reads no rows of a split."""
        shorter = without_letters(error.hint)
        same = shorter == error.hint or self._reads_without_quotes(split)
        return error.hint if same else shorter

    def _reads_without_quotes(self, split: Split) -> bool:
        """Tell whether each line of a split has the fields of a row where quotes are letters."""
        encoding = self._plan.encoding
        if encoding is None or not self._source.replayable:
            return False
        dialect = encoding.dialect
        mark = dialect.delimiter if dialect else encoding.delimiter
        width = encoding.fields or len(encoding.names) or len(self._plan.schema.reads)
        wrong = f"line != '' AND length(splitByString({quote(mark)}, line)) != {width}"
        if dialect is not None and dialect.comment:
            wrong += f" AND NOT startsWith(line, {quote(dialect.comment)})"
        lines = lines_relation(self._source, [split], replace(encoding, dialect=None))
        try:
            return not self._ask(SqlText.of("SELECT 1 FROM ", lines, f" WHERE {wrong} LIMIT 1"), {})
        except RowfallError:
            return False

    def takes_empty_lists(self, split: Split) -> bool:
        return self._search.takes_empty_lists(split)

    def _other_units(self, splits: Sequence[Split], encoding: Encoding) -> list[tuple[Split, str]]:
        """Return the files whose times count other units than those of the sampled file."""
        source = self._source
        if not isinstance(source, ObjectSource) or len(self._plan.listing) == 1:
            return []
        registry = file_units.registry_of(self._options)
        first = self._units
        if first is None:
            split = source.sample(self._plan.listing, 1)[0]
            first = self._units = file_units.units_of(source, split, encoding, registry) or {}
        others = []
        names = {column.source for column in self._plan.schema.reads}
        # Where the first file has no durations, as most have none, no other one is looked into.
        looked_at = encoding.format in file_units.ANY_TIMES or any(first.values())
        for split in splits if looked_at else ():
            own = file_units.units_of(
                source, split, encoding, registry
            )  # None: the INSERT says why
            if own and (what := time_units.other_units(first, own, names)):
                others.append((split, f"other columns than in the first file: {what}"))
        return others

    def _other_columns(
        self, splits: Sequence[Split], encoding: Encoding
    ) -> list[tuple[Split, str]]:
        """Return the files whose columns are not those that are read, each asked for by itself.

        Where files may lack columns, the reader fills in whatever it does not find.
        """
        others = []
        some = footers.some_columns(self._options)
        for split in {split.uri: split for split in splits}.values():
            try:
                found = described(self._source.relation, [split], encoding, self._ask)
            except RowfallError:
                continue  # a broken file: the INSERT finds out which
            names = [(column.name, column.declared.read) for column in found]
            if what := footers.other_columns(names, self._plan.schema.reads, some=some):
                text = f"other columns than in the sampled files: {'; '.join(what[:5])}"
                others += [(s, text) for s in splits if s.uri == split.uri]
        return others

    def _footers(self, splits: Sequence[Split], encoding: Encoding) -> list[Footer]:
        """Return the columns of Parquet files."""
        if here := parquet_files.read(self._source, splits, encoding):
            return parquet_files.footers_of(here.files)
        query = footers.question(self._source, splits, encoding)
        return footers.read_answer(self._ask(query, {}))

    def other_reading(
        self, splits: Sequence[Split], schema: Schema, error: RowfallError
    ) -> Schema | None:
        """Return another way to read the same rows, where only the cheaper one may have failed.

        First integers as text; then blanks that the reader refuses; then a last field that the end
        of a file leaves empty; then strings that hold line breaks, if every quote is closed.
        """
        encoding = self._plan.encoding
        if encoding is None or not self._source.replayable:
            return None
        if strict_reading.reads_numbers(schema):
            return strict_reading.with_integers_as_text(schema, encoding)
        loose = with_loose_blanks(schema, encoding) if error.code in BLANKS_REFUSED else None
        if loose is not None:
            return loose
        try:
            if not schema.checks.ends_known and matters(schema, encoding):
                if self.open_ended(splits):
                    lasts = {self._last_name(split, schema) for split in splits}
                    last = lasts.pop()
                    if last is not None and not lasts:
                        return with_open_end(schema, encoding, last)
                elif LAST_EMPTY in error.message:
                    return replace(schema, checks=replace(schema.checks, ends_known=True))
            refuses = encoding.is_csv and strict_reading.refuses_line_breaks(schema)
            if refuses and self._quotes_are_closed(splits):
                held, last = (
                    strict_reading.with_line_breaks(schema, encoding),
                    schema.checks.open_end,
                )
                return with_open_end(held, encoding, last) if last else held
        except RowfallError:
            pass  # an object that cannot be read to its end; the search will say which
        return None

    def open_ended(self, splits: Sequence[Split]) -> list[Split]:
        """Return the splits whose last field is empty because the file ends there."""
        encoding = self._plan.encoding
        if encoding is None or not self._source.replayable:
            return []
        if not matters(self._plan.schema, encoding):
            return []
        try:
            found = open_ended(self._source, encoding, splits, self._ask)
        except RowfallError:
            return []  # an object that cannot be read; whoever reads it next says why
        self._open_ends |= {split.name for split in found}
        return found

    def _last_name(self, split: Split, schema: Schema) -> str | None:
        """Return the name of the last field where an empty one means NULL; None where it may not.

        A quoted empty string there means an empty string, and then nobody can tell the two.
        """
        if quoted_last(self._source, self._encoding, split, self._ask):
            return None
        header = self._search.header_of(split)
        return header[-1] if header else last_name(schema, self._encoding)

    def quotes_are_closed_for(self, splits: Sequence[Split], engine: Engine) -> bool:
        """Tell whether every object holds an even number of quotes, by the engine that loads them.

        Raises:
            RowfallError: it cannot read them.
        """
        rows = engine.ask(_odd_quotes(self._loading, splits, self._encoding), lane=LANE)
        return not rows or not int(rows[0][0] or 0)

    def _quotes_are_closed(self, splits: Sequence[Split]) -> bool:
        """Tell whether every object holds an even number of quotes, as RFC 4180 asks for."""
        rows = self._ask(_odd_quotes(self._source, splits, self._encoding), {})
        return not rows or not int(rows[0][0] or 0)

    # --- loading around bad rows --------------------------------------------------------------

    def select_good_rows(self, splits: Sequence[Split]) -> tuple[SqlText, dict[str, Any]]:
        """Return the SELECT of the rows that fit, and the settings that it needs.

        Raises:
            UsageError: a column cannot be checked value by value.
        """
        self.open_ended(splits)
        search = self._search
        reader = replace(search.reader, source=self._loading)
        good = reader.good_rows(splits, [search.header_of(split) for split in splits])
        names = ", ".join(sql.name(c.name) for c in reader.schema.columns)
        rows = SqlText.of(f"SELECT {names} FROM ", good)
        if self._plan.schema.projection is not None:
            typed = SqlText.of("(", rows, ")")
            columns = self._plan.schema.columns
            rows = sql.select(columns, of_typed(self._plan.schema, typed))
        return rows, reader.settings

    def reject(
        self, splits: Sequence[Split], good: int, refused: Sequence[Refused] = (), *,
        skips: bool = True,
    ) -> int:  # fmt: skip
        """Write the bad rows of ``splits`` to the rejects file.

        Args:
            good: rows of the same splits that fit.
            refused: rows of the only split that a database would not have.
            skips: rows that the engine would not have were left out, too, before those were sent.

        Returns:
            How many lines were left out.

        Raises:
            TooManyBadRowsError: more than the load may leave out; nothing of the group is
                published.
            TargetError: the rejects file cannot be written.
        """
        found: list[RejectedRow] = []
        for split in splits:
            header = self._search.header_of(split)
            reader = self._search.reader
            rows: list[Sequence[Any]] = []
            if skips:
                rows += self._ask(reader.rejects_query(split, header), reader.settings)
            rows += _records(split, refused, sorted(int(row[1]) for row in rows))
            found += self._with_lines(split, header, rows)
        if skips and not refused and self._loading is not self._source:
            self._check_whole(splits, good, len(found))
        lines = sum(bad.lines for bad in found)
        with self._guard:
            allowed = max(
                self._options.max_errors,
                int(self._options.max_error_ratio * (self._read + good + lines)),
            )
            if self._rejected + lines > allowed:
                first = found[0]
                word = self._source.number if isinstance(self._source, Numbered) else "line"
                where = f"{first.uri} {word} {first.line}"
                where += f' column "{first.column}"' if first.column else ""
                raise TooManyBadRowsError(
                    f"{where} {first.reason}, with {lines - 1:,} more bad lines here: "
                    f"{self._rejected + lines:,} are more than the {allowed:,} allowed",
                    uri=first.uri,
                    line=first.line,
                    column=first.column or None,
                    value=first.text[:60],
                    hint="Correct the files, or allow more with --max-errors or --max-error-ratio.",
                )
            self._write(found)
            self._rejected += lines
            self._read += good + lines
        return lines

    def _check_whole(self, splits: Sequence[Split], good: int, bad: int) -> None:
        """Check that each row was stored or left out, where two engines have told good from bad.

        Raises:
            TargetError: an older server holds some for bad that are none here, or the other way.
        """
        reader, rows = self._search.reader, 0
        for split in splits:
            relation = reader.relation(split, self._search.header_of(split))
            ((count,),) = self._ask(SqlText.of("SELECT count() FROM ", relation), reader.settings)
            rows += int(count)
        if rows != good + bad:
            raise TargetError(
                f"the server took {good:,} of {rows:,} rows of {splits[0].name}"
                f"{' and others' if len(splits) > 1 else ''}, and {bad:,} do not fit here: "
                "its release reads some values otherwise",
                hint="Let one engine read them all, with --push.",
            )

    def _with_lines(
        self, split: Split, header: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> list[RejectedRow]:
        """Return bad rows with lines instead of record numbers, in the order of the file."""
        found, breaks, reader = [], 0, self._search.reader
        # Good rows hold line breaks only where those are not refused; then they have to be counted.
        refused = strict_reading.refuses_line_breaks(reader.schema) or not reader.encoding.is_csv
        for uri_, record, column, reason, lines, text in sorted(rows, key=lambda row: int(row[1])):
            if not refused:
                query = reader.breaks_query(split, int(record) - 1, header)
                if query is not None:
                    breaks = int(self._ask(query, reader.settings)[0][0] or 0)
            line = reader.line_of(int(record) - 1, breaks) or int(record)
            bad = RejectedRow(str(uri_), line, str(column), str(reason), int(lines), str(text))
            found.append(bad)
            if refused:
                breaks += int(lines) - 1
        found = self._as_written(split, found)
        lines = sorted({bad.line for bad in found})
        there = lines_in_source(self._source, split, self._encoding, lines)
        known = dict(zip(lines, there, strict=True))
        return [replace(bad, line=known[bad.line]) for bad in found]

    def _as_written(self, split: Split, found: list[RejectedRow]) -> list[RejectedRow]:
        """Return bad rows with their text as it stands in the file, nothing left out."""
        lines_of = {bad: range(bad.line, bad.line + min(bad.lines, MOST_LINES)) for bad in found}
        wanted = sorted({number for lines in lines_of.values() for number in lines})
        if self._encoding.kind is Kind.TYPED or not wanted:
            return found
        query = numbered_lines(self._source, split, self._encoding, wanted)
        texts = {int(n): str(line) for n, line in self._ask(query, IN_ORDER)}
        written = ("\n".join(texts.get(n, "") for n in lines_of[bad]) for bad in found)
        return [replace(b, text=text or b.text) for b, text in zip(found, written, strict=True)]

    def _write(self, found: Sequence[RejectedRow]) -> None:
        """Write bad rows to the rejects file: tab-separated lines with backslash escapes.

        They take the place of what an earlier attempt wrote of the same objects.
        """
        path, own = self.rejects_path, {bad.uri for bad in found}
        try:
            kept = []
            if path.exists():
                with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as old:
                    kept = [x for x in old if _unescaped(x.split("\t", 1)[0]) not in own]
            with self._opened(path) as file:
                file.writelines(kept or ["\t".join(COLUMNS) + "\n"])
                for bad in found:
                    fields = (bad.uri, str(bad.line), bad.column, bad.reason, bad.text)
                    file.write("\t".join(map(_escaped, fields)) + "\n")
        except OSError as error:
            raise TargetError(
                f"cannot write the rejects file {path}: {error.strerror}",
                hint="Give another place with --rejects.",
            ) from None

    def _opened(self, path: Path) -> IO[str]:
        """Open the rejects file, emptied; a new one is for this user alone, as it holds data."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        # Where --rejects leads, links and devices included, is for the user to say.
        if self._options.rejects:
            opened = os.open(path, flags | os.O_CLOEXEC, 0o600)
        else:
            opened = disk.open_own(path, flags)
        return open(opened, "w", encoding="utf-8", errors="surrogateescape", newline="\n")

    @property
    def _encoding(self) -> Encoding:
        """Return the encoding of the objects; rows that the engine makes are never bad."""
        if self._plan.encoding is None:
            raise ValueError("a source of bytes needs an encoding")
        return self._plan.encoding

    @property
    def _search(self) -> BadRowSearch:
        schema = self._plan.schema.reading
        if self._options.select:  # types are those of what is read, whatever the table has
            schema = replace(schema, exists=False, layout=replace(schema.layout, keys=()))
        schema = strict_reading.with_integers_as_text(schema, self._encoding)
        return BadRowSearch(
            self._source, self._encoding, schema, self._ask, frozenset(self._open_ends)
        )

    def _ask(self, text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        return self._engine.ask(text, settings, lane=LANE)


def _odd_quotes(source: Source, splits: Sequence[Split], encoding: Encoding) -> SqlText:
    """Return the SELECT that gives 1 where some object holds an odd number of quotes."""
    return SqlText.of(
        "SELECT max(odd) FROM (SELECT sum(countSubstrings(line, '\"')) % 2 AS odd FROM ",
        lines_relation(source, splits, encoding),
        " GROUP BY _path)",
    )


def _records(
    split: Split, refused: Sequence[Refused], bad: Sequence[int]
) -> list[tuple[str, int, str, str, int, str]]:
    """Return rows that a database has refused as :meth:`LenientReader.rejects_query` has bad ones.

    Args:
        bad: numbers of rows of the split that were not sent, ascending.
    """
    found = []
    for one in refused:
        record = one.row
        for number in bad:
            record += number <= record
        found.append((split.uri, record, one.column or "", one.reason, 1, one.value or ""))
    return found


def _any_same(uri: str, paths: Sequence[Any]) -> bool:
    return any(same_object(uri, str(path)) for path in paths)


def _escaped(text: str) -> str:
    """Return text with backslash escapes as in TSV, so that a rejected row stays one line."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _unescaped(text: str) -> str:
    """Undo :func:`_escaped`."""
    return re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n", "r": "\r"}.get(m[1], m[1]), text)
