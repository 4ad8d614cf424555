"""MySQL, MariaDB and SingleStore as databases that take rows: LOAD DATA in transactions.

What a session sets for the load ends with its connection.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from rowfall.core.errors import TargetError, UsageError
from rowfall.core.model import Column
from rowfall.core.netaddress import is_loopback, is_own_name
from rowfall.core.options import ERROR, Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import (
    Binary,
    Result,
    Transaction,
    Transactions,
    upkeep,
)
from rowfall.engines.file_database import GATHERS
from rowfall.systems.mysql import bulk, native, wire
from rowfall.systems.mysql.catalogue import BLOBS, is_table
from rowfall.systems.mysql.client import (
    LOST,
    driver,
    name,
    number_of,
    quote,
)
from rowfall.systems.mysql.record import LoadedSplits
from rowfall.systems.mysql.replacing import (
    REPLACED,
    check_replaceable,
    layout,
    name_beside,
    name_replaced,
)
from rowfall.systems.mysql.session import end, takes_parameters
from rowfall.systems.mysql.statements import LoadStatements
from rowfall.systems.mysql.transaction import MySQLTransaction
from rowfall.systems.mysql.types import declared_type, result_column, taken_column, tsv

LIST_TABLES = (
    "SELECT table_schema, table_name, table_rows, data_length + index_length FROM "
    "information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND "
    "LEFT(table_name, 9) <> '_rowfall_' ORDER BY 2"
)


class MySQLDatabase(LoadStatements, Transactions):
    """A database of a server, opened for one table."""

    LIST_TABLES = LIST_TABLES

    def __init__(self, at: ServerAt, database: str, table: str, options: Options) -> None:
        LoadStatements.__init__(self, at, database, table, options)
        Transactions.__init__(self)
        self._holding = threading.Lock()
        self._holder: Any = None
        self._held: set[str] = set()

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
    def native(self) -> str:
        """See :class:`rowfall.engines.database.HasNativeTypes`; none of SingleStore."""
        return "" if self.distributed else native.family(str(self.settings["version"]))

    @property
    def native_version(self) -> tuple[int, ...]:
        return native.number(str(self.settings["version"]))

    @property
    def marks(self) -> bool:
        """See :class:`rowfall.engines.database.Database`: SingleStore has no savepoints."""
        return not self.distributed

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

    def existing_table(self) -> ExistingTable | None:
        self._columns = None
        if not self.columns:
            return None
        (made,) = self.ask(f"SHOW CREATE TABLE {self.whole_name}")
        rows = self.ask(f"SELECT ENGINE FROM information_schema.TABLES WHERE {self._is_table}")
        columns = tuple(map(taken_column, self.columns))
        binary = frozenset(c.name for c in self.columns if c.kind in BLOBS or c.kind == "binary")
        clocks = frozenset(c.name for c in self.columns if c.kind == "time")
        engine = str(rows[0][0] or self.kind)
        return ExistingTable(str(made[1]), engine, "", columns, binary=binary, clocks=clocks)

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

    def unrecorded(self) -> bool:
        return self.record.is_unknown()

    def is_emptied(self) -> bool:
        return self.record.is_emptied()

    def forget_all(self) -> None:
        self.record.forget_all()

    def accept(self) -> None:
        self.prepare(())
        self.record.accept()

    def settled(self, attempt: str) -> bool:
        return self.record.has_ended(attempt)

    def forget(self, load_id: str) -> int:
        return self.record.forget((load_id,))

    def loaded_among(self, ids: Sequence[str]) -> set[str]:
        return self.taking.loaded_among(ids)

    def join_record(self) -> None:
        self.record.join()

    def forget_loads(self, loads: Collection[str]) -> int:
        return self.record.forget(loads)

    def prune_record(self, days: int) -> None:
        self.record.joined.prune(self.record.set_numbers(), days)

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

    def close(self) -> None:
        """End every session; safe to call twice."""
        self.cancel_all()
        with self._holding:
            self._let_go()
        self._sessions.end_idle()

    # --- words --------------------------------------------------------------------------------

    def _catalogue(self, table: str) -> str:
        return (
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE "
            f"{is_table(self._database, table)}"
        )
