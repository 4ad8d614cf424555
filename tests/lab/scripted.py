"""A small HTTP server whose answers a function gives; it remembers what it was asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Self

from lab.http import SilentServer

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

    ``endless``: its length is not said; the connection ends with it.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    ranges: bool = True
    endless: bool = False


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
        if wanted and reply.ranges and not reply.endless and status == 200:
            start = int(wanted[1])
            stop = min(len(body), int(wanted[2]) + 1) if wanted[2] else len(body)
            extra["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
            body, status = body[start:stop], 206
        handler.send_response(status)
        if reply.endless:
            extra["Connection"] = "close"
        else:
            extra["Content-Length"] = str(len(body))
        for name, value in extra.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)
