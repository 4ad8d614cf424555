"""Say what readers see while rows become visible, and refuse what cannot be had. Pure.

One ATTACH makes all parts of an attempt visible under one lock in a MergeTree table. A replicated
one commits the parts of each partition by a transaction of Keeper, one partition after the other.
``--atomic`` has no other way there: an exchange with a table that holds the old and the new rows
would lose what others insert meanwhile, and each replica renames its tables by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.contracts.facts import FilledTable, LoadFacts
from rowfall.core.errors import UsageError
from rowfall.core.model import Transport
from rowfall.core.options import DISTRIBUTED, FILTER, Options


def of_tables(facts: LoadFacts, transport: Transport, options: Options) -> str:
    """Return a clause for the plan: what queries of ClickHouse tables see during the load."""
    if options.replace:
        return "the old rows or the new ones: the tables are exchanged at the end of the load"
    tables = facts.table.filled
    if options.direct or any(not (t.merge_tree or t.engine == "Null") for t in tables[:1]):
        return "rows as they are inserted, also those of a statement that fails later"
    tables = tuple(table for table in tables if table.merge_tree)
    parts = [_moments(tables, options)]
    if len(tables) > 1:
        parts.append("the tables behind views follow, each by itself")
    if transport.sharding.value in (FILTER, DISTRIBUTED):
        parts.append("one shard or node after the other")
    if facts.table.replicas and any(table.replicated for table in tables):
        parts.append("other replicas show rows as they fetch them")
    return "; ".join(parts)


def _moments(tables: Sequence[FilledTable], options: Options) -> str:
    """Return a clause: which rows become visible in one moment, and in which order."""
    if any(table.replicated and table.partitioned for table in tables):
        return (
            "the rows of a statement partition by partition, because Keeper commits one after the "
            "other; a crash may leave it so until the next run"
        )
    if options.upsert is not None:
        return "the old rows or the new ones: the table is exchanged at the end of the load"
    if options.atomic:
        return "nothing until the end of the load, then all rows in one moment"
    return "all rows of a statement in one moment, one statement after the other"


def check_atomic(facts: LoadFacts, options: Options) -> None:
    """Check that ``--atomic`` can make the rows of the load visible in one moment.

    Raises:
        UsageError: not in a replicated table with partitions.
    """
    for table in facts.table.filled if options.atomic else ():
        if table.replicated and table.partitioned:
            raise UsageError(
                f"--atomic cannot make a load visible in one moment in {table.name}: it is a "
                f"{table.engine} table with partitions, and Keeper commits one partition after "
                "the other",
                hint="Leave out --atomic: each partition of a statement is then seen in one "
                "moment. A replicated table without PARTITION BY takes --atomic, and --replace "
                "exchanges tables of any kind.",
            )
