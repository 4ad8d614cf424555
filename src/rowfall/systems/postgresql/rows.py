"""Rows of PostgreSQL's COPY as text, without a Python object for each row from the driver.

The server sends a message for each row: five bytes of header, and a line. The driver gives every
one of them by itself, which takes 1.35 us of CPU for a row of 410 bytes. Only the end of that line
is a line feed, so one regular expression takes thousands of messages apart at once, straight from
the socket, for 0.75 us. rowfall-decode gets the socket and reads rows in binary
(:mod:`rowfall.sources.handover`). The driver logs in and runs all other statements; where it
encrypts the connection, it also reads the rows.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rowfall.core.patterns import regex
from rowfall.sources.handover import DatabaseAnswer
from rowfall.sources.relay import LargeReads

if TYPE_CHECKING:
    from psycopg import Connection

# What is none takes all the rest: a row that is not all there, or another message.
_ROW = regex(rb"d(?s:....)([^\n]*\n)|(?s:.+)")
_HEADER = 5
_READ = 1 << 19
"""Bytes that are taken from the socket at a time, if they are there."""
# Rows come one by one from the driver; they go on in pieces of this, a quarter of a pipe.
_PIECE = 256 << 10
_GSS = 120_000
"""The first version that encrypts by Kerberos."""


# A signature, no flags, nothing more; https://www.postgresql.org/docs/current/sql-copy.html.
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"


class BrokenRowsError(Exception):
    """The server's answer ended, or was none; the text says how."""


class ServerSaidError(Exception):
    """The server ended the answer with an error: its code and text."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.sqlstate = code


def is_plain(connection: Connection[Any]) -> bool:
    """Return True where nothing encrypts a connection, so that its socket can be read."""
    if connection.pgconn.ssl_in_use:
        return False
    if connection.info.server_version < _GSS:
        return True
    row = connection.execute(
        "SELECT encrypted FROM pg_stat_gssapi WHERE pid = pg_backend_pid()"
    ).fetchone()
    return row is not None and row[0] is False


def copy(connection: Connection[Any], select: str, *, plain: bool) -> Iterator[bytes]:
    """Give the rows of a SELECT as COPY writes them, some thousands in a piece.

    Args:
        plain: the socket is read, see :func:`is_plain`. A connection whose rows were not read to
            their end is to be closed.

    Raises:
        psycopg.Error, ServerSaidError: the server refuses it, or breaks off.
        BrokenRowsError, OSError: the connection ended before the last row.
    """
    statement = f"COPY ({select}) TO STDOUT".encode()
    if not plain:
        yield from _by_driver(connection, statement)
        return
    with _asked(connection, statement) as end:
        yield from rows(LargeReads(end.recv).read1)


@contextlib.contextmanager
def asked(connection: Connection[Any], select: str) -> Iterator[DatabaseAnswer]:
    """Ask for the rows of a SELECT in binary, which somebody else reads; of a plain connection."""
    with _asked(connection, f"COPY ({select}) TO STDOUT (FORMAT binary)".encode()) as end:
        yield DatabaseAnswer(end.fileno(), ends)


@contextlib.contextmanager
def _asked(connection: Connection[Any], statement: bytes) -> Iterator[socket.socket]:
    """Send a statement, and give the socket with the answer.

    The driver does nothing before it is asked again, and then the server is ready for it.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setblocking(True)
        try:
            end.sendall(b"Q" + (len(statement) + _HEADER).to_bytes(4, "big") + statement + b"\0")
            yield end
        finally:
            end.setblocking(False)


def ends(data: bytes) -> bool:
    """Tell whether the last of some messages says that the server is ready again.

    Raises:
        ServerSaidError: the one before it, or the last one, is an error.
    """
    ready = data[-6:-1] == b"Z\0\0\0\5"
    if ready and data[-1:] in (b"I", b"T"):  # outside of a transaction, or in a good one
        return True
    data = data[:-6] if ready else data
    for at in range(len(data) - _HEADER):
        size = int.from_bytes(data[at + 1 : at + _HEADER], "big")
        if data[at : at + 1] == b"E" and at + 1 + size == len(data):
            raise _said(data[at + _HEADER :])
    return False


def _by_driver(connection: Connection[Any], statement: bytes) -> Iterator[bytes]:
    found: list[bytes | bytearray | memoryview] = []
    size = 0
    with connection.cursor() as cursor, cursor.copy(statement) as answer:
        for row in answer:
            found.append(row)
            size += len(row)
            if size >= _PIECE:
                yield b"".join(found)
                found, size = [], 0
    if found:
        yield b"".join(found)


def rows(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Give the rows of the answer to a COPY, up to the moment when the server is ready again.

    Args:
        read: gives at most so many bytes, at least one; none where the connection has ended.

    Raises:
        ServerSaidError, BrokenRowsError: see :func:`copy`.
    """
    data, given, sent = b"", 0, -1
    while True:
        found = _ROW.findall(data)
        if found and not found[-1]:
            found.pop()  # what is not a row
        if found:
            piece = b"".join(found)
            data = data[len(piece) + _HEADER * len(found) :]
            given += len(found)
            yield piece
        size = _HEADER if len(data) < _HEADER else 1 + int.from_bytes(data[1:_HEADER], "big")
        if len(data) < _HEADER or len(data) < size:
            data = _more(data, size, read)
            continue
        kind, body = data[:1], data[_HEADER:size]
        if kind == b"E":
            raise _said(body)
        if kind == b"C":  # COPY 1000
            sent = int(body.rstrip(b"\0").rpartition(b" ")[2])
        if kind == b"Z":
            if given != sent:
                raise BrokenRowsError(f"the server sent {sent:,} rows, of which {given:,} came")
            return
        if kind not in b"HcCNSA":  # the others tell of the answer, or of something else
            raise BrokenRowsError("the server sent something that is not a row")
        data = data[size:]


def _more(data: bytes, least: int, read: Callable[[int], bytes]) -> bytes:
    """Return ``data`` and what follows it, at least one byte more and so many in all."""
    pieces, have = [data], len(data)
    while have < least or len(pieces) == 1:
        got = read(_READ)
        if not got:
            raise BrokenRowsError("the connection ended before the last row")
        pieces.append(got)
        have += len(got)
    return b"".join(pieces)


def _said(body: bytes) -> ServerSaidError:
    """Return code and text of an ErrorResponse of the server."""
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    text = fields.get(b"M", "the server broke off")
    detail = fields.get(b"D")
    return ServerSaidError(fields.get(b"C", ""), f"{text} ({detail})" if detail else text)


def framed(rows: Iterator[bytes]) -> Iterator[bytes]:
    """Give rows with what COPY expects around them."""
    yield _HEAD
    yield from rows
    yield _END
