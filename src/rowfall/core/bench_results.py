"""Values of ``rowfall bench``: published figures, rounds, rows, and the whole of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from statistics import median
from typing import Any

from rowfall.core.dataclass import dataclass

BY_HAND, ROWFALL = "by hand", "rowfall"
"""Sides of a comparison: statements that a user would write, and one command."""


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A figure of an article.

    Attributes:
        text: on what it was measured.
        rows, seconds: of the load.
        vcpus: of all machines that loaded, 0 where the article does not say.
        source: title and author of the article.
    """

    text: str
    rows: float
    seconds: float
    vcpus: int
    source: str

    @property
    def per_vcpu(self) -> float | None:
        """Return rows for each second of a vCPU."""
        return self.rows / self.seconds / self.vcpus if self.vcpus else None


@dataclass(frozen=True, slots=True)
class BenchRound:
    """One run of one method.

    Attributes:
        wall: seconds from start to exit of the whole command.
        cpu: CPU seconds of its processes; ``server_cpu``: of the servers that it used.
        memory: bytes resident in its processes together, at most.
        rows: that are there afterwards.
        load: load average of the machine before it.
        more: what else the method measures, as parts or rows of each shard.
    """

    wall: float
    cpu: float
    server_cpu: float
    memory: int
    rows: int
    load: float = 0.0
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class BenchRow:
    """One method of a comparison, with what was published for it and what was measured.

    Attributes:
        article: ``A1`` to ``A5``. ``table``: title of the comparison.
        side: :data:`BY_HAND` or :data:`ROWFALL`.
        published: None where the article has no such figure.
        why: why it did not run, or no further; "" where it ran.
    """

    article: str
    table: str
    method: str
    side: str
    published: PublishedFigure | None = None
    rounds: list[BenchRound] = field(default_factory=list)
    why: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return what tells it from the other rows of a run."""
        return self.article, self.table, self.method, self.side

    @property
    def wall(self) -> float | None:
        """Return the median of the rounds' seconds; None where there are none."""
        return median(r.wall for r in self.rounds) if self.rounds else None

    @property
    def cpu(self) -> float | None:
        """Return the median of the CPU seconds, those of servers included."""
        return median(r.cpu + r.server_cpu for r in self.rounds) if self.rounds else None

    @property
    def memory(self) -> int | None:
        """Return the most bytes that were resident in any round."""
        return max(r.memory for r in self.rounds) if self.rounds else None

    def per_core(self, cores: int) -> float | None:
        """Return the rows for each second of each core of the machine."""
        wall = self.wall
        return self.rounds[0].rows / wall / cores if wall else None


@dataclass(slots=True)
class BenchReport:
    """All rows of a run.

    Attributes:
        machine: cores, memory, CPU, versions.
        scale: rows as a share of the full size. ``wanted``: rounds of each row.
        rows: in the order of the articles.
        seconds: that were spent, in all runs that belong to it.
        stopped: why it is not complete, "" where it is.
        folder: where its results are.
    """

    machine: Mapping[str, Any]
    scale: float
    wanted: int
    rows: Sequence[BenchRow]
    seconds: float = 0.0
    stopped: str = ""
    folder: str = ""


def best_by_hand(row: BenchRow, rows: Sequence[BenchRow]) -> float | None:
    """Return the median seconds of the fastest side by hand in the same comparison."""
    walls = [
        other.wall
        for other in rows
        if other.side == BY_HAND and (other.article, other.table) == (row.article, row.table)
    ]
    known = [wall for wall in walls if wall is not None]
    return min(known) if known else None
