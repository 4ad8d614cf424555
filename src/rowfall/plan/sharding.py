"""What it costs to bring each row to the shard that a sharding key says, in the two honest ways.

``filter``: each shard reads and parses all files and keeps its own rows; none passes between nodes.
``distributed``: each reads its share of the files and sends on what belongs elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.core import sql
from rowfall.core.errors import RowfallError, UsageError
from rowfall.core.model import Kind, Schema
from rowfall.core.options import DISTRIBUTED, FILTER
from rowfall.core.sqltext import quote
from rowfall.engines.ask import ask
from rowfall.plan import attempts, forecast
from rowfall.plan.inputs import Inputs
from rowfall.plan.session import Session
from rowfall.targets.table import Table

# What a Distributed table takes for a key when it inserts (StorageDistributed::createSelector).
_INTEGER = re.compile(r"(LowCardinality\()?U?Int(8|16|32|64)\)?")

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
    cores = sum(writer.facts.cores for writer in inputs.writers)
    # Files go to shards by their cores.
    home = sum(
        s * writer.facts.cores / cores for s, writer in zip(shares, inputs.writers, strict=True)
    )
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


def spread(session: Session, inputs: Inputs) -> Inputs:
    """The inputs of a plan with the way that is taken, and why.

    Raises:
        UsageError: the key is none; neither way works, or not the one that was asked for.
    """
    key, wish = session.sharding_key, session.options.method
    if key is None:
        return inputs
    obstacles = {
        FILTER: _no_filter(session, inputs, key),
        DISTRIBUTED: _no_distributed(session, key),
    }
    able = [way for way, why in obstacles.items() if not why]
    if obstacles.get(wish):
        raise UsageError(
            f"--method {wish} cannot be used: {obstacles[wish]}",
            hint=f"Take --method {able[0]}, or leave it out." if able else None,
        )
    if not able:
        raise UsageError(
            f"rows cannot be brought to the shards that {key.expression} says: "
            + "; ".join(f"{way}: {why}" for way, why in obstacles.items()),
            hint="Set internal_replication = true for the shards of the cluster.",
        )
    todo = [i for i in range(len(inputs.listing)) if i not in inputs.landed]
    found = None if key.unreplicated else costs(inputs, todo, key.shares)
    way = wish if wish in obstacles else able[0]
    if len(able) > 1 and wish not in obstacles:
        way = found.cheaper if found else DISTRIBUTED
    why = found.text(way) if found else way
    if len(able) == 1:
        other = next(name for name in obstacles if name != way)
        why += f" ({other} does not apply: {obstacles[other]})"
    inputs = replace(inputs, spread=way, why_spread=why)
    if way == FILTER:
        return replace(inputs, only=key.condition(0))
    assert isinstance(session.target, Table)  # noqa: S101 - clusters are of tables
    return replace(inputs, target=session.target.distributed(key.cluster, key.expression))


def _no_filter(session: Session, inputs: Inputs, key: ShardingKey) -> str:
    """Why not every shard can read all rows and keep its own; "" if each can."""
    refused = _refused(session, inputs.schema, key)
    if key.unreplicated:
        return "each replica has a table of its own, and would have to read all files"
    if inputs.delivery == "push":
        return "rows are read here, and each would be sent to every shard"
    if key.varies:
        return f"{key.expression} is another value each time that a row is read"
    if inputs.listing.total_size is None and inputs.listing.total_rows is None:
        return "nothing tells whether the source changes between one reading and the next"
    if session.options.max_errors or session.options.max_error_ratio:
        return "bad rows are to be left out, and each shard would have to count them"
    return refused


def _refused(session: Session, schema: Schema, key: ShardingKey) -> str:
    """Why the key cannot be told from what is loaded, for a table that is there already.

    Raises:
        UsageError: a Distributed table could not have this key.
    """
    values = ", ".join(
        f"defaultValueOfTypeName({quote(c.type)}) AS {sql.name(c.name)}" for c in schema.columns
    )
    try:
        ((kind,),) = ask(
            session.engine, f"SELECT toTypeName({key.expression}) FROM (SELECT {values})"
        )
    except RowfallError as error:
        if schema.exists:
            return f"{key.expression} cannot be told from the columns that are loaded"
        raise UsageError(
            f"--shard-key {key.expression} does not fit the table: {error.message}",
            hint="Write an expression of its columns, like cityHash64(name).",
        ) from None
    if _INTEGER.fullmatch(str(kind)):
        return ""
    raise UsageError(
        f"the sharding key {key.expression} is a {kind}, and shards are told by whole numbers",
        hint=f"Take a hash of it: --shard-key 'cityHash64({key.expression})'.",
    )


def _no_distributed(session: Session, key: ShardingKey) -> str:
    """Why rows cannot be sent on from shard to shard; "" if they can."""
    cluster = session.shards.cluster if session.shards else None
    if cluster is None or cluster.internal_replication or not cluster.replicated:
        return ""
    if key.unreplicated:
        return ""
    return (
        "the cluster lets Distributed tables write to each replica (internal_replication = 0), and "
        "the tables replicate by themselves, too"
    )
