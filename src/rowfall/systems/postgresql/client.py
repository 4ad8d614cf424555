"""The client: connecting, what a session is set to, names as SQL, and what errors mean."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rowfall.core import extras
from rowfall.core.dataclass import dataclass
from rowfall.core.masked import Secret, redact
from rowfall.core.netaddress import failed_tls

if TYPE_CHECKING:
    from psycopg import Connection

PORT = 5432
PASSWORD_VARIABLE = "PGPASSWORD"  # noqa: S105 - its name
SETTINGS = (
    "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "service", "passfile",
    "host", "port",
)  # fmt: skip
"""Parameters of a URI that go to the driver; several hosts and ports have commas between them."""

# What texts of values mean, whatever the role has set; and what would end or slow a connection
# that reads, or waits for its source, for hours: compiling takes longer than it saves where rows
# are written. The server gives up a client that is gone after a minute, not after two hours, so
# that its splits are free again.
_SESSION = (
    b"SET client_encoding = 'UTF8'; SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; "
    b"SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'; SET extra_float_digits = 1; "
    b"SET standard_conforming_strings = on; SET statement_timeout = 0; SET lock_timeout = 0; "
    b"SET idle_in_transaction_session_timeout = 0; SET jit = off; SET tcp_keepalives_idle = 30; "
    b"SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
)
# A server that does not answer is told from one that is far away within this.
_CONNECT_SECONDS = 10
_RETRY_SECONDS = 0.5
# A server that says so takes connections a little later.
_PASSING = (
    "starting up", "shutting down", "in recovery mode", "too many clients", "not yet acc",
    "connection slots",
)  # fmt: skip
# Codes behind which another try may succeed: connections, shutdown and start, resources but a full
# disk, deadlocks and conflicts of transactions or with recovery, locks.
_TRANSIENT = ("08", "57P", "532", "533", "534", "40", "55P03")


def driver() -> ModuleType:
    """Return psycopg; see :func:`rowfall.core.extras.driver`."""
    what = "the driver of PostgreSQL is not installed"
    return extras.driver(what, "postgresql", "psycopg")


class Cause(StrEnum):
    """Cause of an error of the server, the driver or the network."""

    LOST = "the server is away"
    TLS = "its certificate is not trusted"
    PASSWORD = "it does not let the user in"  # noqa: S105 - no password
    MISSING = "it has no such database or role"
    RIGHTS = "the user may not"
    READ_ONLY = "nothing may be written"
    DISK_FULL = "its disk is full"
    VALUE = "a value or a constraint"
    SQL = "the statement"
    OTHER = "something else"


_CAUSES = {"42501": Cause.RIGHTS, "25006": Cause.READ_ONLY, "53100": Cause.DISK_FULL}
_CLASSES = {"22": Cause.VALUE, "23": Cause.VALUE, "42": Cause.SQL}
# Of the client library, which gives no code where it cannot connect.
_WORDS = (
    ("password authentication failed", Cause.PASSWORD), ("no password supplied", Cause.PASSWORD),
    ("no pg_hba.conf entry", Cause.PASSWORD), ("does not exist", Cause.MISSING),
)  # fmt: skip

# Behind "Connection refused": what the hint asks, too.
_QUESTION = " Is the server running on that host and accepting TCP/IP connections?"

HINTS = {
    Cause.TLS: "Name the authority that signed the server's certificate with ?sslrootcert=FILE, "
    "and the host as the certificate has it.",
    Cause.PASSWORD: "Set PGPASSWORD, or write user:password@ in the URI.",
    Cause.DISK_FULL: "Free some space there and run the same command again.",
}
"""What helps, where that is the same for a source and a target."""


@dataclass(frozen=True, slots=True)
class PostgresFailure:
    """An error of the driver, understood.

    Attributes:
        text: all that was said, on one line. ``code``: SQLSTATE; "" where the server gave none.
        transient: another try may succeed.
    """

    cause: Cause
    code: str
    text: str
    transient: bool


def understand(error: Any, password: Secret | None) -> PostgresFailure:
    """Return cause and text, without the password, of an error of the driver or the server."""
    code = error.sqlstate or ""
    text = redact(" ".join(str(error).split()), *([password] if password else []))
    for start in ("connection failed: ", "ERROR: ", "FATAL: "):
        text = text.removeprefix(start)
    text = text.replace(_QUESTION, "")
    if code:
        cause = _CAUSES.get(code) or _CLASSES.get(code[:2], Cause.OTHER)
        return PostgresFailure(cause, code, text, code.startswith(_TRANSIENT))
    if failed_tls(text):
        return PostgresFailure(Cause.TLS, "", text, transient=False)
    for words, cause in _WORDS:
        if words in text:
            return PostgresFailure(cause, "", text, transient=False)
    lost = isinstance(error, (driver().OperationalError, driver().InterfaceError))
    return PostgresFailure(Cause.LOST if lost else Cause.OTHER, "", text, transient=lost)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A database of a server, and who asks it.

    Attributes:
        user: "" for that of the driver. ``settings``: see :data:`SETTINGS`.
    """

    host: str
    port: int
    user: str
    password: Secret | None
    database: str
    settings: Mapping[str, str]

    def connect(self, patience: float = 0.0) -> Connection[Any]:
        """Return a new connection whose statements commit by themselves.

        Args:
            patience: seconds that the server may be away.

        Raises:
            psycopg.Error: it cannot be reached, or refuses the user.
        """
        psycopg = driver()
        given: dict[str, Any] = {"port": self.port, **self.settings}
        began = time.monotonic()
        while True:
            try:
                connection: Connection[Any] = psycopg.connect(
                    host=self.host, user=self.user or None,
                    password=self.password.reveal() if self.password else None,
                    dbname=self.database, autocommit=True, connect_timeout=_CONNECT_SECONDS,
                    application_name="rowfall", prepare_threshold=None, keepalives_idle=30,
                    **given,
                )  # fmt: skip
                connection.execute(_SESSION)
                return connection
            except psycopg.Error as error:
                said = str(error)
                passing = any(word in said for word in _PASSING)
                # What refuses this user, or is not trusted, will be so again.
                again = passing or ("FATAL" not in said and self.understand(error).transient)
                waits = max(patience if again else 0.0, _CONNECT_SECONDS if passing else 0.0)
                if time.monotonic() >= began + waits:
                    raise
            time.sleep(_RETRY_SECONDS)

    def understand(self, error: Any) -> PostgresFailure:
        """Return cause and text of an error of this address; see :func:`understand`."""
        return understand(error, self.password)
