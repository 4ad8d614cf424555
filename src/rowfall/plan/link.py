"""How fast the network to a server is: measured with a few inserts into nothing."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from rowfall.core.errors import RowfallError
from rowfall.core.model import Statement
from rowfall.core.sqltext import SqlText
from rowfall.plan import compression
from rowfall.plan.inputs import Link
from rowfall.plan.reach import same_machine
from rowfall.plan.session import Session

if TYPE_CHECKING:
    from rowfall.engines.server import Server

# Bytes sent at first, 0.26 s of a network of 1 MB/s, and then, 0.07 s of one of 1 Gbit/s.
FEW, MANY = 1 << 18, 8 << 20
# By so much the statements themselves differ on a busy machine.
NOISE_SECONDS = 0.1
_INTO_NOTHING = "INSERT INTO FUNCTION null('data UInt64') FORMAT Native"
# Rows of a block: as the decoder's, they are taken over as they are.
_ROWS = 1 << 15


def look(session: Session) -> Link | None:
    """The link to the servers that blocks are pushed to, None where nothing depends on it.

    Of several servers the slowest counts.
    """
    target = session.target.server
    if (
        target is None
        or session.how is None
        or session.how.pull
        or not compression.measures(session.options)
    ):
        return None
    servers = [
        (cast("Server", writer.engine), writer.place.rpartition(":")[0] or target.host)
        for writer in session.writers
    ]
    far = [server for server, host in servers if not same_machine(server, host)]
    if not far:
        return Link(near=True)
    rates = [rate(server) for server in far]
    known = [found for found in rates if found is not None]
    return Link(rate=min(known) if len(known) == len(far) else None)


def rate(server: Server) -> float | None:
    """Bytes a second that get to a server; None where its user may not try that."""
    with suppress(RowfallError):
        # A statement's own time, and that of a new connection.
        least = min(_seconds(server, 0) for _ in range(2))
        taken = _seconds(server, FEW) - least
        if taken > NOISE_SECONDS:
            return FEW / taken
        taken = _seconds(server, MANY) - least
        if taken < 3 * NOISE_SECONDS:
            taken = min(taken, _seconds(server, MANY) - least)
        return MANY / max(taken, 1e-3)
    return None


def _seconds(server: Server, size: int) -> float:
    """How long it takes until the server has got ``size`` bytes and has said so."""
    # Nothing on the way can make less of them.
    block = b"\x01\x80\x80\x02\x04data\x06UInt64" + os.urandom(8 * _ROWS)
    body = [block] * (size // (8 * _ROWS))
    started = time.monotonic()
    server.run(Statement(SqlText.of(_INTO_NOTHING)), body=body)
    return time.monotonic() - started
