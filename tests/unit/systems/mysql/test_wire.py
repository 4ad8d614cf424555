"""Bytes of LOAD DATA: escapes that only one side knows, packets of any length."""

from __future__ import annotations

import os
import re
import socket
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.errors import EngineError
from rowfall.engines.database import Socket, replace_escape
from rowfall.systems.mysql import wire
from rowfall.systems.mysql.session import SessionSocket
from rowfall.systems.mysql.wire import load_data, socket_of

_PLAIN = {b"t": b"\t", b"n": b"\n", b"\\": b"\\", b"f": b"\f", b"b": b"\b", b"'": b"'"}


def read(text: bytes, *, feeds: bool) -> bytes:
    """What a reader makes of a field: the engine knows \\f, LOAD DATA takes it for a letter."""
    known = _PLAIN if feeds else {k: v for k, v in _PLAIN.items() if k != b"f"}
    return re.sub(rb"\\(.)", lambda m: known.get(m[1], m[1]), text, flags=re.DOTALL)


@given(st.lists(st.sampled_from([b"\\f", b"\\\\", b"\\t", b"\\'", b"f", b"x", b"\\n"])), st.data())
def test_form_feeds_are_what_they_were_wherever_the_stream_is_cut(
    parts: list[bytes], data: st.DataObject
) -> None:
    text = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(b"".join(replace_escape(iter(pieces), b"\\f", b"\f")), feeds=False) == read(
        text, feeds=True
    )


_ASKS = b"\x08\0\0\x01\xfb/etc/xy"
# The field of warnings ends at 65,535.
_SAYS = b"\x00\x05\x00\x02\x00\xff\xff0Records: 70000  Deleted: 2  Skipped: 1  Warnings: 66000"


@dataclass
class _Connection:
    """What is needed of a session of PyMySQL."""

    wire: SessionSocket


class Server:
    """The other end of a session: it has answered LOAD DATA already, and keeps what it gets.

    Attributes:
        connection: the client's.
        got: what came behind the statement.
    """

    def __init__(self, statement: str = "LOAD DATA") -> None:
        self._ours, self._theirs = socket.socketpair()
        # Number 2 is wrong behind 4 packets of rows: it does not matter.
        self._theirs.sendall(_ASKS + len(_SAYS).to_bytes(3, "little") + b"\x02" + _SAYS)
        self._got = bytearray()
        self._thread = threading.Thread(target=self._read)
        self._command = len(statement) + 5
        self.connection = _Connection(SessionSocket(self._ours, lambda: False))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.wire.close()
        self._thread.join()
        self._theirs.close()

    def _read(self) -> None:
        while data := self._theirs.recv(1 << 20):
            self._got += data

    @property
    def got(self) -> bytes:
        return bytes(self._got[self._command :])


def in_packets(sent: bytes, size: int) -> bytes:
    """The rows that packets of LOAD DATA carry, of which each has ``size`` bytes at most."""
    got, number = [], 2
    while True:
        length, sequence = int.from_bytes(sent[:3], "little"), sent[3]
        assert sequence == number % 256
        assert length <= size
        got.append(sent[4 : 4 + length])
        sent, number = sent[4 + length :], number + 1
        if not length:
            assert not sent
            return b"".join(got)


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 12))
def test_packets_carry_every_byte_in_their_order(pieces: list[bytes], size: int) -> None:
    rows = [piece.replace(b"\\", b"/") for piece in pieces]
    with Server() as server:
        done = load_data(server.connection, "LOAD DATA", iter(rows), size)
    assert in_packets(server.got, size) == b"".join(rows)
    # The counts of the text.
    assert done == wire.Loaded(70_000, 2, 1, 66_000)


class Program:
    """Sends packets into a socket by itself, as rowfall-decode does."""

    def __init__(self, to: Socket, rows: bytes, *, whole: bool = True, error: str = "") -> None:
        self._to, self._rows, self._whole, self._error = to, rows, whole, error

    def number(self) -> int | None:
        number, most = self._to.number, self._to.packet_bytes
        with socket.socket(fileno=os.dup(self._to.descriptor)) as own:
            for at in range(0, len(self._rows), most):
                part = self._rows[at : at + most]
                own.sendall(len(part).to_bytes(3, "little") + bytes([number]) + part)
                number = (number + 1) % 256
            if not self._whole:
                own.sendall(b"\xff\xff\x00" + bytes([number]) + b"torn")
        return number if self._whole else None

    def check(self) -> None:
        if self._error:
            raise EngineError(self._error)


def send(server: Server, **more: Any) -> None:
    """LOAD DATA with 300,000 bytes that a program sends."""
    to = socket_of(server.connection, 1_000)
    assert to is not None
    with server:
        load_data(
            server.connection, "LOAD DATA", iter(()), 1_000, Program(to, b"x" * 300_000, **more)
        )  # fmt: skip


def test_the_end_of_the_rows_follows_what_a_program_has_sent() -> None:
    server = Server()
    send(server)
    assert in_packets(server.got, 1_000) == b"x" * 300_000


def test_a_program_that_fails_between_packets_leaves_a_connection_for_the_rollback() -> None:
    """The end of the rows is sent, and the answer is read."""
    server = Server()
    with pytest.raises(EngineError, match="killed"):
        send(server, error="killed")
    assert in_packets(server.got, 1_000) == b"x" * 300_000


def test_a_torn_packet_ends_the_connection() -> None:
    """Nothing can follow it: neither the end of the rows, nor a statement."""
    server = Server()
    with pytest.raises(ConnectionError, match="as a whole"):
        send(server, whole=False)
    assert server.got.endswith(b"torn")


def test_only_plain_sockets_that_wait_are_given_away() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = _Connection(SessionSocket(ours, lambda: True))
        assert socket_of(connection, 1_000) == Socket(ours.fileno(), 2, 1_000)
        connection.wire.settimeout(5)
        assert socket_of(connection, 1_000) is None
        connection.wire.settimeout(None)
        connection.wire.begin_command()  # compressed from here on
        assert socket_of(connection, 1_000) is None
