"""Values kept of a load besides its report: samples over time, happenings, SQL. No I/O."""

from __future__ import annotations

from rowfall.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """Totals of a load at one moment.

    Attributes:
        seconds: since the first attempt began.
        rows: read so far. ``bytes``: of the source, as stored; None where nobody counts them.
        memory: bytes resident in the engine's process (of a server: that the load holds).
        parts: active parts of staging and target together.
    """

    seconds: float
    rows: int
    bytes: int | None
    memory: int
    parts: int


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something that happened while a load ran.

    Attributes:
        kind: ``retry``, ``failure``, ``warning`` or ``steering``.
    """

    seconds: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class RanStatement:
    """A statement that ran, secrets masked.

    Attributes:
        sql: with names of its files and tables as the first of its kind had them.
        times: statements that differ only in attempt, files and ranges.
        first: id of the attempt that ran it first; "" for one of the load as a whole.
    """

    sql: str
    times: int
    first: str


@dataclass(frozen=True, slots=True)
class PartSizes:
    """Active parts of the target at the end of a load, and how fast they became few.

    Attributes:
        bytes: (at most so many bytes on disk, parts) of each class of sizes; a class is four times
            as large as the one before.
        fullest: parts of the partition that has most of them, on one node.
        few: parts that count as few; ``few_after``: seconds from the first statement of the load
            until everything was loaded and so few were active; None where they are still more.
        delay, throw: parts of a partition from which the engine delays and refuses inserts; 0
            where nobody knows.
    """

    bytes: tuple[tuple[int, int], ...] = ()
    fullest: int = 0
    few: int = 0
    few_after: float | None = None
    delay: int = 0
    throw: int = 0


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """The record of the last run of a load; empty of one that an older rowfall has written.

    Attributes:
        samples: some hundred at most, however long the load was.
        happenings: the first of them. ``statements``: distinct ones, those that ran most often.
        durations: (at most so many seconds, attempts) of each class of durations.
        stages: (name, seconds) of work and of waiting, all threads together, in their order.
        memory_limit: bytes that the engine may take; 0 where nobody knows.
    """

    samples: tuple[Sample, ...] = ()
    happenings: tuple[RecordedEvent, ...] = ()
    statements: tuple[RanStatement, ...] = ()
    durations: tuple[tuple[float, int], ...] = ()
    stages: tuple[tuple[str, float], ...] = ()
    memory_limit: int = 0
