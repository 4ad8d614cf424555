"""Interface to make rows visible in targets of every kind, and the registry of the kinds.

A receiver gets the rows of attempts that were delivered into staging and makes them visible. A new
kind of target (a transaction of a database, a topic) is one file beside ``tables``, ``files`` and
``objects``, and one line in :func:`open_receiver`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from rowfall.core import retry
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.events import Listener, Note
from rowfall.core.listing import Split
from rowfall.core.model import Outcome, Plan
from rowfall.core.options import ERROR
from rowfall.engines.base import Engine
from rowfall.engines.database import Database
from rowfall.ledger import Ledger
from rowfall.ledger.leases import Leases, Move
from rowfall.plan.session import Writer
from rowfall.publish.attach import Staged
from rowfall.publish.merges import Merges
from rowfall.publish.recover import Recovery
from rowfall.publish.staging_tables import StagingTables
from rowfall.publish.target_tables import OwnTable
from rowfall.targets.base import Publish, Target

if TYPE_CHECKING:
    from rowfall.publish.export_record import ExportRecord


class CountError(EngineError):
    """Not as many rows were stored as were read."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """An attempt whose rows are in staging.

    Attributes:
        attempt: its id.
        staging: name of its staging table or file.
        number: of the plan's group.
        splits: what was read. ``ranges``: rows in them where they are ranges of rows, else None.
        outcome: of the INSERT.
        skips_bad_rows: bad rows were left out, so that fewer are stored than were read.
    """

    attempt: str
    staging: str
    number: int
    splits: Sequence[Split]
    ranges: int | None
    outcome: Outcome
    skips_bad_rows: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """Count of what staging holds of an attempt.

    Attributes:
        rows, parts, bytes: of the whole attempt; bytes on disk.
        shares: one for each writer that it was staged on; () where there are no tables.
        checked: ``rows`` were compared with those that were read, or are all that were read except
            bad ones. False where rows cannot be counted, or ranges say how many there are.
        checksum: rows and the sum of their hashes, None when it is not wanted.
    """

    rows: int
    parts: int = 0
    bytes: int = 0
    shares: tuple[Staged, ...] = ()
    checked: bool = False
    checksum: tuple[int, int] | None = None


class Receiver(Protocol):
    """Makes the rows of attempts visible; what its methods do is a step of the protocol each.

    Attributes:
        unstaged: rows are visible as they are inserted: a failed attempt may leave some of them.
        in_background: the next attempt is inserted while one is counted and published.
    """

    @property
    def unstaged(self) -> bool: ...

    @property
    def in_background(self) -> bool: ...

    def destination(self, staging: str) -> str:
        """Return the table or file that the INSERT of an attempt names."""

    def settings(self, staging: str) -> Mapping[str, int]:
        """Return the settings that the INSERT of an attempt needs."""

    def stage(self, staging: str, lane: int) -> None:
        """Make an attempt's staging tables."""

    def count(self, delivered: Delivered, *, checksum: bool) -> Counted:
        """Count what was staged and compare it with what was read.

        Raises:
            CountError: rows are missing, or there are too many.
        """

    def wait_for_room(self, counted: Counted) -> None:
        """Wait until the target can take what was staged.

        Raises:
            TargetError: the target is not the table any more that the load began with.
        """

    def sync(self, delivered: Delivered) -> None:
        """Flush to disk what the steps before have written; nothing with ``--no-sync``."""

    def commit(self, delivered: Delivered, counted: Counted) -> bool:
        """Record that the rows can only be published from now on.

        Returns:
            False when the lease has run out before: nothing of the attempt may be published.
        """

    def publish(self, delivered: Delivered, counted: Counted) -> int:
        """Make all rows of a committed attempt visible. Returns the bytes of files written."""

    def record(self, delivered: Delivered) -> None:
        """Record that all rows are visible and the splits are loaded."""

    def discard(self, staging: str) -> None:
        """Remove what an attempt has staged; harmless when there is nothing."""


class Notes:
    """Tells the user something now and keeps it for the report."""

    def __init__(self, emit: Listener) -> None:
        self._emit = emit
        self.texts: list[str] = []

    def add(self, level: str, text: str) -> None:
        """Emit one line; ``level`` is ``info`` or ``warning``."""
        self.texts.append(text)
        self._emit(Note(level, text))


class Revivals:
    """Gets an engine back whose process or connection was lost, a few times in a row."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._lost = 0

    def revive(self, error: RowfallError, engine: Engine) -> None:
        """Revive an engine where the error says that it was lost.

        Raises:
            RowfallError: ``error`` itself, now final: it was lost too often.
        """
        lost = isinstance(error, EngineError | TargetError) and not isinstance(error, CountError)
        if error.code or not error.transient or not lost:
            return
        self._lost += 1
        if self._lost > retry.MOST_DEATHS:
            raise type(error)(error.message, hint=error.hint)
        self._notes.add("warning", f"{first_line(error)}; starting again")
        engine.revive()

    def worked(self) -> None:
        """Begin to count anew: something was published since the last loss."""
        self._lost = 0


def first_line(error: RowfallError) -> str:
    """Return the beginning of an error's text: some hold whole buffers of data."""
    return error.message.splitlines()[0][:200]


@dataclass(frozen=True, slots=True)
class TableWriter:
    """One writer, and how attempts are staged and published there.

    Attributes:
        own: the target table as the load began with it.
        merges: waits for merges of its target, None where nobody else is slowed down.
        settings: for CREATE TABLE: what the target has, its staging tables may have.
    """

    writer: Writer
    staging: StagingTables
    own: OwnTable
    merges: Merges | None
    settings: Mapping[str, int]

    def wait_for_room(self, moves: Sequence[Move], parts: int) -> None:
        """Wait until the target can take more parts; see :meth:`Receiver.wait_for_room`."""
        self.own.check()
        if self.merges is not None:
            self.merges.wait_for_room(moves, parts)


@dataclass(frozen=True, slots=True)
class Receiving:
    """Everything that receivers of every kind are given.

    Attributes:
        engine: stores the rows.
        key: the ledger's key of the target or shadow that attempts are published in.
        overwrite: files and objects that are there already may be replaced.
        durable: what is recorded is flushed to disk before.
        stopped: set on Ctrl-C: nothing is tried again.
        recovery: ends attempts of dead processes; None where nobody else can have died.
        writers: those that each attempt is staged on; () where there are no tables.
        own: position of the one that sends the INSERT.
        database: that holds the table; None where an engine of ClickHouse does.
        export: the record of the files of an export.
        on_conflict: what becomes of rows there whose key is taken.
        together: they are all writers of the load: rows of one attempt belong on each of them.
    """

    engine: Engine
    target: Target
    ledger: Ledger
    leases: Leases
    key: str
    plan: Plan
    overwrite: bool
    notes: Notes
    revivals: Revivals
    stopped: threading.Event
    recovery: Recovery | None = None
    writers: tuple[TableWriter, ...] = ()
    own: int = 0
    together: bool = False
    durable: bool = True
    database: Database | None = None
    on_conflict: str = ERROR
    export: ExportRecord | None = None


def open_receiver(given: Receiving) -> Receiver:
    """Return the receiver for the kind of target; each kind is one line here."""
    from rowfall.publish.commit import CommitReceiver
    from rowfall.publish.files import FileReceiver, NullReceiver, ObjectReceiver
    from rowfall.publish.tables import TableReceiver
    from rowfall.publish.transaction import TransactionReceiver

    kinds: Mapping[Publish, Callable[[Receiving], Receiver]] = {
        Publish.ATTACH: TableReceiver,
        Publish.RENAME: FileReceiver,
        Publish.AT_ONCE: ObjectReceiver,
        Publish.TRANSACTION: TransactionReceiver,
        Publish.COMMIT: CommitReceiver,
        Publish.NONE: NullReceiver,
    }
    return kinds[given.target.caps.publish](given)
