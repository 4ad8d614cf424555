"""PostgreSQL: ``postgresql://user@host:port/database/table``, or a database and ``--query``.

Rows come by ``COPY (SELECT ...) TO STDOUT`` as text, over as many connections as the load reads
ranges at a time, all in one snapshot that the first connection has exported and keeps open. The
SELECT writes what a reader of TSV takes (docs/guides/databases.md has the types); no row is touched
here.

A range that has to be read again after the server restarted is read in a new snapshot. See
:mod:`rowfall.sources.databases` for what makes that safe.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import redact
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.units import parse_duration
from rowfall.sources.databases import (
    WHOLE,
    Database,
    Described,
    Key,
    KeyKind,
    SourceColumn,
    count_ranges,
    cut,
    digest,
    parse,
    without,
)

if TYPE_CHECKING:
    from psycopg import Connection

_SETTINGS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")
# What the texts of values depend on, whatever the role has set; and what would end or slow a
# connection that reads for hours: compiling takes longer than it saves where rows are written.
_SESSION = (
    "SET client_encoding = 'UTF8'", "SET TimeZone = 'UTC'", "SET DateStyle = 'ISO'",
    "SET IntervalStyle = 'postgres'", "SET bytea_output = 'hex'", "SET extra_float_digits = 1",
    "SET statement_timeout = 0", "SET idle_in_transaction_session_timeout = 0", "SET jit = off",
)  # fmt: skip
# A server that does not answer is told from one that is far away within this.
_CONNECT_SECONDS = 10
# Rows come one by one from the driver; they go on in pieces of this, a quarter of a pipe.
_PIECE = 256 << 10
# Pages of a sample of the key: some 20,000 rows, read in milliseconds.
_SAMPLE_PAGES, _SAMPLE_ROWS = 256, 100_000
_PAGE = 8192
# Where rows do not lie in the order of their key, each range reads pages from all over the table.
_ORDERED, _SCATTERED_RANGES = 0.5, 8
# Transactions that write while a load begins end within seconds, or are forgotten ones.
_WRITERS_SECONDS = 5.0
# The first version that reads a range of ctid without reading the whole table.
_TID_RANGES = 140_000
_BLOCKS = (1 << 32) - 1  # of a table at most
# Codes of errors behind which another try may succeed: connections, shutdown and start of the
# server, too many clients, conflicts with recovery, resources.
_TRANSIENT = ("08", "57P", "53", "40")
_SNAPSHOT_GONE = frozenset({"22023", "42704", "55000"})
_RETRY_SECONDS = 0.5


# --- types ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of the catalogue, domains resolved.

    Attributes:
        shown: as people write it: ``numeric(10,2)``.
        name: in pg_type; ``kind`` its typtype: b, e (enum), c, r, ...
        modifier: atttypmod; -1 for none.
        element: of an array.
    """

    shown: str
    name: str
    kind: str = "b"
    modifier: int = -1
    element: PgType | None = None


_PLAIN = {
    "bool": ("Bool", "{x}::int", 1.0), "int2": ("Int16", "{x}", 2.0), "int4": ("Int32", "{x}", 4.0),
    "int8": ("Int64", "{x}", 8.0), "oid": ("UInt32", "{x}", 4.0),
    "float4": ("Float32", "{x}", 4.0), "float8": ("Float64", "{x}", 8.0),
    "date": ("Date32", "{x}", 4.0), "uuid": ("UUID", "{x}", 16.0),
}  # fmt: skip
_TEXT = frozenset((
    "text", "varchar", "bpchar", "char", "name", "citext", "json", "jsonb", "xml", "inet", "cidr",
    "macaddr", "macaddr8", "time", "timetz", "interval", "bit", "varbit",
))  # fmt: skip
_TEXT_BYTES = 24.0
_MOST_DIGITS = 76


def map_type(type_: PgType) -> tuple[str, str, float, str] | None:
    """Return type of ClickHouse, SQL of its text over ``{x}``, bytes in memory and a remark.

    None for a type that has to be cast.
    """
    name = type_.name
    if type_.element is not None:
        return _map_array(type_.element)
    if name in _PLAIN:
        return *_PLAIN[name], ""
    if type_.kind == "e":
        return "LowCardinality(String)", "{x}", 2.0, "an enum"
    if name == "numeric":
        return _map_numeric(type_.modifier)
    if name in ("timestamp", "timestamptz"):
        digits = 6 if type_.modifier < 0 else type_.modifier
        if name == "timestamp":
            return f"DateTime64({digits}, 'UTC')", "{x}", 8.0, "shown as it was written"
        return f"DateTime64({digits}, 'UTC')", "{x}::timestamp", 8.0, "the same moment, in UTC"
    if name == "bytea":
        return "String", "encode({x}, 'hex')", 2 * _TEXT_BYTES, "as hex digits: unhex() gives bytes"
    if name in _TEXT:
        return "String", "{x}", _TEXT_BYTES, "as text" if name not in ("text", "varchar") else ""
    return None


def _map_numeric(modifier: int) -> tuple[str, str, float, str]:
    if modifier < 0:
        return "String", "{x}", 16.0, "of any precision: as text; --type NAME='Decimal(38, 10)'"
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    scale = scale - 0x800 if scale & 0x400 else scale  # negative since version 15
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    if precision > _MOST_DIGITS:
        return "String", "{x}", 16.0, f"more than {_MOST_DIGITS} digits: as text"
    return f"Decimal({precision}, {scale})", "{x}", 4.0 if precision < 10 else 8.0, "exact"


def _map_array(element: PgType) -> tuple[str, str, float, str] | None:
    inner = map_type(element)
    if inner is None:
        return None
    type_, select, width, _ = inner
    type_ = "String" if type_.startswith("LowCardinality") else type_
    value = select.replace("{x}", "e")
    if not type_.startswith(("Int", "UInt", "Float", "Decimal", "Bool")):
        # Quotes are doubled; COPY itself escapes what else has a meaning in TSV.
        value = f"'''' || replace({value}::text, '''', '''''') || ''''"
    # The braces of several dimensions are no array of one, which the reader says with the row.
    sql = (
        "CASE WHEN array_ndims({x}) > 1 THEN {x}::text WHEN {x} IS NOT NULL THEN '[' || coalesce("
        f"(SELECT string_agg(coalesce(({value})::text, 'NULL'), ',' ORDER BY n) "
        "FROM unnest({x}) WITH ORDINALITY AS u(e, n)), '') || ']' END"
    )
    return f"Array(Nullable({type_}))", sql, 16 + 4 * width, "of one dimension, and not NULL"


def _nullable(type_: str) -> str:
    if type_.startswith("Array("):
        return type_
    if type_.startswith("LowCardinality("):
        return "LowCardinality(Nullable(String))"
    return f"Nullable({type_})"


_KEYS = {
    "int2": KeyKind.INTEGER, "int4": KeyKind.INTEGER, "int8": KeyKind.INTEGER,
    "date": KeyKind.DAY, "timestamp": KeyKind.MOMENT, "timestamptz": KeyKind.MOMENT,
    "uuid": KeyKind.UUID,
}  # fmt: skip


def identifier(name: str) -> str:
    """Return a name as SQL of PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


# --- the source -----------------------------------------------------------------------------------


class Postgresql(Database):
    """One table, view or query of a PostgreSQL database."""

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        address = parse(
            texts, options, port=5432, variable="PGPASSWORD", settings=_SETTINGS
        )  # fmt: skip
        super().__init__(replace(address, scheme="postgresql"), options)
        self._patience = parse_duration(options.patience)
        self._guard = threading.Lock()
        self._first: Connection[Any] | None = None
        self._snapshot = ""
        self._idle: list[tuple[str, Connection[Any]]] = []
        self._types: dict[int, PgType] = {}

    def close(self) -> None:
        """End the transaction of the snapshot, and the connections that nobody reads from.

        The others belong to threads inside libpq, and end with what reads their pipes.
        """
        super().close()
        with self._guard:
            for connection in (self._first, *(one for _, one in self._idle)):
                if connection is not None:
                    connection.close()
            self._idle.clear()

    # --- the catalogue ----------------------------------------------------------------------------

    def describe(self) -> Described:
        connection = self._first = self._connect()
        with self._said():
            if self.query:
                return self._describe_query(connection)
            table = self._table(connection)
            notes = self._settle_writers(connection, table) if table.grows else ()
            self._begin(connection)
            found = self._describe_table(connection, table)
            return replace(found, notes=notes)

    def _table(self, connection: Connection[Any]) -> _Table:
        """Find the table, and what its key is.

        Raises:
            SourceError: there is none, or it may not be read.
        """
        at = self.address
        wanted = ".".join(identifier(part) for part in (at.schema, at.table) if part)
        row = connection.execute(
            "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relfilenode, c.relhassubclass, "
            "greatest(c.reltuples, 0), has_table_privilege(c.oid, 'SELECT') "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            [wanted],
        ).fetchone()
        if row is None:
            raise self._no_table(connection)
        oid, schema, name, kind, filenode, parent, rows, allowed = row
        if not allowed:
            self._check_columns(connection, oid, f"{schema}.{name}")
        sizes = connection.execute(
            "SELECT sum(pg_relation_size(p.relid)), sum(greatest(c.reltuples, 0)) "
            "FROM pg_partition_tree(%s) p JOIN pg_class c ON c.oid = p.relid WHERE p.isleaf",
            [oid],
        ).fetchone() if kind == "p" else connection.execute(
            "SELECT pg_relation_size(%s), %s::float8", [oid, rows]
        ).fetchone()  # fmt: skip
        size, rows = sizes or (0, 0)
        keys = connection.execute(
            "SELECT a.attname, t.typname, a.attidentity <> '' OR coalesce("
            "pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false) "
            "FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(attnum, n) "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
            "JOIN pg_type t ON t.oid = CASE WHEN (SELECT typtype FROM pg_type WHERE oid = "
            "a.atttypid) = 'd' THEN (SELECT typbasetype FROM pg_type WHERE oid = a.atttypid) "
            "ELSE a.atttypid END "
            "LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
            "WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.n",
            [oid],
        ).fetchall()
        return _Table(
            oid, f"{schema}.{name}", f"{identifier(schema)}.{identifier(name)}", kind, filenode,
            bool(parent), int(size or 0), int(rows or 0),
            tuple((str(n), str(t), bool(g)) for n, t, g in keys), at.key,
        )  # fmt: skip

    def _no_table(self, connection: Connection[Any]) -> SourceError:
        at = self.address
        rows = connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = "
            "c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN "
            "('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1, 2 LIMIT 1000"
        ).fetchall()
        names = [name if schema == "public" else f"{schema}.{name}" for schema, name in rows]
        wanted = ".".join(filter(None, (at.schema, at.table)))
        some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return SourceError(
            f"{at.text}: the database {at.database} has no table {wanted}",
            hint=did_you_mean(wanted, [*names, *(n for _, n in rows)])
            + (f"Its tables: {some}." if names else "It has no tables that this user may see."),
        )

    def _check_columns(self, connection: Connection[Any], oid: int, name: str) -> None:
        """Check that every column may be read where the table as a whole may not.

        Raises:
            SourceError: some may not.
        """
        rows = connection.execute(
            "SELECT attname, has_column_privilege(attrelid, attnum, 'SELECT'), current_user "
            "FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
            [oid],
        ).fetchall()
        refused = [column for column, allowed, _ in rows if not allowed]
        if refused:
            whole = len(refused) == len(rows)
            what = name if whole else f"the columns {', '.join(refused[:10])} of {name}"
            right = "SELECT" if whole else f"SELECT ({', '.join(refused[:10])})"
            raise SourceError(
                f"{self.text}: the user {rows[0][2]} may not read {what}",
                hint=f"Let its owner run: GRANT {right} ON {name} TO {rows[0][2]};"
                + ("" if whole else " Or read the others with --query."),
            )

    def _settle_writers(self, connection: Connection[Any], table: _Table) -> tuple[str, ...]:
        """Take the highest key, and wait for the transactions that may still add lower ones.

        A sequence gives its numbers before rows are committed: who commits after this snapshot may
        have a lower one than what is seen now. Whoever has one holds a lock on the table.
        """
        key = identifier(table.keys[0][0])
        row = connection.execute(f"SELECT max({key}) FROM {table.sql}").fetchone()
        table.highest = row[0] if row else None
        writers = (
            "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND relation = %s "
            "AND mode = 'RowExclusiveLock' AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        waits = {row[0] for row in connection.execute(writers, [table.oid])}
        deadline = time.monotonic() + _WRITERS_SECONDS
        while waits and time.monotonic() < deadline:
            time.sleep(0.05)
            waits &= {row[0] for row in connection.execute(writers, [table.oid])}
        if not waits:
            return ()
        return (
            f"{len(waits)} transaction(s) have written into {table.name} and are still open: rows "
            f"that they commit later with a {table.keys[0][0]} up to {table.highest} are not "
            "loaded, now or later",
        )

    def _describe_table(self, connection: Connection[Any], table: _Table) -> Described:
        rows = connection.execute(
            "SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, s.avg_width, s.correlation "
            "FROM pg_attribute a LEFT JOIN pg_stats s ON s.schemaname || '.' || s.tablename = %s "
            "AND s.attname = a.attname AND NOT s.inherited WHERE a.attrelid = %s "
            "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [table.name, table.oid],
        ).fetchall()
        if not rows:
            raise SourceError(f"{self.text}: {table.name} has no columns")
        columns = [
            self._column(connection, str(name), oid, modifier, not filled, width)
            for name, oid, modifier, filled, width, _ in rows
        ]
        self._check_types(columns, table.sql)
        found = [column for column in columns if isinstance(column, SourceColumn)]
        correlation = {str(row[0]): row[5] for row in rows}
        key, why = self._key(connection, table)
        width = sum(column.bytes_each for column in found)
        rows_there = table.rows or int(table.size / width)
        if table.kind in ("v", "f"):
            rows_there = _estimate(connection, table.sql)
        described = Described(
            table.name, str(table.oid), tuple(found), rows_there, key, why,
            order_by=tuple(name for name, _, _ in table.keys),
        )  # fmt: skip
        if key is None:
            return described
        if key.kind is KeyKind.BLOCK:
            described = replace(described, version=f"{table.oid}.{table.filenode}")
        order = correlation.get(key.name)
        ordered = key.kind is KeyKind.BLOCK or order is None or abs(order) >= _ORDERED
        stored = table.kind in ("r", "m", "p")
        count = count_ranges(table.size) if stored else LEAST_OF_QUERY
        count = count if ordered else min(count, _SCATTERED_RANGES)
        return replace(described, ranges=self._ranges(connection, table, key, count))

    def _key(self, connection: Connection[Any], table: _Table) -> tuple[Key | None, str]:
        """Choose what a table is cut by; also say why."""
        if table.key:
            return self._given_key(connection, table), "as asked for"
        if table.keys and table.keys[0][1] in _KEYS:
            name, type_, _ = table.keys[0]
            return Key(name, identifier(name), _KEYS[type_], table.grows), "its primary key"
        if table.kind not in ("r", "m") or table.parent:
            what = {"v": "a view", "p": "partitioned", "f": "a foreign table"}.get(
                table.kind, "a parent of others"
            )
            return None, f"{table.name} is {what} without a key that can be cut"
        if connection.info.server_version < _TID_RANGES:
            return None, f"{table.name} has no key that can be cut, and the server is older than 14"
        row = connection.execute(
            "SELECT n_tup_upd, n_tup_del FROM pg_stat_all_tables WHERE relid = %s", [table.oid]
        ).fetchone()
        # Rows that are updated move to other blocks; see listing_after.
        low = (zlib.crc32(repr(row).encode()) & 0x3FFFFFFF) << 32
        key = Key("ctid", "ctid", KeyKind.BLOCK, low=low, end=low + _BLOCKS)
        return key, "no key that can be cut"

    def _given_key(self, connection: Connection[Any], table: _Table) -> Key:
        rows = connection.execute(
            "SELECT a.attname, t.typname, a.attnotnull FROM pg_attribute a JOIN pg_type t ON t.oid "
            "= a.atttypid WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped",
            [table.oid],
        ).fetchall()
        types = {str(name): (str(type_), bool(filled)) for name, type_, filled in rows}
        type_, filled = types.get(table.key, ("", True))
        return self._checked_key(table.key, type_, list(types), nullable=not filled)

    def _checked_key(self, name: str, type_: str, names: list[str], *, nullable: bool) -> Key:
        if not type_:
            raise UsageError(
                f"{self.text}: there is no column {name} to cut by",
                hint=f"{did_you_mean(name, names)}Columns: {', '.join(names[:20])}.",
            )
        if type_ not in _KEYS:
            raise UsageError(
                f"{self.text}: {name} is a {type_}, which cannot be cut into ranges",
                hint="Take an integer, a date, a timestamp or a uuid, or leave key= out.",
            )
        return Key(name, identifier(name), _KEYS[type_], nullable=nullable)

    def _ranges(
        self, connection: Connection[Any], table: _Table, key: Key, count: int
    ) -> tuple[tuple[int, int], ...]:
        if key.kind is KeyKind.BLOCK:
            pages = -(-table.size // _PAGE)
            places = [key.low + pages * n // count for n in range(1, count)]
            bounds = sorted({key.low, *(p for p in places if p > key.low), key.end})
            return tuple(itertools.pairwise(bounds))
        end = key.end
        if key.grows:
            if table.highest is None:
                return ()  # what comes has any number
            # A negative one tells nothing about those that follow.
            end = table.highest + 1 if 0 < table.highest < end else end
        values: list[int | None] = []
        if count > 1:
            pages = max(1, table.size // _PAGE)
            percent = min(100.0, 100.0 * _SAMPLE_PAGES / pages)
            sample = f"{table.sql} TABLESAMPLE SYSTEM ({percent:.6f})"
            if table.kind not in ("r", "m", "p"):
                sample = f"{table.sql} WHERE random() < 0.01"
            values = self._values(connection, key, sample)
        return tuple(cut(values, count, end))

    def _values(self, connection: Connection[Any], key: Key, rows: str) -> list[int | None]:
        """Return the numbers of a sample of the key."""
        moment = key.kind in (KeyKind.DAY, KeyKind.MOMENT)
        value = f"{key.sql}::timestamp::text" if moment else f"{key.sql}::text"
        found = connection.execute(f"SELECT {value} FROM {rows} LIMIT {_SAMPLE_ROWS}").fetchall()
        return [None if text is None else key.number(text) for (text,) in found]

    def _describe_query(self, connection: Connection[Any]) -> Described:
        inner = f"({self.query}\n) AS q"
        self._begin(connection)
        cursor = connection.execute(f"SELECT * FROM {inner} LIMIT 0")
        described = cursor.description or ()
        names = [str(column.name) for column in described]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(
                f"--query gives the column {twice[0]} twice", hint="Name each with AS."
            )
        result = cursor.pgresult
        modifiers = [result.fmod(n) if result is not None else -1 for n in range(len(names))]
        columns = [
            self._column(connection, name, column.type_code, modifier, True, None)
            for name, column, modifier in zip(names, described, modifiers, strict=True)
        ]
        self._check_types(columns, inner)
        found = tuple(column for column in columns if isinstance(column, SourceColumn))
        why = "a query"
        key: Key | None = None
        ranges: tuple[tuple[int, int], ...] = WHOLE
        if self.address.key:
            codes = {str(c.name): int(c.type_code) for c in described}
            oid = codes.get(self.address.key)
            type_ = self._type(connection, oid, -1).name if oid else ""
            key = self._checked_key(self.address.key, type_, names, nullable=True)
            values = self._values(connection, key, f"{inner} WHERE random() < 0.01")
            ranges = tuple(cut(values, LEAST_OF_QUERY, key.end))
        rows = _estimate(connection, inner)
        return Described("", digest(self.query), found, rows, key, why, ranges)

    def _column(
        self, connection: Connection[Any], name: str, oid: int, modifier: int, nullable: bool,
        width: int | None,
    ) -> SourceColumn | tuple[str, str]:  # fmt: skip
        """Return a column; (name, type) where its type has to be cast."""
        type_ = self._type(connection, oid, modifier)
        mapped = map_type(type_)
        if mapped is None:
            return name, type_.shown
        target, select, bytes_each, remark = mapped
        sized = width if width is not None and target in ("String", "Nullable(String)") else None
        return SourceColumn(
            name, _nullable(target) if nullable else target,
            f"{type_.shown} of the database" + (f", {remark}" if remark else ""),
            select.replace("{x}", identifier(name)), float(sized or bytes_each) + nullable,
        )  # fmt: skip

    def _check_types(
        self, columns: Sequence[SourceColumn | tuple[str, str]], relation: str
    ) -> None:
        """Check that every type is known.

        Raises:
            SourceError: some are not; it names them, and a query that casts them.
        """
        bad = [column for column in columns if not isinstance(column, SourceColumn)]
        if not bad:
            return
        listed = ", ".join(
            column.name if isinstance(column, SourceColumn) else f"{column[0]}::text AS {column[0]}"
            for column in columns
        )
        what = ", ".join(f"{name} {type_}" for name, type_ in bad)
        target = relation if not self.query else "(...) AS q"
        raise SourceError(
            f"{self.text}: no column of ClickHouse is like {what}",
            hint=f'Cast it: --query "SELECT {listed} FROM {target.replace(chr(34), "")}".',
        )

    def _type(self, connection: Connection[Any], oid: int, modifier: int) -> PgType:
        """Return a type by its number, domains resolved."""
        row = connection.execute(
            "SELECT format_type(oid, %s), typname, typtype, typbasetype, typtypmod, typelem, "
            "typcategory FROM pg_type WHERE oid = %s",
            [modifier, oid],
        ).fetchone()
        if row is None:
            return PgType(f"type {oid}", "")
        shown, name, kind, base, base_modifier, element, category = row
        if kind == "d":
            inner = self._type(connection, base, base_modifier)
            return replace(inner, shown=f"{shown} ({inner.shown})")
        if category == "A" and element:
            return PgType(shown, name, element=self._type(connection, element, modifier))
        return PgType(shown, name, kind, modifier)

    # --- what has landed --------------------------------------------------------------------------

    def listing_after(self, landed: Mapping[str, Sequence[tuple[int, int]]]) -> Listing:
        """Return what of the ranges has not landed.

        Raises:
            SourceError: rows of a table without a key may have moved since some of them landed.
        """
        found = self.described
        key, there = found.key, landed.get(self.uri, ())
        if key is None or key.kind is not KeyKind.BLOCK or not there:
            return super().listing_after(landed)
        lows = {start >> 32 << 32 for start, _ in there}
        for low in lows:
            if not without([(low, low + _BLOCKS)], there):
                return Listing(continued=True)  # all of it, before it was changed
        if lows != {key.low}:
            raise SourceError(
                f"{self.text}: rows of {found.name} were updated or deleted after a part of it had "
                "been loaded, and it has no key by which rows are known again",
                hint="Load it anew with --replace, or into another --table.",
            )
        return super().listing_after(landed)

    # --- rows -------------------------------------------------------------------------------------

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the rows of a range as TSV with a header, in the snapshot of the load.

        Raises:
            SourceError: it cannot be read; transient where the connection was lost.
        """
        described = self.described
        columns = ", ".join(
            c.select if c.select == identifier(c.name) else f"{c.select} AS {identifier(c.name)}"
            for c in described.columns
        )
        source = f"({self.query}\n) AS q" if self.query else _quoted(described.name)
        where = self.condition(split)
        text = f"SELECT {columns} FROM {source}" + (f" WHERE {where}" if where else "")
        with self._said(split.name):
            snapshot, connection = self._reader()
            done = False
            try:
                yield self.header()
                yield from _copy(connection, text)
                done = True
            finally:
                if done:
                    with self._guard:
                        self._idle.append((snapshot, connection))
                else:
                    connection.close()

    def _reader(self) -> tuple[str, Connection[Any]]:
        """Return a connection that reads in the snapshot of the load, and the snapshot."""
        import psycopg

        for _ in range(3):  # a snapshot may end between two steps, and hardly twice
            snapshot = self._exported()
            with self._guard:
                idle = [one for one in self._idle if one[0] == snapshot]
                if idle:
                    self._idle.remove(idle[0])
                    return idle[0]
            connection = self._connect(self._patience)
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            except psycopg.Error as error:
                connection.close()
                if (error.sqlstate or "") not in _SNAPSHOT_GONE:
                    raise
                with self._guard:
                    if self._snapshot == snapshot and self._first is not None:
                        self._first.close()
                continue
            return snapshot, connection
        raise SourceError(
            f"{self.text}: the snapshot of the load ends again and again", transient=True
        )

    def _exported(self) -> str:
        """Return the snapshot of the load; a new one where its connection was lost."""
        with self._guard:
            if self._first is None or self._first.closed or self._first.broken:
                for _, connection in self._idle:
                    connection.close()
                self._idle.clear()
                self._begin(self._connect(self._patience))
            return self._snapshot

    def _begin(self, connection: Connection[Any]) -> None:
        """Export a snapshot, and keep it as long as the source is there."""
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        self._snapshot = str(row[0]) if row else ""
        self._first = connection

    def _connect(self, patience: float = 0.0) -> Connection[Any]:
        """Open a connection.

        Args:
            patience: seconds during which a server that is away is asked again.

        Raises:
            SourceError: it cannot be reached, or refuses the user.
        """
        try:
            import psycopg
        except ImportError as error:
            raise UsageError(
                f"{self.address.scheme}:// needs the driver psycopg, which is not installed",
                hint="pip install 'rowfall[postgresql]'",
            ) from error
        at, deadline = self.address, time.monotonic() + patience
        settings: dict[str, Any] = dict(at.settings)
        while True:
            try:
                with self._said():
                    connection = psycopg.connect(
                        host=at.host, port=at.port, dbname=at.database, user=at.user or None,
                        password=at.password.reveal() if at.password else None,
                        connect_timeout=_CONNECT_SECONDS, application_name="rowfall",
                        autocommit=True, keepalives_idle=30, **settings,
                    )  # fmt: skip
                    for text in _SESSION:
                        connection.execute(text)
                    return connection
            except SourceError as error:
                if not error.transient or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    @contextlib.contextmanager
    def _said(self, name: str = "") -> Iterator[None]:
        """Turn errors of the driver into ours.

        Raises:
            SourceError: transient where another try may help.
        """
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self._error(error, name) from error

    def _error(self, error: Any, name: str) -> SourceError:
        code = error.sqlstate or ""
        text = redact(" ".join(str(error).split()), *self.secrets)
        for start in ("connection failed: ", "ERROR: ", "FATAL: "):
            text = text.removeprefix(start)
        lost = not code and error.__class__.__name__ == "OperationalError"
        refused = "password authentication failed" in text or "no password supplied" in text
        missing = "does not exist" in text and not code
        hint = None
        if refused:
            hint = "Set PGPASSWORD, or write user:password@ in the URI."
        elif missing:
            hint = "See them with psql -l."
        elif lost:
            hint = f"Does a server run at {self.address.host}:{self.address.port}?"
        elif code == "42501":
            hint = "Let its owner GRANT SELECT on it."
        elif code.startswith("42") and self.query:
            hint = "Try the query in psql."
        transient = (lost and not refused and not missing) or code.startswith(_TRANSIENT)
        return SourceError(
            f"cannot read {name or self.text}: {text}", hint=hint, transient=transient
        )


LEAST_OF_QUERY = 8
"""Ranges of a query or view with a key: each of them runs it."""


def _estimate(connection: Connection[Any], relation: str) -> int:
    """Return how many rows the planner of the database expects."""
    plan = connection.execute(f"EXPLAIN (FORMAT JSON) SELECT * FROM {relation}").fetchone()
    return int(plan[0][0]["Plan"]["Plan Rows"]) if plan else 0


@dataclass(slots=True)
class _Table:
    """A table of the catalogue.

    Attributes:
        name: ``schema.table``; ``sql`` the same, quoted.
        kind: relkind. ``filenode``: of its file. ``parent``: others inherit from it.
        size, rows: bytes and, about, rows.
        keys: columns of its primary key: name, type, and whether a sequence gives the values.
        key: the column that the user has named.
        highest: value of its key, where later ones are higher.
    """

    oid: int
    name: str
    sql: str
    kind: str
    filenode: int
    parent: bool
    size: int
    rows: int
    keys: tuple[tuple[str, str, bool], ...]
    key: str
    highest: int | None = None

    @property
    def grows(self) -> bool:
        """True where rows that come later have higher keys."""
        return bool(self.keys) and not self.key and self.keys[0][2] and self.keys[0][1] in _KEYS


def _quoted(name: str) -> str:
    schema, _, table = name.partition(".")
    return f"{identifier(schema)}.{identifier(table)}"


def _copy(connection: Connection[Any], select: str) -> Iterator[bytes]:
    """Give what COPY writes, in pieces: the driver gives each row on its own."""
    rows: list[bytes | bytearray | memoryview] = []
    size = 0
    with connection.cursor() as cursor, cursor.copy(f"COPY ({select}) TO STDOUT".encode()) as copy:
        for row in copy:
            rows.append(row)
            size += len(row)
            if size >= _PIECE:
                yield b"".join(rows)
                rows, size = [], 0
    if rows:
        yield b"".join(rows)
