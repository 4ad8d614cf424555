"""Finish a load into tables of ClickHouse: show what was gathered, wait for replicas and merges."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from rowfall.contracts.destination import LoadRun, ReceiverInputs, Session
from rowfall.contracts.load import Done, Finished
from rowfall.contracts.receiver import Notes, Revivals, first_line
from rowfall.core import units
from rowfall.core.errors import LedgerError, RowfallError
from rowfall.core.events import Note
from rowfall.core.listing import Split
from rowfall.core.model import Plan
from rowfall.destinations.clickhouse.load_tables import LoadTables
from rowfall.destinations.clickhouse.nodes import nodes_of
from rowfall.destinations.clickhouse.record import record_of
from rowfall.ledger.journal import Journal
from rowfall.ledger.leases import Lease
from rowfall.plan.upserts import key_of
from rowfall.publish.merges import Merges, Waited
from rowfall.publish.shadow import Shadow
from rowfall.publish.tables import CommittedParts
from rowfall.publish.upsert import Upsert

# Somebody else loads the last files: asking again costs two small SELECTs.
BUSY_SECONDS = 1.0


def finish(prepared: LoadTables, plan: Plan, done: Done) -> Finished:
    """Make a gathered load visible, and wait for what ``--wait`` names."""
    if done.problem is not None:
        return Finished(problem=done.problem)
    session, shadow = prepared.load.session, prepared.shadow
    notes = Notes(session.emit)
    waited = problem = None
    try:
        if shadow is not None:
            if done.total.failures:
                what = f"nothing is visible in {session.table_text}: some files failed"
                notes.add("warning", what)
            elif session.options.replace:
                if not prepared.settled.replaced:
                    shadow.swap()
            else:
                _show_gathered(prepared, shadow, plan, notes)
        _end_dead_loads(prepared)
        waited = _wait(session)
    except RowfallError as error:
        problem = prepared.cause(error)
    return Finished(tuple(notes.texts), waited.seconds if waited else 0.0, problem)


def _end_dead_loads(prepared: LoadTables) -> None:
    """End what dead loads have left beside the target; where that fails, the next load does it."""
    session = prepared.load.session
    if session.options.replace:
        return
    try:
        record_of(session).end_dead_loads(prepared.tables, prepared.load.id)
    except RowfallError as error:
        text = f"what dead loads have left could not be removed: {first_line(error)}"
        session.emit(Note("warning", text))


def _show_gathered(prepared: LoadTables, shadow: Shadow, plan: Plan, notes: Notes) -> None:
    """Make visible what attempts have gathered in the shadow, as one attempt.

    Raises:
        LedgerError: another process has loaded some of it meanwhile.
    """
    load, session = prepared.load, prepared.load.session
    gathered = load.ledger.loaded(load.key)
    if not gathered:
        shadow.drop()  # a stopped run had made everything visible
        return
    splits = [s for s in plan.listing.splits(session.target_key) if s.id in gathered]
    attempt, lease = _lease_gathered(prepared, shadow, splits)
    if lease.loaded:
        _give_up_gathered(load, shadow, splits, lease, notes)
        return
    (at,) = prepared.writers
    at.own.check()
    if session.options.upsert is not None:
        whole = prepared.whole if isinstance(prepared.whole, Journal) else None
        Upsert(
            session, load.ledger, shadow, at, key_of(session.options), load.id, load.salt, whole,
            prepared.whole_recovery,
        ).run(attempt, splits)  # fmt: skip
        return
    given = ReceiverInputs(load, plan, at.writer, notes, Revivals(notes), threading.Event())
    committed = CommittedParts(given, prepared.whole, prepared.whole_recovery)
    staged = shadow.publish(attempt, at, committed)
    at.wait_for_room(staged.moves, staged.parts)


def _lease_gathered(
    prepared: LoadTables, shadow: Shadow, splits: Sequence[Split]
) -> tuple[str, Lease]:
    """Lease everything that was gathered, as one attempt; return its id, too.

    Whoever holds some of it is waited for: what was gathered becomes visible, or was in vain.

    Raises:
        AlteredTableError: some of it is staged by a dead process, and cannot become visible.
    """
    load, session = prepared.load, prepared.load.session
    ledger, recovery, told = load.ledger, prepared.whole_recovery, False
    while True:
        attempt = f"{load.id}_whole{ledger.attempts(load.id) + 1}"
        # Before the lease: after a crash the next run's attempt must have another name.
        ledger.attempt_started(attempt, load.id, shadow.name, session.target_key, splits)
        lease = prepared.whole.lease(attempt, splits)
        if lease.whole:
            return attempt, lease
        prepared.whole.release(attempt)
        ledger.attempt_ended(attempt, "lost", "other processes hold some of its files")
        if lease.loaded:
            return attempt, lease
        if lease.lost and recovery is not None:
            recovery.end(lease.lost)
            for name in lease.lost:
                if name in recovery.kept:
                    raise recovery.kept[name]
        if lease.busy:
            if not told:
                files = units.counted(len(lease.busy), "file")
                session.emit(
                    Note("info", f"waiting for another rowfall that loads {files} of these")
                )
            told = True
            time.sleep(BUSY_SECONDS)


def _give_up_gathered(
    load: LoadRun, shadow: Shadow, splits: Sequence[Split], lease: Lease, notes: Notes
) -> None:
    """Drop what was gathered: another load has made some of these files visible.

    Raises:
        LedgerError: not all of them.
    """
    shadow.drop()
    load.ledger.set_table(load.key, "")
    load.ledger.loaded_elsewhere(load.id, lease.loaded)
    text = (
        f"{units.counted(len(lease.loaded), 'file')} of this load were loaded into "
        f"{load.session.table_text} by another rowfall meanwhile, so what was gathered is dropped"
    )
    if len(lease.loaded) == len(splits):
        notes.add("warning", text)
        return
    raise LedgerError(
        text, hint="Run the same command again: it loads the other files.", transient=True
    )


def _wait(session: Session) -> Waited | None:
    """Wait as ``--wait`` says: for replicas first, then for merges."""
    wished = (session.options.wait or "").split(",")
    if "replicas" in wished:
        nodes_of(session).wait_for_replicas(session.emit)
    limits = [int(one.partition("=")[2]) for one in wished if one.startswith("merges=")]
    if not limits or not session.target.table:
        return None
    found = [
        Merges(writer.engine, session.emit).wait_until_fewer(
            writer.target.database, writer.target.table, min(limits)
        )
        for writer in session.writers
    ]
    parts, reached = sum(f.parts for f in found), all(f.reached for f in found)
    if not reached:
        text = f"{parts:,} parts are still active, and the server merges none of them at present"
        session.emit(Note("warning", text))
    return Waited(sum(f.seconds for f in found), parts, reached)
