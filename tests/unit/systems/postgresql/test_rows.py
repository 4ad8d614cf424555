"""Messages of PostgreSQL's COPY taken apart; the rows of a real server are in e2e."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.systems.postgresql.rows import BrokenRowsError, ServerSaidError, ends, rows

_LINES = st.lists(st.binary(max_size=300).map(lambda b: b.replace(b"\n", b"\\n") + b"\n"))
BEGIN = b"H\x00\x00\x00\x09\x00\x00\x01\x00\x00"
NOTICE = b"N\x00\x00\x00\x0bMwell\0\0"
READY = b"Z\x00\x00\x00\x05T"


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def end(count: int) -> bytes:
    return message(b"c", b"") + message(b"C", b"COPY %d\0" % count) + READY


def answer(lines: list[bytes]) -> bytes:
    return BEGIN + b"".join(message(b"d", line) for line in lines) + end(len(lines))


def read(data: bytes, step: int) -> bytes:
    """What comes out where each read gives so many bytes."""
    rest = bytearray(data)

    def some(size: int) -> bytes:
        found = bytes(rest[: min(step, size)])
        del rest[: len(found)]
        return found

    return b"".join(rows(some))


@given(_LINES, st.integers(1, 700))
def test_rows_come_out_wherever_reads_end(lines: list[bytes], step: int) -> None:
    assert read(answer(lines), step) == b"".join(lines)


@pytest.mark.parametrize("size", [1, 6, 2_556, 2_566, 680_956, 1 << 24, (1 << 24) + 2_566])
def test_lengths_with_line_feeds_in_them(size: int) -> None:
    """Bytes of 2,560 are 10 and 0, of 680,960 10, 100 (d) and 0."""
    lines = [b"before\n", b"d" * (size - 1) + b"\n", b"behind\n"]
    assert read(answer(lines), 1 << 18) == b"".join(lines)


@given(_LINES, st.integers(1, 700), st.integers(0))
def test_an_answer_that_ends_early_is_no_end(lines: list[bytes], step: int, cut: int) -> None:
    data = answer(lines)
    with pytest.raises(BrokenRowsError):
        read(data[: cut % len(data)], step)


def test_an_error_behind_rows() -> None:
    said = message(b"E", b"SERROR\0C57014\0Mcanceling statement\0Dby request\0\0")
    with pytest.raises(ServerSaidError, match=r"canceling statement \(by request\)") as error:
        read(BEGIN + message(b"d", b"1\n") + NOTICE + said, 100)
    assert error.value.sqlstate == "57014"


def test_other_messages_are_no_rows() -> None:
    status = message(b"S", b"TimeZone\0UTC\0")
    lines = message(b"d", b"1\n") + NOTICE + message(b"d", b"2\n")
    assert read(NOTICE + BEGIN + lines + status + end(2), 100) == b"1\n2\n"


@pytest.mark.parametrize("odd", [end(1), message(b"d", b"no line"), message(b"T", b"\0\0")])
def test_what_is_no_whole_answer(odd: bytes) -> None:
    with pytest.raises(BrokenRowsError, match=r"sent 1 rows, of which 0 came|not a row"):
        read(BEGIN + odd + end(0), 100)


def test_the_last_messages_tell_how_an_answer_ends() -> None:
    assert ends(end(3))
    assert ends(answer([b"one\n"]))
    assert not any(map(ends, (b"", b"Z", answer([b"one\n"])[:-1], END_OF_MANY)))
    error = message(b"E", b"SERROR\0C57014\0Mcanceled\0DWhy.\0\0")
    for last in (error, error + READY[:-1] + b"E"):  # it ends the connection, or the statement
        with pytest.raises(ServerSaidError, match=r"canceled \(Why.\)") as said:
            ends(message(b"d", b"1\n") * 9 + last)
        assert said.value.sqlstate == "57014"


END_OF_MANY = message(b"d", READY) + message(b"d", b"more\n")
