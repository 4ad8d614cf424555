"""Who may load which split, as the executor asks it: a journal answers, or nobody else is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from rowfall.core.listing import Split
from rowfall.ledger.rows import Move


@dataclass(frozen=True, slots=True)
class Claim:
    """What an attempt was given of the splits that it asked for.

    Attributes:
        landed: ids that another process has landed.
        busy: ids that a living process holds.
        lost: attempts of dead processes that hold some of the others: expire them, ask again.
    """

    landed: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        return not (self.landed or self.busy or self.lost)


class Fate(Enum):
    """What others have made of an attempt that this process goes on with."""

    OWN = "nothing"
    TAKEN = "expired: another process took this one for dead"
    LANDED = "published"


class Claims(Protocol):
    """Who may load which split, as the executor asks it."""

    def claim(self, attempt: str, splits: Sequence[Split], place: str = "") -> Claim: ...
    def counting(self, attempt: str) -> None: ...
    def commit(self, attempt: str, rows: int, moves: Sequence[Move]) -> bool: ...
    def landed(self, attempt: str) -> None: ...
    def added(self, attempt: str, move: Move, place: str = "") -> tuple[int, int]: ...
    def release(self, attempt: str) -> None: ...
    def fate(self, attempt: str) -> Fate: ...


class Alone:
    """The claims of a target that one process has to itself: an embedded folder, a file."""

    def claim(self, attempt: str, splits: Sequence[Split], place: str = "") -> Claim:
        return Claim()

    def counting(self, attempt: str) -> None:
        """Nobody else changes what is counted."""

    def commit(self, attempt: str, rows: int, moves: Sequence[Move]) -> bool:
        return True

    def landed(self, attempt: str) -> None:
        """Nothing: the ledger in the folder is the only memory."""

    def release(self, attempt: str) -> None:
        """Nothing is held."""

    def fate(self, attempt: str) -> Fate:
        return Fate.OWN

    def added(self, attempt: str, move: Move, place: str = "") -> tuple[int, int]:
        return 0, 0
