"""DuckDB: ``file.duckdb``, ``duckdb:///folder/file.duckdb/table``, or ``--query``.

The file is opened for reading, and nobody writes into it as long as it is: so all ranges of a table
are of one moment. Rows come as batches of Arrow, whose buffers go into a pipe as they are.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from rowfall.core.listing import Split
from rowfall.core.sqltext import identifier, literal, qualified
from rowfall.core.type_names import parse_type
from rowfall.sources.arrow_database import ArrowDatabaseSource
from rowfall.sources.cursor import Cursor, CursorSql
from rowfall.sources.databases import digest, no_key, no_table, no_type, only_table
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
from rowfall.systems.duckdb.client import (
    ABOUT,
    LIST_TABLES,
    LIST_VIEWS,
    READER,
    ROWS,
    UNIQUE,
    columns_of,
)
from rowfall.systems.duckdb.types import KEYS, read_type, select

# Values of a key that are looked at to cut it, evenly from all of the table.
_SAMPLE = 10_000
# Each range of a key in no order reads the whole column of it.
_SCATTERED = 4
_PRIMARY = "AND constraint_type = 'PRIMARY KEY'"
_OF = " of DuckDB"


class DuckDBSource(FileDatabaseSource, ArrowDatabaseSource):
    """One table, view or query of a file."""

    _reader = READER

    def describe(self) -> Described:
        at = self.address
        if self.query:
            self._relation = f"({self.query}\n) AS q"
            return Described("", digest(self.query), self._columns({}), 0, None, "a query")
        table = self._table = at.table or only_table(at, self._tables())
        rows = self._ask("column_name, column_default, is_nullable", "columns")
        if not rows:
            raise no_table(at, table, self._tables())
        self._relation = qualified(at.schema, table)
        columns = self._columns({name: bool(null) for name, _, null in rows})
        name = f"{at.schema}.{table}"
        made = self._ask("sql, estimated_size", "tables")
        if not made:
            return Described(name, "", columns, 0, None, f"{table} is a view")
        keys = self._ask("constraint_column_names", "constraints", _PRIMARY)
        order = tuple(keys[0][0]) if keys else ()
        version = blake2b(str(made[0][0]).encode(), digest_size=8).hexdigest()
        found = Described(name, version, columns, int(made[0][1]), None, "", (), order)
        if self.options.cursor is not None:
            return replace(found, ranges=WHOLE)
        if not self.ask(f"SELECT 1 FROM {self._relation} LIMIT 1"):
            return found  # so that a later run loads what comes
        if "rowid" in (column.name.lower() for column in columns):  # it hides the numbers of rows
            return replace(found, why="it has a column rowid", ranges=WHOLE)
        count = count_ranges(self._bytes(found))
        wanted = at.key or (order[0] if len(order) == 1 else "")
        keyed = [c.name for c in columns if c.reason.removesuffix(_OF).lower() in KEYS]
        if wanted in keyed:
            default = next((str(d) for n, d, _ in rows if n == wanted), "")
            return self._cut_by_key(found, wanted, count, default)
        if at.key:
            raise no_key(at, keyed)
        return self._cut_by_place(found, count)

    def _ask(self, what: str, of: str, more: str = "") -> list[Any]:
        """Return rows of the catalogue about the table."""
        asked = ABOUT.format(what, of, "table", more)
        return self._file.rows(asked, self.address.schema, self._table)

    def _tables(self) -> list[str]:
        listed = [*self.ask(LIST_TABLES), *self.ask(LIST_VIEWS)]
        return sorted(name for schema, name, _, _ in listed if schema == self.address.schema)

    def _columns(self, nullable: dict[str, bool]) -> tuple[SourceColumn, ...]:
        """Return the columns of table or query.

        Raises:
            SourceError: no column is like some of them; it names a query that casts them.
        """
        columns, bad = [], {}
        for name, type_ in columns_of(self._file, f"SELECT * FROM {self._relation}").items():
            null = nullable.get(name, True)
            read = read_type(type_, nullable=null)
            if read is None:
                bad[name] = str(type_)
                continue
            columns.append(SourceColumn(
                name, read[0], f"{type_}{_OF}", select(name, type_, read[2]), read[1] + null,
                bytes=type_.id == "blob",
            ))  # fmt: skip
        if bad:
            casts = ", ".join(f"{identifier(n)}::VARCHAR AS {identifier(n)}" for n in bad)
            raise no_type(self.address, bad, f"SELECT * REPLACE ({casts}) FROM {self._relation}")
        return tuple(columns)

    def _cut_by_key(self, found: Described, name: str, count: int, default: str) -> Described:
        """Return a table cut by an integer: its key, or the one that was asked for."""
        sql = identifier(name)
        ((high,),) = self.ask(f"SELECT max({sql}) FROM {self._relation}")
        grows = default.startswith("nextval(")
        key = Key(name, sql, KeyKind.INTEGER, grows, nullable=name not in found.order_by)
        values = self._sample(found, sql) if count > 1 else []
        if any(a > b for a, b in itertools.pairwise(v for v in values if v is not None)):
            count = min(count, _SCATTERED)
        return self._cut_by(found, key, high, map(key.number, values), count)

    def _sample(self, found: Described, sql: str) -> list[Any]:
        """Return values from all over the table, in its order."""
        where = f"rowid % {max(1, found.rows // _SAMPLE)} = 0"
        asked = f"SELECT {sql} FROM {self._relation} WHERE {where} ORDER BY rowid"
        return [value for (value,) in self.ask(asked)]

    def _cut_by_place(self, found: Described, count: int) -> Described:
        """Return a table cut by the numbers of its rows, which change as the table is changed."""
        ((last,),) = self.ask(f"SELECT max(rowid) FROM {self._relation}")
        ((state,),) = self.ask(
            "SELECT string_agg(concat_ws(',', row_group_id, column_path, segment_id, start, count, "
            "block_id, block_offset, has_updates), ';' ORDER BY row_group_id, column_path, "
            f"segment_id) FROM pragma_storage_info({literal(self._relation)})"
        )
        digest = blake2b(f"{last};{state}".encode(), digest_size=4).digest()
        places = ((last // ROWS + 1) * n // count * ROWS for n in range(1, count))
        cut = self._cut_by_number(found, "rowid", int.from_bytes(digest), places)
        # Other places are another table, whose first ones may be loaded again.
        return replace(cut, version=f"{cut.version}.{cut.ranges[0][0] >> 32:x}")

    # --- a column that is followed ----------------------------------------------------------------

    def cursor_sql(self, column: SourceColumn) -> CursorSql:
        shown = column.reason.removesuffix(_OF)
        refused = "is no text" if shown != "VARCHAR" else ""
        keys = self._ask("constraint_column_names", "constraints", UNIQUE) if self._table else []
        unique = any(list(names) == [column.name] for (names,) in keys)
        return CursorSql(
            identifier(column.name), text="({x})::VARCHAR", cast=f"::{shown}", values=True,
            unique=unique, refused=refused if parse_type(column.type).base == "String" else "",
        )  # fmt: skip

    def key_sql(self, column: SourceColumn) -> tuple[str, str, str]:
        sql, shown = identifier(column.name), column.reason.removesuffix(_OF)
        return sql, f"{sql}::VARCHAR", f"::{shown}"

    def cursor_ranges(self, found: Described, cursor: Cursor) -> Sequence[tuple[int, int]]:
        """Cut by a sample or by estimates, see :mod:`rowfall.sources.following`."""
        count = min(count_ranges(self._bytes(found)), UNINDEXED_RANGES)
        if count < 2 or self.query or not self._table:
            return [(0, cursor.end)]
        texts = self._sample(found, cursor.sql.text.format(x=cursor.key.sql))
        values = [None if text is None else cursor.key.number(text) for text in texts]
        return cut(values, count, cursor.end)

    # --- rows -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def read(self, split: Split) -> Iterator[Any]:
        columns = ", ".join(column.select for column in self.described.columns)
        query = self._rows_of(split, columns)
        # Closed, as an error's traceback would keep it, and with it the file.
        with self._file.asking() as cursor, cursor.sql(query).to_arrow_reader(ROWS) as reader:
            yield reader
