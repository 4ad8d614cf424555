"""One load from beginning to end: settle the past, plan, create, execute, make visible."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rowfall.core.errors import (
    EngineError,
    Interrupted,
    LedgerError,
    RowfallError,
    TargetError,
    UsageError,
)
from rowfall.core.events import Listener, LoadEnded, LoadStarted, Note
from rowfall.core.model import Plan
from rowfall.core.options import FILTER
from rowfall.core.results import Report
from rowfall.deliver.route import open_delivery
from rowfall.deliver.watch import Together
from rowfall.engines.ask import asker, table_uuid
from rowfall.engines.codes import GONE
from rowfall.ledger import Ledger, target_key
from rowfall.ledger.journal import Journal
from rowfall.ledger.leases import Leases, NoLeases
from rowfall.plan.facts import LoadFacts
from rowfall.plan.planner import make_plan
from rowfall.plan.session import Session, Writer
from rowfall.plan.survey import landed_ids, survey
from rowfall.publish.pressure import Pressure, Waited
from rowfall.publish.publisher import Staged
from rowfall.publish.reconcile import reconcile
from rowfall.publish.shadow import Shadow, shadowed
from rowfall.publish.staging_tables import Twins
from rowfall.publish.target_tables import Homes, dropped
from rowfall.run import empty_tables, summary
from rowfall.run.executor import Executor, fill, run_all
from rowfall.run.landing.base import Means, Place
from rowfall.run.outcome import make_report
from rowfall.run.prepare import create
from rowfall.run.settle import choose_load, drop_own_empty_table
from rowfall.run.tally import total
from rowfall.run.verify import compare_staged
from rowfall.run.work_queue import WorkQueue
from rowfall.schema.bad_rows import BadRows
from rowfall.targets import staging, views
from rowfall.targets.base import Publish

# Loads that this process runs now: another thread's load is no unfinished one.
_ACTIVE: set[str] = set()


def load_session(session: Session) -> Report:
    """Run a load to its end; see :func:`rowfall.api.load`."""
    ledger = session.ledger
    assert ledger is not None  # noqa: S101 - only dry sessions have none
    load_id = choose_load(session, ledger, _ACTIVE)
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    _ACTIVE.add(load_id)
    try:
        return Load(session, ledger, load_id, begun).run()
    finally:
        _ACTIVE.discard(load_id)


class Load:
    """One run of one load, step by step."""

    def __init__(self, session: Session, ledger: Ledger, load_id: str, begun: str) -> None:
        self.session, self.ledger, self.load_id, self.begun = session, ledger, load_id, begun
        options = session.options
        self._gathers = bool(session.target.table) and (options.atomic or options.replace)
        # Where attempts are published: the target, or the shadow of this load.
        self.into = target_key(session.target_key, load_id) if self._gathers else session.target_key
        self._shadow = Shadow(
            session.engine,
            ledger,
            session.target.database,
            session.target.table,
            load_id,
            session.target_key,
            self.into,
        )
        self._pressures = [Pressure(writer.engine, session.emit) for writer in session.writers]
        self._claims: Leases = NoLeases()
        self._whole: Journal | None = None
        # --replace that a stopped run has brought to its end but for the report.
        self._swapped = False
        # Where rows gather: the target's table, or the shadow.
        self._table = session.first_target.table
        self._homes = Homes(session, ledger, load_id, load_id if options.force else "")

    def run(self) -> Report:
        """Run it to its end.

        Raises:
            RowfallError: what stopped it; failed splits alone are in the report.
        """
        try:
            return self._run()
        except EngineError as error:
            if error.code in GONE:
                for writer in self.session.writers:
                    self._homes.check(writer)
            raise

    def _run(self) -> Report:
        session, ledger = self.session, self.ledger
        self._settle_past()
        session = self.session  # as it was settled
        facts = survey(session, self._known(), self._table)
        made, landed = make_plan(facts, session.options), facts.landed
        cpu_here = session.cpu_seconds_here()
        session.emit(
            LoadStarted(
                self.load_id, made.source, made.target, session.table_text, len(made.listing),
                len(landed), _todo_bytes(made), _todo_rows(made), made.listing.unit,
            )
        )  # fmt: skip
        for advice in made.forecast.advice:
            session.emit(Note("warning", advice))
        twins = self._create(made)
        _check_files(session, made)
        todo = (i for g in made.groups for i in g.indexes)
        ledger.add_splits(self.load_id, made.listing.splits(session.target_key, todo))
        with ExitStack() as stack:
            for journal in (self._claims, self._whole):
                if isinstance(journal, Journal):
                    stack.enter_context(journal)  # renews its lease
            return self._execute(facts, made, twins, len(landed), cpu_here)

    # --- before -------------------------------------------------------------------------------

    def _settle_past(self) -> None:
        """Bring what crashes left to an end, and notice a table that is not the one it was."""
        session, ledger = self.session, self.ledger
        target = session.target
        if target.server is None:
            reconcile(session.engine, ledger, target, session.emit)
        if not target.table:
            return
        self._homes.check_together()
        if session.options.replace:
            self._swapped = self._shadow.swapped() and self._all_landed()
            if not self._swapped:
                self._table = self._shadow.name
        elif not ledger.landed(self.into):
            self.session = session = drop_own_empty_table(session, ledger, self.load_id)
        if (
            self._homes.settle(session.target_key, session.first_target.table)
            and session.options.atomic
        ):
            self._shadow.drop()  # made like a table that is gone
        if self._gathers:
            # Only now: the target's journal may say that the shadow's rows are there.
            self._shadow.drop_foreign()
            self._homes.settle(self.into, self._shadow.name)

    def _all_landed(self) -> bool:
        landed = self.ledger.landed(self.session.target_key)
        return all(s.id in landed for s in self.session.listing.splits(self.session.target_key))

    def _known(self) -> set[str]:
        """Ids of splits that need not be loaded again."""
        session, ledger = self.session, self.ledger
        if session.options.force:
            return ledger.landed_by(self.load_id)
        if not session.target.caps.remembers:
            return set()
        gathered = ledger.landed(session.target_key if self._swapped else self.into)
        if session.options.replace:
            return gathered
        return landed_ids(session) | gathered

    # --- the table ----------------------------------------------------------------------------

    def _create(self, made: Plan) -> list[Twins | None]:
        """Make what is missing: table, shadow, journal. Returns how each writer stages attempts."""
        session = self.session
        create(session, self.ledger, self.load_id, made, self._table)
        if not session.target.table:
            return [None]
        if not session.options.replace:
            self._homes.remember()
            if not made.schema.exists:
                empty_tables.remember(self.ledger, self.load_id, self._homes.first, session.shards)
        twins: list[Twins | None] = [self._twins(writer) for writer in session.writers]
        self._open_journals()
        return twins

    def _twins(self, writer: Writer) -> Twins:
        session = self.session
        database, table = writer.target.database, writer.target.table

        asks = asker(writer.engine)
        if session.options.direct:
            facts = staging.lookup(asks, [(database, table)]).get((database, table))
        else:
            facts = staging.facts(asks, database, self._table if session.options.replace else table)
        if facts is None:
            raise dropped(self._homes.text(writer))
        if session.options.direct:
            return Twins(facts, views.Views(database, table), straight=True)
        found = views.discover(asks, database, table)
        if session.options.replace and found:
            raise UsageError(
                f"{session.table_text} feeds materialized views ({', '.join(found.names)}): what "
                "they hold of the old rows cannot be replaced",
                hint="Drop the views, or truncate the tables and load without --replace.",
            )
        twins = Twins(facts, found)
        if session.options.atomic:
            twins = shadowed(twins, self._shadow.name)
            self._shadow.create(twins, self._allowed())
        return twins

    def _open_journals(self) -> None:
        """Which table the rows gather in, in the ledger; and the journals of a shared target."""
        session, ledger, database = self.session, self.ledger, self.session.first_target.database
        home = self._homes.first or table_uuid(session.engine, database, session.first_target.table)
        if self._gathers and not self._swapped:
            home = table_uuid(session.engine, database, self._shadow.name)
            ledger.set_table(self.into, home)
        if session.target.server is not None:
            self._claims = self._homes.journal(home)
            self._claims.create()
            if session.options.atomic:
                self._whole = self._homes.journal(self._homes.first)

    # --- the load -----------------------------------------------------------------------------

    def _execute(
        self, facts: LoadFacts, made: Plan, twins: Sequence[Twins | None], landed: int,
        cpu_here: float,
    ) -> Report:  # fmt: skip
        session, options = self.session, self.session.options
        queue = WorkQueue(len(session.writers), self.ledger.attempts(self.load_id))
        pulled = facts.source_for(made.transport)
        bad_rows = BadRows(session.source, made, session.reader, options, pulled)
        progress = Together(session.emit)
        each = [
            self._means(facts, made, writer, own, bad_rows, progress.part(writer.number))
            for writer, own in zip(session.writers, twins, strict=True)
        ]
        if facts.sharding is not None:
            places = tuple(
                Place(means, own) for means, own in zip(each, twins, strict=True) if own is not None
            )
            each = [replace(means, together=places) for means in each]
        executors = [
            Executor(
                means, made, self.load_id, queue,
                verify=options.verify, overwrite=options.replace or options.force,
            )
            # What all shards read at the same time, one executor looks after.
            for means in (each[:1] if made.transport.sharding.value == FILTER else each)
        ]  # fmt: skip
        executor, tallies = executors[0], [e.tally for e in executors]
        start, cpu = time.monotonic(), session.engine.cpu_seconds()
        outcome, problem, waited = "done", None, None
        if not any(g.indexes for g in made.groups):
            one = len(made.listing) == 1
            unit = made.listing.unit
            what = f"the {unit} is" if one else f"all {len(made.listing):,} {unit}s are"
            again = f"--force loads {'it' if one else 'them'} again"
            executor.note("info", f"nothing to load: {what} loaded already ({again})")
        try:
            fill(queue, made, session.target_key)
            run_all(executors, queue)
            tally = total(tallies)
            if tally.failures:
                outcome = "partial" if tally.landed or landed else "failed"
            self._show(executor, made, twins[0], bool(tally.failures))
            waited = self._wait()
        except RowfallError as error:
            outcome = "interrupted" if isinstance(error, Interrupted) else "failed"
            problem = error
        report = make_report(
            session, made, tallies, load_id=self.load_id, begun=self.begun, outcome=outcome,
            seconds=time.monotonic() - start, cpu_before=cpu, cpu_here_before=cpu_here,
            waited=waited,
        )  # fmt: skip
        self.ledger.end(self.load_id, outcome, summary.to_json(report))
        session.emit(LoadEnded(self.load_id, outcome))
        if problem is not None:
            raise problem
        tally = total(tallies)
        if tally.checksum is not None and tally.landed:
            compare_staged(session, facts, made, tally.checksum, tally.landed_ids, self.load_id)
        return report

    def _means(
        self,
        facts: LoadFacts,
        made: Plan,
        writer: Writer,
        twins: Twins | None,
        bad_rows: BadRows,
        emit: Listener,
    ) -> Means:
        session = self.session
        settings = made.writers[writer.number].settings
        return Means(
            engine=writer.engine, source=session.source, target=writer.target, ledger=self.ledger,
            claims=self._claims, delivery=open_delivery(session, facts, made, writer),
            bad_rows=bad_rows, twins=twins, into=self.into, identity=session.target_key,
            settings=settings, emit=emit,
            allowed=self._allowed(), rescue=self._rescuer(self._claims),
            calm=lambda staged: self._calm(writer, staged),
            check=lambda: self._homes.check(writer), writer=writer.number, place=writer.node,
            shard=writer.shard,
        )  # fmt: skip

    def _allowed(self) -> dict[str, int]:
        # The embedded engine appends settings, which a CREATE TABLE takes for the table's own.
        server = self.session.target.server is not None
        return staging.allowances(self.session.engine.facts.settings) if server else {}

    def _rescuer(self, claims: Leases) -> Callable[[Sequence[str]], None]:
        if isinstance(claims, Journal):
            return self._homes.rescuers(claims).these
        return lambda attempts: None  # nobody else can have died

    def _calm(self, writer: Writer, staged: Staged) -> None:
        self._homes.check(writer)
        if self.session.target.server is not None:
            self._pressures[writer.number].calm(staged.moves, staged.parts)

    def _show(self, executor: Executor, made: Plan, twins: Twins | None, failures: bool) -> None:
        """Make a gathered load visible, if all of it is there."""
        if not self._gathers or twins is None:
            return
        if failures:
            executor.note(
                "warning", f"nothing is visible in {self.session.table_text}: some files failed"
            )
            return
        gathered = self.ledger.landed(self.into)
        if self.session.options.replace:
            if not self._swapped:
                self._shadow.swap()
        elif gathered:
            self._gather(executor, made, twins, gathered)
        else:
            self._shadow.drop()  # a stopped run had made everything visible

    def _gather(self, executor: Executor, made: Plan, twins: Twins, gathered: set[str]) -> None:
        session = self.session
        splits = [s for s in made.listing.splits(session.target_key) if s.id in gathered]
        attempt = f"{self.load_id}_whole{self.ledger.attempts(self.load_id) + 1}"
        claims: Leases = self._whole or NoLeases()
        # Before the claim: after a crash the next run's attempt must have another name.
        self.ledger.attempt_started(
            attempt, self.load_id, self._shadow.name, session.target_key, splits
        )
        claim = claims.lease(attempt, splits)
        if not claim.whole:
            claims.release(attempt)
            self.ledger.attempt_ended(attempt, "lost", "other processes hold some of its files")
            raise LedgerError(
                f"{len(claim.landed) + len(claim.busy) or 'some'} of these files were loaded into "
                f"{session.table_text} by another rowfall meanwhile, so nothing was made visible",
                hint="rowfall clean drops what this load has gathered; then run it again.",
            )

        means = replace(executor.means, claims=claims, rescue=self._rescuer(claims))

        def publish(attempt: str, staged: Staged) -> None:
            executor.publish_staged(attempt, staged, means)

        (writer,) = session.writers
        self._homes.check(writer)
        staged = self._shadow.gather(attempt, twins, claims, publish)
        self._calm(writer, staged)

    def _wait(self) -> Waited | None:
        """``--wait``: replicas first, then merges."""
        session = self.session
        wished = (session.options.wait or "").split(",")
        if "replicas" in wished and session.shards is not None:
            from rowfall.run.replicas import wait_for_replicas  # with http.client, 15 ms

            wait_for_replicas(session.shards, session.emit)
        limits = [int(one.partition("=")[2]) for one in wished if one.startswith("merges=")]
        if not limits or not session.target.table:
            return None
        most = min(limits)
        found = [
            pressure.wait_for_merges(writer.target.database, writer.target.table, most)
            for writer, pressure in zip(session.writers, self._pressures, strict=True)
        ]
        parts = sum(f.parts for f in found)
        if not all(f.reached for f in found):
            session.emit(
                Note("warning", f"{parts:,} parts are still active: nothing is being merged")
            )
        return Waited(sum(f.seconds for f in found), parts, all(f.reached for f in found))


def _check_files(session: Session, made: Plan) -> None:
    """An export overwrites nothing that is not its own, unless it is asked to.

    Raises:
        TargetError: a file is in the way.
    """
    if (
        session.target.caps.publish is not Publish.RENAME
        or session.options.replace
        or session.options.force
    ):
        return
    for number, group in enumerate(made.groups):
        final = Path(session.target.staging_name("", number, made.encoding))
        if group.indexes and final.exists():
            raise TargetError(
                f"the file {final} is there already",
                hint="Write somewhere else, or overwrite it with --replace.",
            )


def _todo_bytes(made: Plan) -> int | None:
    sizes = [g.size for g in made.groups]
    return None if any(s is None for s in sizes) else sum(s or 0 for s in sizes)


def _todo_rows(made: Plan) -> int | None:
    rows = [made.listing.rows(i) for g in made.groups for i in g.indexes]
    return None if any(r is None for r in rows) else sum(r or 0 for r in rows)
