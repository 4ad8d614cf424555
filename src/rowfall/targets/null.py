"""``null:``: reads everything and keeps nothing, to measure the least time of a load."""

from __future__ import annotations

from pathlib import Path

from rowfall.core import sql
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Schema
from rowfall.core.options import Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, quote
from rowfall.targets.base import Caps, Publish, Scratch, state_ledger


class Null:
    """Target that reads, converts and drops rows."""

    def __init__(self, ledger_path: Path) -> None:
        self.text = "null:"
        self.folder: Path | None = None
        self.server: ServerAt | None = None
        self.address: ServerAt | None = None
        self.database = ""
        self.table = ""
        self.ledger_path = ledger_path
        self.secrets: tuple[Secret, ...] = ()
        self.caps = Caps(
            Publish.NONE, "none: rows are read and dropped, to measure the source", "no table"
        )

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        return ()

    def into(self, staging: str, schema: Schema) -> SqlText:
        structure = sql.structure((c.name, c.type) for c in schema.columns)
        return SqlText.of(f"FUNCTION null({quote(structure)})")

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        return ""

    def scratch(self, name: str, ledger: Path) -> Scratch:
        return Scratch(Null(ledger))


def open_null(text: str, table: str, options: Options, password: Secret | None) -> Null:
    """Return the target ``null:``."""
    return Null(state_ledger())
