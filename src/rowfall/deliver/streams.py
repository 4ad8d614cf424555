"""The bodies of INSERTs: pieces of files, stdin, or blocks that a local engine makes.

Big plain text is cut where a record ends; the rules are those of the server's readers, and where a
file does not show a place beyond doubt it stays in one piece.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import os
import select
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError, SourceError
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Facts, Kind, Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.deliver.pull import QUIET_SECONDS
from rowfall.engines.base import Engine, Tick
from rowfall.plan.settings import (
    LEAST_MEMORY,
    PARQUET_WAITING,
    parquet_memory,
    statement_limit,
)
from rowfall.plan.statements import sent_column, sent_type
from rowfall.schema.projection import Scan
from rowfall.schema.text.records import SCAN, Read, header_names, record_starts
from rowfall.schema.types.reader_settings import reader_settings
from rowfall.sources.base import Ranged, Source
from rowfall.sources.compression import compression_of
from rowfall.stores.completeness import is_padded
from rowfall.stores.first_bytes import beginning
from rowfall.systems.clickhouse.embedded import Embedded

Values = Mapping[str, str | int | float]
"""Settings of a statement."""

# A piece costs a statement and a part per partition, about 10 ms, so it should last a second (the
# server parses 50 to 100 MB/s of a core); it bounds what one stream still sends at the end.
PIECE_BYTES = 128 << 20
# Halves of less than this are not worth a second statement.
LEAST_PIECE = 16 << 20
# What belongs to the server's machine and not to the one that reads for it.
_NOT_LOCAL = frozenset({"max_memory_usage", "max_threads", "max_insert_threads"})


# Enough of a file for any header.
HEADER = 1 << 16
# Read and sent at a time: sending 105 MB costs 0.1 s of a core, a stream holds two of them.
CHUNK = 1 << 20
# How often a waiting body checks whether it has been ended.
POLL_SECONDS = 0.2
# A local statement that was not there yet when it was killed is killed again after this.
AGAIN_SECONDS = 1.0
# Linux lets a pipe grow to this; fewer wake-ups of reader and writer.
PIPE_BYTES = 1 << 20


class Run(Protocol):
    """The attempt that a stream belongs to."""

    @property
    def server(self) -> Engine: ...

    def check(self) -> None:
        """Raise once the attempt has been ended."""

    def sending(self, body: Iterator[bytes]) -> Iterator[bytes]:
        """Give ``body``, counted, and ended with the attempt."""

    def ticker(self, query_id: str) -> Tick:
        """Return the receiver of the ticks of one stream."""


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
        """Give what is sent; read once."""

    @abstractmethod
    def end(self) -> None:
        """Release what the body was read from: the INSERT has ended."""

    def kill(self, query_id: str) -> None:
        with contextlib.suppress(RowfallError):
            self._run.server.kill(query_id)


class FileStream(Stream):
    """A piece of a file, as it is."""

    def __init__(
        self, run: Run, path: str, piece: StreamPiece, packed: str, insert: Statement
    ) -> None:
        settings = piece_settings(insert.settings, piece)
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
        """Do nothing: the body closes its file itself."""


class StdinStream(Stream):
    """The pipe of a source that is read once."""

    def __init__(self, run: Run, source: Source, encoding: Encoding, insert: Statement) -> None:
        # The source itself unpacks bz2.
        packed = "none" if encoding.compression == "bz2" else encoding.compression
        super().__init__(run, insert, packed)
        (self._descriptor,) = source.fds

    def body(self) -> Iterator[bytes]:
        return readings(lambda: _read(self._descriptor), self._run.check)

    def end(self) -> None:
        """Do nothing: stdin belongs to the process."""


class BlockStream(Stream):
    """A SELECT of the local engine, which writes blocks into a named pipe.

    Named, because an engine that runs already inherits no descriptors.

    Args:
        select: what it runs; the stream's INSERT has the same query id.
        packed: the engine compresses what it writes (LZ4).
        exact: the rows that it reads are the rows that it gives.
    """

    def __init__(
        self, run: Run, engine: Embedded, select: Statement, insert: Statement, *,
        packed: bool = False, exact: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(run, insert, "lz4" if packed else "none")
        self._engine, self._select = engine, select
        self._exact = exact
        self._made: Outcome | BaseException | None = None
        self._maker = threading.Thread(target=self._make, daemon=True)

    def send(self, query_id: str, lane: int) -> Outcome:
        self._query_id, self._lane = query_id, lane
        self._folder = tempfile.TemporaryDirectory(prefix="rowfall-push-")
        with self._folder as folder:
            self._path = os.path.join(folder, "blocks")
            os.mkfifo(self._path, 0o600)
            self._pipe = Pipe(self._path)
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
        """Give blocks; raise at their end what went wrong: a part of them would pass for all."""
        for data in readings(self._pipe.read, self._run.check, self._maker.is_alive):
            if data and os.path.exists(self._path):
                # Both ends are open: without its name nothing is left when this process is killed.
                self._folder.cleanup()
            yield data
        self._maker.join()
        self._result()

    def _make(self) -> None:
        query = into_file(self._select.sql, self._path, self._packed)
        try:
            statement = replace(self._select, sql=query, query_id=self._query_id, alters=None)
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
                self._maker.join(POLL_SECONDS)
        self._pipe.close()


class Pipe:
    """The reading end of a named pipe; may be closed while another thread reads."""

    def __init__(self, path: str) -> None:
        # Without waiting for the writer, which may fail before it opens the other end.
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self._end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._guard = threading.Lock()

    def read(self) -> bytes | None:
        """Return the next bytes; None when there are none yet, b"" at the end."""
        with self._guard:
            return _read(self._end) if self._end >= 0 else b""

    def close(self) -> None:
        with self._guard:
            os.close(self._end)
            self._end = -1


def _read(descriptor: int) -> bytes | None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return os.read(descriptor, CHUNK) if poll.poll(POLL_SECONDS * 1000) else None


def readings(
    read: Callable[[], bytes | None],
    check: Callable[[], None],
    may_open: Callable[[], bool] = lambda: True,
) -> Iterator[bytes]:
    """Give what a pipe holds; an empty piece while there is nothing.

    Args:
        check: raises when nobody wants more.
        may_open: whether somebody may still open the pipe's other end.
    """
    quiet = time.monotonic()
    while True:
        check()
        waiting = may_open()
        data = read()
        if data:
            yield data
            quiet = time.monotonic()
        elif data is not None or not waiting:
            return
        elif time.monotonic() - quiet > QUIET_SECONDS:
            yield b""
            quiet = time.monotonic()


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """Open a file for its descriptor.

    Raises:
        SourceError: it cannot be opened or read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None


# --- pieces of files -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """Bytes ``start`` to ``stop`` of a file, with ``head`` (its header line) in front.

    Attributes:
        last: it ends where the file ends.
    """

    start: int
    stop: int
    head: bytes = b""
    last: bool = True


def file_pieces(
    split: Split, encoding: Encoding, settings: Values, every: int
) -> Iterator[StreamPiece]:
    """Give the pieces of a file; only plain ones can be cut. ``every`` 0: one piece."""
    size = split.size or 0
    if not every or compression_of(split.uri, encoding) != "none":
        yield StreamPiece(0, size)
        return
    with opened(split.uri) as descriptor:

        def read(at: int, length: int) -> bytes:
            return os.pread(descriptor, length, at)

        yield from pieces(read, size, encoding, settings, every)


def odd_header(source: Source, split: Split, encoding: Encoding, columns: Sequence[Column]) -> bool:
    """Tell whether a file's header lacks a column, or cannot be read here."""
    if not encoding.has_header:
        return False
    head = beginning(source, split, encoding, HEADER)
    return head is None or not header_fits(head.text, encoding, columns)


def padded(source: Source, split: Split, encoding: Encoding) -> bool:
    """Tell whether zeros follow a gzip file: a server takes them for a broken member."""
    packed = compression_of(split.uri, encoding)
    return isinstance(source, Ranged) and is_padded(partial(source.part, split), split.size, packed)


def piece_settings(settings: Values, piece: StreamPiece) -> dict[str, str | int | float]:
    """Return the settings of a piece's INSERT: only the file's last line may be empty."""
    values = dict(settings)
    if not piece.last:
        for name in values:
            if name.endswith("_skip_trailing_empty_lines"):
                values[name] = 0
    return values


def header_fits(head: bytes, encoding: Encoding, columns: Sequence[Column]) -> bool:
    """Check that the first line of ``head`` names all columns; False also where that is unclear."""
    try:
        names = header_names(head, encoding, strict=True)
    except (UnicodeDecodeError, csv.Error):
        return False
    if wanted := encoding.header or encoding.names:
        return names == wanted  # rows are read by position
    return {c.source or c.name for c in columns} <= set(names)


def pieces(
    read: Read, size: int, encoding: Encoding, settings: Values, every: int
) -> Iterator[StreamPiece]:
    """Give a plain file of ``size`` bytes in pieces of about ``every`` bytes, as they are found.

    Together they are the file; each starts where a record starts. What is left after the last
    place beyond doubt is one piece.
    """
    head, start = b"", 0
    if size >= every + LEAST_PIECE and _cuttable(encoding, settings):
        if encoding.has_header:
            first = next(record_starts(read, min(size, SCAN), encoding, 1), 0)
            head = read(0, first)
        if head or not encoding.has_header:
            for cut in record_starts(read, size, encoding, every):
                if size - cut < LEAST_PIECE:
                    break
                yield StreamPiece(start, cut, head if start else b"", last=False)
                start = cut
    yield StreamPiece(start, size, head if start else b"")


def piece_size(splits: Sequence[Split], streams: int) -> int:
    """Return the bytes at which a plain file is cut; 0: no file has to be.

    Cutting reads every byte (5 s of a core per GB where all is quoted, 0.4 s where
    nothing is), so it is for files that would keep one stream busy when the others have ended.
    """
    total = sum(split.size or 0 for split in splits)
    biggest = max((split.size or 0 for split in splits), default=0)
    if streams < 2 or biggest * streams * 2 < total or biggest < 2 * LEAST_PIECE:
        return 0
    return max(LEAST_PIECE, min(PIECE_BYTES, -(-biggest // streams)))


def _cuttable(encoding: Encoding, settings: Values) -> bool:
    if encoding.kind is Kind.JSON:
        return encoding.format == "JSONEachRow"
    if encoding.kind is not Kind.TEXT:
        return False
    # Other settings, other rules: a user may have given them.
    return (
        int(settings.get("format_csv_allow_double_quotes", 1)) == 1
        and int(settings.get("format_csv_allow_single_quotes", 0)) == 0
    )


# --- blocks of the local engine ------------------------------------------------------------------


def local_select(scan: Scan) -> SqlText:
    """Return the SELECT by which the local engine turns the rows of a scan into blocks."""
    schema = scan.schema
    kind = scan.encoding.kind if scan.encoding is not None else Kind.MADE
    if schema.limit:
        kind = Kind.TYPED  # what is selected of the rows has been converted
    elif schema.projection is not None:
        own = tuple(
            replace(sent_column(c, kind), type=sent_type(c)) for c in schema.projection.columns
        )
        sent = replace(schema, projection=replace(schema.projection, columns=own))
        return replace(scan, schema=sent).select_typed()
    columns = [sent_column(c, kind) for c in schema.columns]
    return SqlText.of(f"SELECT {sql.projection(columns)}\nFROM ", scan.relation())


def into_file(query: SqlText, path: str, packed: str = "none") -> SqlText:
    """Return a query that writes its blocks to the pipe ``path``; ``packed``: how, or ``none``."""
    # One of both has to be said of a file that is there; a pipe has nothing to cut off.
    mode = f"TRUNCATE COMPRESSION {sql.literal(packed)}" if packed != "none" else "APPEND"
    return SqlText.of(query, f"\nINTO OUTFILE {sql.literal(path)} {mode} FORMAT Native")


def local_settings(
    settings: Values, encoding: Encoding | None, columns: Sequence[Column], facts: Facts, share: int
) -> dict[str, str | int | float]:
    """Return the settings of the local engine that makes one of ``share`` streams of blocks.

    Its reader gets what the server's would get, and what only its own version knows.
    """
    reading = reader_settings(encoding, columns) if encoding is not None else ()
    wanted: dict[str, str | int | float] = {s.name: s.value for s in reading}
    wanted |= {name: value for name, value in settings.items() if name not in _NOT_LOCAL}
    wanted["max_threads"] = max(1, facts.cores // share)
    if encoding is not None and encoding.kind is Kind.TYPED:
        # Each holds a column of a row group; after a try that took too much the plan has fewer.
        given = int(settings.get("max_threads", 0))
        wanted["max_threads"] = min(wanted["max_threads"], given or wanted["max_threads"])
    # Of each statement and of all of them: --memory is what is taken here, whoever stores the rows.
    limit = max(statement_limit(facts), LEAST_MEMORY // 4)
    wanted |= {"max_memory_usage": limit, "max_memory_usage_for_user": limit}
    if (waiting := int(wanted.get(PARQUET_WAITING, 0))) > 0:
        wanted[PARQUET_WAITING] = min(waiting, parquet_memory(facts) // share)
    return facts.known(wanted)
