"""One load from beginning to end: reconcile, plan, create, execute, report."""

from __future__ import annotations

import hashlib
import json
import os
import secrets as random
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from rowfall import __version__, sql, summary
from rowfall.doctor import Doctor
from rowfall.errors import EngineError, Interrupted, RowfallError, TargetError, UsageError
from rowfall.events import LoadEnded, LoadStarted, Note
from rowfall.execute import Executor, Tally
from rowfall.jobs import Job, plan_job
from rowfall.ledger import Ledger
from rowfall.model import Plan, Report, Statement
from rowfall.options import changed
from rowfall.publish import ask
from rowfall.reconcile import reconcile
from rowfall.sqltext import SqlText, quote
from rowfall.targets.base import Publish
from rowfall.verifier import compare_staged


def load_job(job: Job) -> Report:
    ledger = job.ledger
    assert ledger is not None  # noqa: S101 - only dry jobs have none
    options = job.options
    reconcile(job.engine, ledger, job.target, job.emit)
    load_id = _load_id(job, ledger)
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    _prepare(job, ledger, load_id, begun)
    made, landed = plan_job(job, forced=load_id if options.force else None)
    job.emit(
        LoadStarted(
            load_id, made.source, made.target, job.table_text, len(job.listing), len(landed),
            _todo_bytes(made), _todo_rows(made),
        )
    )  # fmt: skip
    for advice in made.forecast.advice:
        job.emit(Note("warning", advice))
    _create(job, ledger, load_id, made)
    _check_files(job, made)
    todo = (i for g in made.groups for i in g.indexes)
    ledger.add_splits(load_id, job.listing.splits(job.into, todo))
    doctor = Doctor(job.source, job.target, made, job.engine, job.options)
    executor = Executor(
        engine=job.engine, source=job.source, target=job.target, ledger=ledger, plan=made,
        load_id=load_id, into=job.into, emit=job.emit, doctor=doctor,
        verify=options.verify, overwrite=options.replace or options.force,
    )  # fmt: skip
    start, cpu = time.monotonic(), job.engine.cpu_seconds()
    outcome, problem = "done", None
    if not any(g.indexes for g in made.groups):
        text = f"nothing to load: all {len(job.listing):,} splits have landed before"
        executor.tally.notes.append(text)
        job.emit(Note("info", f"{text} (--force loads them again)"))
    try:
        tally = executor.run()
        if tally.failures:
            outcome = "partial" if tally.landed or landed else "failed"
    except RowfallError as error:
        outcome = "interrupted" if isinstance(error, Interrupted) else "failed"
        problem, tally = error, executor.tally
    made_report = _report(job, made, load_id, begun, outcome, tally, time.monotonic() - start, cpu)
    ledger.end(load_id, outcome, summary.to_json(made_report))
    job.emit(LoadEnded(load_id, outcome))
    if problem is not None:
        raise problem
    if tally.checksum is not None and tally.landed:
        compare_staged(job, made, tally.checksum, tally.landed_ids, load_id)
    return made_report


def _load_id(job: Job, ledger: Ledger) -> str:
    """The unfinished load of the same sources into the same table, or a new one."""
    where = os.getcwd() if any("://" not in s for s in job.sources) else ""
    # A forced load is another one: it loads what the others have landed.
    text = json.dumps([where, sorted(job.sources), job.into, job.options.force])
    job_print = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    old = ledger.unfinished(job_print) if job.source.replayable else None
    load_id = old or random.token_hex(5)
    request = json.dumps({
        "sources": [os.path.abspath(s) if "://" not in s and s != "-" else s
                    for s in job.sources],
        "to": str(job.target.folder or job.to or ""),
        "table": f"{job.target.database}.{job.target.table}" if job.target.table else None,
        "options": {k: v for k, v in changed(job.options).items()
                    if k not in ("force", "replace", "verify")},
    })  # fmt: skip
    ledger.begin(load_id, job_print, job.source.text, job.target.text, job.into, request)
    return load_id


def _prepare(job: Job, ledger: Ledger, load_id: str, now: str) -> None:
    """Replace the table if asked to, and notice that it is not the table it was."""
    if not job.target.table:
        return
    steps = ledger.steps(load_id)
    if job.options.replace and steps.get("replace") != "done":
        # Once per load: a re-run after a crash must not drop what has landed since.
        ledger.step(load_id, "replace", "started")
        table = sql.qualified(job.target.database, job.target.table)
        job.engine.run(Statement(SqlText.of(f"DROP TABLE IF EXISTS {table} SYNC")))
        ledger.set_table(job.into, "")
        ledger.step(load_id, "replace", "done")
    elif ledger.created_here(job.into) and not ledger.landed(job.into):
        _drop_own_empty_table(job, ledger)
    uuid = _table_uuid(job)
    known = ledger.table_uuid(job.into)
    if known is None or known == uuid:
        return
    forgotten = ledger.set_table(job.into, uuid)
    if forgotten:
        job.emit(
            Note("info", f"{job.table_text} was dropped since the last load: "
                         f"loading all {forgotten:,} splits again")
        )  # fmt: skip


def _drop_own_empty_table(job: Job, ledger: Ledger) -> None:
    """A table that a failed load made and left empty is made anew: its types may be wrong."""
    uuid = _table_uuid(job)
    if not uuid or ledger.table_uuid(job.into) != uuid:
        return
    table = sql.qualified(job.target.database, job.target.table)
    ((rows,),) = ask(job.engine, f"SELECT count() FROM {table}")
    if rows == 0:
        job.engine.run(Statement(SqlText.of(f"DROP TABLE {table} SYNC")))


def _create(job: Job, ledger: Ledger, load_id: str, made: Plan) -> None:
    statements = job.target.create(made.schema)
    if statements:
        ledger.step(load_id, "create", "started")
        if made.ddl:
            job.emit(Note("info", f"creating the table:\n{made.ddl}"))
        try:
            for statement in statements:
                job.engine.run(Statement(statement))
        except EngineError as error:
            if error.transient:
                raise
            cause = error.message.split(", required columns", 1)[0]
            raise UsageError(
                f"the table cannot be created: {cause}",
                hint="Check --order-by, --engine and the other options of the table.",
            ) from None
        ledger.step(load_id, "create", "done")
    if job.target.table:
        ledger.set_table(job.into, _table_uuid(job))


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


def _table_uuid(job: Job) -> str:
    rows = ask(
        job.engine,
        f"SELECT toString(uuid) FROM system.tables WHERE database = {quote(job.target.database)} "
        f"AND name = {quote(job.target.table)}",
    )
    return str(rows[0][0]) if rows else ""


def _todo_bytes(made: Plan) -> int | None:
    sizes = [g.size for g in made.groups]
    return None if any(s is None for s in sizes) else sum(s or 0 for s in sizes)


def _todo_rows(made: Plan) -> int | None:
    rows = [made.listing.rows(i) for g in made.groups for i in g.indexes]
    return None if any(r is None for r in rows) else sum(r or 0 for r in rows)


def _limit(job: Job, made: Plan, shares: dict[str, float], cpu: float, seconds: float) -> str:
    most = max((len(g.indexes) for g in made.groups), default=1)
    made_here = job.encoding is None
    return summary.limited_by(
        shares, cpu, seconds, job.engine.facts.cores, remote=job.remote,
        objects=made.facts.cores if made_here else most * made.lanes,
        waited=summary.cpu_wait(job.engine),
    )  # fmt: skip


def _report(
    job: Job,
    made: Plan,
    load_id: str,
    begun: str,
    outcome: str,
    tally: Tally,
    seconds: float,
    cpu_before: float,
) -> Report:
    alive = outcome in ("done", "partial", "failed")
    _, peak = job.engine.resident()
    shares = summary.phases(job.engine, tally.publish_seconds) if alive and tally.rows else {}
    # Less than at the beginning: the engine died and its successor counts from zero.
    cpu = max(0.0, job.engine.cpu_seconds() - cpu_before)
    active = 0
    if job.target.table and alive:
        with suppress(RowfallError):
            ((active,),) = ask(
                job.engine,
                "SELECT count() FROM system.parts WHERE active AND rows > 0 AND database = "
                f"{quote(job.target.database)} AND table = {quote(job.target.table)}",
            )
    return Report(
        load_id=load_id,
        outcome=outcome,
        source=made.source,
        target=made.target,
        table=job.table_text,
        started=begun,
        splits=len(job.listing),
        splits_landed=tally.landed,
        splits_skipped=made.landed,
        splits_failed=len(tally.failures),
        rows=tally.rows,
        rows_rejected=tally.rejected,
        bytes_source=tally.stored,
        bytes_raw=tally.raw,
        bytes_written=tally.written,
        seconds=round(seconds, 3),
        cpu_seconds=round(cpu, 3),
        parts_written=tally.parts,
        parts_active=active,
        peak_memory=peak,
        attempts=tally.attempts,
        retries=tally.retries,
        phases=shares,
        limited_by=_limit(job, made, shares, cpu, seconds) if tally.rows and alive else "",
        settings={s.name: s.value for s in tally.settings},
        failures=tuple(tally.failures),
        notes=tuple(tally.notes),
        engine_version=job.engine.facts.version if alive else "",
        rowfall_version=__version__,
    )
