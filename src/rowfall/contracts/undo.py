"""The request to take the rows of a load out of its target again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError
from rowfall.core.options import Options
from rowfall.core.results import Report, Undone


@dataclass(frozen=True, slots=True)
class Undo:
    """One request to take the rows of a load out again.

    Attributes:
        report: of the load. ``request``: what it was asked for; ``options``: of these, what
            reaches the target.
        dry: change nothing.
        views: take out as well what views have made of the rows.
    """

    report: Report
    request: Mapping[str, Any]
    options: Options
    dry: bool
    views: bool

    @property
    def load_id(self) -> str:
        return self.report.load_id

    @property
    def column(self) -> str:
        """Return the column that holds the names of the load's files; "" for none."""
        given = self.request.get("options", {}).get("add_column") or ()
        pairs = (text.partition("=") for text in given)
        return next((name.strip() for name, _, what in pairs if what.strip() == "_path"), "")

    def undone(self, splits: int, **how: Any) -> Undone:
        """Return the result for people."""
        return Undone(
            self.load_id, self.report.target, self.report.table, splits=splits,
            unit=self.report.unit, **how,
        )  # fmt: skip

    def refused(self, why: str, hint: str) -> LedgerError:
        """Return the error of rows that cannot be told from others."""
        place = self.report.table or self.report.target
        return LedgerError(
            f"the rows of load {self.load_id[:8]} cannot be taken out of {place}: {why}", hint=hint
        )
