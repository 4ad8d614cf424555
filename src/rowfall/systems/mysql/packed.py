"""The compressed protocol of MySQL: zlib, for networks that are slower than it.

Packets of the protocol are a stream of bytes that goes in frames: the bytes on their way in three
bytes, a number, and the bytes before compression in three more, 0 where they are as they were
(https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression.html).
"""

from __future__ import annotations

import zlib
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

_HEADER = 7
# Shorter ones would not become shorter; the clients of MySQL have the same limit.
_LEAST = 50
# Of a frame, before compression: a packet of LOAD DATA. Larger ones cost memory and win nothing.
_MOST = 1 << 20
# Of zlib: the others take two to ten times as long for a tenth less.
_LEVEL = 1


class Packed:
    """The socket of a connection, and the file that reads it, once both sides have agreed.

    What is sent waits for more until a frame is full or an answer is read.

    Attributes:
        number: of the next frame.
    """

    def __init__(self, sock: socket.socket, file: IO[bytes]) -> None:
        self._sock, self._file = sock, file
        self._waiting = bytearray()
        self._got = b""
        self.number = 0

    def begin(self) -> None:
        """Number the frames from 0: a command begins."""
        self.flush()
        self.number = 0

    def sendall(self, data: bytes | memoryview) -> None:
        """Send bytes, sooner or later."""
        self._waiting += data
        if len(self._waiting) >= _MOST:
            self.flush()

    def flush(self) -> None:
        """Send what waits."""
        # Taken first: where this fails, what is read next is why.
        waiting, self._waiting = memoryview(self._waiting), bytearray()
        while waiting:
            part, waiting = waiting[:_MOST], waiting[_MOST:]
            packed = zlib.compress(part, _LEVEL) if len(part) >= _LEAST else b""
            shorter = 0 < len(packed) < len(part)
            body, plain = (packed, len(part)) if shorter else (bytes(part), 0)
            header = len(body).to_bytes(3, "little") + bytes([self.number])
            self.number = (self.number + 1) % 256
            self._sock.sendall(header + plain.to_bytes(3, "little") + body)

    def read(self, count: int) -> bytes:
        """Return so many bytes; fewer at the end of the connection.

        Raises:
            OSError: the connection is lost, or what comes is not a frame.
        """
        self.flush()
        while len(self._got) < count:
            header = self._file.read(_HEADER)
            if len(header) < _HEADER:
                return b""
            size, plain = (int.from_bytes(header[at : at + 3], "little") for at in (0, 4))
            self.number = (header[3] + 1) % 256
            body = self._file.read(size)
            if len(body) < size:
                return b""
            try:
                self._got += zlib.decompress(body, bufsize=plain) if plain else body
            except zlib.error as error:
                raise OSError(f"a compressed packet is damaged: {error}") from None
        taken, self._got = self._got[:count], self._got[count:]
        return taken

    def close(self) -> None:
        """Close both; what still waits is not sent."""
        self._file.close()
        self._sock.close()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the socket: its time-outs and options."""
        return getattr(self._sock, name)
