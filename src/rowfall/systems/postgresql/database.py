"""PostgreSQL as a target: COPY, and the record of what is loaded in the same transaction.

An attempt is one transaction on one connection. It first inserts its splits into the record: the
key makes another transaction with the same splits wait, so that it is their lease, too, and ends
with the connection. An advisory lock of the attempt's name tells when a commit whose answer was
lost has ended. The record of an unlogged table is unlogged: a crash of the server empties both.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import TargetError
from rowfall.core.listing import MARK
from rowfall.core.model import Column
from rowfall.core.options import ERROR, Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, identifier, literal, qualified
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import (
    ACCEPTED,
    RECORD,
    Binary,
    Result,
    Transaction,
    Transactions,
    upkeep,
)
from rowfall.engines.file_database import GATHERS
from rowfall.systems.postgresql import rows
from rowfall.systems.postgresql.catalogue import (
    described,
    kept_up,
    taken_columns,
    type_names,
)
from rowfall.systems.postgresql.connections import PostgresConnections, rows_of
from rowfall.systems.postgresql.replacing import (
    check_replaceable,
    make_beside,
    name_beside,
    take_place,
)
from rowfall.systems.postgresql.transaction import PostgresTransaction, application_of
from rowfall.systems.postgresql.types import (
    CLOCKS,
    binary_of,
    read_type,
    taken_type,
    takes_binary,
)

if TYPE_CHECKING:
    from psycopg import Connection

LIST_TABLES = (
    "SELECT n.nspname, c.relname, greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid) "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = "
    "current_schema() AND c.relkind IN ('r', 'p') AND NOT starts_with(c.relname, '_rowfall_') "
    "ORDER BY 2"
)


class PostgresDatabase(PostgresConnections, Transactions):
    """One table of a PostgreSQL server; see :class:`rowfall.engines.database.Database`."""

    LIST_TABLES = LIST_TABLES

    def __init__(self, at: ServerAt, schema: str, table: str, options: Options) -> None:
        PostgresConnections.__init__(self, at, schema, table, options)
        Transactions.__init__(self)
        self._holder: Connection[Any] | None = None
        self._held: set[str] = set()
        self._version = ""

    # --- questions --------------------------------------------------------------------------------

    @property
    def marks(self) -> bool:
        return True

    @property
    def kind(self) -> str:
        if not self._version:
            ((version,),) = self.rows("SHOW server_version")
            self._version = f"PostgreSQL {str(version).split(' ')[0]}"
        return self._version

    def check(self, *, dry: bool) -> None:
        ((user, only_read, standby, there, may_create),) = self.rows(
            "SELECT current_user, current_setting('transaction_read_only') = 'on', "
            "pg_is_in_recovery(), to_regnamespace(%s) IS NOT NULL, "
            "CASE WHEN to_regnamespace(%s) IS NOT NULL "
            "THEN has_schema_privilege(%s::text, 'CREATE') ELSE false END",
            identifier(self._schema), identifier(self._schema), self._schema,
        )  # fmt: skip
        if not there:
            raise TargetError(
                f"the database {self._server.database} has no schema {self._schema!r}",
                hint=f"CREATE SCHEMA {identifier(self._schema)}, or name another one with --table "
                "SCHEMA.NAME.",
            )
        if only_read or standby:
            what = "is a standby, which takes no writes" if standby else "is read-only"
            raise TargetError(
                f"PostgreSQL at {self._server.host}:{self._server.port} {what} for {user}",
                hint="Name the server that takes writes, or a user whose transactions may write.",
            )
        found = self.find()
        if found is not None and self._options.replace:
            check_replaceable(self.rows, self._oid, f"{self._schema}.{self._name}")
        if dry:
            return
        lacks = []
        if found is not None:
            ((may,),) = self.rows("SELECT has_table_privilege(%s::oid, 'INSERT')", self._oid)
            lacks += [] if may else [f"INSERT ON {self._table}"]
            if self._options.on_conflict != ERROR:
                ((may,),) = self.rows(
                    "SELECT has_table_privilege(%s::oid, 'SELECT') AND "
                    "has_table_privilege(%s::oid, 'UPDATE')", self._oid, self._oid,
                )  # fmt: skip
                lacks += [] if may else [f"SELECT, UPDATE ON {self._table}"]
        record = self.record_name(unlogged=bool(found and found["persistence"] == "u"))
        rights = self.rows(
            "SELECT has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') "
            "AND has_table_privilege(oid, 'UPDATE') FROM pg_class WHERE oid = to_regclass(%s)",
            record,
        )
        if rights and not rights[0][0]:
            lacks.append(f"SELECT, INSERT, UPDATE ON {record}")
        if not may_create and (found is None or not rights):
            lacks.append(f"CREATE ON SCHEMA {identifier(self._schema)}")
        if lacks:
            raise TargetError(
                f"the user {user} lacks rights that a load needs: {'; '.join(lacks)}",
                hint="Let the owner run: "
                + " ".join(f"GRANT {right} TO {identifier(str(user))};" for right in lacks),
            )

    def existing_table(self) -> ExistingTable | None:
        found = self.find()
        if found is None:
            return None
        there = self._columns()
        columns = tuple(
            (name, taken_type(type_, modifier, nullable=not filled), default)
            for name, type_, modifier, filled, default in there
        )
        binary = frozenset(name for name, type_, *_ in there if type_ in ("bytea", "_bytea"))
        clocks = frozenset(name for name, type_, *_ in there if type_ in CLOCKS)
        unlogged = " unlogged" if found["persistence"] == "u" else ""
        kind = f"{self.kind}{unlogged}"
        return ExistingTable("", kind, "", columns, binary=binary, clocks=clocks)

    def _columns(self) -> list[tuple[str, str, int, bool, str]]:
        return taken_columns(self.rows, self._oid)

    def shown(self, declared: Sequence[str]) -> list[str]:
        listed = ", ".join(f"NULL::{type_} AS c{at}" for at, type_ in enumerate(declared))
        with self.asking() as connection:
            names = type_names(connection)
            return [
                taken_type(names.get(oid, ""), modifier, nullable=False)
                for _, oid, modifier in described(connection, f"(SELECT {listed}) AS q")
            ]

    def table_id(self) -> str:
        """Return the oid of the table: one that is made anew has another."""
        self.find()
        return str(self._oid or "")

    def upkeep(self) -> str:
        if self.find() is None:
            return ""
        return upkeep(*kept_up(self.rows, self._oid))

    def promise(self) -> str:
        return ""

    def prepare(self, statements: Sequence[SqlText]) -> None:
        # Of two that make a table at once, in spite of IF NOT EXISTS, one would get an error about
        # the key of pg_type: so it waits.
        lock = f"SELECT pg_advisory_xact_lock(hashtextextended('{RECORD}', 0))".encode()
        with self.asking() as connection, connection.transaction():
            connection.execute(lock)
            for statement in statements:
                connection.execute(statement.reveal().encode())
        found = self.find()
        if found is None:
            raise TargetError(f"the table {self._schema}.{self._name} was dropped just now")
        if self._gathers:
            with self.asking() as connection:
                make_beside(connection, self._schema, self._name, self._gathers)
            self._into_oid = self._oid_of(self._gathers)
        if self.rows("SELECT 1 WHERE to_regclass(%s) IS NOT NULL", self.record):
            return
        kind = "UNLOGGED " if found["persistence"] == "u" else ""
        with self.asking() as connection, connection.transaction():
            connection.execute(lock)
            connection.execute(
                f"CREATE {kind}TABLE IF NOT EXISTS {self.record} (table_id bigint NOT NULL, "
                "split text NOT NULL, attempt text NOT NULL, load text NOT NULL, name text NOT "
                "NULL, whole text NOT NULL, rows bigint, at timestamptz NOT NULL DEFAULT now(), "
                "PRIMARY KEY (table_id, split))".encode()
            )

    @property
    def host(self) -> str:
        return self._server.host

    def ping(self) -> None:
        self.rows("SELECT 1")

    def send_seconds(self, size: int) -> float:
        text = base64.b64encode(os.urandom(size * 3 // 4)).decode()
        began = time.monotonic()
        self.rows("SELECT length(%s::text)", text)
        return time.monotonic() - began

    def fetch_seconds(self, size: int) -> float:
        began = time.monotonic()
        self.rows("SELECT repeat('rowfall ', %s)", size // 8)
        return time.monotonic() - began

    def make_like(self, table: str) -> None:
        like = qualified(self._schema, table)
        if self.rows("SELECT 1 WHERE to_regclass(%s) IS NOT NULL", like):
            with self.asking() as connection:
                connection.execute(
                    f"CREATE TABLE {self._table} (LIKE {like} INCLUDING ALL)".encode()
                )

    def erase(self) -> None:
        names = [self._table, *(self.record_name(unlogged=each) for each in (False, True))]
        with self.asking() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {', '.join(names)}".encode())

    def loaded(self) -> set[str]:
        if self.find() is None or not self._recorded():
            return set()
        if self._gathers:  # all of it is loaded anew
            return self._recorded_of(self._into_oid)
        return self._recorded_of(self._oid)

    def _recorded_of(self, oid: int, load: str = "") -> set[str]:
        """Return the ids of the splits of a table, and the marks of whole files."""
        if not oid or not self._recorded():
            return set()
        also, values = (" AND load = %s", [oid, load]) if load else ("", [oid])
        rows = self.rows(
            f"SELECT split, whole FROM {self.record} WHERE table_id = %s{also}", *values
        )
        marks = {f"{MARK}{whole}" for _, whole in rows if whole}
        return {str(split) for split, _ in rows} | marks

    # --- a load that gathers beside the table (``--replace``) -------------------------------------

    def _oid_of(self, table: str) -> int:
        """Return the number of a table of the schema; 0 where there is none."""
        ((oid,),) = self.rows("SELECT to_regclass(%s)::oid", qualified(self._schema, table))
        return int(oid or 0)

    def gather(self, load: str) -> set[str]:
        self._gathers = name_beside(load, self._name)
        self.find()
        self._into_oid = self._oid_of(self._gathers)
        return self._recorded_of(self._into_oid)

    def loaded_by(self, load: str) -> set[str]:
        self.find()
        return self._recorded_of(self._oid, load)

    def publish_gathered(self, attempt: str, key: Sequence[str], *, replace: bool) -> None:
        """See :class:`rowfall.engines.database.SupportsGathering`; always all of the table."""
        self.find()
        old = self._oid
        with self.asking() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [attempt])
            # Who reads for longer than this keeps everybody else waiting behind the lock.
            connection.execute(
                f"SET LOCAL lock_timeout = '{int(self._patience * 1000)}ms'".encode()
            )
            take_place(connection, self._schema, self._name, self._gathers)
            connection.execute(f"DELETE FROM {self.record} WHERE table_id = %s".encode(), [old])
            self.joined_of(old).remove_all(rows_of(connection))
            connection.execute(
                f"UPDATE {self.record} SET attempt = %s WHERE table_id = %s".encode(),
                [attempt, self._into_oid],
            )

    def drop_gathered(self) -> None:
        if self._gathers:
            self.drop_left(self._gathers)

    def drop_left(self, name: str) -> None:
        self.find()
        oid = self._oid_of(name)
        if not oid:
            return
        recorded = self._recorded()
        with self.asking() as connection, connection.transaction():
            connection.execute(f"DROP TABLE IF EXISTS {qualified(self._schema, name)}".encode())
            if recorded:
                connection.execute(f"DELETE FROM {self.record} WHERE table_id = %s".encode(), [oid])

    def gathered_tables(self) -> list[tuple[str, str, int]]:
        names = self.rows(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
            "n.nspname = %s AND relkind = 'r' AND starts_with(relname, %s) ORDER BY 1",
            self._schema, GATHERS,
        )  # fmt: skip
        found = []
        for (name,) in names:
            ((rows,),) = self.rows(f"SELECT count(*) FROM {qualified(self._schema, name)}")
            found.append((name, name.removeprefix(GATHERS).partition("_")[0], int(rows)))
        return found

    def loaded_among(self, ids: Sequence[str]) -> set[str]:
        if self.find() is None or not self._recorded():
            return set()
        wholes = [i.removeprefix(MARK) for i in ids if i.startswith(MARK)]
        rows = self.rows(
            f"SELECT split FROM {self.record} WHERE table_id = %s AND split = ANY(%s)",
            self._oid, list(ids),
        )  # fmt: skip
        found = {str(split) for (split,) in rows}
        if wholes:
            rows = self.rows(
                f"SELECT DISTINCT whole FROM {self.record} WHERE table_id = %s AND "
                "whole = ANY(%s)", self._oid, wholes,
            )  # fmt: skip
            found |= {f"{MARK}{whole}" for (whole,) in rows}
        # The record first: what is moved meanwhile is there by then.
        return found | self.joined.among(i for i in ids if i not in found)

    def join_record(self) -> None:
        found = self.find()
        if found is None or found["persistence"] == "u" or not self._recorded():
            return  # a crash empties a table that is unlogged, and its record
        self.joined.take(self.record)

    def prune_record(self, days: int) -> None:
        if self.find() is not None:
            self.joined.prune(days)

    def unrecorded(self) -> bool:
        if self.find() is None or not self.rows(f"SELECT 1 FROM {self._table} LIMIT 1"):
            return False
        if not self._recorded():
            return True
        told = self.rows(f"SELECT 1 FROM {self.record} WHERE table_id = %s LIMIT 1", self._oid)
        return not told and not self.joined.holds_any()

    def is_emptied(self) -> bool:
        """See :meth:`rowfall.engines.database.NoticesEmptied.is_emptied`.

        TRUNCATE gives a table another file, as VACUUM FULL, CLUSTER and some forms of ALTER do. The
        first two leave the transactions of rows as they were, an ALTER has changed columns, or it
        has written all rows in its own transaction (SET LOGGED). Where the newest line of the
        record is older than the file, and all rows are younger, nothing loaded is left.
        """
        if self.find() is None or not self._recorded():
            return False
        changed = self.rows(
            "SELECT max(age(c.xmin)), bool_or(c.relfilenode = c.oid OR EXISTS (SELECT 1 FROM "
            "pg_attribute a WHERE a.attrelid = c.oid AND a.xmin = c.xmin)), (SELECT min(age(xmin)) "
            f"FROM {self.record} WHERE table_id = %s) FROM pg_class c WHERE c.relkind = 'r' AND "
            "(c.oid = %s OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = %s))",
            self._oid, self._oid, self._oid,
        )  # fmt: skip
        ((emptied, otherwise, told),) = changed
        if emptied is None or otherwise or told is None or told <= emptied:
            return False
        # Of one snapshot with the age of the change: the numbers of transactions go on.
        older = (
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM {} WHERE age(xmin) >= (SELECT max(age(c.xmin)) "
            "FROM pg_class c WHERE c.relkind = 'r' AND (c.oid = %s OR c.oid IN (SELECT inhrelid "
            "FROM pg_inherits WHERE inhparent = %s))))"
        )
        return not self.rows(older.format(self._table), self._oid, self._oid)

    def forget_all(self) -> None:
        with self.asking() as connection, connection.transaction():
            rows_of(connection)(f"DELETE FROM {self.record} WHERE table_id = %s", self._oid)
            self.joined.remove_all(rows_of(connection))

    def accept(self) -> None:
        self.prepare(())
        with self.asking() as connection:
            connection.execute(
                f"INSERT INTO {self.record} (table_id, split, attempt, load, name, whole) "
                "VALUES (%s, %s, '', '', %s, '') ON CONFLICT (table_id, split) DO UPDATE SET "
                "at = now()".encode(),  # by a new transaction: see is_emptied
                [self._oid, ACCEPTED, "rows of others"],
            )

    def _recorded(self) -> bool:
        return bool(self.rows("SELECT 1 WHERE to_regclass(%s) IS NOT NULL", self.record))

    def settled(self, attempt: str) -> bool:
        if self.find() is None or not self._recorded():
            return False
        with self.asking() as connection:
            # What is left of it waits for rows that nobody sends; in its commit it goes on.
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
                "%s AND usename = current_user AND pid <> pg_backend_pid()",
                [application_of(attempt)],
            )
            connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [attempt])
            connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [attempt])
            found = connection.execute(
                f"SELECT 1 FROM {self.record} WHERE attempt = %s LIMIT 1".encode(), [attempt]
            ).fetchone()
        return found is not None

    def hold(self, streams: Sequence[str]) -> bool:
        names = [name for name in streams if name not in self._held]
        with self.asking() as connection:
            if connection is not self._holder:
                self._holder, names = connection, list(streams)
            for name in names:
                (taken,) = connection.execute(
                    "SELECT pg_try_advisory_lock(hashtextextended(%s, %s))", [name, self._oid]
                ).fetchone() or (False,)
                if not taken:
                    return False
                self._held.add(name)
            connection.execute("SELECT 1")  # it is still there, and the locks with it
        return True

    def forget(self, load_id: str) -> int:
        return self.forget_loads((load_id,))

    def forget_loads(self, loads: Collection[str]) -> int:
        if not loads or self.find() is None or not self._recorded():
            return 0
        with self.asking() as connection:
            gone = connection.execute(
                f"DELETE FROM {self.record} WHERE load = ANY(%s) AND table_id = %s".encode(),
                [list(loads), self._oid],
            ).rowcount
        return gone + self.joined.forget(loads)

    def count(self) -> int:
        ((count,),) = self.rows(f"SELECT count(*) FROM {self._table}")
        return int(count)

    def result(self, query: str, *, write: bool) -> Result | None:
        text = query.strip().rstrip(";")
        with self.asking() as connection:
            if not write:
                connection.execute("SET default_transaction_read_only = on")
            connection.execute(f"SET search_path = {identifier(self._schema)}, public".encode())
            if not re.match(r"\s*(\(|SELECT|WITH|VALUES|TABLE)\b|\s*\(", text, re.I):
                # In binary it is one statement: no second one lets the connection write again.
                cursor = connection.execute(text.encode(), binary=not write)
                if cursor.description is None:
                    return None
                names = [(str(column.name), "Nullable(String)") for column in cursor.description]
                return Result(names, iter([_lines(cursor.fetchall())]))
            names_of_types = type_names(connection)
            columns = [
                (name, read_type(names_of_types.get(oid, ""), modifier, nullable=True))
                for name, oid, modifier in described(connection, f"({text}\n) AS q", alone=True)
            ]
        return Result(columns, self._copied(text))

    def rows_from(
        self, columns: Sequence[str], low: str, *, quoted: bool, most: int
    ) -> Iterator[Sequence[str]]:
        names = [identifier(name) for name in columns]
        texts = ", ".join(f"{name}::text" for name in names)
        value = literal(low) if quoted else low
        yield from self.rows(
            f"SELECT {texts} FROM {self._table} WHERE {names[-1]} >= {value} LIMIT {most}"
        )

    def _copied(self, text: str) -> Iterator[bytes]:
        with self.asking() as connection:
            yield from rows.copy(connection, f"{text}\n", plain=False)

    # --- transactions -----------------------------------------------------------------------------

    def _begin(self) -> Transaction:
        with self._guard:
            idle = self._idle.pop() if self._idle else None
        if idle is not None and not idle.closed:
            return PostgresTransaction(self, idle, self._options.on_conflict)
        return PostgresTransaction(
            self, self.connect(patience=self._patience), self._options.on_conflict
        )

    def takes_binary(self) -> bool:
        if self.find() is None:
            return True  # as all types of new tables do, which rowfall-decode writes
        return all(
            takes_binary(type_, read_type(type_, modifier, nullable=False))
            for _, type_, modifier, _, default in self._columns() if default != "MATERIALIZED"
        )  # fmt: skip

    def binary(self, columns: Sequence[Column]) -> Binary | None:
        return binary_of(columns, {name: kind for name, kind, *_ in self._columns()})

    def close(self) -> None:
        self.cancel_all()
        super().close()


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    """Return the few rows of SHOW and EXPLAIN as TSV."""
    escape = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n"})
    return "".join(
        "\t".join("\\N" if v is None else str(v).translate(escape) for v in row) + "\n"
        for row in rows
    ).encode()
