"""What every way of landing is given, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowfall.core.events import Listener
from rowfall.core.model import Outcome, Setting
from rowfall.deliver.delivery import Delivery
from rowfall.engines.base import Engine
from rowfall.ledger import Ledger
from rowfall.ledger.leases import Leases
from rowfall.publish.publisher import Staged
from rowfall.publish.staging_tables import Twins
from rowfall.run.work_queue import Work
from rowfall.schema.bad_rows import BadRows
from rowfall.sources.base import Source
from rowfall.targets.base import Target


@dataclass(frozen=True, slots=True)
class Means:
    """What an executor works with; every part was opened by the session.

    Attributes:
        engine: stores the rows. ``delivery`` gets them there.
        twins: staging tables, None for targets that are files.
        into: the ledger's key of the place where attempts are published.
        identity: the key that split ids are made with: the target's, whatever ``into`` is.
        settings: for the INSERT.
        rescue: brings attempts of dead processes to an end, so that their splits are free.
        allowed: settings for CREATE TABLE: what the target has, its twin may have.
        calm: waits until the target can take the parts of an attempt.
        check: raises TargetError when the target is not the table any more that the load began
            with.
        writer: the number of this engine's line in the queue; ``place`` is its name in the journal,
            ``shard`` what it is a replica of.
        together: all writers, this one among them, where each attempt is staged on all of them
            because a sharding key says which rows belong where; else ().
    """

    engine: Engine
    source: Source
    target: Target
    ledger: Ledger
    claims: Leases
    delivery: Delivery
    bad_rows: BadRows
    twins: Twins | None
    into: str
    identity: str
    settings: tuple[Setting, ...]
    emit: Listener
    allowed: Mapping[str, int]
    rescue: Callable[[Sequence[str]], None]
    calm: Callable[[Staged], None]
    check: Callable[[], None]
    writer: int = 0
    place: str = ""
    shard: int = 0
    together: tuple[Place, ...] = ()

    @property
    def places(self) -> str:
        """Where attempts are staged, as the journal has it."""
        return ",".join(each.means.place for each in self.together) or self.place


@dataclass(frozen=True, slots=True)
class Place:
    """One engine that attempts are staged on, in twins of its tables."""

    means: Means
    twins: Twins


@dataclass(frozen=True, slots=True)
class Done:
    """An attempt whose INSERT has ended well: rows are staged, nothing is visible."""

    work: Work
    attempt: str
    staging: str
    outcome: Outcome
    stored: int
    started: float


@dataclass(frozen=True, slots=True)
class Landed:
    """What of an attempt is visible now; ``checksum`` as of
    :func:`rowfall.publish.publisher.checksum`.

    ``shares``: of one that was staged on several writers, what each of them has got.
    """

    rows: int
    parts: int
    bytes: int
    rejected: int = 0
    checksum: tuple[int, int] | None = None
    shares: tuple[Landed, ...] = ()


class Landing(Protocol):
    """How attempts of one load become visible."""

    def stage(self, place: str, lane: int) -> None:
        """Make the staging place of an attempt."""

    def finish(self, done: Done) -> Landed | None:
        """Check an attempt and make it visible; None when it was not ours any more."""

    def bound(self, attempt: str) -> bool:
        """Whether an attempt may be visible in part, so that nothing may be taken back."""

    def discard(self, place: str) -> None:
        """Remove what an attempt left; harmless when there is nothing."""
