"""HTTP/1.1 to a server, as much of it as a server of ClickHouse and proxies in front of it speak.

The standard library's client imports the parser of electronic mail and OpenSSL, and parses the head
of each answer as a mail: a tenth of the CPU of a small load, which asks forty questions.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import io
    import ssl

# Of a line of a head, and lines of it: as the standard library allows, and proxies add some.
_LONGEST_LINE, _MOST_LINES = 1 << 16, 256
# A request of up to so many bytes is one packet or a few, and one system call.
_AT_ONCE = 64 << 10
_DEFAULT_PORTS = {False: 80, True: 443}


class HttpError(Exception):
    """Says that a connection did not give an answer."""


class NoHttpError(HttpError):
    """Says that what came is no HTTP."""


class DisconnectedError(HttpError):
    """Says that the peer closed the connection without an answer."""


class CutShortError(HttpError):
    """Says that the connection ended in the middle of an answer.

    Args:
        partial: what came of it and was not given to anybody.
    """

    def __init__(self, partial: bytes = b"") -> None:
        super().__init__("the answer is cut short")
        self.partial = partial


class HttpConnection:
    """A connection, over which requests go one after the other.

    Args:
        timeout: seconds to connect, and of each read and write until the socket gets another one.
        tls: for HTTPS.

    Attributes:
        sock: None once it is closed, or given to an answer that ends with it.
    """

    def __init__(
        self, host: str, port: int, timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        plain = host.encode("idna").decode() if not host.isascii() else host
        named = f"[{plain}]" if ":" in plain else plain
        self._host = named if port == _DEFAULT_PORTS[tls is not None] else f"{named}:{port}"
        self._place, self._timeout, self._tls = (host, port), timeout, tls
        self.sock: socket.socket | None = None
        self._head: list[str] = []

    def connect(self) -> None:
        """Connect.

        Raises:
            OSError: there is no connection.
        """
        host, port = self._place
        # A text goes through the rules of names in other letters, which take 2 ms to import.
        place: tuple[Any, int] = (host.encode() if host.isascii() else host, port)
        self.sock = socket.create_connection(place, self._timeout)
        # What is sent is a whole request; the kernel would wait for more of it.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=host)

    def request(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a whole request.

        Raises:
            OSError: it could not be sent.
        """
        self.putrequest(method, url)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.putheader(name, value)
        if len(body) <= _AT_ONCE:
            self.send(self._taken_head() + body)
        else:
            self.endheaders()
            self.send(body)

    def putrequest(self, method: str, url: str) -> None:
        self._head = [f"{method} {url} HTTP/1.1"]
        self.putheader("Host", self._host)
        self.putheader("Accept-Encoding", "identity")

    def putheader(self, name: str, value: str) -> None:
        """Add a header.

        Raises:
            ValueError: it would be several.
        """
        if "\n" in value or "\r" in value:
            raise ValueError(f"a line break in the header {name}")
        self._head.append(f"{name}: {value}")

    def endheaders(self) -> None:
        self.send(self._taken_head())

    def _taken_head(self) -> bytes:
        head = "\r\n".join([*self._head, "", ""]).encode("latin-1")
        self._head = []
        return head

    def send(self, data: bytes) -> None:
        self._open().sendall(data)

    def getresponse(self) -> HttpResponse:
        """Wait for the head of an answer.

        Raises:
            OSError: the connection broke. HttpError: there is none.
        """
        sock = self._open()
        response = HttpResponse(sock.makefile("rb"))
        try:
            response.begin()
        except BaseException:
            response.close()
            raise
        if response.closes:
            self.sock, response.sock = None, sock
        return response

    def _open(self) -> socket.socket:
        if self.sock is None:
            raise OSError("the connection is closed")
        return self.sock

    def close(self) -> None:
        sock, self.sock = self.sock, None
        if sock is not None:
            sock.close()


class HttpResponse:
    """An answer, whose body is read after its head.

    Attributes:
        status: 200, ...
        closes: the connection ends with it.
        sock: of a connection that ends with it; closed with the answer.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._headers: list[tuple[str, str]] = []
        # Bytes that are left, of the chunk if there are chunks; None up to the end of the stream.
        self._left: int | None = 0
        self._chunked = False
        self.status = 0
        self.closes = False
        self.sock: socket.socket | None = None

    def begin(self) -> None:
        """Read the head."""
        first = self._line()
        if not first:
            raise DisconnectedError("no answer")
        while (version := self._read_status(first)) and 100 <= self.status < 200:
            self._read_headers()  # one more answer follows, the last one
            first = self._line()
        self._read_headers()
        headers = {name.lower(): value for name, value in self._headers}
        said = headers.get("connection", "").lower()
        self.closes = "close" in said or (version == "HTTP/1.0" and "keep-alive" not in said)
        length = headers.get("content-length", "")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunked = True
        elif self.status in (204, 304):
            self._left = 0
        elif length.isascii() and length.isdigit():
            self._left = int(length)
        else:
            self._left, self.closes = None, True

    def getheaders(self) -> list[tuple[str, str]]:
        return self._headers

    def read(self, amt: int | None = None) -> bytes:
        """Return the next bytes of the body, some up to ``amt``; b"" at its end. All by default.

        Raises:
            OSError: the connection broke. CutShortError: it ended before the body. NoHttpError: no
                size is where one of a chunk has to be.
        """
        if amt is not None:
            return self._some(amt)
        pieces: list[bytes] = []
        try:
            while piece := self._some(_AT_ONCE):
                pieces.append(piece)
        except CutShortError as error:
            raise CutShortError(b"".join(pieces) + error.partial) from None
        return b"".join(pieces)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # nothing is left to lose
            self._file.close()
        if self.sock is not None:
            self.sock.close()

    def _some(self, most: int) -> bytes:
        if self._chunked and self._left == 0:
            self._next_chunk()
        if self._left == 0:
            return b""
        wanted = most if self._left is None else min(most, self._left)
        piece = self._file.read1(wanted)
        if self._left is None:
            if not piece:
                self._end()
            return piece
        if not piece:
            raise CutShortError
        self._left -= len(piece)
        if self._left == 0 and not self._chunked:
            self._end()
        elif self._left == 0 and self._line() not in (b"\r\n", b"\n"):
            raise CutShortError(piece)
        return piece

    def _end(self) -> None:
        """Let go of the connection, which others may use now: nothing is left to read."""
        self._left, self._chunked = 0, False
        self.close()

    def _next_chunk(self) -> None:
        line = self._line()
        if not line.endswith(b"\n"):
            raise CutShortError
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError:
            raise NoHttpError("a chunk without a size") from None
        if self._left < 0:
            raise NoHttpError("a chunk of fewer than no bytes")
        if self._left == 0:
            while self._line() not in (b"\r\n", b"\n", b""):
                pass  # what follows is nothing that anybody asks for
            self._end()

    def _line(self) -> bytes:
        line = self._file.readline(_LONGEST_LINE + 1)
        if len(line) > _LONGEST_LINE:
            raise NoHttpError("a line of more than 64 KiB")
        return line

    def _read_status(self, line: bytes) -> str:
        """Read the first line of a head; return the version of HTTP."""
        version, _, rest = line.decode("latin-1").strip().partition(" ")
        status = rest[:3]
        if not (version.startswith("HTTP/") and status.isdigit() and len(status) == 3):
            raise NoHttpError("no status")
        self.status = int(status)
        return version

    def _read_headers(self) -> None:
        self._headers = []
        for _ in range(_MOST_LINES):
            line = self._line()
            if line in (b"\r\n", b"\n"):
                return
            if not line.endswith(b"\n"):
                raise DisconnectedError("no whole head")
            text = line.decode("latin-1").rstrip("\r\n")
            if text[:1] in " \t" and self._headers:  # goes on with the one before it
                name, value = self._headers.pop()
                self._headers.append((name, f"{value} {text.strip()}"))
                continue
            name, colon, value = text.partition(":")
            if not colon:
                raise NoHttpError("a header without a value")
            self._headers.append((name.strip(), value.strip()))
        raise NoHttpError(f"more than {_MOST_LINES} lines of headers")
