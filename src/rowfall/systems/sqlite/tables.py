"""Many tables of one file of SQLite, read in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core import uri
from rowfall.core.file_databases import located
from rowfall.core.options import Options
from rowfall.core.tables import FoundTable
from rowfall.engines.file_database import OpenFile
from rowfall.sources.base import Source
from rowfall.sources.databases import check_no_file_options, one_table, with_table
from rowfall.sources.many import SeparateTables
from rowfall.systems.sqlite.client import connect
from rowfall.systems.sqlite.source import SQLiteSource, list_tables, translated


class SQLiteTables(SeparateTables):
    """The tables and views of one file."""

    _MOMENT = "all tables are of one moment: they are read in one transaction"

    def __init__(self, text: str, options: Options) -> None:
        path, table, given = located(text, ("table", "key"))
        self._base = f"sqlite://{uri.encode(path)}"
        self.text = text
        if table or given:
            raise one_table(text, f"{self._base} --tables '{given.get('table', table) or '*'}'")
        check_no_file_options(options, text)
        self._file = OpenFile(lambda: connect(path, options), lambda: translated(text, path))

    def list_tables(self) -> Sequence[FoundTable]:
        """See :class:`rowfall.sources.many.TableSet`."""
        with self._file.asking() as cursor:
            found = list_tables(cursor.connection)
        return [FoundTable("", name, kind) for name, (kind, _, _) in found.items()]

    def address(self, table: FoundTable) -> str:
        """See :class:`rowfall.sources.many.TableSet`."""
        return with_table(self._base, "", table.name)

    def open(self, table: FoundTable, options: Options) -> Source:
        """See :class:`rowfall.sources.many.TableSet`."""
        return SQLiteSource([self.address(table)], options, self._file)

    def close(self) -> None:
        """See :class:`rowfall.sources.many.TableSet`."""
        self._file.close()
