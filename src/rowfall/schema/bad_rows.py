"""Finds the rows behind an error of the engine, and loads around them where the user allows it.

Bad rows are counted over the whole load: ``--max-errors N`` or ``--max-error-ratio R``, whichever
allows more. A group with bad rows is loaded again from the lenient relation (every field as text,
checked value by value), and its bad rows are written to the rejects file before it is published.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import DataError, RowfallError, TargetError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind, Plan, Schema, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.engines.ask import read_rows
from rowfall.engines.embedded import Embedded
from rowfall.schema import bad_row_sql, data_errors, fast_path
from rowfall.schema.data_errors import same_object
from rowfall.sources.base import Source

# Finding bad rows runs beside nothing else, but not on a lane that the watch or a KILL needs.
LANE = 3
REJECTS = "rowfall-rejects.tsv"
# A quote never closed swallows the rest of a file; its first lines show what it was.
MOST_LINES = 100
COLUMNS = ("object", "line", "column", "reason", "text")


@dataclass(frozen=True, slots=True)
class Bad:
    """One row that was left out; ``lines`` counts what a quote never closed has swallowed."""

    uri: str
    line: int
    column: str
    reason: str
    lines: int
    text: str


class TooManyBadRowsError(DataError):
    """The load has met more bad rows than it may leave out."""


class Doctor:
    """One per load; the executor asks it when the engine complains about data.

    Args:
        engine: the embedded one of this machine, which reads the source once more.
        loading: the source as the engine that loads has to name it.
    """

    def __init__(
        self, source: Source, plan: Plan, engine: Embedded, options: Options, loading: Source
    ) -> None:
        self._source = source
        self._loading = loading
        self._plan = plan
        self._engine = engine
        self._options = options
        self._columns: list[Any] | None = None
        self._rejected = 0
        self._read = 0
        self._guard = threading.Lock()

    @property
    def tolerates(self) -> bool:
        """Whether bad rows may be left out at all."""
        return self._options.max_errors > 0 or self._options.max_error_ratio > 0

    @property
    def _encoding(self) -> Encoding:
        """Of the objects; rows that the engine makes are never bad."""
        if self._plan.encoding is None:
            raise ValueError("a source of bytes needs an encoding")
        return self._plan.encoding

    @property
    def rejects_path(self) -> Path:
        return Path(self._options.rejects or REJECTS)

    def explain(
        self, splits: Sequence[Split], error: RowfallError
    ) -> list[tuple[Split, DataError]]:
        """The splits that hold what the engine complained about, each with the place."""
        encoding = self._plan.encoding
        if encoding is None or not self._source.replayable:
            return []
        schema = fast_path.careful(self._plan.schema, encoding)
        try:
            return data_errors.explain(self._source, splits, encoding, schema, error, self._ask)
        except RowfallError:
            # The diagnosis met the same trouble (a broken archive): halves of the group will tell.
            return []

    def other_types(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Parquet files whose columns are not those of the sampled file, and how they differ.

        The reader casts to the types that it is told and leaves out columns that it is not asked
        for, both without a word. Footers are read in one statement, a few milliseconds a file.
        """
        encoding = self._plan.encoding
        if encoding is None or encoding.format != "Parquet" or not self._source.replayable:
            return []
        try:
            footers = self._footers(splits, encoding)
            if self._columns is None:
                first = self._source.sample(self._plan.listing, 1)
                among = (columns for columns, paths in footers if _any_same(first[0].uri, paths))
                self._columns = next(among, None) or self._footers(first, encoding)[0][0]
        except RowfallError:
            return []  # a broken file: the INSERT meets it, too, and finds out which
        known, found = dict(map(tuple, self._columns)), []
        for columns, paths in footers:
            if columns == self._columns:
                continue
            own = dict(map(tuple, columns))
            differ = [
                f"{name} is {own.get(name, 'missing')} instead of {known.get(name, 'missing')}"
                for name in {**known, **own}
                if own.get(name) != known.get(name)
            ]
            what = f"other columns than in the first file: {'; '.join(differ[:5])}"
            found += [(s, what) for s in splits if _any_same(s.uri, paths)]
        return found

    def _footers(self, splits: Sequence[Split], encoding: Encoding) -> list[list[Any]]:
        """[columns as (name, type)], [paths] of Parquet files, grouped by their columns."""
        metadata = replace(encoding, format="ParquetMetadata", compression="none")
        relation = self._source.relation(splits, metadata, "")
        return self._ask(
            SqlText.of(
                "SELECT arraySort(arrayMap(c -> (c.path, concat(c.physical_type, "
                "if(c.logical_type = 'None', '', concat(' ', c.logical_type)))), columns)) AS k, "
                "groupUniqArray(_path) FROM ",
                relation,
                " GROUP BY k",
            ),
            {},
        )

    def second_look(self, splits: Sequence[Split], schema: Schema) -> Schema | None:
        """Another way to read the same rows, when what failed may only be the fast way.

        First integers as text; then strings that hold line breaks, if every quote is closed.
        """
        encoding = self._plan.encoding
        if encoding is None or not self._source.replayable:
            return None
        if fast_path.is_fast(schema):
            return fast_path.careful(schema, encoding)
        guarded = fast_path.guards_breaks(schema) and encoding.is_csv
        try:
            if guarded and self._quotes_are_closed(splits):
                return fast_path.with_breaks(schema, encoding)
        except RowfallError:
            pass  # an object that cannot be read to its end; the diagnosis will say which
        return None

    def _quotes_are_closed(self, splits: Sequence[Split]) -> bool:
        """Whether every object holds an even number of quotes (RFC 4180: each has its partner)."""
        lines = Encoding("LineAsString", self._encoding.compression, Kind.TEXT)
        relation = self._source.relation(splits, lines, "`line` String")
        rows = self._ask(
            SqlText.of(
                "SELECT max(odd) FROM (SELECT sum(countSubstrings(line, '\"')) % 2 AS odd FROM ",
                relation,
                " GROUP BY _path)",
            ),
            {},
        )
        return not rows or not int(rows[0][0] or 0)

    # --- loading around bad rows --------------------------------------------------------------

    def tolerant(self, splits: Sequence[Split]) -> tuple[SqlText, dict[str, Any]]:
        """The SELECT of the rows that fit, and the settings that it needs.

        Raises:
            UsageError: a column cannot be checked value by value.
        """
        encoding = self._encoding
        schema = fast_path.careful(self._plan.schema, encoding)
        headers = [data_errors.header_of(self._source, s, encoding, self._ask) for s in splits]
        good = bad_row_sql.good_rows(self._loading, splits, encoding, schema, headers)
        names = ", ".join(sql.name(c.name) for c in schema.columns)
        select = SqlText.of(f"SELECT {names} FROM ", good)
        return select, bad_row_sql.settings(encoding, schema)

    def reject(self, splits: Sequence[Split], good: int) -> int:
        """Write the bad rows of ``splits`` to the rejects file.

        Args:
            good: rows of the same splits that fit.

        Returns:
            How many lines were left out.

        Raises:
            TooManyBadRowsError: more than the load may leave out; nothing of the group is
                published.
            TargetError: the rejects file cannot be written.
        """
        encoding = self._encoding
        schema = fast_path.careful(self._plan.schema, encoding)
        found: list[Bad] = []
        for split in splits:
            header = data_errors.header_of(self._source, split, encoding, self._ask)
            query = bad_row_sql.bad_rows(self._source, split, encoding, schema, header)
            rows = self._ask(query, bad_row_sql.settings(encoding, schema))
            found += self._with_lines(split, encoding, schema, header, rows)
        lines = sum(bad.lines for bad in found)
        with self._guard:
            allowed = max(
                self._options.max_errors,
                int(self._options.max_error_ratio * (self._read + good + lines)),
            )
            if self._rejected + lines > allowed:
                first = found[0]
                where = f"{first.uri} line {first.line}"
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

    def _with_lines(
        self,
        split: Split,
        encoding: Encoding,
        schema: Schema,
        header: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> list[Bad]:
        """Lines instead of record numbers, in the order of the file."""
        found, breaks = [], 0
        guarded = fast_path.guards_breaks(schema) or not encoding.is_csv
        for uri, record, column, reason, lines, text in sorted(rows, key=lambda row: int(row[1])):
            if not guarded:
                # Good rows may hold line breaks, too: they have to be counted.
                query = bad_row_sql.breaks_query(
                    self._source, split, encoding, schema, int(record) - 1, header
                )
                if query is not None:
                    settings = bad_row_sql.settings(encoding, schema)
                    breaks = int(self._ask(query, settings)[0][0] or 0)
            line = bad_row_sql.line_of(int(record) - 1, breaks, encoding) or int(record)
            found.append(Bad(str(uri), line, str(column), str(reason), int(lines), str(text)))
            if guarded:
                breaks += int(lines) - 1
        return self._as_written(split, encoding, found)

    def _as_written(self, split: Split, encoding: Encoding, found: list[Bad]) -> list[Bad]:
        """The bad rows with their text as it stands in the file, nothing left out."""
        wanted = {
            n for bad in found for n in range(bad.line, bad.line + min(bad.lines, MOST_LINES))
        }
        if encoding.kind is Kind.TYPED or not wanted:
            return found
        lines = Encoding("LineAsString", encoding.compression, Kind.TEXT)
        relation = self._source.relation([split], lines, "`line` String")
        query = SqlText.of(
            "SELECT n, line FROM (SELECT rowNumberInAllBlocks() + 1 AS n, line FROM ", relation,
            f") WHERE n IN ({', '.join(map(str, sorted(wanted)))})",
        )  # fmt: skip
        one = {"max_threads": 1, "input_format_parallel_parsing": 0,
               "query_plan_filter_push_down": 0}  # fmt: skip
        texts = {int(n): str(line) for n, line in self._ask(query, one)}
        return [
            replace(
                bad,
                text="\n".join(
                    texts.get(n, "") for n in range(bad.line, bad.line + min(bad.lines, MOST_LINES))
                )
                or bad.text,
            )
            for bad in found
        ]

    def _write(self, found: Sequence[Bad]) -> None:
        """Put bad rows into the rejects file, in place of what an earlier try wrote of the same
        objects: one tab-separated line a row, with backslash escapes."""
        path, own = self.rejects_path, {bad.uri for bad in found}
        try:
            kept = []
            if path.exists():
                with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as old:
                    kept = [x for x in old if _unescaped(x.split("\t", 1)[0]) not in own]
            with path.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                file.writelines(kept or ["\t".join(COLUMNS) + "\n"])
                for bad in found:
                    fields = (bad.uri, str(bad.line), bad.column, bad.reason, bad.text)
                    file.write("\t".join(map(_escaped, fields)) + "\n")
        except OSError as error:
            raise TargetError(
                f"cannot write the rejects file {path}: {error.strerror}",
                hint="Give another place with --rejects.",
            ) from None

    def _ask(self, text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        fixed = {"output_format_json_quote_64bit_integers": 0}
        statement = Statement(text, {**settings, **fixed}, format="JSONCompactEachRow")
        return read_rows(self._engine.run(statement, lane=LANE).data)


def _any_same(uri: str, paths: Sequence[Any]) -> bool:
    return any(same_object(uri, str(path)) for path in paths)


def _escaped(text: str) -> str:
    """Backslash escapes as in TSV, so that a rejected row stays one line."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n", "r": "\r"}.get(m[1], m[1]), text)
