"""Load by a pipeline of SingleStore (``--pull``): its leaves read the bucket, rowfall watches.

The pipeline is named after source and table, so a run that finds one goes on with it. When it has
ended, the files that it has loaded are recorded beside the table as those of any load, and it is
dropped: a crash in between repeats only that.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from rowfall.contracts.destination import Session
from rowfall.contracts.load import Amounts, Counts, Done, Tries
from rowfall.core import units
from rowfall.core.errors import Interrupted, RowfallError
from rowfall.core.events import Note
from rowfall.core.model import Plan
from rowfall.core.sqltext import SqlText
from rowfall.destinations.database import database_of
from rowfall.engines.database import SplitRecord
from rowfall.systems.mysql.database import MySQLDatabase
from rowfall.systems.mysql.pipelines import (
    PipelineState,
    create_pipeline,
    drop_pipeline,
    exists,
    pipeline_name,
    pulls,
    refused,
    run_pipeline,
)

if TYPE_CHECKING:
    from rowfall.contracts.destination import LoadRun


def run_pipelines(load: LoadRun, plan: Plan) -> Done | None:
    """Load by a pipeline, to its end; None where the target has none.

    What stops it is in the result, not raised.
    """
    session = load.session
    database = database_of(session)
    if not isinstance(database, MySQLDatabase) or not pulls(session.target, session.options):
        return None
    started, engine_cpu = time.monotonic(), session.engine.cpu_seconds()
    here = session.cpu_seconds_here()
    name = pipeline_name(session.source, session.target)
    problem: RowfallError | None = None
    state, counts = PipelineState(), Counts()
    try:
        if plan.work.loaded and not exists(database, name):
            if plan.work.loaded < len(plan.listing):
                raise refused("some of the files are loaded already, and a pipeline would load "
                               "all of them")  # fmt: skip
        elif any(group.indexes for group in plan.work.groups):
            create = create_pipeline(
                session.source, session.target, session.options, plan.encoding, plan.schema
            )
            state = _run(session, database, name, create)
            counts = _record(session, load, plan, database, state)
        drop_pipeline(database, name)
    except KeyboardInterrupt:
        problem = Interrupted("interrupted", hint="The same command goes on with the pipeline.")
    except RowfallError as error:
        problem = error
    notes = _notes(state)
    for note in notes:
        session.emit(Note("info", note))
    return Done((counts,), (), notes, problem, started, engine_cpu, here)


def _run(session: Session, database: MySQLDatabase, name: str, create: SqlText) -> PipelineState:
    told: set[int] = set()

    def see(state: PipelineState) -> None:
        done = len(state.loaded)
        if done not in told:
            told.add(done)
            files = f"{done:,} of {len(state.files):,} files, {state.rows:,} rows"
            session.emit(Note("info", f"pipeline {name}: {files}"))

    return run_pipeline(database, name, create, see)


def _record(
    session: Session, load: LoadRun, plan: Plan, database: MySQLDatabase, state: PipelineState
) -> Counts:
    """Record the files that a pipeline has loaded, beside the table and in the ledger."""
    attempt = f"{load.id}_pipeline{load.ledger.attempts(load.id) + 1}"
    splits = [
        s for s in plan.listing.splits(session.target_key) if _names(s.uri, state.loaded)
    ]  # fmt: skip
    load.ledger.attempt_started(attempt, load.id, "", session.target_key, splits)
    transaction = database.transaction(attempt)
    loaded = transaction.lease(attempt, load.id, [SplitRecord(s.id, s.name) for s in splits])
    if not loaded:
        transaction.finish(state.rows)
        transaction.commit()
    database.ended(attempt)
    load.ledger.attempt_committed(attempt, state.rows, ())
    load.ledger.attempt_published(attempt, load.key)
    return Counts(
        amounts=Amounts(rows=state.rows, stored=sum(s.size or 0 for s in splits)),
        loaded=len(splits),
        tries=Tries(attempts=1),
    )


def _names(uri: str, files: Collection[str]) -> bool:
    """Tell whether a file is among those of a pipeline, which names them without their bucket."""
    path = uri.removeprefix("s3://")
    return path in files or path.partition("/")[2] in files


def _notes(state: PipelineState) -> tuple[str, ...]:
    """Return times (seconds) and errors from the pipeline's views, as notes of the report.

    A restart of the server empties those views.
    """
    parts = [f"{word} {units.duration(found)}" for word, found in sorted(state.seconds.items())]
    notes = [f"pipeline: {', '.join(parts)}"] if parts else []
    return (*notes, *(f"pipeline: {error}" for error in state.errors))
