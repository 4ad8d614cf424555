"""The way of one load: each step is one call, with frozen values in and out."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from rowfall.contracts.destination import LoadRun, PreparedLoad, Session
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Done, Settled
from rowfall.core import formats, units, uri
from rowfall.core.after import NOTHING
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    DataError,
    Exit,
    LedgerError,
    NoSpaceError,
    RowfallError,
    SourceError,
    UsageError,
    headline,
)
from rowfall.core.events import (
    LoadEnded,
    LoadPlanned,
    LoadStarted,
    Note,
    RunBegan,
    RunEnded,
    one_at_a_time,
    timed,
)
from rowfall.core.load_command import load_command
from rowfall.core.model import Plan
from rowfall.core.options import changed
from rowfall.core.results import ClearedFiles, Report
from rowfall.core.signals import check_stopped, undisturbed
from rowfall.destinations.questions import about_load
from rowfall.ledger import Ledger, LoadRow, scratches
from rowfall.ledger.ledger import UNDO
from rowfall.ledger.recorder import Recorder, Running
from rowfall.plan.continued import keep_identity, loaded_streams
from rowfall.plan.planner import make_plan
from rowfall.plan.survey import survey
from rowfall.run import explained
from rowfall.run.attempts import run_attempts
from rowfall.run.history import record, record_stopped
from rowfall.run.outcome import make_record, make_report
from rowfall.run.session import check_tuned, no_space
from rowfall.schema.text.text_format import OTHERWISE, TOLD
from rowfall.targets.table_names import same_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rowfall.run.fleet import Worker


def run_load(session: Session) -> Report:
    """Run a load to its end; see :func:`rowfall.api.load`.

    Raises:
        RowfallError: what stopped it; failed splits alone are in the report.
    """
    if session.options.fleet is None:
        return run_next(session, None)[0]
    from rowfall.run.fleet import joined  # only here: other loads save it

    with joined(session) as worker:
        worker.agree()
        return run_next(worker.session, None, worker)[0]


def run_next(
    session: Session,
    known: frozenset[str] | None,
    worker: Worker | None = None,
    check: Callable[[], None] | None = None,
) -> tuple[Report, frozenset[str]]:
    """Run one load to its end, as the first or a later batch of this session.

    Args:
        known: the ids that the load before has returned; None for the first load. Loads of other
            processes are seen by their leases.
        worker: takes part in a load that several machines share.
        check: called when attempts of dead processes have come to their ends, before any begins;
            raises an error to load nothing.

    Returns:
        The report, and the ids of all ranges of its streams that are loaded.

    Raises:
        RowfallError: any of :func:`run_load`.
    """
    with open_load(session) as load, _told(load) as made:
        with timed(load.emit, "plan"):
            settled, facts, plan = _plan(load, known)
            load.emit(LoadPlanned(load.id, plan))
        if check is not None:
            check()
        load.recorder.plan = planned = explained.planned(plan)  # who watches the load sees it
        check_stopped()  # one of many tables, whose threads hear no signal
        with timed(load.emit, "prepare"):
            prepared = _prepare(load, settled, facts, plan)
            keep_identity(session, load.ledger, load.id)
            # What gathers takes the place of a table, which its marks would go with.
            later = session.options.gathers or session.options.replace
            if not later:
                _mark(load, facts)
            if worker is not None:
                plan = worker.begin(load, plan)
        with prepared.leased():
            with timed(load.emit, "attempts"):
                done = _run(load, facts, plan, prepared)
            with timed(load.emit, "finish"):
                finished = prepared.finish(plan, done)
            if later and finished.problem is None:
                _mark(load, facts)
            report = make_report(load, facts, plan, done, finished)
            if worker is not None:
                report = worker.end(load, plan, report, prepared)
            if session.options.after_load != NOTHING:
                from rowfall.run.after import clear_loaded

                report = replace(report, after=clear_loaded(load, plan, done, finished))
            record(load.ledger, report)
            explained.keep(
                load.ledger, load.id, planned, done.total.tries.ended,
                make_record(load, report, done),
            )  # fmt: skip
            load.emit(LoadEnded(load.id, report.outcome))
            made.append(report)
            if finished.problem is not None:
                raise finished.problem
            with timed(load.emit, "verify") if session.options.verify else nullcontext():
                load.session.destination.verify_loaded(load, facts, plan, done)
            if report.after is not None and (problem := not_cleared(report.after, session)):
                raise problem
            return report, loaded_streams(plan.listing, session.target_key)


@contextmanager
def _told(load: LoadRun) -> Iterator[list[Report]]:
    """Emit that a run begins and how it ends; the list takes the report, once there is one."""
    made: list[Report] = []
    session = load.session
    load.emit(RunBegan(
        load.id, session.source.text, session.target.text, session.table_text, not load.new
    ))  # fmt: skip
    try:
        yield made
    except BaseException as error:
        report = made[-1] if made else None
        if isinstance(error, RowfallError):
            said = (headline(error.message), error.exit_code, error.code)
        else:
            interrupted = isinstance(error, KeyboardInterrupt)
            said = (type(error).__name__, int(Exit.INTERRUPTED if interrupted else Exit.BUG), 0)
        load.emit(RunEnded(load.id, report, *said))
        raise
    load.emit(RunEnded(load.id, made[-1]))


def not_cleared(cleared: ClearedFiles, session: Session) -> SourceError | None:
    """Return the error of a load of which some files could not be moved; None for none.

    Who follows a source has been told by a warning, and goes on.
    """
    if not cleared.failed or session.options.follow:
        return None
    count = units.counted(cleared.failed, "file")
    return SourceError(
        f"all rows are loaded, but --after {cleared.action} has failed for {count}: "
        f"{cleared.error}",
        hint="The same command tries again, and loads nothing twice.",
    )


def _plan(load: LoadRun, known: frozenset[str] | None) -> tuple[Settled, LoadFacts, Plan]:
    """Settle earlier runs, survey and plan.

    Raises:
        RowfallError: why it cannot be loaded; as it was asked for, it is not to be resumed.
    """
    destination, options = load.session.destination, load.session.options
    try:
        if options.after_load != NOTHING:
            from rowfall.run.after import check_after  # only here: other loads save it

            check_after(load.session)
        if load.ledger.begun(UNDO, load.session.target_key):
            from rowfall.destinations.undo import stopped_undo  # hardly ever

            refused = stopped_undo(load.session, load.ledger)
            if refused is not None:
                raise refused
        again = destination.settle_again(load, known) if known is not None else None
        settled = again or destination.settle(load)
        table = None if settled.absent else settled.table
        facts = survey(load.session, settled.known, table, load_id=load.id)
        plan = make_plan(facts, options)
        check_tuned(plan, load.session)
        refusal = no_space(plan, options) or _twice(load.session, facts)
        if refusal is not None:
            raise refusal
    except (UsageError, SourceError, DataError, NoSpaceError, LedgerError):
        load.ledger.never_began(load.id)
        raise
    if facts.export is not None and facts.export.refusal is not None:
        load.ledger.never_began(load.id)
        raise facts.export.refusal
    return settled, facts, plan


def _twice(session: Session, facts: LoadFacts) -> LedgerError | None:
    """Return the question of a load that may store rows once more; None for none."""
    if not (session.options.partial or facts.marked):
        return None
    from rowfall.run.partial import partial_question  # other loads save it

    return partial_question(session, facts)


def _mark(load: LoadRun, facts: LoadFacts) -> None:
    if load.session.options.partial:
        from rowfall.run.partial import mark_partial  # other loads save it

        mark_partial(load, facts)


def _prepare(load: LoadRun, settled: Settled, facts: LoadFacts, plan: Plan) -> PreparedLoad:
    """Say what is going to be done, make what it needs, and record which splits it is about."""
    try:
        _announce(load, plan)
        prepared = load.session.destination.prepare(load, settled, facts, plan)
    except UsageError:
        load.ledger.never_began(load.id)
        raise
    todo = (i for group in plan.work.groups for i in group.indexes)
    load.ledger.add_splits(load.id, plan.listing.splits(load.session.target_key, todo))
    return prepared


def _run(load: LoadRun, facts: LoadFacts, plan: Plan, prepared: PreparedLoad) -> Done:
    """Bring the rows to the target: by attempts, or by a pipeline of the target's own."""
    return prepared.pull(plan) or run_attempts(load, facts, plan, prepared)


def _announce(load: LoadRun, plan: Plan) -> None:
    """Emit that a load begins, and what its plan advises."""
    session = load.session
    sizes = [group.size for group in plan.work.groups]
    rows = [plan.listing.rows(i) for group in plan.work.groups for i in group.indexes]
    load.emit(LoadStarted(
        load.id, plan.source, plan.to.text, session.table_text, len(plan.listing), plan.work.loaded,
        None if None in sizes else sum(size or 0 for size in sizes),
        None if None in rows else sum(count or 0 for count in rows), plan.listing.unit,
        formats.describe(plan.encoding) if plan.encoding is not None else "",
    ))  # fmt: skip
    for subject, text in plan.schema.notes:
        if subject in TOLD:
            session.emit(Note("info", text))
    _tell_of_other_sources(session, load, plan)
    for advice in plan.forecast.advice:
        session.emit(Note("warning", advice))
    commands = _otherwise(session, plan)
    for number, command in enumerate(commands, 1):
        level = "question" if number == len(commands) else "info"
        hint = f"Load it so: {' or '.join(commands)}"
        session.emit(Note(level, f"if that is wrong: {command}", hint))


def _otherwise(session: Session, plan: Plan) -> list[str]:
    """Return the commands that load the files anew in the ways that what is unsure names.

    While the table is new they replace it, also when this load has ended; otherwise the files get a
    table of their own. [] where nothing is unsure, or no command would do.
    """
    # A condition or list that was given would have to be one with that of the note.
    given = {"--where": session.options.where, "--select": session.options.select}
    flags = [
        text for subject, text in plan.schema.notes
        if subject == OTHERWISE and not given.get(text.split()[0])
    ]  # fmt: skip
    # Parameters and logins of addresses are not shown, so they could not be pasted.
    shown = not any(text == "-" or set(text) & {"?", "@"} for text in session.sources)
    if not flags or not shown or "*" in plan.to.text or not session.destination.replaces:
        return []
    options = replace(session.options, replace=False)
    table = (
        plan.to.table
        if plan.to.database in ("", "default")
        else f"{plan.to.database}.{plan.to.table}"
    )
    table, behind = (table, " --replace") if plan.texts.ddl else (f"{table}_2", "")
    return [
        load_command(session.sources, plan.to.text, table, options, flag + behind) for flag in flags
    ]


def _tell_of_other_sources(session: Session, load: LoadRun, plan: Plan) -> None:
    """Say that the table of the source's name gets or holds the rows of several of that name."""
    if session.derived and session.target.table and (twins := same_names(session.sources)):
        session.emit(Note(
            "info",
            f"{' and '.join(twins)} have one name, so both are loaded into {session.table_text}; "
            "each has a table of its own in a command of its own, with --table NAME",
        ))  # fmt: skip
    if not (session.derived and plan.schema.exists and session.target.table):
        return
    # What a stream holds is told by nothing: each is another source.
    own = session.source.text if session.source.replayable else ""
    others = load.ledger.other_sources(session.target_key, own, os.getcwd())
    others = ["another stdin" if text == "-" else text for text in others]
    if others and len(plan.work.groups) and not session.options.replace:
        more = f" and {units.counted(len(others) - 1, 'other source')}" if others[1:] else ""
        session.emit(Note(
            "info",
            f"{session.table_text} is named after the source and holds rows of {others[0]}{more} "
            "already: these are added to them; --table NAME keeps them apart",
        ))  # fmt: skip


# --- the load to go on with: the unfinished one of the same request, or a new one -----------------


# Loads that this process runs now: another thread's load is not an unfinished one.
_ACTIVE: set[str] = set()


class OtherLoads(Collection[str]):
    """The other loads that this process runs at the moment when it is asked.

    One that begins while this one settles what was left must not be taken for a dead one.
    """

    def __init__(self, load_id: str) -> None:
        self._own = load_id

    def __contains__(self, load_id: object) -> bool:
        return load_id != self._own and load_id in _ACTIVE

    def __iter__(self) -> Iterator[str]:
        return iter(_ACTIVE - {self._own})

    def __len__(self) -> int:
        return len(_ACTIVE - {self._own})


@contextmanager
def open_load(session: Session) -> Iterator[LoadRun]:
    """Take up the unfinished load of the same request, or begin a new one.

    ``rowfall status`` sees how far it is, and how it has ended, whatever has ended it.

    Raises:
        UsageError: it has loaded something and was run with options that read otherwise.
    """
    ledger = session.ledger
    assert ledger is not None  # noqa: S101 - only dry sessions have none
    choice = _choose_load(session, ledger, _ACTIVE)
    engines = {id(e): e for e in (session.reader, *(w.engine for w in session.writers))}.values()
    with ExitStack() as stack:
        load_id = ""
        try:
            # Of a load that is written down as running by then, Ctrl-C has to know the id.
            with undisturbed():
                load_id, new = _begin(session, ledger, choice)
                _ACTIVE.add(load_id)
                stack.callback(_ACTIVE.discard, load_id)
            recorder = Recorder()
            said = Running(ledger.path, load_id, recorder)
            stack.callback(said.remove)

            for engine in engines:
                stack.callback(engine.log_statements, None)
                engine.log_statements(recorder.ran)
            yield LoadRun(
                session, load_id, one_at_a_time(said.hear, session.emit),
                datetime.now(UTC).isoformat(timespec="seconds"), ledger,
                session.destination.key(session, load_id),
                load_id if session.options.force else "", new, OtherLoads(load_id), recorder,
            )  # fmt: skip
        except BaseException as error:
            # What ended the load is said, not that a ledger takes no more words.
            with suppress(LedgerError):
                record_stopped(ledger, load_id, error)
            raise


@dataclass(frozen=True, slots=True)
class _Choice:
    """The load to go on with; ``old`` is None for a new one.

    Attributes:
        fingerprint: by which a re-run finds it. ``request``: JSON without secrets.
    """

    old: LoadRow | None
    fingerprint: str
    request: str


def _choose_load(session: Session, ledger: Ledger, active: Collection[str]) -> _Choice:
    """Return the unfinished load of the same sources into the same table, or a new one.

    Args:
        active: loads that this process runs now, which are not unfinished.

    Raises:
        UsageError: it has loaded something and was run with options that read otherwise.
    """
    # By absolute paths: rowfall resume knows the load again from any folder.
    sources = [os.path.abspath(s) if "://" not in s and s != "-" else s for s in session.sources]
    web = {s: uri.object_name(s) for s in sources if uri.scheme_of(s) in ("http", "https")}
    request_print = _request_print(session, [web.get(s, s) for s in sources])
    given = changed(session.options)
    old = None
    if session.source.replayable:
        # Older versions took the addresses with their secrets, or with fewer digests.
        former = [uri.former_name(s) if s in web else s for s in sources]
        old = (
            ledger.unfinished(request_print)
            or ledger.unfinished(_request_print(session, former))
            or ledger.unfinished(_request_print(session, sources))
        )
    if old is not None and old.id in active:
        old = None
    if old is not None and session.destination.has_unknown_attempts(session, old.id):
        ledger.give_up(old.id)
        old = None
    if old is not None and session.options.cursor is not None and session.options.replace:
        # Rows that came since below the values which it has gathered would be left out.
        ledger.give_up(old.id)
        old = None
    if old is not None:
        _same_options(session, old, given, ledger)
    request = json.dumps({
        "sources": [uri.mask(s) for s in sources],
        "folder": os.getcwd(),
        "to": str(session.target.folder or session.target.text),
        "table": session.table_text or None,
        # Not which: that it had one, so that a file made of this load says where to put it.
        "password": bool(session.target.secrets),
        "options": {k: v for k, v in given.items() if k not in _ANSWERS},
    })  # fmt: skip
    return _Choice(old, request_print, request)


def _begin(session: Session, ledger: Ledger, choice: _Choice) -> tuple[str, bool]:
    """Record that a load runs; return its id, and whether it is a new one."""
    old = choice.old
    if old is not None and ledger.take_up(old, choice.request):
        return old.id, False
    load_id = secrets.token_hex(5)
    if session.scratch:  # by which what it leaves after a kill -9 is known
        load_id = scratches.load_id(ledger.path.stem)
    ledger.begin(
        load_id,
        choice.fingerprint,
        session.source.text,
        session.target.text,
        session.target_key,
        choice.request,
    )
    return load_id, True


def _request_print(session: Session, sources: Sequence[str]) -> str:
    """Return the digest of sources, target and ``--force`` by which a re-run finds its load."""
    # A forced load is another one: it loads what the others are loaded.
    told: list[Any] = [sorted(sources), session.target_key, session.options.force]
    if session.options.partial:  # a load of its own, too
        told.append(session.options.partial)
    text = json.dumps(told)
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


# Said once, about what was found then, or about this process: no part of what is resumed.
_ANSWERS = ("force", "force_append", "verify", "loaded", "metrics_port", "metrics_host")
# What decides how bytes become rows, or where they gather: half a load in each way is not a load.
_BINDING = ("format", "compression", "delimiter", "atomic", "replace", "upsert")


def followed_loads(session: Session, ledger: Ledger) -> list[str]:
    """Return the reports, as JSON, of what was loaded while these sources were followed before.

    The oldest comes first; only of loads that are done.
    """
    sources = [os.path.abspath(s) if "://" not in s else s for s in session.sources]
    web = {s: uri.object_name(s) for s in sources if uri.scheme_of(s) in ("http", "https")}
    rows = ledger.loads(
        "WHERE fingerprint = ? AND state = 'done' AND report IS NOT NULL AND "
        "json_extract(request, '$.options.follow')",
        _request_print(session, [web.get(s, s) for s in sources]),
    )
    return [row.report for row in reversed(rows) if row.report is not None]


def _same_options(session: Session, old: LoadRow, given: Mapping[str, Any], ledger: Ledger) -> None:
    if not ledger.loaded_by(old.id):
        return
    before = json.loads(old.request)["options"]
    differ = [
        _difference(f"--{name.replace('_', '-')}", before.get(name), given.get(name))
        for name in _BINDING
        if before.get(name) != given.get(name)
    ]
    if differ:
        raise UsageError(
            f"load {old.id} of these files is unfinished and was run with other options: "
            + "; ".join(differ),
            hint="Give the same options to go on, or begin anew after "
            f"{about_load(session, 'forget', old.id)}",
        )


def _difference(option: str, before: object, now: object) -> str:
    """Say how an option was given otherwise; flags are True, None is "not given"."""
    if True in (before, now):
        return f"{option} was {'' if before else 'not '}given, now it is{'' if now else ' not'}"
    was = "not given" if before is None else before
    return f"{option} was {was}, now it is {'not given' if now is None else now}"
