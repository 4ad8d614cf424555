"""A report as one HTML file that needs nothing else: no network, no other file.

A report says *what* is shown, as values; this package draws it, light, dark, on a phone and on
paper, with a table of the data of each chart for those who do not see it::

    from rowfall.report.page import Axis, HeatMap, LineChart, Page, Series, Tile

    def tune_page(found: TuneReport) -> Page:
        rate = Axis("rows/s")
        return Page(
            "tune trips",
            tiles=(Tile("best", "4.20M rows/s", "8 threads, blocks of 1M rows"),),
            charts=(
                HeatMap(
                    "Sweep", Axis("insert threads"), Axis("rows of a block"), rate,
                    cells=tuple((f"{c.threads}", f"{c.block:,}", c.rate) for c in found.cells),
                    best=("8", "1,000,000"), absent="No cell was measured.",
                ),
                LineChart(
                    "Threads", Axis("insert threads"), rate,
                    lines=(Series("blocks of 1M rows", ((1, 9e5), (2, 1.7e6)), dots=True),),
                ),
            ),
        )

A command adds ``@html_option`` and calls ``write_page(output, path, tune_page(found))``
(:mod:`rowfall.cli.html_file`); before it begins to measure it calls ``check_html(path)``, so that a
folder that nobody may write to is said at once.

A chart without data is not drawn: its ``absent`` sentence says why. Whatever a name, an error or a
value holds is shown as text. The charts are drawn by Observable Plot, built by ``make charts``.
"""

from rowfall.report.page.html import live_html, page_html, page_state
from rowfall.report.page.values import (
    TIME,
    Axis,
    BarChart,
    Chapter,
    Chart,
    CodeBlocks,
    HeatMap,
    Histogram,
    LineChart,
    Mark,
    Page,
    Series,
    StackedBar,
    TextTable,
    Threshold,
    Tile,
    Unit,
)

__all__ = [
    "TIME",
    "Axis",
    "BarChart",
    "Chapter",
    "Chart",
    "CodeBlocks",
    "HeatMap",
    "Histogram",
    "LineChart",
    "Mark",
    "Page",
    "Series",
    "StackedBar",
    "TextTable",
    "Threshold",
    "Tile",
    "Unit",
    "live_html",
    "page_html",
    "page_state",
]
