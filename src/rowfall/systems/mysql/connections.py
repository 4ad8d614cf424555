"""Sessions of one table of a server: for questions, for attempts, and what errors mean."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.options import REPLACE, Options
from rowfall.core.server_address import ServerAt
from rowfall.core.units import parse_duration
from rowfall.engines.base import NETWORK_ERROR
from rowfall.engines.database import no_key_to_replace
from rowfall.systems.mysql import wire
from rowfall.systems.mysql.catalogue import MySQLColumn, columns_query, declared, is_table
from rowfall.systems.mysql.client import (
    AGAIN_HINT,
    FULL,
    LOST,
    NO_FILES,
    PATIENCE_SECONDS,
    READ_ONLY,
    SYNTAX,
    TOO_LARGE,
    Login,
    connect,
    driver,
    name,
    number_of,
    quote,
    said,
    set_up,
)
from rowfall.systems.mysql.session import Pool, end

_RETRY_SECONDS = 0.5
# Without it 0 in an AUTO_INCREMENT column would become the next number.
_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO"
# unique_checks stays: without, MariaDB sorts rows into an empty table at the end, for twice the
# CPU, and locks all of it.
_SESSION = {
    "sql_mode": f"'{_MODE}'", "net_read_timeout": PATIENCE_SECONDS, "max_error_count": 64,
    "sql_notes": 1,
}  # fmt: skip


class MySQLConnections:
    """Sessions of a server, for one table.

    Attributes:
        name: of the database.
    """

    def __init__(self, at: ServerAt, database: str, table: str, options: Options) -> None:
        self._login = Login(
            at.host, at.port, at.user, at.password, at.options.get("database") or database,
            at.options.get("ssl_ca", ""), at.options.get("socket", ""),
        )  # fmt: skip
        self._database, self._table = database, table
        self._patience = parse_duration(options.patience)
        self._options = options
        self.name, self.on_conflict = database, options.on_conflict
        self._sessions = Pool(self.open_session)
        self._packed = False
        self._settings: dict[str, Any] | None = None
        self._columns: list[MySQLColumn] | None = None

    # --- server and table ---------------------------------------------------------------------

    @property
    def distributed(self) -> bool:
        """True for SingleStore, whatever the address is called."""
        return "memsql_version" in self.settings

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

    @property
    def columns(self) -> list[MySQLColumn]:
        """Return the columns; [] without the table."""
        if self._columns is None:
            self._columns = declared(self.ask(columns_query(self._database, self._table)))
        return self._columns

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

    def kill(self, thread: int) -> None:
        """End a session of another thread on the server, which may wait for a lock."""
        with suppress(Exception):
            connection = self.take()
            try:
                with connection.cursor() as cursor:
                    cursor.execute(f"KILL CONNECTION {thread}")
            finally:
                self.leave(connection)

    def pack(self, *, packed: bool) -> None:
        self._packed = packed
        self._sessions.end_idle()

    # --- words --------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """Return the server and the table, for people."""
        return f"{self._database}.{self._table} at {self._login.host}:{self._login.port}"

    @property
    def whole_name(self) -> str:
        return f"{name(self._database)}.{name(self._table)}"

    @property
    def _is_table(self) -> str:
        return is_table(self._database, self._table)

    def no_files(self) -> TargetError:
        """Return the error of a server that takes no LOAD DATA LOCAL."""
        return TargetError(
            f"{self.text}: the server has local_infile switched off (rowfall has it on), so it "
            "takes no rows by LOAD DATA LOCAL INFILE",
            hint="On the server: SET GLOBAL local_infile = ON, and local_infile=ON below [mysqld] "
            "in its configuration to keep it.",
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
