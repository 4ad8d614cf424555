"""Compare what ledger and journal remember of a table with the table that is there.

Both are only as good as the table that they tell of. A table that was restored, exchanged for a
copy or renamed keeps its rows and loses its memory; a server that was set back has lost rows that
the ledger still counts. Nothing is changed here: ``doubts.py`` does what the user decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from enum import Enum

from rowfall.contracts.destination import Session
from rowfall.core import sql, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, TargetError
from rowfall.core.options import LOAD
from rowfall.core.sqltext import quote
from rowfall.destinations.clickhouse.emptied import count_gone
from rowfall.destinations.clickhouse.record import LoadedState, record_of
from rowfall.destinations.questions import (
    LATER_ROWS,
    answers,
    command_of,
    emptied_table,
    unrecorded_rows,
)
from rowfall.engines.base import Engine, table_uuid
from rowfall.ledger import target_key, target_key_parts
from rowfall.ledger.journal import TABLE as JOURNAL
from rowfall.ledger.journal import TableLoads
from rowfall.plan.continued import names_now
from rowfall.systems.clickhouse.staging import CatalogueTables
from rowfall.targets.base import STAGING_PREFIX

# Engines of databases whose tables have no UUID.
_WITHOUT_UUIDS = ("Ordinary", "Memory", "Lazy")


def check_identity(database: str, kind: str) -> None:
    """Check that the tables of a database of one kind can be told from their successors.

    Raises:
        TargetError: they have no UUIDs, so that a table made anew would count as loaded.
    """
    if kind in _WITHOUT_UUIDS:
        raise TargetError(
            f"the database {database} has the engine {kind}, whose tables have no UUIDs: a "
            "table that is made anew could not be told from the one that was loaded",
            hint="CREATE DATABASE another ENGINE = Atomic, and move a table that is there with "
            f"RENAME TABLE {database}.name TO another.name.",
        )


class LedgerConflict(Enum):
    """Ways in which a memory and a table contradict each other."""

    OTHER_TABLE = "the ledger remembers another table of this name, and this one holds rows"
    RESTORED_BACKUP = "the ledger remembers more than the journal beside the table"
    COPIED_TABLE = "the journal remembers another table of this name, and this one holds rows"
    RENAMED = "files of this load were loaded into this table when it had another name"
    UNRECORDED = "the table holds rows, and no record tells of the table"
    EMPTIED = "files of this load count as loaded, and the table has no rows"
    OLDER = "the rows of the table name a load that the ledger does not know"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A contradiction that only somebody can resolve who knows what was done to the table.

    Attributes:
        before: UUID of the table that is remembered; ``key``: by which the ledger knows it.
        ids: of the splits that are in doubt, by that key; the marks of ranges among them.
        stopped: attempts that were committed for the table that is remembered, with their rows:
            nobody says whether it ever got them.
        error: says what was found, and what can be done.
    """

    doubt: LedgerConflict
    uuid: str
    before: str
    key: str
    ids: frozenset[str]
    error: LedgerError
    stopped: Mapping[str, int] = field(default_factory=dict)


def find_contradiction(
    session: Session, memory: LoadedState, found: CatalogueTables | None = None
) -> Contradiction | None:
    """Return the contradiction between ledger, journal and target table; None where they agree.

    Args:
        memory: by :func:`remembered`, with the same ``found``.
    """
    if not memory.uuid:
        return None
    if memory.unconfirmed:
        return _set_back(session, memory)
    if (older := find_older_ledger(session)) is not None:
        return older
    journal = record_of(session, found).journal() if memory.journal is not None else None
    loads = journal.table_loads() if journal is not None else []
    return (
        _other_table(session, memory, loads)
        or _came_along(session, memory, loads)
        or _renamed(session, memory, loads)
        or _unrecorded(session, memory, loads)
        or _emptied(session, memory, found, loads)
    )


def _table_loads(session: Session) -> list[TableLoads]:
    journal = record_of(session).journal()
    return journal.table_loads() if journal is not None else []


def _rows(session: Session) -> int:
    ((rows,),) = session.engine.ask(f"SELECT count() FROM {session.all_rows}")
    return int(rows)


def _rows_of(loads: Collection[TableLoads], uuid: str) -> int:
    return sum(one.rows for one in loads if one.into == uuid)


def _set_back(session: Session, memory: LoadedState) -> Contradiction:
    loads, count = _table_loads(session), len(memory.unconfirmed)
    journal = f"{session.first_target.database}.{JOURNAL}"
    there = memory.journal is not None
    text = (
        f"the ledger says that {units.counted(count, 'file')} are loaded into "
        f"{session.table_text}, but the journal {journal} "
        + ("does not know of them" if there else "is gone")
        + ": the server was set back to an earlier state, or somebody has changed the journal"
        + _numbers(session, _rows(session), _rows_of(loads, memory.uuid))
    )
    hint = (
        "Compare the numbers of rows, then run the same command with --loaded journal (the table "
        "was set back as well: what the journal does not know is loaded), --loaded all (its rows "
        "are there: the journal is told) or --loaded none (nothing of all loads is there)."
    )
    return Contradiction(
        LedgerConflict.RESTORED_BACKUP, memory.uuid, memory.uuid, session.target_key,
        memory.unconfirmed,
        LedgerError(text, hint=hint),
    )  # fmt: skip


def _other_table(
    session: Session, memory: LoadedState, loads: Collection[TableLoads]
) -> Contradiction | None:
    """Return a contradiction where the table is a new one and holds rows of unknown origin."""
    before = memory.known
    if not before or before == memory.uuid:
        return None
    loaded = memory.ledger or any(one.into == before for one in loads)
    if not loaded and not _stopped(session, before):
        return None  # nothing was loaded into the old one
    rows = _rows(session)
    # Loads of others into the new table account for its rows.
    if rows <= _rows_of(loads, memory.uuid):
        return None
    other = _OtherTable(
        LedgerConflict.OTHER_TABLE, memory.uuid, before, session.target_key, memory.ledger
    )
    return _question(session, other, rows, loads)


def _stopped(session: Session, before: str) -> Mapping[str, int]:
    """Return attempts committed for a table but never recorded as loaded, with their rows.

    Their rows may have become visible before the load was stopped, so a copy of the table may hold
    them as well.
    """
    return record_of(session).stopped(before)


def _came_along(
    session: Session, memory: LoadedState, loads: Collection[TableLoads]
) -> Contradiction | None:
    """Return a contradiction where a journal tells of another table of this name.

    It was restored, and the table with a new UUID; or the table was exchanged for a copy.
    """
    if memory.known == memory.uuid or any(one.into == memory.uuid for one in loads):
        return None
    database, table = own = (session.first_target.database, session.first_target.table)
    rows = session.engine.ask(
        f"SELECT toString(uuid), name FROM system.tables WHERE database = {quote(database)}"
    )
    there = {str(uuid): (database, str(name)) for uuid, name in rows}
    journal = record_of(session).journal()
    told = [*loads, *(journal.stopped() if journal is not None else ())]
    for one in sorted(told, key=lambda one: one.last, reverse=True):
        name_now = there.get(one.into)
        if own in one.tables and name_now not in one.tables:
            if count := _rows(session):
                other = _OtherTable(
                    LedgerConflict.COPIED_TABLE, memory.uuid, one.into, session.target_key
                )
                return _question(session, other, count, loads)
            return None
        if name_now:
            continue
        # A table that was replaced has been loaded under the name of a shadow; a database may have
        # been restored under another name.
        for base, name in one.tables:
            key = session.target_key if _is_staging(name) else target_key(base, name)
            if _is_staging(name) or name == table:
                found = _overlap(session, memory, one.into, key)
                if found and (count := _rows(session)):
                    other = _OtherTable(
                        LedgerConflict.COPIED_TABLE, memory.uuid, one.into, key, found
                    )
                    return _question(session, other, count, loads)
    return None


def _renamed(
    session: Session, memory: LoadedState, loads: Collection[TableLoads]
) -> Contradiction | None:
    """Return a contradiction where files of this load came into this table under another name."""
    for key in _other_keys(session, memory, loads):
        found = _overlap(session, memory, memory.uuid, key)
        if not found:
            continue
        old = ".".join(target_key_parts(key))
        text = (
            f"{units.counted(len(found), 'file')} of this load were loaded into this table when it "
            f"was called {old}, and now it is {session.table_text}"
        )
        hint = (
            "Rename it back; or run the same command with --loaded all (those files count as "
            "loaded under the new name) or --loaded none (they are loaded again)."
        )
        return Contradiction(
            LedgerConflict.RENAMED,
            memory.uuid,
            memory.uuid,
            key,
            found,
            LedgerError(text, hint=hint),
        )
    return None


def find_older_ledger(session: Session) -> Contradiction | None:
    """Return a contradiction where the ledger of a folder does not know who came last.

    The mark beside the rows is written before they become visible, and the ledger has what it may
    say: one that was put back from a copy has not, however parts were merged since.
    """
    ledger, first, record = session.ledger, session.first_target, record_of(session)
    if ledger is None or not record.alone:
        return None
    uuid = table_uuid(session.engine, first.database, first.table)
    if not uuid or ledger.table_uuid(session.target_key) != uuid:
        return None
    mark = session.engine.marked(uuid)
    if mark in ledger.expected_marks(uuid):
        return None
    hint = answers(session, record.text)
    if mark and not ledger.attempt_state(mark.removesuffix("?")):
        what = (
            f"the rows of {session.table_text} were loaded up to {mark}, of which the ledger "
            f"{ledger.path} knows nothing: it is older than the rows, or that of another folder"
        )
    else:
        what = (
            f"the ledger {ledger.path} knows of rows that were loaded after those that "
            f"{session.table_text} holds: the table was set back to an earlier state, or copied "
            "while it was loaded"
        )
        hint = (
            "Put back the rows that belong to this ledger, or the ledger that belongs to these "
            "rows.\nIf the table is right as it is: "
            f"{command_of(session, LOAD, '--force-append')}\n"
            "What the ledger knows counts as loaded all the same; rowfall status lists its loads, "
            "and the files of one that is forgotten are loaded again."
        )
    return Contradiction(
        LedgerConflict.OLDER, uuid, uuid, session.target_key, frozenset(),
        LedgerError(what, hint=hint),
    )  # fmt: skip


def _unrecorded(
    session: Session, memory: LoadedState, loads: Collection[TableLoads]
) -> Contradiction | None:
    """Return a contradiction where the table holds rows, and nobody has a record of the table."""
    if any(one.into == memory.uuid for one in loads):
        return None
    # Rows that replace those of their key are not there twice when they are loaded again.
    if session.options.upsert is not None:
        return None
    # Under this name, or another one. Of a server it says nothing of what others have loaded.
    record = record_of(session)
    if record.explains(memory.uuid):
        return None
    rows = sum(stored_rows(w.engine, w.target.database, w.target.table) for w in session.writers)
    # The rows first: what is loaded meanwhile has lines in the journal before it is visible.
    journal = record.journal(memory.uuid) if rows else None
    if not rows or (journal is not None and journal.tells()):
        return None
    return Contradiction(
        LedgerConflict.UNRECORDED, memory.uuid, memory.known or "", session.target_key, frozenset(),
        unrecorded_rows(session, record.text, units.counted(rows, "row")),
    )  # fmt: skip


def _emptied(
    session: Session, memory: LoadedState, found: CatalogueTables | None,
    loads: Collection[TableLoads],
) -> Contradiction | None:  # fmt: skip
    """Return a contradiction where the rows of files that count as loaded are gone, by TRUNCATE."""
    count, filled = count_gone(session, memory, found, _rows_of(loads, memory.uuid))
    if not count:
        return None
    return Contradiction(
        LedgerConflict.EMPTIED, memory.uuid, memory.uuid, session.target_key,
        frozenset(memory.loaded),
        emptied_table(session, count, LATER_ROWS if filled else ""),
    )  # fmt: skip


def stored_rows(engine: Engine, database: str, table: str) -> int:
    """Return the rows that a table itself stores; 0 for those that pass rows on or read others.

    A count would take the messages out of a table of the engine Kafka.
    """
    rows = engine.ask(
        f"SELECT total_rows FROM system.tables WHERE database = {quote(database)} "
        f"AND name = {quote(table)}"
    )
    if not rows or not int(rows[0][0] or 0):
        return 0
    # Without those that a lightweight DELETE has only marked.
    ((count,),) = engine.ask(f"SELECT count() FROM {sql.qualified(database, table)}")
    return int(count)


def _other_keys(
    session: Session, memory: LoadedState, loads: Collection[TableLoads]
) -> Iterator[str]:
    """Yield the keys by which this very table was loaded under other names."""
    own = (session.first_target.database, session.first_target.table)
    keys: dict[str, None] = {}
    for one in loads:
        if one.into == memory.uuid and own not in one.tables:
            keys |= {target_key(*name): None for name in one.tables if not _is_staging(name[1])}
    if session.ledger is not None:
        keys |= dict.fromkeys(session.ledger.keys_of(memory.uuid))
    keys.pop(session.target_key, None)
    yield from keys


def _overlap(session: Session, memory: LoadedState, into: str, key: str) -> frozenset[str]:
    """Return the ids, by another key, of what this load would load once more."""
    loaded = session.ledger.loaded(key) if session.ledger is not None else set()
    journal = record_of(session).journal(into)
    # A load that was killed before it made the journal may have written down the table.
    if journal is not None:
        old = journal.loaded_ids()
        if old:
            loaded |= old - journal.forgotten_ids(old)
        if into != memory.uuid:
            for ids in journal.splits_of(_stopped(session, into)).values():
                loaded |= set(ids)
    if not loaded:
        return frozenset()
    now, here = memory.loaded, session.target_key
    if session.listing.continued:
        names = names_now(session, key, loaded)
        return frozenset(old for old, new in names.items() if new not in now)
    pairs = zip(session.listing.splits(key), session.listing.splits(here), strict=True)
    return frozenset(
        id_ for old_split, split in pairs for id_ in (old_split.id, f"~{old_split.id}")
        if id_ in loaded and split.id not in now
    )  # fmt: skip


def _is_staging(name: str) -> bool:
    return name.startswith(STAGING_PREFIX)


@dataclass(frozen=True, slots=True)
class _OtherTable:
    """A table in the place of one that was loaded; see :class:`Contradiction`."""

    doubt: LedgerConflict
    uuid: str
    before: str
    key: str
    ids: frozenset[str] = frozenset()


def _question(
    session: Session, other: _OtherTable, rows: int, loads: Collection[TableLoads]
) -> Contradiction:
    """Return the question whether the rows of a new table are those of earlier loads."""
    uuid, before, ids = other.uuid, other.before, other.ids
    known, stopped = _rows_of(loads, before), _stopped(session, before)
    text = (
        f"{session.table_text} is not the table that was loaded before (its UUID was {before} and "
        f"is {uuid}), and it holds rows: was it restored, or exchanged for a copy?"
        + _numbers(session, rows, known)
    )
    brought, journal = "what earlier loads brought", ""
    if stopped:
        text += (
            f"; a stopped load was about to make {sum(stopped.values()):,} more rows visible in "
            "the old one, and this one may hold them or not"
        )
        brought += ", and the rows of the stopped load"
    if what := record_of(session).splits_of(loads, before, ids):
        what += ", without those of the stopped load" if stopped else ""
        journal = f", --loaded journal (it holds {what}: the rest is loaded)"
    hint = (
        "Compare the numbers of rows, then run the same command with --loaded all (it holds "
        f"{brought}: only the rest is loaded){journal} or --loaded none (it does not: "
        "all files are loaded into it)."
    )
    return Contradiction(
        other.doubt, uuid, before, other.key, ids, LedgerError(text, hint=hint), stopped
    )


def _numbers(session: Session, rows: int, journal: int) -> str:
    """Say how many rows there are, and how many were loaded, for those who have to decide."""
    key = session.target_key
    ledger = session.ledger.loaded_rows(key) if session.ledger is not None else 0
    own = f", the loads in this ledger brought {ledger:,}" if ledger else ""
    return f" (the table holds {rows:,} rows{own}{record_of(session).count(journal)})"
