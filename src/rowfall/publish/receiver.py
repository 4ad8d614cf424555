"""The common base of the receivers of all kinds of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowfall.contracts.destination import ReceiverInputs
from rowfall.contracts.receiver import Counted, EndsAttempts, StagedAttempt
from rowfall.ledger.leases import Leases, NoLeases


class BaseReceiver:
    """A receiver with the answers that most kinds of targets give.

    Args:
        leases, recovery: see :class:`rowfall.contracts.receiver.Receiver`.
    """

    unstaged = False
    in_background = False
    output_files = False
    skips_refused_rows = False
    nodes = ""
    watched: tuple[str, Sequence[str]] | None = None

    def __init__(
        self,
        given: ReceiverInputs,
        leases: Leases | None = None,
        recovery: EndsAttempts | None = None,
    ) -> None:
        self._given = given
        self.leases, self.recovery = leases or NoLeases(), recovery

    def hint(self, text: str) -> str:
        return text

    def insert_into(self, staging: str) -> str:
        return staging

    def settings(self, staging: str) -> Mapping[str, int]:
        return {}

    def stage(self, staging: str, lane: int) -> None:
        """Do nothing: the INSERT makes what it writes into."""

    def wait_for_room(self, counted: Counted) -> None:
        """Do nothing: there are no merges."""

    def sync(self, delivered: StagedAttempt) -> None:
        """Do nothing: what is stored is on disk, as far as that can be said from here."""

    def commit(self, delivered: StagedAttempt, counted: Counted) -> bool:
        """Record in the ledger that the rows are going to be visible."""
        self._given.load.ledger.attempt_committed(delivered.attempt, counted.rows, ())
        return True

    def record(self, delivered: StagedAttempt) -> None:
        self._given.load.ledger.attempt_published(delivered.attempt, self._given.load.key)
