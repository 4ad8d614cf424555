"""Write pages as HTML: the text here, the drawings by page.js from the same values."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from rowfall.core import units
from rowfall.report.page.values import (
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
    StackedBar,
    TextTable,
    Threshold,
    Unit,
)

_KINDS = {
    LineChart: "line", BarChart: "bar", StackedBar: "stack", Histogram: "histogram",
    HeatMap: "heat", TextTable: "table", CodeBlocks: "listing",
}  # fmt: skip
_NOTHING = "Nothing was measured."
# A page of 300 such lines is read to its end by nobody; the file stays small.
_MOST_MARKS = 50
# A limit so many times above the highest value would press the line to the ground: it is told
# below.
_FAR = 4.0
# Characters of one text: a definition of 10,000 columns has half a million.
_MOST_TEXT = 20_000
_WRITTEN = {
    Unit.NUMBER: units.count, Unit.BYTES: units.size, Unit.MEMORY: units.memory,
    Unit.SECONDS: units.duration, Unit.SHARE: units.percent,
}  # fmt: skip


def page_html(page: Page) -> str:
    """Return a page as one HTML document that asks for nothing else."""
    return _document(page, page_state(page), "default-src 'none'", "")


def live_html(page: Page, state: Mapping[str, Any], events: str) -> str:
    """Return a page that draws itself anew with each state that a server sends.

    Args:
        state: of the page.
        events: path of the server-sent events, each of them a :func:`page_state` as JSON.
    """
    return _document(page, state, "default-src 'none'; connect-src 'self'", events)


def page_state(page: Page) -> dict[str, Any]:
    """Return what a page shows: its head as HTML, and each chart with its HTML and its data."""
    found: list[dict[str, Any]] = []
    names: set[str] = set()
    level = 2
    for chart in page.charts:
        name = _name(chart.title, names)
        if isinstance(chart, Chapter):
            level = 3  # of the charts below it
            found.append({"id": name, "html": _chapter(chart, name), "chart": None})
        else:
            html = _section(chart, name, level)
            found.append({"id": name, "html": html, "chart": _data(chart)})
    return {"title": _text(page.title), "head": _head(page), "charts": found}


def _document(page: Page, state: Mapping[str, Any], policy: str, events: str) -> str:
    """Return the document of a page and its state.

    Args:
        policy: what the page may fetch. Scripts are those two alone, by their digests; styles are
            also set by the drawings.
    """
    scripts = [_file("charts.js"), _file("page.js")]
    digests = " ".join(f"'sha256-{_digest(text)}'" for text in scripts)
    policy += (
        f"; script-src {digests}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    body = _body(page, [each["html"] for each in state["charts"]])
    charts = {each["id"]: each["chart"] for each in state["charts"] if each["chart"]}
    data = _json({"charts": charts, "events": events})
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{state["title"]} - rowfall</title>
<style>{_file("page.css")}</style>
</head>
<body>
<a class="skip" href="#charts">To the charts</a>
<header id="head">{state["head"]}</header>
<main id="charts" tabindex="-1">{body}</main>
<footer><p>{_text(page.footer)}</p>
<noscript><p>Charts are drawn by JavaScript, which is off here; the tables have all data.</p>\
</noscript></footer>
<script type="application/json" id="data">{data}</script>
<script>{scripts[0]}</script>
<script>{scripts[1]}</script>
</body>
</html>
"""


def _body(page: Page, found: Sequence[str]) -> str:
    """Return the charts; those of a chapter stay together, however cards fill the lines."""
    starts = [at for at, chart in enumerate(page.charts) if isinstance(chart, Chapter)]
    if not starts:
        return "".join(found)
    bounds = pairwise([0, *starts, len(found)])
    return "".join(
        f'<div class="part">{"".join(found[start:stop])}</div>'
        for start, stop in bounds
        if start < stop
    )


@cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _json(value: object) -> str:
    """Return JSON that no HTML parser takes for the end of its script, or for a comment."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _name(title: str, taken: set[str]) -> str:
    """Return a name for the id of a section that no other one has."""
    base = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "chart"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


def _text(text: str) -> str:
    """Return text on one line, escaped."""
    return escape(units.printable(text))


def _lines(text: str) -> str:
    """Return text of several lines, escaped, without what a terminal would obey."""
    if len(text) > _MOST_TEXT:
        text = f"{text[:_MOST_TEXT]}\n... and {len(text) - _MOST_TEXT:,} more characters"
    return "\n".join(_text(line) for line in text.split("\n"))


def _head(page: Page) -> str:
    state = f' <span class="state {_text(page.color)}">{_text(page.state)}</span>'
    tiles = "".join(
        f"<div><dt>{_text(each.name)}</dt><dd><b>{_text(each.value)}</b>"
        + (f"<span>{_text(each.detail)}</span>" if each.detail else "")
        + "</dd></div>"
        for each in page.tiles
    )
    facts = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>"
        for name, value in page.facts
        if value
    )
    return "".join((
        '<div class="top"><p class="brand">rowfall</p>'
        '<button type="button" id="theme" aria-label="Colours: as the system">Colours</button>'
        "</div>",
        f"<h1>{_text(page.title)}{state if page.state else ''}</h1>",
        *(f'<p class="warning">{_lines(text)}</p>' for text in page.warnings),
        f'<dl class="tiles">{tiles}</dl>' if tiles else "",
        f'<dl class="facts">{facts}</dl>' if facts else "",
    ))  # fmt: skip


def _chapter(chapter: Chapter, name: str) -> str:
    says = f'<p class="says">{_text(chapter.says)}</p>' if chapter.says else ""
    return f'<div class="chapter"><h2 id="{name}">{_text(chapter.title)}</h2>{says}</div>'


def _section(chart: Chart, name: str, level: int) -> str:
    """Return a chart with its heading.

    Args:
        level: of the heading.
    """
    kind = _KINDS[type(chart)]
    title = f'<h{level} class="title" id="{name}-title">{_text(chart.title)}</h{level}>'
    told = chart.says
    if isinstance(chart, HeatMap) and chart.cells:
        # Its values have no axis that would name them.
        told = f"Cells: {chart.value.title}. {told}".strip()
    says = f'<p class="says">{_text(told)}</p>' if told else ""
    head, rows, right = _rows(chart)
    if isinstance(chart, CodeBlocks):
        empty = not chart.texts
        under = f"h{level + 1}"
        body = "".join(
            (f"<{under} class=under>{_text(n)}</{under}>" if n else "")
            + f"<pre tabindex=0>{_lines(t)}</pre>"
            for n, t in chart.texts
        )
    else:
        empty = not rows
        body = _table(head, rows, right, chart.title)
    if empty:
        absent = f'<p class="absent">{_text(chart.absent or _NOTHING)}</p>'
        return f'<section class="absent" aria-labelledby="{name}-title">{title}{absent}</section>'
    if not isinstance(chart, TextTable | CodeBlocks):
        # Arrow keys move along the data, and what they come to is said.
        body = (
            f'{_legend(chart)}{_far(chart)}<div class="chart" id="{name}" tabindex="0" role="img" '
            f'aria-label="{_text(_described(chart))}" aria-describedby="{name}-keys"></div>'
            f'<p class="read" id="{name}-read" aria-live="polite"></p>'
            f'<p class="hidden" id="{name}-keys">Arrow keys read the values one by one.</p>'
            f"{_marks(chart)}<details><summary>The data as a table</summary>{body}</details>"
        )
    if isinstance(chart, StackedBar) and len(chart.rows) > 1:
        kind += " several"
    return f'<section class="{kind}" aria-labelledby="{name}-title">{title}{says}{body}</section>'


def _is_far(chart: LineChart, threshold: Threshold) -> bool:
    return threshold.value > _FAR * max(
        (y for line in chart.lines for _, y in line.points), default=0
    )


def _far(chart: Chart) -> str:
    """Return the limits that are too far above the lines to be drawn."""
    if not isinstance(chart, LineChart):
        return ""
    told = [
        f"{each.name}: {written(each.value, chart.y.unit)}"
        for each in chart.thresholds
        if _is_far(chart, each)
    ]
    return f'<p class="says">Far above: {_text("; ".join(told))}.</p>' if told else ""


def _marks(chart: Chart) -> str:
    """Return what happened, as the numbered list that the numbers in the chart belong to."""
    marks: Sequence[Mark] = chart.marks if isinstance(chart, LineChart) else ()
    if not marks:
        return ""
    items = "".join(
        f"<li>{_text(f'{written(m.at, Unit.SECONDS)}: {m.text}')}</li>" for m in marks[:_MOST_MARKS]
    )
    more = f'<p class="says">and {len(marks) - _MOST_MARKS:,} more</p>'
    return f'<ol class="marks">{items}</ol>{more if len(marks) > _MOST_MARKS else ""}'


def _legend(chart: Chart) -> str:
    """Return the names of lines or parts with their colours, where there is more than one."""
    names: list[tuple[str, str]] = []
    absent: set[str] = set()
    if isinstance(chart, LineChart) and len(chart.lines) > 1:
        names = [(line.name, "") for line in chart.lines]
    elif isinstance(chart, BarChart):
        groups = dict.fromkeys((*chart.kinds, *(group for _, group in chart.groups)))
        names = [(group, "") for group in groups] if len(groups) > 1 else []
        absent = set(groups) - {group for _, group in chart.groups}
    elif isinstance(chart, StackedBar):
        sums: dict[str, float] = {}
        for _, parts in chart.rows:
            for part, value in parts:
                sums[part] = sums.get(part, 0.0) + value
        all_of = sum(sums.values()) or 1.0
        names = [
            (part, _part_of(value, all_of, chart.x) if len(chart.rows) == 1 else "")
            for part, value in sums.items()
        ]
    items = "".join(
        f'<li><i class="c{at % 8 + 1} l{at % 4}"></i>{_text(name)}'
        + (f" <b>{_text(more)}</b>" if more else "")
        + "</li>"
        for at, (name, more) in enumerate(names)
        if name not in absent
    )
    if isinstance(chart, BarChart) and chart.compared:
        items += f'<li><i class="compared"></i>{_text(chart.compared_as)}</li>'
    if isinstance(chart, HeatMap):
        best = [("best", *chart.best, "best")] if chart.best else []
        marked = [("marked", *each) for each in chart.marks]
        items = "".join(
            f'<li><i class="{frame}"></i>{_text(f"{word}: {x} and {y}")}</li>'
            for frame, x, y, word in (*best, *marked)
        )
    return f'<ul class="legend">{items}</ul>' if items else ""


def _part_of(value: float, total: float, axis: Axis) -> str:
    share = units.percent(value / total)
    return share if axis.unit is Unit.SHARE else f"{written(value, axis.unit)}, {share}"


def _rows(chart: Chart) -> tuple[Sequence[str], list[Sequence[str]], Iterable[int]]:
    """Return the data of a chart as head, rows, and the columns of numbers."""
    match chart:
        case LineChart():
            by_x: dict[float, dict[str, float]] = {}
            for line in chart.lines:
                for x, y in line.points:
                    by_x.setdefault(x, {})[line.name] = y
            head = [chart.x.title, *(_titled(line.name, chart.y) for line in chart.lines)]
            rows: list[Sequence[str]] = [
                (written(x, chart.x.unit),
                 *(written(found.get(line.name), chart.y.unit) for line in chart.lines))
                for x, found in sorted(by_x.items())
            ]  # fmt: skip
            return head, rows, range(len(head))
        case BarChart():
            notes, groups = dict(chart.notes), dict(chart.groups)
            compared = dict(chart.compared)
            more = [chart.compared_as] * bool(compared) + [""] * bool(groups) + [""] * bool(notes)
            rows = []
            for name, value in chart.bars:
                cells = [name, written(value, chart.x.unit)]
                if compared:
                    cells.append(written(compared.get(name), chart.x.unit))
                rows.append((*cells, *(of.get(name, "") for of in (groups, notes) if of)))
            return ["name", chart.x.title, *more], rows, [1, 2] if compared else [1]
        case StackedBar():
            rows = [
                (name, part, written(value, chart.x.unit))
                for name, parts in chart.rows
                for part, value in parts
            ]
            return ["", "part", chart.x.title], rows, [2]
        case Histogram():
            rows = [
                (written(low, chart.x.unit), written(high, chart.x.unit), f"{count:,.0f}")
                for low, high, count in chart.bins
            ]
            title = chart.x.title
            return [f"{title}, from", f"{title}, to", chart.y.title], rows, range(3)
        case HeatMap():
            why: dict[tuple[str, str], list[str]] = {}
            if chart.best:
                why[chart.best] = ["best"]
            for across, up, text in (*chart.marks, *chart.notes):
                why.setdefault((across, up), []).append(text)
            rows = [
                (x, y, written(value, chart.value.unit), ", ".join(why.get((x, y), ())))
                for x, y, value in chart.cells
            ]
            return [chart.x.title, chart.y.title, chart.value.title, ""], rows, range(3)
        case TextTable():
            return chart.head, list(chart.rows), chart.right
    return [], [], []


def _titled(name: str, axis: Axis) -> str:
    return name if axis.title in ("", name) else f"{name}, {axis.title}"


def written(value: float | None, unit: Unit) -> str:
    """Return a number with its unit; ``-`` for none."""
    return "-" if value is None or not math.isfinite(value) else _WRITTEN[unit](value)


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int], title: str
) -> str:
    numbers = set(right)

    def cells(row: Sequence[str], tag: str, more: str = "") -> str:
        return "".join(
            f"<{tag}{more}{' class=n' if at in numbers else ''}>{_text(cell)}</{tag}>"
            for at, cell in enumerate(row)
        )

    lines = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(title)}, table"><table>'
        f"<thead><tr>{cells(head, 'th', ' scope=col')}</tr></thead><tbody>{lines}</tbody>"
        "</table></div>"
    )


def _described(chart: Chart) -> str:
    """Return in words what a chart shows, for those who do not see it."""
    match chart:
        case LineChart():
            parts = [f"Line chart: {chart.title}; {chart.y.title} over {chart.x.title}."]
            for line in chart.lines:
                if line.points:
                    values = [y for _, y in line.points]
                    low, high, last = min(values), max(values), values[-1]
                    told = [written(v, chart.y.unit) for v in (low, high, last)]
                    parts.append(
                        f"{line.name}: lowest {told[0]}, highest {told[1]}, last {told[2]}."
                    )
            parts += [f"{t.name}: {written(t.value, chart.y.unit)}." for t in chart.thresholds]
            return " ".join(parts)
        case BarChart():
            name, value = max(chart.bars, key=lambda bar: bar[1])
            beside = dict(chart.compared).get(name)
            more = f"; {chart.compared_as} {written(beside, chart.x.unit)}" if beside else ""
            return (
                f"Bar chart: {chart.title}; {chart.x.title} of {len(chart.bars)}. "
                f"Longest: {name}, {written(value, chart.x.unit)}{more}."
            )
        case StackedBar():
            told = [
                f"{name}: " + ", ".join(f"{part} {written(v, chart.x.unit)}" for part, v in parts)
                for name, parts in chart.rows
            ]
            return f"Stacked bar: {chart.title}; {chart.x.title}. " + ". ".join(told)
        case Histogram():
            total = sum(count for *_, count in chart.bins)
            low, high, _ = max(chart.bins, key=lambda each: each[2])
            return (
                f"Histogram: {chart.title}; {total:,.0f} in all, most of them from "
                f"{written(low, chart.x.unit)} to {written(high, chart.x.unit)}."
            )
        case HeatMap():
            best = f" Best: {' and '.join(chart.best)}." if chart.best else ""
            best += "".join(f" {word.capitalize()}: {x} and {y}." for x, y, word in chart.marks)
            return (
                f"Heat map: {chart.title}; {chart.value.title} by {chart.x.title} and "
                f"{chart.y.title}.{best}"
            )
    return chart.title


def _data(chart: Chart) -> dict[str, Any] | None:
    """Return what page.js draws; None for what is text."""
    if isinstance(chart, TextTable | CodeBlocks) or not _rows(chart)[1]:
        return None
    found = asdict(chart)
    for name in ("title", "says", "absent"):
        del found[name]
    if isinstance(chart, LineChart):
        found["marks"] = found["marks"][:_MOST_MARKS]
        found["thresholds"] = [asdict(t) for t in chart.thresholds if not _is_far(chart, t)]
    made: dict[str, Any] = _shown(found)
    return {"kind": _KINDS[type(chart)], **made}


def _shown(value: Any) -> Any:
    """Return a value for JSON: texts as they are shown, numbers that are finite, 6 digits long."""
    if isinstance(value, str):
        return units.printable(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [_shown(each) for each in value]
    return value
