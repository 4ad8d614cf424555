"""What PyMySQL has no public way for: its sockets, its packets and its login. Only this file.

**To go**: rowfall-decode is to own such connections, by a public way of a client library; until
then private attributes of PyMySQL are used here, and nowhere else, and one packet is changed.

- The login tells a MariaDB that rows of parameters come (:func:`connection_class`), and the socket
  compresses where both sides agree (:mod:`rowfall.systems.mysql.packed`).
- LOAD DATA LOCAL INFILE from memory (:func:`load_data`). The server asks for a file by its name;
  what is sent in answer need not be one. PyMySQL would open the name and send packets of 16 KiB.
  Client libraries were compared on 150,000 taxi rows: the server needs 1.3 s of CPU for them, this
  0.06, PyMySQL's own way 0.08, so that none of them makes a load faster.
- Rows that come in binary, as the answer to a prepared statement (:func:`execute`). To write its
  numbers as text takes the server more CPU than all else that it does for a row: for 1 M taxi rows
  of 51 columns 5.4 seconds as lines of TSV, 3.7 as plain text, and 1.5 in binary. rowfall-decode
  gets the socket (:mod:`rowfall.sources.handover`); where TLS encrypts it, its bytes are passed on.
  Nothing here looks into a row, so a row costs no Python.
"""

from __future__ import annotations

import functools
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, Self

from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex
from rowfall.engines.database import ExternalWriter, Socket
from rowfall.sources.handover import Answer
from rowfall.sources.relay import Gathered, SocketToPipe
from rowfall.systems.mysql.packed import Packed

_QUERY, _PREPARE, _EXECUTE, _CLOSE = 0x03, 0x16, 0x17, 0x19
_HEADER, _PREPARED = 4, 12
_MOST_PACKET = (1 << 24) - 1
_FILE_PLEASE = b"\xfb"
# Of one packet; a server refuses larger ones than its max_allowed_packet, also here.
PACKET = 1 << 20
# The number of the first packet of rows: behind the statement, and the server's answer.
_FIRST = 2
# How long a server may take to say why it has given up: it has nothing to wait for any more.
_GIVES_UP_SECONDS = 10.0
# The byte of its length before the text may be a digit.
_NUMBERS = regex(r"([A-Z][a-z]+): (\d+)")
# Bit 34 of the client's capabilities, which MariaDB reads where bit 0 is not set: these four bytes
# were always zero in the protocol of MySQL.
_MYSQL, _BULK, _ZEROS = 1, 1 << 2, slice(9, 32)
_COMPRESS = 1 << 5


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


# --- sessions -----------------------------------------------------------------------------------


def takes_parameters(version: str) -> bool:
    """Tell whether a server of this version has the command: MariaDB since 10.2."""
    return "mariadb" in version.lower() and not version.startswith(("5.5.5-10.0", "5.5.5-10.1."))


@functools.cache
def connection_class(driver: Any, *, packed: bool) -> type[Any]:
    """Return the driver's connection, which tells a MariaDB that it sends rows of parameters.

    Args:
        packed: the protocol is to be compressed, if the server can do that.
    """

    class Connection(driver.connections.Connection):  # type: ignore[misc]
        _logs_in = False

        def _create_ssl_ctx(self, sslp: Any) -> Any:
            if sslp:
                return super()._create_ssl_ctx(sslp)
            # TLS where the server has it, whoever it is. The driver loads the certificates of the
            # system first, 36 ms for each connection, and asks for none.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context

        def _request_authentication(self) -> None:
            self._logs_in = self._local_infile and takes_parameters(str(self.server_version))
            packs = packed and self.server_capabilities & _COMPRESS
            self.client_flag |= _COMPRESS if packs else 0
            try:
                super()._request_authentication()
            finally:
                self._logs_in = False
            if packs:
                plain: Any = self
                self._sock = self._rfile = Packed(plain._sock, plain._rfile)

        def _execute_command(self, command: int, sql: str | bytes) -> None:
            begin_command(self)
            super()._execute_command(command, sql)
            self._next_seq_id: int = answer_number(self, self._next_seq_id)

        def write_packet(self, payload: bytes) -> None:
            # The header goes alone first where TLS begins behind it, and then once more.
            if self._logs_in and payload[_ZEROS] == bytes(_ZEROS.stop - _ZEROS.start):
                flags = int.from_bytes(payload[:4], "little") & ~_MYSQL
                rest = payload[4 : _ZEROS.stop - 4] + struct.pack("<I", _BULK)
                payload = struct.pack("<I", flags) + rest + payload[_ZEROS.stop :]
            super().write_packet(payload)

    return Connection


def end(connection: Any) -> None:
    """End a session without a word; safe for one that is lost."""
    with suppress(Exception):
        connection._force_close()


def interrupt(connection: Any) -> None:
    """End what another thread reads or sends on a connection."""
    with suppress(Exception):
        connection._sock.shutdown(socket.SHUT_RDWR)


def fields_of(cursor: Any) -> Sequence[Any]:
    """Return the columns of a result, as the protocol describes them."""
    found: Sequence[Any] = cursor._result.fields
    return found


# --- commands and their answers -------------------------------------------------------------------


def begin_command(connection: Any) -> None:
    """Tell a connection that a command begins."""
    if isinstance(connection._sock, Packed):
        connection._sock.begin()


def answer_number(connection: Any, number: int) -> int:
    """Return the number that the answer to what was sent has; send what is left of that.

    Of frames it is the number of the next one: a server that compresses goes on from there
    (``net_flush`` of MySQL and MariaDB).

    Args:
        number: of the next packet, which it is without frames.
    """
    if not isinstance(connection._sock, Packed):
        return number
    connection._sock.flush()
    return connection._sock.number


def send_command(connection: Any, parts: Sequence[bytes], size: int) -> int:
    """Send a command of any size; return the number that its answer has."""
    begin_command(connection)
    sock = connection._sock
    if size < _MOST_PACKET:
        sock.sendall(b"".join([size.to_bytes(3, "little") + b"\0", *parts]))
        return answer_number(connection, 1)
    whole, number = memoryview(b"".join(parts)), 0
    while True:
        part, whole = whole[:_MOST_PACKET], whole[_MOST_PACKET:]
        sock.sendall(len(part).to_bytes(3, "little") + bytes([number % 256]))
        sock.sendall(part)
        number += 1
        if len(part) < _MOST_PACKET:
            return answer_number(connection, number % 256)


def answer(connection: Any, number: int) -> Any:
    """Read the answer to a command, which has a number; return its counts and warnings.

    Raises:
        pymysql.err.MySQLError: it is an error.
    """
    from pymysql.protocol import OKPacketWrapper

    connection._next_seq_id = number
    return OKPacketWrapper(connection._read_packet())


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
    connection._execute_command(_QUERY, statement)
    if not connection._read_packet().get_all_data().startswith(_FILE_PLEASE):
        raise NoFileWantedError
    packets = _Packets(connection._sock, packet)
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
        connection._read_packet()
        raise
    except BaseException as error:
        problem = error
    connection._sock.sendall(packets.header(0))
    said = answer(connection, answer_number(connection, packets.number))
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

    def __init__(self, sock: Any, most: int) -> None:
        self._sock, self._most = sock, most
        self.number = _FIRST

    def header(self, size: int) -> bytes:
        """Return the header of the next packet; one of 0 bytes ends the rows."""
        found = size.to_bytes(3, "little") + self.number.to_bytes(1, "big")
        self.number = (self.number + 1) % 256
        return found

    def send(self, piece: bytes) -> None:
        """Send a piece."""
        rest = memoryview(piece)
        while rest:
            part, rest = rest[: self._most], rest[self._most :]
            self._sock.sendall(self.header(len(part)))
            self._sock.sendall(part)


def socket_of(connection: Any, packet: int) -> Socket | None:
    """Return the socket for rows of LOAD DATA; None where bytes go through this process first.

    Args:
        packet: bytes of one, at most.
    """
    sock = connection._sock
    # TLS and compression are objects of other classes. A time-out makes calls of all processes that
    # have the socket return before they are done.
    plain = type(sock) is socket.socket and sock.gettimeout() is None
    return Socket(sock.fileno(), _FIRST, packet) if plain else None


def _abandoned(connection: Any) -> OSError:
    """End what is sent in the middle of a packet: no end of the rows can follow it."""
    connection._read_timeout = _GIVES_UP_SECONDS
    with suppress(OSError):
        connection._sock.shutdown(socket.SHUT_WR)
    return ConnectionError("a packet of rows has not been sent as a whole")


# --- rows that are read --------------------------------------------------------------------------


def begin_lines(connection: Any, query: str) -> PacketReader:
    """Send a query of one column and return what its rows are read from.

    Raises:
        pymysql.err.MySQLError: the server refuses it.
    """
    connection._execute_command(_QUERY, query)
    head = connection._read_packet()
    for _ in range(head.read_length_encoded_integer()):
        connection._read_packet()  # how the column is described
    connection._read_packet()
    reader: PacketReader = connection._rfile
    return reader if isinstance(connection._sock, ssl.SSLSocket) else Gathered(reader.read1)


def prepare(connection: Any, statement: str) -> tuple[int, int]:
    """Prepare a statement, and return its number and how many columns it gives.

    No columns: it cannot be read in binary.

    Raises:
        pymysql.err.MySQLError: the server refuses it.
    """
    connection._execute_command(_PREPARE, statement)
    body = connection._read_packet().get_all_data()
    if len(body) < _PREPARED:  # no answer of a server that prepares statements
        return 0, 0
    number, columns, parameters = struct.unpack_from("<IHH", body, 1)
    for count in (parameters, columns):
        for _ in range(count + 1 if count else 0):  # how each is described, and an end
            connection._read_packet()
    return number, 0 if parameters else columns


def close_statement(connection: Any, number: int) -> None:
    """Let go of a prepared statement; the server does not answer that."""
    connection._execute_command(_CLOSE, struct.pack("<I", number))


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
    # Without a cursor, once.
    connection._execute_command(_EXECUTE, struct.pack("<IBI", number, 0, 1))


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
