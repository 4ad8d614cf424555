"""What other people do to the tables, during a load or between a crash and the next run.

A seed has one of these at most. Each says in ``excuses`` what the promise does not cover then: a
stop, or rows that were taken away. What it never covers is a row that is there twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator import properties
from simulator.faults import fault
from simulator.ledgers import empty_ledger
from simulator.server import NO_UUID, Server, Table

if TYPE_CHECKING:
    from simulator.world import Process, World


def _target(world: World) -> Table | None:
    return next((table for _, table in world.targets()), None)


def _partition(world: World, table: Table) -> str | None:
    found = sorted({p["partition_id"] for p in table.active() if p["rows"]})
    return world.scheduler.random.choice(found) if found else None


def _say(world: World, what: str) -> None:
    world.note(f"SOMEBODY: {what}")
    world.excuses.add(what)


@fault("plain INSERT", people=True, between=True, weight=4)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    table = _target(world)
    if table is None:
        return
    partition = world.scheduler.random.choice("ab")
    row = (f"u{len(world.others)}", partition, 0)
    world.others.add(row)
    _say(world, f"INSERT of one row into partition {partition}")
    server.part(table, partition, (row,))["_synced"] = True


@fault("DETACH and ATTACH", people=True, between=True, weight=4)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    table = _target(world)
    partition = _partition(world, table) if table else None
    if table is None or partition is None:
        return
    if world.scheduler.random.random() < 0.7:
        # OPTIMIZE FINAL writes a single part again, too: it loses its UUID.
        server.merge(table, partition, world.scheduler.random.choice((1, 2)))
    if world.scheduler.random.random() < 0.7:
        server.clear()
    _say(world, f"DETACH and ATTACH of partition {partition}")
    server.carry_out(f"ALTER TABLE `d`.`t` DETACH PARTITION ID '{partition}'")
    if process is None and world.scheduler.random.random() < 0.3:
        server.restart()  # block numbers begin again after the highest that is left
    server.carry_out(f"ALTER TABLE `d`.`t` ATTACH PARTITION ID '{partition}'")
    server.sync()


@fault("DROP PARTITION", people=True, between=True, weight=2)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    table = _target(world)
    partition = _partition(world, table) if table else None
    if table is None or partition is None:
        return
    _say(world, f"DROP of partition {partition}")
    world.removed |= {row for row in table.visible() if row[1] == partition}
    server.carry_out(f"ALTER TABLE `d`.`t` DROP PARTITION ID '{partition}'")


@fault("TRUNCATE", people=True, between=True, weight=2)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    table = _target(world)
    if table is None:
        return
    _say(world, "TRUNCATE")
    world.removed |= set(table.visible())
    server.carry_out("TRUNCATE TABLE `d`.`t`")


@fault("ADD COLUMN", people=True, between=True, weight=2)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    table = _target(world)
    if table is None or len(table.columns) > 3:
        return
    world.note("SOMEBODY: ADD COLUMN")  # no reason to stop
    server.carry_out(f"ALTER TABLE `d`.`t` ADD COLUMN `c{len(table.columns)}` String")


@fault("DROP and CREATE", people=True, between=True, weight=1)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    table = _target(world)
    if table is None or len(world.sources) > 1:
        return  # what views have made of the old rows stays in their tables
    _say(world, "DROP and CREATE of the table")
    world.others.clear()
    world.replaced = True
    server.tables.pop(table.at)
    server.add(Table("d", table.name, server.uuid()))


@fault("EXCHANGE with a copy", people=True, between=True, weight=1)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    """Somebody copies the rows into a new table, and puts it in place of the old one."""
    table = _target(world)
    if table is None or len(world.sources) > 1:
        return  # see above
    _say(world, "EXCHANGE with a rebuilt copy")
    world.replaced = True
    made = Table("d", table.name, server.uuid(), columns=table.columns)
    for partition in sorted({p["partition_id"] for p in table.active() if p["rows"]}):
        rows = [r for p in table.active() if p["partition_id"] == partition for r in p["_rows"]]
        server.part(made, partition, rows, uuid=NO_UUID)
    if world.scheduler.random.random() < 0.3:
        server.rename(table, ("d", f"t_{table.uuid[:8]}"))
    else:
        server.tables.pop(table.at)
    server.add(made)
    properties.check_readers(world)


def _publishing(server: Server) -> bool:
    """Tell whether the journal holds a commit of which nothing says yet how it has ended."""
    begun, over = set(), set()
    for table in server.tables.values():
        for line in table.lines or ():
            if line["event"] == "commit":
                begun.add(line["attempt"])
            elif line["event"] in ("landed", "release", "expire", "forget"):
                over.add(line["attempt"])
    return bool(begun - over)


@fault("BACKUP and RESTORE", people=True, between=True, weight=3)
def _(world: World, process: Process | None, server: Server, text: str) -> None:
    """First a backup of the database; the next time it is put in place of what is there."""
    if world.backup is None:
        world.note("SOMEBODY: BACKUP")
        world.backup = {at: table.copy() for at, table in server.tables.items()}
        world.saved = {path: kept.serialize() for path, kept in world.ledgers.items()}
        return
    if "RESTORE inside a publish" in world.spared and _publishing(server):
        return
    _say(world, "RESTORE of the database")
    world.replaced = True
    draw = world.scheduler.random
    # A snapshot of the disk keeps the tables' UUIDs; RESTORE makes new ones.
    renew = draw.random() < 0.5
    if not (renew or world.shared):  # the ledger lies in the folder
        for path, kept in world.ledgers.items():
            kept.deserialize(world.saved.get(path) or empty_ledger())
    world.others &= {r for t in world.backup.values() for r in t.visible()}
    server.tables = {at: table.copy() for at, table in world.backup.items()}
    for table in server.tables.values():
        table.uuid = server.uuid() if renew else table.uuid
    server.restart()
    properties.check_readers(world)
