"""Rows of MySQL's protocol as text, without a Python object for each field.

The server is asked for one column, a whole row (:class:`rowfall.systems.mysql.types.Marks`). Each
row is then a packet: four bytes of header, the length of the value, the value. The byte that ends a
row is nowhere else in it, so one regular expression takes thousands of packets apart at once, for
0.3 us a row. PyMySQL logs in, sends the query, and reads the answer's head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rowfall.systems.mysql.types import Marks
from rowfall.systems.mysql.wire import PacketError, PacketReader

# Header, length of the value in one, three or four bytes, line. What is none takes all the rest: a
# row that is not all there, NULL (0xfb), the end (0xfe), an error (0xff), and a row of 16 MiB and
# more, which comes in several packets.
_ROW = rb"(?s:(?!\xff\xff\xff)....(?:[\x00-\xfa]|\xfc..|\xfd...))([^%b]*%b)|(?s:.+)"
# The first one first: it is in what the others are replaced with.
_ESCAPES = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r"))
_HEADER = 4
_LONGEST = (1 << 24) - 1
_SHORT = 250
"""Bytes of the longest value whose length is one byte."""
_MIDDLE = (1 << 16) - 1
_READ = 1 << 18
"""Bytes that are taken from the socket at a time, if they are there."""


class BrokenPacketError(Exception):
    """The server's answer ended, or was none; the text says how."""


def lines(reader: PacketReader, marks: Marks) -> Iterator[bytes]:
    """Give the rows that follow as TSV, some thousands in a piece, up to their end.

    Raises:
        BrokenRowsError: the connection ended before them.
        ServerSaidError: the server broke off.
    """
    data, row = b"", re.compile(_ROW.replace(b"%b", re.escape(marks.end)))
    written = bytes if marks.escaped else _escaped
    while True:
        found = row.findall(data)
        if found and not found[-1]:
            found.pop()  # what is not a row
        if found:
            yield written(b"".join(found))
            data = data[_length(found) :]
        size = int.from_bytes(data[:3], "little")
        if len(data) >= _HEADER and size == _LONGEST:
            value, data = _long_value(data, reader)
            yield written(value)
            continue
        if len(data) >= _HEADER + max(size, 1):
            _check_end(data[_HEADER : _HEADER + size])
            return
        data = _more(data, _HEADER + size if len(data) >= _HEADER else _HEADER, reader)


_TABLE = bytes.maketrans(b"\xff\xfe\xfd", b"\t\\\n")


def _escaped(rows: bytes) -> bytes:
    """Return rows with marks of bytes as TSV."""
    for plain, escaped in _ESCAPES:
        if plain in rows:  # hardly ever; looking for a byte costs nothing
            rows = rows.replace(plain, escaped)
    return rows.translate(_TABLE)


def _more(data: bytes, least: int, reader: PacketReader) -> bytes:
    """Return ``data`` and what follows it, at least one byte more and so many in all."""
    pieces, have = [data], len(data)
    while have < least or len(pieces) == 1:
        got = reader.read1(_READ)
        if not got:
            raise BrokenPacketError("the connection ended before the last row")
        pieces.append(got)
        have += len(got)
    return b"".join(pieces)


def _length(found: list[bytes]) -> int:
    """Return the bytes that rows, now lines of text, took up as packets."""
    sizes = list(map(len, found))
    least, most = min(sizes), max(sizes)
    size = sum(sizes) + (_HEADER + 1) * len(sizes)
    if least > _SHORT and most <= _MIDDLE:
        return size + 2 * len(sizes)
    if most > _SHORT:
        size += 2 * sum(one > _SHORT for one in sizes)
        size += sum(one > _MIDDLE for one in sizes)
    return size


def _check_end(body: bytes) -> None:
    """Check that a whole packet which is not a row is the end of the rows.

    Raises:
        ServerSaidError: it is an error.
        BrokenRowsError: it is anything else.
    """
    if body[:1] == b"\xff":
        raise PacketError.of(body)
    if body[:1] != b"\xfe" or len(body) > 8:
        raise BrokenPacketError("the server sent something that is not a row")


def _long_value(data: bytes, reader: PacketReader) -> tuple[bytes, bytes]:
    """Return a value that takes several packets, and what was read behind it."""
    value = bytearray()
    size = _LONGEST
    while size == _LONGEST:
        if len(data) < _HEADER:
            data = _more(data, _HEADER, reader)
        size = int.from_bytes(data[:3], "little")
        if len(data) < _HEADER + size:
            data = _more(data, _HEADER + size, reader)
        value += data[_HEADER : _HEADER + size]
        data = data[_HEADER + size :]
    widths = {0xFC: 2, 0xFD: 3, 0xFE: 8}
    width = widths.get(value[0], 0)
    length = int.from_bytes(value[1 : 1 + width], "little") if width else value[0]
    if len(value) != 1 + width + length:
        raise BrokenPacketError("the length of a row is not what its packets hold")
    return bytes(value[1 + width :]), data
