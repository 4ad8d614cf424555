"""What a run does first: bring the attempts that a crash left open to an end, by evidence."""

from __future__ import annotations

from rowfall.core.errors import LedgerError
from rowfall.core.events import Listener, Note
from rowfall.core.model import Pair, Statement
from rowfall.core.sqltext import quote
from rowfall.engines.ask import ask, asker, table_uuid
from rowfall.engines.base import Engine
from rowfall.ledger import Attempt, Ledger, target_key_parts
from rowfall.ledger.journal import Journal
from rowfall.publish.publisher import Publisher, pairs_of
from rowfall.targets import staging
from rowfall.targets.base import STAGING_PREFIX, Publish, Target

# States of attempts that need their staging tables no more.
ENDED = ("published", "failed", "lost")


def reconcile(engine: Engine, ledger: Ledger, target: Target, emit: Listener) -> None:
    """Settle every open attempt of a target that only this process uses.

    ``started``: its rows are in a staging place that nobody will publish; it is dropped and the
    splits are loaded again. ``loaded``: its rows are complete in staging; publishing goes on.
    The engine was restarted since (it ends with rowfall), so no statement of it still runs. What a
    finished attempt left, because rowfall was killed before the drop, is dropped as well.

    Raises:
        LedgerError: ledger and target contradict each other.
    """
    for attempt in ledger.open_attempts():
        attaches = target.caps.publish is Publish.ATTACH
        if attempt.state == "loaded" and attaches:
            _go_on(engine, ledger, target, attempt, emit)
            continue
        if attaches and not attempt.gathers:
            _drop(engine, attempt.staging)
        ledger.attempt_ended(attempt.id, "lost", "rowfall or its engine was stopped")
    if target.table:
        for attempt_id in with_tables(engine):
            if ledger.attempt_state(attempt_id) in ENDED:
                _drop(engine, f"{STAGING_PREFIX}{attempt_id}")


def with_tables(engine: Engine) -> set[str]:
    """Attempts that staging tables are named after."""
    rows = ask(
        engine,
        f"SELECT DISTINCT name FROM system.tables WHERE startsWith(name, '{STAGING_PREFIX}')",
    )
    names = (str(name).removeprefix(STAGING_PREFIX).split("_") for (name,) in rows)
    return {"_".join(parts[:2]) for parts in names}


def follow(ledger: Ledger, journal: Journal, into: str) -> None:
    """Bring the ledger's open attempts into one shared table up to what its journal says."""
    mine = [a for a in ledger.open_attempts() if a.target_key == into]
    if not mine:
        return
    landed = {e.attempt for e in journal.entries() if e.landed and not e.forgotten}
    for attempt in mine:
        if attempt.id in landed:
            ledger.attempt_published(attempt.id, into)
        else:
            ledger.attempt_ended(attempt.id, "lost", "rowfall or the server was stopped")


def _go_on(
    engine: Engine, ledger: Ledger, target: Target, attempt: Attempt, emit: Listener
) -> None:
    publisher = Publisher(engine, ledger)
    moves = ledger.moves(attempt.id)
    there = {
        (database, name)
        for database, name in ask(
            engine,
            "SELECT database, name FROM system.tables WHERE "
            + (" OR ".join(
                f"(database = {quote(p.database)} AND name IN ({quote(p.table)}, "
                f"{quote(p.staging)}))" for p in pairs_of(moves)
            ) or "0"),
        )
    }  # fmt: skip
    for pair in pairs_of(moves):
        own = (pair.database, pair.table) in there and _is_own(engine, ledger, attempt, pair)
        if not own:
            # Somebody dropped the target, and maybe made it anew: nothing of this attempt can land
            # any more. A new table gets all the files again, so it must not get these rows, too.
            _drop(engine, attempt.staging)
            ledger.attempt_ended(attempt.id, "lost", "the target table was dropped")
            return
        if (pair.database, pair.staging) not in there:
            # rowfall drops staging only after the attempt is recorded as published.
            raise LedgerError(
                f"the staging table {pair.database}.{pair.staging} with {attempt.rows or 0:,} "
                "loaded rows was dropped by somebody else",
                hint=f"Check whether {pair.database}.{pair.table} holds them; a load with --force "
                "adds them.",
            )
    publisher.publish(attempt.id, publisher.settle(attempt.id, moves))
    ledger.attempt_published(attempt.id, attempt.target_key)
    _drop(engine, attempt.staging)
    emit(Note("info", f"published {attempt.rows or 0:,} rows that a stopped run had loaded"))


def _is_own(engine: Engine, ledger: Ledger, attempt: Attempt, pair: Pair) -> bool:
    """Whether a table is still the one that an attempt was loaded for, as far as that is known: of
    shadows and of the tables behind views it is not."""
    known = ledger.table_uuid(attempt.target_key)
    if not known or [pair.database, pair.table] != target_key_parts(attempt.target_key):
        return True
    return table_uuid(engine, pair.database, pair.table) == known


def _drop(engine: Engine, place: str) -> None:
    for statement in staging.discard(asker(engine), place):
        engine.run(Statement(statement))
