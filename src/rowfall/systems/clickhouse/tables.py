"""Many tables of ClickHouse: of another server, or of a data folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rowfall.core import uri
from rowfall.core.options import Options
from rowfall.core.sqltext import quote, quoted_list
from rowfall.core.tables import TABLE, FoundTable
from rowfall.sources.base import Source, TableReader
from rowfall.sources.databases import one_table, parse, with_table
from rowfall.sources.many import SeparateTables
from rowfall.systems.clickhouse.data_folder import DataFolder, address_of, located
from rowfall.systems.clickhouse.source import ClickHouse

_SYSTEM = ("system", "information_schema", "INFORMATION_SCHEMA")
# Engines that keep rows of their own; those of all others are in another table or system, and to
# read from a queue takes them out of it.
_OWN = ("Log", "TinyLog", "StripeLog", "Memory", "Join", "EmbeddedRocksDB", "KeeperMap")


class ClickHouseTableSet(SeparateTables):
    """The tables of one database of a server, or of all of them where the address names none.

    Each SELECT reads the parts that are there then.
    """

    _MOMENT = (
        "ClickHouse has no snapshot of several tables: each is read as it is when it is asked for"
    )

    def __init__(self, text: str, options: Options) -> None:
        self._typed, self._options = text, options
        self._at = parse(
            [text], options, port=0, variable="CLICKHOUSE_PASSWORD", settings=(), tables=True
        )
        self.text = self._at.text
        asked = self._in_database("" if self._at.database else "default")
        self._server = ClickHouse([asked], replace(options, query="SELECT 1"))

    def list_tables(self) -> Sequence[FoundTable]:
        return _list(self._server.ask, self._at.database)

    def address(self, table: FoundTable) -> str:
        return with_table(
            self._in_database("" if self._at.database else table.schema), "", table.name
        )

    def open(self, table: FoundTable, options: Options) -> Source:
        return ClickHouse([self.address(table)], options)

    def close(self) -> None:
        self._server.close()

    def _in_database(self, database: str) -> str:
        """Return the address as typed, with a database where it has none."""
        if not database:
            return self._typed
        base, mark, query = self._typed.partition("?")
        return f"{base.rstrip('/')}/{uri.encode(database, safe='')}{mark}{query}"


class DataFolderTables(SeparateTables):
    """The tables of a data folder; all are read from the one copy of it that its reader has.

    Attributes:
        folder: absolute.
    """

    _MOMENT = "all tables are of one moment: they are read from a copy of the folder made of links"

    def __init__(self, text: str, options: Options) -> None:
        self.text, self._options = text, options
        self.folder, named = located(text)
        if named:
            raise one_table(text, f"{address_of(self.folder)} --tables '{named[1]}'")
        DataFolder([text], options)  # says which options are for files
        self._reader: TableReader | None = None

    def address_by_name(self, name: str) -> str:
        source = DataFolder([self.text], self._options)
        source.choose(name)
        return source.address

    def read_with(self, reader: TableReader) -> None:
        self._reader = reader

    def list_tables(self) -> Sequence[FoundTable]:
        assert self._reader is not None  # noqa: S101 - whoever has opened the set gives one
        return _list(self._reader.ask, "")

    def address(self, table: FoundTable) -> str:
        return address_of(self.folder, table.schema, table.name)

    def open(self, table: FoundTable, options: Options) -> Source:
        assert self._reader is not None  # noqa: S101 - whoever has opened the set gives one
        source = DataFolder([self.address(table)], options)
        source.choose(None)
        source.read_with(self._reader)
        return source

    def close(self) -> None:
        """See :class:`rowfall.sources.many.TableSet`; whoever has opened the reader closes it."""


def _list(ask: Callable[[str], list[list[Any]]], database: str) -> list[FoundTable]:
    """Return the tables of a database, of all but the engine's own where none is named."""
    where = f"database NOT IN ({quoted_list(_SYSTEM)})"
    if database:
        where = f"database = {quote(database)}"
    rows = ask(
        "SELECT database, name, engine, toInt64(total_rows), toInt64(total_bytes) "
        f"FROM system.tables WHERE {where} AND NOT is_temporary "
        "AND NOT startsWith(name, '_rowfall_') ORDER BY database, name"
    )
    return [
        FoundTable(
            str(database), str(name), _kind(str(name), str(engine)),
            rows=None if count is None else int(count),
            bytes=None if size is None else int(size),
        )
        for database, name, engine, count, size in rows
    ]  # fmt: skip


def _kind(name: str, engine: str) -> str:
    if name.startswith((".inner.", ".inner_id.")):
        return "table of a view"
    if engine.endswith("MergeTree") or engine in _OWN:
        return TABLE
    if engine.endswith("View"):
        return "view"
    return "dictionary" if engine == "Dictionary" else f"table of the engine {engine}"
