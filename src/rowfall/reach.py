"""Whether a server can read the source itself."""

from __future__ import annotations

from dataclasses import dataclass

from rowfall.engines.server import Server
from rowfall.model import Encoding, Listing
from rowfall.options import Options
from rowfall.sources.base import Source


@dataclass(frozen=True, slots=True)
class Reach:
    """How rows get to a server.

    Attributes:
        pull: the server reads the source itself.
        reason: why, for the plan.
    """

    pull: bool
    reason: str


def reach(
    server: Server, source: Source, listing: Listing, encoding: Encoding | None, options: Options
) -> Reach:
    """Decide by what the source is."""
    if not source.replayable:
        return Reach(False, "only this process can read its stdin")
    if options.pull or options.push:
        return Reach(options.pull, "as asked for")
    if encoding is None:
        return Reach(True, "the server makes the rows itself")
    if "://" in listing.uri(0):
        return Reach(True, "the source is not on this machine")
    return Reach(False, f"only this machine can read {listing.uri(0)}")
