"""Requests for the live page of a load, by the HTTP server of the standard library.

Imported when the first one comes: with what it brings (http.client, email, ssl) that is 20 CPU-ms,
which a load that nobody looks at need not spend.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer
from typing import Any, Protocol

# Requests are a line and some headers from this machine.
REQUEST_SECONDS = 10.0


class WatchedPage(Protocol):
    """Shows a load to whoever has the token of its page."""

    def allows(self, path: str, host: str) -> bool:
        """Tell whether a request has the token, and means this machine."""

    def html(self) -> str:
        """Return the page as it is now."""

    def follow(self, known: int, send: Callable[[bytes], None]) -> None:
        """Send states as they change, those behind a number, until the load has ended."""


class PageRequest(BaseHTTPRequestHandler):
    """Answers GET /TOKEN/ and GET /TOKEN/events once; everything else is refused."""

    timeout = REQUEST_SECONDS
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rowfall", ""

    def __init__(self, page: WatchedPage, request: Any, address: Any, server: BaseServer) -> None:
        self._page = page
        super().__init__(request, address, server)

    def parse_request(self) -> bool:
        known = super().parse_request()
        if known and self.request_version == "HTTP/0.9":
            self.send_error(HTTPStatus.BAD_REQUEST)
            return False
        return known

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if not self._page.allows(self.path, self.headers.get("Host", "")):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        what = self.path.partition("?")[0].lstrip("/").partition("/")[2]
        if self.command != "GET":
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        elif what == "":
            body = self._page.html().encode("utf-8", "backslashreplace")
            self._head(HTTPStatus.OK, "text/html; charset=utf-8", len(body))
            self.wfile.write(body)
        elif what == "events":
            self._head(HTTPStatus.OK, "text/event-stream")
            known = self.headers.get("Last-Event-ID", "")
            number = int(known) if len(known) < 20 and known.isdecimal() else 0
            with suppress(OSError):  # whoever looked has gone
                self._page.follow(number, self._send)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send(self, data: bytes) -> None:
        self.wfile.write(data)

    def _head(self, status: HTTPStatus, kind: str, size: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if size is not None:
            self.send_header("Content-Length", str(size))
        for name, value in (
            ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY"),
            ("Cross-Origin-Resource-Policy", "same-origin"), ("Connection", "close"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request, also one that the library cannot read; no text of it is repeated."""
        self.request_version = "HTTP/1.1"  # by default 0.9, whose answers have no status
        status = HTTPStatus(code)
        body = f"{status.value} {status.phrase}\n".encode()
        self._head(status, "text/plain", len(body))
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the token is in the path."""
