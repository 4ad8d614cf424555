"""Tell which parts of a load a table lists for good, replicated or not.

An ATTACH whose answer from Keeper is lost is taken back by the replica. Keeper may have carried it
out all the same: then the replica attaches the parts again, from staging or from another replica.
Until it has, another replica may find that nobody holds such a part: it calls the part lost, puts
an empty one in its place, and drops that everywhere within five minutes
(max_cleanup_delay_period). So a part that is listed may be about to go: seen with server 24.10 in
one of thirty outages in an ATTACH.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial

from rowfall.core import sql
from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.model import Ask, StagingPair, Statement
from rowfall.core.sqltext import SqlText, quote, quoted_list
from rowfall.engines.base import Engine
from rowfall.ledger.leases import StagedPartition
from rowfall.systems.clickhouse.codes import ACCESS_DENIED

_of = sql.table_is
# A session with Keeper is made anew some seconds after Keeper is back, and what the replica lacks
# is fetched at once where another one has it. Longer than this is an outage: the next run goes on.
KEEPER_SECONDS = 60.0
POLL_SECONDS = 0.5
# A part that was called lost is attached anew under another name, so one drop does for all; a
# second outage meanwhile may cost another one.
MOST_DROPS = 3
# Entries of a replica's queue that bring or drop no rows, and may take hours.
_REWRITES = r"\n(merge|mutate|alter)\n"


def listed_parts(
    engine: Engine,
    lane: int,
    pair: StagingPair,
    moves: Sequence[StagedPartition],
    uuids: Collection[str],
) -> set[str]:
    """Return the UUIDs of the parts that the target has, or had until they were merged.

    Outdated parts are still listed for some minutes. Mostly they were merged since; but a
    replicated table that lost Keeper in the middle of an ATTACH has taken back what it had
    linked already, and lists that in the same way: only without a time of removal, and no
    other part holds its block.

    Args:
        moves: what was counted for this pair.
        uuids: those that are looked for.

    Raises:
        EngineError: Keeper is away.
    """
    ask = partial(engine.ask, lane=lane)
    own = f"{_of(pair.database, pair.table)} AND toString(uuid) IN ({quoted_list(uuids)})"
    replicated = _wait_for_replicas(engine, lane, pair, moves, own)
    listed = ask(
        "SELECT toString(uuid), active, toUnixTimestamp(remove_time) > 0, partition_id, "
        f"min_block_number, max_block_number FROM system.parts WHERE {own}"
    )
    sure = {uuid for uuid, active, *_ in listed if active or not replicated}
    if all(uuid in sure for uuid, *_ in listed):
        return sure
    # What replaced a lost part holds no rows, and is no trace of ours.
    covers = _Blocks(ask, pair, least_rows=1)
    return sure | {uuid for uuid, _, gone, *blocks in listed if gone and covers(*blocks)}


def _wait_for_replicas(
    engine: Engine, lane: int, pair: StagingPair, moves: Sequence[StagedPartition], own: str
) -> bool:
    """Wait until the parts that a replicated table lists stay; tell whether it is replicated.

    A part that another replica has called lost goes within minutes. It is dropped here at once,
    so that it is attached again like all that has not arrived.

    Args:
        own: condition for the parts that are looked for.

    Raises:
        EngineError: Keeper is away.
    """
    ask = partial(engine.ask, lane=lane)
    for _ in range(MOST_DROPS):
        if not wait_for_keeper(ask, pair, moves):
            return False
        # Nothing can call a part lost any more that this replica holds.
        names = [str(name) for (name,) in ask(
            f"SELECT name FROM system.parts WHERE {own} AND active AND level = 0"
        )]  # fmt: skip
        lost = _called_lost(ask, pair, names)
        if not lost:
            # What was called lost, and dropped, before that look is in the log by now.
            return wait_for_keeper(ask, pair, moves)
        for name in lost:
            text = f"ALTER TABLE {sql.qualified(pair.database, pair.table)} DROP PART {quote(name)}"
            engine.run(Statement(SqlText.of(text)), lane=lane)
    raise EngineError(
        f"replicas of {pair.database}.{pair.table} hold different parts of one name",
        hint="Run the same command again.",
        transient=True,
    )


class _Blocks:
    """The blocks that the active parts of a table hold."""

    def __init__(self, ask: Ask, pair: StagingPair, least_rows: int = 0) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for partition, first, last in ask(
            "SELECT partition_id, min_block_number, max_block_number FROM system.parts "
            f"WHERE {sql.table_is(pair.database, pair.table)} AND active AND rows >= {least_rows}"
        ):
            self._ranges[partition].append((first, last))

    def __call__(self, partition: str, first: int, last: int) -> bool:
        return any(low <= first and last <= high for low, high in self._ranges[partition])


class _Queue:
    """Entries that a replica had to carry out at the first look: later ones are not waited for."""

    def __init__(self, ask: Ask, path: str, replica_path: str) -> None:
        self._ask, self._path, self._replica_path = ask, path, replica_path
        self._last: str | None = None
        self._entries: set[str] | None = None

    def left(self) -> list[str]:
        """Return the names of the entries that are not carried out yet."""
        # Keeper is asked, not system.replication_queue, which misses entries while they are read.
        ((pointer,),) = self._ask(
            f"SELECT value FROM system.zookeeper WHERE path = {quote(self._replica_path)} "
            "AND name = 'log_pointer'"
        )
        log = [str(name) for (name,) in self._ask(
            f"SELECT name FROM system.zookeeper WHERE path = {quote(self._path + '/log')} "
            "ORDER BY name"
        )]  # fmt: skip
        if self._last is None:
            self._last = log[-1] if log else ""
        next_read = f"log-{int(pointer or 0):010}"
        unread = [name for name in log if next_read <= name <= self._last]
        if unread:
            return unread
        queue = {str(name) for (name,) in self._ask(
            "SELECT name FROM system.zookeeper WHERE "
            f"path = {quote(self._replica_path + '/queue')} AND NOT match(value, '{_REWRITES}')"
        )}  # fmt: skip
        self._entries = queue if self._entries is None else self._entries & queue
        return sorted(self._entries)


def wait_for_keeper(ask: Ask, pair: StagingPair, moves: Sequence[StagedPartition]) -> bool:
    """Wait until a replicated table has what Keeper says it was given since the commit.

    Returns:
        Whether the table is replicated.

    Raises:
        EngineError: Keeper stays away, or parts that it knows do not come.
    """
    deadline = time.monotonic() + KEEPER_SECONDS
    since = {move.partition_id: move.highest_block for move in moves}
    queue: _Queue | None = None
    while True:
        try:
            rows = ask(
                "SELECT is_readonly OR is_session_expired, zookeeper_path, replica_path "
                f"FROM system.replicas WHERE {_of(pair.database, pair.table)}"
            )
        except RowfallError as error:
            if error.code != ACCESS_DENIED or _is_replicated(ask, pair):
                raise
            return False  # loads of such tables need no right to see replicas
        if not rows:
            return False
        away, path, replica_path = rows[0]
        awaited = ["a session"]
        if not away:
            queue = queue or _Queue(ask, path, replica_path)
            awaited = _awaited(ask, pair, since, queue, replica_path)
        if not awaited:
            return True
        if time.monotonic() > deadline:
            raise EngineError(
                f"{pair.database}.{pair.table} has waited {KEEPER_SECONDS:.0f} seconds for "
                f"{awaited[0]} from Keeper",
                hint="Run the same command again when SELECT * FROM system.replicas shows no "
                "read-only table: what is loaded is not loaded twice.",
            )
        time.sleep(POLL_SECONDS)


def _is_replicated(ask: Ask, pair: StagingPair) -> bool:
    return bool(ask(
        "SELECT 1 FROM system.tables WHERE engine LIKE 'Replicated%' AND "
        f"database = {quote(pair.database)} AND name = {quote(pair.table)}"
    ))  # fmt: skip


def _awaited(
    ask: Ask, pair: StagingPair, since: dict[str, int], queue: _Queue, replica_path: str
) -> list[str]:
    """Return, in words, what the replica still has to carry out or to fetch.

    Parts newer than the commit count that Keeper lists for this replica and it lacks.
    """
    try:
        entries = queue.left()
        if entries:
            return [f"the entry {name}" for name in entries]
        names = ask(
            f"SELECT name FROM system.zookeeper WHERE path = {quote(replica_path + '/parts')}"
        )
    except RowfallError as error:
        if error.code == ACCESS_DENIED:
            return []  # not for this user to see: what the table lists has to do
        if not error.transient:
            raise
        return ["an answer"]
    covers = _Blocks(ask, pair)
    awaited = []
    for (name,) in names:
        partition, first, last = str(name).split("_")[:3]
        newer = partition in since and int(first) > since[partition]
        if newer and not covers(partition, int(first), int(last)):
            awaited.append(f"part {name}")
    return awaited


def _called_lost(ask: Ask, pair: StagingPair, names: Sequence[str]) -> list[str]:
    """Return those of the parts in whose place another replica has put a different one.

    Args:
        names: of parts of level 0, which replicas copy from each other byte by byte.
    """
    if not names:
        return []
    try:
        ((path,),) = ask(
            f"SELECT zookeeper_path FROM system.replicas WHERE {_of(pair.database, pair.table)}"
        )
        replicas = [str(name) for (name,) in ask(
            f"SELECT name FROM system.zookeeper WHERE path = {quote(f'{path}/replicas')}"
        )]  # fmt: skip
        # The value of a part is the digest of its columns and checksums.
        paths = [f"{path}/replicas/{name}/parts" for name in replicas]
        found = ask(
            f"SELECT name FROM system.zookeeper WHERE path IN ({quoted_list(paths)}) "
            f"AND name IN ({quoted_list(names)}) GROUP BY name HAVING uniqExact(value) > 1"
        )
    except RowfallError as error:
        if error.code != ACCESS_DENIED:
            raise
        return []  # not for this user to see
    return [str(name) for (name,) in found]
