"""Rows of MySQL's protocol in binary, as they come from the socket, for rowfall-decode.

To write its numbers as text takes the server more CPU than all else that it does for a row: for
1 M taxi rows of 51 columns 5.4 seconds as lines of TSV, 3.7 as plain text, and 1.5 in binary, which
the answer to a prepared statement is. rowfall-decode gets the socket
(:mod:`rowfall.sources.handover`); where TLS encrypts it, its bytes are passed on. Nothing here
looks into a row, so a row costs no Python.
"""

from __future__ import annotations

import ssl
import struct
from typing import Any

from rowfall.sources.handover import Answer
from rowfall.sources.relay import SocketToPipe
from rowfall.systems.mysql.rows import ServerSaidError

_HEADER, _PREPARED = 4, 12


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


def is_encrypted(connection: Any) -> bool:
    """Tell whether only this process can read a connection."""
    return isinstance(connection._sock, ssl.SSLSocket)


def execute(connection: Any, number: int) -> Answer:
    """Ask for the rows of a prepared statement, which somebody else reads from the socket."""
    _execute(connection, number)
    return Answer(connection._sock.fileno(), ends)


def relayed(connection: Any, number: int) -> SocketToPipe:
    """Ask for the rows of a prepared statement, which are passed on."""
    _execute(connection, number)
    end = connection._sock
    hidden = end.pending if is_encrypted(connection) else None
    return SocketToPipe(end.fileno(), connection._rfile.read1, ends, hidden)


def _execute(connection: Any, number: int) -> None:
    from pymysql.constants import COMMAND

    # Without a cursor, once.
    connection._execute_command(COMMAND.COM_STMT_EXECUTE, struct.pack("<IBI", number, 0, 1))


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
