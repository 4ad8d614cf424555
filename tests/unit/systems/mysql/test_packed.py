"""Frames of the compressed protocol: the bytes of one side are those that the other side reads."""

from __future__ import annotations

import io
import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.systems.mysql.packed import Packed


class Wire:
    """A socket whose bytes are kept."""

    def __init__(self, left: int = 1 << 40) -> None:
        self.sent = b""
        self.left = left

    def sendall(self, data: bytes) -> None:
        self.left -= 1
        if self.left < 0:
            raise BrokenPipeError
        self.sent += bytes(data)

    def close(self) -> None:
        self.left = 0


def packed(wire: Wire, answer: bytes = b"") -> Packed:
    return Packed(wire, io.BytesIO(answer))  # type: ignore[arg-type]


def frames(data: bytes) -> list[tuple[int, int, bytes]]:
    """Number, size before compression, and body of each."""
    found = []
    while data:
        size, plain = (int.from_bytes(data[at : at + 3], "little") for at in (0, 4))
        found.append((data[3], plain, data[7 : 7 + size]))
        assert len(data) >= 7 + size
        data = data[7 + size :]
    return found


@given(st.lists(st.lists(st.binary(max_size=200), max_size=4), max_size=5), st.data())
def test_what_is_sent_is_what_is_read(commands: list[list[bytes]], data: st.DataObject) -> None:
    wire = Wire()
    sender = packed(wire)
    for pieces in commands:
        sender.begin()
        for piece in pieces:
            sender.sendall(piece * 3)
    sender.read(0)
    whole = b"".join(piece * 3 for pieces in commands for piece in pieces)
    reader = packed(Wire(), wire.sent)
    found, left = b"", len(whole)
    while left:
        count = data.draw(st.integers(1, left))
        found += reader.read(count)
        left -= count
    assert found == whole


def test_large_and_incompressible_pieces_go_in_numbered_frames() -> None:
    wire = Wire()
    sender = packed(wire)
    sender.begin()
    noise, text = os.urandom(3 << 20), b"x" * (600 << 20 >> 10)
    sender.sendall(noise)
    sender.sendall(text)
    sender.read(0)
    found = frames(wire.sent)
    assert [number for number, _, _ in found] == list(range(len(found)))
    assert b"".join(zlib.decompress(body) if plain else body for _, plain, body in found) == (
        noise + text
    )
    assert found[0][1] == 0  # noise is not made longer
    assert len(found[-1][2]) < 5000
    # The next command begins with 0 again, wherever the answer has got to.
    sender.begin()
    sender.sendall(b"short")
    sender.read(0)
    assert frames(wire.sent)[-1] == (0, 0, b"short")


def test_an_answer_is_counted_on_from() -> None:
    """LOAD DATA: the server asks for the file, and gets it behind its own number."""
    asks = b"\x03\x00\x00\x01\x00\x00\x00abc"
    wire = Wire()
    both = packed(wire, asks)
    both.begin()
    both.sendall(b"statement")
    assert both.read(3) == b"abc"
    both.sendall(b"rows")
    both.read(0)
    assert [(number, body) for number, _, body in frames(wire.sent)] == [
        (0, b"statement"), (2, b"rows"),
    ]  # fmt: skip


def test_why_a_server_gives_up_can_be_read_behind_a_broken_pipe() -> None:
    says = b"\x03\x00\x00\x01\x00\x00\x00why"
    both = packed(Wire(left=0), says)
    both.sendall(b"x")
    with pytest.raises(BrokenPipeError):
        both.read(3)
    assert both.read(3) == b"why"


def test_an_end_in_a_frame_is_an_end_and_damage_an_error() -> None:
    whole = zlib.compress(b"x" * 100)
    frame = len(whole).to_bytes(3, "little") + b"\x01" + (100).to_bytes(3, "little") + whole
    assert packed(Wire(), frame).read(100) == b"x" * 100
    for cut in (3, 7, len(frame) - 1):
        assert packed(Wire(), frame[:cut]).read(100) == b""
    with pytest.raises(OSError, match="damaged"):
        packed(Wire(), frame[:9] + b"\xff\xff" + frame[11:]).read(100)
