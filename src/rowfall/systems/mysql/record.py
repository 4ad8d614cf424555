"""The record of what is loaded, a table beside the target: its lines, and which table they mean."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from functools import cached_property

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.listing import MARK
from rowfall.engines.database import ACCEPTED
from rowfall.systems.mysql.catalogue import columns_query, declared, is_table
from rowfall.systems.mysql.client import driver, name, quote
from rowfall.systems.mysql.connections import MySQLConnections
from rowfall.systems.mysql.joined import SET, JoinedDigests, JoinedSet
from rowfall.systems.mysql.replacing import (
    NO_SPLITS,
    REPLACING,
    Replacement,
    find_swap,
    replaced_by,
    target,
)

# How long the end of a transaction is waited for that nobody answers for.
_LOCK_SECONDS = 50
# ``session`` ends with the load, for who looks for one that has died.
_RECORDS = (
    "CREATE TABLE IF NOT EXISTS {at} (\n"
    "    target VARCHAR(191) NOT NULL,\n    split VARCHAR(255) NOT NULL,\n"
    "    attempt VARCHAR(64) NOT NULL,\n    load_id VARCHAR(64) NOT NULL,\n"
    "    name TEXT NOT NULL,\n    whole VARCHAR(255) NOT NULL,\n"
    "    attempt_rows BIGINT NULL,\n    session BIGINT NOT NULL,\n"
    "    loaded DATETIME NOT NULL,\n    table_made VARCHAR(32) NOT NULL DEFAULT '',\n"
    "    gained BIGINT NULL,\n    sample TEXT NULL,\n"
    "    PRIMARY KEY (target, split),\n    KEY (attempt){more}\n"
    "){engine} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
)
# Of a record that an earlier version has made.
_MORE_COLUMNS = (
    "ADD COLUMN table_made VARCHAR(32) NOT NULL DEFAULT '', ADD COLUMN gained BIGINT NULL, "
    "ADD COLUMN sample TEXT NULL"
)
_MOST_SAMPLES = 20  # each may be looked for in the whole table


# Enough to tell a row from others, and no more than a few bytes in each record.
SAMPLED_COLUMNS = 8
_SAMPLED_BYTES = 64
# Ids of one statement: 35 bytes each.
_MOST_ASKED = 10_000


# The numbers of tables within InnoDB: MariaDB's name of it.
_NUMBERS = "information_schema.INNODB_SYS_TABLES"


def _time(made: str) -> str:
    return made.partition("/")[0]


def _number(made: str) -> str:
    return made.partition("/")[2]


def _in_innodb(name: str) -> str:
    """Return an ASCII name as InnoDB writes it, which names files by it."""
    return "".join(c if c.isalnum() or c == "_" else f"@{ord(c):04x}" for c in name)


def row_digest(columns: Sequence[str]) -> str:
    """Return SQL of a digest of a row, by some of its columns."""
    values = (f"IFNULL(LEFT(CAST({name(c)} AS BINARY), {_SAMPLED_BYTES}), '~')" for c in columns)
    return f"MD5(CONCAT_WS('|', {', '.join(values)}))"


@dataclass(frozen=True, slots=True)
class RecordedSplit:
    """A line of the record: one split that is loaded.

    Attributes:
        whole: id of the file that it is a range of; "" for none.
        made: when the table was made or altered that it is in, see
            :meth:`LoadedSplits.made`; "" in records of earlier versions.
        sample: a row that the table held.
    """

    split: str
    attempt: str
    whole: str
    made: str
    sample: str | None


class LoadedSplits:
    """The splits that a table holds, by the record.

    Args:
        database: that has both. ``schema``, ``table``: of the rows.
        record: name of the table of the record.
        patience: seconds that the end of a transaction is waited for.

    Attributes:
        dry: nothing may be written.
        target: ``schema.table`` as the record has it; ``table``: the same as SQL.
    """

    def __init__(
        self, database: MySQLConnections, schema: str, table: str, record: str, patience: float
    ) -> None:
        self._database, self._schema, self._table, self._name = database, schema, table, record
        self._patience = patience
        self.target = target(schema, table)
        self.table = f"{name(schema)}.{name(table)}"
        self.dry = True
        self._same: dict[str, bool] = {}
        self.joined = JoinedDigests(database, schema, self.at, self.target)

    @property
    def at(self) -> str:
        """Return the table of the record as SQL."""
        return f"{name(self._schema)}.{name(self._name)}"

    @property
    def _of_target(self) -> str:
        return f"target = {quote(self.target)}"

    def _is_there(self) -> bool:
        return bool(self._database.ask(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE "
            f"{is_table(self._schema, self._name)}"
        ))  # fmt: skip

    def make(self) -> None:
        """Make the table of the record, or what it lacks."""
        distributed = self._database.distributed
        if not self._is_there():
            more = ", SHARD KEY (target, split)" if distributed else ""
            made = _RECORDS.format(
                at=self.at, more=more, engine="" if distributed else " ENGINE=InnoDB"
            )
            if distributed:
                made = made.replace("CREATE TABLE", "CREATE ROWSTORE TABLE")
            self._database.do(made)
        elif not distributed and not self._knows_tables():
            try:
                self._database.do(f"ALTER TABLE {self.at} {_MORE_COLUMNS}")
            except RowfallError:
                if not self._knows_tables():  # no other load has done it meanwhile
                    raise

    def forget_others(self) -> None:
        """Remove what is recorded of another table of this name."""
        # The records first, as in loaded(): of a table that was empty when they were read none of
        # them is true; what another load commits behind that is not among them.
        found = self.splits()
        if found:
            self._remove(found if self._emptied() else self._of_this_table(found)[1])

    def loaded(self) -> set[str]:
        """Return the ids of the splits that the table holds, by the record.

        Of a table without rows nothing of it is true any more. The records are read first: rows
        that are committed later have records that are not among them.
        """
        found = self.splits()
        if found and self._emptied():
            return set()
        return self._ids(self._of_this_table(found)[0])

    @staticmethod
    def _ids(records: Sequence[RecordedSplit]) -> set[str]:
        """Return the ids of records, and the marks of the files that ranges are of."""
        marks = {f"{MARK}{one.whole}" for one in records if one.whole}
        return {one.split for one in records if not one.split.startswith(SET)} | marks

    def loaded_among(self, ids: Sequence[str]) -> set[str]:
        """Return those of some ids, and marks of files, that the table holds by the record.

        The record is read as a whole only after the table was altered, until the next load.
        """
        if not self._is_there():
            return set()
        more = "SELECT DISTINCT table_made" if self._knows_tables() else "SELECT DISTINCT ''"
        # The records first, as in loaded().
        made = {str(one) for (one,) in self._database.ask(
            f"{more} FROM {self.at} WHERE {self._of_target}"
        )}  # fmt: skip
        sets = self._sets()
        made |= {one.made for one in sets}
        if self._database.ask(self.swap_question) or made - {"", self.made()}:
            found, _ = self._of_this_table(self.splits())
            numbers = [int(r.split.removeprefix(SET)) for r in found if r.split.startswith(SET)]
            there = self._ids(found).intersection(ids)
        else:
            numbers = [one.number for one in sets]
            there = self._lines_among(ids)
        if not there and not numbers:
            return set()
        there |= self.joined.among(numbers, ids)
        return set() if there and self._emptied() else there

    def _lines_among(self, ids: Sequence[str]) -> set[str]:
        """Return those of some ids, and marks of files, of which the record has lines."""
        found: set[str] = set()
        wholes = [i.removeprefix(MARK) for i in ids if i.startswith(MARK)]
        plain = [i for i in ids if not i.startswith(MARK)]
        for column, asked in (("split", plain), ("whole", wholes)):
            before = MARK if column == "whole" else ""
            for start in range(0, len(asked), _MOST_ASKED):
                some = ", ".join(map(quote, asked[start : start + _MOST_ASKED]))
                rows = self._database.ask(
                    f"SELECT DISTINCT {column} FROM {self.at} WHERE {self._of_target} AND "
                    f"{column} IN ({some})"
                )
                found |= {f"{before}{one}" for (one,) in rows}
        return found

    def _sets(self) -> list[JoinedSet]:
        return self.joined.sets(self.replaced_by)

    def set_numbers(self) -> list[int]:
        """Return the numbers of the sets of ids that were loaded long ago."""
        return [one.number for one in self._sets()]

    def join(self) -> None:
        """Let what was loaded long ago take less room."""
        if self._database.distributed or not self._is_there() or not self._knows_tables():
            return
        self.joined.take(self.replaced_by())
        if self.joined.exists():
            self.joined.remove_others(self.set_numbers())

    def is_unknown(self) -> bool:
        """Return whether the table holds rows that are not in the record.

        True as well where entries of the record belong to another table of this name, which may be
        this one before an ALTER, without rows that it held.
        """
        if self._emptied():
            return False
        found = self.splits()
        return not found or bool(self._of_this_table(found)[1])

    def is_emptied(self) -> bool:
        """See :meth:`rowfall.engines.database.NoticesEmptied.is_emptied`.

        Of a table without rows nothing counts as loaded, see :meth:`loaded`.
        """
        now = self.made()
        if not _number(now):
            return False
        found = [
            one for one in self.splits() if _number(one.made) and _time(one.made) == _time(now)
        ]
        if not found or any(one.made == now for one in found):
            return False
        # Another server that follows the first has other numbers, and the rows.
        return not self._holds(found, now)

    def forget_all(self) -> None:
        """Remove all that is recorded of the table."""
        self._remove(self.splits())

    def accept(self) -> None:
        """Record that the rows which are there count as loaded."""
        made = self.made()
        columns, values, ignore, again = "", "", "IGNORE ", ""
        if made:
            sample = self.sample()
            columns = ", table_made, gained, sample"
            values = f", {quote(made)}, 0, {'NULL' if sample is None else quote(sample)}"
            ignore = ""  # of a table that was emptied since it is said anew
            more = ("table_made", "sample")
            again = f" ON DUPLICATE KEY UPDATE {', '.join(f'{c} = VALUES({c})' for c in more)}"
        self._database.do(
            f"INSERT {ignore}INTO {self.at} (target, split, attempt, load_id, name, whole, "
            f"session, loaded{columns}) VALUES ({quote(self.target)}, "
            f"{quote(ACCEPTED)}, '', '', 'rows of others', '', 0, UTC_TIMESTAMP(){values}){again}"
        )

    def splits(self) -> list[RecordedSplit]:
        """Return each record of the table, and one for each set of ids that were joined."""
        if not self._is_there():
            return []
        more = ", table_made, sample" if self._knows_tables() else ""
        text = f"SELECT split, attempt, whole{more} FROM {self.at} WHERE target = "
        rows = self._database.ask(text + quote(self.target))
        if any(row[0] == REPLACING for row in rows):
            swap = find_swap(self._database.ask, self.at, self._schema, self._table)
            if swap is None:  # it has just ended
                rows = self._database.ask(text + quote(self.target))
            elif swap.is_done(self._table):
                rows = self._database.ask(text + quote(target(self._schema, swap.beside)))
        found = [
            RecordedSplit(str(split), str(attempt), str(whole), *(known or ("", None)))
            for split, attempt, whole, *known in rows if split not in NO_SPLITS
        ]  # fmt: skip
        # Behind the lines: what is moved meanwhile is seen twice rather than not at all.
        sets = self._sets()
        return found + [RecordedSplit(f"{SET}{s.number}", "", "", s.made, s.sample) for s in sets]

    def is_made(self) -> bool:
        """Tell whether there is a table of that name."""
        return bool(self._database.ask(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE "
            f"{is_table(self._schema, self._table)}"
        ))  # fmt: skip

    # --- a table that another one replaces --------------------------------------------------------

    def replacement(self, table: str = "") -> Replacement:
        """Return what replaces the table, or another one of its schema."""
        return Replacement(
            self._database, self.at, self._schema, table or self._table, self._patience
        )

    @property
    def swap_question(self) -> str:
        """Return the question whether the table is being replaced."""
        return f"SELECT 1 FROM {self.at} WHERE {self._of_target} AND split = {quote(REPLACING)}"

    def replaced_by(self) -> str:
        """Return the attempt whose table has replaced the last one; "" for none."""
        if self._database.distributed or not self._is_there():
            return ""
        return replaced_by(self._database.ask, self.at, self._schema, self._table)

    def settle_swap(self, *, waits: bool) -> None:
        """End what a process that has died in a replacement has begun, see :class:`Replacement`."""
        if not self._database.distributed and self._is_there():
            self.replacement().settle(waits=waits)

    def drop_left(self, table: str) -> None:
        """Remove a table of a replacement that is given up, and its lines.

        Raises:
            TargetError: another process works on it.
        """
        if self._is_there():
            for (of,) in self._database.ask(
                f"SELECT target FROM {self.at} WHERE split = {quote(REPLACING)} AND "
                f"{quote(table)} IN (name, whole)"
            ):
                own = str(of).removeprefix(f"{self._schema}.")
                self.replacement(own).settle(waits=True)
        self._database.do(f"DROP TABLE IF EXISTS {name(self._schema)}.{name(table)}")
        if self._is_there():
            gone = quote(target(self._schema, table))
            self._database.do(f"DELETE FROM {self.at} WHERE target = {gone}")

    def loaded_by(self, load: str) -> set[str]:
        """Return the ids of the splits that a load has made visible in the table."""
        if not self._is_there():
            return set()
        rows = self._database.ask(
            f"SELECT split FROM {self.at} WHERE {self._of_target} AND load_id = {quote(load)}"
        )
        return self.loaded() & {str(split) for (split,) in rows}

    def _knows_tables(self) -> bool:
        """Tell whether the record says when a table was made: not that of earlier versions."""
        if self._database.distributed:
            return False
        known = declared(self._database.ask(columns_query(self._schema, self._name)))
        return any(column.name == "sample" for column in known)

    def _remove(self, records: Sequence[RecordedSplit]) -> None:
        for one in records:
            if one.split.startswith(SET):
                self.joined.remove([int(one.split.removeprefix(SET))])
                continue
            self._database.do(
                f"DELETE FROM {self.at} WHERE {self._of_target} AND split = "
                f"{quote(one.split)} AND attempt = {quote(one.attempt)}"
            )

    # --- which table it is --------------------------------------------------------------------

    def made(self) -> str:
        """Return when the table was made or altered last, as its server says; "" where it does not.

        Its time is equal for two tables only if they were made within one second. Behind a slash
        it may have the number that :attr:`made_question` speaks of.
        """
        if self._database.distributed:  # nobody could try what SingleStore says there
            return ""
        rows = self._database.ask(self.made_question)
        return str(rows[0][0] or "") if rows else ""

    @property
    def made_question(self) -> str:
        """Return the question for :meth:`made`.

        TRUNCATE of MariaDB leaves the time, and gives the table another number within InnoDB, which
        those with the right PROCESS may see.
        """
        where = is_table(self._schema, self._table)
        made = "CREATE_TIME"
        if self._sees_numbers:
            file = quote(f"{_in_innodb(self._schema)}/{_in_innodb(self._table)}")
            number = f"SELECT TABLE_ID FROM {_NUMBERS} WHERE NAME = {file}"
            made = f"CONCAT(CREATE_TIME, IFNULL(CONCAT('/', ({number})), ''))"
        return f"SELECT {made} FROM information_schema.TABLES WHERE {where}"

    @cached_property
    def _sees_numbers(self) -> bool:
        if self._database.distributed or not (self._schema + self._table).isascii():
            return False
        try:
            self._database.ask(f"SELECT TABLE_ID FROM {_NUMBERS} LIMIT 1")
        except RowfallError as error:
            if error.transient:
                raise
            return False  # no such right; or MySQL, whose TRUNCATE makes a table anew
        return True

    def sample(self) -> str | None:
        """Return the digest of one row of the table and its columns' names, as JSON; None if empty.

        Of uncommitted rows, too: the first committed one may lie behind millions of other
        attempts' rows. Those of an attempt that fails are loaded again.
        """
        names = [column.name for column in self._database.columns[:SAMPLED_COLUMNS]]
        connection = self._database.take()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
                cursor.execute(f"SELECT {row_digest(names)} FROM {self.table} LIMIT 1")
                rows = cursor.fetchall()
            return json.dumps([rows[0][0], *names]) if rows else None
        except (driver().err.MySQLError, OSError) as error:
            raise self._database.explained(error, "read a row of the table") from None
        finally:
            self._database.leave(connection)

    def _of_this_table(
        self, records: list[RecordedSplit]
    ) -> tuple[list[RecordedSplit], list[RecordedSplit]]:
        """Return the records of the table that is there, and those of another one of its name.

        ALTER, OPTIMIZE and a restored dump change the time that the server has for a table; then
        its rows show that it is the same: one that it held, and as many as were loaded.
        """
        if not any(one.made for one in records) or not (now := self.made()):
            return records, []
        time, number = _time(now), _number(now)
        other = [
            one for one in records
            if one.made and _time(one.made) != time and (not number or _number(one.made) != number)
        ]  # fmt: skip
        if not other:
            return records, []
        if not self._holds(other, now):
            return [one for one in records if one not in other], other
        for one in () if self.dry else other:
            if one.split.startswith(SET):
                self.joined.restamp(int(one.split.removeprefix(SET)), now)
                continue
            self._database.do(
                f"UPDATE {self.at} SET table_made = {quote(now)} WHERE {self._of_target} "
                f"AND split = {quote(one.split)} AND attempt = {quote(one.attempt)}"
            )
        return records, []

    def _holds(self, records: Sequence[RecordedSplit], now: str) -> bool:
        """Tell whether the table holds the rows of records, by one of them and their number."""
        if now not in self._same:
            samples = list(dict.fromkeys(one.sample for one in records if one.sample))
            ((rows,),) = self._database.ask(f"SELECT COUNT(*) FROM {self.table}")
            enough = int(rows) >= self._added(records)
            self._same[now] = enough and any(map(self._has, samples[:_MOST_SAMPLES]))
        return self._same[now]

    def _has(self, sample: str) -> bool:
        digest, *names = json.loads(sample)
        if not {column.name for column in self._database.columns}.issuperset(names):
            return False
        wanted = f"{row_digest(names)} = {quote(digest)}"
        return bool(self._database.ask(f"SELECT 1 FROM {self.table} WHERE {wanted} LIMIT 1"))

    def _added(self, records: Sequence[RecordedSplit]) -> int:
        """Return the rows that a table got by the attempts of records."""
        attempts = {one.attempt for one in records}
        rows = self._database.ask(
            f"SELECT attempt, MAX(gained) FROM {self.at} WHERE {self._of_target} GROUP BY attempt"
        )
        numbers = {one.split for one in records if one.split.startswith(SET)}
        joined = sum(s.gained for s in self._sets() if f"{SET}{s.number}" in numbers)
        return joined + sum(int(added or 0) for attempt, added in rows if str(attempt) in attempts)

    def _emptied(self) -> bool:
        database = self._database
        return not self.is_made() or not database.ask(f"SELECT 1 FROM {self.table} LIMIT 1")

    def has_ended(self, attempt: str) -> bool:
        """End an attempt that waits; return whether it has been committed."""
        if not self._is_there():
            return False
        theirs = f"attempt = {quote(attempt)} AND split <> {quote(REPLACING)}"
        deadline = time.monotonic() + max(self._patience, _LOCK_SECONDS)
        self._end_session(attempt)
        while True:
            try:  # a locking read waits for who has written the row and not ended
                return bool(self._database.ask(
                    f"SELECT 1 FROM {self.at} WHERE {theirs} LIMIT 1 FOR UPDATE"
                ))  # fmt: skip
            except EngineError as error:
                if not error.transient or time.monotonic() > deadline:
                    raise

    def _end_session(self, attempt: str) -> None:
        """End the session of an attempt that has not been committed, wherever it waits.

        Of a client behind a network that has failed the server may not know for hours.
        """
        where = f"FROM {self.at} WHERE attempt = {quote(attempt)} LIMIT 1"
        if self._database.ask(f"SELECT 1 {where}"):
            return
        connection = self._database.take()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
                cursor.execute(f"SELECT session {where}")
                for (session,) in cursor.fetchall():
                    cursor.execute(f"KILL CONNECTION {int(session)}")
        except (driver().err.MySQLError, OSError):
            pass  # it has ended by itself, or the lock tells when it has
        finally:
            self._database.leave(connection)

    def forget(self, loads: Collection[str]) -> int:
        """Remove the records of loads; return how many there were."""
        if not loads or not self._is_there():
            return 0
        named, gone = sorted(loads), 0
        for start in range(0, len(named), _MOST_ASKED):
            some = ", ".join(map(quote, named[start : start + _MOST_ASKED]))
            where = f"{self._of_target} AND load_id IN ({some})"
            ((count,),) = self._database.ask(f"SELECT COUNT(*) FROM {self.at} WHERE {where}")
            self._database.do(f"DELETE FROM {self.at} WHERE {where}")
            gone += int(count)
        return gone + self.joined.forget(self.set_numbers(), loads)
