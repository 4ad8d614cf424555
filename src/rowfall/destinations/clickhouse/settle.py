"""Bring earlier runs into a table of ClickHouse to their end, before a load begins."""

from __future__ import annotations

from collections.abc import Mapping

from rowfall.contracts.destination import LoadRun, Session
from rowfall.contracts.load import Settled
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LockLostError
from rowfall.core.events import Note
from rowfall.core.listing import overlap
from rowfall.core.model import Statement
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.destinations.clickhouse.loaded_state import check_identity, find_older_ledger
from rowfall.destinations.clickhouse.nodes import nodes_of
from rowfall.destinations.clickhouse.own_tables import drop_order, is_own, is_own_and_empty
from rowfall.destinations.clickhouse.record import LoadedState, record_of, remembered
from rowfall.destinations.notes import dropped
from rowfall.engines.base import table_uuid
from rowfall.ledger import Ledger, target_key_parts
from rowfall.ledger.journal import TABLE as JOURNAL
from rowfall.publish.altered import AlteredTableError
from rowfall.publish.evidence import LoadedAnswer
from rowfall.publish.recover import (
    end_open_attempts,
)
from rowfall.publish.shadow import Shadow
from rowfall.publish.target_tables import OwnTable, TargetTables
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.staging import CatalogueTables, ask_catalogue
from rowfall.systems.clickhouse.target import DEFAULT_DATABASE

# After the name of a file of which a part was loaded.
_RANGE = regex(r"\[-?\d+:-?\d+\]\Z")


def open_shadow(load: LoadRun) -> Shadow | None:
    """Return the shadow table that holds a load's rows until its end.

    None where each attempt becomes visible by itself.
    """
    session = load.session
    options, target = session.options, session.target
    if not (options.gathers or options.replace):
        return None
    return Shadow(
        session.engine, load.ledger, target.database, target.table, load.id, session.target_key,
        load.key,
    )  # fmt: skip


def settle(load: LoadRun) -> Settled:
    """Bring earlier runs to an end; see :meth:`rowfall.contracts.destination.Destination.settle`.

    Raises:
        LedgerError: ledger or journal and target contradict each other.
        TargetError: a shard has lost its table, or holds rows and does not answer.
        AlteredTableError: rows of this load are staged, and cannot become visible; see
            :attr:`rowfall.publish.recover.Recovery.kept`.
    """
    session, ledger, shadow = load.session, load.ledger, open_shadow(load)
    answer = LoadedAnswer(session.options.loaded)
    # Before anything else looks at the tables: they may have been exchanged.
    found = target_catalogue(session)
    if nodes_of(session).settle_upserts(load, found):
        found = target_catalogue(session)
    if record_of(session).alone:
        settle_folder(load, answer)
    TargetTables(session, ledger).check_together()
    table, replaced = session.first_target.table, False
    if session.options.replace and shadow is not None:
        replaced = shadow.swapped() and _all_loaded(session, ledger)
        if not replaced:
            table = shadow.name
    elif not ledger.holds(load.key) and _drop_own_empty_table(session, ledger, load.id, found):
        found = target_catalogue(session)
    settled = _settle_table(session, load, session.target_key, session.first_target.table, found,
                            answer=answer)  # fmt: skip
    memory = settled.memory
    if memory is None and shadow is None and not session.options.force:
        # The catalogue is that of a moment ago: what others have loaded since, their leases say.
        memory = remembered(session, found)
    if shadow is not None:
        memory = None  # what was gathered may become visible now
        if settled.replaced and session.options.gathers:
            shadow.drop()  # made like a table that is gone
        # Only now: the target's journal may say that the shadow's rows are there.
        shadow.drop_foreign()
        _drop_superseded(session, load, shadow)
        # Asked anew: the shadow may have been renamed or dropped just now.
        beside = ask_catalogue(session.engine, session.first_target.database, shadow.name)
        _settle_table(session, load, load.key, shadow.name, beside, answer=answer)
        _drop_shadow_that_was_set_back(session, ledger, load, shadow)
    known = _known(load, memory, replaced=replaced)
    return Settled(table, known, replaced, settled.uuid, shadow is None and not settled.uuid)


def target_catalogue(session: Session) -> CatalogueTables:
    """Ask the first writer about the target table, and what rowfall keeps beside it."""
    first = session.first_target
    return ask_catalogue(
        session.engine, first.database, first.table, *[JOURNAL] * session.engine.shared
    )


def settle_folder(load: LoadRun, answer: LoadedAnswer) -> None:
    """End the open attempts of a table that only this process uses, and whose ledger knows all."""
    session, ledger = load.session, load.ledger
    _check_alone(session, ledger, load)
    ledger.end_loads_of_other_containers(load.id)
    if not session.options.replace:
        # First: what it says of open attempts is as old.
        _resolve_older(session, ledger, load.id)
    kept = end_open_attempts(session.engine, ledger, session.emit, answer, load.others)
    _refuse_kept(session, ledger, kept)
    # A server was asked when it was opened, and a folder's default database is the engine's own.
    if session.first_target.database != DEFAULT_DATABASE:
        database = session.first_target.database
        for (kind,) in session.engine.ask(
            f"SELECT engine FROM system.databases WHERE name = {quote(database)}"
        ):
            check_identity(database, str(kind))


def _resolve_older(session: Session, ledger: Ledger, load_id: str) -> None:
    """Stop where the ledger of a folder is older than the rows, unless the user has answered.

    Raises:
        LedgerError: it is, and nobody has.
    """
    found = find_older_ledger(session)
    if found is None:
        return
    if not session.options.force_append:
        raise found.error
    from rowfall.destinations.clickhouse.doubts import accept

    accept(session, ledger, load_id, found.uuid)


def _check_alone(session: Session, ledger: Ledger, load: LoadRun) -> None:
    """Check that no other process of this machine loads into the folder that this one has locked.

    Raises:
        LockLostError: one does.
    """
    other = ledger.running_beside(load.id)
    if other is not None:
        ledger.never_began(load.id)
        raise LockLostError(
            f"another rowfall (load {other.id}) still loads into {session.target.text}, whose lock "
            "file was removed or replaced meanwhile",
            hint="Wait for it to end, then run the same command again.",
        )


def settle_again(load: LoadRun, known: frozenset[str]) -> Settled | None:
    """See :meth:`rowfall.contracts.destination.Destination.settle_again`."""
    session = load.session
    database, table = session.first_target.database, session.first_target.table
    uuid = table_uuid(session.engine, database, table)
    if not uuid or uuid != load.ledger.table_uuid(load.key) or load.ledger.open_attempts():
        return None
    TargetTables(session, load.ledger).check_together()
    return Settled(table, known, seen=uuid)


def _all_loaded(session: Session, ledger: Ledger) -> bool:
    loaded = ledger.loaded(session.target_key)
    return all(s.id in loaded for s in session.listing.splits(session.target_key))


def _known(load: LoadRun, memory: LoadedState | None, *, replaced: bool) -> frozenset[str]:
    """Return the ids of splits that need not be loaded again.

    Args:
        memory: what is loaded into the target; None where nobody has asked since it changed.
    """
    session, ledger = load.session, load.ledger
    if session.options.force:
        return frozenset(ledger.loaded_by(load.id))
    gathered = ledger.loaded(session.target_key if replaced else load.key)
    if session.options.replace:
        return frozenset(gathered)
    loaded = session.destination.loaded_ids(session) if memory is None else memory.loaded
    return frozenset(loaded | gathered)


@dataclass(frozen=True, slots=True)
class _SettledTable:
    """A table whose earlier loads are at their end.

    Attributes:
        uuid: "" where there is none.
        replaced: it had a predecessor, which is gone.
        memory: what is loaded into it; None where nobody has asked, or it has changed since.
    """

    uuid: str
    replaced: bool = False
    memory: LoadedState | None = None


def _settle_table(
    session: Session, load: LoadRun, key: str, name: str, found: CatalogueTables, *,
    answer: LoadedAnswer,
) -> _SettledTable:  # fmt: skip
    """End what was to be published into one table; forget what its predecessor held.

    Args:
        key: of the ledger. ``name``: of the table, in the database of the first writer.
        found: the tables there, asked just now.

    Returns:
        What was found of it.
    """
    memory = None
    ledger, record = load.ledger, record_of(session, found)
    uuid = found.uuid(name)
    if uuid:
        first = session.writers[0]
        # The journal's UUID is that of the first node's table.
        text = TargetTables(session, ledger).text(first)
        own = OwnTable(first.engine, first.target.database, name, uuid, text)
        record.settle_shared(load, key, own, answer)
    known = ledger.table_uuid(key)
    of_target = key == session.target_key
    if uuid and of_target and session.options.replace:
        # What the ledger knows of its rows stays until then.
        return _SettledTable(uuid, replaced=bool(known) and known != uuid)
    if uuid and of_target:
        from rowfall.destinations.clickhouse.doubts import resolve

        memory = resolve(session, ledger, load.id, found, used=answer.used)
    if known is None or known == uuid:
        return _SettledTable(uuid, memory=memory)
    if known:
        record.table_gone(load, known)
    forgotten = ledger.set_table(key, uuid)
    if forgotten and of_target:
        session.emit(dropped(session, forgotten))
    return _SettledTable(uuid, replaced=bool(known))


def _refuse_kept(session: Session, ledger: Ledger, kept: Mapping[str, AlteredTableError]) -> None:
    """Raise why an attempt was kept whose files this load would load once more.

    On a shared target their leases say so, and only they fail.
    """
    if not kept or session.options.force or session.options.replace:
        return
    files = {split.uri for split in session.listing.splits(session.target_key)}
    for attempt in ledger.open_attempts():
        keys = (attempt.target_key, target_key_parts(attempt.target_key)[0])
        if attempt.id in kept and session.target_key in keys:
            names = {_RANGE.sub("", name) for name in ledger.split_names(attempt.id)}
            if names & files:
                raise kept[attempt.id]


def _drop_superseded(session: Session, load: LoadRun, shadow: Shadow) -> None:
    """Drop a shadow that may never become visible: others are loaded some of its files."""
    if not session.options.gathers or session.options.force:
        return
    gathered = load.ledger.loaded(load.key)
    if gathered and (taken := overlap(gathered, session.destination.loaded_ids(session))):
        shadow.drop()
        session.emit(Note(
            "warning",
            f"{units.counted(len(taken), 'file')} that this load had gathered were loaded into "
            f"{session.table_text} by another load meanwhile: what was gathered is dropped, and "
            "the other files are loaded again",
        ))  # fmt: skip


def _drop_shadow_that_was_set_back(
    session: Session, ledger: Ledger, load: LoadRun, shadow: Shadow
) -> None:
    """Drop a shadow table, never visible, where the ledger knows of more rows than its journal."""
    if not record_of(session).confirms(load):
        shadow.drop()
        ledger.set_table(load.key, "")


def _drop_own_empty_table(
    session: Session, ledger: Ledger, load_id: str, found: CatalogueTables
) -> bool:
    """Drop a table that a failed load has made and left empty; return True if there was one."""
    database, table = session.first_target.database, session.first_target.table
    uuid = found.uuid(table)
    if not is_own(ledger, uuid):
        return False
    at = nodes_of(session)
    nodes = at.engines()
    if nodes is None:
        return False  # a node that is away would keep its own
    if not is_own_and_empty(nodes, ledger, database, table, load_id=load_id):
        return False
    for node, *name in drop_order(nodes, ledger, database, table, uuid):
        nodes[node].run(Statement(staging.drop(*name, if_empty=True)))
    at.look_again()
    return True
