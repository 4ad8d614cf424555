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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Kind
from rowfall.core.native import NativeTable
from rowfall.core.options import Options
from rowfall.core.sqltext import identifier, qualified
from rowfall.core.type_names import parse_type
from rowfall.sources.cursor import Cursor, CursorSql
from rowfall.sources.databases import (
    DatabaseAddress,
    DatabaseSource,
    parse,
)
from rowfall.sources.handover import DatabaseAnswer
from rowfall.sources.key_ranges import (
    UNINDEXED_RANGES,
    Described,
    KeyKind,
    SourceColumn,
    count_ranges,
)
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
from rowfall.systems.postgresql.conninfo import completed
from rowfall.systems.postgresql.snapshot import CopyReader, SnapshotReaders

if TYPE_CHECKING:
    from psycopg import Connection


# --- the source -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedTable:
    """A table that is read in a snapshot which others read, too.

    Attributes:
        readers: of the snapshot; whoever has begun it closes them.
        catalogue: has found the table before the snapshot; ``notes``: what is to be said of that.
    """

    readers: SnapshotReaders
    catalogue: Catalogue
    notes: tuple[str, ...] = ()


class PostgresSource(DatabaseSource):
    """One table, view or query of a PostgreSQL database.

    Args:
        shared: the table is read in a snapshot that is not its own.
    """

    def __init__(
        self, texts: Sequence[str], options: Options, shared: SharedTable | None = None
    ) -> None:
        taken: list[str] = []
        texts = [completed(text, taken) for text in texts]
        address = parse(texts, options, port=PORT, variable=PASSWORD_VARIABLE, settings=SETTINGS)
        super().__init__(replace(address, scheme="postgresql"), options)
        self.taken = tuple(taken)
        self._server = server_of(self.address)
        self._empties = options.null_lists is not None
        self._shared = shared
        self._readers = shared.readers if shared is not None else SnapshotReaders(
            self.text, lambda: self._connect(self.patience)
        )  # fmt: skip
        self._checked = ""  # the snapshot in which rows are known to be where they were
        self._plain: bool | None = None
        self._catalogue: Catalogue | None = None

    def close(self) -> None:
        """End the connections of the snapshot, unless others read it."""
        super().close()
        if self._shared is None:
            self._readers.close()

    def describe(self) -> Described:
        if self._shared is not None:
            return self._describe_shared(self._shared)
        connection = self._readers.hold(self._connect())
        catalogue = Catalogue(
            connection, self.address, self.query, empties=self._empties,
            follows=self.options.cursor is not None,
        )  # fmt: skip
        with self._said():
            self._catalogue = catalogue
            notes = catalogue.find()
            self._readers.begin(connection)
            self._checked = self._readers.snapshot
            return replace(catalogue.describe(), notes=notes)

    def _describe_shared(self, shared: SharedTable) -> Described:
        with self._said(), self._lent() as reading:
            self._catalogue = shared.catalogue
            shared.catalogue.use(reading.reader.connection)
            found = replace(shared.catalogue.describe(), notes=shared.notes)
            shared.catalogue.check_same_file()
            self._checked = reading.reader.snapshot
            reading.ended = True
            return found

    # --- a column that is followed ----------------------------------------------------------------

    @contextlib.contextmanager
    def _asked(self) -> Iterator[Catalogue]:
        """Give the catalogue over a connection in the snapshot of the load."""
        assert self._catalogue is not None  # noqa: S101 - asked of what was described
        with self._said(), self._lent() as reading:
            self._catalogue.use(reading.reader.connection)
            yield self._catalogue
            reading.ended = True

    @property
    def relation_text(self) -> str:
        return self._catalogue.relation if self._catalogue is not None else ""

    def ask(self, query: str) -> Iterable[Sequence[Any]]:
        with self._asked() as catalogue:
            return catalogue.ask(query)

    def cursor_sql(self, column: SourceColumn) -> CursorSql:
        with self._asked() as catalogue:
            return catalogue.cursor_sql(column.name, parse_type(column.type).base)

    def key_sql(self, column: SourceColumn) -> tuple[str, str, str]:
        with self._asked() as catalogue:
            return catalogue.key_sql(column.name)

    def cursor_ranges(self, found: Described, cursor: Cursor) -> Sequence[tuple[int, int]]:
        with self._asked() as catalogue:
            count = count_ranges(catalogue.size)
            return catalogue.sample(
                cursor, count if cursor.sql.indexed else min(count, UNINDEXED_RANGES)
            )

    # --- rows -------------------------------------------------------------------------------------

    def native(self) -> NativeTable:
        found, catalogue = self.described, self._catalogue
        types = {c.name: c.native for c in found.columns if c.native is not None}
        holds = catalogue is not None and catalogue.key_holds
        return NativeTable(self.address.scheme, types, found.order_by if holds else ())

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
            with self._said():
                self._plain = self._readers.is_plain()
        if not self._plain:
            return None
        columns = self.described.columns
        names, types = tuple(c.name for c in columns), tuple(c.wire for c in columns)
        return Encoding(
            "PostgreSQL", "none", Kind.TYPED, header=names, names=names, fields=len(names),
            types=types,
        )  # fmt: skip

    @contextlib.contextmanager
    def answer(self, split: Split) -> Iterator[DatabaseAnswer]:
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
        with self._said(split.name), self._lent() as reading:
            if reading.reader.snapshot != self._checked:
                self._check_blocks(reading.reader.connection)
                self._checked = reading.reader.snapshot
            yield reading

    @contextlib.contextmanager
    def _lent(self) -> Iterator[_PostgresReading]:
        """Lend a connection; one that is not read to its end is closed."""
        reading = _PostgresReading(self._readers.take())
        try:
            yield reading
        finally:
            self._readers.give_back(reading.reader, good=reading.ended)

    def _check_blocks(self, connection: Connection[Any]) -> None:
        """Check that no row of a table without a key has moved since its catalogue was read.

        Asked within a later snapshot, as the server was restarted: what has not moved by now had
        not moved when that was taken.

        Raises:
            SourceError: some may have.
        """
        key, version = self.described.key, self.described.version
        if key is None or key.kind is not KeyKind.BLOCK:
            return
        if block_base(connection, int(version.partition(".")[0])) != key.low:
            raise self.moved()

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
        return away(self.address)

    def _error(self, error: Any, name: str) -> SourceError:
        return explained(self._server, self.address, error, name or self.text, query=self.query)


@dataclass(slots=True)
class _PostgresReading:
    """A connection that is read from; ``ended``: up to the end of the answer."""

    reader: CopyReader
    ended: bool = False


def server_of(at: DatabaseAddress) -> PostgresServer:
    """Return the server of an address, and who asks it."""
    login = at.login
    return PostgresServer(
        login.host, login.port, login.user, login.password, at.database, at.settings
    )


def away(at: DatabaseAddress) -> str:
    """Return the hint for a server that does not answer."""
    return f"Does a server run at {at.login.host}:{at.login.port}?"


def explained(
    server: PostgresServer, at: DatabaseAddress, error: Any, name: str, *, query: str = ""
) -> SourceError:
    """Return an error of server or driver as a SourceError with a hint.

    Args:
        name: of what is read. ``query``: of ``--query``.
    """
    found = server.understand(error)
    hint = HINTS.get(found.cause)
    if found.cause is Cause.MISSING:
        hint = "See them with psql -l."
    elif found.cause is Cause.LOST:
        hint = away(at)
    elif found.cause is Cause.RIGHTS:
        hint = "Let its owner GRANT SELECT on it."
    elif found.cause is Cause.SQL and query:
        hint = "Try the query in psql."
    text = f"cannot read {name}: {found.text}"
    return SourceError(text, hint=hint, transient=found.transient)
