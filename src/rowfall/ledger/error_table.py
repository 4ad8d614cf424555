"""The errors of pipelines beside the target: a row for each version of a file that has failed."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.dataclass import dataclass
from rowfall.engines.small_tables import INTEGER, LONG_TEXT, TEXT, TIME, SmallTables

TABLE = "_rowfall_errors"
# Who looks at an error after a quarter looks at the files anyway.
MOST_DAYS = 90
# Some 30 MB of usual messages, 300 at the most; a producer that writes only bad files, 20 a second,
# gets there in an hour and a half.
MOST_ROWS = 100_000
# Deleting is a mutation in ClickHouse: after so many rows, and when a watcher starts.
_CHECKED = 1_000
# A page for the message; of a value what shows which one it is.
MOST_MESSAGE, MOST_VALUE = 2_000, 500
_KINDS = (
    ("pipeline", TEXT), ("load", TEXT), ("file", LONG_TEXT), ("version", TEXT), ("line", INTEGER),
    ("column_name", TEXT), ("value", LONG_TEXT), ("message", LONG_TEXT), ("hint", LONG_TEXT),
    ("code", INTEGER), ("at", TIME),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileError:
    """The reason why one version of a file was not loaded; nothing in it is secret.

    Attributes:
        line: from 1; 0 where it is not known. ``code``: of the engine, 0 for none.
    """

    pipeline: str
    load: str
    file: str
    version: str
    line: int
    column: str
    value: str
    message: str
    hint: str
    code: int


class ErrorTable:
    """The table of errors beside one target; bounded in rows and age."""

    def __init__(self, tables: SmallTables) -> None:
        self._tables = tables
        self._added = 0
        tables.make(TABLE, _KINDS, ("at",), f"toDateTime(at) + INTERVAL {MOST_DAYS} DAY DELETE")
        self._trim()

    def add(self, errors: Sequence[FileError]) -> None:
        """Add rows.

        Raises:
            RowfallError: the target is away, or refuses.
        """
        names = [name for name, _ in _KINDS[:-1]]
        self._tables.insert(TABLE, names, [
            (e.pipeline, e.load, e.file, e.version, e.line, e.column, e.value[:MOST_VALUE],
             e.message[:MOST_MESSAGE], e.hint[:MOST_MESSAGE], e.code) for e in errors
        ])  # fmt: skip
        self._added += len(errors)
        if self._added >= _CHECKED:
            self._trim()

    def _trim(self) -> None:
        self._added = 0
        tables, name = self._tables, self._tables.name(TABLE)
        at = tables.dialect.name("at")  # a word of SQL in DuckDB
        if tables.dialect.trims:
            old = tables.dialect.ages.format(MOST_DAYS * 86_400)
            tables.delete(TABLE, f"{at} < {old}")
        # Many errors may be of one millisecond: where rows are numbered, the numbers tell.
        key = tables.dialect.number if tables.dialect.numbered else at
        newest = f"SELECT {key} FROM {name} ORDER BY {key} DESC LIMIT {MOST_ROWS}"
        # MySQL reads no table that it deletes from, unless as a table of its own.
        tables.delete(TABLE, f"{key} < (SELECT min({key}) FROM ({newest}) AS newest)")
