"""Sessions whose socket is ours: PyMySQL logs in over it and runs statements.

PyMySQL takes an open socket (``Connection.connect(sock)``). So rows, which it has no way for, go
over the same socket between two of its statements (:mod:`rowfall.systems.mysql.wire`), and nothing
of PyMySQL is used but its public methods.

MariaDB takes rows of parameters (:mod:`rowfall.systems.mysql.bulk`) from a client that says so in
four bytes of its login that MySQL reserves. No client library offers these bytes; they are written
into the login that PyMySQL makes, by the fields of the documentation (``_LOGIN``).

The server says which file LOAD DATA LOCAL is to send, and may say so in answer to any statement:
PyMySQL would open that name, whatever it is. Here only the capability is announced
(``client_flag``) and ``local_infile`` stays off, so that PyMySQL refuses, and
:func:`rowfall.systems.mysql.wire.load_data` sends rows whatever the name.
"""

from __future__ import annotations

import functools
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

from rowfall.systems.mysql.packed import Packed

CONNECT_SECONDS = 10
"""How long a server may take to accept a connection."""
FILE_REJECTED = 2068
"""The server asks for a file that no statement names; a number of the client library of MySQL."""
FILE_WANTED = "the server asks for a file of this machine, which it does not get"
_HEADER = 4
# How a login begins, and a request for TLS is no more: capabilities, the longest packet, character
# set, reserved, and capabilities of MariaDB where the one of MySQL, bit 0, is not set
# (https://mariadb.com/kb/en/connection/#client-handshake-response).
_LOGIN = struct.Struct("<IIB19sI")
_MYSQL, _BULK = 1, 1 << 2
# Capabilities in the login; of a server that does not announce TLS 2026 is the error of PyMySQL.
_LOCAL_FILES, _COMPRESS, _NO_TLS, _NO_CONNECTION = 1 << 7, 1 << 5, 2026, 2003


# --- the socket -----------------------------------------------------------------------------------


class SessionSocket:
    """The socket of one session, which PyMySQL uses as such and as the file that it reads.

    Args:
        compresses: tells, after the login, whether both sides have agreed to compress.
    """

    def __init__(self, sock: socket.socket, compresses: Callable[[], bool]) -> None:
        self._sock, self._compresses = sock, compresses
        self._file: IO[bytes] = sock.makefile("rb")
        self._frames: Packed | None = None
        # Of the packet that is read, bytes that are left; the number that PyMySQL expects next.
        self._left = self._number = 0

    # What PyMySQL calls.

    def makefile(self, mode: str) -> SessionSocket:
        """Return this socket itself, to read packets from."""
        return self

    def settimeout(self, seconds: float | None) -> None:
        """Set how long a call waits; None for ever."""
        self._sock.settimeout(seconds)

    def encrypt(self, wrap: Callable[[socket.socket], ssl.SSLSocket]) -> None:
        """Go on with TLS."""
        self._file.close()
        self._sock = wrap(self._sock)
        self._file = self._sock.makefile("rb")

    def sendall(self, data: bytes) -> None:
        """Send one packet of PyMySQL."""
        if data[3] == 0:  # packets of a login are numbered on from the server's first one
            self.begin_command()
        self._number = (data[3] + 1) % 256
        self.write(data)

    def read(self, count: int) -> bytes:
        """Return so many bytes of a packet: its header, then its body; fewer at the end."""
        if self._frames is None:
            return self._file.read(count)
        data = self._frames.read(count)
        if self._left:
            self._left -= len(data)
        elif len(data) == _HEADER:
            # A server that compresses numbers its answer on from the frames (``net_flush`` of MySQL
            # and MariaDB), and PyMySQL takes another number for a lost connection.
            self._left = int.from_bytes(data[:3], "little")
            data = data[:3] + bytes([self._number])
            self._number = (self._number + 1) % 256
        return data

    def close(self) -> None:
        """Close it; safe to call twice. What waits to be compressed is not sent."""
        with suppress(OSError, ValueError):
            self._file.close()
        with suppress(OSError):
            self._sock.close()

    # What rows go by.

    def begin_command(self) -> None:
        """Number frames anew: what is sent next is a command."""
        if self._frames is None and self._compresses():
            self._frames = Packed(self._sock, self._file)
        if self._frames is not None:
            self._frames.begin()

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes of packets."""
        if self._frames is None:
            self._sock.sendall(data)
        else:
            self._frames.sendall(data)

    def read1(self, size: int) -> bytes:
        """Return at most so many bytes of rows, as soon as there are some; not of frames."""
        return self._file.read1(size)  # type: ignore[attr-defined, no-any-return]

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._sock.fileno()

    @property
    def encrypted(self) -> bool:
        """True where only this process can read what comes."""
        return isinstance(self._sock, ssl.SSLSocket)

    @property
    def plain(self) -> bool:
        """True where packets can be written into the descriptor.

        A time-out makes calls of all processes that have the descriptor return before they are
        done.
        """
        return not self.encrypted and self._frames is None and self._sock.gettimeout() is None

    def pending(self) -> int:
        """Return the bytes that TLS has taken from the descriptor and not given yet."""
        return self._sock.pending() if isinstance(self._sock, ssl.SSLSocket) else 0

    def shutdown(self, how: int = socket.SHUT_RDWR) -> None:
        """End the connection for all threads that read or send; raises nothing."""
        with suppress(OSError):
            self._sock.shutdown(how)


class _Encryption(ssl.SSLContext):
    """Encrypts a :class:`SessionSocket` in place, so that it stays the one of its session."""

    def wrap_socket(self, sock: Any, *args: Any, **more: Any) -> Any:
        sock.encrypt(lambda plain: super(_Encryption, self).wrap_socket(plain, *args, **more))
        return sock


def _encryption(authority: str) -> _Encryption:
    """Return the TLS context of sessions.

    By itself PyMySQL loads the certificates of the system, 36 ms for each session, and asks for
    none.

    Args:
        authority: file with the CA that has to have signed the server's certificate; "" for any
            certificate.

    Raises:
        OSError: the file cannot be read.
    """
    context = _Encryption(ssl.PROTOCOL_TLS_CLIENT)
    # The certificates that MySQL makes for itself are not strict.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if authority:
        context.load_verify_locations(authority)
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# --- sessions -------------------------------------------------------------------------------------


def takes_parameters(version: str) -> bool:
    """Tell whether a server of this version takes rows of parameters: MariaDB since 10.2."""
    return "mariadb" in version.lower() and not version.startswith(("5.5.5-10.0", "5.5.5-10.1."))


def _with_parameters(login: bytes) -> bytes:
    """Return a login that says that rows of parameters come."""
    flags, most, charset, reserved, _ = _LOGIN.unpack_from(login)
    begin = _LOGIN.pack(flags & ~_MYSQL, most, charset, reserved, _BULK)
    return begin + login[_LOGIN.size :]


def _opened(host: str, port: int, path: str) -> socket.socket:
    """Return a socket that is connected: with that of a path on this machine, where one is named.

    Raises:
        OSError: nothing answers there.
    """
    if path:
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(CONNECT_SECONDS)
        plain.connect(path)
        return plain
    plain = socket.create_connection((host, port), CONNECT_SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return plain


@functools.cache
def _session_class(driver: Any) -> type[Any]:
    """Return PyMySQL's connection over a socket of ours."""

    class Session(driver.connections.Connection):  # type: ignore[misc]
        """A session.

        Attributes:
            wire: its socket.
        """

        wire: SessionSocket

        def connect(self, sock: Any = None) -> None:
            try:
                plain = _opened(self.host, self.port, self.unix_socket or "")
            except OSError as error:
                at = self.unix_socket or self.host
                text = f"Can't connect to MySQL server on {at!r} ({error})"
                raise driver.err.OperationalError(_NO_CONNECTION, text) from error
            self.wire, self._logs_in = SessionSocket(plain, self._compresses), True
            super().connect(self.wire)

        def write_packet(self, payload: bytes) -> None:
            if self._logs_in:
                self._logs_in = len(payload) == _LOGIN.size  # the login itself follows TLS
                if self._sends and takes_parameters(str(self.server_version)):
                    payload = _with_parameters(payload)
            super().write_packet(payload)

        def query(self, sql: str, unbuffered: bool = False) -> int:
            try:
                return int(super().query(sql, unbuffered))
            except RuntimeError:
                # The server waits for a file, so the session is of no more use.
                self.wire.shutdown()
                raise driver.err.OperationalError(FILE_REJECTED, FILE_WANTED) from None

        @property
        def _sends(self) -> bool:
            return bool(self.client_flag & _LOCAL_FILES)

        def _compresses(self) -> bool:
            return bool(self.client_flag & self.server_capabilities & _COMPRESS)

    return Session


def open_session(
    driver: Any, login: dict[str, Any], authority: str, *, sends: bool, packed: bool
) -> Any:
    """Return a new session, encrypted where the server can.

    Args:
        login: of PyMySQL's connection. ``authority``: see :func:`_encryption`; where one is named
            the session has to be encrypted.
        sends: LOAD DATA LOCAL is allowed. ``packed``: compressed, if the server can.

    Raises:
        pymysql.err.MySQLError: the server refuses it.
        OSError: it is not reached.
        RuntimeError: a password of MySQL 8 without TLS needs another package, which it names.
    """
    flags = (_LOCAL_FILES if sends else 0) | (_COMPRESS if packed else 0)
    session = _session_class(driver)
    try:
        return session(**login, client_flag=flags, ssl=_encryption(authority))
    except driver.err.OperationalError as error:
        if authority or error.args[0] != _NO_TLS:
            raise
    return session(**login, client_flag=flags, ssl_disabled=True)


def end(connection: Any) -> None:
    """End a session without a word; safe for one that is lost."""
    connection.wire.shutdown()
    with suppress(Exception):
        connection.close()


class Pool:
    """The idle sessions with one server; any thread may call.

    Args:
        connect: returns a new session.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._guard = threading.Lock()
        self._idle: list[Any] = []

    def __len__(self) -> int:
        """Return the number of idle sessions."""
        return len(self._idle)

    def take(self) -> Any:
        """Return a session: one that is idle, or a new one."""
        with self._guard:
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def keep(self, connections: Sequence[Any]) -> None:
        """Keep sessions for those who take one next."""
        with self._guard:
            self._idle += connections

    def end_idle(self) -> None:
        """End those that nobody uses."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            end(connection)


# Readers of all tables together take at most as many as there are, so who waits for one for so long
# waits for readers that are stuck, and gets another one of a later moment.
_WAIT_SECONDS = 60.0
# Of all tables together; the shortest wait that MySQL knows for a lock is a second.
_WRITERS_SECONDS, _LEAST_WAIT = 5.0, 1


class SharedSessions:
    """Sessions that read several tables, with snapshots of one moment; any thread may call.

    Args:
        connect: returns a new session. ``begin``: begins its snapshot.
    """

    def __init__(self, connect: Callable[[], Any], begin: Callable[[Any], None]) -> None:
        self._connect, self._begin = connect, begin
        self._changed = threading.Condition()
        self._idle: list[Any] = []
        self._there = 0  # sessions of the moment, idle or not
        self._asking = Pool(connect)
        self._settled_by = 0.0
        self.late = 0
        """Sessions that were opened after the moment, as one of it was lost."""

    def take_asking(self) -> Any:
        """Return a session for questions, without a snapshot."""
        return self._asking.take()

    def keep_asking(self, connection: Any) -> None:
        """Keep a session for the next questions."""
        self._asking.keep([connection])

    def writers_seconds(self) -> int:
        """Return how long writers of one more table are waited for."""
        self._settled_by = self._settled_by or time.monotonic() + _WRITERS_SECONDS
        return max(_LEAST_WAIT, int(self._settled_by - time.monotonic()))

    def fill(self, count: int) -> None:
        """Open so many sessions, and begin their snapshots when all are there."""
        opened = [self._connect() for _ in range(count)]
        for connection in opened:
            self._begin(connection)
        with self._changed:
            self._idle += opened
            self._there += count

    def take(self) -> Any:
        """Return a session that is idle; where all are lost, a new one of a later moment."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            with self._changed:
                while not self._idle and self._there and time.monotonic() < deadline:
                    self._changed.wait(deadline - time.monotonic())
                if not self._idle:
                    break
                connection = self._idle.pop()
            with suppress(Exception):  # whatever says that the server has ended it
                connection.ping(reconnect=False)
                return connection
            self.give_back(connection, good=False)
        connection = self._connect()
        self._begin(connection)
        with self._changed:
            self._there += 1
            self.late += 1
        return connection

    def give_back(self, connection: Any, *, good: bool) -> None:
        """Keep a session that has read to its end, and end one that has not."""
        if not good:
            end(connection)
        with self._changed:
            if good:
                self._idle.append(connection)
            else:
                self._there -= 1
            self._changed.notify()

    def close(self) -> None:
        """End those that nobody uses."""
        self._asking.end_idle()
        with self._changed:
            idle, self._idle = self._idle, []
        for connection in idle:
            end(connection)
