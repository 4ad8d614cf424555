"""Delivers into the data files of a table of files, sorted as the table says."""

from __future__ import annotations

from dataclasses import replace

from rowfall.contracts.delivery import Delivery, DeliveryOrder
from rowfall.core import sql
from rowfall.core.model import Outcome, Projection, ValueCheck
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import Tick


class WriteFiles:
    """Lets rows be written in an order.

    Args:
        inside: brings the rows into files of the target.
        order_by: keys of ORDER BY over the columns of the table, "" for none.
    """

    def __init__(self, inside: Delivery, order_by: str) -> None:
        self._inside, self._order_by = inside, order_by

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        if not self._order_by:
            return self._inside.insert(order, lane, on_tick)
        schema, select = order.schema, order.select
        if select is not None:
            select = SqlText.of("SELECT * FROM (", select, f") ORDER BY {self._order_by}")
        projection = schema.projection
        if projection is None:
            names = ", ".join(sql.name(column.name) for column in schema.columns)
            projection = Projection(schema.columns, names)
            # What the projection reads has been converted: the columns of the table take it as is.
            schema = replace(schema, columns=tuple(
                replace(c, source=c.name, expression="", read_type="", check=ValueCheck())
                for c in schema.columns
            ))  # fmt: skip
        schema = replace(schema, projection=replace(projection, order_by=self._order_by))
        return self._inside.insert(replace(order, schema=schema, select=select), lane, on_tick)

    def kill(self, attempt: str) -> None:
        self._inside.kill(attempt)
