"""Tables that a load has made and that nothing has come into.

Their types may be wrong, so the next load makes them anew, and ``rowfall clean`` drops them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from rowfall.core import sql
from rowfall.engines.base import Engine, table_uuid
from rowfall.ledger import Ledger, target_key, target_key_parts
from rowfall.ledger.journal import Journal
from rowfall.systems.clickhouse import views

if TYPE_CHECKING:
    pass

MADE, OVER = "made", "over"
"""Steps of the ledger, followed by the UUID of the table that a load has made, and by the name of
the Distributed table that it has made over it."""


def made_tables(ledger: Ledger) -> Iterator[tuple[str, str, str, str]]:
    """Yield (load, database, table, UUID) of each that a load has made, whatever became of it."""
    for load_id, key, uuid in ledger.steps_called(MADE):
        database, table = target_key_parts(key)[:2]
        yield load_id, database, table, uuid


def is_own(ledger: Ledger, uuid: str) -> bool:
    """Return whether a load of this ledger has made the table with this UUID."""
    return bool(uuid) and uuid in {made for *_, made in made_tables(ledger)}


def is_own_and_empty(
    nodes: Mapping[str, Engine], ledger: Ledger, database: str, table: str, *, load_id: str = ""
) -> bool:
    """Tell whether a load of this ledger has made a table, and nothing has come into it.

    Nobody has put anything into it on any of these engines, reads from it by a view, or loads into
    it now.

    Args:
        nodes: the first has the journal, if the target has one.
        load_id: of the load that asks.
    """
    first = next(iter(nodes.values()))
    key, uuid = target_key(database, table), table_uuid(first, database, table)
    # One of the same name that somebody else has made has another uuid.
    if not is_own(ledger, uuid) or ledger.holds(key):
        return False
    if ledger.others_load(load_id, key):
        return False  # one that has just begun has written nothing into the journal yet
    if any(a.target_key == key and a.committed for a in ledger.open_attempts()):
        return False  # what it has staged must be published
    if first.shared and _loaded_by_others(Journal(first, database, uuid)):
        return False
    name = sql.qualified(database, table)
    for engine in nodes.values():
        if table_uuid(engine, database, table) and (
            engine.ask(f"SELECT count() FROM {name}") != [[0]]
            or views.discover(engine.ask, database, table)
        ):
            return False
    return True


def _loaded_by_others(journal: Journal) -> bool:
    return journal.there() and any(
        e.blocks.loaded or e.binding or not (e.ended or e.dead) for e in journal.entries()
    )


def remember_made(
    ledger: Ledger, load_id: str, uuid: str, over: tuple[str, str] | None
) -> None:  # fmt: skip
    """Record that a load has made its table; of a cluster perhaps the Distributed one, too.

    Args:
        over: database and name of that one.
    """
    ledger.step(load_id, f"{MADE} {uuid}", "done")
    if over is not None:
        ledger.step(load_id, f"{OVER} {json.dumps(over)}", "done")


def drop_order(
    nodes: Collection[str], ledger: Ledger, database: str, table: str, uuid: str
) -> Iterator[tuple[str, str, str]]:
    """Yield (node, database, table) of what has to be dropped with such a table, in order."""
    over = _over(ledger, uuid)
    for name in ((over,) if over else ()) + ((database, table),):
        # The first node's last: by that one it is known again, if we are killed between them.
        for node in reversed(list(nodes)):
            yield node, *name


def _over(ledger: Ledger, uuid: str) -> tuple[str, str] | None:
    """Return database and name of the Distributed table made over the one with this UUID."""
    loads = {load_id for load_id, *_, made in made_tables(ledger) if made == uuid}
    for load_id, _, name in ledger.steps_called(OVER):
        if load_id in loads:
            database, table = json.loads(name)
            return str(database), str(table)
    return None
