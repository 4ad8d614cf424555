"""The report of a load that has ended, from what the executor counted and the engine says."""

from __future__ import annotations

from contextlib import suppress

from rowfall import __version__, summary
from rowfall.errors import RowfallError
from rowfall.execute import Tally
from rowfall.jobs import Job
from rowfall.model import Plan, Report
from rowfall.pressure import Waited
from rowfall.publish import ask
from rowfall.sqltext import quote


def _limit(job: Job, made: Plan, shares: dict[str, float], cpu: float, seconds: float) -> str:
    most = max((len(g.indexes) for g in made.groups), default=1)
    made_here = job.encoding is None
    return summary.limited_by(
        shares, cpu, seconds, job.engine.facts.cores, remote=job.remote,
        objects=made.facts.cores if made_here else most * made.lanes,
        waited=summary.cpu_wait(job.engine) if job.target.server is None else 0.0,
    )  # fmt: skip


def make_report(
    job: Job,
    made: Plan,
    tally: Tally,
    *,
    load_id: str,
    begun: str,
    outcome: str,
    seconds: float,
    cpu_before: float,
    waited: Waited | None,
) -> Report:
    """The :class:`rowfall.model.Report` of one run that took ``seconds``."""
    alive = outcome in ("done", "partial", "failed")
    _, peak = job.engine.resident()
    # Less than at the beginning: the engine died and its successor counts from zero.
    cpu = max(0.0, job.engine.cpu_seconds() - cpu_before) + tally.helper_seconds
    shares: dict[str, float] = {}
    if alive and tally.rows:
        own = tally.query_ids if job.target.server else ()
        if job.target.server and (costs := summary.server_costs(job.engine, load_id, seconds)):
            cpu, peak = costs
        shares = summary.phases(job.engine, tally.publish_seconds, own)
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
        splits_skipped=made.landed + tally.elsewhere,
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
        merge_seconds=round(waited.seconds, 3) if waited else 0.0,
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
