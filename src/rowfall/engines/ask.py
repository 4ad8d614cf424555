"""Ask an engine small questions and get Python values back."""

from __future__ import annotations

from functools import partial
from typing import Any

from rowfall.core.model import Ask
from rowfall.engines.base import Engine, read_rows, table_uuid

__all__ = ["ask", "asker", "read_rows", "table_uuid"]


def ask(engine: Engine, text: str, *, lane: int = 0) -> list[list[Any]]:
    """Return :meth:`Engine.ask`."""
    return engine.ask(text, lane=lane)


def asker(engine: Engine, *, lane: int = 0) -> Ask:
    """Return :meth:`Engine.ask` on one lane, for code that may not know engines."""
    return partial(engine.ask, lane=lane)
