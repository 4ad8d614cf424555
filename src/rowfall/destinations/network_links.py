"""Measure the network to a target: a round trip, and bytes both ways."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from rowfall.core.errors import RowfallError
from rowfall.core.netaddress import is_loopback
from rowfall.core.results import Link, LinkKind
from rowfall.plan.reach import FEW, MANY, rate_of

LATENCY, SENDING, RECEIVING = "round trip", "to the target", "from the target"
"""Names of the links."""
# Round trips that are timed: the first may open a connection.
_PINGS = 5
# Bytes that are sent, until some take long enough: the last ones alone take 4 s at 2 MB/s.
_SIZES = (FEW, 2 << 20, MANY)
# Bytes a second to an address of this machine, below which it is the end of a tunnel.
_TUNNEL = 30e6


def network_links(
    host: str, ping: Callable[[], object], send: Callable[[int], float],
    fetch: Callable[[int], float],
) -> tuple[Link, ...]:  # fmt: skip
    """Return the links of a network; those that the server refuses are left out.

    Args:
        ping: one round trip. ``send``, ``fetch``: seconds for so many bytes.
    """
    try:
        ping()
        taken = []
        for _ in range(_PINGS):
            began = time.monotonic()
            ping()
            taken.append(time.monotonic() - began)
    except RowfallError:
        return ()
    links = [Link(LinkKind.NETWORK, LATENCY, median(taken), "seconds", f"median of {_PINGS}")]
    for name, seconds in ((SENDING, send), (RECEIVING, fetch)):
        rate = rate_of(seconds, _SIZES)
        if rate is not None:
            # What a server of this machine does with the bytes is slower than they come.
            limits = not is_loopback(host) or rate < _TUNNEL
            links.append(Link(LinkKind.NETWORK, name, rate, "bytes/s", "one stream", limits=limits))
    return tuple(links)
