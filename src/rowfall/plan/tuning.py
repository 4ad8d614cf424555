"""Combinations of what can be chosen of a load, for ``rowfall tune`` to try. Pure.

Each destination says which it has. The first cell of every list is the load as it is planned.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rowfall.contracts.facts import LoadFacts
from rowfall.core import units, uri
from rowfall.core.model import BUILD, Plan
from rowfall.core.options import Options
from rowfall.core.tuned import Cell
from rowfall.plan.planner import statement_of
from rowfall.plan.settings import (
    COPIES_PER_BLOCK,
    OWN_PARQUET,
    block_settings,
    most_block,
)

PARTS, INSERTING, BLOCK = "parts by", "insert threads", "block"
DECODER, ENGINE = "decoder", "engine"
CONNECTIONS, ATTEMPT, THREADS = "connections", "attempt", "threads"
"""Names of what can be chosen."""
# The published sweep goes from 1 to 80 million rows of 20 to 100 bytes. Four times as much from one
# to the next shows where it turns; with twice as much neighbours differ by less than two runs.
_BLOCKS = tuple(mib << 20 for mib in (16, 64, 256, 1024))
# A load takes at most eight by itself; twice as many shows whether more would help.
_CONNECTIONS = (1, 2, 4, 8, 16)
# Of the formula: copies of a block that an insert thread holds.
_FORMULA_COPIES = 3
_CORES_SHARE = 2

Choices = Sequence[tuple[str, Mapping[str, Any]]]
"""(value as people read it, options) of one thing that can be chosen."""


def of_blocks(facts: LoadFacts, plan: Plan, options: Options, rows: int) -> list[Cell]:
    """Return insert threads x block sizes x who writes parts x connections, as far as there are.

    Args:
        rows: of the largest sample: blocks that it does not fill are alike.
    """
    share, shape = statement_of(facts, plan)
    given = {text.partition("=")[0] for text in options.set}
    threads = [] if "max_insert_threads" in given else powers(share.cores)
    held = int(rows * shape.row_bytes)
    kinds: list[tuple[str, Choices]] = []
    built = plan.transport.delivery.value == BUILD
    if built and options.build == "auto":
        parts: Choices = ((DECODER, {}), (ENGINE, {"build": "off"}))
        kinds.append((PARTS, parts))
    if plan.transport.streams and not options.streams:
        kinds.append((CONNECTIONS, _connections(plan.transport.streams)))
    blocked = any(name.startswith("min_insert_block_size") for name in given)
    found: list[Cell] = []
    for count in threads or [0]:
        sizes = [] if blocked else fitting(_BLOCKS, held // max(1, count))
        for size in sizes or [0]:
            grid = list(_of_grid(kinds))
            found += [_block_cell(facts, plan, count, size, one) for one in grid]
    formula = [] if blocked or not threads else [_formula(facts, plan)]
    return [_planned(plan, kinds), *formula, *found]


def _planned(plan: Plan, kinds: Sequence[tuple[str, Choices]]) -> Cell:
    """Return the cell of the load as it is planned."""
    sets = {setting.name: setting.value for setting in plan.work.settings}
    size = sets.get("min_insert_block_size_bytes", 0)
    # Half of it, where the reader of Parquet makes whole blocks.
    size = sets.get("input_format_parquet_prefer_block_bytes", size)
    own = {PARTS: DECODER, CONNECTIONS: str(plan.transport.streams)}
    choices = [(name, own[name]) for name, _ in kinds]
    choices.append((INSERTING, str(sets.get("max_insert_threads", 1))))
    choices.append((BLOCK, units.memory(int(size))))
    return Cell(tuple(choices), {})


def _block_cell(
    facts: LoadFacts, plan: Plan, count: int, size: int,
    others: tuple[tuple[tuple[str, str], ...], Mapping[str, Any]],
) -> Cell:  # fmt: skip
    share, shape = statement_of(facts, plan)
    choices, options = list(others[0]), dict(others[1])
    sets: dict[str, int] = {}
    if count:
        choices.append((INSERTING, str(count)))
        sets["max_insert_threads"] = count
    refused = None
    if size:
        choices.append((BLOCK, units.memory(size)))
        sets |= block_settings(share, shape, size)
        most = most_block(share, shape, max(1, count))
        if size > most:
            needs = units.memory(size * max(1, count) * (COPIES_PER_BLOCK + shape.decoded))
            refused = f"{needs} of blocks are more than --memory {units.memory(share.memory)} has"
    options["set"] = tuple(f"{name}={value}" for name, value in sets.items())
    return Cell(tuple(choices), options, refused)


def _formula(facts: LoadFacts, plan: Plan) -> Cell:
    """Return the cell of ClickHouse's guide to large loads.

    min_insert_block_size_bytes = peak memory / (3 x max_insert_threads), and half the cores insert
    (https://clickhouse.com/blog/supercharge-your-clickhouse-data-loads-part2).
    """
    share, shape = statement_of(facts, plan)
    count = max(1, share.cores // _CORES_SHARE)
    size = share.memory // (_FORMULA_COPIES * count)
    # Bytes alone decide; a limit of no rows would be one to rowfall-decode.
    rows = int(size / max(shape.row_bytes, 1.0)) if shape.decoded else 0
    sets = {"max_insert_threads": count, "min_insert_block_size_rows": rows,
            "min_insert_block_size_bytes": size}  # fmt: skip
    if OWN_PARQUET.keys() & block_settings(share, shape, size).keys():
        sets |= OWN_PARQUET  # as the engine has them, which the formula was measured with
    choices = ((INSERTING, str(count)), (BLOCK, units.memory(size)))
    options = {"set": tuple(f"{name}={value}" for name, value in share.known(sets).items())}
    return Cell(choices, options, is_formula=True)


def of_connections(
    facts: LoadFacts, plan: Plan, options: Options, *, most: int | None = None
) -> list[Cell]:
    """Return connections x rows of one transaction.

    Args:
        most: connections that the target takes; None for no limit.
    """
    kinds: list[tuple[str, Choices]] = []
    own: list[tuple[str, str]] = []
    if not options.streams and most != 1:
        own.append((CONNECTIONS, str(plan.work.lanes)))
        counts = [n for n in _CONNECTIONS if n <= min(most or _CONNECTIONS[-1],
                                                      4 * facts.cores_here)]  # fmt: skip
        kinds.append((CONNECTIONS, tuple((str(n), {"streams": n}) for n in counts)))
    sizes = [group.size for group in plan.work.groups if group.size]
    if not options.attempt_bytes and sizes and len(plan.listing) > 1:
        mean = sum(sizes) // len(sizes)
        own.append((ATTEMPT, units.size(mean)))
        kinds.append((ATTEMPT, tuple(
            (units.size(size), {"attempt_bytes": str(size)})
            for size in (mean // 4, mean, mean * 4) if size
        )))  # fmt: skip
    return _cells(kinds, own)


def of_threads(facts: LoadFacts, options: Options) -> list[Cell]:
    """Return numbers of threads, which are files at the same time where files are written."""
    if options.threads:
        return [Cell((), {})]
    cores = facts.writers[0].engine.cores
    counts = [*powers(cores), cores * 2]
    choices = tuple((str(n), {"threads": n}) for n in counts)
    return _cells([(THREADS, choices)], [(THREADS, str(cores))])


def source_kind(plan: Plan) -> str:
    """Return the kind of the source that a combination was measured with."""
    encoding = plan.encoding
    if encoding is None:
        return "generated rows"
    packed = "" if encoding.compression == "none" else f", {encoding.compression}"
    return encoding.format.removesuffix("WithNames") + packed


def target_kind(plan: Plan, become: str) -> str:
    """Return the kind of the target that a combination was measured with.

    Args:
        become: see :attr:`rowfall.contracts.destination.Destination.rows_become`.
    """
    scheme = uri.scheme_of(plan.to.text)
    where = plan.to.placement if scheme == uri.FILE else scheme
    cluster = ", a cluster" if plan.to.placement == "shards" else ""
    return f"{become} ({where}{cluster})"


def _connections(planned: int) -> Choices:
    counts = sorted({max(1, planned // 2), planned, planned * 2})
    return tuple((str(n), {"streams": n}) for n in counts)


def powers(most: int) -> list[int]:
    """Return the powers of two up to ``most``, half of it, and itself."""
    found = {n for n in (1 << i for i in range(most.bit_length())) if n <= most}
    return sorted(found | {max(1, most // 2), most})


def fitting(sizes: Iterable[int], held: int) -> list[int]:
    """Return the sizes that so many bytes fill, and the next one: all larger ones are like it."""
    found: list[int] = []
    for size in sizes:
        found.append(size)
        if size >= held:
            break
    return found


def _of_grid(
    kinds: Sequence[tuple[str, Choices]],
) -> Iterable[tuple[tuple[tuple[str, str], ...], Mapping[str, Any]]]:
    names = [name for name, _ in kinds]
    for values in itertools.product(*(choices for _, choices in kinds)):
        merged: dict[str, Any] = {}
        for _, options in values:
            merged |= options
        yield tuple(zip(names, (text for text, _ in values), strict=True)), merged


def _cells(kinds: Sequence[tuple[str, Choices]], own: Sequence[tuple[str, str]]) -> list[Cell]:
    """Return all combinations, behind the planned one.

    Args:
        own: choices of the plan.
    """
    found = [Cell(choices, options) for choices, options in _of_grid(kinds) if choices]
    return [Cell(tuple(own), {}), *found]
