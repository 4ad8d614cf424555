"""Render what became of many tables: a line for each, and one versioned JSON document."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rowfall.core import units
from rowfall.core.results import TargetTable
from rowfall.core.tables import NOT_BEGUN, PlannedTable, TableReport, TablesPlan, TablesReport
from rowfall.report.layout import WIDTH, facts, listed, render, wrap

if TYPE_CHECKING:
    from rich.console import RenderableType

TABLES_VERSION = TABLES_PLAN_VERSION = 1
_STYLES = {"done": "green", "partial": "yellow", "interrupted": "yellow", NOT_BEGUN: "yellow"}
_MOST_NAME = 30  # columns of the longer of both names: what is cut off is in --json
_SHOWN = 20
"""Tables that are listed where there are more; failed ones come first."""


def tables_document(report: TablesReport) -> dict[str, Any]:
    """Return the JSON document of many tables, see docs/reference/json.md."""
    return {"rowfall_tables": TABLES_VERSION, **asdict(report), "rows": report.rows}


def tables_plan_document(plan: TablesPlan) -> dict[str, Any]:
    """Return the JSON document of a plan of many tables, see docs/reference/json.md."""
    return {"rowfall_tables_plan": TABLES_PLAN_VERSION, **asdict(plan)}


def tables_text(
    report: TablesReport, *, color: bool = False, verbose: bool = False, width: int = WIDTH
) -> str:
    """Return the report as text: a line for each table (of many, those that failed and the
    slowest), then the errors.

    Args:
        verbose: every table.
    """
    from rich.text import Text

    count = len(report.tables)
    done, before = report.done, sum(t.loaded_before for t in report.tables)
    title = f"{done} of {units.counted(count, 'table')} loaded" if done < count else (
        f"{units.counted(count, 'table')} loaded"
    )  # fmt: skip
    told = f"{units.counted(report.rows, 'row')} in {units.duration(report.seconds)}"
    if before:
        told += f", {units.counted(before, 'table')} loaded before"
    shown = _shown(report.tables, verbose=verbose)
    head = ("table", "into", "outcome", "rows", "bytes", "time")
    rows: list[Sequence[str | Text]] = []
    for table in shown:
        outcome = "loaded before" if table.loaded_before else table.outcome
        style = _STYLES.get(table.outcome, "red")
        rows.append((
            _cut(table.source), _cut(table.table), Text(outcome, style),
            units.count(table.rows), units.size(table.bytes_source) if table.bytes_source else "-",
            units.duration(table.seconds) if table.seconds else "-",
        ))  # fmt: skip
    style = {"done": "green", "partial": "yellow"}.get(report.outcome, "red")
    parts: list[RenderableType] = [
        Text.assemble((title, f"bold {style}"), f": {told}"), "",
        listed(head, rows, right={3, 4, 5}, width=width, indent=2),
    ]  # fmt: skip
    if len(shown) < count:
        others = units.counted(count - len(shown), "table")
        parts.append(f"  and {others} more; -v and --json list all of them")
    parts += _problems(report, width)
    return render([*parts, *_next(report, width)], color=color, width=width)


def _shown(tables: Sequence[TableReport], *, verbose: bool) -> list[TableReport]:
    if verbose or len(tables) <= _SHOWN:
        return list(tables)
    ranked = sorted(tables, key=lambda t: (t.problem is None, -t.seconds))
    return ranked[:_SHOWN]


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"…{name[1 - _MOST_NAME :]}"


def _problems(report: TablesReport, width: int) -> list[RenderableType]:
    """Return the errors, each with the tables that have met it and the hint."""
    from rich.text import Text

    met: dict[tuple[str, str | None], list[str]] = {}
    for table in report.tables:
        if table.problem is not None:
            met.setdefault((table.problem.error, table.problem.hint), []).append(table.source)
    if not met:
        return []
    lines: list[RenderableType] = ["", Text("  not loaded", "red")]
    for (error, hint), names in list(met.items())[:_SHOWN]:
        more = f" and {units.exact(len(names) - 3)} more" if len(names) > 3 else ""
        named = f"{', '.join(names[:3])}{more}"
        lines.append(wrap(f"{named}: {error}", indent="      ", first="    ", width=width))
        if hint:
            lines.append(wrap(f"hint: {hint}", indent="      ", width=width))
    left = len(met) - _SHOWN
    if left > 0:
        lines.append(f"    and {units.exact(left)} other errors; --json has all of them")
    return lines


def _next(report: TablesReport, width: int) -> list[str]:
    if report.outcome == "done":
        return []
    text = "To load the rest, run the same command again: what is loaded is skipped."
    return ["", wrap(text, indent="  ", width=width)]


def tables_plan_text(
    plan: TablesPlan, *, color: bool = False, every: bool = False, width: int = WIDTH
) -> str:
    """Return the plan as text: what is loaded, where to, and the order.

    Args:
        every: all tables, however many there are.
    """
    from rich.text import Text

    tables = plan.tables if every else plan.tables[:_SHOWN]
    head = ("table", "into", "rows", "bytes")
    rows = [_planned(table) for table in tables]
    lanes = f"{plan.parallel} at a time, the largest first: {plan.why}"
    if plan.parallel == 1:
        lanes = f"one after the other, the largest first: {plan.why}"
    about = _total(plan.tables)
    parts: list[RenderableType] = [
        Text(f"{units.counted(len(plan.tables), 'table')}{about}", "bold"),
        facts([("source", plan.source), ("target", plan.target)]),
        "", listed(head, rows, right={2, 3}, width=width, indent=2),
    ]  # fmt: skip
    if len(tables) < len(plan.tables):
        parts.append(f"  and {units.exact(len(plan.tables) - len(tables))} more; --all lists them")
    notes = [lanes, plan.snapshot, *plan.notes]
    parts += ["", *(wrap(note, first="  - ", indent="    ", width=width) for note in notes)]
    first = plan.tables[0]
    # Into files the place is that of the rows, and there is no name of a table.
    place = "--to" if "{table}" in plan.target else "--table"
    alone = f"rowfall plan {shlex.quote(first.address)} {place} {shlex.quote(first.table)}"
    parts += ["", wrap(f"One of them in full: {alone}", indent="  ", width=width, whole=alone)]
    return render(parts, color=color, width=width)


def _planned(table: PlannedTable) -> tuple[str, ...]:
    rows = "-" if table.rows is None else f"~{units.count(table.rows)}"
    return (
        _cut(table.source), _cut(table.table), rows,
        "-" if table.bytes is None else units.size(table.bytes),
    )  # fmt: skip


def _total(tables: Sequence[PlannedTable]) -> str:
    known = [table.rows for table in tables if table.rows is not None]
    if not known:
        return ""
    more = " and those of others" if len(known) < len(tables) else ""
    return f", about {units.count(sum(known))} rows{more}"


def target_tables_text(tables: Sequence[TargetTable], *, width: int = WIDTH) -> str:
    """Return a line for each table of a target."""
    if not tables:
        return "no tables yet"
    head = ("table", "rows", "bytes", "loads", "last load (UTC)", "source of it")
    rows = [
        (_cut(table.name) if table.there is not False else f"{_cut(table.name)} (gone)",
         "-" if table.rows is None else units.count(table.rows),
         "-" if table.bytes is None else units.size(table.bytes),
         units.exact(table.loads), table.last[5:16].replace("T", " "), table.source)
        for table in tables
    ]  # fmt: skip
    return render([listed(head, rows, right={1, 2, 3}, width=width)])
