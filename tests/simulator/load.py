"""One command of a user: ``rowfall load`` as :mod:`rowfall.run.load` does it, without its survey.

What is left out asks about data and machines: schema, settings, forecast. Everything that decides
about rows is the code itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.listing import Listing
from rowfall.core.model import Column, Outcome, Schema, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.deliver.delivery import Order
from rowfall.ledger import Ledger
from rowfall.plan.session import Session, Writer
from rowfall.publish.receiver import Notes, open_receiver
from rowfall.run.attempts import AttemptRunner, Done, _fill, _run_all, receiving
from rowfall.run.finish import finish
from rowfall.run.prepare import prepare
from rowfall.run.settle import open_load, settle
from rowfall.run.work_queue import WorkQueue
from rowfall.targets.base import ServerAt
from rowfall.targets.table import Table
from simulator.network import Connection

if TYPE_CHECKING:
    from simulator.world import Process, World

COLUMNS = (Column("p", "String"), Column("k", "String"))


class _Watch:
    """Stands for the progress of statements, which nobody looks at."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def ticker(self, *_: object) -> None:
        """Do nothing."""

    finished = forget = ticker


class _Delivery:
    """Delivers by one INSERT, as a server does that reads the source itself."""

    def __init__(self, engine: Connection) -> None:
        self._engine = engine

    def insert(self, order: Order, lane: int, on_tick: Any) -> Outcome:
        splits = ",".join(s.uri for s in order.splits)
        text = f"INSERT INTO `d`.`{order.staging}` ROWS {splits}"
        self._engine.run(Statement(SqlText.of(text), query_id=order.attempt))
        contents = self._engine.server.contents
        # Each view reads the rows again.
        views = [t for t in self._engine.server.tables.values() if t.reads[1] == order.staging]
        rows = sum(len(contents[s.uri]) for s in order.splits) * (1 + len(views))
        return Outcome(rows_read=rows, rows_written=rows)

    def kill(self, attempt: str) -> None:
        self._engine.kill(attempt)


def run_load(world: World, process: Process) -> None:
    """Run one load to its end.

    Raises:
        RowfallError: what stopped it.
    """
    engine = world.connect(process)
    ledger = Ledger(Path(f"/tmp/{process.home}.ledger"))  # noqa: S108 - in memory, see seams
    target = _target(process, engine)
    listing = Listing()
    for uri in process.sources:
        listing.add(uri, "v1", 10)
    options = replace(Options(), atomic=process.atomic, replace=process.replace,
                      force=process.force)  # fmt: skip
    source: Any = SimpleNamespace(
        text=",".join(process.sources), remote=False, replayable=True, secrets=(), fds=(),
        made=None, listing=lambda: listing, changed=lambda splits: [],
    )  # fmt: skip
    reader: Any = engine
    session = Session(
        tuple(process.sources), "clickhouse://h/d", options, source, target, listing, None, reader,
        (Writer(0, "", reader, target),), ledger, lambda event: None,
    )  # fmt: skip
    with open_load(session) as load:
        settled = settle(session, load)
        session = settled.session
        exists = bool(engine.ask(
            f"SELECT 1 FROM system.tables WHERE database = 'd' AND name = '{settled.table}'"
        ))  # fmt: skip
        plan = _plan(world, session, settled.known, exists)
        facts: Any = SimpleNamespace(sharding=None)
        prepared = prepare(settled, load, facts, plan)
        outcome = "failed"
        with prepared.leased():
            try:
                done = _run_attempts(session, load, plan, prepared)
                finished = finish(settled, load, plan, prepared, done)
                outcome = "partial" if done.total.failures else "done"
                problem = finished.problem
                if problem is not None:
                    outcome = "failed"
            finally:
                if not process.killed:
                    ledger.end(load.id, outcome, "{}")
        if problem is not None:
            raise problem
        if done.total.failures:
            raise EngineError(f"partial: {done.total.failures[0]}")


def _target(process: Process, engine: Connection) -> Table:
    ledger = Path(f"/tmp/{process.home}.ledger")  # noqa: S108 - see above
    if not engine.shared:
        return Table("/data", "d", process.table, ledger, folder=Path("/data"))
    at = ServerAt("h", 8123, False, "default", None)
    return Table("clickhouse://h/d", "d", process.table, ledger, server=at)


def _plan(world: World, session: Session, known: frozenset[str], exists: bool) -> Any:
    listing = session.listing
    todo = [i for i, s in enumerate(listing.splits(session.target_key)) if s.id not in known]
    groups = [
        SimpleNamespace(indexes=todo[i : i + world.group], writer=0, size=None)
        for i in range(0, len(todo), world.group)
    ]
    return SimpleNamespace(
        listing=listing, groups=groups, encoding=None, ddl="", lanes=1, writers=(),
        schema=Schema(COLUMNS, order_by="k", partition_by="p", exists=exists, row_bytes=1.0),
        transport=SimpleNamespace(
            delivery=SimpleNamespace(value="push"), sharding=SimpleNamespace(value="local"),
        ),
    )  # fmt: skip


def _run_attempts(session: Session, load: Any, plan: Any, prepared: Any) -> Done:
    """Do what :func:`rowfall.run.attempts.run_attempts` does, with a delivery of our own."""
    writer = session.writers[0]
    queue = WorkQueue(1, load.ledger.attempts(load.id))
    notes = Notes(session.emit)
    given = receiving(session, load, plan, prepared, writer, notes, queue.stopped)
    bad_rows: Any = SimpleNamespace(other_types=lambda splits: [])
    delivery: Any = _Delivery(writer.engine)  # type: ignore[arg-type]
    runner = AttemptRunner(
        given, open_receiver(given), load_id=load.id, source=session.source, delivery=delivery,
        bad_rows=bad_rows, queue=queue, writer=writer, emit=session.emit, settings=(), verify=False,
    )  # fmt: skip
    watch: Any = _Watch()
    runner._watch = watch
    problem = None
    try:
        _fill(queue, plan, session.target_key)
        _run_all([runner], queue)
    except RowfallError as error:
        problem = error
    return Done((runner.counts,), (), (), problem, 0.0, 0.0, 0.0)
