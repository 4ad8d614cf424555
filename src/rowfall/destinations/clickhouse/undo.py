"""Take the rows of a load out of tables of ClickHouse again: by their parts, or by a column.

Parts are known by the UUIDs that staging gave them; who merges or changes a part makes another one
with another UUID. They are detached, which brings them back where one of them turns out to be
merged: then nothing is taken out. Statements know parts and tables by their names only, so the
UUIDs of both are asked before: a table in place of another one has parts of the same names.
A load is forgotten when all of its rows are away, so a crash in between leaves files that count as
loaded: who loads them is told to finish the undo first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rowfall.contracts.undo import Undo
from rowfall.core import sql, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, RowfallError
from rowfall.core.model import Statement
from rowfall.core.results import Undone
from rowfall.core.sqltext import SqlText, quote, quoted_list
from rowfall.destinations.clickhouse.clean import OpenedTables, forget
from rowfall.destinations.undo import (
    AWAY,
    KEEP,
    alone,
    begin,
    begun,
    check_count,
    check_undo,
    give_up,
    marked_files,
    record_undone,
)
from rowfall.engines.base import Engine, table_uuid
from rowfall.ledger import target_key
from rowfall.ledger.journal import Journal
from rowfall.systems.clickhouse.codes import NO_SUCH_PART
from rowfall.targets.base import Target

# UUIDs that one statement names.
_MOST_ASKED = 500


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a load.

    Attributes:
        name: which changes when it is attached again. ``uuid``: which does not.
        of: UUID of the table.
    """

    database: str
    table: str
    name: str
    rows: int
    uuid: str = ""
    of: str = ""

    @property
    def at(self) -> str:
        return sql.qualified(self.database, self.table)


def undo(opened: OpenedTables, target: Target, asked: Undo) -> Undone:
    """Take the rows of a load out of a folder or a server; see :func:`rowfall.api.undo`."""
    if opened.shards is not None:
        raise asked.refused(
            "its parts are on several shards or replicas", "Load all of it with --replace."
        )
    if asked.dry:
        return _undo(opened, target, asked)
    opened.check_writes()
    with alone(asked, opened.ledger), _announced(opened, target, asked):
        return _undo(opened, target, asked)


def _undo(opened: OpenedTables, target: Target, asked: Undo) -> Undone:
    ledger, engine = opened.ledger, opened.engine
    key = target_key(target.database, target.table)
    check_undo(asked, ledger)
    uuid = table_uuid(engine, target.database, target.table)
    stopped = begun(asked, ledger)
    if stopped is None:
        if not uuid or ledger.table_uuid(key) != uuid:
            raise asked.refused(
                "the table was dropped or replaced since", f"{_forget(asked)} forgets the load."
            )
        _check_settled(opened, target, asked, uuid)
        plan = {**_plan(opened, asked, (target.database, target.table)), "uuid": uuid}
    else:
        plan = {k: v for k, v in stopped.items() if k != "away"}
    away = bool(stopped and stopped["away"])
    parts = [_Part(*part) for part in plan["parts"]]
    splits = len(ledger.sources_of(asked.load_id))
    result = asked.undone(
        splits, rows=plan["rows"], parts=len(parts), by=plan["column"] or "parts",
        views=tuple(plan["views"]),
    )  # fmt: skip
    if asked.dry:
        return result
    if stopped is None:
        begin(asked, ledger, plan)
    if parts:
        parts = _detach(opened, asked, plan, parts, away=away)
    elif not away:
        _delete(opened, target, asked, plan, again=stopped is not None)
    if engine.marked(plan["uuid"]):
        # A ledger of before, from a backup, must not take the rows for those that it knows.
        engine.mark(plan["uuid"], mark := f"{asked.load_id}_undone", at_once=True)
        engine.sync()
        ledger.accept_mark(plan["uuid"], mark)
    engine.sync()
    ledger.step(asked.load_id, AWAY, "done")
    forget(opened, target, asked.load_id)
    ledger.give_back(key, plan.get("before", {}))
    _drop_detached(engine, parts)
    record_undone(asked, ledger)
    return result


def _forget(asked: Undo) -> str:
    return f"rowfall forget {asked.load_id[:8]}"


@contextmanager
def _announced(opened: OpenedTables, target: Target, asked: Undo) -> Iterator[None]:
    """Tell the rowfalls of all machines that this one works on the load.

    Raises:
        LedgerError: another one does. Of two that begin at the same moment none goes on.
    """
    uuid = table_uuid(opened.engine, target.database, target.table)
    journal = Journal(opened.engine, target.database, uuid, asked.load_id)
    if not opened.journal or not uuid or not journal.there():
        yield
        return
    with journal:
        if journal.announce_undo(asked.load_id):
            raise asked.refused("another process is doing that", "Wait until it has ended.")
        yield


def _check_settled(opened: OpenedTables, target: Target, asked: Undo, uuid: str) -> None:
    """Check that no rows are about to become visible, and no part is about to be changed.

    Who finds out after a crash what has become visible counts the rows of partitions; and a part
    that is attached again is past the mutations that were waiting for it.

    Raises:
        LedgerError: some are.
    """
    key = target_key(target.database, target.table)
    bound = [a.id for a in opened.ledger.open_attempts() if a.committed and a.target_key == key]
    if opened.journal:
        journal = Journal(opened.engine, target.database, uuid, asked.load_id)
        if journal.there():
            entries = [entry for entry in journal.entries() if not entry.over]
            own = [e for e in entries if e.attempt.partition("_")[0] == asked.load_id]
            # One that is not dry has asked when it began.
            undone = asked.dry and journal.is_undone_now(asked.load_id)
            if undone or not all(e.dead for e in own):
                raise asked.refused("another process works on it", "Wait until it has ended.")
            bound += [entry.attempt for entry in entries if entry.binding and entry.dead]
    if bound:
        raise asked.refused(
            f"load {bound[0][:8]} was stopped while its rows became visible",
            "Load into the table once: each load settles first what was stopped before.",
        )
    _check_mutations(opened.engine, asked, (target.database, target.table))


def _check_mutations(engine: Engine, asked: Undo, own: tuple[str, str]) -> None:
    rows = engine.ask(
        f"SELECT count() FROM system.mutations WHERE {sql.table_is(*own)} AND NOT is_done"
    )
    if int(rows[0][0]):
        raise asked.refused(
            "a mutation of the table is not at its end", "Wait for it: see system.mutations."
        )


def _plan(opened: OpenedTables, asked: Undo, own: tuple[str, str]) -> dict[str, Any]:
    """Return what is to be taken out: parts, or the rows with some files in a column.

    Raises:
        LedgerError: the rows cannot be told from others.
    """
    ledger, engine = opened.ledger, opened.engine
    key = target_key(*own)
    loaded = ledger.parts_of(asked.load_id, key)
    rows = sum({one.attempt: one.attempt_rows for one in loaded}.values())
    views = sorted({
        f"{one.database}.{one.table}" for one in loaded
        if one.database and (one.database, one.table) != own
    })  # fmt: skip
    fed = views or _fed(engine, own)
    if fed and not asked.views:
        raise asked.refused(
            f"views have made rows of them for {', '.join(map(str, fed))}",
            "Take those out as well with --views, where they are known by their parts.",
        )
    found = {
        uuid: part
        for one in loaded
        for uuid, part in _active(engine, (one.database, one.table), one.uuids).items()
    }
    wanted = sum(len(one.uuids) for one in loaded)
    expected = sum(one.rows for one in loaded)
    complete = all(one.uuids for one in loaded) and len(found) == wanted
    # One that stands for others, which were joined to it, has more rows than its parts.
    joined = rows != sum(one.rows for one in loaded if (one.database, one.table) == own)
    before = _brought_before(opened, asked, own)
    if loaded and complete and not joined and expected == sum(p.rows for p in found.values()):
        parts = _with_tables(engine, found.values())
        _check_names(engine, asked, parts)
        listed = [[p.database, p.table, p.name, p.rows, p.uuid, p.of] for p in parts]
        return {"parts": listed, "rows": rows, "views": views, "column": "", "files": [],
                "before": before}  # fmt: skip
    if _replicated(engine, own):
        why = "a replicated table may have its parts on other replicas only"
    elif not wanted:
        why = "their parts are not remembered (an older rowfall, or more than 1,000 of them)"
    else:
        why = f"of their {units.counted(wanted, 'part')} {len(found):,} are left as they were: the "
        why += "others were merged or changed"
    if not asked.column or fed:
        raise asked.refused(why, f"Load all of it with --replace. {KEEP}")
    _check_loads(opened, asked, own)
    files = marked_files(asked, ledger, key)
    ((count,),) = engine.ask(
        f"SELECT count() FROM {sql.qualified(*own)} WHERE {_of_files(asked.column, files)}"
    )
    check_count(asked, int(count), rows, f"{why}; ")
    return {"parts": [], "rows": rows, "views": [], "column": asked.column, "files": files,
            "before": before}  # fmt: skip


def _check_loads(opened: OpenedTables, asked: Undo, own: tuple[str, str]) -> None:
    """Check that nobody loads into the table: who does may bring rows of the same files.

    Raises:
        LedgerError: somebody does.
    """
    loads = opened.ledger.others_load(asked.load_id, target_key(*own))
    if opened.journal and not loads:
        journal = Journal(opened.engine, own[0], table_uuid(opened.engine, *own))
        loads = journal.there() and any(not e.over and not e.dead for e in journal.entries())
    if loads:
        raise asked.refused("another load into the table runs", "Wait until it has ended.")


def _brought_before(
    opened: OpenedTables, asked: Undo, own: tuple[str, str]
) -> dict[str, str]:  # fmt: skip
    """Return, of a load by force, the attempts that have brought its splits before, by split.

    Their rows stay, so the splits stay loaded. Where all is in a journal, it tells that itself.

    Raises:
        LedgerError: whether their rows are there is not certain.
    """
    if opened.journal:
        return {}
    found = opened.ledger.brought_before(asked.load_id, target_key(*own))
    for attempt in sorted(set(found.values())):
        uuids = opened.ledger.staged_parts(attempt)
        if not 0 < len(uuids) == len(_active(opened.engine, own, uuids)):
            raise asked.refused(
                f"load {attempt[:8]} has brought the same files before, and whether its rows are "
                "still there is not certain",
                "Load all of it with --replace.",
            )
    return found


def _fed(engine: Engine, own: tuple[str, str]) -> list[str]:
    """Return the views that are fed by a table, of which nothing else tells."""
    rows = engine.ask(
        f"SELECT arrayStringConcat(arrayMap((d, t) -> concat(d, '.', t), dependencies_database, "
        f"dependencies_table), ',') FROM system.tables WHERE {_is(*own)}"
    )
    return [name for (names,) in rows for name in str(names).split(",") if name]


def _active(engine: Engine, at: tuple[str, str], uuids: Sequence[str]) -> dict[str, _Part]:
    """Return the active parts of a table that have some UUIDs.

    ATTACH PARTITION FROM keeps the UUIDs: a copy of the table has the same.
    """
    found = {}
    for start in range(0, len(uuids), _MOST_ASKED):
        rows = engine.ask(
            "SELECT toString(uuid), name, rows FROM system.parts WHERE active AND "
            f"{sql.table_is(*at)} AND "
            f"toString(uuid) IN ({quoted_list(uuids[start : start + _MOST_ASKED])})"
        )
        for uuid, name, count in rows:
            found[str(uuid)] = _Part(*at, str(name), int(count), str(uuid))
    return found


def _with_tables(engine: Engine, parts: Collection[_Part]) -> list[_Part]:
    """Return parts with the UUIDs of their tables."""
    of = {at: table_uuid(engine, *at) for at in {(p.database, p.table) for p in parts}}
    return [replace(part, of=of[part.database, part.table]) for part in parts]


def _check_names(engine: Engine, asked: Undo, parts: Sequence[_Part]) -> None:
    """Check that nobody's detached parts have the names of parts that are to be detached.

    Raises:
        LedgerError: some have.
    """
    if taken := _detached(engine, parts):
        part = taken[0]
        raise asked.refused(
            f"{part.database}.{part.table} has a detached part {part.name} of somebody else, and "
            "one of this load has the same name",
            "Attach, drop or rename it first.",
        )


def _replicated(engine: Engine, own: tuple[str, str]) -> bool:
    rows = engine.ask(
        f"SELECT engine LIKE 'Replicated%' OR engine LIKE 'Shared%' FROM system.tables WHERE "
        f"{_is(*own)}"
    )
    return bool(rows and int(rows[0][0]))


def _detach(
    opened: OpenedTables, asked: Undo, plan: Mapping[str, Any], parts: Sequence[_Part], *,
    away: bool,
) -> list[_Part]:  # fmt: skip
    """Detach all parts; where one of them was merged meanwhile, attach those that were.

    Args:
        away: they have been away before, and may be dropped by now.

    Returns:
        The parts, with the names that they are detached under.

    Raises:
        LedgerError: nothing is taken out.
    """
    engine, ledger = opened.engine, opened.ledger
    tables = dict.fromkeys((part.database, part.table) for part in parts)
    uuids = {at: table_uuid(engine, *at) for at in tables}
    same = [part for part in parts if uuids[part.database, part.table] == part.of]
    here: dict[str, _Part] = {}
    for at in tables:
        own = [part.uuid for part in same if (part.database, part.table) == at]
        here.update(_active(engine, at, own))
    now = [replace(part, name=here[part.uuid].name) for part in parts if part.uuid in here]
    gone = [part for part in parts if part.uuid not in here]
    before = _detached(engine, [part for part in gone if part in same])
    lost = [part for part in gone if part not in before]
    if away and not now:
        return before
    # Of a run that was stopped: somebody has attached a part by hand, so that its name is new.
    if any(part not in parts for part in now):
        listed = [[p.database, p.table, p.name, p.rows, p.uuid, p.of] for p in (*before, *now)]
        give_up(asked, ledger, begin(asked, ledger, {**plan, "parts": listed}))
    if lost and not away:
        raise _attach_again(opened, asked, before, len(lost), replaced=len(same) < len(parts))
    done = [*before]
    for part in now:
        # Asked again: a merge or another table may have come since.
        at = (part.database, part.table)
        if part.uuid not in _active(engine, at, [part.uuid]) or _detached(engine, [part]):
            raise _attach_again(opened, asked, done, 1)
        try:
            _alter(engine, part, "DETACH PART")
        except RowfallError as error:
            if error.code not in NO_SUCH_PART:
                raise
            raise _attach_again(opened, asked, done, 1) from None
        done.append(part)
    return done


def _attach_again(
    opened: OpenedTables, asked: Undo, parts: Sequence[_Part], lost: int, *, replaced: bool = False
) -> LedgerError:
    """Attach parts again, and return the error that says why nothing is taken out."""
    for part in parts:
        _alter(opened.engine, part, "ATTACH PART")
    opened.engine.sync()
    give_up(asked, opened.ledger)
    if replaced:
        return asked.refused(
            "the table was dropped or replaced while they were being taken out, with some of them",
            f"Load all of it with --replace; or {_forget(asked)} forgets the load.",
        )
    return asked.refused(
        f"{units.counted(lost, 'part')} of it was merged just now; everything is as it was",
        f"Load all of it with --replace. {KEEP}",
    )


def _detached(engine: Engine, parts: Sequence[_Part]) -> list[_Part]:
    """Return those of some parts whose names detached parts of their tables have."""
    tables = {(part.database, part.table) for part in parts}
    found = {
        (*at, str(name)) for at in tables for (name,) in engine.ask(
            f"SELECT name FROM system.detached_parts WHERE {sql.table_is(*at)}"
        )
    }  # fmt: skip
    return [part for part in parts if (part.database, part.table, part.name) in found]


def _drop_detached(engine: Engine, parts: Sequence[_Part]) -> None:
    for part in _detached(engine, parts):
        if table_uuid(engine, part.database, part.table) == part.of:
            _alter(engine, part, "DROP DETACHED PART", {"allow_drop_detached": 1})


def _alter(
    engine: Engine, part: _Part, what: str, settings: Mapping[str, str | int | float] | None = None
) -> None:
    text = f"ALTER TABLE {part.at} {what} {quote(part.name)}"
    engine.run(Statement(SqlText.of(text), settings or {}, alters=None))


def _delete(
    opened: OpenedTables, target: Target, asked: Undo, plan: Mapping[str, Any], *, again: bool
) -> None:
    """Delete the rows of some files.

    Args:
        again: a run was stopped that may have done so.

    Raises:
        LedgerError: they are others now.
    """
    engine, where = opened.engine, _of_files(plan["column"], plan["files"])
    table = sql.qualified(target.database, target.table)
    if again:
        _check_mutations(engine, asked, (target.database, target.table))  # maybe that one
        try:
            if table_uuid(engine, target.database, target.table) != plan["uuid"]:
                raise asked.refused(
                    "the table was dropped or replaced since", f"{_forget(asked)} forgets the load."
                )
            ((left,),) = engine.ask(f"SELECT count() FROM {table} WHERE {where}")
            if not int(left):
                return
            check_count(asked, int(left), int(plan["rows"]))
        except LedgerError:
            give_up(asked, opened.ledger)
            raise
    text = f"ALTER TABLE {table} DELETE WHERE {where}"
    engine.run(Statement(SqlText.of(text), {"mutations_sync": 2}, alters=None))


def _of_files(column: str, files: Sequence[str]) -> str:
    return f"{sql.name(column)} IN ({quoted_list(files)})"


def _is(database: str, table: str) -> str:
    return f"database = {quote(database)} AND name = {quote(table)}"
