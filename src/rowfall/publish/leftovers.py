"""Drop what dead loads have left that gather their rows in a shadow (``--atomic``).

Only the same command goes on with a shadow, and perhaps nobody repeats it. Where another load has
brought some of these files into the table since, what was gathered can never become visible, since
that would double them. What was staged for a shadow is in a journal that no other load reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowfall.core.listing import MARK
from rowfall.core.model import Statement
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.ledger import target_key
from rowfall.ledger.journal import TABLE as JOURNAL
from rowfall.publish.recover import open_journal, open_recovery
from rowfall.publish.target_tables import OwnTable, TargetTables
from rowfall.systems.clickhouse import staging
from rowfall.targets.base import SHADOW_SUFFIX, STAGING_PREFIX

# Under its first name, or under one that a recovery has given to it.
_SHADOW = regex(rf"{STAGING_PREFIX}([^_]+){SHADOW_SUFFIX}(_x[0-9a-f]{{6}})?\Z")
# Those of the tables that views fill; they are made before that of the target.
_BEHIND = regex(rf"{STAGING_PREFIX}([^_]+){SHADOW_SUFFIX}_t\d+(_x[0-9a-f]{{6}})?\Z")


def end_loads_of_journal(tables: TargetTables, load_id: str) -> None:
    """End what dead loads of all machines have begun, and drop shadows that nobody can use.

    Args:
        tables: the target's, with their UUIDs. ``load_id``: of the load that asks.
    """
    # What began since they were asked for, and is dead already, is left to the next load.
    others = any(_is_of_others(name, load_id) for name in tables.beside)
    if others and (found := _made_by_others(tables, load_id)):
        _of_journal(tables, found)


def end_loads_of_ledger(tables: TargetTables, load_id: str) -> None:
    """Drop shadows in a data folder that nobody can use; only this ledger knows shadows there.

    Args:
        tables: the target's, with their UUIDs. ``load_id``: of the load that asks.
    """
    if _others(tables, load_id) and (found := _made_by_others(tables, load_id)):
        _of_ledger(tables, found)


def _made_by_others(tables: TargetTables, load_id: str) -> dict[str, tuple[str, str]]:
    """Return UUID and comment of each table beside the target that another load has made."""
    session = tables.session
    rows = session.engine.ask(
        "SELECT name, toString(uuid), comment FROM system.tables WHERE "
        f"database = {quote(session.first_target.database)} AND "
        f"startsWith(name, {quote(STAGING_PREFIX)})"
    )
    return {
        str(name): (str(uuid), str(comment)) for name, uuid, comment in rows
        if _is_of_others(str(name), load_id)
    }  # fmt: skip


def _is_of_others(name: str, load_id: str) -> bool:
    return name != JOURNAL and not name.startswith(f"{STAGING_PREFIX}{load_id}_")


def _others(tables: TargetTables, load_id: str) -> bool:
    """Tell whether the ledger knows other loads into this table."""
    rows = tables.ledger.loads("WHERE into_table = ?", tables.session.target_key)
    return any(row.id != load_id for row in rows)


def _of_journal(tables: TargetTables, found: Mapping[str, tuple[str, str]]) -> None:
    """End dead loads of all machines.

    Args:
        found: UUID and comment of each table that another load has made, by name.
    """
    session = tables.session
    database, table = session.first_target.database, session.first_target.table
    journal = open_journal(session, tables.first)
    known = journal.loads()
    dead = {load for name in found if known.get(load := _load_of(name)) is False}
    if not dead:
        return
    names = {uuid: name for name, (uuid, _) in found.items()}
    for uuid in journal.tables_of(dead):
        if uuid == tables.first:
            continue  # ended when this load began
        other, name = open_journal(session, uuid), names.get(uuid)
        if name is not None:
            own = OwnTable(session.engine, database, name, uuid, f"{database}.{name}")
            open_recovery(tables, other, own).end_all()
        elif not _is_there(tables, uuid):
            open_recovery(tables, other).table_gone()
    loaded = _files(journal.loaded_ids())
    kept = {e.attempt.split("_")[0] for e in journal.entries() if e.binding and not e.over}
    for name, (uuid, comment) in found.items():
        load = _load_of(name)
        shadow = _SHADOW.match(name) and staging.gathers_for(comment) == table
        if not shadow or load not in dead or load in kept:
            continue
        gathered = _files(open_journal(session, uuid).loaded_ids())
        if not gathered or gathered & loaded:
            _drop(tables, load)
    for load in (_beginnings(found) & dead) - kept:
        _drop(tables, load)


def _of_ledger(tables: TargetTables, found: Mapping[str, tuple[str, str]]) -> None:
    """Drop shadows in a data folder, which only this ledger knows."""
    session, ledger = tables.session, tables.ledger
    loaded = _files(ledger.loaded(session.target_key))
    shadows = {_load_of(name) for name in found if _SHADOW.match(name)} | _beginnings(found)
    for row in ledger.loads("WHERE into_table = ?", session.target_key):
        if row.id not in shadows or ledger.runs(row):
            continue
        key = target_key(session.target_key, row.id)
        gathered = _files(ledger.loaded(key))
        if not gathered or gathered & loaded:
            _drop(tables, row.id)
            ledger.set_table(key, "")


def _beginnings(found: Mapping[str, tuple[str, str]]) -> set[str]:
    """Return loads that have shadows behind views and none of the target: nothing is in them."""
    own = {_load_of(name) for name in found if _SHADOW.match(name)}
    return {_load_of(name) for name in found if _BEHIND.match(name)} - own


def _load_of(name: str) -> str:
    return name.removeprefix(STAGING_PREFIX).split("_")[0]


def _files(ids: set[str]) -> set[str]:
    """Return the ids of files and ranges; a mark of ranges counts as its file."""
    return {i.removeprefix(MARK) for i in ids}


def _is_there(tables: TargetTables, uuid: str) -> bool:
    session = tables.session
    return bool(session.engine.ask(
        f"SELECT 1 FROM system.tables WHERE database = {quote(session.first_target.database)} AND "
        f"toString(uuid) = {quote(uuid)}"
    ))  # fmt: skip


def _drop(tables: TargetTables, load: str) -> None:
    engine = tables.session.engine
    for statement in staging.discard(engine.ask, f"{STAGING_PREFIX}{load}{SHADOW_SUFFIX}"):
        engine.run(Statement(statement))
