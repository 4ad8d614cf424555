"""Many tables of one database, all read in one snapshot.

Each table is looked at first: the highest value of a key that grows, and how often rows have moved,
have to be known from before the snapshot (:mod:`rowfall.systems.postgresql.catalogue`). Then all
tables are locked against DROP, TRUNCATE and ALTER, as pg_dump does it, and the snapshot is
exported. All of that takes one connection; it stays open, and the sources of the tables share those
that read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.options import Options
from rowfall.core.tables import TABLE, FoundTable
from rowfall.core.units import parse_duration
from rowfall.sources.base import Source
from rowfall.sources.databases import parse, with_table
from rowfall.sources.many import Readers
from rowfall.systems.postgresql.catalogue import WRITERS_SECONDS, Catalogue
from rowfall.systems.postgresql.client import PASSWORD_VARIABLE, PORT, SETTINGS, driver
from rowfall.systems.postgresql.conninfo import completed
from rowfall.systems.postgresql.snapshot import SnapshotReaders
from rowfall.systems.postgresql.source import (
    PostgresSource,
    SharedTable,
    explained,
    server_of,
)

if TYPE_CHECKING:
    from psycopg import Connection

_KINDS = {"r": TABLE, "p": TABLE, "v": "view", "m": "materialized view", "f": "foreign table"}
_MOMENT = "all tables are read in one snapshot, and nobody can drop or alter them meanwhile"
# Who waits for a lock behind somebody who alters a table makes all others wait as well; such
# statements end within seconds, or are forgotten ones. Then that table is locked when it is read.
_LOCK_SECONDS = 5
_LIST = """
SELECT n.nspname, c.relname, c.relkind,
    CASE WHEN c.relispartition THEN pg_partition_root(c.oid)::oid
         ELSE (SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.oid LIMIT 1) END,
    c.oid,
    CASE WHEN c.relkind IN ('r', 'm') AND pg_relation_size(c.oid) = 0 THEN 0
         WHEN c.reltuples < 0 OR c.relpages = 0 THEN NULL ELSE c.reltuples::int8 END,
    CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) END,
    pg_table_is_visible(c.oid),
    EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
            AND d.deptype = 'e')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'
    AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND c.relname !~ '^_rowfall_'
ORDER BY n.nspname, c.relname
"""
_ROOM = """
SELECT least(current_setting('max_connections')::int
             - current_setting('superuser_reserved_connections')::int,
             nullif((SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user), -1),
             nullif((SELECT datconnlimit FROM pg_database WHERE datname = current_database()), -1))
    - (SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL)
"""


class PostgresTables:
    """The tables of one database."""

    def __init__(self, text: str, options: Options) -> None:
        self._typed, self._options = completed(text), options
        text = completed(text)
        at = parse(
            [text], options, port=PORT, variable=PASSWORD_VARIABLE, settings=SETTINGS, tables=True
        )
        if not at.database:
            raise UsageError(
                f"{at.text} names no database", hint="Write postgresql://user@host/database."
            )
        self._at = replace(at, scheme="postgresql")
        self.text = at.text
        self._server = server_of(self._at)
        self._asking: Connection[Any] | None = None
        self._readers = SnapshotReaders(at.text, self._connect)
        self._shared: dict[str, SharedTable | RowfallError] = {}

    def list_tables(self) -> Sequence[FoundTable]:
        with self._said():
            rows = self._ask(_LIST)
        names = {oid: f"{schema}.{name}" for schema, name, _, _, oid, *_ in rows}
        sizes: dict[int, tuple[int, int]] = {}  # of partitions, by their root
        for _, _, kind, root, _, count, size, *_ in rows:
            if root is not None and kind == "r":
                before = sizes.get(root, (0, 0))
                sizes[root] = (before[0] + (count or 0), before[1] + (size or 0))
        found = []
        for schema, name, kind, root, oid, count, size, visible, extension in rows:
            if kind == "p" and oid in sizes:
                count, size = sizes[oid]
            what = "table of an extension" if extension and kind in "rp" else _KINDS[kind]
            # A parent that this user may not see hides nothing.
            parent = names.get(root, "") if root is not None else ""
            found.append(FoundTable(
                schema, name, what, parent, None if count is None else int(count),
                None if size is None else int(size), bool(visible),
            ))  # fmt: skip
        return found

    def measure(self, tables: Sequence[FoundTable]) -> Sequence[FoundTable]:
        return tables

    def moment(self) -> str:
        return _MOMENT

    def begin(self, tables: Sequence[FoundTable], streams: int) -> str:
        connection = self._connection()
        looked: dict[str, Catalogue] = {}
        empties = self._options.null_lists is not None
        follows = self._options.cursor is not None
        for table in tables:
            at = replace(
                self._at, schema=table.schema, table=table.name, text=f"{self.text}: {table.full}"
            )
            catalogue = Catalogue(connection, at, "", empties=empties, follows=follows)
            try:
                with self._said():
                    catalogue.look()
            except SourceError as error:
                if error.transient:
                    raise
                self._shared[table.full] = error  # of this table: said when it is its turn
                continue
            looked[table.full] = catalogue
        deadline = time.monotonic() + WRITERS_SECONDS
        with self._said():
            notes = {name: found.settle(deadline) for name, found in looked.items()}
            self._readers.begin(connection, lambda: _lock(connection, list(looked.values())))
        self._asking = None  # it is the first of the readers now
        for name, found in looked.items():
            self._shared[name] = SharedTable(self._readers, found, notes[name])
        return _MOMENT

    def readers(self) -> Readers:
        with self._said():
            ((free,),) = self._ask(_ROOM)
        return Readers(max(1, int(free)), f"the server has {max(0, int(free))} connections left")

    def address(self, table: FoundTable) -> str:
        return with_table(self._typed, "" if table.visible else table.schema, table.name)

    def open(self, table: FoundTable, options: Options) -> Source:
        shared = self._shared[table.full]
        if isinstance(shared, RowfallError):
            raise shared
        return PostgresSource([self.address(table)], options, shared)

    def remarks(self) -> Sequence[str]:
        if self._readers.renewed:
            return (
                "the server has ended the snapshot: tables that were read afterwards are of a "
                "later moment than the others",
            )
        return ()

    def close(self) -> None:
        if self._asking is not None:
            self._asking.close()
        self._readers.close()

    def _connection(self) -> Connection[Any]:
        """Return the connection that asks the catalogue."""
        if self._asking is None:
            with self._said():
                self._asking = self._connect()
        return self._asking

    def _connect(self) -> Connection[Any]:
        return self._server.connect(parse_duration(self._options.patience))

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection().execute(query.encode()).fetchall()

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Turn errors of server and driver into ours."""
        try:
            yield
        except driver().Error as error:
            raise explained(self._server, self._at, error, self.text) from error


def _lock(connection: Connection[Any], tables: Sequence[Catalogue]) -> None:
    """Lock tables against who drops or alters them, until the transaction ends.

    All in one statement; where somebody holds one of them, or it has just gone, each by itself, and
    those that cannot be locked are when they are read.
    """
    error = driver().Error
    every = [found.sql for found in tables]

    def lock(some: Sequence[str]) -> bool:
        connection.execute("SAVEPOINT locks")
        try:
            connection.execute(f"LOCK TABLE {', '.join(some)} IN ACCESS SHARE MODE".encode())
        except error:
            connection.execute("ROLLBACK TO SAVEPOINT locks")
            return False
        finally:
            # Within one, no snapshot can be exported.
            connection.execute("RELEASE SAVEPOINT locks")
        return True

    connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
    if every and not lock(every):
        connection.execute("SET LOCAL lock_timeout = '100ms'")  # it was waited for already
        for one in every:
            lock([one])
    connection.execute("SET LOCAL lock_timeout = 0")
