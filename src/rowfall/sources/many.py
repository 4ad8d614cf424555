"""The protocol of sources with many tables, and which sources have it.

A set of tables lists what there is, takes one snapshot of those that are to be loaded where the
source has such a thing, and opens the source of one of them: the same source that its address
alone would open, over connections that all of them share.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol, cast, runtime_checkable

from rowfall.core import file_databases, own_files, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.registry import find
from rowfall.core.tables import FoundTable
from rowfall.sources.base import Source, TableReader

REGISTRY = {
    "file": "stores.folders:SubFolders",
    "s3": "stores.folders:SubFolders",
    "gs": "stores.folders:SubFolders",
    "az": "stores.folders:SubFolders",
    "hdfs": "stores.folders:SubFolders",
    "delta": "stores.folders:SubFolders",
    "iceberg": "systems.lakes.tables:open_tables",
    "mysql": "systems.mysql.tables:MySQLTables",
    "mariadb": "systems.mysql.tables:MySQLTables",
    "singlestore": "systems.mysql.tables:MySQLTables",
    "clickhouse": "systems.clickhouse.tables:ClickHouseTableSet",
    "clickhouses": "systems.clickhouse.tables:ClickHouseTableSet",
    "folder": "systems.clickhouse.tables:DataFolderTables",
    "duckdb": "systems.duckdb.source:DuckDBTables",
    "sqlite": "systems.sqlite.source:SQLiteTables",
    "postgresql": "systems.postgresql.tables:PostgresTables",
    "postgres": "systems.postgresql.tables:PostgresTables",
}
"""Scheme -> module and class of its set of tables, which takes (text, options)."""


WORKBOOK = regex(r"\.(xls[xmb]?|ods)\Z", re.I)
"""The end of a workbook's name."""


@dataclass(frozen=True, slots=True)
class Readers:
    """Connections of a source.

    Attributes:
        most: at a time; None for no limit. ``why``: where that is from, one clause.
    """

    most: int | None = None
    why: str = ""


class TableSet(Protocol):
    """The tables of one source.

    Attributes:
        text: without secrets.
    """

    text: str

    def list_tables(self) -> Sequence[FoundTable]:
        """Return what there is, but not what belongs to the system or to rowfall.

        Raises:
            SourceError: the source cannot be reached, or has no such database.
        """

    def measure(self, tables: Sequence[FoundTable]) -> Sequence[FoundTable]:
        """Return tables with what their list alone does not tell: rows and bytes."""

    def begin(self, tables: Sequence[FoundTable], streams: int) -> str:
        """Fix the moment of whose rows all tables are read, and say in a sentence what it is.

        Args:
            streams: of rows that are read at a time, of all tables together.

        Raises:
            SourceError: the source cannot be reached.
        """

    def moment(self) -> str:
        """Return the sentence that :meth:`begin` would return; nothing is begun."""

    def readers(self) -> Readers:
        """Return how many connections there may be."""

    def address(self, table: FoundTable) -> str:
        """Return the SOURCE argument that loads a table alone; it may hold a secret."""

    def open(self, table: FoundTable, options: Options) -> Source:
        """Return the source of one table, not yet listed.

        Raises:
            SourceError: it has gone, or may not be read.
        """

    def remarks(self) -> Sequence[str]:
        """Return what is to be said of the moment when all has been read; () for nothing."""

    def close(self) -> None:
        """End what is shared; safe to call twice."""


@runtime_checkable
class FolderOfTables(Protocol):
    """A set of the tables of a data folder, which its own engine reads.

    Attributes:
        folder: absolute.
    """

    folder: Path

    def address_by_name(self, name: str) -> str:
        """Return the SOURCE argument that loads a table alone, without that reader.

        Raises:
            SourceError: there is no such table.
        """

    def read_with(self, reader: TableReader) -> None:
        """Take the engine that reads the folder, before anything is listed."""


class SeparateTables:
    """A base of :class:`TableSet` whose tables are read one by one: nothing is begun for all."""

    _MOMENT: ClassVar[str]

    def measure(self, tables: Sequence[FoundTable]) -> Sequence[FoundTable]:
        """See :class:`TableSet`; their list has told it."""
        return tables

    def begin(self, tables: Sequence[FoundTable], streams: int) -> str:
        return self._MOMENT

    def moment(self) -> str:
        return self._MOMENT

    def readers(self) -> Readers:
        return Readers()

    def remarks(self) -> Sequence[str]:
        return ()


def open_tables(text: str, options: Options) -> TableSet:
    """Open the set of tables that a SOURCE argument names; nothing is asked yet.

    Raises:
        UsageError: it has no tables, or is one table.
    """
    scheme = uri.scheme_of(text)
    shown = uri.mask(text)
    if options.table_per_file:
        return cast("TableSet", find("stores.folders:FileTables", "sources")(text, options))
    if scheme == uri.FILE:
        path = uri.file_path(text)
        scheme = file_databases.scheme_of_file(path) or scheme
        if own_files.is_data_folder_at(os.path.expanduser(path)):
            scheme = "folder"
    if WORKBOOK.search(text):
        return cast("TableSet", find("stores.workbooks:Sheets", "sources")(text, options))
    if scheme not in REGISTRY:
        raise UsageError(
            f"--tables is for sources with many tables, and {shown} is none",
            hint="Such are postgresql://host/db, mysql://host/db, clickhouse://host/db, "
            "file.duckdb, file.db of SQLite, iceberg://CATALOG/namespace, a data folder of "
            "rowfall, and a folder whose sub-folders hold files.",
        )
    return cast("TableSet", find(REGISTRY[scheme], "sources")(text, options))
