"""A small HTTP server whose answers a function gives; it remembers what it was asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Self

from lab.http import SilentServer

_STEP = 1 << 16
_RANGE = re.compile(r"bytes=(\d+)-(\d*)\Z")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; names of headers in lower case, ``path`` with its query."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. A ranged request gets its part of ``body``, where ``ranges``.

    ``endless``: its length is not said; the connection ends with it. ``chunked``: sent in chunks.
    ``drips``: seconds before each byte. ``cut``: bytes after which the connection ends.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    ranges: bool = True
    endless: bool = False
    chunked: bool = False
    drips: float = 0.0
    cut: int | None = None


class Scripted:
    """Answers on 127.0.0.1 by a function until :meth:`close`.

    Args:
        reply: asked for each request, maybe from several threads; ``If-Match`` is its business.

    Attributes:
        asked: every request so far.
    """

    def __init__(self, reply: Callable[[Asked], Reply]) -> None:
        self.asked: list[Asked] = []
        self.reply = reply
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_HEAD(self) -> None:
                scripted._answer(self)

            def do_GET(self) -> None:
                scripted._answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Tests read ``asked`` instead."""

        self._closing = threading.Event()
        self._server = SilentServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def host(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_port}"

    def url(self, path: str) -> str:
        return f"http://{self.host}/{path}"

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        asked = Asked(handler.command, handler.path, headers)
        self.asked.append(asked)
        reply = self.reply(asked)
        body, status, extra = reply.body, reply.status, dict(reply.headers)
        wanted = _RANGE.match(headers.get("range", ""))
        whole = not reply.ranges or reply.endless or reply.chunked
        if wanted and not whole and status == 200:
            start = int(wanted[1])
            stop = min(len(body), int(wanted[2]) + 1) if wanted[2] else len(body)
            extra["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
            body, status = body[start:stop], 206
        handler.send_response(status)
        if reply.endless:
            extra["Connection"] = "close"
        elif reply.chunked:
            extra["Transfer-Encoding"] = "chunked"
        else:
            extra["Content-Length"] = str(len(body))
        for name, value in extra.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            self._send(handler, reply, body)

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply, body: bytes) -> None:
        step = 1 if reply.drips else _STEP
        sent = body if reply.cut is None else body[: reply.cut]
        for at in range(0, len(sent), step):
            if reply.drips and self._closing.wait(reply.drips):
                return
            piece = sent[at : at + step]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if reply.chunked else piece)
        if reply.cut is not None:
            handler.close_connection = True
        elif reply.chunked:
            handler.wfile.write(b"0\r\n\r\n")
