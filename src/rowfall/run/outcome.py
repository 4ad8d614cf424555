"""Make the report of a load: what was counted, what the engines say, and what limited it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import LoadRun, Session
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Counts, Done, Finished
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Interrupted, RowfallError
from rowfall.core.load_record import LoadRecord, PartSizes
from rowfall.core.model import Kind, Plan, Statement
from rowfall.core.results import Report, ShardReport
from rowfall.core.sqltext import SqlText, quote, quoted_list
from rowfall.core.version import __version__
from rowfall.engines.base import Engine
from rowfall.run.limits import (
    FEW_ROWS,
    SHORT_SECONDS,
    Effort,
    EngineEffort,
    SourceTraits,
    limited_by,
)
from rowfall.sources.base import ByCursor, Source, Streamed

# CPU seconds of each statement from which ticks tell enough: they miss its last half second, and on
# a busy machine, where seconds of a clock say nothing, most of a short one.
LEAST_SEEN = 5.0
# From so many bytes of the source on the costs of few rows are asked for, too: they may be long.
FEW_BYTES = 1 << 20
# Each shard is asked by itself; 16 at once ask 1,000 of them in seconds.
AT_ONCE = 16
# Requests that an engine sends to a store, whatever the way it reads.
_REQUESTS = ("S3GetObject", "S3HeadObject", "S3ListObjects", "ReadWriteBufferFromHTTPRequestsSent")
# The engine's processors by what they do. Elapsed microseconds of each are its own work; waiting
# for neighbours is counted apart. Reading includes decompression and parsing: one processor.
_PHASES = {
    "File": "read",
    "S3": "read",
    "URL": "read",
    "NumbersRange": "read",
    "NumbersMultiThreaded": "read",
    "ReadFromObjectStorage": "read",
    "MergeTreeSink": "insert",
    "ReplicatedMergeTreeSink": "insert",
    "NullSink": "insert",
    "StorageFileSink": "insert",
    "PartitionedSink": "insert",
}
_ORDER = ("read", "convert", "insert", "publish")
_SOURCES = ("File", "S3", "URL", "Numbers", "ObjectStorage", "Storage")


def _cursor_note(source: Source, outcome: str) -> tuple[str, ...]:
    """Return the value up to which a column was followed, of a load that is done."""
    cursor = source.cursor if isinstance(source, ByCursor) else None
    if cursor is None or cursor.highest is None or outcome != "done":
        return ()
    last = cursor.key.plain(cursor.highest)
    return (f"loaded up to {cursor.name} {last}, behind which the next run with --cursor goes on",)


def make_report(
    load: LoadRun, facts: LoadFacts, plan: Plan, done: Done, finished: Finished
) -> Report:
    session = load.session
    counts, problem = done.total, finished.problem
    run = _Run(load, plan, done, counts, time.monotonic() - done.started)
    seconds = run.seconds
    outcome = "done"
    if counts.failures:
        outcome = "partial" if counts.loaded or plan.work.loaded else "failed"
    if problem is not None:
        outcome = "interrupted" if isinstance(problem, Interrupted) else "failed"
    alive = outcome != "interrupted"
    parts, merges = session.destination.merge_work(session) if alive else (0, None)
    # Less than at the beginning: the engine died and its successor counts from zero.
    cpu = max(0.0, session.engine.cpu_seconds() - done.engine_cpu)
    costs = _Costs(cpu + counts.helper.cpu, 0.0, session.engine.resident()[1])
    worked: dict[str, float] = {}
    shards = run.shards() if alive else ()
    if shards:
        here = run.cpu_here()
        costs = _Costs(sum(s.cpu_seconds for s in shards), here, max(s.peak_memory for s in shards))
    elif alive and counts.amounts.rows:
        costs = run.costs(cpu)
    if alive and not shards and run.has_phases:
        own = counts.tries.query_ids if session.engine.query_log else ()
        writing = counts.helper.writing
        built = {"read": counts.helper.cpu - writing, "insert": writing} if writing else {}
        worked = phases(session.engine, counts.publish_seconds, own, built)
    sizes = None
    if alive and run.has_phases:
        sizes = _few_after(session.destination.part_sizes(session), seconds, finished, problem)
    limited = ""
    if counts.amounts.rows and alive:
        partitioned = any(table.partitioned for table in facts.table.filled)
        limited = run.limit(worked, costs, partitioned=partitioned)
    return Report(
        load_id=load.id,
        outcome=outcome,
        source=plan.source,
        target=plan.to.text,
        table=session.table_text,
        started=load.begun,
        unit=plan.listing.unit,
        visibility=plan.to.visibility,
        splits=len(plan.listing),
        splits_loaded=counts.loaded,
        splits_skipped=plan.work.loaded + counts.elsewhere,
        splits_failed=len(counts.failures),
        rows=counts.amounts.rows,
        rows_rejected=counts.amounts.rejected,
        bytes_source=counts.amounts.stored,
        bytes_raw=counts.amounts.raw,
        bytes_written=counts.amounts.written,
        seconds=round(seconds, 3),
        total_seconds=round(time.monotonic() - session.began, 3),
        cpu_seconds=round(costs.cpu, 3),
        cpu_seconds_here=round(costs.here, 3),
        parts_written=counts.amounts.parts,
        parts_active=parts,
        peak_memory=costs.peak,
        merge_seconds=round(finished.merge_seconds, 3),
        attempts=counts.tries.attempts,
        retries=counts.tries.retries,
        phases={p: round(s / sum(worked.values()), 4) for p, s in worked.items()},
        limited_by=limited,
        settings={s.name: s.value for s in done.settings},
        failures=counts.failures,
        notes=(
            *filter(None, [plan.schema.fit.text]),
            *_cursor_note(session.source, outcome),
            *done.notes,
            *finished.notes,
        ),
        steering=done.steering,
        engine_version=session.engine.facts.version if alive else "",
        rowfall_version=__version__,
        shards=shards,
        imbalance=round(imbalance(shards), 4) if shards else 0.0,
        merges=merges,
        part_sizes=sizes,
        tables=session.options.tables or "",
    )


def _few_after(
    sizes: PartSizes | None, seconds: float, finished: Finished, problem: RowfallError | None
) -> PartSizes | None:
    """Return the parts of a target with the time after which they were few."""
    if sizes is None or problem is not None or sum(n for _, n in sizes.bytes) >= sizes.few:
        return sizes
    return replace(sizes, few_after=round(seconds + finished.merge_seconds, 3))


def stages(report: Report, counts: Counts) -> tuple[tuple[str, float], ...]:
    """Return seconds of work and of waiting, all threads together; () where nothing tells.

    What is named together was measured together: rowfall-decode unpacks, parses and sorts a block
    in one go, an engine sorts and writes in one processor.
    """
    helper, publishing = counts.helper, counts.publish_seconds
    share = report.phases.get("publish", 0.0)
    if helper.writing:
        worked = [("unpack, parse, sort", helper.cpu - helper.writing),
                  ("compress, write", helper.writing)]  # fmt: skip
    elif share and publishing:
        names = {"read": "unpack, parse", "convert": "convert", "insert": "sort, compress, write"}
        whole = publishing / share
        worked = [(name, report.phases.get(phase, 0.0) * whole) for phase, name in names.items()]
    else:
        return ()
    worked += [("count, attach", publishing), ("wait for a core", helper.waited)]
    return tuple((name, round(max(0.0, seconds), 3)) for name, seconds in worked)


def make_record(load: LoadRun, report: Report, done: Done) -> LoadRecord:
    """Return what was recorded of a run, and the memory that its engine could take."""
    record = load.recorder.record()
    samples = record.samples
    if samples and report.parts_active:
        # Parts are counted every second or two: those of the last attempt were not.
        samples = (*samples, replace(
            samples[-1], seconds=samples[-1].seconds + 0.01, parts=report.parts_active
        ))  # fmt: skip
    limit = load.session.engine.facts.memory if report.outcome != "interrupted" else 0
    return replace(
        record, samples=samples, memory_limit=limit, stages=stages(report, done.total)
    )  # fmt: skip


# --- costs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Costs:
    """CPU seconds of the engine and (for a push) of this machine, and bytes at the highest."""

    cpu: float
    here: float
    peak: int


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that has ended.

    Attributes:
        seconds: since it began: statements of earlier runs of the load do not count.
    """

    load: LoadRun
    plan: Plan
    done: Done
    counts: Counts
    seconds: float

    @property
    def session(self) -> Session:
        return self.load.session

    @property
    def pushes(self) -> bool:
        """True where rows were read here, and they or their parts sent to a server."""
        return self.plan.transport.reads_here and self.plan.to.placement != "embedded"

    @property
    def has_phases(self) -> bool:
        """True where it says where its time went; of others it is start and bookkeeping."""
        return self.counts.amounts.rows >= FEW_ROWS and self.seconds >= SHORT_SECONDS

    def cpu_here(self) -> float:
        """Return the CPU seconds of this machine where rows were read here and sent; else 0."""
        spent = self.session.cpu_seconds_here() - self.done.cpu_here
        return max(0.0, spent) if self.pushes else 0.0

    def costs(self, cpu: float) -> _Costs:
        """Return CPU seconds and peak memory of a load on one engine.

        Args:
            cpu: CPU seconds that the engine has measured.
        """
        counts, engine = self.counts, self.session.engine
        peak = engine.resident()[1]
        if not engine.query_log:
            return _Costs(cpu + counts.helper.cpu, 0.0, peak)
        here = self.cpu_here()
        if self.pushes:
            here += counts.helper.cpu
        statements = len(set(counts.tries.query_ids))
        logged = None
        if counts.amounts.rows >= FEW_ROWS or counts.amounts.stored >= FEW_BYTES:
            # Elsewhere to flush and read the log takes as long as the statements of the load.
            logged = server_costs(engine, self.load.id, self.seconds, statements)
        if logged is not None:  # without the right to flush the log, its last lines may be missing
            return _Costs(max(cpu, logged[0]), here, max(peak, logged[1]))
        return _Costs(cpu if cpu > LEAST_SEEN * max(1, statements) else 0.0, here, peak)

    def limit(self, worked: dict[str, float], costs: _Costs, *, partitioned: bool) -> str:
        """Return the sentence that says what limited the load.

        Args:
            worked: seconds per phase.
            partitioned: a table that is filled has a partition key.
        """
        session, plan, counts = self.session, self.plan, self.counts
        server = session.engine.query_log
        most = max((len(g.indexes) for g in plan.work.groups), default=1)
        encoding = plan.encoding
        waited = counts.helper.waited if not server else 0.0
        if not server and self.has_phases:
            waited += cpu_wait(session.engine)
        engine = EngineEffort(
            costs.cpu, sum(writer.engine.facts.cores for writer in session.writers), server,
            waited, blocks=not counts.helper.writing,
        )  # fmt: skip
        source = SourceTraits(
            generated=encoding is None, remote=session.remote,
            streamed=isinstance(session.source, Streamed),
            text=encoding is not None and encoding.kind in (Kind.TEXT, Kind.JSON),
            packed=encoding is not None and encoding.compression != "none",
            objects=plan.facts.cores if encoding is None else most * plan.work.lanes,
        )  # fmt: skip
        return limited_by(Effort(
            self.seconds, engine, source, here=costs.here if server and self.pushes else None,
            cores_here=session.reader.cores, phases=worked,
            target=session.destination.rows_become,
            few=counts.amounts.rows < FEW_ROWS, partitioned=partitioned,
        ))  # fmt: skip

    def shards(self) -> tuple[ShardReport, ...]:
        """Return one row for each shard of a cluster; () elsewhere."""
        plan, writers = self.plan, self.session.writers
        if plan.to.placement != "shards":
            return ()
        counted = _by_writer(self.done.counts, len(writers))

        def one(at: int) -> ShardReport:
            counts, writer = counted[at], writers[at]
            cpu, memory, requests, received, busy = _logged(writer, self.load.id, self.seconds)
            return ShardReport(
                plan.work.writers[at].shard,
                writer.node,
                counts.amounts.rows,
                counts.loaded,
                counts.amounts.stored,
                counts.amounts.written,
                counts.amounts.parts,
                round(busy, 3),
                round(cpu, 3),
                memory,
                requests,
                received,
            )

        from concurrent.futures import ThreadPoolExecutor  # 4 ms that others save

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return tuple(pool.map(one, range(len(writers))))


def phases(
    engine: Engine,
    publish_seconds: float,
    query_ids: Sequence[str] = (),
    built: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the seconds of work per phase; empty when nothing tells.

    Args:
        built: seconds per phase of a load whose parts the decoder has made.
        query_ids: of a server's statements that count; nothing for an engine of our own.

    ``read`` = read, decompress, parse; ``convert`` = checks, expressions and block building;
    ``insert`` = sort, compress and write parts; ``publish`` = count and move.
    """
    totals: dict[str, float] = dict(built or {})
    if not totals:
        totals = _engine_phases(engine, query_ids)
    if not any(totals.values()):
        return {}
    totals["publish"] = publish_seconds
    return {phase: totals.get(phase, 0.0) for phase in _ORDER}


def _engine_phases(engine: Engine, query_ids: Sequence[str]) -> dict[str, float]:
    """Return seconds per phase, as the engine's processors have counted them."""
    try:
        where = ""
        if query_ids:
            where = "WHERE event_date >= yesterday() AND query_id IN ("
            where += quoted_list(query_ids) + ") "
        else:
            engine.run(
                Statement(SqlText.of("SYSTEM FLUSH LOGS processors_profile_log"), alters=None)
            )
        rows = engine.ask(
            f"SELECT name, sum(elapsed_us) FROM system.processors_profile_log {where}GROUP BY name",
        )
    except RowfallError:
        return {}  # an engine without the log still has a report
    totals: dict[str, float] = {}
    for name, microseconds in rows:
        phase = _PHASES.get(name)
        if phase is None:
            phase = "read" if name.startswith(_SOURCES) else "convert"
            if name.endswith("Sink"):
                phase = "insert"
        totals[phase] = totals.get(phase, 0.0) + microseconds / 1e6
    return totals


def server_costs(
    engine: Engine, load_id: str, since: float, attempts: int
) -> tuple[float, int] | None:
    """Return CPU seconds, and bytes at the highest point of any statement, of a run on a server.

    Args:
        since: seconds since the run began: earlier runs of the same load do not count.
        attempts: how many of them there were.

    Returns:
        None when its query_log is off, may not be read, or does not have all of them yet.
    """
    with suppress(RowfallError):
        # Otherwise lines reach the log up to 7.5 s later; ordinary users may not.
        engine.run(Statement(SqlText.of("SYSTEM FLUSH LOGS"), alters=None))
    try:
        ((statements, micros, memory),) = engine.ask(
            "SELECT uniqExact(extract(query_id, '^[^_]+_[0-9]+')), "
            "sum(ProfileEvents['UserTimeMicroseconds'] + "
            "ProfileEvents['SystemTimeMicroseconds']), max(memory_usage) FROM system.query_log "
            f"WHERE event_date >= toDate(now() - {since:.0f}) AND type != 'QueryStart' AND "
            f"query_start_time >= now() - {since + 1:.0f} AND is_initial_query AND "
            f"startsWith(query_id, {quote(load_id + '_')})",
        )
    except RowfallError:
        return None
    return (micros / 1e6, memory) if statements >= attempts > 0 else None


def cpu_wait(engine: Engine) -> float:
    """Return the seconds that the engine's threads were ready while others had the cores."""
    try:
        rows = engine.ask("SELECT value FROM system.events WHERE event = 'OSCPUWaitMicroseconds'")
    except RowfallError:
        return 0.0
    return rows[0][0] / 1e6 if rows else 0.0


# --- shards ---------------------------------------------------------------------------------------


def _by_writer(counts: Sequence[Counts], writers: int) -> Sequence[Counts]:
    """Return the counts of each writer, also where each attempt was staged on all of them."""
    shares = [share for own in counts for share in own.shares]
    if not shares and len(counts) == writers:
        return counts
    # One runner alone: what it has read was read by all writers.
    every = list(counts) if len(counts) == writers else [counts[0]] * writers
    return [
        replace(
            own,
            amounts=replace(
                own.amounts,
                rows=sum(share[at].rows for share in shares),
                parts=sum(share[at].parts for share in shares),
                written=sum(share[at].bytes for share in shares),
            ),
        )
        for at, own in enumerate(every)
    ]


def _logged(writer: Writer, load_id: str, since: float) -> tuple[float, int, int, int, float]:
    """Return the costs of a load's statements by a writer's query_log; zeros if it is not readable.

    Returns:
        CPU seconds, bytes of memory, requests, bytes from other nodes, and seconds from the first
        statement's start to the last one's end.
    """
    with suppress(RowfallError):
        # Otherwise lines reach the log up to 7.5 s later; ordinary users may not.
        writer.engine.run(Statement(SqlText.of("SYSTEM FLUSH LOGS"), alters=None))
    requests = " + ".join(f"ProfileEvents[{quote(event)}]" for event in _REQUESTS)
    rows: list[list[Any]] = []
    with suppress(RowfallError):
        rows = writer.engine.ask(
            "SELECT sum(ProfileEvents['UserTimeMicroseconds'] + "
            "ProfileEvents['SystemTimeMicroseconds']) / 1e6, max(memory_usage), "
            f"sum({requests}), sum(ProfileEvents['NetworkReceiveBytes']), "
            "if(count() = 0, 0, (max(toUnixTimestamp64Micro(event_time_microseconds)) - "
            "min(toUnixTimestamp64Micro(query_start_time_microseconds))) / 1e6) "
            f"FROM system.query_log WHERE event_date >= toDate(now() - {since:.0f}) AND "
            f"type != 'QueryStart' AND query_start_time >= now() - {since + 1:.0f} AND "
            # Of rows that other shards have sent, the statement has an id of its own.
            f"startsWith(initial_query_id, {quote(load_id + '_')})",
        )
    if not rows:
        return 0.0, 0, 0, 0, 0.0
    cpu, memory, count, received, busy = rows[0]
    return float(cpu), int(memory), int(count), int(received), float(busy)


def imbalance(shards: Sequence[ShardReport]) -> float:
    """Return the excess of the fullest shard over the average, as a fraction: 0.03 is 3 %.

    By bytes of the source where they are known, and by rows otherwise.
    """
    loads = [shard.bytes_source for shard in shards]
    if not all(loads):
        loads = [shard.rows for shard in shards]
    total = sum(loads)
    return max(loads) * len(loads) / total - 1 if total else 0.0
