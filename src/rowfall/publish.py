"""From staging to visible: count, merge small parts where that is cheaper, MOVE PARTITION.

Sources of the numbers: one MOVE costs 0.7 to 1.4 ms per part; merging 10 million narrow rows of
560 parts into 56 took 0.16 s and saved 0.75 s of moving (docs/concepts/exactly-once.md).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rowfall import sql
from rowfall.engines.base import Engine
from rowfall.errors import LedgerError
from rowfall.ledger import Ledger, Move
from rowfall.model import Statement
from rowfall.sqltext import SqlText, quote

SECONDS_PER_PART_MOVED = 0.001
MERGE_BYTES_PER_SECOND = 300e6
# Moves of different partitions run side by side; more than four did not help (part locks).
MOVE_LANES = 4
FIRST_MOVE_LANE = 10
# Partitions per ledger commit: a commit costs a disk flush, as much as a MOVE or two.
MOVES_PER_COMMIT = 32


@dataclass(frozen=True, slots=True)
class Staged:
    """What an attempt left in staging: rows, parts, bytes on disk; moves by partition."""

    rows: int
    parts: int
    bytes: int
    moves: tuple[Move, ...]


def ask(engine: Engine, text: str, *, lane: int = 0) -> list[list[Any]]:
    """Rows of a small SELECT as Python values; 64-bit integers arrive as numbers."""
    statement = Statement(
        SqlText.of(text),
        {"output_format_json_quote_64bit_integers": 0},
        format="JSONCompactEachRow",
    )
    return read_rows(engine.run(statement, lane=lane).data)


def read_rows(data: bytes) -> list[list[Any]]:
    """Rows of JSONCompactEachRow; text of any bytes comes through (surrogateescape)."""
    # strict: the engine writes control characters of broken text as they are.
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [json.loads(line, strict=False) for line in lines if line]


def checksum(columns: Sequence[str]) -> str:
    """SQL for (rows, sum of a hash over ``columns``); NULLs count because a tuple is hashed."""
    names = ", ".join(sql.name(c) for c in columns)
    # The sum wraps at 2^64 on both sides alike; duplicates change it, order does not.
    return f"count(), sum(cityHash64(tuple({names})))"


class Publisher:
    """Publishes attempts into one MergeTree table.

    Args:
        engine, ledger: where statements run and facts are kept.
        database, table: the target.
        lane: the engine lane that is used for everything but parallel moves.
    """

    def __init__(
        self, engine: Engine, ledger: Ledger, database: str, table: str, lane: int = 0
    ) -> None:
        self.engine = engine
        self.ledger = ledger
        self.database = database
        self.table = table
        self.lane = lane

    def staged(self, staging: str, row_bytes: float) -> Staged:
        """Count staging, merging its small parts first where moving them would cost more."""
        rows, parts, size, partitions = self._totals(staging)
        saved = (parts - partitions) * SECONDS_PER_PART_MOVED
        if saved > 2 * rows * row_bytes / MERGE_BYTES_PER_SECOND and saved > 0.05:
            self._run(f"OPTIMIZE TABLE {sql.qualified(self.database, staging)} FINAL")
        return Staged(rows, parts, size, self._moves(staging))

    def _totals(self, staging: str) -> tuple[int, int, int, int]:
        ((rows, parts, size, partitions),) = ask(
            self.engine,
            "SELECT sum(rows), count(), sum(bytes_on_disk), uniqExact(partition_id) "
            f"FROM system.parts WHERE {self._of(staging)} AND active AND rows > 0",
            lane=self.lane,
        )
        return rows, parts, size, partitions

    def _moves(self, staging: str) -> tuple[Move, ...]:
        """Partitions of staging, each with what the target holds in it now."""
        before = {
            partition: (rows, block)
            for partition, rows, block in ask(
                self.engine,
                "SELECT partition_id, sumIf(rows, active), max(max_block_number) "
                f"FROM system.parts WHERE {self._of(self.table)} GROUP BY partition_id",
                lane=self.lane,
            )
        }
        staged = ask(
            self.engine,
            "SELECT partition_id, sum(rows) FROM system.parts "
            f"WHERE {self._of(staging)} AND active AND rows > 0 GROUP BY partition_id",
            lane=self.lane,
        )
        return tuple(
            Move(partition, rows, *before.get(partition, (0, -1)), "pending")
            for partition, rows in sorted(staged)
        )

    def checksum(self, table: str, columns: Sequence[str]) -> tuple[int, int]:
        """Rows of a table of this database and the sum of their hashes, modulo 2^64."""
        ((rows, total),) = ask(
            self.engine,
            f"SELECT {checksum(columns)} FROM {sql.qualified(self.database, table)}",
            lane=self.lane,
        )
        return int(rows), int(total or 0)

    def _of(self, table: str) -> str:
        return f"database = {quote(self.database)} AND table = {quote(table)}"

    def publish(self, attempt_id: str, staging: str, moves: Sequence[Move], into: str) -> None:
        """Move every pending partition, then record the attempt as published.

        Repeating a MOVE of an empty partition is a no-op, so this may be called again after any
        error; after a crash call :meth:`settle` first.
        """
        pending = [m.partition_id for m in moves if m.state == "pending"]
        for start in range(0, len(pending), MOVES_PER_COMMIT):
            chunk = pending[start : start + MOVES_PER_COMMIT]
            self._move(staging, chunk)
            if len(pending) > MOVES_PER_COMMIT:
                self.ledger.moved(attempt_id, chunk)
        self.ledger.attempt_published(attempt_id, into)

    def _move(self, staging: str, partitions: Sequence[str]) -> None:
        source, target = (
            sql.qualified(self.database, staging),
            sql.qualified(self.database, self.table),
        )

        def one(number: int) -> None:
            for partition in partitions[number::MOVE_LANES]:
                self._run(
                    f"ALTER TABLE {source} MOVE PARTITION ID {quote(partition)} TO TABLE {target}",
                    lane=self.lane if len(partitions) == 1 else FIRST_MOVE_LANE + number,
                )

        if len(partitions) == 1:
            one(0)
            return
        with ThreadPoolExecutor(MOVE_LANES) as pool:
            for done in [pool.submit(one, n) for n in range(min(MOVE_LANES, len(partitions)))]:
                done.result()

    def settle(self, attempt_id: str, staging: str) -> list[Move]:
        """After a crash: find out which parts of a loaded attempt the target has already.

        A MOVE copies its parts into the target, then removes them from staging; killed between
        the two, both hold them. Returns the moves, those that are complete marked ``moved``.

        Raises:
            LedgerError: the target was changed meanwhile, so nothing can be told for sure.
        """
        settled = []
        for move in self.ledger.moves(attempt_id):
            state = move.state
            if state == "pending" and self._settle_one(staging, move):
                state = "moved"
            settled.append(
                Move(move.partition_id, move.rows, move.rows_before, move.highest_block, state)
            )
        return settled

    def _settle_one(self, staging: str, move: Move) -> bool:
        """Drop from staging what the target has of one partition; True when nothing is left."""
        where = f"partition_id = {quote(move.partition_id)}"
        left = ask(
            self.engine,
            "SELECT name, hash_of_all_files, rows FROM system.parts "
            f"WHERE {self._of(staging)} AND {where} AND active AND rows > 0",
            lane=self.lane,
        )
        if not left:
            return True
        # Every part that entered the target after the intent was written has a higher block
        # number; outdated ones (merged since) are still listed for some minutes.
        arrived = ask(
            self.engine,
            "SELECT hash_of_all_files, active, level, min_block_number, rows FROM system.parts "
            f"WHERE {self._of(self.table)} AND {where} "
            f"AND max_block_number > {move.highest_block}",
            lane=self.lane,
        )
        hashes = [row[0] for row in arrived if row[3] > move.highest_block]
        twice = []
        for name, digest, rows in left:
            if digest in hashes:
                hashes.remove(digest)
                twice.append((name, rows))
        remaining: int = sum(row[2] for row in left) - sum(rows for _, rows in twice)
        if not twice and not arrived:
            return False
        ((now,),) = ask(
            self.engine,
            f"SELECT sum(rows) FROM system.parts WHERE {self._of(self.table)} "
            f"AND {where} AND active",
            lane=self.lane,
        )
        gained = now - move.rows_before
        merged = any(level > 0 for _, _, level, _, _ in arrived)
        if gained == move.rows and remaining:
            twice = [(row[0], row[2]) for row in left]
            remaining = 0
        elif merged and gained != move.rows - remaining:
            raise LedgerError(
                f"partition {move.partition_id} of {self.database}.{self.table} was changed "
                f"after a load was interrupted: {gained:,} rows were added, "
                f"{move.rows - remaining:,} expected",
                hint=f"The rows that are not yet visible are in {self.database}.{staging}; "
                "compare, then drop one of the two by hand.",
            )
        for name, _ in twice:
            self._run(
                f"ALTER TABLE {sql.qualified(self.database, staging)} DROP PART {quote(name)}"
            )
        return not remaining

    def _run(self, text: str, lane: int | None = None) -> None:
        self.engine.run(Statement(SqlText.of(text)), lane=self.lane if lane is None else lane)
