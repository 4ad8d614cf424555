"""One load from beginning to end: settle the past, plan, create, execute, make visible."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rowfall import staging, summary, untouched, views
from rowfall.claims import Alone, Claims
from rowfall.creating import create
from rowfall.doctor import Doctor
from rowfall.engines.codes import GONE
from rowfall.errors import (
    EngineError,
    Interrupted,
    LedgerError,
    RowfallError,
    TargetError,
    UsageError,
)
from rowfall.events import Listener, LoadEnded, LoadStarted, Note
from rowfall.execute import Executor, fill, run_all
from rowfall.homes import Homes, dropped
from rowfall.jobs import Job, Seat
from rowfall.journal import Journal
from rowfall.landing.base import Means, Place
from rowfall.ledger import Ledger
from rowfall.ledger.rows import into_key
from rowfall.model import Plan
from rowfall.outcome import make_report
from rowfall.past import choose_load, drop_own_empty_table
from rowfall.planning import landed_ids, plan_job
from rowfall.pressure import Pressure, Waited
from rowfall.publish import Staged, asker
from rowfall.reconcile import reconcile
from rowfall.results import Report
from rowfall.route import deliver
from rowfall.shadow import Shadow, shadowed, table_uuid
from rowfall.tally import total
from rowfall.targets.base import Publish
from rowfall.twins import Twins
from rowfall.verifier import compare_staged
from rowfall.watch import Together
from rowfall.ways import BY_HAND, FILTER
from rowfall.workqueue import WorkQueue

# Loads that this process runs now: another thread's load is no unfinished one.
_ACTIVE: set[str] = set()


def load_job(job: Job) -> Report:
    """Run a load to its end; see :func:`rowfall.api.load`."""
    ledger = job.ledger
    assert ledger is not None  # noqa: S101 - only dry jobs have none
    load_id = choose_load(job, ledger, _ACTIVE)
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    _ACTIVE.add(load_id)
    try:
        return Load(job, ledger, load_id, begun).run()
    finally:
        _ACTIVE.discard(load_id)


class Load:
    """One run of one load, step by step."""

    def __init__(self, job: Job, ledger: Ledger, load_id: str, begun: str) -> None:
        self.job, self.ledger, self.load_id, self.begun = job, ledger, load_id, begun
        options = job.options
        self._gathers = bool(job.target.table) and (options.atomic or options.replace)
        # Where attempts are published: the target, or the shadow of this load.
        self.into = into_key(job.into, load_id) if self._gathers else job.into
        self._shadow = Shadow(
            job.engine, ledger, job.target.database, job.target.table, load_id, job.into, self.into
        )
        self._pressures = [Pressure(seat.engine, job.emit) for seat in job.seats]
        self._claims: Claims = Alone()
        self._whole: Journal | None = None
        # --replace that a stopped run has brought to its end but for the report.
        self._swapped = False
        self._homes = Homes(job, ledger, load_id, load_id if options.force else "")

    def run(self) -> Report:
        """Run it to its end.

        Raises:
            RowfallError: what stopped it; failed splits alone are in the report.
        """
        try:
            return self._run()
        except EngineError as error:
            if error.code in GONE:
                for seat in self.job.seats:
                    self._homes.check(seat)
            raise

    def _run(self) -> Report:
        job, ledger = self.job, self.ledger
        self._settle_past()
        made, landed = plan_job(job, self._known())
        job.emit(
            LoadStarted(
                self.load_id, made.source, made.target, job.table_text, len(job.listing),
                len(landed), _todo_bytes(made), _todo_rows(made),
            )
        )  # fmt: skip
        for advice in made.forecast.advice:
            job.emit(Note("warning", advice))
        twins = self._create(made)
        _check_files(job, made)
        todo = (i for g in made.groups for i in g.indexes)
        ledger.add_splits(self.load_id, job.listing.splits(job.into, todo))
        with ExitStack() as stack:
            for journal in (self._claims, self._whole):
                if isinstance(journal, Journal):
                    stack.enter_context(journal)  # renews its lease
            return self._execute(made, twins, len(landed))

    # --- before -------------------------------------------------------------------------------

    def _settle_past(self) -> None:
        """Bring what crashes left to an end, and notice a table that is not the one it was."""
        job, ledger = self.job, self.ledger
        target = job.target
        if target.server is None:
            reconcile(job.engine, ledger, target, job.emit)
        if not target.table:
            return
        self._homes.check_together()
        if job.options.replace:
            self._swapped = self._shadow.swapped() and self._all_landed()
            if not self._swapped:
                job.home = self._shadow.name
        elif not ledger.landed(self.into):
            drop_own_empty_table(job, ledger, self.load_id)
        if self._homes.settle(job.into, job.local.table) and job.options.atomic:
            self._shadow.drop()  # made like a table that is gone
        if self._gathers:
            # Only now: the target's journal may say that the shadow's rows are there.
            self._shadow.drop_foreign()
            self._homes.settle(self.into, self._shadow.name)

    def _all_landed(self) -> bool:
        landed = self.ledger.landed(self.job.into)
        return all(s.id in landed for s in self.job.listing.splits(self.job.into))

    def _known(self) -> set[str]:
        """Ids of splits that need not be loaded again."""
        job, ledger = self.job, self.ledger
        if job.options.force:
            return ledger.landed_by(self.load_id)
        if not job.target.caps.remembers:
            return set()
        gathered = ledger.landed(job.into if self._swapped else self.into)
        if job.options.replace:
            return gathered
        return landed_ids(job) | gathered

    # --- the table ----------------------------------------------------------------------------

    def _create(self, made: Plan) -> list[Twins | None]:
        """Make what is missing: table, shadow, journal. Returns how each seat stages attempts."""
        job = self.job
        create(job, self.ledger, self.load_id, made)
        if not job.target.table:
            return [None]
        if not job.options.replace:
            self._homes.remember()
            if not made.schema.exists and job.options.method not in BY_HAND:
                untouched.remember(self.ledger, self.load_id, self._homes.first, job.shards)
        twins: list[Twins | None] = [self._twins(seat) for seat in job.seats]
        self._open_journals()
        return twins

    def _twins(self, seat: Seat) -> Twins:
        job = self.job
        database, table = seat.target.database, seat.target.table

        asks = asker(seat.engine)
        if job.options.direct:
            facts = staging.lookup(asks, [(database, table)]).get((database, table))
        else:
            facts = staging.facts(asks, database, job.home if job.options.replace else table)
        if facts is None:
            raise dropped(self._homes.text(seat))
        if job.options.direct:
            return Twins(facts, views.Views(database, table), straight=True)
        found = views.discover(asks, database, table)
        if job.options.replace and found:
            raise UsageError(
                f"{job.table_text} feeds materialized views ({', '.join(found.names)}): what they "
                "hold of the old rows cannot be replaced",
                hint="Drop the views, or truncate the tables and load without --replace.",
            )
        twins = Twins(facts, found)
        if job.options.atomic:
            twins = shadowed(twins, self._shadow.name)
            self._shadow.create(twins, self._allowed())
        return twins

    def _open_journals(self) -> None:
        """Which table the rows gather in, in the ledger; and the journals of a shared target."""
        job, ledger, database = self.job, self.ledger, self.job.local.database
        home = self._homes.first or table_uuid(job.engine, database, job.local.table)
        if self._gathers and not self._swapped:
            home = table_uuid(job.engine, database, self._shadow.name)
            ledger.set_table(self.into, home)
        if job.target.server is not None:
            self._claims = self._homes.journal(home)
            self._claims.create()
            if job.options.atomic:
                self._whole = self._homes.journal(self._homes.first)

    # --- the load -----------------------------------------------------------------------------

    def _execute(self, made: Plan, twins: Sequence[Twins | None], landed: int) -> Report:
        job, options = self.job, self.job.options
        queue = WorkQueue(len(job.seats), self.ledger.attempts(self.load_id))
        doctor = Doctor(job.source, made, job.reader, options, job.puller)
        progress = Together(job.emit)
        each = [
            self._means(made, seat, own, doctor, progress.part(seat.number))
            for seat, own in zip(job.seats, twins, strict=True)
        ]
        if made.spread:
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
            for means in (each[:1] if made.spread == FILTER else each)
        ]  # fmt: skip
        executor, tallies = executors[0], [e.tally for e in executors]
        start, cpu = time.monotonic(), job.engine.cpu_seconds()
        outcome, problem, waited = "done", None, None
        if not any(g.indexes for g in made.groups):
            one = len(job.listing) == 1
            what = "the split has" if one else f"all {len(job.listing):,} splits have"
            again = f"--force loads {'it' if one else 'them'} again"
            executor.note("info", f"nothing to load: {what} landed before ({again})")
        try:
            fill(queue, made, job.into)
            run_all(executors, queue)
            tally = total(tallies)
            if tally.failures:
                outcome = "partial" if tally.landed or landed else "failed"
            self._show(executor, twins[0], bool(tally.failures))
            waited = self._wait()
        except RowfallError as error:
            outcome = "interrupted" if isinstance(error, Interrupted) else "failed"
            problem = error
        report = make_report(
            job, made, tallies, load_id=self.load_id, begun=self.begun, outcome=outcome,
            seconds=time.monotonic() - start, cpu_before=cpu, waited=waited,
        )  # fmt: skip
        self.ledger.end(self.load_id, outcome, summary.to_json(report))
        job.emit(LoadEnded(self.load_id, outcome))
        if problem is not None:
            raise problem
        tally = total(tallies)
        if tally.checksum is not None and tally.landed:
            compare_staged(job, made, tally.checksum, tally.landed_ids, self.load_id)
        return report

    def _means(
        self, made: Plan, seat: Seat, twins: Twins | None, doctor: Doctor, emit: Listener
    ) -> Means:
        job = self.job
        settings = made.seats[seat.number].settings if made.seats else made.settings
        return Means(
            engine=seat.engine, source=job.source, target=seat.target, ledger=self.ledger,
            claims=self._claims, delivery=deliver(job, made, seat), doctor=doctor, twins=twins,
            into=self.into, identity=job.into, settings=settings, emit=emit,
            allowed=self._allowed(), rescue=self._rescuer(self._claims),
            calm=lambda staged: self._calm(seat, staged),
            check=lambda: self._homes.check(seat), seat=seat.number, place=seat.place,
            shard=seat.shard,
        )  # fmt: skip

    def _allowed(self) -> dict[str, int]:
        # The embedded engine appends settings, which a CREATE TABLE takes for the table's own.
        server = self.job.target.server is not None
        return staging.allowances(self.job.engine.facts.settings) if server else {}

    def _rescuer(self, claims: Claims) -> Callable[[Sequence[str]], None]:
        if isinstance(claims, Journal):
            return self._homes.rescuers(claims).these
        return lambda attempts: None  # nobody else can have died

    def _calm(self, seat: Seat, staged: Staged) -> None:
        self._homes.check(seat)
        if self.job.target.server is not None:
            self._pressures[seat.number].calm(staged.moves, staged.parts)

    def _show(self, executor: Executor, twins: Twins | None, failures: bool) -> None:
        """Make a gathered load visible, if all of it is there."""
        if not self._gathers or twins is None:
            return
        if failures:
            executor.note(
                "warning", f"nothing is visible in {self.job.table_text}: some files failed"
            )
            return
        gathered = self.ledger.landed(self.into)
        if self.job.options.replace:
            if not self._swapped:
                self._shadow.swap()
        elif gathered:
            self._gather(executor, twins, gathered)
        else:
            self._shadow.drop()  # a stopped run had made everything visible

    def _gather(self, executor: Executor, twins: Twins, gathered: set[str]) -> None:
        job = self.job
        splits = [s for s in job.listing.splits(job.into) if s.id in gathered]
        attempt = f"{self.load_id}_whole{self.ledger.attempts(self.load_id) + 1}"
        claims: Claims = self._whole or Alone()
        # Before the claim: after a crash the next run's attempt must have another name.
        self.ledger.attempt_started(attempt, self.load_id, self._shadow.name, job.into, splits)
        claim = claims.claim(attempt, splits)
        if not claim.whole:
            claims.release(attempt)
            self.ledger.attempt_ended(attempt, "lost", "other processes hold some of its files")
            raise LedgerError(
                f"{len(claim.landed) + len(claim.busy) or 'some'} of these files were loaded into "
                f"{job.table_text} by another rowfall meanwhile, so nothing was made visible",
                hint="rowfall clean drops what this load has gathered; then run it again.",
            )

        means = replace(executor.means, claims=claims, rescue=self._rescuer(claims))

        def publish(attempt: str, staged: Staged) -> None:
            executor.publish_staged(attempt, staged, means)

        (seat,) = job.seats
        self._homes.check(seat)
        staged = self._shadow.gather(attempt, twins, claims, publish)
        self._calm(seat, staged)

    def _wait(self) -> Waited | None:
        """``--wait``: replicas first, then merges."""
        job = self.job
        wished = (job.options.wait or "").split(",")
        if "replicas" in wished and job.shards is not None:
            from rowfall.replicas import wait_for_replicas  # with http.client, 15 ms

            wait_for_replicas(job.shards, job.emit)
        limits = [int(one.partition("=")[2]) for one in wished if one.startswith("merges=")]
        if not limits or not job.target.table:
            return None
        most = min(limits)
        found = [
            pressure.wait_for_merges(seat.target.database, seat.target.table, most)
            for seat, pressure in zip(job.seats, self._pressures, strict=True)
        ]
        parts = sum(f.parts for f in found)
        if not all(f.reached for f in found):
            job.emit(Note("warning", f"{parts:,} parts are still active: nothing is being merged"))
        return Waited(sum(f.seconds for f in found), parts, all(f.reached for f in found))


def _check_files(job: Job, made: Plan) -> None:
    """An export overwrites nothing that is not its own, unless it is asked to.

    Raises:
        TargetError: a file is in the way.
    """
    if job.target.caps.publish is not Publish.RENAME or job.options.replace or job.options.force:
        return
    for number, group in enumerate(made.groups):
        final = Path(job.target.staging_name("", number, job.encoding))
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
