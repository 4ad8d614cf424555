"""What executors counted: one, all of them together, and each writer's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rowfall.core.model import Setting
from rowfall.core.results import Failure
from rowfall.run.landing.base import Landed

_SUMS = (
    "rows", "rejected", "stored", "raw", "written", "parts", "landed", "elsewhere", "attempts",
    "retries", "publish_seconds", "helper_seconds", "writing_seconds", "waited_seconds", "failures",
    "notes", "query_ids",
)  # fmt: skip


@dataclass(slots=True)
class Tally:
    """What the executor counted; the report is made from it."""

    rows: int = 0
    rejected: int = 0
    stored: int = 0
    raw: int = 0
    written: int = 0
    parts: int = 0
    landed: int = 0
    elsewhere: int = 0
    attempts: int = 0
    retries: int = 0
    publish_seconds: float = 0.0
    helper_seconds: float = 0.0
    writing_seconds: float = 0.0
    waited_seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settings: tuple[Setting, ...] = ()
    landed_ids: set[str] = field(default_factory=set)
    query_ids: list[str] = field(default_factory=list)
    checksum: tuple[int, int] | None = None
    shares: list[tuple[Landed, ...]] = field(default_factory=list)


def total(tallies: Sequence[Tally]) -> Tally:
    """What several executors have counted."""
    if len(tallies) == 1:
        return tallies[0]
    found = Tally(settings=tallies[0].settings)
    for tally in tallies:
        for name in _SUMS:
            setattr(found, name, getattr(found, name) + getattr(tally, name))
        found.landed_ids |= tally.landed_ids
        if tally.checksum is not None:
            rows, hashes = found.checksum or (0, 0)
            more, own = tally.checksum
            found.checksum = (rows + more, (hashes + own) % (1 << 64))
    return found


def by_writer(tallies: Sequence[Tally], writers: int) -> Sequence[Tally]:
    """What each of several writers has got, also where attempts were staged on all of them."""
    shares = [share for tally in tallies for share in tally.shares if share]
    if not shares and len(tallies) == writers:
        return tallies
    found = []
    for at in range(writers):
        # One executor alone: what it has read was read by all of them.
        tally = replace(tallies[at if len(tallies) == writers else 0])
        tally.rows = sum(share[at].rows for share in shares)
        tally.parts = sum(share[at].parts for share in shares)
        tally.written = sum(share[at].bytes for share in shares)
        found.append(tally)
    return found
