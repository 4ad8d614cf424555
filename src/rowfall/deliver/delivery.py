"""Deliveries: the order of one attempt, and the delivery by which an engine reads the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Outcome, Schema, Statement
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import Engine, Tick
from rowfall.plan import statements
from rowfall.schema.headers import Headers
from rowfall.sources.base import Source
from rowfall.targets.base import Target

# A body that has nothing to send says so this often: the server ends a silent one after 30 s
# (its http_receive_timeout, which no setting of a statement changes in 24.10).
QUIET_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Order:
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


class Delivery(Protocol):
    """Puts rows into staging; several orders may run at once, each on a lane of its own."""

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        """Insert all rows of an order.

        Raises:
            RowfallError: staging then holds any part of the rows.
        """

    def kill(self, attempt: str) -> None:
        """End what an attempt runs; returns when it has ended or was not there."""


class Pull:
    """The engine that stores the rows reads the source itself, in one statement."""

    def __init__(
        self, engine: Engine, source: Source, target: Target, encoding: Encoding | None,
        headers: Headers | None = None,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._source = source
        self._target = target
        self._encoding = encoding
        self._headers = headers

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        if order.select is not None:
            columns, rows = order.schema.columns, order.select
            if order.only is not None:
                rows = sql.only(rows, columns, order.only)
            text = sql.insert(self._target.into(order.staging, order.schema), columns, rows)
        else:
            text = statements.insert_select(
                self._source, self._target, order.schema, self._encoding, order.splits,
                order.staging, order.only, self._headers,
            )  # fmt: skip
        settings = self._engine.facts.known(order.settings)
        statement = Statement(text, settings, query_id=order.attempt)
        return self._engine.run(statement, lane=lane, on_tick=on_tick)

    def kill(self, attempt: str) -> None:
        self._engine.kill(attempt)
