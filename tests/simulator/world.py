"""One run: processes, a server and its disk, what happens to them, and what must hold.

:func:`simulate` is the whole of it. A scenario is drawn first: how many processes, which faults and
how often. Then everything runs until all processes have ended; then, undisturbed, the same command
is repeated on each machine until it says that it is done, or stops.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rowfall.core.errors import Exit, RowfallError, TargetError
from rowfall.ledger import journal
from simulator import fleet, properties, seams
from simulator import memory as _memory  # noqa: F401 - it adds to the faults
from simulator import people as _people  # noqa: F401 - so does it
from simulator.faults import FAULTS, MEMORY, NODES, PEOPLE, Fault
from simulator.ledgers import Ledger, new_ledger
from simulator.load import run_load
from simulator.network import OK, Connection
from simulator.old import put_back
from simulator.scheduler import Killed, Scheduler
from simulator.server import Keeper, Running, Server, Source, Table

# A run that nobody disturbs ends what others have left, or asks again; more than this is a hang.
MOST_RUNS = 6
PARTITIONS = ("a", "b")
# Requests around which most can go wrong, and how much more often something happens there.
HOT_WORDS, HOT = re.compile(" ATTACH PARTITION ALL |'commit'|'landed'|sync"), 4
TARGET = "t"
_FORGETS = ("kill", "merge", "outdated parts cleared", "log lost", "pause")
FOCUS: Mapping[str, Sequence[str]] = {
    "views": _FORGETS,
    "evidence": (*_FORGETS, "server killed", "lost answer"),
    "zombies": ("pause", "merge", "outdated parts cleared"),
    "people move parts": (*_FORGETS, "DETACH and ATTACH"),
    "people add columns": ("kill", "pause", "ADD COLUMN"),
    "people set back": ("kill", "BACKUP and RESTORE"),
    "people rebuild": ("kill", "EXCHANGE with a copy"),
    "memory": ("kill", "merge", "outdated parts cleared", "memory gone", "plain INSERT"),
    "memory is older": (
        "kill",
        "merge",
        "power cut",
        "a copy is made",
        "the ledger is put back",
    ),
    "memory is newer": ("kill", "merge", "a copy is made", "the rows are put back"),
    "memory of others": ("kill", "merge", "ledger of another folder"),
    "lock": ("kill", "pause", "merge", "lock lost"),
    "late": ("late request", "late answer", "pause", "merge"),
    "power": ("power cut", "merge", "outdated parts cleared"),
    "power of a server": ("power cut", "long pause", "merge", "kill"),
    "replace": ("late request", "late answer", "lost answer", "kill", "pause", "power cut"),
    "atomic": (
        "late request",
        "late answer",
        "lost answer",
        "kill",
        "pause",
        "merge",
        "power cut",
        "plain INSERT",
    ),
    "replicas": (
        "kill",
        "pause",
        "merge",
        "node away",
        "late answer",
        "Keeper lost",
        "outdated parts cleared",
    ),
    "shards": ("kill", "pause", "merge", "node away", "late request", "shards in another order"),
}
"""Faults that are worth a search of their own, by what is looked for."""
KINDS = ("atomic", "replace", "replicas", "shards", "fleet")
"""Targets and loads that have a search of their own; all others append to tables of one server."""
ALONE = ("memory is older", "memory is newer", "memory of others", "lock")
"""Searches for which it is a data folder."""
SERVERS = ("views", "power of a server", "replicas", "shards", "fleet")
"""Searches for which the target is not a data folder."""
REPLACED = (("o0", "a", 0), ("o1", "b", 0))
"""Rows of a table that is replaced."""


@dataclass(eq=False)
class Process:
    """One rowfall.

    Attributes:
        home: the machine, and so the ledger, that it uses.
        killed: nothing of it runs on. ``silent``: it is paused, so its lease is not renewed.
        failed: what it ended with; None: done.
    """

    name: str
    home: str
    sources: tuple[str, ...]
    table: str = TARGET
    atomic: bool = False
    replace: bool = False
    force: bool = False
    killed: bool = False
    silent: bool = False
    ended: bool = False
    failed: RowfallError | None = None
    beats: list[Callable[[], tuple[Server, str]]] = field(default_factory=list)


@dataclass
class World:
    """Everything of one seed.

    Attributes:
        old: behaviours of earlier versions that are put back, see :mod:`old`.
        spared: what does not happen: the code is known to fail there.
        focus: a name in :data:`FOCUS`; "" for any.
        sources: by table, what is loaded into it; ``holds``: what must be in it in the end.
        group: files of an attempt. ``atomic``: each load becomes visible as a whole.
        shared: the target is a server; otherwise a data folder.
        enabled: faults of this seed; ``during``: those of them that a load meets.
        rate: how often one happens at a request.
        calm: nothing happens any more.
        excuses: what has happened that allows a stop, or rows that are seen in part.
        removed: rows that people have taken away. ``others``: rows that they have put in.
        kind: one of :data:`KINDS`, or "append".
        replaces: rows of a table that is replaced.
        lines: of the table of a load that machines share. ``reports``: of all its workers.
        servers: all of them; ``layout``: the shards of a cluster, each a list of replicas.
        fetches: how often a replica looks whether there is something new.
        edited: when the list of nodes was changed last.
        torn: the server has died inside an ATTACH. ``replaced``: the table is another one now, so
            what was attached to it by its name is taken back. ``late``: requests came late.
        lock_taken_by: who has opened the data folder last. ``lock_lost``: others may open it now,
            although it is in use. ``forgot``: a ledger is not what it was.
        backup: of the database, that somebody has made; ``saved``: of the ledgers beside it.
    """

    seed: int
    old: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()
    focus: str = ""
    tracing: bool = False

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        self.trace: list[str] = []
        self.ledgers: dict[str, Ledger] = {}
        self.processes: list[Process] = []
        self.server = Server(blocks=True)
        self.servers = [self.server]
        self.layout: list[list[Server]] = []
        self.kind, self.fetches, self.edited = "append", 0.0, 0.0
        self.replaces: frozenset[Source] = frozenset()
        self.calm = False
        self.excuses: set[str] = set()
        self.removed: set[Source] = set()
        self.others: set[Source] = set()
        self.backup: dict[tuple[str, str], Table] | None = None
        self.saved: dict[str, bytes] = {}
        self.torn = self.late = self.replaced = False
        self.lock_taken_by: Process | None = None
        self.lock_lost = self.forgot = False
        self.lines: list[fleet.Line] = []
        self.reports = 0
        self._by_fiber: dict[Any, Process] = {}
        self._next_beat = self._passed = 0.0
        self._draw()

    def _draw(self) -> None:
        """Draw the scenario."""
        draw = self.scheduler.random
        focus = self.focus or draw.choice([*FOCUS, *[""] * 6])
        if focus in ALONE:
            self.shared = False
        self.shared = draw.random() < 0.75 if focus not in SERVERS else True
        self.group = draw.choice((1, 1, 2))
        for number in range(draw.choice((1, 2, 2, 3))):
            self.server.contents[f"s{number}"] = [
                (f"s{number}", p, n) for p in PARTITIONS[: draw.choice((1, 2, 2))]
                for n in range(draw.choice((1, 1, 2)))
            ]  # fmt: skip
        self.homes: tuple[str, ...] = ("m0",)
        if self.shared:
            self.homes = draw.choice((("m0",), ("m0", "m1"), ("m0", "m1")))
        names = list(FAULTS)
        self.enabled: list[Fault] = [FAULTS[n] for n in names if draw.random() < 0.4]
        self.people: Fault | None = None
        able = [name for name in PEOPLE if name not in self.spared]
        if able and draw.random() < 0.3:
            self.people = PEOPLE[draw.choice(able)]
            self.enabled.append(self.people)
        self.rate = draw.choice((0.01, 0.03, 0.08))
        self.switches = draw.choice((0.02, 0.1, 0.3))
        self.server.add(Table("d", TARGET, self.server.uuid()))
        self.sources = {TARGET: tuple(self.server.contents)}
        self.holds = {TARGET: frozenset(self.server.contents)}
        many = draw.random() < (1.0 if focus == "views" else 0.15)
        if self.shared and many and "views of two tables" not in self.spared and focus not in KINDS:
            self._add_views()
        if focus:
            self._focus(FOCUS.get(focus, fleet.FAULTS))
        self._draw_kind(focus)
        inserts = self.people is not None and self.people.name == "plain INSERT"
        if self.shared and inserts and "power cut and plain INSERT" in self.spared:
            self.enabled = [f for f in self.enabled if f.name != "power cut"]
        # A data folder is locked while a process uses it: nobody else changes its tables then.
        self.during = [f for f in self.enabled if self.shared or f.name not in PEOPLE]
        self.starts = sorted(draw.random() * 4 for _ in range(draw.choice((1, 2, 2, 3))))
        if self.kind == "fleet":
            self._draw_fleet(draw)

    def _draw_kind(self, focus: str) -> None:
        """Draw what is loaded, and into what; of chances of its own, so that it changes no other.

        Where a search names none, most loads append.
        """
        draw = random.Random(f"{self.seed} {focus}")
        kinds = ("append", "append", "append", "atomic", "replace")
        self.kind = focus if focus in KINDS else "append" if focus else draw.choice(kinds)
        if len(self.sources) > 1:
            self.kind = "append"  # views cannot be replaced
        if self.kind in ("append", "fleet"):
            return
        # What people do to these tables is not said here.
        allowed = "plain INSERT" if self.kind == "atomic" else ""
        self.enabled = [f for f in self.enabled if f.name not in PEOPLE or f.name == allowed]
        self.people = next((f for f in self.enabled if f.name in PEOPLE), None)
        table = self.server.tables["d", TARGET]
        if self.kind in ("replicas", "shards"):
            self._add_node(table)
            self.fetches = draw.choice((0.02, 0.1, 0.5))
        elif draw.random() < 0.2:
            del self.server.tables[table.at]  # the load makes it
        elif self.kind == "replace":
            self.replaces = frozenset(REPLACED)
            for row in REPLACED:
                self.server.part(table, row[1], (row,))["_synced"] = True

    def _draw_fleet(self, draw: random.Random) -> None:
        """Draw a load that four machines share, of which some join late or come again."""
        self.homes = fleet.HOMES[: draw.choice((2, 3, 4, 4))]
        self.rate = draw.choice((0.003, 0.01, 0.03))
        self.starts = sorted(draw.random() * draw.choice((1, 5, 60)) for _ in range(6))

    def _add_node(self, table: Table) -> None:
        """Add a second server: another replica of the table, or another shard."""
        other = Server(self.server.contents, blocks=True, host="n1", number=1)
        self.servers.append(other)
        shards = self.kind == "shards"
        self.layout = [[self.server], [other]] if shards else [[self.server, other]]
        keeper = None if shards else Keeper()
        full = table.engine_full
        if not shards:
            full = full.replace("MergeTree", "ReplicatedMergeTree('/t', '{replica}')", 1)
        for one in self.servers:
            one.layout = self.layout
            one.tables.clear()
            uuid = one.uuid() if shards or one is self.server else self.server.tables[table.at].uuid
            engine = full.partition("(" if not shards else " ")[0]
            one.add(Table("d", TARGET, uuid, engine, full, keeper=keeper))

    def _focus(self, names: Iterable[str]) -> None:
        """Let only some faults happen, so that rare sequences of them are met."""
        able = {name: fault for name, fault in {**FAULTS, **PEOPLE, **NODES, **MEMORY}.items()
                if name not in self.spared}  # fmt: skip
        self.enabled = [able[name] for name in names if name in able]
        self.people = next((f for f in self.enabled if f.name in PEOPLE), None)
        self.rate = 0.03 if "late request" in names and "kill" in names else 0.08

    def _add_views(self) -> None:
        """Add a second table, and a table that views of both of them fill."""
        # As many rows as a file of the other table has: counts alone do not tell them apart.
        self.server.contents["w0"] = [("w0", *row[1:]) for row in self.server.contents["s0"]]
        self.sources["t2"] = ("w0",)
        self.holds["t2"] = frozenset(("w0",))
        self.holds["u"] = frozenset(self.server.contents)
        for name in ("t2", "u"):
            self.server.add(Table("d", name, self.server.uuid()))
        for name in self.sources:
            self.server.add(Table(
                "d", f"{name}_to_u", self.server.uuid(), "MaterializedView", "", (),
                f"SELECT p, k FROM d.{name}", fills=("d", "u"), reads=("d", name),
            ))  # fmt: skip

    # --- processes ----------------------------------------------------------------------------

    def start(
        self, home: str, at: float = 0.0, after: Process | None = None, table: str = TARGET
    ) -> Process:
        """Start the command on a machine.

        Args:
            after: another process, which it waits for: a data folder has one user at a time.
        """
        process = Process(
            f"p{len(self.processes)}", home, self.sources[table], table, self.kind == "atomic",
            self.kind == "replace",
        )  # fmt: skip
        self.processes.append(process)

        def life() -> None:
            if after is not None:
                self.scheduler.wait(lambda: after.ended or self.lock_lost)
                if self.people is not None and self.scheduler.random.random() < 0.3:
                    self.people.act(self, None, self.server, "")
            self.note(f"{process.name}: rowfall load into {table} on {home}")
            try:
                run_load(self, process)
            except Killed:
                self.note(f"{process.name}: is dead")
            except RowfallError as error:
                process.failed = error
                self.note(f"{process.name}: exit {int(error.exit)}: {error.message}")
            else:
                self.note(f"{process.name}: done")
                # All load the same files: from now on nobody may see the old rows again.
                self.replaces = frozenset(self.everything())
                properties.check_readers(self)
            finally:
                process.ended = True

        fiber = self.scheduler.start(process.name, process, life)
        fiber.wakes = self.scheduler.clock + at
        return process

    def fork(self, body: Callable[[], object]) -> Any:
        """Start another thread of the running process."""
        me = self.me()

        def life() -> None:
            body()

        return self.scheduler.start(f"{me.name}'", me, life)

    def time_here(self) -> float:
        """Return the time by the clock of the machine that runs: of a shared load each is wrong."""
        skew = fleet.SKEWS.get(self.me().home, 0.0) if self.kind == "fleet" else 0.0
        return self.scheduler.clock + skew

    def me(self) -> Process:
        """Return the process that runs."""
        fiber = self.scheduler.current
        assert fiber is not None
        assert isinstance(fiber.owner, Process)
        return fiber.owner

    def this_process(self) -> str:
        me = self.me()
        return f"{me.home} {me.name} 1"

    def has_ended(self, text: str) -> bool:
        """Tell whether a process has certainly ended: only those of the same machine are known."""
        home, name, *_ = (*text.split(" "), "", "")
        if home != self.me().home:
            return False
        return next((p.ended or p.killed for p in self.processes if p.name == name), False)

    def connect(self, process: Process, host: str = "") -> Connection:
        """Connect to the server, or to a node of that name; by default to one that answers."""
        if not self.shared:
            self.lock_taken_by = process
        found = [s for s in self.servers if s.up and host in ("", s.host)]
        if not found:
            raise TargetError(f"{host or 'the server'} does not answer", transient=True)
        if not host and "local journal" in self.old:  # each machine has a server of its own
            found = [s for s in found if s.host[1:] == process.home[1:]] or found
        server = found[0] if len(found) == 1 else self.scheduler.random.choice(found)
        return Connection(self, process, server, self.shared)

    def kill(self, process: Process) -> None:
        process.killed = True
        process.ended = True  # its parent knows at once
        self.note(f"{process.name}: kill -9")
        if not self.shared:
            # The engine is a child, which dies, too.
            self.server.running.clear()
            self.server.restart()

    # --- time ---------------------------------------------------------------------------------

    def renews(self, beat: Callable[[], object]) -> None:
        """Take over the thread that renews the leases of a journal."""
        owner = beat.__self__  # type: ignore[attr-defined]
        self.me().beats.append(lambda: (owner._engine.server, owner._line("alive", "")))

    def pass_time(self) -> None:
        """Let living processes renew their leases."""
        for server in self.servers:
            server.clock += self.scheduler.clock - self._passed
            server.uptime += self.scheduler.clock - self._passed
            server.up = server.up or self.scheduler.clock >= server.back
        self._passed = self.scheduler.clock
        if self._next_beat > self._passed:
            return
        self._next_beat = self._passed + journal.RENEW_SECONDS
        for process in self.processes:
            if not (process.ended or process.killed or process.silent):
                for line in process.beats:
                    server, text = line()
                    with suppress(RowfallError):  # the journal is gone
                        if server.up:
                            server.carry_out(text)

    def jump(self, seconds: float) -> None:
        """Let time pass at once."""
        self.scheduler.clock += seconds
        self.pass_time()

    def sleep(self, seconds: float) -> None:
        self._alive(self.me())
        self.scheduler.sleep(seconds)
        self._alive(self.me())
        self.pass_time()

    # --- moments ------------------------------------------------------------------------------

    def _alive(self, process: Process) -> None:
        if process.killed or self.scheduler.error is not None:
            raise Killed

    def _rate(self, text: str) -> float:
        """Return how often something happens around a request."""
        if text.startswith("EXCHANGE"):
            return 0.4  # a load comes to one at most
        return self.rate * HOT if HOT_WORDS.search(text) else self.rate

    def _fault(self) -> Fault:
        weights = [fault.weight for fault in self.during]
        return self.scheduler.random.choices(self.during, weights)[0]

    def before(self, process: Process, server: Server, text: str) -> str:
        """Let something happen before a request is sent; return what becomes of it."""
        self._alive(process)
        self.scheduler.point()
        self.pass_time()
        if server.running:
            self._deliver_some(server)
        if self.layout and (self.calm or self.scheduler.random.random() < self.fetches):
            server.fetch()
        draw = self.scheduler.random
        if draw.random() < self.switches:
            self.scheduler.switch()
            self._alive(process)
        rate = self._rate(text)
        if self.calm or not self.during or draw.random() >= rate:
            return OK
        fault = self._fault()
        fate = fault.act(self, process, server, text) or OK
        self._alive(process)
        return fate

    def after(self, process: Process, server: Server, text: str) -> None:
        """Let something happen after a request was answered, before the process knows."""
        if self.calm or text.startswith(("SELECT", "WITH")):
            return
        draw = self.scheduler.random
        rate = self._rate(text)
        if self.during and draw.random() < rate:
            fault = self._fault()
            if fault.after:
                fault.act(self, process, server, text)
        if draw.random() < self.switches:
            self.scheduler.switch()
        self._alive(process)

    def before_record(self, what: str) -> None:
        process = self.me()
        self._alive(process)
        self.scheduler.point()
        if not self.calm and self.scheduler.random.random() < self.rate:
            self._record_fault(process)
        if self.tracing:
            self.note(f"{process.name}: ledger: {what}")

    def after_record(self, what: str) -> None:
        if not self.calm and self.scheduler.random.random() < self.rate:
            self._record_fault(self.me())
        self._alive(self.me())

    def _record_fault(self, process: Process) -> None:
        """Around a record only what needs no request can happen."""
        able = [f for f in self.during if f.after]
        if able:
            self.scheduler.random.choice(able).act(self, process, self.server, "a record")
        self._alive(process)

    def _deliver_some(self, server: Server) -> None:
        draw = self.scheduler.random
        if server.up and draw.random() < 0.1:
            self.deliver(server, draw.choice(server.running))

    def deliver(self, server: Server, late: Running) -> None:
        """Carry out a request that nobody waits for any more."""
        server.running.remove(late)
        self.late = True
        try:
            self.carry_out(server, late.text, late.query_id, f"late, of {late.owner}")
        except RowfallError as error:
            self.note(f"  refused: {error.message}")

    def carry_out(self, server: Server, text: str, query_id: str, who: str) -> list[list[Any]]:
        reads = text.startswith(("SELECT", "WITH"))
        if self.tracing and not reads:
            self.note(f"{who}: {text[:300]}")
        if text.startswith(fleet.LINE):
            fleet.write(self, server, text)
            return []
        found = server.carry_out(text, query_id)
        if not reads:
            properties.check_readers(self)
        return found

    def tear(self, server: Server, text: str, query_id: str) -> None:
        """Kill the server inside an ATTACH."""
        self.torn = True
        most = self.scheduler.random.randrange(3)
        self.note(f"the server is killed when it has attached {most} parts: {text}")
        with suppress(RowfallError):
            server.carry_out(text, query_id, most)
        server.restart()
        properties.check_readers(self)

    def lose_keeper(self, server: Server, text: str, query_id: str) -> None:
        """Lose Keeper inside an ATTACH: what it has not confirmed is taken back."""
        most = self.scheduler.random.randrange(3)
        self.torn = True
        self.note(f"Keeper is lost after {most} parts: {text}")
        table = server.tables["d", TARGET]
        assert table.keeper is not None
        log = table.keeper.log
        before = len(log)
        with suppress(RowfallError):
            server.carry_out(text, query_id, most + 1)
        if len(log) > before:
            # The last part is not confirmed; it may have got through all the same.
            _, (part,), _ = log.pop()
            next(p for p in table.active() if p["name"] == part["name"])["active"] = 0
            if self.scheduler.random.random() < 0.5:
                log.append((f"{server.host} and Keeper", [part], []))
            else:
                table.keeper.attached.discard(part["uuid"])
        properties.check_readers(self)

    def goes_away(self, server: Server) -> None:
        """Let a server be away for a while."""
        server.up = False
        server.back = self.scheduler.clock + self.scheduler.random.choice((5.0, 40.0, 120.0))

    # --- for faults and checks ----------------------------------------------------------------

    def note(self, text: str) -> None:
        if self.tracing:
            self.trace.append(f"{self.scheduler.clock:8.2f} {text}")

    def targets(self) -> list[tuple[Server, Table]]:
        """Return the tables whose readers are promised something, each with its server."""
        return [
            (server, server.tables["d", name])
            for server in self.servers for name in self.holds if ("d", name) in server.tables
        ]  # fmt: skip

    def views(self) -> list[tuple[str, list[Source]]]:
        """Return what readers see of each table: on each replica, and of all shards together."""
        if self.kind == "shards":
            return [(TARGET, [row for _, table in self.targets() for row in table.visible()])]
        return [(table.name, table.visible()) for _, table in self.targets()]

    def everything(self) -> set[Source]:
        """Return all rows of all files."""
        return {row for rows in self.server.contents.values() for row in rows}

    def ledger(self, path: str) -> Ledger:
        """Return the file of a ledger."""
        if path not in self.ledgers:
            self.ledgers[path] = new_ledger()
        return self.ledgers[path]


def simulate(
    seed: int, old: Iterable[str] = (), spared: Iterable[str] = (), focus: str = "", *,
    tracing: bool = False,
) -> World:  # fmt: skip
    """Run one seed.

    Raises:
        AssertionError: a property does not hold; the world is in its ``world``.
    """
    world = World(seed, frozenset(old), frozenset(spared), focus, tracing)
    seams.use(world)
    journal.RUNNING.clear()
    try:
        with put_back(world.old):
            _run(world)
    except AssertionError as error:
        error.world = world  # type: ignore[attr-defined]
        raise
    finally:
        seams.use(None)
        for ledger in world.ledgers.values():
            ledger.give_back()
    return world


def _run(world: World) -> None:
    before = None
    for at in world.starts:
        home = world.scheduler.random.choice(world.homes)
        table = world.scheduler.random.choice(list(world.sources))
        before = world.start(home, at, None if world.shared else before, table)
    world.scheduler.run()
    draw = world.scheduler.random
    between = [fault for fault in world.enabled if fault.between]
    for fault in draw.choices(between, k=draw.choice((0, 2, 4, 6))) if between else ():
        fault.act(world, None, world.server, "")
    world.calm = True
    for server in world.servers:
        server.up = True
    world.note("--- from here on nothing happens any more")
    found = [_repeat(world, home, table) for home in world.homes for table in world.sources]
    stopped = [error for error in found if error is not None]
    if world.kind == "fleet" and not stopped and not world.reports:
        raise properties.ViolationError("nobody has added the report up")
    for error in stopped:
        properties.check_stop(world, error)
    # Whatever is still on its way arrives now.
    for server in world.servers:
        for late in list(server.running):
            if world.scheduler.random.random() < 0.7:
                world.deliver(server, late)
        server.fetch()
    stopped = [error for error in stopped if not properties.is_gathered_twice(world, error)]
    properties.check_end(world, bool(stopped))


def _repeat(world: World, home: str, table: str) -> RowfallError | None:
    """Repeat the command on one machine until it is done; return the error that stops it."""
    error = None
    for _ in range(MOST_RUNS):
        last = world.start(home, table=table)
        world.scheduler.run()
        error = last.failed
        if error is None or (error.exit is Exit.LEDGER and not error.transient):
            return error
    raise properties.ViolationError(f"the same command does not help: {error!r}")
