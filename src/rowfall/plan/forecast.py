"""What a plan is expected to take: rows, seconds, memory, parts, and advice where that is bad."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.model import Facts, Forecast, Group, Kind
from rowfall.plan.attempts import core_rate, weight
from rowfall.plan.decoder import flat_types, zone
from rowfall.plan.inputs import Inputs
from rowfall.plan.settings import ENGINE_BASE, Shape, block, insert_threads
from rowfall.targets.base import Publish

# Raw bytes per stored byte of compressed text, for the forecast only (trips 4.6, taxi 2.9).
_RATIO = 4.0
# More parts than this in one partition and MergeTree delays inserts (parts_to_delay_insert).
DELAY_PARTS = 1_000


def expect(
    inputs: Inputs,
    todo: Sequence[int],
    groups: Sequence[Group],
    facts: Facts,
    shape: Shape,
    lanes: int,
) -> Forecast:
    """Of one engine.

    Args:
        inputs: with the facts of its engine.
        todo: indexes of its splits, in ``groups``.
        facts: what one of its ``lanes`` has.
        shape: of its attempts.
    """
    rows = count(inputs, todo)
    work = sum(weight(inputs, i) for i in todo)
    unknown = inputs.encoding is not None and inputs.listing.total_size is None
    seconds = None if unknown else 0.3 + work / (core_rate(inputs.encoding) * inputs.facts.cores)
    block_rows, block_bytes = block(facts, shape)
    writers = insert_threads(facts, shape)
    block_size = min(block_bytes, int(block_rows * shape.row_bytes))
    if rows is not None and groups:
        block_size = min(block_size, int(rows * shape.row_bytes / writers))
    # A part is made of the only copy of its block.
    copies = 1 if inputs.delivery == "build" else 3
    memory = ENGINE_BASE + lanes * copies * writers * block_size
    parts = 0
    if rows is not None and inputs.target.caps.publish is Publish.ATTACH:
        for group in groups:
            share = rows * len(group.indexes) / max(1, len(todo))
            blocks = max(1, round(share / block_rows + writers / 2))
            parts += blocks * shape.partitions
    return Forecast(rows, seconds, min(memory, inputs.facts.memory), parts, _advice(inputs, parts))


def side_by_side(forecasts: Sequence[Forecast]) -> Forecast:
    """What all writers are expected to do at the same time."""
    rows = [f.rows for f in forecasts]
    seconds = [f.seconds for f in forecasts]
    return Forecast(
        None if None in rows else sum(r or 0 for r in rows),
        None if None in seconds else max(s or 0.0 for s in seconds),
        max(f.memory for f in forecasts),
        sum(f.parts for f in forecasts),
        tuple(dict.fromkeys(advice for f in forecasts for advice in f.advice)),
    )


def count(inputs: Inputs, todo: Sequence[int]) -> int | None:
    """Rows of some splits, None when nothing tells."""
    made = [inputs.listing.rows(i) for i in todo]
    if todo and all(r is not None for r in made):
        return sum(r or 0 for r in made)
    if not todo:
        return 0
    sizes = [inputs.listing.size(i) for i in todo]
    if inputs.encoding is None or any(s is None for s in sizes):
        return None
    stored = float(sum(s or 0 for s in sizes))
    packed = inputs.encoding.compression not in ("none", "auto")
    # Text is about as long as its row in memory and a half; Parquet stores a third of it.
    raw = stored * (_RATIO if packed else 1.0)
    if inputs.encoding.kind is Kind.TYPED:
        raw = stored * 3.0
    return int(raw / max(1.0, inputs.schema.row_bytes * 1.2))


def _advice(inputs: Inputs, parts: int) -> tuple[str, ...]:
    advice = _about_zones(inputs)
    partitions = inputs.schema.partitions
    if partitions > 100:
        advice.append(
            f"The partition key {inputs.schema.partition_by} has about {partitions:,} values: "
            f"every block is cut into as many parts ({parts:,} in all). A coarser key "
            "(toYYYYMM of a date) or none loads and reads faster."
        )
    if partitions and parts / partitions > DELAY_PARTS:
        advice.append(
            f"About {parts // partitions:,} parts per partition are more than MergeTree likes "
            f"({DELAY_PARTS:,}); give the load more --memory, so that blocks get larger."
        )
    return tuple(advice)


def _about_zones(inputs: Inputs) -> list[str]:
    """The same text would be another moment on another shard; nobody sees that afterwards."""
    zones = sorted({writer.facts.timezone for writer in inputs.writers})
    if len(zones) < 2 or inputs.encoding is None or inputs.encoding.kind is Kind.TYPED:
        return []
    local = [c.name for c in inputs.schema.columns if "" in map(zone, flat_types(c.type))]
    if not local:
        return []
    return [
        f"The shards are in different time zones ({', '.join(zones)}), and each reads "
        f"{', '.join(local)} in its own: give such a column a zone, as in DateTime('UTC')."
    ]
