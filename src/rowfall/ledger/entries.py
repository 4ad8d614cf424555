"""What the lines of the journal say about each attempt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowfall.ledger import owner
from rowfall.ledger.rows import Move

# A process of another machine that has written nothing for so long counts as dead.
LEASE_SECONDS = 60
QUIT = "quit"
# An event, and the field of an entry that holds its block.
_EVENTS = {
    "claim": "claimed",
    "count": "counted",
    "commit": "committed",
    "expire": "expired",
    "release": "released",
    "landed": "landed",
    "forget": "forgotten",
}

# Owners of the loads that this process runs now. A load that has ended in another way than by
# the end of its process is as dead as any.
RUNNING: set[str] = set()


@dataclass(slots=True)
class Entry:
    """One attempt as the journal knows it; numbers are block numbers, 0 for "has not happened".

    Attributes:
        place: the node that it stages on, "" where the journal is; the nodes, with commas between
            them, of an attempt that is staged on several and made visible on all of them.
        splits: those that were asked about, each with the block of the line that claims it.
        counted: from then on it asked what the target holds, to write it into its commit.
        idle: seconds since its owner's last line, by the server's clock.
        quit: its owner has ended and said so.
    """

    attempt: str
    owner: str
    claimed: int = 0
    counted: int = 0
    committed: int = 0
    expired: int = 0
    released: int = 0
    landed: int = 0
    forgotten: int = 0
    idle: float = 0.0
    rows: int = 0
    moves: tuple[Move, ...] = ()
    place: str = ""
    splits: dict[str, int] = field(default_factory=dict)
    quit: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """Every node that it stages on."""
        return tuple(self.place.split(","))

    def moves_at(self, place: str) -> tuple[Move, ...]:
        """Those of one of its places."""
        return tuple(m for m in self.moves if m.place in ("", place))

    @property
    def binding(self) -> bool:
        """Whether its commit counts: rows can only be published."""
        return bool(self.committed) and not 0 < self.expired < self.committed

    @property
    def ended(self) -> bool:
        """Whether it holds nothing any more and never will."""
        return not self.landed and bool(self.released or (self.expired and not self.binding))

    @property
    def dead(self) -> bool:
        here = self.owner.startswith(f"{owner.me()} ") and self.owner not in RUNNING
        # A last line from the far future: the clock has jumped back, and a living owner would
        # have written since, or will lose an attempt.
        silent = abs(self.idle) > LEASE_SECONDS
        return self.quit or here or owner.dead(self.owner) or silent


def read_entries(rows: Iterable[Sequence[Any]]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    # An owner may write expire and landed for another's attempt: the claim says whose it is.
    idle: dict[str, float] = {}
    quit: set[str] = set()
    for event, attempt, who, block, count, detail, splits, seconds in rows:
        idle[who] = seconds
        if event == QUIT:
            quit.add(who)
        if event in ("alive", QUIT):
            continue
        entry = found.setdefault(attempt, Entry(attempt, who))
        name = _EVENTS[event]
        # The first line of a kind counts; a repeated one is the echo of a lost connection.
        setattr(entry, name, getattr(entry, name) or int(block))
        if event == "claim":
            entry.owner = who
            entry.place = detail
            for split in splits:
                entry.splits.setdefault(split, int(block))
        elif event == "commit":
            entry.rows = int(count)
            entry.moves = tuple(Move(*move) for move in json.loads(detail))
    for entry in found.values():
        entry.idle = idle.get(entry.owner, 0.0)
        entry.quit = entry.owner in quit
    return found


def added(
    mine: Entry, others: Iterable[Entry], move: Move, here: str, shard_of: Mapping[str, int]
) -> tuple[int, int]:
    """The least and the most rows that other attempts have brought into the partition of one of
    this one's moves since what it held was counted.

    Args:
        here: which of its places is meant.
        shard_of: of a cluster, the shard of each place.
    """
    least = most = 0
    shard = shard_of.get(here)
    where = (move.database, move.table, move.partition_id)
    for other in others:
        own = here in other.places
        # Of an attempt on several replicas, each of which has a table of its own, this one counts.
        # Of one on another replica it may be the same table; other shards have other ones.
        near = [p for p in other.places if shard is None or shard_of.get(p, shard) == shard]
        moves = [
            m for place in ([here] if own else near) for m in other.moves_at(place)
            if (m.database, m.table, m.partition_id) == where
        ]  # fmt: skip
        # What has landed on another replica is seen here a while later.
        seen = mine.counted if own and mine.counted else mine.claimed
        if not other.binding or 0 < other.landed < seen:
            continue
        rows = sum(m.rows for m in moves)
        most += rows
        # The blocks of an attempt are above the highest one that it has written down.
        after = other.committed > mine.committed or all(
            m.highest_block >= move.highest_block for m in moves
        )
        if own and other.landed and after:
            least += rows
    return least, most
