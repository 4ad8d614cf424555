"""How fast the network to a server is: measured with a few inserts into nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from rowfall import packing
from rowfall.engines.machine import usable_cores
from rowfall.errors import RowfallError
from rowfall.inputs import Link
from rowfall.jobs import Job
from rowfall.model import Statement
from rowfall.reach import same_machine
from rowfall.sqltext import SqlText

if TYPE_CHECKING:
    from rowfall.engines.server import Server

# The first takes 0.26 s of a network of 1 MB/s, the second 0.07 s of one of 1 Gbit/s.
PROBES = (1 << 18, 8 << 20)
# What takes longer is no matter of the few milliseconds by which the statements themselves differ.
ENOUGH_SECONDS = 0.02
# Repeated, so that nothing on the way can compress it better than blocks.
_PIECE = 1 << 17
_INTO_NOTHING = "INSERT INTO FUNCTION null('data String') FORMAT RawBLOB"


def look(job: Job) -> Link | None:
    """The link to the servers that blocks are pushed to, None where nothing depends on it.

    Of several servers the slowest counts.
    """
    target = job.target.server
    if target is None or job.how is None or job.how.pull or not packing.measures(job.options):
        return None
    servers = [
        (cast("Server", seat.engine), seat.place.rpartition(":")[0] or target.host)
        for seat in job.seats
    ]
    far = [server for server, host in servers if not same_machine(server, host)]
    if not far:
        return Link(near=True)
    rates = [rate(server) for server in far]
    known = [found for found in rates if found is not None]
    return Link(rate=min(known) if len(known) == len(far) else None, cores=usable_cores())


def rate(server: Server) -> float | None:
    """Bytes a second that get to a server; None where its user may not try that."""
    found = None
    with suppress(RowfallError):
        # A statement's own time, and that of a new connection.
        least = min(_seconds(server, 1) for _ in range(2))
        for size in PROBES:
            taken = max(_seconds(server, size) - least, 1e-4)
            found = size / taken
            if taken > ENOUGH_SECONDS:
                break
    return found


def _seconds(server: Server, size: int) -> float:
    """How long it takes until the server has got ``size`` bytes and has said so."""
    started = time.monotonic()
    server.run(Statement(SqlText.of(_INTO_NOTHING)), body=_noise(size))
    return time.monotonic() - started


def _noise(size: int) -> Iterator[bytes]:
    piece = os.urandom(min(size, _PIECE))
    for at in range(0, size, _PIECE):
        yield piece[: size - at]
