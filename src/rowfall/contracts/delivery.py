"""The order of one attempt, and the protocol of what brings its rows into staging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.model import Outcome, Schema
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import Tick


@dataclass(frozen=True, slots=True)
class DeliveryOrder:
    """The work of one attempt.

    Attributes:
        attempt: its id, which is the query id, or the beginning of several.
        staging: name of the table or file that gets the rows.
        schema: how the rows are read.
        settings: for the INSERT.
        select: another way to read the rows (around bad ones), None for the schema's own.
        engine_reads: not through the decoder, which has declined them.
        only: a condition on the rows that are kept, None for all of them.
        most_refused: rows that a database may refuse, which are left out then; None for none.
        most_streams: connections to a server; None for as many as were planned.
    """

    attempt: str
    splits: Sequence[Split]
    staging: str
    schema: Schema
    settings: Mapping[str, str | int | float]
    select: SqlText | None = None
    engine_reads: bool = False
    only: str | None = None
    most_refused: int | None = None
    most_streams: int | None = None


class Delivery(Protocol):
    """Puts rows into staging; several orders may run at once, each on a lane of its own."""

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        """Insert all rows of an order.

        Raises:
            RowfallError: staging then holds any part of the rows.
        """

    def kill(self, attempt: str) -> None:
        """End what an attempt runs; returns when it has ended or was not there."""
