"""Relayed statements: for a server that cannot be reached from here, through one that can.

The other server, the entry, has ``url()``: an INSERT into it posts a statement, and a SELECT from
it gives what one returns. So nothing but HTTP between the two is needed, and each statement keeps
its query id on the far server, where it can be found, ended, and looked up after a loss. A lost
relay is as unknown as a lost connection.

What is different from a connection of one's own:

- A post brings no figures and an error no text (24.10): they come from the far ``query_log``, which
  the user has to be allowed to read.
- Rows cannot be streamed: ``url()`` would hold all of them in memory.
- Tables that are sent with a statement become temporary tables of a session.

The entry's logs hide the values of ``headers()``, where the password is, and never have what is
posted. The text of a SELECT is in them, so one with secrets is refused.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode

from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.masked import Secret
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import ROWS_FORMAT, read_rows
from rowfall.systems.clickhouse.codes import (
    ACCESS_DENIED,
    AUTHENTICATION_FAILED,
    RECEIVED_ERROR_FROM_HTTP,
    URL_REFUSED,
)
from rowfall.systems.clickhouse.http import (
    Address,
    Connection,
    Connections,
    HttpReply,
    MultipartForm,
    is_long,
)

# As for a connection of our own: a server that is up accepts in milliseconds.
CONNECT_SECONDS = 10
# The entry cannot notice a far server that vanished. A statement that takes longer than this is
# followed by its query id, as after a lost connection.
SILENCE_SECONDS = 600
# The entry keeps connections to a far server that has been restarted meanwhile, and notices only
# when it uses them. What only reads is asked again.
READ_TRIES, _STALE = 3, "No message received"
# Of the far server's own limit for addresses, 1 MiB, and what else stands there.
LONGEST_URL = 1_000_000

_READS = regex(r"[\s(]*(SELECT|WITH|SHOW|DESCRIBE|DESC|EXISTS|EXPLAIN)\b", re.IGNORECASE)
_INSERTS = regex(r"\s*INSERT\b", re.IGNORECASE)
_FAR_STATUS = regex(r"HTTP status code: (\d+) '([^']*)'")
_CODE = regex(r"Code: (\d+)\. DB::")
NO_TABLE = "404"  # the status of UNKNOWN_TABLE
_NOT_SENT = regex(
    r"[Cc]onnection refused|Not found address of host|No route to host|Network is unreachable"
    r"|[Cc]onnect timed out|Host not found|SSL Exception|[Cc]ertificate"
)
# The far log is written every 7.5 s by default (a busy server is late); after a flush it is
# complete.
FAR_LOG_SECONDS, FLUSHED_SECONDS = 20.0, 1.0
PAUSE_SECONDS = 0.25


class RelayedServer(Connections):
    """Connections to ``address`` through those to another server.

    Args:
        through: to the entry; they stay the caller's to close.
        settings: those that the user may change on the entry.
    """

    def __init__(self, address: Address, through: Connections, settings: Collection[str]) -> None:
        super().__init__(address)
        self.through = through
        self.settings = settings
        self.log = FarQueryLog(self.answer)

    def take(self, timeout: float | None) -> Connection:
        """See :class:`Connections`.

        Raises:
            TargetError: the entry cannot be reached.
        """
        return RelayedConnection(self, timeout)

    def give(self, connection: Connection, headers: Mapping[str, str]) -> None:
        if isinstance(connection, RelayedConnection):
            self.through.give(connection.inner, headers)

    def check(self, sql: SqlText) -> None:
        """Raise TargetError for a question with secrets, which the entry would log."""
        text = str(sql)
        if _READS.match(text) and any(isinstance(part, Secret) for part in sql.parts):
            raise TargetError(
                f"a question with secrets cannot be sent to {self.address} through "
                f"{self.through.address}, which would log them",
                hint="Load from where that server can be reached.",
            )

    def answer(self, parameters: Mapping[str, str], sql: str) -> bytes:
        """Return the far server's answer to a question of our own; raise NoRowsError."""
        wire = RelayedConnection(self, FAR_LOG_SECONDS)
        try:
            wire.send_on(dict(parameters), sql.encode())
            reply = wire.inner.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            wire.close()
            raise NoRowsError(final=False) from None
        except RowfallError:
            wire.close()
            raise NoRowsError(final=True) from None
        self.give(wire, {name.lower(): value for name, value in reply.getheaders()})
        if not _well(reply):
            status = _FAR_STATUS.search(text.decode(errors="replace"))
            raise NoRowsError(final=status is None or status[1] != NO_TABLE)
        return text


class RelayedConnection:
    """One connection to the entry, used as if it were one to the far server.

    Attributes:
        inner: the connection to the entry.
    """

    def __init__(self, relay: RelayedServer, timeout: float | None) -> None:
        self.inner = relay.through.take(timeout)
        self._relay = relay
        self._patience = SILENCE_SECONDS if timeout is None else max(1, round(timeout))
        self._query_id = ""
        self._inserts = False
        self._early: HttpReply | None = None
        self._again: tuple[dict[str, str], bytes] | None = None
        self._tries = READ_TRIES

    @property
    def sock(self) -> Any:
        return self.inner.sock

    def close(self) -> None:
        self.inner.close()

    def request(self, method: str, url: str, body: bytes, headers: Mapping[str, str], /) -> None:
        """Send what :class:`Exchange` sends to a server; ``headers`` are made anew."""
        parameters = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
        statement = body.statement if isinstance(body, MultipartForm) else body
        self._query_id = parameters.setdefault("query_id", f"rowfall-{uuid.uuid4()}")
        self._inserts = bool(_INSERTS.match(_start(statement)))
        if parameters.get("log_queries") == "0":
            # Only the far log has the text of an error.
            parameters |= {"log_queries": "1", "log_queries_min_type": "EXCEPTION_BEFORE_START"}
        if isinstance(body, MultipartForm):
            for name in body.parts:
                parameters.pop(f"{name}_format", None)
                parameters.pop(f"{name}_structure", None)
            self._early = self._send_tables(body.parts, parameters)
        if self._early is None:
            self._again = (parameters, statement) if _reads(statement) else None
            self.send_on(parameters, statement)

    def _send_tables(
        self, tables: Mapping[str, bytes], parameters: dict[str, str]
    ) -> HttpReply | None:
        """Make temporary tables in place of external ones; return an answer that refuses one."""
        session = {"session_id": f"rowfall-{uuid.uuid4()}"}
        parameters |= session
        for name, data in tables.items():
            for text in (
                f"CREATE TEMPORARY TABLE {name} (text String)".encode(),
                f"INSERT INTO {name} FORMAT RawBLOB\n".encode() + data,
            ):
                self._query_id = f"rowfall-{uuid.uuid4()}"
                self.send_on({**session, "query_id": self._query_id}, text)
                reply = self.inner.getresponse()
                if not _well(reply):
                    return reply
                reply.read()
        self._query_id = parameters["query_id"]
        return None

    def send_on(self, parameters: dict[str, str], statement: bytes) -> None:
        """Have the entry send a statement to the far server.

        Raises:
            TargetError: it is too long.
        """
        text = statement.decode(errors="surrogateescape")
        reads = _reads(statement)
        own = self._own(parameters, reads=reads)
        scheme = "https" if self._relay.address.tls else "http"
        address = f"{scheme}://{self._relay.address}/?"
        if reads:
            address += urlencode({**parameters, "query": text}, errors="surrogateescape")
            if len(address) > LONGEST_URL or is_long(statement):
                raise TargetError(
                    f"a question of {len(statement):,} bytes is too long to be sent to "
                    f"{self._relay.address} through {self._relay.through.address}",
                    hint="Load fewer files at once, or from where that server can be reached.",
                )
            sql = f"SELECT text FROM {self._url(address)} FORMAT RawBLOB".encode()
        else:
            address += urlencode(parameters)
            into = f"INSERT INTO FUNCTION {self._url(address)} FORMAT RawBLOB\n"
            sql = into.encode() + statement
        headers = self._relay.through.address.headers()
        self.inner.request("POST", f"/?{urlencode(own)}", sql, headers)

    def _own(self, parameters: Mapping[str, str], *, reads: bool) -> dict[str, str]:
        """Return the settings of the entry's own statement."""
        settings = {
            "http_max_tries": "1",  # the statement may have begun
            "http_make_head_request": "0",  # would run it, too
            "http_connection_timeout": str(CONNECT_SECONDS),
            "http_receive_timeout": str(self._patience),
            "max_execution_time": "0",
        }
        if reads:
            settings["max_query_size"] = str(4 * LONGEST_URL)
        if "log_queries_min_type" in parameters:
            settings["log_queries"] = "0"  # a small question
        known = self._relay.settings
        own = {name: value for name, value in settings.items() if name in known}
        return {"wait_end_of_query": "1", **own}

    def _url(self, address: str) -> str:
        pairs = self._relay.address.headers().items()
        headers = ", ".join(f"{quote(name)} = {quote(value)}" for name, value in pairs)
        more = f", headers({headers})" if headers else ""
        return f"url({quote(address)}, 'RawBLOB', 'text String'{more})"

    def putrequest(self, method: str, url: str, /) -> NoReturn:
        """Raise TargetError: rows are not streamed through another server."""
        raise TargetError(
            f"rows cannot be sent to {self._relay.address} through {self._relay.through.address}",
            hint="The server has to read the source itself (--pull), or it has to be reachable "
            "from here.",
        )

    def putheader(self, name: str, value: str, /) -> NoReturn:
        self.putrequest("", "")

    def endheaders(self) -> NoReturn:
        self.putrequest("", "")

    def send(self, data: bytes, /) -> NoReturn:
        self.putrequest("", "")

    def getresponse(self) -> HttpReply:
        """Return the far server's answer.

        Raises:
            OSError: the outcome of the statement is unknown.
            RowfallError: it was not sent, or its figures are unknown.
        """
        reply = self._early or self.inner.getresponse()
        if not _well(reply):
            text = reply.read().decode(errors="replace").strip()
            if self._again and _STALE in text and self._tries > 1:
                self._tries -= 1
                self.send_on(*self._again)
                return self.getresponse()
            return self._failure(text)
        headers = {name.lower(): value for name, value in reply.getheaders()}
        headers.pop("x-clickhouse-summary", None)
        if not self._inserts:
            return _Answer(200, headers, reply)
        reply.read()
        headers["x-clickhouse-summary"] = json.dumps(self._summary())
        return _Answer(200, headers)

    def _summary(self) -> dict[str, str]:
        entry = self._relay.log.look_up(self._query_id, failed=False)
        if entry is None:
            raise EngineError(
                f"{self._relay.address} took a statement through {self._relay.through.address}, "
                "but its query_log, which has the number of rows, is off or may not be read",
                hint="Grant the user SELECT ON system.query_log there.",
            )
        names = ("read_rows", "read_bytes", "written_rows", "memory_usage")
        figures = dict(zip(names, map(str, entry[2:]), strict=False))
        return {**figures, "elapsed_ns": str(int(entry[6]) * 1_000_000)}

    def _failure(self, text: str) -> HttpReply:
        """Return the entry's error as the far server's answer."""
        code = int(found[1]) if (found := _CODE.search(text)) else 0
        status = _FAR_STATUS.search(text)
        if code == RECEIVED_ERROR_FROM_HTTP and status:
            return self._far_failure(int(status[1]), status[2])
        here, there = self._relay.through.address, self._relay.address
        if code in URL_REFUSED:
            # As an error of the far one: it is explained where all errors are.
            return _Answer(500, {"x-clickhouse-exception-code": str(code)}, text=(
                f"Code: {code}. DB::Exception: {here} does not send statements to {there}: "
                f"{text[found.end() :] if found else text}"
            ))  # fmt: skip
        if cause := _NOT_SENT.search(text):
            raise TargetError(
                f"cannot connect to the ClickHouse server at {there} through {here}: "
                f"{cause[0].lower()}",
                hint="It cannot be reached from here, and by HTTP not from the other server "
                "either; open its HTTP port to one of them.",
                transient=True,
            )
        raise OSError(f"{here} lost {there}: {text[:300]}")

    def _far_failure(self, status: int, words: str) -> HttpReply:
        entry = self._relay.log.look_up(self._query_id, failed=True)
        if entry is not None:
            code, text = int(entry[0]), str(entry[1])
        elif status in (401, 403):
            code = ACCESS_DENIED if self._relay.log.may("SELECT 1") else AUTHENTICATION_FAILED
            text = f"Code: {code}. DB::Exception: the server answers {status} {words}"
        else:
            code = 0
            text = (
                f"Code: 0. DB::Exception: the server answers {status} {words}; its query_log, "
                "which would say why, says nothing or may not be read"
            )
        return _Answer(status, {"x-clickhouse-exception-code": str(code)}, text=text)


class _Answer:
    """A reply with other headers, and a text or the body of the real one."""

    def __init__(
        self, status: int, headers: Mapping[str, str], real: HttpReply | None = None, text: str = ""
    ) -> None:
        self.status = status
        self._headers = headers
        self._real = real
        self._text = text.encode()

    def getheaders(self) -> list[tuple[str, str]]:
        return list(self._headers.items())

    def read(self, amt: int | None = None, /) -> bytes:
        if self._real is not None:
            return self._real.read(amt)
        text, self._text = self._text, b""
        return text

    def close(self) -> None:
        if self._real is not None:
            self._real.close()


def _well(reply: HttpReply) -> bool:
    names = {name.lower() for name, _ in reply.getheaders()}
    return reply.status < 400 and "x-clickhouse-exception-code" not in names


def _reads(statement: bytes) -> bool:
    return _READS.match(_start(statement)) is not None


def _start(statement: bytes) -> str:
    return statement[:64].decode(errors="replace")


class NoRowsError(Exception):
    """A question of our own got no rows; ``final``: it will not later, either."""

    def __init__(self, *, final: bool) -> None:
        super().__init__()
        self.final = final


class FarQueryLog:
    """Looks up statements in the query log of the far server.

    Args:
        answer: asks the far server with parameters and a statement; raises
            :class:`NoRowsError` when there is no answer.
    """

    def __init__(self, answer: Callable[[Mapping[str, str], str], bytes]) -> None:
        self._answer = answer

    def look_up(self, query_id: str, *, failed: bool) -> list[Any] | None:
        """Return the end of a statement by the far server's query_log; None when it has no entry.

        Returns:
            Code and text of its exception, then rows and bytes read, rows written, memory and
            milliseconds.
        """
        deadline = time.monotonic() + (FLUSHED_SECONDS if self._flush() else FAR_LOG_SECONDS)
        sql = (
            "SELECT exception_code, exception, read_rows, read_bytes, written_rows, memory_usage, "
            "query_duration_ms FROM system.query_log WHERE event_date >= today() - 1 "
            f"AND type != 'QueryStart' AND query_id = {quote(query_id)} "
            f"AND (exception_code {'!=' if failed else '='} 0) "
            "ORDER BY event_time_microseconds DESC LIMIT 1"
        )
        while True:
            try:
                rows = self._rows(sql)
            except NoRowsError as error:
                if error.final:
                    return None
                rows = []  # a server makes its log with the first entry that it writes
            if rows or time.monotonic() > deadline:
                return rows[0] if rows else None
            time.sleep(PAUSE_SECONDS)

    def may(self, sql: str) -> bool:
        """Tell whether a small SELECT of our own succeeds."""
        try:
            self._rows(sql)
        except NoRowsError:
            return False
        return True

    def _rows(self, sql: str) -> list[list[Any]]:
        parameters = {"default_format": ROWS_FORMAT, "wait_end_of_query": "1"}
        return read_rows(self._answer(parameters, sql))

    def _flush(self) -> bool:
        try:
            self._answer({}, "SYSTEM FLUSH LOGS")
        except NoRowsError:
            return False
        return True
