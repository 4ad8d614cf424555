"""Feeds materialized views with rows that are in staging already.

Parts that are attached fire no view. So the views of an attempt read from a table that keeps
nothing (see :func:`rowfall.systems.clickhouse.views.fed_name`), and the rows are inserted there
once more, out of the page cache. The engine then neither parses nor sorts nor compresses the rows
of the loaded table, only what the views make of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowfall.contracts.delivery import Delivery, DeliveryOrder
from rowfall.contracts.receiver import CountError
from rowfall.core import sql
from rowfall.core.model import Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import Engine, Tick
from rowfall.systems.clickhouse.views import fed_name

_VIEWS = "_views"


class FeedViews:
    """Delivers as another delivery does, then fires the views of staging.

    Args:
        inside: brings the rows into staging, by whatever way.
        database: of the loaded table.
        columns: those that the views use. The others have the defaults of their types there.
        computed: some of them are MATERIALIZED: views get the values that are in staging.
    """

    def __init__(
        self, inside: Delivery, engine: Engine, database: str, columns: Sequence[str],
        *, computed: bool,
    ) -> None:  # fmt: skip
        self._inside, self._engine, self._database = inside, engine, database
        self._columns = ", ".join(map(sql.name, columns))
        self._settings = {"insert_allow_materialized_columns": 1} if computed else {}

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        """See :meth:`rowfall.contracts.delivery.Delivery.insert`.

        Raises:
            CountError: staging does not hold what was written.
        """
        made = self._inside.insert(order, lane, on_tick)
        staged = sql.qualified(self._database, order.staging)
        ((rows,),) = self._engine.ask(f"SELECT count() FROM {staged}", lane=lane)
        if int(rows) != made.rows_written:
            raise CountError(
                f"{made.rows_written:,} rows were written and {int(rows):,} are staged",
                transient=True,
            )
        fed = sql.qualified(self._database, fed_name(order.staging))
        statement = Statement(
            SqlText.of(f"INSERT INTO {fed} ({self._columns}) SELECT {self._columns} FROM {staged}"),
            {**self._engine.facts.known(order.settings), **self._settings},
            # What has filled staging on a server may have the id of the attempt: after a lost
            # connection, its end would be taken for that of this one.
            query_id=order.attempt + _VIEWS, alters=None,
        )  # fmt: skip
        views = self._engine.run(statement, lane=lane)
        # Each view reads again what comes into its source: as of an INSERT that fires them.
        return replace(
            made,
            rows_read=made.rows_read - made.rows_written + views.rows_read,
            cpu_seconds=made.cpu_seconds + views.cpu_seconds,
            seconds=made.seconds + views.seconds,
        )

    def kill(self, attempt: str) -> None:
        self._inside.kill(attempt)
        self._engine.kill(attempt + _VIEWS)
