"""The events of pipelines: who follows, signs of life, pauses, files to try again or leave out.

Lines are only appended, and their order decides. Of a target that others use the log is a small
table beside it, :data:`TABLE`: all watchers of a pipeline see it, on whatever machine they run. A
target that one process has to itself (a data folder, a file) cannot be opened beside its watcher;
there the log is an SQLite file in the user's state folder, as such a pipeline is one machine's.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rowfall.core import disk
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError
from rowfall.engines.small_tables import LONG_TEXT, TEXT, TIME, SmallTables

TABLE = "_rowfall_pipelines"
# Events. A claim asks for the lease; expire ends that of another, quit its own.
CLAIM, ALIVE, EXPIRE, QUIT = "claim", "alive", "expire", "quit"
PAUSE, RESUME = "pause", "resume"
# About a file, which is the item of the line; the detail is JSON.
FAILED, RETRY, SKIP = "failed", "retry", "skip"
ASKED = "asked"
"""Behind a line about a file that a person has asked for: who looks at no files sees that."""

# A sign of life every two seconds is some 40,000 lines a day: ClickHouse removes them by itself.
_SIGNS_KEPT = "toDateTime(at) + INTERVAL 1 DAY DELETE WHERE event = 'alive'"
# Another process writes for milliseconds.
_BUSY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LogLine:
    """The last line of one event, owner and item.

    Attributes:
        number: rises in the order in which lines became visible.
        owner: of the claim that it is about: the name of a process, see
            :func:`rowfall.ledger.leases.this_process`, and a token.
        item: the file that it is about, "" for none.
        idle: seconds since it was written, by the clock of the log.
        detail: JSON or "".
    """

    number: int
    event: str
    owner: str
    item: str
    detail: str
    idle: float


class PipelineLog(Protocol):
    """The log of one pipeline into one target.

    Attributes:
        shared: other machines may see it.
        ordered: whoever has written a line sees every line before it; else only after a moment.
    """

    shared: bool
    ordered: bool

    def append(self, event: str, owner: str = "", item: str = "", detail: str = "") -> None:
        """Write a line.

        Raises:
            RowfallError: the target is away, or refuses.
        """

    def lines(self, *, files: bool = False) -> list[LogLine]:
        """Return the last line of each event and owner, in order, or those about files."""

    def forget(self, owners: Collection[str]) -> None:
        """Remove the lines of owners that have ended."""

    def close(self) -> None:
        """Let go of what is open."""


_COLUMNS = ("pipeline", "event", "owner", "item", "detail")


class SharedLog:
    """A log in a table beside the target.

    Args:
        pipeline: its name and what it loads into: other tables of a database have others.
        table: name of the table, which is made where it is missing. ``kept``: see
            :meth:`rowfall.engines.small_tables.SmallTables.make`.
        ordered: see :class:`PipelineLog`.
    """

    shared = True

    def __init__(
        self, tables: SmallTables, pipeline: str, table: str = TABLE, kept: str = _SIGNS_KEPT,
        *, make: bool = True,
    ) -> None:  # fmt: skip
        self._tables, self._pipeline, self._table = tables, pipeline, table
        self.ordered = tables.dialect.ordered
        if make:
            # Keys of S3 have up to 1,024 bytes.
            kinds = [(name, LONG_TEXT if name in ("item", "detail") else TEXT) for name in _COLUMNS]
            kinds.append(("at", TIME))
            tables.make(table, kinds, ("pipeline", "event"), kept)

    def append(self, event: str, owner: str = "", item: str = "", detail: str = "") -> None:
        self._tables.insert(self._table, _COLUMNS, [(self._pipeline, event, owner, item, detail)])
        if event == ALIVE:
            self._tables.drop_signs(self._table, self._mine(owner))

    def _mine(self, owner: str) -> str:
        value = self._tables.value
        return f"{self._here} AND event = {value(ALIVE)} AND owner = {value(owner)}"

    @property
    def _here(self) -> str:
        return f"pipeline = {self._tables.value(self._pipeline)}"

    def lines(self, *, files: bool = False, recent: float = 0.0) -> list[LogLine]:
        """Return the last line of each event and owner, in order, or those about files.

        Args:
            recent: leave out signs of life that are older, in seconds; 0 for none.
        """
        words = self._tables.dialect
        number, idle = words.number, words.idle.format("at")
        about = f"{self._here} AND item {'<>' if files else '='} ''"
        if recent:
            about += f" AND (event <> '{ALIVE}' OR {idle} < {recent:.0f})"
        found = self._tables.ask(
            "SELECT number, event, owner, item, detail, idle FROM (SELECT "
            f"{number} AS number, event, owner, item, detail, {idle} AS idle, row_number() OVER "
            f"(PARTITION BY event, owner, item ORDER BY {number} DESC) AS newest "
            f"FROM {self._tables.name(self._table)} WHERE {about}) AS every_line WHERE newest = 1 "
            "ORDER BY number"
        )
        return [
            LogLine(int(n or 0), str(event), str(owner), str(item), str(detail), float(idle or 0))
            for n, event, owner, item, detail, idle in found
        ]

    def forget(self, owners: Collection[str]) -> None:
        named = ", ".join(map(self._tables.value, owners))
        self._tables.delete(self._table, f"{self._here} AND owner IN ({named})")

    def close(self) -> None:
        """Do nothing: who has opened the target closes it."""


class LocalLog:
    """A log in an SQLite file of this machine."""

    shared = False
    ordered = True

    def __init__(self, path: Path, pipeline: str) -> None:
        self._path, self._pipeline = path, pipeline

    def append(self, event: str, owner: str = "", item: str = "", detail: str = "") -> None:
        with self._open() as db:
            # Only the last of them is ever read: a file that fails every minute adds no lines.
            db.execute("DELETE FROM line WHERE pipeline = ? AND item = ? AND event = ? AND "
                       "owner = ?", (self._pipeline, item, event, owner))  # fmt: skip
            db.execute("INSERT INTO line (at, pipeline, event, owner, item, detail) VALUES "
                       "(?, ?, ?, ?, ?, ?)",
                       (time.time(), self._pipeline, event, owner, item, detail))  # fmt: skip

    def lines(self, *, files: bool = False) -> list[LogLine]:
        if not self._path.exists():
            return []
        with self._open() as db:
            rows = db.execute(
                "SELECT max(n), event, owner, item, detail, ? - at FROM line WHERE pipeline = ? "
                f"AND item {'<>' if files else '='} '' GROUP BY event, owner, item ORDER BY 1",
                (time.time(), self._pipeline),
            ).fetchall()  # fmt: skip
        return [LogLine(*row) for row in rows]

    def forget(self, owners: Collection[str]) -> None:
        with self._open() as db:
            db.executemany("DELETE FROM line WHERE pipeline = ? AND owner = ?",
                           [(self._pipeline, owner) for owner in owners])  # fmt: skip

    def close(self) -> None:
        """Do nothing: the file is open only while it is asked."""

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction.

        Raises:
            LedgerError: it cannot be written.
        """
        try:
            disk.make_folder(self._path.parent, 0o700)
            # It holds values of rows that have failed; SQLite gives its journal the same mode.
            os.close(disk.open_own(self._path, os.O_RDWR | os.O_CREAT))
            db = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                db.execute("BEGIN IMMEDIATE")
                db.execute(
                    "CREATE TABLE IF NOT EXISTS line (n INTEGER PRIMARY KEY AUTOINCREMENT, "
                    "at REAL, pipeline TEXT, event TEXT, owner TEXT, item TEXT, detail TEXT)"
                )
                db.execute(
                    "CREATE INDEX IF NOT EXISTS of_line ON line (pipeline, item, event, owner)"
                )
                yield db
                db.execute("COMMIT")
            finally:
                db.close()
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(
                f"cannot write the state of pipelines {self._path}: {error}",
                hint="ROWFALL_HOME names another folder for it.",
            ) from None
