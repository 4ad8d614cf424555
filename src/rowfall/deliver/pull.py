"""Delivery by the engine that stores the rows: it reads the source itself."""

from __future__ import annotations

from rowfall.contracts.delivery import DeliveryOrder
from rowfall.core import sql
from rowfall.core.model import Encoding, Outcome, Statement
from rowfall.engines.base import Engine, Tick
from rowfall.plan import statements
from rowfall.schema.projection import Scan
from rowfall.schema.text.headers import Headers
from rowfall.sources.base import Source
from rowfall.targets.base import Target

# A body that has nothing to send says so this often: the server ends a silent one after 30 s
# (its http_receive_timeout, which no setting of a statement changes in 24.10).
QUIET_SECONDS = 10.0


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

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        into = self._target.into(order.staging, order.schema)
        if order.select is not None:
            columns, rows = order.schema.columns, order.select
            if order.only is not None:
                rows = sql.only(rows, columns, order.only)
            text = sql.insert(into, columns, rows)
        else:
            scan = Scan(self._source, order.splits, self._encoding, order.schema, self._headers)
            text = statements.insert_select(scan, into, order.only)
        settings = self._engine.facts.known(order.settings)
        statement = Statement(text, settings, query_id=order.attempt, alters=None)
        return self._engine.run(statement, lane=lane, on_tick=on_tick)

    def kill(self, attempt: str) -> None:
        self._engine.kill(attempt)
