"""Show what ``rowfall tune`` has measured as a page: the sweep as heat maps and curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.tuned import CellFigures, TunedCell, TuneReport
from rowfall.report.page import (
    Axis,
    BarChart,
    Chart,
    HeatMap,
    LineChart,
    Page,
    Series,
    StackedBar,
    TextTable,
    Tile,
    Unit,
)
from rowfall.report.tune import LEAST_WAIT, flags, times, verdict

_MILLION = 1e6
# Of a small source all combinations load the same sample; bars of these and of those that have a
# name fit on a screen, and the table has all.
_FASTEST = 6
_WORDS = ("default", "formula")
"""Marks of cells that are named beside the best one."""


@dataclass(frozen=True, slots=True)
class _Sweep:
    """Cells by what was chosen.

    Attributes:
        x: name of the choice whose values are counts, as ``insert threads``; "" where there is
            none. ``y``: of the one whose values are sizes, as ``block``.
        others: names of the remaining choices: there is a map for each of their combinations.
        default: choices of the load as it is planned, which stand for what a cell leaves open.
        cells: those that were loaded.
    """

    x: str
    y: str
    others: tuple[str, ...]
    default: dict[str, str]
    cells: tuple[TunedCell, ...]

    def of(self, one: TunedCell, name: str) -> str:
        """Return what a cell has of a choice: the formula leaves to the load who writes parts."""
        return dict(one.cell.choices).get(name, self.default.get(name, ""))

    def group(self, one: TunedCell) -> str:
        return ", ".join(f"{name} {self.of(one, name)}" for name in self.others)


def tune_page(found: TuneReport) -> Page:
    """Return the page of a sweep."""
    sweep, with_ = _sweep(found), flags(found.best)
    largest = max((one.figures.rows for one in sweep.cells if one.figures), default=0)
    smaller = sorted({one.figures.rows for one in sweep.cells if one.figures} - {largest})
    early = ""
    if smaller:
        sizes = ", ".join(units.count(rows) for rows in smaller)
        early = (
            f"Combinations that were given up early loaded smaller samples ({sizes} rows in place "
            f"of {units.count(largest)})."
        )
    final = [one for one in sweep.cells if one.figures and one.figures.rows == largest]
    final = [one for at, one in enumerate(final) if at < _FASTEST or one.marks]
    charts: list[Chart] = [
        *_maps(found, sweep, early),
        *_curves(sweep, early),
        _parts(final),
        _waiting(found, final),
        _table(found),
    ]
    return Page(
        "tune", tuple(charts), "interrupted" if found.interrupted else "", "yellow", _tiles(found),
        (
            ("source", found.source), ("target", found.target), ("table", found.table),
            ("load with", with_ or "the defaults"),
            ("verdict", "; ".join(line for line in verdict(found) if line != f"with {with_}")),
            ("saved", "" if found.saved is None else
             f"rowfall load ... --tuned {found.saved[0]} ({found.saved[1]})"),
            *(("note", note) for note in found.notes),
        ),
        footer=f"measured in {units.duration(found.seconds)}; nothing was left",
    )  # fmt: skip


def _sweep(found: TuneReport) -> _Sweep:
    names = list(dict.fromkeys(name for one in found.cells for name, _ in one.cell.choices))
    values = {name: [v for one in found.cells for n, v in one.cell.choices if n == name]
              for name in names}  # fmt: skip
    sizes = [n for n in names if all(_size(v) is not None and not v.isdigit() for v in values[n])]
    counts = [name for name in names if all(value.isdigit() for value in values[name])]
    x, y = counts[-1] if counts else "", sizes[0] if sizes else ""
    return _Sweep(
        x, y, tuple(name for name in names if name not in (x, y)), dict(found.default.cell.choices),
        tuple(one for one in found.cells if one.figures is not None),
    )  # fmt: skip


def _size(text: str) -> int | None:
    """Return the bytes of a size as people read it; None where it is none."""
    try:
        return units.parse_size(text)
    except UsageError:
        return None


def _number(text: str) -> float:
    """Return the value of a count or of a size, by which cells are ordered."""
    return float(text) if text.isdigit() else float(_size(text) or 0)


def _tiles(found: TuneReport) -> tuple[Tile, ...]:
    def tile(name: str, one: TunedCell, detail: str) -> Tile:
        rate = "-" if one.figures is None else units.row_rate(one.figures.rows_per_second)
        return Tile(name, rate, detail)

    best, default = found.best, found.default
    tiles = [tile("fastest", best, best.cell.text if best is not default else "the default")]
    if best is not default:
        tiles.append(tile("default", default, default.cell.text))
    tiles += [
        tile("formula", one, f"{times(one, default)} the default: {one.cell.text}")
        for one in found.cells
        if one.cell.is_formula
    ]
    if best.figures is not None and best.figures.peak_memory:
        tiles.append(Tile("memory", units.memory(best.figures.peak_memory), "of the fastest"))
    loaded = sum(1 for one in found.cells if one.figures is not None)
    tiles.append(Tile("combinations", f"{loaded:,}", f"of {len(found.cells):,} were loaded"))
    return tuple(tiles)


# --- maps and curves ------------------------------------------------------------------------------


def _rate(found: TuneReport) -> Axis:
    few = f" until fewer than {found.fewer_than:,} parts are left" if found.fewer_than else ""
    return Axis(f"rows/s{few}")


def _maps(found: TuneReport, sweep: _Sweep, early: str) -> list[Chart]:
    """Return a map for each combination of what is on no axis; none where there is one axis."""
    if not (sweep.x and sweep.y):
        return []
    cells = [one for one in found.cells if one.figures is not None or one.note]
    # Counts from the left, sizes from the bottom.
    cells.sort(key=lambda one: (-_number(sweep.of(one, sweep.y)), _number(sweep.of(one, sweep.x))))
    counts = sorted({sweep.of(one, sweep.x) for one in cells}, key=_number)
    maps: list[Chart] = []
    groups = dict.fromkeys(sweep.group(one) for one in (found.default, *found.cells))
    for group in groups:
        of = [one for one in cells if sweep.group(one) == group]
        if not any(one.figures for one in of):
            continue
        places = {id(one): (sweep.of(one, sweep.x), sweep.of(one, sweep.y)) for one in of}
        # Columns stand in the order of their first cells, which is that of the largest blocks.
        of.sort(key=lambda one: counts.index(places[id(one)][0]))
        values = {}
        for one in of:
            value = None if one.figures is None else one.figures.rows_per_second
            values[places[id(one)]] = value
        rows = sorted({y for _, y in values}, key=_number, reverse=True)
        maps.append(HeatMap(
            f"Sweep: {group}" if group else "Sweep", Axis(sweep.x), Axis(sweep.y), _rate(found),
            tuple((x, y, values[x, y]) for y in rows for x in counts if (x, y) in values),
            next((places[id(one)] for one in of if "best" in one.marks), None),
            tuple((*places[id(one)], text) for one in of for text in _told(one)),
            early,
            marks=tuple(
                (*places[id(one)], word) for one in of for word in _WORDS if word in one.marks
            ),
        ))  # fmt: skip
    return maps


def _told(one: TunedCell) -> list[str]:
    """Return what is said of a cell beside its rate."""
    if one.figures is None:
        return [one.note] if one.note else []
    return [f"sample of {units.count(one.figures.rows)} rows"]


def _curves(sweep: _Sweep, early: str) -> list[Chart]:
    """Return rows a second, memory and CPU by the size of blocks; by the count where there is no
    choice of sizes."""
    name = sweep.y or sweep.x
    axis = Axis(name, Unit.MEMORY if sweep.y else Unit.NUMBER, log=bool(sweep.y))

    def lines(value: Callable[[CellFigures], float]) -> tuple[Series, ...]:
        points: dict[str, dict[float, float]] = {}
        for one in sweep.cells:
            if one.figures is None or not value(one.figures):
                continue
            words = [sweep.group(one)] if sweep.others else []
            if sweep.y and sweep.x:
                words.append(f"{sweep.x} {sweep.of(one, sweep.x)}")
            # It has other settings than its neighbours, besides the size of blocks.
            words = ["the formula"] if one.cell.is_formula and sweep.y else words
            line = points.setdefault(", ".join(words) or "rows", {})
            line[_number(sweep.of(one, name))] = value(one.figures)
        return tuple(
            Series(line, tuple(sorted(of.items())), dots=True)
            for line, of in sorted(points.items(), key=lambda each: _order(each[0]))
        )

    if not name:
        return [LineChart("Rows by choice", Axis(""), Axis("rows/s"), (),
                          absent="This target has no choice with this source.")]  # fmt: skip
    return [
        LineChart(f"Rows by {name}", axis, Axis("rows/s"), lines(lambda f: f.rows_per_second),
                  says=early),
        LineChart(f"Peak memory by {name}", axis, Axis("at the highest", Unit.MEMORY),
                  lines(lambda f: f.peak_memory),
                  absent="Nobody may ask the target for its memory."),
        LineChart(f"CPU by {name}", axis, Axis("CPU time of a million rows", Unit.SECONDS),
                  lines(lambda f: f.cpu_seconds / f.rows * _MILLION),
                  absent="The target does not say what it takes."),
    ]  # fmt: skip


def _order(name: str) -> tuple[str, float]:
    """Return by what lines are ordered: their words, then the number at their end."""
    words, _, last = name.rpartition(" ")
    return (words, _number(last)) if last.isdigit() else (name, 0.0)


# --- the finals -----------------------------------------------------------------------------------


def _name(one: TunedCell) -> str:
    marks = f" ({', '.join(one.marks)})" if one.marks else ""
    return f"{one.cell.text or 'as planned'}{marks}"


def _groups(final: Sequence[TunedCell]) -> tuple[tuple[str, str], ...]:
    """Return by name what a bar belongs to, so that the best one stands out."""
    return tuple((_name(one), "fastest" if "best" in one.marks else "others") for one in final)


def _parts(final: Sequence[TunedCell]) -> Chart:
    written = [(one, one.figures) for one in final if one.figures and one.figures.parts]
    return BarChart(
        "Parts at first", Axis("parts"),
        tuple((_name(one), float(figures.parts)) for one, figures in written),
        tuple((_name(one), f"of {units.size(figures.part_bytes)}") for one, figures in written),
        "What the largest sample was written as, before merges.", "The target makes no parts.",
        _groups([one for one, _ in written]) if len(written) > 1 else (),
    )  # fmt: skip


def _waiting(found: TuneReport, final: Sequence[TunedCell]) -> Chart:
    waited = [one for one in final if one.figures]
    much = any(one.figures and one.figures.merge_seconds >= LEAST_WAIT for one in waited)
    few = f"fewer than {found.fewer_than:,} parts" if found.fewer_than else "few parts"
    says = f"Of the largest sample, until {few} were active." if found.fewer_than else ""
    if found.fewer_than and not much:
        says += " Merges had nothing to wait for: there were fewer from the beginning."
    return StackedBar(
        f"Time until {few}" if found.fewer_than else "Time of the largest sample",
        Axis("seconds", Unit.SECONDS),
        tuple(
            (_name(one), (("load", one.figures.seconds),
                          *[("merges", one.figures.merge_seconds)] * much))
            for one in waited
            if one.figures
        ),
        says=says,
    )  # fmt: skip


def _table(found: TuneReport) -> Chart:
    rows = []
    for one in found.cells:
        figures = one.figures
        cells = ("",) * 8 if figures is None else (
            units.count(figures.rows), units.count(round(figures.rows_per_second)),
            f"{figures.seconds:.2f}", f"{figures.merge_seconds:.2f}",
            f"{figures.cpu_seconds:.2f}" if figures.cpu_seconds else "",
            units.memory(figures.peak_memory) if figures.peak_memory else "",
            units.exact(figures.parts) if figures.parts else "", f"{figures.rounds}",
        )  # fmt: skip
        rows.append((one.cell.text or "as planned", ", ".join(one.marks), *cells,
                     one.note or one.cell.refused or ""))  # fmt: skip
    return TextTable(
        "All combinations",
        ("combination", "", "rows", "rows/s", "load s", "merges s", "CPU s", "memory", "parts",
         "rounds", "why not"),
        tuple(rows), frozenset(range(2, 10)), "Medians of the rounds of the largest sample of each."
    )  # fmt: skip
