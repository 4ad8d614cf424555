"""One request and its answer, against a peer that breaks the rules."""

from __future__ import annotations

import gc
import socket
import struct
import threading
import warnings

import pytest

from rowfall.systems.clickhouse.http import Address, Connections, Exchange, LostConnection, is_long

RESET = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: close() resets


def test_an_answer_that_breaks_off_leaves_no_socket_open() -> None:
    """The last answer of a connection holds its socket; an error in it kept both in a cycle."""
    told = threading.Event()

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nabc"
            )
            told.wait(10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = threading.Thread(target=answer)
        peer.start()
        exchange = Exchange(Connections(Address(*listener.getsockname())), {}, b"SELECT 1")
        exchange.start()
        while not exchange.answered and not exchange.wait(0.01):
            pass
        told.set()
        with pytest.raises(LostConnection, match="connection reset by peer"):
            exchange.result()
        peer.join()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        del exchange
        gc.collect()
    assert not said


def test_a_statement_is_as_long_as_it_stands_in_a_url() -> None:
    """A server counts a bracket as the three characters %28: of 90,709 bytes it took none."""
    assert is_long(b"toString(`c1`), " * 5_700)
    assert not is_long(b"x" * 90_709)
    assert is_long(b"x" * 103_000)
