"""A file that several threads ask, over connections of its own each."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from rowfall.core.errors import RowfallError
from rowfall.core.units import parse_duration

# A process that holds the file ends when it likes; asking takes 1 ms.
_RETRY_SECONDS = 0.2


def open_when_free(
    connect: Callable[[], Any], held: Callable[[Exception], object], patience: str
) -> Any:
    """Open a file, again and again while another process holds it and patience lasts.

    Args:
        held: tells by an error whether another process holds the file.
        patience: as ``--patience`` has it.

    Raises:
        Exception: the last error.
    """
    deadline = time.monotonic() + parse_duration(patience)
    while True:
        try:
            return connect()
        except Exception as error:
            if not held(error) or time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_SECONDS)


class OpenFile:
    """A file that is opened at the first question; each question has a connection of its own.

    Args:
        connect: opens it. ``translated``: turns errors of the driver into ours.
    """

    def __init__(
        self, connect: Callable[[], Any], translated: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._connect, self._translated = connect, translated
        self._guard = threading.Lock()
        self._main: Any = None

    @property
    def is_open(self) -> bool:
        return self._main is not None

    def cursor(self) -> Any:
        """Return a connection of its own to the open file; it is used by one thread."""
        with self._guard:
            if self._main is None:
                self._main = self._connect()
            return self._main.cursor()

    @contextlib.contextmanager
    def asking(self) -> Iterator[Any]:
        """Give a connection; its errors come as ours."""
        cursor = self.cursor()
        try:
            with self._translated():
                yield cursor
        finally:
            self._close(cursor)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a question."""
        with self.asking() as cursor:
            return list(cursor.execute(query, values).fetchall())

    def _close(self, connection: Any) -> None:
        """Close a connection; one that Ctrl-C has cut off in a statement ends with that."""
        with contextlib.suppress(RowfallError), self._translated():
            connection.close()

    def close(self) -> None:
        """Close the file when nobody uses it any more; safe to call twice."""
        with self._guard:
            if self._main is not None:
                self._close(self._main)
            self._main = None
