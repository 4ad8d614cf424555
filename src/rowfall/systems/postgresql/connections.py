"""The table that rows go to: connections to its server, its number, its record, and its errors."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import qualified
from rowfall.core.units import parse_duration
from rowfall.engines.base import NETWORK_ERROR
from rowfall.engines.database import KEY_HINT, RECORD, RefusedRowError, no_key_to_replace
from rowfall.systems.postgresql.catalogue import unique_keys
from rowfall.systems.postgresql.client import HINTS, Cause, PostgresServer, driver
from rowfall.systems.postgresql.joined import JoinedUuids
from rowfall.targets.transactional import RECORD_NAME

if TYPE_CHECKING:
    from psycopg import Connection, Error

_CONTEXT = regex(r'COPY [^,]+, line (\d+)(?:, column ([^:]+?))?(?:: "(.*)")?\Z', re.S)

# Of one column; the values of several stand in a list.
_KEY = regex(r"Key \(([^,()]+)\)=\((.*)\) ", re.S)

_MOST_VALUE = 200
_NO_TEXT = "22021"
"""Bytes that are not text. The server looks at whole lines then, and names no column."""


class PostgresConnections:
    """Connections for one table of a server: one for questions, and idle ones for attempts.

    Attributes:
        record: the table that says what is loaded, as SQL; of an unlogged table its own.
    """

    def __init__(self, at: ServerAt, schema: str, table: str, options: Options) -> None:
        given = dict(at.options)
        self._record = given.pop(RECORD_NAME, RECORD)
        database = given.pop("database")
        self._server = PostgresServer(at.host, at.port, at.user, at.password, database, given)
        self._schema, self._name = schema, table
        self._table = qualified(schema, table)
        self._options = options
        self._patience = parse_duration(options.patience)
        self._main: Connection[Any] | None = None
        self._guard = threading.RLock()  # of the connection for questions
        self._idle: list[Connection[Any]] = []
        self._oid = 0
        self._gathers, self._into_oid = "", 0
        self.record = ""

    # --- connections ------------------------------------------------------------------------------

    def connect(self, *, patience: float = 0.0) -> Connection[Any]:
        """Return a new connection whose statements commit by themselves.

        Args:
            patience: seconds that the server may be away.

        Raises:
            TargetError: it cannot be reached, or refuses the user.
        """
        try:
            return self._server.connect(patience)
        except driver().Error as error:
            raise self._refused(error) from None

    def _refused(self, error: Error) -> TargetError:
        found, at = self._server.understand(error), self._server
        text = re.sub(r".*(FATAL|failed): +", "", found.text)
        hint = "Check host and port, and that the server runs; then run the same command again."
        if found.cause is Cause.MISSING:
            hint = "Create it first, or name another one in --to."
        return TargetError(
            f"cannot connect to PostgreSQL at {at.host}:{at.port}: {text}",
            hint=HINTS.get(found.cause, hint),
        )

    @contextlib.contextmanager
    def asking(self) -> Iterator[Connection[Any]]:
        """Give the connection for questions; errors come as ours."""
        with self._guard:
            if self._main is None or self._main.closed:
                lost = self._main is not None
                self._main = self.connect(patience=self._patience if lost else 0.0)
            with self.translated():
                yield self._main

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask once more where the connection was lost."""
        try:
            with self.asking() as connection:
                return connection.execute(text.encode(), values or None).fetchall()
        except EngineError as error:
            if not error.transient:
                raise
        with self.asking() as connection:
            return connection.execute(text.encode(), values or None).fetchall()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn errors of the driver into ours."""
        try:
            yield
        except driver().Error as error:
            raise self.translate(error) from None

    def translate(self, error: Error) -> RowfallError:
        """Return an error of the driver as one of ours."""
        found = self._server.understand(error)
        text = error.diag.message_primary or found.text
        if found.transient:
            return EngineError(f"PostgreSQL: {text}", transient=True, code=NETWORK_ERROR)
        if found.cause is Cause.VALUE:
            return self._bad_row(error, text)
        hint = HINTS.get(found.cause)
        if found.cause is Cause.RIGHTS:
            hint = f"Let the owner grant what is missing to {self._server.user or 'this user'}."
        elif found.cause is Cause.READ_ONLY:
            hint = "Name the server that takes writes, or another user."
        return TargetError(f"PostgreSQL refuses: {text}", hint=hint)

    def _bad_row(self, error: Error, text: str) -> RefusedRowError:
        diagnosis = error.diag
        found = _CONTEXT.search(diagnosis.context or "")
        column = diagnosis.column_name or (found[2] if found else None)
        value = found[3] if found and found[2] else None
        detail = f" ({diagnosis.message_detail})" if diagnosis.message_detail else ""
        detail = "" if "Failing row contains" in detail else detail
        what = f"column {column}: " if column and f'"{column}"' not in text else ""
        shown = "" if value is None else f": {value[:_MOST_VALUE]!r}"
        hint = "Correct the data, or change the table."
        if error.sqlstate == "23505":
            hint = KEY_HINT
        if error.sqlstate == _NO_TEXT:
            hint = (
                "Texts of PostgreSQL are UTF-8 without zero bytes; a column of bytea takes any "
                "bytes, and --encoding binary makes one of each text of a new table."
            )
        keyed = _KEY.match(diagnosis.message_detail or "")
        if keyed:
            column, value, shown = keyed[1], keyed[2], ""
        refused = RefusedRowError(
            f"PostgreSQL refuses a row of {self._schema}.{self._name}: {what}{text}{detail}{shown}",
            uri="", column=column, value=value, hint=hint,
        )  # fmt: skip
        refused.sent_row = int(found[1]) if found else None
        refused.no_text = error.sqlstate == _NO_TEXT
        return refused

    def give_back(self, connection: Connection[Any]) -> None:
        """Keep a connection for the next transaction."""
        with self._guard:
            self._idle.append(connection)

    def lost(self) -> None:
        """Close the connections that nobody uses: one was lost, and these may be."""
        with self._guard:
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def close(self) -> None:
        with self._guard:
            for connection in (self._main, *self._idle):
                if connection is not None:
                    connection.close()
            self._idle.clear()

    # --- the table --------------------------------------------------------------------------------

    def record_name(self, *, unlogged: bool) -> str:
        name = f"{self._record}_unlogged" if unlogged else self._record
        return qualified(self._schema, name)

    def find(self) -> dict[str, Any] | None:
        """Look up the table in pg_class; return its persistence, None where there is no table.

        Raises:
            TargetError: it is a view or the like, into which no rows can be copied.
        """
        rows = self.rows(
            "SELECT c.oid, c.relkind, c.relpersistence FROM pg_class c "
            "WHERE c.oid = to_regclass(%s)", self._table,
        )  # fmt: skip
        if not rows:
            self._oid = 0
            self.record = self.record_name(unlogged=self._options.unlogged)
            return None
        oid, kind, persistence = rows[0]
        if kind not in ("r", "p"):
            what = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}.get(kind)
            raise TargetError(
                f"{self._schema}.{self._name} is {what or 'no table'}, and rows are loaded into "
                "tables",
                hint="Name another one with --table.",
            )
        self._oid = int(oid)
        self.record = self.record_name(unlogged=persistence == "u")
        return {"persistence": persistence}

    @property
    def table(self) -> str:
        """Return the name of the table that takes rows as SQL."""
        return qualified(self._schema, self._gathers) if self._gathers else self._table

    @property
    def oid(self) -> int:
        """Return the number of the table that takes rows, as it was found last."""
        return self._into_oid if self._gathers else self._oid

    def key(self, connection: Connection[Any]) -> tuple[str, ...]:
        """Return the columns whose values rows may not share: of the primary key, else of the only
        unique index.

        Raises:
            UsageError: there is none, or there are several.
        """
        keys = unique_keys(connection, self._oid)
        if keys and (keys[0][0] or len(keys) == 1):
            return tuple(keys[0][1])
        what = "several unique indexes and no primary key" if keys else "no primary key"
        raise no_key_to_replace(f"{self._schema}.{self._name}", what)

    @property
    def joined(self) -> JoinedUuids:
        """Return the ids of this table that the record has no more."""
        return self.joined_of(self._oid)

    def joined_of(self, oid: int) -> JoinedUuids:
        """Return those of another table of the schema."""
        return JoinedUuids(self.rows, self._packing, self._schema, oid)

    @contextlib.contextmanager
    def _packing(self, waits: bool) -> Iterator[Callable[..., list[tuple[Any, ...]]] | None]:
        """Begin a transaction in which no other one packs ids, see :class:`JoinedUuids`."""
        with self.asking() as connection, connection.transaction():
            lock = "pg_advisory_xact_lock" if waits else "pg_try_advisory_xact_lock"
            name = f"{RECORD} {self._schema}"
            rows = rows_of(connection)
            ((mine,),) = rows(f"SELECT {lock}(hashtextextended(%s, 0))", name)
            yield None if mine is False else rows

    def joined_in(self, connection: Connection[Any], ids: Sequence[str]) -> frozenset[str]:
        """Return those of some ids that the record has no more, as a transaction sees it."""
        # Of --replace the table beside: what the old one holds is loaded anew.
        joined = JoinedUuids(rows_of(connection), self._packing, self._schema, self.oid)
        return frozenset(joined.among(ids))


def rows_of(connection: Connection[Any]) -> Callable[..., list[tuple[Any, ...]]]:
    """Return what runs a statement with its values on a connection, and returns its rows."""

    def rows(text: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = connection.execute(text.encode(), values or None)
        return cursor.fetchall() if cursor.description is not None else []

    return rows
