"""DuckDB: ``file.duckdb``, ``duckdb:///folder/file.duckdb/table``, or ``--query``.

The file is opened for reading, and nobody writes into it as long as it is: so all ranges of a table
are of one moment. Rows come as batches of Arrow, whose buffers go into a pipe as they are.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rowfall.core import units, uri
from rowfall.core.digest import hexdigest
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Split
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.sqltext import identifier, literal, qualified
from rowfall.engines.database import RECORD
from rowfall.sources.arrow_database import ArrowDatabaseSource
from rowfall.sources.databases import (
    BLOCKS,
    Described,
    Key,
    KeyKind,
    SourceColumn,
    count_ranges,
    cut,
    digest,
    no_table,
    parse_file,
)
from rowfall.systems.duckdb.client import SCHEMA, connect, driver, said
from rowfall.systems.duckdb.types import KEYS, read_type, select

# Rows of a batch: as many as a row group has.
_ROWS = 122_880
# Values of a key that are looked at to cut it, evenly from all of the table.
_SAMPLE = 10_000
# Each range of a key in no order reads the whole column of it.
_SCATTERED = 4


class _Place(Key):
    """The number of a row in its table."""

    def literal(self, number: int) -> str:
        return str(number - self.low)


class DuckDBSource(ArrowDatabaseSource):
    """One table, view or query of a file."""

    remote = False

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(parse_file(texts, options, SCHEMA), options)
        self._options, self._guard = options, threading.Lock()
        self._connection: Any = None
        self._relation = ""

    def close(self) -> None:
        """Close the file when nobody reads from it any more."""
        super().close()
        with self._guard:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _cursor(self) -> Any:
        """Return a connection of its own to the open file; it is read by one thread."""
        with self._guard:
            if self._connection is None:
                self._connection = connect(
                    self.address.database, self._options, SourceError, read_only=True
                )
            return self._connection.cursor()

    @contextlib.contextmanager
    def _said(self, name: str = "") -> Iterator[Any]:
        """Give a connection, and turn its errors into ours.

        Raises:
            SourceError: the file cannot be read.
        """
        cursor = self._cursor()
        try:
            yield cursor
        except driver().Error as error:
            hint = "Try the query in DuckDB." if self.query else None
            text = f"cannot read {name or self.text}: {said(error)}"
            raise SourceError(text, hint=hint) from error
        finally:
            cursor.close()

    # --- catalogue --------------------------------------------------------------------------------

    def describe(self) -> Described:
        at = self.address
        with self._said() as cursor:
            if self.query:
                self._relation = f"({self.query}\n) AS q"
                columns, _ = self._columns(cursor, {})
                return Described("", digest(self.query), columns, 0, None, "a query")
            table = at.table or self._only_table(cursor)
            rows = self._ask(
                cursor,
                "SELECT column_name, column_default, is_nullable FROM duckdb_columns()",
                table,
            )
            if not rows:
                raise no_table(at, table, self._tables(cursor))
            self._relation = qualified(at.schema, table)
            columns, types = self._columns(cursor, {name: bool(null) for name, _, null in rows})
            name = f"{at.schema}.{table}"
            made = self._ask(cursor, "SELECT sql, estimated_size FROM duckdb_tables()", table)
            if not made:
                return Described(name, "", columns, 0, None, f"{table} is a view")
            keys = self._ask(
                cursor, "SELECT constraint_column_names FROM duckdb_constraints()", table,
                "constraint_type = 'PRIMARY KEY'",
            )  # fmt: skip
            order = tuple(keys[0][0]) if keys else ()
            version = hexdigest(str(made[0][0]).encode(), 8)
            found = Described(name, version, columns, int(made[0][1]), None, "", (), order)
            if not cursor.execute(f"SELECT 1 FROM {self._relation} LIMIT 1").fetchone():
                return found  # so that a later run loads what comes
            count = count_ranges(int(found.rows * sum(column.bytes_each for column in columns)))
            wanted = at.key or (order[0] if len(order) == 1 else "")
            if types.get(wanted) in KEYS:
                default = next((str(d) for n, d, _ in rows if n == wanted), "")
                return self._cut_by_key(cursor, found, wanted, count, default)
            if at.key:
                names = [name for name, type_ in types.items() if type_ in KEYS]
                raise UsageError(
                    f"{self.text}: {at.key} is no integer column to cut by",
                    hint=f"{did_you_mean(at.key, names)}Integers: {', '.join(names) or 'none'}.",
                )
            return self._cut_by_place(cursor, found, count)

    def _ask(self, cursor: Any, query: str, table: str, also: str = "true") -> list[Any]:
        """Return rows of the catalogue about a table."""
        return list(cursor.execute(
            f"{query} WHERE database_name = current_database() AND schema_name = ? AND "
            f"table_name = ? AND {also}", [self.address.schema, table],
        ).fetchall())  # fmt: skip

    def _tables(self, cursor: Any) -> list[str]:
        return [str(name) for (name,) in cursor.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND "
            "table_catalog = current_database() AND table_name <> ? ORDER BY 1",
            [self.address.schema, RECORD],
        ).fetchall()]  # fmt: skip

    def _only_table(self, cursor: Any) -> str:
        """Return the table of a file that has one.

        Raises:
            UsageError: it has several, or none.
        """
        tables = self._tables(cursor)
        if len(tables) == 1:
            return tables[0]
        file = f"duckdb://{self.address.database}"
        names = ", ".join(shlex.quote(f"{file}/{uri.encode(name)}") for name in tables[:10])
        raise UsageError(
            f"{self.text} has {units.counted(len(tables), 'table')}",
            hint=f"Name one of them: {names}" if tables else "Make one, or name another file.",
        )

    def _columns(
        self, cursor: Any, nullable: dict[str, bool]
    ) -> tuple[tuple[SourceColumn, ...], dict[str, str]]:
        """Return the columns of table or query, and the types of DuckDB.

        Raises:
            SourceError: no column is like some of them; it names a query that casts them.
        """
        found = cursor.sql(f"SELECT * FROM {self._relation} LIMIT 0")
        columns, bad = [], {}
        for name, type_ in zip(found.columns, found.types, strict=True):
            null = nullable.get(name, True)
            read = read_type(type_, nullable=null)
            if read is None:
                bad[name] = str(type_)
                continue
            columns.append(SourceColumn(
                name, read[0], f"{type_} of DuckDB", select(name, read[1]), read[2] + null,
                bytes=type_.id == "blob",
            ))  # fmt: skip
        if bad:
            casts = ", ".join(f"{identifier(n)}::VARCHAR AS {identifier(n)}" for n in bad)
            words = [f"duckdb://{self.address.database}", "--query",
                     f"SELECT * REPLACE ({casts}) FROM {self._relation}", "--table",
                     self.address.table or "NAME"]  # fmt: skip
            raise SourceError(
                f"{self.text}: no column is like {', '.join(f'{n} {t}' for n, t in bad.items())}",
                hint=f"Cast it: rowfall load {shlex.join(words)}",
            )
        return tuple(columns), {n: t.id for n, t in zip(found.columns, found.types, strict=True)}

    def _cut_by_key(
        self, cursor: Any, found: Described, name: str, count: int, default: str
    ) -> Described:
        """Return a table cut by an integer: its key, or the one that was asked for."""
        sql, step = identifier(name), max(1, found.rows // _SAMPLE)
        (high,) = cursor.execute(f"SELECT max({sql}) FROM {self._relation}").fetchone()
        grows = default.startswith("nextval(")
        key = Key(name, sql, KeyKind.INTEGER, grows, nullable=name not in found.order_by)
        values = [] if count == 1 else [value for (value,) in cursor.execute(
            f"SELECT {sql} FROM {self._relation} WHERE rowid % {step} = 0 ORDER BY rowid"
        ).fetchall()]  # fmt: skip
        if any(a > b for a, b in itertools.pairwise(v for v in values if v is not None)):
            count = min(count, _SCATTERED)
        end = high + 1 if grows and high is not None and 0 < high < key.end else key.end
        why = "as asked for" if self.address.key else "its primary key"
        ranges = tuple(cut(map(key.number, values), count, end))
        return replace(found, key=key, why=why, ranges=ranges)

    def _cut_by_place(self, cursor: Any, found: Described, count: int) -> Described:
        """Return a table cut by the numbers of its rows, which change as the table is changed."""
        (last,) = cursor.execute(f"SELECT max(rowid) FROM {self._relation}").fetchone()
        (state,) = cursor.execute(
            "SELECT string_agg(concat_ws(',', row_group_id, column_path, segment_id, start, count, "
            "block_id, block_offset, has_updates), ';' ORDER BY row_group_id, column_path, "
            f"segment_id) FROM pragma_storage_info({literal(self._relation)})"
        ).fetchone()
        low = (int(hexdigest(f"{last};{state}".encode(), 8), 16) & 0x7FFF_FFFE | 1) << 32
        key = _Place("rowid", "rowid", KeyKind.BLOCK, low=low, end=low + BLOCKS)
        places = {low + (last // _ROWS + 1) * n // count * _ROWS for n in range(1, count)}
        bounds = sorted({low, *places, key.end})
        return replace(
            found, key=key, why="it has no integer for its key",
            version=f"{found.version}.{low >> 32:x}", ranges=tuple(itertools.pairwise(bounds)),
        )  # fmt: skip

    # --- rows -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def read(self, split: Split) -> Iterator[Any]:
        """See :meth:`rowfall.sources.arrow_database.ArrowDatabaseSource.read`."""
        columns = ", ".join(column.select for column in self.described.columns)
        where = self.condition(split)
        with (
            self._said(split.name) as cursor,
            # Closed, as an error's traceback would keep it, and with it the file.
            cursor.sql(
                f"SELECT {columns} FROM {self._relation}" + (f" WHERE {where}" if where else "")
            ).to_arrow_reader(_ROWS) as reader,
        ):
            yield reader
