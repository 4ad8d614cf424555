"""One ClickHouse server over HTTP: runs statements there, and finds out their outcome.

A lost connection says nothing about the statement. So every statement has a query id, and after a
loss the server is asked: ``system.processes`` until it has ended, then ``system.query_log`` for
how. Only when neither knows is the outcome unknown (:class:`UnknownOutcome`).
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal

from rowfall.core.errors import EngineError, RowfallError, TargetError, UsageError
from rowfall.core.masked import Secret
from rowfall.core.model import Facts, Outcome, Statement
from rowfall.core.netaddress import is_loopback, is_own_name
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.units import duration
from rowfall.engines.base import (
    POLL_SECONDS,
    READ_EVENTS,
    SOURCE_BYTES,
    Body,
    EngineQuestions,
    NoAnswerError,
    Settings,
    Tick,
)
from rowfall.systems.clickhouse.codes import ACCESS_DENIED, READONLY, forbidden
from rowfall.systems.clickhouse.http import (
    Address,
    Connections,
    Exchange,
    HttpAnswer,
    LostConnection,
    form,
    is_long,
    pieces,
)
from rowfall.systems.clickhouse.packed_statement import packed
from rowfall.systems.clickhouse.profile import read_profile
from rowfall.systems.clickhouse.relay import RelayedServer
from rowfall.systems.clickhouse.server_facts import (
    ask_at_once,
    check_options,
    check_rights,
    may_sync,
    read_facts,
    read_grants,
)
from rowfall.systems.clickhouse.status import (
    StatementProgress,
    StatementStatus,
    cpu_seconds,
)

# A finished statement answers at once; 30 s of silence means that the answer got stuck on the way.
SILENCE_SECONDS = 30.0
# A killed server that systemd or an operator starts again is back well within this.
PATIENCE_SECONDS = 60.0
# How far back the log is searched for the end of a statement of an interrupted load.
LOGGED_DAYS = 30
# Statements name every file of their attempt; the default of 256 KiB is too short for that.
MAX_QUERY_SIZE = 64 << 20
# 9,000 columns with their checks are 200,000 elements; the server's own limit is 50,000.
LONG_QUERY, MAX_AST = 100_000, 10_000_000
# What a statement is given for one server (keys, a password) must not follow a redirect to another.
NO_REDIRECTS: Settings = {"max_http_get_redirects": 0, "s3_max_redirects": 0}
# They have the same end however often they are sent, so an answer that was lost is asked for again.
_REPEATABLE = regex(
    r"CREATE (TABLE|DATABASE) IF NOT EXISTS |DROP TABLE IF EXISTS |SYSTEM (SYNC|FLUSH) "
)
# Of nothing else: flushing waits for the disk.
SYNC_LANE = 98


class Server(EngineQuestions):
    """The Engine of one server.

    Args:
        host, port, tls: its HTTP interface.
        user, password: "" and None for the server's default user.
        database: where unqualified names live; "" for the user's own default.
        options: settings sent with every statement.
        memory: bytes a load may use there; default half of what the server has left.
        threads: override of the cores it may use.
        sharing: servers that load at the same time on its machine, itself among them; each gets
            its part of the cores, and of the memory that is free there.
        through: another server that can reach this one by HTTP when this process cannot, see
            :mod:`rowfall.systems.clickhouse.relay`; ``host`` is then what the other one calls it.
        durable: what was written is flushed when :meth:`sync` asks for it.
        patience: seconds that it may be away.

    Attributes:
        facts: as the planner wants them; ``settings`` are those this user may change.
        readonly: the user's ``readonly`` setting: 0 may write, 1 only reads, 2 only reads but
            may change settings.
        silence: seconds, see ``SILENCE_SECONDS``.
        pause: seconds between two questions about progress; more for one of many servers.
        through: address of the other server; "" where this one is reached from here.
        status: asks the server small questions; its waiting times can be changed.

    Raises:
        TargetError: it cannot be reached, is no ClickHouse, refuses the user, is too old.
        UsageError: it does not know one of ``options``.
    """

    kind: Literal["server"] = "server"
    shared = query_log = ddl_settings = True
    facts: Facts
    _connections: Connections

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: bool = False,
        user: str = "",
        password: Secret | None = None,
        database: str = "",
        options: Mapping[str, str] | None = None,
        memory: int | None = None,
        threads: int | None = None,
        sharing: int = 1,
        through: Server | None = None,
        durable: bool = True,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.silence, self.pause = SILENCE_SECONDS, POLL_SECONDS
        self._address = Address(host, port, tls, user, password)
        self.through = "" if through is None else str(through._address)
        self._connections = (
            Connections(self._address)
            if through is None
            else RelayedServer(self._address, through._connections, through.facts.settings)
        )
        # Buffering on the server: an error is never behind rows with status 200.
        self._base = {"wait_end_of_query": "1"} | ({"database": database} if database else {})
        self.status = StatementStatus(self._connections, self._base)
        self._guard = threading.Lock()
        self._lanes: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._running: dict[str, StatementProgress] = {}
        self._highest = 0
        self._cpu = 0.0
        self._durable = durable
        self._patience = patience
        self.status.away = min(self.status.away, patience)
        self.status.patience = patience
        try:
            # A question that comes by way of another server is a GET, which makes 2 of a 0.
            relayed = isinstance(self._connections, RelayedServer)
            self._options = dict(options or {})
            self._grants: tuple[list[str], bool] | None = None
            ask_at_once(self.status)
            self._profile = read_profile(self.status.learn, self._options)
            self.status.own = {name: str(v) for name, v in self._profile.questions.items()}
            self.facts, readonly, self._host_name = read_facts(
                self.status, self._address, self._profile, memory, threads, sharing
            )
            self.readonly = 0 if relayed and readonly == 2 else readonly
            if "log_queries" in self.facts.settings:
                # Our own questions stay out of its log: two a second would drown everybody else's.
                self.status.own["log_queries"] = "0"
            # A user who may change nothing cannot send them.
            self._fixed = {k: v for k, v in NO_REDIRECTS.items() if k in self.facts.settings}
            check_options(self.status, self._address, self._options)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        statement: Statement,
        *,
        lane: int = 0,
        on_tick: Tick | None = None,
        body: Body | None = None,
        encoding: str = "",
        out_fd: int | None = None,
    ) -> Outcome:
        """See :class:`rowfall.engines.base.Engine`.

        Args:
            statement: with ``body``, an INSERT ... FORMAT without its data.
            lane: one lane runs one statement at a time.
            on_tick: called after every ``pause`` from this thread; empty where the user may not
                see what runs.
            body: the data of an insert, streamed from another thread; not read again. It must
                not pause for 30 s: the server's ``http_receive_timeout`` would end the insert.
            encoding: of ``body``: ``gzip``, ``zstd``, ``lz4``, ``bz2``, ``xz``, ``br``,
                ``deflate``, ``snappy`` or "".
            texts: tables of one row and one column ``text`` that only this statement sees, by
                their names; no log holds what is in them.
            out_fd: gets the result in place of ``Outcome.data``.

        Raises:
            UnknownOutcome: the connection was lost and the server cannot say what happened.
            RowfallError: the server's error, or no connection.
            BaseException: whatever reading ``body`` raised; the statement has been ended.
        """
        self.logged(statement)
        send = partial(self._send, statement, lane, on_tick, body, encoding, out_fd)
        question = statement.format is not None and out_fd is None
        if body is None and (question or _REPEATABLE.match(statement.sql.reveal())):
            return self.status.insist(send)
        return send()

    def _send(
        self, statement: Statement, lane: int, on_tick: Tick | None, body: Body | None,
        encoding: str, out_fd: int | None,
    ) -> Outcome:  # fmt: skip
        """Send a statement once; see :meth:`run`."""
        if isinstance(self._connections, RelayedServer):
            self._connections.check(statement.sql)
        query_id = statement.query_id or f"rowfall-{uuid.uuid4()}"
        sql = statement.sql.reveal().encode()
        parameters = self._parameters(statement, query_id)
        data: bytes | Body = sql if body is None else body
        texts = statement.texts
        longest = MAX_QUERY_SIZE
        if texts:
            for name in texts:
                parameters |= {f"{name}_format": "RawBLOB", f"{name}_structure": "text String"}
            data = form(sql, {name: text.reveal().encode() for name, text in texts.items()})
        elif body is not None:
            # The server holds so much of the data back before it starts, so it is no more than the
            # statement needs.
            longest = len(sql) + 1 if is_long(sql) else 0
            if longest:
                first = packed(sql + b"\n", encoding) if encoding else sql + b"\n"
                if first is None:
                    raise TargetError(
                        f"a statement of {len(sql):,} bytes does not fit in front of {encoding}",
                        hint="Unpack the rows in front of rowfall load, in the same pipe.",
                    )
                data = chain([first], pieces(body))
            else:
                parameters["query"] = sql.decode()
        if longest and "max_query_size" in self.facts.settings:
            parameters.setdefault("max_query_size", str(longest))
        if len(sql) > LONG_QUERY:
            for name in ("max_ast_elements", "max_expanded_ast_elements"):
                if name in self.facts.settings and self.facts.allows(name, MAX_AST):
                    parameters.setdefault(name, str(MAX_AST))
        exchange = Exchange(self._connections, parameters, data, encoding=encoding, out=out_fd)
        with self._guard:
            turn = self._lanes[lane]
        with turn:
            try:
                return self._perform(statement, query_id, exchange, on_tick, out_fd)
            finally:
                with self._guard:
                    self._running.pop(query_id, None)

    def ask(
        self, sql: str | SqlText, settings: Settings | None = None, *, lane: int = 0
    ) -> list[list[Any]]:
        """See :meth:`rowfall.engines.base.Engine`; the user's profile does not cut the answer."""
        return super().ask(sql, {**self._profile.questions, **(settings or {})}, lane=lane)

    def probe(
        self, sql: str | SqlText, seconds: float, settings: Settings | None = None
    ) -> list[list[Any]]:
        query_id = f"rowfall-probe-{uuid.uuid4()}"
        wanted = self._fixed | self.facts.known(dict(settings or {}))
        known = {k: str(v) for k, v in wanted.items()}
        text = SqlText.of(sql).reveal()
        try:
            return self.status.ask(text, timeout=seconds, tries=1, query_id=query_id, **known)
        except LostConnection:
            with contextlib.suppress(RowfallError, LostConnection):
                end = f"KILL QUERY WHERE query_id = {quote(query_id)} ASYNC"
                self.status.ask(end, timeout=1.0, tries=1)
            raise NoAnswerError(f"no answer within {seconds:.0f} s", transient=True) from None

    @property
    def rows_refused(self) -> str | None:
        return f"is only reached through {self.through}" if self.through else None

    def same_machine(self) -> bool:
        """Tell whether the server has a local address and the name of this machine.

        A loopback address alone may also be the end of a tunnel, or of a container.
        """
        if not is_loopback(self._address.host):
            return False
        return is_own_name(self._host_name)

    def _parameters(self, statement: Statement, query_id: str) -> dict[str, str]:
        # What has a format is a question, which may be the user's own: :meth:`ask` knows ours.
        needed = {} if statement.format else self._profile.statements
        settings = {**self._fixed, **self._options, **needed, **statement.settings}
        parameters = {
            name: str(int(value)) if isinstance(value, bool) else str(value)
            for name, value in settings.items()
        }
        parameters |= self._base | {"query_id": query_id}
        if statement.format:
            parameters["default_format"] = statement.format
        return parameters

    def _perform(
        self,
        statement: Statement,
        query_id: str,
        exchange: Exchange,
        on_tick: Tick | None,
        out_fd: int | None,
    ) -> Outcome:
        secrets = [part for part in statement.sql.parts if isinstance(part, Secret)]
        started = time.monotonic()
        exchange.start()
        try:
            self._follow(exchange, query_id, on_tick)
            answer = exchange.result()
            self.status.check(answer, *secrets)
            return self._outcome(answer, query_id, time.monotonic() - started, out_fd is None)
        except LostConnection as lost:
            if statement.format:
                # Only asking again brings the rows, so nobody waits for the end of this question;
                # what went out already cannot be taken back.
                if lost.ask_after is None:
                    self.status.kill(query_id)
                gone = self.status.unanswered(lost)
                gone.transient = not (out_fd is not None and exchange.answered)
                raise gone from None
            return self._settled(exchange, query_id, lost, started, on_tick, secrets)
        except BaseException as error:
            exchange.cut()
            if exchange.own_fault:
                # Nothing may go on writing when the caller learns that its data have failed.
                self.status.kill(query_id)
            elif isinstance(error, RowfallError):
                raise self._in_words(error, statement) from None
            raise

    def _settled(
        self,
        exchange: Exchange,
        query_id: str,
        lost: LostConnection,
        started: float,
        on_tick: Tick | None,
        secrets: Sequence[Secret],
    ) -> Outcome:
        def running() -> bool:
            return self._tick(query_id, on_tick) or (
                not self.status.visible and self.status.runs(query_id)
            )

        outcome = self.status.settle(query_id, lost, started, running, secrets)
        self._count(outcome.cpu_seconds, outcome.peak_memory)
        return outcome

    def _follow(self, exchange: Exchange, query_id: str, on_tick: Tick | None) -> None:
        """Tick until the answer is here; give up a connection whose answer got stuck."""
        gone_since: float | None = None
        while not exchange.wait(self.pause):
            try:
                gone = not self._tick(query_id, on_tick) and self.status.visible
            except (RowfallError, LostConnection):
                gone = False  # not knowing is no reason to give up
            if not gone or not exchange.complete or exchange.answered:
                gone_since = None
            elif gone_since is None:
                gone_since = time.monotonic()
            elif time.monotonic() - gone_since > self.silence:
                exchange.cut()

    def _tick(self, query_id: str, on_tick: Tick | None) -> bool:
        """Report how far a statement is; return True when it can be seen running."""
        seen = self.status.progress(query_id)
        if seen is None:
            if on_tick is not None and not self.status.visible:
                on_tick({})  # the sender of the rows knows more
            return False
        with self._guard:
            self._running[query_id] = seen
            self._highest = max(self._highest, sum(s.memory for s in self._running.values()))
        if on_tick is not None:
            on_tick(
                {
                    "read_rows": seen.read_rows,
                    "read_bytes": seen.read_bytes,
                    "written_rows": seen.written_rows,
                    SOURCE_BYTES: sum(seen.events.get(event, 0) for event in READ_EVENTS),
                }
            )
        return True

    def _outcome(
        self, answer: HttpAnswer, query_id: str, seconds: float, collected: bool
    ) -> Outcome:
        said = json.loads(answer.headers.get("x-clickhouse-summary", "{}"))
        summary = {name: int(value) for name, value in said.items()}
        with self._guard:
            seen = self._running.get(query_id) or StatementProgress()
        peak = max(seen.peak, summary.get("memory_usage", 0))
        cpu = cpu_seconds(seen.events)
        self._count(cpu, peak)
        return Outcome(
            rows_read=summary.get("read_rows", 0),
            rows_written=summary.get("written_rows", 0),
            bytes_read=summary.get("read_bytes", 0),
            seconds=summary["elapsed_ns"] / 1e9 if "elapsed_ns" in summary else seconds,
            cpu_seconds=cpu,
            peak_memory=peak,
            data=answer.data if collected else b"",
            events=seen.events,
        )

    def _count(self, cpu: float, peak: int) -> None:
        with self._guard:
            self._cpu += cpu
            self._highest = max(self._highest, peak)

    def check_writes(self) -> None:
        """Check that the user's profile allows loads.

        Raises:
            TargetError: it sets ``readonly``, or another setting that no load can have so.
        """
        if self.readonly:
            raise self._may_only_read(f"its profile sets readonly = {self.readonly}")
        for setting in self._profile.refused:
            if setting.given:
                raise UsageError(
                    f"?{setting.name}={setting.value} cannot be had for a load, which needs "
                    f"{setting.name} = {setting.needed}",
                    hint="Leave it out of --to.",
                )
            raise forbidden(
                setting.name, setting.value, setting.needed, self._user,
                f"which a load needs on {self._address}",
            )  # fmt: skip

    def check_rights(self, tables: Sequence[tuple[str, str]], *, replicated: bool = False) -> None:
        """Check that this user may do everything that a load, or the end of a dead one, does.

        Raises:
            TargetError: no; names everything that is missing.
        """
        self._grants = read_grants(self.status.learn)
        check_rights(self.status.learn, self._user, tables, self._grants[0], replicated=replicated)

    def sync_refused(self) -> str | None:
        if not self._durable:
            return None
        grants, whole = self._grants or read_grants(self.status.learn)
        if may_sync(grants, whole=whole):
            return None
        return self._may_not_sync()

    @property
    def _user(self) -> str:
        return self._address.user or "default"

    def _may_only_read(self, why: str) -> TargetError:
        return TargetError(
            f"the user {self._user!r} may only read on {self._address}: {why}",
            hint="Give a user whose profile does not set readonly.",
            code=READONLY,
        )

    def _in_words(self, error: RowfallError, statement: Statement) -> RowfallError:
        if error.code == READONLY and self.readonly and "readonly" not in statement.settings:
            return self._may_only_read(error.message)
        return error

    def kill(self, query_id: str) -> None:
        """End a running statement; returns when it has ended or was not there (60 s at most)."""
        self.status.kill(query_id)

    def runs(self, query_id: str) -> bool:
        try:
            return self.status.runs(query_id)
        except LostConnection as lost:
            raise EngineError(
                f"the connection to {self._address} was lost ({lost.cause})", transient=True
            ) from None

    def finished(self, query_id: str, *, since_start: bool = False) -> bool | None:
        """Tell how a statement ended by ``system.query_log``, see :class:`Engine`.

        Where the logs may not be flushed, a statement of the last seconds counts as unknown.
        """
        self.status.flush()
        with contextlib.suppress(RowfallError, LostConnection):  # the log is off or may not be read
            return self.status.succeeded(query_id, LOGGED_DAYS, since_start=since_start)
        return None

    def revive(self) -> None:
        """Wait until the server answers again: a restart takes seconds, minutes with many parts.

        Raises:
            TargetError: it was away for longer than the load has patience (``--patience``).
        """
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self.status.ask("SELECT 1")
                return
            except (RowfallError, LostConnection) as error:
                if time.monotonic() > deadline:
                    raise TargetError(
                        f"the server at {self._address} did not come back within "
                        f"{duration(self._patience)}: {error}",
                        hint="Run the same command again when it is up: what is loaded is not "
                        "loaded twice. --patience 10m waits for longer.",
                    ) from None
            time.sleep(POLL_SECONDS)

    def abandon(self) -> None:
        """Close the connections: statements that stream data end, others go on into staging
        tables that are never published."""
        self._connections.close()

    def sync(self) -> str | None:
        """Flush every file system of the server's machine, see :class:`Engine`.

        An ATTACH makes links and renames folders, which no setting of staging covers; those of the
        target are its owner's. On a disk in an object store this flushes what is local of it.
        """
        if not self._durable:
            return None
        try:
            self.run(Statement(SqlText.of("SYSTEM SYNC FILE CACHE")), lane=SYNC_LANE)
        except RowfallError as error:
            if error.code != ACCESS_DENIED:
                raise
            return self._may_not_sync()
        return None

    def _may_not_sync(self) -> str:
        what = f"flush the disks of {self._address} (SYSTEM SYNC FILE CACHE)"
        return f"{self._user!r} may not {what}"

    def resident(self) -> tuple[int, int]:
        """Return the bytes that our running statements hold on the server, and their highest.

        As of the last tick; 0 where ``system.processes`` may not be read.
        """
        with self._guard:
            return sum(seen.memory for seen in self._running.values()), self._highest

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of our statements so far, as seen in ticks."""
        with self._guard:
            return self._cpu + sum(cpu_seconds(seen.events) for seen in self._running.values())

    def close(self) -> None:
        """Give the connections back; statements that run go on."""
        self._connections.close()
