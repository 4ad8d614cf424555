"""Which delivery a plan has chosen: the one place that knows them all."""

from __future__ import annotations

from rowfall.core.model import Plan
from rowfall.core.options import DISTRIBUTED, FILTER
from rowfall.deliver.build import Build
from rowfall.deliver.decode import Decode, DecodePush, Given
from rowfall.deliver.delivery import Delivery, Pull, Push
from rowfall.deliver.sharded import Filtered, Scattered, sending
from rowfall.plan import decoder
from rowfall.plan.compression import LZ4
from rowfall.plan.session import Session, Writer


def deliver(session: Session, plan: Plan, writer: Writer) -> Delivery:
    """The delivery of a load into one engine."""
    key = session.sharding_key
    if plan.spread == DISTRIBUTED and key is not None:
        return Scattered(_one(session, plan, sending(writer, key)), session.writers)
    if plan.spread == FILTER and key is not None and not writer.number:
        each = [_one(session, plan, one) for one in session.writers]
        return Filtered(each, [one.settings for one in plan.writers], key)
    return _one(session, plan, writer)


def _one(session: Session, plan: Plan, writer: Writer) -> Delivery:
    server = writer.server
    pushes = server is not None and plan.delivery == "push"
    reader: Delivery = Pull(writer.engine, session.puller, writer.target, session.encoding)
    # The server cannot read ranges of text; what its decoder declines of them is read here.
    if server is not None and (pushes or _of_text(plan)):
        from rowfall.deliver.push import Pusher

        pusher = Pusher(
            server, streams=plan.streams, reader=lambda: session.reader, number=writer.number,
            packed=plan.compress == LZ4,
        )  # fmt: skip
        reader = Push(pusher, session, writer)
    if plan.decoder != decoder.PROGRAM or session.encoding is None:
        return reader
    names = [column.name for column in plan.schema.columns]
    sort_by = tuple(names.index(name) for name in plan.sorted_by)
    given = Given(session.puller, writer.target, session.encoding, sort_by, reader)
    if server is not None and not pushes:
        from rowfall.deliver.inside import DecodeInside

        stored = sum(session.listing.size(i) or 0 for g in plan.groups for i in g.indexes)
        return DecodeInside(server, given, stored / (plan.forecast.rows or 1))
    program = decoder.program()
    if program is None:  # removed since the plan was made
        return reader
    if server is not None:
        return DecodePush(program, server, given, plan.streams, packed=plan.compress == LZ4)
    return (Build if plan.delivery == "build" else Decode)(program, writer.engine, given)


def _of_text(plan: Plan) -> bool:
    """Whether any attempt is one of ranges of text; each has only those, or none."""
    return any(plan.listing.of_text(i) for g in plan.groups for i in g.indexes[:1])
