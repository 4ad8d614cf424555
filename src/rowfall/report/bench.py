"""Render what ``rowfall bench`` has measured: text, Markdown, one versioned document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rowfall.core import units
from rowfall.core.bench_results import ROWFALL, BenchReport, BenchRow, PublishedFigure, best_by_hand
from rowfall.report.layout import WIDTH, grid, render, wrap

if TYPE_CHECKING:
    from rich.console import RenderableType

BENCH_VERSION = 1
_HEAD = ("method", "s", "CPU s", "rows/s/core", "published", "times")
HOW = (
    "s and CPU s are medians of whole processes; CPU s has those of servers. rows/s/core: by each "
    "core of this machine; published: by each vCPU of the article's. times: how often a method "
    "goes into the time of the fastest by hand."
)
"""How to read the figures."""


def bench_document(found: BenchReport) -> dict[str, Any]:
    """Return the JSON document of ``rowfall bench``, see docs/reference/json.md."""
    return {
        "rowfall_bench": BENCH_VERSION,
        "machine": dict(found.machine),
        "scale": found.scale,
        "rounds": found.wanted,
        "seconds": round(found.seconds, 1),
        "stopped": found.stopped,
        "rows": [_row(row, found) for row in found.rows],
    }


def _row(row: BenchRow, found: BenchReport) -> dict[str, Any]:
    published = row.published
    return {
        "article": row.article,
        "table": row.table,
        "method": row.method,
        "side": row.side,
        "published": None if published is None else {
            **asdict(published), "rows_per_vcpu_second": published.per_vcpu,
        },
        "seconds": row.wall,
        "cpu_seconds": row.cpu,
        "peak_memory": row.memory,
        "rows_per_core_second": row.per_core(found.machine["cores"]),
        "times": times(row, found),
        "rounds": [{**asdict(one), "more": dict(one.more)} for one in row.rounds],
        "why": row.why,
    }  # fmt: skip


def times(row: BenchRow, found: BenchReport) -> float | None:
    """Return how often a row goes into the time of the fastest by hand; None where unknown."""
    best, wall = best_by_hand(row, found.rows), row.wall
    return best / wall if best and wall else None


# --- text and Markdown ---------------------------------------------------------------------------


def bench_text(found: BenchReport, *, color: bool = False, width: int = WIDTH) -> str:
    """Return one table for each comparison as text."""
    parts: list[RenderableType] = []
    for title, rows in _tables(found):
        parts += [Text(title, "bold")]
        ran = [row for row in rows if row.rounds]
        if ran:
            table = [Text(name, "dim") for name in _HEAD]
            cells: list[Sequence[str | Text]] = [table]
            cells += [_colored(_cells(row, found), row) for row in ran]
            parts.append(grid(cells, right={1, 2, 3, 4}))
        parts += [wrap(text, first="  ", indent="    ", width=width) for text in _notes(rows)]
        parts.append("")
    parts += [wrap(HOW, width=width), wrap(machine_text(found), width=width)]
    if found.stopped:
        parts.append(wrap(f"! {found.stopped}", width=width))
    if found.folder:
        parts.append(f"results: {found.folder}/results.json")
    return render(parts, color=color, width=width)


def bench_markdown(found: BenchReport) -> str:
    """Return the same as Markdown."""
    lines = ["# rowfall bench", "", machine_text(found), "", HOW, ""]
    if found.stopped:
        lines += [f"**{found.stopped}**", ""]
    for title, rows in _tables(found):
        lines += [f"## {title}", ""]
        if ran := [row for row in rows if row.rounds]:
            lines += [f"| {' | '.join(_HEAD)} | published on | memory |",
                      "|---|---:|---:|---:|---:|---:|---|---:|"]  # fmt: skip
            for row in ran:
                on = row.published.text if row.published else ""
                cells = (*_cells(row, found), on, units.memory(row.memory or 0))
                lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
            lines.append("")
        lines += [f"- {text}" for text in _notes(rows)]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _tables(found: BenchReport) -> Iterator[tuple[str, list[BenchRow]]]:
    """Give the title and the rows of each comparison."""
    for (article, table), rows in groupby(found.rows, lambda row: (row.article, row.table)):
        of = list(rows)
        count = next((row.rounds[0].rows for row in of if row.rounds), 0)
        yield f"{article} {table}" + (f", {units.count(count)} rows" if count else ""), of


def _cells(row: BenchRow, found: BenchReport) -> tuple[str, ...]:
    per_core, often = row.per_core(found.machine["cores"]), times(row, found)
    published = row.published.per_vcpu if row.published else None
    return (
        row.method,
        f"{row.wall:.2f}",
        f"{row.cpu:.2f}",
        "" if per_core is None else units.count(per_core),
        "" if published is None else units.count(published),
        "" if often is None else f"{often:.2f}",
    )


def _colored(cells: Sequence[str], row: BenchRow) -> Sequence[str | Text]:
    return [Text(cells[0], "green"), *cells[1:]] if row.side == ROWFALL else cells


def _notes(rows: Sequence[BenchRow]) -> Iterator[str]:
    """Give what is said below a table: published figures, parts, shards, and what did not run."""
    seen = set()
    for row in rows:
        one = row.published
        if one is not None and one not in seen:
            seen.add(one)
            each = f", {units.count(one.per_vcpu)} for each vCPU" if one.per_vcpu else ""
            yield f"published: {published_text(one)}{each}"
    for row in rows:
        if row.rounds and (shards := row.rounds[-1].more.get("shards")):
            read = ", ".join(f"{units.count(s['read_rows'])}/{units.count(s['stored_rows'])}/"
                             f"{s['s3_requests']}" for s in shards)  # fmt: skip
            here = "; the rest was read by rowfall itself" if only_sampled(shards) else ""
            yield f"{row.method}: rows read from S3 / stored / requests by shard: {read}{here}"
        if row.rounds and "parts" in (more := row.rounds[-1].more):
            yield (
                f"{row.method}: {units.counted(more['parts'], 'part')} first, {more['left']} after "
                f"{more['merged']:.2f} s of merges; {units.memory(row.memory or 0)}"
            )
    skipped: dict[str, list[str]] = {}
    for row in rows:
        if row.why:
            skipped.setdefault(row.why, []).append(row.method)
    for why, methods in skipped.items():
        yield f"not run: {', '.join(methods)}: {why}"


def only_sampled(shards: Sequence[Mapping[str, int]]) -> bool:
    """Tell whether shards have read a sample alone of what they store."""
    read, stored = (sum(one[key] for one in shards) for key in ("read_rows", "stored_rows"))
    return 2 * read < stored


def published_text(one: PublishedFigure) -> str:
    """Return a figure of an article: on what it was measured, its time and its rate."""
    rate = units.row_rate(one.rows / one.seconds)
    return f"{one.text}: {units.duration(one.seconds)}, {rate}"


def machine_text(found: BenchReport) -> str:
    """Return on what it was measured, and how busy that was."""
    machine = found.machine
    loads = [one.load for row in found.rows for one in row.rounds]
    load = f", load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    return (
        f"{machine['cores']} cores of {machine['cpu']}, {units.memory(machine['memory'])}{load}; "
        f"scale {found.scale:g}, {units.counted(found.wanted, 'round')} in turns; rowfall "
        f"{machine['rowfall']}; {units.duration(found.seconds)}"
    )
