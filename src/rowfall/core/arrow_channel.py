"""Streams of Arrow that programs write one after the other, as one stream for one reader.

Each is a pipe. All have the same schema, of which the reader sees the first; the format is that of
https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format.
"""

from __future__ import annotations

import fcntl
import os
import queue
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import EngineError, LockLostError, RowfallError, UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# What a process without rights may ask for; a batch waits in it while the last one is used.
_PIPE_BYTES = 1 << 20
# Kinds of messages, see Message.fbs of Arrow.
_SCHEMA, _BATCH = 1, 3
# Metadata of thousands of columns takes a megabyte; more is no stream of Arrow.
_MOST_METADATA = 256 << 20


class StreamClosedError(LockLostError):
    """The reader has gone, or cannot be given the rest: read no more."""


class ChannelStream:
    """One stream of a channel.

    Attributes:
        rows: that the reader has got of it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.rows = 0
        self._ended = threading.Event()

    def wait(self) -> None:
        """Wait until the reader has come to its end, or has gone."""
        self._ended.wait()

    def end(self) -> None:
        """Close it for the reader."""
        os.close(self.descriptor)
        self._ended.set()


class ArrowChannel:
    """Hands streams from threads that make them to one reader.

    Attributes:
        rows: that the reader has got.
        stopped: set when nothing is to be read any more; whoever reads for it looks at that.
        offered: there was a stream, and with it the schema.
        failed: something could not be read: the rest is not wanted.
        error: why the rows end early; None where they do not.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.stopped = threading.Event()
        self.offered = self.failed = False
        self.error: BaseException | None = None
        self._streams: queue.SimpleQueue[ChannelStream | None] = queue.SimpleQueue()
        self._present: ChannelStream | None = None
        self._reading = threading.Lock()
        self._schema = b""
        # What comes next: metadata that were looked at, and bytes of a body behind them.
        self._head, self._body = memoryview(b""), 0

    # --- who makes rows ---------------------------------------------------------------------------

    def offer(self) -> tuple[ChannelStream, int]:
        """Return the next stream, and the descriptor that it is written to: the caller closes it.

        Raises:
            StreamClosedError: nobody reads any more.
        """
        if self.stopped.is_set():
            raise StreamClosedError("the reader was closed")
        reads, writes = os.pipe()
        with suppress(OSError, AttributeError):
            fcntl.fcntl(reads, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        stream = ChannelStream(reads)
        self._streams.put(stream)
        self.offered = True
        if self.stopped.is_set():
            self.close()
        return stream, writes

    def end(self, error: BaseException | None = None) -> None:
        """Say that no stream follows, and why, where that is an error."""
        if not self.stopped.is_set():  # else the reader has gone, and that is why
            self.error = self.error or error
        self._streams.put(None)

    # --- who reads them ---------------------------------------------------------------------------

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer; less is there at the end only.

        Raises:
            RuntimeError: the rows end early, in words for people; ``error`` has the reason.
        """
        view, done = memoryview(buffer).cast("B"), 0
        with self._reading:
            try:
                while done < len(view) and (length := self._read(view[done:])):
                    done += length
            except BaseException as error:  # a library in C that calls this knows exceptions only
                self.error = self.error or error
                self.stopped.set()
                self._drop()
                raise RuntimeError(told(self.error)) from None
        if self.stopped.is_set():
            self.close()
        return done

    def break_off(self, error: BaseException) -> str:
        """End what is read, as the reader cannot go on; returns why, in words for people."""
        self.error = self.error or error
        self.close()
        return told(self.error)

    def close(self) -> None:
        """End what is read, from any thread; safe to call twice."""
        self.stopped.set()
        if self._reading.acquire(blocking=False):  # else whoever reads now does it afterwards
            try:
                self._drop()
            finally:
                self._reading.release()

    def forsake(self) -> None:
        """Leave the rows to the process that this one was forked from: they are in its pipe once.

        Locks are made anew: a thread may have held them, which is not in this process.
        """
        self.error = UsageError(
            "the process that this one was forked from reads these rows",
            hint="Call rowfall.read in the process that takes the rows.",
        )
        self._reading, self.stopped = threading.Lock(), threading.Event()
        self.stopped.set()
        self._drop()

    def _drop(self) -> None:
        self._head, self._body = memoryview(b""), 0
        self._leave()
        with suppress(queue.Empty):
            while True:
                if (stream := self._streams.get_nowait()) is not None:
                    stream.end()
        self._streams.put(None)

    def _read(self, view: memoryview) -> int:
        if not self._head and not self._body and not self._next():
            return 0
        if self._head:
            length = min(len(view), len(self._head))
            view[:length], self._head = self._head[:length], self._head[length:]
            return length
        length = self._some(view[: self._body])
        self._body -= length
        return length

    def _some(self, view: memoryview) -> int:
        """Read some bytes of a message.

        Raises:
            EngineError: there are none: its writer has died.
        """
        assert self._present is not None  # noqa: S101 - a message is of a stream
        length = os.readv(self._present.descriptor, [view])
        if not length:
            self._leave()
            raise EngineError(
                "rowfall-decode was ended in the middle of a batch of rows",
                hint="Call rowfall.read again, and take all rows anew.",
            )
        return length

    def _exactly(self, count: int) -> bytes:
        """Return so many bytes; none at the end of the stream."""
        assert self._present is not None  # noqa: S101 - as above
        found = os.read(self._present.descriptor, count)
        while found and len(found) < count:
            rest = bytearray(count - len(found))
            found += rest[: self._some(memoryview(rest))]
        return found

    def _next(self) -> bool:
        """Go to the next message that the reader has to see; False at the end.

        Raises:
            RowfallError: why the rows end early.
        """
        while True:
            if self._present is None:
                self._present = self._streams.get()
            if self._present is None:
                self._streams.put(None)  # for who asks again
                if self.error is not None:
                    raise self.error
                if self.stopped.is_set():
                    raise StreamClosedError("the reader was closed")
                return False
            prefix = self._exactly(8)
            size = int.from_bytes(prefix[4:], "little")
            if not size:
                self._leave()
                continue
            if size > _MOST_METADATA:
                raise EngineError(f"a message of Arrow with {size:,} bytes of metadata")
            metadata = self._exactly(size)
            kind, body, rows = parse_message(metadata)
            if kind == _SCHEMA and self._schema:
                if metadata != self._schema:
                    raise EngineError("two files give rows with other columns")
                continue
            if kind == _SCHEMA:
                self._schema = metadata
            self._present.rows += rows
            self.rows += rows
            self._head, self._body = memoryview(prefix + metadata), body
            return True

    def _leave(self) -> None:
        stream, self._present = self._present, None
        if stream is not None:
            stream.end()


def told(error: BaseException | None) -> str:
    """Return an error with its hint, for libraries that know no hints."""
    if isinstance(error, RowfallError):
        return f"{error.message}. {error.hint}" if error.hint else error.message
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return f"{type(error).__name__}: {error}"


def parse_message(metadata: bytes) -> tuple[int, int, int]:
    """Return kind, bytes of the body, and rows of a message, 0 of one that is no batch.

    The metadata are a flatbuffer, see Message.fbs of Arrow: the second field of Message is the
    kind, the third a table whose first field is the number of rows of a batch, the fourth the
    body's bytes.
    """
    message = _offset(metadata, 0)
    kind = _field(metadata, message, 1, "<B")
    body = _field(metadata, message, 3, "<q")
    header = _place(metadata, message, 2)
    rows = 0
    if kind == _BATCH and header:
        rows = _field(metadata, _offset(metadata, header), 0, "<q")
    return kind, body, rows


def _offset(data: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])


def _place(data: bytes, table: int, number: int) -> int:
    """Return where a field of a table is, 0 where it has its default."""
    names = table - struct.unpack_from("<i", data, table)[0]
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", data, names)[0]:
        return 0
    found: int = struct.unpack_from("<H", data, names + at)[0]
    return table + found if found else 0


def _field(data: bytes, table: int, number: int, form: str) -> Any:
    at = _place(data, table, number)
    return struct.unpack_from(form, data, at)[0] if at else 0
