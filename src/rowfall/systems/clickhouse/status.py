"""The status of statements on a ClickHouse server: running, finished, failed, or unknown."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

from rowfall.core import retry
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.masked import Secret, redact
from rowfall.core.model import Outcome
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.core.units import duration
from rowfall.engines.base import ROWS_FORMAT, read_rows
from rowfall.systems.clickhouse.codes import (
    ACCESS_DENIED,
    CUT_SHORT,
    REFUSED_USER,
    STATEMENT_RUNS,
    UNKNOWN_TABLE,
    denied,
    missing_rights,
    translate,
)
from rowfall.systems.clickhouse.http import Connections, Exchange, HttpAnswer, LostConnection

_Found = TypeVar("_Found")

# Answers to our own small questions; an overloaded server needs seconds, not more.
ASK_SECONDS = 15.0
# A server that restarts is back within a minute; longer is for the user to know.
AWAY_SECONDS = 60.0
# Between two tries of a question while the server does not answer: it is one small request, and who
# waits longer each time notices a server that was away for four seconds after seven.
AGAIN_SECONDS = 0.5
# query_log is written every 7.5 s by default; then a little for a busy disk.
LOG_SECONDS = 10.0
# After a flush nothing is missing; a little for a request that the server had not begun to read.
FLUSHED_SECONDS = 1.0
# KILL ... SYNC returns when the statement has ended; one block of work can take many seconds.
KILL_SECONDS = 60.0
# While a lost statement still runs: soon at first, then as rarely as a person would look.
PAUSE_FIRST, PAUSE_LAST = 0.3, 3.0

# Of proxies whose server is away, or that limit rates: Too Many Requests, Bad Gateway, Service
# Unavailable, Gateway Timeout.
BUSY = frozenset({429, 502, 503, 504})

# Asked under the id of another statement.
_STILL_THERE = "SELECT 1"
# Formats of rows put an exception into brackets and quotes of their own.
_VERSION = regex(r" \(version [\d.]+.*\Z", re.DOTALL)


class UnansweredError(EngineError):
    """The answer to a statement was lost; where it may be sent twice, asking again brings it.

    Attributes:
        cause: as :class:`LostConnection` says it.
    """

    cause = ""


class UnknownOutcome(UnansweredError):  # noqa: N818 - says what is known, not what went wrong
    """The connection was lost and the server cannot say whether the statement finished.

    Always transient, code 0: drop what it may have written and start over.
    """


@dataclass(slots=True)
class StatementProgress:
    """Progress of a running statement in ``system.processes``: rows, bytes, ProfileEvents."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    memory: int = 0
    peak: int = 0
    events: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryLogEntry:
    """End of a statement in ``system.query_log``; ``code`` 0 and no text when it succeeded."""

    outcome: Outcome
    code: int
    text: str


class StatementStatus:
    """Asks one server small questions, on connections of their own.

    Attributes:
        base: URL parameters of every request.
        own: further ones for our own questions (settings the user may change).
        away, log_wait: seconds, see the constants of this module.
        patience: seconds for which :meth:`learn` asks again.
        learnt: answers that came with that to another question, by the text of their own; each is
            given once.
    """

    def __init__(self, connections: Connections, base: Mapping[str, str]) -> None:
        self._connections = connections
        self._address = connections.address
        self._processes_hidden = False
        self.base = dict(base)
        self.own: dict[str, str] = {}
        self.away, self.log_wait = AWAY_SECONDS, LOG_SECONDS
        self.patience = AWAY_SECONDS
        self.learnt: dict[str, list[list[Any]]] = {}
        self._answered = False

    def learn(self, sql: str, **extra: Any) -> list[list[Any]]:
        """Return the rows of a question, which is asked again for as long as patience lasts.

        Raises:
            TargetError: it stays busy or away; what never answered is no ClickHouse.
            RowfallError: the server's own.
        """

        if sql in self.learnt:
            return self.learnt.pop(sql)

        def question() -> list[list[Any]]:
            try:
                return self.ask(sql, **extra)
            except LostConnection as lost:
                if lost.ask_after is None and not self._answered:
                    raise no_clickhouse(str(self._address), lost.cause) from None
                raise self.unanswered(lost) from None

        return self.insist(question)

    def insist(self, question: Callable[[], _Found]) -> _Found:
        """Return an answer, which is asked for again as long as patience lasts.

        Args:
            question: may be asked twice, and raises what :meth:`unanswered` returns.

        Raises:
            TargetError: it stays unanswered.
            RowfallError: any other error of the question.
        """
        since, tries = time.monotonic(), 0
        while True:
            try:
                return question()
            except UnansweredError as error:
                tries += 1
                # None where no proxy says that it is busy.
                busy = error.ask_after is not None
                wait = max(retry.pause(tries), error.ask_after or 0.0) if busy else AGAIN_SECONDS
                if time.monotonic() + wait - since > self.patience:
                    raise TargetError(
                        f"the server at {self._address} did not answer within "
                        f"{duration(self.patience)}: {error.cause}",
                        hint="Run the same command again when it does: what is loaded is not "
                        "loaded twice. --patience 10m waits for longer.",
                    ) from None
            time.sleep(wait)

    def unanswered(self, lost: LostConnection) -> UnansweredError:
        """Return the error about a question whose answer was lost."""
        error = UnansweredError(
            f"the connection to {self._address} was lost ({lost.cause}) and the result of the "
            "statement with it",
            transient=True,
        )
        error.cause, error.ask_after = lost.cause, lost.ask_after
        return error

    def ask(
        self, sql: str, *, timeout: float = ASK_SECONDS, tries: int = 2, **extra: str
    ) -> list[list[Any]]:
        """Return the rows of a statement that may safely run twice.

        Raises:
            Lost: no answer, ``tries`` times.
            RowfallError: the server's own.
        """
        parameters = {**self.base, **self.own, **extra, "default_format": ROWS_FORMAT}
        while True:
            tries -= 1
            exchange = Exchange(self._connections, parameters, sql.encode(), timeout=timeout)
            try:
                answer = exchange.perform()
            except LostConnection:
                if tries > 0:
                    continue
                raise
            self.check(answer)
            self._answered = True
            return read_rows(answer.data)

    def check(self, answer: HttpAnswer, *secrets: Secret) -> None:
        """Raise the error that an answer holds.

        Raises:
            Lost: a proxy in between gave up; the statement may still run.
            TargetError: this is no ClickHouse.
            RowfallError: the server's exception.
        """
        if not answer.from_clickhouse:
            if answer.status in BUSY:
                # None of them proves that the server has not begun (a proxy says 503, too, where
                # it has lost the server's answer).
                raise LostConnection(
                    f"a proxy answered with status {answer.status}", complete=True,
                    ask_after=retry.asked_pause(answer.headers.get("retry-after")),
                )  # fmt: skip
            raise no_clickhouse(str(self._address), f"status {answer.status}")
        failure = answer.failure()
        if failure is not None:
            raise self.explain(failure, *secrets)

    def explain(self, text: str, *secrets: Secret) -> RowfallError:
        """Return the server's exception as ours, without secrets."""
        hidden = [s for s in (self._address.password, *secrets) if s is not None]
        # The server quotes SQL as it was written, escapes included.
        hidden += [Secret(quote(s.reveal())[1:-1]) for s in hidden]
        error = translate(redact(_VERSION.sub("", text), *hidden))
        user = self._address.user or "default"
        if error.code in REFUSED_USER:
            return TargetError(
                f"the server at {self._address} refuses the user {user!r}: "
                "the password is wrong or there is no such user",
                hint=error.hint,
                code=error.code,
            )
        if error.code == ACCESS_DENIED and (rights := missing_rights(error.message)):
            return denied(rights, user)
        return error

    def progress(self, query_id: str) -> StatementProgress | None:
        """Return rows, bytes and memory of a running statement by system.processes.

        None when it does not run, or this user may not see it.
        """
        if self._processes_hidden:
            return None
        try:
            rows = self.ask(
                "SELECT read_rows, read_bytes, written_rows, memory_usage, peak_memory_usage, "
                f"ProfileEvents FROM system.processes WHERE query_id = {quote(query_id)}"
            )
        except RowfallError as error:
            if error.code != ACCESS_DENIED:
                raise
            self._processes_hidden = True
            return None
        if not rows:
            return None
        read, size, written, memory, peak, events = rows[0]
        return StatementProgress(
            int(read),
            int(size),
            int(written),
            max(0, int(memory)),  # negative where a thread freed what another one took
            max(0, int(peak)),
            {name: int(count) for name, count in events.items()},
        )

    @property
    def visible(self) -> bool:
        """True when the user may read ``system.processes`` (until that was refused)."""
        return not self._processes_hidden

    def runs(self, query_id: str) -> bool:
        """Tell whether a statement runs, once its connection is lost; needs no rights."""
        if self.progress(query_id) is not None:
            return True
        if self.visible:
            return False
        # A second statement with its id is refused as long as the first one runs.
        try:
            self.ask(_STILL_THERE, query_id=query_id)
        except RowfallError as error:
            if error.code == STATEMENT_RUNS:
                return True
            raise
        return False

    def kill(self, query_id: str) -> None:
        """End a statement; returns when it has ended, was not there, or after 60 s."""
        with contextlib.suppress(RowfallError, LostConnection):
            try:
                self.ask(
                    f"KILL QUERY WHERE query_id = {quote(query_id)} SYNC",
                    timeout=KILL_SECONDS,
                    tries=1,
                )
            except RowfallError as error:
                if error.code != ACCESS_DENIED:
                    raise
                # Every user may do this: put another statement in its place.
                self.ask(_STILL_THERE, query_id=query_id, replace_running_query="1")

    def logged(self, query_ids: Sequence[str], days: int = 1) -> dict[str, QueryLogEntry]:
        """Return the query_log entries of statements that ended in the last ``days``, by query id.

        Raises:
            RowfallError: the log is off (60) or may not be read (497).
            Lost: no answer.
        """
        names = ", ".join(quote(query_id) for query_id in query_ids)
        rows = self.ask(
            "SELECT query_id, read_rows, written_rows, read_bytes, query_duration_ms, "
            "memory_usage, ProfileEvents, exception_code, exception FROM system.query_log "
            f"WHERE {_ended(days)} AND query_id IN ({names}) ORDER BY event_time_microseconds"
        )
        return {row[0]: _logged(row) for row in rows}

    def succeeded(self, query_id: str, days: int, *, since_start: bool = False) -> bool | None:
        """Tell whether one of the statements with that id has succeeded; None: none has ended.

        A statement whose connection was lost may have been sent again. If the first one arrives
        after the second has succeeded, it fails: then the last line of the log is not the answer.

        Args:
            since_start: only of those that ended after the server was started.

        Raises:
            RowfallError, Lost: see :meth:`logged`.
        """
        # uptime() counts whole seconds: the start may be taken for one second later than it was.
        started = " AND event_time_microseconds >= now64(6) - uptime()" if since_start else ""
        ((ended, succeeded),) = self.ask(
            "SELECT count(), countIf(exception_code = 0) FROM system.query_log "
            f"WHERE {_ended(days)} AND query_id = {quote(query_id)}{started}"
        )
        return int(succeeded) > 0 if int(ended) else None

    def settle(
        self,
        query_id: str,
        lost: LostConnection,
        started: float,
        running: Callable[[], bool],
        secrets: Sequence[Secret] = (),
    ) -> Outcome:
        """Find out the outcome of a statement whose connection was lost.

        Args:
            query_id: of the statement.
            lost: how the connection ended.
            started: ``time.monotonic()`` when the statement was sent.
            running: tells whether it still runs, like :meth:`runs`.
            secrets: to be kept out of the error.

        Raises:
            UnknownOutcome: the server does not say.
            RowfallError: it failed.
        """
        if not lost.complete:
            # It cannot succeed any more; otherwise the server would wait for the rest of the data.
            self.kill(query_id)
        self._until_gone(lost, running)
        days = 1 + int((time.monotonic() - started) // 86_400)
        # Without all of its data it has failed; the log could only say more exactly why.
        entry, why = self._from_log(query_id, days, self.log_wait if lost.complete else 1.0)
        cut_short = entry.code in CUT_SHORT if entry else not lost.complete
        if lost.streamed and cut_short:
            raise EngineError(
                f"the connection to {self._address} was lost while data was sent: {lost.cause}",
                hint="Run the same command again: what is loaded is not loaded twice.",
                transient=True,
            )
        if entry is None:
            raise self._unknown(lost, why)
        if entry.code:
            raise self.explain(entry.text, *secrets)
        return entry.outcome

    def flush(self) -> bool:
        """Have the server write its logs now; False where the user may not, or it does not answer.

        A statement's end is handed to the log before it leaves ``system.processes``: after a flush
        the log has it or never will.
        """
        try:
            self.ask("SYSTEM FLUSH LOGS")
        except (RowfallError, LostConnection):
            return False
        return True

    def _until_gone(self, lost: LostConnection, running: Callable[[], bool]) -> None:
        contact, pause, missing = time.monotonic(), PAUSE_FIRST, 0
        # Twice: the first question may have overtaken the request itself.
        while missing < 2:
            try:
                missing = 0 if running() else missing + 1
                contact = time.monotonic()
            except (RowfallError, LostConnection) as error:
                if time.monotonic() - contact > self.away:
                    raise self._unknown(lost, f"the server cannot be asked ({error})") from None
            if missing < 2:
                time.sleep(PAUSE_FIRST if missing else pause)
                pause = min(pause * 1.5, PAUSE_LAST)

    def _from_log(self, query_id: str, days: int, wait: float) -> tuple[QueryLogEntry | None, str]:
        if self.flush():
            wait = min(wait, FLUSHED_SECONDS)
        deadline = time.monotonic() + wait
        why = "its query_log does not name the statement"
        while True:
            try:
                entry = self.logged([query_id], days).get(query_id)
                if entry is not None:
                    return entry, ""
            except RowfallError as error:
                if error.code in (UNKNOWN_TABLE, ACCESS_DENIED):
                    return None, "its query_log is off or may not be read"
                why = error.message
            except LostConnection as lost:
                why = lost.cause
            if time.monotonic() > deadline:
                return None, why
            time.sleep(PAUSE_FIRST)

    def _unknown(self, lost: LostConnection, why: str) -> UnknownOutcome:
        error = UnknownOutcome(
            f"the connection to {self._address} was lost ({lost.cause}) and the outcome of the "
            f"statement is unknown: {why}",
            hint="Run the same command again: what is loaded is not loaded twice.",
            transient=True,
        )
        error.cause, error.ask_after = lost.cause, lost.ask_after
        return error


def no_clickhouse(address: str, cause: str) -> TargetError:
    """Return the error for a server that does not answer as ClickHouse does."""
    return TargetError(
        f"{address} does not answer like the HTTP port of a ClickHouse server: {cause}",
        hint="The HTTP port is 8123 by default, 8443 with TLS (clickhouses://); 9000 and 9440 "
        "belong to the native protocol.",
    )


def cpu_seconds(events: Mapping[str, int]) -> float:
    """Return the user and system seconds that a statement's threads have used."""
    spent = events.get("UserTimeMicroseconds", 0) + events.get("SystemTimeMicroseconds", 0)
    return spent / 1e6


def _ended(days: int) -> str:
    """Return the condition for lines of the log about ends of statements of the last days."""
    return (
        # The log is sorted by date; without this a large one is read from end to end.
        f"event_date >= today() - {days} AND type != 'QueryStart' AND is_initial_query "
        # Our own question in `runs` comes under the same id: it fails as long as the statement
        # runs, and succeeds later.
        f"AND exception_code != {STATEMENT_RUNS} AND query != {quote(_STILL_THERE)}"
    )


def _logged(row: Sequence[Any]) -> QueryLogEntry:
    _, read, written, size, millis, memory, events, code, text = row
    counts = {name: int(count) for name, count in events.items()}
    outcome = Outcome(
        rows_read=int(read),
        rows_written=int(written),
        bytes_read=int(size),
        seconds=int(millis) / 1e3,
        cpu_seconds=cpu_seconds(counts),
        peak_memory=max(0, int(memory)),
        events=counts,
    )
    return QueryLogEntry(outcome, int(code), text)
