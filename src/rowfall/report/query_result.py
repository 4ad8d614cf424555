"""Give the rows of one statement to a program, in the form that it asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import UsageError
from rowfall.report.html import rows_html, rows_text

if TYPE_CHECKING:
    import pandas
    import pyarrow

SHOWN_ROWS = 20


class QueryResult:
    """The rows of one statement: a data frame, an Arrow table, or tuples by iteration.

    They wait in a temporary file until they are asked for, and then stay in memory.
    """

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "rb")
        self._table: Any = None

    def __del__(self) -> None:
        self._file.close()  # a result that nobody read is not a mistake

    def arrow(self) -> pyarrow.Table:
        """Return all rows as a ``pyarrow.Table``.

        Raises:
            UsageError: pyarrow is missing, or the statement's own FORMAT is not Arrow's.
        """
        if self._table is not None:
            return self._table
        pyarrow = _library("pyarrow")
        with self._file as file:
            if os.fstat(file.fileno()).st_size == 0:  # SET, CREATE, INSERT answer nothing
                self._table = pyarrow.table({})
                return self._table
            file.seek(0)
            try:
                self._table = pyarrow.ipc.open_stream(file).read_all()
            except pyarrow.ArrowInvalid:
                raise UsageError(
                    "the result is not in Arrow's format",
                    hint="Leave FORMAT out of the statement, or give format= and out_fd=.",
                ) from None
        return self._table

    def df(self) -> pandas.DataFrame:
        """Return all rows as a ``pandas.DataFrame``.

        Raises:
            UsageError: pandas or pyarrow is missing.
        """
        _library("pandas")
        return self.arrow().to_pandas()

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.arrow().column_names)

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.arrow().to_batches():
            yield from zip(*(_values(column) for column in batch.columns), strict=True)

    def _repr_html_(self) -> str:
        return rows_html(self.columns, self._head(), len(self))

    def __repr__(self) -> str:
        return rows_text(self.columns, self._head(), len(self))

    def _head(self) -> list[tuple[Any, ...]]:
        table = self.arrow().slice(0, SHOWN_ROWS)
        return list(zip(*(_values(column) for column in table.columns), strict=True))


def _values(column: Any) -> list[Any]:
    """Return the Python values of a column; strings that are not text are bytes."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_text(value) for value in column.cast("binary").to_pylist()]


def _text(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def _library(name: str) -> Any:
    try:
        import_module("pyarrow.ipc")
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{name} is not installed: {error}", hint=f"Install it, e.g. pip install {name}."
        ) from None
