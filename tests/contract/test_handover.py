"""Connections that are handed to rowfall-decode: what it reads, and what is heard of it at its end.

The server is a scripted one, at the other end of a pair of sockets; real ones are in e2e.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowfall.decoder import installed
from rowfall.sources.handover import DatabaseAnswer, SocketPassing
from rowfall.systems.postgresql import rows as postgresql_rows

BEGIN = b"H\0\0\0\x09\1\0\1\0\1"
READY = b"Z\0\0\0\5T"
ROWS = 20_000


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def row(number: int) -> bytes:
    """A row in binary: a number of four bytes, and a text."""
    fields = (number.to_bytes(4, "big", signed=True), b"text of a row")
    return b"\0\2" + b"".join(len(value).to_bytes(4, "big") + value for value in fields)


HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # in the message of the first row
TUPLES = b"".join(message(b"d", (b"" if n else HEAD) + row(n)) for n in range(ROWS))
END = message(b"d", b"\xff\xff") + message(b"c", b"") + message(b"C", b"COPY %d\0" % ROWS) + READY
ERROR = message(b"E", b"SFATAL\0C57P01\0Mterminating connection\0\0")


class Server:
    """One answer, sent in a thread; ``answers`` are those that were asked for."""

    def __init__(self, data: bytes, *, stays: bool = True) -> None:
        self.data, self.stays = data, stays
        self.answers: list[DatabaseAnswer] = []
        self.ended = threading.Event()

    @contextlib.contextmanager
    def answer(self) -> Iterator[DatabaseAnswer]:
        here, there = socket.socketpair()
        sender = threading.Thread(target=self._send, args=(there,))
        sender.start()
        with here:
            found = DatabaseAnswer(here.fileno(), postgresql_rows.ends)
            self.answers.append(found)
            yield found
        self.ended.set()
        sender.join()

    def _send(self, there: socket.socket) -> None:
        with there, contextlib.suppress(OSError):
            there.sendall(self.data)
            if self.stays:
                there.recv(1)  # until the other end is closed


@pytest.fixture
def handover() -> Iterator[SocketPassing]:
    owner = type("Owner", (), {})()
    found = SocketPassing(owner)
    yield found
    found.close()


def start(path: str, folder: Path) -> subprocess.Popen[bytes]:
    spec: dict[str, Any] = {
        "version": 2, "inputs": [{"path": path}], "format": "PostgreSQL", "timezone": "UTC",
        "columns": [{"name": "n", "position": 0, "type": "UInt32"},
                    {"name": "s", "position": 1, "type": "String"}],
        "input_types": ["int4", "text"],
        "outputs": [str(folder / "out")],
    }  # fmt: skip
    child = subprocess.Popen(
        [str(installed.program()), "run", "--spec", "-"], stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdin is not None
    child.stdin.write(json.dumps(spec).encode())
    child.stdin.close()
    child.stdin = None
    return child


def run(server: Server, handover: SocketPassing, folder: Path) -> tuple[int, dict[str, Any]]:
    """How the program ends, and its last line."""
    (path,) = handover.offer([("rows", server.answer)])
    _, said = start(path, folder).communicate(timeout=60)
    return_code = json.loads(said.splitlines()[-1])
    server.ended.wait(10)
    return return_code.get("rows", -1), return_code


def test_an_answer_is_read_from_its_connection(handover: SocketPassing, tmp_path: Path) -> None:
    server = Server(BEGIN + TUPLES + END)
    for _ in range(2):
        assert run(server, handover, tmp_path)[0] == ROWS
        assert handover.error("rows") is None
    assert [answer.complete for answer in server.answers] == [True, True]


@pytest.mark.long
@pytest.mark.parametrize(
    ("data", "error"),
    [
        (BEGIN + TUPLES + ERROR, postgresql_rows.ServerSaidError),
        (BEGIN + TUPLES[:-7], ConnectionError),
        (b"", ConnectionError),
    ],
)
def test_an_answer_that_breaks_off(
    data: bytes, error: type[Exception], handover: SocketPassing, tmp_path: Path
) -> None:
    server = Server(data, stays=False)
    assert run(server, handover, tmp_path)[0] == -1
    assert isinstance(handover.error("rows"), error)
    assert not server.answers[0].complete


def test_a_reader_that_declines_has_left_a_connection_of_no_use(
    handover: SocketPassing, tmp_path: Path
) -> None:
    rows = message(b"d", HEAD + row(-1)) + message(b"d", row(1)) * ROWS
    server = Server(BEGIN + rows + END)
    assert "offset" in run(server, handover, tmp_path)[1]
    assert handover.error("rows") is None
    assert not server.answers[0].complete


def test_a_reader_that_is_killed_and_one_that_never_comes(
    handover: SocketPassing, tmp_path: Path
) -> None:
    server = Server(BEGIN + TUPLES)  # and no end
    taken, left = handover.offer([("rows", server.answer), ("others", server.answer)])
    child = start(taken, tmp_path)
    assert child.stderr is not None
    wanted = threading.Event()
    threading.Thread(target=lambda: (server.ended.wait(0.3), wanted.set())).start()
    wanted.wait()
    child.kill()
    child.communicate(timeout=60)
    assert handover.error("rows") is None
    assert server.ended.wait(10)
    assert not server.answers[0].complete
    assert handover.error("others") is None
    _, said = start(left, tmp_path).communicate(timeout=60)  # withdrawn meanwhile
    assert b"the database has not answered" in said
    assert len(server.answers) == 1


def test_a_question_that_fails_is_told(handover: SocketPassing, tmp_path: Path) -> None:
    @contextlib.contextmanager
    def refused() -> Iterator[DatabaseAnswer]:
        raise postgresql_rows.ServerSaidError("42501", "permission denied")
        yield

    (path,) = handover.offer([("rows", refused)])
    _, said = start(path, tmp_path).communicate(timeout=60)
    assert b"the database has not answered" in said
    assert isinstance(handover.error("rows"), postgresql_rows.ServerSaidError)


def test_a_reader_does_not_outlive_whoever_has_asked(tmp_path: Path) -> None:
    """It waits for a server that says nothing; the process that has asked is gone."""
    program = (
        "import contextlib, os, socket, sys, time\n"
        "from rowfall.sources.handover import DatabaseAnswer, SocketPassing\n"
        "class Owner: pass\n"
        "owner, pair = Owner(), socket.socketpair()\n"
        "@contextlib.contextmanager\n"
        "def opener():\n"
        "    yield DatabaseAnswer(pair[0].fileno(), lambda data: False)\n"
        "print(*SocketPassing(owner).offer([('rows', opener)]), flush=True)\n"
        "sys.stdin.read()\n"
        "os._exit(0)\n"
    )
    import sys

    asker = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert asker.stdin is not None
    assert asker.stdout is not None
    child = start(asker.stdout.readline().decode().strip(), tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    asker.stdin.close()
    asker.wait(10)
    asker.stdout.close()
    _, said = child.communicate(timeout=10)
    assert b"gone" in said or b"ends before" in said
