"""Rows on their way: what is sent and read over the socket of a session between two statements.

PyMySQL logs in over that socket and runs all other statements
(:mod:`rowfall.systems.mysql.session`). Its documented classes take answers apart
(``pymysql.protocol``).

- LOAD DATA LOCAL INFILE from memory (:func:`load_data`). The server asks for a file by its name;
  what is sent in answer need not be one, and no file is opened here whatever name the server gives.
  PyMySQL would open the name, and send packets of 16 KiB.
- Rows that come in binary, as the answer to a prepared statement (:func:`execute`). To write its
  numbers as text takes the server more CPU than all else that it does for a row: for 1 M taxi rows
  of 51 columns 5.4 seconds as lines of TSV, 3.7 as plain text, and 1.5 in binary. rowfall-decode
  gets the socket (:mod:`rowfall.sources.handover`); where TLS encrypts it, its bytes are passed on.
  Nothing here looks into a row, so a row costs no Python.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from socket import SHUT_WR
from typing import Any, Protocol, Self

from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex
from rowfall.engines.database import ExternalWriter, Socket
from rowfall.sources.handover import DatabaseAnswer
from rowfall.sources.relay import LargeReads, SocketToPipe
from rowfall.systems.mysql.session import FILE_REJECTED, FILE_WANTED, SessionSocket

_QUERY, _PREPARE, _EXECUTE, _CLOSE = 0x03, 0x16, 0x17, 0x19
_HEADER, _PREPARED = 4, 12
_MOST_PACKET = (1 << 24) - 1
_FILE_PLEASE = b"\xfb"
_ENCODING = "utf-8"
# Of one packet; a server refuses larger ones than its max_allowed_packet, also here.
PACKET = 1 << 20
# The number of the first packet of rows: behind the statement, and the server's answer.
_FIRST = 2
# How long a server may take to say why it has given up: it has nothing to wait for any more.
_GIVES_UP_SECONDS = 10.0
# The byte of its length before the text may be a digit.
_NUMBERS = regex(r"([A-Z][a-z]+): (\d+)")


class PacketError(Exception):
    """The server ended the answer with an error: its number and text."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{text} (error {number})")
        self.number = number
        self.text = text

    @classmethod
    def of(cls, body: bytes) -> Self:
        """Return the error that a packet carries."""
        (number,) = struct.unpack_from("<H", body, 1)
        text = body[3:].decode(errors="replace")
        return cls(number, text[6:] if text[:1] == "#" else text)


class PacketReader(Protocol):
    """The buffered end of a connection."""

    def read1(self, size: int, /) -> bytes: ...


# --- commands and their answers -------------------------------------------------------------------


def send_command(connection: Any, command: int, *parts: bytes) -> None:
    """Send a command of any size."""
    wire: SessionSocket = connection.wire
    wire.begin_command()
    body = b"".join([bytes([command]), *parts])
    for number, at in enumerate(range(0, len(body) + 1, _MOST_PACKET)):
        part = body[at : at + _MOST_PACKET]
        wire.write(len(part).to_bytes(3, "little") + bytes([number % 256]) + part)


def read_packet(connection: Any) -> bytes:
    """Return the next packet of an answer.

    Raises:
        pymysql.err.MySQLError: it is an error, or the connection was lost.
    """
    from pymysql import err

    wire: SessionSocket = connection.wire
    body, size = b"", _MOST_PACKET
    while size == _MOST_PACKET:
        header = wire.read(_HEADER)
        size = int.from_bytes(header[:3], "little")
        part = wire.read(size) if len(header) == _HEADER else b""
        if len(header) < _HEADER or len(part) < size:
            raise err.OperationalError(2013, "Lost connection to MySQL server during query")
        body += part
    if body[:1] == b"\xff":
        err.raise_mysql_exception(body)
    return body


def read_counts(connection: Any) -> Any:
    """Read the answer to a command that gives no rows; return its counts and warnings.

    Raises:
        pymysql.err.MySQLError: it is an error.
    """
    from pymysql.protocol import MysqlPacket, OKPacketWrapper

    return OKPacketWrapper(MysqlPacket(read_packet(connection), _ENCODING))


def query(connection: Any, statement: str) -> tuple[Sequence[Any], list[list[bytes | None]]] | None:
    """Run a statement; return the columns as the protocol describes them, and the rows as text.

    None where it gives no rows.

    Raises:
        pymysql.err.MySQLError: the server refuses it.
    """
    from pymysql import err
    from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

    send_command(connection, _QUERY, statement.encode())
    first = MysqlPacket(read_packet(connection), _ENCODING)
    if first.is_ok_packet():
        return None
    if first.is_load_local_packet():
        connection.wire.write(b"\0\0\0" + bytes([_FIRST]))  # an empty file
        read_packet(connection)
        raise err.OperationalError(FILE_REJECTED, FILE_WANTED)
    count = first.read_length_encoded_integer()
    fields = [FieldDescriptorPacket(read_packet(connection), _ENCODING) for _ in range(count)]
    read_packet(connection)
    found = list[list[bytes | None]]()
    while True:
        packet = MysqlPacket(read_packet(connection), _ENCODING)
        if packet.is_eof_packet():
            return fields, found
        found.append([packet.read_length_coded_string() for _ in range(count)])


# --- rows that are sent --------------------------------------------------------------------------


class NoFileWantedError(Exception):
    """The server has answered LOAD DATA without asking for the file."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Holds the numbers that the server gives after LOAD DATA.

    Attributes:
        records: lines that it has read; ``deleted``: rows that they have replaced; ``skipped``:
            lines that it has left out. ``warnings``: values that it has changed, and the like.
    """

    records: int
    deleted: int
    skipped: int
    warnings: int


def load_data(
    connection: Any,
    statement: str,
    rows: Iterator[bytes],
    packet: int,
    sent: ExternalWriter | None = None,
) -> Loaded:
    """Run LOAD DATA LOCAL INFILE with rows from memory, or those that a program sends.

    Args:
        packet: bytes of one, at most.
        sent: by a program that has got the socket of the connection, see :func:`socket_of`.

    Raises:
        NoFileWantedError: the server takes no file.
        pymysql.err.MySQLError: it refuses the statement, or the rows.
        OSError: the connection was lost.
        Exception: whatever ``rows`` or ``sent`` raises. The server has then loaded those before;
            the connection can be used, and the transaction is to be rolled back.
    """
    send_command(connection, _QUERY, statement.encode())
    if not read_packet(connection).startswith(_FILE_PLEASE):
        raise NoFileWantedError
    packets = _Packets(connection.wire, packet)
    problem: BaseException | None = None
    try:
        for piece in rows:
            packets.send(piece)
        if sent is not None:
            number = sent.number()
            if number is None:
                raise _abandoned(connection)
            packets.number = number
            sent.check()
    except OSError:
        # A server that gives up says why before it closes.
        read_packet(connection)
        raise
    except BaseException as error:
        problem = error
    connection.wire.write(packets.header(0))
    said = read_counts(connection)
    if problem is not None:
        raise problem
    text = (said.message or b"").decode(errors="replace")
    numbers = {word: int(found) for word, found in _NUMBERS.findall(text)}
    return Loaded(
        numbers.get("Records", said.affected_rows), numbers.get("Deleted", 0),
        numbers.get("Skipped", 0), max(numbers.get("Warnings", 0), said.warning_count),
    )  # fmt: skip


class _Packets:
    """Sends rows in packets.

    Args:
        most: bytes of one.

    Attributes:
        number: of the next one, also where the rows have ended with an error.
    """

    def __init__(self, wire: SessionSocket, most: int) -> None:
        self._wire, self._most = wire, most
        self.number = _FIRST

    def header(self, size: int) -> bytes:
        """Return the header of the next packet; one of 0 bytes ends the rows."""
        found = size.to_bytes(3, "little") + self.number.to_bytes(1, "big")
        self.number = (self.number + 1) % 256
        return found

    def send(self, piece: bytes) -> None:
        rest = memoryview(piece)
        while rest:
            part, rest = rest[: self._most], rest[self._most :]
            self._wire.write(self.header(len(part)))
            self._wire.write(part)


def socket_of(connection: Any, packet: int) -> Socket | None:
    """Return the socket for rows of LOAD DATA; None where bytes go through this process first.

    Args:
        packet: bytes of one, at most.
    """
    wire: SessionSocket = connection.wire
    return Socket(wire.fileno(), _FIRST, packet) if wire.plain else None


def _abandoned(connection: Any) -> OSError:
    """End what is sent in the middle of a packet: no end of the rows can follow it."""
    connection.wire.settimeout(_GIVES_UP_SECONDS)
    connection.wire.shutdown(SHUT_WR)
    return ConnectionError("a packet of rows has not been sent as a whole")


# --- rows that are read --------------------------------------------------------------------------


def begin_lines(connection: Any, statement: str) -> PacketReader:
    """Send a query of one column and return what its rows are read from.

    Raises:
        pymysql.err.MySQLError: the server refuses it.
    """
    wire: SessionSocket = connection.wire
    send_command(connection, _QUERY, statement.encode())
    for _ in range(1 + 1 + 1):  # how many columns there are; how the one is described; an end
        read_packet(connection)
    return wire if wire.encrypted else LargeReads(wire.read1)


def prepare(connection: Any, statement: str) -> tuple[int, int]:
    """Prepare a statement, and return its number and how many columns it gives.

    No columns: it cannot be read in binary.

    Raises:
        pymysql.err.MySQLError: the server refuses it.
    """
    send_command(connection, _PREPARE, statement.encode())
    body = read_packet(connection)
    if len(body) < _PREPARED:  # no answer of a server that prepares statements
        return 0, 0
    number, columns, parameters = struct.unpack_from("<IHH", body, 1)
    for count in (parameters, columns):
        for _ in range(count + 1 if count else 0):  # how each is described, and an end
            read_packet(connection)
    return number, 0 if parameters else columns


def close_statement(connection: Any, number: int) -> None:
    """Let go of a prepared statement; the server does not answer that."""
    send_command(connection, _CLOSE, struct.pack("<I", number))


def execute(connection: Any, number: int) -> DatabaseAnswer:
    """Ask for the rows of a prepared statement, which somebody else reads from the socket."""
    _execute(connection, number)
    return DatabaseAnswer(connection.wire.fileno(), ends)


def relayed(connection: Any, number: int) -> SocketToPipe:
    """Ask for the rows of a prepared statement, which are passed on."""
    _execute(connection, number)
    wire: SessionSocket = connection.wire
    return SocketToPipe(wire.fileno(), wire.read1, ends, wire.pending if wire.encrypted else None)


def _execute(connection: Any, number: int) -> None:
    # Without a cursor, once.
    send_command(connection, _EXECUTE, struct.pack("<IBI", number, 0, 1))


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
            raise PacketError.of(data[at + _HEADER :])
    return False
