"""Bytes of LOAD DATA: escapes that only one side knows, packets of any length."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 12))
def test_packets_carry_every_byte_in_their_order(pieces: list[bytes], size: int) -> None:
    connection = Connection()
    rows = [piece.replace(b"\\", b"/") for piece in pieces]
    done = load_data(connection, "LOAD DATA", iter(rows), size)
    sent, got, number = connection._sock.sent, b"", 2
    while True:
        length, sequence = int.from_bytes(sent[:3], "little"), sent[3]
        assert sequence == number % 256
        assert length <= size
        got, sent, number = got + sent[4 : 4 + length], sent[4 + length :], number + 1
        if not length:
            break
    assert (got, sent) == (b"".join(rows), b"")
    # The counts of the text: the field of warnings ends at 65,535.
    assert done == mysql_wire.Loaded(70_000, 2, 1, 66_000)
