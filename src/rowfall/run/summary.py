"""The facts of a finished run: phases from the engine, and the sentence that names the limit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rowfall.core.errors import LedgerError, RowfallError
from rowfall.core.model import Statement
from rowfall.core.results import Failure, Report, ShardReport
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.ask import ask
from rowfall.engines.base import Engine

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
# Below this, a load says nothing about what is fast and what is slow.
SHORT_SECONDS = 0.5
_SOURCES = ("File", "S3", "URL", "Numbers", "ObjectStorage", "Storage")


def phases(
    engine: Engine,
    publish_seconds: float,
    query_ids: Sequence[str] = (),
    built: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Share of the working time per phase, 0..1; empty when nothing tells.

    Args:
        built: seconds per phase of a load whose parts the engine has not made.
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
    everything = sum(totals.values())
    order = ("read", "convert", "insert", "publish")
    return {p: round(totals.get(p, 0.0) / everything, 4) for p in order}


def _engine_phases(engine: Engine, query_ids: Sequence[str]) -> dict[str, float]:
    """Seconds per phase, as the engine's processors have counted them."""
    try:
        where = ""
        if query_ids:
            where = "WHERE event_date >= yesterday() AND query_id IN ("
            where += ", ".join(map(quote, query_ids)) + ") "
        else:
            engine.run(Statement(SqlText.of("SYSTEM FLUSH LOGS processors_profile_log")))
        rows = ask(
            engine,
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
    """CPU seconds, and bytes at the highest point of any statement, of one run on a server.

    Args:
        since: seconds since the run began: earlier runs of the same load do not count.
        attempts: how many of them there were.

    Returns:
        None when its query_log is off, may not be read, or does not have all of them yet.
    """
    with suppress(RowfallError):
        # Otherwise lines reach the log up to 7.5 s later; ordinary users may not.
        engine.run(Statement(SqlText.of("SYSTEM FLUSH LOGS")))
    try:
        ((statements, micros, memory),) = ask(
            engine,
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
    """Seconds that threads of the engine were ready to run while other processes had the cores."""
    try:
        rows = ask(engine, "SELECT value FROM system.events WHERE event = 'OSCPUWaitMicroseconds'")
    except RowfallError:
        return 0.0
    return rows[0][0] / 1e6 if rows else 0.0


def limited_by(
    phases: Mapping[str, float],
    cpu_seconds: float,
    seconds: float,
    cores: int,
    *,
    remote: bool,
    objects: int,
    waited: float,
) -> str:
    """One sentence: what would have to be faster for the load to be faster.

    Args:
        objects: objects that were read side by side (1: nothing to spread over cores).
        waited: see :func:`cpu_wait`.
    """
    if not seconds or not (phases or cpu_seconds):
        return "The load was too short to tell."
    if seconds < SHORT_SECONDS:
        return f"Start-up and bookkeeping: the rows themselves took {seconds:.2f} s."
    used = cpu_seconds / seconds
    read = phases.get("read", 0.0) + phases.get("convert", 0.0)
    insert = phases.get("insert", 0.0)
    if phases.get("publish", 0.0) > 0.4:
        return "Publishing: many parts had to be moved; a coarser partition key makes fewer."
    if used > 0.75 * cores or used + waited / seconds > 0.9 * cores:
        what = (
            f"reading: decompressing, parsing and converting took {read:.0%}"
            if read >= insert
            else f"sorting, compressing and writing parts: {insert:.0%}"
        )
        others = ", other processes had the rest" if used <= 0.75 * cores else ""
        return f"The CPU ({used:.1f} of {cores} cores{others}), most of it {what} of the time."
    if objects < cores and used > 0.6:
        few = (
            "one object keeps one core" if objects == 1 else f"{objects} objects keep as many cores"
        )
        return f"Too few objects: {few} of {cores} busy; more and smaller ones load faster."
    if read >= insert:
        where = "the network or the object store" if remote else "the source disk"
        return f"Waiting for {where}: {used:.1f} of {cores} cores were busy while rows were read."
    return f"The target disk: {used:.1f} of {cores} cores were busy while parts were written."


def limited_on_server(
    cpu_seconds: float, seconds: float, cores: int, here: float | None, cores_here: int
) -> str:
    """The same for a server that does not say what its threads were doing.

    Args:
        here: CPU seconds of this machine where it read the rows, None where the server did.
    """
    if seconds < SHORT_SECONDS:
        return f"Start-up and bookkeeping: the rows themselves took {seconds:.2f} s."
    used, used_here = cpu_seconds / seconds, (here or 0.0) / seconds
    there = f"{used:.1f} of {cores} cores of the server were busy with the load"
    mine = f"{used_here:.1f} of {cores_here} cores were busy reading and sending"
    if not cpu_seconds:
        there = "how busy the server was is not known, as this user may not read its query_log"
    if here is not None and used_here > 0.75 * cores_here:
        return f"The CPU of this machine: {mine}; {there}."
    if used > 0.75 * cores:
        return f"The server's CPU: {there}."
    if here is None:
        if not cpu_seconds:
            return "Not known: this user may not read the server's query_log."
        return f"Not the server's CPU: {there}; the source, the network or its disk held it up."
    if not cpu_seconds:
        return f"Not the CPU of this machine: {mine}; {there}."
    return f"Neither CPU: here {mine}; {there}. The network, a disk or others held it up."


def to_json(report: Report) -> str:
    return json.dumps(dataclasses.asdict(report))


def from_json(text: str) -> Report:
    """A stored report; fields that a newer rowfall added are left out.

    Raises:
        LedgerError: the text is not a report.
    """
    try:
        found: dict[str, Any] = json.loads(text)
        known = {f.name for f in dataclasses.fields(Report)}
        values = {k: v for k, v in found.items() if k in known}
        values["failures"] = tuple(Failure(**f) for f in values.get("failures", ()))
        values["notes"] = tuple(values.get("notes", ()))
        values["shards"] = tuple(ShardReport(**s) for s in values.get("shards", ()))
        return Report(**values)
    except (ValueError, TypeError) as error:
        raise LedgerError(f"the ledger holds a report that cannot be read: {error}") from None
