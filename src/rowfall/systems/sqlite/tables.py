"""Many tables of one file of SQLite, read in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.tables import FoundTable
from rowfall.sources.file_database import TablesInFile
from rowfall.systems.sqlite.client import READER
from rowfall.systems.sqlite.source import SQLiteSource, list_tables


class SQLiteTables(TablesInFile):
    """The tables and views of one file."""

    _MOMENT = "all tables are of one moment: they are read in one transaction"
    _reader, _source = READER, SQLiteSource

    def list_tables(self) -> Sequence[FoundTable]:
        with self._file.asking() as cursor:
            found = list_tables(cursor.connection)
        return [FoundTable("", name, kind) for name, (kind, _, _) in found.items()]
