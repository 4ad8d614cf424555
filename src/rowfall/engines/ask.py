"""Ask an engine small questions and get Python values back."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from rowfall.core.model import Ask
from rowfall.core.sqltext import quote
from rowfall.engines.base import Engine, read_rows

__all__ = ["ask", "asker", "read_rows", "table_uuid"]

_FOLDER = re.compile("/([0-9a-f-]{36})/$")


def ask(engine: Engine, text: str, *, lane: int = 0) -> list[list[Any]]:
    """Return :meth:`Engine.ask`."""
    return engine.ask(text, lane=lane)


def asker(engine: Engine, *, lane: int = 0) -> Ask:
    """Return :meth:`Engine.ask` on one lane, for code that may not know engines."""
    return partial(engine.ask, lane=lane)


def table_uuid(engine: Engine, database: str, table: str) -> str:
    """uuid of a table, "" when it does not exist.

    The embedded engine's default database shows no uuids; there the table's folder is named by it.
    """
    rows = ask(
        engine,
        "SELECT toString(uuid), arrayElement(data_paths, 1) "
        f"FROM system.tables WHERE database = {quote(database)} AND name = {quote(table)}",
    )
    if not rows:
        return ""
    uuid, path = map(str, rows[0])
    # Matched here: the engine needs 15 ms for its first regular expression of this kind.
    folder = _FOLDER.search(path)
    return folder[1] if folder and not uuid.strip("0-") else uuid
