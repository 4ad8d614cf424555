"""An HTTP proxy on 127.0.0.1 whose script says for each request what goes wrong with it.

It stands in front of one service (ClickHouse or S3), counts requests and passes them on as they
are, the Host header included, so signatures stay valid. Bodies stream in both directions.

    with Faulty(server.http_port) as proxy:
        proxy.script = nth(3, Fault(before=process.kill, reset="before"))
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from lab.wire import EarlyEndError, Head, Piece, Reader, pieces, read_head

_RESET = struct.pack("ii", 1, 0)
_TICK_MS = 50
# A client that got its answer early stops sending at its leisure.
_DRAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as the script sees it.

    Attributes:
        number: from 1, in order of arrival.
        path: without the query, unquoted.
        query: the last value of each parameter.
        headers: names in lower case.
        head: the beginning of the body, at most 64 KiB of it.
    """

    number: int
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    head: bytes = field(repr=False, default=b"")

    @property
    def sql(self) -> str:
        """The statement, for requests to ClickHouse."""
        return self.query.get("query") or self.head.decode(errors="replace")

    def __str__(self) -> str:
        return f"{self.number} {self.method} {self.path} {' '.join(self.sql.split())[:120]}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one request; the fields work together, in this order.

    Attributes:
        stall: seconds before anything else.
        before: called when the request has arrived and nothing has been passed on.
        status: answer this, pass nothing on; with ``headers`` and ``body``.
        cut_request: pass on so many bytes of the request's body, then reset both sides.
        reset: both connections: ``before`` passing the request on, or ``after`` the service has
            answered, before the client sees a byte of it.
        after: called when the service has answered, before the client sees a byte of it.
        stall_answer: seconds in the middle of the answer (in front of its body).
        truncate: end the answer after so many bytes of its body, whatever it promised.
    """

    stall: float = 0.0
    before: Callable[[], object] | None = None
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut_request: int | None = None
    reset: Literal["", "before", "after"] = ""
    after: Callable[[], object] | None = None
    stall_answer: float = 0.0
    truncate: int | None = None


PASS = Fault()
Script = Callable[[Request], Fault | None]


def slow_down() -> Fault:
    """What S3 answers when it wants to be asked less often."""
    return _s3(503, "SlowDown", "Please reduce your request rate.")


def internal_error() -> Fault:
    """What S3 answers when it has failed."""
    return _s3(500, "InternalError", "We encountered an internal error. Please try again.")


def _s3(status: int, code: str, message: str) -> Fault:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{message}</Message><Resource>/</Resource>"
        "<RequestId>4442587FB7D0A2F9</RequestId></Error>"
    )
    headers = {"Content-Type": "application/xml", "x-amz-request-id": "4442587FB7D0A2F9"}
    return Fault(status=status, headers=headers, body=body.encode())


def exception(code: int, text: str, status: int = 500) -> Fault:
    """What ClickHouse answers to a statement that failed."""
    headers = {"X-ClickHouse-Exception-Code": str(code), "Content-Type": "text/plain"}
    body = f"Code: {code}. DB::Exception: {text}. (version 24.10.2.80 (official build))\n"
    return Fault(status=status, headers=headers, body=body.encode())


def nth(number: int, fault: Fault) -> Script:
    """The request with this number, counted from 1."""
    return lambda request: fault if request.number == number else None


def first(times: int, fault: Fault, of: Callable[[Request], bool] = lambda request: True) -> Script:
    """The first so many requests of a kind."""
    left = iter(range(times))
    guard = threading.Lock()

    def script(request: Request) -> Fault | None:
        with guard:
            return fault if of(request) and next(left, None) is not None else None

    return script


class Faulty:
    """Passes HTTP requests on to a port of a service. Use as context manager.

    Args:
        to: port of the service.
        script: asked for each request, maybe from several threads; None passes it on. Can be
            changed at any time.

    Attributes:
        port: of the proxy.
        requests: everything that came so far, in order of arrival.
        errors: what scripts and hooks raised; their requests were reset.
    """

    def __init__(self, to: int, script: Script | None = None) -> None:
        self.to = to
        self.script = script
        self.requests: list[Request] = []
        self.errors: list[BaseException] = []
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._links: dict[threading.Thread, _Link] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reset_count(self) -> None:
        """Numbers start at 1 again."""
        with self._guard:
            self.requests = []

    def cut(self) -> None:
        """Reset every open connection, now."""
        with self._guard:
            links = list(self._links.values())
        for link in links:
            link.reset()

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        with self._guard:
            threads = list(self._links)
        self.cut()
        for thread in threads:
            thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, seconds: float) -> None:
        """Sleep; where the proxy is closed meanwhile, the request is reset and not passed on.

        Raises:
            ConnectionAbortedError: it was closed.
        """
        if self._closing.wait(seconds):
            raise ConnectionAbortedError("the proxy is closed")

    def arrived(self, method: str, target: str, headers: Mapping[str, str], head: bytes) -> Fault:
        """Count a request and ask the script about it."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        with self._guard:
            number = len(self.requests) + 1
            request = Request(number, method, unquote(parts.path), query, headers, head)
            self.requests.append(request)
        return (self.script(request) if self.script else None) or PASS

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            link = _Link(self, client)
            thread = threading.Thread(target=self._run, args=(link,), daemon=True)
            with self._guard:
                self._links[thread] = link
            thread.start()

    def _run(self, link: _Link) -> None:
        try:
            link.serve()
        except OSError:
            link.reset()
        except BaseException as error:
            self.errors.append(error)
            link.reset()
        finally:
            link.close()
            with self._guard:
                self._links.pop(threading.current_thread(), None)


class _Link:
    """One connection of a client, and the one to the service that belongs to it."""

    def __init__(self, proxy: Faulty, client: socket.socket) -> None:
        self._proxy = proxy
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = Reader(client)
        self._service: Reader | None = None

    def serve(self) -> None:
        while (head := read_head(self._client)) is not None:
            if not self._one(head):
                return

    def reset(self) -> None:
        """Both sides see a reset, whatever they are doing."""
        for end in self._ends():
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    def close(self) -> None:
        for end in self._ends():
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # wakes up whoever reads it; sends nothing
            end.close()

    def _ends(self) -> list[socket.socket]:
        return [reader.sock for reader in (self._client, self._service) if reader is not None]

    def _one(self, head: Head) -> bool:
        """One request and its answer. Returns whether the connection goes on."""
        method, target = head.first.split()[:2]
        if "100-continue" in head.headers.get("expect", "").lower():
            self._client.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = pieces(self._client, head)
        begin = next(body, None)
        fault = self._proxy.arrived(method, target, head.headers, begin.data if begin else b"")
        self._proxy.wait(fault.stall)
        if fault.before is not None:
            fault.before()
        if fault.status:
            return self._answer(method, fault, body) and not head.closes
        if fault.reset == "before":
            self.reset()
            return False
        upload = _Upload(self._connect(), head.wire("expect"), begin, body, fault.cut_request)
        if upload.cut:
            self.reset()
            return False
        if not self._answered(upload):
            self.reset()
            return False
        return self._give_back(method, fault, upload) and not head.closes

    def _connect(self) -> socket.socket:
        """The service's side, new when it has closed the last one."""
        if self._service is not None:
            if not _readable(self._service.sock):
                return self._service.sock
            self._service.sock.close()
        service = socket.create_connection(("127.0.0.1", self._proxy.to), timeout=10)
        service.settimeout(None)
        service.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._service = Reader(service)
        return service

    def _answer(self, method: str, fault: Fault, body: Iterator[Piece]) -> bool:
        reason = HTTPStatus(fault.status).phrase
        lines = [f"HTTP/1.1 {fault.status} {reason}", f"Content-Length: {len(fault.body)}"]
        lines += [f"{name}: {value}" for name, value in fault.headers.items()]
        text = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._client.sock.sendall(text + (b"" if method == "HEAD" else fault.body))
        with contextlib.suppress(EarlyEndError):
            for _ in body:  # the client hears the answer, whether it has sent all or not
                pass
            return True
        return False

    def _answered(self, upload: _Upload) -> bool:
        """Wait for the answer; False when the client or the service has gone."""
        assert self._service is not None
        service, client = self._service.sock, self._client.sock
        while not self._service.ahead and not _readable(service, _TICK_MS):
            if upload.client_gone or (upload.done and _readable(client) and not _peek(client)):
                return False
        return True

    def _give_back(self, method: str, fault: Fault, upload: _Upload) -> bool:
        assert self._service is not None
        head = read_head(self._service)
        if head is None:  # closed without an answer
            self.reset()
            return False
        if fault.after is not None:
            fault.after()
        if fault.reset == "after":
            self.reset()
            return False
        client = self._client.sock
        client.sendall(head.wire())
        self._proxy.wait(fault.stall_answer)
        status = int(head.first.split()[1])
        bare = method == "HEAD" or status in (204, 304)
        left = fault.truncate
        for piece in () if bare else pieces(self._service, head, answer=True):
            if left is not None and len(piece.data) >= left:
                client.sendall(piece.wire(left))
                return False
            left = None if left is None else left - len(piece.data)
            client.sendall(piece.wire())
        if not upload.finish():
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_WR)
            upload.drain()
            return False
        framed = bare or "content-length" in head.headers or "transfer-encoding" in head.headers
        return framed and not head.closes


class _Upload:
    """Sends a request on; what does not fit in its first piece from a thread of its own.

    Attributes:
        cut: it was cut where the script wanted it.
        client_gone: the client closed in the middle of the body.
    """

    def __init__(
        self,
        to: socket.socket,
        head: bytes,
        begin: Piece | None,
        body: Iterator[Piece],
        most: int | None,
    ) -> None:
        self._to = to
        self._body = body
        self._left = most
        self.cut = self.client_gone = self._failed = False
        to.sendall(head)
        self._thread = threading.Thread(target=self._run, daemon=True)
        if begin is None:
            return
        self._send(begin)
        if self._left is None:
            self._thread.start()
        else:  # nobody waits for the answer of a request that will be cut
            self._run()
            self.cut = True

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def finish(self) -> bool:
        """Whether all of the body has been sent, after a moment's patience."""
        if self._thread.ident is not None:
            self._thread.join(0.2)
        return self.done and not self._failed and not self.client_gone

    def drain(self) -> None:
        if self._thread.ident is not None:
            self._thread.join(_DRAIN_SECONDS)

    def _run(self) -> None:
        try:
            while not self.cut and (piece := next(self._body, None)) is not None:
                if not self._failed:
                    self._send(piece)
        except OSError:
            self.client_gone = True

    def _send(self, piece: Piece) -> None:
        wire = piece.wire(self._left)
        if self._left is not None:
            self._left -= len(piece.data)
            self.cut = self._left <= 0
        try:
            self._to.sendall(wire)
        except OSError:
            self._failed = True  # an early answer may say why


def _readable(sock: socket.socket, milliseconds: int = 0) -> bool:
    if sock.fileno() < 0:
        raise ConnectionResetError  # closed from this side
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(milliseconds))


def _peek(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1, socket.MSG_PEEK)
    except OSError:
        return b""
