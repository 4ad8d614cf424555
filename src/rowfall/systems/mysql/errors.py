"""Errors of MySQL by number, and what can be read from their texts. Pure."""

from __future__ import annotations

import re

from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.masked import Secret, redact
from rowfall.core.netaddress import failed_tls
from rowfall.core.patterns import regex
from rowfall.engines.codes import NETWORK_ERROR
from rowfall.systems.mysql.client import name, quote

LOGIN, NO_DATABASE = (1045, 1698, 1862), (1049, 1044)
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
_TLS = (
    "Name the authority that signed the server's certificate with ?ssl_ca=FILE, and the host as "
    "the certificate has it."
)
_AGAIN = "Check that the server runs and is reached from here, then run the same command again."


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


def explained(
    error: Exception, what: str, *, at: str, user: str, database: str, password: Secret | None
) -> RowfallError:
    """Return what a server or the driver said in our words.

    Args:
        what: could not be done, as "connect to it".
        at: table and server, for people.
    """
    number = number_of(error)
    said = str(error.args[1]) if len(error.args) > 1 else str(error)
    text = f"{at}: cannot {what}: {redact(said, *((password,) if password else ()))}"
    text += f" (error {number})" if number else ""
    if failed_tls(said):
        return TargetError(text, hint=_TLS)
    if number in PASSING or isinstance(error, OSError) or not number:
        return EngineError(text, hint=_AGAIN, transient=True, code=NETWORK_ERROR)
    return TargetError(text, hint=_hint(number, f"{quote(user)}@'%'", name(database)))


def _hint(number: int, user: str, database: str) -> str | None:
    if number in LOGIN:
        return "Name the user in the address; the password is taken from MYSQL_PWD, too."
    if number in NO_RIGHT:
        return f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON {database}.* TO {user}."
    if number in NO_DATABASE:
        return f"CREATE DATABASE {database}, or name another one; SHOW DATABASES lists them."
    if number in READ_ONLY:
        return "The server takes no writes: name its primary in --to."
    if number in FULL:
        return "Free some space on the server, then run the same command again."
    if number == TOO_LARGE:
        return "Raise max_allowed_packet on the server."
    if number in SYNTAX:
        return "Check --order-by, --partition-by and the other options of the table."
    return None
