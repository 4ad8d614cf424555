"""The ledger's file: SQLite, made when missing, shared by threads and processes.

``synchronous=FULL`` because a ledger that forgets its last line after a power cut would load rows
twice; one commit costs about a millisecond and an attempt needs five.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from rowfall.core.errors import LedgerError

# 2: publishing by ATTACH, owners of loads.
VERSION = 2
# Another process writes for milliseconds; longer means that it hangs inside a transaction.
BUSY_SECONDS = 10.0


class Store:
    """The connection to one file; see :class:`rowfall.ledger.Ledger` for what is raised."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Worker, publisher and main thread share the connection: transactions take turns.
        self._guard = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # The publisher runs on a thread of its own; SQLite itself is in serialised mode.
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._prepare()
        except OSError as error:
            raise LedgerError(
                f"cannot create the ledger {path}: {error.strerror}",
                hint="Give another place with ROWFALL_HOME.",
            ) from None
        except sqlite3.Error as error:
            raise _explain(path, error) from None

    def _prepare(self) -> None:
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found == VERSION:
            return
        if found:
            age = "a newer" if found > VERSION else "an older"
            raise LedgerError(
                f"the ledger {self.path} was written by {age} rowfall (format {found}, this "
                f"one knows {VERSION})",
                hint="Use that version, or another target.",
            )
        schema = files("rowfall.ledger").joinpath("schema.sql").read_text()
        try:
            self._db.executescript(
                f"BEGIN IMMEDIATE;{schema};PRAGMA user_version={VERSION};COMMIT;"
            )
        except sqlite3.OperationalError:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if self._db.execute("PRAGMA user_version").fetchone() != (VERSION,):
                raise
            # Another process has made it at the same moment.

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction, on disk when it is left; undone by an exception."""
        with self._guard:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                except BaseException:
                    self._db.execute("ROLLBACK")
                    raise
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                raise _explain(self.path, error) from None

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """What a SELECT gives."""
        try:
            with self._guard:
                return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _explain(self.path, error) from None

    def close(self) -> None:
        # A worker that is left behind by an error may be in the middle of a statement: SQLite does
        # not survive that its connection is closed under it.
        with self._guard:
            self._db.close()


def _explain(path: Path, error: sqlite3.Error) -> LedgerError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return LedgerError(
            f"the ledger {path} is locked by another process",
            hint=f"Wait for the other rowfall to end (waited {BUSY_SECONDS:.0f} seconds).",
            transient=True,
        )
    if "not a database" in text or "malformed" in text:
        return LedgerError(
            f"the ledger {path} is damaged: {text}",
            hint="Restore it from a backup. Without it rowfall cannot tell what has landed; if "
            "you move it away, check the target table before you load again.",
        )
    return LedgerError(f"cannot use the ledger {path}: {text}", hint="Check space and rights.")
