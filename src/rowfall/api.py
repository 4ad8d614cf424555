"""The library: everything the command does, as functions. The command is a thin skin on it.

import rowfall
report = rowfall.load(["trips/*.csv.gz"], to="./data", table="trips")
print(report.rows, report.seconds, report.limited_by)
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rowfall import history
from rowfall.engines.embedded import Embedded
from rowfall.errors import Interrupted, RowfallError, TargetError, UsageError
from rowfall.events import Event, Listener, silent
from rowfall.jobs import open_job, plan_job
from rowfall.loader import load_job
from rowfall.model import Plan, Report, Statement
from rowfall.options import Options, restored
from rowfall.sqltext import SqlText
from rowfall.targets import DEFAULT_FOLDER
from rowfall.verifier import Verification, verify_table

__all__ = ["Verification", "load", "loads", "plan", "query", "report", "verify"]


def plan(
    sources: Sequence[str] | str,
    *,
    to: str | None = None,
    table: str | None = None,
    options: Options | None = None,
) -> Plan:
    """What :func:`load` would do with the same arguments. Nothing is written or created.

    Raises:
        RowfallError: see :mod:`rowfall.errors`; the same as for a load.
    """
    with open_job(sources, to, table, options or Options(), silent, dry=True) as job:
        return plan_job(job)[0]


def load(
    sources: Sequence[str] | str,
    *,
    to: str | None = None,
    table: str | None = None,
    options: Options | None = None,
    on_event: Listener = silent,
) -> Report:
    """Load ``sources`` into ``to``; goes on by itself where an unfinished load of the same stopped.

    Args:
        sources: paths, globs, ``s3://``, ``http(s)://``, ``generate://``, or ``-``.
        to: a folder (embedded ClickHouse, default ``./rowfall-data``), ``null:``, or files to
            write. table: target table, ``name`` or ``database.name``; default from the source.
        options: see :class:`rowfall.Options`.
        on_event: called with every :mod:`rowfall.events` event, from several threads in turn.

    Returns:
        What was done. ``outcome`` is ``done``, ``partial`` or ``failed``; splits that did not
        land are in ``failures``.

    Raises:
        Interrupted: Ctrl-C; the load can go on.
        RowfallError: nothing could be loaded at all, or the target or ledger failed.
    """
    options = options or Options()
    with (
        _one_at_a_time(on_event) as emit,
        _terminable(),
        open_job(sources, to, table, options, emit, dry=False) as job,
    ):
        return load_job(job)


def query(
    text: str,
    *,
    to: str | None = None,
    format: str | None = None,
    write: bool = False,
    out_fd: int = 1,
    pretty: bool = False,
) -> None:
    """Run one statement and stream its result to the descriptor ``out_fd``.

    Args:
        format: any output format of the engine; default TSVWithNames, or a table if ``pretty``.
        write: allow statements that change something.

    Raises:
        TargetError: no such data folder. EngineError: what the engine says.
    """
    folder = Path(to).absolute() if to else Path(DEFAULT_FOLDER).absolute()
    if not folder.is_dir():
        if to:
            raise TargetError(f"there is no data folder {to}", hint="Load something into it first.")
        folder_or_none = None
    else:
        folder_or_none = folder
    chosen = format or ("PrettyCompactMonoBlock" if pretty else "TSVWithNames")
    # The child uses 0 to 2 itself, so the output gets another number there.
    out = os.dup(out_fd)
    engine = Embedded(folder_or_none, fds=(out,))
    lane = 1
    try:
        if not write:
            # 2: no writes, but settings may change; formats need that.
            engine.run(Statement(SqlText.of("SET readonly = 2")), lane=lane)
        with _terminable(), _killed_on_interrupt(engine, "query"):
            statement = Statement(SqlText.of(text.strip().rstrip(";")), query_id="query",
                                  format=chosen)  # fmt: skip
            try:
                engine.run(statement, lane=lane, out_fd=out)
            except RowfallError as error:
                if "Broken pipe" in error.message:
                    # `rowfall query ... | head`: the reader has seen enough.
                    raise BrokenPipeError from None
                raise
    finally:
        engine.close()
        os.close(out)


def loads(*, to: str | None = None) -> list[Report]:
    """All loads in the ledgers of ``to`` (default: here and the user's own), newest first."""
    return history.reports(to)


def report(load_id: str, *, to: str | None = None) -> Report:
    """The report of one load; the beginning of its id is enough, ``last`` is the newest.

    Raises:
        UsageError: no load, or several, with that id.
    """
    everything = loads(to=to)
    if load_id == "last" and everything:
        return everything[0]
    found = [r for r in everything if r.load_id.startswith(load_id)]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{len(found) or 'no'} loads match {load_id!r}",
        hint="See rowfall status; loads of another target need --to.",
    )


def verify(load_id: str, *, to: str | None = None, on_event: Listener = silent) -> Verification:
    """Read the source of a finished load again and compare it with the table.

    Raises:
        UsageError: no such load. SourceError: the source is gone or changed.
        LedgerError: the table holds rows of other loads, so it cannot be compared as a whole.
    """
    known = report(load_id, to=to)
    request = history.request(known.load_id, to)
    options = restored(request["options"])
    with open_job(request["sources"], request["to"], request["table"], options, on_event,
               dry=True) as job:  # fmt: skip
        return verify_table(job, known.load_id)


@contextmanager
def _one_at_a_time(listener: Listener) -> Iterator[Listener]:
    """Events come from several threads; a listener hears one at a time."""
    guard = threading.Lock()

    def emit(event: Event) -> None:
        with guard:
            listener(event)

    yield emit


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM counts as Ctrl-C: a stopped container leaves a load that can go on.

    A second one changes nothing: stopping takes two seconds at most and must not be cut short.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # The process ends after this; a late second signal must not change its exit code.
            signal.signal(number, signal.SIG_IGN if stopping else handler)


@contextmanager
def _killed_on_interrupt(engine: Embedded, query_id: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        engine.terminate()
        raise Interrupted("interrupted") from None
