"""Which delivery a plan has chosen: the one place that knows them all."""

from __future__ import annotations

from rowfall import decoding
from rowfall.decode import Decode
from rowfall.delivery import Delivery, Pull, Push
from rowfall.jobs import Job
from rowfall.model import Plan
from rowfall.publish import ask
from rowfall.sqltext import quote


def deliver(job: Job, plan: Plan) -> Delivery:
    """The delivery of a load."""
    if plan.delivery == "push":
        from rowfall.engines.server import Server
        from rowfall.push import Pusher

        assert isinstance(job.engine, Server)  # noqa: S101 - nothing else is pushed to
        return Push(Pusher(job.engine, streams=plan.streams, reader=lambda: job.reader), job)
    pull = Pull(job.engine, job.source, job.target, job.encoding)
    program = decoding.program()
    if plan.decoder != decoding.PROGRAM or program is None or job.encoding is None:
        return pull
    key = ""
    if job.target.table:
        rows = ask(
            job.engine,
            "SELECT sorting_key FROM system.tables WHERE "
            f"database = {quote(job.target.database)} AND name = {quote(job.home)}",
        )
        key = str(rows[0][0]) if rows else ""
    order = decoding.sort_columns(key, plan.schema)
    return Decode(program, job.engine, job.target, job.encoding, order, pull)
