"""TCP and TLS connections to one ClickHouse server: kept while idle, explained when lost."""

from __future__ import annotations

import base64
import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rowfall.core.errors import TargetError
from rowfall.core.masked import Secret

# A server that is up accepts in milliseconds; 10 s covers a far one that lost a SYN twice.
CONNECT_SECONDS = 10.0
# A peer that vanished without a word is noticed after 30 + 6 x 10 s, while a healthy one may
# work on a statement for hours without sending a byte.
KEEPALIVE_IDLE, KEEPALIVE_EVERY, KEEPALIVE_TIMES = 30, 10, 6
# The same 90 s for bytes that nobody acknowledges; Linux by itself would try for 15 minutes.
UNACKNOWLEDGED_MS = 90_000
# Load balancers that say nothing about keep-alive close idle connections after 5 s or more.
IDLE_SECONDS = 5.0
# More idle connections than lanes anybody uses only hold descriptors.
IDLE_CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is and who asks; the password is sent in a header only."""

    host: str
    port: int
    tls: bool = False
    user: str = ""
    password: Secret | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def headers(self) -> dict[str, str]:
        if not self.user:
            return {}
        # Basic, not X-ClickHouse-Key: every character of a password survives base64, and no
        # library error can quote it.
        key = f"{self.user}:{self.password.reveal() if self.password else ''}".encode()
        return {"Authorization": "Basic " + base64.b64encode(key).decode()}


class Reply(Protocol):
    """The answer to a request, as the standard library's client gives it."""

    @property
    def status(self) -> int: ...

    def getheaders(self) -> list[tuple[str, str]]: ...

    def read(self, amt: int | None = None, /) -> bytes: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """What is used of ``http.client.HTTPConnection``."""

    @property
    def sock(self) -> Any: ...

    def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], /
    ) -> None: ...

    def putrequest(self, method: str, url: str, /) -> None: ...

    def putheader(self, name: str, value: str, /) -> None: ...

    def endheaders(self) -> None: ...

    def send(self, data: bytes, /) -> None: ...

    def getresponse(self) -> Reply: ...

    def close(self) -> None: ...


class Connections:
    """Connections to one address, kept while idle; safe for threads."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[tuple[float, Connection]] = []
        self._guard = threading.Lock()
        self._closed = False
        self._tls = ssl.create_default_context() if address.tls else None

    def take(self, timeout: float | None) -> Connection:
        """A connection that was alive a moment ago, or a new one.

        Args:
            timeout: seconds that a read may take; None to wait as long as the peer is alive.

        Raises:
            TargetError: no connection; transient when trying again may help.
        """
        connection = self._waiting() or self._connect()
        connection.sock.settimeout(timeout)
        return connection

    def give(self, connection: Connection, headers: Mapping[str, str]) -> None:
        """Keep a connection for the next request, unless the server said that it will close it."""
        said = headers.get("keep-alive", "").partition("timeout=")[2].partition(",")[0]
        # Half of what the server promises: a request that crosses its close would be lost.
        seconds = int(said) / 2 if said.isdigit() else IDLE_SECONDS
        # http.client has taken the socket away where the answer ended with the connection.
        closes = headers.get("connection", "").lower() == "close" or connection.sock is None
        with self._guard:
            if not (closes or self._closed) and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append((time.monotonic() + seconds, connection))
                return
        connection.close()

    def close(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _waiting(self) -> Connection | None:
        while True:
            with self._guard:
                if not self._idle:
                    return None
                until, connection = self._idle.pop()
            # An idle connection has nothing to say; readable means that the server closed it.
            if time.monotonic() < until and not readable(connection.sock):
                return connection
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=self._tls)
        )
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise _unreachable(self.address, error) from None
        _keep_alive(connection.sock)
        return connection


def readable(sock: socket.socket) -> bool:
    """Whether the peer has said something, or has closed."""
    poll = select.poll()  # select() cannot take descriptors above 1023
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def reason(error: Exception) -> str:
    """Why a connection broke, for people."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the server closed the connection without an answer"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended in the middle of the answer"
    if isinstance(error, http.client.BadStatusLine):
        return "the answer is not HTTP"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _keep_alive(sock: socket.socket) -> None:
    """Notice a dead peer although a statement may be silent for hours."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
        ("TCP_KEEPALIVE", KEEPALIVE_IDLE),  # what macOS calls it
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY),
        ("TCP_KEEPCNT", KEEPALIVE_TIMES),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _unreachable(address: Address, error: OSError) -> TargetError:
    where = f"cannot connect to the ClickHouse server at {address}"
    if isinstance(error, socket.gaierror):
        return TargetError(
            f"{where}: the host name {address.host!r} is not known",
            hint="Check the spelling of the host in --to.",
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return TargetError(
            f"{where}: its certificate is not trusted ({error.verify_message})",
            hint="Use the name that the certificate was made for; name a private authority "
            "with the environment variable SSL_CERT_FILE.",
        )
    if isinstance(error, ssl.SSLError):
        return TargetError(
            f"{where}: it does not speak TLS there ({error.reason or error})",
            hint="clickhouses:// wants the HTTPS port (8443 by default), clickhouse:// the HTTP "
            "port (8123).",
        )
    return TargetError(
        f"{where}: {reason(error)}",
        hint="Check that the server runs and that this is its HTTP port (8123 by default, "
        "8443 with TLS).",
        transient=True,
    )
