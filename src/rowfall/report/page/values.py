"""Charts and pages as values: what is shown, with its units; how it is drawn is no matter here."""

from __future__ import annotations

from enum import StrEnum

from rowfall.core.dataclass import dataclass


class Unit(StrEnum):
    """Format of the numbers of an axis."""

    NUMBER = "number"
    """``4.20M``; the title of the axis says of what: ``rows/s``."""
    BYTES = "bytes"
    """``4.20 GB``: stored or moved bytes, in powers of ten."""
    MEMORY = "memory"
    """``2.10 GiB``: in powers of two."""
    SECONDS = "seconds"
    """``8.1 s``, ``1 min 23 s``."""
    SHARE = "share"
    """``42 %`` for 0.42."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its title, and the unit of its numbers.

    Attributes:
        log: powers of ten are equally far from each other; all values are above 0.
    """

    title: str
    unit: Unit = Unit.NUMBER
    log: bool = False


TIME = Axis("time since the start", Unit.SECONDS)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: its (x, y), ordered by x.

    Attributes:
        dots: each point is marked: measurements that are few, or published figures.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value of the y axis that matters: a limit, drawn as a dashed line with its name."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at ``at`` of the x axis: a vertical line; ``text`` stands below."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over one x axis, such as rows per second over time.

    Attributes:
        says: one sentence below the title.
        absent: one sentence that stands in place of a chart without points.
        filled: the area below a single line is filled.
    """

    title: str
    x: Axis
    y: Axis
    lines: tuple[Series, ...]
    thresholds: tuple[Threshold, ...] = ()
    marks: tuple[Mark, ...] = ()
    says: str = ""
    absent: str = ""
    filled: bool = False


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars, each with its name (of any length) above it.

    Attributes:
        bars: (name, value), in the order in which they are drawn.
        notes: by name, what stands behind the value: ``12.3M rows``.
        says, absent: as of :class:`LineChart`.
        groups: by name, what a bar belongs to; bars of one group have one colour.
        kinds: groups in the order of their colours, where a chart may lack some of them that
            others beside it have.
        compared: by name, a value that is marked on the line of the bar: what was published.
        compared_as: what those values are, for the legend.
    """

    title: str
    x: Axis
    bars: tuple[tuple[str, float], ...]
    notes: tuple[tuple[str, str], ...] = ()
    says: str = ""
    absent: str = ""
    groups: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ()
    compared: tuple[tuple[str, float], ...] = ()
    compared_as: str = ""


@dataclass(frozen=True, slots=True)
class StackedBar:
    """One bar, or a few, of parts that add up: like one level of a flame graph.

    Attributes:
        rows: (name, parts), each part (name, value); parts of one name have one colour.
        says, absent: as of :class:`LineChart`.
    """

    title: str
    x: Axis
    rows: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
    says: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values lie between bounds: bins of (low, high, count), ``high`` of one is ``low``
    of the next.

    Attributes:
        says, absent: as of :class:`LineChart`.
    """

    title: str
    x: Axis
    y: Axis
    bins: tuple[tuple[float, float, float], ...]
    says: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A value for each pair of two choices, such as rows per second by threads and block size.

    Attributes:
        cells: (x, y, value): labels of the axes in the order of their first cells; None where
            nothing could be measured, which ``notes`` may say why.
        best: (x, y) of the cell with a frame around it.
        notes: (x, y, text).
        says, absent: as of :class:`LineChart`.
        marks: (x, y, word) of cells that are known by a name, as ``default``.
    """

    title: str
    x: Axis
    y: Axis
    value: Axis
    cells: tuple[tuple[str, str, float | None], ...]
    best: tuple[str, str] | None = None
    notes: tuple[tuple[str, str, str], ...] = ()
    says: str = ""
    absent: str = ""
    marks: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TextTable:
    """Texts in rows; ``right``: indexes of columns of numbers.

    Attributes:
        says, absent: as of :class:`LineChart`.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    says: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class CodeBlocks:
    """Text that is shown as it is: SQL, a definition; each under its heading.

    Attributes:
        says, absent: as of :class:`LineChart`.
    """

    title: str
    texts: tuple[tuple[str, str], ...]
    says: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A heading above the charts that follow, up to the next one; ``says``: as of
    :class:`LineChart`."""

    title: str
    says: str = ""


Chart = LineChart | BarChart | StackedBar | Histogram | HeatMap | TextTable | CodeBlocks


@dataclass(frozen=True, slots=True)
class Tile:
    """One number that is read first: ``("rows", "20.0M", "4.01M rows/s")``."""

    name: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Attributes:
        title: ``load 1f0c2a91``; ``state``: a word behind it, in ``color`` (green, yellow, red).
        tiles: the numbers that are read first, eight at most.
        facts: (name, value) below them. ``warnings``: sentences that must not be missed.
        charts: in their order. ``footer``: one line at the end.
    """

    title: str
    charts: tuple[Chart | Chapter, ...] = ()
    state: str = ""
    color: str = ""
    tiles: tuple[Tile, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    footer: str = ""
