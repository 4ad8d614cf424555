"""Which delivery a plan has chosen: the one place that knows them all."""

from __future__ import annotations

from rowfall import decoding
from rowfall.decode import Decode, DecodePush
from rowfall.delivery import Delivery, Pull, Push
from rowfall.jobs import Job
from rowfall.model import Plan
from rowfall.publish import ask
from rowfall.sqltext import quote


def deliver(job: Job, plan: Plan) -> Delivery:
    """The delivery of a load."""
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
