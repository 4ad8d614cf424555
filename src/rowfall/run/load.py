"""The way of one load: each step is one call, with frozen values in and out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from rowfall.contracts.destination import LoadRun, PreparedLoad, Session
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Done, Settled
from rowfall.core import formats, units
from rowfall.core.after import NOTHING
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
    timed,
)
from rowfall.core.load_command import load_command
from rowfall.core.model import Plan
from rowfall.core.results import ClearedFiles, Report
from rowfall.core.signals import check_stopped
from rowfall.ledger.ledger import UNDO
from rowfall.plan.continued import keep_identity, loaded_streams
from rowfall.plan.planner import make_plan
from rowfall.plan.survey import survey
from rowfall.run import explained
from rowfall.run.attempts import run_attempts
from rowfall.run.history import record
from rowfall.run.open_load import open_load
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
