"""A server of MySQL's protocol whose answers a function gives; it counts the rows of LOAD DATA.

It lets everybody in, remembers what it was asked, and throws rows away. Also a program: the target
of ``bench/push.py``.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy

# What a client may use: long password, connect with database, LOCAL INFILE, protocol 4.1,
# transactions, secure connection, several results, plug-ins for passwords.
_CAPABILITIES = 0x1 | 0x8 | 0x80 | 0x200 | 0x2000 | 0x8000 | 0x20000 | 0x80000
_SALT = b"12345678", b"123456789012"
_PLUGIN = b"mysql_native_password"
_TEXT, _UTF8 = 253, 45
_QUIT, _QUERY, _PING = 1, 3, 14
# A buffer stays in the cache.
_BUFFER, _LINE_END = 256 << 10, ord("\n")


@dataclass(frozen=True, slots=True)
class Rows:
    """A result; None is NULL."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]] = ()


@dataclass(frozen=True, slots=True)
class Fails:
    """An error."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Loads:
    """Ask for the rows of LOAD DATA LOCAL, and throw them away.

    Attributes:
        name: of the file that the server asks for, whatever the statement says.
    """

    name: str = "rows"


Answer = Rows | Fails | Loads | None
"""None: done."""

VARIABLES: Mapping[str, str] = {
    "version": "5.7.32", "memsql_version": "8.9.0", "local_infile": "ON",
    "max_allowed_packet": "104857600", "time_zone": "+00:00", "sql_mode": "STRICT_ALL_TABLES",
}  # fmt: skip


@dataclass
class Script:
    """Answers by the first pattern that a statement begins with; SHOW VARIABLES by itself."""

    answers: dict[str, Callable[[str], Answer] | Answer] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=lambda: VARIABLES)

    def __call__(self, text: str) -> Answer:
        for start, answer in self.answers.items():
            if text.upper().startswith(start.upper()):
                return answer(text) if callable(answer) else answer
        if text.upper().startswith("SHOW VARIABLES"):
            return Rows(("Variable_name", "Value"), tuple(self.variables.items()))
        if text.upper().startswith("LOAD DATA LOCAL"):
            return Loads()
        if text.upper().startswith(("SELECT", "SHOW")):
            return Rows(("nothing",))
        return None


class MySQLSink:
    """Answers on 127.0.0.1 until :meth:`close`.

    Args:
        reply: asked for each statement, maybe from several threads.

    Attributes:
        asked: every statement so far. ``rows``, ``bytes``: of LOAD DATA, so far.
    """

    def __init__(self, reply: Callable[[str], Answer] | None = None, port: int = 0) -> None:
        self.reply = reply or Script()
        self.asked: list[str] = []
        self.rows = self.bytes = 0
        self.guard = threading.Lock()
        scripted = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(ConnectionError, EOFError):  # the client has gone
                    _Session(scripted, self.request).run()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = allow_reuse_address = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def uri(self, database: str = "d", scheme: str = "singlestore") -> str:
        return f"{scheme}://loader:word-0123456789@127.0.0.1:{self.port}/{database}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Session:
    def __init__(self, server: MySQLSink, sock: socket.socket) -> None:
        self._server, self._sock = server, sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._bytes = numpy.frombuffer(self._buffer, dtype=numpy.uint8)
        self._ends = numpy.empty(_BUFFER, dtype=bool)
        self._number = 0

    def run(self) -> None:
        self._number = 0
        self._send(
            b"\x0a5.7.32\0" + struct.pack("<I", 1) + _SALT[0] + b"\0"
            + struct.pack("<HBHHB", _CAPABILITIES & 0xFFFF, _UTF8, 2, _CAPABILITIES >> 16, 21)
            + b"\0" * 10 + _SALT[1] + b"\0" + _PLUGIN + b"\0"
        )  # fmt: skip
        self._read()
        self._ok()
        while True:
            self._number = 0
            command = self._read()
            if command[:1] == bytes([_QUIT]):
                return
            if command[0] == _QUERY:
                self._answer(command[1:].decode(errors="replace"))
            else:
                self._ok()

    def _answer(self, text: str) -> None:
        with self._server.guard:
            self._server.asked.append(text)
        answer = self._server.reply(text)
        if answer is None:
            self._ok()
        elif isinstance(answer, Fails):
            self._send(
                b"\xff" + struct.pack("<H", answer.number) + b"#HY000" + answer.text.encode()
            )
        elif isinstance(answer, Rows):
            self._result(answer)
        else:
            self._load(answer.name)

    def _result(self, answer: Rows) -> None:
        self._send(_length(len(answer.columns)))
        for column in answer.columns:
            name = _string(column)
            self._send(
                _string("def") + _string("") * 3 + name + name + b"\x0c"
                + struct.pack("<HIBHB", _UTF8, 1024, _TEXT, 0, 0) + b"\0\0"
            )  # fmt: skip
        self._end()
        for row in answer.rows:
            self._send(b"".join(b"\xfb" if v is None else _string(str(v)) for v in row))
        self._end()

    def _load(self, name: str) -> None:
        self._send(b"\xfb" + name.encode())
        rows = size = kept = left = 0
        ended = False
        while not ended:
            # What has come, however many packets that is: a call for each header and each body took
            # 0.14 s of CPU a GiB.
            got = self._sock.recv_into(self._view[kept:])
            if not got:
                raise EOFError
            at, end = 0, kept + got
            while at < end:
                if left:
                    part = min(left, end - at)
                    rows += self._lines(at, at + part)
                    left -= part
                    at += part
                elif end - at < 4:
                    break
                else:
                    left = self._header(self._view[at : at + 4])
                    size += left
                    at += 4
                    ended = not left
            kept = end - at
            self._view[:kept] = self._view[at:end]
        with self._server.guard:
            self._server.rows += rows
            self._server.bytes += size
        text = f"Records: {rows}  Deleted: 0  Skipped: 0  Warnings: 0".encode()
        self._send(b"\0" + _length(rows) + b"\0" + struct.pack("<HH", 2, 0) + text)

    # --- packets ------------------------------------------------------------------------------

    def _lines(self, start: int, end: int) -> int:
        """Count the lines that end in a range of the buffer."""
        # 0.1 s of CPU a GiB; bytes.count() takes 0.4 to 0.7, as much as all the rest.
        ends = numpy.equal(self._bytes[start:end], _LINE_END, out=self._ends[start:end])
        return int(numpy.count_nonzero(ends))

    def _header(self, header: memoryview) -> int:
        """Note the number of a packet; return the length of what follows."""
        self._number = (header[3] + 1) % 256
        return int.from_bytes(header[:3], "little")

    def _fill(self, size: int) -> memoryview:
        view = self._view[:size]
        done = 0
        while done < size:
            got = self._sock.recv_into(view[done:])
            if not got:
                raise EOFError
            done += got
        return view

    def _read(self) -> bytes:
        length = self._header(self._fill(4))
        found = b""
        while len(found) < length:
            found += bytes(self._fill(min(length - len(found), _BUFFER)))
        return found

    def _send(self, body: bytes) -> None:
        self._sock.sendall(len(body).to_bytes(3, "little") + bytes([self._number]) + body)
        self._number = (self._number + 1) % 256

    def _ok(self) -> None:
        self._send(b"\0\0\0" + struct.pack("<HH", 2, 0))

    def _end(self) -> None:
        self._send(b"\xfe" + struct.pack("<HH", 0, 2))


def _length(value: int) -> bytes:
    if value < 251:
        return bytes([value])
    return b"\xfe" + struct.pack("<Q", value)


def _string(text: str) -> bytes:
    data = text.encode()
    return _length(len(data)) + data


def main() -> None:
    # As servers say it, so that nobody measures the network to this machine.
    server = MySQLSink(Script(variables={**VARIABLES, "hostname": socket.gethostname()}))
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
