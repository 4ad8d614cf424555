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
from rowfall.core.open_file import OpenFile
from rowfall.core.sqltext import identifier, literal, qualified
from rowfall.core.tables import TABLE, FoundTable
from rowfall.core.type_names import parse_type
from rowfall.sources.arrow_database import ArrowDatabaseSource
from rowfall.sources.cursor import CursorSql
from rowfall.sources.databases import no_type
from rowfall.sources.file_database import SCHEMA, FileDatabaseSource, TableInCatalogue, TablesInFile
from rowfall.sources.key_ranges import Described, Key, KeyKind, SourceColumn
from rowfall.sources.limited_rows import limited_rows
from rowfall.systems.duckdb import client
from rowfall.systems.duckdb.client import (
    ABOUT,
    BATCH_ROWS,
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
    _computed = True  # by functions, not read from the file

    def columns_of_query(self) -> tuple[SourceColumn, ...]:
        self._relation = f"({self.query}\n) AS q"
        return self._columns({})

    def look_up(self, table: str) -> TableInCatalogue | None:
        rows = self._ask("column_name, column_default, is_nullable", "columns")
        if not rows:
            return None
        self._relation = qualified(self.address.schema, table)
        columns = self._columns({name: bool(null) for name, _, null in rows})
        made = self._ask("sql, estimated_size", "tables")
        if not made:
            return TableInCatalogue("view", "", columns)
        self._computed = bool(self._ask("1", "columns", "AND is_generated"))
        keys = self._ask("constraint_column_names", "constraints", _PRIMARY)
        order = tuple(keys[0][0]) if keys else ()
        self._numbered = {name for name, default, _ in rows if str(default).startswith("nextval(")}
        hidden = "rowid" in (column.name.lower() for column in columns)
        return TableInCatalogue(
            "table", str(made[0][0]), columns, int(made[0][1]), order,
            [c.name for c in columns if c.reason.removesuffix(_OF).lower() in KEYS],
            order[0] if len(order) == 1 else "", "it has a column rowid" if hidden else "",
        )  # fmt: skip

    def _ask(self, what: str, of: str, more: str = "") -> list[Any]:
        """Return rows of the catalogue about the table."""
        asked = ABOUT.format(what, of, "table", more)
        return self._file.rows(asked, self.address.schema, self._table)

    @staticmethod
    def listed(file: OpenFile) -> Sequence[FoundTable]:
        return [
            FoundTable(schema, name, kind, rows=rows, visible=schema == SCHEMA)
            for kind, query in ((TABLE, LIST_TABLES), ("view", LIST_VIEWS))
            for schema, name, rows, _ in file.rows(query)
        ]

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

    def cut_by_key(self, found: Described, name: str, count: int) -> Described:
        sql = identifier(name)
        ((high,),) = self.ask(f"SELECT max({sql}) FROM {self._relation}")
        grows, nullable = name in self._numbered, name not in found.order_by
        key = Key(name, sql, KeyKind.INTEGER, grows, nullable=nullable)
        values = self.spread(found, sql) if count > 1 else []
        if any(a > b for a, b in itertools.pairwise(v for v in values if v is not None)):
            count = min(count, _SCATTERED)
        return self._cut_by(found, key, high, map(key.number, values), count)

    def spread(self, found: Described, text: str) -> list[Any]:
        """Return values of an SQL text from all over the table, in its order."""
        where = f"rowid % {max(1, found.rows // _SAMPLE)} = 0"
        asked = f"SELECT {text} FROM {self._relation} WHERE {where} ORDER BY rowid"
        return [value for (value,) in self.ask(asked)]

    def cut_by_place(self, found: Described, count: int) -> Described:
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

    # --- rows -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def read(self, split: Split) -> Iterator[Any]:
        columns = ", ".join(column.select for column in self.described.columns)
        query = self._rows_of(split, columns)
        if self._computed:
            asked = {"path": self.address.database, "rows": query}
            with limited_rows(client.__name__, asked, self.text, self.options) as rows:
                yield rows
            return
        # Closed, as an error's traceback would keep it, and with it the file.
        with self._file.asking() as cursor, cursor.sql(query).to_arrow_reader(BATCH_ROWS) as reader:
            yield reader


class DuckDBTables(TablesInFile):
    """The tables and views of one file; nobody can write into it while it is open for reading."""

    _MOMENT = "all tables are of one moment: nobody can write into the file while it is read"
    _reader, _source = READER, DuckDBSource
