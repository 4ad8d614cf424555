"""The catalogue: what tables and queries hold, the ranges they are read in, and what takes rows."""

from __future__ import annotations

import itertools
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.sqltext import identifier, qualified
from rowfall.sources.cursor import Cursor, CursorSql
from rowfall.sources.databases import (
    DatabaseAddress,
    digest,
    no_table,
    no_type,
    or_null,
)
from rowfall.sources.key_ranges import (
    BLOCKS,
    WHOLE,
    Described,
    Key,
    KeyKind,
    SourceColumn,
    count_ranges,
    cut,
)
from rowfall.systems.postgresql.types import KEYS, PgType, in_binary, map_type, native_type

if TYPE_CHECKING:
    from psycopg import Connection

# Pages of a sample of the key: some 20,000 rows, read in milliseconds.
_SAMPLE_PAGES, _SAMPLE_ROWS = 256, 100_000
_PAGE = 8192
# Where rows do not lie in the order of their key, each range reads pages from all over the table.
_ORDERED, _SCATTERED_RANGES = 0.5, 8
# Transactions that write while a load begins end within seconds, or are forgotten ones.
WRITERS_SECONDS = 5.0
# The first version that reads a range of ctid without reading the whole table.
_TID_RANGES = 140_000
# Ranges of a query or view with a key: each of them runs it.
_QUERY_RANGES = 8
# Types whose values are texts, and the collations that sort them by their bytes.
_TEXTS = frozenset({"text", "varchar", "name"})
_BYTES_ORDER = frozenset({"C", "POSIX", "C.UTF-8", "C.utf8", "ucs_basic"})


class Catalogue:
    """The catalogue, asked about one table or query.

    Args:
        connection: to be in the snapshot of the load before :meth:`describe`.
        query: "" for the table that the address names.
        empties: an array that is NULL is read as an empty one.
        follows: ``--cursor`` names what the table is cut by, so nothing else is looked for.
    """

    def __init__(
        self, connection: Connection[Any], at: DatabaseAddress, query: str, *,
        empties: bool = False, follows: bool = False,
    ) -> None:  # fmt: skip
        self._connection, self._empties = connection, empties
        self._run = connection.execute
        self._at = at
        self._query = query
        self._found: _Table | None = None
        self._follows = follows
        self._key: Key | None = None
        self._why = ""
        self._types: dict[tuple[int, int], PgType] = {}

    def use(self, connection: Connection[Any]) -> None:
        """Go on over another connection."""
        self._connection, self._run = connection, connection.execute

    def find(self) -> tuple[str, ...]:
        """Find table and key, and wait for who writes into it; return what is to be said of that.

        Raises:
            SourceError: there is none, or it may not be read.
        """
        self.look()
        return self.settle(time.monotonic() + WRITERS_SECONDS)

    def look(self) -> None:
        """Find table, key, and the highest value of one that grows: before the snapshot.

        Raises:
            SourceError: there is none, or it may not be read.
        """
        if self._query:
            return
        found = self._found = self._table()
        if self._follows:
            return
        # What has moved is to be counted before the snapshot: what moves later must count later.
        self._key, self._why = self._choose_key(found)
        if found.grows:
            key = identifier(found.by.columns[0][0])
            row = self._run(f"SELECT max({key}) FROM {found.sql}").fetchone()
            found.by.highest = row[0] if row else None

    def settle(self, deadline: float) -> tuple[str, ...]:
        """Wait for who writes into a table whose key grows; return what is to be said of that.

        Args:
            deadline: as of ``time.monotonic``.
        """
        found = self._found
        if found is None or self._follows or not found.grows:
            return ()
        return self._settle_writers(found, deadline)

    @property
    def sql(self) -> str:
        """Return the table that was found as SQL."""
        return "" if self._found is None else self._found.sql

    @property
    def key_holds(self) -> bool:
        """True where no two rows that are read share a primary key.

        Tables that inherit have keys of their own, and their rows are read with those of the
        parent.
        """
        found = self._found
        return found is not None and (found.kind == "p" or not found.parent)

    def check_same_file(self) -> None:
        """Check that the table was not written anew since it was found.

        TRUNCATE and some forms of ALTER TABLE put another file in its place, in which a snapshot
        that is older sees no row (https://www.postgresql.org/docs/current/mvcc-caveats.html). The
        function knows the file of now, whatever the snapshot.

        Raises:
            SourceError: it was.
        """
        found = self._found
        if found is None or found.kind not in ("r", "m"):
            return
        row = self._run("SELECT pg_relation_filenode(%s)", [found.oid]).fetchone()
        if row is None or row[0] != found.filenode:
            raise SourceError(
                f"{self._at.text}: {found.name} was emptied or altered after the snapshot was "
                "taken, which no longer shows its rows",
                hint="Run the same command again: it takes a new snapshot.",
            )

    def describe(self) -> Described:
        """Describe the table that was found, or the query.

        Raises:
            SourceError: it has columns of a type that is not supported.
        """
        return self._describe_query() if self._found is None else self._describe_table(self._found)

    def _table(self) -> _Table:
        """Find the table, and what its key is.

        Raises:
            SourceError: there is none, or it may not be read.
        """
        at = self._at
        wanted = ".".join(identifier(part) for part in (at.schema, at.table) if part)
        row = self._run(
            "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relfilenode, c.relhassubclass, "
            "greatest(c.reltuples, 0), has_table_privilege(c.oid, 'SELECT') "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            [wanted],
        ).fetchone()
        if row is None:
            raise self._no_table()
        oid, schema, name, kind, filenode, parent, rows, allowed = row
        if not allowed:
            self._check_columns(oid, f"{schema}.{name}")
        sizes = self._run(
            "SELECT sum(pg_relation_size(p.relid)), sum(greatest(c.reltuples, 0)) "
            "FROM pg_partition_tree(%s) p JOIN pg_class c ON c.oid = p.relid WHERE p.isleaf",
            [oid],
        ).fetchone() if kind == "p" else self._run(
            "SELECT pg_relation_size(%s), %s::float8", [oid, rows]
        ).fetchone()  # fmt: skip
        size, rows = sizes or (0, 0)
        keys = self._run(
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
            oid, f"{schema}.{name}", qualified(schema, name), kind, filenode,
            bool(parent), int(size or 0), int(rows or 0),
            _Key(tuple((str(n), str(t), bool(g)) for n, t, g in keys), at.key),
        )  # fmt: skip

    def _no_table(self) -> SourceError:
        at = self._at
        rows = self._run(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = "
            "c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN "
            "('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1, 2 LIMIT 1000"
        ).fetchall()
        names = [name if schema == "public" else f"{schema}.{name}" for schema, name in rows]
        wanted = ".".join(filter(None, (at.schema, at.table)))
        return no_table(at, wanted, names, [name for _, name in rows])

    def _check_columns(self, oid: int, name: str) -> None:
        """Check that every column may be read where the table as a whole may not.

        Raises:
            SourceError: some may not.
        """
        rows = self._run(
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
                f"{self._at.text}: the user {rows[0][2]} may not read {what}",
                hint=f"Let its owner run: GRANT {right} ON {name} TO {rows[0][2]};"
                + ("" if whole else " Or read the others with --query."),
            )

    def _settle_writers(self, table: _Table, deadline: float) -> tuple[str, ...]:
        """Wait for the transactions that may still add keys below the highest one.

        A sequence gives its numbers before rows are committed: who commits after this snapshot may
        have a lower one than what is seen now. Whoever has one holds a lock on the table.
        """
        writers = (
            "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND relation = %s "
            "AND mode = 'RowExclusiveLock' AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        waits = {row[0] for row in self._run(writers, [table.oid])}
        while waits and time.monotonic() < deadline:
            time.sleep(0.05)
            waits &= {row[0] for row in self._run(writers, [table.oid])}
        if not waits:
            return ()
        return (
            f"{len(waits)} transaction(s) have written into {table.name} and are still open: rows "
            f"that they commit later with a {table.by.columns[0][0]} up to {table.by.highest} are "
            "not loaded, now or later",
        )

    def _describe_table(self, table: _Table) -> Described:
        rows = self._run(
            "SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, s.avg_width, s.correlation, "
            "a.attndims "
            "FROM pg_attribute a LEFT JOIN pg_stats s ON s.schemaname || '.' || s.tablename = %s "
            "AND s.attname = a.attname AND NOT s.inherited WHERE a.attrelid = %s "
            "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [table.name, table.oid],
        ).fetchall()
        if not rows:
            raise SourceError(f"{self._at.text}: {table.name} has no columns")
        columns = [
            self._column(str(name), oid, modifier, not filled, width, dims)
            for name, oid, modifier, filled, width, _, dims in rows
        ]
        self._check_types(columns, table.sql)
        found = [column for column in columns if isinstance(column, SourceColumn)]
        correlation = {str(row[0]): row[5] for row in rows}
        key, width = self._key, sum(column.bytes_each for column in found)
        rows_there = table.rows or int(table.size / width)
        if table.kind in ("v", "f"):
            rows_there = self._estimate(table.sql)
        described = Described(
            table.name, str(table.oid), tuple(found), rows_there, key, self._why,
            order_by=tuple(name for name, _, _ in table.by.columns),
        )  # fmt: skip
        if self._follows:
            return replace(described, ranges=WHOLE)
        stored = table.kind in ("r", "m", "p")
        if stored and not self._run(f"SELECT 1 FROM {table.sql} LIMIT 1").fetchone():
            return replace(described, ranges=())  # so that a later run loads what comes
        if key is None:
            return described
        if key.kind is KeyKind.BLOCK:
            described = replace(described, version=f"{table.oid}.{table.filenode}")
        order = correlation.get(key.name)
        ordered = key.kind is KeyKind.BLOCK or order is None or abs(order) >= _ORDERED
        count = count_ranges(table.size) if stored else _QUERY_RANGES
        count = count if ordered else min(count, _SCATTERED_RANGES)
        return replace(described, ranges=self._ranges(table, key, count))

    def _choose_key(self, table: _Table) -> tuple[Key | None, str]:
        """Choose what a table is cut by; also say why."""
        if table.by.named:
            return self._given_key(table), "as asked for"
        if table.by.columns and table.by.columns[0][1] in KEYS:
            name, type_, _ = table.by.columns[0]
            return Key(name, identifier(name), KEYS[type_], table.grows), "its primary key"
        if table.kind not in ("r", "m") or table.parent:
            what = {"v": "a view", "p": "partitioned", "f": "a foreign table"}.get(
                table.kind, "a parent of others"
            )
            return None, f"{table.name} is {what} without a key that can be cut"
        if self._connection.info.server_version < _TID_RANGES:
            return None, f"{table.name} has no key that can be cut, and the server is older than 14"
        low = block_base(self._connection, table.oid)
        key = Key("ctid", "ctid", KeyKind.BLOCK, low=low, end=low + BLOCKS)
        return key, "no key that can be cut"

    def _given_key(self, table: _Table) -> Key:
        rows = self._run(
            "SELECT a.attname, t.typname, a.attnotnull FROM pg_attribute a JOIN pg_type t ON t.oid "
            "= a.atttypid WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped",
            [table.oid],
        ).fetchall()
        types = {str(name): (str(type_), bool(filled)) for name, type_, filled in rows}
        type_, filled = types.get(table.by.named, ("", True))
        return self._checked_key(table.by.named, type_, list(types), nullable=not filled)

    def _checked_key(self, name: str, type_: str, names: list[str], *, nullable: bool) -> Key:
        if not type_:
            raise UsageError(
                f"{self._at.text}: there is no column {name} to cut by",
                hint=f"{did_you_mean(name, names)}Columns: {', '.join(names[:20])}.",
            )
        if type_ not in KEYS:
            raise UsageError(
                f"{self._at.text}: {name} is a {type_}, which cannot be cut into ranges",
                hint="Take an integer, a date, a timestamp or a uuid, or leave key= out.",
            )
        return Key(name, identifier(name), KEYS[type_], nullable=nullable)

    def _ranges(self, table: _Table, key: Key, count: int) -> tuple[tuple[int, int], ...]:
        if key.kind is KeyKind.BLOCK:
            pages = -(-table.size // _PAGE)
            places = [key.low + pages * n // count for n in range(1, count)]
            bounds = sorted({key.low, *(p for p in places if p > key.low), key.end})
            return tuple(itertools.pairwise(bounds))
        end = key.end
        if key.grows:
            if table.by.highest is None:
                return ()  # what comes has any number
            # A negative one tells nothing about those that follow.
            end = table.by.highest + 1 if 0 < table.by.highest < end else end
        values: list[int | None] = []
        if count > 1:
            pages = max(1, table.size // _PAGE)
            percent = min(100.0, 100.0 * _SAMPLE_PAGES / pages)
            # Of a table that has not changed, any run gets the same ranges: files of an export
            # are known again by the ranges that they hold.
            sample = f"{table.sql} TABLESAMPLE SYSTEM ({percent:.6f}) REPEATABLE (1)"
            if table.kind not in ("r", "m", "p"):
                sample = f"{table.sql} WHERE random() < 0.01"
            values = self._values(key, sample)
        return tuple(cut(values, count, end))

    def _values(self, key: Key, rows: str) -> list[int | None]:
        """Return the numbers of a sample of the key."""
        moment = key.kind in (KeyKind.DAY, KeyKind.MOMENT)
        value = f"{key.sql}::timestamp::text" if moment else f"{key.sql}::text"
        found = self._run(f"SELECT {value} FROM {rows} LIMIT {_SAMPLE_ROWS}").fetchall()
        return [None if text is None else key.number(text) for (text,) in found]

    def _describe_query(self) -> Described:
        inner = f"({self._query}\n) AS q"
        columns_there = described(self._connection, inner)
        names = [name for name, _, _ in columns_there]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(
                f"--query gives the column {twice[0]} twice", hint="Name each with AS."
            )
        columns = [
            self._column(name, oid, modifier, True, None) for name, oid, modifier in columns_there
        ]
        self._check_types(columns, inner)
        found = tuple(column for column in columns if isinstance(column, SourceColumn))
        why = "a query"
        key: Key | None = None
        ranges: tuple[tuple[int, int], ...] = WHOLE
        if self._at.key:
            codes = {name: oid for name, oid, _ in columns_there}
            oid = codes.get(self._at.key)
            type_ = self._type(oid, -1).name if oid else ""
            key = self._checked_key(self._at.key, type_, names, nullable=True)
            values = self._values(key, f"{inner} WHERE random() < 0.01")
            ranges = tuple(cut(values, _QUERY_RANGES, key.end))
        rows = self._estimate(inner)
        return Described("", digest(self._query), found, rows, key, why, ranges)

    def _column(
        self, name: str, oid: int, modifier: int, nullable: bool,
        width: int | None, dims: int = 1,
    ) -> SourceColumn | tuple[str, str]:  # fmt: skip
        """Return a column; (name, type) where its type has to be cast."""
        type_ = replace(self._type(oid, modifier), dims=dims)
        mapped = map_type(type_)
        if mapped is None:
            return name, type_.shown
        target, select, bytes_each, remark = mapped
        wire = in_binary(type_, select, identifier(name))
        if type_.element is not None and self._empties:
            select, wire = f"coalesce({select}, '[]')", (f"coalesce({wire[0]}, '[]')", wire[1])
        sized = width if width is not None and target in ("String", "Nullable(String)") else None
        return SourceColumn(
            name, or_null(target) if nullable else target,
            f"{type_.shown} of the database" + (f", {remark}" if remark else ""),
            select.replace("{x}", identifier(name)), float(sized or bytes_each) + nullable,
            *wire, bytes=type_.name == "bytea", native=native_type(type_, nullable=nullable),
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
            _name(column.name)
            if isinstance(column, SourceColumn)
            else f"{_name(column[0])}::text AS {_name(column[0])}"
            for column in columns
        )
        raise no_type(self._at, dict(bad), f"SELECT {listed} FROM {relation}")

    def _type(self, oid: int, modifier: int) -> PgType:
        """Return a type by its number, domains resolved."""
        found = self._types.get((oid, modifier))
        if found is None:
            found = self._types[oid, modifier] = self._ask_type(oid, modifier)
        return found

    def _ask_type(self, oid: int, modifier: int) -> PgType:
        row = self._run(
            "SELECT format_type(oid, %s), typname, typtype, typbasetype, typtypmod, typelem, "
            "typcategory, typnamespace = 'pg_catalog'::regnamespace FROM pg_type WHERE oid = %s",
            [modifier, oid],
        ).fetchone()
        if row is None:
            return PgType(f"type {oid}", "")
        shown, name, kind, base, base_modifier, element, category, built_in = row
        if kind == "d":
            inner = self._type(base, base_modifier)
            return replace(inner, shown=f"{shown} ({inner.shown})")
        if category == "A" and element:
            return PgType(shown, name, element=self._type(element, modifier))
        return PgType(shown, name, kind, modifier, declared=shown if built_in else "")

    # --- a column that is followed ----------------------------------------------------------------

    @property
    def relation(self) -> str:
        """Return what rows are read from, as SQL."""
        return f"({self._query}\n) AS q" if self._found is None else self._found.sql

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._run(query.encode()).fetchall()

    def cursor_sql(self, name: str, type_: str) -> CursorSql:
        """Return what is written for a column that is followed; ``type_``: of ClickHouse."""
        sql, moment = identifier(name), type_.startswith("DateTime")
        text = "({x})::timestamp::text" if moment else "({x})::text"
        names = {n: oid for n, oid, _ in described(self._connection, self.relation)}
        own = self._type(names[name], -1)
        refused = ""
        if type_ == "String" and own.name not in _TEXTS:
            refused = "is no text"
        elif type_ == "String":
            collation = self._collation(name)
            if collation not in _BYTES_ORDER:
                refused = f"sorts by the collation {collation}, not by its bytes"
        indexed, unique = self._indexes_of(name)
        return CursorSql(
            sql, text, cast=f"::{own.shown.partition(' (')[0]}", values=True, indexed=indexed,
            unique=unique, refused=refused,
        )  # fmt: skip

    def key_sql(self, name: str) -> tuple[str, str, str]:
        """Return a column of a key: quoted, SQL of its text, and a cast behind its literals."""
        names = {n: oid for n, oid, _ in described(self._connection, self.relation)}
        shown = self._type(names[name], -1).shown.partition(" (")[0]
        return identifier(name), f"{identifier(name)}::text", f"::{shown}"

    def _collation(self, name: str) -> str:
        """Return the collation of a column; that of the database for a query."""
        row = self._run(
            "SELECT CASE WHEN c.collname IS NULL OR c.collname = 'default' THEN d.datcollate "
            "ELSE c.collname END FROM pg_database d LEFT JOIN pg_attribute a ON a.attrelid = %s "
            "AND a.attname = %s LEFT JOIN pg_collation c ON c.oid = a.attcollation "
            "WHERE d.datname = current_database()",
            [self._found.oid if self._found is not None else 0, name],
        ).fetchone()
        return str(row[0]) if row else ""

    def _indexes_of(self, name: str) -> tuple[bool, bool]:
        """Return whether an index begins with a column, and whether no two rows share a value."""
        if self._found is None:
            return True, False  # nobody knows what a query costs
        rows = self._run(
            "SELECT i.indisunique AND i.indnkeyatts = 1 AND i.indpred IS NULL FROM pg_index i "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
            "WHERE i.indrelid = %s AND i.indisvalid AND a.attname = %s",
            [self._found.oid, name],
        ).fetchall()
        return bool(rows), any(unique for (unique,) in rows)

    def sample(self, cursor: Cursor, count: int) -> list[tuple[int, int]]:
        """Cut the values of a column that is followed into ranges, by a sample of the table."""
        table = self._found
        if table is None or table.kind not in ("r", "m", "p") or count < 2:
            return [(0, cursor.end)]
        pages = max(1, table.size // _PAGE)
        percent = min(100.0, 100.0 * _SAMPLE_PAGES / pages)
        sample = f"{table.sql} TABLESAMPLE SYSTEM ({percent:.6f}) REPEATABLE (1)"
        text = cursor.sql.text.format(x=cursor.key.sql)
        found = self._run(f"SELECT {text} FROM {sample} LIMIT {_SAMPLE_ROWS}").fetchall()
        values = [None if text is None else cursor.key.number(text) for (text,) in found]
        return cut(values, count, cursor.end)

    @property
    def size(self) -> int:
        """Return the bytes of the table; 0 of a query."""
        return self._found.size if self._found is not None else 0

    def _estimate(self, relation: str) -> int:
        """Return the number of rows that the database's planner expects; 0 without a plan."""
        plan = self._run(f"EXPLAIN (FORMAT JSON) SELECT * FROM {relation}").fetchone()
        return int(plan[0][0]["Plan"]["Plan Rows"]) if plan else 0


def _name(name: str) -> str:
    """Return a name as SQL, in quotes only where it needs them."""
    plain = name.isidentifier() and name.isascii() and name == name.lower()
    return name if plain else identifier(name)


def block_base(connection: Connection[Any], oid: int) -> int:
    """Return the number of the first block: another one when rows may have moved to other blocks.

    They do when they are updated. The server counts that, and forgets it when it crashes or is told
    to; one that follows another one does not count.
    """
    row = connection.execute(
        "SELECT t.n_tup_upd, t.n_tup_del, d.stats_reset::text, s.stats_reset::text, "
        "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text END "
        "FROM pg_stat_all_tables t, pg_stat_database d, pg_stat_bgwriter s "
        "WHERE t.relid = %s AND d.datname = current_database()",
        [oid],
    ).fetchone()
    return (zlib.crc32(repr(row).encode()) & 0x3FFFFFFF) << 32


@dataclass(slots=True)
class _Key:
    """The key of a table.

    Attributes:
        columns: of its primary key: name, type, and whether a sequence gives the values.
        named: the column that the user has named; "" for none.
        highest: value of its key, where later ones are higher.
    """

    columns: tuple[tuple[str, str, bool], ...]
    named: str
    highest: int | None = None


@dataclass(slots=True)
class _Table:
    """A table of the catalogue.

    Attributes:
        name: ``schema.table``; ``sql`` the same, quoted.
        kind: relkind. ``filenode``: of its file. ``parent``: others inherit from it.
        size, rows: bytes and, about, rows.
        by: the key by which it is cut.
    """

    oid: int
    name: str
    sql: str
    kind: str
    filenode: int
    parent: bool
    size: int
    rows: int
    by: _Key

    @property
    def grows(self) -> bool:
        """True where rows that come later have higher keys."""
        return (
            bool(self.by.columns)
            and not self.by.named
            and self.by.columns[0][2]
            and self.by.columns[0][1] in KEYS
        )


def described(
    connection: Connection[Any], relation: str, *, alone: bool = False
) -> list[tuple[str, int, int]]:
    """Return name, number of the type and its modifier of each column of a relation.

    Args:
        alone: text of a user is in it, in which no second statement may stand that makes the
            connection write again: what is asked for in binary takes one.
    """
    cursor = connection.execute(f"SELECT * FROM {relation} LIMIT 0".encode(), binary=alone)
    found = cursor.pgresult
    return [
        (str(column.name), int(column.type_code), found.fmod(n) if found else -1)
        for n, column in enumerate(cursor.description or ())
    ]


def type_names(connection: Connection[Any]) -> dict[int, str]:
    """Return the names of all types by their numbers."""
    return dict(connection.execute("SELECT oid::int8, typname FROM pg_type").fetchall())


# --- a table that takes rows ----------------------------------------------------------------------

Ask = Callable[..., list[tuple[Any, ...]]]
"""Takes a statement and its values, and returns all rows."""


def taken_columns(ask: Ask, oid: int) -> list[tuple[str, str, int, bool, str]]:
    """Return name, type in pg_type and its modifier, NOT NULL, and kind of default."""
    return ask(
        "SELECT a.attname, CASE WHEN t.typtype = 'd' THEN b.typname ELSE t.typname END, "
        "CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END, "
        "a.attnotnull OR t.typnotnull, CASE WHEN a.attgenerated <> '' OR a.attidentity = 'a' "
        "THEN 'MATERIALIZED' WHEN a.atthasdef OR a.attidentity = 'd' THEN 'DEFAULT' "
        "ELSE '' END FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "LEFT JOIN pg_type b ON b.oid = t.typbasetype "
        "WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        oid,
    )  # fmt: skip


def kept_up(ask: Ask, oid: int) -> tuple[int, int, int, int]:
    """Return the numbers of indexes, foreign keys, CHECKs and triggers of a table."""
    ((indexes, keys, checks, triggers),) = ask(
        "SELECT (SELECT count(*) FROM pg_index WHERE indrelid = %s::oid), "
        "(SELECT count(*) FROM pg_constraint WHERE conrelid = %s::oid AND contype = 'f'), "
        "(SELECT count(*) FROM pg_constraint WHERE conrelid = %s::oid AND contype = 'c'), "
        "(SELECT count(*) FROM pg_trigger WHERE tgrelid = %s::oid AND NOT tgisinternal)",
        *[oid] * 4,
    )
    return int(indexes), int(keys), int(checks), int(triggers)


def unique_keys(connection: Connection[Any], oid: int) -> list[tuple[bool, list[str]]]:
    """Return the columns of each unique index of all rows, the primary key first: (True, ...)."""
    return connection.execute(
        "SELECT i.indisprimary, array_agg(a.attname::text ORDER BY k.n) FROM pg_index i "
        "CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(attnum, n) JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE i.indrelid = %s::oid "
        "AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL "
        "AND k.n <= i.indnkeyatts GROUP BY i.indexrelid, i.indisprimary ORDER BY 1 DESC",
        [oid],
    ).fetchall()
