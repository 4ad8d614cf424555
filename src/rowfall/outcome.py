"""The report of a load that has ended, from what the executor counted and the engine says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from rowfall import __version__, sql, summary
from rowfall.distribution import distribution, imbalance
from rowfall.errors import RowfallError
from rowfall.jobs import Job
from rowfall.model import Plan
from rowfall.pressure import Waited
from rowfall.publish import ask
from rowfall.results import Report, ShardReport
from rowfall.tally import Tally, by_seat, total

# Ticks miss up to half a second at the end of each statement.
LONG_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Costs:
    """CPU seconds of the engine and of this machine (for a push), and bytes at the highest."""

    cpu: float
    here: float
    peak: int


def _shards(
    job: Job, made: Plan, tallies: Sequence[Tally], load_id: str, seconds: float
) -> tuple[ShardReport, ...]:
    if not made.seats:
        return ()
    numbers = [seat.shard for seat in made.seats]
    return distribution(job.seats, numbers, by_seat(tallies, len(job.seats)), load_id, seconds)


def _costs(job: Job, made: Plan, tally: Tally, load_id: str, seconds: float, cpu: float) -> _Costs:
    """Args: cpu: what the engine itself has seen."""
    _, peak = job.engine.resident()
    if job.target.server is None:
        return _Costs(cpu + tally.helper_seconds, 0.0, peak)
    here = 0.0
    if made.delivery == "push":
        here = max(0.0, job.cpu_here - job.cpu_before) + tally.helper_seconds
    logged = summary.server_costs(job.engine, load_id, seconds, len(set(tally.query_ids)))
    if logged is not None:  # without the right to flush the log, its last lines may be missing
        return _Costs(max(cpu, logged[0]), here, max(peak, logged[1]))
    return _Costs(cpu if seconds > LONG_SECONDS else 0.0, here, peak)


def _limit(
    job: Job, made: Plan, shares: dict[str, float], costs: _Costs, seconds: float, waited: float
) -> str:
    """Args: waited: seconds without a core of what decodes beside the engine."""
    if job.target.server is not None and not shares:
        here = costs.here if made.delivery == "push" else None
        cores = sum(seat.engine.facts.cores for seat in job.seats)
        return summary.limited_on_server(costs.cpu, seconds, cores, here, job.reader.cores)
    most = max((len(g.indexes) for g in made.groups), default=1)
    made_here = job.encoding is None
    return summary.limited_by(
        shares, costs.cpu, seconds, job.engine.facts.cores, remote=job.remote,
        objects=made.facts.cores if made_here else most * made.lanes,
        waited=waited + summary.cpu_wait(job.engine) if job.target.server is None else 0.0,
    )  # fmt: skip


def make_report(
    job: Job,
    made: Plan,
    tallies: Sequence[Tally],
    *,
    load_id: str,
    begun: str,
    outcome: str,
    seconds: float,
    cpu_before: float,
    waited: Waited | None,
) -> Report:
    """The :class:`rowfall.results.Report` of one run that took ``seconds``."""
    tally = total(tallies)
    alive = outcome in ("done", "partial", "failed")
    # Less than at the beginning: the engine died and its successor counts from zero.
    cpu = max(0.0, job.engine.cpu_seconds() - cpu_before)
    costs = _Costs(cpu + tally.helper_seconds, 0.0, job.engine.resident()[1])
    shares: dict[str, float] = {}
    shards = _shards(job, made, tallies, load_id, seconds) if alive else ()
    if shards:
        here = max(0.0, job.cpu_here - job.cpu_before) if made.delivery == "push" else 0.0
        costs = _Costs(sum(s.cpu_seconds for s in shards), here, max(s.peak_memory for s in shards))
    elif alive and tally.rows:
        own = tally.query_ids if job.target.server else ()
        costs = _costs(job, made, tally, load_id, seconds, cpu)
        writing = tally.writing_seconds
        built = {"read": tally.helper_seconds - writing, "insert": writing} if writing else {}
        shares = summary.phases(job.engine, tally.publish_seconds, own, built)
    active = 0
    if job.target.table and alive:
        for seat in job.seats:
            with suppress(RowfallError):
                ((parts,),) = ask(
                    seat.engine,
                    "SELECT count() FROM system.parts WHERE active AND rows > 0 AND "
                    f"{sql.table_is(seat.target.database, seat.target.table)}",
                )
                active += parts
    limited = ""
    if tally.rows and alive:
        limited = _limit(job, made, shares, costs, seconds, tally.waited_seconds)
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
        cpu_seconds=round(costs.cpu, 3),
        cpu_seconds_here=round(costs.here, 3),
        parts_written=tally.parts,
        parts_active=active,
        peak_memory=costs.peak,
        merge_seconds=round(waited.seconds, 3) if waited else 0.0,
        attempts=tally.attempts,
        retries=tally.retries,
        phases=shares,
        limited_by=limited,
        settings={s.name: s.value for s in tally.settings},
        failures=tuple(tally.failures),
        notes=tuple(tally.notes),
        engine_version=job.engine.facts.version if alive else "",
        rowfall_version=__version__,
        shards=shards,
        imbalance=round(imbalance(shards), 4) if shards else 0.0,
    )
