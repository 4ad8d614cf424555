"""Feeds of sources that are followed: what is new, as batches, and what was done about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rowfall.contracts.destination import Session
from rowfall.contracts.following import FollowControl, Lag
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.results import Failure
from rowfall.core.units import parse_duration

# The brokers are asked so often whether there is something new: three small requests.
POLL_SECONDS = 0.5
# A batch of a topic begins so long after its first message was seen, or with so many messages: a
# batch costs 0.3 to 1 second besides its rows, and one part for each partition of the table.
BATCH_SECONDS = 2.0
# Bytes of objects in a batch: what is loaded again after a crash, and minutes of a slow machine.
BATCH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Batch:
    """Says what the next load brings in.

    Attributes:
        session: with the listing of the batch; how it is encoded is found out with the load.
        known: ids of its splits that are loaded; None where everything has to be asked.
        names: of its objects, with their versions; none of a topic.
        check: see :func:`rowfall.run.load.run_next`.
    """

    session: Session
    known: frozenset[str] | None
    names: tuple[tuple[str, str], ...] = ()
    check: Callable[[], None] | None = None


class Feed(Protocol):
    """Finds what is new in a source, and remembers what was done about it.

    Attributes:
        splits: a batch that fails as a whole can be cut into smaller ones.
    """

    splits: bool

    def next(self) -> Batch | None:
        """Return the next batch; None where none has to begin now.

        Raises:
            RowfallError: source or record do not answer.
        """

    def wait(self, control: FollowControl) -> None:
        """Wait until it is worth asking again."""

    def lag(self) -> Lag:
        """Return what is found and not loaded."""

    def loaded(
        self, batch: Batch, known: frozenset[str], failures: Sequence[Failure]
    ) -> list[Failure]:
        """Note that a batch has ended; files that failed for a passing reason are tried later.

        Args:
            known: as :func:`rowfall.run.load.run_next` returns it.

        Returns:
            The other failures.

        Raises:
            SourceError: the source is away, so that nobody knows which of them last.
        """

    def tired(self) -> list[tuple[Failure, str]]:
        """Return, once, files that have failed for too long, each with its version."""

    def give_up(self, failure: Failure) -> None:
        """Try a file no more."""

    def retry(self, names: set[str]) -> None:
        """Try files again that were given up."""

    def smaller(self, batch: Batch, error: RowfallError) -> Failure | None:
        """Take a batch back that has failed as a whole, to try less of it at once.

        Returns:
            The failure of its only file, where it has only one.
        """

    def prune(self, days: int) -> None:
        """Forget what it remembers of versions that were written more than so many days ago."""

    def begin_anew(self, error: RowfallError) -> None:
        """Go on after source or target were away: nothing is known any more."""

    def close(self) -> None:
        """Let go of everything."""


class WholeFeed:
    """A base of feeds whose batches are loaded as a whole: one that fails ends the command."""

    splits = False

    def tired(self) -> list[tuple[Failure, str]]:
        return []

    def give_up(self, failure: Failure) -> None:
        """Do nothing: no file is tried again by itself."""

    def retry(self, names: set[str]) -> None:
        """Do nothing: no file was given up."""

    def prune(self, days: int) -> None:
        """Do nothing: it remembers no versions."""

    def smaller(self, batch: Batch, error: RowfallError) -> Failure | None:
        raise error


def pause(text: str | None, default: float) -> float:
    """Return the seconds of a duration that may be 0."""
    if text is None:
        return default
    return 0.0 if text.strip() in ("0", "0s") else parse_duration(text)
