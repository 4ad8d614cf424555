"""Where the bytes of one INSERT come from: a piece of a file, stdin, or a local engine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from rowfall.core.errors import EngineError, RowfallError, SourceError
from rowfall.core.model import Encoding, Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.deliver.delivery import QUIET_SECONDS
from rowfall.engines.base import Engine, Tick
from rowfall.engines.embedded import Embedded
from rowfall.plan import bodies
from rowfall.plan.bodies import Piece, Values
from rowfall.sources.base import Source

# Read and sent at a time: sending 105 MB costs 0.1 s of a core, a stream holds two of them.
CHUNK = 1 << 20
# How often a waiting body looks whether it has been ended.
LOOK_SECONDS = 0.2
# A local statement that was not there yet when it was killed is killed again after this.
AGAIN_SECONDS = 1.0
_PIPE = 1 << 20  # Linux lets a pipe grow to this; fewer wake-ups of both sides


class Run(Protocol):
    """What a stream needs of the attempt that it belongs to."""

    @property
    def server(self) -> Engine: ...

    def check(self) -> None:
        """Raises once the attempt has been ended."""

    def sending(self, body: Iterator[bytes]) -> Iterator[bytes]:
        """``body``, counted, and ended with the attempt."""

    def ticker(self, query_id: str) -> Tick:
        """Takes the ticks of one stream."""


class Stream(ABC):
    """One INSERT and where its body comes from."""

    def __init__(self, run: Run, insert: Statement, packed: str = "none") -> None:
        self._run = run
        self._insert = insert
        self._packed = packed

    def send(self, query_id: str, lane: int) -> Outcome:
        body = self.body()
        try:
            return self._run.server.run(
                replace(self._insert, query_id=query_id),
                lane=lane,
                on_tick=self._run.ticker(query_id),
                body=self._run.sending(body),
                encoding="" if self._packed == "none" else self._packed,
            )
        finally:
            self.end()

    @abstractmethod
    def body(self) -> Iterator[bytes]:
        """What is sent; read once."""

    @abstractmethod
    def end(self) -> None:
        """The INSERT has ended: let go of what the body was read from."""

    def kill(self, query_id: str) -> None:
        with contextlib.suppress(RowfallError):
            self._run.server.kill(query_id)


class FileStream(Stream):
    """A piece of a file, as it is."""

    def __init__(self, run: Run, path: str, piece: Piece, packed: str, insert: Statement) -> None:
        settings = bodies.piece_settings(insert.settings, piece)
        super().__init__(run, replace(insert, settings=settings), packed)
        self._path, self._piece = path, piece

    def body(self) -> Iterator[bytes]:
        if self._piece.head:
            yield self._piece.head
        with opened(self._path) as descriptor:
            at = self._piece.start
            while at < self._piece.stop:
                data = os.pread(descriptor, min(CHUNK, self._piece.stop - at), at)
                if not data:
                    raise SourceError(f"{self._path}: it became shorter while it was sent")
                at += len(data)
                yield data

    def end(self) -> None:
        """The body closes its file itself."""


class StdinStream(Stream):
    """What comes in through the pipe of a source that is read once."""

    def __init__(self, run: Run, source: Source, encoding: Encoding, insert: Statement) -> None:
        # The source itself unpacks bz2.
        packed = "none" if encoding.compression == "bz2" else encoding.compression
        super().__init__(run, insert, packed)
        (self._descriptor,) = source.fds

    def body(self) -> Iterator[bytes]:
        return _readings(lambda: _read(self._descriptor), self._run.check)

    def end(self) -> None:
        """stdin is the process's own."""


class BlockStream(Stream):
    """A SELECT of the local engine, which writes blocks into a named pipe.

    Named, because an engine that runs already inherits no descriptors.

    Args:
        settings: of the SELECT.
        packed: the engine compresses what it writes (LZ4).
        exact: the rows that it reads are the rows that it gives.
    """

    def __init__(
        self,
        run: Run,
        engine: Embedded,
        query: SqlText,
        settings: Values,
        insert: Statement,
        *,
        packed: bool = False,
        exact: bool = False,
    ) -> None:
        super().__init__(run, insert, "lz4" if packed else "none")
        self._engine, self._query, self._settings = engine, query, settings
        self._exact = exact
        self._made: Outcome | BaseException | None = None
        self._maker = threading.Thread(target=self._make, daemon=True)

    def send(self, query_id: str, lane: int) -> Outcome:
        self._query_id, self._lane = query_id, lane
        self._folder = tempfile.TemporaryDirectory(prefix="rowfall-push-")
        with self._folder as folder:
            self._path = os.path.join(folder, "blocks")
            os.mkfifo(self._path, 0o600)
            self._pipe = _Pipe(self._path)
            self._maker.start()
            outcome = super().send(query_id, lane)
        made = self._result()
        # More is no fault: each view on the table reads the rows again. Staging is counted later.
        if self._exact and outcome.rows_read < made.rows_read:
            raise EngineError(
                f"{made.rows_read:,} rows were read here and {outcome.rows_read:,} have arrived",
                transient=True,
            )
        return replace(outcome, bytes_read=made.bytes_read)

    def body(self) -> Iterator[bytes]:
        """Blocks, and at their end what went wrong: half of them look like all of them."""
        for data in _readings(self._pipe.read, self._run.check, self._maker.is_alive):
            if data and os.path.exists(self._path):
                # Both ends are open: without its name nothing is left when this process is killed.
                self._folder.cleanup()
            yield data
        self._maker.join()
        self._result()

    def _make(self) -> None:
        query = bodies.into_file(self._query, self._path, self._packed)
        try:
            statement = Statement(query, self._settings, self._query_id)
            self._made = self._engine.run(statement, lane=self._lane)
        except BaseException as error:
            self._made = error

    def _result(self) -> Outcome:
        if isinstance(self._made, Outcome):
            return self._made
        raise self._made or EngineError("the local engine has not ended")

    def end(self) -> None:
        # The pipe stays open and is emptied: an engine that waits at it could not be killed.
        killed = 0.0
        while self._maker.is_alive():
            if time.monotonic() - killed > AGAIN_SECONDS:
                killed = time.monotonic()
                threading.Thread(
                    target=self._engine.kill, args=(self._query_id,), daemon=True
                ).start()
            if not self._pipe.read():
                self._maker.join(LOOK_SECONDS)
        self._pipe.close()


class _Pipe:
    """The reading end of a named pipe; may be closed while another thread reads."""

    def __init__(self, path: str) -> None:
        # Without waiting for the writer, which may fail before it opens the other end.
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self._end, fcntl.F_SETPIPE_SZ, _PIPE)
        self._guard = threading.Lock()

    def read(self) -> bytes | None:
        """What there is; None when there is nothing yet, b"" at the end."""
        with self._guard:
            return _read(self._end) if self._end >= 0 else b""

    def close(self) -> None:
        with self._guard:
            os.close(self._end)
            self._end = -1


def _read(descriptor: int) -> bytes | None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return os.read(descriptor, CHUNK) if poll.poll(LOOK_SECONDS * 1000) else None


def _readings(
    read: Callable[[], bytes | None],
    check: Callable[[], None],
    fed: Callable[[], bool] = lambda: True,
) -> Iterator[bytes]:
    """What a pipe holds; an empty piece while there is nothing.

    Args:
        check: raises when nobody wants more.
        fed: whether somebody may still open the pipe's other end.
    """
    quiet = time.monotonic()
    while True:
        check()
        feeding = fed()
        data = read()
        if data:
            yield data
            quiet = time.monotonic()
        elif data is not None or not feeding:
            return
        elif time.monotonic() - quiet > QUIET_SECONDS:
            yield b""
            quiet = time.monotonic()


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor of a file. OSErrors become SourceErrors."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
