"""What can happen: each fault is one function here.

``act(world, process, server, text)`` is called at the moment when ``process`` is about to send
``text``; it may return what becomes of that request (see :mod:`network`). A fault that needs no
request (``after``) happens at other moments, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator import properties
from simulator.network import OK
from simulator.scheduler import Killed
from simulator.server import Running, Server

if TYPE_CHECKING:
    from simulator.world import Process, World

Act = Callable[["World", Any, Server, str], str | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that can happen.

    Attributes:
        after: between two requests, too. ``between``: also while no process runs.
    """

    name: str
    act: Act
    weight: float
    after: bool
    between: bool


FAULTS: dict[str, Fault] = {}
"""Whatever happens to processes, requests, servers and disks."""
PEOPLE: dict[str, Fault] = {}
"""Whatever other people do to the tables; of these a seed has one at most."""
NODES: dict[str, Fault] = {}
"""Whatever happens to the nodes of a cluster, and to Keeper."""
MEMORY: dict[str, Fault] = {}
"""Whatever happens to ledgers, journals and locks; each has a search of its own."""


def fault(
    name: str, *, weight: float = 1.0, after: bool = False, between: bool = False,
    people: bool = False, nodes: bool = False, memory: bool = False,
) -> Callable[[Act], Act]:  # fmt: skip
    """Add a function to the faults; see :class:`Fault`."""

    def add(act: Act) -> Act:
        known = PEOPLE if people else NODES if nodes else MEMORY if memory else FAULTS
        known[name] = Fault(name, act, weight, after or between, between)
        return act

    return add


_NO_STATEMENTS = ("finished", "KILL", "sync", "runs", "a record", "mark", "the lock")


def _changes(text: str) -> bool:
    return not text.startswith(("SELECT", "WITH", *_NO_STATEMENTS))


# --- requests -------------------------------------------------------------------------------------


@fault("lost request", weight=2)
def _(world: World, process: Process, server: Server, text: str) -> str:
    world.note(f"{process.name}: request lost: {text[:120]}")
    return "lost request" if _asks(text) else OK


@fault("lost answer", weight=3)
def _(world: World, process: Process, server: Server, text: str) -> str:
    world.note(f"{process.name}: answer lost: {text[:120]}")
    return "lost answer" if _asks(text) else OK


@fault("late request", weight=3)
def _(world: World, process: Process, server: Server, text: str) -> str:
    """The connection breaks, and the server gets the request later."""
    if not _may_be_late(world, text):
        return OK
    world.note(f"{process.name}: request is late: {text[:120]}")
    return "late request"


@fault("late answer", weight=2)
def _(world: World, process: Process, server: Server, text: str) -> str:
    """The connection breaks while the server still works on the request."""
    if not _may_be_late(world, text):
        return OK
    world.note(f"{process.name}: still runs without a connection: {text[:120]}")
    return "late answer"


def _may_be_late(world: World, text: str) -> bool:
    # The engine of a data folder is a child: what it was sent ends with it.
    if " ATTACH PARTITION ALL FROM " in text and "late ATTACH" in world.spared:
        return False
    return world.shared and _changes(text)


def _asks(text: str) -> bool:
    return not text.startswith(_NO_STATEMENTS)


# --- processes ------------------------------------------------------------------------------------


@fault("kill", weight=3, after=True)
def _(world: World, process: Process, server: Server, text: str) -> str:
    world.kill(process)
    raise Killed


@fault("kill with a request under way", weight=2)
def _(world: World, process: Process, server: Server, text: str) -> str:
    if _changes(text) and world.shared:
        arrived = world.scheduler.random.random() < 0.5
        server.running.append(Running(text, "", arrived, process.name))
        world.note(f"{process.name}: under way: {text[:120]}")
    world.kill(process)
    raise Killed


@fault("pause", weight=2, after=True)
def _(world: World, process: Process, server: Server, text: str) -> None:
    """The process is stopped for longer than its lease."""
    if not world.shared:
        return
    world.note(f"{process.name}: is paused")
    process.silent = True
    world.jump(61 + world.scheduler.random.random() * 60)
    world.scheduler.sleep(world.scheduler.random.choice((0.2, 1.0, 5.0)))
    process.silent = False
    world.note(f"{process.name}: goes on")


# --- servers and disks ----------------------------------------------------------------------------


@fault("server killed", weight=1)
def _(world: World, process: Process, server: Server, text: str) -> str:
    if " ATTACH PARTITION ALL FROM " in text:
        return "torn"
    world.note("the server is killed and started again")
    server.restart()
    return "lost request" if _asks(text) else OK


@fault("merge", weight=2, between=True)
def _(world: World, process: Process, server: Server, text: str) -> None:
    for at, table in world.targets():
        partition = world.scheduler.random.choice("ab")
        if at.merge(table, partition):
            world.note(f"partition {partition} of {table.name} is merged")


@fault("outdated parts cleared", weight=1, between=True)
def _(world: World, process: Process, server: Server, text: str) -> None:
    merges = world.scheduler.random.random() < 0.5
    for at, table in world.targets():
        for partition in "ab" if merges else "":
            at.merge(table, partition)
    world.note("all is merged, and " * merges + "outdated parts are cleared away")
    world.excuses.add("outdated parts cleared")
    for one in world.servers:
        one.clear()


@fault("log lost", weight=1, between=True)
def _(world: World, process: Process, server: Server, text: str) -> None:
    world.note("system.query_log is lost")
    server.log.clear()


@fault("clock jumps", weight=1, between=True)
def _(world: World, process: Process, server: Server, text: str) -> None:
    seconds = world.scheduler.random.choice((-86_400.0, -61.0, -5.0, 5.0, 61.0, 86_400.0))
    world.note(f"the server's clock jumps by {seconds} s")
    server.clock += seconds


@fault("power cut", weight=2, after=True)
def _(world: World, process: Process, server: Server, text: str) -> str | None:
    """The machine with the rows loses power: what was not synced is gone.

    That of a data folder runs the process, too; a server takes its time to come back.
    """
    world.note(f"POWER CUT of {server.host}")
    draw = world.scheduler.random
    likely = draw.choice((0.0, 0.5, 1.0))
    server.cut_power(lambda: draw.random() < likely)
    world.torn = True
    if world.shared:
        world.goes_away(server)
    else:
        world.kill(process)
    properties.check_readers(world)
    if world.shared:
        return OK  # it does not arrive
    raise Killed


# --- nodes of a cluster, and Keeper ---------------------------------------------------------------


@fault("node away", weight=3, after=True, between=True, nodes=True)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    """A node ends, and comes back after a while; its disk is as it was."""
    one = world.scheduler.random.choice(world.servers)
    world.note(f"{one.host} does not answer")
    one.restart()
    world.goes_away(one)


@fault("shards in another order", weight=1, between=True, nodes=True)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    """Somebody edits ``remote_servers``; servers look at their configuration every two seconds."""
    begun = any(("d", "_rowfall_journal") in one.tables for one in world.servers)
    # Two loads that come first, at that moment, may begin two journals; later ones stop (exit 3).
    if not begun or world.scheduler.clock < world.edited + 2:
        return
    world.edited = world.scheduler.clock
    world.note("the list of nodes is turned around")
    world.layout.reverse()
    for shard in world.layout:
        shard.reverse()


@fault("Keeper lost", weight=2, nodes=True)
def _(world: World, process: Process, server: Server, text: str) -> str:
    """A replica loses Keeper inside an ATTACH, or right before it."""
    return "keeper" if " ATTACH PARTITION ALL FROM `d`.`_rowfall_" in text else OK


@fault("long pause", weight=2, after=True, nodes=True)
def _(world: World, process: Process, server: Server, text: str) -> None:
    """The process is stopped for so long that a machine can start again meanwhile."""
    world.note(f"{process.name}: is paused for long")
    process.silent = True
    world.scheduler.sleep(300.0)
    process.silent = False
    world.note(f"{process.name}: goes on")
