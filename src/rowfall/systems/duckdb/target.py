"""A table of DuckDB: ``file.duckdb``, ``duckdb:///folder/file.duckdb``; rows come as Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rowfall.core.model import Column, Schema
from rowfall.core.sqltext import SqlText, identifier, qualified
from rowfall.core.type_names import parse_type
from rowfall.systems.duckdb.client import SCHEMA
from rowfall.systems.duckdb.types import declared_type, sent_type
from rowfall.targets.transactional import FileTable, column_lines


class DuckDBTable(FileTable):
    """Rows go to ``schema.table`` of a file."""

    scheme: ClassVar[str] = "duckdb"
    schema: ClassVar[str] = SCHEMA
    format: str = "ArrowStream"
    lines: str = "ArrowStream"
    form: ClassVar[str] = "Arrow"
    # Days as days, and texts as texts.
    engine_settings: Mapping[str, str] = {
        "output_format_arrow_date_as_uint16": "0", "output_format_arrow_string_as_string": "1",
        "output_format_arrow_low_cardinality_as_dictionary": "0",
    }  # fmt: skip

    def column_type(self, column: Column) -> str:
        """See :class:`rowfall.targets.transactional.TransactionalTable`."""
        return declared_type(column.type, binary=column.binary)

    def written_type(self, column: Column) -> str:
        """See :class:`rowfall.targets.transactional.TransactionalTable`."""
        return sent_type(column.type)

    def only_engine_writes(self, column: Column) -> bool:
        """See :class:`rowfall.targets.transactional.TransactionalTable`."""
        # Arrow counts no such parts of a second; the engine makes smaller ones of them.
        return super().only_engine_writes(column) or parse_type(column.type).digits in (7, 8)

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        """See :class:`rowfall.targets.base.Target`."""
        columns = column_lines([
            (
                identifier(c.name),
                self.column_type(c) + ("" if parse_type(c.type).nullable else " NOT NULL"),
            )
            for c in schema.columns
        ])  # fmt: skip
        at = qualified(self.database, table or self.table)
        return (SqlText.of(f"CREATE TABLE IF NOT EXISTS {at} (\n{columns}\n)"),)

    def command(self, schema: Schema) -> str:
        """See :class:`rowfall.targets.transactional.TransactionalTable`."""
        names = ", ".join(identifier(c.name) for c in schema.columns)
        return f"INSERT INTO {qualified(self.database, self.table)} ({names}) FROM _rowfall_rows"
