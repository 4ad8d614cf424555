"""A destination, the session and the run of a load into it: what these three know of each other.

A destination is one object for each kind of place where rows go. It carries the moments of a load,
in their order: its options are checked, earlier runs are brought to their end, what the load needs
is made, attempts are published, the load is finished and compared. Nothing outside
:mod:`rowfall.destinations` asks which kind one is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol

from rowfall.cluster.writer import Writer
from rowfall.contracts.facts import DestinationRules
from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.events import Listener
from rowfall.core.listing import Listing, Split
from rowfall.core.load_record import PartSizes
from rowfall.core.model import Encoding, MergeWork, Plan, Schema, Setting
from rowfall.core.options import Options
from rowfall.core.results import Leftover, Link, Undone, Verification
from rowfall.core.sqltext import SqlText
from rowfall.core.steering import Pressure
from rowfall.engines.base import Engine, ExistingTable
from rowfall.engines.database import Database
from rowfall.ledger import Ledger, target_key
from rowfall.ledger.recorder import Recorder
from rowfall.sources.base import Source
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster
    from rowfall.contracts.delivery import Delivery
    from rowfall.contracts.facts import (
        ExportState,
        LoadFacts,
        SourceColumns,
        TargetFacts,
    )
    from rowfall.contracts.load import Done, Finished, Settled
    from rowfall.contracts.receiver import Notes, Receiver, Revivals
    from rowfall.contracts.undo import Undo
    from rowfall.core.errors import LedgerError, RowfallError, TargetError
    from rowfall.engines.small_tables import SmallTables
    from rowfall.schema.table_changes import TargetColumns
    from rowfall.sources.cursor import CursorRows


@dataclass(frozen=True, slots=True)
class Session:
    """One load with everything that was opened for it; nothing of it is replaced meanwhile.

    Attributes:
        destination: the moments of a load into a target of this kind.
        listing: what the source held when it was opened.
        declared: the encoding by options and file names, None for generators; what the data says
            besides is in :class:`rowfall.contracts.facts.LoadFacts`.
        reader: the embedded engine that reads the source here; without a server it is the only
            writer's engine, too.
        writers: every engine that stores rows; the first one keeps the journal.
        database: that holds the target table where an engine of ClickHouse does not; else None.
        shards: the cluster that the writers are of, None where there is none.
        began: when the user began to wait, as of ``time.monotonic``.
        derived: the table has its name from the source.
        scratch: the target is one of its own, in which loads are measured and nothing stays.
    """

    sources: tuple[str, ...]
    to: str | None
    options: Options
    source: Source
    target: Target
    destination: Destination
    listing: Listing
    declared: Encoding | None
    reader: Embedded
    writers: tuple[Writer, ...]
    ledger: Ledger | None
    emit: Listener
    shards: OpenCluster | None = None
    began: float = 0.0
    database: Database | None = None
    derived: bool = False
    scratch: bool = False

    @property
    def engine(self) -> Engine:
        """Return the first writer's engine."""
        return self.writers[0].engine

    @property
    def first_target(self) -> Target:
        """Return the first writer's target: of a cluster, its local table."""
        return self.writers[0].target

    @property
    def source_engine(self) -> Engine:
        """Return the engine that is asked about the source where servers read it.

        Of a cluster, the oldest of the nodes that are reached from here: such questions hold keys.
        """
        return self.shards.source_engine if self.shards else self.engine

    @property
    def target_key(self) -> str:
        """Return the ledger's key of the target table."""
        if self.target.table:
            # Two Distributed tables over one local table are two names of the same rows.
            first = self.writers[0].target
            return target_key(first.database, first.table)
        return target_key(self.target.text)

    @property
    def all_rows(self) -> str:
        """Return SQL that reads the whole target: the table, or those of all shards."""
        shards, table = self.shards, sql.qualified(self.target.database, self.target.table)
        if shards is None or not shards.tables.direct:
            return table
        return f"cluster({sql.name(shards.cluster.name)}, {table})"

    @property
    def table_text(self) -> str:
        """Return ``database.table`` or the topic for people, "" where there is none."""
        return ".".join(filter(None, (self.target.database, self.target.table)))

    @property
    def remote(self) -> bool:
        """True where the source is read over the network."""
        return self.source.remote

    def for_batch(
        self, listing: Listing, declared: Encoding | None, source: Source | None = None
    ) -> Session:
        """Return the session of the next load of a stream, over the same connections.

        Args:
            source: where it is read, which for tables with snapshots is a newer one.
        """
        return replace(self, source=source or self.source, listing=listing, declared=declared)

    def heard_by(self, emit: Listener) -> Session:
        """Return the session whose events another listener hears."""
        return replace(self, emit=emit)

    def cpu_seconds_here(self) -> float:
        """Return the CPU seconds used so far by this process and the engine that reads here."""
        return self.reader.cpu_seconds() + time.process_time()


@dataclass(frozen=True, slots=True)
class LoadRun:
    """One run of one load.

    Attributes:
        emit: hears what the session's listener does; the file beside the ledger is written, too,
            that says how far the load is.
        begun: UTC, ISO 8601.
        key: the ledger's key of the target, or of what this load gathers in until its end.
        salt: see :class:`rowfall.ledger.journal.Journal`.
        new: no run has had its id before.
        others: ids of the other loads that this process runs, at the moment when it is asked.
        recorder: hears what ``emit`` does, and of each statement.
    """

    session: Session
    id: str
    emit: Listener
    begun: str
    ledger: Ledger
    key: str
    salt: str
    new: bool
    others: Collection[str] = frozenset()
    recorder: Recorder = field(default_factory=Recorder)

    @property
    def overwrites(self) -> bool:
        """True where what is there may be loaded, or written, once more."""
        return self.session.options.replace or self.session.options.force


@dataclass(frozen=True, slots=True)
class ReceiverInputs:
    """Inputs of the receiver of one writer, whatever the kind of its destination.

    Attributes:
        revivals: of the engine, counted for all attempts together.
        stopped: set on Ctrl-C: nothing is tried again.
    """

    load: LoadRun
    plan: Plan
    writer: Writer
    notes: Notes
    revivals: Revivals
    stopped: threading.Event

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return those of the INSERTs of this writer."""
        return self.plan.work.writers[self.writer.number].settings


class OpensReader(Protocol):
    """Opens the engine of this machine."""

    def __call__(self, *, late: bool = False) -> Embedded:
        """Return it; with ``late`` it starts when it is needed."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Inputs of :meth:`Destination.open`.

    Attributes:
        dry: nothing is written or made.
        scratch: the target is one of its own, in which loads are measured.
        stack: closes what is opened.
        check_setting_names: raises UsageError where an engine lacks a setting of ``--set``.
        reader: opens the engine of this machine for a source that can be read again; None where the
            source has to be listed first. With ``late`` it starts when it is needed.
    """

    target: Target
    options: Options
    emit: Listener
    stack: ExitStack
    dry: bool
    check_setting_names: Callable[[Engine], None]
    reader: OpensReader | None
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """Result of :meth:`Destination.open`.

    Attributes:
        writers: engines of servers that store rows; () where the engine of this machine does.
        shards: the cluster that these are of.
        database: that holds the table where no engine of ClickHouse does.
        reader: the engine of this machine, if it is open already.
    """

    writers: tuple[Writer, ...] = ()
    shards: OpenCluster | None = None
    database: Database | None = None
    reader: Embedded | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One statement of a user, and where its rows go.

    Attributes:
        format: of the rows, as the engine names it.
        write: it may change something.
        out_fd: file descriptor that gets the rows.
        convert: give what Arrow has no type for another one.
    """

    text: str
    format: str
    write: bool
    out_fd: int
    convert: bool = False

    @property
    def statement(self) -> SqlText:
        """Return the statement without a semicolon at its end."""
        return SqlText.of(self.text.strip().rstrip(";"))


class Gauge(Protocol):
    """Tells how full the server of one writer is."""

    def look(self) -> Pressure:
        """Ask now.

        Raises:
            RowfallError: it does not answer.
        """


class PreparedLoad(Protocol):
    """One run of a load in its destination, from its preparation to its end."""

    def leased(self) -> AbstractContextManager[None]:
        """Renew the leases of the load while the context is open."""

    def pull(self, plan: Plan) -> Done | None:
        """Let the target itself read the source to its end; None where attempts are to be made."""

    def delivery(self, session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
        """Return the delivery that brings the rows of attempts to one writer."""

    def receiver(self, given: ReceiverInputs) -> Receiver:
        """Return the receiver that publishes the attempts of one writer."""

    def cause(self, error: RowfallError) -> RowfallError:
        """Return the error to report: that the target is gone, where this caused ``error``."""

    def end_dead(self) -> None:
        """End what dead processes have left that loaded into this target, too.

        Raises:
            RowfallError: it is left to the next load.
        """

    def finish(self, plan: Plan, done: Done) -> Finished:
        """Make visible what waits for the end of the load, and wait for what ``--wait`` names.

        What stops it is in the result, not raised.
        """


class Destination(DestinationRules, Protocol):
    """One kind of place where rows go.

    Attributes:
        rows_become: word for the report: ``table``, ``database``, ``files`` or ``nothing``.
        replaces: a table of it can be loaded anew as a whole, with ``--replace``.
        follows: loads of a stream may come one after the other, and are remembered.
        keeps: rows that are loaded stay there.
        continues: what is loaded of a stream is not read again.
        runs_sql: statements of a user may change what it holds.
    """

    rows_become: str
    replaces: bool
    follows: bool
    keeps: bool
    continues: bool
    runs_sql: bool

    @property
    def shares_loads(self) -> bool:
        """Return True where several machines may share a load, by leases beside the table."""

    def check(self, target: Target, options: Options) -> None:
        """Check that every option applies to this destination, before anything is read.

        Raises:
            UsageError: which one does not.
        """

    def open(self, request: OpenRequest) -> Opened:
        """Connect to what holds the rows, and check that it takes them.

        Raises:
            TargetError: it is out of reach, or refuses.
        """

    def refusal(self, session: Session) -> TargetError | None:
        """Return the error that a load would end with for a missing right; None for none."""

    def key(self, session: Session, load_id: str) -> str:
        """Return the ledger's key under which the attempts of a load are recorded."""

    def has_unknown_attempts(self, session: Session, load_id: str) -> bool:
        """Tell whether the target knows attempts of an unfinished load that its ledger does not."""

    def settle(self, load: LoadRun) -> Settled:
        """Bring earlier runs to an end, and find out what need not be loaded again.

        Raises:
            LedgerError: ledger or journal and target contradict each other.
            TargetError: the target is not as it was, or does not answer.
        """

    def settle_again(self, load: LoadRun, known: frozenset[str]) -> Settled | None:
        """Return the starting point of a load right behind another one of this session.

        Args:
            known: ids of splits that need not be loaded again.

        Returns:
            None where something has come between, so that :meth:`settle` has to ask for all.
        """

    def prepare(
        self, load: LoadRun, settled: Settled, facts: LoadFacts, plan: Plan
    ) -> PreparedLoad:
        """Make the target where it is missing, and what its attempts need.

        Raises:
            UsageError: the target cannot be made as it was asked for.
            TargetError: something is in the way.
        """

    def verify_loaded(self, load: LoadRun, facts: LoadFacts, plan: Plan, done: Done) -> None:
        """Compare what a run has loaded with its source, where ``--verify`` asks for it.

        Raises:
            VerifyError: they differ.
        """

    def join_loads(self, session: Session, ledger: Ledger, load_id: str, older: str) -> bool:
        """Make one load of two batches of a stream, so that records do not grow for ever.

        Returns:
            False where they stay as they are.
        """

    def record_place(self, session: Session) -> int:
        """Return the place in the record of what was written down last; 0 where nobody can tell."""

    def loaded_by(
        self, session: Session, loads: Sequence[str], behind: int
    ) -> Mapping[str, tuple[int, int]]:
        """Return the rows and splits that some loads have loaded behind a place of the record."""

    def small_tables(self, session: Session) -> SmallTables | None:
        """Return the small tables beside the target of an open load; None where there are none."""

    def beside(self, target: Target) -> AbstractContextManager[SmallTables | None]:
        """Open the small tables beside a target that others use at the same time.

        None where one process at a time has the target to itself, or it keeps no tables.

        Raises:
            TargetError: it is out of reach.
        """

    def join_record(self, session: Session) -> None:
        """Make the record beside the target take less room for what was loaded long ago."""

    def prune_record(self, session: Session, days: int) -> None:
        """Forget what has been on record for more than so many days, where that can be told."""

    def merge_work(self, session: Session) -> tuple[int, MergeWork | None]:
        """Return the active parts of the target, and what merges have left to do; (0, None) where
        there are no parts."""

    def part_sizes(self, session: Session) -> PartSizes | None:
        """Return the sizes of the active parts of the target; None where there are none.

        When they became few is for who knows how long the load took.
        """

    # --- questions before a load ------------------------------------------------------------------

    def loaded_ids(self, session: Session) -> set[str]:
        """Return the ids of the splits that the target holds, as far as anybody has a record."""

    def loaded_among(self, session: Session, ids: Sequence[str]) -> set[str]:
        """Return those of some ids of splits that the target holds; the record is not read whole.

        Args:
            ids: at most 20,000, and marks of files among them.
        """

    def stored_rows(self, session: Session, wanted: CursorRows) -> Iterable[Sequence[Any]] | None:
        """Return key and cursor of rows of the table, as texts; None where it cannot be asked.

        Raises:
            UsageError: the table lacks a column, or has it with a type that does not keep values.
        """

    def contradiction(self, session: Session) -> LedgerError | None:
        """Return the contradiction between record and table; None where they agree."""

    def is_older(self, session: Session) -> bool:
        """Return whether the ledger is older than the rows of the table."""

    def stored_columns(self, session: Session, table: str | None) -> TargetColumns:
        """Return the columns that rows have to fit, if the load does not make them, with the
        definition of their table and the questions before they change. What follows from releases
        of engines is not in it.

        Args:
            table: on the first writer; None where it is known that there is none.
        """

    def options_here(self, session: Session) -> Options:
        """Return the options as the engine of this machine understands them."""

    def survey(
        self, session: Session, listed: ExistingTable | None, found: SourceColumns, *,
        thorough: bool,
    ) -> tuple[Schema, TargetFacts]:  # fmt: skip
        """Ask once what a plan has to know of the target, besides its columns.

        Args:
            listed: the definition of the table, of :meth:`stored_columns`.
            found: the source.
            thorough: also what only a forecast needs.

        Returns:
            The schema of the source as the target takes it, and the answers.

        Raises:
            TargetError: the target does not take it.
        """

    def export(
        self, session: Session, listing: Listing, schema: Schema, load_id: str
    ) -> ExportState | None:
        """Ask what is there of the files to write; None where rows go into none.

        Args:
            load_id: of the load that asks; "" for a plan.
        """

    # --- measuring --------------------------------------------------------------------------------

    def make_scratch(self, session: Session, like: str) -> None:
        """Make the table of a scratch like the one that it stands for, where there is one.

        Args:
            like: see :attr:`rowfall.targets.base.Scratch.like`.
        """

    def erase(self, session: Session) -> None:
        """Remove everything that loads into a scratch target have made, where there is anything.

        Raises:
            RowfallError: the target does not answer.
        """

    def network(self, session: Session) -> Sequence[Link]:
        """Measure the network to the target; () where there is none, or nobody may."""

    def merging(self, session: Session) -> Link | None:
        """Merge what a load into a scratch has written; None where nothing is merged."""

    def engine_times(self, session: Session, load_id: str) -> Mapping[str, float] | None:
        """Return where the engine that stored a load has spent time, in seconds, by its counters.

        Returns:
            None where it has none, or the user may not read them.
        """

    def gauge(self, session: Session, writer: Writer) -> Gauge | None:
        """Return what tells how full the server of a writer is; None where nobody else uses it."""

    # --- besides loads ----------------------------------------------------------------------------

    def query(self, target: Target, query: Query) -> None:
        """Run one statement and write its rows to a file descriptor.

        Raises:
            UsageError: the target holds no tables. EngineError: the statement fails.
            BrokenPipeError: nobody reads the rows any more.
        """

    def tables_query(self, target: Target) -> str | None:
        """Return SQL that lists the tables of a target: schema, name, rows and bytes, NULL for what
        is not known. None where it cannot be asked.
        """

    def clean(self, target: Target, *, dry: bool, emit: Listener) -> list[Leftover]:
        """Drop what dead loads have left, and finish what they had committed.

        Returns:
            What was dropped (``dry``: what would be).
        """

    def forget(self, target: Target, load_id: str, options: Options) -> int:
        """Make what a load has loaded count as not loaded; return how many splits that is."""

    def undo(self, target: Target, asked: Undo) -> Undone:
        """Take the rows of a load out again; return what was taken out, or would be.

        Raises:
            LedgerError: they cannot be told from others.
            UsageError: the target cannot do it at all.
        """

    def forget_attempt(self, target: Target, attempt: str) -> int:
        """Give up an attempt whose rows cannot become visible; return its number of splits."""

    def verify(self, session: Session, load_id: str) -> Verification:
        """Compare what a load has brought into the target with its source, read again.

        Raises:
            UsageError: there is nothing to compare. SourceError: the source is gone or changed.
        """

    def named(self, session: Session) -> tuple[str, str]:
        """Return the place and the table as a command names them, to be pasted."""

    def adopts(self, target: Target) -> bool:
        """Return whether rows that others have brought into a target can be put on record."""

    def table_exists(self, session: Session) -> bool:
        """Return whether the target table is there."""

    def accept(self, session: Session, ledger: Ledger, load_id: str) -> None:
        """Record that the rows which the target holds are none of a load's."""

    def record_adopted(
        self, session: Session, ledger: Ledger, attempt: str, splits: Sequence[Split]
    ) -> None:
        """Write splits into the record beside the table, as loaded by an attempt.

        Raises:
            LedgerError: another rowfall records some of them.
        """
