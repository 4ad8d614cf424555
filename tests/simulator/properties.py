"""What must be true: at every moment for readers, and in the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

TARGET = "t"

if TYPE_CHECKING:
    from simulator.world import World


class ViolationError(AssertionError):
    """A promise that is not kept."""


def check_readers(world: World) -> None:
    """Check what a reader sees now: no row twice, and no half of a file."""
    if world.replaced:
        return  # what is attached by name at that moment is taken back a moment later
    _check_tables(world)


def _check_tables(world: World) -> None:
    for table in world.targets():
        rows = table.visible()
        if len(set(rows)) != len(rows):
            doubled = [r for r, n in Counter(rows).items() if n > 1]
            world.scheduler.stop(ViolationError(f"doubled in {table.name}: {doubled}"))
        if world.torn or world.removed or world.replaced:
            continue
        for split, seen in Counter(row[0] for row in rows).items():
            if seen != len(world.server.contents.get(split, (0,))):
                text = f"half of {split} is visible in {table.name}: {rows}"
                world.scheduler.stop(ViolationError(text))


def check_stop(world: World, error: BaseException) -> None:
    """Check that something has happened after which the code may give up."""
    if not world.excuses:
        raise ViolationError(f"it stops without a reason: {error}")


def check_end(world: World, stopped: bool) -> None:
    """Check the end state: every row once, and nothing left over."""
    _check_tables(world)
    if stopped:
        return
    server = world.server
    for table in world.targets():
        counts = Counter(table.visible())
        wanted = {row for split in world.holds[table.name] for row in server.contents[split]}
        wanted |= world.others if table.name == TARGET else set()
        missing = {row for row in wanted if not counts[row]} - world.removed
        if missing:
            raise ViolationError(f"missing in {table.name}: {sorted(missing)}")
    if world.late or world.replaced:
        # A CREATE TABLE that comes after its DROP, and what was staged for a table that is gone:
        # `rowfall clean` drops it.
        return
    left = [name for _, name in server.tables
            if name.startswith("_rowfall_") and name != "_rowfall_journal"]  # fmt: skip
    if left:
        raise ViolationError(f"left over: {left}")
