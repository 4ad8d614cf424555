"""Renders what a load did: aligned text for people, one versioned JSON document for programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from rowfall.core import sql, units
from rowfall.core.results import Leftover, Report, Verification, VerifiedSplit
from rowfall.report.layout import WIDTH, bar, facts, grid, render, wrap

REPORT_VERSION = LOADS_VERSION = VERIFICATION_VERSION = 1
DEFAULT_TARGETS = ("", "rowfall-data", "./rowfall-data")  # what needs no --to
SHOWN_FAILURES = 20
SHOWN_SHARDS = 20
LEAST_CPU = 0.05  # seconds: less would be shown as 0.0
_PHASE_BAR = 40
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\Z")

# outcome: colour, what it means
_OUTCOMES = {
    "done": ("green", "all splits have landed"),
    "partial": ("yellow", "some splits did not land"),
    "failed": ("red", "nothing landed"),
    "interrupted": ("yellow", "stopped by the user"),
    "running": ("yellow", "still running"),
    "lost": ("red", "its process is gone"),
}


# Splits that differ are listed up to here; a table loaded twice differs in all of them.
MOST_SPLITS = 20


def report_document(report: Report) -> dict[str, Any]:
    """The JSON document of one report, see docs/reference/json.md."""
    return {"rowfall_report": REPORT_VERSION, **asdict(report)}


def loads_document(reports: Sequence[Report]) -> dict[str, Any]:
    """The JSON document of ``rowfall status``."""
    return {"rowfall_loads": LOADS_VERSION, "loads": [asdict(r) for r in reports]}


def verification_document(result: Verification) -> dict[str, Any]:
    """The JSON document of ``rowfall verify``."""
    return {"rowfall_verification": VERIFICATION_VERSION, **asdict(result)}


def report_text(
    report: Report, *, color: bool = False, verbose: bool = False, width: int = WIDTH
) -> str:
    """The end report as text."""
    style, why = _OUTCOMES.get(report.outcome, ("", ""))
    parts: list[RenderableType] = [_title(report.load_id, report.outcome, style, f": {why}"), ""]
    parts += [facts(_where(report)), "", _numbers(report)]
    if any(shard.splits for shard in report.shards):
        parts += ["", *_shards(report, width)]
    if report.phases:
        parts += ["", _phases(report.phases)]
    if report.limited_by:
        parts += ["", wrap(f"Limited by: {report.limited_by}", indent="  ", width=width)]
    parts += [wrap(note, indent="    ", first="  - ", width=width) for note in report.notes]
    if verbose and report.settings:
        pairs = [(name, str(value)) for name, value in report.settings.items()]
        parts += ["", "  settings", facts(pairs, indent=4)]
    if report.failures:
        parts += ["", *_failures(report, width)]
    return render([*parts, "", *_next(report, width)], color=color, width=width)


def _title(load_id: str, word: str, style: str, more: str = "") -> Text:
    return Text.assemble((f"load {load_id[:8]}", "bold"), "  ", (word, style), more)


def _where(report: Report) -> list[tuple[str, str]]:
    splits = f"{units.exact(report.splits_landed)} of {units.exact(report.splits)} landed"
    if report.splits_skipped:
        splits += f", {units.exact(report.splits_skipped)} had landed before"
    if report.splits_failed:
        splits += f", {units.exact(report.splits_failed)} failed"
    if report.retries:
        splits += f"; {units.exact(report.retries)} of {units.exact(report.attempts)} attempts "
        splits += "were retries"
    into = f"{report.table} in {report.target}" if report.table else report.target
    return [("source", report.source), ("target", into), ("splits", splits)]


def _numbers(report: Report) -> RenderableType:
    """Name, total and what that means, as three aligned columns."""
    rows = [("rows", units.exact(report.rows), _row_rates(report))]
    if report.rows_rejected:
        share = report.rows_rejected / max(report.rows + report.rows_rejected, 1)
        rows.append(
            ("rejected", units.exact(report.rows_rejected), f"{units.percent(share)} of all")
        )
    rows += _bytes(report)
    rows.append(("time", units.duration(report.seconds), _cores(report)))
    if report.parts_written or report.parts_active:
        active = f"{units.exact(report.parts_active)} active in the table now"
        rows.append(("parts", units.exact(report.parts_written), f"written, {active}"))
    if report.peak_memory:
        rows.append(("memory", units.memory(report.peak_memory), "at the highest point"))
    return grid(rows, right={1})


def _shards(report: Report, width: int) -> list[RenderableType]:
    """A table with one line a shard, and how even they are. Of many, those that took longest."""
    shown = sorted(report.shards, key=lambda s: -s.seconds)[:SHOWN_SHARDS]
    left = len(report.shards) - len(shown)
    shown.sort(key=lambda s: s.shard)
    head = ("", "rows", "splits", "read", "written", "time", "CPU s", "memory", "requests")
    rows = [tuple(Text(word, "dim") for word in head)]
    rows += [
        (
            Text(f"shard {s.shard}"), Text(units.count(s.rows)), Text(units.exact(s.splits)),
            Text(units.size(s.bytes_source)), Text(units.size(s.bytes_written)),
            Text(units.duration(s.seconds)), Text(f"{s.cpu_seconds:,.1f}"),
            Text(units.memory(s.peak_memory)), Text(units.count(s.requests)),
        )
        for s in shown
    ]  # fmt: skip
    between = sum(s.bytes_received for s in report.shards)
    even = f"{units.exact(left)} more shards took less time. " if left else ""
    even += (
        f"The fullest has {units.percent(report.imbalance)} more than the average; "
        f"{units.size(between)} came from other nodes and from here."
    )
    table = grid(rows, right=set(range(1, len(head))))
    return [table, "", wrap(even, indent="  ", width=width)]


def _cores(report: Report) -> str:
    """CPU time, as far as it is known and more than nothing."""
    cpu, here = report.cpu_seconds, report.cpu_seconds_here
    if here >= LEAST_CPU:
        there = f"{cpu:,.1f} CPU seconds on the server, " if cpu >= LEAST_CPU else ""
        return f"{there}{here:,.1f} here" if there else f"{here:,.1f} CPU seconds here"
    if cpu >= LEAST_CPU and report.seconds:
        return f"{cpu:,.1f} CPU seconds, {cpu / report.seconds:.1f} cores busy"
    return ""


def _row_rates(report: Report) -> str:
    words = []
    if report.rows and report.seconds:
        words.append(units.row_rate(report.rows / report.seconds))
    cpu = report.cpu_seconds + report.cpu_seconds_here
    if report.rows and report.cpu_seconds >= LEAST_CPU:
        words.append(f"{units.count(report.rows / cpu)} rows per CPU second")
    return ", ".join(words)


def _bytes(report: Report) -> list[tuple[str, str, str]]:
    rows = []
    seconds = report.seconds
    if report.bytes_source:
        rate = units.byte_rate(report.bytes_source / seconds) if seconds else ""
        rows.append(("read", units.size(report.bytes_source), rate))
    if report.bytes_raw and report.bytes_raw != report.bytes_source:
        rate = units.byte_rate(report.bytes_raw / seconds) if seconds else ""
        rows.append(("decoded", units.size(report.bytes_raw), rate))
    if report.bytes_written:
        words = ["on disk"]
        if report.rows:
            each = report.bytes_written / report.rows
            words.append(f"{each:,.{1 if each >= 1 else 3}f} bytes a row")
        rows.append(("written", units.size(report.bytes_written), ", ".join(words)))
    return rows


def _phases(phases: Mapping[str, float]) -> RenderableType:
    shares = phases.items()
    rows = [(name, units.percent(share), bar(share, _PHASE_BAR)) for name, share in shares]
    return grid(rows, right={1})


def _failures(report: Report, width: int) -> list[RenderableType]:
    lines: list[RenderableType] = [Text("  not loaded", "red")]
    shown = report.failures[:SHOWN_FAILURES]
    for failure, after in zip(shown, [*shown[1:], None], strict=True):
        text = units.failure(failure.split, failure.error)
        lines.append(wrap(text, indent="      ", first="    ", width=width))
        # Splits tend to fail for one reason: its hint is said once, below the last of them.
        if failure.hint and (after is None or after.hint != failure.hint):
            lines.append(wrap(f"hint: {failure.hint}", indent="      ", width=width))
    more = len(report.failures) - SHOWN_FAILURES
    if more > 0:
        lines.append(f"    and {units.exact(more)} more; --json lists all of them")
    return lines


def _next(report: Report, width: int) -> list[str]:
    """What to type next."""
    lines: list[str] = []
    if report.outcome in ("partial", "failed", "interrupted", "lost"):
        text = "To resume, run the same command again: what has landed is skipped."
        lines.append(wrap(text, indent="  ", width=width))
    elif report.outcome == "running":
        lines.append("  Look again:  rowfall status")
    if report.table and (report.rows or report.splits_skipped):
        lines.append(f"  Look at it:  {query_command(report.table, report.target)}")
    return lines


def query_command(into: str, target: str) -> str:
    """The command that looks at a table, ready to paste into a shell."""
    shown = into if _PLAIN_NAME.match(into) else sql.name(into)
    to = "" if target in DEFAULT_TARGETS else f" --to {shlex.quote(target)}"
    statement = f"SELECT count() FROM {shown}"
    return f"rowfall query {shlex.quote(statement)}{to}"


def loads_text(reports: Sequence[Report]) -> str:
    """The table of ``rowfall status``, newest first; 80 columns but for long table names."""
    if not reports:
        return "no loads yet"
    rows = [
        (
            r.load_id[:8],
            r.outcome,
            r.started[5:16].replace("T", " "),
            f"{r.splits_landed + r.splits_skipped}/{r.splits}",
            units.count(r.rows),
            units.duration(r.seconds),
            units.count(r.rows / r.seconds) if r.seconds else "-",
            r.table or r.target,
        )
        for r in reports
    ]
    head = ("load", "outcome", "started (UTC)", "splits", "rows", "time", "rows/s", "table")
    return render([grid([head, *rows], right={3, 4, 5, 6}, indent=0)])


def leftovers_text(found: Sequence[Leftover]) -> str:
    """The table of ``rowfall clean``: what dead loads left."""
    rows = [
        (
            x.load_id[:8],
            "publish, then drop" if x.committed else "drop",
            units.count(x.rows),
            units.size(x.bytes),
            f"{x.database}.{x.name}" + (f" on {x.node}" if x.node else ""),
        )
        for x in found
    ]
    head = ("load", "what", "rows", "on disk", "table")
    return render([grid([head, *rows], right={2, 3}, indent=0)])


def verification_text(
    result: Verification, *, color: bool = False, verbose: bool = False, width: int = WIDTH
) -> str:
    """The result of ``rowfall verify``: both sides below each other, so a difference is seen."""
    word, style = ("equal", "green") if result.ok else ("different", "red")
    rows = (
        ("", "rows", "checksum"),
        ("source", units.exact(result.source_rows), result.source_checksum),
        ("target", units.exact(result.target_rows), result.target_checksum or "-"),
    )
    parts: list[RenderableType] = [_title(result.load_id, word, style), "", grid(rows, right={1})]
    if result.source_rows != result.target_rows:
        missing = result.source_rows - result.target_rows
        word = "missing in" if missing > 0 else "too many in"
        parts += ["", Text(f"  {units.exact(abs(missing))} rows {word} the target", "red")]
    if result.foreign_rows:
        count = units.exact(result.foreign_rows)
        parts += ["", Text(f"  {count} rows of the target are in no file of the source", "red")]
    shown = [s for s in result.splits if verbose or s.landed_rows != s.source_rows]
    if shown and (verbose or not result.ok):
        parts += ["", _verified_splits(shown if verbose else shown[:MOST_SPLITS])]
        if not verbose and len(shown) > MOST_SPLITS:
            parts += [f"  and {len(shown) - MOST_SPLITS:,} more; -v shows all"]
    compared = f"Compared: {result.scope}, in {units.duration(result.seconds)}."
    return render([*parts, "", wrap(compared, indent="  ", width=width)], color=color, width=width)


def _verified_splits(splits: Sequence[VerifiedSplit]) -> RenderableType:
    head = ("in the source", "in the target", "split")
    rows = [
        (
            units.exact(one.source_rows),
            "cannot be told" if one.landed_rows is None else units.exact(one.landed_rows),
            one.split.rpartition("/")[2] or one.split,
        )
        for one in splits
    ]
    return grid([head, *rows], right={0, 1})
