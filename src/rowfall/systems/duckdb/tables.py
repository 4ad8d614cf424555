"""Many tables of one file of DuckDB: nobody can write into it while it is open for reading."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.tables import TABLE, FoundTable
from rowfall.sources.file_database import SCHEMA, TablesInFile
from rowfall.systems.duckdb.client import LIST_TABLES, LIST_VIEWS, READER
from rowfall.systems.duckdb.source import DuckDBSource


class DuckDBTables(TablesInFile):
    """The tables and views of one file."""

    _MOMENT = "all tables are of one moment: nobody can write into the file while it is read"
    _reader, _source = READER, DuckDBSource

    def list_tables(self) -> Sequence[FoundTable]:
        return [
            FoundTable(schema, name, kind, rows=rows, visible=schema == SCHEMA)
            for kind, query in ((TABLE, LIST_TABLES), ("view", LIST_VIEWS))
            for schema, name, rows, _ in self._file.rows(query)
        ]
