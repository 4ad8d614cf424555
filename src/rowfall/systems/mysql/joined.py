"""Ids of what was loaded long ago, see :mod:`rowfall.engines.packed_ids`: digests as they are.

A row of the record has the name of its file, its load, its attempt, and what tells its table from
another one of its name: some 360 bytes with its keys. After an hour nobody asks for these of a
single file. What tells the table stands once for many ids, in a set of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import md5
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.engines import packed_ids
from rowfall.engines.database import BusyError
from rowfall.engines.packed_ids import PackedId, PackedIds, PackedTables
from rowfall.systems.mysql.catalogue import is_table
from rowfall.systems.mysql.client import driver, name, quote
from rowfall.systems.mysql.connections import MySQLConnections

SETS = "_rowfall_joined_sets"
# In place of the id of a split, with the number of a set.
SET = "_rowfall_set "
# How a commit has ended is asked by the attempt, by whoever comes back within this time.
_AGE = "INTERVAL 1 HOUR"
# Attempts of one transaction, each with up to 10,000 files: seconds, in which nobody waits.
_MOST_ATTEMPTS = 100
# How long the end of somebody's step is waited for: it takes a tenth of a second.
_LOCK_SECONDS = 60
_MAKE_SETS = (
    "CREATE TABLE IF NOT EXISTS {} (number INT NOT NULL AUTO_INCREMENT PRIMARY KEY, "
    "target VARCHAR(191) NOT NULL, replaced_by VARCHAR(64) NOT NULL, "
    "table_made VARCHAR(32) NOT NULL, gained BIGINT NOT NULL, sample TEXT NULL, KEY (target)"
    ") ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
)
_MAKE_IDS = (
    "CREATE TABLE IF NOT EXISTS {} (place BIGINT NOT NULL PRIMARY KEY, ids MEDIUMBLOB NOT NULL, "
    "marks MEDIUMBLOB NOT NULL) ENGINE=InnoDB"
)
_MAKE_RUNS = (
    "CREATE TABLE IF NOT EXISTS {} (run BIGINT NOT NULL PRIMARY KEY, target VARCHAR(32) NOT NULL, "
    "bits INT NOT NULL, ids BIGINT NOT NULL, oldest INT NOT NULL, merged_into BIGINT NOT NULL, "
    "steps BIGINT NOT NULL) ENGINE=InnoDB"
)
_PLAIN = "(whole = '' AND attempt_rows IS NOT NULL AND split REGEXP '^[0-9a-f]{32}$')"

Ask = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class JoinedSet:
    """Ids that were loaded while a table was as ``table_made`` says.

    Attributes:
        made, sample: as of :class:`rowfall.systems.mysql.record.RecordedSplit`.
        gained: rows that the attempts have brought.
    """

    number: int
    made: str
    gained: int
    sample: str | None


class JoinedDigests:
    """The ids of one table that the record has no more.

    Args:
        record: the table of the record as SQL. ``target``: of the table, as the record has it.
    """

    def __init__(self, database: MySQLConnections, schema: str, record: str, target: str) -> None:
        self._database, self._schema, self._record = database, schema, record
        self._target = quote(target)
        self.sets_at, self._ids, self._runs = (
            f"{name(schema)}.{name(one)}" for one in (SETS, packed_ids.IDS, packed_ids.RUNS)
        )
        self._there = False

    def exists(self) -> bool:
        """Tell whether the ids of any table are kept."""
        if not self._there and not self._database.distributed:
            made = (
                "SELECT 1 FROM information_schema.TABLES WHERE "
                f"{is_table(self._schema, packed_ids.RUNS)}"
            )
            self._there = bool(self._database.ask(made))
        return self._there

    def sets(self, replaced_by: Callable[[], str]) -> list[JoinedSet]:
        """Return the sets of the table.

        Args:
            replaced_by: returns the attempt whose table has replaced the last one; what that one
                held is none of this table's.
        """
        if not self.exists():
            return []
        rows = self._database.ask(
            f"SELECT number, table_made, gained, sample, replaced_by FROM {self.sets_at} "
            f"WHERE target = {self._target}"
        )
        by = replaced_by() if rows else ""
        return [
            JoinedSet(int(number), str(made), int(gained), sample)
            for number, made, gained, sample, replaced in rows if str(replaced) == by
        ]  # fmt: skip

    # --- the ids of a set -----------------------------------------------------------------------

    def _tables(self, ask: Ask, number: int) -> PackedTables:
        return PackedTables(
            ask, self._ids, self._runs, f"'{number}'", lambda digits: f"X'{digits}'"
        )

    def _packed(self, number: int, ask: Ask | None = None) -> PackedIds:
        """Return the ids of a set; ``ask``: on the connection of a transaction."""

        @contextmanager
        def alone(waits: bool) -> Iterator[PackedTables | None]:
            with self._alone(waits) as own:
                yield None if own is None else self._tables(own, number)

        return PackedIds(self._tables(ask or self._database.ask, number), self.exists, alone)

    @contextmanager
    def _alone(self, waits: bool) -> Iterator[Ask | None]:
        """Begin a transaction in which no other one packs ids; None where another one is at it."""
        database = self._database
        # 64 letters at most.
        lock = quote(f"rowfall {md5(self._ids.encode(), usedforsecurity=False).hexdigest()}")
        connection = database.take()
        try:
            with connection.cursor() as cursor:

                def ask(text: str) -> list[tuple[Any, ...]]:
                    cursor.execute(text)
                    return list(cursor.fetchall())

                ((mine,),) = ask(f"SELECT GET_LOCK({lock}, {_LOCK_SECONDS if waits else 0})")
                if mine != 1:
                    if waits:
                        raise BusyError("another rowfall packs the record", transient=True)
                    yield None
                    return
                try:
                    ask("BEGIN")
                    yield ask
                    ask("COMMIT")
                finally:
                    # Rolled back first, or another one would not see what it has to wait for.
                    connection.rollback()
                    ask(f"SELECT RELEASE_LOCK({lock})")
        except (driver().err.MySQLError, OSError) as error:
            raise database.explained(error, "make the record smaller") from None
        finally:
            database.leave(connection)

    def among(
        self, numbers: Collection[int], ids: Iterable[str], ask: Ask | None = None
    ) -> set[str]:
        """Return those of some ids that are in sets; ``ask``: as a transaction sees it."""
        plain = {bytes.fromhex(i) for i in ids if len(i) == 32}
        found: set[bytes] = set()
        for number in numbers:
            found |= self._packed(number, ask).among(plain - found)
        return {one.hex() for one in found}

    # --- changes ------------------------------------------------------------------------------

    def take(self, replaced_by: str) -> None:
        """Pack older lines of the record.

        Whole attempts, since each line of one has the rows of all of it. In one transaction: at no
        moment is an id in neither of the two, or seen in none.
        """
        database = self._database
        old = database.ask(
            f"SELECT attempt, MAX(table_made), MAX(gained), MAX(sample) FROM {self._record} WHERE "
            f"target = {self._target} AND attempt <> '' GROUP BY attempt HAVING MIN({_PLAIN}) = 1 "
            f"AND MAX(loaded) < UTC_TIMESTAMP() - {_AGE} LIMIT {_MOST_ATTEMPTS}"
        )
        if old and not self.exists():
            database.do(_MAKE_SETS.format(self.sets_at))
            database.do(_MAKE_IDS.format(self._ids))
            database.do(_MAKE_RUNS.format(self._runs))
        numbers = []
        if old:
            with self._alone(waits=False) as ask:
                if ask is None:
                    return
                for made in sorted({str(row[1]) for row in old}):
                    some = [row for row in old if str(row[1]) == made]
                    numbers.append(self._take(ask, made, replaced_by, some))
        for number in numbers:
            if number:
                self._packed(number).merge()

    def _take(
        self, ask: Ask, made: str, replaced_by: str, attempts: Sequence[Sequence[Any]]
    ) -> int:
        """Pack the lines of attempts into a table that was made at one time; return the set."""
        named = ", ".join(quote(str(attempt)) for attempt, *_ in attempts)
        # Locked, so that nobody forgets them at the same time.
        of = f"target = {self._target} AND attempt IN ({named})"
        lines = ask(
            f"SELECT attempt, split, load_id, DATEDIFF(UTC_DATE(), '1970-01-01') FROM "
            f"{self._record} WHERE {of} FOR UPDATE"
        )
        left = {str(line[0]) for line in lines}
        chosen = [row for row in attempts if str(row[0]) in left]
        if not chosen:
            return 0
        own = (
            f"target = {self._target} AND table_made = {quote(made)} AND replaced_by = "
            f"{quote(replaced_by)}"
        )
        found = ask(f"SELECT number FROM {self.sets_at} WHERE {own} LIMIT 1")
        gained = sum(int(row[2] or 0) for row in chosen)
        if found:
            number = int(found[0][0])
            ask(f"UPDATE {self.sets_at} SET gained = gained + {gained} WHERE number = {number}")
        else:
            sample = next((str(row[3]) for row in chosen if row[3] is not None), None)
            ask(
                f"INSERT INTO {self.sets_at} (target, replaced_by, table_made, gained, sample) "
                f"VALUES ({self._target}, {quote(replaced_by)}, {quote(made)}, {gained}, "
                f"{'NULL' if sample is None else quote(sample)})"
            )
            ((number,),) = ask("SELECT LAST_INSERT_ID()")
        packed_ids.add(
            self._tables(ask, int(number)),
            [PackedId(bytes.fromhex(str(split)), str(load), int(day))
             for _, split, load, day in lines],
        )  # fmt: skip
        ask(f"DELETE FROM {self._record} WHERE {of}")
        return int(number)

    # --- what is forgotten --------------------------------------------------------------------

    def restamp(self, number: int, made: str) -> None:
        """Note that the table of a set was altered."""
        self._database.do(
            f"UPDATE {self.sets_at} SET table_made = {quote(made)} WHERE number = {number}"
        )

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove sets with their ids: first the set, without which ids say nothing."""
        for number in numbers:
            self._database.do(f"DELETE FROM {self.sets_at} WHERE number = {number}")
            self._packed(number).remove_all()

    def remove_others(self, numbers: Collection[int]) -> None:
        """Remove the sets of tables that this one has replaced: all but those of ``numbers``."""
        rows = self._database.ask(
            f"SELECT number FROM {self.sets_at} WHERE target = {self._target}"
        )
        self.remove(int(number) for (number,) in rows if int(number) not in numbers)

    def forget(self, numbers: Collection[int], loads: Collection[str]) -> int:
        """Remove the ids of loads; return how many there were."""
        return sum(self._packed(number).forget(loads) for number in numbers)

    def prune(self, numbers: Collection[int], days: int) -> None:
        """Remove the ids that came here more than so many days ago."""
        for number in numbers:
            self._packed(number).prune(days)
