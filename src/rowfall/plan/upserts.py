"""Say what ``--upsert`` costs, and refuse it where it cannot be had. Pure, but for one question.

The rows of the table that nobody replaces stay in their parts, which are linked into a copy of the
table; parts that hold a loaded key are written once more. The copy and the table are exchanged.
"""

from __future__ import annotations

from rowfall.contracts.destination import Session
from rowfall.contracts.facts import LoadFacts, StoredRows
from rowfall.core import sql, units
from rowfall.core.errors import RowfallError, UsageError
from rowfall.core.options import Options
from rowfall.core.sqltext import quote

# Bytes in memory of an entry of the set of keys, besides the key: a hash table is half full.
_ENTRY, _FULL = 16, 2
# Compressed bytes that one core writes once more in a second: measured, see
# docs/decisions/0009-upsert-in-a-copy.md.
REWRITTEN_PER_SECOND = 10e6
_FLOATS = ("Float32", "Float64", "BFloat16")


def key_of(options: Options) -> tuple[str, ...]:
    """Return the columns of the key of ``--upsert``; () without.

    Raises:
        UsageError: an expression, or nothing.
    """
    if options.upsert is None:
        return ()
    words = [word for word in sql.tokens(options.upsert) if not word.isspace()]
    names = [sql.identifier(word) for word in words[::2]]
    if not names or None in names or any(word != "," for word in words[1::2]) or not words[-1:]:
        raise _no_key(options.upsert)
    if len(words) % 2 == 0 or len(set(names)) < len(names):
        raise _no_key(options.upsert)
    return tuple(str(name) for name in names)


def _no_key(text: str) -> UsageError:
    return UsageError(
        f"--upsert {text!r} does not name the columns of a key",
        hint="Write their names with commas between them: --upsert 'id, day'.",
    )


def ask_stored(session: Session) -> StoredRows | None:
    """Ask what the table holds that is to be exchanged; None where nobody does that."""
    target = session.first_target
    if session.options.upsert is None:
        return None
    # Without this right the load would fail at its end.
    session.engine.ask(
        f"SELECT count() FROM system.mutations WHERE {sql.table_is(target.database, target.table)}"
    )
    try:
        ((rows, size, parts, partitions),) = session.engine.ask(
            "SELECT sum(rows), sum(bytes_on_disk), count(), uniqExact(partition_id) FROM "
            f"system.parts WHERE active AND {sql.table_is(target.database, target.table)}"
        )
        columns = session.engine.ask(
            "SELECT name FROM system.columns WHERE is_in_partition_key AND database = "
            f"{quote(target.database)} AND table = {quote(target.table)}"
        )
    except RowfallError:  # a right that a load does not need
        return None
    return StoredRows(
        int(rows), int(size), int(parts), int(partitions), tuple(c for (c,) in columns)
    )


def check_upsert(facts: LoadFacts, options: Options) -> None:
    """Check that the rows of the table can be replaced by their key.

    Raises:
        UsageError: no; says why and what helps.
    """
    key = key_of(options)
    if not key:
        return
    columns = {column.name: column.type for column in facts.schema.columns}
    for one in key:
        if one not in columns:
            near = ", ".join(columns)
            raise UsageError(
                f"--upsert {options.upsert}: the load has no column {one}",
                hint=f"Name columns that are loaded: {near}.",
            )
        bare = columns[one].removeprefix("Nullable(").removeprefix("LowCardinality(").rstrip(")")
        if bare in _FLOATS:
            raise UsageError(
                f"--upsert {options.upsert}: {one} is a {bare}, and a rounded number is not a key",
                hint=f"Name other columns, or load it as text: --type '{one} String'.",
            )
    if not facts.table.filled:
        return  # another database removes the old rows in a transaction
    (own, *_) = facts.table.filled
    if own.replicated:
        raise UsageError(
            f"--upsert cannot exchange {own.name}: it is a {own.engine} table, and each replica "
            "renames its tables by itself",
            hint="Load into a table of one server, or into a new one of the engine "
            "ReplicatedReplacingMergeTree, which keeps the last row of each key.",
        )
    if own.engine != "MergeTree":
        why = "which has no parts to exchange"
        if own.collapses:
            why = "which unites rows of equal keys by itself"
        raise UsageError(
            f"--upsert is for MergeTree tables, and {own.name} is a {own.engine}, {why}",
            hint="Leave out --upsert: load into it as it is.",
        )
    if facts.table.views.names:
        raise UsageError(
            f"--upsert cannot replace rows of {own.name}: it feeds materialized views "
            f"({', '.join(facts.table.views.names)}), and what they hold of the old rows stays",
            hint="Drop the views, or load into a table that feeds none.",
        )


def in_partitions(stored: StoredRows | None, key: tuple[str, ...]) -> bool:
    """Tell whether equal keys are in one partition: the key holds what the partition is made of."""
    return (
        stored is not None
        and bool(stored.partition_columns)
        and (set(stored.partition_columns) <= set(key))
    )


def said(facts: LoadFacts, options: Options, rows: int | None) -> str:
    """Return the line of the plan about the cost of ``--upsert``; "" without that option.

    Args:
        rows: number of rows of the load, None where it is unknown.
    """
    key = key_of(options)
    if not key:
        return ""
    stored = facts.table.stored
    by = ", ".join(key)
    if not facts.table.filled and facts.table.existing is not None:
        return (
            f"by {by}: rows of the table with a loaded key are removed in the transaction that "
            "adds the loaded ones; no key may occur twice in the load"
        )
    if stored is None or not stored.rows:
        return (
            f"by {by}: the table is empty, so every row is new; no key may occur twice in the load"
        )
    seconds = stored.bytes / REWRITTEN_PER_SECOND / max(1, facts.engine.cores)
    where = f"any of {units.counted(stored.parts, 'part')}"
    if in_partitions(stored, key):
        where = "parts in the partitions of the load"
    memory = ""
    if rows is not None:
        width = sum(_width(c.type) for c in facts.schema.columns if c.name in key)
        memory = f"; {units.memory(rows * (width + _ENTRY) * _FULL)} of memory hold its keys"
    return (
        f"by {by}: parts that hold a loaded key are written once more ({where}, at most "
        f"{units.size(stored.bytes)} and {units.forecast(seconds)}), the others are linked; the "
        f"old ones stay until the tables are exchanged, so at most {units.size(stored.bytes)} are "
        f"needed twice{memory}; a key may be in the load once"
    )


def _width(type_: str) -> int:
    """Return about the bytes of a value in memory."""
    digits = "".join(c for c in type_ if c.isdigit())
    if type_.startswith(("Int", "UInt")) and digits:
        return int(digits) // 8
    return 16 if type_ == "UUID" else 8 if type_.startswith("Date") else 32
