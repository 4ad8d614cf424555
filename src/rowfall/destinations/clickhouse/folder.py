"""Tables of the embedded engine in a data folder, which one process has to itself."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from rowfall.contracts.destination import Query
from rowfall.core.options import Options
from rowfall.destinations.clickhouse.tables import ClickHouseTables
from rowfall.destinations.options_check import TABLES, check_options
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.contracts.destination import Session
    from rowfall.destinations.clickhouse.clean import OpenedTables


class FolderTables(ClickHouseTables):
    """Tables of a data folder; the engine of this machine opens it, for whatever is done."""

    builds_parts = True

    def check(self, target: Target, options: Options) -> None:
        check_options(target, options, {TABLES})

    def query(self, target: Target, query: Query) -> None:
        from rowfall.destinations.query import query_folder

        query_folder(target, folder_of(target), query)

    def named(self, session: Session) -> tuple[str, str]:
        """Return the folder as it was typed, and the table without the default database."""
        return session.to or session.target.text, session.table_text.removeprefix("default.")

    def opened(self, target: Target) -> AbstractContextManager[OpenedTables]:
        from rowfall.destinations.clickhouse.clean import open_folder

        return open_folder(target, folder_of(target))


def folder_of(target: Target) -> Path:
    """Return the data folder of a target of this kind."""
    folder = target.folder
    assert folder is not None  # noqa: S101 - by its kind
    return folder
