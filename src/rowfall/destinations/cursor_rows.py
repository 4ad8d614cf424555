"""Ask a table for the rows that a source of ``--cursor`` compares its last values with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rowfall.contracts.destination import Session
from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import Type, parse_type
from rowfall.engines.base import Engine, ExistingTable
from rowfall.engines.database import Database, SupportsAsking
from rowfall.sources.cursor import CursorRows
from rowfall.sources.key_ranges import KeyKind

# Engines whose tables hold each row that was inserted, or the newest of a key. Others add rows up,
# or pass them on and hold none.
_KEEPS = ("Log", "TinyLog", "StripeLog", "Memory", "EmbeddedRocksDB", "Join", "Set")
_ADDS_UP = ("Summing", "Aggregating", "Collapsing", "Graphite", "Coalescing")


def keeps_rows(table: ExistingTable) -> bool:
    """Return whether a table of ClickHouse holds the rows that were inserted, as they were."""
    engine = table.engine.partition("(")[0].partition(" ")[0]
    if not engine.endswith("MergeTree"):
        return engine in _KEEPS
    return not any(word in engine for word in _ADDS_UP)


def check_columns(session: Session, listed: ExistingTable, wanted: CursorRows) -> None:
    """Check that values of key and cursor are in a table as they were in the source.

    Raises:
        UsageError: a column is not there, or its type rounds, pads or changes them.
    """
    types = {name: type_ for name, type_, _ in listed.columns}
    for name, source in zip(wanted.columns, wanted.types, strict=True):
        there = types.get(name)
        if there is None:
            raise UsageError(
                f"--cursor compares rows by {', '.join(wanted.columns)}, and {session.table_text} "
                f"has no column {name}",
                hint="Load it, too, or load all anew with it: --replace.",
            )
        if not _keeps(parse_type(source), parse_type(there)):
            raise UsageError(
                f"--cursor compares rows by {name}, which is {source} as it comes, and "
                f"{session.table_text} has it as {there}, which does not keep each value",
                hint=f"Change the column, or load all of it anew: --replace --type '{name} "
                f"{source}'",
            )


def _keeps(source: Type, there: Type) -> bool:
    """Return whether texts of values are the same in a column of another type."""
    if source.bits or there.bits:
        return bool(source.bits and there.bits)
    if source.base in ("DateTime", "DateTime64"):
        return there.base in ("DateTime", "DateTime64") and there.digits >= source.digits
    for family in (("Date", "Date32"), ("Decimal",)):
        if source.base in family:
            return there.base in family
    return there.base == source.base or (there.base, source.base) == ("String", "UUID")


def of_database(database: Database, wanted: CursorRows) -> Iterable[Sequence[Any]] | None:
    """Ask another database than ClickHouse; None where it cannot be asked."""
    if not isinstance(database, SupportsAsking):
        return None
    return database.rows_from(
        wanted.columns, wanted.plain_low, quoted=not wanted.is_number, most=wanted.most
    )


def of_engine(engine: Engine, relation: SqlText | str, wanted: CursorRows) -> list[list[Any]]:
    """Ask an engine of ClickHouse for rows of a relation."""
    *keys, column = map(sql.name, wanted.columns)
    low, kind = quote(wanted.plain_low), wanted.key.kind
    text, tested = f"toString({column})", column
    if kind is KeyKind.MOMENT:
        text = f"toString(toTimeZone(toDateTime64({column}, 6, 'UTC'), 'UTC'))"
        low = f"toDateTime64({low}, 6, 'UTC')"
    elif kind is KeyKind.DAY:
        low = f"toDate32({low})"
    elif kind is KeyKind.DECIMAL:
        low = f"toDecimal64({low}, {wanted.key.scale})"
    elif kind is KeyKind.INTEGER:
        low = wanted.plain_low
    elif kind is KeyKind.UUID:
        tested = text  # UUIDs are compared by their second half
    texts = ", ".join([*(f"toString({key})" for key in keys), text])
    return engine.ask(SqlText.of(
        f"SELECT {texts} FROM ", relation, f" WHERE {tested} >= {low} LIMIT {wanted.most}"
    ))  # fmt: skip
