"""Attach staged parts to their table: count them, attach them, find out which ones have arrived.

One ``ALTER TABLE target ATTACH PARTITION ALL FROM staging`` makes every part of an attempt visible
under one lock; in a replicated table it commits the parts of one partition after the other. It
links files, 0.1 to 0.3 ms a part: 168 parts in 0.06 s, where moving their 56 partitions one after
another took 0.17 s (chDB 26.9). Staging gives every part a uuid, which stays in the part's
checksums: after a crash that tells which parts the target has, and a replicated table does not take
a second load of equal rows for a repetition of the first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from rowfall.contracts.receiver import Staged
from rowfall.core import disk, sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, LedgerError, RowfallError, TargetError
from rowfall.core.model import Column, StagingPair, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine, started_within
from rowfall.ledger import Ledger
from rowfall.ledger.leases import Leases, NoLeases, StagedPartition
from rowfall.ledger.ledger import coming
from rowfall.publish.altered import AlteredTableError, alter_alike, wait_for_mutations
from rowfall.publish.evidence import LoadedAnswer, Search, StagedPart, change_times, check_staging
from rowfall.publish.fence import publish_id, renamed
from rowfall.publish.protocol import Action, Evidence, Recorded, after_crash
from rowfall.publish.target_tables import OwnTable
from rowfall.systems.clickhouse.codes import ACCESS_DENIED, NOT_ALIKE

# What a part costs when it is attached, dropped and merged later.
SECONDS_PER_PART = 0.0005
MERGE_BYTES_PER_SECOND = 300e6
# Attempts are counted and attached here while the next ones are inserted.
PUBLISH_LANE = 1
# Parts of an attempt that are remembered, to take its rows out again: 100 bytes each in the ledger.
# More are merged within minutes.
MOST_IDS = 1_000
# A table that is altered again while staging is altered like it is compared once more.
MOST_ALTERED = 3
_of = sql.table_is


@dataclass(frozen=True, slots=True)
class _Partition:
    """A staged partition, and what the target holds in it.

    Attributes:
        rows, parts, size: that are staged; bytes on disk.
        others: rows of the target.
        block: the highest of the target's parts, those not active included; -1 without any.
        there: active parts of the target.
        uuids: of the staged parts.
        files: (name, path) of each staged part, in a folder.
    """

    id: str
    rows: int
    parts: int
    size: int
    others: int
    block: int
    there: int
    uuids: Sequence[str] = ()
    files: Sequence[tuple[str, str]] = ()


def pairs_of(moves: Sequence[StagedPartition]) -> list[StagingPair]:
    """Return the tables of an attempt that still have to be attached, in order, each once."""
    return list(dict.fromkeys(m.pair for m in moves if m.state == "pending"))


class StagingLostError(EngineError):
    """Staging does not hold the rows any more that were counted in it."""


class Publisher:
    """Publishes attempts: any pairs of a table and its staging table.

    Args:
        engine, ledger: where statements run and facts are kept.
        lane: the engine lane that is used.
        answer: what ``--loaded`` says of parts that no evidence decides, see :class:`Search`.
    """

    def __init__(
        self, engine: Engine, ledger: Ledger, lane: int = 0, answer: LoadedAnswer | None = None
    ) -> None:
        self.engine = engine
        self.ledger = ledger
        self.lane = lane
        self.answer = answer or LoadedAnswer()

    def staged(
        self, pairs: Sequence[StagingPair], row_bytes: float, fixed: Collection[str] = ()
    ) -> Staged:
        """Count staging, merging its small parts first where attaching them would cost more.

        Args:
            pairs: the target's own first.
            row_bytes: of a row in memory, about.
            fixed: staging tables that may not be merged: a merge would unite or expire rows.
        """
        rows = parts = size = fullest = 0
        moves: list[StagedPartition] = []
        ids: list[tuple[str, str]] = []
        for number, pair in enumerate(pairs):
            found = self._partitions(pair)
            own_rows, own_parts = sum(f.rows for f in found), sum(f.parts for f in found)
            rows = own_rows if number == 0 else rows
            parts, size = parts + own_parts, size + sum(f.size for f in found)
            saved = (own_parts - len(found)) * SECONDS_PER_PART
            cost = 2 * own_rows * row_bytes / MERGE_BYTES_PER_SECOND
            if saved > max(cost, 0.05) and pair.staging not in fixed:
                self._merge(pair)
                found = self._partitions(pair)
            moves += self._moves(pair, found)
            ids += ((pair.staging, uuid) for f in found for uuid in f.uuids)
            fullest = max(fullest, *(f.there for f in found), 0)
        return Staged(rows, parts, size, tuple(moves), fullest, tuple(ids[: MOST_IDS + 1]))

    def _merge(self, pair: StagingPair) -> None:
        """Merge the parts of a staging table; a user without that right attaches small ones."""
        try:
            self._run(f"OPTIMIZE TABLE {sql.qualified(pair.database, pair.staging)} FINAL")
        except RowfallError as error:
            if error.code != ACCESS_DENIED:
                raise

    def _partitions(self, pair: StagingPair) -> list[_Partition]:
        """Return the partitions of a staging table, each with what the target holds in it now.

        In one statement: each that reads system.parts takes 6 CPU-ms.
        """
        own = f"table = {quote(pair.staging)} AND active AND rows > 0"
        there = f"table = {quote(pair.table)}"
        # Files of a server are not to be seen from here.
        files = "" if self.engine.shared else f", groupArrayIf((name, path), {own})"
        rows = self._ask(
            f"SELECT partition_id, sumIf(rows, {own}), countIf({own}) AS parts, "
            f"sumIf(bytes_on_disk, {own}), sumIf(rows, {there} AND active), "
            f"if(countIf({there}) > 0, maxIf(max_block_number, {there}), -1), "
            f"countIf({there} AND active), groupArrayIf(toString(uuid), {own}){files} "
            f"FROM system.parts WHERE database = {quote(pair.database)} AND "
            f"table IN ({quote(pair.staging)}, {quote(pair.table)}) GROUP BY partition_id "
            "HAVING parts > 0 ORDER BY partition_id"
        )
        return [_Partition(*row) for row in rows]

    def _moves(self, pair: StagingPair, found: Sequence[_Partition]) -> list[StagedPartition]:
        """Return a StagedPartition for each partition of a staging table, to be attached."""
        moves = [
            StagedPartition(
                pair.database, pair.table, pair.staging, f.id, f.rows, f.others, f.block
            )
            for f in found
        ]
        if self.engine.shared:
            return moves
        noted = self._staged_at(found)
        return [replace(move, staged_at=noted.get(move.partition_id, 0)) for move in moves]

    def _staged_at(self, found: Sequence[_Partition]) -> dict[str, int]:
        """Return when the files of each :class:`StagedPartition` were changed last.

        Waits until any later change must have a later time: the kernel's clock goes by steps.
        """
        times = change_times((f.id, name, path) for f in found for name, path in f.files)
        if not disk.is_past(max((t for x in times.values() for t in x.values()), default=0)):
            return {}
        return {name: max(own.values()) if all(own.values()) else 0 for name, own in times.items()}

    def checksum(self, database: str, table: str, columns: Sequence[Column]) -> tuple[int, int]:
        """Return the rows of a table and the sum of their hashes, modulo 2^64."""
        ((rows, total),) = self._ask(
            f"SELECT {sql.checksum(columns)} FROM {sql.qualified(database, table)}"
        )
        return int(rows), int(total or 0)

    def publish(
        self, attempt_id: str, moves: Sequence[StagedPartition], own: OwnTable | None = None,
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
        # Before the rows: whoever has some of them has a mark that an older ledger does not know.
        # Behind them another one: a newer ledger knows that they have all come.
        uuid = "" if self.engine.shared else self.ledger.marks(attempt_id)
        if uuid:
            # At once: a power cut may keep the rows that are attached, and lose a mark that is in
            # the kernel's memory only. An older ledger would take them for those it knows.
            self.engine.mark(uuid, coming(attempt_id), at_once=True)
        for pair in pairs:
            try:
                search = self._search(attempt_id, pair, moves, leases, node)
                self._attach(search, moves, own)
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
        if uuid:
            self.engine.mark(uuid, attempt_id)

    def check_own(self, moves: Sequence[StagedPartition], own: OwnTable | None) -> None:
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
        self, search: Search, moves: Sequence[StagedPartition], own: OwnTable | None
    ) -> None:
        """Attach one table, after it was altered like its target where somebody has altered that.

        Raises:
            AlteredTableError: it cannot be altered alike.
            TargetError: another table has taken the name.
        """
        pair = search.pair
        target = sql.qualified(pair.database, pair.table)
        staging = sql.qualified(pair.database, pair.staging)
        statement = f"ALTER TABLE {target} ATTACH PARTITION ALL FROM {staging}"
        for left in reversed(range(MOST_ALTERED)):
            try:
                self._run(statement, search.query_id)
                return
            except RowfallError as error:
                if error.code not in NOT_ALIKE:
                    raise
                refused = error
            self.check_own(moves, own)
            # A replicated table compares before each partition, so it may have taken some. Parts
            # that are altered get other UUIDs: what has arrived has to be dropped before.
            self.engine.sync()
            if not self._settle_pair(search):
                return
            if not left:
                raise AlteredTableError(
                    f"the rows in {pair.database}.{pair.staging} do not fit {pair.database}."
                    f"{pair.table}, which was altered: {refused.message}",
                    code=refused.code,
                    hint=f"Alter {staging} in the same way, then run the same command again.",
                )
            alter_alike(self.engine, pair, self.lane)

    def take_back(self, moves: Sequence[StagedPartition]) -> None:
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

    def check_staged(self, moves: Sequence[StagedPartition]) -> None:
        """Check, after a sync, that staging holds what was counted.

        A server that was without power between INSERT and sync has lost it, and no error tells.

        Raises:
            StagingLostError: rows are missing.
        """
        for pair in pairs_of(moves):
            ((rows,),) = self._ask(
                "SELECT sum(rows) FROM system.parts WHERE "
                f"{_of(pair.database, pair.staging)} AND active"
            )
            counted = sum(m.rows for m in moves if m.pair == pair)
            if rows != counted:
                raise StagingLostError(
                    f"{pair.database}.{pair.staging} holds {rows:,} of the {counted:,} rows that "
                    "were counted: was the server's machine without power?",
                    hint="Run the same command again.",
                    transient=True,
                )

    def check_not_restarted(self, seconds: float) -> None:
        """Check, after a sync, that the server was not started in the last ``seconds``.

        What views have made of staged rows is counted in their own tables only: without power a
        server may keep the former and lose the latter.

        Raises:
            StagingLostError: it was.
        """
        if started_within(self.engine, seconds, lane=self.lane):
            raise StagingLostError(
                "the server was started again after rows had been staged, and what its views have "
                "made of them may be lost",
                hint="Run the same command again.",
                transient=True,
            )

    def check_attached(
        self,
        attempt_id: str,
        moves: Sequence[StagedPartition],
        leases: Leases | None = None,
        node: str = "",
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
        self,
        attempt_id: str,
        moves: Sequence[StagedPartition],
        leases: Leases | None = None,
        node: str = "",
    ) -> list[StagedPartition]:
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
        settled = [m for m in moves if m.state != "pending"]
        for pair in pairs_of(moves):
            search = self._search(attempt_id, pair, moves, leases, node)
            left = self._settle_pair(search, attempt_id)
            if not left:
                self.ledger.attached(attempt_id, pair.staging)
            state = "pending" if left else "attached"
            settled += [replace(m, state=state) for m in moves if m.pair == pair]
        return settled

    def _search(
        self,
        attempt_id: str,
        pair: StagingPair,
        moves: Sequence[StagedPartition],
        leases: Leases | None,
        node: str,
    ) -> Search:
        """Return the Search for the parts of one staging table in its target table."""
        others = leases or NoLeases()
        return Search(
            self.engine, self.lane, pair, [m for m in moves if m.pair == pair],
            publish_id(attempt_id, pair), lambda move: others.added(attempt_id, move, node),
            frozenset((m.database, m.table) for m in moves), self.answer,
        )  # fmt: skip

    def _settle_pair(self, search: Search, attempt_id: str = "") -> bool:
        """Drop from staging what the target has; return True when something is left to attach.

        Args:
            attempt_id: whose rows they are, where the mark of them may be lost.
        """
        pair = search.pair
        wait_for_mutations(self.engine, pair, self.lane)
        left = [StagedPart(*row) for row in self._ask(
            "SELECT name, toString(uuid), partition_id, rows FROM system.parts "
            f"WHERE {_of(pair.database, pair.staging)} AND active AND rows > 0"
        )]  # fmt: skip
        if not left:
            # One without parts has given them to the target; one that is gone says nothing.
            check_staging(self._ask, pair)
            return False
        there = search.arrived(left)
        uuid = self.ledger.marks(attempt_id) if attempt_id and not self.engine.shared else ""
        whole = sum(part.rows for part in left) == sum(move.rows for move in search.moves)
        if uuid and there and whole:
            # A power cut may leave rows and lose the mark that was written before them. When they
            # are gone from staging, nothing else tells that they have all been there.
            self.engine.mark(uuid, coming(attempt_id))
            self.engine.sync()
        found = Evidence.SOME_PARTS if there else Evidence.NO_PARTS
        if len(there) == len(left):
            found = Evidence.ALL_PARTS
        action = after_crash(Recorded.COMMITTED, found)
        if action is Action.ATTACH_REST:
            staging = sql.qualified(pair.database, pair.staging)
            for part in left:
                if part.name in there:
                    self._run(f"ALTER TABLE {staging} DROP PART {quote(part.name)}")
        return action is not Action.RECORD

    def _ask(self, text: str) -> list[list[Any]]:
        return self.engine.ask(text, lane=self.lane)

    def _run(self, text: str, query_id: str = "") -> None:
        # Parts come and go, tables stay as they are.
        statement = Statement(SqlText.of(text), query_id=query_id, alters=None)
        self.engine.run(statement, lane=self.lane)
