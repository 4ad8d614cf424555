"""HTTP to one ClickHouse server: connections kept while idle, requests streamed and ended any time.

Made of the standard library's client, because an exchange has to be ended from another thread (a
stalled middle box never lets a blocking read return), has to notice an answer that comes before
its data are sent, and keeps a body alive whose data pause: all of that needs the socket itself.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import select
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote_plus, urlencode

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.core.masked import Secret
from rowfall.engines.base import Body

# A server that is up accepts in milliseconds; 10 s covers a far one that lost a SYN twice.
CONNECT_SECONDS = 10.0
# A peer that vanished without a word is noticed after 30 + 6 x 10 s, while a healthy one may
# work on a statement for hours without sending a byte.
KEEPALIVE_IDLE, KEEPALIVE_EVERY, KEEPALIVE_TIMES = 30, 10, 6
# The same 90 s for bytes that are not acknowledged; Linux by itself would try for 15 minutes.
UNACKNOWLEDGED_MS = 90_000
# Load balancers that say nothing about keep-alive close idle connections after 5 s or more.
IDLE_SECONDS = 5.0
# More idle connections than lanes anybody uses only hold descriptors.
IDLE_CONNECTIONS = 16


# Files go out in pieces that are large against system calls and small against memory.
PIECE = 1 << 20
# A server refuses a field of a form of 128 KiB, or a parameter that is as long as it stands in a
# URL (http_max_field_value_size).
LONGEST_FIELD = 100 << 10
# An exception that arrives behind result rows is at the very end; its text is shorter than this.
TAIL = 1 << 16


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server, user and password; the password is sent in a header only."""

    host: str
    port: int
    tls: bool = False
    user: str = ""
    password: Secret | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def headers(self) -> dict[str, str]:
        if not self.user:
            return {}
        # Basic, not X-ClickHouse-Key: every character of a password survives base64, and no
        # library error can quote it.
        key = f"{self.user}:{self.password.reveal() if self.password else ''}".encode()
        return {"Authorization": "Basic " + base64.b64encode(key).decode()}


class HttpReply(Protocol):
    """The part of ``http.client.HTTPResponse`` that is used."""

    @property
    def status(self) -> int: ...

    def getheaders(self) -> list[tuple[str, str]]: ...

    def read(self, amt: int | None = None, /) -> bytes: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """The part of ``http.client.HTTPConnection`` that is used."""

    @property
    def sock(self) -> Any: ...

    def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], /
    ) -> None: ...

    def putrequest(self, method: str, url: str, /) -> None: ...

    def putheader(self, name: str, value: str, /) -> None: ...

    def endheaders(self) -> None: ...

    def send(self, data: bytes, /) -> None: ...

    def getresponse(self) -> HttpReply: ...

    def close(self) -> None: ...


class Connections:
    """Connections to one address, kept while idle; safe for threads."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[tuple[float, Connection]] = []
        self._guard = threading.Lock()
        self._closed = False
        self._tls = ssl.create_default_context() if address.tls else None

    def take(self, timeout: float | None) -> Connection:
        """Return a connection that was alive a moment ago, or a new one.

        Args:
            timeout: seconds that a read may take; None to wait as long as the peer is alive.

        Raises:
            TargetError: no connection; transient when trying again may help.
        """
        connection = self._waiting() or self._connect()
        connection.sock.settimeout(timeout)
        return connection

    def give(self, connection: Connection, headers: Mapping[str, str]) -> None:
        """Keep a connection for the next request, unless the server said that it will close it."""
        said = headers.get("keep-alive", "").partition("timeout=")[2].partition(",")[0]
        # Half of what the server promises: a request that crosses its close would be lost.
        seconds = int(said) / 2 if said.isdigit() else IDLE_SECONDS
        # http.client has taken the socket away where the answer ended with the connection.
        closes = headers.get("connection", "").lower() == "close" or connection.sock is None
        with self._guard:
            if not (closes or self._closed) and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append((time.monotonic() + seconds, connection))
                return
        connection.close()

    def close(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _waiting(self) -> Connection | None:
        while True:
            with self._guard:
                if not self._idle:
                    return None
                until, connection = self._idle.pop()
            # An idle connection has nothing to say; readable means that the server closed it.
            if time.monotonic() < until and not readable(connection.sock):
                return connection
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=self._tls)
        )
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise _unreachable(self.address, error) from None
        _keep_alive(connection.sock)
        return connection


def readable(sock: socket.socket) -> bool:
    """Tell whether the peer has sent something, or has closed."""
    poll = select.poll()  # select() cannot take descriptors above 1023
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def reason(error: Exception) -> str:
    """Return the cause of a broken connection in words, as "no answer in time"."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the server closed the connection without an answer"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended in the middle of the answer"
    if isinstance(error, http.client.BadStatusLine):
        return "the answer is not HTTP"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _keep_alive(sock: socket.socket) -> None:
    """Have the kernel notice a dead peer although a statement may be silent for hours."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
        ("TCP_KEEPALIVE", KEEPALIVE_IDLE),  # what macOS calls it
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY),
        ("TCP_KEEPCNT", KEEPALIVE_TIMES),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _unreachable(address: Address, error: OSError) -> TargetError:
    where = f"cannot connect to the ClickHouse server at {address}"
    if isinstance(error, socket.gaierror):
        return TargetError(
            f"{where}: the host name {address.host!r} is not known",
            hint="Check the spelling of the host.",
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return TargetError(
            f"{where}: its certificate is not trusted ({error.verify_message})",
            hint="Use the name that the certificate was made for; name a private authority "
            "with the environment variable SSL_CERT_FILE.",
        )
    if isinstance(error, ssl.SSLError):
        return TargetError(
            f"{where}: it does not speak TLS there ({error.reason or error})",
            hint="clickhouses:// wants the HTTPS port (8443 by default), clickhouse:// the HTTP "
            "port (8123).",
        )
    return TargetError(
        f"{where}: {reason(error)}",
        hint="Check that the server runs and that this is its HTTP port (8123 by default, "
        "8443 with TLS).",
        transient=True,
    )


class LostConnection(Exception):  # noqa: N818 - no error yet: the outcome of the statement is open
    """Says that a connection broke after the request may have reached the server.

    Args:
        cause: for people, e.g. ``connection reset by peer``.
        complete: the whole request was out, so the statement may be running or done.
        streamed: the request carried the data of an insert.
        ask_after: seconds after which a proxy that answered that it, or the server, is busy wants
            to be asked again; None where the connection broke.
    """

    def __init__(
        self, cause: str, *, complete: bool, streamed: bool = False, ask_after: float | None = None
    ) -> None:
        super().__init__(cause)
        self.cause = cause
        self.ask_after = ask_after
        self.complete = complete
        self.streamed = streamed


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer. ``headers`` have lower-case names; ``data`` is the end only when streamed."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def from_clickhouse(self) -> bool:
        """False for the error pages of proxies and for servers of another kind."""
        return any(name.startswith("x-clickhouse-") for name in self.headers)

    def failure(self) -> str | None:
        """Return the server's exception text, None when there is none.

        A status of 200 proves nothing: some versions report a failed read of the body in a header
        of an empty 200, and all of them report late exceptions behind the rows.
        """
        code = self.headers.get("x-clickhouse-exception-code", "")
        if self.status >= 400 or code:
            text = self.data.decode(errors="replace").strip()
            return text if "Code: " in text else f"Code: {code or 0}. DB::Exception: {text}"
        tag = self.headers.get("x-clickhouse-exception-tag", "")
        mark = f"__exception__\r\n{tag}\r\n".encode()
        at = self.data[-TAIL:].rfind(mark) if tag else -1
        if at < 0:
            return None
        # The frame is: mark, text, then length and tag again.
        text = self.data[-TAIL:][at + len(mark) :].decode(errors="replace")
        return text.rsplit(tag, 1)[0].rsplit("\n", 1)[0].strip()


class Exchange:
    """One request and its answer, performed by :meth:`start` in a thread of its own.

    Args:
        parameters: of the URL.
        body: the statement, or the data of an insert (streamed, chunked).
        encoding: ``Content-Encoding`` of the data, "" for none.
        out: descriptor that gets the answer's body; None collects it.
        timeout: see :meth:`Connections.take`.

    Attributes:
        sent: bytes of the body that have been sent.
        complete: the whole request is out.
        answered: the head of the answer is here.
        own_fault: the body could not be read; its exception is the result.
    """

    def __init__(
        self,
        connections: Connections,
        parameters: Mapping[str, str],
        body: bytes | Body,
        *,
        encoding: str = "",
        out: int | None = None,
        timeout: float | None = None,
    ) -> None:
        self._connections = connections
        self._url = "/?" + urlencode(parameters)
        self._body = body
        self._encoding = encoding
        self._out = out
        self._timeout = timeout
        self._connection: Connection | None = None
        self._cut = False
        self._done = threading.Event()
        self._result: HttpAnswer | BaseException = ValueError("nothing was asked yet")
        self.sent = 0
        self.complete = self.answered = self.own_fault = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="rowfall-http", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait for at most ``seconds``; return True when it has ended."""
        return self._done.wait(seconds)

    def cut(self) -> None:
        """End the exchange now, whatever it is doing; :meth:`result` then raises Lost."""
        self._cut = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # it has gone already
                connection.sock.shutdown(socket.SHUT_RDWR)

    def result(self) -> HttpAnswer:
        """Wait for the answer.

        Raises:
            Lost: the connection broke.
            TargetError: there was none.
            BaseException: whatever reading the body raised.
        """
        self._done.wait()
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def perform(self) -> HttpAnswer:
        """Do :meth:`start` and :meth:`result` in the caller's thread."""
        self._run()
        return self.result()

    def _run(self) -> None:
        try:
            self._result = self._exchange()
        except BaseException as error:
            self._result = error
        finally:
            self._done.set()

    def _exchange(self) -> HttpAnswer:
        connection = self._connection = self._connections.take(self._timeout)
        whole = False
        try:
            if self._cut:
                raise LostConnection("ended from this side", complete=False)
            whole = self._send(connection)
            answer = self._receive(connection)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # The last two are what http.client raises when cut() takes the socket away.
            connection.close()
            if self.own_fault:
                raise
            streamed = not isinstance(self._body, bytes)
            raise LostConnection(reason(error), complete=self.complete, streamed=streamed) from None
        except BaseException:
            connection.close()
            raise
        if whole:
            self._connections.give(connection, answer.headers)
        else:
            connection.close()
        return answer

    def _send(self, connection: Connection) -> bool:
        """Send the request; return True when the connection can be used again."""
        headers = self._connections.address.headers()
        if isinstance(self._body, bytes):
            if isinstance(self._body, MultipartForm):
                headers["Content-Type"] = self._body.kind
            connection.request("POST", self._url, self._body, headers)
            self.sent, self.complete = len(self._body), True
            return True
        connection.putrequest("POST", self._url)
        # With Connection: close a server that cannot use the data says so at once; with
        # keep-alive it would first read all of the body, which can be hours of it.
        headers |= {"Transfer-Encoding": "chunked", "Connection": "close"}
        if self._encoding:
            headers["Content-Encoding"] = self._encoding
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        self._stream(connection, self._body)
        return False

    def _stream(self, connection: Connection, body: Body) -> None:
        left = pieces(body)
        while True:
            try:
                piece = next(left, None)
            except BaseException:
                self.own_fault = True
                raise
            # TLS has records of its own that make a socket readable.
            if not self._connections.address.tls and readable(connection.sock):
                return  # the answer came early: it will say why
            try:
                if piece is None:
                    connection.send(b"0\r\n\r\n")
                    self.complete = True
                    return
                if not piece:
                    # A leading zero of the next chunk's size: nothing, but a sign of life. The
                    # server gives up a body that is silent for 30 s, whatever it is asked to do.
                    connection.send(b"0")
                    continue
                connection.send(b"%x\r\n" % len(piece))
                connection.send(piece)
                connection.send(b"\r\n")
            except OSError:
                if self._cut:
                    raise
                return  # what the server said before it closed can still be read
            self.sent += len(piece)

    def _receive(self, connection: Connection) -> HttpAnswer:
        # The answer holds the socket by itself when it is the last of its connection.
        with contextlib.closing(connection.getresponse()) as response:
            return self._read(response)

    def _read(self, response: HttpReply) -> HttpAnswer:
        self.answered = True
        headers = {name.lower(): value for name, value in response.getheaders()}
        failed = response.status >= 400 or "x-clickhouse-exception-code" in headers
        if self._out is None or failed:
            return HttpAnswer(response.status, headers, response.read())
        tail = b""
        while piece := response.read(PIECE):
            tail = (tail + piece)[-TAIL:]
            self.own_fault = True  # a reader that has gone is no fault of the network
            _write(self._out, piece)
            self.own_fault = False
        return HttpAnswer(response.status, headers, tail)


class Download:
    """The answer to one statement, given in pieces to who iterates over it.

    Args:
        parameters: of the URL.
        timeout: see :meth:`Connections.take`.

    Attributes:
        answer: after the last piece, or where there are none as the statement failed: what the
            server said, with the end of its rows.
    """

    def __init__(
        self,
        connections: Connections,
        parameters: Mapping[str, str],
        statement: str,
        timeout: float | None,
    ) -> None:
        self._connections = connections
        self._url = "/?" + urlencode(parameters)
        self._statement = statement.encode()
        self._timeout = timeout
        self.answer: HttpAnswer | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Give the rows in pieces.

        Raises:
            Lost: the connection broke, or ended before the rows did.
            TargetError: there was none.
        """
        connection = self._connections.take(self._timeout)
        whole = False
        try:
            headers = self._connections.address.headers()
            connection.request("POST", self._url, self._statement, headers)
            with contextlib.closing(connection.getresponse()) as response:
                yield from self._pieces(response)
            whole = True
        except (OSError, http.client.HTTPException) as error:
            raise LostConnection(reason(error), complete=True) from None
        finally:
            if not whole:
                connection.close()
        assert self.answer is not None  # noqa: S101 - all pieces are here
        self._connections.give(connection, self.answer.headers)

    def _pieces(self, response: HttpReply) -> Iterator[bytes]:
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.status >= 400 or "x-clickhouse-exception-code" in headers:
            self.answer = HttpAnswer(response.status, headers, response.read())
            return
        tail = b""
        try:
            while piece := response.read(PIECE):
                tail = (tail + piece)[-TAIL:]
                yield piece
        except http.client.IncompleteRead as error:
            # Some versions end the connection behind the text of the exception.
            answer = HttpAnswer(response.status, headers, (tail + error.partial)[-TAIL:])
            if answer.failure() is None:
                raise
            self.answer = answer
            return
        self.answer = HttpAnswer(response.status, headers, tail)


def is_long(statement: bytes) -> bool:
    """Tell whether a statement does not fit a parameter of a URL."""
    if len(statement) * 3 <= LONGEST_FIELD:
        return False
    return len(quote_plus(statement)) > LONGEST_FIELD


class MultipartForm(bytes):
    """A body that holds a statement and named pieces of data (multipart/form-data).

    Attributes:
        statement, parts: what it holds, for those who cannot send it as it is.
        kind: its ``Content-Type``.
    """

    statement: bytes
    parts: Mapping[str, bytes]
    kind: str


def form(statement: bytes, parts: Mapping[str, bytes]) -> MultipartForm:
    """Return a statement and named pieces of data as one body.

    The server joins fields of the name ``query``, of which each may be so long.
    """
    mark = f"rowfall-{uuid.uuid4().hex}"
    lines: list[bytes] = []
    for start in range(0, len(statement), LONGEST_FIELD):
        field = statement[start : start + LONGEST_FIELD]
        lines += [f"--{mark}".encode(), b'Content-Disposition: form-data; name="query"', b"", field]
    for name, data in parts.items():
        place = f'Content-Disposition: form-data; name="{name}"; filename="{name}"'
        lines += [f"--{mark}".encode(), place.encode(), b"", data]
    lines += [f"--{mark}--".encode(), b""]
    made = MultipartForm(b"\r\n".join(lines))
    made.statement, made.parts = statement, parts
    made.kind = f"multipart/form-data; boundary={mark}"
    return made


def pieces(body: Body) -> Iterator[bytes]:
    """Give the pieces of a body as they are sent."""
    if hasattr(body, "read"):
        while piece := body.read(PIECE):
            yield piece
    else:
        yield from body


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
