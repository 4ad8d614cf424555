"""Many tables of another ClickHouse server; each SELECT reads the parts that are there then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowfall.core import uri
from rowfall.core.options import Options
from rowfall.core.sqltext import quote, quoted_list
from rowfall.core.tables import TABLE, FoundTable
from rowfall.sources.base import Source
from rowfall.sources.databases import parse, with_table
from rowfall.sources.many import SeparateTables
from rowfall.systems.clickhouse.source import ClickHouse

_SYSTEM = ("system", "information_schema", "INFORMATION_SCHEMA")
# Engines that keep rows of their own; those of all others are in another table or system, and to
# read from a queue takes them out of it.
_OWN = ("Log", "TinyLog", "StripeLog", "Memory", "Join", "EmbeddedRocksDB", "KeeperMap")


class ClickHouseTableSet(SeparateTables):
    """The tables of one database, or of all of them where the address names none."""

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
        """See :class:`rowfall.sources.many.TableSet`."""
        where = f"database NOT IN ({quoted_list(_SYSTEM)})"
        if self._at.database:
            where = f"database = {quote(self._at.database)}"
        rows = self._server.ask(
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

    def address(self, table: FoundTable) -> str:
        """See :class:`rowfall.sources.many.TableSet`."""
        return with_table(
            self._in_database("" if self._at.database else table.schema), "", table.name
        )

    def open(self, table: FoundTable, options: Options) -> Source:
        """See :class:`rowfall.sources.many.TableSet`."""
        return ClickHouse([self.address(table)], options)

    def close(self) -> None:
        """See :class:`rowfall.sources.many.TableSet`."""
        self._server.close()

    def _in_database(self, database: str) -> str:
        """Return the address as typed, with a database where it has none."""
        if not database:
            return self._typed
        base, mark, query = self._typed.partition("?")
        return f"{base.rstrip('/')}/{uri.encode(database, safe='')}{mark}{query}"


def _kind(name: str, engine: str) -> str:
    if name.startswith((".inner.", ".inner_id.")):
        return "table of a view"
    if engine.endswith("MergeTree") or engine in _OWN:
        return TABLE
    if engine.endswith("View"):
        return "view"
    return "dictionary" if engine == "Dictionary" else f"table of the engine {engine}"
