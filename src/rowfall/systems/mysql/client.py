"""The client of both directions: connecting, sessions, errors by number, names in SQL.

Nothing here opens a connection but :func:`connect`, with PyMySQL, which is imported only then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rowfall.core import extras
from rowfall.core.dataclass import dataclass
from rowfall.core.masked import Secret, redact
from rowfall.core.netaddress import failed_tls
from rowfall.core.patterns import regex
from rowfall.systems.mysql.session import FILE_REJECTED, open_session

PORT, PASSWORD_VARIABLE, PARAMETERS = 3306, "MYSQL_PWD", ("ssl_ca", "socket")
"""Of addresses: the port without one, where a password is looked for, and what a URI may add."""

# --- names and literals ---------------------------------------------------------------------------

TSV_LINES = r"FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"
"""The lines that the engine writes, as LOAD DATA calls them."""


def name(identifier: str) -> str:
    """Return a backquoted identifier."""
    return "`" + identifier.replace("`", "``") + "`"


def quote(value: str) -> str:
    """Return a string literal (without NO_BACKSLASH_ESCAPES)."""
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    for plain, letter in (("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        escaped = escaped.replace(plain, letter)
    return f"'{escaped}'"


# --- errors ---------------------------------------------------------------------------------------

LOGIN, NO_DATABASE, NO_TABLE = (1045, 1698, 1862), (1049, 1044), (1146, 1051)
NO_RIGHT = (1142, 1143, 1370, 1227)
NO_FILES = (1148, 3948, 4166)
"""LOAD DATA LOCAL is switched off."""
READ_ONLY = (1290, 1836)
FULL = (1021, 1041, 1114, 3675)
SYNTAX = (1064, 1072, 1170, 1503, 1286)
TOO_LARGE, DUPLICATE, LOCKED, DEADLOCK = 1153, (1062, 1022, 1586), 1205, 1213
# Too many connections, shutdown, killed, lost, timed out, deadlock, table changed: the next try may
# not meet them.
PASSING = frozenset({
    1028, 1040, 1053, 1077, 1079, 1152, 1156, 1157, 1158, 1159, 1160, 1161, 1180, 1203, 1205, 1213,
    1317, 1412, 1927, 1969, 2002, 2003, 2006, 2013, 2055, 4031,
})  # fmt: skip
LOST = frozenset({0, 1053, 1077, 1079, 1927, 2006, 2013, 2055})
"""The connection has ended."""
_COLUMN = regex(r"column (?:`[^`]*`\.`[^`]*`\.)?[`']([^`']+)[`']")
_VALUE = regex(r"(?:value|entry):? '(.*?)' for ", re.DOTALL)
_AT_ROW = regex(r" at row (\d+)\Z|\ARow (\d+) ")
_ROW = regex(r" at row \d+\Z|\ARow \d+ ")
TLS_HINT = (
    "Name the authority that signed the server's certificate with ?ssl_ca=FILE, and the host as "
    "the certificate has it."
)
AGAIN_HINT = "Check that the server runs and is reached from here, then run the same command again."


def number_of(error: BaseException) -> int:
    """Return the number of an error; 0 where it has none."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def column_in(text: str) -> str | None:
    """Return the column that a text of the server names."""
    found = _COLUMN.search(text)
    return found[1] if found else None


def value_in(text: str) -> str | None:
    """Return the value that a text of the server quotes."""
    found = _VALUE.search(text)
    return found[1] if found else None


def row_in(text: str) -> int | None:
    """Return the row of a statement that a text of the server names, from 1."""
    found = _AT_ROW.search(text)
    return int(found[1] or found[2]) if found else None


def names_row(text: str) -> bool:
    """Tell whether a text of the server is about one row."""
    return bool(_ROW.search(text)) or column_in(text) is not None


@dataclass(frozen=True, slots=True)
class ServerError:
    """Error of a server or of the driver.

    Attributes:
        number: 0 where there is none; ``text``: without secrets.
        lost: it is the network's, whatever the number.
    """

    number: int
    text: str
    lost: bool

    @property
    def transient(self) -> bool:
        """True where the next try may not meet it. A certificate does not change by itself."""
        return not self.failed_tls and (self.number in PASSING or self.lost)

    @property
    def failed_tls(self) -> bool:
        """True where no session could be encrypted."""
        return failed_tls(self.text)

    def hint(self, *, right: str, database: str) -> str | None:
        """Return the hint for this error; None where there is none.

        Args:
            right: statement that gives the right that is missing. ``database``: what to do where
                there is none of that name, or no right to it.
        """
        if self.number in LOGIN:
            return "Name the user in the address; the password is taken from MYSQL_PWD, too."
        if self.number in NO_RIGHT:
            return right
        if self.number in NO_DATABASE:
            return database
        if self.failed_tls:
            return TLS_HINT
        return AGAIN_HINT if self.transient else None

    def sentence(self, what: str) -> str:
        """Return the text of an error; ``what``: "cannot read x"."""
        return f"{what}: {self.text}" + (f" (error {self.number})" if self.number else "")


def said(error: Exception, *secrets: Secret) -> ServerError:
    """Return number and text, without secrets, of an error of the driver or the network."""
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return ServerError(number_of(error), redact(text, *secrets), isinstance(error, OSError))


# --- sessions -------------------------------------------------------------------------------------

PATIENCE_SECONDS = 3_600
"""How long the server waits for rows that do not come, or for who does not read: by itself 30 s,
60 s or 8 h. The other side may pause for longer while it merges."""
_SESSION = {"time_zone": "'+00:00'", "net_write_timeout": PATIENCE_SECONDS}
# By what a server calls the longest time of a statement: MariaDB the first.
_NO_LIMIT = ("max_statement_time", "max_execution_time")


@dataclass(frozen=True, slots=True)
class Login:
    """Who asks which server.

    Attributes:
        ca: file of the authority that has to have signed the server's certificate; "" for any.
            The session is encrypted wherever the server can.
        socket: path of the server's socket on this machine; "" for host and port.
    """

    host: str
    port: int
    user: str
    password: Secret | None
    database: str
    ca: str = ""
    socket: str = ""


def driver(scheme: str = "mysql") -> Any:
    """Return PyMySQL.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import pymysql
    except ImportError:
        raise extras.missing(
            f"{scheme}:// needs PyMySQL, which is not installed", "mysql"
        ) from None
    return pymysql


def connect(login: Login, *, sends: bool = False, packed: bool = False) -> Any:
    """Return a new connection.

    Args:
        sends: rows are sent on it, as LOAD DATA LOCAL or as parameters. ``packed``: compressed.

    Raises:
        pymysql.err.MySQLError: the server refuses it.
        OSError: it is not reached.
        RuntimeError: a password of MySQL 8 without TLS needs another package, which it names.
    """
    parts = {
        "host": login.host, "port": login.port, "user": login.user or None,
        "database": login.database, "charset": "utf8mb4", "autocommit": True,
        "password": login.password.reveal() if login.password else "",
        "unix_socket": login.socket or None,
    }  # fmt: skip
    return open_session(driver(), parts, login.ca, sends=sends, packed=packed)


def set_up(connection: Any, settings: Mapping[str, object], isolation: str) -> None:
    """Set what a session needs; what a server does not know does not matter there.

    Args:
        settings: variables besides those of every session, as SQL.

    Raises:
        pymysql.err.MySQLError, OSError: the session has ended.
    """
    err = driver().err
    other = "mariadb" not in connection.get_server_info().lower()
    wanted = {**_SESSION, **settings, _NO_LIMIT[other]: 0}
    texts = [f"{variable} = {value}" for variable, value in wanted.items()]
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SET SESSION {', '.join(texts)}")
        except err.MySQLError as error:
            if number_of(error) in PASSING or number_of(error) == FILE_REJECTED:
                raise
            for text in texts:
                with suppress(err.MySQLError):
                    cursor.execute(f"SET SESSION {text}")
        try:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        except err.MySQLError as error:
            if number_of(error) in PASSING:
                raise
