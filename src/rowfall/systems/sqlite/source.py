"""SQLite: ``file.db``, ``sqlite:///folder/file.db/table``, or ``--query``.

All ranges of a table are read over one connection in one transaction, so they are of one moment.
SQLite makes a line of TSV of each row; only floats and bytes come as values, as its own text of a
float has 15 digits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rowfall.core.errors import SourceError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding
from rowfall.core.open_file import OpenFile
from rowfall.core.sqltext import identifier, literal
from rowfall.core.tables import FoundTable
from rowfall.core.type_names import parse_type, text_columns
from rowfall.sources.cursor import CursorSql
from rowfall.sources.file_database import SCHEMA, FileDatabaseSource, TableInCatalogue, TablesInFile
from rowfall.sources.key_ranges import BLOCKS, Described, Key, KeyKind, SourceColumn
from rowfall.systems.sqlite.client import READER, rows
from rowfall.systems.sqlite.columns import (
    DeclaredColumn,
    Values,
    is_float,
    misfits,
    read_column,
    written_here,
)

_QUERY = "_rowfall_query"
"""Temporary view of the query: its columns then have the types of those that they come from."""
_ROWS = 1_000
"""Rows that are taken at a time: some 100 kB."""
_PIECE = 1 << 20
"""Bytes at which a piece ends sooner: rows may be as long as --max-record."""
# Rows whose values say what a column holds: the first ones, and some from all over the table.
_FIRST, _PLACES, _EACH = 1_000, 64, 32
_MOST_COUNTED = 100_000
"""Rows that are counted where nothing else says how many there are: a millisecond."""
_SHOWN = 60
# A moment as text, and literals of it, with all digits of a second: they are compared as texts.
_SIX_DIGITS = (
    "substr({0} || CASE WHEN instr({0}, '.') THEN '000000' ELSE '.000000' END, 1, 26)"
)  # fmt: skip
_ROWID = ("rowid", "_rowid_", "oid")


class SQLiteSource(FileDatabaseSource):
    """One table, view or query of a file."""

    _reader = READER
    _rowid = ""
    _grows = ""  # column whose values are never used again

    # --- catalogue --------------------------------------------------------------------------------

    @staticmethod
    def listed(file: OpenFile) -> Sequence[FoundTable]:
        with file.asking() as cursor:
            found = list_tables(cursor.connection)
        return [FoundTable("", name, kind) for name, (kind, _, _) in found.items()]

    def columns_of_query(self) -> tuple[SourceColumn, ...]:
        with self._file.asking() as cursor:
            ask = cursor.connection
            ask.execute(f"CREATE TEMP VIEW IF NOT EXISTS {_QUERY} AS {self.query}")
            self._table = self._relation = _QUERY
            return self._columns(ask, "query", self._sampled(""))

    def look_up(self, table: str) -> TableInCatalogue | None:
        with self._file.asking() as cursor:
            ask = cursor.connection
            tables = list_tables(ask)
            if table not in tables:
                return None
            self._relation = identifier(table)
            kind, without_rowid, made = tables[table]
            declared = rows(ask, f"PRAGMA main.table_xinfo({literal(table)})")
            names = {str(row[1]).lower() for row in declared}
            keys = [str(row[1]) for row in sorted(declared, key=lambda row: row[5]) if row[5]]
            of_key = {n: t for _, n, t, _, _, p, _ in declared if p and t.upper() == "INTEGER"}
            if kind == "table" and not without_rowid:
                self._rowid = next((name for name in _ROWID if name not in names), "")
                self.number = "rowid" if self._rowid else "row"
            alias = next(iter(of_key), "") if self._rowid and len(keys) == 1 else ""
            self._grows = alias if "AUTOINCREMENT" in made.upper() else ""
            columns = self._columns(ask, kind, self._sampled(self._rowid), alias, without_rowid)
            return TableInCatalogue(
                kind, made, columns, self._count(ask, kind), tuple(keys),
                [c.name for c in columns if c.type in ("Int64", "Nullable(Int64)")],
                alias or (keys[0] if len(keys) == 1 and without_rowid else ""),
            )  # fmt: skip

    def _columns(
        self, ask: Any, kind: str, some: str, alias: str = "", without_rowid: int = 0
    ) -> tuple[SourceColumn, ...]:
        """Return the columns of table, view or query.

        Args:
            kind: of it. ``some``: SQL of the rows whose values are looked at.
            alias: the column that is the number of the row.
        """
        of = literal(self._table)
        declared = [
            # A key may be NULL, but that of a table without numbers of rows.
            DeclaredColumn(
                name, type_.upper(), not (filled or name == alias or (key and without_rowid)),
                kind == "table",
            )
            for _, name, type_, filled, _, key, hidden in rows(
                ask, f"PRAGMA {'temp' if self.query else SCHEMA}.table_xinfo({of})"
            )
            if hidden != 1  # that of a virtual table, which SELECT * does not give either
        ]  # fmt: skip
        looks = ", ".join(
            f"typeof({own}), CASE typeof({own}) WHEN 'blob' THEN zeroblob(min(length({own}), 64)) "
            f"WHEN 'text' THEN substr({own}, 1, 64) ELSE {own} END"
            for own in (identifier(column.name) for column in declared)
        )
        sampled = rows(ask, f"SELECT {looks} FROM ({some})")
        values: list[Values] = [
            [(row[2 * n], row[2 * n + 1]) for row in sampled if row[2 * n] != "null"]
            for n in range(len(declared))
        ]
        texts = text_columns(self.options.type)
        return tuple(
            read_column(column, held, as_text=column.name in texts)
            for column, held in zip(declared, values, strict=True)
        )

    def _sampled(self, rowid: str) -> str:
        """Return SQL of rows from the beginning and, by their numbers, from all over the table."""
        own = self._relation
        first = f"SELECT * FROM {own} LIMIT {_FIRST}"
        if not rowid:
            return first
        low, step = f"(SELECT min({rowid}) FROM {own})", f"(SELECT max({rowid}) FROM {own}) / "
        places = " UNION ALL ".join(
            f"SELECT * FROM (SELECT * FROM {own} WHERE {rowid} >= max({low}, {step}{_PLACES} * {n})"
            f" ORDER BY {rowid} LIMIT {_EACH})"
            for n in range(1, _PLACES)
        )
        return f"SELECT * FROM ({first}) UNION ALL {places}"

    def _count(self, ask: Any, kind: str) -> int:
        """Return about how many rows a table has; 0 for a view, which may take long to count."""
        own = self._relation
        if self._rowid:
            ((low, high),) = rows(ask, f"SELECT min({self._rowid}), max({self._rowid}) FROM {own}")
            ((pages,),) = rows(ask, "PRAGMA page_count")
            ((size,),) = rows(ask, "PRAGMA page_size")
            # A row takes four bytes and more.
            return min(high - low + 1, pages * size // 4) if high is not None else 0
        some = f"SELECT count(*) FROM (SELECT 1 FROM {own} LIMIT {_MOST_COUNTED})"
        return int(rows(ask, some)[0][0]) if kind == "table" else 0

    def cut_by_key(self, found: Described, name: str, count: int) -> Described:
        own, table = identifier(name), self._relation
        ((low, high),) = self.ask(f"SELECT min({own}), max({own}) FROM {table}")
        key = Key(
            name, own, KeyKind.INTEGER, name == self._grows,
            nullable=next(c for c in found.columns if c.name == name).type != "Int64",
        )  # fmt: skip
        if high is None:  # rows of a key that was asked for, all of them without a value
            return replace(found, why="no row has a value of that key")
        if key.grows:
            seq = f"SELECT seq FROM sqlite_sequence WHERE name = {literal(self._table)}"
            last = self.ask(seq)
            following = max(int(last[0][0]) if last else 0, high) + 1
            found = replace(found, next_key=following)
        return self._cut_by(found, key, high, _places(low, high), count)

    def cut_by_place(self, found: Described, count: int) -> Described:
        """Cut by the numbers of rows, which VACUUM changes, and its counter."""
        if not self._rowid:
            return replace(found, why="it has no integer for its key")
        ((high,),) = self.ask(f"SELECT max({self._rowid}) FROM {self._relation}")
        ((state,),) = self.ask("PRAGMA main.schema_version")
        places = (high * n // count for n in range(1, count) if 0 < high < BLOCKS)
        return self._cut_by_number(found, self._rowid, int(state), places)

    # --- a column that is followed ----------------------------------------------------------------

    def ask(self, query: str) -> Sequence[Sequence[Any]]:
        with self._file.asking() as cursor:
            return rows(cursor.connection, query)

    def cursor_sql(self, column: SourceColumn) -> CursorSql:
        own, type_ = identifier(column.name), parse_type(column.type).base
        if type_ in ("Date32", "DateTime64"):  # by their texts, whatever SQLite keeps
            digits = _SIX_DIGITS if type_ == "DateTime64" else "{0}"
            moment = digits.format(f"nullif({column.select}, '\\N')")
            return CursorSql(moment, wrap=digits, values=True, indexed=False)
        leads, unique = False, False
        with self._file.asking() as cursor:
            ask = cursor.connection
            of = literal(self._table)
            for _, index, is_unique, _, partial in rows(ask, f"PRAGMA index_list({of})"):
                names = [row[2] for row in rows(ask, f"PRAGMA index_info({literal(index)})")]
                leads = leads or (names[:1] == [column.name] and not partial)
                unique = unique or (names == [column.name] and bool(is_unique) and not partial)
        own += " COLLATE BINARY" * (type_ == "String")  # texts are followed by their bytes
        return CursorSql(own, text="CAST({x} AS TEXT)", values=True, unique=unique, indexed=leads)

    def key_sql(self, column: SourceColumn) -> tuple[str, str, str]:
        own = identifier(column.name)
        return own, f"CAST({own} AS TEXT)", ""

    # --- rows -------------------------------------------------------------------------------------

    def numbers(self, split: Split, lines: Sequence[int]) -> list[int]:
        places = super().numbers(split, lines)
        if not self._rowid:
            return places
        wanted, found = set(places), {}
        with self._file.asking() as cursor:
            cursor.execute(self._select(split, self._rowid))
            for place, (rowid,) in enumerate(cursor, 1):
                if place in wanted:
                    found[place] = int(rowid)
                    if len(found) == len(wanted):
                        break
        return [found[place] for place in places]

    def encoding(self, listing: Listing) -> Encoding:
        """See :class:`rowfall.sources.base.Source`; where there are bytes, no text is checked."""
        return replace(super().encoding(listing), binary=bool(self.bytes_columns()))

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the rows of a range as TSV with a header.

        Raises:
            SourceError: they cannot be read, or a value is none of its column's type.
        """
        pieces, writers = _line(self.described.columns)
        query = self._select(split, ", ".join(pieces))
        with self._file.asking() as cursor:
            yield self.header()
            whole, lines, size = len(pieces) == 1 and writers[0] is _same, list[bytes](), 0
            for row in cursor.execute(query):
                try:
                    line = row[0] if whole else b"\t".join(
                        [write(v) for write, v in zip(writers, row, strict=True)]
                    )  # fmt: skip
                    size += len(line)
                except TypeError:
                    raise self._misfit(split) from None
                lines.append(line)
                if size > _PIECE or len(lines) == _ROWS:
                    yield b"\n".join(lines) + b"\n"
                    lines, size = [], 0
            if lines:
                yield b"\n".join(lines) + b"\n"

    def _select(self, split: Split, columns: str) -> str:
        return self._rows_of(split, columns, f" ORDER BY {self._rowid}" * bool(self._rowid))

    def _misfit(self, split: Split) -> SourceError:
        """Return the error about the first value of a range that is none of its column's type."""
        where, own = self.condition(split), self._relation
        keys = [self._rowid] if self._rowid else [*map(identifier, self.described.order_by)]
        place = " || ', ' || ".join(f"{literal(f'{k} ')} || quote({k})" for k in keys) or "'a row'"
        for column in self.described.columns:
            wrong, name = misfits(column), identifier(column.name)
            with self._file.asking() as cursor:
                found = rows(
                    cursor.connection,
                    f"SELECT {place}, typeof({name}), substr(quote({name}), 1, {_SHOWN}) "
                    f"FROM {own} WHERE ({wrong})" + (f" AND {where}" if where else "") + " LIMIT 1",
                )
            if found:
                ((at, kind, value),) = found
                cast = f"nullif({name}, '')" if value == "''" else f"CAST({name} AS TEXT)"
                casts = ", ".join(
                    f"{cast} AS {name}" if one is column else identifier(one.name)
                    for one in self.described.columns
                )
                of = f"({self.query})" if self.query else own
                table = "the query" if self.query else self._table
                address = replace(self.address, table="" if self.query else self._table)
                return SourceError(
                    f'{table}, {at}, column "{column.name}": {value} is of the type {kind}, and '
                    f"the column is read as {column.type} ({column.reason})",
                    hint="Correct the row, or have SQLite make "
                    f"{'NULL of such texts' if value == chr(39) * 2 else 'text of the column'}: "
                    + address.command(f"SELECT {casts} FROM {of}"),
                )
        return SourceError(f"cannot read {split.name}: a row has no text")


class SQLiteTables(TablesInFile):
    """The tables and views of one file."""

    _MOMENT = "all tables are of one moment: they are read in one transaction"
    _reader, _source = READER, SQLiteSource


def _places(low: int, high: int) -> Iterable[int]:
    """Return numbers from all over a range, as if rows were spread evenly over it."""
    return range(low, high + 1, max(1, (high - low) // 10_000))


# --- text of rows ---------------------------------------------------------------------------------


def _line(columns: Sequence[SourceColumn]) -> tuple[list[str], list[Callable[[Any], bytes]]]:
    """Return SQL of the pieces of a row, and what makes bytes of the value of each.

    Columns side by side that SQLite writes are one piece.
    """
    pieces: list[str] = []
    writers: list[Callable[[Any], bytes]] = []
    for column in columns:
        if written_here(column):
            pieces.append(identifier(column.name))
            number = _float if is_float(column) else _number
            number = partial(_number_or_word, number) if column.wire else number
            writers.append(_blob if column.bytes else number)
        elif writers and writers[-1] is _same:
            pieces[-1] += f" || char(9) || {column.select}"
        else:
            pieces.append(column.select)
            writers.append(_same)
    # As a text, also where it is one number alone.
    pieces = [f"'' || {p}" if w is _same else p for p, w in zip(pieces, writers, strict=True)]
    return pieces, writers


def _same(value: Any) -> bytes:
    if value is None:
        raise TypeError
    return value  # type: ignore[no-any-return] # texts come as bytes


def _number(value: Any) -> bytes:
    if value is None:
        return rb"\N"
    if isinstance(value, bytes):
        raise TypeError
    return repr(value).encode()


def _float(value: Any) -> bytes:
    if isinstance(value, int) and float(value) != value:
        raise TypeError  # a reader would round it
    return _number(value)


def _number_or_word(number: Callable[[Any], bytes], value: Any) -> bytes:
    if isinstance(value, bytes):
        with contextlib.suppress(ValueError):
            float(value or b"0")  # which a reader takes for NULL
            raise TypeError  # nan, or bytes
        return _escaped(value)
    return number(value)


def _blob(value: Any) -> bytes:
    if value is None:
        return rb"\N"
    if not isinstance(value, bytes):
        raise TypeError
    return _escaped(value)


def _escaped(value: bytes) -> bytes:
    for plain, escaped in ((b"\\", rb"\\"), (b"\t", rb"\t"), (b"\n", rb"\n"), (b"\r", rb"\r")):
        value = value.replace(plain, escaped)
    return value


# --- the catalogue --------------------------------------------------------------------------------


def list_tables(ask: Any) -> dict[str, tuple[str, int, str]]:
    """Return kind, whether rows have no numbers, and the statement that made it, by the name.

    Without tables of SQLite itself, and those that hold the parts of a virtual table.
    """
    return {
        str(name): (str(kind), int(without_rowid), str(made or ""))
        for name, kind, without_rowid, made in rows(
            ask,
            "SELECT t.name, CASE t.type WHEN 'virtual' THEN 'virtual table' ELSE t.type END, t.wr, "
            "s.sql FROM pragma_table_list AS t JOIN sqlite_schema AS s ON s.name = t.name "
            "WHERE t.schema = 'main' AND s.type IN ('table', 'view') AND t.type <> 'shadow' "
            "AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY t.name",
        )
    }
