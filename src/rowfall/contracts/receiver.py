"""The protocol by which the rows of one attempt are counted, published and recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rowfall.core import retry
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError, TargetError, headline
from rowfall.core.events import Listener, Note
from rowfall.core.listing import Split
from rowfall.core.model import Outcome
from rowfall.engines.base import Engine
from rowfall.ledger.leases import Leases, StagedPartition


class CountError(EngineError):
    """Not as many rows were stored as were read."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows and parts that an attempt holds in staging.

    Attributes:
        rows: of the staging table of the target itself.
        parts, bytes, moves: of all its staging tables; bytes on disk.
        fullest: parts in the fullest of the partitions that they go to.
        part_ids: staging table and UUID of each part.
    """

    rows: int
    parts: int
    bytes: int
    moves: tuple[StagedPartition, ...]
    fullest: int = 0
    part_ids: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StagedAttempt:
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


class EndsAttempts(Protocol):
    """Ends attempts of dead processes.

    Attributes:
        kept: committed attempts that cannot become visible, each with the reason.
    """

    @property
    def kept(self) -> Mapping[str, RowfallError]: ...

    def end(self, attempts: Sequence[str]) -> None:
        """End attempts whose leases have run out."""


class Receiver(Protocol):
    """Makes the rows of attempts visible; what its methods do is a step of the protocol each.

    Attributes:
        leases: of the splits, where attempts are published; ``recovery`` ends those of dead
            processes, None where nobody else can have died.
        nodes: that attempts are staged on, for the lease; "" where there is one.
        output_files: an attempt writes one file, which cannot be put together from others.
        skips_refused_rows: the target can go on behind a row that it has refused.
        watched: database and beginnings of the names of the tables whose parts tell the progress;
            None where there are none.
        unstaged: rows are visible as they are inserted: a failed attempt may leave some of them.
        in_background: the next attempt is inserted while one is counted and published.
    """

    leases: Leases
    recovery: EndsAttempts | None
    nodes: str
    output_files: bool
    skips_refused_rows: bool
    watched: tuple[str, Sequence[str]] | None

    @property
    def unstaged(self) -> bool: ...

    @property
    def in_background(self) -> bool: ...

    def insert_into(self, staging: str) -> str:
        """Return the table or file that the INSERT of an attempt names."""

    def settings(self, staging: str) -> Mapping[str, int]:
        """Return the settings that the INSERT of an attempt needs."""

    def stage(self, staging: str, lane: int) -> None:
        """Make an attempt's staging tables."""

    def count(self, delivered: StagedAttempt, *, checksum: bool) -> Counted:
        """Count what was staged and compare it with what was read.

        Raises:
            CountError: rows are missing, or there are too many.
        """

    def wait_for_room(self, counted: Counted) -> None:
        """Wait until the target can take what was staged.

        Raises:
            TargetError: the target is not the table any more that the load began with.
        """

    def sync(self, delivered: StagedAttempt) -> None:
        """Flush to disk what the steps before have written; nothing with ``--no-sync``."""

    def commit(self, delivered: StagedAttempt, counted: Counted) -> bool:
        """Record that the rows can only be published from now on.

        Returns:
            False when the lease has run out before: nothing of the attempt may be published.
        """

    def publish(self, delivered: StagedAttempt, counted: Counted) -> int:
        """Make all rows of a committed attempt visible. Returns the bytes of files written."""

    def record(self, delivered: StagedAttempt) -> None:
        """Record that all rows are visible and the splits are loaded."""

    def discard(self, staging: str) -> None:
        """Remove what an attempt has staged, if anything."""

    def hint(self, text: str) -> str:
        """Return the hint of an error in words that hold for this kind of target."""


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
        if error.code or not error.transient or not lost or error.ask_after is not None:
            return  # who says that it is busy has not been lost
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
    return headline(error.message)[:200]
