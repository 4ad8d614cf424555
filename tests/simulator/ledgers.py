"""Ledgers in memory, which outlive the processes that use them."""

from __future__ import annotations

import sqlite3
from functools import cache
from importlib.resources import files

from rowfall.ledger.ledger import VERSION


@cache
def empty_ledger() -> bytes:
    """Return the file of a new ledger."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    schema = files("rowfall.ledger").joinpath("schema.sql").read_text()
    made.executescript(f"BEGIN;{schema};PRAGMA user_version={VERSION};COMMIT;")
    return made.serialize()
