"""HTTP/1.1 messages piece by piece: heads as they were sent, bodies as they come."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

_PIECE = 1 << 16
_HEAD = 1 << 20


class EarlyEndError(ConnectionError):
    """The other side closed in the middle of a message."""


class Reader:
    """Buffered reading of one socket, never more than one piece ahead."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._ahead = b""

    def line(self, limit: int = _HEAD) -> bytes:
        """Up to and with the next line end; b"" at the end of the stream."""
        while b"\n" not in self._ahead:
            if len(self._ahead) > limit:
                raise EarlyEndError("a line without an end")
            more = self.sock.recv(_PIECE)
            if not more:
                if self._ahead:
                    raise EarlyEndError("in the middle of a line")
                return b""
            self._ahead += more
        line, _, self._ahead = self._ahead.partition(b"\n")
        return line + b"\n"

    def some(self, most: int) -> bytes:
        """What has arrived, one byte at least; b"" at the end of the stream."""
        if not self._ahead:
            return self.sock.recv(min(most, _PIECE))
        data, self._ahead = self._ahead[:most], self._ahead[most:]
        return data

    @property
    def ahead(self) -> bool:
        """Whether bytes were read that nobody has taken."""
        return bool(self._ahead)


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers of a message; ``raw`` is what came over the wire."""

    first: str
    headers: dict[str, str]
    raw: tuple[bytes, ...]

    def wire(self, *without: str) -> bytes:
        """To send on, unchanged but for left out headers."""
        names = [name.encode() for name in without]
        kept = (line for line in self.raw if line.partition(b":")[0].strip().lower() not in names)
        return b"".join(kept) + b"\r\n"

    @property
    def closes(self) -> bool:
        """Whether the sender closes the connection after this message."""
        said = self.headers.get("connection", "").lower()
        return "close" in said or (self.first.endswith("HTTP/1.0") and "keep-alive" not in said)


def read_head(reader: Reader) -> Head | None:
    """The next message's head; None when the stream has ended."""
    first = reader.line()
    if not first:
        return None
    raw, headers = [first], dict[str, str]()
    while line := reader.line():
        if line in (b"\r\n", b"\n"):
            return Head(first.decode("latin-1").strip(), headers, tuple(raw))
        raw.append(line)
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raise EarlyEndError("in the middle of a head")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a body, and how they look on the wire (chunked bodies have frames)."""

    data: bytes
    front: bytes = b""
    back: bytes = b""

    def wire(self, most: int | None = None) -> bytes:
        """All of it, or as much as has so many bytes of the body."""
        if most is not None and most < len(self.data):
            return self.front + self.data[:most]
        return self.front + self.data + self.back


def pieces(reader: Reader, head: Head, *, answer: bool = False) -> Iterator[Piece]:
    """The body that follows a head.

    Args:
        answer: one without a length reaches to the end of the stream.

    Raises:
        EarlyEndError: the stream ended too early.
    """
    if "chunked" in head.headers.get("transfer-encoding", "").lower():
        yield from _chunks(reader)
    elif "content-length" in head.headers:
        left = int(head.headers["content-length"])
        while left:
            data = reader.some(left)
            if not data:
                raise EarlyEndError("in the middle of a body")
            left -= len(data)
            yield Piece(data)
    elif answer:
        while data := reader.some(_PIECE):
            yield Piece(data)


def _chunks(reader: Reader) -> Iterator[Piece]:
    while size_line := reader.line():
        left = int(size_line.split(b";")[0], 16)
        if not left:
            trailer = [size_line]
            while line := reader.line():
                trailer.append(line)
                if line in (b"\r\n", b"\n"):
                    yield Piece(b"", b"".join(trailer))
                    return
            break
        frame = size_line
        while left:
            data = reader.some(left)
            if not data:
                raise EarlyEndError("in the middle of a chunk")
            left -= len(data)
            yield Piece(data, frame, b"" if left else reader.line())
            frame = b""
    raise EarlyEndError("in the middle of a chunked body")
