"""A small real HTTP server for files: ranges, ETag, Last-Modified, conditional requests."""

from __future__ import annotations

import email.utils
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import quote, unquote, urlsplit

_RANGE = re.compile(r"bytes=(\d*)-(\d*)\Z")
_CHUNK = 1 << 16


class SilentServer(ThreadingHTTPServer):
    """Says nothing of clients that go away: stderr may be that of a command in this process."""

    def get_request(self) -> tuple[socket.socket, object]:
        """Send each packet at once: a body behind its header waited 40 ms for an acknowledgement.

        667 pages of a listing took 24 s in place of one.
        """
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class Web:
    """Serves the files of :attr:`root` on 127.0.0.1 until :meth:`close`.

    Attributes:
        root: put files here; a file replaced later gets another ETag.
        requests: ``(method, path, range header)`` of every request so far.
        bare: paths that are sent without ETag and Last-Modified.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rowfall-lab-web-")
        self.root = Path(self._folder.name)
        self.requests: list[tuple[str, str, str]] = []
        self.bare: set[str] = set()
        self._server = SilentServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def url(self, name: str) -> str:
        """The address of a file below :attr:`root`."""
        return f"{self.endpoint}/{quote(name)}"

    def put(self, name: str, body: bytes) -> str:
        """Write a file below :attr:`root`; returns its address."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return self.url(name)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        class Handler(_Files):
            root = self.root
            seen = self.requests
            bare = self.bare

        return Handler


class _Files(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30  # an idle connection does not keep its thread for ever
    root: Path
    seen: list[tuple[str, str, str]]
    bare: set[str]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Tests read ``requests`` instead."""

    def _answer(self, *, body: bool) -> None:
        wanted = self.headers.get("Range", "")
        self.seen.append((self.command, self.path, wanted))
        path = (self.root / unquote(urlsplit(self.path).path).lstrip("/")).resolve()
        if not path.is_relative_to(self.root.resolve()) or not path.is_file():
            self._empty(HTTPStatus.NOT_FOUND)
            return
        with path.open("rb") as file:
            self._send(file, wanted, body=body)

    def _send(self, file: BinaryIO, wanted: str, *, body: bool) -> None:
        stat = Path(str(file.name)).stat()
        etag = f'"{stat.st_size:x}-{stat.st_mtime_ns:x}"'
        modified = email.utils.formatdate(stat.st_mtime, usegmt=True)
        if self.headers.get("If-Match", etag) not in (etag, "*"):
            self._empty(HTTPStatus.PRECONDITION_FAILED)
            return
        if self.headers.get("If-None-Match") in (etag, "*"):
            self._empty(HTTPStatus.NOT_MODIFIED, ETag=etag)
            return
        # A range of another version makes no sense: If-Range then gets the whole file.
        if self.headers.get("If-Range", etag) not in (etag, modified):
            wanted = ""
        span = _span(wanted, stat.st_size)
        if span is None:
            self._empty(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
                **{"Content-Range": f"bytes */{stat.st_size}"},
            )
            return
        start, stop, partial = span
        self.send_response(HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK)
        if partial:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{stat.st_size}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Content-Type", "application/octet-stream")
        if self.path not in self.bare:
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", modified)
        self.end_headers()
        if body:
            self._copy(file, start, stop)

    def _copy(self, file: BinaryIO, start: int, stop: int) -> None:
        try:
            for chunk in _chunks(file, start, stop):
                self.wfile.write(chunk)
        except (BrokenPipeError, ConnectionResetError):  # the client had enough
            self.close_connection = True

    def _empty(self, status: HTTPStatus, **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", "0")
        self.end_headers()


def _span(wanted: str, size: int) -> tuple[int, int, bool] | None:
    """Half-open range and whether it is partial; None when it cannot be satisfied."""
    match = _RANGE.match(wanted)
    if match is None or match.groups() == ("", ""):
        return 0, size, False
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    return (start, stop, True) if start < stop else None


def _chunks(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    file.seek(start)
    while start < stop and (chunk := file.read(min(_CHUNK, stop - start))):
        start += len(chunk)
        yield chunk
