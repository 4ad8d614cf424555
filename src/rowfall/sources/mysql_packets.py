"""Rows of MySQL's protocol in binary, as they come from the socket, for rowfall-decode.

To write its numbers as text takes the server more CPU than all else that it does for a row: for
1 M taxi rows of 51 columns 5.4 seconds as lines of TSV, 3.7 as plain text, and 1.5 in binary, which
the answer to a prepared statement is. Nothing here looks into a row, so a row costs no Python.

**Where rows end.** Only who takes packets apart knows it: any bytes may be in a text. So that is
whoever reads the pipe. It closes its end at the last packet, or at what it cannot read, and then
the last bytes that came tell which it was.
"""

from __future__ import annotations

import select
import ssl
import struct
import time
from collections.abc import Iterator
from typing import Any

from rowfall.sources.databases import FEW, PAUSE_SECONDS
from rowfall.sources.mysql_rows import BrokenRowsError, ServerSaidError

_READ = 1 << 19
"""Bytes that are taken from the socket at a time, if they are there."""
# While nothing comes, the reader of the pipe is looked at: soon, as it may have all.
_LEAST_MS, _MOST_MS = 1, 16
_HEADER, _PREPARED = 4, 12
_LONGEST_ERROR = 2_048
"""More than the bytes of an error: its text has 512 at most."""


def prepare(connection: Any, statement: str) -> tuple[int, int]:
    """Prepare a statement, and return its number and how many columns it gives.

    No columns: it cannot be read in binary.

    Raises:
        pymysql.err.MySQLError: the server refuses it.
    """
    from pymysql.constants import COMMAND

    connection._execute_command(COMMAND.COM_STMT_PREPARE, statement)
    body = connection._read_packet().get_all_data()
    if len(body) < _PREPARED:  # no answer of a server that prepares statements
        return 0, 0
    number, columns, parameters = struct.unpack_from("<IHH", body, 1)
    for count in (parameters, columns):
        for _ in range(count + 1 if count else 0):  # how each is described, and an end
            connection._read_packet()
    return number, 0 if parameters else columns


def close(connection: Any, number: int) -> None:
    """Let go of a prepared statement; the server does not answer that."""
    from pymysql.constants import COMMAND

    connection._execute_command(COMMAND.COM_STMT_CLOSE, struct.pack("<I", number))


class Packets:
    """The answer to a prepared statement."""

    def __init__(self, connection: Any, number: int) -> None:
        from pymysql.constants import COMMAND

        connection._execute_command(
            COMMAND.COM_STMT_EXECUTE, struct.pack("<IBI", number, 0, 1)
        )  # no cursor, once
        self._socket = connection._sock
        self._read = connection._rfile.read1
        self._last = b""

    def pieces(self) -> Iterator[bytes]:
        """Give the packets in pieces of any size, and b"" where none have come for a while.

        It does not end by itself.

        Raises:
            BrokenRowsError: the connection ended.
        """
        hidden = self._socket.pending if isinstance(self._socket, ssl.SSLSocket) else None
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        few, patience = False, _LEAST_MS
        while True:
            if few:
                time.sleep(PAUSE_SECONDS)
            if not (hidden and hidden()) and not poll.poll(patience):
                few, patience = False, min(2 * patience, _MOST_MS)
                yield b""
                continue
            data = self._read(_READ)
            if not data:
                raise BrokenRowsError("the connection ended before the last row")
            few, patience = hidden is None and len(data) < FEW, _LEAST_MS
            self._last = (self._last + data if len(data) < _LONGEST_ERROR else data)[
                -_LONGEST_ERROR:
            ]
            yield data

    def check(self) -> bool:
        """Tell whether the last packet is the end of the rows. Asked when the reader has gone.

        Raises:
            ServerSaidError: it is an error.
        """
        return ends(self._last)


def ends(data: bytes) -> bool:
    """Tell whether the last of some packets is the end of the rows.

    Raises:
        ServerSaidError: it is an error.
    """
    if data[-9:-6] == b"\x05\0\0" and data[-5] == 0xFE:
        return True
    for at in range(len(data) - _HEADER - 3):
        size = int.from_bytes(data[at : at + 3], "little")
        if at + _HEADER + size == len(data) and data[at + _HEADER] == 0xFF:
            (number,) = struct.unpack_from("<H", data, at + _HEADER + 1)
            text = data[at + _HEADER + 3 :].decode(errors="replace")
            raise ServerSaidError(number, text[6:] if text[:1] == "#" else text)
    return False
