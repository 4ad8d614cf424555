"""Ledgers in memory, which outlive the processes that use them."""

from __future__ import annotations

import sqlite3
from functools import cache
from importlib.resources import files
from typing import Any

from rowfall.ledger.store import VERSION

# Emptied: a new one compiles every statement again, which takes a fifth of a run.
_free: list[Ledger] = []


class Ledger:
    """The file of a ledger, and one connection for all who open it."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._set: set[str] = set()
        self.executemany, self.executescript = self._db.executemany, self._db.executescript
        self.serialize, self.create_function = self._db.serialize, self._db.create_function
        self.set_progress_handler = self._db.set_progress_handler
        self.deserialize(empty_ledger())
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid DESC"
        self._tables = [name for (name,) in self._db.execute(names)]

    @property
    def in_transaction(self) -> bool:
        return self._db.in_transaction

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql.startswith("PRAGMA") and "=" in sql:
            # Each lets all statements be compiled again, also one that changes nothing.
            if sql in self._set:
                return self._db.cursor()
            self._set.add(sql)
        return self._db.execute(sql, *values)

    def deserialize(self, data: bytes) -> None:
        """Put other rows in place of what is there."""
        self._db.deserialize(data)
        # SQLite 3.40 does not see that the tables that it has compiled statements for are gone.
        self._db.execute("PRAGMA foreign_keys=ON")

    def close(self) -> None:
        """Do nothing: other processes use it."""

    def give_back(self) -> None:
        """Let another world have it."""
        if self.in_transaction:
            self._db.rollback()
        for name in self._tables:
            self._db.execute(f"DELETE FROM {name}")
        _free.append(self)


def new_ledger() -> Ledger:
    """Return a ledger without rows."""
    return _free.pop() if _free else Ledger()


@cache
def empty_ledger() -> bytes:
    """Return the file of a new ledger."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    schema = files("rowfall.ledger").joinpath("schema.sql").read_text()
    made.executescript(f"BEGIN;{schema};PRAGMA user_version={VERSION};COMMIT;")
    return made.serialize()
