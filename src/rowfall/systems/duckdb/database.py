"""DuckDB as a target: rows as Arrow, and the record of what is loaded in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.patterns import regex
from rowfall.core.sqltext import identifier, literal, qualified
from rowfall.engines.arrow_rows import TextBatches
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import RefusedRowError, Result
from rowfall.engines.file_database import FileDatabase, FileTransaction
from rowfall.sources.arrow_batches import in_frames
from rowfall.sources.file_database import MORE_MEMORY
from rowfall.systems.duckdb.client import (
    ABOUT,
    BATCH_ROWS,
    LIST_TABLES,
    READER,
    UNIQUE,
    columns_of,
    connect,
    driver,
    said,
)
from rowfall.systems.duckdb.types import read_type, select

# What comes before the columns in the text of a table.
_CREATE = regex(r'\ACREATE TABLE (?:(?:"(?:[^"]|"")*"|[^\s".(]+)\.?)+\s*(?=\()')
_FULL = ("No space left", "File too large", "Input/output error")
_DEPENDS_HINT = (
    "Drop the foreign key that names the table, or replace rows by their key: --upsert KEY"
)
_KEY = regex(r'[Dd]uplicate key "([^":]+): (.*?)"')
_NOT_NULL = regex(r"NOT NULL constraint failed: .*\.(\S+)")


class DuckDBDatabase(FileDatabase):
    """One table of a file; see :class:`rowfall.engines.database.Database`."""

    LIST_TABLES = LIST_TABLES

    @property
    def kind(self) -> str:
        return f"DuckDB {driver().__version__}"

    def connect(self, *, read_only: bool) -> Any:
        return connect(self.path, self.options, TargetError, read_only=read_only)

    def errors(self) -> type[Exception]:
        return READER.errors()

    def ours(self, error: Exception) -> RowfallError:
        duckdb, text = driver(), said(error)
        if any(word in text for word in _FULL):
            hint = "Free some space there and run the same command again."
            return TargetError(f"cannot write {self.path}: {text}", hint=hint)
        if isinstance(error, READER.no_memory()):
            return TargetError(f"DuckDB: {text}", hint=MORE_MEMORY)
        if isinstance(error, duckdb.TransactionException):
            return EngineError(f"DuckDB: {text}", transient=True)
        if not isinstance(error, duckdb.DataError | duckdb.IntegrityError):
            hanging = _DEPENDS_HINT if "main key table" in text else None
            return TargetError(f"DuckDB refuses: {text}", hint=hanging)
        key, null = _KEY.search(text), _NOT_NULL.search(text)
        column = key[1] if key else null[1] if null else None
        text = f"DuckDB refuses a row of {self.name}: {text}"
        refused = RefusedRowError.of(text, column, key[2] if key else None, key=bool(key))
        refused.condition = "isNull({})" if null else ""
        return refused

    # --- catalogue --------------------------------------------------------------------------------

    def _catalogue(self, what: str, of: str, table: str, more: str = "") -> list[Any]:
        """Return rows of the catalogue about a table of the schema."""
        return self.rows(ABOUT.format(what, of, "table", more), self.schema, table)

    def existing_table(self) -> ExistingTable | None:
        what = "column_name, is_nullable, is_generated"
        there = self._catalogue(what, "columns", self.bare, "ORDER BY column_index")
        types = self.types("*") if there else {}
        columns = tuple(
            (str(name), _taken(types[name], nullable=bool(null)), "MATERIALIZED" if made else "")
            for name, null, made in there
        )
        binary = frozenset(name for name, type_ in types.items() if "BLOB" in str(type_))
        return ExistingTable("", self.kind, "", columns, binary=binary) if there else None

    def types(self, columns: str) -> dict[str, Any]:
        """Return the types of a SELECT list over the table."""
        return columns_of(self.file, f"SELECT {columns} FROM {self.table}")

    def shown(self, declared: Sequence[str]) -> list[str]:
        listed = ", ".join(f"NULL::{type_} AS c{at}" for at, type_ in enumerate(declared))
        return [_taken(type_, nullable=False) for type_ in self.types(listed).values()]

    def comment_of(self, table: str) -> str:
        found = self._catalogue("coalesce(comment, '')", "tables", table)
        return str(found[0][0]) if found else ""

    def make_beside(self, cursor: Any, name: str) -> None:
        ((made,),) = self._catalogue("sql", "tables", self.bare)
        columns = _CREATE.sub("", made)
        at = qualified(self.schema, name)
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {at} {columns}")

    def hanging(self) -> list[str]:
        indexes = self._catalogue("sql", "indexes", self.bare, "AND sql IS NOT NULL")
        told = self._catalogue("column_name, comment", "columns", self.bare, "AND comment <> ''")
        return [str(made) for (made,) in indexes] + [
            f"COMMENT ON COLUMN {self.table}.{identifier(c)} IS {literal(text)}" for c, text in told
        ]

    def key(self) -> tuple[str, ...]:
        found = self._catalogue("constraint_column_names", "constraints", self.bare, UNIQUE)
        return tuple(found[0][0]) if found else ()

    # --- rows -------------------------------------------------------------------------------------

    def result(self, query: str, *, write: bool) -> Result | None:
        self.read_only(only=not write)
        cursor = self.file.cursor()
        with self.translated():
            cursor.execute(f"SET search_path = {literal(f'{self.schema},main')}")
            found = cursor.sql(query)
            if found is None:
                return None
            text = ("Nullable(String)", 0.0, "VARCHAR")
            reads = [read_type(type_, nullable=True) or text for type_ in found.types]
            texts = map(select, found.columns, found.types, (read for _, _, read in reads))
            reader = found.project(", ".join(texts)).to_arrow_reader(BATCH_ROWS)
        columns = [(name, read[0]) for name, read in zip(found.columns, reads, strict=True)]
        return Result(columns, in_frames(reader.schema, reader), "ArrowStream", "lz4")

    def _begin(self) -> DuckDBTransaction:
        return DuckDBTransaction(self, self.file.cursor())


class DuckDBTransaction(FileTransaction):
    """An attempt, whose rows come as a stream of Arrow."""

    database: DuckDBDatabase

    def insert(self, into: str, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        names = ", ".join(map(identifier, columns))
        types = self.database.types(names)
        binary = {n for n, t in types.items() if "BLOB" in str(t) and "VARCHAR" not in str(t)}
        moments = {n for n, t in types.items() if t.id.startswith("timestamp") and " " not in t.id}
        with TextBatches(rows, binary, moments).reader() as reader:
            if reader is None:
                return 0
            self.cursor.register("_rowfall_rows", reader)
            asked = f"INSERT INTO {into} ({names}) SELECT * FROM _rowfall_rows"
            ((count,),) = self.cursor.execute(asked).fetchall()
            self.cursor.unregister("_rowfall_rows")
            return int(count)


def _taken(type_: Any, *, nullable: bool) -> str:
    """Return the type of ClickHouse whose values a column takes; of text DuckDB makes others."""
    found = read_type(type_, nullable=nullable)
    if found is None or found[0].startswith("LowCardinality"):
        return "Nullable(String)" if nullable else "String"
    return found[0]
