"""Finds the rows behind an error of the engine, and loads around them where the user allows it."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.engines.embedded import Embedded
from rowfall.errors import DataError, RowfallError
from rowfall.model import Plan, Split
from rowfall.options import Options
from rowfall.sources.base import Source
from rowfall.sqltext import SqlText
from rowfall.targets.base import Target


class Doctor:
    def __init__(
        self, source: Source, target: Target, plan: Plan, engine: Embedded, options: Options
    ) -> None:
        self.options = options

    def explain(
        self, splits: Sequence[Split], error: RowfallError
    ) -> list[tuple[Split, DataError]]:
        return []

    def tolerant(self, staging: str, splits: Sequence[Split]) -> SqlText | None:
        return None

    def reject(self, splits: Sequence[Split], good: int) -> int:
        return 0
