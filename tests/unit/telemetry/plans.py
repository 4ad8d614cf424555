"""Plans as events carry them, with as little in them as listeners look at."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.listing import Listing
from rowfall.core.model import (
    Choice,
    Column,
    Facts,
    Forecast,
    Group,
    Plan,
    PlannedTarget,
    PlannedWork,
    PlanTexts,
    Schema,
    Sorting,
    Transport,
)


def plan_of(
    listing: Listing,
    *,
    source: str = "/in/*.csv",
    to: str = "clickhouse://me@host:8123/shop",
    database: str = "shop",
    table: str = "orders",
    columns: Sequence[tuple[str, str]] = (("id", "UInt32"), ("name", "String")),
) -> Plan:
    """Return a plan that loads everything of a listing in one attempt."""
    choice = Choice("", "")
    size = listing.total_size
    work = PlannedWork((Group(range(len(listing)), size),), 1, (), ())
    return Plan(
        source, PlannedTarget(to, database, table, "server", "exactly once"), None,
        Schema(tuple(Column(name, type_) for name, type_ in columns)), listing,
        Transport(choice, choice, choice, Sorting("", ""), choice, choice, choice), work,
        Forecast(None, None, 0, 1), Facts("24.10", 2, 1 << 30), PlanTexts("", ""),
    )  # fmt: skip
