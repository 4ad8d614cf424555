"""A server that speaks MySQL's protocol and answers by a script: for servers that cannot be had.

It takes any user and password. What it is asked it remembers; a statement that no pattern of the
script matches is an error of syntax.
"""

from __future__ import annotations

import re
import socketserver
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

_GREETING = (
    b"\x0a%s\0" + struct.pack("<I", 7) + b"saltsalt\0"
    # LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH.
    + b"\x09\xa2" + b"\x2d\x02\x00" + b"\x08\x00" + b"\x15" + b"\0" * 10
    + b"saltsaltsalt\0mysql_native_password\0"
)  # fmt: skip
_OK = b"\x00\x00\x00\x02\x00\x00\x00"
_EOF = b"\xfe\x00\x00\x02\x00"
_QUIT, _QUERY, _PING = 1, 3, 14
_INTEGER, _TEXT = 8, 253


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an answer. None is NULL; a column is of integers if its first value is one."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | bytes | int | None]] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """An error with its number."""

    number: int
    text: str


Answer = Rows | Refused | None
"""None: done, without rows."""


class ScriptedMySQL:
    """Listens on 127.0.0.1 until it is closed.

    Args:
        version: that it says it is.
        script: answers by patterns of whole statements; the first that matches counts.

    Attributes:
        asked: every statement so far.
    """

    def __init__(self, version: str, script: Mapping[str, Answer]) -> None:
        self.asked: list[str] = []
        self._script = [(re.compile(pattern, re.S | re.I), a) for pattern, a in script.items()]
        self._greeting = _GREETING % version.encode()
        scripted = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                scripted._serve(self)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: Any) -> None:
        def send(*bodies: bytes, first: int = 1) -> None:
            for number, body in enumerate(bodies, first):
                head = len(body).to_bytes(3, "little") + bytes([number % 256])
                handler.wfile.write(head + body)
            handler.wfile.flush()

        def receive() -> bytes:
            head = handler.rfile.read(4)
            return handler.rfile.read(int.from_bytes(head[:3], "little")) if len(head) == 4 else b""

        send(self._greeting, first=0)
        if not receive():
            return
        send(_OK, first=2)
        while (body := receive()) and body[0] != _QUIT:
            send(*(self._answer(body[1:].decode()) if body[0] == _QUERY else [_OK]))

    def _answer(self, statement: str) -> list[bytes]:
        self.asked.append(statement)
        found: Answer = Refused(1064, f"You have an error in your SQL syntax: {statement[:80]}")
        for pattern, answer in self._script:
            if pattern.fullmatch(statement.strip()):
                found = answer
                break
        if found is None:
            return [_OK]
        if isinstance(found, Refused):
            return [b"\xff" + struct.pack("<H", found.number) + b"#HY000" + found.text.encode()]
        first = found.rows[0] if found.rows else ("",) * len(found.columns)
        columns = [
            _column(name, _INTEGER if isinstance(value, int) else _TEXT)
            for name, value in zip(found.columns, first, strict=True)
        ]
        rows = [b"".join(map(_value, row)) for row in found.rows]
        return [bytes([len(columns)]), *columns, _EOF, *rows, _EOF]


def _column(name: str, type_: int) -> bytes:
    texts = b"".join(map(_value, ("def", "", "", "", name, name)))
    return texts + struct.pack("<BHIBHBH", 12, 45, 1024, type_, 0, 31, 0)


def _value(value: str | bytes | int | None) -> bytes:
    if value is None:
        return b"\xfb"
    data = value if isinstance(value, bytes) else str(value).encode()
    if len(data) <= 250:
        return bytes([len(data)]) + data
    return b"\xfc" + struct.pack("<H", len(data)) + data
