"""One command of a user: ``rowfall load`` as :mod:`rowfall.run.load` does it, without its survey.

What is left out asks about data and machines: schema, settings, forecast. Everything that decides
about rows is the code itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rowfall.cluster.open import ClusterTarget, open_cluster
from rowfall.cluster.writer import Writer
from rowfall.contracts.delivery import DeliveryOrder
from rowfall.contracts.destination import LoadRun, PreparedLoad, ReceiverInputs, Session
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Done
from rowfall.contracts.receiver import Notes, Revivals
from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.events import Listener, RunBegan
from rowfall.core.listing import Listing, Split
from rowfall.core.model import (
    PUSH,
    Choice,
    Column,
    Forecast,
    Group,
    Outcome,
    Plan,
    PlannedTarget,
    PlannedWork,
    PlannedWriter,
    PlanTexts,
    Schema,
    Sorting,
    Statement,
    TableLayout,
    Transport,
)
from rowfall.core.options import Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText
from rowfall.destinations import open_destination
from rowfall.ledger import Ledger
from rowfall.run.attempts import AttemptRunner, _fill, _run_all
from rowfall.run.load import open_load
from rowfall.run.work_queue import WorkQueue
from rowfall.systems.clickhouse.target import Table
from simulator import fleet
from simulator.network import Connection

if TYPE_CHECKING:
    from rowfall.run.fleet import Worker
    from rowfall.schema.bad_rows.rejects import BadRows
    from rowfall.sources.base import Source
    from simulator.world import Process, World

GIVEN = Choice("", "")
TRANSPORT = Transport(
    Choice(PUSH, ""), GIVEN, GIVEN, Sorting("", ""), GIVEN, GIVEN, Choice("local", "")
)  # fmt: skip
COLUMNS = (Column("p", "String"), Column("k", "String"))


class Unwatched:
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

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Any) -> Outcome:
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


class Objects:
    """A source of objects that nobody changes; the delivery knows their rows."""

    remote, replayable = False, True
    secrets = fds = notes = ()
    made = None

    def __init__(self, uris: Sequence[str], listing: Listing) -> None:
        self.text = ",".join(uris)
        self._listing = listing

    def listing(self) -> Listing:
        return self._listing

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        return []


class GoodRows:
    """What :class:`rowfall.schema.bad_rows.BadRows` finds where all rows are good."""

    def other_types(self, splits: Sequence[Split]) -> list[str]:
        return []

    def null_lists(self, splits: Sequence[Split]) -> list[str]:
        return []

    def tried_hint(self, split: Split, error: RowfallError) -> str | None:
        return error.hint


def run_load(world: World, process: Process) -> None:
    """Run one load to its end.

    Raises:
        RowfallError: what stopped it.
    """
    listing = Listing()
    for uri in process.sources:
        listing.add(uri, "v1", 10)
    options = replace(Options(no_adapt=True), atomic=process.atomic, replace=process.replace,
                      force=process.force)  # fmt: skip
    with ExitStack() as stack:
        session = _session(world, process, options, Objects(process.sources, listing), stack)
        if world.kind != "fleet":
            _load(world, process, session)
            return
        worker = fleet.join(world, process, session)
        try:
            worker.agree()
            _load(world, process, worker.session, worker)
        finally:
            worker.quit()


def _session(
    world: World, process: Process, options: Options, objects: Objects, stack: ExitStack
) -> Session:
    """Open what :func:`rowfall.run.session.open_session` opens."""
    entry = world.connect(process)
    target = _target(process, entry)
    ledger = Ledger(target.ledger_path)
    reader: Any = entry
    source = cast("Source", objects)  # nothing else of one is asked for
    emit: Listener = lambda event: None  # noqa: E731
    shards, writers = None, (Writer(0, "", reader, target),)
    if world.layout and "local journal" not in world.old:
        assert target.server is not None
        shards = open_cluster(
            reader,
            ClusterTarget(replace(target.server, cluster="c"), target, skip=False),
            lambda there, through: world.connect(process, there.host),  # type: ignore[arg-type,return-value]
            stack,
            emit,
        )
        writers = shards.writers
    return Session(
        process.sources, "clickhouse://h/d", options, source, target, open_destination(target),
        source.listing(), None, reader, writers, ledger, emit, shards,
    )  # fmt: skip


def _load(
    world: World, process: Process, session: Session, worker: Worker | None = None
) -> None:  # fmt: skip
    with open_load(session) as load:
        load.emit(RunBegan(load.id, "", "", "", not load.new))
        destination = session.destination
        settled = destination.settle(load)
        exists = bool(session.engine.ask(
            f"SELECT 1 FROM system.tables WHERE database = 'd' AND name = '{settled.table}'"
        ))  # fmt: skip
        plan = _plan(world, session, settled.known, exists)
        facts = LoadFacts(
            session.source, session.target, destination, session.listing, None, plan.schema, ()
        )
        prepared = destination.prepare(load, settled, facts, plan)
        todo = (i for group in plan.work.groups for i in group.indexes)
        load.ledger.add_splits(load.id, plan.listing.splits(session.target_key, todo))
        if worker is not None:
            plan = worker.begin(load, plan)
        outcome = "failed"
        with prepared.leased():
            try:
                done = _run_attempts(load, plan, prepared)
                finished = prepared.finish(plan, done)
                outcome = "partial" if done.total.failures else "done"
                problem = finished.problem
                if problem is not None:
                    outcome = "failed"
                elif worker is not None:
                    fleet.end(world, worker, load, plan, done, prepared)
            finally:
                if not process.killed:
                    load.ledger.end(load.id, outcome, "{}")
        if problem is not None:
            raise problem
        if done.total.failures:
            raise EngineError(f"partial: {done.total.failures[0]}")


def _target(process: Process, engine: Connection) -> Table:
    ledger = Path(f"/tmp/{process.home}.ledger")  # noqa: S108 - in memory, see seams
    if not engine.shared:
        return Table("/data", "d", process.table, ledger, folder=Path("/data"))
    at = ServerAt("h", 8123, False, "default", None)
    return Table("clickhouse://h/d", "d", process.table, ledger, server=at)


def _plan(world: World, session: Session, known: frozenset[str], exists: bool) -> Plan:
    listing = session.listing
    todo = [i for i, s in enumerate(listing.splits(session.target_key)) if s.id not in known]
    writers = range(len(session.writers))
    draw = world.scheduler.random
    groups = [
        Group(
            todo[i : i + world.group], None,
            draw.choice(writers) if len(writers) > 1 else 0,
        )
        for i in range(0, len(todo), world.group)
    ]  # fmt: skip
    schema = Schema(
        COLUMNS, layout=TableLayout(order_by="k", partition_by="p"), exists=exists, row_bytes=1.0
    )
    return Plan(
        session.source.text,
        PlannedTarget(session.target.text, session.target.database, session.target.table,
                      "server", ""),
        None, schema, listing, TRANSPORT,
        PlannedWork(
            tuple(groups), 1, (),
            tuple(PlannedWriter(0, "", "", 1, 0, 0, None, 0, ()) for _ in session.writers),
            loaded=len(listing) - len(todo),
        ),
        Forecast(None, None, 0, 0), session.engine.facts, PlanTexts("", ""),
    )  # fmt: skip


def _run_attempts(load: LoadRun, plan: Plan, prepared: PreparedLoad) -> Done:
    """Do what :func:`rowfall.run.attempts.run_attempts` does, with a delivery of our own."""
    session = load.session
    queue = WorkQueue(len(session.writers), load.ledger.attempts(load.id))
    notes = Notes(session.emit)
    bad_rows = cast("BadRows", GoodRows())
    watch: Any = Unwatched()
    runners = []
    for writer in session.writers:
        given = ReceiverInputs(load, plan, writer, notes, Revivals(notes), queue.stopped)
        delivery: Any = _Delivery(writer.engine)  # type: ignore[arg-type]
        runners.append(AttemptRunner(
            given, prepared.receiver(given), delivery=delivery, bad_rows=bad_rows, queue=queue,
            emit=session.emit,
        ))  # fmt: skip
        runners[-1]._watch = watch
    problem = None
    try:
        _fill(queue, plan, session.target_key)
        _run_all(runners, queue)
    except RowfallError as error:
        problem = error
    return Done(tuple(runner.counts for runner in runners), (), (), problem, 0.0, 0.0, 0.0)
