"""The report of a load that has ended, from what the executor counted and the engine says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from rowfall.core import sql
from rowfall.core.errors import RowfallError
from rowfall.core.model import PUSH, Plan
from rowfall.core.results import Report, ShardReport
from rowfall.core.version import __version__
from rowfall.engines.ask import ask
from rowfall.plan.session import Session
from rowfall.publish.pressure import Waited
from rowfall.run import summary
from rowfall.run.distribution import distribution, imbalance
from rowfall.run.tally import Tally, by_writer, total

# Ticks miss up to half a second at the end of each statement.
LONG_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Costs:
    """CPU seconds of the engine and of this machine (for a push), and bytes at the highest."""

    cpu: float
    here: float
    peak: int


def _shards(
    session: Session, made: Plan, tallies: Sequence[Tally], load_id: str, seconds: float
) -> tuple[ShardReport, ...]:
    if made.placement != "shards":
        return ()
    numbers = [writer.shard for writer in made.writers]
    return distribution(
        session.writers, numbers, by_writer(tallies, len(session.writers)), load_id, seconds
    )


def _costs(
    session: Session,
    made: Plan,
    tally: Tally,
    load_id: str,
    seconds: float,
    cpu: float,
    cpu_here: float,
) -> _Costs:
    """Args: cpu: what the engine itself has seen. cpu_here: what was used on this machine."""
    _, peak = session.engine.resident()
    if session.target.server is None:
        return _Costs(cpu + tally.helper_seconds, 0.0, peak)
    here = 0.0
    if _pushes(made):
        here = cpu_here + tally.helper_seconds
    logged = summary.server_costs(session.engine, load_id, seconds, len(set(tally.query_ids)))
    if logged is not None:  # without the right to flush the log, its last lines may be missing
        return _Costs(max(cpu, logged[0]), here, max(peak, logged[1]))
    return _Costs(cpu if seconds > LONG_SECONDS else 0.0, here, peak)


def _pushes(made: Plan) -> bool:
    return made.transport.delivery.value == PUSH


def _limit(
    session: Session,
    made: Plan,
    shares: dict[str, float],
    costs: _Costs,
    seconds: float,
    waited: float,
) -> str:
    """Args: waited: seconds without a core of what decodes beside the engine."""
    if session.target.server is not None and not shares:
        here = costs.here if _pushes(made) else None
        cores = sum(writer.engine.facts.cores for writer in session.writers)
        return summary.limited_on_server(costs.cpu, seconds, cores, here, session.reader.cores)
    most = max((len(g.indexes) for g in made.groups), default=1)
    made_here = made.encoding is None
    return summary.limited_by(
        shares, costs.cpu, seconds, session.engine.facts.cores, remote=session.remote,
        objects=made.facts.cores if made_here else most * made.lanes,
        waited=waited + summary.cpu_wait(session.engine) if session.target.server is None else 0.0,
    )  # fmt: skip


def make_report(
    session: Session,
    made: Plan,
    tallies: Sequence[Tally],
    *,
    load_id: str,
    begun: str,
    outcome: str,
    seconds: float,
    cpu_before: float,
    cpu_here_before: float,
    waited: Waited | None,
) -> Report:
    """The :class:`rowfall.core.results.Report` of one run that took ``seconds``."""
    tally = total(tallies)
    cpu_here = max(0.0, session.cpu_seconds_here() - cpu_here_before)
    alive = outcome in ("done", "partial", "failed")
    # Less than at the beginning: the engine died and its successor counts from zero.
    cpu = max(0.0, session.engine.cpu_seconds() - cpu_before)
    costs = _Costs(cpu + tally.helper_seconds, 0.0, session.engine.resident()[1])
    shares: dict[str, float] = {}
    shards = _shards(session, made, tallies, load_id, seconds) if alive else ()
    if shards:
        here = cpu_here if _pushes(made) else 0.0
        costs = _Costs(sum(s.cpu_seconds for s in shards), here, max(s.peak_memory for s in shards))
    elif alive and tally.rows:
        own = tally.query_ids if session.target.server else ()
        costs = _costs(session, made, tally, load_id, seconds, cpu, cpu_here)
        writing = tally.writing_seconds
        built = {"read": tally.helper_seconds - writing, "insert": writing} if writing else {}
        shares = summary.phases(session.engine, tally.publish_seconds, own, built)
    active = 0
    if session.target.table and alive:
        for writer in session.writers:
            with suppress(RowfallError):
                ((parts,),) = ask(
                    writer.engine,
                    "SELECT count() FROM system.parts WHERE active AND rows > 0 AND "
                    f"{sql.table_is(writer.target.database, writer.target.table)}",
                )
                active += parts
    limited = ""
    if tally.rows and alive:
        limited = _limit(session, made, shares, costs, seconds, tally.waited_seconds)
    return Report(
        load_id=load_id,
        outcome=outcome,
        source=made.source,
        target=made.target,
        table=session.table_text,
        started=begun,
        unit=made.listing.unit,
        splits=len(made.listing),
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
        engine_version=session.engine.facts.version if alive else "",
        rowfall_version=__version__,
        shards=shards,
        imbalance=round(imbalance(shards), 4) if shards else 0.0,
    )
