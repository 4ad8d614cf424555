"""Replicated tables after an outage of Keeper: what they hold is what Keeper says, or is awaited.

An ATTACH whose answer from Keeper is lost is taken back by the replica. Keeper may have carried it
out all the same: then the replica fetches the parts again, from another one or never.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from rowfall.core import sql
from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.model import Ask, Pair
from rowfall.core.sqltext import quote
from rowfall.engines.codes import ACCESS_DENIED
from rowfall.ledger.leases import Move

# A session is made anew some seconds after Keeper is back, and what the replica lacks is fetched at
# once where another one has it. Longer than a minute is an outage: the next run goes on.
MOST_WAIT = 60.0
LOOK_SECONDS = 0.5


class ActiveBlocks:
    """Which blocks the active parts of a table hold."""

    def __init__(self, ask: Ask, pair: Pair) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for partition, first, last in ask(
            "SELECT partition_id, min_block_number, max_block_number FROM system.parts "
            f"WHERE {sql.table_is(pair.database, pair.table)} AND active"
        ):
            self._ranges[partition].append((first, last))

    def __call__(self, partition: str, first: int, last: int) -> bool:
        return any(low <= first and last <= high for low, high in self._ranges[partition])


def settled_with_keeper(ask: Ask, pair: Pair, moves: Sequence[Move]) -> bool:
    """Wait until a replicated table has what Keeper says it was given since the commit.

    Returns:
        Whether the table is replicated.

    Raises:
        EngineError: Keeper stays away, or parts that it knows do not come.
    """
    deadline = time.monotonic() + MOST_WAIT
    since = {move.partition_id: move.highest_block for move in moves}
    while True:
        rows = ask(
            "SELECT is_readonly OR is_session_expired, replica_path FROM system.replicas "
            f"WHERE {sql.table_is(pair.database, pair.table)}"
        )
        if not rows:
            return False
        awaited = [] if rows[0][0] else _awaited(ask, pair, since, rows[0][1])
        if not rows[0][0] and not awaited:
            return True
        if time.monotonic() > deadline:
            what = f"part {awaited[0]}" if awaited else "a session"
            raise EngineError(
                f"{pair.database}.{pair.table} has waited {MOST_WAIT:.0f} seconds for {what} "
                "of Keeper",
                hint="Run the same command again when SELECT * FROM system.replicas shows no "
                "read-only table: what has landed is not loaded twice.",
            )
        time.sleep(LOOK_SECONDS)


def _awaited(ask: Ask, pair: Pair, since: dict[str, int], path: str) -> list[str]:
    """Parts newer than the commit that Keeper counts to this replica and that are not here."""
    try:
        names = ask(f"SELECT name FROM system.zookeeper WHERE path = {quote(path + '/parts')}")
    except RowfallError as error:
        if error.code == ACCESS_DENIED:
            return []  # not for this user to see: what the table lists has to do
        if not error.transient:
            raise
        return ["(not known)"]
    covers = ActiveBlocks(ask, pair)
    awaited = []
    for (name,) in names:
        partition, first, last = str(name).split("_")[:3]
        newer = partition in since and int(first) > since[partition]
        if newer and not covers(partition, int(first), int(last)):
            awaited.append(str(name))
    return awaited
