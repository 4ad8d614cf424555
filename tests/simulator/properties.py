"""What must be true: at every moment for readers, and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

TARGET = "t"

if TYPE_CHECKING:
    from simulator.server import Source
    from simulator.world import World


class ViolationError(AssertionError):
    """A promise that is not kept."""


def check_readers(world: World) -> None:
    """Check what a reader sees now: no row twice, no half of a file, nor of a whole load."""
    if world.replaced:
        return  # what is attached by name at that moment is taken back a moment later
    _check_tables(world)


def _check_tables(world: World) -> None:
    for name, rows in world.views():
        if len(set(rows)) != len(rows):
            doubled = [r for r, n in Counter(rows).items() if n > 1]
            world.scheduler.stop(ViolationError(f"doubled in {name}: {doubled}"))
        if wrong := _in_part(world, name, rows):
            world.scheduler.stop(ViolationError(f"{wrong} is visible in {name}: {rows}"))


def _in_part(world: World, name: str, rows: Sequence[Source]) -> str:
    """Return of what a reader sees only a part; "" where all is as it should be."""
    if world.kind == "replace" and name == TARGET:
        # EXCHANGE is one moment, whatever has crashed: the old rows, or the new ones.
        if set(rows) not in (world.replaces, world.everything()):
            return "a mixture of old and new rows"
        return ""
    if world.torn or world.removed or world.replaced:
        return ""
    seen = Counter(row[0] for row in rows if row not in world.others)
    if world.kind == "atomic" and seen and set(seen) != world.holds[name]:
        return "a part of an atomic load"
    if world.kind == "replicas":
        return ""  # Keeper commits partition after partition
    contents = world.server.contents
    return next((f"half of {split}" for split, n in seen.items() if n != len(contents[split])), "")


def is_gathered_twice(world: World, error: BaseException) -> bool:
    """Tell whether a load says that another one has made visible what it has gathered itself."""
    return world.kind == "atomic" and "by another rowfall meanwhile" in str(error)


def check_stop(world: World, error: BaseException) -> None:
    """Check that something has happened after which the code may give up."""
    if not world.excuses and not is_gathered_twice(world, error):
        raise ViolationError(f"it stops without a reason: {error}")


def check_end(world: World, stopped: bool) -> None:
    """Check the end state: every row once, and nothing left over."""
    _check_tables(world)
    if stopped:
        return
    views = world.views()
    if missing := set(world.holds) - {name for name, _ in views}:
        raise ViolationError(f"no table {missing}")
    for name, rows in views:
        counts = Counter(rows)
        wanted = {row for split in world.holds[name] for row in world.server.contents[split]}
        wanted |= world.others if name == TARGET else set()
        if lost := {row for row in wanted if not counts[row]} - world.removed:
            raise ViolationError(f"missing in {name}: {sorted(lost)}")
        if world.kind == "replace" and set(counts) != wanted:
            raise ViolationError(f"old rows in {name}: {sorted(counts)}")
    if world.late or world.replaced or world.forgot or world.kind == "replace":
        # A CREATE TABLE that comes after its DROP; what was staged for a table that is gone; the
        # shadow of a load that nobody goes on with: `rowfall clean` drops it. Loads that nobody
        # remembers leave their staging tables.
        return
    left = [name for server in world.servers for _, name in server.tables
            if name.startswith("_rowfall_") and name != "_rowfall_journal"]  # fmt: skip
    if left:
        raise ViolationError(f"left over: {left}")
