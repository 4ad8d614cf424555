"""Ask an engine small questions and get Python values back."""

from __future__ import annotations

import json
import re
from typing import Any

from rowfall.core.model import Ask, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine

_FOLDER = re.compile("/([0-9a-f-]{36})/$")


def ask(engine: Engine, text: str, *, lane: int = 0) -> list[list[Any]]:
    """Rows of a small SELECT as Python values; 64-bit integers arrive as numbers."""
    statement = Statement(
        SqlText.of(text),
        {"output_format_json_quote_64bit_integers": 0},
        format="JSONCompactEachRow",
    )
    return read_rows(engine.run(statement, lane=lane).data)


def asker(engine: Engine, *, lane: int = 0) -> Ask:
    """:func:`ask` on one engine, for those who may not know engines."""

    def asks(text: str) -> list[list[Any]]:
        return ask(engine, text, lane=lane)

    return asks


def read_rows(data: bytes) -> list[list[Any]]:
    """Rows of JSONCompactEachRow; text of any bytes comes through (surrogateescape)."""
    # strict: the engine writes control characters of broken text as they are.
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [json.loads(line, strict=False) for line in lines if line]


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
