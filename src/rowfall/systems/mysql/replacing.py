"""Put a table that was filled beside another one into its place by RENAME TABLE.

Statements about tables end transactions, so the record cannot change with the rename. A line of the
record says before it that the table is being replaced, and by which one; whoever reads the record
then looks which tables are there, and so knows whether the rename is done (:meth:`Swap.is_done`).
While that line is there no attempt begins to write into the table, and those that have begun are
waited for: behind the rename all of the old table's lines are known to be of the old table.

The new table is made by ``LIKE`` (types, defaults, generated columns, CHECK, keys, partitions).
Views, grants and routines know a table by its name. What goes with the old table is refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.engines.file_database import GATHERS
from rowfall.systems.mysql.catalogue import is_table
from rowfall.systems.mysql.client import LOCKED, LOST, driver, name, number_of, quote
from rowfall.systems.mysql.connections import MySQLConnections
from rowfall.systems.mysql.session import end

Ask = Callable[[str], Sequence[Sequence[Any]]]

REPLACED = "_rowfall_replaced_"
"""How the old table is called between the rename and its end."""
REPLACING = "_rowfall_replacing"
"""Id in the record in place of a split's: the table is being replaced by that of its name."""
REPLACED_BY = "_rowfall_replaced_by"
"""Id in the record in place of a split's: the attempt whose table has replaced the last one."""
NO_SPLITS = frozenset({REPLACING, REPLACED_BY})

# Characters of a name in MySQL.
_NAME_CHARACTERS = 64
# Time between two tries at a server that has ended the connection.
_RETRY_SECONDS = 0.5
_HANGS = (
    ("the foreign key", "SELECT CONCAT(CONSTRAINT_NAME, ' of ', TABLE_SCHEMA, '.', TABLE_NAME) "
     "FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = {schema} AND "
     "REFERENCED_TABLE_NAME = {table} AND NOT ({here}) ORDER BY 1"),
    ("the foreign key", "SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE "
     "{here} AND CONSTRAINT_TYPE = 'FOREIGN KEY' ORDER BY 1"),
    ("the trigger", "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE "
     "EVENT_OBJECT_SCHEMA = {schema} AND EVENT_OBJECT_TABLE = {table} ORDER BY 1"),
)  # fmt: skip
_KINDS = {
    "VIEW": "a view", "SYSTEM VERSIONED": "system-versioned, and its history would be lost",
    "SEQUENCE": "a sequence",
}  # fmt: skip
# Of the table and of those beside it; triggers are shown only to who has the right to them.
_RIGHTS = ("ALTER", "CREATE", "DROP", "INSERT", "SELECT", "TRIGGER")
_GRANT = re.compile(r"\AGRANT (.*) ON (?:TABLE )?(\S.*?) TO ", re.S)
_OBJECT = re.compile(r"\A(\*|`(?:[^`]|``)*`)\.(\*|`(?:[^`]|``)*`)\Z")


def name_beside(load: str, table: str) -> str:
    """Return the name of the table that gathers the rows of a load."""
    return f"{GATHERS}{load}_{table}"[:_NAME_CHARACTERS]


def name_replaced(beside: str) -> str:
    """Return what the old table is called once another one has its name."""
    return (REPLACED + beside.removeprefix(GATHERS))[:_NAME_CHARACTERS]


def check_replaceable(ask: Ask, schema: str, table: str) -> None:
    """Check that another table can be put into the place of one.

    Raises:
        TargetError: something hangs on it that would be lost, or the user may not do it.
    """
    full, here = f"{schema}.{table}", is_table(schema, table)
    rows = ask(f"SELECT TABLE_TYPE FROM information_schema.TABLES WHERE {here}")
    kind = str(rows[0][0]) if rows else "BASE TABLE"
    if kind != "BASE TABLE":
        raise TargetError(
            f"--replace cannot replace {full}: it is {_KINDS.get(kind, kind.lower())}",
            hint="Name a table with --table.",
        )
    for words, query in _HANGS:
        text = query.format(schema=quote(schema), table=quote(table), here=here)
        if found := [str(one) for (one,) in ask(text)]:
            raise TargetError(
                f"--replace puts another table into the place of {full}, and {words} "
                f"{', '.join(found[:5])} hangs on the one that is there",
                hint="Drop it and make it again after the load; or DELETE the rows of the table, "
                "then load with --force.",
            )
    if lacks := sorted(set(_RIGHTS) - _rights(ask, schema, table)):
        ((user,),) = ask("SELECT CURRENT_USER()")
        who = "@".join(f"'{part}'" for part in str(user).rsplit("@", 1))
        raise TargetError(
            f"--replace puts another table into the place of {full}, for which {user} lacks the "
            f"right to {', '.join(lacks)}",
            hint=f"GRANT {', '.join(_RIGHTS)} ON {name(schema)}.* TO {who};",
        )


def layout(ask: Ask, schema: str, table: str) -> list[tuple[Any, ...]]:
    """Return columns and indexes of a table, equal for one that was made by LIKE; [] for none."""
    where = f"WHERE {is_table(schema, table)} ORDER BY"
    columns = ask(
        "SELECT COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, "
        f"COLUMN_COMMENT FROM information_schema.COLUMNS {where} ORDINAL_POSITION"
    )
    keys = ask(
        "SELECT INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART, NON_UNIQUE, INDEX_TYPE FROM "
        f"information_schema.STATISTICS {where} INDEX_NAME, SEQ_IN_INDEX"
    )
    return [*map(tuple, columns), *map(tuple, keys)]


def _folded(ask: Ask) -> Callable[[str], str]:
    """Return what makes names of tables equal that are equal for the server."""
    ((folds,),) = ask("SELECT @@lower_case_table_names")
    return str.lower if int(folds) else str


def _rights(ask: Ask, schema: str, table: str) -> set[str]:
    """Return which of the rights the user has on all of a schema, or on the table as well."""
    folded = _folded(ask)
    schema, table = folded(schema), folded(table)
    lines = [str(line) for (line,) in ask("SHOW GRANTS")]
    if any(" ON " not in line for line in lines):  # roles, which only MariaDB resolves by itself
        with suppress(Exception):
            ((roles,),) = ask("SELECT CURRENT_ROLE()")
            if str(roles) not in ("None", "NONE"):
                using = f"SHOW GRANTS FOR CURRENT_USER() USING {roles}"
                lines += [str(line) for (line,) in ask(using)]
    found: set[str] = set()
    for line in lines:
        grant = _GRANT.match(line)
        at = _OBJECT.match(grant[2]) if grant else None
        if (
            grant is None
            or at is None
            or not _is_meant(folded(at[1]), folded(at[2]), schema, table)
        ):
            continue
        listed = {part.strip().upper() for part in grant[1].split(",")}
        found |= set(_RIGHTS) if "ALL PRIVILEGES" in listed else listed
    return found


def _is_meant(of_schema: str, of_table: str, schema: str, table: str) -> bool:
    """Tell whether the object of a GRANT holds a table; names of schemas are patterns."""
    if of_table not in ("*", name(table)):
        return False
    if of_schema == "*":
        return True
    pattern, wanted = of_schema[1:-1].replace("``", "`"), ""
    parts = re.findall(r"\\.|.", pattern, re.S)
    for part in parts:
        wanted += {"%": ".*", "_": "."}.get(part, re.escape(part[-1]))
    return re.fullmatch(wanted, schema, re.S) is not None


@dataclass(frozen=True, slots=True)
class Swap:
    """A table that is being replaced, as a line of the record says.

    Attributes:
        attempt: that publishes. ``beside``, ``replaced``: the names of the new and of the old one.
        there: which of table, ``beside`` and ``replaced`` exist.
    """

    attempt: str
    beside: str
    replaced: str
    there: frozenset[str]

    def is_done(self, table: str) -> bool:
        """Tell whether the rename is done: then the lines of ``beside`` are those of the table.

        Where somebody has dropped the old table as well, the lines of the new one are compared
        with the rows that are there, as after a change of the table (``LoadedSplits``).
        """
        return table in self.there and self.beside not in self.there

    def is_half(self, table: str) -> bool:
        """Tell whether a server that renames one by one has died between the two."""
        return table not in self.there and {self.beside, self.replaced} <= self.there


def find_swap(ask: Ask, record: str, schema: str, table: str) -> Swap | None:
    """Return how a table is being replaced; None where it is not.

    Args:
        record: the table of the record as SQL.
    """
    rows = ask(
        f"SELECT attempt, name, whole FROM {record} WHERE target = {quote(target(schema, table))} "
        f"AND split = {quote(REPLACING)}"
    )
    if not rows:
        return None
    attempt, beside, replaced = (str(part) for part in rows[0])
    listed = ", ".join(map(quote, (table, beside, replaced)))
    there = ask(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE "
        f"TABLE_SCHEMA = {quote(schema)} AND TABLE_NAME IN ({listed})"
    )
    folded = _folded(ask)
    found = {folded(str(one)) for (one,) in there}
    present = frozenset(one for one in (table, beside, replaced) if folded(one) in found)
    return Swap(attempt, beside, replaced, present)


def replaced_by(ask: Ask, record: str, schema: str, table: str) -> str:
    """Return the attempt whose table has replaced the last one; "" for none."""
    rows = ask(
        f"SELECT split, attempt FROM {record} WHERE target = {quote(target(schema, table))} AND "
        f"split IN ({', '.join(map(quote, sorted(NO_SPLITS)))})"
    )
    found = {str(split): str(attempt) for split, attempt in rows}
    swap = find_swap(ask, record, schema, table) if REPLACING in found else None
    if swap is not None and swap.is_done(table):
        return swap.attempt
    return found.get(REPLACED_BY, "")


def target(schema: str, table: str) -> str:
    """Return ``schema.table`` as the record has it, cut to 191 characters."""
    return f"{schema}.{table}"[:191]


class Replacement:
    """Replaces one table, or ends what another process has begun; each on a session of its own.

    Args:
        database: of the table. ``record``: the table of the record as SQL.
        patience: seconds that others are waited for.
    """

    def __init__(
        self, database: MySQLConnections, record: str, schema: str, table: str, patience: float
    ) -> None:
        self._database, self._record = database, record
        self._schema, self._table, self._patience = schema, table, patience
        self._target = quote(target(schema, table))

    def _at(self, table: str) -> str:
        return f"{name(self._schema)}.{name(table)}"

    def publish(self, attempt: str, beside: str) -> None:
        """Put the table ``beside`` into the place of the other one, with its lines of the record.

        Raises:
            TargetError: somebody uses the table for too long, or something hangs on it.
        """
        deadline = time.monotonic() + self._patience
        while True:
            session = self._database.open_session()
            try:
                with _Session(session, self._lock, self._patience) as ask:
                    self._settle(ask)
                    if not self._is_published(ask, attempt, beside):
                        self._rename(ask, attempt, beside)
                    self._drop(ask, name_replaced(beside))
                return
            except (driver().err.MySQLError, OSError) as error:
                lost = number_of(error) in LOST or isinstance(error, OSError)
                if not lost or time.monotonic() > deadline:
                    raise self._explained(error) from None
                # The statement may have been run: the next try looks at what is there.
                time.sleep(_RETRY_SECONDS)
            finally:
                end(session)

    def settle(self, *, waits: bool) -> None:
        """End what a process that has died has begun: done, or taken back.

        Args:
            waits: for a process that is alive; else nothing is done while there is one.

        Raises:
            TargetError: it is still alive when patience ends.
        """
        if not self.is_begun():
            return
        session = self._database.open_session()
        try:
            with _Session(session, self._lock, self._patience if waits else 0) as ask:
                self._settle(ask)
        except _AliveError:
            if waits:
                raise
        except (driver().err.MySQLError, OSError) as error:
            raise self._explained(error) from None
        finally:
            end(session)

    def is_begun(self) -> bool:
        """Tell whether the record says that the table is being replaced."""
        return bool(self._database.ask(
            f"SELECT 1 FROM {self._record} WHERE target = {self._target} "
            f"AND split = {quote(REPLACING)}"
        ))  # fmt: skip

    @property
    def _lock(self) -> str:
        # Names of locks are of the whole server and have 64 characters at most.
        text = f"{self._schema}.{self._table}\0replace".encode()
        return f"rowfall_{blake2b(text, digest_size=16).hexdigest()}"

    def _explained(self, error: Exception) -> Exception:
        if number_of(error) != LOCKED:
            return self._database.explained(error, "put the new table into its place")
        return TargetError(
            f"{self._schema}.{self._table} is used by another session for longer than "
            f"{self._patience:.0f} s (--patience), so the new table, which has all rows, could not "
            "be put into its place",
            hint="SHOW PROCESSLIST names the session. When it has ended its transaction, run the "
            "same command again: nothing is loaded anew.",
        )

    def _is_published(self, ask: Ask, attempt: str, beside: str) -> bool:
        """Tell whether an earlier try, whose answer was lost, has put the table into its place."""
        if ask(
            f"SELECT 1 FROM {self._record} WHERE target = {self._target} "
            f"AND split = {quote(REPLACED_BY)} AND attempt = {quote(attempt)}"
        ):
            return True
        there = f"SELECT 1 FROM information_schema.TABLES WHERE {is_table(self._schema, beside)}"
        if not ask(there):
            raise TargetError(
                f"the table {self._schema}.{beside}, which held the rows of this load, was dropped",
                hint="Run the same command again: it loads them anew.",
            )
        return False

    def _rename(self, ask: Ask, attempt: str, beside: str) -> None:
        replaced = name_replaced(beside)
        check_replaceable(ask, self._schema, self._table)  # once more: it may have come since
        if layout(ask, self._schema, beside) != layout(ask, self._schema, self._table):
            raise TargetError(
                f"{self._schema}.{self._table} was altered while the rows that replace it were "
                "loaded, and the table that holds them is as it was before",
                hint="Run the same command again: it loads them anew.",
            )
        ask(
            f"INSERT INTO {self._record} (target, split, attempt, load_id, name, whole, session, "
            f"loaded) VALUES ({self._target}, {quote(REPLACING)}, {quote(attempt)}, '', "
            f"{quote(beside)}, {quote(replaced)}, CONNECTION_ID(), UTC_TIMESTAMP())"
        )
        try:
            # Attempts that have not seen the line have lines of their own by now.
            ask("BEGIN")
            ask(f"SELECT COUNT(*) FROM {self._record} WHERE target = {self._target} FOR UPDATE")
            ask("ROLLBACK")
            self._carry_number(ask, beside)
            self._drop(ask, replaced)
            ask(
                f"RENAME TABLE {self._at(self._table)} TO {self._at(replaced)}, "
                f"{self._at(beside)} TO {self._at(self._table)}"
            )
        except driver().err.MySQLError as error:
            if number_of(error) not in LOST:  # else it may have been renamed
                ask("ROLLBACK")
                self._forget_line(ask)
            raise
        self._take_over(ask, attempt, beside, made=True)

    def _carry_number(self, ask: Ask, beside: str) -> None:
        """Have AUTO_INCREMENT of the new table go on where that of the old one is."""
        with suppress(driver().err.MySQLError):  # MySQL 8 has a figure of yesterday otherwise
            ask("SET SESSION information_schema_stats_expiry = 0")
        rows = ask(
            "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE "
            + is_table(self._schema, self._table)
        )
        if rows and rows[0][0] is not None:
            ask(f"ALTER TABLE {self._at(beside)} AUTO_INCREMENT = {int(rows[0][0])}")

    def _settle(self, ask: Ask) -> None:
        swap = find_swap(ask, self._record, self._schema, self._table)
        if swap is None:
            return
        if swap.is_half(self._table):
            ask(f"RENAME TABLE {self._at(swap.beside)} TO {self._at(self._table)}")
        elif not swap.is_done(self._table):
            self._forget_line(ask)
            return
        # What has become of the table since the crash nobody knows, so its rows are to show it.
        self._take_over(ask, swap.attempt, swap.beside, made=False)
        self._drop(ask, swap.replaced)

    def _take_over(self, ask: Ask, attempt: str, beside: str, *, made: bool) -> None:
        """Let the lines of the new table be those of the table, in one transaction.

        Args:
            made: the table is the new one for sure, so its time goes into the record.
        """
        gathered = quote(target(self._schema, beside))
        ((now,),) = ask(
            "SELECT MAX(CREATE_TIME) FROM information_schema.TABLES WHERE "
            + is_table(self._schema, self._table)
        )
        each = (
            f"SELECT SUM(g) FROM (SELECT MAX(gained) AS g FROM {self._record} "
            f"WHERE target = {gathered} GROUP BY attempt) AS each_attempt"
        )
        ((gained,),) = ask(each)
        more = f", table_made = {quote(str(now))}" if made and now is not None else ""
        ask("BEGIN")
        ask(f"DELETE FROM {self._record} WHERE target = {self._target}")
        ask(
            f"UPDATE {self._record} SET target = {self._target}, attempt = {quote(attempt)}, "
            f"gained = {int(gained or 0)}{more} WHERE target = {gathered}"
        )
        ask(
            f"INSERT INTO {self._record} (target, split, attempt, load_id, name, whole, session, "
            f"loaded) VALUES ({self._target}, {quote(REPLACED_BY)}, {quote(attempt)}, '', "
            f"{quote(beside)}, '', CONNECTION_ID(), UTC_TIMESTAMP())"
        )
        ask("COMMIT")

    def _forget_line(self, ask: Ask) -> None:
        ask(
            f"DELETE FROM {self._record} WHERE target = {self._target} "
            f"AND split = {quote(REPLACING)}"
        )

    def _drop(self, ask: Ask, table: str) -> None:
        ask(f"DROP TABLE IF EXISTS {self._at(table)}")


class _AliveError(TargetError):
    """Another process has the lock."""


class _Session:
    """A session that holds a lock by name; as a context, what runs a statement there.

    Raises:
        TargetError: another process has the lock.
    """

    def __init__(self, session: Any, lock: str, patience: float) -> None:
        self._session, self._lock, self._patience = session, lock, patience

    def __enter__(self) -> Ask:
        seconds = max(1, int(self._patience))
        self._ask(f"SET SESSION lock_wait_timeout = {seconds}")
        self._ask(f"SET SESSION innodb_lock_wait_timeout = {seconds}")
        # With the session the lock is lost, and not before its last statement has ended: so who has
        # it next sees what became of that.
        taken = self._ask(f"SELECT GET_LOCK({quote(self._lock)}, {int(self._patience)})")
        if tuple(taken[0]) != (1,):
            raise _AliveError(
                "another rowfall replaces the same table at this moment",
                hint="Run the same command again when it has ended.",
                transient=True,
            )
        return self._ask

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):
            self._ask(f"SELECT RELEASE_LOCK({quote(self._lock)})")

    def _ask(self, text: str) -> list[tuple[Any, ...]]:
        return run(self._session, text)


def run(session: Any, text: str) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows."""
    with session.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())
