"""The library: each command of ``rowfall`` is one function here.

import rowfall
report = rowfall.load("trips/*.csv.gz", to="./data", table="trips", order_by="pickup_datetime")
print(report.rows, report.seconds, report.limited_by)
rowfall.query("SELECT count() FROM trips", to="./data").df()

Paths may be ``pathlib.Path`` everywhere. The options of the command line are keyword arguments,
listed in :mod:`rowfall.core.keywords`; ``options`` takes them as one value.
"""

from __future__ import annotations

import inspect
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

from rowfall.core import units
from rowfall.core.config_files import find_files
from rowfall.core.errors import NothingFoundError, RowfallError, TargetError, UsageError
from rowfall.core.events import Listener, Note, one_at_a_time, silent
from rowfall.core.masked import Secret
from rowfall.core.model import Plan
from rowfall.core.options import (
    ADOPT,
    DOCTOR,
    LOAD,
    PLAN,
    READ,
    SCALE,
    TUNE,
    Options,
    flags_of,
    from_keywords,
    restored,
)
from rowfall.core.results import LoadError, Report, Verification
from rowfall.systems.clickhouse.prestart import prestart
from rowfall.targets import open_target, tuned
from rowfall.telemetry.open import Watching, watched

if TYPE_CHECKING:
    from typing import Unpack

    from rowfall.core.bench_results import BenchReport
    from rowfall.core.keywords import (
        AdoptKeywords,
        LoadKeywords,
        PlanKeywords,
        RowKeywords,
        ScaleKeywords,
        TuneKeywords,
    )
    from rowfall.core.results import (
        Adopted,
        DoctorReport,
        Explanation,
        Leftover,
        ScaleReport,
        TargetTable,
        Undone,
    )
    from rowfall.core.tables import TablesPlan, TablesReport
    from rowfall.core.tuned import TuneReport
    from rowfall.destinations.clickhouse.install import Installed
    from rowfall.report.query_result import QueryResult
    from rowfall.run.many import TablesRequest
    from rowfall.run.read import RowReader
    from rowfall.run.session import OpenSource
    from rowfall.targets.base import Target

__all__ = [
    "Verification", "adopt", "bench", "bench_articles", "clean", "doctor", "explain", "forget",
    "install_decoder", "leftovers", "load", "load_tables", "loads", "plan", "plan_tables", "query",
    "read", "report", "resume", "scale", "status", "tables", "tune", "undo", "verify",
    "worker",
]  # fmt: skip

Where = str | PathLike[str]
"""A path, or the address of a source or target."""


class ArrowRows(Protocol):
    """Rows in memory: whatever has the Arrow C stream interface, as pandas, polars, pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with a stream of batches."""


def plan(
    sources: Where | Iterable[Where] | ArrowRows,
    *,
    to: Where | None = None,
    table: str | None = None,
    batch_id: str | None = None,
    options: Options | None = None,
    password: Secret | str | None = None,
    **keywords: Unpack[PlanKeywords],
) -> Plan:
    """Plan what :func:`load` would do with the same arguments. Nothing is written or created.

    Raises:
        RowfallError: see :mod:`rowfall.core.errors`; the same as for a load.
    """
    options = tuned.applied(from_keywords(PLAN, options, dict(keywords)))
    _check_one(options)
    opened = _sources(sources, batch_id)
    _prestart(opened, to)
    from rowfall.plan.first_rows import first_rows
    from rowfall.plan.planner import make_plan
    from rowfall.plan.survey import survey
    from rowfall.publish.shadow import shadow_name
    from rowfall.run.partial import partial_question
    from rowfall.run.session import Request, check_tuned, no_space, open_session

    request = Request(opened, _text(to), table, options, _secret(password))
    with open_session(request, silent, dry=True) as session:
        anew = session.options.replace or session.options.force
        # No such table: it would be made anew.
        table = shadow_name("plan") if session.options.replace else ""
        facts = survey(session, set() if anew else None, table, thorough=True)
        made = make_plan(facts, session.options)
        check_tuned(made, session)
        made = replace(made, texts=replace(made.texts, first_rows=first_rows(session, facts, made)))
        refused: RowfallError | None = session.destination.refusal(session)
        refused = refused or session.destination.contradiction(session)
        refused = refused or (facts.export.refusal if facts.export is not None else None)
        refused = refused or no_space(made, session.options) or partial_question(session, facts)
        if refused is not None:
            advice = (*made.forecast.advice, f"It would fail: {refused.message}. {refused.hint}")
            made = replace(made, forecast=replace(made.forecast, advice=advice))
        return made


def load(
    sources: Where | Iterable[Where] | ArrowRows,
    *,
    to: Where | None = None,
    table: str | None = None,
    batch_id: str | None = None,
    options: Options | None = None,
    on_event: Listener | None = None,
    progress: bool | None = None,
    password: Secret | str | None = None,
    began: float = 0.0,
    **keywords: Unpack[LoadKeywords],
) -> Report:
    """Load ``sources`` into ``to``, or resume an unfinished load of the same sources.

    Args:
        sources: paths, globs, ``s3://``, ``gs://``, ``az://``, ``http(s)://``, ``hdfs://``,
            ``kafka://``, ``generate://``, or ``-``. Or rows in memory: a data frame of pandas or
            polars, a table, reader or data set of pyarrow, or whatever else has
            ``__arrow_c_stream__``.
        to: a folder (embedded ClickHouse, default ``./rowfall-data``), a server
            (``clickhouse://user@host:8123/database``), ``null:``, or files to write.
        table: target table, ``name`` or ``database.name``; default from the source.
        batch_id: of rows in memory, your name for them (``"2026-11-23"``): rows of the same name
            are loaded into a table once, whatever they are. Without it each call is a load of its
            own, and calling again after a crash may load the rows again.
        options: see :class:`rowfall.Options`; ``keywords`` win over its fields.
        on_event: called with every :mod:`rowfall.core.events` event, from several threads in turn.
        progress: show the load, in a notebook's cell or on stderr. Default: in IPython, unless
            ``on_event`` is given.
        password: of the server's user, instead of the one in ``to`` or the environment.
        began: when the user began to wait, as of ``time.monotonic``; 0 for now.

    Returns:
        The report; everything is loaded.

    Raises:
        LoadError: some files could not be loaded, or none: its ``report`` has the others, too.
        Interrupted: Ctrl-C or SIGTERM; the load can be resumed.
        RowfallError: nothing could be loaded at all, or the target or ledger failed.
    """
    options = tuned.applied(from_keywords(LOAD, options, dict(keywords)))
    _check_one(options)
    if options.on is not None and options.fleet is None:
        options = replace(options, fleet=f"ray-{secrets.token_hex(4)}")  # nobody else is to join
    opened = _sources(sources, batch_id)
    _prestart(opened, to)
    from rowfall.core.signals import GO_ON, terminable
    from rowfall.run.session import Request, open_session

    request = Request(opened, _text(to), table, options, _secret(password), began)
    if "://" in (request.to or ""):
        # While a server answers the first questions, what the load needs afterwards is imported.
        Thread(target=import_module, args=("rowfall.run.load",), daemon=True).start()
    watching = Watching(options.metrics_port, options.metrics_host, streaming=options.follow)
    with (
        terminable(GO_ON),
        _listener(on_event, progress) as told,
        watched(told, watching) as emit,
    ):
        try:
            with open_session(request, emit, dry=False) as session:
                from rowfall.run.load import run_load  # 50 ms, in which the engine opens the folder

                if session.options.follow:
                    from rowfall.run.follow import follow

                    return _loaded(follow(session))
                if session.options.on is not None:
                    from rowfall.run.on_ray import started

                    with started(session, work_on_ray):
                        return _loaded(run_load(session))
                return _loaded(run_load(session))
        except NothingFoundError as error:
            from rowfall.run.after import nothing_left

            if (nothing := nothing_left(request)) is None:
                raise
            emit(Note("info", f"nothing to load: {error.message}"))
            return nothing


def read(
    sources: Where | Iterable[Where],
    *,
    table: str | None = None,
    options: Options | None = None,
    on_event: Listener = silent,
    **keywords: Unpack[RowKeywords],
) -> RowReader:
    """Read ``sources`` as a stream of Arrow, which polars, DuckDB, pandas and pyarrow take.

    polars.DataFrame(rowfall.read("trips/*.csv.gz"))

    Types are found, and rows that do not fit refused or left out, as by :func:`load`. Nothing is
    read before the stream is asked for its schema or a row, and nothing is written but bad rows.

    Args:
        sources: as of :func:`load`, but for rows in memory.
        table: of a data folder that is the source.
        on_event: called with every event of the load, from another thread.

    Returns:
        The rows, which are read once.

    Raises:
        UsageError: options that contradict each other. What the source is to blame for is raised
            where rows are taken: a LoadError names file, line, column and value.
    """
    from rowfall.run.read import RowReader
    from rowfall.run.session import Request

    request = Request(_texts(sources), None, table, from_keywords(READ, options, dict(keywords)))
    return RowReader(request, one_at_a_time(on_event))


def load_tables(
    source: Where | Iterable[Where],
    *,
    to: Where | None = None,
    table: str | None = None,
    options: Options | None = None,
    on_event: Listener | None = None,
    password: Secret | str | None = None,
    **keywords: Unpack[LoadKeywords],
) -> TablesReport:
    """Load many tables of ``source``, each by a load of its own, several at a time.

    Args:
        source: a database (``postgresql://host/db``), a file of DuckDB or SQLite, a namespace
            of an Iceberg catalogue, or a folder whose sub-folders are tables; ``tables=`` and
            ``exclude=`` say which of its tables.
        to: as of :func:`load`; ``{table}`` and ``{schema}`` stand for the names of each.
        table: name of each in the target, with the same place holders; default ``{table}``.
        options, on_event, password: as of :func:`load`.

    Returns:
        The report: what became of each. Failed tables are in it and raise nothing.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; the same call goes on.
        UsageError: a pattern that means no table, or two tables that would get one name.
        RowfallError: nothing could begin.
    """
    options = tuned.applied(from_keywords(LOAD, options, dict(keywords)))
    from rowfall.core.signals import GO_ON, terminable
    from rowfall.run.many import load_tables as run_tables

    request = _tables_request(source, to, table, options, password)
    if options.metrics_port == 0:
        raise UsageError(
            "--metrics-port 0 is a free port for each load, and --tables makes one for each table",
            hint="Name a port, which all of them share.",
        )
    watching = Watching(options.metrics_port, options.metrics_host)
    with (
        terminable(GO_ON),
        _listener(on_event, None) as told,
        watched(told, watching),  # from the first table to the last
    ):
        return run_tables(request, told, lambda emit: watched(emit, watching))


def exported(table: str | None, source: Where, file: Where, options: Options) -> str:
    """Return the source that :func:`load` reads to write a table to a file.

    Args:
        table: perhaps ``schema.table``; None where ``options`` have a query.
        source: a data folder, the address of a database, or a file of one.

    Raises:
        UsageError: it has no such table, or ``file`` is none. SourceError: it cannot be reached.
    """
    from rowfall.run.exported import address_of
    from rowfall.targets.kinds import check_file

    check_file(str(_text(file)), options)
    place = str(_text(source))
    return place if table is None else address_of(table, place, options)


def plan_tables(
    source: Where | Iterable[Where],
    *,
    to: Where | None = None,
    table: str | None = None,
    options: Options | None = None,
    password: Secret | str | None = None,
    **keywords: Unpack[PlanKeywords],
) -> TablesPlan:
    """Plan what :func:`load_tables` would do with the same arguments; nothing is written.

    Raises:
        RowfallError: the same as for a load.
    """
    from rowfall.run.many import plan_tables as run_plan

    options = tuned.applied(from_keywords(PLAN, options, dict(keywords)))
    return run_plan(_tables_request(source, to, table, options, password))


def _tables_request(
    source: Where | Iterable[Where], to: Where | None, table: str | None, options: Options,
    password: Secret | str | None,
) -> TablesRequest:  # fmt: skip
    """Return the request of a command with ``--tables``.

    Raises:
        UsageError: several sources, or nothing that says which tables.
    """
    from rowfall.run.many import TablesRequest

    texts = _texts(source)
    if len(texts) != 1:
        raise UsageError(
            f"--tables takes one source, and {len(texts)} are given",
            hint="Run one command for each.",
        )
    if options.table_per_file and options.tables is None:
        options = replace(options, tables="*")
    if options.tables is None:
        raise UsageError(
            "--exclude leaves out some of the tables that --tables names, and it names none",
            hint="Add --tables '*' for all tables of the source.",
        )
    if options.fleet is not None or options.on is not None:
        raise UsageError(
            "--fleet and --on share the files of one table, and these are many tables",
            hint="Give each table a load and a name of its own, or leave them out.",
        )
    return TablesRequest(texts[0], _text(to), table, options, _secret(password))


def _check_one(options: Options) -> None:
    """Check that many tables are not asked for where one load is made.

    Raises:
        UsageError: they are.
    """
    if options.many_tables:
        raise UsageError(
            "tables= and exclude= are for many tables, and this is one load",
            hint="Call rowfall.load_tables or rowfall.plan_tables, which take them.",
        )


def _loaded(report: Report) -> Report:
    """Return the report of a load that has loaded everything.

    Raises:
        LoadError: some files could not be loaded.
    """
    if report.outcome == "done":
        return report
    count = units.counted(report.splits_failed, report.unit)
    some = f"{count} of {report.splits:,}" if report.splits > 1 else f"the {report.unit}"
    first = report.failures[0] if report.failures else None
    why = f": {first.split}: {first.error}" if first is not None else ""
    raise LoadError(
        f"{some} could not be loaded into {report.table or report.target}{why}", report,
        hint=first.hint if first is not None else None,
    )  # fmt: skip


def resume(
    load_id: str = "",
    *,
    to: Where | None = None,
    on_event: Listener | None = None,
    progress: bool | None = None,
    password: Secret | str | None = None,
    began: float = 0.0,
) -> Report:
    """Resume an unfinished load as it was asked for, from any folder.

    Args:
        load_id: its id or the beginning of it; "" for the newest load that is not done.
        progress, began: as of :func:`load`.

    Raises:
        UsageError: there is no such load, it read stdin, or its sources had secrets, which are not
            kept. Otherwise as :func:`load`.
    """
    from rowfall.run import history

    if load_id:
        known = report(load_id, to=to)
    else:
        # What was taken out again is not to come back by itself.
        over = ("done", "undone", "adopted")
        open_loads = [r for r in loads(to=to) if r.outcome not in over]
        if not open_loads:
            raise UsageError(
                "no load is unfinished",
                hint="rowfall status --all lists all loads.",
            )
        known = open_loads[0]
    asked = history.request(known.load_id, _text(to))
    if "-" in asked["sources"]:
        raise UsageError(
            f"load {known.load_id} read stdin, which cannot be read again",
            hint="Pipe the data into rowfall load once more.",
        )
    sources = history.sources(asked, known.load_id, "rowfall load resumes it by itself.")
    if on_event is not None:
        on_event(Note("info", f"resuming load {_whose(known)}"))
    folder = asked.get("folder")
    # Relative names in options (rejects, schema files) mean what they meant.
    with chdir(folder) if folder and os.path.isdir(folder) else nullcontext():
        return load(
            sources, to=to or asked["to"], table=asked["table"],
            # One of many is resumed alone.
            options=replace(
                restored(asked["options"]), tables=None, exclude=(), table_per_file=False
            ),
            on_event=on_event, progress=progress,
            password=password, began=began,
        )  # fmt: skip


def status(
    load_id: str, *, to: Where | None = None, password: Secret | str | None = None
) -> Report:
    """Return the report of one load as :func:`report`, with the workers of one that is shared.

    Args:
        load_id: with ``to`` also the name that ``fleet=`` has given, on whatever machine.

    Raises:
        UsageError: no load has that id or name, or several have.
    """
    from rowfall.run import history
    from rowfall.run.shared_loads import report_of

    try:
        known = report(load_id, to=to)
    except UsageError:
        shared = None if to is None else report_of(_text(to) or "", load_id, _secret(password))
        if shared is None:
            raise
        return shared
    asked = history.request(known.load_id, _text(to)) if known.outcome == "running" else {}
    if fleet := asked.get("options", {}).get("fleet"):
        shared = report_of(_text(to) or asked["to"], fleet, _secret(password))
        return known if shared is None else replace(known, workers=shared.workers)
    return known


def worker(
    name: str,
    *,
    to: Where | None = None,
    wait: str = "1m",
    options: Options | None = None,
    on_event: Listener | None = None,
    password: Secret | str | None = None,
) -> Report | None:
    """Join a load that another machine has begun with ``fleet=name``, and load a part of it.

    Args:
        name: of the load, or the beginning of its id. ``to``: the ClickHouse server of the load.
        wait: how long to wait for the load to begin, e.g. ``10m``.
        options: those of this machine alone (memory, threads); all others are the load's.
        on_event, password: as of :func:`load`.

    Returns:
        The report of what this process has loaded, or of all workers where it has led them at the
        end. None where the load had ended before.

    Raises:
        UsageError: no load of that name runs, or this machine cannot take part in it.
    """
    from rowfall.run.shared_loads import find_load

    given, to_text = options or Options(), _text(to)
    secret = _secret(password)
    found = find_load(name, to_text, secret, units.parse_duration(wait), on_event or silent)
    if found is None:
        return None
    return load(
        found.sources, to=to, table=found.table,
        options=replace(
            restored(found.options), fleet=found.name, memory=given.memory, threads=given.threads
        ),
        on_event=on_event, password=secret,
    )  # fmt: skip


def work_on_ray(name: str, to: str) -> tuple[str, str]:
    """Load a part of a shared load, as a task of Ray; see :func:`rowfall.run.on_ray.started`."""
    import socket

    try:
        # Listing a million objects, before which there is no plan, takes minutes.
        worker(name, to=to, wait="10m")
    except RowfallError as error:
        return socket.gethostname(), error.message
    return socket.gethostname(), ""


@overload
def query(
    text: str,
    *,
    to: Where | None = None,
    write: bool = False,
    password: Secret | str | None = None,
) -> QueryResult: ...


@overload
def query(
    text: str,
    *,
    out_fd: int,
    to: Where | None = None,
    format: str | None = None,
    write: bool = False,
    pretty: bool = False,
    password: Secret | str | None = None,
) -> None: ...


def query(
    text: str,
    *,
    to: Where | None = None,
    format: str | None = None,
    write: bool = False,
    out_fd: int | None = None,
    pretty: bool = False,
    password: Secret | str | None = None,
) -> QueryResult | None:
    """Run one statement and return its rows, or stream them to a file descriptor.

    Args:
        write: allow statements that change something.
        out_fd: where to write the result instead, block by block, however long it is.
        format: of ``out_fd``: any output format of the engine; default TSVWithNames, or a table if
            ``pretty``.

    Returns:
        The rows: ``df()``, ``arrow()``, or tuples by iteration. None where ``out_fd`` is given.

    Raises:
        TargetError: no such data folder or server. EngineError: what the engine says.
    """
    from rowfall.destinations.query import keep_result, run_query

    target = open_target(_text(to), "any", Options(), _secret(password))
    if to and target.folder is not None and not target.folder.is_dir():
        raise TargetError(f"there is no data folder {to}", hint="Load something into it first.")
    if out_fd is None:
        if format is not None:
            raise UsageError(
                "format= says how rows are written, and nothing says where to",
                hint="Give out_fd= as well, or take the rows with .df(), .arrow() or a loop.",
            )
        from rowfall.report.query_result import QueryResult

        return QueryResult(keep_result(target, text, write=write))
    format = format or ("PrettyCompactMonoBlock" if pretty else "TSVWithNames")
    run_query(target, text, format, write=write, out_fd=out_fd)
    return None


def loads(*, to: Where | None = None, everywhere: bool = False) -> list[Report]:
    """Return all loads of ``to``, newest first.

    Args:
        to: default: ``./rowfall-data``, and files that were written from this folder.
        everywhere: without ``to``, the loads of all targets that this user has loaded into.
    """
    from rowfall.run import history

    return history.reports(_text(to), everywhere=everywhere)


def tables(*, to: Where | None = None, password: Secret | str | None = None) -> list[TargetTable]:
    """Return the tables of a target, with what this user has loaded into them.

    Args:
        to: default: ``./rowfall-data``.

    Raises:
        TargetError: it is out of reach, or refuses.
    """
    from rowfall.destinations import open_destination
    from rowfall.run import history
    from rowfall.run.target_tables import list_tables

    target = open_target(_text(to), "any", Options(), _secret(password))
    folder = target.text if to is None else _text(to)
    return list_tables(target, open_destination(target), history.reports(folder))


def report(load_id: str, *, to: Where | None = None) -> Report:
    """Return the report of one load; the beginning of its id is enough.

    ``last`` is the newest of the target (see :func:`loads`); an id is also looked for in the other
    targets of this user where ``to`` is not given.

    Raises:
        UsageError: no load has that id, or several have.
    """
    here = loads(to=to)
    if load_id == "last":
        if here:
            return here[0]
        raise UsageError(
            "there is no load of this target yet" if to else "there is no load into ./rowfall-data",
            hint="Name the target with --to.",
        )
    found = [r for r in here if r.load_id.startswith(load_id)]
    if not found and to is None:
        found = [r for r in loads(everywhere=True) if r.load_id.startswith(load_id)]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{len(found) or 'no'} loads match {load_id!r}",
        hint="rowfall status --all lists all loads.",
    )


def explain(load_id: str, *, to: Where | None = None) -> Explanation:
    """Return the plan of a load beside what its last run did, attempt by attempt.

    Args:
        load_id, to: as of :func:`report`.

    Raises:
        UsageError: no load has that id, or several have.
    """
    from rowfall.run import history

    return history.explanation(report(load_id, to=to), _text(to))


def _whose(known: Report) -> str:
    """Return id, source and target of the load in words."""
    into = f"{known.table} in {known.target}" if known.table else known.target
    return f"{known.load_id[:8]} of {known.source} into {into}"


def _target_of(
    asked: Mapping[str, Any], to: Where | None, password: Secret | str | None
) -> tuple[Target, Options]:
    """Return the target of a load, and the options of its store of objects."""
    given = restored(asked["options"])
    store = Options(s3_endpoint=given.s3_endpoint, s3_region=given.s3_region,
                    s3_profile=given.s3_profile)  # fmt: skip
    name = asked["table"] or "any"
    return open_target(_text(to) or asked["to"], name, Options(), _secret(password)), store


def forget(load_id: str, *, to: Where | None = None, password: Secret | str | None = None) -> int:
    """Make what a load has loaded count as not loaded; its rows stay where they are.

    Args:
        load_id: of the load, or of an attempt of it whose rows are staged and cannot become
            visible (``LOAD_7``): these rows are dropped.

    Returns:
        The number of files and ranges that the same command would load again.

    Raises:
        UsageError: no such load.
    """
    load_id, _, number = load_id.partition("_")
    known = report(load_id, to=to)
    from rowfall.destinations import open_destination
    from rowfall.run import history

    asked = history.request(known.load_id, _text(to))
    target, options = _target_of(asked, to, password)
    destination = open_destination(target)
    if number:
        return destination.forget_attempt(target, f"{known.load_id}_{number}")
    return destination.forget(target, known.load_id, options)


def undo(
    load_id: str, *, to: Where | None = None, dry: bool = False, views: bool = False,
    password: Secret | str | None = None,
) -> Undone:  # fmt: skip
    """Take exactly the rows of a load out of its table again; its files count as not loaded then.

    Args:
        load_id, to: as of :func:`report`.
        dry: only say what would be taken out.
        views: take out as well what views have made of these rows.

    Returns:
        What was taken out (``dry``: what would be).

    Raises:
        UsageError: no such load, or it has brought nothing that could be taken out.
        LedgerError: its rows cannot be told from others with certainty.
    """
    known = report(load_id, to=to)
    from rowfall.contracts.undo import Undo
    from rowfall.destinations import open_destination
    from rowfall.run import history

    asked = history.request(known.load_id, _text(to))
    target, options = _target_of(asked, to, password)
    return open_destination(target).undo(target, Undo(known, asked, options, dry, views))


def adopt(
    sources: Where | Iterable[Where],
    *,
    to: Where | None = None,
    table: str | None = None,
    before: datetime | str | None = None,
    dry: bool = False,
    options: Options | None = None,
    password: Secret | str | None = None,
    **keywords: Unpack[AdoptKeywords],
) -> Adopted:
    """Record files as loaded whose rows are in a table already; no row is read or written.

    For a table whose record was lost, or that was filled without rowfall. Repeated, it changes
    nothing.

    Args:
        sources, to, table: as of :func:`load`.
        before: only files that were changed last at this time or before it; text is ISO 8601, UTC
            without a zone.
        dry: only say what would be recorded.

    Returns:
        What is recorded (``dry``: what would be).

    Raises:
        UsageError: no record is kept there, or the source does not know times.
        TargetError: there is no such table.
    """
    from rowfall.run.adopt import adopt as run_adopt
    from rowfall.run.session import Request, open_session

    options = from_keywords(ADOPT, options, dict(keywords))
    until = _moment(before) if isinstance(before, str) else before
    request = Request(_texts(sources), _text(to), table, options, _secret(password))
    with open_session(request, silent, dry=dry) as session:
        return run_adopt(session, until, dry=dry)


def _moment(text: str) -> datetime:
    """Return a time that is written as ISO 8601; UTC where it has no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--before {text} is not a time",
            hint="Write it as 2026-11-23, 2026-11-23T10:00 or 2026-11-23T10:00+02:00.",
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def leftovers(*, to: Where | None = None, password: Secret | str | None = None) -> list[Leftover]:
    """List what dead loads have left in a target; nothing is changed."""
    return clean(to=to, password=password, dry=True)


def clean(
    *, to: Where | None = None, password: Secret | str | None = None, dry: bool = False,
    on_event: Listener = silent,
) -> list[Leftover]:  # fmt: skip
    """Finish what dead loads had committed and drop the rest of what they left.

    Returns:
        What was dropped (``dry``: what would be).

    Raises:
        TargetError: no such folder or server.
    """
    from rowfall.destinations import open_destination
    from rowfall.ledger import scratches
    from rowfall.measure.trials import remove_left

    target = open_target(_text(to), "any", Options(), _secret(password))
    measured = any(x.to == target.text for gone in scratches.left() for x in gone.scratches)
    found: list[Leftover] = []
    try:
        found = open_destination(target).clean(target, dry=dry, emit=on_event)
    except UsageError:
        if not measured:  # it holds no tables, and nothing that could be left
            raise
    known = {left.name for left in found}
    return found + remove_left(_text(to), target, _secret(password), known, dry=dry)


def install_decoder(
    *, to: Where | None = None, folder: Where = "", password: Secret | str | None = None
) -> Installed:
    """Install rowfall-decode in a server, which then parses with it what it pulls.

    Args:
        folder: the server's ``user_scripts_path``; "" to ask the server.

    Raises:
        UsageError: no server, or the program is not installed here.
        TargetError: its folder is out of reach from here, or it cannot run the program.
    """
    from rowfall.destinations.clickhouse.install import install

    return install(open_target(_text(to), "any", Options(), _secret(password)), os.fspath(folder))


def verify(
    load_id: str,
    *,
    to: Where | None = None,
    on_event: Listener = silent,
    password: Secret | str | None = None,
) -> Verification:
    """Read the source of a finished load again and compare it with the table.

    Where the table as it is now says nothing about the load (it holds rows of others, or its
    engine collapses rows), the rows counted before they became visible are compared.

    Raises:
        UsageError: no such load, or its sources had secrets, which are not kept.
        SourceError: the source is gone or changed.
    """
    from rowfall.run import history
    from rowfall.run.session import Request, open_session

    known = report(load_id, to=to)
    on_event(Note("info", f"load {_whose(known)}"))
    loaded = known.splits_loaded + known.splits_skipped
    if not loaded and known.outcome in ("failed", "interrupted", "partial"):
        raise UsageError(
            f"load {known.load_id} has loaded nothing: there is nothing to compare",
            hint=f"rowfall report {known.load_id[:8]} says why.",
        )
    kept = history.request(known.load_id, _text(to))
    options = restored(kept["options"])
    sources = history.sources(kept, known.load_id, "rowfall load ... --verify.")
    place = _text(to) or kept["to"]
    request = Request(sources, place, kept["table"], options, _secret(password))
    with open_session(request, on_event, dry=True) as session:
        return session.destination.verify(session, known.load_id)


def scale(
    sources: Where | Iterable[Where],
    *,
    to: Where | None = None,
    options: Options | None = None,
    password: Secret | str | None = None,
    **keywords: Unpack[ScaleKeywords],
) -> ScaleReport:
    """Project how long :func:`load` takes on ``options.nodes`` nodes; nothing is written to ``to``.

    Where neither ``options.rate`` nor a past load says what a core does, a few files are loaded
    into a temporary folder, for at most about 10 s.

    Raises:
        UsageError: an option is not a number, or the size of the source is not known.
            Otherwise as :func:`plan`.
    """
    from rowfall.core.signals import terminable
    from rowfall.measure.scale import project_source  # its imports take 20 ms that loads save

    options = from_keywords(SCALE, options, dict(keywords))
    with terminable():
        return project_source(_texts(sources), _text(to), options, _secret(password))


def doctor(
    sources: Where | Iterable[Where],
    *,
    to: Where | None = None,
    table: str | None = None,
    options: Options | None = None,
    on_event: Listener = silent,
    password: Secret | str | None = None,
    **keywords: Unpack[PlanKeywords],
) -> DoctorReport:
    """Measure each link of a :func:`load` with the same arguments, and name the slowest.

    Samples are loaded into places of their own beside the target, for about 20 s; nothing stays.

    Args:
        on_event: called with notes of what is measured.

    Raises:
        UsageError: the source can be read only once.
        SourceError: it is empty. Otherwise as :func:`load`.
    """
    from rowfall.core.signals import terminable
    from rowfall.measure.doctor import examine

    options = tuned.applied(from_keywords(DOCTOR, options, dict(keywords)))
    with terminable():
        return examine(_texts(sources), _text(to), table, options, _secret(password), on_event)


def bench(
    articles: Iterable[str] = ("all",),
    *,
    scale: str | float = "small",
    rounds: int = 3,
    folder: Where = "rowfall-bench",
    more: Mapping[str, Any] | None = None,
    on_event: Listener = silent,
) -> BenchReport:
    """Run the loads of published articles at the size of this machine, by hand and by rowfall.

    Args:
        articles: ``A1`` to ``A5``, or ``all``.
        scale: ``tiny``, ``small``, ``medium``, ``full``, or a share of the full size.
        folder: of files, servers and results; the results stay there.
        more: ``budget`` (seconds for an article), ``services`` (``NAME=ADDRESS``, see ``rowfall
            bench --help``), ``fresh``, ``keep``.
        on_event: called with a note of each round.

    Raises:
        UsageError: no such article or size, or too little memory.
        TargetError: the folder cannot be written, or has too little room.
    """
    from rowfall.core.signals import terminable
    from rowfall.measure.bench.places import parse_services
    from rowfall.measure.bench.runner import BenchRequest, parse_articles, parse_scale, run_bench
    from rowfall.report.bench import bench_document

    given = dict(more or {})
    asked = BenchRequest(
        parse_articles(tuple(articles)), parse_scale(str(scale)), rounds, given.pop("budget", 0.0),
        Path(folder), parse_services(given.pop("services", ())), **given,
    )  # fmt: skip
    with terminable():
        return run_bench(asked, on_event, bench_document)


def bench_articles() -> dict[str, str]:
    """Return the articles that :func:`bench` takes, with their titles."""
    from rowfall.measure.bench.published import TITLES

    return dict(TITLES)


def tune(
    sources: Where | Iterable[Where],
    *,
    to: Where | None = None,
    table: str | None = None,
    options: Options | None = None,
    on_event: Listener = silent,
    password: Secret | str | None = None,
    **keywords: Unpack[TuneKeywords],
) -> TuneReport:
    """Load samples in each combination of threads, blocks and connections; nothing stays.

    Args:
        on_event: called with what is being loaded, and the rate of what was.

    Returns:
        Every combination and the fastest. After Ctrl-C what is known so far.

    Raises:
        UsageError: the source can be read only once, or the memory is too small for any block.
        SourceError: it is empty. Otherwise as :func:`load`.
    """
    from rowfall.core.signals import terminable
    from rowfall.measure.tune import sweep

    options = from_keywords(TUNE, options, dict(keywords))
    with terminable():
        return sweep(_texts(sources), _text(to), table, options, _secret(password), on_event)


def _prestart(sources: Sequence[str] | OpenSource, to: Where | None) -> None:
    """Start the engine's process before the imports of a load, which take 0.1 s, as it does."""
    names = () if callable(sources) else (sources,) if isinstance(sources, str) else sources
    prestart(names, _text(to))


def _sources(
    sources: Where | Iterable[Where] | ArrowRows, batch_id: str | None
) -> Sequence[str] | OpenSource:
    """Return the names of sources, or what opens rows in memory.

    Raises:
        UsageError: a batch id of what is no rows in memory.
    """
    if not isinstance(sources, str | PathLike | list | tuple):
        from rowfall.stores import frames

        if frames.is_arrow(sources):
            return partial(frames.arrow_rows, sources, batch_id or "")
    if batch_id is not None:
        raise UsageError(
            "batch_id= names rows in memory; files and tables are known by their own names",
            hint="Leave it out.",
        )
    return _texts(cast("Where | Iterable[Where]", sources))


def _texts(sources: Where | Iterable[Where]) -> tuple[str, ...]:
    if hasattr(sources, "collect"):
        raise UsageError(
            "a frame of polars that is lazy holds no rows yet",
            hint="Load what it makes: frame.collect().",
        )
    try:
        some = (sources,) if isinstance(sources, str | PathLike) else tuple(sources)
        return tuple(os.fspath(source) for source in some)
    except TypeError as error:
        raise UsageError(
            f"a source is a path, an address, or rows in memory as frames and Arrow have: {error}",
            hint="Objects of Python become rows by pyarrow.Table.from_pylist(objects).",
        ) from None


def _text(to: Where | None) -> str | None:
    """Return the text of a target.

    Raises:
        UsageError: it is the name of a connection, which would become a folder.
    """
    if isinstance(to, str) and not {"/", ":", "."} & set(to) and find_files():
        from rowfall.project import connection_names

        if to in connection_names():
            raise UsageError(
                f"{to} is a connection of rowfall.toml, and the library takes targets in full",
                hint=f'Give the uri of the connection; to="./{to}" is a folder.',
            )
    return None if to is None else os.fspath(to)


def _secret(password: Secret | str | None) -> Secret | None:
    return Secret(password) if isinstance(password, str) else password


@contextmanager
def _listener(on_event: Listener | None, progress: bool | None) -> Iterator[Listener]:
    """Give what hears the events of a load: the caller's, what shows them, both, or nobody."""
    shown = None
    # 40 ms for imports, which are for nothing where nobody looks
    if progress or (progress is None and on_event is None and "IPython" in sys.modules):
        from rowfall.report.notebook import shown as show

        shown = show(progress)
    with shown or nullcontext():
        yield one_at_a_time(*(each for each in (on_event, shown) if each is not None))


def _list_options(function: Callable[..., Any], command: str) -> None:
    """Set the signature with all options in it: what notebooks complete and ``help`` prints."""
    kind = inspect.Parameter.KEYWORD_ONLY
    known = inspect.signature(function)
    own = [p for p in known.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(item.name, kind, default=item.default, annotation=item.type)
        for item, _ in flags_of(command)
    ]
    # inspect looks for it; the type of functions in general has no such attribute.
    function.__signature__ = known.replace(parameters=own + options)  # type: ignore[attr-defined]


def _plan_html(value: Plan) -> str:
    from rowfall.report.html import plan_html

    return plan_html(value)


def _report_html(value: Report) -> str:
    from rowfall.report.html import report_html

    return report_html(value)


def _verification_html(value: Verification) -> str:
    from rowfall.report.html import verification_html

    return verification_html(value)


for _function, _command in (
    (load, LOAD), (read, READ), (load_tables, LOAD), (plan, PLAN), (plan_tables, PLAN),
    (scale, SCALE), (adopt, ADOPT), (doctor, DOCTOR),
):  # fmt: skip
    _list_options(_function, _command)
# core's values know nothing of reports, and a notebook asks the value itself: so their classes get
# here what they do not declare.
Plan._repr_html_ = _plan_html  # type: ignore[attr-defined]
Report._repr_html_ = _report_html  # type: ignore[attr-defined]
Verification._repr_html_ = _verification_html  # type: ignore[attr-defined]
