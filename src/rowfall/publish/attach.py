"""Attach staged parts to their table: count them, attach them, find out which ones have arrived.

One ``ALTER TABLE target ATTACH PARTITION ALL FROM staging`` makes every part of an attempt visible
under one lock; in a replicated table it commits the parts of one partition after the other. It
links files, 0.1 to 0.3 ms a part: 168 parts in 0.06 s, where moving their 56 partitions one after
another took 0.17 s (chDB 26.9). Staging gives every part a uuid, which stays in the part's
checksums: after a crash that tells which parts the target has, and a replicated table does not take
a second load of equal rows for a repetition of the first.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import EngineError, LedgerError, RowfallError, TargetError
from rowfall.core.model import Ask, Column, Pair, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine
from rowfall.engines.codes import ACCESS_DENIED, NOT_ALIKE, UNKNOWN_TABLE
from rowfall.ledger import Ledger
from rowfall.ledger.leases import Leases, Move, NoLeases
from rowfall.publish.altered import AlteredTableError, alter_alike, wait_for_mutations
from rowfall.publish.fence import publish_id, renamed
from rowfall.publish.protocol import Action, Evidence, Recorded, after_crash
from rowfall.publish.target_tables import OwnTable

# What a part costs when it is attached, dropped and merged later.
SECONDS_PER_PART = 0.0005
MERGE_BYTES_PER_SECOND = 300e6
# Attempts are counted and attached here while the next ones are inserted.
PUBLISH_LANE = 1
_of = sql.table_is
# Engines whose merges leave every row as it is.
KEEP_ROWS = ("MergeTree", "ReplicatedMergeTree", "SharedMergeTree")
# A session with Keeper is made anew some seconds after Keeper is back, and what the replica lacks
# is fetched at once where another one has it. Longer than this is an outage: the next run goes on.
KEEPER_SECONDS = 60.0
# A table that is altered again while staging is altered like it is compared once more.
MOST_ALTERED = 3
POLL_SECONDS = 0.5
NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows and parts that an attempt holds in staging.

    Attributes:
        rows: of the staging table of the target itself.
        parts, bytes, moves: of all its staging tables; bytes on disk.
    """

    rows: int
    parts: int
    bytes: int
    moves: tuple[Move, ...]


def checksum(columns: Sequence[Column]) -> str:
    """Return SQL for (rows, sum of a hash over ``columns``).

    The sum wraps at 2^64 on both sides alike; duplicates change it, order does not.
    """
    return f"count(), sum({row_hash(columns)})"


def row_hash(columns: Sequence[Column]) -> str:
    """Return SQL for a 64-bit hash of one row.

    Every version hashes plain values alike; NULLs and nested values are spelled out, because a
    NULL would make the whole hash NULL, and 24.10 refuses tuples that hold one.
    """
    values = []
    for column in columns:
        x = sql.name(column.name)
        if column.type.startswith(("Nullable(", "LowCardinality(Nullable(")):
            values += [
                f"isNull({x})",
                f"ifNull({x}, defaultValueOfArgumentType(assumeNotNull({x})))",
            ]
        elif "(" in column.type and column.type.startswith(("Array", "Map", "Tuple", "Nested")):
            values.append(f"toString({x})")
        else:
            values.append(x)
    return f"cityHash64({', '.join(values)})"


def pairs_of(moves: Sequence[Move]) -> list[Pair]:
    """Return the tables of an attempt that still have to be attached, in order, each once."""
    return list(dict.fromkeys(m.pair for m in moves if m.state == "pending"))


class Publisher:
    """Publishes attempts: any pairs of a table and its staging table.

    Args:
        engine, ledger: where statements run and facts are kept.
        lane: the engine lane that is used.
    """

    def __init__(self, engine: Engine, ledger: Ledger, lane: int = 0) -> None:
        self.engine = engine
        self.ledger = ledger
        self.lane = lane

    def staged(
        self, pairs: Sequence[Pair], row_bytes: float, fixed: Collection[str] = ()
    ) -> Staged:
        """Count staging, merging its small parts first where attaching them would cost more.

        Args:
            pairs: the target's own first.
            row_bytes: of a row in memory, about.
            fixed: staging tables that may not be merged: a merge would unite or expire rows.
        """
        rows = parts = size = 0
        moves: list[Move] = []
        for number, pair in enumerate(pairs):
            own_rows, own_parts, own_size, partitions = self._totals(pair)
            rows = own_rows if number == 0 else rows
            parts, size = parts + own_parts, size + own_size
            saved = (own_parts - partitions) * SECONDS_PER_PART
            cost = 2 * own_rows * row_bytes / MERGE_BYTES_PER_SECOND
            if saved > max(cost, 0.05) and pair.staging not in fixed:
                self._merge(pair)
            moves += self._moves(pair)
        return Staged(rows, parts, size, tuple(moves))

    def _merge(self, pair: Pair) -> None:
        """Merge the parts of a staging table; a user without that right attaches small ones."""
        try:
            self._run(f"OPTIMIZE TABLE {sql.qualified(pair.database, pair.staging)} FINAL")
        except RowfallError as error:
            if error.code != ACCESS_DENIED:
                raise

    def _totals(self, pair: Pair) -> tuple[int, int, int, int]:
        ((rows, parts, size, partitions),) = self._ask(
            "SELECT sum(rows), count(), sum(bytes_on_disk), uniqExact(partition_id) "
            f"FROM system.parts WHERE {_of(pair.database, pair.staging)} AND active AND rows > 0"
        )
        return rows, parts, size, partitions

    def _moves(self, pair: Pair) -> list[Move]:
        """Return the partitions of a staging table, each with what the target holds in it now."""
        rows = self._ask(
            "SELECT s.partition_id, s.own, t.others, if(t.parts > 0, t.block, -1) FROM "
            "(SELECT partition_id, sum(rows) AS own FROM system.parts WHERE "
            f"{_of(pair.database, pair.staging)} AND active AND rows > 0 GROUP BY partition_id) s "
            "LEFT JOIN (SELECT partition_id, sumIf(rows, active) AS others, count() AS parts, "
            "max(max_block_number) AS block FROM system.parts WHERE "
            f"{_of(pair.database, pair.table)} GROUP BY partition_id) t USING partition_id "
            "ORDER BY partition_id"
        )
        return [Move(pair.database, pair.table, pair.staging, *row) for row in rows]

    def checksum(self, database: str, table: str, columns: Sequence[Column]) -> tuple[int, int]:
        """Return the rows of a table and the sum of their hashes, modulo 2^64."""
        ((rows, total),) = self._ask(
            f"SELECT {checksum(columns)} FROM {sql.qualified(database, table)}"
        )
        return int(rows), int(total or 0)

    def publish(
        self, attempt_id: str, moves: Sequence[Move], own: OwnTable | None = None,
        leases: Leases | None = None, node: str = "",
    ) -> None:  # fmt: skip
        """Attach every pending table of an attempt.

        After an error nobody knows whether a table was attached: call :meth:`settle` first.

        Args:
            own: the table that the attempt was loaded for. The server knows tables by their names
                only, so it is checked afterwards, and what another table was given is taken back.
            leases, node: see :meth:`settle`.

        Raises:
            TargetError: another table has taken the name.
            AlteredTableError: a table was altered so that the staged rows do not fit it.
        """
        pairs = pairs_of(moves)
        others = _Others(leases or NoLeases(), attempt_id, node)
        for pair in pairs:
            try:
                self._attach(attempt_id, pair, moves, own, others)
            except AlteredTableError as error:
                error.hint = (
                    f"{error.hint} Or give the rows of this attempt up, so that their files are "
                    f"loaded again: rowfall forget {attempt_id}."
                )
                raise
            if pair != pairs[-1]:
                # The record of the attempt covers the last one.
                self.engine.sync()
                self.ledger.attached(attempt_id, pair.staging)
        self.check_own(moves, own)

    def check_own(self, moves: Sequence[Move], own: OwnTable | None) -> None:
        """Take back what an attempt has brought into another table than its own.

        Before evidence is collected, too: parts that another table has been given are no evidence,
        and what is dropped from staging because of them cannot be found and taken back any more.

        Raises:
            TargetError: another table has taken the name.
        """
        if own is None:
            return
        try:
            own.check()
        except TargetError:
            self.take_back(moves)
            raise

    def _attach(
        self, attempt_id: str, pair: Pair, moves: Sequence[Move], own: OwnTable | None,
        others: _Others,
    ) -> None:  # fmt: skip
        """Attach one table, after it was altered like its target where somebody has altered that.

        Raises:
            AlteredTableError: it cannot be altered alike.
            TargetError: another table has taken the name.
        """
        target = sql.qualified(pair.database, pair.table)
        staging = sql.qualified(pair.database, pair.staging)
        statement = f"ALTER TABLE {target} ATTACH PARTITION ALL FROM {staging}"
        query_id = publish_id(attempt_id, pair)
        for left in reversed(range(MOST_ALTERED)):
            try:
                self._run(statement, query_id)
                return
            except RowfallError as error:
                if error.code not in NOT_ALIKE:
                    raise
                refused = error
            self.check_own(moves, own)
            # A replicated table compares before each partition, so it may have taken some. Parts
            # that are altered get other UUIDs: what has arrived has to be dropped before.
            self.engine.sync()
            if not self._settle_pair(query_id, pair, [m for m in moves if m.pair == pair], others):
                return
            if not left:
                raise AlteredTableError(
                    f"the rows in {pair.database}.{pair.staging} do not fit {pair.database}."
                    f"{pair.table}, which was altered: {refused.message}",
                    code=refused.code,
                    hint=f"Alter {staging} in the same way, then run the same command again.",
                )
            alter_alike(self.engine, pair, self.lane)

    def take_back(self, moves: Sequence[Move]) -> None:
        """Drop the parts that staging still holds from the tables that they were attached to.

        Raises:
            LedgerError: some have been merged with rows of others.
        """
        for pair in dict.fromkeys(m.pair for m in moves):
            # Somebody may have given staging another name, see :func:`renamed`.
            found = self._ask(
                f"SELECT name, active FROM system.parts WHERE {_of(pair.database, pair.table)} AND "
                f"uuid IN (SELECT uuid FROM system.parts WHERE database = {quote(pair.database)} "
                f"AND match(table, {quote(renamed(pair.staging))}) AND active AND rows > 0)"
            )
            table = sql.qualified(pair.database, pair.table)
            for name, active in found:
                if active:
                    self._run(f"ALTER TABLE {table} DROP PART {quote(name)}")
            if not all(active for _, active in found):
                raise LedgerError(
                    f"{pair.database}.{pair.table} took the place of another table while rows were "
                    "made visible, and some of these rows have been merged into it",
                    hint="Drop it and make it again, then run the same command again.",
                )

    def check_staged(self, moves: Sequence[Move]) -> None:
        """Check, after a sync, that staging holds what was counted.

        A server that was without power between INSERT and sync has lost it, and no error tells.

        Raises:
            EngineError: rows are missing.
        """
        for pair in pairs_of(moves):
            ((rows,),) = self._ask(
                "SELECT sum(rows) FROM system.parts WHERE "
                f"{_of(pair.database, pair.staging)} AND active"
            )
            counted = sum(m.rows for m in moves if m.pair == pair)
            if rows != counted:
                raise EngineError(
                    f"{pair.database}.{pair.staging} holds {rows:,} of the {counted:,} rows that "
                    "were counted: was the server's machine without power?",
                    hint="Run the same command again.",
                    transient=True,
                )

    def check_attached(
        self, attempt_id: str, moves: Sequence[Move], leases: Leases | None = None, node: str = ""
    ) -> None:
        """Check, after a sync, that what was attached is still there; see :meth:`check_staged`.

        Args:
            leases, node: see :meth:`settle`.

        Raises:
            EngineError: some of it is not.
        """
        for pair in pairs_of(moves):
            ((missing,),) = self._ask(
                "SELECT count() FROM system.parts WHERE "
                f"{_of(pair.database, pair.staging)} AND active AND rows > 0 AND uuid NOT IN "
                f"(SELECT uuid FROM system.parts WHERE {_of(pair.database, pair.table)})"
            )
            # Where outdated parts are not kept for long, they may have been merged.
            if missing and pair in pairs_of(self.settle(attempt_id, moves, leases, node)):
                raise EngineError(
                    f"{pair.database}.{pair.table} has lost parts that were attached: was the "
                    "server's machine without power?",
                    hint="Run the same command again: it attaches them again.",
                    transient=True,
                )

    def settle(
        self, attempt_id: str, moves: Sequence[Move], leases: Leases | None = None, node: str = ""
    ) -> list[Move]:
        """Find out, after a crash or a lost answer, which parts of an attempt the target has.

        They may not be on disk yet, so the engine is synced first. Then they are dropped from
        staging, so that :meth:`publish` may be called with the result: moves of tables that are
        complete are marked ``attached``.

        Args:
            leases: tell how many rows other attempts have brought into a partition since what it
                held was counted; None where there are no others.
            node: that the engine is, as ``leases`` know it.

        Raises:
            LedgerError: the target was changed meanwhile, so nothing is certain.
        """
        self.engine.sync()
        others = _Others(leases or NoLeases(), attempt_id, node)
        settled = [m for m in moves if m.state != "pending"]
        for pair in pairs_of(moves):
            own = [m for m in moves if m.pair == pair]
            left = self._settle_pair(publish_id(attempt_id, pair), pair, own, others)
            if not left:
                self.ledger.attached(attempt_id, pair.staging)
            settled += [replace(m, state="pending" if left else "attached") for m in own]
        return settled

    def _settle_pair(
        self, query_id: str, pair: Pair, moves: Sequence[Move], others: _Others
    ) -> bool:
        """Drop from staging what the target has; return True when something is left to attach."""
        wait_for_mutations(self.engine, pair, self.lane)
        left = self._ask(
            "SELECT name, toString(uuid), partition_id, rows FROM system.parts "
            f"WHERE {_of(pair.database, pair.staging)} AND active AND rows > 0"
        )
        if not left:
            self._check_there(pair)
            return False
        uuids = ", ".join(quote(uuid) for _, uuid, _, _ in left)
        arrived = self._arrived(pair, moves, uuids)
        missing: dict[str, int] = defaultdict(int)
        known: dict[str, int] = defaultdict(int)
        for _, uuid, partition, rows in left:
            (known if uuid in arrived else missing)[partition] += rows
        merged = {
            m.partition_id
            for m in moves
            if m.partition_id in missing
            and self._was_merged(query_id, pair, m, uuids, known[m.partition_id], others)
        }
        there = [x for x in left if x[1] in arrived or x[2] in merged]
        found = Evidence.SOME_PARTS if there else Evidence.NO_PARTS
        if len(there) == len(left):
            found = Evidence.ALL_PARTS
        action = after_crash(Recorded.COMMITTED, found)
        if action is Action.ATTACH_REST:
            staging = sql.qualified(pair.database, pair.staging)
            for name, *_ in there:
                self._run(f"ALTER TABLE {staging} DROP PART {quote(name)}")
        return action is not Action.RECORD

    def _arrived(self, pair: Pair, moves: Sequence[Move], uuids: str) -> set[str]:
        """Return the UUIDs of the parts that the target has, or had until they were merged.

        Outdated parts are still listed for some minutes. Mostly they were merged since; but a
        replicated table that lost Keeper in the middle of an ATTACH has taken back what it had
        linked already, and lists that in the same way: only without a time of removal, and no
        other part holds its block.
        """
        replicated = _wait_for_keeper(self._ask, pair, moves)
        listed = self._ask(
            "SELECT toString(uuid), active, toUnixTimestamp(remove_time) > 0, partition_id, "
            f"min_block_number, max_block_number FROM system.parts WHERE "
            f"{_of(pair.database, pair.table)} AND toString(uuid) IN ({uuids})"
        )
        sure = {uuid for uuid, active, *_ in listed if active or not replicated}
        if all(uuid in sure for uuid, *_ in listed):
            return sure
        covers = _Blocks(self._ask, pair)
        return sure | {uuid for uuid, _, gone, *blocks in listed if gone and covers(*blocks)}

    def _check_there(self, pair: Pair) -> None:
        """Make sure that a staging table without parts is there: it has given them to the target.

        One that is gone says nothing: somebody else may be about to attach what it held.

        Raises:
            EngineError: it is gone.
        """
        found = self._ask(
            f"SELECT 1 FROM system.tables WHERE database = {quote(pair.database)} "
            f"AND name = {quote(pair.staging)}"
        )
        if not found:
            raise EngineError(
                f"the staging table {pair.database}.{pair.staging} is gone", code=UNKNOWN_TABLE
            )

    def _was_merged(
        self, query_id: str, pair: Pair, move: Move, own: str, known: int, others: _Others
    ) -> bool:
        """Tell whether parts that are not listed have arrived, were merged and cleared away.

        Args:
            own: uuids of the attempt's parts.
            known: rows of the attempt's parts in this partition that are listed.
            others: says how many rows other attempts have added.
        """
        if not self._hides_something(pair, move, own):
            return False
        done = self.engine.finished(query_id)
        if done is not None:
            return done
        least, most = others.added(move)
        gained, engine = self._gained(pair, move)
        # Only at its bounds does a sum say what each of its terms is. The lower one says nothing
        # where rows of equal keys are united: ours may have come and been united with others.
        came = gained == most + move.rows
        missing = gained == least + known and engine in KEEP_ROWS
        # Others may have published while it was read: then it is a sum of other terms.
        if (came or missing) and others.added(move) == (least, most):
            return came
        # Evidence.UNDECIDED, so Action.STOP.
        raise LedgerError(
            f"partition {move.partition_id} of {pair.database}.{pair.table} was changed after a "
            f"load was interrupted: {gained:,} rows were added, {known:,} or {move.rows:,} "
            f"expected{', and other loads have added some, too' if most else ''}",
            hint=f"The rows that are not yet visible are in {pair.database}.{pair.staging}; "
            "compare, then drop one of the two by hand.",
        )

    def _hides_something(self, pair: Pair, move: Move, own: str) -> bool:
        """Tell whether a merged part holds blocks since the commit that no listed part explains.

        Outdated parts (merged since) stay listed for some minutes, and whatever is inserted or
        attached has a block of its own. A part of ours explains nothing: it may be listed only now,
        because a table that was just opened lists its outdated parts bit by bit.

        Args:
            own: uuids of the attempt's parts.
        """
        rows = self._ask(
            "SELECT min_block_number, max_block_number, active, toString(uuid) = "
            f"{quote(NO_UUID)} AND NOT (level = 0 AND data_version = min_block_number), "
            f"toString(uuid) IN ({own}) "
            f"FROM system.parts WHERE {_of(pair.database, pair.table)} AND partition_id = "
            f"{quote(move.partition_id)} AND max_block_number > {move.highest_block}"
        )
        known = {first for first, _, _, merged, ours in rows if not (merged or ours)}
        return any(
            block not in known
            for first, last, active, merged, _ in rows
            if active and merged
            for block in range(max(first, move.highest_block + 1), last + 1)
        )

    def _gained(self, pair: Pair, move: Move) -> tuple[int, str]:
        """Return the rows that the partition has gained since the commit, and the table's engine.

        What plain inserts of others have brought is not counted.
        """
        ((foreign, now, engine),) = self._ask(
            f"SELECT sumIf(rows, max_block_number > {move.highest_block} AND toString(uuid) = "
            f"{quote(NO_UUID)} AND level = 0 AND data_version = min_block_number), "
            f"sumIf(rows, active), any(engine) FROM system.parts WHERE "
            f"{_of(pair.database, pair.table)} AND partition_id = {quote(move.partition_id)}"
        )
        return int(now - move.rows_before - foreign), str(engine)

    def _ask(self, text: str) -> list[list[Any]]:
        return self.engine.ask(text, lane=self.lane)

    def _run(self, text: str, query_id: str = "") -> None:
        self.engine.run(Statement(SqlText.of(text), query_id=query_id), lane=self.lane)


@dataclass(frozen=True, slots=True)
class _Others:
    """Answers how many rows other attempts have added beside one attempt."""

    leases: Leases
    attempt: str
    node: str

    def added(self, move: Move) -> tuple[int, int]:
        """Return the least and the most rows that others have added to a move's partition."""
        return self.leases.added(self.attempt, move, self.node)


# --- replicated tables after an outage of Keeper --------------------------------------------------
#
# An ATTACH whose answer from Keeper is lost is taken back by the replica. Keeper may have carried
# it out all the same: then the replica fetches the parts again, from another one or never.


class _Blocks:
    """The blocks that the active parts of a table hold."""

    def __init__(self, ask: Ask, pair: Pair) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for partition, first, last in ask(
            "SELECT partition_id, min_block_number, max_block_number FROM system.parts "
            f"WHERE {sql.table_is(pair.database, pair.table)} AND active"
        ):
            self._ranges[partition].append((first, last))

    def __call__(self, partition: str, first: int, last: int) -> bool:
        return any(low <= first and last <= high for low, high in self._ranges[partition])


def _wait_for_keeper(ask: Ask, pair: Pair, moves: Sequence[Move]) -> bool:
    """Wait until a replicated table has what Keeper says it was given since the commit.

    Returns:
        Whether the table is replicated.

    Raises:
        EngineError: Keeper stays away, or parts that it knows do not come.
    """
    deadline = time.monotonic() + KEEPER_SECONDS
    since = {move.partition_id: move.highest_block for move in moves}
    while True:
        try:
            rows = ask(
                "SELECT is_readonly OR is_session_expired, replica_path FROM system.replicas "
                f"WHERE {sql.table_is(pair.database, pair.table)}"
            )
        except RowfallError as error:
            if error.code != ACCESS_DENIED or _is_replicated(ask, pair):
                raise
            return False  # loads of such tables need no right to see replicas
        if not rows:
            return False
        awaited = [] if rows[0][0] else _awaited(ask, pair, since, rows[0][1])
        if not rows[0][0] and not awaited:
            return True
        if time.monotonic() > deadline:
            what = f"part {awaited[0]}" if awaited else "a session"
            raise EngineError(
                f"{pair.database}.{pair.table} has waited {KEEPER_SECONDS:.0f} seconds for {what} "
                "from Keeper",
                hint="Run the same command again when SELECT * FROM system.replicas shows no "
                "read-only table: what is loaded is not loaded twice.",
            )
        time.sleep(POLL_SECONDS)


def _is_replicated(ask: Ask, pair: Pair) -> bool:
    return bool(ask(
        "SELECT 1 FROM system.tables WHERE engine LIKE 'Replicated%' AND "
        f"database = {quote(pair.database)} AND name = {quote(pair.table)}"
    ))  # fmt: skip


def _awaited(ask: Ask, pair: Pair, since: dict[str, int], path: str) -> list[str]:
    """Return the parts newer than the commit that Keeper lists for this replica and it lacks."""
    try:
        names = ask(f"SELECT name FROM system.zookeeper WHERE path = {quote(path + '/parts')}")
    except RowfallError as error:
        if error.code == ACCESS_DENIED:
            return []  # not for this user to see: what the table lists has to do
        if not error.transient:
            raise
        return ["(not known)"]
    covers = _Blocks(ask, pair)
    awaited = []
    for (name,) in names:
        partition, first, last = str(name).split("_")[:3]
        newer = partition in since and int(first) > since[partition]
        if newer and not covers(partition, int(first), int(last)):
            awaited.append(str(name))
    return awaited
