"""Requests for the live page of a load: a GET of the page, or of the states that follow it.

They are read here and not by the HTTP server of the standard library, whose modules (http.client,
email, ssl) cost a load that somebody looks at 17 CPU-ms, more than the page itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from socketserver import BaseServer, StreamRequestHandler
from typing import Any, Protocol

# Requests are a line and some headers from this machine.
REQUEST_SECONDS = 10.0
# Of a line, and lines: as the standard library has them. Browsers send some 15 headers.
MOST_LINE, MOST_HEADERS = 65_536, 100
_PHRASES = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 414: "URI Too Long", 431: "Request Header Fields Too Large",
}  # fmt: skip


class WatchedPage(Protocol):
    """Shows a load to whoever has the token of its page."""

    def allows(self, path: str, host: str) -> bool:
        """Tell whether a request has the token, and means this machine."""

    def html(self) -> str:
        """Return the page as it is now."""

    def follow(self, known: int, send: Callable[[bytes], None]) -> None:
        """Send states as they change, those behind a number, until the load has ended."""


class PageRequest(StreamRequestHandler):
    """Answers GET /TOKEN/ and GET /TOKEN/events once; everything else is refused."""

    timeout = REQUEST_SECONDS

    def __init__(self, page: WatchedPage, request: Any, address: Any, server: BaseServer) -> None:
        self._page = page
        super().__init__(request, address, server)

    def handle(self) -> None:
        with suppress(OSError):  # whoever asks has gone, or is silent for too long
            self._answer()

    def _answer(self) -> None:
        line = self.rfile.readline(MOST_LINE + 1)
        if len(line) > MOST_LINE:
            self._refuse(414)
            return
        words = line.decode("latin-1").split()
        if not words:
            return
        if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
            self._refuse(400)
            return
        headers = self._headers()
        if headers is None:
            self._refuse(431)
            return
        method, path, _ = words
        what = path.partition("?")[0].lstrip("/").partition("/")[2]
        if not self._page.allows(path, headers.get("host", "")):
            self._refuse(403)
        elif method != "GET":
            self._refuse(405)
        elif what == "":
            body = self._page.html().encode("utf-8", "backslashreplace")
            self._send(_head(200, "text/html; charset=utf-8", len(body)) + body)
        elif what == "events":
            self._send(_head(200, "text/event-stream"))
            known = headers.get("last-event-id", "")
            number = int(known) if len(known) < 20 and known.isdecimal() else 0
            self._page.follow(number, self._send)
        else:
            self._refuse(404)

    def _headers(self) -> dict[str, str] | None:
        """Return the headers by their names in small letters; None where they are too many."""
        found: dict[str, str] = {}
        for _ in range(MOST_HEADERS + 1):
            line = self.rfile.readline(MOST_LINE + 1)
            if len(line) > MOST_LINE:
                return None
            if line in (b"\r\n", b"\n", b""):
                return found
            name, _, value = line.decode("latin-1").partition(":")
            found.setdefault(name.lower(), value.strip())
        return None

    def _refuse(self, status: int) -> None:
        """Refuse a request; no text of it is repeated."""
        body = f"{status} {_PHRASES[status]}\n".encode()
        self._send(_head(status, "text/plain", len(body)) + body)

    def _send(self, data: bytes) -> None:
        self.wfile.write(data)


def _head(status: int, kind: str, size: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} {_PHRASES[status]}", f"Content-Type: {kind}"]
    if size is not None:
        lines.append(f"Content-Length: {size}")
    lines += [
        "Cache-Control: no-store", "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY",
        "Cross-Origin-Resource-Policy: same-origin", "Connection: close", "", "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode()
