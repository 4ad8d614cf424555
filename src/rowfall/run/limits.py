"""Say in one sentence what limited a load: what would have to be faster. Pure.

The words fit what was done: generated rows are not parsed, an export is not sorted, and rows that a
server reads do not wait for this machine's disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rowfall.core import units
from rowfall.core.dataclass import dataclass

# Below this, a load says nothing about what is fast and what is slow.
SHORT_SECONDS, FEW_ROWS = 0.5, 10_000
# Publishing that takes more than this share of the working time is what there is to say.
PUBLISH_SHARE = 0.4
# Above this share of the cores they are the limit; with what waited for a core, above the other.
BUSY, BUSY_WAITING = 0.75, 0.9


@dataclass(frozen=True, slots=True)
class EngineEffort:
    """Time that the engine that stores the rows has spent, and the cores that it had.

    Attributes:
        cpu: CPU seconds; 0 of a ``server`` where they may not be read.
        cores: of all nodes together.
        waited: seconds that threads were ready while others had the cores.
        blocks: the seconds of phases go on while a thread waits for a disk, as an engine counts
            them; of rowfall-decode they are CPU seconds.
    """

    cpu: float
    cores: int
    server: bool = False
    waited: float = 0.0
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """Traits of the source of a load that decide what can be its limit.

    Attributes:
        generated: they are made, not read. ``text``: they are parsed. ``packed``: they are
            unpacked. ``remote``: they come over the network.
        streamed: of a database or a queue.
        objects: objects that are read side by side (1: nothing to spread over cores).
    """

    generated: bool = False
    text: bool = True
    packed: bool = False
    remote: bool = False
    streamed: bool = False
    objects: int = 1


@dataclass(frozen=True, slots=True)
class Effort:
    """Rows, bytes and seconds of a load, by which its limit is found.

    Attributes:
        seconds: wall seconds.
        engine: of the engine that stores the rows.
        here: CPU seconds of this machine where it read rows and sent them; None where it did not.
        cores_here: of this machine.
        phases: seconds of work per phase, all threads together; empty where nothing tells.
        target: ``table``, ``database``, ``files`` or ``nothing``.
        few: so few rows that their number is no reason for anything.
        partitioned: the table, or one behind its views, has a partition key.
    """

    seconds: float
    engine: EngineEffort
    source: SourceTraits = SourceTraits()
    here: float | None = None
    cores_here: int = 1
    phases: Mapping[str, float] = field(default_factory=dict)
    target: str = "table"
    few: bool = False
    partitioned: bool = False


def limited_by(effort: Effort) -> str:
    """Return the sentence; "" where nothing was done."""
    if not effort.seconds:
        return ""
    if effort.seconds < SHORT_SECONDS or effort.few:
        took = units.duration(effort.seconds)
        return f"Start-up and bookkeeping: the rows themselves took {took}."
    if _share(effort, "publish") > PUBLISH_SHARE:
        if effort.target == "database":
            return "The database: committing took longer than sending the rows."
        if effort.target != "table":
            return "Publishing: finishing the files took longer than writing their rows."
        if not effort.partitioned:
            share = units.percent(_share(effort, "publish"))
            return f"Publishing: attaching the parts took {share} of the working time."
        return "Publishing: many parts had to be attached; a coarser partition key makes fewer."
    if effort.here is not None:
        return _pushed(effort)
    if effort.engine.server and not effort.engine.cpu:
        return "Not known: this user may not read the server's query_log."
    used = effort.engine.cpu / effort.seconds
    waits = effort.engine.waited / effort.seconds
    if used > BUSY * effort.engine.cores or used + waits > BUSY_WAITING * effort.engine.cores:
        if used <= BUSY * effort.engine.cores:
            return f"Other processes: the load got only {_cores(used, effort.engine.cores)}."
        most = _most(effort)
        whose = "The server's CPU" if effort.engine.server else "The CPU"
        return f"{whose}: {_busy(used, effort.engine.cores)}{f', mostly {most}' if most else ''}."
    if effort.source.objects < effort.engine.cores and used > 0.6 and not effort.source.generated:
        few = (
            "1 file keeps 1"
            if effort.source.objects == 1
            else f"{effort.source.objects} files keep {effort.source.objects}"
        )
        few += f" of {units.counted(effort.engine.cores, 'core')} busy"
        return f"Too few files: {few}; more and smaller files load faster."
    return _waiting(effort, used)


def _pushed(effort: Effort) -> str:
    """Return the sentence for rows that this machine read and sent to a server."""
    used, here = effort.engine.cpu / effort.seconds, (effort.here or 0.0) / effort.seconds
    mine = _busy(here, effort.cores_here) + " here, reading and sending"
    there = f"{_busy(used, effort.engine.cores)} on the server"
    if not effort.engine.cpu:
        there = "the server's share is not known, as this user may not read its query_log"
    if here > BUSY * effort.cores_here:
        return f"The CPU of this machine: {mine}; {there}."
    if used > BUSY * effort.engine.cores:
        return f"The server's CPU: {there}; {mine}."
    if not effort.engine.cpu:
        return f"Not the CPU of this machine: {mine}; {there}."
    return f"No CPU: {mine}, {there}. The network, a disk or other loads held it up."


def _waiting(effort: Effort, used: float) -> str:
    """Return the sentence for cores that were not busy."""
    busy = _busy(used, effort.engine.cores)
    cpu = "Not the server's CPU" if effort.engine.server else "Not the CPU"
    if effort.target == "database":
        return f"The database: {busy} here, waiting for it to take the rows."
    if effort.target == "nothing" and effort.source.generated:
        return f"{cpu}: {busy}; other processes held it up."
    # Where the threads' own time is much longer than their CPU time, they have waited in it.
    far = "the source" if effort.source.streamed else "the object store"
    blocked = (
        effort.engine.blocks
        and sum(effort.phases.values()) - effort.engine.cpu > 0.25 * effort.seconds
    )
    if not blocked:
        held = f"the network or {far}" if effort.source.remote else "a disk or other processes"
        return f"{cpu}: {busy}; {held} held it up."
    reads = _share(effort, "read", "convert") >= _share(effort, "insert")
    if effort.source.generated or not reads:
        disk = "The server's disk" if effort.engine.server else "The target disk"
        return f"{disk}: {busy} while it was written."
    where = f"the network or {far}" if effort.source.remote else "the source disk"
    return f"Waiting for {where}: {busy} while it was read."


def _share(effort: Effort, *phases: str) -> float:
    """Return the share of the working time that went into phases, 0..1."""
    total = sum(effort.phases.values())
    return sum(effort.phases.get(p, 0.0) for p in phases) / total if total else 0.0


def _cores(used: float, cores: int) -> str:
    """Return ``1.8 of 2 cores``; never more than there are: clocks of processes differ."""
    return f"{min(used, cores):.1f} of {units.counted(cores, 'core')}"


def _busy(used: float, cores: int) -> str:
    return f"{_cores(used, cores)} busy"


def _most(effort: Effort) -> str:
    """Return the work that took most of the time, with its share; "" where none was measured."""
    read, insert = _share(effort, "read", "convert"), _share(effort, "insert")
    if not read + insert:
        return ""
    if read < insert:
        words = {
            "files": "formatting and writing", "nothing": "passing rows on",
            "database": "writing text for the database",
        }  # fmt: skip
        what = words.get(effort.target, "sorting, compressing and writing")
        return f"{what} ({units.percent(insert)})"
    if effort.source.generated:
        return f"making the rows ({units.percent(read)})"
    unpacks = "unpacking, " if effort.source.packed else ""
    what = "parsing" if effort.source.text else "decoding"
    return f"{unpacks}{what} and converting ({units.percent(read)})"
