"""An attempt: one transaction, with the record of its splits, into which rows come by COPY."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import TargetError
from rowfall.core.options import ERROR, REPLACE
from rowfall.core.sqltext import identifier
from rowfall.engines.base import NETWORK_ERROR
from rowfall.engines.database import (
    LEASE_SECONDS,
    Binary,
    BusyError,
    NoBinaryError,
    PlainTransaction,
    RefusedRowError,
    RolledBackError,
    SplitRecord,
    UnknownEndError,
    check_key_given,
    replace_escape,
)
from rowfall.systems.postgresql.connections import PostgresConnections
from rowfall.systems.postgresql.rows import framed

if TYPE_CHECKING:
    from psycopg import Connection

_ROWS = "_rowfall_rows"
# COPY takes digits behind the engine's escape of a zero byte for a part of an octal number.
_ZERO = (b"\\0", b"\\000")
# Answer to a cancel request: a round trip.
_CANCEL_SECONDS = 2.0


def application_of(attempt: str) -> str:
    """Return the name under which the server lists the connection of an attempt."""
    return f"rowfall {attempt}"[:63]


class PostgresTransaction(PlainTransaction):
    """One transaction; see :class:`rowfall.engines.database.Transaction`."""

    def __init__(
        self, table: PostgresConnections, connection: Connection[Any], on_conflict: str
    ) -> None:  # fmt: skip
        self._table = table
        self._connection = connection
        self._on_conflict = on_conflict
        self._columns: Sequence[str] = ()
        self._attempt = ""
        self._taken = self._marked = 0

    def lease(self, attempt: str, load: str, records: Sequence[SplitRecord]) -> frozenset[str]:
        import psycopg

        # In one order everywhere: two that ask for several of the same never wait for each other.
        wanted = sorted(records, key=lambda record: record.id)
        self._attempt = attempt
        try:
            do = self._connection.execute
            do(f"SET application_name = '{application_of(attempt)}'".encode())
            do("BEGIN")
            do("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [attempt])
            do(f"SET LOCAL lock_timeout = '{LEASE_SECONDS}s'".encode())
            loaded = self._loaded_otherwise(wanted)
            if loaded:
                self._rollback()
                return loaded
            given = do(
                f"INSERT INTO {self._table.record} (table_id, split, attempt, load, name, "
                "whole) SELECT %s, s, %s, %s, n, w FROM unnest(%s::text[], %s::text[], "
                "%s::text[]) AS u(s, n, w) "
                "ON CONFLICT DO NOTHING RETURNING split".encode(),
                [self._table.oid, attempt, load, [r.id for r in wanted],
                 [r.name.replace("\0", "") for r in wanted], [r.whole for r in wanted]],
            ).fetchall()  # fmt: skip
            # Behind the record's keys, which keep others from moving these meanwhile.
            old = self._table.joined_in(self._connection, [r.id for r in wanted])
            do("SET LOCAL lock_timeout = 0")
        except psycopg.errors.LockNotAvailable:
            self._rollback()
            raise BusyError("another load holds these files", transient=True) from None
        except psycopg.Error as error:
            translated = self._table.translate(error)
            self._rollback()
            raise translated from None
        loaded = frozenset(r.id for r in wanted) - {str(split) for (split,) in given} | old
        if loaded:
            self._rollback()
        return loaded

    def _loaded_otherwise(self, wanted: Sequence[SplitRecord]) -> frozenset[str]:
        """Return ids of files loaded as ranges, and of ranges whose whole file is loaded.

        Ranges of a file share a lock that excludes a load of the whole file.
        """
        do, oid = self._connection.execute, self._table.oid
        wholes = sorted({record.whole for record in wanted if record.whole})
        large = [record.id for record in wanted if record.large]
        for name, shared in (*((w, "_shared") for w in wholes), *((i, "") for i in large)):
            lock = f"SELECT pg_advisory_xact_lock{shared}(hashtextextended(%s, %s))"
            do(lock.encode(), [name, -oid])
        if not (wholes or large):
            return frozenset()
        rows = do(
            f"SELECT split, whole FROM {self._table.record} WHERE table_id = %s AND "
            "(split = ANY(%s) OR whole = ANY(%s))".encode(), [oid, wholes, large],
        ).fetchall()  # fmt: skip
        taken = {str(split) for split, _ in rows} | {str(whole) for _, whole in rows if whole}
        return frozenset(
            r.id for r in wanted if (r.whole and r.whole in taken) or (r.large and r.id in taken)
        )

    def write(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        with self._table.translated():
            return self._copy(columns, "", replace_escape(rows, *_ZERO))

    def write_binary(self, columns: Sequence[str], binary: Binary, rows: Iterator[bytes]) -> int:
        try:
            with self._table.translated():
                return self._copy(columns, " (FORMAT binary)", framed(rows))
        except RefusedRowError as refused:
            raise NoBinaryError(refused.message) from None

    def _copy(self, columns: Sequence[str], how: str, rows: Iterator[bytes]) -> int:
        self._columns = columns
        names = ", ".join(map(identifier, columns))
        into = self._table.table
        with self._connection.cursor() as cursor:
            if self._on_conflict != ERROR:
                cursor.execute(
                    f"CREATE TEMP TABLE IF NOT EXISTS {_ROWS} ON COMMIT DROP AS "
                    f"SELECT {names} FROM {into} WITH NO DATA".encode()
                )
                into = f"pg_temp.{_ROWS}"
            with cursor.copy(f"COPY {into} ({names}) FROM STDIN{how}".encode()) as copy:
                for data in rows:
                    copy.write(data)
            self._taken += cursor.rowcount
            return cursor.rowcount

    def mark(self) -> None:
        self._marked = self._taken
        self._savepoint("SAVEPOINT rowfall")

    def back(self) -> None:
        self._taken = self._marked
        self._savepoint("ROLLBACK TO SAVEPOINT rowfall")

    def _savepoint(self, text: str) -> None:
        with self._table.translated():
            self._connection.execute(text.encode())

    def finish(self, rows: int) -> int:
        with self._table.translated():
            if self._on_conflict != ERROR and self._taken:
                rows = self._merge()
            # Behind the rows, whose lock keeps others from dropping the table before the commit.
            found = self._connection.execute(
                f"UPDATE {self._table.record} SET rows = %s WHERE attempt = %s "
                "RETURNING to_regclass(%s)::oid::bigint".encode(),
                [rows, self._attempt, self._table.table],
            ).fetchone()
        if found != (self._table.oid,):
            raise TargetError(
                f"{self._table.table} was dropped and made anew during this load",
                hint="Run the same command again: it loads all files into the new table.",
            )
        return rows

    def _merge(self) -> int:
        """Insert what was staged as ``--on-conflict`` says; return the rows that have come."""
        names = ", ".join(map(identifier, self._columns))
        chosen, action = names, "DO NOTHING"
        order = ""
        if self._on_conflict == REPLACE:
            columns = self._table.key(self._connection)
            key = ", ".join(map(identifier, columns))
            check_key_given(columns, self._columns)
            # Of rows with one key only one may be inserted: that which came last.
            chosen = f"DISTINCT ON ({key}) {names}"
            order = f" ORDER BY {key}, ctid DESC"
            others = [identifier(name) for name in self._columns if name not in columns]
            sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
            action = f"({key}) DO UPDATE SET {sets}" if sets else f"({key}) DO NOTHING"
        return self._connection.execute(
            f"INSERT INTO {self._table.table} ({names}) SELECT {chosen} FROM pg_temp.{_ROWS}"
            f"{order} ON CONFLICT {action}".encode()
        ).rowcount

    def commit(self) -> None:
        import psycopg

        try:
            self._connection.execute("COMMIT")
        except psycopg.Error as error:
            if self._connection.closed:
                raise UnknownEndError(
                    "the connection to PostgreSQL was lost during COMMIT",
                    transient=True, code=NETWORK_ERROR,
                ) from None  # fmt: skip
            said = self._table.translate(error)
            if isinstance(said, RefusedRowError):
                raise said from None  # a constraint that is checked at the end
            raise RolledBackError(said.message, transient=said.transient) from None

    def _rollback(self) -> None:
        import psycopg
        from psycopg.pq import TransactionStatus

        connection = self._connection
        try:
            status = connection.info.transaction_status
            if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                connection.execute("ROLLBACK")
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.close()
        except psycopg.Error:
            connection.close()
        if connection.closed:
            self._table.lost()

    def cancel(self) -> None:
        import psycopg

        with contextlib.suppress(psycopg.Error, OSError):
            self._connection.cancel_safe(timeout=_CANCEL_SECONDS)

    def release(self) -> None:
        self._rollback()
        if not self._connection.closed:
            self._table.give_back(self._connection)
