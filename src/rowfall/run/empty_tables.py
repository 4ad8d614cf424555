"""Tables that a load has made and that nothing has come into: their types may be wrong.

The next load makes them anew, ``rowfall clean`` drops them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from rowfall.core import sql
from rowfall.engines.ask import ask, asker, table_uuid
from rowfall.engines.base import Engine
from rowfall.ledger import Ledger, target_key, target_key_parts
from rowfall.ledger.journal import Journal
from rowfall.targets import views

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster

MADE, OVER = "made", "over"
"""Steps of the ledger, followed by the uuid of the table that a load has made, and by the name of
the Distributed table that it has made over it."""


def tables(ledger: Ledger) -> Iterator[tuple[str, str, str, str]]:
    """(load, database, table, uuid) of each that a load has made, whatever became of it."""
    for load_id, into, uuid in ledger.steps_called(MADE):
        database, table = target_key_parts(into)[:2]
        yield load_id, database, table, uuid


def is_untouched(
    places: Mapping[str, Engine], ledger: Ledger, database: str, table: str, *,
    load_id: str = "", journal: bool,
) -> bool:  # fmt: skip
    """Whether a load of this ledger has made a table, on all of these engines, and nobody has put
    anything into it, reads from it by a view, or loads into it now.

    Args:
        places: the first has the journal.
        load_id: of the load that asks.
        journal: the target is shared with others, who say in a journal what they do.
    """
    first = next(iter(places.values()))
    into, uuid = target_key(database, table), table_uuid(first, database, table)
    # One of the same name that somebody else has made has another uuid.
    if not uuid or uuid not in {made for *_, made in tables(ledger)} or ledger.landed(into):
        return False
    if ledger.others_load(load_id, into):
        return False  # one that has just begun has written nothing into the journal yet
    if any(a.target_key == into and a.state == "loaded" for a in ledger.open_attempts()):
        return False  # what it has staged is bound to be published
    if journal and _loaded_by_others(Journal(first, database, uuid)):
        return False
    name = sql.qualified(database, table)
    for engine in places.values():
        if table_uuid(engine, database, table) and (
            ask(engine, f"SELECT count() FROM {name}") != [[0]]
            or views.discover(asker(engine), database, table)
        ):
            return False
    return True


def _loaded_by_others(journal: Journal) -> bool:
    return journal.there() and any(
        e.landed or e.binding or not (e.ended or e.dead) for e in journal.entries()
    )


def remember(ledger: Ledger, load_id: str, uuid: str, shards: OpenCluster | None) -> None:
    """A load has made its table; of a cluster perhaps the Distributed one, too.

    Args:
        shards: as they were before.
    """
    ledger.step(load_id, f"{MADE} {uuid}", "done")
    if shards is not None and not shards.tables.direct and shards.tables.like_over is None:
        over = (shards.tables.database, shards.tables.table)
        ledger.step(load_id, f"{OVER} {json.dumps(over)}", "done")


def in_order(
    places: Collection[str], ledger: Ledger, database: str, table: str, uuid: str
) -> Iterator[tuple[str, str, str]]:
    """(place, database, table) of what has to be dropped with such a table, one after the other."""
    over = _over(ledger, uuid)
    for name in ((over,) if over else ()) + ((database, table),):
        # The first node's last: by that one it is known again, if we are killed between them.
        for place in reversed(list(places)):
            yield place, *name


def _over(ledger: Ledger, uuid: str) -> tuple[str, str] | None:
    """Database and name of the Distributed table that was made over the one with this uuid."""
    loads = {load_id for load_id, *_, made in tables(ledger) if made == uuid}
    for load_id, _, name in ledger.steps_called(OVER):
        if load_id in loads:
            database, table = json.loads(name)
            return str(database), str(table)
    return None
