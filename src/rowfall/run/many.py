"""Many tables of one source: each is a load of its own, and several run at a time.

What all of them share is the snapshot of the source and its connections
(:mod:`rowfall.sources.many`), and the engine of this machine. All else is what ``rowfall load`` of
one table does, so its record is the same, and the same command loads what is missing.
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rowfall.core import events, uri
from rowfall.core import tables as many
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Exit, Interrupted, RowfallError, SourceError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.machine import free_memory, usable_cores
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.own_files import REJECTS_OF
from rowfall.core.signals import GO_ON, stopped_by
from rowfall.core.tables import (
    NOT_BEGUN,
    FoundTable,
    PlannedTable,
    TablePlace,
    TableProblem,
    TableReport,
    TablesPlan,
    TablesReport,
)
from rowfall.core.units import counted, parse_size
from rowfall.core.units import memory as memory_text
from rowfall.plan.settings import LEAST_MEMORY
from rowfall.run import folder_source
from rowfall.run.session import Request, open_session
from rowfall.sources.base import Folders
from rowfall.sources.many import FolderOfTables, TableSet, open_tables
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.engine_share import EngineShare
from rowfall.targets import open_target

if TYPE_CHECKING:
    from rowfall.core.results import Report
    from rowfall.sources.base import Source
    from rowfall.targets.base import Target

Watch = Callable[[Listener], AbstractContextManager[Listener]]

# A load of a small table mostly waits: for the disk, for answers of source and target.
_PER_CORE = 2
# More threads of one Python process than these and their readers wait for each other.
_MOST_PARALLEL = 16
# One part of the work that tables are weighed by; a range of a large table has as much. A row is
# taken for so many bytes where the source does not tell.
_PART_BYTES, _ROW_BYTES = 32 << 20, 64
# Ctrl-C is answered within two seconds, as that of a single load.
_POLITE_SECONDS = 1.8
# Tables that meet a server which is away, one right after the other; and those of the beginning
# that fail for one reason: the others would do the same.
_AWAY, _SAME = 3, 3


@dataclass(frozen=True, slots=True)
class TablesRequest:
    """The request of a command with ``--tables``.

    Attributes:
        table: of ``--table``, perhaps with place holders.
    """

    source: str
    to: str | None
    table: str | None
    options: Options
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """One table to load.

    Attributes:
        weight: parts of the work that it may take at a time.
    """

    found: FoundTable
    place: TablePlace
    weight: int
    address: str


@dataclass(frozen=True, slots=True)
class _Survey:
    """What was found and decided before anything is loaded.

    Attributes:
        jobs: the largest table first. ``slots``: parts of work at a time, ``why``.
        target: of the first table. ``memory``: bytes for all of them.
    """

    tables: TableSet
    jobs: tuple[_Job, ...]
    slots: int
    why: str
    memory: int
    target: Target
    notes: tuple[str, ...]


# Options that say something of one table, or of a source that is none of tables.
_ONE_TABLE = {
    "query": "A query is one table; give it alone.",
    "follow": "A table or topic is followed alone.",
    "schema": "Types are taken from the source; columns of one table are given when it is loaded "
    "alone.",
    "schema_file": "Types are taken from the source; columns of one table are given when it is "
    "loaded alone.",
    "type": "Columns are those of one table; load that alone.",
    "columns": "Columns are those of one table; load that alone.",
    "start_at": "Only topics have offsets.",
    "until": "Only topics have offsets.",
}


def plan_tables(request: TablesRequest) -> TablesPlan:
    """Plan what :func:`load_tables` would do; nothing is written, and no snapshot is taken.

    Raises:
        RowfallError: the same as for a load.
    """
    with _surveyed(request) as survey:
        planned = [
            PlannedTable(
                job.found.full, job.place.text, job.found.rows, job.found.bytes,
                uri.mask(job.address),
            )
            for job in survey.jobs
        ]  # fmt: skip
        notes = (*survey.notes, *survey.tables.remarks())
        return TablesPlan(
            survey.tables.text, survey.target.text if request.to is None else uri.mask(request.to),
            tuple(planned), survey.tables.moment(), survey.slots, survey.why, notes,
        )  # fmt: skip


def load_tables(request: TablesRequest, emit: Listener, watch: Watch) -> TablesReport:
    """Load all tables, several at a time; what one of them meets does not stop the others.

    Args:
        watch: gives a listener for the events of one load, who tells others and the given one.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; the same command goes on.
        RowfallError: nothing could begin.
    """
    began = time.monotonic()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with _surveyed(request) as survey, ExitStack() as stack:
        engines = _Engines(survey, request.options)
        stack.callback(engines.close)
        engines.open_folder()
        for note in survey.notes:
            emit(Note("info", note))
        moment = survey.tables.begin(
            [job.found for job in survey.jobs], survey.slots + 2 * usable_cores()
        )
        emit(Note("info", moment))
        to = survey.target.text if request.to is None else uri.mask(request.to)
        found = [job.found for job in survey.jobs]
        emit(events.TablesStarted(
            survey.tables.text, to, len(found), survey.slots,
            _sum(table.rows for table in found), _sum(table.bytes for table in found),
        ))  # fmt: skip
        run = _Run(request, survey, engines, emit, watch)
        run.run()
        outcome, worst = many.outcome_of(run.reports)
        notes = (*survey.notes, *survey.tables.remarks())
        return TablesReport(
            survey.tables.text, to, started, outcome, worst, round(time.monotonic() - began, 3),
            tuple(run.reports), moment, survey.slots, notes,
        )  # fmt: skip


# --- before the first row -------------------------------------------------------------------------


@contextmanager
def _surveyed(request: TablesRequest) -> Iterator[_Survey]:
    """List the tables, choose among them and name them; close the source at the end.

    Raises:
        UsageError: an option, a pattern or a name that makes no sense; nothing was loaded.
        SourceError: the source cannot be reached.
    """
    options = request.options
    for name, hint in _ONE_TABLE.items():
        if getattr(options, name):
            flag = {"start_at": "--from"}.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"--tables and {flag} exclude each other", hint=hint)
    patterns = many.split_patterns(options.tables or "")
    exclude = [p for text in options.exclude for p in many.split_patterns(text)]
    memory = parse_size(options.memory) if options.memory else free_memory() // 2
    with closing(open_tables(request.source, options)) as tables, ExitStack() as stack:
        if isinstance(tables, FolderOfTables):
            theirs, memory = folder_source.split_memory(memory)
            tables.read_with(stack.enter_context(
                folder_source.open_reader(tables.folder, theirs, options.threads)
            ))  # fmt: skip
        chosen = many.choose(tables.list_tables(), patterns, exclude, tables.text)
        found = tables.measure(chosen.tables)
        first = many.places(found[:1], request.to, None, takes_name=False)[0].to
        target = open_target(first, "any", options, request.password)
        if isinstance(tables, FolderOfTables):
            folder_source.check_other(tables.folder, target)
        kind = target.caps
        takes_name = kind.takes_table_name
        places = many.places(found, request.to, request.table, takes_name=takes_name)
        many.check_clashes(found, places, folds_case=kind.folds_case)
        if len(found) > 1 and options.rejects and many.TABLE_PLACE not in options.rejects:
            raise UsageError(
                f"the bad rows of {counted(len(found), 'table')} cannot all be written to "
                f"{options.rejects}",
                hint=f"Put {many.TABLE_PLACE} into its name: --rejects "
                f"'{many.TABLE_PLACE}_{Path(options.rejects).name}'",
            )
        slots, why = _slots(tables, options, memory, target, len(found))
        jobs = [
            _Job(table, place, _weight(table, slots), tables.address(table))
            for table, place in zip(found, places, strict=True)
        ]
        # A large one at the end would have the machine to itself while all others are done.
        jobs.sort(key=lambda job: (-_size(job.found), job.found.full))
        yield _Survey(tables, tuple(jobs), slots, why, memory, target, chosen.notes)


def _slots(
    tables: TableSet, options: Options, memory: int, target: Target, count: int
) -> tuple[int, str]:
    """Return how many parts of work there are at a time, and why; a small table is one part."""
    kind = target.caps
    if alone := kind.alone:
        return 1, alone
    cores = options.threads or usable_cores()
    readers = tables.readers()
    limits = [
        (min(_MOST_PARALLEL, _PER_CORE * cores), f"{_PER_CORE} for each of {cores} cores"),
        (
            max(1, memory // LEAST_MEMORY),
            f"each needs {memory_text(LEAST_MEMORY)} of {memory_text(memory)}",
        ),
        (count, "there are no more"),
    ]
    if readers.most is not None:
        # A large table reads over as many connections as there are cores, and one asks.
        limits.append((max(1, readers.most - cores - 2), readers.why))
    return min(limits, key=lambda limit: limit[0])


def _size(table: FoundTable) -> int:
    return table.bytes if table.bytes is not None else (table.rows or 0) * _ROW_BYTES


def _weight(table: FoundTable, slots: int) -> int:
    """Return the parts of work of a table: a large one leaves one to small ones beside it."""
    return max(1, min(slots - 1, _size(table) // _PART_BYTES))


def _sum(numbers: Iterator[int | None]) -> int | None:
    """Return the sum; None where a number is not known."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


# --- what loads share -----------------------------------------------------------------------------


class _Engines:
    """The engine of this machine, which all loads of a run use."""

    def __init__(self, survey: _Survey, options: Options) -> None:
        self._survey, self._options = survey, options
        self._guard = threading.Lock()
        self._whole: Embedded | None = None
        self._folder = survey.target.folder
        self._numbers = iter(range(1, 1 << 31))

    def open_folder(self) -> None:
        """Open the engine of a data folder: somebody else may have it, which all loads would meet.

        Raises:
            TargetError: another process uses it, or it cannot be written.
        """
        if self._folder is not None:
            self._open()

    def share(self, weight: int) -> EngineShare:
        """Return a part of it, opened when it is wanted first."""
        survey = self._survey
        memory = max(LEAST_MEMORY, survey.memory * weight // survey.slots)
        with self._guard:
            return EngineShare(self._open(), min(memory, survey.memory), next(self._numbers))

    def _open(self) -> Embedded:
        if self._whole is None:
            options = self._options
            self._whole = Embedded(
                self._folder, memory=self._survey.memory, threads=options.threads,
                idle=self._folder is None, durable=not options.no_sync,
            )  # fmt: skip
        return self._whole

    def fits(self, source: Source, folder: Path | None) -> bool:
        """Tell whether a load can use it.

        Raises:
            SourceError: it needs an engine of its own, and a folder has one only.
        """
        if isinstance(source, Folders) and source.work:
            if folder is not None:
                raise SourceError(
                    f"cannot read {source.text} together with other tables: rows of its files are "
                    "deleted or its columns were renamed, so the engine has to read it below /",
                    hint=f"Load it alone: rowfall load {source.text}",
                )
            return False
        return folder == self._folder

    def close(self) -> None:
        if self._whole is not None:
            self._whole.close()


class _Part:
    """What one load shares; see :class:`rowfall.run.session.SharedParts`."""

    def __init__(self, survey: _Survey, engines: _Engines, job: _Job) -> None:
        self._survey, self._engines, self._job = survey, engines, job

    def open_source(self, options: Options) -> Source:
        return self._survey.tables.open(self._job.found, options)

    def engine(self, source: Source, folder: Path | None) -> Embedded | None:
        if not self._engines.fits(source, folder):
            return None
        return self._engines.share(self._job.weight)


# --- the run --------------------------------------------------------------------------------------


class _Run:
    """Runs the loads: the largest first, and whatever fits beside it.

    The first one runs alone until it has begun to load: it makes what all of them need in the
    target (record, journal), and meets what all of them would meet there.

    Attributes:
        reports: of each table, in the order of the jobs.
    """

    def __init__(
        self, request: TablesRequest, survey: _Survey, engines: _Engines, emit: Listener,
        watch: Watch,
    ) -> None:  # fmt: skip
        self._request, self._survey, self._engines = request, survey, engines
        rows_known = _sum(job.found.rows for job in survey.jobs) is not None
        self._total = _Totals(emit, by_bytes=not rows_known)
        self._emit, self._watch = emit, watch
        self._changed = threading.Condition()
        self._left = list(survey.jobs)
        self._running: dict[str, _Job] = {}
        self._done: dict[str, TableReport] = {}
        self._begun = False  # some load has begun its first attempt, or has ended well
        self._away = 0
        self._said: list[str] = []
        self._no_more = ""
        self._stop = threading.Event()

    @property
    def reports(self) -> list[TableReport]:
        return [self._done[job.found.full] for job in self._survey.jobs]

    def run(self) -> None:
        """Run all loads.

        Raises:
            Interrupted: Ctrl-C; what was running is dropped and can go on.
        """
        try:
            with self._changed:
                while self._left or self._running:
                    self._start_more()
                    self._changed.wait(0.2)
        except KeyboardInterrupt:
            self._stop.set()
            deadline = time.monotonic() + _POLITE_SECONDS
            with self._changed:
                while self._running and time.monotonic() < deadline:
                    self._changed.wait(0.1)
                done = sum(report.outcome == "done" for report in self._done.values())
            count = len(self._survey.jobs)
            raise Interrupted(f"interrupted: {done} of {count} tables are loaded",
                              hint=GO_ON) from None  # fmt: skip

    def _start_more(self) -> None:
        """Start loads while there is room; called with the lock held."""
        if self._no_more:
            for job in self._left:
                problem = TableProblem(self._no_more, GO_ON, int(Exit.PARTIAL))
                self._done[job.found.full] = TableReport(
                    job.found.full, job.place.text, NOT_BEGUN, problem=problem
                )
            self._left.clear()
        while self._left:
            if self._running and not self._begun:
                return
            free = self._survey.slots - sum(job.weight for job in self._running.values())
            fits = [job for job in self._left if job.weight <= free]
            if not fits:
                return
            job = fits[0]
            self._left.remove(job)
            self._running[job.found.full] = job
            # A daemon: Ctrl-C waits for two seconds, whatever a load waits for.
            threading.Thread(
                target=self._work, args=(job,), daemon=True, name=f"load {job.found.full}"
            ).start()

    def _work(self, job: _Job) -> None:
        name = job.found.full
        heard = _Heard()
        began = time.monotonic()
        try:
            with stopped_by(self._stop):
                report = _report_of(job, self._load(job, heard))
        except RowfallError as error:
            report = self._failed(job, heard, error)
        except KeyboardInterrupt:
            report = self._failed(job, heard, Interrupted("interrupted", hint=GO_ON))
        except Exception as error:  # of ours: the other tables have nothing to do with it
            problem = TableProblem(
                f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)),
                int(Exit.BUG),
            )  # fmt: skip
            report = TableReport(name, job.place.text, "failed", heard.load_id, problem=problem)
        report = replace(report, seconds=round(time.monotonic() - began, 3))
        with self._changed:
            self._done[name] = report
            del self._running[name]
            self._judge(report, heard)
            self._changed.notify()
        self._total.ended(report)
        self._emit(events.TableEnded(report, job.found.rows))

    def _load(self, job: _Job, heard: _Heard) -> Report:
        """Load one table, as ``rowfall load ADDRESS --table NAME`` does it."""
        from rowfall.run.load import run_load

        options = self._options(job)
        request = Request(
            [job.address], job.place.to, job.place.table, options, self._request.password,
            shared=_Part(self._survey, self._engines, job),
        )  # fmt: skip
        with (
            self._watch(partial(self._hear, job, heard)) as listener,
            open_session(request, listener, dry=False) as session,
        ):
            return run_load(session)

    def _options(self, job: _Job) -> Options:
        """Return the options of one table: its part of the memory, a file for its bad rows."""
        given, survey = self._request.options, self._survey
        memory = given.memory
        if memory:
            own = max(LEAST_MEMORY, survey.memory * job.weight // survey.slots)
            memory = f"{min(own, survey.memory) >> 20}MiB"
        rejects = given.rejects
        if given.max_errors or given.max_error_ratio:
            rejects = rejects or f"{REJECTS_OF}{many.TABLE_PLACE}.tsv"
            rejects = many.in_path(rejects, job.found)
        return replace(given, memory=memory, rejects=rejects)

    def _hear(self, job: _Job, heard: _Heard, event: events.Event) -> None:
        """Pass on what is of interest where many loads talk at the same time."""
        name = job.found.full
        match event:
            case events.LoadStarted():
                heard.load_id = event.load_id
                self._emit(Note("detail", f"{name}: load {event.load_id[:8]} into "
                                          f"{event.table or event.target}"))  # fmt: skip
            case events.AttemptStarted():
                with self._changed:
                    self._begun = True
                    self._changed.notify()
            case events.Progressed():
                self._total.progressed(name, event)
            case events.Note(level="warning"):
                self._emit(replace(event, text=f"{name}: {event.text}"))
            case events.Note():
                self._emit(Note("detail", f"{name}: {event.text}", event.detail))
            case events.SplitFailed() | events.Steered() | events.Doing():
                pass  # the report of the table says it
            case _:
                pass

    def _failed(self, job: _Job, heard: _Heard, error: RowfallError) -> TableReport:
        heard.transient = error.transient
        outcome = "interrupted" if isinstance(error, Interrupted) else "failed"
        return TableReport(
            job.found.full, job.place.text, outcome, heard.load_id,
            problem=TableProblem(error.message, error.hint, error.exit_code),
        )  # fmt: skip

    def _judge(self, report: TableReport, heard: _Heard) -> None:
        """Decide whether more loads are to begin; called with the lock held."""
        if report.problem is None:
            self._begun, self._away = True, 0
            return
        self._away = self._away + 1 if heard.transient else 0
        if self._away >= _AWAY:
            self._no_more = f"{_AWAY} tables one after the other failed: {report.problem.error}"
        if self._begun:
            return
        told = report.problem.error
        for name in (report.source, report.table):  # as words, not the letters of others
            told = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "*", told)
        self._said.append(told)
        if len(self._said) >= _SAME and len(set(self._said[-_SAME:])) == 1:
            self._no_more = f"the first {_SAME} tables failed alike: {report.problem.error}"


@dataclass(slots=True)
class _Heard:
    """What is known of a load while it runs."""

    load_id: str = ""
    transient: bool = False


def _report_of(job: _Job, report: Report) -> TableReport:
    problem = None
    if report.outcome != "done":
        first = report.failures[0] if report.failures else None
        error = "some of it could not be loaded" if first is None else first.error
        problem = TableProblem(error, first.hint if first else None, int(Exit.PARTIAL))
    return TableReport(
        job.found.full, job.place.text, report.outcome, report.load_id, report.rows,
        report.bytes_source, problem=problem,
        loaded_before=problem is None and not report.splits_loaded and report.splits_skipped > 0,
    )  # fmt: skip


@dataclass(slots=True)
class _Totals:
    """Adds up the progress of loads that run at the same time."""

    emit: Listener
    began: float = field(default_factory=time.monotonic)
    guard: threading.Lock = field(default_factory=threading.Lock)
    now: dict[str, events.Progressed] = field(default_factory=dict)
    by_bytes: bool = False
    rows: int = 0
    bytes: int = 0

    def progressed(self, name: str, event: events.Progressed) -> None:
        with self.guard:
            self.now[name] = event
            total = self._total()
        self.emit(total)

    def ended(self, report: TableReport) -> None:
        """Count a table that has ended: what it has read may be more than what it has loaded."""
        with self.guard:
            self.now.pop(report.source, None)
            self.rows += report.rows
            self.bytes += report.bytes_source
            total = self._total()
        self.emit(total)

    def _total(self) -> events.Progressed:
        every = list(self.now.values())
        size = self.bytes + sum(event.bytes or 0 for event in every)
        return events.Progressed(
            self.rows + sum(event.rows for event in every), size if self.by_bytes else None,
            sum(event.parts for event in every),
            max((event.memory for event in every), default=0),
            time.monotonic() - self.began,
            max((event.away for event in every), default=0.0),
        )  # fmt: skip
