"""A table of DuckDB: ``file.duckdb``, ``duckdb:///folder/file.duckdb``; rows come as Arrow."""

from __future__ import annotations

from typing import ClassVar

from rowfall.core.model import Column, Schema
from rowfall.core.sqltext import SqlText, identifier, qualified
from rowfall.sources.file_database import SCHEMA
from rowfall.systems.duckdb.types import declared_type
from rowfall.targets.arrow_tables import ArrowFileTable


class DuckDBTable(ArrowFileTable):
    """Rows go to ``schema.table`` of a file."""

    scheme: ClassVar[str] = "duckdb"
    schema: ClassVar[str] = SCHEMA
    takes: ClassVar[frozenset[str]] = frozenset({"replace", "upsert", "atomic"})

    def column_type(self, column: Column) -> str:
        return declared_type(column.type, binary=column.binary)

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        columns = self.column_lines(schema, identifier)
        at = qualified(self.database, table or self.table)
        return (SqlText.of(f"CREATE TABLE IF NOT EXISTS {at} (\n{columns}\n)"),)

    def command(self, schema: Schema) -> str:
        names = ", ".join(identifier(c.name) for c in schema.columns)
        return f"INSERT INTO {qualified(self.database, self.table)} ({names}) FROM _rowfall_rows"
