"""Find out after a crash which parts of a staging table its target has.

A part whose UUID the target lists is there. About every other one the target's blocks are asked,
its number of rows, and a sample of the rows. People may have detached, dropped or moved parts:
whatever contradicts the rest stops the load. What is concluded from the traces is
:func:`rowfall.publish.protocol.judge`; ``docs/concepts/exactly-once.md`` gives the reasons.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowfall.core import disk, sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, LedgerError, RowfallError
from rowfall.core.model import Ask, Column, StagingPair
from rowfall.core.options import ALL, NONE
from rowfall.core.sqltext import quote, quoted_list
from rowfall.engines.base import Engine
from rowfall.ledger.leases import AddedRows, StagedPartition
from rowfall.publish.protocol import Evidence, Traces, judge
from rowfall.systems.clickhouse.codes import ACCESS_DENIED, GONE, UNKNOWN_TABLE
from rowfall.targets.base import STAGING_PREFIX

_of = sql.table_is
# Engines whose merges leave every row as it is.
KEEP_ROWS = ("MergeTree", "ReplicatedMergeTree", "SharedMergeTree")
NO_UUID = "00000000-0000-0000-0000-000000000000"
# Of the missing rows of a partition about so many are looked for, and more of very many parts.
SAMPLE_ROWS, MOST_SAMPLE_ROWS = 64, 1000
# Values of these have no hash on every version.
_WITHOUT_HASH = ("AggregateFunction(", "Dynamic", "JSON", "Object(", "Variant(")
# Names of the file that every part has, and that an ATTACH links like all others.
CHECKSUMS = "checksums.txt"


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A part that staging holds."""

    name: str
    uuid: str
    partition: str
    rows: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A part as the target lists it, active or outdated.

    Attributes:
        version: the block of the last mutation, or that of the part itself.
        engine: of the table.
    """

    name: str
    first: int
    last: int
    active: bool
    rows: int
    level: int
    version: int
    uuid: str
    engine: str

    @property
    def plain(self) -> bool:
        """True for a part as an INSERT of others leaves it; ATTACH PART leaves the same."""
        return self.uuid == NO_UUID and not self.level and self.version == self.first

    @property
    def merged(self) -> bool:
        """True for a part that merges or mutations have made: it hides what it is made of."""
        return self.uuid == NO_UUID and not self.plain


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of the target, compared with what was counted.

    Attributes:
        move: what it held then.
        own: UUIDs of the attempt's parts.
    """

    move: StagedPartition
    parts: tuple[Listed, ...]
    own: frozenset[str]

    @property
    def keeps_rows(self) -> bool:
        """True where merges leave every row as it is."""
        return not self.parts or self.parts[0].engine in KEEP_ROWS

    @property
    def newer(self) -> list[Listed]:
        """Return the parts with blocks that came after the count."""
        return [p for p in self.parts if p.last > self.move.highest_block]

    @property
    def older(self) -> list[Listed]:
        """Return the active parts with rows that have blocks of before the count."""
        return [p for p in self.parts
                if p.active and p.rows and p.first <= self.move.highest_block]  # fmt: skip

    @property
    def removed(self) -> str:
        """Say how the parts themselves show that something was taken out; "" where they do not."""
        if self.move.rows_before and not self.older:
            return (f"none of the parts is left in which it held {self.move.rows_before:,} rows "
                    "then")  # fmt: skip
        # DROP, DETACH, MOVE and TRUNCATE put an empty part over what they take away.
        if any(not p.rows for p in self.newer):
            return "parts that came since were dropped, detached or moved"
        return ""

    @property
    def has_unlisted_blocks(self) -> bool:
        """True when a merged part holds blocks since the count that no listed part explains.

        Outdated parts (merged since) stay listed for some minutes, and whatever is inserted or
        attached has a block of its own. A part of ours explains nothing: it may be listed only now,
        because a table that was just opened lists its outdated parts bit by bit.
        """
        known = {p.first for p in self.newer if not (p.merged or p.uuid in self.own)}
        return any(
            block not in known
            for p in self.newer if p.active and p.merged
            for block in range(max(p.first, self.move.highest_block + 1), p.last + 1)
        )  # fmt: skip

    @property
    def renumbered(self) -> bool:
        """True when the old blocks hold another number of rows than was counted.

        After a restart ATTACH PART may give a number again that was used before.
        """
        kept = sum(p.rows for p in self.older if p.last <= self.move.highest_block)
        if kept > self.move.rows_before:
            return True
        united = any(p.last > self.move.highest_block for p in self.older) or not self.keeps_rows
        return kept < self.move.rows_before and not united

    @property
    def has_unexplained_rows(self) -> bool:
        """True when it holds rows that are not known to be those of others."""
        return self.renumbered or any(p.active and p.rows and p.plain for p in self.newer)

    @property
    def unrelated_parts(self) -> list[str]:
        """Return the names of active parts that hold none of the missing rows."""
        old = [] if self.renumbered else [
            p for p in self.older if p.last <= self.move.highest_block
        ]  # fmt: skip
        others = [
            p for p in self.parts if p.active and p.uuid not in (NO_UUID, *self.own)
        ]  # fmt: skip
        return sorted({p.name for p in (*old, *others)})

    @property
    def rows_added(self) -> int:
        """Return the rows that came since the count, without those of plain inserts of others."""
        now = sum(p.rows for p in self.parts if p.active)
        return now - self.move.rows_before - sum(p.rows for p in self.newer if p.plain)


@dataclass(slots=True)
class LoadedAnswer:
    """Answer of ``--loaded`` about parts that nothing decides; remembers whether it was needed.

    Attributes:
        text: ALL, they are in the target; NONE; any other decides nothing.
    """

    text: str | None = None
    used: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """Looks for the parts of one staging table in its target.

    Attributes:
        moves: what was counted for this pair.
        query_id: of the statement that attaches them.
        added: tells what other attempts may have brought into a move's partition since.
        tables: (database, name) of all that the attempt brings rows into.
        answer: about parts that nothing decides.
    """

    engine: Engine
    lane: int
    pair: StagingPair
    moves: Sequence[StagedPartition]
    query_id: str
    added: Callable[[StagedPartition], AddedRows]
    tables: frozenset[tuple[str, str]]
    answer: LoadedAnswer

    def arrived(self, left: Sequence[StagedPart]) -> set[str]:
        """Return the names of the parts that the target has, or had until they were removed.

        Args:
            left: all that staging holds.

        Raises:
            LedgerError: the target was changed meanwhile, so nothing is certain.
            EngineError: Keeper is away.
        """
        from rowfall.publish.replicas import listed_parts  # 17 kB of code for after crashes

        listed = listed_parts(self.engine, self.lane, self.pair, self.moves, [p.uuid for p in left])
        there = {p.name for p in left if p.uuid in listed}
        missing = [p for p in left if p.name not in there]
        unknown = missing if self.engine.shared else self._linked(missing)
        if not unknown:
            return there
        # Of before a restart it proves nothing: a power cut may have taken the parts, not the log.
        if self.engine.finished(self.query_id, since_start=True):
            return {p.name for p in left}
        wanted = {p.partition for p in unknown}
        moves = [m for m in self.moves if m.partition_id in wanted]
        own = frozenset(p.uuid for p in left)
        partitions = self._partitions(moves, own)
        taken = self._moved(partitions, unknown) | self._taken(moves, unknown)
        for move in moves:
            name = move.partition_id
            parts = [p for p in unknown if p.partition == name]
            # What was dropped from staging by an earlier run has arrived as well.
            known = move.rows - sum(p.rows for p in missing if p.partition == name)
            removed = partitions[name].removed or taken.get(name, "")
            if self._has(partitions[name], parts, known, removed):
                there |= {p.name for p in parts}
        return there

    # --- parts by themselves ------------------------------------------------------------------

    def _linked(self, parts: Sequence[StagedPart]) -> list[StagedPart]:
        """Return the parts that may have been attached: all but those whose files nobody linked.

        ATTACH links files, and a link changes the time of change of a file: those that have the
        one from the count have never been in another table, whatever people have done there.
        """
        noted = {m.partition_id: m.staged_at for m in self.moves}
        if not any(noted.values()):
            return list(parts)
        times = change_times(self._ask(
            "SELECT partition_id, name, path FROM system.parts WHERE "
            f"{_of(self.pair.database, self.pair.staging)} AND active AND rows > 0"
        ))  # fmt: skip
        return [
            p for p in parts
            if not 0 < times.get(p.partition, {}).get(p.name, 0) <= noted.get(p.partition, 0)
        ]  # fmt: skip

    # --- partitions -----------------------------------------------------------------------------

    def _has(
        self, partition: Partition, parts: Sequence[StagedPart], known: int, removed: str
    ) -> bool:
        """Tell whether the target has parts that it does not list, all of one partition.

        Args:
            known: rows of the attempt's other parts in this partition that have arrived.
            removed: what says that something was taken out of it, "" for nothing.

        Raises:
            LedgerError: it cannot be known, and the user has not said it.
        """
        traces, why = (
            Traces(bool(removed), partition.has_unlisted_blocks, partition.has_unexplained_rows),
            removed,
        )
        if not removed and (traces.has_unlisted_blocks or traces.has_unexplained_rows):
            traces, why = self._count(partition, parts, known, traces)
        found = judge(traces)
        if found is not Evidence.UNDECIDED:
            return found is Evidence.ALL_PARTS
        check_staging(self._ask, self.pair)  # or another process has taken the attempt over
        if self.answer.text in (ALL, NONE):
            self.answer.used = True
            return self.answer.text == ALL
        table = f"{self.pair.database}.{self.pair.table}"
        raise LedgerError(
            f"partition {partition.move.partition_id} of {table} was changed after a load was "
            f"interrupted: {why}",
            hint=f"{self.pair.database}.{self.pair.staging} has {sum(p.rows for p in parts):,} "
            "rows of it that may be missing. Compare: load again with --loaded all if they have "
            f"been in {table}, otherwise with --loaded none.",
        )

    def _count(
        self, partition: Partition, parts: Sequence[StagedPart], known: int, traces: Traces
    ) -> tuple[Traces, str]:
        """Count what a partition has got and look for a sample of the rows.

        Returns:
            The traces with both, and what was found, in words.
        """
        move, rows = partition.move, sum(p.rows for p in parts)
        others = self.added(move)
        partition = self._partitions([move], partition.own)[move.partition_id]
        added = partition.rows_added
        counted = sums_up(partition, others, added - known, rows)
        # Between its bounds a sum of all terms may be that of a few, where rows were deleted.
        if counted is not None and added not in (others.most + known + rows, others.least + known):
            counted = None if self._mutated(move) else counted
        # Others may have published while it was read: then it is a sum of other terms.
        if counted is not None and self.added(move) != others:
            counted = None
        found = self._sample(parts, partition)
        if found is False and not traces.has_unlisted_blocks and self._mutated(move):
            found = None  # the rows may have other values now
        words = {True: "is there", False: "is not there", None: "is there in part, or not known"}
        why = (
            f"{added:,} rows were added, {known:,} or {known + rows:,} expected"
            + (", and other loads have added some, too" if others.most else "")
            + f"; a sample of them {words[found]}"
        )
        logged = bool(self.engine.finished(self.query_id))
        return replace(traces, counted=counted, found=found, logged=logged), why

    def _partitions(
        self, moves: Sequence[StagedPartition], own: frozenset[str]
    ) -> dict[str, Partition]:
        """Return the target's parts in the partitions of some moves, by partition id."""
        listed: dict[str, list[Listed]] = defaultdict(list)
        for name, *row in self._ask(
            "SELECT partition_id, name, min_block_number, max_block_number, active, rows, level, "
            "data_version, toString(uuid), engine FROM system.parts WHERE "
            f"{_of(self.pair.database, self.pair.table)} AND "
            f"partition_id IN ({quoted_list([m.partition_id for m in moves])})"
        ):
            listed[name].append(Listed(*row))
        return {m.partition_id: Partition(m, tuple(listed[m.partition_id]), own) for m in moves}

    def _taken(
        self, moves: Sequence[StagedPartition], parts: Sequence[StagedPart]
    ) -> dict[str, str]:
        """Say of partitions where parts were put that came since the count."""
        here = _of(self.pair.database, self.pair.table)
        highest = {m.partition_id: m.highest_block for m in moves}
        # What ClickHouse itself has put aside (broken, ignored) has other reasons.
        detached = self._ask_if_allowed(
            f"SELECT partition_id, name, max_block_number FROM system.detached_parts WHERE {here} "
            f"AND partition_id IN ({quoted_list(highest)}) AND "
            f"reason IN ('', 'attaching', 'deleting') AND modification_time >= {self._staged}"
        )
        found = {
            str(partition): f"the part {name} that came since is detached"
            for partition, name, last in detached if last > highest[partition]
        }  # fmt: skip
        elsewhere = self._ask(
            f"SELECT partition_id, database, table FROM system.parts WHERE toString(uuid) IN "
            f"({quoted_list([p.uuid for p in parts])}) AND NOT ({here}) AND "
            f"NOT startsWith(table, '{STAGING_PREFIX}')"
        )
        for partition, database, table in elsewhere:
            found[str(partition)] = f"parts of the load are in {database}.{table}"
        return found

    def _moved(
        self, partitions: Mapping[str, Partition], parts: Sequence[StagedPart]
    ) -> dict[str, str]:
        """Say of partitions where a merged part may have been moved that holds their rows.

        MOVE PARTITION gives it a single block and leaves its level. In a table that other loads
        have filled with the same rows, nearly all parts have UUIDs or several blocks.
        """
        rows = self._ask(
            "SELECT DISTINCT partition_id, database, table FROM system.parts WHERE "
            f"partition_id IN ({quoted_list(partitions)}) AND active AND rows > 0 AND level > 0 "
            f"AND min_block_number = max_block_number AND toString(uuid) = '{NO_UUID}' AND "
            f"NOT startsWith(table, '{STAGING_PREFIX}') AND modification_time >= {self._staged}"
        )
        found: dict[str, str] = {}
        for name, database, table in rows:
            own = [p for p in parts if p.partition == name]
            if (database, table) in self.tables:
                continue
            if self._sample(own, partitions[name], StagingPair(database, table, self.pair.staging)):
                found[str(name)] = f"rows of the load are in {database}.{table}"
        return found

    @property
    def _staged(self) -> str:
        """Return SQL for the time when the attempt was staged.

        The clock only tells what people did long before, such as detached parts of years ago.
        """
        at = _of(self.pair.database, self.pair.staging)
        return (
            f"(SELECT min(modification_time) FROM system.parts WHERE {at} AND active AND rows > 0)"
        )

    def _mutated(self, move: StagedPartition) -> bool:
        """Tell whether a mutation may have changed rows that came since the count."""
        found = self._ask_if_allowed(
            f"SELECT count() FROM system.mutations WHERE "
            f"{_of(self.pair.database, self.pair.table)} AND "
            f"arrayExists(n -> n > {move.highest_block}, block_numbers.number)"
        )
        return found != [[0]]

    def _ask_if_allowed(self, text: str) -> list[list[Any]]:
        """Return the rows of a SELECT; none for a user who may not read the system's table."""
        try:
            return self._ask(text)
        except RowfallError as error:
            if error.code != ACCESS_DENIED:
                raise
            return []

    # --- a sample of the rows -------------------------------------------------------------------

    def _sample(
        self, parts: Sequence[StagedPart], partition: Partition, other: StagingPair | None = None
    ) -> bool | None:
        """Tell whether the target has the rows of some parts: all of a sample, or none of it.

        Where merges unite rows of equal keys, keys are looked for in place of rows. Parts that are
        merged meanwhile get new names: those that need not be searched are named, not the others.

        Args:
            other: a table that is searched in place of the target.

        Returns:
            None where it has a part of the sample, or where it cannot be asked.
        """
        at = other or self.pair
        target = sql.qualified(at.database, at.table)
        staged = sql.qualified(self.pair.database, self.pair.staging)
        here = f"_partition_id = {quote(partition.move.partition_id)}"
        step = max(1, sum(p.rows for p in parts) // SAMPLE_ROWS)
        try:
            hashed, key = self._hashed(keys=not partition.keeps_rows)
            if not hashed:
                return None
            rows = self._ask(
                f"SELECT {hashed} FROM {staged} WHERE {here} AND "
                f"_part IN ({quoted_list([p.name for p in parts])}) AND _part_offset % {step} = 0 "
                f"LIMIT {MOST_SAMPLE_ROWS}"
            )
            hashes = sorted({int(value) for (value,) in rows})
            if not hashes:
                return None
            same = f"{hashed} IN ({', '.join(map(str, hashes))})"
            # The primary index finds the rows of a sample in a table of any size.
            near = f" AND ({key}) IN (SELECT {key} FROM {staged} WHERE {here} AND {same})"
            unrelated = [] if other else partition.unrelated_parts
            apart = f" AND _part NOT IN ({quoted_list(unrelated)})"
            ((found,),) = self._ask(
                f"SELECT uniqExact({hashed}) FROM {target} WHERE {here} AND {same}"
                f"{near * bool(key)}{apart * bool(unrelated)}"
            )
        except RowfallError as error:
            # Another process may have taken the attempt over, and renamed or dropped staging.
            if error.transient or (error.code in GONE and other is None):
                raise
            return None
        if not found:
            return False
        return True if int(found) == len(hashes) else None

    def _hashed(self, *, keys: bool) -> tuple[str, str]:
        """Return SQL for the hash of a row that both tables have, and for its sorting key.

        Args:
            keys: only of the columns of the sorting key.

        Returns:
            "" for the hash where no column has one, and for a key that cannot be looked for.

        Raises:
            EngineError: staging is gone.
        """
        database, table, staging = self.pair.database, self.pair.table, self.pair.staging
        key = check_staging(self._ask, self.pair)
        rows = self._ask(
            "SELECT name, type, max(is_in_sorting_key) FROM system.columns WHERE "
            f"database = {quote(database)} AND table IN ({quote(table)}, {quote(staging)}) AND "
            # A column that was added since may have another default value in either of them.
            "default_kind = '' GROUP BY name, type HAVING count() = 2 "
            "ORDER BY name"
        )
        chosen = [
            Column(name, kind) for name, kind, of_key in rows
            if (of_key or not keys) and not any(word in kind for word in _WITHOUT_HASH)
        ]  # fmt: skip
        null = any(of_key and "Nullable(" in kind for _, kind, of_key in rows)
        # A key of 25.11 and newer may go down, which cannot be written here.
        usable = not null and " DESC" not in key
        return (sql.row_hash(chosen) if chosen else ""), (key if usable else "")

    def _ask(self, text: str) -> list[list[Any]]:
        return self.engine.ask(text, lane=self.lane)


def sums_up(partition: Partition, others: AddedRows, added: int, rows: int) -> bool | None:
    """Tell whether rows are among those that were added; None where either may make the sum.

    Args:
        added: without what is known to have arrived.
    """
    if not partition.keeps_rows:
        # Rows of equal keys are united: ours may have come and been united with others. A sum of
        # all of them says that none was.
        return True if added == others.most + rows else None
    ours, apart = others.may_be(added - rows), others.may_be(added)
    return None if ours == apart else ours


def check_staging(ask: Ask, pair: StagingPair) -> str:
    """Make sure that a staging table is there; return its sorting key.

    Raises:
        EngineError: it is gone, and somebody else may be about to attach what it held.
    """
    found = ask(
        f"SELECT sorting_key FROM system.tables WHERE database = {quote(pair.database)} AND "
        f"name = {quote(pair.staging)}"
    )
    if not found:
        raise EngineError(
            f"the staging table {pair.database}.{pair.staging} is gone", code=UNKNOWN_TABLE
        )
    return str(found[0][0])


def change_times(parts: Iterable[Sequence[str]]) -> dict[str, dict[str, int]]:
    """Return when the files of staged parts were changed or linked last, in ns.

    By partition, then by part; 0 where that is not known.

    Args:
        parts: (partition, name, path) of each.
    """
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for partition, name, path in parts:
        found[partition][name] = disk.changed_at(Path(str(path), CHECKSUMS))
    return found
