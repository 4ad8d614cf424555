"""What happens to the memory of loads: it is gone, older, of another folder; a lock is lost.

Then a stop is right, and a row that is there twice, or missing after a load that says it is
done, never is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from simulator.faults import fault
from simulator.ledgers import empty_ledger
from simulator.server import Server, Table

if TYPE_CHECKING:
    from simulator.world import Process, World

JOURNAL = ("d", "_rowfall_journal")


def _say(world: World, what: str) -> None:
    world.note(f"SOMEBODY: {what}")
    world.excuses.add(what)


@fault("memory gone", between=True, memory=True)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    """The ledger of a folder is deleted; of a server the journal, and ledgers of machines."""
    if process is not None:
        return
    draw = world.scheduler.random
    if world.shared and draw.random() < 0.7:
        _say(world, "DROP of the journal")
        world.forgot = True
        for one in world.servers:
            one.tables.pop(JOURNAL, None)
    for path, kept in world.ledgers.items():
        if not world.shared or draw.random() < 0.5:
            _say(world, f"{path} is deleted")
            world.forgot = True
            kept.deserialize(empty_ledger())


@fault("a copy is made", memory=True, after=True, between=True)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    """Somebody copies ledger and tables at some moment, also while a load runs."""
    if world.backup is not None:
        return
    world.note("SOMEBODY: copies the folder")
    world.backup = {at: table.copy() for at, table in server.tables.items()}
    world.saved = {path: kept.serialize() for path, kept in world.ledgers.items()
                   if not kept.in_transaction}  # fmt: skip


@fault("the ledger is put back", memory=True, between=True)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    if process is not None or not world.saved:
        return
    _say(world, "the ledger is put back from the copy")
    world.forgot = True
    for path, kept in world.ledgers.items():
        kept.deserialize(world.saved.get(path) or empty_ledger())


@fault("the rows are put back", memory=True, between=True)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    if process is not None or world.backup is None:
        return
    _say(world, "the rows are put back from the copy")
    world.replaced = True
    tables: dict[tuple[str, str], Table] = {at: t.copy() for at, t in world.backup.items()}
    server.tables = tables
    server.restart()


@fault("ledger of another folder", memory=True, between=True)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    """It knows a table of the same name, and files that are in that one."""
    if process is not None:
        return
    for path, kept in world.ledgers.items():
        _say(world, f"{path} is replaced by that of another folder")
        world.forgot = True
        kept.deserialize(empty_ledger())
        key = json.dumps(["d", "t"])
        kept.execute("INSERT INTO target_table VALUES (?, ?)", (key, server.uuid()))
        if world.scheduler.random.random() < 0.5:
            kept.execute("INSERT INTO landed VALUES (?, 'x', 'other_1')", (key,))


@fault("lock lost", memory=True, after=True)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    """Somebody removes the lock file: another load begins in the same folder."""
    if not world.lock_lost:
        _say(world, "the lock file is removed")
        world.lock_lost = True
