"""Wait until the replicas of a cluster's tables have the rows of a load."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rowfall.core import sql
from rowfall.core.events import Listener, Note

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster

# A replica that has fetched nothing for so long waits for something that does not come by itself.
STUCK_SECONDS = 60.0
POLL_SECONDS = 0.5
# What brings parts to a replica; the merges that stand in the queue, too, bring no rows.
_FETCHES = "'GET_PART', 'ATTACH_PART', 'REPLACE_RANGE', 'CLONE_PART_FROM_SHARD'"


def wait_for_replicas(shards: OpenCluster, emit: Listener) -> None:
    """Wait until all replicas that answer have read the log up to now and fetched its parts.

    Where some replica stays without them, a warning says which.
    """
    started = changed = time.monotonic()
    behind = before = _behind(shards)
    wanted = {number: row[0] for number, row in behind.items()}
    while any(_lacks(row, wanted[number]) for number, row in behind.items() if number in wanted):
        if behind != before:
            before, changed = behind, time.monotonic()
        if time.monotonic() - changed > STUCK_SECONDS:
            late = [n for n, row in behind.items() if n in wanted and _lacks(row, wanted[n])]
            names = ", ".join(shards.cluster.nodes[number - 1].name for number in late)
            late_for = f"has fetched none for {STUCK_SECONDS:.0f} s"
            emit(Note("warning", f"{names} does not have all rows and {late_for}"))
            return
        time.sleep(POLL_SECONDS)
        behind = _behind(shards)
    away = [node.name for n, node in enumerate(shards.cluster.nodes, 1) if n not in behind]
    if not behind:
        emit(Note("warning", "the tables are not replicated: there is nothing to wait for"))
        return
    if away:
        names = ", ".join(away)
        emit(Note("warning", f"{names} does not answer; it fetches the rows when it is back"))
        return
    seconds = time.monotonic() - started
    emit(Note("info", f"all {len(behind)} replicas have the rows ({seconds:.1f} s)"))


def _lacks(row: Sequence[Any], log: int) -> bool:
    """Tell whether a replica has not read the log up to an entry, or has still to fetch parts."""
    _, pointer, fetches = row
    return bool(pointer <= log or fetches > 0)


def _behind(shards: OpenCluster) -> dict[int, Sequence[Any]]:
    """Return the replication lag of the nodes that answer and have the table replicated.

    Returns:
        By number of the node: the last entry of its shard's log, the next entry that it will read,
        and the number of parts that it has to fetch.
    """
    database, table = shards.tables.local
    mine = sql.table_is(database, table)
    select = (
        "SELECT max(log_max_index) AS log, max(log_pointer) AS pointer, sum(fetches) AS parts, "
        "sum(there) AS there FROM ("
        "SELECT toInt64(log_max_index) AS log_max_index, toInt64(log_pointer) AS log_pointer, "
        f"toUInt64(0) AS fetches, 1 AS there FROM system.replicas WHERE {mine} "
        "UNION ALL SELECT toInt64(-1), toInt64(-1), count(), 0 FROM system.replication_queue "
        f"WHERE {mine} AND type IN ({_FETCHES}))"
    )
    from rowfall.cluster.topology import on_nodes  # 2 ms that others save

    rows = shards.entry.ask(on_nodes(shards.cluster.name, select))
    return {int(n): (log, pointer, parts) for n, log, pointer, parts, there in rows if there}
