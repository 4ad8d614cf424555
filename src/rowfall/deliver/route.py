"""Opens the delivery that a plan has chosen: the one place that knows all of them.

Rows of a table with a sharding key come to their shards by filter or through a Distributed table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.cluster.writer import Writer
from rowfall.contracts.delivery import Delivery, DeliveryOrder
from rowfall.contracts.destination import Session
from rowfall.contracts.facts import LoadFacts
from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.model import BUILD, ENGINE, INSIDE, PUSH, Choice, Outcome, Plan, Schema, Setting
from rowfall.core.options import DISTRIBUTED, FILTER
from rowfall.core.units import parse_size
from rowfall.deliver.decode import Decode, DecodeInside, DecodePush, DecoderInput
from rowfall.deliver.files import WriteFiles
from rowfall.deliver.pull import Pull
from rowfall.engines.base import NETWORK_ERROR, Tick, on_all, started_within
from rowfall.engines.database import Database, FileLayout
from rowfall.plan.decoding import read_encoding
from rowfall.plan.links import LZ4, ZLIB
from rowfall.schema.text.headers import Headers
from rowfall.systems.clickhouse.target import Table

# What only some loads need is imported by these: 100 kB of code, 4 ms of a start.
if TYPE_CHECKING:
    from rowfall.core.arrow_channel import ArrowChannel
    from rowfall.deliver.rows import Prefill
    from rowfall.deliver.server_build import BuildForServer
    from rowfall.targets.base import FileTarget
    from rowfall.targets.transactional import TransactionalTable

_ASK_LANE = 99


def open_delivery(session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
    """Return the delivery of a load into one writer's engine, or into files that it writes."""
    sharding = plan.transport.sharding.value
    if facts.sharding is not None and sharding == DISTRIBUTED:
        one = _open(session, facts, plan, sending(writer, facts.sharding.key))
        return ShardDelivery(one, session.writers)
    if facts.sharding is not None and plan.transport.delivery.value == BUILD:
        return _open_sharded(session, facts, plan, facts.sharding.key)
    if facts.sharding is not None and sharding == FILTER and not writer.number:
        each = [_open(session, facts, plan, one) for one in session.writers]
        numbers = sorted(one.shard for one in session.writers)
        places = [numbers.index(one.shard) for one in session.writers]
        return Filtered(
            each, [one.settings for one in plan.work.writers], facts.sharding.key, places
        )
    return _open(session, facts, plan, writer)


def _open_sharded(session: Session, facts: LoadFacts, plan: Plan, key: ShardingKey) -> Delivery:
    """Return the delivery of parts to each shard; of what is declined, through Distributed."""
    from rowfall.deliver.sharded_build import BuildForShards

    sent = replace(
        plan.transport, delivery=plan.transport.fallback, parser=Choice(ENGINE, "declined"),
        parts=Choice(ENGINE, "declined"), sharding=Choice(DISTRIBUTED, "declined"),
    )  # fmt: skip
    writers = session.writers
    fallback = open_delivery(session, facts, replace(plan, transport=sent), writers[0])
    source = facts.source_for(plan.transport)
    read, most = read_encoding(source, facts.encoding), parse_size(session.options.max_record)
    assert read is not None  # noqa: S101 - the planner has looked for it
    headers = _headers(session, facts)
    each = {}
    for one in writers:
        target = one.target
        given = DecoderInput(source, target, read, facts.encoding, (), fallback, headers, most)
        # One program at a time makes parts for all of them.
        each[one.shard] = _build_for_server(session, facts, plan, one, given, 1)
    return BuildForShards(each[writers[0].shard], [each[n] for n in sorted(each)], key)


def _build_for_server(
    session: Session,
    facts: LoadFacts,
    plan: Plan,
    writer: Writer,
    given: DecoderInput,
    at_once: int,
) -> BuildForServer:
    """Return the delivery of parts to one server.

    Args:
        at_once: servers that parts are made for at the same time.
    """
    from rowfall.deliver.server_build import BuilderRules, BuildForServer
    from rowfall.systems.clickhouse.part_server import part_server

    assert facts.program is not None  # noqa: S101 - the planner has looked for it
    lanes, strict = plan.work.lanes * at_once, session.options.build == "on"
    near = any(one.link.near for one in facts.writers)
    spares = session.options.spare_servers
    rules = BuilderRules(max(1, facts.cores_here // lanes), strict, lanes, near, spares)
    parts = part_server(session.options.build_address)
    return BuildForServer(facts.program, writer.engine, given, parts, rules)


def open_sending(
    session: Session, facts: LoadFacts, plan: Plan, writer: Writer, target: TransactionalTable,
    database: Database,
) -> Delivery:  # fmt: skip
    """Return the delivery into another database, by the one that writes its text.

    Args:
        target: the writer's.
    """
    from rowfall.deliver.rows import Prefill, SendRows, WriteRows

    transport, encoding = plan.transport, facts.encoding
    database.pack(packed=transport.compression.value == ZLIB)
    busy = sum(1 for group in plan.work.groups if group.indexes)
    prefill = Prefill(min(plan.work.lanes, busy)) if session.options.prefill and busy else None
    source = facts.source_for(transport)
    read = read_encoding(source, encoding)
    if transport.parts.value == ENGINE or read is None or facts.program is None:
        return SendRows(_open(session, facts, plan, writer), target, database, prefill)
    headers = _headers(session, facts)
    pull = Pull(writer.engine, source, target, encoding, headers)
    fallback = SendRows(pull, target, database, prefill)
    most = parse_size(session.options.max_record)
    given = DecoderInput(source, target, read, encoding, (), fallback, headers, most)
    return WriteRows(facts.program, writer.engine, given, target, database, prefill)


def open_writing(
    session: Session, facts: LoadFacts, plan: Plan, writer: Writer, target: FileTarget,
    layout: FileLayout,
) -> Delivery:  # fmt: skip
    """Return the delivery into data files of a table.

    Args:
        target: the writer's. ``layout``: how its rows have to be written.
    """
    laid_out = replace(writer, target=target.laid_out(layout.partition_by))
    return WriteFiles(_open(session, facts, plan, laid_out), layout.order_by)


def open_streaming(
    session: Session, facts: LoadFacts, plan: Plan, writer: Writer, channel: ArrowChannel
) -> Delivery:
    from rowfall.deliver.arrow_stream import StreamRows
    from rowfall.deliver.build import NATIVE

    assert facts.program is not None  # noqa: S101 - the destination has looked for it
    source, encoding = facts.source_for(plan.transport), facts.encoding
    headers = _headers(session, facts)
    read = read_encoding(source, encoding)
    decodes = read is not None and plan.transport.parser.value != ENGINE
    pull = Pull(writer.engine, source, writer.target, encoding, headers)
    most = parse_size(session.options.max_record)
    given = DecoderInput(
        source, writer.target, read if decodes and read else NATIVE, encoding, (), pull, headers,
        most,
    )  # fmt: skip
    emit = session.emit
    return StreamRows(facts.program, writer.engine, given, channel, emit, decodes=decodes)


def give_no_rows(channel: ArrowChannel, schema: Schema) -> None:
    """Give the columns of a source that has nothing to read."""
    from rowfall.decoder import installed
    from rowfall.deliver.arrow_stream import write_no_rows

    program = installed.program()
    assert program is not None  # noqa: S101 - the destination has looked for it
    write_no_rows(program, channel, schema)


def _headers(session: Session, facts: LoadFacts) -> Headers:
    return Headers(session.source, facts.encoding, lambda: session.reader.ask)


def _open(session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
    transport, encoding = plan.transport, facts.encoding
    source, packed = facts.source_for(transport), transport.compression.value == LZ4
    headers = _headers(session, facts)
    # What the decoder leaves to a server, that reads under its own names.
    there = facts.reach.source if facts.reach is not None else source
    fallback: Delivery = Pull(writer.engine, there, writer.target, encoding, headers)
    if transport.fallback.value == PUSH:
        from rowfall.deliver.push import Push, Pusher  # ssl and lzma take 10 ms

        pusher = Pusher(
            writer.engine, streams=transport.streams, reader=lambda: session.reader,
            number=writer.number, packed=packed,
        )  # fmt: skip
        fallback = Push(pusher, session, facts, writer, headers)
    builds = transport.delivery.value == BUILD
    handed = builds and transport.parser.value == ENGINE
    read = read_encoding(source, encoding)
    if handed and read is None:
        from rowfall.deliver.build import NATIVE

        read = NATIVE
    if read is None or (transport.parser.value == ENGINE and not handed):
        return fallback
    names = [column.name for column in plan.schema.columns]
    # Parts are sorted as the definition of their table says.
    sort_by = () if builds else tuple(names.index(name) for name in transport.sort.by)
    given = DecoderInput(
        source, writer.target, read, encoding, sort_by, fallback, headers,
        parse_size(session.options.max_record),
    )  # fmt: skip
    if transport.parser.value == INSIDE:
        stored = sum(plan.listing.size(i) or 0 for g in plan.work.groups for i in g.indexes)
        return DecodeInside(writer.engine, given, stored / (plan.forecast.rows or 1))
    if facts.program is None:
        return fallback
    if transport.delivery.value == PUSH:
        return DecodePush(facts.program, writer.engine, given, transport.streams, packed=packed)
    if not builds:
        return Decode(facts.program, writer.engine, given)
    delivery: Delivery
    if facts.reach is not None:
        delivery = _build_for_server(session, facts, plan, writer, given, len(facts.writers))
    else:
        from rowfall.deliver.build import Build, BuildFromEngine

        delivery = (BuildFromEngine if handed else Build)(facts.program, writer.engine, given)
    if facts.table.views.names:
        from rowfall.deliver.feed import FeedViews

        table = facts.table
        return FeedViews(
            delivery, writer.engine, writer.target.database, table.views.columns,
            computed=not table.computed.isdisjoint(table.views.columns),
        )  # fmt: skip
    return delivery


def sending_since(delivery: Delivery, began: float) -> float:
    """Return since when a delivery has sent rows; ``began`` where it has not waited for them."""
    prefill: Prefill | None = getattr(delivery, "prefill", None)  # into databases only
    return began if prefill is None or prefill.started is None else prefill.started


def sending(writer: Writer, key: ShardingKey) -> Writer:
    """Return the writer as one whose INSERTs send each row to its shard."""
    assert isinstance(writer.target, Table)  # noqa: S101 - clusters are of tables
    return replace(writer, target=writer.target.distributed(key.cluster, key.expression))


class Filtered:
    """Each shard reads what an order names and keeps the rows that belong there.

    Args:
        each: the delivery of every shard. ``settings``: what was computed for its machine.
        places: of the shards in the list of the cluster, from 0.
    """

    def __init__(
        self,
        each: Sequence[Delivery],
        settings: Sequence[Sequence[Setting]],
        key: ShardingKey,
        places: Sequence[int],
    ) -> None:
        self._each, self._settings, self._key, self._places = each, settings, key, places

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        failed: list[RowfallError] = []

        def one(at: int) -> Outcome:
            own = replace(
                order, only=self._key.condition(self._places[at]), settings=self._lowest(order, at)
            )
            try:
                # All read the same: the first one's progress is that of the attempt.
                return self._each[at].insert(own, lane, _silent if at else on_tick)
            except RowfallError as error:
                failed.append(error)
                self.kill(order.attempt)  # the others' work is lost with this one's
                raise failed[0] from None  # and they only say that they were ended

        outcomes = on_all(one, range(len(self._each)))
        return replace(
            outcomes[0],
            rows_written=sum(outcome.rows_written for outcome in outcomes),
            cpu_seconds=sum(outcome.cpu_seconds for outcome in outcomes),
            peak_memory=max(outcome.peak_memory for outcome in outcomes),
        )

    def _lowest(self, order: DeliveryOrder, at: int) -> dict[str, str | int | float]:
        """Return the order's settings, lower where this machine has less than the first one."""
        found = dict(order.settings)
        for setting in self._settings[at]:
            value = found.get(setting.name)
            if isinstance(value, int | float) and isinstance(setting.value, int | float):
                found[setting.name] = min(value, setting.value)
        return found

    def kill(self, attempt: str) -> None:
        on_all(lambda delivery: delivery.kill(attempt), self._each)


class ShardDelivery:
    """The delivery of one shard, whose rows go to all of them: each of them can make it fail."""

    def __init__(self, delivery: Delivery, writers: Sequence[Writer]) -> None:
        self._delivery, self._writers = delivery, writers

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        started = time.monotonic()
        try:
            return self._delivery.insert(order, lane, on_tick)
        except RowfallError as error:
            gone = self._gone(time.monotonic() - started)
            if gone is None or not error.code:
                raise
            # Whatever the server made of a connection that ended: it is no fault of the data.
            raise EngineError(
                f"{gone} went away during the insert: {error.message}", transient=True,
                code=error.code if error.transient else NETWORK_ERROR,
            ) from None  # fmt: skip

    def _gone(self, seconds: float) -> str | None:
        """Return a node that does not answer or has been started since; None if there is none."""
        for writer in self._writers:
            try:
                if started_within(writer.engine, seconds, lane=_ASK_LANE):
                    return writer.node
            except RowfallError:
                return writer.node
        return None

    def kill(self, attempt: str) -> None:
        self._delivery.kill(attempt)


def _silent(progress: object) -> None:
    """Ignore the progress: that of the first shard is shown."""
