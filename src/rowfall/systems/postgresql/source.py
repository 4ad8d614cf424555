"""PostgreSQL: ``postgresql://user@host:port/database/table``, or a database and ``--query``.

Rows come by ``COPY (SELECT ...) TO STDOUT``, over as many connections as the load reads ranges at
a time, all in one snapshot that the first connection has exported and keeps open. For an engine the
SELECT writes what a reader of TSV takes (:mod:`rowfall.systems.postgresql.types`), and this process
passes on the lines (:mod:`rowfall.systems.postgresql.rows`). rowfall-decode gets the socket and
reads the messages itself (:mod:`rowfall.sources.handover`), whose rows are in binary.

A range that has to be read again after the server restarted is read in a new snapshot. See
:mod:`rowfall.sources.databases` for what makes that safe.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.core.sqltext import identifier, qualified
from rowfall.sources.databases import (
    DatabaseSource,
    Described,
    KeyKind,
    parse,
)
from rowfall.sources.handover import Answer
from rowfall.systems.postgresql import rows
from rowfall.systems.postgresql.catalogue import Catalogue, block_base
from rowfall.systems.postgresql.client import (
    HINTS,
    PASSWORD_VARIABLE,
    PORT,
    SETTINGS,
    Cause,
    PostgresServer,
    driver,
)

if TYPE_CHECKING:
    from psycopg import Connection

_SNAPSHOT_GONE = frozenset({"22023", "42704", "55000"})


# --- the source -----------------------------------------------------------------------------------


class PostgresSource(DatabaseSource):
    """One table, view or query of a PostgreSQL database."""

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        address = parse(texts, options, port=PORT, variable=PASSWORD_VARIABLE, settings=SETTINGS)
        super().__init__(replace(address, scheme="postgresql"), options)
        self._server = PostgresServer(
            address.login.host, address.login.port, address.login.user, address.login.password,
            address.database, address.settings,
        )  # fmt: skip
        self._guard = threading.Lock()
        self._empties = options.null_lists is not None
        self._first: Connection[Any] | None = None
        self._snapshot = ""
        self._idle: list[_CopyReader] = []
        self._plain: bool | None = None

    def close(self) -> None:
        """End the transaction of the snapshot, and the connections that nobody reads from.

        The others belong to threads that read, and end with what reads their pipes.
        """
        super().close()
        with self._guard:
            for connection in (self._first, *(one.connection for one in self._idle)):
                if connection is not None:
                    connection.close()
            self._idle.clear()

    def describe(self) -> Described:
        connection = self._first = self._connect()
        catalogue = Catalogue(connection, self.address, self.query, empties=self._empties)
        with self._said():
            notes = catalogue.find()
            self._begin(connection)
            return replace(catalogue.describe(), notes=notes)

    # --- rows -------------------------------------------------------------------------------------

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the rows of a range as TSV with a header, in the snapshot of the load.

        Raises:
            SourceError: it cannot be read; transient where the connection was lost.
        """
        with self._reading(split) as reading:
            yield self.header()
            connection, plain = reading.reader.connection, reading.reader.plain
            yield from rows.copy(connection, self._select(split), plain=plain)
            reading.ended = True

    def encoding(self, listing: Listing) -> Encoding:
        """See :class:`rowfall.sources.base.Source`; bytes have hex digits for their text."""
        return replace(super().encoding(listing), hex=tuple(sorted(self.bytes_columns())))

    def stored(self) -> Encoding | None:
        """Return the encoding of messages in binary, which rowfall-decode takes apart.

        None where the connections are encrypted: then the driver reads them.
        """
        if self._plain is None:
            _ = self.described
            with self._said(), self._guard:
                self._plain = self._first is not None and rows.is_plain(self._first)
        if not self._plain:
            return None
        columns = self.described.columns
        names, types = tuple(c.name for c in columns), tuple(c.wire for c in columns)
        return Encoding(
            "PostgreSQL", "none", Kind.TYPED, header=names, names=names, fields=len(names),
            types=types,
        )  # fmt: skip

    @contextlib.contextmanager
    def answer(self, split: Split) -> Iterator[Answer]:
        """Ask for the messages of a COPY in binary, in the snapshot of the load."""
        with self._reading(split) as reading:
            if not reading.reader.plain:
                raise rows.BrokenRowsError("the server encrypts some connections only")
            connection = reading.reader.connection
            with rows.asked(connection, self._select(split, binary=True)) as answer:
                yield answer
            reading.ended = answer.complete

    def _select(self, split: Split, *, binary: bool = False) -> str:
        """Return the statement that gives the rows of a split: as lines, or in binary."""
        described = self.described
        columns = ", ".join(
            text if text == identifier(c.name) else f"{text} AS {identifier(c.name)}"
            for c in described.columns
            for text in [c.binary if binary else c.select]
        )
        source = (
            f"({self.query}\n) AS q" if self.query else qualified(*described.name.split(".", 1))
        )
        where = self.condition(split)
        return f"SELECT {columns} FROM {source}" + (f" WHERE {where}" if where else "")

    @contextlib.contextmanager
    def _reading(self, split: Split) -> Iterator[_PostgresReading]:
        """Lend a connection in the snapshot of the load.

        Raises:
            SourceError: it cannot be read; transient where the connection was lost.
        """
        with self._said(split.name):
            reading = _PostgresReading(self._reader())
            try:
                yield reading
            finally:
                if reading.ended:
                    with self._guard:
                        self._idle.append(reading.reader)
                else:
                    reading.reader.connection.close()

    def _reader(self) -> _CopyReader:
        """Return a connection that reads in the snapshot of the load."""
        import psycopg

        for _ in range(3):  # a snapshot may end between two steps, and hardly twice
            snapshot = self._exported()
            with self._guard:
                idle = [one for one in self._idle if one.snapshot == snapshot]
                if idle:
                    self._idle.remove(idle[0])
                    return idle[0]
            connection = self._connect(self.patience)
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
            return _CopyReader(snapshot, connection, rows.is_plain(connection))
        raise SourceError(
            f"{self.text}: the snapshot of the load ends again and again", transient=True
        )

    def _exported(self) -> str:
        """Return the snapshot of the load; a new one where its connection was lost.

        Raises:
            SourceError: rows of a table without a key may have moved since.
        """
        with self._guard:
            if self._first is None or self._first.closed or self._first.broken:
                for one in self._idle:
                    one.connection.close()
                self._idle.clear()
                connection = self._connect(self.patience)
                self._check_blocks(connection)
                self._begin(connection)
            return self._snapshot

    def _check_blocks(self, connection: Connection[Any]) -> None:
        """Check that no row of a table without a key has moved since its catalogue was read.

        Raises:
            SourceError: some may have.
        """
        key, version = self.described.key, self.described.version
        if key is None or key.kind is not KeyKind.BLOCK:
            return
        if block_base(connection, int(version.partition(".")[0])) != key.low:
            connection.close()
            raise self.moved()

    def _begin(self, connection: Connection[Any]) -> None:
        """Export a snapshot, and keep it as long as the source is there."""
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        self._snapshot = str(row[0]) if row else ""
        self._first = connection

    def _connect(self, patience: float = 0.0) -> Connection[Any]:
        """Open a connection.

        Args:
            patience: seconds during which a server that is away is asked again.

        Raises:
            SourceError: it cannot be reached, or refuses the user.
        """
        with self._said():
            return self._server.connect(patience)

    @contextlib.contextmanager
    def _said(self, name: str = "") -> Iterator[None]:
        """Turn errors of server, driver and network into ours.

        Raises:
            SourceError: transient where another try may help.
        """
        try:
            yield
        except (driver().Error, rows.ServerSaidError) as error:
            raise self._error(error, name) from error
        except (rows.BrokenRowsError, OSError) as error:
            text = f"cannot read {name or self.text}: {error}"
            raise SourceError(text, hint=self._away, transient=True) from error

    @property
    def _away(self) -> str:
        return f"Does a server run at {self.address.login.host}:{self.address.login.port}?"

    def _error(self, error: Any, name: str) -> SourceError:
        found = self._server.understand(error)
        hint = HINTS.get(found.cause)
        if found.cause is Cause.MISSING:
            hint = "See them with psql -l."
        elif found.cause is Cause.LOST:
            hint = self._away
        elif found.cause is Cause.RIGHTS:
            hint = "Let its owner GRANT SELECT on it."
        elif found.cause is Cause.SQL and self.query:
            hint = "Try the query in psql."
        text = f"cannot read {name or self.text}: {found.text}"
        return SourceError(text, hint=hint, transient=found.transient)


@dataclass(frozen=True, slots=True)
class _CopyReader:
    """A connection that reads in a snapshot; ``plain``: its socket can be read."""

    snapshot: str
    connection: Connection[Any]
    plain: bool


@dataclass(slots=True)
class _PostgresReading:
    """A connection that is read from; ``ended``: up to the end of the answer."""

    reader: _CopyReader
    ended: bool = False
