"""DuckDB: ``file.duckdb``, ``duckdb:///folder/file.duckdb/table``, or ``--query``.

The file is opened for reading, and nobody writes into it as long as it is: so all ranges of a table
are of one moment. Rows come as batches of Arrow, whose buffers go into a pipe as they are.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from rowfall.core.listing import Split
from rowfall.core.sqltext import identifier, literal, qualified
from rowfall.core.type_names import parse_type
from rowfall.engines.database import RECORD
from rowfall.sources.arrow_database import ArrowDatabaseSource
from rowfall.sources.cursor import Cursor, CursorSql
from rowfall.sources.databases import (
    digest,
    no_key,
    no_table,
    no_type,
    only_table,
)
from rowfall.sources.file_database import FileDatabaseSource
from rowfall.sources.key_ranges import (
    UNINDEXED_RANGES,
    WHOLE,
    Described,
    Key,
    KeyKind,
    SourceColumn,
    count_ranges,
    cut,
)
from rowfall.systems.duckdb.client import HERE, READER, ROWS
from rowfall.systems.duckdb.types import KEYS, read_type, select

# Values of a key that are looked at to cut it, evenly from all of the table.
_SAMPLE = 10_000
# Each range of a key in no order reads the whole column of it.
_SCATTERED = 4


class DuckDBSource(FileDatabaseSource, ArrowDatabaseSource):
    """One table, view or query of a file."""

    _reader = READER

    # --- catalogue --------------------------------------------------------------------------------

    def describe(self) -> Described:
        at = self.address
        with self._file.asking() as cursor:
            if self.query:
                self._relation = f"({self.query}\n) AS q"
                columns, _ = self._columns(cursor, {})
                return Described("", digest(self.query), columns, 0, None, "a query")
            table = at.table or only_table(at, self._tables(cursor))
            asked = "SELECT column_name, column_default, is_nullable FROM duckdb_columns()"
            rows = self._ask(cursor, asked, table)
            if not rows:
                raise no_table(at, table, self._tables(cursor))
            self._relation = qualified(at.schema, table)
            self._table = table
            columns, types = self._columns(cursor, {name: bool(null) for name, _, null in rows})
            name = f"{at.schema}.{table}"
            made = self._ask(cursor, "SELECT sql, estimated_size FROM duckdb_tables()", table)
            if not made:
                return Described(name, "", columns, 0, None, f"{table} is a view")
            asked = "SELECT constraint_column_names FROM duckdb_constraints()"
            keys = self._ask(cursor, asked, table, "constraint_type = 'PRIMARY KEY'")
            order = tuple(keys[0][0]) if keys else ()
            version = blake2b(str(made[0][0]).encode(), digest_size=8).hexdigest()
            found = Described(name, version, columns, int(made[0][1]), None, "", (), order)
            if self.options.cursor is not None:
                return replace(found, ranges=WHOLE)
            if not cursor.execute(f"SELECT 1 FROM {self._relation} LIMIT 1").fetchone():
                return found  # so that a later run loads what comes
            if "rowid" in map(str.lower, types):  # it hides the numbers of rows
                return replace(found, why="it has a column rowid", ranges=WHOLE)
            count = count_ranges(self._bytes(found))
            wanted = at.key or (order[0] if len(order) == 1 else "")
            if types.get(wanted) in KEYS:
                default = next((str(d) for n, d, _ in rows if n == wanted), "")
                return self._cut_by_key(cursor, found, wanted, count, default)
            if at.key:
                raise no_key(at, [name for name, type_ in types.items() if type_ in KEYS])
            return self._cut_by_place(cursor, found, count)

    def _ask(self, cursor: Any, query: str, table: str, also: str = "true") -> list[Any]:
        """Return rows of the catalogue about a table."""
        asked = f"{query} WHERE {HERE} AND {also}"
        return list(cursor.execute(asked, [self.address.schema, table]).fetchall())

    def _tables(self, cursor: Any) -> list[str]:
        return [str(name) for (name,) in cursor.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND "
            "table_catalog = current_database() AND table_name <> ? ORDER BY 1",
            [self.address.schema, RECORD],
        ).fetchall()]  # fmt: skip

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
                name, read[0], f"{type_} of DuckDB", select(name, type_, read[2]), read[1] + null,
                bytes=type_.id == "blob",
            ))  # fmt: skip
        if bad:
            casts = ", ".join(f"{identifier(n)}::VARCHAR AS {identifier(n)}" for n in bad)
            raise no_type(self.address, bad, f"SELECT * REPLACE ({casts}) FROM {self._relation}")
        return tuple(columns), {n: t.id for n, t in zip(found.columns, found.types, strict=True)}

    def _cut_by_key(
        self, cursor: Any, found: Described, name: str, count: int, default: str
    ) -> Described:
        """Return a table cut by an integer: its key, or the one that was asked for."""
        sql, step = identifier(name), max(1, found.rows // _SAMPLE)
        (high,) = cursor.execute(f"SELECT max({sql}) FROM {self._relation}").fetchone()
        grows = default.startswith("nextval(")
        key = Key(name, sql, KeyKind.INTEGER, grows, nullable=name not in found.order_by)
        asked = f"SELECT {sql} FROM {self._relation} WHERE rowid % {step} = 0 ORDER BY rowid"
        values = [v for (v,) in cursor.execute(asked).fetchall()] if count > 1 else []
        if any(a > b for a, b in itertools.pairwise(v for v in values if v is not None)):
            count = min(count, _SCATTERED)
        return self._cut_by(found, key, high, map(key.number, values), count)

    def _cut_by_place(self, cursor: Any, found: Described, count: int) -> Described:
        """Return a table cut by the numbers of its rows, which change as the table is changed."""
        (last,) = cursor.execute(f"SELECT max(rowid) FROM {self._relation}").fetchone()
        (state,) = cursor.execute(
            "SELECT string_agg(concat_ws(',', row_group_id, column_path, segment_id, start, count, "
            "block_id, block_offset, has_updates), ';' ORDER BY row_group_id, column_path, "
            f"segment_id) FROM pragma_storage_info({literal(self._relation)})"
        ).fetchone()
        digest = blake2b(f"{last};{state}".encode(), digest_size=4).digest()
        places = ((last // ROWS + 1) * n // count * ROWS for n in range(1, count))
        cut = self._cut_by_number(found, "rowid", int.from_bytes(digest), places)
        # Other places are another table, whose first ones may be loaded again.
        return replace(cut, version=f"{cut.version}.{cut.ranges[0][0] >> 32:x}")

    # --- a column that is followed ----------------------------------------------------------------

    def ask(self, query: str) -> Iterable[Sequence[Any]]:
        with self._file.asking() as cursor:
            return list(cursor.execute(query).fetchall())

    def cursor_sql(self, column: SourceColumn) -> CursorSql:
        shown, unique = column.reason.removesuffix(" of DuckDB"), False
        refused = "is no text" if shown != "VARCHAR" else ""
        if not self.query and self._table:
            with self._file.asking() as cursor:
                asked = "SELECT constraint_column_names FROM duckdb_constraints()"
                also = "constraint_type IN ('PRIMARY KEY', 'UNIQUE')"
                keys = self._ask(cursor, asked, self._table, also)
            unique = any(list(names) == [column.name] for (names,) in keys)
        return CursorSql(
            identifier(column.name), text="({x})::VARCHAR", cast=f"::{shown}", values=True,
            unique=unique, refused=refused if parse_type(column.type).base == "String" else "",
        )  # fmt: skip

    def key_sql(self, column: SourceColumn) -> tuple[str, str, str]:
        sql, shown = identifier(column.name), column.reason.removesuffix(" of DuckDB")
        return sql, f"{sql}::VARCHAR", f"::{shown}"

    def cursor_ranges(self, found: Described, cursor: Cursor) -> Sequence[tuple[int, int]]:
        """Cut by a sample or by estimates, see :mod:`rowfall.sources.following`."""
        count = min(count_ranges(self._bytes(found)), UNINDEXED_RANGES)
        if count < 2 or self.query or not self._table:
            return [(0, cursor.end)]
        text, step = cursor.sql.text.format(x=cursor.key.sql), max(1, found.rows // _SAMPLE)
        rows = self.ask(f"SELECT {text} FROM {self._relation} WHERE rowid % {step} = 0")
        values = [None if text is None else cursor.key.number(text) for (text,) in rows]
        return cut(values, count, cursor.end)

    # --- rows -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def read(self, split: Split) -> Iterator[Any]:
        columns = ", ".join(column.select for column in self.described.columns)
        where = self.condition(split)
        query = f"SELECT {columns} FROM {self._relation}" + (f" WHERE {where}" if where else "")
        # Closed, as an error's traceback would keep it, and with it the file.
        with self._file.asking() as cursor, cursor.sql(query).to_arrow_reader(ROWS) as reader:
            yield reader
