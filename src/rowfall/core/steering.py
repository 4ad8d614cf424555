"""Steering: between attempts a load takes less of a server that others use, and comes back. Pure.

:func:`decide` turns the course so far and an observation into the course from now on.
"""

from __future__ import annotations

from dataclasses import replace

from rowfall.core import units
from rowfall.core.dataclass import dataclass

# Shares of what a server has left at which a load takes less, and below which it comes back: far
# enough apart that its own next attempt does not turn it round.
# A partition with parts_to_delay_insert parts slows everybody who inserts. Attempts wait for merges
# at 0.9 of it by themselves; from 0.6 on the others still have room.
PARTS_HIGH, PARTS_CALM = 0.6, 0.4
# At max_server_memory_usage the server refuses statements of anybody. A load plans with half of
# what is free, so it alone stays below this.
MEMORY_HIGH, MEMORY_CALM = 0.85, 0.7
# Seconds and entries that the furthest replica is behind: readers who are sent there see old rows.
# Parts of one attempt arrive within some seconds.
LAG_HIGH, LAG_CALM = 60.0, 20.0
QUEUE_HIGH, QUEUE_CALM = 200, 50
# Half of the threads, a quarter, and then waiting: less than a quarter would only make it longer.
MOST_LEVEL = 3
# Looks in a row with nothing to say before it comes back by one step: merges come in waves.
CALM_LOOKS = 2
# Blocks of halved threads are twice as large, which takes the same memory and makes half the parts;
# larger than this they have not loaded faster, and a statement has a limit of its own.
_MOST_GROWTH = 4

BACK_OFF, COME_BACK = "back off", "come back"
PARTS, MEMORY, REPLICAS = "parts", "memory", "replicas"


@dataclass(frozen=True, slots=True)
class Pressure:
    """How full a server is; 0 for what is not known.

    Attributes:
        parts: active ones of the fullest partition of the table. ``delay_parts``: where the server
            begins to delay inserts.
        memory, memory_limit: bytes of all its statements and caches together.
        lag: seconds that the furthest replica of the table is behind. ``queue``: its entries.
        merges: that run on the table now.
    """

    parts: int = 0
    delay_parts: int = 0
    memory: int = 0
    memory_limit: int = 0
    lag: float = 0.0
    queue: int = 0
    merges: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """Pressure on a server and pace of the load, as seen before an attempt.

    Attributes:
        seconds: since the load began. ``rate``: rows a second since the last look; 0 for none.
    """

    seconds: float
    pressure: Pressure
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class SteeringStep:
    """One change of course, for the report.

    Attributes:
        seconds: since the load began. ``action``: ``back off`` or ``come back``.
        cause: ``parts``, ``memory`` or ``replicas``; of coming back, what it was.
        why: with figures, one clause.
        share: of the planned threads and connections that is used from now on.
        blocks: size of blocks by the planned one; more than 1 as far as threads became fewer.
        waits: it waits before each attempt, as long as the pressure lasts.
        rate: rows a second before; 0 where nothing was loaded yet.
        node: ``host:port`` of a cluster; "" where there is one server.
    """

    seconds: float
    action: str
    cause: str
    why: str
    share: float
    blocks: float
    waits: bool
    rate: float = 0.0
    node: str = ""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How far a load has backed off, and why, from one look to the next.

    Attributes:
        level: 0 as planned, up to :data:`MOST_LEVEL`. ``calm``: looks in a row without pressure.
    """

    level: int = 0
    cause: str = ""
    calm: int = 0

    @property
    def share(self) -> float:
        """Return the share of the planned threads and connections."""
        return 1 / (1 << min(self.level, MOST_LEVEL - 1))

    @property
    def blocks(self) -> float:
        """Return the size of blocks by the planned one."""
        if self.cause == PARTS:
            return min(_MOST_GROWTH, 1 / self.share)
        return self.share if self.cause == MEMORY else 1.0

    @property
    def waits(self) -> bool:
        """Tell whether attempts wait while there is pressure."""
        return self.level >= MOST_LEVEL


def decide(course: Backoff, seen: Observation) -> tuple[Backoff, SteeringStep | None]:
    """Return the course from now on, and the step to report; None where it stays as it was."""
    found = high(seen.pressure)
    if found is not None:
        cause, why = found
        level = min(MOST_LEVEL, course.level + 1)
        after = Backoff(level, cause, 0)
        if (level, cause) == (course.level, course.cause):
            return after, None
        return after, _step(after, seen, BACK_OFF, cause, why)
    if not course.level:
        return course, None
    if not is_calm(seen.pressure):
        return replace(course, calm=0), None
    if course.calm + 1 < CALM_LOOKS:
        return replace(course, calm=course.calm + 1), None
    level = course.level - 1
    after = Backoff(level, course.cause if level else "", 0)
    return after, _step(after, seen, COME_BACK, course.cause, _now(course.cause, seen.pressure))


def high(pressure: Pressure) -> tuple[str, str] | None:
    """Return what presses, and the figures; None where nothing does."""
    if pressure.delay_parts and pressure.parts >= PARTS_HIGH * pressure.delay_parts:
        return PARTS, _now(PARTS, pressure)
    if pressure.memory_limit and pressure.memory >= MEMORY_HIGH * pressure.memory_limit:
        return MEMORY, _now(MEMORY, pressure)
    if pressure.lag >= LAG_HIGH or pressure.queue >= QUEUE_HIGH:
        return REPLICAS, _now(REPLICAS, pressure)
    return None


def is_calm(pressure: Pressure) -> bool:
    """Tell whether a server has room for what was planned."""
    parts = pressure.parts < PARTS_CALM * pressure.delay_parts if pressure.delay_parts else True
    limit = pressure.memory_limit
    memory = pressure.memory < MEMORY_CALM * limit if limit else True
    return parts and memory and pressure.lag < LAG_CALM and pressure.queue < QUEUE_CALM


def _now(cause: str, pressure: Pressure) -> str:
    if cause == PARTS:
        merges = f", {units.counted(pressure.merges, 'merge')} running" if pressure.merges else ""
        return (
            f"the fullest partition has {pressure.parts:,} parts, and inserts are delayed at "
            f"{pressure.delay_parts:,}{merges}"
        )
    if cause == MEMORY:
        return (
            f"the server holds {units.memory(pressure.memory)} of "
            f"{units.memory(pressure.memory_limit)}"
        )
    return (
        f"a replica is {units.duration(pressure.lag)} behind, with "
        f"{pressure.queue:,} entries in its queue"
    )


def _step(course: Backoff, seen: Observation, action: str, cause: str, why: str) -> SteeringStep:
    return SteeringStep(
        round(seen.seconds, 1), action, cause, why, course.share, course.blocks, course.waits,
        round(seen.rate),
    )  # fmt: skip


def said(step: SteeringStep) -> str:
    """Return a step as a sentence for people."""
    where = f"{step.node}: " if step.node else ""
    if step.action == COME_BACK:
        does = (
            "as planned again" if step.share == 1 else f"{units.percent(step.share)} of the threads"
        )
        return f"{where}coming back, {does}: {step.why}"
    does = f"{units.percent(step.share)} of the threads"
    if step.blocks != 1:
        # One thread stays one, and its blocks as they are.
        most = "up to " if step.blocks > 1 else ""
        does += f", blocks {most}{step.blocks:g} x as large"
    if step.waits:
        does += ", waiting before each attempt"
    return f"{where}backing off, {does}: {step.why}"
