"""The tables of a target, by its catalogue and by the loads that this user has done."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence

from rowfall.contracts.destination import Destination, Query
from rowfall.core.results import Report, TargetTable
from rowfall.targets.base import Target


def list_tables(
    target: Target, destination: Destination, loads: Sequence[Report]
) -> list[TargetTable]:
    """Return what a target holds, by name; also tables that loads have filled and that are gone.

    Args:
        loads: into the target, newest first.

    Raises:
        RowfallError: the target is out of reach, or refuses.
    """
    query = destination.tables_query(target)
    there = None if query is None else _ask(target, destination, query)
    found = {f"{schema}.{name}": (rows, size) for schema, name, rows, size in there or ()}
    known: dict[str, list[Report]] = {}
    for load in loads:
        known.setdefault(load.table or load.target, []).append(load)
    made = []
    for name in sorted({*found, *known}):
        own, (rows, size) = known.get(name, []), found.get(name, (None, None))
        done = [load for load in own if load.outcome == "done" and load.rows]
        if name not in found and not done:
            continue  # nothing has come into it, and it is not there
        made.append(TargetTable(
            name, rows, size, None if query is None else name in found, len(done),
            done[0].started if done else "", done[0].source if done else "",
        ))  # fmt: skip
    return made


def _ask(
    target: Target, destination: Destination, query: str
) -> list[tuple[str, str, int | None, int | None]]:
    with tempfile.TemporaryFile() as out:
        destination.query(target, Query(query, "JSONCompactEachRow", False, out.fileno()))
        out.seek(0)
        rows = [json.loads(line) for line in out]
    return [
        (str(schema), str(name), *(None if x is None else int(x) for x in counts))  # type: ignore[misc]
        for schema, name, *counts in rows
    ]
