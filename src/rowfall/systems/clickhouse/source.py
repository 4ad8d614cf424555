"""Tables of another ClickHouse server: ``clickhouse://user@host:8123/database/table``.

Rows come over HTTP as Native blocks, which the engine reads from a pipe without parsing. Those of
a data folder come from its own engine, see :mod:`rowfall.systems.clickhouse.data_folder`.

**Partitions.** A split is the blocks of one partition, by their numbers. Parts come and go by
merges, but a merge keeps the numbers of its blocks: they are in the name of the part. One SELECT
reads one set of parts, and says itself whether a part holds blocks of this split and others, so a
merge between listing and reading neither loses rows nor doubles them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rowfall.core import sql, uri
from rowfall.core.errors import NotReachedError, RowfallError, SourceError
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Kind, Schema, TableLayout
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.core.type_names import parse_type
from rowfall.engines.base import ROWS_FORMAT, read_rows
from rowfall.sources import following
from rowfall.sources.cursor import Cursor, CursorSql, Overlap, Row
from rowfall.sources.databases import digest, parse
from rowfall.sources.key_ranges import WHOLE, Described, SourceColumn, cut, without
from rowfall.sources.pipes import Streams
from rowfall.stores.patience import Patience
from rowfall.systems.clickhouse.codes import (
    QUERY_WAS_CANCELLED,
    REFUSED_USER,
    THROW_IF,
    TIMEOUT_EXCEEDED,
    UNKNOWN_DATABASE,
    UNKNOWN_TABLE,
)
from rowfall.systems.clickhouse.http import Address, Connections, Download, LostConnection
from rowfall.systems.clickhouse.status import StatementStatus
from rowfall.systems.clickhouse.target import HTTP_PORT, HTTPS_PORT

_TLS = "clickhouses"
# A server that answers nothing for so long is gone; a query may sort for minutes before its first
# row.
_SILENCE_SECONDS = 600
_MIXED = "rowfall: a part holds other blocks, too"
_NO_TABLE = frozenset({UNKNOWN_TABLE, UNKNOWN_DATABASE})
# Where another try may help who reads, besides what is transient for everybody: a query that had to
# be given up, and a server that ends (SYSTEM_ERROR).
_PASSING = frozenset({TIMEOUT_EXCEEDED, QUERY_WAS_CANCELLED, 425})
# Ranges of a column that is followed, and the rows of one at least: each reads the column again.
_CURSOR_RANGES, _CURSOR_ROWS = 16, 1_000_000
_FOLDER = regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=/?\Z)")


class Tables(Streams):
    """One table of ClickHouse, or the result of ``--query``: what a server and a folder share.

    Attributes:
        database, table: what is read; both "" for a query of a server.
        base: of the names of splits.
    """

    remote = True
    replayable = True
    fds: tuple[int, ...] = ()
    secrets: tuple[Secret, ...] = ()

    def __init__(self, text: str, base: str, database: str, table: str, options: Options) -> None:
        super().__init__()
        self.text, self.base = text, base
        self.database, self.table = database, table
        self.options = options
        self.query = (options.query or "").strip().rstrip(";")
        self.cursor: Cursor | None = None
        self.described = Described("", "", (), 0, None, "")
        self.notes: tuple[str, ...] = ()
        self.made: Schema | None = None
        self._listing: Listing | None = None
        self._numbers_grow = True
        self._version = ""
        self._partitions: list[tuple[str, str]] = []

    def ask(self, text: str) -> list[list[Any]]:
        """Return the rows of a query.

        Raises:
            SourceError: it fails.
        """
        raise NotImplementedError

    def blocks(self, text: str) -> Iterator[bytes]:
        """Give the rows of a query in Native format, in pieces.

        Raises:
            SourceError: it fails; transient where another try may help.
        """
        raise NotImplementedError

    def numbering(self, uuid: str) -> Mapping[str, str]:
        """Return a word for each partition of a table whose block numbers began anew."""
        return {}

    # --- catalogue ----------------------------------------------------------------------------

    def listing(self) -> Listing:
        """Return the blocks of each partition; one stream where the table has none.

        Raises:
            SourceError: there is no such table, or it may not be read.
        """
        if self._listing is None:
            self._listing = self._describe_query() if self.query else self._describe_table()
            self._describe_columns(self._listing)
            if self.options.cursor is not None:
                self._listing = self._follow()
        return self._listing

    def listing_after(self, loaded: Mapping[str, Sequence[tuple[int, int]]]) -> Listing:
        """Return the blocks of each partition that are not loaded.

        Raises:
            SourceError: the last blocks that are loaded are gone, so new rows get their numbers.
        """
        found, rest = self.listing(), Listing(continued=True)
        if self.cursor is not None:
            own = next(iter(loaded.values()), ())
            return self._listed(self.cursor.rest(self.described.ranges, own))
        last = max((stop for own in loaded.values() for _, stop in own), default=0)
        there = max((split.stop or 0 for split in found.splits("")), default=0)
        # In Keeper numbers only grow; else an engine that starts goes on behind the last part.
        if there < last and not self._numbers_grow:
            raise SourceError(
                f"cannot tell which rows of {self.text} are new: blocks up to number {last - 1} "
                f"are loaded, and {self.table} ends with number {there - 1}, so rows were removed "
                "there and new rows get the numbers of loaded ones",
                hint="Load all of it anew: the same command with --replace.",
            )
        for split in found.splits(""):
            if split.start is None or split.stop is None:
                rest.add(split.uri, split.version, split.size)
                continue
            for start, stop in without([(split.start, split.stop)], loaded.get(split.uri, ())):
                rest.add(split.uri, split.version, split.size, start, stop)
        return rest

    # --- a column that is followed ------------------------------------------------------------

    def _describe_columns(self, listing: Listing) -> None:
        """Describe the columns as other databases do, for what follows one of them."""
        made = self.made.columns if self.made is not None else ()
        columns = tuple(SourceColumn(c.name, c.type, c.type, sql.name(c.name)) for c in made)
        version = listing.split(0, "").version.partition("-")[0] if len(listing) else self._version
        self.described = Described(
            self.table, version, columns, 0, None, "", order_by=(), ranges=WHOLE
        )  # fmt: skip

    def _follow(self) -> Listing:
        """Return the listing of the ranges of the column that is followed."""
        self.cursor, found = following.follow(self, self.described)
        self.described = found
        self.notes = (
            *(note for note in self.notes if "stream" not in note),
            f"{self.table or 'the query'} is read in ranges of {self.cursor.name} ({found.why})",
        )
        return self._listed(found.ranges)

    def _listed(self, ranges: Sequence[tuple[int, int]]) -> Listing:
        assert self.cursor is not None  # noqa: S101 - asked where there is one
        listing = Listing(continued=True)
        listing.label = self.cursor.key.label
        for start, stop in ranges:
            listing.add(self.uri, self.described.version, 0, start, stop)
        return listing

    @property
    def uri(self) -> str:
        base = f"{self.base}?query={digest(self.query)}" if self.query else self._base
        if self.cursor is None:
            return base
        return f"{base}{'&' if self.query else '?'}cursor={uri.encode(self.cursor.name)}"

    @property
    def _base(self) -> str:
        return f"{self.base}/{uri.encode(self.table)}"

    @property
    def named_key(self) -> str:
        return ""

    @property
    def relation_text(self) -> str:
        return f"({self.query}\n)" if self.query else sql.qualified(self.database, self.table)

    def other_streams(self) -> Mapping[str, tuple[str, str]]:
        streams = dict(following.other_streams(self))
        if self.cursor is not None and self._listing is not None and not self.query:
            for name, version in self._partitions:
                words = f"no --cursor, by the blocks of partition {name}"
                streams[words] = (f"{self._base}?partition={uri.encode(name)}", version)
        return streams

    def tell(self, text: str) -> None:
        self.made = following.told(self.made, text)

    def overlap_rows(self, overlap: Overlap) -> Iterator[Row]:
        assert self.cursor is not None  # noqa: S101 - asked of a source that has one
        return self.cursor.rows(self.ask(self.cursor.question(self.relation_text, overlap)))

    def cursor_sql(self, column: SourceColumn) -> CursorSql:
        base, name = parse_type(column.type).base, sql.name(column.name)
        if base == "DateTime" or base.startswith("DateTime64"):
            text = "toString(toTimeZone(toDateTime64({x}, 6, 'UTC'), 'UTC'))"
            return CursorSql(name, text, wrap="toDateTime64({}, 6, 'UTC')", escapes=True)
        refused = "is compared by its second half" if base == "UUID" else ""
        wrap = {"Date": "toDate32({})", "Date32": "toDate32({})"}.get(base, "{}")
        return CursorSql(name, "toString({x})", wrap=wrap, escapes=True, refused=refused)

    def key_sql(self, column: SourceColumn) -> tuple[str, str, str]:
        name = sql.name(column.name)
        return name, f"toString({name})", ""

    def cursor_ranges(self, found: Described, cursor: Cursor) -> Sequence[tuple[int, int]]:
        """Cut by a sample or by estimates, see :mod:`rowfall.sources.following`."""
        ((rows,),) = self.ask(f"SELECT count() FROM {self.relation_text}")
        count = min(_CURSOR_RANGES, int(rows) // _CURSOR_ROWS)
        if count < 2:
            return [(0, cursor.end)]
        levels = ", ".join(f"{n / count:.6f}" for n in range(1, count))
        kept = cursor.key.sql
        ((places,),) = self.ask(
            f"SELECT arrayMap(x -> {cursor.sql.text.format(x='x')}, "
            f"quantilesExactLow({levels})({kept})) FROM {self.relation_text}"
        )
        return cut([cursor.key.number(one) for one in places], count, cursor.end)

    # ------------------------------------------------------------------------------------------

    def _describe_query(self) -> Listing:
        rows = self.ask(f"DESCRIBE TABLE ({self.query}\n)")
        self.made = Schema(
            tuple(Column(n, t, "as the query gives it", n) for n, t, *_ in rows),
            notes=(("ORDER BY", "a query has no key"),),
        )
        self.notes = ("the query is read in one stream",)
        listing = Listing()
        listing.add(f"{self.base}?query={digest(self.query)}", "", None)
        return listing

    def _describe_table(self) -> Listing:
        named = sql.table_is(self.database, self.table)
        columns = self.ask(
            f"SELECT name, type, default_kind FROM system.columns WHERE {named} ORDER BY position"
        )
        if not columns:
            raise self._missing()
        ((engine, uuid, paths, order, partition, rows, size),) = self.ask(
            "SELECT engine, toString(uuid), data_paths, sorting_key, partition_key, toFloat64("
            "ifNull(total_rows, 0)), toFloat64(ifNull(total_bytes_uncompressed, 0)) "
            f"FROM system.tables WHERE {named.replace('table =', 'name =')}"
        )
        self.ask(f"SELECT * FROM {sql.qualified(self.database, self.table)} LIMIT 0")
        version = self._version = _identity(uuid, paths)
        kept = [(n, t) for n, t, kind in columns if kind in ("", "DEFAULT")]
        left = [n for n, _, kind in columns if kind not in ("", "DEFAULT")]
        self.made = Schema(
            tuple(Column(n, t, "the same", n) for n, t in kept),
            layout=TableLayout(
                order_by=f"({order})" if order else "tuple()", partition_by=partition
            ),
            notes=(("ORDER BY", "as the table there"),),
            row_bytes=max(1.0, size / rows) if rows else 32.0,
        )
        notes = [f"{', '.join(left)}: computed there, left out as by SELECT *"] if left else []
        base = f"{self.base}/{uri.encode(self.table)}"
        if not engine.endswith("MergeTree"):
            notes.append(f"{self.table} is read in one stream: its engine {engine} has no parts")
            self.notes = tuple(notes)
            listing = Listing()
            listing.add(base, version, None)
            return listing
        self.notes = tuple(notes)
        self._numbers_grow = engine.startswith(("Replicated", "Shared"))
        parts = self.ask(
            "SELECT partition_id, toInt64(max(max_block_number)) + 1, "
            "toInt64(sum(bytes_on_disk)) FROM system.parts "
            f"WHERE active AND {named} GROUP BY partition_id ORDER BY partition_id"
        )
        listing = Listing(continued=True)
        anew = self.numbering(version)
        for name, stop, stored in parts:
            own = f"{version}-{anew[name]}" if name in anew else version
            listing.add(f"{base}?partition={uri.encode(name)}", own, int(stored), 0, int(stop))
            self._partitions.append((str(name), own))
        return listing

    def _missing(self) -> SourceError:
        tables = [
            str(name)
            for (name,) in self.ask(
                f"SELECT name FROM system.tables WHERE database = {quote(self.database)} ORDER BY 1"
            )
        ]
        some = ", ".join(tables[:10]) + (", ..." if len(tables) > 10 else "")
        return SourceError(
            f"{self.database} has no table {self.table}",
            hint=did_you_mean(self.table, tables)
            + (f"Its tables: {some}." if tables else "This user sees no tables in it."),
        )

    def encoding(self, listing: Listing) -> Encoding:
        # Blocks have the columns that were asked for; an engine asks for fewer of a pipe.
        return Encoding("Native", "none", Kind.TYPED, ignores=True)

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        """Return no split: the catalogue tells the types."""
        return []

    # --- rows ---------------------------------------------------------------------------------

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the rows of a split as Native blocks.

        Raises:
            SourceError: it cannot be read; transient where another try may help.
        """
        columns = self.made.columns if self.made is not None else ()
        chosen = ", ".join(sql.name(column.name) for column in columns)
        origin = f"({self.query}\n)" if self.query else sql.qualified(self.database, self.table)
        where = _where(split)
        if self.cursor is not None:
            condition = self.cursor.condition(split.start or 0, split.stop or 0)
            where = f" WHERE {condition}" if condition else ""
        yield from self.blocks(f"SELECT {chosen} FROM {origin}{where}")

    def merged(self, said: str) -> SourceError | None:
        """Return the error of rows that cannot be told from others; None where it is not that."""
        if _MIXED not in said:
            return None
        return SourceError(
            f"cannot read {self.text}: the rows to load were merged with rows that are loaded "
            "already, or with new ones",
            hint="Run the same command again for new ones; load rows anew with --replace.",
            transient=False,
        )


class ClickHouse(Tables):
    """One table of another server, or the result of ``--query``."""

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        at = parse(texts, options, port=0, variable="CLICKHOUSE_PASSWORD", settings=())
        tls = at.scheme == _TLS
        port = at.login.port or (HTTPS_PORT if tls else HTTP_PORT)
        table = f"{at.schema}.{at.table}" if at.schema else at.table  # a dot is a letter here
        base = f"clickhouse://{at.login.host}:{port}/{uri.encode(at.database)}"
        super().__init__(at.text, base, at.database, table, options)
        user = at.login.user or os.environ.get("CLICKHOUSE_USER", "default")
        self._connections = Connections(Address(at.login.host, port, tls, user, at.login.password))
        self._status = StatementStatus(self._connections, {})
        self._patience = Patience.of(options)
        if at.login.password:
            self.secrets = (at.login.password,)

    def ask(self, text: str) -> list[list[Any]]:
        return read_rows(b"".join(self._patiently(f"{text} FORMAT {ROWS_FORMAT}")))

    def blocks(self, text: str) -> Iterator[bytes]:
        yield from self._patiently(f"{text} FORMAT Native")

    def close(self) -> None:
        super().close()
        self._connections.close()

    def _patiently(self, text: str) -> Iterator[bytes]:
        """Give the answer to a statement; a server that is away is asked again.

        Raises:
            SourceError: it stays away, breaks off behind the first rows, or has said why it fails:
                another try is then for who reads.
        """
        waiting, began = self._patience.begin(), False
        while True:
            try:
                for piece in self._answer(text):
                    began = True
                    yield piece
            except SourceError as error:
                away = isinstance(error, NotReachedError) or error.ask_after is not None
                if began or not away:
                    raise
                waiting.after(error)
            else:
                self._patience.heard()
                return

    def _answer(self, text: str) -> Iterator[bytes]:
        settings = {
            "database": self.database, "max_execution_time": "0", "http_send_timeout": "3600",
            "output_format_json_quote_64bit_integers": "0", "extremes": "0",
            # Rows that came late are named in a statement: up to some MB.
            "max_query_size": "100000000", "max_ast_elements": "10000000",
            "max_expanded_ast_elements": "10000000",
        }  # fmt: skip
        download = Download(self._connections, settings, text, _SILENCE_SECONDS)
        try:
            yield from download
            if download.answer is not None:
                self._status.check(download.answer)
        except LostConnection as lost:
            # A proxy that is busy has answered.
            made = NotReachedError if lost.ask_after is None else SourceError
            away = made(f"cannot read {self.text}: {lost.cause}", hint=_AGAIN, transient=True)
            away.ask_after = lost.ask_after
            raise away from None
        except RowfallError as error:
            raise self._refused(error) from None

    def _refused(self, error: RowfallError) -> SourceError:
        """Return an error of the server as one about this source."""
        if error.code == THROW_IF and (merged := self.merged(error.message)):
            return merged
        hint = error.hint
        if error.code in REFUSED_USER:
            hint = "Name user and password in the address; or set CLICKHOUSE_PASSWORD."
        elif error.code in _NO_TABLE:
            hint = "See its databases with SHOW DATABASES."
        # What the server says has a code; it is not reached where there is none.
        made = NotReachedError if error.transient and not error.code else SourceError
        return made(
            f"cannot read {self.text}: {error.message[:500]}", hint=hint, code=error.code,
            transient=error.transient or error.code in _PASSING,
        )  # fmt: skip


_AGAIN = "Check that the server runs and is reached from here, then run the same command again."


def _identity(uuid: str, paths: Sequence[str]) -> str:
    """Return the UUID of a table; some databases show it only as the name of its folder."""
    folder = _FOLDER.search(str(paths[0])) if paths and not uuid.strip("0-") else None
    return folder[0] if folder else uuid


def _where(split: Split) -> str:
    """Return the condition on the blocks of a split.

    It is one comparison, so that a part is never left out before it was asked whether it holds
    other blocks, too.
    """
    if split.start is None or split.stop is None:
        return ""
    name = uri.parse(split.uri).query.get("partition", "")
    low, high = (f"toInt64(splitByChar('_', _part)[{n}])" for n in (2, 3))
    start, stop = split.start, split.stop
    here = f"_partition_id = {quote(name)}"
    mixed = f"({low} < {stop} AND {high} >= {stop}) OR ({low} < {start} AND {high} >= {start})"
    inside = f"({low} >= {start} AND {high} < {stop})"
    # Parts of other partitions may be asked as well.
    return f" WHERE {here} AND (throwIf({here} AND ({mixed}), {quote(_MIXED)}) + {inside}) = 1"
