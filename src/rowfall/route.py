"""Which delivery a plan has chosen: the one place that knows them all."""

from __future__ import annotations

from rowfall import decoding
from rowfall.build import Build
from rowfall.decode import Decode, DecodePush, Given
from rowfall.delivery import Delivery, Pull, Push
from rowfall.jobs import Job, Seat
from rowfall.model import Plan
from rowfall.packing import LZ4
from rowfall.spread import Filtered, Scattered, sending
from rowfall.ways import BY_HAND, DISTRIBUTED, FILTER


def deliver(job: Job, plan: Plan, seat: Seat) -> Delivery:
    """The delivery of a load into one engine."""
    if job.shards is not None and job.options.method in BY_HAND:
        from rowfall.methods import ByMethod

        return ByMethod(job.options.method, job, job.shards, seat.engine)
    if plan.spread == DISTRIBUTED and job.keyed is not None:
        return Scattered(_one(job, plan, sending(seat, job.keyed)), job.seats)
    if plan.spread == FILTER and job.keyed is not None and not seat.number:
        each = [_one(job, plan, one) for one in job.seats]
        return Filtered(each, [one.settings for one in plan.seats], job.keyed)
    return _one(job, plan, seat)


def _one(job: Job, plan: Plan, seat: Seat) -> Delivery:
    server = seat.server
    pushes = server is not None and plan.delivery == "push"
    reader: Delivery = Pull(seat.engine, job.puller, seat.target, job.encoding)
    # The server cannot read ranges of text; what its decoder declines of them is read here.
    if server is not None and (pushes or _of_text(plan)):
        from rowfall.push import Pusher

        pusher = Pusher(
            server, streams=plan.streams, reader=lambda: job.reader, number=seat.number,
            packed=plan.compress == LZ4,
        )  # fmt: skip
        reader = Push(pusher, job, seat)
    if plan.decoder != decoding.PROGRAM or job.encoding is None:
        return reader
    names = [column.name for column in plan.schema.columns]
    sort_by = tuple(names.index(name) for name in plan.sorted_by)
    given = Given(job.puller, seat.target, job.encoding, sort_by, reader)
    if server is not None and not pushes:
        from rowfall.inside import DecodeInside

        stored = sum(job.listing.size(i) or 0 for g in plan.groups for i in g.indexes)
        return DecodeInside(server, given, stored / (plan.forecast.rows or 1))
    program = decoding.program()
    if program is None:  # removed since the plan was made
        return reader
    if server is not None:
        return DecodePush(program, server, given, plan.streams, packed=plan.compress == LZ4)
    return (Build if plan.delivery == "build" else Decode)(program, seat.engine, given)


def _of_text(plan: Plan) -> bool:
    """Whether any attempt is one of ranges of text; each has only those, or none."""
    return any(plan.listing.of_text(i) for g in plan.groups for i in g.indexes[:1])
