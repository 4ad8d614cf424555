"""Wait for merges: a table with too many parts slows down everybody who inserts into it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import partial

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.events import Listener, MergesWaited, Note, PartsCounted
from rowfall.core.model import Ask
from rowfall.core.sqltext import quote
from rowfall.engines.base import Engine
from rowfall.ledger.leases import StagedPartition
from rowfall.systems.clickhouse.codes import ACCESS_DENIED

# A merge is planned within seconds of the last one, and pauses of idle tables grow to ten. So where
# nothing was merged for so long, waiting longer does not help.
STUCK_SECONDS = 20.0
POLL_SECONDS = 0.5
# Attaching stays below this share of parts_to_delay_insert, so that other writers are not slowed.
SHARE = 0.9
LANE = 96
DELAY, REFUSE = "parts_to_delay_insert", "parts_to_throw_insert"
"""Settings of a table: parts of a partition from which inserts are delayed and refused."""


@dataclass(frozen=True, slots=True)
class Waited:
    """Result of a wait: its seconds, the active parts now, and whether these are few enough."""

    seconds: float
    parts: int
    reached: bool


class Merges:
    """Waits until merges have reduced the parts of one load's target tables on one engine."""

    def __init__(self, engine: Engine, emit: Listener) -> None:
        self._engine = engine
        self._emit = emit
        self._limits: dict[tuple[str, str], int] = {}

    def wait_for_room(self, moves: Sequence[StagedPartition], parts: int) -> None:
        """Wait until the fullest partition of each target can take its share of new parts.

        Args:
            parts: staged parts of all ``moves`` together.
        """
        try:
            self._wait_for_room(moves, parts)
        except RowfallError as error:
            if error.code != ACCESS_DENIED:
                raise
            # Who may not see merges cannot wait for them: the server itself slows down or refuses.

    def _wait_for_room(self, moves: Sequence[StagedPartition], parts: int) -> None:
        share = -(-parts // max(1, len(moves)))
        for database, table in dict.fromkeys((m.database, m.table) for m in moves):
            limit = self.limit(database, table)
            room = int(limit * SHARE) - share
            ids = ", ".join(quote(m.partition_id) for m in moves if m.table == table)

            def merging(database: str = database, table: str = table) -> bool:
                return self._merging(database, table)

            def fullest(database: str = database, table: str = table, ids: str = ids) -> int:
                rows = self._engine.ask(
                    "SELECT count() AS n FROM system.parts WHERE active AND "
                    f"{sql.table_is(database, table)} AND "
                    f"partition_id IN ({ids}) GROUP BY partition_id ORDER BY n DESC LIMIT 1",
                    lane=LANE,
                )
                return int(rows[0][0]) if rows else 0

            name, there = f"{database}.{table}", fullest()
            self._emit(PartsCounted(name, there, limit))
            if there > max(1, room):
                self._emit(Note("info", f"waiting for merges of {name}"))
                waited = self._until(fullest, merging, max(1, room))
                self._emit(MergesWaited(name, waited.seconds))
                self._emit(PartsCounted(name, waited.parts, limit))

    def wait_until_fewer(self, database: str, table: str, most: int) -> Waited:
        """Wait until fewer than ``most`` parts of a table are active."""

        def active() -> int:
            ((parts,),) = self._engine.ask(
                "SELECT count() FROM system.parts WHERE active AND rows > 0 AND "
                + sql.table_is(database, table),
                lane=LANE,
            )
            return int(parts)

        return self._until(active, lambda: self._merging(database, table), most - 1)

    def _merging(self, database: str, table: str) -> bool:
        try:
            ((merges,),) = self._engine.ask(
                f"SELECT count() FROM system.merges WHERE database = {quote(database)} AND "
                f"table = {quote(table)}",
                lane=LANE,
            )
        except RowfallError as error:
            if error.code != ACCESS_DENIED:
                raise
            return False  # then only the number of parts shows progress
        return bool(merges)

    def _until(self, count: Callable[[], int], merging: Callable[[], bool], most: int) -> Waited:
        begin = changed = time.monotonic()
        lowest = parts = count()
        while parts > most and time.monotonic() - changed < STUCK_SECONDS:
            time.sleep(POLL_SECONDS)
            parts = count()
            if parts < lowest or merging():
                lowest, changed = min(lowest, parts), time.monotonic()
        return Waited(time.monotonic() - begin, parts, parts <= most)

    def limit(self, database: str, table: str) -> int:
        """Return the parts of a partition from which inserts into a table are delayed."""
        if (database, table) not in self._limits:
            ask = partial(self._engine.ask, lane=LANE)
            (limit,) = parts_limits(ask, [DELAY], database, table) or [1000]
            self._limits[database, table] = limit
        return self._limits[database, table]


def parts_limits(ask: Ask, settings: Sequence[str], database: str, table: str) -> list[int] | None:
    """Return limits of parts of a table: its own, or the server's; None where it is gone.

    Args:
        settings: :data:`DELAY` or :data:`REFUSE`, or both.
    """
    limits = ", ".join(
        f"(SELECT toUInt64(value) FROM system.merge_tree_settings WHERE name = {quote(setting)})"
        for setting in settings
    )
    rows = ask(
        f"SELECT engine_full, {limits} FROM system.tables WHERE database = {quote(database)} "
        f"AND name = {quote(table)}"
    )
    if not rows:
        return None
    full, *found = rows[0]
    own = [re.search(rf"\b{setting} = (\d+)", full) for setting in settings]
    return [int(its[1] if its else limit) for its, limit in zip(own, found, strict=True)]
