"""Behaviours of earlier versions, put back one by one to see whether the simulator finds them.

What is a matter of the model (``no sync``, ``local journal``) is asked for where it
belongs; here are those that replace functions of rowfall.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import rowfall.cluster.open
import rowfall.publish.attach
import rowfall.publish.evidence
import rowfall.publish.recover
import rowfall.publish.replicas
import rowfall.publish.tables
from rowfall.core.sqltext import quote, quoted_list
from rowfall.destinations.clickhouse import doubts, loaded_state, prepare, settle
from rowfall.destinations.clickhouse.record import JournalRecord, LedgerRecord
from rowfall.engines.base import table_uuid
from rowfall.ledger.journal import Journal
from rowfall.publish.attach import Publisher
from rowfall.publish.protocol import Evidence, Traces
from rowfall.publish.shadow import SWAP, Shadow


def _moves_as_they_are(engine: Any, attempt: str, moves: Any, *_: Any) -> Any:
    return moves


def _nothing(*_: Any) -> bool:
    return False


def _judge_by_counts(traces: Traces) -> Evidence:
    if not traces.has_unlisted_blocks or traces.counted is False:
        return Evidence.NO_PARTS
    return Evidence.ALL_PARTS if traces.counted else Evidence.UNDECIDED


def _shadow_as_it_is(shadow: Any, known: str) -> str:
    found = table_uuid(shadow._engine, shadow._database, shadow.name)
    return str(shadow.name) if found == known else ""


def _finish_without_a_look(shadow: Any, uuid: str) -> None:
    shadow._engine.sync()
    shadow.drop()
    shadow._ledger.swapped(shadow._key, shadow._target_key, uuid)
    shadow._ledger.step(shadow._load_id, SWAP, "done")


def _shadow_of_the_load(load: Any, _: Any) -> Any:
    return settle.open_shadow(load)


def _first_node(asks: Any, cluster: Any, *_: Any) -> Any:
    return cluster.up[0]


def _listed(engine: Any, lane: int, pair: Any, _: Any, uuids: Any) -> set[str]:
    rows = engine.ask(
        f"SELECT toString(uuid) FROM system.parts WHERE database = {quote(pair.database)} AND "
        f"table = {quote(pair.table)} AND toString(uuid) IN ({quoted_list(uuids)})",
        lane=lane,
    )
    return {str(uuid) for (uuid,) in rows}


def _written_by_anybody(self: Journal, event: str, attempt: str, splits: Any, detail: str) -> bool:
    return bool(self._ask(
        f"SELECT count() FROM {self._name} WHERE into = toUUID({quote(self._target_uuid)}) AND "
        f"attempt = {quote(attempt)} AND event = {quote(event)}"
    )[0][0])  # fmt: skip


def _not_checked(*_: Any) -> None:
    """Do nothing."""


def _unasked(*_: Any) -> list[Any]:
    return []


def _no_contradiction(session: Any, *_: Any) -> None:
    """Find nothing."""


_loaded_by = Journal.loaded_by


def _loaded_ever(self: Journal, loads: Any, _: int) -> dict[str, tuple[int, int]]:
    return _loaded_by(self, loads, 0)


REPLACED: dict[str, list[tuple[Any, str, Any]]] = {
    "retry without rename": [(rowfall.publish.tables, "fence", _moves_as_they_are)],
    "staging as it was": [
        (rowfall.publish.attach, "alter_alike", _nothing),
        (rowfall.publish.tables, "alter_alike", _nothing),
    ],
    "dead loads leave their shadows": [
        (JournalRecord, "end_dead_loads", _nothing),
        (LedgerRecord, "end_dead_loads", _nothing),
    ],
    "signs of life of anybody": [(Journal, "_written", _written_by_anybody)],
    "row counts alone": [(rowfall.publish.evidence, "judge", _judge_by_counts)],
    "exchange without rename": [
        (Shadow, "_put_aside", _shadow_as_it_is),
        (Shadow, "_finish_swap", _finish_without_a_look),
    ],
    "journal on the first node": [(rowfall.cluster.open, "find_journal", _first_node)],
    "memory is not compared": [(doubts, "find_contradiction", _no_contradiction)],
    "stopped loads are not asked about": [
        (Journal, "stopped", _unasked),
        (loaded_state, "_unrecorded", _no_contradiction),
    ],
    "a table without a record is appended to": [
        (loaded_state, "_unrecorded", _no_contradiction),
    ],
    "the shadow has its first name": [(prepare, "_settled_shadow", _shadow_of_the_load)],
    "unmarked attempts": [(rowfall.publish.recover, "_check_unmarked", _not_checked)],
    "sync without a look": [
        (Publisher, "check_staged", _not_checked),
        (Publisher, "check_attached", _not_checked),
    ],
    "rows of views are not counted": [(Publisher, "check_not_restarted", _not_checked)],
    "what was loaded before counts": [(Journal, "loaded_by", _loaded_ever)],
    "outdated parts count": [(rowfall.publish.replicas, "listed_parts", _listed)],
}
"""By name: module or class, attribute, and what it was."""


@contextmanager
def put_back(names: Iterable[str]) -> Iterator[None]:
    """Let some behaviours be those of earlier versions."""
    old = [*names]
    changed = [change for name in old for change in REPLACED.get(name, ())]
    if old:  # rows that are missing from an empty table were no question then, either
        changed.append((loaded_state, "_emptied", _no_contradiction))
    kept = [(where, name, inspect.getattr_static(where, name)) for where, name, _ in changed]
    for where, name, value in changed:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in kept:
            setattr(where, name, value)
