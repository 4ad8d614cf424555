"""Connections that read in one snapshot: of a load, or of all loads of one command.

The first connection exports the snapshot and keeps its transaction open for as long as it is
wanted; the others begin theirs in it. Where the server was restarted meanwhile the snapshot is gone
with it, and those who ask next get a later one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError
from rowfall.systems.postgresql import rows

if TYPE_CHECKING:
    from psycopg import Connection

_SNAPSHOT_GONE = frozenset({"22023", "42704", "55000"})


@dataclass(frozen=True, slots=True)
class CopyReader:
    """A connection that reads in a snapshot; ``plain``: its socket can be read."""

    snapshot: str
    connection: Connection[Any]
    plain: bool


class SnapshotReaders:
    """The connections of one snapshot; any thread may call.

    Args:
        text: of the source, for errors.
        connect: returns a new connection; a server that is away is waited for.
    """

    def __init__(self, text: str, connect: Callable[[], Connection[Any]]) -> None:
        self._text, self._connect = text, connect
        self._guard = threading.Lock()
        self._first: Connection[Any] | None = None
        self._snapshot = ""
        self._idle: list[CopyReader] = []
        self.renewed = False
        """A later snapshot has taken the place of the first one."""

    def hold(self, connection: Connection[Any]) -> Connection[Any]:
        """Take the connection that will export the snapshot: :meth:`close` closes it."""
        self._first = connection
        return connection

    def begin(
        self, connection: Connection[Any], locked: Callable[[], object] | None = None
    ) -> None:
        """Export a snapshot, and keep it as long as its readers are wanted.

        Args:
            locked: is called within the transaction and before its snapshot is taken.
        """
        self._first = connection
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if locked is not None:
            locked()
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        self._snapshot = str(row[0]) if row else ""

    @property
    def snapshot(self) -> str:
        """Return the name of the snapshot that is read now."""
        return self._snapshot

    def take(self) -> CopyReader:
        """Return a connection that reads in the snapshot.

        Raises:
            SourceError: snapshots end again and again. psycopg.Error: the server refuses it.
        """
        import psycopg

        for _ in range(3):  # a snapshot may end between two steps, and hardly twice
            snapshot = self._exported()
            with self._guard:
                idle = [one for one in self._idle if one.snapshot == snapshot]
                if idle:
                    self._idle.remove(idle[0])
                    return idle[0]
            connection = self._connect()
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            except psycopg.Error as error:
                connection.close()
                if (error.sqlstate or "") not in _SNAPSHOT_GONE:
                    raise
                with self._guard:
                    if self._snapshot == snapshot and self._first is not None:
                        self._first.close()
                continue
            return CopyReader(snapshot, connection, rows.is_plain(connection))
        raise SourceError(
            f"{self._text}: the snapshot of the load ends again and again", transient=True
        )

    def give_back(self, reader: CopyReader, *, good: bool) -> None:
        """Keep a connection that has read to its end; close one that has not."""
        if good:
            with self._guard:
                self._idle.append(reader)
        else:
            reader.connection.close()

    def is_plain(self) -> bool:
        """Tell whether connections are not encrypted, so that their sockets can be read."""
        with self._guard:
            return self._first is not None and rows.is_plain(self._first)

    def close(self) -> None:
        """End the transaction of the snapshot, and the connections that nobody reads from.

        The others belong to threads that read, and end with what reads their pipes.
        """
        with self._guard:
            for connection in (self._first, *(one.connection for one in self._idle)):
                if connection is not None:
                    connection.close()
            self._idle.clear()

    def _exported(self) -> str:
        """Return the snapshot; a new one where its connection was lost."""
        with self._guard:
            if self._first is None or self._first.closed or self._first.broken:
                for one in self._idle:
                    one.connection.close()
                self._idle.clear()
                self.begin(self._connect())
                self.renewed = True
            return self._snapshot
