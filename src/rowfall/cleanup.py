"""``rowfall clean`` and ``rowfall forget``: what dead loads left, and what counts as landed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rowfall import sql, staging
from rowfall.engines.base import Engine
from rowfall.engines.embedded import Embedded
from rowfall.errors import TargetError, UsageError
from rowfall.events import Listener
from rowfall.jobs import connect
from rowfall.journal import TABLE as JOURNAL
from rowfall.journal import Journal
from rowfall.ledger import Ledger, into_key
from rowfall.model import Statement
from rowfall.options import Options
from rowfall.publish import ask
from rowfall.reconcile import follow, reconcile
from rowfall.rescue import Rescue
from rowfall.shadow import table_uuid
from rowfall.sqltext import quote
from rowfall.targets.base import STAGING_PREFIX, Target


@dataclass(frozen=True, slots=True)
class Leftover:
    """A table or view that a dead load made for itself.

    Attributes:
        load_id: of the load. ``rows`` and ``bytes`` (on disk) are 0 for views.
        committed: its rows are bound to be published, and cleaning does so.
    """

    database: str
    name: str
    load_id: str
    rows: int
    bytes: int
    committed: bool


def clean_target(target: Target, *, dry: bool, emit: Listener) -> list[Leftover]:
    """See :func:`rowfall.api.clean`."""
    with _opened(target) as (engine, ledger):
        journals = _journals(engine, target)
        alive: set[str] = set()
        bound: set[str] = set()
        for uuid, _ in journals:
            for entry in Journal(engine, target.database, uuid).entries():
                if entry.landed or entry.ended or entry.forgotten:
                    continue
                if not entry.dead:
                    alive.add(entry.attempt.split("_")[0])
                elif entry.binding:
                    bound.add(entry.attempt)
        if target.server is None:
            bound |= {a.id for a in ledger.open_attempts() if a.state == "loaded"}
        found = [x for x in _found(engine, target, bound) if x.load_id not in alive]
        if dry:
            return found
        if target.server is None:
            reconcile(engine, ledger, target, emit)
        for uuid, table in journals:
            journal = Journal(engine, target.database, uuid)
            if table:
                Rescue(engine, ledger, journal, target.database, emit).all_dead()
                follow(ledger, journal, into_key(target.database, table))
        for left in found:
            engine.run(Statement(staging.drop(
                left.database, left.name, view=_is_view(engine, left), size=left.bytes
            )))  # fmt: skip
        return found


def forget_load(target: Target, load_id: str) -> int:
    """See :func:`rowfall.api.forget`."""
    with _opened(target) as (engine, ledger):
        if target.server is not None:
            uuid = table_uuid(engine, target.database, target.table)
            journal = Journal(engine, target.database, uuid, load_id)
            if uuid and journal.there():
                journal.forget(load_id)
        return ledger.forget(load_id)


@contextmanager
def _opened(target: Target) -> Iterator[tuple[Engine, Ledger]]:
    if not target.database:
        raise UsageError(
            f"{target.text} keeps no tables", hint="Give a data folder or a server with --to."
        )
    engine: Engine
    if target.server is not None:
        engine = connect(target.server, Options())
    elif target.folder is None or not target.folder.is_dir():
        raise TargetError(f"there is no data folder {target.text}")
    else:
        engine = Embedded(target.folder)
    try:
        ledger = Ledger(target.ledger_path)
        try:
            yield engine, ledger
        finally:
            ledger.close()
    finally:
        engine.close()


def _journals(engine: Engine, target: Target) -> list[tuple[str, str]]:
    """(uuid, name) of the tables that the journal of a server's database speaks of; the name is
    "" when the table is gone."""
    if target.server is None or not Journal(engine, target.database, "").there():
        return []
    journal = sql.qualified(target.database, JOURNAL)
    rows = _asks(engine)(
        f"SELECT toString(j.into), t.name FROM (SELECT DISTINCT into FROM {journal}) j LEFT JOIN "
        f"(SELECT uuid, name FROM system.tables WHERE database = {quote(target.database)}) t "
        "ON t.uuid = j.into"
    )
    return [(str(uuid), str(name)) for uuid, name in rows]


def _found(engine: Engine, target: Target, bound: set[str]) -> Iterator[Leftover]:
    rows = _asks(engine)(
        "SELECT database, name, ifNull(total_rows, 0), ifNull(total_bytes, 0) FROM system.tables "
        f"WHERE startsWith(name, '{STAGING_PREFIX}') AND name != '{JOURNAL}' "
        "ORDER BY engine LIKE '%View' DESC, database, name"
    )
    for database, name, count, size in rows:
        rest = str(name).removeprefix(STAGING_PREFIX)
        committed = any(rest == b or rest.startswith(f"{b}_") for b in bound)
        yield Leftover(
            str(database), str(name), rest.split("_")[0], int(count), int(size), committed
        )


def _is_view(engine: Engine, left: Leftover) -> bool:
    rows = _asks(engine)(
        f"SELECT engine LIKE '%View' FROM system.tables WHERE database = {quote(left.database)} "
        f"AND name = {quote(left.name)}"
    )
    return bool(rows and rows[0][0])


def _asks(engine: Engine) -> staging.Ask:
    def asks(text: str) -> list[list[Any]]:
        return ask(engine, text)

    return asks
