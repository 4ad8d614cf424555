"""Render values for notebooks: plan, report, verification and rows as HTML that needs no styles.

Colours are those of the page, so that a dark notebook stays readable; only states have their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from rowfall.core import formats, units
from rowfall.core.model import ENGINE, Plan
from rowfall.core.results import Report, Verification
from rowfall.report.layout import grid, merges_left, render

_COLORS = {"green": "#2e7d32", "yellow": "#b26a00", "red": "#c62828"}
_OUTCOMES = {"done": "green", "failed": "red", "lost": "red"}
_CELL = "text-align:left;vertical-align:top;padding:1px 14px 1px 0;border:0;background:none"
# Some pages give tables a colour and a size of their own.
_GRID = "border-collapse:collapse;margin:0;color:inherit;font-size:inherit"
_PRE = "white-space:pre-wrap;margin:4px 0;font-size:12px;background:none"
SHOWN_FAILURES = 20
_WIDEST_CELL = 200  # characters of a value


def plan_html(plan: Plan) -> str:
    """Return a plan: where from, where to, the forecast, columns, settings and SQL."""
    forecast, listing = plan.forecast, plan.listing
    into = (
        f"{plan.to.database}.{plan.to.table} in {plan.to.text}" if plan.to.table else plan.to.text
    )
    files = units.counted(len(listing), listing.unit)
    if listing.total_size is not None:
        files += f", {units.size(listing.total_size)}"
    if plan.work.loaded:
        files += f"; {units.exact(plan.work.loaded)} loaded already"
    rows = "not known" if forecast.rows is None else f"about {units.exact(forecast.rows)}"
    time = "not known" if forecast.seconds is None else units.forecast(forecast.seconds)
    parser = plan.transport.parser
    facts = [
        ("from", plan.source),
        ("format", "" if plan.encoding is None else formats.describe(plan.encoding)),
        (f"{listing.unit}s", files),
        ("to", into),
        ("parser", f"the engine's: {parser.reason}" if parser.value == ENGINE else parser.value),
        ("rows", rows),
        ("time", time),
        ("memory", f"about {units.memory(forecast.memory)}"),
        ("merges", merges_left(forecast.merges)),
        ("promise", plan.to.promise),
    ]
    columns = [(c.name, c.type, c.reason) for c in plan.schema.columns]
    settings = [(s.name, str(s.value), s.reason) for s in plan.work.settings if not s.routine]
    what = "Table exists" if plan.schema.exists else "New table"
    parts = [
        _title("Plan", ""),
        _facts(facts),
        *(_said(text, "yellow") for text in forecast.advice),
        _more(f"{what}: {units.counted(len(columns), 'column')}",
              _table(("column", "type", "why"), columns)) if columns else "",
        _more("CREATE TABLE", _pre(plan.texts.ddl)) if plan.texts.ddl else "",
        _more(units.counted(len(settings), "setting"),
              _table(("setting", "value", "why"), settings)) if settings else "",
        _more("SQL of one statement", _pre(plan.texts.example)) if plan.texts.example else "",
    ]  # fmt: skip
    return _page(parts)


def report_html(report: Report) -> str:
    """Return the report of a load: outcome, numbers, phases, what limited it, what failed."""
    seconds = report.seconds
    files = f"{units.exact(report.splits_loaded)} of {units.counted(report.splits, report.unit)}"
    if report.splits_skipped:
        files += f", {units.exact(report.splits_skipped)} loaded before"
    if report.splits_failed:
        files += f", {units.exact(report.splits_failed)} failed"
    rate = ""
    if report.rows and seconds:
        rate = units.row_rate(report.rows / seconds)
        if report.bytes_source:
            rate += f", {units.byte_rate(report.bytes_source / seconds)}"
    share = "" if report.progress is None else f", {units.percent(report.progress)}"
    facts = [
        ("source", report.source),
        ("target", f"{report.table} in {report.target}" if report.table else report.target),
        (f"{report.unit}s", files),
        ("rows", units.exact(report.rows)),
        ("bad rows", units.exact(report.rows_rejected) if report.rows_rejected else ""),
        ("time", units.duration(report.total_seconds or seconds) + share),
        ("rate", rate),
        ("limit", report.limited_by),
        ("memory", units.memory(report.peak_memory) if report.peak_memory else ""),
        ("written", units.size(report.bytes_written) if report.bytes_written else ""),
        ("merges", merges_left(report.merges)),
    ]
    shown = report.failures[:SHOWN_FAILURES]
    more = len(report.failures) - len(shown)
    settings = [(name, str(value)) for name, value in report.settings.items()]
    parts = [
        _title(f"Load {report.load_id[:8]}", report.outcome, _OUTCOMES.get(report.outcome)),
        _facts(facts),
        *(_said(units.failure(f.split, f.error), "red", f.hint) for f in shown),
        _said(f"and {units.exact(more)} more", "red") if more > 0 else "",
        _more("Notes", "".join(_said(note) for note in report.notes)) if report.notes else "",
        _more("Time by phase", _phases(report)) if report.phases else "",
        _more("Settings", _table(("setting", "value"), settings)) if settings else "",
    ]
    return _page(parts)


def verification_html(result: Verification) -> str:
    """Return the result of a comparison of source and table."""
    word, color = ("equal", "green") if result.ok else ("different", "red")
    rows = [
        ("source", units.exact(result.source_rows), result.source_checksum),
        ("target", units.exact(result.target_rows), result.target_checksum or "-"),
    ]
    parts = [
        _title(f"Load {result.load_id[:8]}", word, color),
        _table(("", "rows", "checksum"), rows),
        _said(f"Compared: {result.scope}, in {units.duration(result.seconds)}."),
    ]
    return _page(parts)


def rows_html(columns: Sequence[str], rows: Iterable[Sequence[Any]], total: int) -> str:
    """Return the first rows of a result as a table."""
    shown = [[_value(value) for value in row] for row in rows]
    return _page(
        [_table(columns, shown, wrap=False), _said(_size(len(shown), total, len(columns)))]
    )


def rows_text(columns: Sequence[str], rows: Iterable[Sequence[Any]], total: int) -> str:
    """Return the first rows of a result as aligned text."""
    shown = [[_value(value) for value in row] for row in rows]
    size = _size(len(shown), total, len(columns))
    return render([*([grid([columns, *shown], indent=0)] if columns else []), size])


def progress_html(share: float | None, line: str, messages: Iterable[tuple[str, str]]) -> str:
    """Return a running load: a bar, one line of numbers, and what was said so far.

    Args:
        share: done, 0..1; None for no bar.
        messages: each with its colour, or "".
    """
    parts = [_said(text, color) for text, color in messages]
    if share is not None:
        parts.append(_bar(share, "100%", 6))
    if line:
        parts.append(f'<div style="font-family:monospace;font-size:12px">{escape(line)}</div>')
    return _page(parts)


def _size(shown: int, total: int, columns: int) -> str:
    first = f"first {shown} of " if shown < total else ""
    return f"{first}{units.counted(total, 'row')}, {units.counted(columns, 'column')}"


def _value(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"


def _page(parts: Iterable[str]) -> str:
    body = "".join(parts)
    return f'<div style="max-width:900px;line-height:1.45;font-size:13px">{body}</div>'


def _title(text: str, word: str, color: str | None = "yellow") -> str:
    state = f' <span style="color:{_COLORS[color or "yellow"]}">{escape(word)}</span>'
    return f'<div style="margin-bottom:4px"><b>{escape(text)}</b>{state if word else ""}</div>'


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    made = "".join(
        f'<tr style="background:none"><td style="{_CELL};opacity:.65">{escape(name)}</td>'
        f'<td style="{_CELL}">{escape(units.printable(text))}</td></tr>'
        for name, text in rows
        if text
    )
    return f'<table style="{_GRID}">{made}</table>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, wrap: bool = True) -> str:
    style = _GRID if wrap else f"{_GRID};white-space:nowrap"
    names = "".join(f'<th style="{_CELL};opacity:.65">{escape(name)}</th>' for name in head)
    lines = "".join(
        '<tr style="background:none">'
        + "".join(f'<td style="{_CELL}">{escape(units.printable(cell))}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return (
        f'<div style="overflow-x:auto"><table style="{style}">'
        f"<thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _phases(report: Report) -> str:
    return "".join(
        f'<div style="display:flex;gap:10px;align-items:center"><span style="width:70px">'
        f"{escape(name)}</span>{_bar(share, '200px', 8)}<span>{units.percent(share)}</span></div>"
        for name, share in report.phases.items()
    )


def _bar(share: float, width: str, height: int) -> str:
    done = min(max(share, 0.0), 1.0) * 100
    return (
        f'<div style="width:{width};height:{height}px;border-radius:3px;'
        'background:rgba(128,128,128,.3)">'
        f'<div style="width:{done:.1f}%;height:100%;border-radius:3px;background:#2e7d32">'
        "</div></div>"
    )


def _said(text: str, color: str = "", hint: str | None = None) -> str:
    style = ' style="white-space:pre-line' + (f';color:{_COLORS[color]}"' if color else '"')
    more = f'<div style="padding-left:14px">hint: {escape(hint)}</div>' if hint else ""
    return f"<div{style}>{_lines(text)}{more}</div>"


def _lines(text: str) -> str:
    return "\n".join(escape(units.printable(line)) for line in text.split("\n"))


def _more(title: str, body: str) -> str:
    return (
        f'<details style="margin-top:4px"><summary style="cursor:pointer">{escape(title)}'
        f"</summary>{body}</details>"
    )


def _pre(text: str) -> str:
    return f'<pre style="{_PRE}">{escape(text)}</pre>'
