"""The library: everything the command does, as functions. The command is a thin skin on it.

import rowfall
report = rowfall.load(["trips/*.csv.gz"], to="./data", table="trips")
print(report.rows, report.seconds, report.limited_by)
"""

from __future__ import annotations

import os
import secrets as random
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

from rowfall.core.errors import Interrupted, RowfallError, TargetError, UsageError
from rowfall.core.events import Event, Listener, silent
from rowfall.core.masked import Secret
from rowfall.core.model import Plan, Statement
from rowfall.core.options import Options, restored
from rowfall.core.results import Report, Verification
from rowfall.core.sqltext import SqlText
from rowfall.engines.embedded import Embedded
from rowfall.run import history
from rowfall.run.session import connect, open_session, refusal
from rowfall.targets import open_target

if TYPE_CHECKING:
    from rowfall.core.projection import ScaleReport
    from rowfall.core.results import Leftover
    from rowfall.engines.server import Server
    from rowfall.run.install import Installed

__all__ = [
    "Verification", "clean", "forget", "install_decoder", "leftovers",
    "load", "loads", "plan", "query", "report", "resume", "scale", "verify",
]  # fmt: skip


def plan(
    sources: Sequence[str] | str,
    *,
    to: str | None = None,
    table: str | None = None,
    options: Options | None = None,
    password: Secret | None = None,
) -> Plan:
    """What :func:`load` would do with the same arguments. Nothing is written or created.

    Raises:
        RowfallError: see :mod:`rowfall.core.errors`; the same as for a load.
    """
    from rowfall.plan.planner import make_plan
    from rowfall.plan.survey import survey
    from rowfall.publish.shadow import shadow_name

    with open_session(sources, to, table, options or Options(), silent, dry=True,
                  password=password) as session:  # fmt: skip
        anew = session.options.replace or session.options.force
        # No such table: it would be made anew.
        table = shadow_name("plan") if session.options.replace else ""
        facts = survey(session, set() if anew else None, table)
        made = make_plan(facts, session.options)
        refused = refusal(session)
        if refused is not None:
            advice = (*made.forecast.advice, f"It would fail: {refused.message}. {refused.hint}")
            made = replace(made, forecast=replace(made.forecast, advice=advice))
        return made


def load(
    sources: Sequence[str] | str,
    *,
    to: str | None = None,
    table: str | None = None,
    options: Options | None = None,
    on_event: Listener = silent,
    password: Secret | None = None,
) -> Report:
    """Load ``sources`` into ``to``; goes on by itself where an unfinished load of the same stopped.

    Args:
        sources: paths, globs, ``s3://``, ``gs://``, ``az://``, ``http(s)://``, ``generate://``, or
            ``-``.
        to: a folder (embedded ClickHouse, default ``./rowfall-data``), a server
            (``clickhouse://user@host:8123/database``), ``null:``, or files to write.
        table: target table, ``name`` or ``database.name``; default from the source.
        options: see :class:`rowfall.Options`.
        on_event: called with every :mod:`rowfall.core.events` event, from several threads in turn.
        password: of the server's user, instead of the one in ``to`` or the environment.

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
        open_session(sources, to, table, options, emit, dry=False, password=password) as session,
    ):
        from rowfall.run.loader import load_session  # 50 ms, in which the engine opens the folder

        return load_session(session)


def resume(
    load_id: str = "",
    *,
    to: str | None = None,
    on_event: Listener = silent,
    password: Secret | None = None,
) -> Report:
    """Go on with an unfinished load as it was asked for, from wherever this is called.

    Args:
        load_id: or the beginning of one; "" for the newest that is not done.

    Raises:
        UsageError: there is none, or it read stdin. Otherwise as :func:`load`.
    """
    if load_id:
        known = report(load_id, to=to)
    else:
        open_loads = [r for r in loads(to=to) if r.outcome != "done"]
        if not open_loads:
            raise UsageError(
                "no load is unfinished", hint="See rowfall status; other targets need --to."
            )
        known = open_loads[0]
    asked = history.request(known.load_id, to)
    if "-" in asked["sources"]:
        raise UsageError(
            f"load {known.load_id} read stdin, which cannot be read again",
            hint="Send the data once more to rowfall load.",
        )
    with _inside(asked.get("folder")):
        return load(
            asked["sources"], to=to or asked["to"], table=asked["table"],
            options=restored(asked["options"]), on_event=on_event, password=password,
        )  # fmt: skip


def query(
    text: str,
    *,
    to: str | None = None,
    format: str | None = None,
    write: bool = False,
    out_fd: int = 1,
    pretty: bool = False,
    password: Secret | None = None,
) -> None:
    """Run one statement and stream its result to the descriptor ``out_fd``.

    Args:
        format: any output format of the engine; default TSVWithNames, or a table if ``pretty``.
        write: allow statements that change something.

    Raises:
        TargetError: no such data folder or server. EngineError: what the engine says.
    """
    chosen = format or ("PrettyCompactMonoBlock" if pretty else "TSVWithNames")
    target = open_target(to, "any", Options(), password)
    statement = SqlText.of(text.strip().rstrip(";"))
    if target.server is not None:
        server = connect(target.server, Options(), target.database)
        # 2: no writes, but settings may change; formats need that.
        settings = {} if write or server.readonly else {"readonly": 2}
        asked = Statement(statement, settings, f"query-{random.token_hex(8)}", chosen)
        _run_query(server, asked, out_fd)
        return
    if target.folder is None:
        raise UsageError(f"there is nothing to query in {target.text}")
    if not target.folder.is_dir() and to:
        raise TargetError(f"there is no data folder {to}", hint="Load something into it first.")
    # The child uses 0 to 2 itself, so the output gets another number there.
    out = os.dup(out_fd)
    try:
        folder = target.folder if target.folder.is_dir() else None
        engine = Embedded(folder, fds=(out,), stay=True)
        if not write:
            engine.run(Statement(SqlText.of("SET readonly = 2")), lane=1)
        _run_query(engine, Statement(statement, query_id="query", format=chosen), out)
    finally:
        os.close(out)


def _run_query(engine: Embedded | Server, statement: Statement, out_fd: int) -> None:
    try:
        with _terminable(), _killed_on_interrupt(engine, statement.query_id):
            engine.run(statement, lane=1, out_fd=out_fd)
    except RowfallError as error:
        if "Broken pipe" in error.message:
            # `rowfall query ... | head`: the reader has seen enough.
            raise BrokenPipeError from None
        raise
    finally:
        engine.close()


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


def forget(load_id: str, *, to: str | None = None, password: Secret | None = None) -> int:
    """Make what a load has landed count as not landed; its rows stay where they are.

    Returns:
        The number of splits that would be loaded again.

    Raises:
        UsageError: no such load.
    """
    known = report(load_id, to=to)
    asked = history.request(known.load_id, to)
    from rowfall.run.clean import forget_load

    target = open_target(to or asked["to"], asked["table"] or "any", Options(), password)
    return forget_load(target, known.load_id)


def leftovers(*, to: str | None = None, password: Secret | None = None) -> list[Leftover]:
    """What dead loads have left in a target; nothing is changed."""
    return clean(to=to, password=password, dry=True)


def clean(
    *, to: str | None = None, password: Secret | None = None, dry: bool = False,
    on_event: Listener = silent,
) -> list[Leftover]:  # fmt: skip
    """Finish what dead loads had committed and drop the rest of what they left.

    Returns:
        What was dropped (``dry``: what would be).

    Raises:
        TargetError: no such folder or server.
    """
    from rowfall.run.clean import clean_target

    target = open_target(to, "any", Options(), password)
    return clean_target(target, dry=dry, emit=on_event)


def install_decoder(
    *, to: str | None = None, folder: str = "", password: Secret | None = None
) -> Installed:
    """Put rowfall-decode into a server, which then parses what it pulls with it.

    Args:
        folder: the server's ``user_scripts_path``; "" to ask the server.

    Raises:
        UsageError: no server, or the program is not installed here.
        TargetError: its folder is out of reach from here, or it cannot run the program.
    """
    from rowfall.run.install import install

    return install(open_target(to, "any", Options(), password), folder)


def verify(
    load_id: str,
    *,
    to: str | None = None,
    on_event: Listener = silent,
    password: Secret | None = None,
) -> Verification:
    """Read the source of a finished load again and compare it with the table.

    Where the table as it is now says nothing about the load (it holds rows of others, or its
    engine collapses rows), the rows counted before they became visible are compared.

    Raises:
        UsageError: no such load. SourceError: the source is gone or changed.
    """
    known = report(load_id, to=to)
    request = history.request(known.load_id, to)
    options = restored(request["options"])
    with open_session(request["sources"], to or request["to"], request["table"], options, on_event,
               dry=True, password=password) as session:  # fmt: skip
        from rowfall.run.verify import verify_table

        return verify_table(session, known.load_id)


def scale(
    sources: Sequence[str] | str,
    *,
    to: str | None = None,
    options: Options | None = None,
    password: Secret | None = None,
) -> ScaleReport:
    """How long :func:`load` would take on ``options.nodes`` nodes; nothing is written to ``to``.

    Where neither ``options.rate`` nor a past load says what a core does, a few files are loaded
    into a temporary folder, for at most about 10 s.

    Raises:
        UsageError: numbers that are none, or a source of unknown size. Otherwise as :func:`plan`.
    """
    from rowfall.measure.scale import (
        project_source,  # what it needs besides takes 20 ms that loads save
    )

    texts = (sources,) if isinstance(sources, str) else tuple(sources)
    with _terminable():
        return project_source(texts, to, options or Options(), password)


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
def _inside(folder: str | None) -> Iterator[None]:
    """Relative names of options (rejects, schema files) mean what they meant."""
    before = os.getcwd()
    if folder and os.path.isdir(folder):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _killed_on_interrupt(engine: Embedded | Server, query_id: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if not isinstance(engine, Embedded):
            engine.kill(query_id)
        engine.abandon()
        raise Interrupted("interrupted") from None
