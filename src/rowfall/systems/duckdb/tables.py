"""Many tables of one file of DuckDB: nobody can write into it while it is open for reading."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from rowfall.core import uri
from rowfall.core.errors import SourceError
from rowfall.core.file_databases import located
from rowfall.core.options import Options
from rowfall.core.tables import TABLE, FoundTable
from rowfall.engines.file_database import OpenFile
from rowfall.sources.base import Source
from rowfall.sources.databases import check_no_file_options, one_table, with_table
from rowfall.sources.many import SeparateTables
from rowfall.systems.duckdb.client import SCHEMA, connect, driver, said
from rowfall.systems.duckdb.source import DuckDBSource


class DuckDBTables(SeparateTables):
    """The tables and views of one file."""

    _MOMENT = "all tables are of one moment: nobody can write into the file while it is read"

    def __init__(self, text: str, options: Options) -> None:
        path, table, given = located(text, ("schema", "table", "key"))
        self._base = f"duckdb://{uri.encode(path)}"
        self.text = text
        if table or given:
            raise one_table(text, f"{self._base} --tables '{given.get('table', table) or '*'}'")
        check_no_file_options(options, text)
        self._file = OpenFile(
            lambda: connect(path, options, SourceError, read_only=True), self._said
        )

    def list_tables(self) -> Sequence[FoundTable]:
        """See :class:`rowfall.sources.many.TableSet`."""
        with self._file.asking() as cursor:
            tables = cursor.execute(
                "SELECT schema_name, table_name, estimated_size FROM duckdb_tables() WHERE "
                "database_name = current_database() AND NOT internal AND NOT temporary "
                "AND NOT starts_with(table_name, '_rowfall_') ORDER BY ALL"
            ).fetchall()
            views = cursor.execute(
                "SELECT schema_name, view_name FROM duckdb_views() WHERE "
                "database_name = current_database() AND NOT internal ORDER BY ALL"
            ).fetchall()
        found = [
            FoundTable(schema, name, TABLE, rows=int(rows), visible=schema == SCHEMA)
            for schema, name, rows in tables
        ]
        found += [FoundTable(s, name, "view", visible=s == SCHEMA) for s, name in views]
        return found

    def address(self, table: FoundTable) -> str:
        """See :class:`rowfall.sources.many.TableSet`."""
        return with_table(self._base, "" if table.visible else table.schema, table.name)

    def open(self, table: FoundTable, options: Options) -> Source:
        """See :class:`rowfall.sources.many.TableSet`."""
        return DuckDBSource([self.address(table)], options, self._file)

    def close(self) -> None:
        """See :class:`rowfall.sources.many.TableSet`."""
        self._file.close()

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except driver().Error as error:
            raise SourceError(f"cannot read {self.text}: {said(error)}") from error
