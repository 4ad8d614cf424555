"""Decides whether rowfall-decode merges the sorted blocks of an attempt into one part. Pure.

Partitions are parts of their own anyway, see :mod:`rowfall.deliver.build`.

20 M trips take 1.6 CPU seconds either way, and save the engine 0.8 of ``OPTIMIZE FINAL``. One block
is written as it is.
"""

from __future__ import annotations

from rowfall.contracts.facts import LoadFacts
from rowfall.plan import keys, table_definition
from rowfall.plan.table_definition import Definition

# Engines that do more in a merge than to put rows in order collapse the rows, too, so that their
# merge is still to come.
_PLAIN = "MergeTree"
# Columns of a compact part are in memory as a whole: below these bytes and rows they may be.
_COMPACT = (64 << 20, 1 << 20)
HELD_BLOCK = 16 << 20
"""Bytes of rows of a block that is held in memory until it is merged.

Small enough to be sorted in the cache, which pays for its copy: 20 M trips of csv.gz took 2.07 and
2.08 CPU seconds with 8 and 16 MiB, 2.21 with 32, 2.51 with 256, and 2.11 without merging.
"""
# Of wider tables a load takes longer for what the engine saves later: 1 M taxi rows of 51 columns
# took 2.1 seconds (3.4 of CPU) on two quiet cores, 1.6 (2.6) without, and saved 4.2. Where that is
# the CPU of a server that is to be spared, all tables are merged.
_MOST_COLUMNS = 12
# Whole columns of these go straight into parts, without a block that could be held.
_WHOLE_COLUMNS = frozenset({"Parquet", "ArrowStream"})


def of_table(table: Definition, format_: str, *, spares: bool = False) -> bool:
    """Tell whether all rows of an attempt become one part of a table.

    Args:
        format_: of what rowfall-decode reads.
        spares: for a server, whose merges cost more than this machine's time.
    """
    partition = table.clauses.get("PARTITION", "").removeprefix("BY ")
    size, rows = table_definition.least_wide(table)
    if size > _COMPACT[0] or rows > _COMPACT[1]:
        return False
    if spares:
        return _is_plain(table.engine, partition)
    narrow = len(table.columns) <= _MOST_COLUMNS
    return narrow and _merges(table.engine, partition, format_)


def of_load(facts: LoadFacts, format_: str) -> bool:
    """Tell the same of a load whose table may be a new one."""
    existing, layout, spares = facts.table.existing, facts.schema.layout, facts.reach is not None
    if existing is not None:
        table = table_definition.parse(existing.create_query)
        return table is not None and of_table(table, format_, spares=spares)
    engine = layout.engine.partition("(")[0].strip()
    if spares:
        return _is_plain(engine, layout.partition_by)
    narrow = len(facts.schema.columns) <= _MOST_COLUMNS
    return narrow and _merges(engine, layout.partition_by, format_)


def _merges(engine: str, partition: str, format_: str) -> bool:
    return _is_plain(engine, partition) and format_ not in _WHOLE_COLUMNS


def _is_plain(engine: str, partition: str) -> bool:
    # Rows of a replicated table are staged in a plain one.
    return engine.removeprefix("Replicated") == _PLAIN and not keys.elements(partition)
