"""Tables of ClickHouse in which loads are measured: made, measured, and dropped again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rowfall.contracts.destination import Session
from rowfall.core import sql, units
from rowfall.core.errors import RowfallError
from rowfall.core.model import Statement
from rowfall.core.results import Link, LinkKind
from rowfall.core.sqltext import SqlText, quote
from rowfall.destinations.clickhouse.nodes import nodes_of
from rowfall.destinations.network_links import network_links
from rowfall.engines.base import Engine
from rowfall.plan.reach import send_seconds
from rowfall.systems.clickhouse import staging
from rowfall.targets.base import STAGING_PREFIX

MERGES = "merging"
"""Name of the link."""
# Counters of the engine that tell what a load has waited for or worked at, in microseconds.
_TIMES = {
    "working": ("OSCPUVirtualTimeMicroseconds",),
    "waiting for a core": ("OSCPUWaitMicroseconds",),
    "sorting": ("MergeTreeDataWriterSortingBlocksMicroseconds",),
    "waiting for the disk": ("OSIOWaitMicroseconds",),
    "writing to disk": ("DiskWriteElapsedMicroseconds",),
    "receiving": ("NetworkReceiveElapsedMicroseconds",),
    "reading from S3": ("ReadBufferFromS3Microseconds",),
    "waiting for Keeper": ("ZooKeeperWaitMicroseconds",),
}


def make_scratch(session: Session, like: str) -> None:
    """Make the table like the one that it stands for; one of a cluster is made as a new one is."""
    if not like or not nodes_of(session).alone:
        return
    engine, target = session.engine, session.first_target
    there = staging.facts(engine.ask, target.database, like)
    if there is None:
        return
    made: tuple[SqlText, ...] = (SqlText.of(
        f"CREATE TABLE {sql.qualified(target.database, target.table)} AS {there.qualified}"
    ),)  # fmt: skip
    if there.replicated:
        made = staging.clone(there, target.table)
    for statement in made:
        engine.run(Statement(statement))


def erase(session: Session) -> None:
    """Drop the tables of a scratch, and what loads into it have staged."""
    ledger, target = session.ledger, session.target
    loads = [row.id for row in ledger.loads()] if ledger is not None else []
    engines = nodes_of(session).engines() or {w.node: w.engine for w in session.writers}
    databases = list({target.database, *(w.target.database for w in session.writers)})
    for engine in engines.values():
        for prefix in (target.table, *(f"{STAGING_PREFIX}{load}" for load in loads)):
            for statement in staging.discard(engine.ask, prefix, databases):
                engine.run(Statement(statement))


def network(engine: Engine, host: str) -> Sequence[Link]:
    """Measure the network to a server."""
    return network_links(
        host,
        lambda: engine.ask("SELECT 1"),
        lambda size: send_seconds(engine, size),
        lambda size: _fetch_seconds(engine, size),
    )


def _fetch_seconds(engine: Engine, size: int) -> float:
    began = time.monotonic()
    piece = 1 << 20
    engine.run(Statement(
        SqlText.of(f"SELECT repeat('rowfall ', {piece // 8}) FROM numbers({size // piece})"),
        format="RowBinary", alters=None,
    ))  # fmt: skip
    return time.monotonic() - began


def merging(session: Session) -> Link | None:
    """Merge the scratch into one part for each partition; None where there is nothing to merge."""
    engine, target = session.engine, session.first_target
    try:
        ((parts, rows, size),) = engine.ask(
            "SELECT count(), sum(rows), sum(data_uncompressed_bytes) FROM system.parts WHERE "
            f"active AND {sql.table_is(target.database, target.table)}"
        )
        if int(parts) < 2:
            return None
        began = time.monotonic()
        table = sql.qualified(target.database, target.table)
        engine.run(Statement(SqlText.of(f"OPTIMIZE TABLE {table} FINAL")))
        seconds = max(time.monotonic() - began, 1e-3)
    except RowfallError:
        return None  # rights that a load does not need
    return Link(
        LinkKind.TARGET, MERGES, int(size) / seconds, "bytes/s",
        f"{int(parts)} parts, {units.count(int(rows))} rows", limits=False,
    )  # fmt: skip


def engine_times(session: Session, load_id: str) -> Mapping[str, float] | None:
    """Return seconds by the counters of all writers; None where the user may not read them."""
    found: dict[str, float] = {}
    known = False
    for writer in session.writers:
        values = _counters(writer.engine, load_id)
        known = known or values is not None
        for name, value in (values or {}).items():
            found[name] = found.get(name, 0.0) + value
    if not known:
        return None
    times = {
        text: sum(found.get(event, 0.0) for event in events) / 1e6
        for text, events in _TIMES.items()
    }
    return {text: seconds for text, seconds in times.items() if seconds > 0}


def _counters(engine: Engine, load_id: str) -> Mapping[str, float] | None:
    """Return the counters of one engine for a load, in microseconds."""
    names = sorted({event for events in _TIMES.values() for event in events})
    try:
        if engine.query_log:
            _flush(engine)
            sums = ", ".join(f"sum(ProfileEvents[{quote(name)}])" for name in names)
            rows = engine.ask(
                f"SELECT count(), {sums} FROM system.query_log WHERE event_date >= yesterday() AND "
                "event_time > now() - 600 AND type != 'QueryStart' AND "
                f"startsWith(initial_query_id, {quote(load_id + '_')})"
            )
            if not rows or not int(rows[0][0]):
                return None
            return dict(zip(names, map(float, rows[0][1:]), strict=True))
        asked = ", ".join(map(quote, names))
        return {
            str(name): float(value)
            for name, value in engine.ask(
                f"SELECT event, value FROM system.events WHERE event IN ({asked})"
            )
        }
    except RowfallError:
        return None


def _flush(engine: Engine) -> None:
    """Have the log written, where the user may; otherwise it comes up to 7.5 s later."""
    try:
        engine.run(Statement(SqlText.of("SYSTEM FLUSH LOGS"), alters=None))
    except RowfallError:
        return
