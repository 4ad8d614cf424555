"""Look at a load while it runs, from any process, by what it writes beside its ledger."""

from __future__ import annotations

from pathlib import Path

from rowfall.core.results import Explanation
from rowfall.ledger import LoadRow, running
from rowfall.ledger.leases import has_ended
from rowfall.run import history


class WatchedLoad:
    """One load of one ledger.

    Args:
        path: of the ledger. ``load_id``: of the load, in full.
    """

    def __init__(self, path: Path, load_id: str) -> None:
        self._path, self._id = path, load_id
        self._row: LoadRow | None = None

    def now(self) -> Explanation | None:
        """Return what is known of the load; None where it is in the ledger no more.

        While it runs only a small file is read: the ledger itself is asked once, and at the end.
        """
        row = self._row or history.row_of(self._path, self._id)
        if row is None:
            return None
        alive = row.state == "running" and not has_ended(row.owner)
        if alive and running.path_of(self._path, self._id).exists():
            self._row = row
            return history.unfinished(self._path, history.running_report(self._path, row))
        self._row = None
        report = history.latest(self._path, self._id)
        return None if report is None else history.explanation_in(self._path, report)
