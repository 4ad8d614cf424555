"""Render what ``rowfall doctor`` has found: a table for people, one versioned JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rowfall.core import units
from rowfall.core.results import DoctorReport, Improvement, Link
from rowfall.report.deliveries import deliveries_grid
from rowfall.report.layout import WIDTH, facts, grid, render, wrap

if TYPE_CHECKING:
    from rich.console import RenderableType

DOCTOR_VERSION = 1


def doctor_document(found: DoctorReport) -> dict[str, Any]:
    """Return the JSON document of ``rowfall doctor``, see docs/reference/json.md."""
    slow = found.slowest
    return {
        "rowfall_doctor": DOCTOR_VERSION,
        "source": found.source,
        "target": found.target,
        "table": found.table,
        "rows": found.rows,
        "predicted_rows_per_second": found.predicted_rows_per_second,
        "predicted_seconds": found.predicted_seconds,
        "slowest": {
            "link": f"{slow.part}: {slow.name}",
            "figure": slow.figure,
            "unit": slow.unit,
            "rows_per_second": slow.rows_per_second,
            "why": slow.why,
        },
        "links": [asdict(link) for link in found.links],
        "changes": [asdict(change) for change in found.changes],
        "deliveries": [asdict(one) for one in found.deliveries],
        "engine": dict(found.engine),
        "sample": {"rows": found.sample_rows, "seconds": found.sample_seconds},
        "notes": list(found.notes),
        "seconds": found.seconds,
    }


def doctor_text(found: DoctorReport, *, color: bool = False, width: int = WIDTH) -> str:
    """Return the links, the slowest of them, the prediction and the changes as text."""
    slow = found.slowest
    parts: list[RenderableType] = [
        Text("Links, each by itself", "bold"),
        _table(found),
        "",
        Text("Slowest", "bold"),
        wrap(_limit(slow), first="  ", indent="  ", width=width),
        "",
        Text("Prediction", "bold"),
        _prediction(found),
    ]
    if found.changes:
        parts += ["", Text("What would help most", "bold")]
        parts += [
            wrap(_change(change), first="  ", indent="    ", width=width)
            for change in found.changes
        ]
    if ways := deliveries_grid(found.deliveries):
        parts += ["", Text("Ways into the servers (estimated)", "bold"), *ways]
    if found.engine:
        parts += ["", Text("The target's engine, seconds of its threads", "bold")]
        parts.append(facts([(name, f"{seconds:.2f} s") for name, seconds in found.engine]))
    parts += [wrap(note, first="  ! ", indent="    ", width=width) for note in found.notes]
    parts.append(f"  measured in {units.duration(found.seconds)}; nothing was left")
    return render(parts, color=color, width=width)


def _table(found: DoctorReport) -> RenderableType:
    rows = [["", "link", "measured", "rows/s", ""]]
    last = ""
    for link in found.links:
        rate = "" if link.rows_per_second is None else units.count(round(link.rows_per_second))
        name = Text(link.name, "bold") if link is found.slowest else link.name
        shown = "" if link.part == last else str(link.part)
        rows.append([shown, name, figure(link), rate, link.why])  # type: ignore[list-item]
        last = link.part
    return grid(rows, right={2, 3})


def figure(link: Link) -> str:
    """Return the figure of a link with its unit: a time, or bytes or rows a second."""
    if link.unit == "seconds":
        return units.duration(link.figure) if link.figure >= 1 else f"{link.figure * 1e3:.1f} ms"
    if link.unit == "bytes/s":
        return units.byte_rate(link.figure)
    return units.row_rate(link.figure)


def _limit(slow: Link) -> str:
    rate = f", which is {units.row_rate(slow.rows_per_second)}" if slow.rows_per_second else ""
    return (
        f"{slow.part}, {slow.name}: {figure(slow)}{rate if slow.unit != 'rows/s' else ''} "
        f"({slow.why})"
    )


def _prediction(found: DoctorReport) -> RenderableType:
    time = "" if found.predicted_seconds is None else units.duration(found.predicted_seconds)
    rows = "" if found.rows is None else units.count(found.rows)
    return facts(
        [
            ("rate", units.row_rate(found.predicted_rows_per_second)),
            ("time", f"{time} for {rows} rows" if time else ""),
            ("by", f"a sample of {units.count(found.sample_rows)} rows in "
             f"{found.sample_seconds:.1f} s"),
        ]
    )  # fmt: skip


def _change(change: Improvement) -> str:
    what = f"{change.option}: {change.text}" if change.option else change.text
    return f"{change.gain:.1f} x  {what}"
