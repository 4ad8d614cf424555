"""Read tables of an embedded engine as streams, for a source that runs no statements itself."""

from __future__ import annotations

import os
import secrets
import select
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rowfall.core.model import Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.systems.clickhouse.embedded import Embedded, numbering

_PIECE = 1 << 20
# Whoever reads the rows may have gone while the engine still sorts.
_ASK_MILLISECONDS = 1000
_FIRST_LANE = 2


class FolderReader:
    """Asks an engine, and gives what it answers in pieces.

    Args:
        memory: bytes that all its statements may take together.
    """

    def __init__(self, engine: Embedded, memory: int) -> None:
        self._engine = engine
        self._memory = memory
        self._guard = threading.Lock()
        self._free: list[int] = []
        self._lanes = _FIRST_LANE

    def ask(self, text: str) -> list[list[Any]]:
        """Return the rows of a query.

        Raises:
            EngineError: it fails.
        """
        return self._engine.ask(text, {"readonly": 2}, lane=1)

    def blocks(self, text: str) -> Iterator[bytes]:
        """Give the rows of a query in Native format; an empty piece asks whether to go on.

        Raises:
            EngineError: it fails.
        """
        with tempfile.TemporaryDirectory(prefix="rowfall-rows-") as place:
            pipe = os.path.join(place, "rows")
            os.mkfifo(pipe, 0o600)
            # Not blocking: the engine opens its end later, or never.
            source = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            ended, end = os.pipe()
            failed: list[BaseException] = []
            lane = self._lane()
            query = Statement(
                SqlText.of(f"{text} INTO OUTFILE {quote(pipe)} APPEND FORMAT Native"),
                {"max_memory_usage_for_user": self._memory, "max_memory_usage": self._memory},
                f"folder-{secrets.token_hex(8)}",
            )

            def run() -> None:
                try:
                    self._engine.run(query, lane=lane)
                except BaseException as error:
                    failed.append(error)
                finally:
                    os.close(end)

            thread = threading.Thread(target=run, daemon=True, name="folder-rows")
            thread.start()
            try:
                yield from _pieces(source, ended)
            finally:
                os.close(source)  # a statement that still writes fails
                thread.join()
                os.close(ended)
                with self._guard:
                    self._free.append(lane)
            if failed:
                raise failed[0]

    def numbering(self, uuid: str) -> dict[str, str]:
        """Return the word of each partition of a table whose blocks were numbered anew."""
        folder = self._engine.folder
        return {} if folder is None else numbering(folder / "store" / uuid[:3] / uuid)

    def _lane(self) -> int:
        with self._guard:
            if self._free:
                return self._free.pop()
            self._lanes += 1
            return self._lanes - 1


def _pieces(source: int, ended: int) -> Iterator[bytes]:
    """Give what comes through a pipe until its writer has closed it, or will never open it."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(ended, 0)
    while True:
        found = dict(poll.poll(_ASK_MILLISECONDS))
        if found.get(source, 0) & select.POLLIN:
            with suppress(BlockingIOError):
                if piece := os.read(source, _PIECE):
                    yield piece
                    continue
        if found:  # the pipe is empty, and its writer or the statement has ended
            return
        yield b""
