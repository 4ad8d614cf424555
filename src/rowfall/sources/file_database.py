"""Databases in a file, as sources: what they share, whatever their driver.

The file is open for reading while a load runs, so all ranges of a table are of one moment.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, ClassVar

from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError
from rowfall.core.file_databases import located
from rowfall.core.listing import Split
from rowfall.core.open_file import OpenFile
from rowfall.core.options import Options
from rowfall.core.tables import FoundTable
from rowfall.sources.base import Source
from rowfall.sources.cursor import Cursor
from rowfall.sources.databases import (
    DatabaseSource,
    check_no_file_options,
    digest,
    no_key,
    no_table,
    one_table,
    only_table,
    parse_file,
    with_table,
)
from rowfall.sources.key_ranges import (
    BLOCKS,
    UNINDEXED_RANGES,
    WHOLE,
    Described,
    Key,
    KeyKind,
    RowNumber,
    SourceColumn,
    count_ranges,
    cut,
)
from rowfall.sources.many import SeparateTables

SCHEMA = "main"
"""The schema of tables that name none."""
MORE_MEMORY = "Give the load more with --memory."


@dataclass(frozen=True, slots=True)
class FileReader:
    """How a file of one kind is opened for reading, and what its driver's errors mean.

    Attributes:
        scheme: of its address. ``parameters``: of that.
        connect: opens it. ``errors``: class of its driver's errors.
        said: text and hint of one of these, which concerns the file with a path.
        shell: where a query can be tried.
        passing: words in the text of an error after which another try may help.
        no_memory: class of the error of a statement that takes more memory than it may.
    """

    scheme: str
    parameters: tuple[str, ...]
    connect: Callable[[str, Options], Any]
    errors: Callable[[], type[Exception]]
    said: Callable[[Exception, str], tuple[str, str | None]]
    shell: str
    passing: tuple[str, ...] = ()
    no_memory: Callable[[], type[Exception]] = lambda: MemoryError

    def open(self, text: str, path: str, options: Options) -> OpenFile:
        """Return a file, opened at its first question."""
        query = bool((options.query or "").strip().rstrip(";"))
        return OpenFile(
            lambda: self.connect(path, options), lambda: self._translated(text, path, query)
        )

    @contextlib.contextmanager
    def _translated(self, text: str, path: str, query: bool) -> Iterator[None]:
        try:
            yield
        except self.errors() as error:
            message, hint = self.said(error, path)
            if isinstance(error, self.no_memory()):
                hint = MORE_MEMORY
            hint = hint or (f"Try the query in {self.shell}." if query else None)
            passes = any(word in message for word in self.passing)
            raise SourceError(
                f"cannot read {text}: {message}", hint=hint, transient=passes
            ) from error


@dataclass(frozen=True, slots=True)
class TableInCatalogue:
    """A table or view as the catalogue of its file has it.

    Attributes:
        kind: ``table``, or what else it is. ``statement``: that made it; "" where rows of another
            one by that name are the same.
        rows: about. ``primary``: columns of its primary key.
        cuts: columns that it can be cut by; ``first``: the one that is taken where none is asked
            for, "" for none. ``uncut``: why it cannot be cut at all; "" where it can.
    """

    kind: str
    statement: str
    columns: tuple[SourceColumn, ...]
    rows: int = 0
    primary: tuple[str, ...] = ()
    cuts: Sequence[str] = ()
    first: str = ""
    uncut: str = ""


class FileDatabaseSource(DatabaseSource):
    """One table, view or query of a file.

    Args:
        shared: the file, which whoever gives it closes.
    """

    remote = False
    _reader: ClassVar[FileReader]

    def __init__(
        self, texts: Sequence[str], options: Options, shared: OpenFile | None = None
    ) -> None:
        super().__init__(parse_file(texts, options, SCHEMA), options)
        self._shared = shared is not None
        self._file = shared or self._reader.open(self.text, self.address.database, options)
        self._relation = self._table = ""

    def close(self) -> None:
        """Close the file when nobody reads from it any more."""
        super().close()
        if not self._shared:
            self._file.close()

    @property
    def relation_text(self) -> str:
        return self._relation

    def ask(self, query: str) -> Sequence[Sequence[Any]]:
        return self._file.rows(query)

    # --- what a system says -----------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def listed(file: OpenFile) -> Sequence[FoundTable]:
        """Return the tables and views of a file."""

    @abstractmethod
    def columns_of_query(self) -> tuple[SourceColumn, ...]:
        """Return the columns of the query, and make ``_relation`` what is read of it."""

    @abstractmethod
    def look_up(self, table: str) -> TableInCatalogue | None:
        """Ask the catalogue about a table or view, and make ``_relation`` what is read of it.

        Returns:
            None where there is none of that name.
        """

    @abstractmethod
    def cut_by_key(self, found: Described, name: str, count: int) -> Described:
        """Return a table cut by an integer: its key, or the one that was asked for."""

    @abstractmethod
    def cut_by_place(self, found: Described, count: int) -> Described:
        """Return a table cut by the numbers of its rows, which change as the table is changed."""

    def spread(self, found: Described, text: str) -> list[Any]:
        """Return values of an SQL text from all over the table; [] where nobody can tell."""
        return []

    # --- what they share --------------------------------------------------------------------------

    def describe(self) -> Described:
        at = self.address
        if self.query:
            columns = self.columns_of_query()
            return Described("", digest(self.query), columns, 0, None, "a query")
        table = self._table = at.table or only_table(at, self._names())
        made = self.look_up(table)
        if made is None:
            raise no_table(at, table, self._names())
        version = blake2b(made.statement.encode(), digest_size=8).hexdigest()
        found = Described(
            f"{at.schema}.{table}", version if made.statement else "", made.columns, made.rows,
            None, "", WHOLE, made.primary,
        )  # fmt: skip
        if made.kind != "table":
            return replace(found, why=f"{table} is a {made.kind}")
        if self.options.cursor is not None:
            return found
        if not self.ask(f"SELECT 1 FROM {self._relation} LIMIT 1"):
            return replace(found, ranges=())  # so that a later run loads what comes
        if made.uncut:
            return replace(found, why=made.uncut)
        count, wanted = count_ranges(self._bytes(found)), at.key or made.first
        if wanted in made.cuts:
            return self.cut_by_key(found, wanted, count)
        if at.key:
            raise no_key(at, made.cuts)
        return self.cut_by_place(found, count)

    def _names(self) -> list[str]:
        """Return the names of the tables and views that the address may mean."""
        there = ("", self.address.schema)
        return sorted(found.name for found in self.listed(self._file) if found.schema in there)

    def cursor_ranges(self, found: Described, cursor: Cursor) -> Sequence[tuple[int, int]]:
        """Cut by a sample, see :mod:`rowfall.sources.following`."""
        count = min(count_ranges(self._bytes(found)), UNINDEXED_RANGES)
        if count < 2 or self.query or not self._table:
            return [(0, cursor.end)]
        texts = self.spread(found, cursor.sql.text.format(x=cursor.key.sql))
        values = [None if text is None else cursor.key.number(text) for text in texts]
        return cut(values, count, cursor.end)

    def _rows_of(self, split: Split, columns: str, order: str = "") -> str:
        """Return the SELECT of columns of a range; in an order, where its SQL is given."""
        where = self.condition(split)
        return (
            f"SELECT {columns} FROM {self._relation}" + (f" WHERE {where}" if where else "") + order
        )

    def _cut_by(
        self, found: Described, key: Key, high: int | None, values: Iterable[int | None], count: int
    ) -> Described:
        """Return a table cut by an integer: its key, or the one that was asked for.

        Args:
            high: the highest value. ``values``: numbers of a sample.
        """
        end = high + 1 if key.grows and high is not None and 0 < high < key.end else key.end
        why = "as asked for" if self.address.key else "its primary key"
        return replace(found, key=key, why=why, ranges=tuple(cut(values, count, end)))

    @staticmethod
    def _cut_by_number(found: Described, sql: str, state: int, places: Iterable[int]) -> Described:
        """Return a table cut by the numbers of its rows.

        Args:
            sql: the number of a row. ``state``: of the table, as another one has other numbers.
            places: numbers of rows at which ranges begin.
        """
        low = (state & 0x7FFF_FFFE | 1) << 32
        key = RowNumber("rowid", sql, KeyKind.BLOCK, low=low, end=low + BLOCKS)
        bounds = sorted({low, *(low + place for place in places), key.end})
        ranges = tuple(itertools.pairwise(bounds))
        return replace(found, key=key, why="it has no integer for its key", ranges=ranges)

    @staticmethod
    def _bytes(found: Described) -> int:
        return int(found.rows * sum(column.bytes_each for column in found.columns))


class TablesInFile(SeparateTables):
    """The tables and views of one file."""

    _reader: ClassVar[FileReader]
    _source: ClassVar[type[FileDatabaseSource]]

    def __init__(self, text: str, options: Options) -> None:
        path, table, given = located(text, self._reader.parameters)
        self._base = f"{self._reader.scheme}://{uri.encode(path)}"
        self.text = text
        if table or given:
            raise one_table(text, f"{self._base} --tables '{given.get('table', table) or '*'}'")
        check_no_file_options(options, text)
        self._file = self._reader.open(text, path, options)

    def address(self, table: FoundTable) -> str:
        return with_table(self._base, "" if table.visible else table.schema, table.name)

    def open(self, table: FoundTable, options: Options) -> Source:
        return self._source([self.address(table)], options, self._file)

    def list_tables(self) -> Sequence[FoundTable]:
        return self._source.listed(self._file)

    def close(self) -> None:
        self._file.close()
