"""How the rows of an attempt get into its staging place: pulled by the engine that stores them,
or pushed from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rowfall import planner, sql
from rowfall.engines.base import Engine, Tick
from rowfall.jobs import Job
from rowfall.model import Encoding, Outcome, Schema, Split, Statement
from rowfall.sources.base import Source
from rowfall.sqltext import SqlText
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.push import Pusher


@dataclass(frozen=True, slots=True)
class Order:
    """One attempt's work.

    Attributes:
        attempt: its id, which is the query id, or the beginning of several.
        staging: name of the table or file that gets the rows.
        schema: how the rows are read.
        settings: for the INSERT.
        select: another way to read the rows (around bad ones), None for the schema's own.
        engine_reads: not through the decoder, which has declined them.
    """

    attempt: str
    splits: Sequence[Split]
    staging: str
    schema: Schema
    settings: Mapping[str, str | int | float]
    select: SqlText | None = None
    engine_reads: bool = False


class Delivery(Protocol):
    """Puts rows into staging; several orders may run at once, each on a lane of its own."""

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        """Insert all rows of an order. Raises RowfallError; staging then holds any part of it."""

    def kill(self, attempt: str) -> None:
        """End what an attempt runs; returns when it has ended or was not there."""


class Pull:
    """The engine that stores the rows reads the source itself, in one statement."""

    def __init__(
        self, engine: Engine, source: Source, target: Target, encoding: Encoding | None
    ) -> None:
        self._engine = engine
        self._source = source
        self._target = target
        self._encoding = encoding

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        if order.select is not None:
            names = ", ".join(sql.name(c.name) for c in order.schema.columns)
            into = self._target.into(order.staging, order.schema)
            text = SqlText.of("INSERT INTO ", into, f" ({names}) ", order.select)
        else:
            text = planner.statement(
                self._source, self._target, order.schema, self._encoding, order.splits,
                order.staging,
            )  # fmt: skip
        statement = Statement(text, order.settings, query_id=order.attempt)
        return self._engine.run(statement, lane=lane, on_tick=on_tick)

    def kill(self, attempt: str) -> None:
        self._engine.kill(attempt)


class Push:
    """Rows that only this machine can read are sent over several connections."""

    def __init__(self, pusher: Pusher, job: Job) -> None:
        self._pusher = pusher
        self._job = job

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        job = self._job
        into = job.target.into(order.staging, order.schema)
        known = job.engine.facts.settings
        settings = {k: v for k, v in order.settings.items() if not known or k in known}
        # A row that waits in the server's queue would be missing when staging is counted.
        settings |= {"async_insert": 0} if "async_insert" in known else {}
        if order.select is not None:
            local = {k: v for k, v in order.settings.items() if k in job.reader.facts.settings}
            return self._pusher.insert_selects(
                [order.select], order.schema.columns, into, settings, local, order.attempt, on_tick
            )
        return self._pusher.insert(
            order.splits, job.source, job.encoding, order.schema, into, settings, order.attempt,
            on_tick,
        )  # fmt: skip

    def kill(self, attempt: str) -> None:
        self._pusher.kill(attempt)
