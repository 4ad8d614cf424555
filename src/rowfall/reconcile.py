"""What a run does first: bring the attempts that a crash left open to an end, by evidence."""

from __future__ import annotations

from rowfall import sql
from rowfall.engines.base import Engine
from rowfall.errors import LedgerError
from rowfall.events import Listener, Note
from rowfall.ledger import Attempt, Ledger, into_parts
from rowfall.model import Statement
from rowfall.publish import Publisher, ask
from rowfall.sqltext import SqlText, quote
from rowfall.targets.base import Publish, Target


def reconcile(engine: Engine, ledger: Ledger, target: Target, emit: Listener) -> None:
    """Settle every open attempt of this target, whichever load it belongs to.

    ``started``: its rows are in a staging place that nobody will publish; it is dropped and the
    splits are loaded again. ``loaded``: its rows are complete in staging; publishing goes on.
    The engine was restarted since (it ends with rowfall), so no statement of it still runs.

    Raises:
        LedgerError: ledger and target contradict each other.
    """
    for attempt in ledger.open_attempts():
        if attempt.state == "loaded" and target.caps.publish is Publish.MOVE:
            _go_on(engine, ledger, target, attempt, emit)
        else:
            for statement in target.discard(attempt.staging):
                engine.run(Statement(statement))
            ledger.attempt_ended(attempt.id, "lost", "rowfall or its engine was stopped")


def _go_on(
    engine: Engine, ledger: Ledger, target: Target, attempt: Attempt, emit: Listener
) -> None:
    # The attempt may belong to a load into another table of the same folder.
    database, table = into_parts(attempt.into_table)
    publisher = Publisher(engine, ledger, database, table)
    there = {
        name
        for (name,) in ask(
            engine,
            f"SELECT name FROM system.tables WHERE database = {quote(database)} "
            f"AND name IN ({quote(attempt.staging)}, {quote(table)})",
        )
    }
    moves = ledger.moves(attempt.id)
    if table not in there:
        # Somebody dropped the target: nothing of this attempt can land there any more.
        _drop(engine, database, attempt.staging)
        ledger.attempt_ended(attempt.id, "lost", "the target table was dropped")
        return
    if attempt.staging in there:
        moves = publisher.settle(attempt.id, attempt.staging)
        publisher.publish(attempt.id, attempt.staging, moves, attempt.into_table)
    elif moves:
        # rowfall drops staging only after the attempt is recorded as published.
        raise LedgerError(
            f"the staging table {database}.{attempt.staging} with {attempt.rows or 0:,} loaded "
            "rows was dropped by somebody else",
            hint=f"Check whether {database}.{table} holds them; a load with --force adds them.",
        )
    else:
        ledger.attempt_published(attempt.id, attempt.into_table)
    _drop(engine, database, attempt.staging)
    emit(Note("info", f"published {attempt.rows or 0:,} rows that a stopped run had loaded"))


def _drop(engine: Engine, database: str, staging: str) -> None:
    table = sql.qualified(database, staging)
    engine.run(Statement(SqlText.of(f"DROP TABLE IF EXISTS {table} SYNC")))
