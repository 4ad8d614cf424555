"""Answers of HTTP as servers and proxies write them, in pieces of any size."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from rowfall.systems.clickhouse.http_connection import (
    CutShortError,
    DisconnectedError,
    HttpConnection,
    NoHttpError,
)


@contextmanager
def peer(*answers: bytes, size: int = 1 << 20) -> Iterator[tuple[HttpConnection, list[bytes]]]:
    """A connection to somebody who gives these answers, so many bytes at a time, and closes."""
    heard: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for answer in answers:
                heard.append(connection.recv(65_536))
                for at in range(0, len(answer), size):
                    connection.sendall(answer[at : at + size])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        connection = HttpConnection(*listener.getsockname(), 10)
        connection.connect()
        try:
            yield connection, heard
        finally:
            connection.close()
            server.join()


def read(connection: HttpConnection) -> bytes:
    with closing(connection.getresponse()) as answer:
        return answer.read()


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Long: a\r\n b\r\n\r\n"
    b"3\r\nabc\r\n0a;x=1\r\n0123456789\r\n0\r\nX-After: 1\r\n\r\n"
)
LENGTH = b"HTTP/1.1 201 Created\r\ncontent-length: 4\r\n\r\nwxyz"


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_answers_follow_each_other(size: int) -> None:
    continued = b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n" + LENGTH
    with peer(CHUNKED, continued, LENGTH, size=size) as (connection, heard):
        for wanted in (b"abc0123456789", b"wxyz", b"wxyz"):
            connection.request("POST", "/?a=1", b"SELECT", {"A": "b"})
            answer = connection.getresponse()
            assert not answer.closes
            pieces = [answer.read(2)]
            while pieces[-1]:
                assert len(pieces[-1]) <= 2
                pieces.append(answer.read(2))
            assert b"".join(pieces) == wanted
            assert answer.read() == b""
            assert connection.sock is not None
    port = connection._place[1]
    assert (
        heard[0]
        == (
            f"POST /?a=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept-Encoding: identity\r\n"
            "A: b\r\nContent-Length: 6\r\n\r\nSELECT"
        ).encode()
    )


def test_a_head_may_go_on_in_the_next_line() -> None:
    with peer(CHUNKED) as (connection, _):
        connection.request("POST", "/", b"", {})
        with closing(connection.getresponse()) as answer:
            assert ("X-Long", "a b") in answer.getheaders()


@pytest.mark.parametrize(
    "head", [b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 500 No\r\nConnection: close\r\n"]
)
def test_an_answer_may_end_with_its_connection(head: bytes) -> None:
    with peer(head + b"\r\nall of it") as (connection, _):
        connection.request("POST", "/", b"", {})
        answer = connection.getresponse()
        assert (answer.closes, connection.sock) == (True, None)
        assert answer.read() == b"all of it"
        assert answer.sock is not None
        assert answer.sock.fileno() == -1  # closed


@pytest.mark.parametrize("answer", [CHUNKED, LENGTH])
def test_what_is_cut_short_is_an_error(answer: bytes) -> None:
    """Wherever it ends before its end; of what follows the last chunk nothing is used."""
    behind = answer.find(b"0\r\nX-After")
    for cut in range(len(answer) if behind < 0 else behind + 3):
        with peer(answer[:cut]) as (connection, _):
            connection.request("POST", "/", b"", {})
            with pytest.raises((DisconnectedError, CutShortError, NoHttpError)) as caught:
                read(connection)
            if isinstance(caught.value, NoHttpError):
                assert cut < len(b"HTTP/1.1 200")
            if isinstance(caught.value, CutShortError):
                assert caught.value.partial in (b"abc0123456789" if answer is CHUNKED else b"wxyz")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nwhat\r\n",
    ],
)
def test_what_is_no_http(answer: bytes) -> None:
    with peer(answer) as (connection, _):
        connection.request("POST", "/", b"", {})
        with pytest.raises(NoHttpError):
            read(connection)


def test_a_header_is_one_line() -> None:
    connection = HttpConnection("::1", 8123, 1)
    connection.putrequest("POST", "/")
    with pytest.raises(ValueError, match="a line break in the header A"):
        connection.putheader("A", "b\r\nC: d")
    assert "Host: [::1]:8123" in connection._head
