"""Opens the delivery that a plan has chosen: the one place that knows them all."""

from __future__ import annotations

from rowfall.core.model import BUILD, ENGINE, INSIDE, PUSH, Plan
from rowfall.core.options import DISTRIBUTED, FILTER
from rowfall.deliver.decode import Build, Decode, DecodePush, DecoderInput
from rowfall.deliver.delivery import Delivery, Pull
from rowfall.deliver.inside import DecodeInside
from rowfall.deliver.sharded import Filtered, Scattered, sending
from rowfall.plan.facts import LoadFacts
from rowfall.plan.session import Session, Writer
from rowfall.plan.transport import LZ4


def open_delivery(session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
    """Return the delivery of a load into one writer's engine."""
    sharding = plan.transport.sharding.value
    if facts.sharding is not None and sharding == DISTRIBUTED:
        one = _open(session, facts, plan, sending(writer, facts.sharding.key))
        return Scattered(one, session.writers)
    if facts.sharding is not None and sharding == FILTER and not writer.number:
        each = [_open(session, facts, plan, one) for one in session.writers]
        return Filtered(each, [one.settings for one in plan.writers], facts.sharding.key)
    return _open(session, facts, plan, writer)


def _open(session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
    transport, encoding = plan.transport, facts.encoding
    source, packed = facts.source_for(transport), transport.compression.value == LZ4
    fallback: Delivery = Pull(writer.engine, source, writer.target, encoding)
    if transport.fallback.value == PUSH:
        from rowfall.deliver.push import Push, Pusher  # ssl and lzma take 10 ms

        pusher = Pusher(
            writer.engine, streams=transport.streams, reader=lambda: session.reader,
            number=writer.number, packed=packed,
        )  # fmt: skip
        fallback = Push(pusher, session, facts, writer)
    if transport.parser.value == ENGINE or encoding is None:
        return fallback
    names = [column.name for column in plan.schema.columns]
    sort_by = tuple(names.index(name) for name in transport.sorted_by)
    given = DecoderInput(source, writer.target, encoding, sort_by, fallback)
    if transport.parser.value == INSIDE:
        stored = sum(plan.listing.size(i) or 0 for g in plan.groups for i in g.indexes)
        return DecodeInside(writer.engine, given, stored / (plan.forecast.rows or 1))
    if facts.program is None:
        return fallback
    if transport.delivery.value == PUSH:
        return DecodePush(facts.program, writer.engine, given, transport.streams, packed=packed)
    opened = Build if transport.delivery.value == BUILD else Decode
    return opened(facts.program, writer.engine, given)
