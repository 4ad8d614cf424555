"""Find the fastest combination of what can be chosen of a load, by successive halving.

All combinations load a small sample, the faster half of them one that is twice as large, and so on;
the last few load the largest one in turns, several times, with the load's own defaults and what the
published formula gives: they are what is compared with.
Nothing stays at source or target (:mod:`rowfall.measure.trials`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from rowfall.contracts.destination import Session
from rowfall.contracts.facts import LoadFacts
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Interrupted, RowfallError, UsageError, headline
from rowfall.core.events import Doing, Listener, silent
from rowfall.core.masked import Secret
from rowfall.core.model import Plan
from rowfall.core.options import Options
from rowfall.core.tuned import Cell, CellFigures, TunedCell, TuneReport
from rowfall.ledger import scratches
from rowfall.measure.samples import LoadSample, Samples, measured_load, nothing
from rowfall.measure.trials import Trials
from rowfall.plan.tuning import source_kind, target_kind
from rowfall.targets import tuned

DEFAULT, FORMULA, BEST = "default", "formula", "best"
"""Marks of cells."""
# A sample of less than this is mostly the start of a load, and with more than this many seconds at
# first the sweep of a slow target takes hours.
_LEAST_SECONDS, _MOST_SECONDS = 0.4, 3.0
# Share of the time for the halving; the rest is for the finals.
_HALVING = 0.6
# Cells that load the largest sample, besides the default and the formula, and how often: the median
# of three is not moved by one that something else has slowed down.
_FINALISTS, _ROUNDS = 3, 3
# The largest sample is at most so many times the first: with more the finals take all the time.
_MOST_GROWTH = 4
# Loads of one sample on a machine that does nothing else differ by less than this.
_NOISE = 0.05
# Fewer parts than this are not worth waiting for in a sample: merges pick up six to ten at a time.
_LEAST_PARTS = 10


def sweep(
    sources: Sequence[str], to: str | None, table: str | None, options: Options,
    password: Secret | None = None, emit: Listener = silent,
) -> TuneReport:  # fmt: skip
    """Load a sample in every combination that the target has a choice of; nothing stays.

    Raises:
        UsageError: the source can be read only once; the memory is less than one block takes; the
            name to save under is none.
        SourceError: there is nothing to load.
        Interrupted: Ctrl-C came before anything was measured.
        RowfallError: as a load of the same.
    """
    began = time.monotonic()
    if options.save is not None:
        tuned.check_name(options.save)
    if options.fewer_than < 1:
        raise UsageError(f"--fewer-than {options.fewer_than} is no number of parts")
    budget = units.parse_duration(options.budget)
    with (
        measured_load(sources, to, table, options, password, emit) as (session, facts, plan),
        Trials(scratches.TUNE, to, session.target, password) as trials,
    ):
        samples = Samples(tuple(sources), session, facts, plan, trials)
        found = _Sweep(session, facts, plan, samples, emit)
        found.keep_rows()
        session.reader.close()  # the engine of a folder is needed by the trials
        interrupted = False
        try:
            found.run(budget - (time.monotonic() - began))
        except (KeyboardInterrupt, Interrupted):
            if not found.measured:
                raise
            interrupted = True
        report = found.report(began)
    report = replace(report, interrupted=interrupted)
    return report if options.save is None or interrupted else _saved(report, options.save, found)


@dataclass(slots=True)
class _Trial:
    """One cell of the sweep.

    Attributes:
        runs: what it did with the largest sample that it has loaded, of ``rows``.
        note: why it was given up.
    """

    cell: Cell
    runs: list[CellFigures]
    rows: int = 0
    note: str = ""

    @property
    def rate(self) -> float:
        """Return rows a second, the median of its runs; 0 where there are none."""
        return median(run.rows_per_second for run in self.runs) if self.runs else 0.0


class _Sweep:
    """The cells of one load, and what is known of them."""

    def __init__(
        self, session: Session, facts: LoadFacts, plan: Plan, samples: Samples, emit: Listener
    ) -> None:
        self._session, self._facts, self._plan, self._samples = session, facts, plan, samples
        self._options, self._emit = session.options, emit
        self._destination = session.destination
        self._cores = samples.cores
        self._cells: list[_Trial] = []
        self._notes: list[str] = []
        self._copied = False  # samples were copies of the first rows
        self._done = 0
        self._most = 0  # trials, about
        self.fewer_than = 0

    @property
    def measured(self) -> bool:
        """Tell whether the default has been loaded, with which all others are compared."""
        return any(one.runs for one in self._cells[:1])

    @property
    def kinds(self) -> tuple[str, str, int]:
        """Return the kinds of source and target, and the cores that load."""
        become = self._destination.rows_become
        cores = self._facts.writers[0].engine.cores
        return source_kind(self._plan), target_kind(self._plan, become), cores

    def keep_rows(self) -> None:
        """Keep rows of files that are too large for a sample."""
        self._notes += self._samples.keep()

    def run(self, budget: float) -> None:
        """Sweep, until all is known or so many seconds are over.

        Raises:
            KeyboardInterrupt, Interrupted: Ctrl-C; what is known so far is kept.
        """
        began = time.monotonic()
        halving, until = began + budget * _HALVING, began + budget
        first = self._samples.sample(self._samples.wanted(_LEAST_SECONDS))
        default = _Trial(Cell((), {}), [])
        self._cells = [default]
        self._doing("the load as it is planned")
        self._load(default, first)
        if not default.runs:
            raise nothing(self._plan)
        taken = max(default.runs[0].seconds, 0.05)
        around = time.monotonic() - began - taken  # opening, planning, erasing
        rate = self._stored(first) / taken
        seconds = self._seconds(default.runs[0], around, until)
        self._make_cells(default, round(default.runs[0].rows * seconds * _MOST_GROWTH / taken))
        size, growth = rate * seconds, 1
        alive = self._challengers()
        while len(alive) > _FINALISTS:
            if not self._round(alive, self._samples.sample(size * growth), halving):
                self._notes.append(
                    f"--budget {self._options.budget} was too little to try all combinations in "
                    "larger samples"
                )
            alive = self._faster_half(alive)
            growth = min(_MOST_GROWTH, growth * 2)
            if time.monotonic() > halving:
                alive, growth = alive[:_FINALISTS], 1
        sample = self._samples.sample(size * growth)
        formula = [one for one in self._cells if one.cell.is_formula]
        for turn in range(_ROUNDS):
            # At least once, or there would be nothing to compare.
            if not self._round([default, *alive, *formula], sample, until if turn else math.inf):
                return

    def _make_cells(self, default: _Trial, rows: int) -> None:
        """Ask the destination which combinations there are.

        Raises:
            UsageError: not one of them fits into the memory.
        """
        cells = self._destination.cells(self._facts, self._plan, self._options, rows)
        default.cell = cells[0]
        others = [c for c in cells[1:] if c.is_formula or c.choices != cells[0].choices]
        self._cells += [_Trial(cell, [], note=cell.refused or "") for cell in others]
        fitting = self._challengers()
        refused = next((cell.refused for cell in others if cell.refused), None)
        if refused is not None and not fitting:
            raise UsageError(
                f"the memory is less than one block of any combination takes: {refused}",
                hint="Give more with --memory, or load with the defaults.",
            )
        if not others:
            self._notes.append("this target has no choice with this source: nothing was compared")
        count, finals = len(fitting), _FINALISTS + 2
        rounds = max(0, math.ceil(math.log2(max(1, count) / _FINALISTS)))
        self._most = 1 + sum(count >> r for r in range(rounds)) + finals * _ROUNDS

    def _seconds(self, first: CellFigures, around: float, until: float) -> float:
        """Return the seconds of the first sample with which the sweep ends in time."""
        cells = len(self._destination.cells(self._facts, self._plan, self._options, first.rows * 8))
        rounds = max(1, math.ceil(math.log2(max(2.0, cells / _FINALISTS))))
        finals = (_FINALISTS + 2) * _ROUNDS
        trials = 2 * cells + finals
        # A round has half the cells of the one before, with samples that are twice as large.
        of_samples = cells * rounds + finals * _MOST_GROWTH
        left = max(0.0, until - time.monotonic() - trials * around)
        return max(_LEAST_SECONDS, min(_MOST_SECONDS, left / of_samples))

    def _challengers(self) -> list[_Trial]:
        """Return the cells that may be faster than the default."""
        others = self._cells[1:]
        return [one for one in others if one.cell.refused is None and not one.cell.is_formula]

    def _faster_half(self, alive: Sequence[_Trial]) -> list[_Trial]:
        """Return the faster half, the fastest first; those that were not loaded are out."""
        loaded = sorted((one for one in alive if one.runs), key=lambda one: -one.rate)
        return loaded[: max(_FINALISTS, len(alive) // 2)]

    def _round(self, cells: Sequence[_Trial], sample: LoadSample, until: float) -> bool:
        """Load a sample with each of some cells; return False where the time is over."""
        # Every third first: where the time ends early, all corners have been tried.
        for one in [one for start in range(3) for one in cells[start::3]]:
            if time.monotonic() > until:
                return False
            if not one.note:
                self._doing(one.cell.text)
                self._load(one, sample)
        return True

    def _doing(self, text: str) -> None:
        self._done += 1
        of = f" of about {self._most}" if self._most >= self._done else ""
        known = [one for one in self._cells if one.runs]
        best = max(known, key=lambda one: one.rate, default=None)
        so_far = "" if best is None else f", best {units.row_rate(best.rate)}"
        # What is longest comes last: the line of a terminal ends there.
        self._emit(Doing(f"load {self._done}{of}{so_far}: {text}"))

    def _load(self, one: _Trial, sample: LoadSample) -> None:
        options = tuned.with_cell(sample.options, one.cell.options)
        self._copied |= sample.here
        parts = self._waits_for(sample)
        if parts:
            options = replace(options, wait=f"merges={parts}")
        trials = self._samples.trials
        try:
            with trials.load(sample.sources, options, listing=sample.listing) as trial:
                report = trial.report
                alone = trial.machine.without(report.seconds, trial.cpu, self._cores)
        except Interrupted:
            raise
        except RowfallError as error:
            if one is self._cells[0]:
                raise
            one.note = f"it failed: {headline(error.message)[:200]}"
            return
        waited = report.merge_seconds
        if not report.rows:
            return
        figures = CellFigures(
            report.rows, report.rows / max(1e-3, alone + waited), alone, waited,
            report.cpu_seconds + report.cpu_seconds_here, report.peak_memory, report.parts_written,
            round(report.bytes_written / max(1, report.parts_written)), 1,
        )  # fmt: skip
        if report.rows != one.rows:
            one.rows, one.runs = report.rows, []
        one.runs.append(figures)

    def _waits_for(self, sample: LoadSample) -> int:
        """Return the share of the parts that are few enough that a sample has; 0 for none."""
        if not self._destination.makes_parts or self._options.direct:
            return 0
        most, total = self._options.fewer_than, self._samples.total
        share = 1.0 if sample.whole or not total else self._stored(sample) / total
        self.fewer_than = min(most, max(_LEAST_PARTS, math.ceil(most * min(1.0, share))))
        return self.fewer_than

    def _stored(self, sample: LoadSample) -> float:
        """Return the bytes of a sample, in the unit of those of the source."""
        if sample.whole or not self._samples.total:
            return self._samples.total
        return self._samples.size_of(sample)

    def report(self, began: float) -> TuneReport:
        """Return everything that was found."""
        cells, default = self._cells, self._cells[0]
        final = [one for one in cells if one.rows == default.rows and one.runs]
        fastest = max(final, key=lambda one: one.rate)
        best = fastest if fastest.rate > default.rate * (1 + _NOISE) else default
        order = sorted(cells, key=lambda one: (-one.rows, -one.rate, one.cell.text))
        found = tuple(self._tuned(one, best) for one in order)
        if self._copied:
            self._notes.append("the files are large: their first rows were loaded from copies here")
        refused = [one for one in cells if one.cell.refused is not None]
        if refused:
            self._notes.append(
                f"{units.counted(len(refused), 'combination')} would take more memory than there "
                f"is, as {refused[0].cell.text}: {refused[0].cell.refused}"
            )
        self._notes += [f"{one.cell.text}: {one.note}" for one in cells
                        if one.note and one.cell.refused is None]  # fmt: skip
        plan = self._plan
        if self._samples.sample(math.inf).whole and default.rows == plan.forecast.rows:
            self._notes.append("the source is smaller than the sample: all of it was loaded")
        parts = min((run.parts for run in default.runs), default=0)
        if parts == 1 and self._destination.makes_parts:
            self._notes.append("the sample is smaller than one block: sizes of blocks do not show")
        return TuneReport(
            plan.source, plan.to.text, self._session.table_text, found,
            next(one for one in found if BEST in one.marks), self.fewer_than,
            tuple(dict.fromkeys(self._notes)), time.monotonic() - began,
        )  # fmt: skip

    def _tuned(self, one: _Trial, best: _Trial) -> TunedCell:
        marks = [DEFAULT] if one is self._cells[0] else []
        marks += [FORMULA] if one.cell.is_formula else []
        marks += [BEST] if one is best else []
        return TunedCell(one.cell, _median(one.runs), tuple(marks), one.note)


def _median(runs: Sequence[CellFigures]) -> CellFigures | None:
    """Return the medians of what a cell did in several rounds."""
    if not runs:
        return None

    def of(value: Callable[[CellFigures], float]) -> float:
        return median(map(value, runs))

    return CellFigures(
        runs[0].rows, of(lambda r: r.rows_per_second), of(lambda r: r.seconds),
        of(lambda r: r.merge_seconds), of(lambda r: r.cpu_seconds),
        round(of(lambda r: r.peak_memory)), round(of(lambda r: r.parts)),
        round(of(lambda r: r.part_bytes)), len(runs),
    )  # fmt: skip


def _saved(report: TuneReport, name: str, found: _Sweep) -> TuneReport:
    source, target, cores = found.kinds
    best, figures = report.best, report.best.figures
    assert figures is not None  # noqa: S101 - the best one was loaded
    path = tuned.save(tuned.Tuned(
        name, dict(best.cell.options), source, target, cores, round(figures.rows_per_second),
        best.cell.text, datetime.now(UTC).isoformat(timespec="seconds"),
    ))  # fmt: skip
    return replace(report, saved=(name, str(path)))
