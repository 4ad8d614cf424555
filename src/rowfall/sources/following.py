"""Have a table or query of a database followed by a column: the parts of ``--cursor`` that ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from rowfall.core import uri
from rowfall.core.errors import UsageError
from rowfall.core.model import Schema
from rowfall.core.options import Options
from rowfall.core.type_names import parse_type
from rowfall.sources.cursor import (
    Cursor,
    CursorKeyColumn,
    CursorSql,
    check_key_type,
    find_column,
    key_names,
    no_key,
)
from rowfall.sources.key_ranges import Described, SourceColumn


class FollowedDatabase(Protocol):
    """A database that says what is needed of a table or query that is followed by a column.

    Attributes:
        options: of the load. ``query``: "" for a table.
    """

    options: Options
    query: str
    cursor: Cursor | None

    @property
    def relation_text(self) -> str:
        """Return what rows are read from, as SQL."""

    @property
    def uri(self) -> str:
        """Return the name by which splits are known."""

    @property
    def described(self) -> Described:
        """Return the table or query as the catalogue describes it."""

    @property
    def named_key(self) -> str:
        """Return the column that ``key=`` names; "" for none."""

    def ask(self, query: str) -> Iterable[Sequence[Any]]:
        """Return the rows of a query, in the snapshot of the load where the database has one.

        Raises:
            SourceError: it fails.
        """

    def cursor_sql(self, column: SourceColumn) -> CursorSql:
        """Return what the dialect writes for a column that is followed."""

    def key_sql(self, column: SourceColumn) -> tuple[str, str, str]:
        """Return a column of a key: quoted, SQL of its text, and a cast behind its literals."""

    def cursor_ranges(self, found: Described, cursor: Cursor) -> Sequence[tuple[int, int]]:
        """Cut the values up to the highest one into ranges; one where nothing is known of them."""


def follow(source: FollowedDatabase, found: Described) -> tuple[Cursor, Described]:
    """Return the column that a source is followed by, and its description in ranges of that.

    Raises:
        UsageError: there is no such column, its values do not grow, or nothing tells rows apart.
        SourceError: its highest value cannot be followed.
    """
    options, at = source.options, found.name or "the query"
    if source.named_key:
        raise UsageError(
            f"--cursor and key={source.named_key} exclude each other",
            hint="The column of --cursor is the one that ranges are cut by; leave key= out.",
        )
    column = find_column(found.columns, options.cursor or "", "--cursor", at)
    sql = source.cursor_sql(column)
    if found.order_by == (column.name,):
        sql = replace(sql, unique=True)
    cursor = Cursor(column, sql, options, at)
    cursor.keys = _keys(source, found, cursor)
    if not cursor.keys and not cursor.sql.unique:
        raise no_key(cursor, at)
    if not cursor.keys and cursor.is_coarse:
        cursor.keys = (_key_column(source, column, at),)
    # In place of max(), which PostgreSQL has for UUIDs since 18. Named, as its text would else have
    # the column's name, and rows were in the order of texts.
    rows = source.ask(
        f"SELECT {sql.text.format(x=sql.sql)} AS rowfall_highest FROM {source.relation_text} "
        f"WHERE {sql.sql} IS NOT NULL ORDER BY {sql.sql} DESC LIMIT 1"
    )
    cursor.take(next((value for (value,) in rows), None))
    key = cursor.key
    if cursor.highest is None:
        return cursor, replace(found, key=key, ranges=(), why="by --cursor")
    ranges = tuple(source.cursor_ranges(found, cursor))
    return cursor, replace(found, key=key, ranges=ranges, why=_why(cursor))


def _why(cursor: Cursor) -> str:
    """Return what a plan says of a column that is followed, behind "ranges of ...": why."""
    words = ["by --cursor"]
    if not cursor.sql.indexed:
        words.append("no index begins with it, so each run reads the whole table")
    if parse_type(cursor.column.type).nullable:
        words.append("rows without a value are loaded by the first run only")
    if cursor.ahead():
        words.append("its highest value lies in the future: lower ones are not seen until then")
    return "; ".join(words)


def _keys(
    source: FollowedDatabase, found: Described, cursor: Cursor
) -> tuple[CursorKeyColumn, ...]:
    """Return the columns that tell rows apart besides the cursor; () where it does that itself."""
    at, options = found.name or "the query", source.options
    option = "--upsert" if options.upsert else "--key"
    columns = []
    for name in key_names(options, found.order_by):
        if name == cursor.name and not cursor.is_coarse:
            continue
        column = find_column(found.columns, name, option, at)
        columns.append(_key_column(source, column, at))
    return tuple(columns)


def _key_column(source: FollowedDatabase, column: SourceColumn, at: str) -> CursorKeyColumn:
    quoted, text, cast = source.key_sql(column)
    return CursorKeyColumn(column.name, column.type, quoted, text, check_key_type(column, at), cast)


def other_streams(source: FollowedDatabase) -> Mapping[str, tuple[str, str]]:
    """Return how else the rows of a source may have been loaded: words -> URI, version."""
    found = source.described
    here, own = source.uri, "cursor" if source.cursor is not None else "by"
    name = found.key.name if found.key is not None else ""
    base = here.removesuffix(f"{own}={uri.encode(name)}").rstrip("?&") if name else here
    mark = "&" if source.query else "?"
    version = found.version.partition(".")[0]
    streams = {
        f"--cursor {column.name}": (f"{base}{mark}cursor={uri.encode(column.name)}", version)
        for column in found.columns
    }
    if source.cursor is not None:
        streams["no --cursor"] = (base, version)
        for column in found.columns:
            words = f"no --cursor, in ranges of {column.name}"
            streams[words] = (f"{base}{mark}by={uri.encode(column.name)}", version)
    return {words: stream for words, stream in streams.items() if stream[0] != here}


def told(schema: Schema | None, text: str) -> Schema | None:
    """Return a schema whose plan has one line more about what is read."""
    if schema is None:
        return None
    return replace(schema, notes=(*schema.notes, ("read", text)))
