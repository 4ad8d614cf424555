"""The protocols of engines, which run the statements of loads, and of databases that take rows.

Each system's own lie in rowfall.systems; here is what several of them share.

What a statement means belongs to sources, targets, schema and plan.
Imports core.
"""

from __future__ import annotations

from rowfall.core.registry import find

TYPE_CHECKING = False  # typing takes 4 ms, and the engine's process needs nothing of it
if TYPE_CHECKING:
    from collections.abc import Callable

    from rowfall.engines.base import Engine
    from rowfall.engines.database import Database

REGISTRY = {"clickhouse": "systems.clickhouse.server:Server"}
"""Kind of server -> module and class; it takes the arguments of ``Server``."""

DATABASES = {
    "postgresql": "systems.postgresql.database:PostgresDatabase",
    **dict.fromkeys(("mysql", "mariadb", "singlestore"), "systems.mysql.database:MySQLDatabase"),
    "duckdb": "systems.duckdb.database:DuckDBDatabase",
    "kafka": "systems.kafka.database:KafkaDatabase",
    "iceberg": "systems.lakes.destination:IcebergTable",
}
"""Kind of database -> module and class, which takes host, port, user, password, parameters of the
URI, database or schema, table, and options."""


def server_class(kind: str) -> Callable[..., Engine]:
    """Return the engine of one kind of server; only now is its module imported."""
    found: Callable[..., Engine] = find(REGISTRY[kind], "engines")
    return found


def database_class(kind: str) -> Callable[..., Database]:
    """Return the class of one kind of database; only now is its module imported."""
    found: Callable[..., Database] = find(DATABASES[kind], "engines")
    return found
