"""Where it is written down what is loaded into a table: in the ledger, or beside the table.

A folder belongs to one process at a time, so the ledger knows everything, and a mark beside the
rows tells whether it is as new as they are. Tables of servers have a journal beside them, which all
who load into them read and write. Nothing else asks which of the two it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from rowfall.contracts.destination import LoadRun, Session
from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split, without_salt
from rowfall.engines.base import table_uuid
from rowfall.ledger import Ledger
from rowfall.ledger.joined_ids import JOINED
from rowfall.ledger.journal import TABLE as JOURNAL
from rowfall.ledger.journal import Journal, TableLoads
from rowfall.ledger.leases import Leases, NoLeases
from rowfall.publish.evidence import LoadedAnswer
from rowfall.publish.leftovers import end_loads_of_journal, end_loads_of_ledger
from rowfall.publish.recover import (
    Recovery,
    follow_journal,
    open_journal,
    open_recovery,
    staging_of,
)
from rowfall.publish.shadow import shadow_name
from rowfall.publish.target_tables import OwnTable, TargetTables
from rowfall.systems.clickhouse.staging import CatalogueTables

# Of a step of the load that was told that removed rows stay away: the table, and what had been
# loaded last.
EMPTIED = "emptied"


@dataclass(frozen=True, slots=True)
class LoadedState:
    """Ids of splits that are remembered as loaded into the table of the target's name.

    Attributes:
        uuid: of the table, "" where there is none. ``known``: of the table that the ledger tells
            of, None where it tells of none.
        ledger: what the ledger remembers, of whichever table.
        journal: what the journal says of this table, None where there is no journal.
        forgotten: of ``journal``, what was forgotten and has not been loaded again.
    """

    uuid: str
    known: str | None
    ledger: frozenset[str]
    journal: frozenset[str] | None
    forgotten: frozenset[str] = frozenset()

    @property
    def loaded(self) -> set[str]:
        """Return the ids of what need not be loaded again."""
        if not self.uuid:
            return set()
        own = self.ledger if self.known in (None, self.uuid) else frozenset()
        # The journal knows what other machines have loaded and forgotten, too.
        return set((own | (self.journal or frozenset())) - self.forgotten)

    @property
    def unconfirmed(self) -> frozenset[str]:
        """Return ids of splits in this table by the ledger, which its journal does not list."""
        if not self.uuid or self.known != self.uuid or not self.ledger:
            return frozenset()
        said = (self.journal or frozenset()) | self.forgotten
        return self.ledger - {without_salt(i) for i in said}


class Record(Protocol):
    """The record of loads into the target of a session.

    Attributes:
        text: its place, for people. ``knows``: "what ... knows", for people.
        alone: nobody else uses the tables, so the ledger knows everything about them.
    """

    text: str
    knows: str
    alone: bool

    # --- what it says -----------------------------------------------------------------------------

    def unknown_attempts(self, load_id: str) -> int:
        """Return the number of a load's attempts that it knows and the ledger does not."""

    def state(self, uuid: str, known: str | None, own: frozenset[str]) -> LoadedState:
        """Return the splits that are loaded into a table.

        Args:
            uuid: of the table.
            known: UUID of the table that the ledger tells of, None where it tells of none.
            own: ids of the splits that are loaded by the ledger.
        """

    def among(self, uuid: str, ids: Sequence[str]) -> set[str]:
        """Return those of some ids that are loaded into a table; nothing else is read."""

    def join(self, uuid: str) -> None:
        """Make what was loaded long ago take less room."""

    def prune(self, uuid: str, days: int) -> None:
        """Forget the ids that were loaded more than so many days ago."""

    def journal(self, uuid: str = "") -> Journal | None:
        """Return the journal of the table with that UUID; None where there is none."""

    def stopped(self, before: str) -> Mapping[str, int]:
        """Return the attempts, with rows, that were committed for a table and nobody has ended."""

    def explains(self, uuid: str) -> bool:
        """Return whether the ledger alone explains the rows of the table with this UUID."""

    def splits_of(self, loaded: Collection[TableLoads], before: str, ids: Collection[str]) -> str:
        """Return words for what a copy of the table ``before`` holds; "" if that is unknown."""

    def count(self, rows: int) -> str:
        """Return a clause with the rows that it counts, of ``rows`` that a journal has."""

    # --- a load -----------------------------------------------------------------------------------

    def settle_shared(self, load: LoadRun, key: str, own: OwnTable, answer: LoadedAnswer) -> None:
        """End what dead processes have begun in a table that others use; then follow its record.

        Args:
            key: of the ledger.

        Raises:
            AlteredTableError: everything that this load has gathered cannot become visible.
        """

    def table_gone(self, load: LoadRun, uuid: str) -> None:
        """End what was begun in a table that is not there any more."""

    def confirms(self, load: LoadRun) -> bool:
        """Return whether this record lists every split that the ledger has in the load's shadow."""

    def announce(self, load: LoadRun, uuid: str) -> Leases:
        """Return the leases of a target that is changed at the end of a load, which it knows."""

    def leases(
        self, load: LoadRun, tables: TargetTables, uuid: str
    ) -> tuple[Leases, Recovery | None]:
        """Return the leases under which attempts are published into a table, and what ends those
        of dead processes.
        """

    def end_dead_loads(self, tables: TargetTables, load_id: str) -> None:
        """End what dead loads have begun beside the target; see ``publish/leftovers.py``."""

    # --- what people say --------------------------------------------------------------------------

    def settle_mark(self, ledger: Ledger) -> None:
        """Record which of the two that it may be the mark beside the rows is."""

    def accept(self, load_id: str, uuid: str) -> None:
        """Record that the rows which a table holds are none of a load's."""

    def accept_emptied(self, load_id: str, uuid: str) -> None:
        """Record that the rows which were removed from a table stay away."""

    def accepts_emptied(self, uuid: str) -> bool:
        """Tell whether :meth:`accept_emptied` was called since rows were loaded last."""

    def adopt(self, load_id: str, uuid: str, splits: Sequence[Split]) -> None:
        """Record splits as loaded by a load that has brought nothing."""


class LedgerRecord:
    """The record of a folder is its ledger."""

    knows = "what the ledger knows"
    alone = True

    end_dead_loads = staticmethod(end_loads_of_ledger)

    def __init__(self, session: Session) -> None:
        self._session = session
        self.text = f"the ledger {session.target.ledger_path}"

    def unknown_attempts(self, load_id: str) -> int:
        return 0

    def state(self, uuid: str, known: str | None, own: frozenset[str]) -> LoadedState:
        session = self._session
        if session.ledger is not None:
            listed = (s.id for s in session.listing.splits(session.target_key))
            own |= session.ledger.joined_among(session.target_key, listed)
        return LoadedState(uuid, known, own, own)

    def among(self, uuid: str, ids: Sequence[str]) -> set[str]:
        ledger, key = self._session.ledger, self._session.target_key
        if ledger is None or ledger.table_uuid(key) not in (None, uuid):
            return set()
        return ledger.loaded_among(key, ids)

    def join(self, uuid: str) -> None:
        """Do nothing: the ledger has done it when it joined the load."""

    def prune(self, uuid: str, days: int) -> None:
        if self._session.ledger is not None:
            self._session.ledger.prune_joined(self._session.target_key, days)

    def journal(self, uuid: str = "") -> Journal | None:
        return None

    def stopped(self, before: str) -> Mapping[str, int]:
        ledger = self._session.ledger
        return ledger.stopped(self._session.target_key) if ledger is not None else {}

    def explains(self, uuid: str) -> bool:
        ledger = self._session.ledger
        return ledger is not None and bool(ledger.keys_of(uuid))

    def splits_of(self, loaded: Collection[TableLoads], before: str, ids: Collection[str]) -> str:
        return self.knows if ids and self.stopped(before) else ""

    def count(self, rows: int) -> str:
        return ""

    def settle_shared(self, load: LoadRun, key: str, own: OwnTable, answer: LoadedAnswer) -> None:
        """Do nothing: all that was open in the folder has been ended."""

    def table_gone(self, load: LoadRun, uuid: str) -> None:
        """Do nothing: all that was open in the folder has been ended."""

    def confirms(self, load: LoadRun) -> bool:
        return True

    def announce(self, load: LoadRun, uuid: str) -> Leases:
        return NoLeases()

    def leases(
        self, load: LoadRun, tables: TargetTables, uuid: str
    ) -> tuple[Leases, Recovery | None]:
        return NoLeases(), None

    def settle_mark(self, ledger: Ledger) -> None:
        """See :class:`Record`; the two differ behind an attempt that was committed and given up."""
        session = self._session
        uuid = ledger.table_uuid(session.target_key)
        if uuid is None:
            return
        expected, mark = ledger.expected_marks(uuid), session.engine.marked(uuid)
        if len(expected) > 1 and mark in expected:
            ledger.accept_mark(uuid, mark)

    def accept(self, load_id: str, uuid: str) -> None:
        """Do nothing: the caller writes it into the ledger."""

    def accept_emptied(self, load_id: str, uuid: str) -> None:
        if self._session.ledger is not None:
            self._session.ledger.step(load_id, f"{EMPTIED} {uuid} {self._last_loaded()}", "done")

    def accepts_emptied(self, uuid: str) -> bool:
        ledger, said = self._session.ledger, f"{uuid} {self._last_loaded()}"
        return ledger is not None and any(s == said for *_, s in ledger.steps_called(EMPTIED))

    def _last_loaded(self) -> str:
        ledger = self._session.ledger
        return ledger.last_loaded(self._session.target_key) if ledger is not None else ""

    def adopt(self, load_id: str, uuid: str, splits: Sequence[Split]) -> None:
        """Do nothing: the caller writes them into the ledger."""


class JournalRecord:
    """The record of a table of servers is a journal beside it; the ledger only follows."""

    knows = "what the journal knows"
    alone = False

    end_dead_loads = staticmethod(end_loads_of_journal)

    def __init__(self, session: Session, found: CatalogueTables | None = None) -> None:
        self._session, self._found = session, found
        self.text = f"the journal {session.first_target.database}.{JOURNAL}"

    def unknown_attempts(self, load_id: str) -> int:
        journal, ledger = open_journal(self._session, ""), self._session.ledger
        if ledger is None or not journal.there():
            return 0
        return sum(not ledger.attempt_state(a) for a in journal.attempts_of(load_id))

    def state(self, uuid: str, known: str | None, own: frozenset[str]) -> LoadedState:
        journal = self._of(uuid)
        if not uuid or not self._there(journal):
            return LoadedState(uuid, known, own, None)
        loaded, forgotten = journal.remembered_ids()
        if JOINED in loaded:
            listed = (s.id for s in self._session.listing.splits(self._session.target_key))
            loaded |= journal.joined.among({*own, *forgotten, *listed} - loaded)
            forgotten -= loaded
        if known and known != uuid and known in journal.predecessors():
            known = uuid  # a load with --upsert has exchanged it
        return LoadedState(uuid, known, own, frozenset(loaded), frozenset(forgotten))

    def among(self, uuid: str, ids: Sequence[str]) -> set[str]:
        journal = self._of(uuid)
        return journal.loaded_among(ids) if self._there(journal) else set()

    def join(self, uuid: str) -> None:
        self._of(uuid).join()

    def prune(self, uuid: str, days: int) -> None:
        journal = self._of(uuid)
        if self._there(journal) and journal.has_joined():
            journal.joined.prune(days)

    def journal(self, uuid: str = "") -> Journal | None:
        journal = self._of(uuid)
        return journal if self._there(journal) else None

    def stopped(self, before: str) -> Mapping[str, int]:
        journal = self.journal(before)
        if journal is None:
            return {}
        return {e.attempt: e.rows for e in journal.entries() if e.binding and not e.over}

    def explains(self, uuid: str) -> bool:
        return False  # it says nothing of what others have loaded

    def splits_of(self, loaded: Collection[TableLoads], before: str, ids: Collection[str]) -> str:
        return self.knows if any(one.into == before and one.rows for one in loaded) else ""

    def count(self, rows: int) -> str:
        return f", those in the journal {rows:,}"

    def settle_shared(self, load: LoadRun, key: str, own: OwnTable, answer: LoadedAnswer) -> None:
        ledger = load.ledger
        journal = open_journal(self._session, own.uuid, load.id, load.salt)
        if not self._there(journal):
            return
        before = ledger.table_uuid(key)
        if before and before != own.uuid and before in journal.predecessors():
            ledger.set_table(key, own.uuid, keep=True)
        recovery = open_recovery(TargetTables(self._session, ledger), journal, own, answer)
        recovery.end_all()
        for attempt, error in recovery.kept.items():
            if staging_of(attempt) == shadow_name(load.id):
                raise error
        follow_journal(ledger, journal, key)

    def table_gone(self, load: LoadRun, uuid: str) -> None:
        old = open_journal(self._session, uuid, load.id, load.salt)
        if self._there(old):
            open_recovery(TargetTables(self._session, load.ledger), old).table_gone()

    def confirms(self, load: LoadRun) -> bool:
        gathered = load.ledger.loaded(load.key)
        uuid = load.ledger.table_uuid(load.key)
        if not gathered or not uuid:
            return True
        journal = open_journal(self._session, uuid, load.id)
        known = set(map(without_salt, journal.loaded_ids())) if journal.there() else set()
        return gathered <= known

    def announce(self, load: LoadRun, uuid: str) -> Leases:
        journal = open_journal(self._session, uuid, load.id, load.salt)
        journal.create()
        journal.announce()
        return journal

    def leases(
        self, load: LoadRun, tables: TargetTables, uuid: str
    ) -> tuple[Leases, Recovery | None]:
        journal = open_journal(self._session, uuid, load.id, load.salt)
        if self._found is None or JOURNAL not in self._found:
            journal.create()
        return journal, open_recovery(tables, journal)

    def settle_mark(self, ledger: Ledger) -> None:
        """Do nothing: no mark lies with the rows of a server."""

    def accept(self, load_id: str, uuid: str) -> None:
        journal = self._of(uuid, load_id)
        journal.create()
        journal.accept()

    def accept_emptied(self, load_id: str, uuid: str) -> None:
        self.accept(load_id, uuid)

    def accepts_emptied(self, uuid: str) -> bool:
        journal = self._of(uuid)
        return self._there(journal) and journal.accepts_since()

    def adopt(self, load_id: str, uuid: str, splits: Sequence[Split]) -> None:
        marks = dict.fromkeys(s.mark for s in splits if s.whole and not s.continued)
        self._of(uuid, load_id).keep(load_id, [*marks, *(split.id for split in splits)], 0)

    def _there(self, journal: Journal) -> bool:
        """Return whether the journal exists; once made, it is never removed."""
        return JOURNAL in self._found if self._found is not None else journal.there()

    def _of(self, uuid: str, load_id: str = "") -> Journal:
        session = self._session
        return Journal(session.engine, session.first_target.database, uuid, load_id)


def record_of(session: Session, found: CatalogueTables | None = None) -> Record:
    """Return the record of loads into the target of a session.

    Args:
        found: the tables of the first writer, where they were asked for just now.
    """
    # Who shares the tables with others has to agree with them on what is loaded. Nobody else has a
    # scratch, and a journal would stay.
    shared = session.engine.shared and not session.scratch
    return JournalRecord(session, found) if shared else LedgerRecord(session)


def remembered(session: Session, found: CatalogueTables | None = None) -> LoadedState:
    """Ask ledger and journal what is loaded into the target table.

    Args:
        found: the table, where it was asked for just now.
    """
    ledger, key = session.ledger, session.target_key
    database, table = session.first_target.database, session.first_target.table
    # The ledger first: what is loaded meanwhile comes into the journal before it.
    own = frozenset(ledger.loaded(key)) if ledger is not None else frozenset()
    known = ledger.table_uuid(key) if ledger is not None else None
    if found is not None:
        uuid = found.uuid(table)
    else:
        uuid = table_uuid(session.engine, database, table) if table else ""
    return record_of(session, found).state(uuid, known, own)
