"""Targets of rows: exported files, nothing, and what the targets of all systems share.

A target gives text and facts and runs no statement; engines do, and publish makes rows visible.
Imports core.
"""

from __future__ import annotations

from typing import cast

from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.registry import find
from rowfall.targets.base import Target
from rowfall.targets.kinds import kind_of
from rowfall.targets.table_names import default_table

__all__ = ["DEFAULT_FOLDER", "REGISTRY", "default_table", "open_target"]

REGISTRY = {
    "folder": "systems.clickhouse.target:open_folder",
    "clickhouse": "systems.clickhouse.target:open_server",
    "clickhouses": "systems.clickhouse.target:open_server",
    "postgresql": "systems.postgresql.target:PostgresTarget",
    "mysql": "systems.mysql.target:MySQLTable",
    "mariadb": "systems.mysql.target:MariaDBTable",
    "singlestore": "systems.mysql.target:SingleStoreTable",
    "duckdb": "systems.duckdb.target:DuckDBTable",
    "kafka": "systems.kafka.target:KafkaTopic",
    "iceberg": "systems.lakes.target:IcebergTarget",
    "file": "export:open_export",
    "s3": "export:open_export",
    "null": "null:open_null",
}
"""Kind -> module in this package and function; it takes (text, table, options, password)."""

DEFAULT_FOLDER = "rowfall-data"


def open_target(
    to: str | None, table: str, options: Options, password: Secret | None = None
) -> Target:
    """Return the target that ``to`` names.

    Args:
        to: a data folder, a file pattern or a URI; None for the default folder.
        table: may be ``database.table``.
        password: for a server, instead of the one in the URI or the environment.

    Raises:
        UsageError: a scheme that is not known, a folder that was meant as a server or a file, or a
            pattern that cannot hold ``--files``.
    """
    if to == "":
        raise UsageError("--to is empty", hint="Leave it out to load into ./rowfall-data.")
    text = to or DEFAULT_FOLDER
    kind = "folder" if to is None else kind_of(text, options, tuple(REGISTRY))
    factory = find(REGISTRY[kind], "targets")
    return cast("Target", factory(text, table, options, password))
