"""Tables and queries of MySQL, MariaDB and SingleStore: ``mysql://user@host/database/table``.

rowfall-decode reads rows in binary (:mod:`rowfall.systems.mysql.wire`). For an engine the server
makes lines of TSV of them (:mod:`rowfall.systems.mysql.types`), and this process passes them on
(:mod:`rowfall.systems.mysql.rows`). All sessions write times in UTC.

**Ranges.** Nobody counts or samples the table: InnoDB estimates in 0.2 ms how many rows of an index
lie between two values, so ranges are halved until each holds few by that.

**Moment.** Each connection reads one snapshot. The first ones are opened together, so that their
snapshots are milliseconds apart; the protocol has no way to share one without a lock on all tables.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import redact
from rowfall.core.model import Encoding, Kind
from rowfall.core.native import NativeTable
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.type_names import parse_type
from rowfall.sources.cursor import Cursor, CursorSql
from rowfall.sources.databases import (
    ANOTHER,
    DatabaseAddress,
    DatabaseSource,
    no_table,
    parse,
)
from rowfall.sources.handover import DatabaseAnswer
from rowfall.sources.key_ranges import (
    END,
    WHOLE,
    Described,
    Key,
    KeyKind,
    SourceColumn,
    count_ranges,
)
from rowfall.systems.mysql import rows, wire
from rowfall.systems.mysql.catalogue import TEXTS, MySQLColumn, columns_query, declared, is_table
from rowfall.systems.mysql.client import (
    AGAIN_HINT,
    LOCKED,
    NO_TABLE,
    PARAMETERS,
    PASSWORD_VARIABLE,
    PORT,
    Login,
    ServerError,
    connect,
    driver,
    name,
    quote,
    said,
    set_up,
)
from rowfall.systems.mysql.identity import Ask, KeyedTable, is_another, remember
from rowfall.systems.mysql.native import native_table
from rowfall.systems.mysql.option_files import completed
from rowfall.systems.mysql.session import Pool, SharedSessions, end
from rowfall.systems.mysql.types import TSV, columns_of, marks_of, of_result

_UTC = ("+00:00", "UTC", "Etc/UTC")
_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
# Estimates of one table: some for each of 512 ranges.
_MOST_ESTIMATES = 5_000
# A range that holds somewhat more is not halved: both halves would be small.
_SPARE = 1.5
# Keys up to the highest one among which transactions that have not ended may have some, and how
# long they are waited for: they end within seconds, or are forgotten ones.
_TAIL, _WRITERS_SECONDS = 10_000, 5
_KINDS = {
    "tinyint": KeyKind.INTEGER, "smallint": KeyKind.INTEGER, "mediumint": KeyKind.INTEGER,
    "int": KeyKind.INTEGER, "bigint": KeyKind.INTEGER, "date": KeyKind.DAY,
    "datetime": KeyKind.MOMENT, "timestamp": KeyKind.MOMENT,
}  # fmt: skip
# Kinds whose numbers InnoDB estimates ranges of.
_CUT = (KeyKind.INTEGER, KeyKind.DAY, KeyKind.MOMENT)
_ID_LENGTHS = {"binary": 16, "char": 36, "varchar": 36}
_TWO_NAMES = 1060


@dataclass(frozen=True, slots=True)
class BytesKey(Key):
    """A UUID kept in BINARY(16)."""

    def literal(self, number: int) -> str:
        text = Key.literal(self, number)
        return f"UNHEX({text.replace('-', '')})"


def halve(
    start: int, stop: int, estimate: Callable[[int, int], int], most: int
) -> list[tuple[int, int]]:
    """Cut a half-open range into some whose rows are about ``most`` each, by estimates.

    They cover the range and do not overlap, whatever the estimates are.
    """
    found: list[tuple[int, int, int]] = []
    left, asked = [(start, stop)], 0
    while left:
        low, high = left.pop()
        rows = estimate(low, high) if asked < _MOST_ESTIMATES else most
        asked += 1
        if rows > _SPARE * most and high - low > 1:
            middle = (low + high) // 2
            left += [(middle, high), (low, middle)]
        elif found and found[-1][2] + rows <= most:
            found[-1] = (found[-1][0], high, found[-1][2] + rows)
        else:
            found.append((low, high, rows))
    return [(low, high) for low, high, _ in found]


@dataclass(slots=True)
class _MySQLReading:
    """A connection that is read from; ``ended``: up to the last packet, so that it is good yet."""

    connection: Any
    ended: bool = False


# In the last line, behind the columns: comments of those may hold anything.
_NEXT = regex(r"\n\) ENGINE=\w+ AUTO_INCREMENT=(\d+)")


class MySQLSource(DatabaseSource):
    """One table, or the result of ``--query``.

    Args:
        shared: the sessions of several tables, whose snapshots are of one moment.
    """

    def __init__(
        self, texts: Sequence[str], options: Options, shared: SharedSessions | None = None
    ) -> None:
        taken: list[str] = []
        texts = [completed(text, taken) for text in texts]
        address = parse(texts, options, port=PORT, variable=PASSWORD_VARIABLE, settings=PARAMETERS)
        if address.schema:
            raise UsageError(
                f"{address.text}: a table of MySQL has a database and no schema",
                hint="Write DATABASE/TABLE; a dot in the name of a table as ?table=NAME&schema=.",
            )
        # The three schemes name one table: what is loaded by one is loaded by the others.
        super().__init__(replace(address, scheme="mysql"), options)
        self.taken = tuple(taken)
        self._threads = threading.Lock()
        self._shared = shared
        self._sessions = Pool(self._connect_with_snapshot)
        self._opened = False
        self._index = ""
        self._marks = TSV
        self._binary = self._encrypted = False
        self._native = NativeTable("")

    # --- catalogue ----------------------------------------------------------------------------

    def describe(self) -> Described:
        connection = self._connect() if self._shared is None else self._shared.take_asking()
        lost = True
        try:
            found = self._query(connection) if self.query else self._table(connection)
            self._binary = self._can_prepare(connection, found)
            self._encrypted = connection.wire.encrypted
            lost = False
            return found
        except self._driver().err.MySQLError as error:
            explained = self._explained(error)
            lost = explained.transient
            raise explained from None
        finally:
            if self._shared is None or lost:
                connection.close()
            else:
                self._shared.keep_asking(connection)

    def _can_prepare(self, connection: Any, found: Described) -> bool:
        """Tell whether rows can come in binary; otherwise they come as text."""
        statement = self._statement(found.columns, "", binary=True)
        try:
            _, columns = wire.prepare(connection, statement)
        except self._driver().err.MySQLError:  # a statement that only text can carry
            return False
        return columns == len(found.columns)

    def _query(self, connection: Any) -> Described:
        """Describe the result of ``--query``, by a statement that gives no rows."""
        try:
            result = wire.query(connection, f"SELECT * FROM ({self.query}\n) AS rowfall LIMIT 0")
        except self._driver().err.MySQLError as error:
            if error.args[0] != _TWO_NAMES:
                raise
            raise UsageError(
                f"--query gives two columns of one name: {error.args[1]}",
                hint="Name each of them: SELECT a.id AS a_id, b.id AS b_id.",
            ) from None
        found = of_result(result[0] if result else ())
        self._marks = marks_of(found)
        columns = columns_of(found, "the query", query=self.query)
        if self.address.key:
            raise UsageError("a query is read in one stream", hint="Leave out key=.")
        return Described("query", "", columns, 0, None, "no key of a query is known")

    def _table(self, connection: Any) -> Described:
        at = self.address
        found = declared(self._ask(connection, columns_query(at.database, at.table)))
        if not found:
            raise self._missing(connection)
        hidden = [column.name for column in found if "INVISIBLE" in column.extra]
        found = [column for column in found if column.name not in hidden]
        self._marks = marks_of(found)
        whole = f"{name(at.database)}.{name(at.table)}"
        columns = columns_of(found, whole, command=at.command)
        with suppress(self._driver().err.MySQLError):
            ((_, text, *_),) = self._ask(connection, f"SHOW CREATE TABLE {self._name}")
            self._native = native_table(connection.get_server_info(), found, str(text))
        kind, rows, size = self._ask(
            connection,
            "SELECT ENGINE, TABLE_ROWS, DATA_LENGTH FROM information_schema.TABLES "
            f"WHERE {self._is_table}",
        )[0]
        # The catalogue hides columns that this user may not read; this says so.
        filled = bool(self._ask(connection, f"SELECT * FROM {self._name} LIMIT 1"))
        follows = self.options.cursor is not None
        key, why, order = self._choose_key(connection, found, kind)
        if follows:
            key, self._index = None, ""
        notes = [f"{', '.join(hidden)}: invisible, left out as by SELECT *"] if hidden else []
        rows = int(rows or 0)
        ranges: tuple[tuple[int, int], ...] = WHOLE if filled else ()
        if key is not None and filled:
            if key.grows:
                notes += self._settle_writers(connection, key)
            ranges = tuple(self._ranges(connection, key, rows, int(size or 0)))
        given = self._next_key(connection) if key is not None and key.grows and filled else END
        return Described(
            at.table, "", columns, rows, key, why, ranges, order, tuple(notes), given
        )  # fmt: skip

    def native(self) -> NativeTable:
        _ = self.described
        return self._native

    def _next_key(self, connection: Any) -> int:
        """Return the next number of AUTO_INCREMENT; END where the user may not see it.

        Deleted rows do not lower it, so it tells a table that was made anew or emptied from one
        whose last rows are gone. It is in no version: what the catalogue knows besides, the time
        of CREATE, is another one after each ALTER. MySQL 8 shows a number in information_schema
        that may be a day old, and this one as it is.
        """
        with suppress(self._driver().err.MySQLError):
            ((_, text, *_),) = self._ask(connection, f"SHOW CREATE TABLE {self._name}")
            if found := _NEXT.search(str(text)):
                return int(found[1])
        return END

    def identity(self) -> str:
        with self._keyed() as (table, ask):
            return remember(table, ask) if table is not None else ""

    def check_identity(self, known: str, loaded: Sequence[tuple[int, int]]) -> None:
        with self._keyed() as (table, ask):
            made = is_another(table, known, ask) if table is not None else ""
        if made:
            raise SourceError(
                f"{self.text}: rows of it were loaded, and it is another table by now: the server "
                f"has made or altered it at {made}, and no row that was looked at then is what it "
                "was; rows of now would count as loaded",
                hint=ANOTHER,
            )

    @contextmanager
    def _keyed(self) -> Iterator[tuple[KeyedTable | None, Ask]]:
        """Enter a block with the table, None where it has no key, and one that asks about it."""
        key, at = self.described.key, self.address
        if key is None or self.query:
            yield None, lambda query: []
            return
        connection = self._connect() if self._shared is None else self._shared.take_asking()
        try:
            found = declared(self._ask(connection, columns_query(at.database, at.table)))
            yield KeyedTable(
                at.database, at.table, self._index, key, found, isinstance(key, BytesKey)
            ), partial(self._ask, connection)  # fmt: skip
        except self._driver().err.MySQLError as error:
            raise self._explained(error) from None
        finally:
            if self._shared is None:
                connection.close()
            elif connection.open:
                self._shared.keep_asking(connection)

    def _missing(self, connection: Any) -> SourceError:
        """Return the error for a table that is not in the catalogue: no right, or no such table."""
        at = self.address
        try:
            self._ask(connection, f"SELECT 1 FROM {self._name} LIMIT 0")
        except self._driver().err.MySQLError as error:
            if error.args[0] not in NO_TABLE:
                return self._explained(error)
        tables = [
            str(found)
            for (found,) in self._ask(
                connection,
                "SELECT TABLE_NAME FROM information_schema.TABLES "
                f"WHERE TABLE_SCHEMA = {quote(at.database)} ORDER BY 1",
            )
        ]
        return no_table(at, at.table, tables)

    # --- key ----------------------------------------------------------------------------------

    def _choose_key(
        self, connection: Any, columns: Sequence[MySQLColumn], engine: str
    ) -> tuple[Key | None, str, tuple[str, ...]]:
        """Return the key to cut by, or None and why; and the columns of the primary key."""
        rows = self._ask(
            connection,
            "SELECT INDEX_NAME, COLUMN_NAME, NON_UNIQUE, SUB_PART, INDEX_TYPE "
            f"FROM information_schema.STATISTICS WHERE {self._is_table} "
            "ORDER BY INDEX_NAME != 'PRIMARY', NON_UNIQUE, INDEX_NAME, SEQ_IN_INDEX",
        )
        known = {column.name: column for column in columns}
        primary = tuple(str(row[1]) for row in rows if row[0] == "PRIMARY")
        order = primary if all(c in known and not known[c].nullable for c in primary) else ()
        wanted = self.address.key
        if wanted == "none":
            return None, "asked for with key=none", order
        first: dict[str, tuple[Any, ...]] = {}
        for row in rows:
            first.setdefault(str(row[0]), row)
        if wanted:
            if wanted not in known:
                raise SourceError(
                    f"{self.address.table} has no column {wanted}, which key= names",
                    hint=f"{did_you_mean(wanted, known)}Its columns: {', '.join(known)}.",
                )
            first = {index: row for index, row in first.items() if row[1] == wanted}
            if not first:
                raise SourceError(
                    f"{wanted} begins no index of {self.address.table}, so each range would read "
                    "all of it",
                    hint="Name a column with an index, or key=none for one stream.",
                )
        else:
            # Rows lie in the order of the primary key, or of the first key without NULL; through
            # any other index each of them is looked up by itself.
            filled = {
                str(row[0]) for row in rows
                if row[2] == 0 and not any(
                    row[0] == other[0] and (str(other[1]) not in known or known[other[1]].nullable)
                    for other in rows
                )
            }  # fmt: skip
            first = dict([one for one in first.items() if one[0] in filled][:1])
        why = "it has no primary key; an indexed column is named with ?key=COLUMN"
        for index, (_, column, _, part, kind) in first.items():
            found = known.get(str(column))
            if found is None:
                why = f"its key {column} is invisible"
                continue
            alone = sum(row[0] == index for row in rows) == 1
            key = _key_of(found, grows="AUTO_INCREMENT" in found.extra and alone)
            if key is not None and part is None and kind == "BTREE" and engine == "InnoDB":
                self._index = index
                why = "each connection has a snapshot of its own, milliseconds apart"
                return key, why, order
            why = f"its key {column} {found.whole} is not an integer, time or UUID"
            why = why if key is None else f"the engine {engine} estimates no ranges of {column}"
        if wanted:
            raise SourceError(
                f"{self.address.table} cannot be read in ranges of {wanted}: {why}",
                hint="Leave out key=.",
            )
        return None, why, order

    def _settle_writers(self, connection: Any, key: Key) -> list[str]:
        """Wait for transactions that have added rows below the highest key and are still open.

        Numbers are given before rows are committed: who commits later may have a lower one than
        what is seen now, and a later run goes on behind that. A locking read waits for them.
        """
        ((high,),) = self._ask(connection, f"SELECT MAX({key.sql}) FROM {self._name}")
        if high is None:
            return []
        seconds = _WRITERS_SECONDS if self._shared is None else self._shared.writers_seconds()
        self._ask(connection, f"SET SESSION innodb_lock_wait_timeout = {seconds}")
        tail = f"{key.sql} > {int(high) - _TAIL} AND {key.sql} <= {int(high)}"
        try:  # a statement of its own: it keeps no lock
            self._ask(
                connection, f"SELECT COUNT(*) FROM {self._name} WHERE {tail} LOCK IN SHARE MODE"
            )
        except self._driver().err.MySQLError as error:
            why = "is still open" if error.args[0] == LOCKED else "may be open"
            return [
                f"a transaction that has written into {self.address.table} {why}: rows that it "
                f"commits later with a {key.name} up to {high} are not loaded, now or later"
            ]
        return []

    def _ranges(
        self, connection: Any, key: Key, rows: int, size: int, end: int | None = None
    ) -> list[tuple[int, int]]:
        """Return ranges of about the same number of rows that cover the table.

        Args:
            end: number where they end; None for that of the key.
        """
        ((low, high),) = self._ask(
            connection, f"SELECT MIN({key.sql}), MAX({key.sql}) FROM {self._name}"
        )
        first, last = _number(key, low), _number(key, high)  # None: only an open range has it
        if end is None:
            end = END if last is None or not key.grows else min(END, last + 1)
        count = count_ranges(size)
        if count == 1:
            return [(0, end)]

        def estimate(start: int, stop: int) -> int:
            where = key.condition(start, stop)
            where = f" WHERE {where}" if where else ""
            with connection.cursor(self._driver().cursors.DictCursor) as cursor:
                cursor.execute(
                    f"EXPLAIN SELECT 1 FROM {self._name} FORCE INDEX ({name(self._index)}){where}"
                )
                # NULL where there cannot be any.
                return int(cursor.fetchall()[0]["rows"] or 0)

        # Between the lowest and the highest value; what is beyond them is open.
        start = first or 0
        stop = min(end, last + 1) if last is not None else end
        if start >= stop:
            return [(0, end)]
        found = halve(start, stop, estimate, max(1, rows // count))
        bounds = [0, *(low for low, _ in found[1:]), end]
        return list(itertools.pairwise(bounds))

    # --- a column that is followed ------------------------------------------------------------

    @property
    def relation_text(self) -> str:
        return f"({self.query}\n) AS rowfall" if self.query else self._name

    def ask(self, query: str) -> Iterable[Sequence[Any]]:
        """See :class:`rowfall.sources.following.FollowedDatabase`: in a snapshot of its own."""
        connection = self._connect(self.patience)
        try:
            return self._ask(connection, query)
        except self._driver().err.MySQLError as error:
            raise self._explained(error) from None
        finally:
            connection.close()

    def cursor_sql(self, column: SourceColumn) -> CursorSql:
        kind, refused = parse_type(column.type).base, ""
        if kind == "UUID":
            refused = "sorts by its last digits"
        if self.query:
            refused = refused or ("is a text of a query, whose collation nobody tells"
                                  if kind == "String" else "")  # fmt: skip
            return CursorSql(name(column.name), escapes=True, refused=refused)
        rows = self.ask(
            "SELECT INDEX_NAME, NON_UNIQUE, SUB_PART, (SELECT COUNT(*) FROM "
            "information_schema.STATISTICS o WHERE o.TABLE_SCHEMA = s.TABLE_SCHEMA AND "
            "o.TABLE_NAME = s.TABLE_NAME AND o.INDEX_NAME = s.INDEX_NAME) FROM "
            f"information_schema.STATISTICS s WHERE {self._is_table} AND SEQ_IN_INDEX = 1 "
            f"AND COLUMN_NAME = {quote(column.name)} AND INDEX_TYPE = 'BTREE' "
            "ORDER BY INDEX_NAME != 'PRIMARY', NON_UNIQUE"
        )
        found = [row for row in rows if row[2] is None]
        self._index = str(found[0][0]) if found else ""
        if kind == "String":
            ((type_, collation),) = self.ask(
                "SELECT DATA_TYPE, COLLATION_NAME FROM information_schema.COLUMNS WHERE "
                f"{self._is_table} AND COLUMN_NAME = {quote(column.name)}"
            )
            if str(type_).lower() not in TEXTS:
                refused = f"is a {str(type_).lower()} and no text"
            elif not str(collation).endswith("_bin"):
                refused = f"sorts by the collation {collation}, not by its bytes"
        unique = any(not row[1] and int(row[3]) == 1 for row in found)
        return CursorSql(
            name(column.name), indexed=bool(found), unique=unique, escapes=True, refused=refused,
        )  # fmt: skip

    def key_sql(self, column: SourceColumn) -> tuple[str, str, str]:
        return name(column.name), f"CAST({name(column.name)} AS CHAR)", ""

    def cursor_ranges(self, found: Described, cursor: Cursor) -> Sequence[tuple[int, int]]:
        """Cut by a sample or by estimates, see :mod:`rowfall.sources.following`."""
        if not self._index or cursor.key.kind not in _CUT:
            return [(0, cursor.end)]
        size = int(found.rows * sum(column.bytes_each for column in found.columns))
        connection = self._connect(self.patience)
        try:
            return self._ranges(connection, cursor.key, found.rows, size, cursor.end)
        except self._driver().err.MySQLError as error:
            raise self._explained(error) from None
        finally:
            connection.close()

    # --- reading ------------------------------------------------------------------------------

    def encoding(self, listing: Listing) -> Encoding:
        """Return TSV whose strings may be bytes: the server checks those that are text."""
        return replace(super().encoding(listing), binary=True)

    def stored(self) -> Encoding | None:
        """Return the encoding in which rowfall-decode reads rows; None where that is text."""
        names = tuple(column.name for column in self.described.columns)
        if not self._binary:
            return None
        return Encoding("MySQL", "none", Kind.TYPED, header=names, names=names, fields=len(names))

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the rows of a range as lines, in the snapshot of one connection."""
        with self._reading() as reading:
            statement = self._statement(self.described.columns, self.condition(split))
            reader = wire.begin_lines(reading.connection, statement)
            yield self.header()
            yield from rows.lines(reader, self._marks)
            reading.ended = True

    def pipes(self, splits: Sequence[Split]) -> list[str]:
        """See :class:`rowfall.sources.databases.DatabaseSource`; what TLS encrypts is read here."""
        if self.stored() is None or not self._encrypted:
            return super().pipes(splits)
        return self._streams.open([(s.name, partial(self.packets, s)) for s in splits])

    @contextmanager
    def answer(self, split: Split) -> Iterator[DatabaseAnswer]:
        """Ask for the rows of a range in binary, in the snapshot of one connection."""
        with self._reading() as reading:
            if reading.connection.wire.encrypted:
                raise rows.BrokenPacketError("the server encrypts some connections only")
            number = self._prepared(reading.connection, split)
            answer = wire.execute(reading.connection, number)
            yield answer
            if answer.complete:
                wire.close_statement(reading.connection, number)
                reading.ended = True

    def packets(self, split: Split) -> Iterator[bytes]:
        """Give the rows of a range in binary, in the snapshot of one connection, and then b""."""
        with self._reading() as reading:
            number = self._prepared(reading.connection, split)
            relay = wire.relayed(reading.connection, number)
            try:
                yield from relay.pieces()
            except GeneratorExit:  # who reads them has gone
                reading.ended = relay.is_complete()
            if reading.ended:
                wire.close_statement(reading.connection, number)

    def _prepared(self, connection: Any, split: Split) -> int:
        """Return the number of a statement that gives the rows of a range in binary."""
        columns = self.described.columns
        statement = self._statement(columns, self.condition(split), binary=True)
        number, count = wire.prepare(connection, statement)
        if count != len(columns):
            raise rows.BrokenPacketError("the table has other columns now")
        return number

    @contextmanager
    def _reading(self) -> Iterator[_MySQLReading]:
        """Lend a connection with a snapshot; what goes wrong becomes an error of ours.

        Raises:
            SourceError: transient where another try may help.
        """
        reading = _MySQLReading(self._take())
        err = self._driver().err
        try:
            yield reading
        except (err.MySQLError, wire.PacketError) as error:
            raise self._explained(error) from None
        except (OSError, rows.BrokenPacketError) as error:
            raise SourceError(
                f"cannot read {self.text}: {error}", hint=AGAIN_HINT, transient=True
            ) from None
        finally:
            self._give_back(reading.connection, good=reading.ended)

    def _statement(
        self, columns: Sequence[SourceColumn], condition: str, *, binary: bool = False
    ) -> str:
        """Return the statement that gives rows: as lines, or as columns in binary."""
        if binary:
            text = ", ".join(column.binary for column in columns)
        else:
            text = self._marks.line(column.select for column in columns)
        if self.query:
            return f"SELECT {text} FROM ({self.query}\n) AS rowfall"
        # Half a table that is not in memory would otherwise be found by reading all of it.
        index = f" FORCE INDEX ({name(self._index)})" if condition and self._index else ""
        return f"SELECT {text} FROM {self._name}{index}" + (
            f" WHERE {condition}" if condition else ""
        )

    # --- connections --------------------------------------------------------------------------

    def close(self) -> None:
        """End the connections that nobody reads from; threads that read end theirs."""
        super().close()
        self._sessions.end_idle()

    def _take(self) -> Any:
        """Return a connection with a snapshot: one that is idle, or a new one."""
        if self._shared is not None:
            return self._shared.take()
        with self._threads:
            if not self._opened:
                self._opened = True
                streams = min(len(self.described.ranges) or 1, os.cpu_count() or 1)
                opened = [self._connect(self.patience) for _ in range(streams)]
                for connection in opened:  # together, when all are there
                    begin_snapshot(connection, self._driver())
                self._sessions.keep(opened)
        return self._sessions.take()

    def _connect_with_snapshot(self) -> Any:
        connection = self._connect(self.patience)
        begin_snapshot(connection, self._driver())
        return connection

    def _give_back(self, connection: Any, *, good: bool) -> None:
        """Keep a connection that has read to its end; what broke may have broken all."""
        if self._shared is not None:
            self._shared.give_back(connection, good=good)
            return
        if good:
            self._sessions.keep([connection])
            return
        end(connection)
        self._sessions.end_idle()

    def _connect(self, patience: float = 0.0) -> Any:
        """Return a new session.

        Args:
            patience: seconds during which a server that is away is asked again.

        Raises:
            SourceError: there is none to be had.
        """
        begin = partial(open_reading, self.address, self._explained)
        return self.patiently(begin, patience)

    def _driver(self) -> Any:
        return driver(self.address.scheme)

    def _ask(self, connection: Any, query: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    @property
    def _name(self) -> str:
        return f"{name(self.address.database)}.{name(self.address.table)}"

    @property
    def _is_table(self) -> str:
        return is_table(self.address.database, self.address.table)

    def _explained(self, error: Exception) -> SourceError:
        """Return an error of server or driver as a SourceError with a hint."""
        found = explained(self.address, error)
        if found.hint is None and self.query:
            found.hint = "Try the query in the database's own client."
        return found


def _key_of(column: MySQLColumn, *, grows: bool) -> Key | None:
    """Return the key that a column is; None for one that cannot be cut."""
    sql = name(column.name)
    kind = _KINDS.get(column.kind)
    if kind is not None:
        return Key(column.name, sql, kind, grows=grows, nullable=column.nullable)
    if _ID_LENGTHS.get(column.kind) != column.length:
        return None
    made = BytesKey if column.kind == "binary" else Key
    return made(column.name, sql, KeyKind.UUID, nullable=column.nullable)


def _number(key: Key, value: object) -> int | None:
    """Return the number of a value as the driver gives it; None where it has none."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return key.number(value.hex())
    return key.number(value)


# --- sessions -------------------------------------------------------------------------------------


def begin_snapshot(connection: Any, pymysql: Any) -> None:
    """Begin a transaction that reads what is committed now."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(_SNAPSHOT)
        except pymysql.err.MySQLError:
            cursor.execute("START TRANSACTION")


def open_reading(at: DatabaseAddress, explain: Callable[[Exception], SourceError]) -> Any:
    """Return a new session that reads values as they are expected here.

    Args:
        explain: makes an error of ours of one of server or driver.

    Raises:
        SourceError: there is none to be had.
    """
    err = driver(at.scheme).err
    login = Login(
        at.login.host,
        at.login.port,
        at.login.user,
        at.login.password,
        at.database,
        at.settings.get("ssl_ca", ""),
        at.settings.get("socket", ""),
    )
    try:
        connection = connect(login)
        set_up(connection, {"sql_mode": "''"}, "REPEATABLE READ")
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@SESSION.time_zone, @@SESSION.sql_mode, @@system_time_zone")
            zone, mode, system = cursor.fetchall()[0]
    except (err.MySQLError, OSError, RuntimeError) as error:
        raise explain(error) from None
    zone = system if str(zone) == "SYSTEM" else zone  # SingleStore keeps its own
    if str(zone) not in _UTC or "NO_BACKSLASH_ESCAPES" in str(mode):
        connection.close()
        raise SourceError(
            f"{at.text}: the server lets no session have its own time zone and sql_mode "
            f"(they are {zone} and {mode or 'empty'})",
            hint="Values would be read wrong: set time_zone to '+00:00' (of SingleStore "
            "default_time_zone) and sql_mode to ''.",
        )
    return connection


def explained(at: DatabaseAddress, error: Exception) -> SourceError:
    """Return an error of server, driver or network as a SourceError with a hint."""
    secrets = (at.login.password,) if at.login.password else ()
    if isinstance(error, wire.PacketError):
        found = ServerError(error.number, redact(error.text, *secrets), lost=False)
    else:
        found = said(error, *secrets)
    what = name(at.table) if at.table else "*"
    hint = found.hint(
        right=f"GRANT SELECT ON {name(at.database)}.{what} TO {quote(at.login.user)}@'%'.",
        database="See its databases with SHOW DATABASES; the user needs a right to one.",
    )
    return SourceError(
        found.sentence(f"cannot read {at.text}"), hint=hint, transient=found.transient
    )
