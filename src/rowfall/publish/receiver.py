"""What the receivers of all kinds of targets have in common."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.contracts.destination import Receiving
from rowfall.contracts.receiver import EndsAttempts
from rowfall.ledger.leases import Leases, NoLeases


class BaseReceiver:
    """What holds where a kind of target says nothing else; see :class:`Receiver`.

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
        self, given: Receiving, leases: Leases | None = None, recovery: EndsAttempts | None = None
    ) -> None:
        self._given = given
        self.leases, self.recovery = leases or NoLeases(), recovery

    def hint(self, text: str) -> str:
        return text
