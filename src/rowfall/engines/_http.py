"""One HTTP request to a ClickHouse server and its answer: streamed, and ended at any time.

The standard library's client, because an exchange has to be ended from another thread (a stalled
middle box never lets a blocking read return) and that needs the socket itself.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from rowfall.engines._connect import Connection, Connections, Reply, readable, reason
from rowfall.engines.base import Body

# Files go out in pieces that are large against system calls and small against memory.
PIECE = 1 << 20
# An exception that arrives behind result rows is at the very end; its text is shorter than this.
TAIL = 1 << 16


class Lost(Exception):  # noqa: N818 - no error yet: what happened to the statement is unknown
    """The connection broke after the request may have reached the server.

    Args:
        cause: for people, e.g. ``connection reset by peer``.
        complete: the whole request was out, so the statement may be running or done.
        streamed: the request carried the data of an insert.
    """

    def __init__(self, cause: str, *, complete: bool, streamed: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.complete = complete
        self.streamed = streamed


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``headers`` have lower-case names; ``data`` is the end only when streamed."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def from_clickhouse(self) -> bool:
        """False for the error pages of proxies and for servers of another kind."""
        return any(name.startswith("x-clickhouse-") for name in self.headers)

    def failure(self) -> str | None:
        """The server's exception text, None when there is none.

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
        own_fault: the body could not be read; what it raised is the result.
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
        self._result: Answer | BaseException = ValueError("nothing was asked yet")
        self.sent = 0
        self.complete = self.answered = self.own_fault = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="rowfall-http", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within ``seconds``."""
        return self._done.wait(seconds)

    def cut(self) -> None:
        """End it now, whatever it is doing; :meth:`result` then raises Lost."""
        self._cut = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # it has gone already
                connection.sock.shutdown(socket.SHUT_RDWR)

    def result(self) -> Answer:
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

    def perform(self) -> Answer:
        """:meth:`start` and :meth:`result` in the caller's thread."""
        self._run()
        return self.result()

    def _run(self) -> None:
        try:
            self._result = self._exchange()
        except BaseException as error:
            self._result = error
        finally:
            self._done.set()

    def _exchange(self) -> Answer:
        connection = self._connection = self._connections.take(self._timeout)
        whole = False
        try:
            if self._cut:
                raise Lost("ended from this side", complete=False)
            whole = self._send(connection)
            answer = self._receive(connection)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # The last two are what http.client raises when cut() takes the socket away.
            connection.close()
            if self.own_fault:
                raise
            streamed = not isinstance(self._body, bytes)
            raise Lost(reason(error), complete=self.complete, streamed=streamed) from None
        except BaseException:
            connection.close()
            raise
        if whole:
            self._connections.give(connection, answer.headers)
        else:
            connection.close()
        return answer

    def _send(self, connection: Connection) -> bool:
        """Send the request. Returns whether the connection can be used again."""
        headers = self._connections.address.headers()
        if isinstance(self._body, bytes):
            if isinstance(self._body, Form):
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
        pieces = _pieces(body)
        while True:
            try:
                piece = next(pieces, None)
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

    def _receive(self, connection: Connection) -> Answer:
        # The answer holds the socket by itself when it is the last of its connection.
        with contextlib.closing(connection.getresponse()) as response:
            return self._read(response)

    def _read(self, response: Reply) -> Answer:
        self.answered = True
        headers = {name.lower(): value for name, value in response.getheaders()}
        failed = response.status >= 400 or "x-clickhouse-exception-code" in headers
        if self._out is None or failed:
            return Answer(response.status, headers, response.read())
        tail = b""
        while piece := response.read(PIECE):
            tail = (tail + piece)[-TAIL:]
            self.own_fault = True  # a reader that has gone is no fault of the network
            _write(self._out, piece)
            self.own_fault = False
        return Answer(response.status, headers, tail)


class Form(bytes):
    """A body that holds named pieces of data (multipart/form-data).

    Attributes:
        parts: the same pieces, for those who cannot send it as it is.
        kind: its ``Content-Type``.
    """

    parts: Mapping[str, bytes]
    kind: str


def form(parts: Mapping[str, bytes]) -> Form:
    """Named pieces of data as one body."""
    mark = f"rowfall-{uuid.uuid4().hex}"
    lines: list[bytes] = []
    for name, data in parts.items():
        place = f'Content-Disposition: form-data; name="{name}"; filename="{name}"'
        lines += [f"--{mark}".encode(), place.encode(), b"", data]
    lines += [f"--{mark}--".encode(), b""]
    made = Form(b"\r\n".join(lines))
    made.parts, made.kind = parts, f"multipart/form-data; boundary={mark}"
    return made


def _pieces(body: Body) -> Iterator[bytes]:
    if hasattr(body, "read"):
        while piece := body.read(PIECE):
            yield piece
    else:
        yield from body


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
