"""Values of ``rowfall tune``: combinations of what can be chosen, and their figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowfall.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of what can be chosen of a load.

    Attributes:
        choices: (name, value) of each choice, as people read them.
        options: by which a load has them; ``set`` adds to settings that are given otherwise.
        refused: why it cannot be tried; None where it can.
        is_formula: it is what the published formula gives.
    """

    choices: tuple[tuple[str, str], ...]
    options: Mapping[str, Any]
    refused: str | None = None
    is_formula: bool = False

    @property
    def text(self) -> str:
        """Return the choices in one line."""
        return ", ".join(f"{name} {value}" for name, value in self.choices)


@dataclass(frozen=True, slots=True)
class CellFigures:
    """Figures of one cell: medians of its rounds with the largest sample that it has loaded.

    Attributes:
        rows_per_second: with the time until there were few parts. ``rows``: of the sample.
        seconds: of the load alone. ``merge_seconds``: until there were few parts.
        cpu_seconds: of all machines. ``peak_memory``: bytes; 0 where it is not known.
        parts: written; ``part_bytes`` on disk of one of them, on average.
        rounds: how often it was loaded at that size.
    """

    rows: int
    rows_per_second: float
    seconds: float
    merge_seconds: float
    cpu_seconds: float
    peak_memory: int
    parts: int
    part_bytes: int
    rounds: int


@dataclass(frozen=True, slots=True)
class TunedCell:
    """One cell of the sweep and what is known of it.

    Attributes:
        figures: None where it was not loaded. ``note``: why; "" for no reason.
        marks: of ``default``, ``formula`` and ``best``.
    """

    cell: Cell
    figures: CellFigures | None = None
    marks: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class TuneReport:
    """The answer of ``rowfall tune``.

    Attributes:
        source, target: as typed, without secrets; ``table``: that would be loaded.
        cells: the best first, then those with smaller samples, then those that were not loaded.
        best: the sweet spot; the default's own cell where nothing is faster by more than noise.
        fewer_than: active parts that were waited for in samples; 0 where there are none.
        saved: name and path under which the sweet spot was saved; None where it was not.
        interrupted: Ctrl-C ended it before its time.
    """

    source: str
    target: str
    table: str
    cells: tuple[TunedCell, ...]
    best: TunedCell
    fewer_than: int
    notes: tuple[str, ...]
    seconds: float
    saved: tuple[str, str] | None = None
    interrupted: bool = False

    @property
    def default(self) -> TunedCell:
        """Return the cell of the load's own defaults."""
        return next(one for one in self.cells if "default" in one.marks)
