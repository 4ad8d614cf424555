"""The protocol of engines, which are the only thing that runs statements."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, Literal, Protocol, TypeVar

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError
from rowfall.core.model import Facts, Outcome, Statement
from rowfall.core.patterns import regex
from rowfall.core.sql import about_tables, table_is
from rowfall.core.sqltext import SqlText, quote

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

Tick = Callable[[Mapping[str, int]], None]
"""Called a few times a second with ``read_rows``, ``read_bytes`` and ``written_rows`` so far, and
with ``source_bytes`` where they are known."""

# Often enough for a steady line of progress. Asking costs a server 3 ms of CPU, most of it for a
# statement of its own.
POLL_SECONDS = 0.5
SOURCE_BYTES = "source_bytes"
# Which counters hold bytes of a source as stored, by how the engine reads.
READ_EVENTS = (
    "ReadBufferFromFileDescriptorReadBytes",
    "ReadBufferFromS3Bytes",
    "ReadWriteBufferFromHTTPBytes",
)


Settings = Mapping[str, str | int | float]

Body = Iterable[bytes] | IO[bytes]
"""Bytes of an insert: an open binary file, or any iterable of chunks (64 KiB and more is best)."""

NETWORK_ERROR = 210
"""Code of errors about lost connections, whatever system they led to. ClickHouse's own number."""

# In the path of a table's parts.
_FOLDER = regex("/([0-9a-f-]{36})/$")
# The format in which engines answer small questions.
ROWS_FORMAT = "JSONCompactEachRow"


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table as its engine describes it.

    Attributes:
        engine: with its arguments, keys and settings.
        columns: (name, type, default_kind), in their order.
        binary: names of those that take bytes, see :attr:`rowfall.core.model.Column.binary`.
        clocks: names of times of day and the like, whose text only the server reads.
    """

    create_query: str
    engine: str
    sorting_key: str
    columns: tuple[tuple[str, str, str], ...]
    partition_key: str = ""
    binary: frozenset[str] = frozenset()
    clocks: frozenset[str] = frozenset()


class NoAnswerError(EngineError):
    """An engine did not answer a question in time."""


def read_rows(data: bytes) -> list[list[Any]]:
    """Return the rows of JSONCompactEachRow; bytes that are not text become surrogates."""
    # strict: the engine writes control characters of broken text as they are.
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [json.loads(line, strict=False) for line in lines if line]


class Engine(Protocol):
    """One place where statements run: ask for what it can do, never for its class.

    Attributes:
        kind: for plans and reports.
        shared: other processes and machines may use its tables at the same time, and it outlives
            this process: a load keeps a journal there, holds leases, and checks that its tables
            are still the same ones. False where this process has the tables to itself.
        query_log: ``system.query_log`` has figures of statements that have ended.
        ddl_settings: a CREATE TABLE can be sent with settings of the statement. The embedded
            engine appends settings to the text, which CREATE TABLE takes for the table's own.
        readonly: the user's setting: 0 may write, 1 only reads, 2 only reads but may change
            settings.
        rows_refused: why rows that are read here cannot get to it; None where they can.
        pause: seconds between two questions about what runs.
        idle: its process has not been needed so far; a question would start it.
        facts: version, cores, memory and known settings of the machine it runs on.
    """

    pause: float

    @property
    def kind(self) -> Literal["embedded", "server"]: ...

    @property
    def shared(self) -> bool: ...

    @property
    def query_log(self) -> bool: ...

    @property
    def ddl_settings(self) -> bool: ...

    @property
    def rows_refused(self) -> str | None: ...

    @property
    def readonly(self) -> int: ...

    @property
    def idle(self) -> bool: ...

    @property
    def facts(self) -> Facts: ...

    def log_statements(self, log: Callable[[Statement], None] | None) -> None:
        """Let ``log`` hear of each statement that is going to be run and is no question."""

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
        """Run one statement and wait for it.

        Args:
            lane: statements on different lanes run at the same time; one lane runs one at a time.
            body: the rows of an INSERT; servers that are reached from here take them.
            encoding: ``Content-Encoding`` of ``body``.
            out_fd: gets the result in place of ``Outcome.data``.

        Raises:
            EngineError: with the engine's code; ``transient`` says whether again may help.
        """

    def ask(
        self, sql: str | SqlText, settings: Settings | None = None, *, lane: int = 0
    ) -> list[list[Any]]:
        """Return the rows of a small SELECT as Python values; 64-bit integers are numbers.

        Settings that the engine does not know are left out.
        """

    def probe(
        self, sql: str | SqlText, seconds: float, settings: Settings | None = None
    ) -> list[list[Any]]:
        """Return the rows of a SELECT, asked once; as the engine writes them by default.

        Settings that the engine does not know are left out.

        Raises:
            NoAnswerError: not within ``seconds``; the statement is being ended.
            RowfallError: the engine's own error.
        """

    def existing_table(self, database: str, table: str) -> ExistingTable | None:
        """Return the definition of a table; None where there is none of this name."""

    def same_machine(self) -> bool:
        """Tell whether the engine shares the CPU of this machine."""

    def check_writes(self) -> None:
        """Check that the user may write, under a profile that loads can live with.

        Raises:
            TargetError: no.
            UsageError: a setting that the user has given stands in the way.
        """

    def check_rights(self, tables: Sequence[tuple[str, str]], *, replicated: bool = False) -> None:
        """Check that the user may do everything that a load, or the end of a dead one, does.

        Args:
            tables: (database, name) of those that get rows, whether they exist or not.
            replicated: some of them are.

        Raises:
            TargetError: no; names everything that is missing.
        """

    def kill(self, query_id: str) -> None:
        """End a running statement; returns when it has ended or was not there."""

    def resident(self) -> tuple[int, int]:
        """Return the bytes of memory that the engine's process holds now, and its highest."""

    def runs(self, query_id: str) -> bool:
        """Tell whether a statement runs that nobody waits for any more."""

    def finished(self, query_id: str, *, since_start: bool = False) -> bool | None:
        """Tell whether an ended statement succeeded, by the engine's log; None: not known.

        Of several with that id, one success is enough.

        Args:
            since_start: ask only for those that ended after the engine was started: what it did
                before, a power cut may have taken back.
        """

    def revive(self) -> None:
        """Make the engine usable again after an error without a code: a new process, or a wait.

        Raises:
            RowfallError: it cannot be.
        """

    def abandon(self) -> None:
        """Abandon everything that runs, at once and without asking; what it did may stay."""

    def sync(self) -> str | None:
        """Flush to disk what statements have written: a power cut does not take it back then.

        Does nothing where the engine was opened without that (``--no-sync``).

        Returns:
            Why this user may not have it flushed; None where that was no matter.

        Raises:
            RowfallError: it could not be written.
        """

    def check_alone(self) -> None:
        """Check that what this process has locked for itself is still locked.

        Raises:
            LedgerError: the lock is gone, or somebody else has it.
        """

    def keeps_mark(self, uuid: str) -> bool:
        """Return True where a mark can lie with the rows of a table, in its own folder."""

    def mark(self, uuid: str, text: str, *, at_once: bool = False) -> None:
        """Write the mark of a table in place of the last; :meth:`sync` puts it on disk.

        Args:
            at_once: put this file alone on disk now.

        Raises:
            TargetError: it cannot be written.
        """

    def marked(self, uuid: str) -> str:
        """Return the mark of a table; "" where it has none."""

    def sync_refused(self) -> str | None:
        """Return the reason that :meth:`sync` cannot flush; None where it can, or need not.

        Flushes nothing.
        """

    def cpu_seconds(self) -> float:
        """Return the user and system seconds used so far, as far as they can be seen."""

    def close(self) -> None:
        """Release everything; safe to call twice."""


class EngineQuestions:
    """Questions that every kind of ClickHouse is asked in the same way.

    Marks lie in folders of this machine, which this process has locked; a server has a journal.
    """

    _log: Callable[[Statement], None] | None = None

    @property
    def idle(self) -> bool:
        """Return False: a server is there in any case."""
        return False

    def log_statements(self, log: Callable[[Statement], None] | None) -> None:
        self._log = log

    def logged(self, statement: Statement) -> None:
        """Tell the log of a statement that is run, if it is no question."""
        if self._log is not None and (statement.query_id or statement.alters is not None):
            self._log(statement)

    def check_alone(self) -> None:
        """Do nothing: a server is for all."""

    def keeps_mark(self, uuid: str) -> bool:
        """Return False: the folders of a server are its own."""
        return False

    def mark(self, uuid: str, text: str, *, at_once: bool = False) -> None:
        """Do nothing: see :meth:`keeps_mark`."""

    def marked(self, uuid: str) -> str:
        """Return "": see :meth:`keeps_mark`."""
        return ""

    def ask(
        self: Engine, sql: str | SqlText, settings: Settings | None = None, *, lane: int = 0
    ) -> list[list[Any]]:
        known = self.facts.known(settings) if settings else {}
        known = {**known, "output_format_json_quote_64bit_integers": 0}
        statement = Statement(SqlText.of(sql), known, format=ROWS_FORMAT, alters=None)
        return read_rows(self.run(statement, lane=lane).data)

    def existing_table(self: Engine, database: str, table: str) -> ExistingTable | None:
        at = table_is(database, table)
        rows = self.ask(
            "SELECT create_table_query, engine_full, sorting_key, partition_key, "
            "(SELECT groupArray((name, type, default_kind)) FROM (SELECT name, type, default_kind "
            f"FROM system.columns WHERE {at} ORDER BY position)) "
            f"FROM system.tables WHERE database = {quote(database)} AND name = {quote(table)}",
        )
        if not rows:
            return None
        create, kind, key, partition_by, columns = rows[0]
        return ExistingTable(
            create, kind, key, tuple((n, t, default) for n, t, default in columns), partition_by
        )


def table_uuid(engine: Engine, database: str, table: str) -> str:
    """Return the uuid of a table, "" when it does not exist.

    The embedded engine's default database shows no uuids; there the table's folder is named by it.
    """
    rows = engine.ask(about_tables([database], [table]))
    return identity(str(rows[0][2]), str(rows[0][11])) if rows else ""


def identity(uuid: str, folder: str) -> str:
    """Return the uuid of a table whose catalogue shows this one and the folder of its parts."""
    # Matched here: the engine needs 15 ms for its first regular expression of this kind.
    found = _FOLDER.search(folder)
    return found[1] if found and not uuid.strip("0-") else uuid


def started_within(engine: Engine, seconds: float, *, lane: int) -> bool:
    """Tell whether a server was started in the last ``seconds``, or a second before.

    uptime() counts whole seconds of a clock that nobody sets.
    """
    ((up,),) = engine.ask("SELECT uptime()", lane=lane)
    return bool(up <= seconds + 1.0)


def on_all(do: Callable[[_Item], _Found], items: Sequence[_Item]) -> list[_Found]:
    """Call ``do`` for all items at the same time; return the results in the items' order.

    One thread an item, as each waits for another server; a single one needs none. They are daemons,
    as a pool's are not: a statement that hangs does not keep the process from ending.

    Raises:
        BaseException: the first that ``do`` raised.
    """
    if len(items) == 1:
        return [do(items[0])]
    found: dict[int, _Found] = {}
    failed: list[BaseException] = []

    def one(at: int, item: _Item) -> None:
        try:
            found[at] = do(item)
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=one, args=(at, item), daemon=True) for at, item in enumerate(items)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [found[at] for at in range(len(items))]
