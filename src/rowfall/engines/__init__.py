"""The engines: embedded ClickHouse in a child process, servers over HTTP, other databases.

They alone run statements.

What a statement means belongs to sources, targets, schema and plan.
Imports core.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from rowfall.engines.base import Engine
    from rowfall.engines.database import Database

REGISTRY = {"clickhouse": "server:Server"}
"""Kind of server -> module in this package and class; it takes the arguments of ``Server``."""

DATABASES = {
    "postgresql": "postgresql:Postgresql",
    **dict.fromkeys(("mysql", "mariadb", "singlestore"), "mysql:MySQL"),
    "kafka": "kafka:Kafka",
    "iceberg": "iceberg:IcebergTable",
}
"""Kind of database -> module in this package and class, which takes host, port, user, password,
parameters of the URI, database or schema, table, and options."""


def server_class(kind: str) -> Callable[..., Engine]:
    """Return the engine of one kind of server; only now is its module imported."""
    module, _, name = REGISTRY[kind].partition(":")
    return cast("Callable[..., Engine]", getattr(import_module(f"rowfall.engines.{module}"), name))


def database_class(kind: str) -> Callable[..., Database]:
    """Return the class of one kind of database; only now is its module imported."""
    module, _, name = DATABASES[kind].partition(":")
    found = getattr(import_module(f"rowfall.engines.{module}"), name)
    return cast("Callable[..., Database]", found)
