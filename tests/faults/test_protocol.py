"""Ledger, journal, attempts, receiver and recovery, crashed at every transition on a fake server.

Several processes load the same splits. Each stops before every statement that it sends; the test
lets it go on, loses its connection before or after the statement, kills it there, or makes the
others take it for dead although it goes on (a zombie). In between parts are merged and cleared
away, and the clocks of the server and of the machines jump by hours. At any time every row is
visible at most once; in the end, after a run that nobody disturbs, exactly once.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from faults.fake import PARTITIONS, TARGET, TARGET_UUID, Fake, as_lines
from rowfall.cluster.writer import Writer
from rowfall.contracts.delivery import DeliveryOrder
from rowfall.contracts.destination import LoadRun, ReceiverInputs
from rowfall.contracts.receiver import Notes, Revivals
from rowfall.core import retry
from rowfall.core.errors import EngineError, LedgerError
from rowfall.core.events import silent
from rowfall.core.listing import Listing, Split
from rowfall.core.model import (
    Facts,
    Forecast,
    Outcome,
    Plan,
    PlannedTarget,
    PlannedWork,
    PlannedWriter,
    PlanTexts,
    Schema,
    StagingPair,
    Statement,
)
from rowfall.core.options import Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import EngineQuestions
from rowfall.ledger import Ledger, journal, leases, target_key
from rowfall.ledger.journal import Journal
from rowfall.publish import fence, recover
from rowfall.publish.recover import NodeRecovery, Recovery, follow_journal
from rowfall.publish.tables import TableReceiver, TableWriter
from rowfall.publish.target_tables import OwnTable
from rowfall.run import work_queue
from rowfall.run.attempts import FIRST_LANE, AttemptRunner
from rowfall.run.work_queue import Work, WorkQueue
from rowfall.systems.clickhouse.target import Table
from simulator.load import TRANSPORT, GoodRows, Unwatched

if TYPE_CHECKING:
    from rowfall.contracts.delivery import Delivery
    from rowfall.contracts.destination import Session
    from rowfall.publish.tables import StagingTables
    from rowfall.schema.bad_rows.rejects import BadRows

ROUNDS = int(os.environ.get("ROWFALL_FAULT_ROUNDS", "25"))
INTO = target_key("d", TARGET)
SPLITS = [Split(f"{n:032x}", f"/{n}.csv", "1-1", 10) for n in range(4)]
ROWS = Counter((s.id, p) for s in SPLITS for p in PARTITIONS)
_time = time.time
# A turn takes microseconds; a process that does not come back hangs.
_TURN_SECONDS = 20.0
_MOST_TURNS = 5_000


class Killed(BaseException):
    """kill -9: nothing of the process runs on."""


class World:
    """The server, the ledgers, and the processes that take turns."""

    def __init__(self, folder: Path) -> None:
        self.fake = Fake()
        self.folder = folder
        self.processes: list[Process] = []
        self.taken_for_dead: set[str] = set()
        self.current: Process | None = None
        self.clock = 0.0

    def time(self) -> float:
        return _time() + self.clock

    def me(self) -> str:
        assert self.current is not None
        return self.current.name

    def dead(self, text: str) -> bool:
        return text.split(" ")[0] in self.taken_for_dead

    def start(self, home: int) -> Process:
        process = Process(self, f"p{len(self.processes)}", self.folder / f"{home}.ledger")
        self.processes.append(process)
        process.begin()
        return process


class Process(EngineQuestions):
    """One rowfall on a thread of its own, as the scheduler sees it; its engine, as it sees itself.

    Attributes:
        running: it waits for its next turn.
        failed: what it ended with.
    """

    facts = Facts("", 1, 0, frozenset())
    shared = True

    def __init__(self, world: World, name: str, ledger: Path) -> None:
        self.name, self._world, self._path = name, world, ledger
        self.failed: BaseException | None = None
        self.running = True
        self._how = "ok"
        self._killed = False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._life, daemon=True)

    def begin(self) -> None:
        self._world.current = self
        self._thread.start()
        assert self._back.acquire(timeout=_TURN_SECONDS)

    def step(self, how: str = "ok") -> None:
        """Let it run its next statement, in some way, and go on to the one after it."""
        self._world.current = self
        self._how = how
        self._go.release()
        assert self._back.acquire(timeout=_TURN_SECONDS), f"{self.name} hangs"

    def kill(self) -> None:
        if self.running:
            self.step("kill before")

    # --- its engine ---------------------------------------------------------------------------

    def run(self, statement: Statement, *, lane: int = 0, on_tick: Any = None) -> Outcome:
        if self._killed:
            raise Killed
        self._back.release()
        assert self._go.acquire(timeout=_TURN_SECONDS * 10)
        how, fake = self._how, self._world.fake
        self._ends(how, "before")
        text = statement.sql.reveal()
        tear = int(how[-1]) if how.startswith("tear") and "ATTACH" in text else None
        found = fake.run(text, statement.query_id, tear)
        if text.startswith("INSERT INTO `d`.`_rowfall_journal`"):
            self._world.taken_for_dead.discard(self.name)  # a line renews the lease
        self._ends("lost after" if tear is not None else how, "after")
        return Outcome(data=as_lines(found))

    def ask(self, sql: str, settings: Any = None, *, lane: int = 0) -> list[list[Any]]:
        engine: Any = self
        return EngineQuestions.ask(engine, sql, settings, lane=lane)

    def _ends(self, how: str, side: str) -> None:
        if how == f"kill {side}":
            self._killed = True
            raise Killed
        if how == f"lost {side}":
            raise EngineError("the connection was lost", transient=True)

    def runs(self, query_id: str) -> bool:
        return False  # a statement of the fake ends within its turn

    def finished(self, query_id: str, *, since_start: bool = False) -> bool | None:
        return self._world.fake.log.get(query_id)

    def revive(self) -> None:
        """The server is there."""

    def sync(self) -> None:
        """Here nothing loses power."""

    # --- its life -----------------------------------------------------------------------------

    def _life(self) -> None:
        ledger = None
        try:
            ledger = Ledger(self._path)
            _load(self, ledger)
        except BaseException as error:
            self.failed = error
        finally:
            if ledger is not None:
                ledger.close()
            self.running = False
            self._world.taken_for_dead.add(self.name)
            self._back.release()


class OneAfterTheOther(AttemptRunner):
    """The runner, but an attempt is published before the next one begins: the scheduler knows
    one place where a process stands."""

    def publish(self, attempt: Iterator[bool]) -> None:
        next(attempt, False)


def _load(process: Process, ledger: Ledger) -> None:
    """What a load does, as in rowfall.run: settle the past, then load what is not loaded."""
    engine: Any = process
    old = ledger.unfinished("print")
    load_id = process.name
    if old is not None and ledger.take_up(old, "{}"):
        load_id = old.id
    else:
        ledger.begin(load_id, "print", "source", "target", INTO, "{}")
    claims = Journal(engine, "d", TARGET_UUID, load_id)
    recovery = Recovery(claims, [NodeRecovery(engine, ledger, claims, "d", lambda event: None)])
    recovery.end_all()
    follow_journal(ledger, claims, INTO)
    ledger.set_table(INTO, TARGET_UUID)
    known = ledger.loaded(INTO) | claims.loaded_ids()
    claims.create()
    ledger.add_splits(load_id, SPLITS)
    runner = _runner(process, ledger, claims, recovery, load_id)
    for number, split in enumerate(SPLITS):
        if split.id not in known:
            runner.queue.put(0, Work(number, [split]))
    runner.work(FIRST_LANE)
    if runner.queue.fatal is not None:
        raise runner.queue.fatal
    if runner.counts.failures:
        raise EngineError(str(runner.counts.failures))
    ledger.end(load_id, "done", "{}")


class _Source:
    """Files that nobody changes."""

    replayable = True

    def changed(self, splits: Sequence[Split]) -> list[str]:
        return []


class _Session:
    """What attempts ask of a session."""

    # Steering looks at a server by the clock, which no script controls.
    source, options = _Source(), Options(no_adapt=True)


class _Delivery:
    """Stages splits by one INSERT, of which the model of a server makes their rows."""

    def __init__(self, process: Process) -> None:
        self._engine: Any = process

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Any) -> Outcome:
        splits = ",".join(s.id for s in order.splits)
        text = f"INSERT INTO `d`.`{order.staging}` SPLITS {splits}"
        self._engine.run(Statement(SqlText.of(text)))
        return Outcome(rows_read=len(order.splits) * len(PARTITIONS))


class _Tables:
    """The staging tables of a target without views, as the model of a server knows them."""

    keeps, direct, databases = True, False, ("d",)
    views: tuple[str, ...] = ()
    settings: Mapping[str, int] = {}
    definitions: tuple[str, ...] = ()

    def now(self, ask: Any) -> _Tables:
        return self

    def stage(self, place: str) -> list[SqlText]:
        return [SqlText.of(f"CREATE TABLE `d`.`{place}` AS `d`.`{TARGET}`")]

    def projected(self, rows: Mapping[str, int], prefix: str) -> int:
        return 0

    def pairs(self, place: str) -> tuple[StagingPair, ...]:
        return (StagingPair("d", TARGET, place),)

    def fixed(self, place: str) -> tuple[str, ...]:
        return ()

    def read(self, rows: Mapping[str, int], place: str) -> int:
        return rows[place]


def _runner(
    process: Process, ledger: Ledger, claims: Journal, recovery: Recovery, load_id: str
) -> OneAfterTheOther:
    engine: Any = process

    at = ServerAt("h", 8123, False, "default", None)
    target = Table("clickhouse://h/d", "d", TARGET, Path("/nowhere"), server=at)
    plan = Plan(
        "", PlannedTarget(target.text, "d", TARGET, "server", ""), None,
        Schema((), row_bytes=0.0), Listing(), TRANSPORT,
        PlannedWork((), 1, (), (PlannedWriter(0, "", "", 1, 0, 0, None, 0, ()),)),
        Forecast(None, None, 0, 0), Process.facts, PlanTexts("", ""),
    )  # fmt: skip
    bad_rows, delivery = cast("BadRows", GoodRows()), cast("Delivery", _Delivery(process))
    writer, tables = Writer(0, "", engine, target), cast("StagingTables", _Tables())
    own = OwnTable(engine, "d", TARGET, "", TARGET)
    queue = WorkQueue(1, ledger.attempts(load_id))
    notes = Notes(lambda event: None)
    session = cast("Session", _Session())
    load = LoadRun(session, load_id, silent, "", ledger, INTO, "", new=True)
    given = ReceiverInputs(load, plan, writer, notes, Revivals(notes), queue.stopped)
    writers = (TableWriter(writer, tables, own, None, {}),)
    receiver = TableReceiver(given, claims, recovery, writers, 0, together=False)
    runner = OneAfterTheOther(
        given, receiver, delivery=delivery, bad_rows=bad_rows, queue=queue,
        emit=lambda event: None,
    )  # fmt: skip
    runner._watch = cast("Any", Unwatched())
    return runner


HOWS = st.sampled_from([
    "ok", "ok", "ok", "ok", "kill before", "kill after", "lost before", "lost after", "tear 0",
    "tear 1",
])  # fmt: skip


# Within a lease, just out of it, hours.
JUMPS = st.sampled_from([-86_400.0, -7_200.0, -61.0, -5.0, 5.0, 61.0, 7_200.0, 86_400.0])


class Crashes(RuleBasedStateMachine):
    """Processes of two machines that are crashed anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        # In memory, where it can be: thousands of small transactions, each flushed to disk.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
        self.folder = tempfile.TemporaryDirectory(prefix="rowfall-protocol-", dir=memory)
        world = self.world = World(Path(self.folder.name))
        self.patch.setattr(leases, "this_process", world.me)
        self.patch.setattr(leases, "has_ended", lambda text, beside=None: world.dead(text))
        self.patch.setattr(time, "time", world.time)
        for module, name in (
            (work_queue, "WAIT_SECONDS"), (recover, "POLL_SECONDS"), (fence, "POLL_SECONDS"),
            (journal, "PAUSE_SECONDS"),
        ):  # fmt: skip
            self.patch.setattr(module, name, 0.0)
        self.patch.setattr(retry, "pause", lambda attempt: 0.0)

    def alive(self) -> list[Process]:
        return [p for p in self.world.processes if p.running]

    @precondition(lambda self: len(self.alive()) < 3 and len(self.world.processes) < 8)
    @rule(home=st.integers(0, 1))
    def start(self, home: int) -> None:
        self.world.start(home)

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), turns=st.integers(1, 25))
    def go_on(self, data: st.DataObject, turns: int) -> None:
        process = data.draw(st.sampled_from(self.alive()))
        for _ in range(turns):
            if process.running:
                process.step()
                self.nothing_twice()

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), how=HOWS)
    def crash(self, data: st.DataObject, how: str) -> None:
        process = data.draw(st.sampled_from(self.alive()))
        process.step(how)

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def take_for_dead(self, data: st.DataObject) -> None:
        """A lease that ran out while its process was only slow."""
        self.world.taken_for_dead.add(data.draw(st.sampled_from(self.alive())).name)

    @rule(seconds=JUMPS)
    def jump(self, seconds: float) -> None:
        """The server's clock: whoever has not written since looks dead, or as if from later."""
        self.world.fake.clock += seconds

    @rule(seconds=JUMPS)
    def jump_here(self, seconds: float) -> None:
        """The clock of the machines that rowfall runs on."""
        self.world.clock += seconds

    @rule(partition=st.sampled_from(PARTITIONS))
    def merge(self, partition: str) -> None:
        self.world.fake.merge(partition)

    @rule()
    def clear(self) -> None:
        self.world.fake.clear()

    @rule()
    def lose_log(self) -> None:
        """A server that is killed has not written down what it did last."""
        self.world.fake.log.clear()

    @invariant()
    def nothing_twice(self) -> None:
        counts = Counter(self.world.fake.visible())
        assert counts <= ROWS, f"doubled: {counts - ROWS}"

    def teardown(self) -> None:
        try:
            self.end()
        finally:
            for process in self.alive():
                process.kill()
            self.patch.undo()
            self.folder.cleanup()

    def end(self) -> None:
        """Whoever lives goes on to the end; then one run on each machine that nobody disturbs."""
        # Of unequal speed: rescuers in lockstep would rename each other's tables for ever, which
        # the pauses of real ones prevent.
        speed = random.Random(0)
        for _ in range(_MOST_TURNS):
            alive = self.alive()
            if not alive:
                break
            process = speed.choice(alive)
            for _ in range(speed.randint(1, 60)):
                if process.running:
                    process.step()
                    self.nothing_twice()
        ends = [f"{x.event} {x.attempt} {x.owner}" for x in self.world.fake.journal[-24:]]
        assert not self.alive(), "they wait for each other:\n" + "\n".join(ends)
        for home in (0, 1):
            last = self.world.start(home)
            turns = itertools.count()
            while last.running and next(turns) < _MOST_TURNS:
                last.step()
                self.nothing_twice()
            if isinstance(last.failed, LedgerError):
                # The log does not know a statement that never came or was cut short, and all
                # other evidence has been merged: a person has to decide.
                assert "was changed after a load was interrupted" in str(last.failed)
                return
            assert last.failed is None, repr(last.failed)
        missing = ROWS - Counter(self.world.fake.visible())
        lines = [f"{x.event} {x.attempt} {x.owner} {x.splits}" for x in self.world.fake.journal]
        assert not missing, f"missing: {missing}\n" + "\n".join(lines)
        assert set(self.world.fake.tables) == {TARGET}
        for home in (0, 1):
            ledger = Ledger(self.world.folder / f"{home}.ledger")
            assert not [a for a in ledger.open_attempts()]
            ledger.close()


Crashes.TestCase.settings = settings(
    max_examples=ROUNDS,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestCrashes = pytest.mark.timeout(max(120, 5 * ROUNDS))(Crashes.TestCase)


def test_the_fake_refuses_what_it_does_not_know() -> None:
    with pytest.raises(AssertionError, match="does not know"):
        Fake().run("SELECT 1 FROM system.one", "")
