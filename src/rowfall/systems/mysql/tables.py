"""Many tables of one server of MySQL, MariaDB or SingleStore, read in snapshots of one moment.

A session cannot join the snapshot of another one. So as many sessions as will read begin theirs
while no transaction can commit (FLUSH TABLES WITH READ LOCK), where the user has the right to that;
otherwise one right after the other. The tables are looked at before: the highest value of a key
that grows has to be known from before its snapshot (:mod:`rowfall.systems.mysql.source`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from rowfall.core import uri
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.options import Options
from rowfall.core.tables import TABLE, FoundTable
from rowfall.core.units import counted
from rowfall.sources.base import Source
from rowfall.sources.databases import parse, with_table
from rowfall.sources.many import Readers
from rowfall.systems.mysql.client import PARAMETERS, PASSWORD_VARIABLE, PORT, driver, quote, said
from rowfall.systems.mysql.option_files import completed
from rowfall.systems.mysql.session import SharedSessions
from rowfall.systems.mysql.source import MySQLSource, begin_snapshot, explained, open_reading

_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys", "cluster", "memsql")
_KINDS = {"VIEW": "view", "SYSTEM VIEW": "view", "SEQUENCE": "sequence"}
# Engines of tables whose rows are others'.
_ELSEWHERE = {"FEDERATED": "foreign table", "CONNECT": "foreign table", "MRG_MYISAM": "merge table"}
# To look at a table takes some 8 questions, mostly waiting for their answers.
_ASKING = 4
# The lock waits for statements that run and makes all that write wait behind it: seconds of that
# are noticed, so then the snapshots are begun without it.
_LOCK_SECONDS = 3
_ONE = "all tables are read in one moment: their snapshots were begun while nobody could commit"
_EACH = (
    "the snapshots of the connections are milliseconds apart, as {}: a transaction that commits "
    "in between may be seen in one table and not in another"
)


class MySQLTables:
    """The tables of one database, or of all of them where the address names none."""

    def __init__(self, text: str, options: Options) -> None:
        self._typed, self._options = completed(text), options
        text = completed(text)
        at = parse(
            [text], options, port=PORT, variable=PASSWORD_VARIABLE, settings=PARAMETERS, tables=True
        )
        self._at, self.text = at, at.text
        if options.cursor is not None:
            # The highest value is asked outside of the snapshots, and has to be from before them.
            raise UsageError(
                f"--tables and --cursor exclude each other for {at.scheme}://: no session can ask "
                "for the highest value in the snapshot of another one",
                hint="Load each table alone with --cursor.",
            )
        self._sessions = SharedSessions(self._connect, self._begin)
        self._sources: dict[str, MySQLSource | RowfallError] = {}

    def list_tables(self) -> Sequence[FoundTable]:
        where = f"TABLE_SCHEMA NOT IN ({', '.join(map(quote, _SYSTEM))})"
        if self._at.database:
            where = f"TABLE_SCHEMA = {quote(self._at.database)}"
        rows = self._ask(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_ROWS, DATA_LENGTH "
            f"FROM information_schema.TABLES WHERE {where} "
            r"AND TABLE_NAME NOT LIKE '\\_rowfall\\_%' ORDER BY 1, 2"
        )
        return [
            FoundTable(
                str(schema), str(name),
                _KINDS.get(str(kind), _ELSEWHERE.get(str(engine or "").upper(), TABLE)),
                rows=None if rows_ is None else int(rows_),
                bytes=None if size is None else int(size),
            )
            for schema, name, kind, engine, rows_, size in rows
        ]  # fmt: skip

    def measure(self, tables: Sequence[FoundTable]) -> Sequence[FoundTable]:
        return tables

    def moment(self) -> str:
        return (
            "the snapshots of all connections are begun together: in one moment where the user "
            "has the right to FLUSH TABLES WITH READ LOCK, else milliseconds apart"
        )

    def begin(self, tables: Sequence[FoundTable], streams: int) -> str:
        with ThreadPoolExecutor(_ASKING) as pool:
            for table, found in zip(tables, pool.map(self._look, tables), strict=True):
                if isinstance(found, SourceError) and found.transient:
                    raise found
                self._sources[table.full] = found
        with self._no_commits() as refused:
            self._sessions.fill(streams)
        return _EACH.format(refused) if refused else _ONE

    def readers(self) -> Readers:
        ((most, own),) = self._ask("SELECT @@max_connections, @@max_user_connections")
        ((_, used),) = self._ask("SHOW STATUS LIKE 'Threads_connected'")
        free = int(most) - int(used)
        free = max(1, min(free, int(own) or free))
        return Readers(free, f"the server has {free} connections left")

    def address(self, table: FoundTable) -> str:
        text = self._typed
        if not self._at.database:
            base, mark, query = text.partition("?")
            text = f"{base.rstrip('/')}/{uri.encode(table.schema, safe='')}{mark}{query}"
        return with_table(text, "", table.name)

    def open(self, table: FoundTable, options: Options) -> Source:
        found = self._sources[table.full]
        if isinstance(found, RowfallError):
            raise found
        return found

    def remarks(self) -> Sequence[str]:
        late = self._sessions.late
        if not late:
            return ()
        return (
            f"{counted(late, 'connection')} had to be opened anew: what it has read is of a later "
            "moment than the rest",
        )

    def close(self) -> None:
        self._sessions.close()

    def _look(self, table: FoundTable) -> MySQLSource | RowfallError:
        """Return the source of a table, described; the error where it cannot be read."""
        try:
            source = MySQLSource([self.address(table)], self._options, self._sessions)
            _ = source.described
        except RowfallError as error:
            return error
        return source

    @contextmanager
    def _no_commits(self) -> Iterator[str]:
        """Let nobody commit meanwhile; give a clause that says why that cannot be, or ""."""
        pymysql = driver(self._at.scheme)
        connection, refused = self._connect(), ""
        try:
            with connection.cursor() as cursor:
                try:
                    cursor.execute(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
                    cursor.execute("FLUSH TABLES WITH READ LOCK")
                except pymysql.err.MySQLError as error:
                    refused = f"they could not be locked ({said(error).text})"
            yield refused
            if not refused:
                with connection.cursor() as cursor:
                    cursor.execute("UNLOCK TABLES")
        finally:
            connection.close()

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        connection = self._sessions.take_asking()
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                found = list(cursor.fetchall())
        except driver(self._at.scheme).err.MySQLError as error:
            connection.close()
            raise explained(self._at, error) from None
        self._sessions.keep_asking(connection)
        return found

    def _connect(self) -> Any:
        return open_reading(self._at, lambda error: explained(self._at, error))

    def _begin(self, connection: Any) -> None:
        begin_snapshot(connection, driver(self._at.scheme))
