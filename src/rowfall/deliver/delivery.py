"""How the rows of an attempt get into its staging place: pulled by the engine that stores them,
or pushed from here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rowfall.core import sql
from rowfall.core.errors import RowfallError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Outcome, Schema, Statement
from rowfall.core.sqltext import SqlText
from rowfall.deliver.watch import WATCH_LANE, stored_bytes
from rowfall.engines.base import SOURCE_BYTES, Engine, Tick
from rowfall.plan import statements
from rowfall.plan.facts import LoadFacts
from rowfall.plan.session import Session, Writer
from rowfall.plan.transport import sent_as
from rowfall.sources.base import Source
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.deliver.push import Pusher

# A body that has nothing to send says so this often: the server ends a silent one after 30 s
# (its http_receive_timeout, which no setting of a statement changes in 24.10).
QUIET_SECONDS = 10.0
# Every stream ticks twice a second; the local engine is asked once for all of them.
LOOK_SECONDS = 0.4


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
        only: a condition on the rows that are kept, "" for all of them.
    """

    attempt: str
    splits: Sequence[Split]
    staging: str
    schema: Schema
    settings: Mapping[str, str | int | float]
    select: SqlText | None = None
    engine_reads: bool = False
    only: str = ""


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
            columns, rows = order.schema.columns, order.select
            if order.only:
                rows = sql.only(rows, columns, order.only)
            text = sql.insert(self._target.into(order.staging, order.schema), columns, rows)
        else:
            text = statements.insert_select(
                self._source, self._target, order.schema, self._encoding, order.splits,
                order.staging, order.only,
            )  # fmt: skip
        settings = self._engine.facts.known(order.settings)
        statement = Statement(text, settings, query_id=order.attempt)
        return self._engine.run(statement, lane=lane, on_tick=on_tick)

    def kill(self, attempt: str) -> None:
        self._engine.kill(attempt)


class Push:
    """Rows that only this machine can read are sent over several connections."""

    def __init__(self, pusher: Pusher, session: Session, facts: LoadFacts, writer: Writer) -> None:
        self._pusher = pusher
        self._session = session
        self._facts = facts
        self._writer = writer

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        session, facts = self._session, self._facts
        on_tick = _Reading(session.reader, facts, order).over(on_tick)
        into = self._writer.target.into(order.staging, order.schema)
        # A row that waits in the server's queue would be missing when staging is counted.
        settings = self._writer.engine.facts.known({**order.settings, "async_insert": 0})
        if order.select is not None:
            local = session.reader.facts.known(order.settings)
            return self._pusher.insert_selects(
                [order.select], order.schema.columns, into, settings, local, order.attempt, on_tick
            )
        return self._pusher.insert(
            order.splits, facts.source, facts.encoding, order.schema, into, settings,
            order.attempt, on_tick,
        )  # fmt: skip

    def kill(self, attempt: str) -> None:
        self._pusher.kill(attempt)


class _Reading:
    """Adds the source's bytes to the ticks of a push: what was sent of files that go as they are,
    and what the local engine has read of the others."""

    def __init__(self, reader: Engine, facts: LoadFacts, order: Order) -> None:
        self._reader = reader
        self._mark = f"/* {order.attempt}_"
        self._stored: dict[str, int] = {}
        self._looked = 0.0
        once = not facts.source.replayable
        raw: Sequence[Split] = ()
        if order.select is None:
            raw = sent_as(order.splits, facts.encoding, order.schema, stream=once).raw
        sizes = [split.size for split in raw]
        # Of a stream nobody knows the size: all that is sent counts.
        self._raw = None if None in sizes else sum(size or 0 for size in sizes)
        self._blocks = len(raw) < len(order.splits)

    def over(self, on_tick: Tick) -> Tick:
        def tick(progress: Mapping[str, int]) -> None:
            sent = progress.get("sent_bytes", 0)
            stored = sent if self._raw is None else min(sent, self._raw)
            if self._blocks:
                stored += self._read_here()
            on_tick({**progress, "sent_bytes": 0, SOURCE_BYTES: stored})

        return tick

    def _read_here(self) -> int:
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            with suppress(RowfallError):
                self._stored |= {
                    query.split(" */")[0]: int(size)
                    for query, size in self._reader.ask(stored_bytes(self._mark), lane=WATCH_LANE)
                }
        return sum(self._stored.values())
