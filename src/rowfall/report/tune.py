"""Render what ``rowfall tune`` has found: a table for people, one versioned JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rowfall.core import units
from rowfall.core.tuned import TunedCell, TuneReport
from rowfall.report.layout import WIDTH, grid, render, wrap

if TYPE_CHECKING:
    from rich.console import RenderableType

TUNE_VERSION = 1
_FIGURES = ("rows/s", "CPU s", "memory", "parts", "of", "merging")
# In heads of columns, of which 80 have to be enough.
_SHORT = {"insert threads": "threads"}
# Merges that were there when they were looked for were not waited for.
LEAST_WAIT = 0.05


def tune_document(found: TuneReport) -> dict[str, Any]:
    """Return the JSON document of ``rowfall tune``, see docs/reference/json.md."""
    return {
        "rowfall_tune": TUNE_VERSION,
        "source": found.source,
        "target": found.target,
        "table": found.table,
        "best": _cell(found.best),
        "cells": [_cell(one) for one in found.cells],
        "fewer_than": found.fewer_than,
        "saved": None if found.saved is None else dict(zip(("name", "path"), found.saved,
                                                           strict=True)),
        "interrupted": found.interrupted,
        "notes": list(found.notes),
        "seconds": found.seconds,
    }  # fmt: skip


def _cell(one: TunedCell) -> dict[str, Any]:
    options = {k: list(v) if isinstance(v, tuple) else v for k, v in one.cell.options.items()}
    return {
        "choices": dict(one.cell.choices),
        "options": options,
        "marks": list(one.marks),
        "figures": None if one.figures is None else asdict(one.figures),
        "note": one.note,
    }


def tune_text(found: TuneReport, *, color: bool = False, width: int = WIDTH) -> str:
    """Return every combination, the fastest, and how default and formula compare, as text."""
    parts: list[RenderableType] = []
    sizes = dict.fromkeys(one.figures.rows for one in found.cells if one.figures is not None)
    for number, rows in enumerate(sizes):
        cells = [x for x in found.cells if x.figures is not None and x.figures.rows == rows]
        head = "Combinations, the fastest first" if not number else "Given up before"
        parts += [Text(f"{head}: a sample of {units.count(rows)} rows", "bold"), _table(cells), ""]
    parts.append(Text("Fastest", "bold"))
    parts += [wrap(line, first="  ", indent="    ", width=width) for line in verdict(found)]
    parts += [wrap(note, first="  ! ", indent="    ", width=width) for note in found.notes]
    if found.saved is not None:
        name, path = found.saved
        parts.append(wrap(f"saved as {name} in {path}", first="  ", indent="    ", width=width))
        parts.append(f"  rowfall load ... --tuned {name}")
    ended = "interrupted after" if found.interrupted else "measured in"
    parts.append(f"  {ended} {units.duration(found.seconds)}; nothing was left")
    return render(parts, color=color, width=width)


def _table(cells: Sequence[TunedCell]) -> RenderableType:
    names = list(dict.fromkeys(name for one in cells for name, _ in one.cell.choices))
    shown = [_figures(one) for one in cells]
    # What all of them lack is left out, and merging where nobody has waited for it.
    heads = [head for head in _FIGURES if any(each.get(head) for each in shown)]
    rows: list[list[str | Text]] = [[*(_SHORT.get(name, name) for name in names), *heads, ""]]
    for one, figures in zip(cells, shown, strict=True):
        choices, words = dict(one.cell.choices), ", ".join(one.marks)
        rows.append([
            *(choices.get(name, "") for name in names), *(figures.get(head, "") for head in heads),
            Text(words, "bold") if "best" in one.marks else words,
        ])  # fmt: skip
    return grid(rows, right={len(names) + i for i in range(len(heads))})


def _figures(one: TunedCell) -> dict[str, str]:
    found = one.figures
    if found is None:
        return {}
    waited = found.merge_seconds >= LEAST_WAIT
    return {
        "rows/s": units.count(round(found.rows_per_second)),
        "CPU s": f"{found.cpu_seconds:.2f}" if found.cpu_seconds else "",
        "memory": units.memory(found.peak_memory) if found.peak_memory else "",
        "parts": units.count(found.parts) if found.parts else "",
        "of": units.size(found.part_bytes) if found.parts else "",
        "merging": f"{found.merge_seconds:.1f} s" if waited else "",
    }


def verdict(found: TuneReport) -> list[str]:
    """Return in sentences how the fastest, the default and the formula compare."""
    best, default = found.best, found.default
    lines = []
    if best is default:
        lines.append(
            "rowfall's own default: nothing is faster by 5 %, which is what two loads of the same "
            "differ by"
        )
    else:
        lines.append(f"{best.cell.text}: {times(best, default)} the default's rows a second")
        lines.append(f"with {flags(best)}")
    formula = next((one for one in found.cells if one.cell.is_formula), None)
    if formula is not None and formula.figures is not None:
        lines.append(
            "the published formula (blocks of memory / (3 x insert threads)): "
            f"{formula.cell.text}, {times(formula, default)} the default's rows a second"
        )
    if found.fewer_than:
        lines.append(
            f"rows/s are those until fewer than {found.fewer_than:,} parts were active, which is "
            "the sample's share of --fewer-than"
        )
    return lines


def times(one: TunedCell, other: TunedCell) -> str:
    """Return how many times the other's rows a second one has: ``1.20 x``."""
    if one.figures is None or other.figures is None:
        return "not known, of"
    return f"{one.figures.rows_per_second / other.figures.rows_per_second:.2f} x"


def flags(one: TunedCell) -> str:
    """Return the options of ``rowfall load`` that give a combination."""
    words = []
    for name, value in one.cell.options.items():
        flag = f"--{name.replace('_', '-')}"
        words += [f"{flag} {each}" for each in (value if isinstance(value, tuple) else (value,))]
    return " ".join(words)
