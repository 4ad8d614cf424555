"""One load from beginning to end: settle the past, plan, create, execute, make visible."""

from __future__ import annotations

import hashlib
import json
import os
import secrets as random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rowfall import sql, staging, summary, units, views
from rowfall.delivery import Delivery
from rowfall.doctor import Doctor
from rowfall.errors import (
    EngineError,
    Interrupted,
    LedgerError,
    RowfallError,
    TargetError,
    UsageError,
)
from rowfall.events import LoadEnded, LoadStarted, Note
from rowfall.execute import Executor, Means
from rowfall.jobs import Job
from rowfall.journal import Alone, Claims, Journal
from rowfall.ledger import Ledger, LoadRow, into_key
from rowfall.model import Plan, Report, Statement
from rowfall.options import changed
from rowfall.outcome import make_report
from rowfall.planning import landed_ids, plan_job
from rowfall.pressure import Pressure, Waited
from rowfall.publish import Staged, ask
from rowfall.reconcile import follow, reconcile
from rowfall.rescue import Rescue
from rowfall.route import deliver
from rowfall.shadow import Shadow, shadowed, table_uuid
from rowfall.sqltext import SqlText
from rowfall.targets.base import Publish
from rowfall.twins import Twins
from rowfall.verifier import compare_staged

# The user may not create tables (497) or is read-only (164): what the server says is the cause.
RIGHTS = (497, 164)

UNKNOWN_TABLE = 60

# Loads that this process runs now: another thread's load is no unfinished one.
_ACTIVE: set[str] = set()


def load_job(job: Job) -> Report:
    """Run a load to its end; see :func:`rowfall.api.load`."""
    ledger = job.ledger
    assert ledger is not None  # noqa: S101 - only dry jobs have none
    load_id = _load_id(job, ledger)
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
        self._pressure = Pressure(job.engine, job.emit)
        self._salt = load_id if options.force else ""
        self._claims: Claims = Alone()
        self._whole: Journal | None = None
        # --replace that a stopped run has brought to its end but for the report.
        self._swapped = False
        # uuid of the target: a table of the same name made meanwhile is not the one we load into.
        self._own = ""

    def run(self) -> Report:
        """Run it to its end.

        Raises:
            RowfallError: what stopped it; failed splits alone are in the report.
        """
        try:
            return self._run()
        except EngineError as error:
            if error.code == UNKNOWN_TABLE and self._own:
                self._check_target()
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
            return self._execute(made, twins, deliver(job, made), len(landed))

    # --- before -------------------------------------------------------------------------------

    def _settle_past(self) -> None:
        """Bring what crashes left to an end, and notice a table that is not the one it was."""
        job, ledger = self.job, self.ledger
        target = job.target
        if target.server is None:
            reconcile(job.engine, ledger, target, job.emit)
        if not target.table:
            return
        if job.options.replace:
            self._swapped = self._shadow.swapped() and self._all_landed()
            if not self._swapped:
                job.home = self._shadow.name
        elif ledger.created_here(job.into) and not (
            ledger.landed(job.into) or ledger.landed(self.into)
        ):
            _drop_own_empty_table(job, ledger, self.load_id)
        if self._settle_table(job.into, target.table) and job.options.atomic:
            self._shadow.drop()  # made like a table that is gone
        if self._gathers:
            # Only now: the target's journal may say that the shadow's rows are there.
            self._shadow.drop_foreign()
            self._settle_table(self.into, self._shadow.name)

    def _settle_table(self, key: str, name: str) -> bool:
        """Settle what was published into one table; forget what its predecessor held.

        Returns:
            Whether it had one that is gone.
        """
        job, ledger = self.job, self.ledger
        uuid = table_uuid(job.engine, job.target.database, name)
        if uuid and job.target.server is not None:
            self._rescue_all(uuid, key)
        known = ledger.table_uuid(key)
        if known is None or known == uuid:
            return False
        if known and job.target.server is not None:
            old = self._journal(known)
            if old.there():
                self._rescue(old).table_gone()
        forgotten = ledger.set_table(key, uuid)
        if forgotten and key == job.into:
            job.emit(
                Note("info", f"{job.table_text} was dropped since the last load: "
                             f"loading {units.splits(forgotten)} again")
            )  # fmt: skip
        return bool(known)

    def _check_target(self) -> None:
        """Rows are only made visible in the table that the load began with: what has landed in it
        would be missing in another.

        Raises:
            TargetError: somebody has dropped it, or replaced it.
        """
        job = self.job
        if table_uuid(job.engine, job.target.database, job.target.table) != self._own:
            raise _dropped(job.table_text)

    def _all_landed(self) -> bool:
        landed = self.ledger.landed(self.job.into)
        return all(s.id in landed for s in self.job.listing.splits(self.job.into))

    def _rescue_all(self, uuid: str, key: str) -> None:
        journal = self._journal(uuid)
        if journal.there():
            self._rescue(journal).all_dead()
            follow(self.ledger, journal, key)

    def _journal(self, uuid: str) -> Journal:
        job = self.job
        return Journal(job.engine, job.target.database, uuid, self.load_id, self._salt)

    def _rescue(self, journal: Journal) -> Rescue:
        job = self.job
        return Rescue(job.engine, self.ledger, journal, job.target.database, job.emit)

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

    def _create(self, made: Plan) -> Twins | None:
        """Make what is missing: table, shadow, journal. Returns how attempts are staged."""
        job, ledger = self.job, self.ledger
        target = job.target
        if not target.table:
            for statement in target.create(made.schema):
                job.engine.run(Statement(statement))
            return None
        statements = () if made.schema.exists else target.create(made.schema, job.home)
        if statements:
            ledger.step(self.load_id, "create", "started")
            if made.ddl:
                job.emit(Note("info", f"creating the table:\n{made.ddl}"))
            try:
                for statement in statements:
                    job.engine.run(Statement(statement))
            except EngineError as error:
                if error.transient or error.code in RIGHTS:
                    raise
                cause = error.message.split(", required columns", 1)[0]
                raise UsageError(
                    f"the table cannot be created: {cause}",
                    hint="Check --order-by, --engine and the other options of the table.",
                ) from None
            ledger.step(self.load_id, "create", "done")
        if not job.options.replace:
            self._own = table_uuid(job.engine, target.database, target.table)
        twins = self._twins()
        self._remember_uuids()
        return twins

    def _twins(self) -> Twins:
        job = self.job
        database = job.target.database

        def asks(text: str) -> list[list[Any]]:
            return ask(job.engine, text)

        facts = staging.facts(asks, database, job.home)
        if facts is None:
            raise _dropped(f"{database}.{job.home}")
        if job.options.direct:
            return Twins(facts, views.Views(database, job.target.table), straight=True)
        found = views.discover(asks, database, job.target.table)
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

    def _remember_uuids(self) -> None:
        """Which tables these are, in the ledger; and the journals of a shared target."""
        job, ledger, database = self.job, self.ledger, self.job.target.database
        home = self._own or table_uuid(job.engine, database, job.target.table)
        if self._own:
            ledger.set_table(job.into, self._own)
        if self._gathers and not self._swapped:
            home = table_uuid(job.engine, database, self._shadow.name)
            ledger.set_table(self.into, home)
        if job.target.server is not None:
            self._claims = self._journal(home)
            self._claims.create()
            if job.options.atomic:
                self._whole = self._journal(self._own)

    # --- the load -----------------------------------------------------------------------------

    def _execute(self, made: Plan, twins: Twins | None, delivery: Delivery, landed: int) -> Report:
        job, options = self.job, self.job.options
        doctor = Doctor(job.source, made, job.reader, options, job.puller)
        executor = Executor(
            Means(
                engine=job.engine, source=job.source, target=job.target, ledger=self.ledger,
                claims=self._claims, delivery=delivery, doctor=doctor, twins=twins,
                into=self.into, identity=job.into, emit=job.emit, allowed=self._allowed(),
                rescue=self._rescuer(self._claims),
                calm=self._calm,
            ),
            made, self.load_id, verify=options.verify,
            overwrite=options.replace or options.force,
        )  # fmt: skip
        start, cpu = time.monotonic(), job.engine.cpu_seconds()
        outcome, problem, waited = "done", None, None
        if not any(g.indexes for g in made.groups):
            one = len(job.listing) == 1
            what = "the split has" if one else f"all {len(job.listing):,} splits have"
            again = f"--force loads {'it' if one else 'them'} again"
            executor.note("info", f"nothing to load: {what} landed before ({again})")
        try:
            tally = executor.run()
            if tally.failures:
                outcome = "partial" if tally.landed or landed else "failed"
            self._show(executor, twins, bool(tally.failures))
            waited = self._wait()
        except RowfallError as error:
            outcome = "interrupted" if isinstance(error, Interrupted) else "failed"
            problem, tally = error, executor.tally
        report = make_report(
            job, made, tally, load_id=self.load_id, begun=self.begun, outcome=outcome,
            seconds=time.monotonic() - start, cpu_before=cpu, waited=waited,
        )  # fmt: skip
        self.ledger.end(self.load_id, outcome, summary.to_json(report))
        job.emit(LoadEnded(self.load_id, outcome))
        if problem is not None:
            raise problem
        if tally.checksum is not None and tally.landed:
            compare_staged(job, made, tally.checksum, tally.landed_ids, self.load_id)
        return report

    def _allowed(self) -> dict[str, int]:
        # The embedded engine appends settings, which a CREATE TABLE takes for the table's own.
        server = self.job.target.server is not None
        return staging.allowances(self.job.engine.facts.settings) if server else {}

    def _rescuer(self, claims: Claims) -> Callable[[Sequence[str]], None]:
        if isinstance(claims, Journal):
            return self._rescue(claims).these
        return lambda attempts: None  # nobody else can have died

    def _calm(self, staged: Staged) -> None:
        if self._own:
            self._check_target()
        if self.job.target.server is not None:
            self._pressure.calm(staged.moves, staged.parts)

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

        self._check_target()
        staged = self._shadow.gather(attempt, twins, claims, publish)
        self._calm(staged)

    def _wait(self) -> Waited | None:
        """``--wait merges=N``."""
        job = self.job
        if not job.options.wait or not job.target.table:
            return None
        most = int(job.options.wait.partition("=")[2])
        found = self._pressure.wait_for_merges(job.target.database, job.target.table, most)
        if not found.reached:
            job.emit(
                Note("warning", f"{found.parts:,} parts are still active: nothing is being merged")
            )
        return found


def _dropped(table: str) -> TargetError:
    return TargetError(
        f"the table {table} was dropped by somebody else during the load",
        hint="Run the same command again: it loads everything into the table that is there then, "
        "or into a new one.",
    )


def _load_id(job: Job, ledger: Ledger) -> str:
    """The unfinished load of the same sources into the same table, or a new one.

    Raises:
        UsageError: it has landed something and was run with options that read otherwise.
    """
    # By absolute paths: rowfall resume knows the load again from any folder.
    sources = [os.path.abspath(s) if "://" not in s and s != "-" else s for s in job.sources]
    # A forced load is another one: it loads what the others have landed.
    text = json.dumps([sorted(sources), job.into, job.options.force])
    job_print = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    given = changed(job.options)
    old = ledger.unfinished(job_print) if job.source.replayable else None
    if old is not None and old.id in _ACTIVE:
        old = None
    if old is not None:
        _same_options(old, given, ledger)
    request = json.dumps({
        "sources": sources,
        "folder": os.getcwd(),
        "to": str(job.target.folder or job.target.text),
        "table": f"{job.target.database}.{job.target.table}" if job.target.table else None,
        "options": {k: v for k, v in given.items() if k not in ("force", "verify")},
    })  # fmt: skip
    if old is not None and ledger.take_up(old, request):
        return old.id
    load_id = random.token_hex(5)
    ledger.begin(load_id, job_print, job.source.text, job.target.text, job.into, request)
    return load_id


# What decides how bytes become rows, or where they gather: half a load in each way is no load.
_BINDING = ("format", "compression", "delimiter", "atomic", "replace")


def _same_options(old: LoadRow, given: Mapping[str, Any], ledger: Ledger) -> None:
    if not ledger.landed_by(old.id):
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
            hint=f"Give the same options to go on, or begin anew after rowfall forget {old.id}.",
        )


def _difference(option: str, before: object, now: object) -> str:
    """An option that was given otherwise, in words; flags are True, None is "not given"."""
    if True in (before, now):
        return f"{option} was {'' if before else 'not '}given, now it is{'' if now else ' not'}"
    was = "not given" if before is None else before
    return f"{option} was {was}, now it is {'not given' if now is None else now}"


def _drop_own_empty_table(job: Job, ledger: Ledger, load_id: str) -> None:
    """A table that a failed load made and left empty is made anew: its types may be wrong."""
    if ledger.others_load(load_id, job.into):
        return  # one that has just begun has written nothing into the journal yet
    uuid = table_uuid(job.engine, job.target.database, job.target.table)
    if not uuid or ledger.table_uuid(job.into) != uuid:
        return
    table = sql.qualified(job.target.database, job.target.table)
    ((rows,),) = ask(job.engine, f"SELECT count() FROM {table}")
    if rows == 0 and not _others_load(job, uuid):
        job.engine.run(Statement(SqlText.of(f"DROP TABLE {table} SYNC")))


def _others_load(job: Job, uuid: str) -> bool:
    """Whether another living process loads into a shared table, or has."""
    if job.target.server is None:
        return False
    journal = Journal(job.engine, job.target.database, uuid)
    return journal.there() and any(
        e.landed or e.binding or not (e.ended or e.dead) for e in journal.entries()
    )


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
