"""Bytes of LOAD DATA: escapes that only one side knows, packets of any length."""

from __future__ import annotations

import os
import re
import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.errors import EngineError
from rowfall.engines.database import Socket, replace_escape
from rowfall.systems.mysql import wire
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


class Memory:
    def __init__(self) -> None:
        self.sent = b""

    def sendall(self, data: bytes) -> None:
        self.sent += bytes(data)


class Packet:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def get_all_data(self) -> bytes:
        return self.data


class Connection:
    """Answers LOAD DATA like a server, and keeps what it was sent."""

    def __init__(self) -> None:
        self._sock = Memory()
        self._next_seq_id = 0
        self._asked = False

    def _execute_command(self, command: int, text: str) -> None:
        pass

    def _read_packet(self) -> Any:
        if not self._asked:
            self._asked = True
            return Packet(b"\xfbrowfall")
        from pymysql.protocol import MysqlPacket

        text = b"0Records: 70000  Deleted: 2  Skipped: 1  Warnings: 66000"
        return MysqlPacket(b"\x00\x05\x00\x02\x00\xff\xff" + text, "utf8")


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
    connection = Connection()
    rows = [piece.replace(b"\\", b"/") for piece in pieces]
    done = load_data(connection, "LOAD DATA", iter(rows), size)
    assert in_packets(connection._sock.sent, size) == b"".join(rows)
    # The counts of the text: the field of warnings ends at 65,535.
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


def send(got: bytearray, **more: Any) -> None:
    """LOAD DATA with 300,000 bytes that a program sends; ``got``: what the server gets."""
    ours, theirs = socket.socketpair()

    def read() -> None:
        while data := theirs.recv(1 << 20):
            got.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    connection: Any = Connection()
    connection._sock = ours
    to = socket_of(connection, 1_000)
    assert to is not None
    try:
        load_data(connection, "LOAD DATA", iter(()), 1_000, Program(to, b"x" * 300_000, **more))
    finally:
        ours.close()
        reader.join()
        theirs.close()


def test_the_end_of_the_rows_follows_what_a_program_has_sent() -> None:
    got = bytearray()
    send(got)
    assert in_packets(bytes(got), 1_000) == b"x" * 300_000


def test_a_program_that_fails_between_packets_leaves_a_connection_for_the_rollback() -> None:
    """The end of the rows is sent, and the answer is read."""
    got = bytearray()
    with pytest.raises(EngineError, match="killed"):
        send(got, error="killed")
    assert in_packets(bytes(got), 1_000) == b"x" * 300_000


def test_a_torn_packet_ends_the_connection() -> None:
    """Nothing can follow it: neither the end of the rows, nor a statement."""
    got = bytearray()
    with pytest.raises(ConnectionError, match="as a whole"):
        send(got, whole=False)
    assert got.endswith(b"torn")


def test_only_plain_sockets_that_wait_are_given_away() -> None:
    connection: Any = Connection()
    assert socket_of(connection, 1_000) is None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection._sock = ours
        assert socket_of(connection, 1_000) == Socket(ours.fileno(), 2, 1_000)
        ours.settimeout(5)
        assert socket_of(connection, 1_000) is None
