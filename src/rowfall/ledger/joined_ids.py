"""Ids of what was loaded long ago, 20 bytes each: they stand beside the journal of a table.

The journal has some 600 bytes for an attempt and 33 for each of its splits, and who asks about ten
thousand splits reads all of them. Of a source that is followed for months most of it says nothing
more than that they are loaded. :meth:`rowfall.ledger.journal.Journal.join` moves these ids here, in
the order of the ids, so that a question reads a few rows around each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from rowfall.core import sql
from rowfall.core.listing import MARK
from rowfall.core.sqltext import quote, quoted_list

TABLE = "_rowfall_joined"
JOINED = f"{MARK}joined"
"""In place of a split's id in the journal: some ids are here. Whoever reads the journal reads it,
too, since it is written before the lines that it stands for are deleted."""
# Rows between two marks of the index: of 100 million ids a question about 10,000 reads 82 MB,
# where the usual 8,192 would read nearly all of them. The marks take 6 MB of memory.
_GRANULE = 512
# Ids of one statement: 32 digits each, so 330 KB.
_MOST = 10_000


class JoinedIds:
    """The ids of one target table.

    Args:
        ask, run: of the journal, which know what to do when the server is away.
        into: UUID of the table.
    """

    def __init__(
        self, ask: Callable[[str], list[list[Any]]], run: Callable[[str], object], database: str,
        into: str,
    ) -> None:  # fmt: skip
        self._ask, self._run = ask, run
        self.name = sql.qualified(database, TABLE)
        self._into = f"toUUID({quote(into)})"

    def create(self) -> None:
        """Make the table where it is missing.

        Raises:
            RowfallError: no right to.
        """
        self._run(
            f"CREATE TABLE IF NOT EXISTS {self.name} (into UUID, id FixedString(16), "
            "load LowCardinality(String), day Date DEFAULT today()) ENGINE = MergeTree "
            f"ORDER BY (into, id) SETTINGS index_granularity = {_GRANULE}, "
            "fsync_after_insert = 1, fsync_part_directory = 1 "
            "COMMENT 'rowfall: which files were loaded long ago'"
        )

    def among(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids that are here; ids of other forms never are."""
        plain = [i for i in ids if len(i) == 32]
        found: set[str] = set()
        for start in range(0, len(plain), _MOST):
            digits = "".join(plain[start : start + _MOST])
            rows = self._ask(
                f"SELECT DISTINCT lower(hex(id)) FROM {self.name} WHERE into = {self._into} AND "
                "id IN (SELECT toFixedString(substring(d, 1 + 16 * number, 16), 16) FROM "
                f"(SELECT unhex({quote(digits)}) AS d, "
                f"arrayJoin(range({len(digits) // 32})) AS number))"
            )
            found |= {str(i) for (i,) in rows}
        return found

    def take(self, journal: str, attempts: str) -> None:
        """Copy the ids that attempts have claimed, each with its load, by which it is forgotten.

        Args:
            journal: its name. ``attempts``: a list.
        """
        self._run(
            f"INSERT INTO {self.name} (into, id, load) SELECT DISTINCT into, "
            f"toFixedString(unhex(arrayJoin(splits)), 16), splitByChar('_', attempt)[1] "
            f"FROM {journal} WHERE "
            f"into = {self._into} AND event = 'claim' AND attempt IN ({attempts}) AND "
            f"NOT has(splits, {quote(JOINED)})"
        )

    def carry_over(self, before: str) -> None:
        """Copy the ids of another table, whose rows this one holds."""
        self._run(
            f"INSERT INTO {self.name} (into, id, load, day) SELECT {self._into}, id, load, day "
            f"FROM {self.name} WHERE into = toUUID({quote(before)})"
        )

    def forget(self, loads: Collection[str]) -> int:
        """Remove the ids of loads; return how many there were."""
        named, gone = sorted(loads), 0
        for start in range(0, len(named), _MOST):
            some = quoted_list(named[start : start + _MOST])
            which = f"into = {self._into} AND load IN ({some})"
            ((count,),) = self._ask(f"SELECT uniqExact(id) FROM {self.name} WHERE {which}")
            if int(count):
                self._delete(which)
            gone += int(count)
        return gone

    def forget_all(self) -> None:
        """Remove the ids of the table."""
        self._delete(f"into = {self._into}")

    def prune(self, days: int) -> None:
        """Remove the ids that came here more than so many days ago, by the server's clock."""
        old = f"into = {self._into} AND day < today() - {days}"
        if self._ask(f"SELECT 1 FROM {self.name} WHERE {old} LIMIT 1"):
            self._delete(old)

    def _delete(self, which: str) -> None:
        self._run(f"ALTER TABLE {self.name} DELETE WHERE {which} SETTINGS mutations_sync = 1")
