"""Take the rows of a load out of tables of ClickHouse again: by their parts, or by a column.

Parts are known by the UUIDs that staging gave them; who merges or changes a part makes another one
with another UUID. They are detached, which brings them back where one of them turns out to be
merged: then nothing is taken out. A load is forgotten when all of its rows are away, so a crash in
between leaves files that count as loaded: who loads them is told to finish the undo first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rowfall.contracts.undo import Undo
from rowfall.core import sql, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.model import Statement
from rowfall.core.results import Undone
from rowfall.core.sqltext import SqlText, quote, quoted_list
from rowfall.destinations.clickhouse.clean import OpenedTables, forget
from rowfall.destinations.undo import (
    AWAY,
    KEEP,
    begun,
    check_count,
    check_undo,
    marked_files,
    record_undone,
)
from rowfall.engines.base import Engine, table_uuid
from rowfall.ledger import target_key
from rowfall.ledger.journal import Journal
from rowfall.ledger.ledger import UNDO
from rowfall.systems.clickhouse.codes import NO_SUCH_PART
from rowfall.targets.base import Target

# UUIDs that one statement names.
_MOST_ASKED = 500


@dataclass(frozen=True, slots=True)
class _Part:
    """An active part of a load."""

    database: str
    table: str
    name: str
    rows: int

    @property
    def at(self) -> str:
        return sql.qualified(self.database, self.table)


def undo(opened: OpenedTables, target: Target, asked: Undo) -> Undone:
    """Take the rows of a load out of a folder or a server; see :func:`rowfall.api.undo`."""
    ledger, engine = opened.ledger, opened.engine
    key = target_key(target.database, target.table)
    if opened.shards is not None:
        raise asked.refused(
            "its parts are on several shards or replicas", "Load all of it with --replace."
        )
    if not asked.dry:
        opened.check_writes()
    if opened.journal:
        _check_alone(opened, target, asked)
    check_undo(asked, ledger)
    stopped = begun(asked, ledger)
    if stopped is None:
        uuid = table_uuid(engine, target.database, target.table)
        if not uuid or ledger.table_uuid(key) != uuid:
            raise asked.refused(
                "the table was dropped or replaced since", f"{_forget(asked)} forgets the load."
            )
        plan = _plan(opened, asked, (target.database, target.table))
    else:
        plan = {k: v for k, v in stopped.items() if k not in ("away", "step")}
    parts = [_Part(*part) for part in plan["parts"]]
    splits = len(ledger.sources_of(asked.load_id))
    result = asked.undone(
        splits, rows=plan["rows"], parts=len(parts), by=plan["column"] or "parts",
        views=tuple(plan["views"]),
    )  # fmt: skip
    if asked.dry:
        return result
    step = f"{UNDO} {json.dumps(plan)}" if stopped is None else str(stopped["step"])
    if stopped is None or not stopped["away"]:
        ledger.step(asked.load_id, step, "started")
        if parts:
            _detach(opened, asked, step, parts)
        else:
            _delete(engine, target, plan["column"], plan["files"])
        engine.sync()
        ledger.step(asked.load_id, AWAY, "done")
    forget(opened, target, asked.load_id)
    for part in parts:
        _drop_detached(engine, part)
    record_undone(asked, ledger, step)
    return result


def _forget(asked: Undo) -> str:
    return f"rowfall forget {asked.load_id[:8]}"


def _check_alone(opened: OpenedTables, target: Target, asked: Undo) -> None:
    """Check that no other process runs the load.

    Raises:
        LedgerError: one does.
    """
    journal = Journal(opened.engine, target.database, "")
    if journal.there() and journal.loads().get(asked.load_id):
        raise asked.refused("another process runs it", "Wait until it has ended.")


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
    found = {uuid: part for one in loaded for uuid, part in _active(engine, one.uuids)}
    wanted = sum(len(one.uuids) for one in loaded)
    expected = sum(one.rows for one in loaded)
    complete = all(one.uuids for one in loaded) and len(found) == wanted
    if loaded and complete and sum(part.rows for part in found.values()) == expected:
        parts = [[p.database, p.table, p.name, p.rows] for p in found.values()]
        return {"parts": parts, "rows": rows, "views": views, "column": "", "files": []}
    if _replicated(engine, own):
        why = "a replicated table may have its parts on other replicas only"
    elif not wanted:
        why = "their parts are not remembered (an older rowfall, or more than 1,000 of them)"
    else:
        why = f"of their {units.counted(wanted, 'part')} {len(found):,} are left as they were: the "
        why += "others were merged or changed"
    if not asked.column or views:
        raise asked.refused(why, f"Load all of it with --replace. {KEEP}")
    files = marked_files(asked, ledger, key)
    ((count,),) = engine.ask(
        f"SELECT count() FROM {sql.qualified(*own)} WHERE {_of_files(asked.column, files)}"
    )
    check_count(asked, int(count), rows, f"{why}; ")
    return {"parts": [], "rows": rows, "views": [], "column": asked.column, "files": files}


def _fed(engine: Engine, own: tuple[str, str]) -> list[str]:
    """Return the views that are fed by a table, of which nothing else tells."""
    rows = engine.ask(
        f"SELECT arrayStringConcat(arrayMap((d, t) -> concat(d, '.', t), dependencies_database, "
        f"dependencies_table), ',') FROM system.tables WHERE {_is(*own)}"
    )
    return [name for (names,) in rows for name in str(names).split(",") if name]


def _active(engine: Engine, uuids: Sequence[str]) -> Iterator[tuple[str, _Part]]:
    for start in range(0, len(uuids), _MOST_ASKED):
        rows = engine.ask(
            "SELECT toString(uuid), database, table, name, rows FROM system.parts WHERE active AND "
            f"toString(uuid) IN ({quoted_list(uuids[start : start + _MOST_ASKED])})"
        )
        for uuid, database, table, name, count in rows:
            yield str(uuid), _Part(str(database), str(table), str(name), int(count))


def _replicated(engine: Engine, own: tuple[str, str]) -> bool:
    rows = engine.ask(
        f"SELECT engine LIKE 'Replicated%' OR engine LIKE 'Shared%' FROM system.tables WHERE "
        f"{_is(*own)}"
    )
    return bool(rows and int(rows[0][0]))


def _detach(opened: OpenedTables, asked: Undo, step: str, parts: Sequence[_Part]) -> None:
    """Detach all parts; where one of them was merged meanwhile, attach those that were.

    Raises:
        LedgerError: nothing is taken out.
    """
    engine, gone, away = opened.engine, [], []
    for part in parts:
        if _is_detached(engine, part):  # by the run that was stopped
            away.append(part)
            continue
        try:
            _alter(engine, part, "DETACH PART")
            away.append(part)
        except RowfallError as error:
            if error.code not in NO_SUCH_PART:
                raise
            gone.append(part)
    if not gone:
        return
    for part in away:
        _alter(engine, part, "ATTACH PART")
    opened.ledger.step(asked.load_id, step, "done")
    raise asked.refused(
        f"{units.counted(len(gone), 'part')} of it was merged just now; everything is as it was",
        f"Load all of it with --replace. {KEEP}",
    )


def _is_detached(engine: Engine, part: _Part) -> bool:
    return bool(engine.ask(
        f"SELECT 1 FROM system.detached_parts WHERE {sql.table_is(part.database, part.table)} AND "
        f"name = {quote(part.name)}"
    ))  # fmt: skip


def _drop_detached(engine: Engine, part: _Part) -> None:
    if _is_detached(engine, part):
        _alter(engine, part, "DROP DETACHED PART", {"allow_drop_detached": 1})


def _alter(
    engine: Engine, part: _Part, what: str, settings: Mapping[str, str | int | float] | None = None
) -> None:
    text = f"ALTER TABLE {part.at} {what} {quote(part.name)}"
    engine.run(Statement(SqlText.of(text), settings or {}, alters=None))


def _delete(engine: Engine, target: Target, column: str, files: Sequence[str]) -> None:
    """Delete the rows of some files; again after a crash, it finds the rest."""
    table = sql.qualified(target.database, target.table)
    text = f"ALTER TABLE {table} DELETE WHERE {_of_files(column, files)}"
    engine.run(Statement(SqlText.of(text), {"mutations_sync": 2}, alters=None))


def _of_files(column: str, files: Sequence[str]) -> str:
    return f"{sql.name(column)} IN ({quoted_list(files)})"


def _is(database: str, table: str) -> str:
    return f"database = {quote(database)} AND name = {quote(table)}"
