"""Ask the user about a record of a database that knows less than this machine.

The record is beside the rows, so one that was put back from an older copy agrees with nothing else
in the database: only the ledger of the machine that has loaded the rows knows more.
"""

from __future__ import annotations

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, UsageError
from rowfall.core.events import Note
from rowfall.core.listing import MARK, without_salt
from rowfall.core.options import ADOPT, ERROR, JOURNAL, LOAD
from rowfall.destinations.questions import command_of
from rowfall.engines.database import RECORD, Database, IndexedRecord


@dataclass(frozen=True, slots=True)
class OlderRecord:
    """Splits of this load that the ledger knows and the record does not, and the question."""

    ids: frozenset[str]
    error: LedgerError


def unconfirmed(session: Session, database: Database) -> frozenset[str]:
    """Return the ids of splits that the ledger knows to be in the table, and its record does not.

    Marks of files that were loaded in ranges are not among them.
    """
    ledger, key = session.ledger, session.target_key
    if ledger is None:
        return frozenset()
    own = {i for i in ledger.loaded(key) if not i.startswith(MARK)}
    if not own or ledger.table_uuid(key) != database.table_id():
        return frozenset()
    if isinstance(database, IndexedRecord):
        recorded = set(map(without_salt, database.loaded_among(sorted(own))))
    else:
        recorded = set(map(without_salt, database.loaded()))
    return frozenset(i for i in own if without_salt(i) not in recorded)


def find(session: Session, database: Database) -> OlderRecord | None:
    """Return the question about files of this load that only the ledger knows; None for none."""
    options, ledger, key = session.options, session.ledger, session.target_key
    if options.replace or options.upsert or options.force or ledger is None:
        return None
    if options.on_conflict != ERROR:
        return None
    ids = unconfirmed(session, database)
    if not ids:
        return None
    splits = list(session.listing.splits(key))
    found = ids & {split.id for split in splits}
    if ranges := ledger.ids_by_uri(ids - found):
        recorded = set(map(without_salt, database.loaded()))
        for split in splits:
            if split.id not in recorded:
                found |= ranges.get(split.uri, frozenset())
    if not found or not (rows := database.count()):
        return None  # a table without rows was set back as well
    text = (
        f"this machine has loaded {units.counted(len(found), session.listing.unit)} of these into "
        f"{session.table_text}, but the record {RECORD} beside the table does not know of them: "
        "the database was set back to an earlier state, the record was put back from an older "
        f"copy, or another machine has forgotten the load (the table holds {rows:,} rows, the "
        f"loads in this ledger brought {ledger.loaded_rows(key):,})"
    )
    lines = [
        "Compare the numbers of rows.",
        f"The rows are not there: {command_of(session, LOAD, '--loaded', JOURNAL)}",
        f"They are there, and count as loaded: {command_of(session, ADOPT)}",
        "The record is an older copy: put the right one back.",
    ]
    if not session.source.replayable:
        del lines[2]  # it cannot be named
    return OlderRecord(found, LedgerError(text, hint="\n".join(lines)))


def resolve(session: Session, found: OlderRecord) -> None:
    """Do what ``--loaded`` says about files that only the ledger knows.

    Raises:
        LedgerError: it says nothing.
        UsageError: what it says is no answer here.
    """
    answer = session.options.loaded
    if answer is None:
        raise found.error
    if answer != JOURNAL:
        raise UsageError(
            f"--loaded {answer} is no answer here: only the record in the database counts",
            hint=found.error.hint,
        )
    forget(session, found.ids)
    again = units.counted(len(found.ids), session.listing.unit)
    session.emit(Note("info", f"--loaded {JOURNAL}: {again} that the ledger knew count as not "
                              "loaded now"))  # fmt: skip


def forget(session: Session, ids: frozenset[str]) -> None:
    """Record in the ledger that some splits are not in the table."""
    if session.ledger is not None:
        session.ledger.forget_splits(session.target_key, ids)
