"""Decides how rows reach the shard of their key, by what each way costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.contracts.facts import LoadFacts, ShardingFacts
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.model import (
    ENGINE,
    PUSH,
    Choice,
    Kind,
)
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.plan import attempts

ANY = "any"
"""The value of :attr:`rowfall.core.model.Transport.sharding` without a key."""
# Measured with 10 M rows of trips data (5 bytes in memory) and 1 M rows of 528 bytes, on 2 and 4
# shards (24.10, CPU seconds of all query logs, one or two runs each): filter took 2R + S and
# 4R + S, distributed R + S + T/2 and R + S + 3T/4.
# Stored bytes of text that a core reads, parses and filters in a second, packed or not.
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
    """CPU seconds of all shards together, but for storing, which is the same in both methods.

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

    def text(self, method: str) -> str:
        """Return one sentence for the plan."""
        filtered = (
            f"each of {self.shards} shards reads all files ({self.shards:.1f}x parsing, about "
            f"{self.filtered:.2g} CPU s)"
        )
        sent = (
            f"each reads its share and sends on {self.away:.0%} of the rows (1.0x parsing, about "
            f"{self.distributed:.2g} CPU s)"
        )
        first, other = (filtered, sent) if method == FILTER else (sent, filtered)
        return f"{method}: {first}; otherwise {other}"


def sharding_costs(
    facts: LoadFacts, parser: Choice, todo: Sequence[int], shares: Sequence[float]
) -> Costs | None:
    """Return the costs of both sharding methods for some splits; None where rows are not known.

    Args:
        shares: fraction of the rows that belongs on each shard.
    """
    rows = attempts.rows(facts, todo)
    if rows is None:
        return None
    cores = sum(writer.engine.cores for writer in facts.writers)
    # Files go to shards by their cores.
    home = sum(
        s * writer.engine.cores / cores for s, writer in zip(shares, facts.writers, strict=True)
    )
    away = 1 - home
    memory = rows * facts.schema.row_bytes
    send = memory / _SEND_RATE + rows * _SEND_ROW
    return Costs(len(shares), _reading_cost(facts, parser, todo, memory), send * away, away)


def _reading_cost(facts: LoadFacts, parser: Choice, todo: Sequence[int], memory: float) -> float:
    """Return the CPU seconds of one reading; ``memory`` are the bytes of the rows."""
    encoding = facts.encoding
    if encoding is not None and encoding.kind is Kind.TYPED:
        return memory / _TYPED_RATE
    stored = sum(attempts.weight(facts.listing, i, facts.schema.row_bytes) for i in todo)
    if encoding is None or encoding.kind is not Kind.TEXT:
        return stored / attempts.core_rate(encoding)
    packed = encoding.compression not in ("none", "auto")
    return stored / (_TEXT_RATES if parser.value == ENGINE else _DECODED_RATES)[packed]


def choose_sharding(
    facts: LoadFacts, options: Options, delivery: Choice, parser: Choice, todo: Sequence[int]
) -> Choice:
    """Decide how each row gets to the shard that the sharding key names.

    ``filter``: each shard reads and parses all files and keeps its own rows; none passes between
    nodes. ``distributed``: each reads its share of the files and sends on what belongs elsewhere.

    Raises:
        UsageError: neither can be done, or not the one that was asked for.
    """
    sharding, wish = facts.sharding, options.method
    if sharding is None:
        return Choice(ANY, "any row may be stored by any writer")
    key = sharding.key
    obstacles = {
        FILTER: _no_filter(facts, options, sharding, delivery),
        DISTRIBUTED: no_distributed(sharding),
    }
    able = [method for method, why in obstacles.items() if why is None]
    if obstacles.get(wish):
        raise UsageError(
            f"--method {wish} cannot be used: {obstacles[wish]}",
            hint=f"Take --method {able[0]}, or leave it out." if able else None,
        )
    if not able:
        raise UsageError(
            f"rows cannot be brought to the shards that {key.expression} names: "
            + "; ".join(f"{method}: {why}" for method, why in obstacles.items()),
            hint="Set internal_replication = true for the shards of the cluster.",
        )
    found = None if key.unreplicated else sharding_costs(facts, parser, todo, key.shares)
    method = wish if wish in obstacles else able[0]
    if len(able) > 1 and wish not in obstacles:
        method = found.cheaper if found else DISTRIBUTED
    why = found.text(method) if found else method
    if len(able) == 1:
        other = next(name for name in obstacles if name != method)
        why += f" ({other} does not apply: {obstacles[other]})"
    return Choice(method, why)


def _no_filter(
    facts: LoadFacts, options: Options, sharding: ShardingFacts, delivery: Choice
) -> str | None:
    """Return the reason that shards cannot each read all rows and keep their own; None if none."""
    key: ShardingKey = sharding.key
    if key.unreplicated:
        return "each replica has a table of its own, and would have to read all files"
    if delivery.value == PUSH:
        return "rows are read here, and each would be sent to every shard"
    if key.varies:
        return f"{key.expression} is another value each time that a row is read"
    if facts.listing.total_size is None and facts.listing.total_rows is None:
        return "nothing tells whether the source changes between one reading and the next"
    if options.max_errors or options.max_error_ratio:
        return "bad rows are to be left out, and each shard would have to count them"
    return sharding.refused


def no_distributed(sharding: ShardingFacts) -> str | None:
    """Return the reason that a Distributed table cannot forward rows to shards; None if none."""
    if not sharding.doubled or sharding.key.unreplicated:
        return None
    return (
        "the cluster lets Distributed tables write to each replica (internal_replication = 0), and "
        "the tables replicate by themselves, too"
    )
