"""Shared by sources that are databases: addresses, keys cut into ranges, columns.

A dialect (:mod:`rowfall.systems.postgresql.source`) derives from :class:`DatabaseSource`: it asks
the catalogue and gives the bytes of a range. All else is here.

Keys, their numbers and their ranges are in :mod:`rowfall.sources.key_ranges`.

**Keys that grow.** Values of an identity column or a sequence come in ascending order, so what is
behind the highest one is new. Such a table is loaded up to the highest value that was there, and a
later run goes on behind it. All other tables are loaded up to :data:`END`, once.
"""

from __future__ import annotations

import functools
import os
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from rowfall.core import passwords, sql, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.file_databases import located, scheme_of_file
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Kind, Schema, TableLayout
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.units import counted, parse_duration
from rowfall.sources import following
from rowfall.sources.cursor import CursorKey
from rowfall.sources.handover import DatabaseAnswer, SocketPassing
from rowfall.sources.key_ranges import (
    BLOCKS,
    END,
    Described,
    KeyKind,
    SourceColumn,
    without,
)
from rowfall.sources.pipes import Streams

if TYPE_CHECKING:
    from rowfall.sources.cursor import Cursor, CursorSql, Overlap, Row

ANOTHER = (
    "Forget what was loaded of the old one with rowfall forget LOAD (rowfall status names its "
    "loads), then run the same command again, with --replace where the old rows are to go."
)
"""The hint about a table that is another one than that of which rows are loaded."""


# --- addresses ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DatabaseLogin:
    """A server of a database, and who asks it."""

    host: str
    port: int
    user: str
    password: Secret | None


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A table of a database, or the database of ``--query``, as the user typed it.

    Attributes:
        text: without secrets.
        login: of no host where the database is in a file.
        database, schema, table: "" where they are not named.
        key: the column that is to be cut into ranges; "" to choose one.
        settings: parameters for the driver (``sslmode``).
    """

    text: str
    scheme: str
    login: DatabaseLogin
    database: str
    schema: str
    table: str
    key: str
    settings: Mapping[str, str]

    def command(self, query: str) -> str:
        """Return the command that loads a query in place of the table, without ``--to``."""
        user = f"{uri.encode(self.login.user, '')}@" if self.login.user else ""
        more = "&".join(f"{key}={value}" for key, value in self.settings.items())
        host = f"[{self.login.host}]" if ":" in self.login.host else self.login.host
        place = f"{user}{host}:{self.login.port}/" if host else ""  # none: it is in a file
        text = f"{self.scheme}://{place}{self.database}" + f"?{more}" * bool(more)
        words = ["rowfall", "load", text, "--query", query, "--table", self.table or "NAME"]
        return shlex.join(words)


def parse(
    texts: Sequence[str], options: Options, *, port: int, variable: str, settings: Sequence[str],
    tables: bool = False,
) -> DatabaseAddress:  # fmt: skip
    """Parse the one SOURCE argument of a database.

    Args:
        port: by default. ``variable``: of the environment that holds a password.
        settings: parameters that the driver takes.
        tables: it is for ``--tables``, which name them, and perhaps the database.

    Raises:
        UsageError: several tables, no table and no query, both, or parameters that are not known.
    """
    if len(texts) != 1:
        raise UsageError(
            "one load reads one table of a database",
            hint="Run one load for each table, or join them in the database with --query.",
        )
    parts = uri.parse(texts[0])
    scheme, masked = parts.scheme, uri.mask(texts[0])
    database, _, table = parts.path.strip("/").partition("/")
    divided = "/" in table
    table = parts.query.get("table", table)
    known = ("schema", "table", "key", *settings)
    for name in parts.query:
        if name not in known:
            raise UsageError(
                f"{scheme}:// has no parameter {name!r}",
                hint=f"{did_you_mean(name, known)}Parameters: {', '.join(known)}.",
            )
    at = (parts.host or "host") + (f":{parts.port}" if parts.port else "")
    example = f"{scheme}://{parts.user or 'user'}@{at}/{database or 'database'}"
    if tables:
        _check_several(masked, example, table, parts.query)
    if not database and not tables:
        raise UsageError(f"{masked} names no database", hint=f"Write {example}/table.")
    if divided:
        raise UsageError(
            f"{masked} names no table: too many parts",
            hint=f"Write {example}/table, with ?schema=NAME where it is needed.",
        )
    if table and options.query:
        raise UsageError(
            f"--query and the table {table} exclude each other", hint=f"Write {example} --query ..."
        )
    if not table and not options.query and not tables:
        raise UsageError(
            f"{masked} names no table",
            hint=f'Write {example}/table, {example} --query "SELECT ...", or {example} '
            "--tables '*' for all of them.",
        )
    check_no_file_options(options, masked)
    schema, dot, bare = table.partition(".")
    if "schema" in parts.query or not dot:
        schema, bare = parts.query.get("schema", ""), table
    password = parts.password if parts.password is not None else passwords.given(texts[0])
    if password is None and os.environ.get(variable):
        password = Secret(os.environ[variable])
    given = {name: value for name, value in parts.query.items() if name in settings}
    # Of a socket, or several servers: an authority has no room for them.
    host = given.pop("host", "") or given.get("socket") or parts.host or "localhost"
    first = given.get("port", "").partition(",")[0]
    number = int(first) if first.isdigit() else parts.port or port
    return DatabaseAddress(
        masked, scheme,
        DatabaseLogin(host, number, parts.user, password),
        database, schema, bare, parts.query.get("key", ""), given,
    )  # fmt: skip


def _check_several(text: str, example: str, table: str, given: Mapping[str, str]) -> None:
    """Check that an address for ``--tables`` names no table by itself.

    Raises:
        UsageError: it does.
    """
    if table:
        raise one_table(text, f"{example} --tables {shlex.quote(table)}")
    for name in ("schema", "key"):
        if name in given:
            raise UsageError(
                f"{text}: {name}= is for one table, and --tables takes several",
                hint=f"Leave it out{': --tables names schemas, too' * (name == 'schema')}.",
            )


def one_table(text: str, instead: str) -> UsageError:
    """Return the error for ``--tables`` of what is one table already.

    Args:
        instead: source and option that mean the same.
    """
    return UsageError(
        f"{text} is one table, and --tables chooses among those of a source",
        hint=f"Leave out --tables, or write rowfall load {instead}",
    )


def with_table(text: str, schema: str, name: str) -> str:
    """Return the address of one table of a database.

    Args:
        text: the address of the database as typed. ``schema``: "" for the usual one.
    """
    base, mark, query = text.partition("?")
    more = [query] if mark and query else []
    if set(name + schema) & set("./"):  # in a path they would divide names
        more += [f"table={uri.encode(name, safe='')}"]
        # Without it what is in front of a dot would be the schema.
        more += [f"schema={uri.encode(schema, safe='')}"] * bool(schema or "." in name)
    else:
        full = ".".join(uri.encode(part, safe="") for part in (schema, name) if part)
        base = f"{base.rstrip('/')}/{full}"
    return f"{base}?{'&'.join(more)}" if more else base


def parse_file(texts: Sequence[str], options: Options, schema: str) -> DatabaseAddress:
    """Parse the one SOURCE argument of a database in a file: its path, or a URI.

    Args:
        schema: where none is named.

    Raises:
        UsageError: see :func:`parse`.
    """
    if len(texts) != 1:
        raise UsageError(
            "one load reads one table of a database",
            hint="Run one load for each table, or join them in the database with --query.",
        )
    path, behind, given = located(texts[0], ("schema", "table", "key"))
    check_no_file_options(options, texts[0])
    table, key = given.get("table", behind), given.get("key", "")
    if options.query and (table or key):
        raise UsageError(
            f"--query and {f'the table {table}' if table else 'key='} exclude each other",
            hint="Name the file alone.",
        )
    own, dot, bare = table.partition(".")
    if "schema" in given or not dot:
        own, bare = given.get("schema", schema), table
    kind = scheme_of_file(path) if uri.scheme_of(texts[0]) == uri.FILE else uri.scheme_of(texts[0])
    return DatabaseAddress(texts[0], kind, DatabaseLogin("", 0, "", None), path, own, bare, key, {})


def check_no_file_options(options: Options, text: str) -> None:
    """Check that no option is given that only files have.

    Raises:
        UsageError: one is.
    """
    for name in ("format", "compression", "delimiter", "header", "columns", "quote", "encoding"):
        if getattr(options, name) is not None:
            raise UsageError(
                f"--{name} is for files, and {text} is a database", hint="Leave it out."
            )


def no_table(
    at: DatabaseAddress, wanted: str, tables: Sequence[str], more: Sequence[str] = ()
) -> SourceError:
    """Return the error for a table that is not there.

    Args:
        tables: that the user may see; ``more``: other names of them.
    """
    some = ", ".join(tables[:10]) + (", ..." if len(tables) > 10 else "")
    return SourceError(
        f"{at.text}: the database {at.database} has no table {wanted}",
        hint=did_you_mean(wanted, [*tables, *more])
        + (f"Its tables: {some}." if tables else "It has no tables that this user may see."),
    )


def only_table(at: DatabaseAddress, tables: Sequence[str]) -> str:
    """Return the table of a file that has one, where none is named.

    Raises:
        UsageError: it has several, or none.
    """
    if len(tables) == 1:
        return tables[0]
    file = f"{at.scheme}://{uri.encode(at.database)}"
    names = ", ".join(shlex.quote(f"{file}/{uri.encode(name)}") for name in tables[:10])
    raise UsageError(
        f"{at.text} has {counted(len(tables), 'table')}",
        hint=f"Name one of them: {names}" if tables else "Make one, or name another file.",
    )


def no_type(at: DatabaseAddress, types: Mapping[str, str], query: str) -> SourceError:
    """Return the error for columns of types that have to be cast.

    Args:
        types: by the name of the column. ``query``: casts them.
    """
    listed = ", ".join(f"{name} {type_}" for name, type_ in types.items())
    return SourceError(
        f"{at.text}: no column of ClickHouse is like {listed}",
        hint=f"Cast it: {at.command(query)}",
    )


def no_key(at: DatabaseAddress, names: Sequence[str]) -> UsageError:
    """Return the error for a column that a table cannot be cut by.

    Args:
        names: of those that it can be.
    """
    return UsageError(
        f"{at.text}: {at.key} is not a column to cut by",
        hint=f"{did_you_mean(at.key, names)}Such are: {', '.join(names[:20]) or 'none'}.",
    )


# --- tables and queries -------------------------------------------------------------------------


def digest(query: str) -> str:
    """Return the digest of a query's text, without blanks at its ends, that identifies its rows."""
    return blake2b(query.strip().encode(), digest_size=8).hexdigest()


def or_null(type_: str) -> str:
    """Return a type that holds NULL, too, if there is one."""
    if type_.startswith("Array("):
        return type_
    if type_.startswith("LowCardinality("):
        return "LowCardinality(Nullable(String))"
    return f"Nullable({type_})"


# --- connections ----------------------------------------------------------------------------------

# As often as a server that starts answers in seconds.
_RETRY_SECONDS = 0.5
_Connection = TypeVar("_Connection")


# --- the source -----------------------------------------------------------------------------------

# Text of a row for each byte of it in memory, about: what the forecast of rows divides by, too.
_TEXT_FACTOR = 1.2


class DatabaseSource(Streams, ABC):
    """A table or query of a database: what is the same in all of them.

    Attributes:
        query: of ``--query``; "" for a table.
        patience: seconds during which a server that is away is asked again.
        taken: what the address leaves out and is taken from elsewhere, and from where.
    """

    remote = True
    replayable = True
    number = "row"
    fds: tuple[int, ...] = ()

    def __init__(self, address: DatabaseAddress, options: Options) -> None:
        super().__init__()
        self._answers = SocketPassing(self)
        self.patience = parse_duration(options.patience)
        self.address = address
        self.text = address.text
        self.query = (options.query or "").strip().rstrip(";")
        self.secrets: tuple[Secret, ...] = (
            (address.login.password,) if address.login.password else ()
        )
        self.notes: tuple[str, ...] = ()
        self.made: Schema | None = None
        self.cursor: Cursor | None = None
        self.options = options
        self.taken: tuple[str, ...] = ()
        self._described: Described | None = None

    def patiently(self, connect: Callable[[], _Connection], patience: float) -> _Connection:
        """Return a connection; a server that is away is asked again for so many seconds.

        Raises:
            SourceError: it cannot be reached, or refuses the user.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                return connect()
            except SourceError as error:
                if not error.transient or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    @abstractmethod
    def describe(self) -> Described:
        """Ask the catalogue about table or query, and cut it into ranges.

        Raises:
            SourceError: it cannot be read, or has columns of a type that is not supported.
        """

    # --- what a dialect says of a column that --cursor names --------------------------------------

    def ask(self, query: str) -> Iterable[Sequence[Any]]:
        """Return the rows of a query, in the snapshot of the load where the database has one.

        Raises:
            SourceError: it fails.
        """
        raise NotImplementedError

    @property
    def relation_text(self) -> str:
        """Return what rows are read from, as SQL."""
        raise NotImplementedError

    @property
    def named_key(self) -> str:
        """Return the column that ``key=`` names; "" for none."""
        return self.address.key

    def cursor_sql(self, column: SourceColumn) -> CursorSql:
        """Return what the dialect writes for a column that is followed."""
        raise NotImplementedError

    def key_sql(self, column: SourceColumn) -> tuple[str, str, str]:
        """Return a column of a key: quoted, SQL of its text, and a cast behind its literals."""
        found = self.cursor_sql(column)
        return found.sql, found.text.format(x=found.sql), found.cast

    def cursor_ranges(self, found: Described, cursor: Cursor) -> Sequence[tuple[int, int]]:
        """Cut the values up to the highest one into ranges; one where nothing is known of them."""
        return ((0, cursor.end),)

    # ----------------------------------------------------------------------------------------------

    @property
    def described(self) -> Described:
        if self._described is None:
            found = self.describe()
            if self.options.cursor is not None:
                self.cursor, found = following.follow(self, found)
            self._described = found
            way = _way(found, self.query)
            self.made = _schema(found, way)
            if self.taken:
                self.made = replace(
                    self.made, notes=(*self.made.notes, ("address", "; ".join(self.taken)))
                )
            self.notes = (way, *found.notes)
        return self._described

    @property
    def uri(self) -> str:
        """The name by which splits are known: without user and password."""
        at, found = self.address, self.described
        login = at.login
        place = f"{login.host}:{login.port}/" if login.host else ""  # none: it is in a file
        base = f"{at.scheme}://{place}{uri.encode(at.database)}"
        if self.query:
            base += f"?query={digest(self.query)}"
        else:
            base += f"/{uri.encode(found.name, safe='.')}"
        if found.key is None:
            return base
        by = "by" if self.cursor is None else "cursor"
        return f"{base}{'&' if self.query else '?'}{by}={uri.encode(found.key.name)}"

    def other_streams(self) -> Mapping[str, tuple[str, str]]:
        return following.other_streams(self)

    def tell(self, text: str) -> None:
        self.made = following.told(self.made, text)

    def overlap_rows(self, overlap: Overlap) -> Iterator[Row]:
        assert self.cursor is not None  # noqa: S101 - asked of a source that has one
        return self.cursor.rows(self.ask(self.cursor.question(self.relation_text, overlap)))

    def listing(self) -> Listing:
        """Return the ranges of the table, of about equal size.

        Raises:
            SourceError: see :meth:`describe`.
        """
        return self._listing_of(self.described.ranges)

    def listing_after(self, loaded: Mapping[str, Sequence[tuple[int, int]]]) -> Listing:
        """Return the listing of ranges that are not loaded yet.

        Raises:
            SourceError: rows of a table without a key may have moved since some of them loaded, or
                the table is another one by that name.
        """
        found = self.described
        key, there = found.key, loaded.get(self.uri, ())
        if self.cursor is not None:
            return self._listing_of(self.cursor.rest(found.ranges, there))
        if key is not None and there and found.next_key < there[-1][1] < END:
            raise SourceError(
                f"{self.text}: its rows were loaded up to {key.name} {there[-1][1] - 1}, and the "
                f"table has given no number above {found.next_key - 1}: it was made anew or "
                "emptied since, and rows of now would count as loaded",
                hint=ANOTHER,
            )
        if key is not None and key.kind is KeyKind.BLOCK and there:
            lows = {start >> 32 << 32 for start, _ in there}
            for low in lows:
                if not without([(low, low + BLOCKS)], there):
                    return Listing(continued=True)  # all of it, before it was changed
            if lows != {key.low}:
                raise self.moved()
        return self._listing_of(without(found.ranges, there))

    def moved(self) -> SourceError:
        """Return the error of a table whose rows are no longer known by their places."""
        return SourceError(
            f"{self.text}: rows of {self.described.name} may have been updated or deleted after a "
            "part of it had been loaded, and it has no key by which rows are known again",
            hint="Give up that load with rowfall forget LOAD (rowfall status names it), then load "
            "the table anew with --replace.",
        )

    def _listing_of(self, ranges: Sequence[tuple[int, int]]) -> Listing:
        found, name = self.described, self.uri
        listing = Listing(continued=True)
        listing.label = found.key.label if found.key is not None else lambda start, stop: ""
        size = self._size(len(found.ranges))
        for start, stop in ranges:
            listing.add(name, found.version, size, start, stop)
        return listing

    def _size(self, count: int) -> int:
        """Return about how many bytes of text one of so many ranges is."""
        found, made = self.described, self.made
        width = made.row_bytes if made is not None else 1.0
        return int(found.rows * width * _TEXT_FACTOR / max(1, count))

    def encoding(self, listing: Listing) -> Encoding:
        names = tuple(column.name for column in self.described.columns)
        return Encoding(
            "TSVWithNames", "none", Kind.TEXT, delimiter="\t", header=names, renamed=True,
            names=names, fields=len(names),
        )  # fmt: skip

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        """Return no split: the catalogue tells the types."""
        return []

    def bytes_columns(self) -> frozenset[str]:
        return frozenset(column.name for column in self.described.columns if column.bytes)

    def stored(self) -> Encoding | None:
        """Return the encoding of :meth:`answer`; None where rows come as the streams are."""
        return None

    def answer(self, split: Split) -> AbstractContextManager[DatabaseAnswer]:
        """Ask for the rows of a split as rowfall-decode takes them, see :meth:`stored`."""
        raise NotImplementedError

    def pipes(self, splits: Sequence[Split]) -> list[str]:
        """Return a path for each split, at which rowfall-decode gets its rows."""
        if self.stored() is None:
            return super().pipes(splits)
        return self._answers.offer([(s.name, functools.partial(self.answer, s)) for s in splits])

    def error(self, name: str) -> Exception | None:
        """Return the error of the last reading of a split; None where it went well."""
        return self._answers.error(name) or super().error(name)

    def close(self) -> None:
        """Offer no rows any more; connections are the dialect's."""
        self._answers.close()
        super().close()

    def condition(self, split: Split) -> str:
        """Return the condition on the rows of a split; "" for all rows."""
        key = self.described.key
        if key is None or split.start is None or split.stop is None:
            return ""
        if self.cursor is not None:
            return self.cursor.condition(split.start, split.stop)
        return key.condition(split.start, split.stop)

    def numbers(self, split: Split, lines: Sequence[int]) -> list[int]:
        """See :class:`rowfall.sources.base.Numbered`: a header, and a line for each row."""
        return [line - 1 for line in lines]

    def header(self) -> bytes:
        """Return the line in front of the rows of each split."""
        names = (c.name for c in self.described.columns)
        return "\t".join(map(_escaped, names)).encode() + b"\n"


def _way(found: Described, query: str) -> str:
    """Return a line for the plan: the reading of a table, and what a later run loads of it."""
    name = "the query" if query else found.name
    if found.key is None and not found.ranges:
        return f"{name} is empty; a later run loads what comes"
    if found.key is None:
        later = "a later run does not load it into a table again"
        return f"{name} is read as one stream: {found.why}; {later}"
    ranges, key = len(found.ranges), found.key
    text = f"{name} is read in {ranges or 1} range{'s' * (ranges > 1)} of {key.name} ({found.why})"
    if key.grows and (not found.ranges or found.ranges[-1][1] < key.end):
        last = str(found.ranges[-1][1] - 1) if found.ranges else ""
        if isinstance(key, CursorKey):
            last = key.plain(key.floor(found.ranges[-1][1] - 1)) if found.ranges else ""
        end = f"above {last}" if found.ranges else "that are there then"
        return f"{text}; a later run loads the values {end}"
    return f"{text}; a later run does not load it into a table again"


def _schema(found: Described, way: str) -> Schema:
    columns = tuple(Column(c.name, c.type, c.reason, c.name) for c in found.columns)
    order = [sql.bare_name(name) for name in found.order_by]
    key = ", ".join(order)
    return Schema(
        columns,
        layout=TableLayout(
            order_by="tuple()" if not order else key if len(order) == 1 else f"({key})"
        ),
        notes=(("read", way), ("ORDER BY", "its primary key" if order else "no primary key")),
        row_bytes=max(1.0, sum(c.bytes_each for c in found.columns)),
    )


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
