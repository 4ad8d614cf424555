"""Databases in a file, as sources: what they share, whatever their driver.

The file is open for reading while a load runs, so all ranges of a table are of one moment.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar

from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.file_databases import located
from rowfall.core.listing import Split
from rowfall.core.open_file import OpenFile
from rowfall.core.options import Options
from rowfall.core.tables import FoundTable
from rowfall.sources.base import Source
from rowfall.sources.databases import (
    DatabaseSource,
    check_no_file_options,
    one_table,
    parse_file,
    with_table,
)
from rowfall.sources.key_ranges import BLOCKS, Described, Key, KeyKind, RowNumber, cut
from rowfall.sources.many import SeparateTables

SCHEMA = "main"
"""The schema of tables that name none."""


@dataclass(frozen=True, slots=True)
class FileReader:
    """How a file of one kind is opened for reading, and what its driver's errors mean.

    Attributes:
        scheme: of its address. ``parameters``: of that.
        connect: opens it. ``translated``: turns errors into ours; it takes the address as typed,
            the path, and whether a query of the user runs.
    """

    scheme: str
    parameters: tuple[str, ...]
    connect: Callable[[str, Options], Any]
    translated: Callable[[str, str, bool], AbstractContextManager[None]]

    def open(self, text: str, path: str, options: Options) -> OpenFile:
        """Return a file, opened at its first question."""
        query = bool((options.query or "").strip().rstrip(";"))
        return OpenFile(
            lambda: self.connect(path, options), lambda: self.translated(text, path, query)
        )


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

    def ask(self, query: str) -> Iterable[Sequence[Any]]:
        return self._file.rows(query)

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

    def close(self) -> None:
        self._file.close()
