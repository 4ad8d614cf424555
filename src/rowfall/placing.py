"""What it costs to bring each row to the shard that a sharding key says, in the two honest ways.

``filter``: each shard reads and parses all files and keeps its own rows; none passes between nodes.
``distributed``: each reads its share of the files and sends on what belongs elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowfall import attempts, forecast
from rowfall.inputs import Inputs
from rowfall.model import Kind
from rowfall.planner import DISTRIBUTED, FILTER

# Stored bytes that a core reads and parses in a second, without storing what comes out of it.
_READ_RATES: dict[tuple[Kind, bool], float] = {}
_DECODED_RATE = 0.0
# Memory bytes of rows that are hashed, packed, sent, unpacked in a CPU second, both nodes together.
_SEND_RATE = 200e6


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds of all shards together, but for storing, which is the same in both ways.

    Attributes:
        read: of one reading of all files.
        send: of sending rows between shards.
        away: which part of the rows is sent.
    """

    shards: int
    read: float
    send: float
    away: float

    @property
    def filtered(self) -> float:
        return self.shards * self.read

    @property
    def distributed(self) -> float:
        return self.read + self.send

    @property
    def cheaper(self) -> str:
        return FILTER if self.filtered <= self.distributed else DISTRIBUTED

    def text(self, way: str) -> str:
        """One sentence for the plan."""
        filtered = (
            f"each of {self.shards} shards reads all files ({self.shards:.1f}x parsing, about "
            f"{self.filtered:.2g} CPU s)"
        )
        sent = (
            f"each reads its share and sends on {self.away:.0%} of the rows (1.0x parsing, about "
            f"{self.distributed:.2g} CPU s)"
        )
        first, other = (filtered, sent) if way == FILTER else (sent, filtered)
        return f"{way}: {first}; the other way, {other}"


def costs(inputs: Inputs, todo: Sequence[int], shares: Sequence[float]) -> Costs | None:
    """Both ways for some splits, None where their size is not known.

    Args:
        shares: which part of the rows belongs on each shard.
    """
    rows = forecast.count(inputs, todo)
    if rows is None:
        return None
    work = sum(attempts.weight(inputs, i) for i in todo)
    cores = sum(seat.facts.cores for seat in inputs.seats)
    # Files go to shards by their cores.
    home = sum(s * seat.facts.cores / cores for s, seat in zip(shares, inputs.seats, strict=True))
    away = 1 - home
    send = rows * inputs.schema.row_bytes / _SEND_RATE
    return Costs(len(shares), work / _rate(inputs), send * away, away)


def _rate(inputs: Inputs) -> float:
    return attempts.core_rate(inputs.encoding)
