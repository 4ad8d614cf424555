"""A table of DuckDB: ``file.duckdb``, ``duckdb:///folder/file.duckdb``; rows come as Arrow."""

from __future__ import annotations

from typing import ClassVar

from rowfall.core.model import Column
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
