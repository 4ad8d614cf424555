"""Which delivery a plan has chosen: the one place that knows them all."""

from __future__ import annotations

from rowfall import decoding
from rowfall.decode import Decode, DecodePush
from rowfall.delivery import Delivery, Pull, Push
from rowfall.jobs import Job
from rowfall.model import Plan
from rowfall.publish import ask
from rowfall.sources.base import Addressed
from rowfall.sqltext import quote


def deliver(job: Job, plan: Plan) -> Delivery:
    """The delivery of a load."""
    if plan.delivery == "pull" and job.target.server is not None:
        return _pulled(job, plan)
    program = decoding.program() if plan.decoder == decoding.PROGRAM else None
    if plan.delivery == "push":
        from rowfall.engines.server import Server
        from rowfall.push import Pusher

        assert isinstance(job.engine, Server)  # noqa: S101 - nothing else is pushed to
        push = Push(Pusher(job.engine, streams=plan.streams, reader=lambda: job.reader), job)
        if program is None or job.encoding is None:
            return push
        return DecodePush(
            program, job.source, job.engine, job.target, job.encoding, _sorted_by(job, plan), push,
            plan.streams,
        )  # fmt: skip
    pull = Pull(job.engine, job.puller, job.target, job.encoding)
    if program is None or job.encoding is None:
        return pull
    return Decode(
        program, job.source, job.engine, job.target, job.encoding, _sorted_by(job, plan), pull
    )


def _pulled(job: Job, plan: Plan) -> Delivery:
    """A server reads the source itself."""
    pull = Pull(job.engine, job.puller, job.target, job.encoding)
    if plan.decoder != decoding.PROGRAM or job.encoding is None:
        return pull
    from rowfall.engines.server import Server
    from rowfall.inside import DecodeInside

    source = job.puller
    assert isinstance(job.engine, Server)  # noqa: S101 - as asked for
    assert isinstance(source, Addressed)  # noqa: S101 - the plan says so
    rows = plan.forecast.rows or 1
    stored = sum(job.listing.size(i) or 0 for g in plan.groups for i in g.indexes)
    return DecodeInside(
        job.engine, source, job.target, job.encoding, _sorted_by(job, plan), stored / rows, pull
    )


def _sorted_by(job: Job, plan: Plan) -> tuple[int, ...]:
    """Columns that blocks are sorted by before they are sent."""
    if not job.target.table or job.options.presort == "never":
        return ()
    rows = ask(
        job.engine,
        "SELECT sorting_key FROM system.tables WHERE "
        f"database = {quote(job.target.database)} AND name = {quote(job.home)}",
    )
    return decoding.sort_columns(str(rows[0][0]), plan.schema) if rows else ()
