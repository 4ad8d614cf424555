"""Stop at a contradiction between memory and table, or do what the user says about it.

``--loaded`` is the answer: ``all`` that ledger or journal remember counts as loaded, or only what
the ``journal`` remembers, or ``none`` of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.errors import LedgerError, UsageError
from rowfall.core.events import Note
from rowfall.core.listing import MARK
from rowfall.core.options import ALL, NONE
from rowfall.destinations.clickhouse.loaded_state import (
    Contradiction,
    LedgerConflict,
    find_contradiction,
)
from rowfall.destinations.clickhouse.record import LoadedState, record_of, remembered
from rowfall.destinations.questions import check_emptied_answer
from rowfall.ledger import Ledger, target_key_parts
from rowfall.ledger.journal import Journal
from rowfall.plan.continued import names_now
from rowfall.systems.clickhouse.staging import CatalogueTables


def resolve(
    session: Session, ledger: Ledger, load_id: str, there: CatalogueTables, *, used: bool
) -> LoadedState | None:
    """Do what ``--loaded`` says about a contradiction between memory and target table.

    Args:
        there: the table, asked just now.
        used: it has decided already about rows of a stopped load.

    Returns:
        What is loaded into the table; None where it has to be asked for again.

    Raises:
        LedgerError: there is one, and nobody has said what is true; or it cannot be done.
        UsageError: there is no journal that could know.
    """
    answer = session.options.loaded
    memory = remembered(session, there)
    found = find_contradiction(session, memory, there)
    if found is not None and found.doubt is LedgerConflict.UNRECORDED:
        if not session.options.force_append:
            raise found.error
        accept(session, ledger, load_id, found.uuid)
        return None
    if found is None:
        record_of(session).settle_mark(ledger)
        if answer is not None and not used:
            session.emit(Note("info", f"--loaded {answer} changes nothing: ledger, journal and "
                                      "table agree"))  # fmt: skip
        return memory
    if answer is None:
        raise found.error
    answers = LedgerDoubts if record_of(session).alone else JournalDoubts
    doubts: Doubts = answers(session, ledger, load_id, found)
    {
        LedgerConflict.RESTORED_BACKUP: doubts.restored_backup,
        LedgerConflict.OTHER_TABLE: doubts.other_table,
        LedgerConflict.COPIED_TABLE: doubts.copied_table,
        LedgerConflict.RENAMED: doubts.renamed,
        LedgerConflict.EMPTIED: doubts.emptied,
    }[found.doubt](answer)
    return None


def accept(session: Session, ledger: Ledger, load_id: str, uuid: str) -> None:
    """Record that the rows which the target holds are none of a load's.

    Args:
        uuid: of the table.
    """
    record_of(session).accept(load_id, uuid)
    ledger.set_table(session.target_key, uuid)
    if session.engine.keeps_mark(uuid):
        ledger.accept_mark(uuid, session.engine.marked(uuid))


class Doubts(ABC):
    """Answers to one contradiction; what they are written into is a matter of the record."""

    def __init__(
        self, session: Session, ledger: Ledger, load_id: str, found: Contradiction
    ) -> None:
        self._session, self._ledger, self._load_id = session, ledger, load_id
        self._found, self._key = found, session.target_key
        database = session.first_target.database
        self._journal = Journal(session.engine, database, found.uuid, load_id)
        self._before = Journal(session.engine, database, found.before, load_id)

    def restored_backup(self, answer: str) -> None:
        """Answer where the ledger remembers more of this table than the journal."""
        self._journal.create()
        if answer == ALL:
            self._tell_journal(self._found.ids)
            return
        if answer == NONE:
            self._journal.forget_names(None)
        gone = self._found.ids if answer != NONE else self._ledger.loaded(self._key)
        self._ledger.forget_splits(self._key, gone)
        self._say_again(len(gone))

    @abstractmethod
    def other_table(self, answer: str) -> None:
        """Answer where the ledger remembers another table, and this one holds rows."""

    def copied_table(self, answer: str) -> None:
        """Answer where the journal remembers another table, and this one holds rows."""
        if answer != NONE:
            if self._found.key == self._key:
                self._carry_over(answer)
            else:
                self._under_new_name(answer)
        self._ledger.set_table(self._key, self._found.uuid)

    def renamed(self, answer: str) -> None:
        """Answer where files of this load came into the table when it had another name."""
        # What is known of a predecessor of this name goes first: it is of another table.
        self._ledger.set_table(self._key, self._found.uuid)
        if answer != NONE:
            self._under_new_name(answer)
            return
        self._forget_old_name()
        self._ledger.forget_splits(self._found.key, self._found.ids)

    def emptied(self, answer: str) -> None:
        """Answer where the rows of what counts as loaded were removed at once."""
        check_emptied_answer(answer, self._found.error)
        if answer == ALL:
            record_of(self._session).accept_emptied(self._load_id, self._found.uuid)
            self._session.emit(Note("info", f"--loaded {ALL}: rows that were removed stay away"))
            return
        self._forget_all()
        self._ledger.forget_splits(self._key, self._found.ids | self._ledger.loaded(self._key))
        self._say_again(len(self._found.ids))

    @abstractmethod
    def _forget_all(self) -> None:
        """Record beside the table that nothing is loaded into it."""

    @abstractmethod
    def _carry_over(self, answer: str) -> None:
        """Record about the new table what the one before held; ALL: or was to get, too."""

    @abstractmethod
    def _forget_old_name(self) -> None:
        """Record that nothing is loaded into the table under its old name."""

    @abstractmethod
    def _name_anew(self, names: Mapping[str, str]) -> None:
        """Record splits by new ids."""

    def _published(self, attempts: Iterable[str]) -> None:
        """Record in the ledger that attempts are visible, as far as it knows them."""
        for attempt in attempts:
            if self._ledger.attempt_state(attempt):
                self._ledger.attempt_published(attempt, self._key)

    def _tell_journal(self, ids: frozenset[str]) -> None:
        """Write lines of the journal anew from what the ledger knows."""
        for load_id, (rows, splits) in self._ledger.loaded_by_load(self._key, ids).items():
            self._journal.keep(load_id, splits, rows)

    def _under_new_name(self, answer: str) -> None:
        """Record under the table's present name what was loaded under another one."""
        session, found = self._session, self._found
        if any(i.startswith(MARK) for i in found.ids):
            raise LedgerError(
                "some of these files were loaded in ranges, which are known by the old name only",
                hint="Rename the table back, or load them again with --loaded none.",
            )
        ids = set(found.ids)
        if answer != ALL:
            for stopped in self._before.splits_of(found.stopped).values():
                ids -= set(stopped)
        listing = session.listing
        pairs = zip(listing.splits(found.key), listing.splits(self._key), strict=True)
        names = names_now(session, found.key, ids) or {
            old.id: new.id for old, new in pairs if old.id in ids
        }
        self._name_anew(names)

    def _say_again(self, count: int) -> None:
        again = units.counted(count, "file")
        self._session.emit(Note("info", f"--loaded: {again} that the ledger knew count as not "
                                        "loaded now"))  # fmt: skip


class LedgerDoubts(Doubts):
    """Answers about a folder: they are written into the ledger."""

    def other_table(self, answer: str) -> None:
        if answer == NONE:
            self._say_again(self._ledger.set_table(self._key, self._found.uuid))
            return
        self._carry_over(answer)
        self._ledger.set_table(self._key, self._found.uuid, keep=True)

    def _carry_over(self, answer: str) -> None:
        if answer != ALL and not self._found.stopped:
            raise UsageError(
                f"--loaded {answer}: {self._session.target.text} has no journal",
                hint="Say --loaded all or --loaded none.",
            )
        self._published(self._found.stopped if answer == ALL else ())

    def _forget_all(self) -> None:
        if not self._ledger.stopped(self._key):  # what was joined goes with the table alone
            self._ledger.set_table(self._key, "")
            self._ledger.set_table(self._key, self._found.uuid)

    def _forget_old_name(self) -> None:
        """Do nothing: the splits are forgotten in the ledger."""

    def _name_anew(self, names: Mapping[str, str]) -> None:
        self._ledger.rename_splits(self._found.key, self._key, names)


class JournalDoubts(Doubts):
    """Answers about tables of servers: they are written into the journal, for all who load."""

    def other_table(self, answer: str) -> None:
        found = self._found
        if answer != NONE:
            self._carry_over(answer)
        if answer == ALL:
            known = remembered(self._session).loaded | self._before.forgotten_ids()
            self._tell_journal(found.ids - known)
            self._ledger.set_table(self._key, found.uuid, keep=True)
        else:
            self._say_again(self._ledger.set_table(self._key, found.uuid))

    def _carry_over(self, answer: str) -> None:
        stopped = self._found.stopped if answer == ALL else {}
        self._journal.create()
        for attempt in stopped:
            self._before.loaded(attempt)
        self._journal.carry_over(self._found.before)
        self._published(stopped)

    def _forget_all(self) -> None:
        self._journal.forget_names(None)

    def _forget_old_name(self) -> None:
        database, table, *_ = target_key_parts(self._found.key)
        self._journal.forget_names([(database, table)])

    def _name_anew(self, names: Mapping[str, str]) -> None:
        self._journal.create()
        self._journal.keep(self._load_id, list(names.values()), 0)
