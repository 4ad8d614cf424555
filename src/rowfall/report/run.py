"""Render what ``rowfall run`` did: a line for each load, one versioned JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rowfall.core import units
from rowfall.core.results import Report
from rowfall.core.run_results import (
    DONE,
    FAILED,
    INTERRUPTED,
    PARTIAL,
    SKIPPED,
    HookRun,
    LoadReport,
    NamedRun,
    RunReport,
)
from rowfall.core.tables import TablesReport
from rowfall.report.layout import WIDTH, grid, render, wrap
from rowfall.report.loads import report_document
from rowfall.report.tables import tables_document

RUN_VERSION = 1
_MOST_TABLES = 3
_STYLES = {DONE: "green", FAILED: "red", PARTIAL: "yellow", SKIPPED: "yellow",
           INTERRUPTED: "yellow"}  # fmt: skip


def run_document(run: RunReport) -> dict[str, Any]:
    """Return the JSON document of ``rowfall run``, see docs/reference/json.md."""
    return {
        "rowfall_run": RUN_VERSION, "outcome": run.outcome, "exit": run.exit,
        "seconds": run.seconds, "at_once": run.at_once, "memory": run.memory,
        "loads": [named_document(one) for one in run.loads],
    }  # fmt: skip


def named_document(one: NamedRun) -> dict[str, Any]:
    """Return what the document says of one load."""
    report = None
    if isinstance(one.report, TablesReport):
        report = tables_document(one.report)
    elif one.report is not None:
        report = report_document(one.report)
    return {
        "name": one.name, "outcome": one.outcome, "exit": int(one.exit), "rows": one.rows,
        "seconds": one.seconds, "error": one.error or None, "hint": one.hint or None,
        "hooks": [asdict(hook) for hook in one.hooks], "report": report,
    }  # fmt: skip


def named_run(document: dict[str, Any], report: LoadReport | None) -> NamedRun:
    """Return the load that :func:`named_document` describes."""
    return NamedRun(
        document["name"], document["outcome"], document["exit"], report,
        document["error"] or "", document["hint"] or "",
        tuple(HookRun(**hook) for hook in document["hooks"]), document["rows"],
        document["seconds"],
    )  # fmt: skip


def run_text(run: RunReport, *, color: bool = False, width: int = WIDTH) -> str:
    """Return the report of several loads: a line for each, and what is to be done."""
    from rich.text import Text

    rows = [
        (Text(one.name), Text(one.outcome, _STYLES.get(one.outcome, "")),
         Text(units.exact(one.rows) if one.report is not None else "-"),
         Text(units.duration(one.seconds) if one.outcome != SKIPPED else "-"),
         Text(_target(one)))
        for one in run.loads
    ]  # fmt: skip
    head = tuple(Text(word, "dim") for word in ("load", "outcome", "rows", "time", "into"))
    parts: list[Any] = ["", grid([head, *rows], right={2, 3}, indent=0)]
    for one in run.loads:
        if one.outcome == DONE:
            continue
        parts += ["", *failure_lines(one, width)]
    counts = {outcome: sum(one.outcome == outcome for one in run.loads) for outcome in _STYLES}
    said = ", ".join(f"{n} {outcome}" for outcome, n in counts.items() if n)
    total = sum(one.rows for one in run.loads)
    summary = (
        f"{units.counted(len(run.loads), 'load')} in {units.duration(run.seconds)}: {said}, "
        f"{units.counted(total, 'row')}"
    )
    parts += ["", summary]
    if run.exit:
        parts.append("The same command does the rest: what is loaded is skipped.")
    return render(parts, color=color, width=width)


def failure_lines(one: NamedRun, width: int = WIDTH) -> list[str]:
    """Return why a load is not done, with its hint."""
    said, hint = one.error, one.hint
    if isinstance(one.report, TablesReport) and not said:
        failed = [table for table in one.report.tables if table.problem is not None]
        lines = [f"{table.source}: {table.problem.error}" for table in failed if table.problem]
        said, hint = "; ".join(lines[:_MOST_TABLES]), ""
        if (more := len(lines) - _MOST_TABLES) > 0:
            said += f"; and {units.counted(more, 'table')} more"
    elif isinstance(one.report, Report) and not said:
        first = one.report.failures[0] if one.report.failures else None
        said = units.failure(first.split, first.error) if first is not None else one.outcome
        hint = (first.hint or "") if first is not None else ""
        if (more := one.report.splits_failed - 1) > 0:
            said += f", and {units.counted(more, one.report.unit)} more"
    lines = [wrap(f"{one.name}: {said}", first="  ", indent="    ", width=width)]
    if hint:
        lines.append(wrap(f"hint: {hint}", first="    ", indent="    ", width=width))
    return lines


def _target(one: NamedRun) -> str:
    if one.report is None:
        return ""
    if isinstance(one.report, TablesReport):
        tables = units.counted(len(one.report.tables), "table")
        return f"{one.report.done} of {tables} of {one.report.target}"
    return one.report.table or one.report.target
