"""The engines: embedded ClickHouse in a child process, and servers over HTTP.

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

REGISTRY = {"clickhouse": "server:Server"}
"""Kind of server -> module in this package and class; it takes the arguments of ``Server``."""


def server_class(kind: str) -> Callable[..., Engine]:
    """Return the engine of one kind of server; only now is its module imported."""
    module, _, name = REGISTRY[kind].partition(":")
    return cast("Callable[..., Engine]", getattr(import_module(f"rowfall.engines.{module}"), name))
