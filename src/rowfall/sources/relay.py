"""The end of a database's connection, read in large pieces: a row costs no Python.

Servers send 8 or 16 KiB at a time. Taken one by one they cost the reader of a row of 410 bytes
1.1 us, and 0.75 us where a millisecond's worth is taken at once. Sockets hold more than that.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator

_FEW, _PAUSE_SECONDS = 128 << 10, 0.001
_READ = 1 << 19
"""Bytes that are taken from a socket at a time, if they are there."""
# While nothing comes, the reader of the pipe is looked at: soon, as it may have all.
_LEAST_MS, _MOST_MS = 1, 16
_LAST = 16 << 10
"""More than the bytes of an error with its context."""


class LargeReads:
    """The end of a connection, of which much is read at a time.

    Args:
        read: gives at most so many bytes, as soon as there is one. Not for TLS, which gives no more
            than 16 KiB.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._few = False

    def read1(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""
        if self._few:
            time.sleep(_PAUSE_SECONDS)
        found = self._read(size)
        self._few = len(found) < _FEW
        return found


class SocketToPipe:
    """An answer on its way into a pipe, in which nothing here looks into a row.

    Only who takes it apart knows where it ends, as any bytes may be in a text. So that is whoever
    reads the pipe, and closes it at the last row or at what it cannot read.

    Args:
        descriptor: of the socket. ``hidden`` says how many bytes TLS has taken from it.
        read: gives at most so many bytes, as soon as there is one.
        ends: tells whether the last bytes are those of an answer that is complete, or raises what
            error they are.
    """

    def __init__(
        self, descriptor: int, read: Callable[[int], bytes], ends: Callable[[bytes], bool],
        hidden: Callable[[], int] | None = None,
    ) -> None:  # fmt: skip
        self._descriptor, self._read, self._ends = descriptor, read, ends
        self._hidden = hidden
        self._last = b""

    def pieces(self) -> Iterator[bytes]:
        """Give what comes in pieces of any size, and b"" where nothing has come for a while.

        It does not end by itself.

        Raises:
            ConnectionError: the connection has ended. Or what ``ends`` raises.
        """
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        few, patience = False, _LEAST_MS
        while True:
            if few:
                time.sleep(_PAUSE_SECONDS)
            if not (self._hidden and self._hidden()) and not poll.poll(patience):
                few, patience = False, min(2 * patience, _MOST_MS)
                yield b""
                continue
            data = self._read(_READ)
            if not data:
                self._ends(self._last)
                raise ConnectionError("the connection ended before the last row")
            few, patience = self._hidden is None and len(data) < _FEW, _LEAST_MS
            self._last = data[-_LAST:] if len(data) >= _LAST else (self._last + data)[-_LAST:]
            yield data

    def is_complete(self) -> bool:
        """Tell whether the answer has come to its end; asked when its reader has gone.

        Raises: what ``ends`` raises.
        """
        return self._ends(self._last)
