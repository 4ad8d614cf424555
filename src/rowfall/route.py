"""Which delivery a plan has chosen: the one place that knows them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowfall import decoding
from rowfall.decode import Decode, DecodePush, Given
from rowfall.delivery import Delivery, Pull, Push
from rowfall.jobs import BY_HAND, Job, Seat
from rowfall.model import Plan
from rowfall.planner import DISTRIBUTED, FILTER
from rowfall.spread import Filtered, Scattered, sending

if TYPE_CHECKING:
    from rowfall.engines.server import Server


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
    pushes = plan.delivery == "push"
    reader: Delivery = Pull(seat.engine, job.puller, seat.target, job.encoding)
    # The server cannot read ranges of text; what its decoder declines of them is read here.
    if pushes or any(plan.listing.of_text(i) for g in plan.groups for i in g.indexes[:1]):
        from rowfall.push import Pusher

        pusher = Pusher(
            _server(seat), streams=plan.streams, reader=lambda: job.reader, number=seat.number
        )
        reader = Push(pusher, job, seat)
    if plan.decoder != decoding.PROGRAM or job.encoding is None:
        return reader
    names = [column.name for column in plan.schema.columns]
    sort_by = tuple(names.index(name) for name in plan.sorted_by)
    given = Given(job.puller, seat.target, job.encoding, sort_by, reader)
    if job.target.server is not None and not pushes:
        from rowfall.inside import DecodeInside

        stored = sum(job.listing.size(i) or 0 for g in plan.groups for i in g.indexes)
        return DecodeInside(_server(seat), given, stored / (plan.forecast.rows or 1))
    program = decoding.program()
    if program is None:  # removed since the plan was made
        return reader
    if pushes:
        return DecodePush(program, _server(seat), given, plan.streams)
    return Decode(program, seat.engine, given)


def _server(seat: Seat) -> Server:
    from rowfall.engines.server import Server

    assert isinstance(seat.engine, Server)  # noqa: S101 - of a target that is a server
    return seat.engine
