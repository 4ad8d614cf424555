"""Renders what a load did: aligned text for people, one versioned JSON document for programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from rowfall import sql, units
from rowfall.layout import WIDTH, Style, bar, facts, table, wrap
from rowfall.model import Report

REPORT_VERSION = LOADS_VERSION = VERIFICATION_VERSION = 1
DEFAULT_TARGETS = ("", "rowfall-data", "./rowfall-data")  # what needs no --to
SHOWN_FAILURES = 20
_PHASE_BAR = 40
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\Z")

_OUTCOMES = {
    "done": "all splits have landed",
    "partial": "some splits did not land",
    "failed": "nothing landed",
    "interrupted": "stopped by the user",
    "running": "still running",
    "lost": "its process is gone",
}


class Verified(Protocol):
    """What this module reads of :class:`rowfall.api.Verification`, which lives above it."""

    @property
    def load_id(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def source_rows(self) -> int: ...
    @property
    def target_rows(self) -> int: ...
    @property
    def source_checksum(self) -> str: ...
    @property
    def target_checksum(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def seconds(self) -> float: ...


def report_document(report: Report) -> dict[str, Any]:
    """The JSON document of one report, see docs/reference/json.md."""
    return {"rowfall_report": REPORT_VERSION, **asdict(report)}


def loads_document(reports: Sequence[Report]) -> dict[str, Any]:
    """The JSON document of ``rowfall status``."""
    return {"rowfall_loads": LOADS_VERSION, "loads": [asdict(r) for r in reports]}


def verification_document(result: Verified) -> dict[str, Any]:
    """The JSON document of ``rowfall verify``."""
    return {
        "rowfall_verification": VERIFICATION_VERSION,
        "load_id": result.load_id,
        "ok": result.ok,
        "source_rows": result.source_rows,
        "target_rows": result.target_rows,
        "source_checksum": result.source_checksum,
        "target_checksum": result.target_checksum,
        "scope": result.scope,
        "seconds": result.seconds,
    }


def report_text(
    report: Report, *, color: bool = False, verbose: bool = False, width: int = WIDTH
) -> str:
    """The end report as text."""
    style = Style(color)
    mark = style.good if report.outcome == "done" else style.warn
    if report.outcome in ("failed", "lost"):
        mark = style.bad
    why = _OUTCOMES.get(report.outcome, "")
    lines = [f"{style.head('load ' + report.load_id[:8])}  {mark(report.outcome)}: {why}", ""]
    lines += facts(_where(report), width=width)
    lines += ["", *_numbers(report)]
    if report.phases:
        lines += ["", *_phases(report.phases)]
    if report.limited_by:
        lines += ["", *wrap(f"Limited by: {report.limited_by}", indent="  ", width=width)]
    for note in report.notes:
        lines += wrap(note, indent="    ", first="  - ", width=width)
    if verbose and report.settings:
        pairs = [(name, str(value)) for name, value in report.settings.items()]
        lines += ["", "  settings", *facts(pairs, indent=4, width=width)]
    if report.failures:
        lines += ["", *_failures(report, style, width)]
    lines += ["", *_next(report, width)]
    return "\n".join(lines)


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


def _numbers(report: Report) -> list[str]:
    """Name, total and what that means, as three aligned columns."""
    rows = [("rows", units.exact(report.rows), _row_rates(report))]
    if report.rows_rejected:
        share = report.rows_rejected / max(report.rows + report.rows_rejected, 1)
        rows.append(
            ("rejected", units.exact(report.rows_rejected), f"{units.percent(share)} of all")
        )
    rows += _bytes(report)
    cores = ""
    if report.cpu_seconds and report.seconds:
        busy = report.cpu_seconds / report.seconds
        cores = f"{report.cpu_seconds:,.1f} CPU seconds, {busy:.1f} cores busy"
    rows.append(("time", units.duration(report.seconds), cores))
    if report.parts_written or report.parts_active:
        active = f"{units.exact(report.parts_active)} active in the table now"
        rows.append(("parts", units.exact(report.parts_written), f"written, {active}"))
    if report.peak_memory:
        rows.append(("memory", units.memory(report.peak_memory), "at the highest point"))
    names = max(len(name) for name, _, _ in rows)
    values = max(len(value) for _, value, _ in rows)
    return [f"  {name:<{names}}  {value:>{values}}  {rest}".rstrip() for name, value, rest in rows]


def _row_rates(report: Report) -> str:
    words = []
    if report.rows and report.seconds:
        words.append(units.row_rate(report.rows / report.seconds))
    if report.rows and report.cpu_seconds:
        words.append(f"{units.count(report.rows / report.cpu_seconds)} rows per CPU second")
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
            words.append(f"{report.bytes_written / report.rows:,.1f} bytes a row")
        rows.append(("written", units.size(report.bytes_written), ", ".join(words)))
    return rows


def _phases(phases: Mapping[str, float]) -> list[str]:
    names = max(len(name) for name in phases)
    return [
        f"  {name:<{names}}  {units.percent(share):>6}  {bar(share, _PHASE_BAR)}".rstrip()
        for name, share in phases.items()
    ]


def _failures(report: Report, style: Style, width: int) -> list[str]:
    lines = [style.bad("  not loaded")]
    shown = report.failures[:SHOWN_FAILURES]
    for failure, after in zip(shown, [*shown[1:], None], strict=True):
        lines += wrap(
            f"{failure.split}: {failure.error}", indent="      ", first="    ", width=width
        )
        # Splits tend to fail for one reason: its hint is said once, below the last of them.
        if failure.hint and (after is None or after.hint != failure.hint):
            lines += wrap(f"hint: {failure.hint}", indent="      ", width=width)
    more = len(report.failures) - SHOWN_FAILURES
    if more > 0:
        lines.append(f"    and {units.exact(more)} more; --json lists all of them")
    return lines


def _next(report: Report, width: int) -> list[str]:
    """What to type next."""
    lines: list[str] = []
    if report.outcome in ("partial", "failed", "interrupted", "lost"):
        text = "To resume, run the same command again: what has landed is skipped."
        lines += wrap(text, indent="  ", width=width)
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
    return "\n".join(table(head, rows, right=frozenset({3, 4, 5, 6})))


def verification_text(result: Verified, *, color: bool = False, width: int = WIDTH) -> str:
    """The result of ``rowfall verify``: both sides below each other, so a difference is seen."""
    style = Style(color)
    verdict = style.good("equal") if result.ok else style.bad("different")
    rows = (
        ("source", units.exact(result.source_rows), result.source_checksum),
        ("target", units.exact(result.target_rows), result.target_checksum),
    )
    lines = [f"{style.head('load ' + result.load_id[:8])}  {verdict}", ""]
    lines += [f"  {x}" for x in table(("", "rows", "checksum"), rows, right=frozenset({1}))]
    if result.source_rows != result.target_rows:
        missing = result.source_rows - result.target_rows
        word = "missing in" if missing > 0 else "too many in"
        lines += ["", style.bad(f"  {units.exact(abs(missing))} rows {word} the target")]
    compared = f"Compared: {result.scope}, in {units.duration(result.seconds)}."
    return "\n".join([*lines, "", *wrap(compared, indent="  ", width=width)])
