"""Bytes of LOAD DATA: escapes that only one side knows, packets of any length."""

from __future__ import annotations

import fcntl
import os
import random
import re
import select
import socket
import struct
import termios
import threading
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.errors import EngineError
from rowfall.engines import mysql_wire
from rowfall.engines.database import replace_escape
from rowfall.engines.mysql_wire import load_data

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


class Socket:
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
        self._sock = Socket()
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
    assert done == mysql_wire.Loaded(70_000, 2, 1, 66_000)


class Pipe:
    """Rows that another thread writes into a pipe; ``fails`` in place of the end."""

    def __init__(self, rows: bytes, step: int, *, fails: bool = False) -> None:
        self._read, self._write = os.pipe()
        self._rows, self._step, self._fails = rows, step, fails
        self._writer = threading.Thread(target=self._fill)
        self._writer.start()

    def _fill(self) -> None:
        with os.fdopen(self._write, "wb", buffering=0) as end:
            for at in range(0, len(self._rows), self._step):
                end.write(self._rows[at : at + self._step])

    def fileno(self) -> int:
        return self._read

    def waiting(self) -> int:
        select.select([self._read], [], [])
        (size,) = struct.unpack("i", fcntl.ioctl(self._read, termios.FIONREAD, b"\0" * 4))
        if not size and self._fails:
            raise EngineError("the writer was killed")
        return int(size)

    def read(self, most: int) -> bytes:
        return os.read(self._read, most)

    def close(self) -> None:
        self._writer.join()
        os.close(self._read)


def sent_from(
    pipe: Pipe, first: list[bytes], size: int, *, refused: bool = False, error: str = ""
) -> bytes:
    """What LOAD DATA sends into a real socket, if with an error.

    ``refused``: the socket takes no splice.
    """
    ours, theirs = socket.socketpair()
    got = bytearray()

    def read() -> None:
        while data := theirs.recv(1 << 20):
            got.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    connection: Any = Connection()
    connection._sock = ours
    try:
        with pytest.MonkeyPatch.context() as patch:
            if refused:
                patch.setattr(os, "splice", lambda *_: os.close(-1))
            with pytest.raises(EngineError, match=error) if error else nullcontext():
                load_data(connection, "LOAD DATA", iter(first), size, pipe)
    finally:
        ours.close()
        reader.join()
        theirs.close()
        pipe.close()
    return bytes(got)


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(("step", "size"), [(1 << 20, 1 << 20), (3_000, 700), (70_000, 1 << 20)])
def test_what_comes_out_of_a_pipe_goes_into_the_socket(step: int, size: int, refused: bool) -> None:
    """By the system alone, or as it is read where the socket takes nothing so."""
    rows = random.Random(step).randbytes(3_000_000)
    pipe = Pipe(rows, step)
    sent = sent_from(pipe, [b"first\n"], size, refused=refused)
    assert in_packets(sent, size) == b"first\n" + rows


def test_other_sockets_get_what_is_read() -> None:
    """One that encrypts or packs is no socket of the system."""
    connection, rows = Connection(), bytes(range(48, 122)) * 1_000
    pipe = Pipe(rows, 5_000)
    load_data(connection, "LOAD DATA", iter(()), 4_096, pipe)
    pipe.close()
    assert in_packets(connection._sock.sent, 4_096) == rows


def test_a_pipe_that_ends_too_soon_is_an_error() -> None:
    """Whole packets are sent, with their end, and the answer is read: it can be rolled back."""
    pipe = Pipe(b"x" * 100_000, 1_000, fails=True)
    sent = sent_from(pipe, [], 1_000, error="killed")
    assert in_packets(sent, 1_000) == b"x" * 100_000
