"""MySQL, MariaDB and SingleStore as databases that take rows: LOAD DATA in transactions.

What a session sets for the load ends with its connection.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from rowfall.core.errors import EngineError, RowfallError, TargetError, UsageError
from rowfall.core.model import Column
from rowfall.core.netaddress import is_loopback, is_own_name
from rowfall.core.options import ERROR, REPLACE, SKIP, Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText
from rowfall.core.units import parse_duration
from rowfall.engines.base import NETWORK_ERROR, ExistingTable
from rowfall.engines.database import (
    RECORD,
    Binary,
    Result,
    Transaction,
    Transactions,
    check_key_given,
    no_key_to_replace,
    upkeep,
)
from rowfall.engines.file_database import GATHERS
from rowfall.systems.mysql import bulk, native, wire
from rowfall.systems.mysql.catalogue import BLOBS, Declared, columns_query, declared, is_table
from rowfall.systems.mysql.client import (
    AGAIN_HINT,
    FULL,
    LOST,
    NO_FILES,
    PATIENCE_SECONDS,
    READ_ONLY,
    SYNTAX,
    TOO_LARGE,
    TSV_LINES,
    Login,
    connect,
    driver,
    name,
    number_of,
    quote,
    said,
    set_up,
)
from rowfall.systems.mysql.record import LoadedSplits
from rowfall.systems.mysql.replacing import (
    REPLACED,
    check_replaceable,
    layout,
    name_beside,
    name_replaced,
)
from rowfall.systems.mysql.session import Pool, end, takes_parameters
from rowfall.systems.mysql.transaction import MySQLTransaction
from rowfall.systems.mysql.types import declared_type, result_column, taken_column, tsv
from rowfall.targets.transactional import RECORD_NAME

_RETRY_SECONDS = 0.5
# Without it 0 in an AUTO_INCREMENT column would become the next number.
_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO"
# unique_checks stays: without, MariaDB sorts rows into an empty table at the end, for twice the
# CPU, and locks all of it.
_SESSION = {
    "sql_mode": f"'{_MODE}'", "net_read_timeout": PATIENCE_SECONDS, "max_error_count": 64,
    "sql_notes": 1,
}  # fmt: skip
# By the reader of LOAD DATA: no text is converted where all columns have UTF-8.
_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4", "ascii", "binary"})
_IDS = frozenset({"uuid", "inet4", "inet6"})


LIST_TABLES = (
    "SELECT table_schema, table_name, table_rows, data_length + index_length FROM "
    "information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND "
    "LEFT(table_name, 9) <> '_rowfall_' ORDER BY 2"
)


class MySQLDatabase(Transactions):
    """A database of a server, opened for one table."""

    LIST_TABLES = LIST_TABLES

    def __init__(self, at: ServerAt, database: str, table: str, options: Options) -> None:
        self._login = Login(
            at.host, at.port, at.user, at.password, at.options.get("database") or database,
            at.options.get("ssl_ca", ""), at.options.get("socket", ""),
        )  # fmt: skip
        self._database, self._table = database, table
        self._patience = parse_duration(options.patience)
        record = at.options.get(RECORD_NAME, RECORD)
        self.record = LoadedSplits(self, database, table, record, self._patience)
        self._record_name, self._gathers = record, ""
        self._gathered: LoadedSplits | None = None
        self._options = options
        self.name, self.on_conflict = database, options.on_conflict
        self._sessions = Pool(self.open_session)
        self._packed = False
        self._holding = threading.Lock()
        self._holder: Any = None
        self._held: set[str] = set()
        super().__init__()
        self._settings: dict[str, Any] | None = None
        self._columns: list[Declared] | None = None

    # --- what it is ---------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Name and version, for people."""
        version = str(self.settings["version"])
        if self.distributed:
            return f"SingleStore {self.settings['memsql_version']}"
        number = version.partition("-")[0]
        return f"{'MariaDB' if 'mariadb' in version.lower() else 'MySQL'} {number}"

    @property
    def distributed(self) -> bool:
        """True for SingleStore, whatever the address is called."""
        return "memsql_version" in self.settings

    @property
    def native(self) -> str:
        """See :class:`rowfall.engines.database.SpeaksNative`; none of SingleStore."""
        return "" if self.distributed else native.family(str(self.settings["version"]))

    @property
    def native_version(self) -> tuple[int, ...]:
        return native.number(str(self.settings["version"]))

    @property
    def marks(self) -> bool:
        """See :class:`rowfall.engines.database.Database`: SingleStore has no savepoints."""
        return not self.distributed

    @property
    def settings(self) -> dict[str, Any]:
        """Return the server's variables by name (SHOW VARIABLES), asked for once."""
        if self._settings is None:
            # All 700: SingleStore is not known to choose among them.
            self._settings = {str(row[0]): row[1] for row in self.ask("SHOW VARIABLES")}
        return self._settings

    @property
    def packet(self) -> int:
        """Bytes of a packet that the server takes, its header included."""
        most = int(self.settings.get("max_allowed_packet", wire.PACKET))
        return max(1024, min(wire.PACKET, most // 2))

    def check(self, *, dry: bool) -> None:
        settings, self.record.dry = self.settings, dry
        if str(settings.get("local_infile", "ON")).upper() in ("OFF", "0"):
            raise self.no_files()
        if self._options.pull and not self.distributed:
            raise UsageError(
                f"--pull: {self.text} is {self.kind}, and only SingleStore has pipelines",
                hint="Leave it out: the rows are read here and sent.",
            )
        zone, mode = str(settings["time_zone"]), str(settings.get("sql_mode", ""))
        odd = zone not in ("+00:00", "UTC") or "NO_BACKSLASH_ESCAPES" in mode
        if odd and not self.distributed:
            raise TargetError(
                f"{self.text}: the server lets no session have its own time_zone and sql_mode "
                f"(they are {zone} and {mode})",
                hint="Values would be written wrong: ask for the right to set them.",
            )
        columns = self.columns
        if columns and self.on_conflict != ERROR and not self._unique():
            raise UsageError(
                f"--on-conflict {self.on_conflict}: {self._table} has no unique key, so "
                "nothing can be there already",
                hint="Give it a primary key, or leave the option out.",
            )
        if columns and self.updates:
            self.key()
        if self._options.replace:  # of a table that is to be made the rights are looked at
            if self.distributed:
                raise UsageError(
                    f"--replace: {self.text} is {self.kind}, where two tables do not change places",
                    hint="Leave it out: the rows come beside those that are there.",
                )
            check_replaceable(self.ask, self._database, self._table)

    @property
    def updates(self) -> bool:
        """True where rows come into a temporary table first and then change those with their key.

        REPLACE would delete these: columns that the files lack, and rows of other tables that
        refer to them, would be gone. SingleStore has no such tables to refer.
        """
        return self.on_conflict == REPLACE and not self.distributed

    def key(self) -> tuple[str, ...]:
        """Return the columns whose values rows may not share: of the primary key, else of the only
        unique one.

        Raises:
            UsageError: there are several, or it is over parts of values.
        """
        rows = self.ask(
            "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS WHERE "
            f"NON_UNIQUE = 0 AND {self._is_table} ORDER BY INDEX_NAME, SEQ_IN_INDEX"
        )
        keys: dict[str, list[tuple[Any, Any]]] = {}
        for index, column, part in rows:
            keys.setdefault(str(index), []).append((column, part))
        found = keys.get("PRIMARY") or (next(iter(keys.values())) if len(keys) == 1 else None)
        what = "several unique keys and no primary key"
        if found is not None and any(column is None or part for column, part in found):
            found, what = None, "a key over expressions or parts of values"
        if found is None:
            raise no_key_to_replace(self._table, what)
        return tuple(str(column) for column, _ in found)

    def no_files(self) -> TargetError:
        """Return the error of a server that takes no LOAD DATA LOCAL."""
        return TargetError(
            f"{self.text}: the server has local_infile switched off (rowfall has it on), so it "
            "takes no rows by LOAD DATA LOCAL INFILE",
            hint="On the server: SET GLOBAL local_infile = ON, and local_infile=ON below [mysqld] "
            "in its configuration to keep it.",
        )

    def upkeep(self) -> str:
        if self.distributed or not self.columns:
            return ""
        ((indexes, keys, checks, triggers),) = self.ask(
            "SELECT (SELECT COUNT(DISTINCT INDEX_NAME) FROM information_schema.STATISTICS WHERE "
            f"{self._is_table}), (SELECT COUNT(*) FROM information_schema.TABLE_CONSTRAINTS WHERE "
            f"{self._is_table} AND CONSTRAINT_TYPE = 'FOREIGN KEY'), (SELECT COUNT(*) FROM "
            f"information_schema.TABLE_CONSTRAINTS WHERE {self._is_table} AND CONSTRAINT_TYPE = "
            "'CHECK'), (SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE "
            f"EVENT_OBJECT_SCHEMA = {quote(self._database)} AND "
            f"EVENT_OBJECT_TABLE = {quote(self._table)} AND EVENT_MANIPULATION = 'INSERT')"
        )
        return upkeep(int(indexes), int(keys), int(checks), int(triggers))

    def promise(self) -> str:
        if self.distributed:
            return ""
        # That of the table, or the one that it will be made with.
        new = self._options.engine or str(self.settings.get("default_storage_engine", ""))
        rows = self.ask(
            "SELECT ENGINE, TRANSACTIONS FROM information_schema.ENGINES WHERE ENGINE = COALESCE("
            f"(SELECT ENGINE FROM information_schema.TABLES WHERE {self._is_table}), {quote(new)})"
        )
        if not rows:
            return ""
        engine, transactions = (str(part) for part in rows[0])
        why = ""
        if transactions == "NO":
            why = f"{engine} has no transactions"
        elif engine.upper() == "SPIDER" and str(
            self.settings.get("spider_internal_xa", "OFF")
        ).upper() in ("OFF", "0"):
            why = "Spider commits on one server after the other (spider_internal_xa is off)"
        return (
            f"at least once: {why}, so a crash may leave rows that are loaded again" if why else ""
        )

    # --- the table ----------------------------------------------------------------------------

    @property
    def columns(self) -> list[Declared]:
        """Return the columns; [] without the table."""
        if self._columns is None:
            self._columns = declared(self.ask(columns_query(self._database, self._table)))
        return self._columns

    def existing_table(self) -> ExistingTable | None:
        self._columns = None
        if not self.columns:
            return None
        (made,) = self.ask(f"SHOW CREATE TABLE {self.whole_name}")
        rows = self.ask(f"SELECT ENGINE FROM information_schema.TABLES WHERE {self._is_table}")
        columns = tuple(map(taken_column, self.columns))
        binary = frozenset(c.name for c in self.columns if c.kind in BLOBS or c.kind == "binary")
        return ExistingTable(str(made[1]), str(rows[0][0] or self.kind), "", columns, binary=binary)

    def shown(self, declared: Sequence[str]) -> list[str]:
        return list(map(declared_type, declared))

    def _unique(self) -> bool:
        return bool(self.ask(
            "SELECT 1 FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND "
            f"{self._is_table} LIMIT 1"
        ))  # fmt: skip

    def table_id(self) -> str:
        """Return the name of the table, and the attempt whose table has replaced the last one.

        Every number that a server has for a table changes when it is optimized or altered: what
        tells it from another one of its name is in the record, see :meth:`loaded`.
        """
        if not self.existing_table():
            return ""
        by = self.record.replaced_by()
        return f"{self._database}.{self._table}" + (f" by {by}" if by else "")

    def prepare(self, statements: Sequence[SqlText]) -> None:
        if statements:
            # Where a rename has stopped half-way the table is missing: an empty one in its place
            # would leave the old rows and the new ones in tables that nobody looks into.
            self.record.settle_swap(waits=True)
        for text in statements:
            self.do(text.reveal())
        self.record.make()
        self._columns = None
        if self._gathered is not None:
            beside = f"{name(self._database)}.{name(self._gathers)}"
            self.do(f"CREATE TABLE IF NOT EXISTS {beside} LIKE {self.whole_name}")
        else:
            self.record.settle_swap(waits=False)
        self.taking.forget_others()

    @property
    def host(self) -> str:
        return self._login.host

    def ping(self) -> None:
        self.ask("SELECT 1")

    def fetch_seconds(self, size: int) -> float:
        most = max(1024, int(self.settings.get("max_allowed_packet", wire.PACKET)) // 2)
        began = time.monotonic()
        for _ in range(max(1, -(-size // most))):
            self.ask(f"SELECT REPEAT('rowfall ', {min(size, most) // 8})")
        return time.monotonic() - began

    def make_like(self, table: str) -> None:
        if self.ask(self._catalogue(table)):
            like = f"{name(self._database)}.{name(table)}"
            self.do(f"CREATE TABLE {self.whole_name} LIKE {like}")
            self._columns = None

    def erase(self) -> None:
        for one in (self.whole_name, self.record.at):  # SingleStore takes one a statement
            self.do(f"DROP TABLE IF EXISTS {one}")

    def loaded(self) -> set[str]:
        return self.taking.loaded()  # with --replace all of it is loaded anew

    # --- a load that gathers beside the table (``--replace``) ---------------------------------

    def gather(self, load: str) -> set[str]:
        self.record.settle_swap(waits=True)
        self._gathers = name_beside(load, self._table)
        self._gathered = LoadedSplits(
            self, self._database, self._gathers, self._record_name, self._patience
        )
        self._gathered.dry = self.record.dry
        found = layout(self.ask, self._database, self._gathers)
        if found and found != layout(self.ask, self._database, self._table):
            self.drop_left(self._gathers)  # the table was altered since: it is made like it anew
        return self._gathered.loaded()

    def loaded_by(self, load: str) -> set[str]:
        return self.record.loaded_by(load)

    def publish_gathered(self, attempt: str, key: Sequence[str], *, replace: bool) -> None:
        """See :class:`rowfall.engines.database.SupportsGathering`; always all of the table."""
        self._sessions.end_idle()
        self.record.replacement().publish(attempt, self._gathers)

    def drop_gathered(self) -> None:
        for table in (self._gathers, name_replaced(self._gathers)) if self._gathers else ():
            self.drop_left(table)

    def drop_left(self, name: str) -> None:
        self.record.drop_left(name)

    def gathered_tables(self) -> list[tuple[str, str, int]]:
        found = []
        for prefix in (GATHERS, REPLACED):
            for (table,) in self.ask(
                "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = "
                f"{quote(self._database)} AND LEFT(TABLE_NAME, {len(prefix)}) = {quote(prefix)} "
                "ORDER BY 1"
            ):
                ((rows,),) = self.ask(f"SELECT COUNT(*) FROM {name(self._database)}.{name(table)}")
                load = str(table).removeprefix(prefix).partition("_")[0]
                found.append((str(table), load, int(rows)))
        return found

    @property
    def taking(self) -> LoadedSplits:
        """Return the record of the table that takes rows: of the one beside where there is one."""
        return self._gathered or self.record

    def unrecorded(self) -> bool:
        return self.record.is_unknown()

    def accept(self) -> None:
        self.prepare(())
        self.record.accept()

    def settled(self, attempt: str) -> bool:
        return self.record.has_ended(attempt)

    def forget(self, load_id: str) -> int:
        return self.record.forget(load_id)

    def hold(self, streams: Sequence[str]) -> bool:
        """See :meth:`rowfall.engines.database.Database.hold`.

        SingleStore has no locks of sessions: two rowfalls that load one topic there double it.
        """
        if self.distributed:
            return True
        with self._holding:
            for tries in range(2):
                try:
                    return self._take_locks(streams)
                except (driver().err.MySQLError, OSError) as error:
                    lost = number_of(error) in LOST or isinstance(error, OSError)
                    self._let_go()
                    if not lost or tries:
                        raise self.explained(error, "take the lock of a stream") from None
        return False

    def _take_locks(self, streams: Sequence[str]) -> bool:
        """Take the locks of streams on one session, whose end lets them go."""
        if self._holder is None:
            self._holder = self.open_session()
            self._held.clear()
        with self._holder.cursor() as cursor:
            cursor.execute("SELECT 1")  # it is still there, and the locks with it
            for stream in streams:
                if stream in self._held:
                    continue
                # Names of locks are of the whole server and have 64 characters at most.
                text = f"{self.record.target}\0{stream}".encode()
                lock = f"rowfall_{blake2b(text, digest_size=16).hexdigest()}"
                cursor.execute(f"SELECT GET_LOCK({quote(lock)}, 0)")
                if cursor.fetchone() != (1,):
                    return False
                self._held.add(stream)
        return True

    def _let_go(self) -> None:
        holder, self._holder = self._holder, None
        self._held.clear()
        if holder is not None:
            end(holder)

    def count(self) -> int:
        """Return the rows of the table."""
        return int(self.ask(f"SELECT COUNT(*) FROM {self.whole_name}")[0][0])

    def result(self, query: str, *, write: bool) -> Result | None:
        connection = self.take()
        try:
            with connection.cursor() as cursor:
                if not write:
                    with suppress(driver().err.MySQLError):  # SingleStore has no such thing
                        cursor.execute("START TRANSACTION READ ONLY")
            found = wire.query(connection, query)
            if found is None:
                return None
            fields, rows = found
            return Result(list(map(result_column, fields)), tsv(rows))
        except (driver().err.MySQLError, OSError) as error:
            raise self.explained(error, "run the query") from None
        finally:
            self.leave(connection)

    def rows_from(
        self, columns: Sequence[str], low: str, *, quoted: bool, most: int
    ) -> Iterator[Sequence[str]]:
        names = [name(column) for column in columns]
        texts = ", ".join(f"CAST({column} AS CHAR)" for column in names)
        value = quote(low) if quoted else low
        yield from self.ask(
            f"SELECT {texts} FROM {name(self._database)}.{name(self._table)} "
            f"WHERE {names[-1]} >= {value} LIMIT {most}"
        )

    # --- transactions -------------------------------------------------------------------------

    def _begin(self) -> Transaction:
        return MySQLTransaction(self)

    def takes_binary(self) -> bool:
        """See :meth:`rowfall.engines.database.Database.takes_binary`.

        Of InnoDB only, as other engines send statements on to other servers; and not where a log of
        statements is kept, which has no such ones. Duplicates are told from other warnings by LOAD
        DATA only.
        """
        settings = self.settings
        engine = self._options.engine or str(settings.get("default_storage_engine", ""))
        if self.columns:
            ((engine,),) = self.ask(
                f"SELECT ENGINE FROM information_schema.TABLES WHERE {self._is_table}"
            )
        logged = str(settings.get("log_bin", "OFF")).upper() not in ("OFF", "0")
        return (
            not self.distributed
            and takes_parameters(str(settings["version"]))
            and str(engine).lower() == "innodb"
            and self.on_conflict == ERROR
            and not (logged and str(settings.get("binlog_format", "")).upper() == "STATEMENT")
            and int(settings.get("max_allowed_packet", 0)) >= bulk.LEAST_PACKET
        )

    def binary(self, columns: Sequence[Column]) -> Binary | None:
        return bulk.binary(columns, self.columns) if self.takes_binary() else None

    def insert_statement(self, columns: Sequence[str]) -> str:
        """Return the INSERT of parameters."""
        listed, marks = ", ".join(map(name, columns)), ", ".join("?" * len(columns))
        return f"INSERT INTO {self.taking.table} ({listed}) VALUES ({marks})"

    def load_statement(self, columns: Sequence[str]) -> str:
        """Return LOAD DATA for lines of TSV."""
        if self.on_conflict == REPLACE and self.distributed:
            self._check_whole_rows(columns)
        # Of rows with one key in a temporary table that which came last stays.
        table = self.rows_name if self.updates else self.taking.table
        skip = "SKIP DUPLICATE KEY ERRORS " if self.distributed else "IGNORE "
        action = {SKIP: skip, REPLACE: "REPLACE "}.get(self.on_conflict, "")
        kinds = {column.name: column.kind for column in self.columns}
        computed = {column.name for column in self.columns if column.computed}
        # Text in a BIT column would be taken for its bits, and in a YEAR "0" for 2000.
        numbers = {column: f"@number_{at}" for at, column in enumerate(columns)
                   if kinds.get(column) in ("bit", "year")}  # fmt: skip
        # What the server computes is left out.
        numbers |= {column: f"@computed_{at}" for at, column in enumerate(columns)
                    if column in computed}  # fmt: skip
        charsets = {column.charset for column in self.columns if column.charset}
        # 6 % less CPU on the server, where nothing is converted; bytes are not text of a UUID.
        plain = charsets <= _UTF8 and not _IDS & set(kinds.values())
        charset = "binary" if plain else "utf8mb4"
        listed = ", ".join(numbers.get(column) or name(column) for column in columns)
        made = ", ".join(
            # Of two digits the server would make four.
            f"{name(column)} = IF({text} + 0 BETWEEN 1 AND 99, -1, {text} + 0)"
            # A sum is a DOUBLE, which has 53 bits.
            if kinds[column] == "year" else f"{name(column)} = CAST({text} AS UNSIGNED)"
            for column, text in numbers.items() if column not in computed
        )  # fmt: skip
        return (
            f"LOAD DATA LOCAL INFILE 'rowfall' {action}INTO TABLE {table} "
            + ("" if self.distributed else f"CHARACTER SET {charset} ")
            + f"{TSV_LINES} ({listed})"
            + (f" SET {made}" if made else "")
        )

    def _check_whole_rows(self, columns: Sequence[str]) -> None:
        """Check that a row in place of another one resets none of its columns.

        Raises:
            UsageError: the files lack some.
        """
        lacks = [
            name for name, _, kind in map(taken_column, self.columns)
            if kind != "MATERIALIZED" and name not in columns
        ]  # fmt: skip
        if lacks:
            raise UsageError(
                f"--on-conflict replace: SingleStore would reset {lacks[0]}, which the files lack, "
                "in rows that are there",
                hint="Give the files all columns of the table, or take --on-conflict skip.",
            )

    def staging_statements(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the statements that make a temporary table for rows that change others.

        They end no transaction.

        Raises:
            UsageError: the files lack a column of the key.
        """
        key, columns = self.key(), self._taken(columns)
        check_key_given(key, columns)
        listed, keyed = ", ".join(map(name, columns)), ", ".join(map(name, key))
        return (
            f"DROP TEMPORARY TABLE IF EXISTS {self.rows_name}",
            f"CREATE TEMPORARY TABLE {self.rows_name} (UNIQUE KEY ({keyed})) ENGINE=InnoDB AS "
            f"SELECT {listed} FROM {self.whole_name} LIMIT 0",
        )

    def merge_statements(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the statements that change the rows with a key that is there, and insert others.

        One INSERT ... ON DUPLICATE KEY UPDATE would do, but for rows that share another unique
        key with a row: that one would be changed. Here they are refused.
        """
        key, columns = self.key(), self._taken(columns)
        same = " AND ".join(f"t.{name(column)} = s.{name(column)}" for column in key)
        sets = ", ".join(f"t.{name(c)} = s.{name(c)}" for c in columns if c not in key)
        listed = ", ".join(map(name, columns))
        update = f"UPDATE {self.taking.table} t JOIN {self.rows_name} s ON {same} SET {sets}"
        insert = (
            f"INSERT INTO {self.taking.table} ({listed}) SELECT "
            + ", ".join(f"s.{name(column)}" for column in columns)
            + f" FROM {self.rows_name} s LEFT JOIN {self.taking.table} t ON {same} "
            f"WHERE t.{name(key[0])} IS NULL"
        )
        return (update, insert) if sets else (insert,)

    def _taken(self, columns: Sequence[str]) -> list[str]:
        """Return the columns whose values the server takes: it computes the others."""
        computed = {column.name for column in self.columns if column.computed}
        return [column for column in columns if column not in computed]

    # --- connections --------------------------------------------------------------------------

    def take(self) -> Any:
        """Return a session: one that is idle, or a new one."""
        return self._sessions.take()

    def leave(self, connection: Any, *, clean: bool = False) -> None:
        """Keep a session for the next one, or end it where it is of no use any more.

        Args:
            clean: its transaction has ended.
        """
        try:
            if not clean:
                connection.rollback()
        except Exception:  # lost: there is nothing to be ended
            end(connection)
            return
        self._sessions.keep([connection])

    def open_session(self) -> Any:
        """Return a new session, which the caller ends.

        A server that is away is asked again while patience lasts.
        """
        err, deadline = driver().err, time.monotonic() + self._patience
        connection: Any = None
        while connection is None:
            try:
                connection = connect(self._login, sends=True, packed=self._packed)
            except (err.MySQLError, OSError, RuntimeError) as error:
                found = self.explained(error, "connect to it")
                if not found.transient or time.monotonic() > deadline:
                    raise found from None
                time.sleep(_RETRY_SECONDS)
        try:
            # Gaps between records stay free for the leases of others.
            set_up(connection, _SESSION, "READ COMMITTED")
        except (err.MySQLError, OSError) as error:
            end(connection)
            raise self.explained(error, "set up a session") from None
        return connection

    # --- the network --------------------------------------------------------------------------

    def same_machine(self) -> bool:
        return is_loopback(self._login.host) and is_own_name(str(self.settings.get("hostname", "")))

    def send_seconds(self, size: int) -> float:
        most = max(1024, int(self.settings.get("max_allowed_packet", wire.PACKET)) // 2)
        # Random, so that nothing on the way makes it much shorter.
        text = base64.b64encode(os.urandom(min(size, most) * 3 // 4)).decode()
        began = time.monotonic()
        for _ in range(max(1, -(-size // most))):
            self.ask(f"SELECT LENGTH('{text}')")
        return time.monotonic() - began

    def pack(self, *, packed: bool) -> None:
        self._packed = packed
        self._sessions.end_idle()

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a question; asked once more where an idle session has been lost."""
        return self._run(query)

    def dictionaries(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a question by the names of their columns."""
        return self._run(query, driver().cursors.DictCursor)

    def do(self, statement: str) -> None:
        """Run a statement that changes something."""
        self._run(statement)

    def _run(self, text: str, kind: Any = None) -> list[Any]:
        deadline = time.monotonic() + self._patience
        while True:
            connection, clean = self.take(), False
            try:
                with connection.cursor(kind) as cursor:
                    cursor.execute(text)
                    rows = list(cursor.fetchall())
                clean = True
                return rows
            except (driver().err.MySQLError, OSError) as error:
                found = self.explained(error, "ask it")
                lost = number_of(error) in LOST or isinstance(error, OSError)
                if not lost or time.monotonic() > deadline:
                    raise found from None
                end(connection)
                time.sleep(_RETRY_SECONDS)
            finally:
                self.leave(connection, clean=clean)

    def close(self) -> None:
        """End every session; safe to call twice."""
        self.cancel_all()
        with self._holding:
            self._let_go()
        self._sessions.end_idle()

    def kill(self, thread: int) -> None:
        """End a session of another thread on the server, which may wait for a lock."""
        with suppress(Exception):
            connection = self.take()
            try:
                with connection.cursor() as cursor:
                    cursor.execute(f"KILL CONNECTION {thread}")
            finally:
                self.leave(connection)

    # --- words --------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """Return the server and the table, for people."""
        return f"{self._database}.{self._table} at {self._login.host}:{self._login.port}"

    @property
    def whole_name(self) -> str:
        return f"{name(self._database)}.{name(self._table)}"

    @property
    def rows_name(self) -> str:
        """Return the temporary table of rows that change others, as SQL."""
        return f"{name(self._database)}.`_rowfall_rows`"

    @property
    def _is_table(self) -> str:
        return is_table(self._database, self._table)

    def _catalogue(self, table: str) -> str:
        return (
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE "
            f"{is_table(self._database, table)}"
        )

    def explained(self, error: Exception, what: str) -> RowfallError:
        """Return an error of server or driver as a RowfallError with a hint.

        Args:
            what: could not be done, as "connect to it".
        """
        if isinstance(error, RowfallError):
            return error
        if number_of(error) in NO_FILES:
            return self.no_files()
        login = self._login
        found = said(error, *((login.password,) if login.password else ()))
        text = found.sentence(f"{self.text}: cannot {what}")
        if found.transient or not (found.number or found.failed_tls):
            return EngineError(text, hint=AGAIN_HINT, transient=True, code=NETWORK_ERROR)
        database = name(self._database)
        hint = found.hint(
            right="GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON "
            f"{database}.* TO {quote(login.user)}@'%'.",
            database=f"CREATE DATABASE {database}, or name another one; SHOW DATABASES lists them.",
        )
        return TargetError(text, hint=hint or _hint_of_writes(found.number))


def _hint_of_writes(number: int) -> str | None:
    if number in READ_ONLY:
        return "The server takes no writes: name its primary in --to."
    if number in FULL:
        return "Free some space on the server, then run the same command again."
    if number == TOO_LARGE:
        return "Raise max_allowed_packet on the server."
    if number in SYNTAX:
        return "Check --order-by, --partition-by and the other options of the table."
    return None
