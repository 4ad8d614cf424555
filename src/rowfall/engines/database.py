"""The protocol of databases that take rows as text in transactions, and what they share.

They store the rows of a load that an engine here has read: no statement of a load runs there but
COPY or LOAD DATA, and the record of what is loaded lies beside the table, in :data:`RECORD`.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import DataError, EngineError, SourceError, TargetError, UsageError
from rowfall.core.model import Column
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import ExistingTable

RECORD = "_rowfall_loaded"
"""Table beside the target: one row for each split that is loaded, its key the split's id."""

LEASE_SECONDS = 1
"""How long a transaction waits for another one that loads the same splits; then they are busy, and
asked for again later."""


ACCEPTED = "accepted"
"""Id in the record in place of a split's: the table held rows of others before its first load."""


KEY_HINT = "--on-conflict skip keeps the rows that are there, --on-conflict replace the new"
"""Hint for a row that has the key of another one."""


def check_key_given(key: Sequence[str], columns: Sequence[str]) -> None:
    """Check that files have the key by which ``--on-conflict replace`` finds rows.

    Raises:
        UsageError: they lack a column of it.
    """
    if missing := [name for name in key if name not in columns]:
        raise UsageError(f"--on-conflict replace: the files lack the key column {missing[0]}")


def no_key_to_replace(table: str, what: str = "no primary key") -> UsageError:
    """Return the error of a table whose rows ``--on-conflict replace`` cannot find."""
    return UsageError(
        f"--on-conflict replace needs the key that says which rows are the same, and {table} has "
        f"{what}",
        hint="Add a primary key, or take --on-conflict skip.",
    )


def null_in_key(rows: int, key: Sequence[str]) -> SourceError:
    """Return the error of rows whose key of ``--upsert`` is NULL."""
    return SourceError(
        f"{units.counted(rows, 'row')} of the load have NULL in the key ({', '.join(key)}) of "
        "--upsert: nothing says which rows they replace",
        hint=f"Leave them out: --where '{key[0]} IS NOT NULL'.",
    )


class BusyError(EngineError):
    """Another transaction loads one of the splits at this moment."""


class UnknownEndError(EngineError):
    """The connection was lost during COMMIT: nobody has said how it has ended."""


class RolledBackError(TargetError):
    """The database has taken a transaction back that was to be committed: nothing is visible."""


class RefusedRowError(DataError):
    """The database refuses a value that the engine took: too long, twice, against a constraint.

    Attributes:
        condition: SQL of the engine over a value of the column, ``{}``, that is true of what is
            refused; "" to look for the value itself.
        no_text: a string is refused that is not text, and nobody says of which column.
        row: number of the row in the source, from 1, where it is known.
        sent_row: the number in one call of :meth:`Transaction.write`, whose rows may be those of
            several files in any order.
    """

    condition: str = ""
    no_text: bool = False
    row: int | None = None
    sent_row: int | None = None

    @classmethod
    def of(
        cls, said: str, column: str | None, value: str | None, *, key: bool = False
    ) -> RefusedRowError:
        """Return the error with what the database said.

        Args:
            key: a row with the same key is there.
        """
        hint = KEY_HINT if key else "Correct the data, or change the table."
        return cls(said, uri="", column=column, value=value, hint=hint)


class TakenError(TargetError):
    """Another load has committed some of the same splits meanwhile.

    Attributes:
        taken: their ids, as they were to be recorded.
    """

    def __init__(self, taken: frozenset[str]) -> None:
        super().__init__(f"another rowfall has loaded {len(taken):,} of these files meanwhile")
        self.taken = taken


class NoBinaryError(Exception):
    """The database does not take these rows in binary; as text it does, or says what is wrong."""


@dataclass(frozen=True, slots=True)
class Binary:
    """Binary form of the values of a load's columns.

    Attributes:
        format: as rowfall-decode calls it. ``texts``: indexes of columns that are text in it all
            the same. ``types``: of the columns, as the protocol numbers them. ``names``: of the
            types of the database's columns, where they decide how values look.
    """

    format: str
    texts: tuple[int, ...] = ()
    types: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitRecord:
    """A split as the database remembers it.

    Attributes:
        id: with the salt of a load by force. ``name``: for people.
        whole: id of the file that it is a range of; "" for none.
        large: another run may load it in ranges.
    """

    id: str
    name: str
    whole: str = ""
    large: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of a query.

    Attributes:
        columns: (name, type of ClickHouse). ``format``: of ``rows``, as the engine names it;
            ``packed``: with what.
    """

    columns: Sequence[tuple[str, str]]
    rows: Iterator[bytes]
    format: str = "TSV"
    packed: str = "none"


# An escape of text, whatever its letter.
_ESCAPE = regex(rb"\\(.)", re.DOTALL)


def replace_escape(rows: Iterator[bytes], escape: bytes, by: bytes) -> Iterator[bytes]:
    """Give text with one of its escapes written in another way.

    Most rows have no backslash, and to look for one byte costs nothing: for two it is 1 s a GiB.
    """

    def other(found: re.Match[bytes]) -> bytes:
        return by if found[0] == escape else found[0]

    held = b""
    for piece in rows:
        if held:
            piece = held + piece
            held = b""
        # An escape may be cut: the half of it waits for its letter.
        if piece.endswith(b"\\") and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece, held = piece[:-1], b"\\"
        if b"\\" in piece and escape in piece:
            piece = _ESCAPE.sub(other, piece)
        if piece:
            yield piece
    if held:
        yield held


class ExternalWriter(Protocol):
    """Rows that a program sends by itself, into a socket that it was given."""

    def number(self) -> int | None:
        """Let it begin, and wait until it has ended or sent its last packet.

        Returns:
            The number of the next packet; None where the last one was not sent as a whole.
        """

    def check(self) -> None:
        """Check, behind the last packet, that it has sent all rows.

        Raises:
            EngineError: it has failed.
        """


@dataclass(frozen=True, slots=True)
class Socket:
    """The socket of a connection that takes rows in packets of MySQL.

    Attributes:
        number: of the first packet.
        packet_bytes: rows in one, at most.
    """

    descriptor: int
    number: int
    packet_bytes: int


class Transaction(Protocol):
    """Rows and the record of their splits on one connection: all of it is committed, or nothing.

    One thread at a time, but for :meth:`cancel`.
    """

    def lease(self, attempt: str, load: str, records: Sequence[SplitRecord]) -> frozenset[str]:
        """Begin, and record splits as loaded by an attempt.

        The key of the record is the lease: a transaction that records the same split waits for this
        one to end, which it does with its connection at the latest.

        Returns:
            The ids that others have loaded. If there are any, the transaction is rolled back.

        Raises:
            BusyError: another transaction that has not ended holds one of them.
        """

    def write(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        """Send rows as text; return how many the database has taken.

        Args:
            rows: pieces of any length; raises where the rest will not come.

        Raises:
            RefusedRowError: of a value.
        """

    def write_text(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        """Send rows in the text of the database where that is another than the engine's."""

    def write_binary(self, columns: Sequence[str], binary: Binary, rows: Iterator[bytes]) -> int:
        """Send rows in the form that :meth:`Database.binary` has given.

        Raises:
            NoBinaryError: what it has sent is to be rolled back and sent as text.
        """

    def socket(self) -> Socket | None:
        """Return where a program can send rows; None where it cannot: they may be encrypted."""

    def write_sent(self, columns: Sequence[str], sent: ExternalWriter) -> int:
        """Take rows that a program sends into the socket; return as :meth:`write` does.

        Raises:
            OSError: a packet was not sent as a whole: the connection has been closed.
        """

    def mark(self) -> None:
        """Set a savepoint in place of the last one, where :attr:`Database.marks` says so."""

    def back(self) -> None:
        """Take back what was written since the savepoint."""

    def finish(self, rows: int) -> int:
        """Do what is left before the commit (``--on-conflict``), and record the rows.

        Returns:
            The rows that the table gains.
        """

    def commit(self) -> None:
        """Commit.

        Raises:
            UnknownEndError: the connection was lost meanwhile.
        """

    def release(self) -> None:
        """Roll back what is not committed, and give the connection back; raises nothing."""

    def cancel(self) -> None:
        """End what the transaction waits for, from another thread; raises nothing."""


class Database(Protocol):
    """A database, opened for one table; the first question connects.

    Attributes:
        kind: name and version, for people.
    """

    @property
    def kind(self) -> str: ...

    @property
    def marks(self) -> bool:
        """True where transactions have savepoints, so that refused rows can be left out."""

    def check(self, *, dry: bool) -> None:
        """Check that it can be reached, and that its settings and the user's rights do.

        Args:
            dry: nothing is to be written.

        Raises:
            TargetError: no; says what would help.
        """

    def existing_table(self) -> ExistingTable | None:
        """Return the table with types of ClickHouse; None where there is none."""

    def shown(self, declared: Sequence[str]) -> list[str]:
        """Return as which types of ClickHouse columns are shown that were declared so.

        As :meth:`existing_table` shows them, but for NULL.

        Args:
            declared: see :class:`rowfall.targets.base.DeclaresTypes`.
        """

    def table_id(self) -> str:
        """Return an id that another table of the same name does not have; "" without a table."""

    def promise(self) -> str:
        """Return the weaker guarantee than "exactly once", in words; "" where that one holds."""

    def upkeep(self) -> str:
        """Return the indexes, keys and triggers that slow down each row, in words; "" for none."""

    def prepare(self, statements: Sequence[SqlText]) -> None:
        """Make the table by these statements, and the record where it is missing.

        Raises:
            TargetError: it may not be made.
        """

    def make_like(self, table: str) -> None:
        """Make the table of a scratch like another one, with all that costs time for each row.

        Nothing is made where there is no such table.
        """

    def erase(self) -> None:
        """Remove a scratch table and its record, where they exist."""

    def loaded(self) -> set[str]:
        """Return the ids of the splits that the table holds, by the record.

        Of ranges of files also the mark of the file, see :data:`rowfall.core.listing.MARK`.
        """

    def settled(self, attempt: str) -> bool:
        """Tell whether an attempt was committed; wait for a commit that is under way."""

    def forget(self, load_id: str) -> int:
        """Remove what a load has loaded from the record; return how many splits that were."""

    def unrecorded(self) -> bool:
        """Return True where the table holds rows and the record tells nothing of this table.

        The rows are looked for first: rows that are committed later bring a record with them.
        """

    def accept(self) -> None:
        """Record that the rows which the table holds are none of a load's, so that nobody asks
        again; makes the record where it is missing."""

    def count(self) -> int:
        """Return the rows of the table."""

    def result(self, query: str, *, write: bool) -> Result | None:
        """Run one statement; None where it gives no rows.

        Args:
            write: it may change something.
        """

    def transaction(self, attempt: str) -> Transaction:
        """Return the transaction of an attempt; a new one where it has none."""

    def cancel(self, attempt: str) -> None:
        """End what the transaction of an attempt waits for, from another thread."""

    def ended(self, attempt: str) -> None:
        """Let go of the transaction of an attempt; what is not committed is rolled back."""

    def close(self) -> None:
        """End every connection; safe to call twice."""

    def hold(self, streams: Sequence[str]) -> bool:
        """Take streams until the end of the process; False where another one has one of them.

        Ranges of them may be cut anywhere. Again each time that a range of them is leased: with its
        connection it is lost.
        """

    def takes_binary(self) -> bool:
        """Tell whether rows may be sent in binary: as server, table and options are."""

    def binary(self, columns: Sequence[Column]) -> Binary | None:
        """Return the binary encoding of columns; None where they can be sent as text only."""

    def pack(self, *, packed: bool) -> None:
        """Say whether what is sent from now on is to be compressed, where the protocol can be."""


@runtime_checkable
class IndexedRecord(Protocol):
    """A database whose record answers questions about some splits without being read whole."""

    def loaded_among(self, ids: Sequence[str]) -> set[str]:
        """Return those of some ids, and marks of files, that the table holds by the record."""

    def join_record(self) -> None:
        """Let what was loaded long ago take less room."""

    def forget_loads(self, loads: Collection[str]) -> int:
        """Remove what loads have loaded from the record; return how many splits that were."""

    def prune_record(self, days: int) -> None:
        """Forget what was joined more than so many days ago."""


@runtime_checkable
class NoticesEmptied(Protocol):
    """A database that can tell whether the rows of its record are gone from the table."""

    def is_emptied(self) -> bool:
        """Tell whether all rows that the record tells of were removed at once, by TRUNCATE.

        False where somebody has accepted that since, and where nothing shows it.
        """

    def forget_all(self) -> None:
        """Remove all that is recorded of the table."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file of an attempt.

    Attributes:
        name: at its place in the table. ``local``: in the folder that it is written in.
        size: in bytes.
    """

    name: str
    local: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How the rows of a table are written; SQL of the engine, "" for none.

    Attributes:
        order_by: what the rows of a file are sorted by.
        partition_by: expressions that are the same for all rows of a file.
    """

    order_by: str = ""
    partition_by: str = ""


@runtime_checkable
class FileTable(Database, Protocol):
    """A table of files: they are written one by one, and one commit makes those of a load visible.

    The commit carries the ids of the splits, so the table itself says what is loaded.
    """

    def make(self, columns: Sequence[Column]) -> None:
        """Make the table, unless it exists.

        Raises:
            UsageError: it cannot be sorted or partitioned as the options say.
        """

    def gone(self) -> str:
        """Return the name of a file of the record that is gone; "" where all of it is there."""

    def mend(self) -> None:
        """Finish what the commit of a process that was killed has left: its table is there."""

    def layout(self) -> FileLayout:
        """Return the layout in which data files have to be written."""

    def of_bytes(self, columns: Sequence[Column]) -> frozenset[str]:
        """Return the names of those columns that take any bytes; texts in others are UTF-8."""

    def written(self, attempt: str, staging: Path) -> list[NewFile]:
        """Finish the files with rows that an attempt has written into a folder; return them."""

    def add(self, staging: Path, files: Sequence[NewFile]) -> int:
        """Bring files to their places, where nobody reads them yet; return their bytes."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove data files that are in no commit, where they exist."""

    def relation(self) -> SqlText:
        """Return the table as it is now as a relation that an engine here reads."""

    def loaded_by(self, load: str) -> set[str]:
        """Return the ids of the splits that a load has committed."""

    def commit(
        self, attempt: str, load: str, ids: Sequence[str], files: Sequence[NewFile], *,
        replace: bool,
    ) -> None:  # fmt: skip
        """Make files visible, with the record of the splits, unless this commit was made before.

        Args:
            replace: the files replace all files of the table.

        Raises:
            TakenError: some splits were loaded meanwhile.
            UnknownEndError: no answer came, so the commit may have been made or not.
        """


@runtime_checkable
class SupportsGathering(Database, Protocol):
    """A database that can gather the rows of a load beside the table until its end."""

    def gather(self, load: str) -> set[str]:
        """Have the rows of a load go beside the table; return the ids of splits that are there."""

    def loaded_by(self, load: str) -> set[str]:
        """Return the ids of the splits that a load has made visible, by the record."""

    def publish_gathered(self, attempt: str, key: Sequence[str], *, replace: bool) -> None:
        """Make visible in one transaction what was gathered, with the record of its splits.

        Args:
            attempt: recorded in place of those that have gathered the rows.
            key: rows of the table that have the values of a gathered row in these columns are
                removed; () for none.
            replace: the gathered rows replace all of the table.

        Raises:
            DataError: a key is NULL or occurs twice, or the table refuses a row.
            TargetError: others depend on the table.
        """

    def drop_gathered(self) -> None:
        """Remove what the load has gathered, where there is anything."""

    def gathered_tables(self) -> list[tuple[str, str, int]]:
        """Return (name, load, rows) of what any load has left gathered beside some table."""

    def drop_left(self, name: str) -> None:
        """Remove a table that :meth:`gathered_tables` has named, and its record."""


@runtime_checkable
class HasNativeTypes(Protocol):
    """A database whose server decides in whose words tables are declared, and which it knows.

    Attributes:
        native: see :class:`rowfall.core.native.NativeTable`. ``native_version``: of the server.
    """

    @property
    def native(self) -> str: ...

    @property
    def native_version(self) -> tuple[int, ...]: ...


@runtime_checkable
class SupportsAsking(Protocol):
    """A database whose table can be asked for rows by the value of a column."""

    def rows_from(
        self, columns: Sequence[str], low: str, *, quoted: bool, most: int
    ) -> Iterator[Sequence[str]]:
        """Give the texts of some columns of the rows whose last of them is ``low`` or higher.

        Args:
            quoted: ``low`` is no number. ``most``: rows.
        """


@runtime_checkable
class SupportsCompression(Protocol):
    """A database whose protocol can be compressed, see :meth:`Database.pack`."""

    def same_machine(self) -> bool:
        """Tell whether it shares the CPU of this machine."""

    def send_seconds(self, size: int) -> float:
        """Return the seconds until it has got so many bytes and has said so."""


@runtime_checkable
class OverNetwork(Protocol):
    """A database on a server, whose network can be measured.

    Attributes:
        host: name or address of the server.
    """

    @property
    def host(self) -> str: ...

    def ping(self) -> None:
        """Ask something that costs one round trip and no work."""

    def send_seconds(self, size: int) -> float:
        """Return the seconds until it has got so many bytes and has said so."""

    def fetch_seconds(self, size: int) -> float:
        """Return the seconds until so many bytes have come from it."""


def upkeep(indexes: int, keys: int, checks: int, triggers: int) -> str:
    """Return in words what a load keeps up with each row, see :meth:`Database.upkeep`."""
    counts = ((keys, "foreign key"), (checks, "CHECK"), (triggers, "trigger"))
    said = [units.counted(n, what) for n, what in counts if n]
    if indexes:
        said.insert(0, f"{indexes} {'index' if indexes == 1 else 'indexes'}")
    if not said:
        return ""
    more = ""
    if indexes > 1:
        more = "; indexes but the primary key cost less where they are made after a large load"
    return f"{', '.join(said)}: kept up with each row, as the table has them{more}"


class PlainTransaction:
    """A transaction that takes text and nothing else, see :class:`Transaction`."""

    def write(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        raise NotImplementedError

    def write_text(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        return self.write(columns, rows)

    def write_binary(self, columns: Sequence[str], binary: Binary, rows: Iterator[bytes]) -> int:
        raise NotImplementedError  # its database names no encoding

    def socket(self) -> Socket | None:
        return None

    def write_sent(self, columns: Sequence[str], sent: ExternalWriter) -> int:
        raise NotImplementedError  # it has no socket

    def mark(self) -> None:
        raise NotImplementedError  # its database has no savepoints

    def back(self) -> None:
        raise NotImplementedError


class PlainDatabase:
    """Answers of a database that has none of its own, see :class:`Database`."""

    @property
    def marks(self) -> bool:
        return False

    def upkeep(self) -> str:
        return ""

    def hold(self, streams: Sequence[str]) -> bool:
        return True

    def takes_binary(self) -> bool:
        return False

    def binary(self, columns: Sequence[Column]) -> Binary | None:
        return None

    def pack(self, *, packed: bool) -> None:
        """Do nothing: it goes as it is."""


class Transactions(PlainDatabase, ABC):
    """A database that knows its open transactions by their attempts."""

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._open: dict[str, Transaction] = {}

    @abstractmethod
    def _begin(self) -> Transaction:
        """Connect and return a transaction that has not begun."""

    def transaction(self, attempt: str) -> Transaction:
        with self._opening:
            found = self._open.get(attempt)
        if found is None:
            found = self._begin()  # it may take seconds
            with self._opening:
                self._open[attempt] = found
        return found

    def ended(self, attempt: str) -> None:
        with self._opening:
            found = self._open.pop(attempt, None)
        if found is not None:
            found.release()

    def cancel_all(self) -> None:
        """End what every attempt waits for."""
        for attempt in list(self._open):
            self.cancel(attempt)

    def cancel(self, attempt: str) -> None:
        with self._opening:
            found = self._open.get(attempt)
        if found is not None:
            found.cancel()
