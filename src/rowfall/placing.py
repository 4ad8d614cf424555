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
from rowfall.ways import DISTRIBUTED, FILTER

# Measured with 10 M rows of trips data (5 bytes in memory) and 1 M rows of 528 bytes, on 2 and 4
# shards (24.10, CPU seconds of all query logs, one or two runs each): filter took 2R + S and
# 4R + S, distributed R + S + T/2 and R + S + 3T/4.
# Stored bytes of text that a core reads, parses and filters in a second.
_TEXT_RATES = {True: 19e6, False: 77e6}
# rowfall-decode in the servers, filtering included; its start weighs, so about.
_DECODED_RATES = {True: 35e6, False: 150e6}
# Memory bytes of rows out of Parquet and the like, for each CPU second.
_TYPED_RATE = 240e6
# Memory bytes that are sent and taken in a CPU second, both nodes together; and the seconds that a
# row takes besides, for its key and its place.
_SEND_RATE, _SEND_ROW = 240e6, 10e-9


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
    cores = sum(seat.facts.cores for seat in inputs.seats)
    # Files go to shards by their cores.
    home = sum(s * seat.facts.cores / cores for s, seat in zip(shares, inputs.seats, strict=True))
    away = 1 - home
    memory = rows * inputs.schema.row_bytes
    send = memory / _SEND_RATE + rows * _SEND_ROW
    return Costs(len(shares), _read(inputs, todo, memory), send * away, away)


def _read(inputs: Inputs, todo: Sequence[int], memory: float) -> float:
    """CPU seconds of one reading.

    Args:
        memory: bytes of the rows.
    """
    encoding = inputs.encoding
    if encoding is not None and encoding.kind is Kind.TYPED:
        return memory / _TYPED_RATE
    stored = sum(attempts.weight(inputs, i) for i in todo)
    if encoding is None or encoding.kind is not Kind.TEXT:
        return stored / attempts.core_rate(encoding)
    packed = encoding.compression not in ("none", "auto")
    return stored / (_TEXT_RATES if inputs.undecoded else _DECODED_RATES)[packed]
