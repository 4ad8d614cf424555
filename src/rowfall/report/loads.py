"""Render what loads did: aligned text for people, one versioned JSON document for programs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rowfall.core import sql, units, uri
from rowfall.core.load_command import DEFAULT_TARGETS
from rowfall.core.load_record import PartSizes
from rowfall.core.patterns import regex
from rowfall.core.results import Leftover, Report, Verification, VerifiedSplit
from rowfall.report.layout import (
    WIDTH,
    bar,
    facts,
    grid,
    listed,
    merges_left,
    plain_facts,
    render,
    wrap,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

# 2: "splits_landed" and "landed_rows" became "splits_loaded" and "loaded_rows".
REPORT_VERSION = LOADS_VERSION = VERIFICATION_VERSION = 2
SHOWN_FAILURES = 20
SHOWN_SHARDS = 20
LEAST_NAME = 12  # of a table in the list of loads
_MOST_HOST = 24  # names of pods are longer, and their ends tell them apart
# A shorter or smaller load says nothing about rates and limits.
WORTH_SECONDS, WORTH_ROWS = 1.0, 10_000
LEAST_CPU = 0.05  # seconds: less would be shown as 0.0
_PHASE_BAR = 40
_PLAIN_NAME = regex(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\Z")

# outcome: colour, meaning
OUTCOMES = {
    "done": ("green", "everything is loaded"),
    "adopted": ("green", "its rows were in the table already"),
    "partial": ("yellow", "some {unit}s could not be loaded"),
    "failed": ("red", "nothing was loaded"),
    "interrupted": ("yellow", "stopped by the user"),
    "running": ("yellow", "still running"),
    "lost": ("red", "its process is gone"),
}


# Files that differ are listed up to here; of a table loaded twice, all of them do.
SHOWN_DIFFERENT = 20


def report_document(report: Report) -> dict[str, Any]:
    """Return the JSON document of one report, see docs/reference/json.md."""
    return {"rowfall_report": REPORT_VERSION, **asdict(report)}


def loads_document(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the JSON document of ``rowfall status``."""
    return {"rowfall_loads": LOADS_VERSION, "loads": [asdict(r) for r in reports]}


def verification_document(result: Verification) -> dict[str, Any]:
    """Return the JSON document of ``rowfall verify``."""
    return {"rowfall_verification": VERIFICATION_VERSION, **asdict(result)}


def short_report_text(report: Report, *, color: bool = False, width: int = WIDTH) -> str:
    """Return the report at the end of a load: at most five lines for one that went well.

    Notes and failures were printed while it ran, and are not repeated. A line for every reader has
    to be added here and in :func:`report_text`, which has all that is known.
    """
    style, _ = OUTCOMES.get(report.outcome, ("", ""))
    title = f"load {report.load_id[:8]}  {report.outcome}" if report.load_id else report.outcome
    seconds = units.duration(report.total_seconds or report.seconds)
    when = "in" if report.outcome == "done" else "after"
    text = f"{title} {when} {seconds}: {_loaded(report)}"
    text = wrap(text, first="", indent="  ", width=width, whole=_into(report))
    shown: RenderableType = text
    if color:
        from rich.text import Text

        shown = Text(text)
        shown.stylize("bold", 0, 13)
        shown.stylize(style, 15, len(title))
    rows: list[tuple[str, str]] = []
    if report.rows_rejected:
        rows.append(("rejected", _rejected(report)))
    if report.rows >= WORTH_ROWS and report.seconds >= WORTH_SECONDS:
        rows.append(("rate", _rate(report)))
        rows.append(("limit", _clause(report.limited_by)))
    shown_facts = facts(rows) if color else plain_facts(rows, width=width)
    parts: list[RenderableType] = [shown, *([shown_facts] if rows else [])]
    return render([*parts, *_next(report, width)], color=color, width=width)


def _loaded(report: Report) -> str:
    """Return a phrase with the rows, files and bytes that a run has loaded."""
    told = [f"{units.exact(report.splits_skipped)} loaded before"] if report.splits_skipped else []
    if report.splits_failed:
        told.append(f"{units.exact(report.splits_failed)} failed")
    files = units.counted(report.splits, report.unit)
    if report.splits_loaded != report.splits:
        files = f"{units.exact(report.splits_loaded)} of {files}"
    files += f" ({', '.join(told)})" if told else ""
    by = f" by {len(report.workers)} workers" if len(report.workers) > 1 else ""
    return f"{units.counted(report.rows, 'row')} from {files} {_into(report)}{by}"


def _into(report: Report) -> str:
    return f"into {report.table or report.target}"


def _clause(sentence: str) -> str:
    """Return a sentence as it stands behind a word: no capital, no full stop."""
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


def _rejected(report: Report) -> str:
    share = report.rows_rejected / max(report.rows + report.rows_rejected, 1)
    return f"{units.counted(report.rows_rejected, 'bad row')}, {units.percent(share)} of all rows"


def _rate(report: Report) -> str:
    """Return rows a second, and bytes of the source where they are known."""
    words = [units.row_rate(report.rows / report.seconds)]
    if report.bytes_source:
        words.append(units.byte_rate(report.bytes_source / report.seconds))
    return ", ".join(words)


def report_text(
    report: Report, *, color: bool = False, verbose: bool = False, width: int = WIDTH
) -> str:
    """Return everything that is known about a load as text; ``verbose`` adds the settings."""
    style, why = OUTCOMES.get(report.outcome, ("", ""))
    why = why.format(unit=report.unit)
    if report.progress is not None:
        why = f"{_percent(report.progress)} done"
    parts: list[RenderableType] = [_title(report.load_id, report.outcome, style, f": {why}"), ""]
    parts += [facts(_where(report)), "", _numbers(report)]
    if any(shard.splits for shard in report.shards):
        parts += ["", *_shards(report, width)]
    if report.workers:
        parts += ["", _workers(report)]
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
    from rich.text import Text

    return Text.assemble((f"load {load_id[:8]}", "bold"), "  ", (word, style), more)


def _where(report: Report) -> list[tuple[str, str]]:
    total, before = units.exact(report.splits), units.exact(report.splits_skipped)
    words = [f"{units.exact(report.splits_loaded)} of {total} loaded"]
    if report.splits_skipped and report.splits_loaded:
        words.append(f"{before} loaded before")
    elif report.splits_skipped:
        words = [f"{before} of {total} loaded before"]
    if report.splits_failed:
        words.append(f"{units.exact(report.splits_failed)} failed")
    if report.retries:
        words.append("1 retry" if report.retries == 1 else f"{units.exact(report.retries)} retries")
    into = f"{report.table} in {report.target}" if report.table else report.target
    return [
        ("source", report.source),
        ("target", into),
        (f"{report.unit}s", ", ".join(words)),
        ("visible", report.visibility),
    ]


def _numbers(report: Report) -> RenderableType:
    """Return name, total and meaning as three aligned columns."""
    rows = [("rows", units.exact(report.rows), _row_rates(report))]
    if report.rows_rejected:
        of = _rejected(report).partition(", ")[2]
        rows.append(("rejected", units.exact(report.rows_rejected), of))
    rows += _bytes(report)
    rows.append(("time", units.duration(report.seconds), _cores(report)))
    if report.total_seconds:
        rows.append(("in all", units.duration(report.total_seconds), "from start to end"))
    if report.parts_written or report.parts_active:
        active = f"{units.exact(report.parts_active)} active in the table now"
        rows.append(("parts", units.exact(report.parts_written), f"written, {active}"))
    if (sizes := report.part_sizes) is not None:
        rows.append(("part size", usual_size(sizes), "of half of them, or less"))
        after = "" if sizes.few_after is None else units.duration(sizes.few_after)
        few = f"until fewer than {units.exact(sizes.few)} parts were active"
        rows.append(("few parts", after or "-", few if after else f"not yet {few[6:]}"))
    if (left := merges_left(report.merges)) and report.merges is not None:
        _, _, into = left.partition(" into ")
        rows.append(("merges", units.exact(report.merges.parts), f"parts left, into {into}"))
    if report.peak_memory:
        rows.append(("memory", units.memory(report.peak_memory), "at the peak"))
    if (cleared := report.after) is not None:
        kept = [
            f"{units.exact(count)} {why}"
            for count, why in ((cleared.changed, "had changed"), (cleared.failed, "failed"))
            if count
        ]  # fmt: skip
        rows.append(
            (f"after: {cleared.action}", units.exact(cleared.files), ", ".join(kept) or "files")
        )
    if report.steering:
        changes = units.exact(len(report.steering))
        rows.append(("steering", changes, "changes between attempts; rowfall explain lists them"))
    return grid(rows, right={1})


def usual_size(sizes: PartSizes) -> str:
    """Return the bytes that half of the parts have at most."""
    every, seen = sum(n for _, n in sizes.bytes), 0
    for most, count in sizes.bytes:
        seen += count
        if 2 * seen >= every:
            return units.memory(most)
    return ""


def _shards(report: Report, width: int) -> list[RenderableType]:
    """Return a table with a line for each shard (of many, the slowest), and how even they are."""
    from rich.text import Text

    shown = sorted(report.shards, key=lambda s: -s.seconds)[:SHOWN_SHARDS]
    left = len(report.shards) - len(shown)
    shown.sort(key=lambda s: s.shard)
    head = ["", "rows", f"{report.unit}s", "read", "written", "wall s", "CPU s"]
    head += ["memory", "requests"]
    rows = [tuple(Text(word, "dim") for word in head)]
    rows += [
        (
            Text(f"shard {s.shard}"), Text(units.count(s.rows)), Text(units.exact(s.splits)),
            Text(units.size(s.bytes_source)), Text(units.size(s.bytes_written)),
            Text(f"{s.seconds:,.1f}"), Text(f"{s.cpu_seconds:,.1f}"),
            Text(units.memory(s.peak_memory)), Text(units.count(s.requests)),
        )
        for s in shown
    ]  # fmt: skip
    even = ""
    if left:
        even = f"{units.counted(left, 'shard')} that took less time are not shown. "
    if len(report.shards) > 1:
        even += imbalance_text(report.imbalance) + " "
    between = sum(s.bytes_received for s in report.shards)
    even += f"The nodes received {units.size(between)} from each other and from this machine"
    each = [f"shard {s.shard} {units.size(s.bytes_received)}" for s in shown if s.bytes_received]
    even += f": {', '.join(each)}." if len(each) > 1 else "."
    table = grid(rows, right=set(range(1, len(head))))
    return [table, "", wrap(even, indent="  ", width=width)]


def _workers(report: Report) -> RenderableType:
    """Return a table with a line for each worker of a load that several machines share."""
    from rich.text import Text

    head = ["", "", "rows", f"{report.unit}s", "read", "rows/s", "CPU s"]
    rows = [tuple(Text(word, "dim") for word in head)]
    for worker in report.workers:
        style = OUTCOMES.get(worker.state, ("",))[0]
        rate = units.count(worker.rows / worker.seconds) if worker.seconds else "-"
        rows.append((
            Text(f"{_end_of(worker.host, _MOST_HOST)} {worker.pid}"), Text(worker.state, style),
            Text(units.count(worker.rows)), Text(units.exact(worker.splits)),
            Text(units.size(worker.bytes_source)), Text(rate), Text(f"{worker.cpu_seconds:,.1f}"),
        ))  # fmt: skip
    return grid(rows, right=set(range(2, len(head))))


def imbalance_text(share: float) -> str:
    """Say how even the shards are; ``share`` is how much more than the average the fullest has."""
    if share < 0.005:
        return "All shards got the same amount of data."
    if share < 0.95:
        return f"The fullest shard got {units.percent(share)} more data than the average."
    return f"The fullest shard got {1 + share:.1f} times the average amount of data."


def _cores(report: Report) -> str:
    """Return the CPU time, "" if it is not known or next to nothing."""
    cpu, here = report.cpu_seconds, report.cpu_seconds_here
    if here >= LEAST_CPU:
        there = f"{cpu:,.1f} CPU seconds on the server, " if cpu >= LEAST_CPU else ""
        return f"{there}{here:,.1f} here" if there else f"{here:,.1f} CPU seconds here"
    if cpu >= LEAST_CPU and report.seconds:
        return f"{cpu:,.1f} CPU seconds, {cpu / report.seconds:.1f} at a time"
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
    from rich.text import Text

    lines: list[RenderableType] = [Text("  not loaded", "red")]
    shown = report.failures[:SHOWN_FAILURES]
    for failure, after in zip(shown, [*shown[1:], None], strict=True):
        text = units.failure(failure.split, failure.error)
        lines.append(wrap(text, indent="      ", first="    ", width=width))
        # Files tend to fail for one reason: its hint is printed once, below the last of them.
        if failure.hint and (after is None or after.hint != failure.hint):
            lines.append(wrap(f"hint: {failure.hint}", indent="      ", width=width))
    more = len(report.failures) - SHOWN_FAILURES
    if more > 0:
        lines.append(f"    and {units.exact(more)} more; --json lists all of them")
    return lines


def _next(report: Report, width: int) -> list[str]:
    """Return the commands to type next."""
    lines: list[str] = []
    if report.outcome in ("partial", "failed", "interrupted", "lost"):
        text = "To resume, run the same command again: what is loaded is skipped."
        if report.failures and all(failure.lasting for failure in report.failures):
            # It would fail in the same way for ever.
            text = "Once the cause is removed, load again: what is loaded is skipped."
        if not report.table and report.target != "null:":
            text = (
                "To complete the files, run the same command again: those that lack rows are "
                "written anew."
            )
        if report.source == "-":
            text = "To load it, pipe the data in once more: nothing of it is in the table."
        lines.append(wrap(text, indent="  ", width=width))
    elif report.outcome == "running":
        lines.append("  look again: rowfall status")
    asks = report.table and not report.target.startswith("kafka://")
    if asks and (report.rows or report.splits_skipped):
        lines.append(f"  look at it: {query_command(report.table, report.target)}")
    return lines


def query_command(into: str, target: str) -> str:
    """Return the command that queries a table, ready to paste into a shell."""
    if uri.scheme_of(target) in uri.LAKES:
        into = uri.lake_name(into)
    names = into.split(".", 1)
    shown = into if _PLAIN_NAME.match(into) else ".".join(map(sql.name, names))
    # As a person here would type it.
    near = os.path.relpath(target) if target.startswith(f"{os.getcwd()}{os.sep}") else target
    to = "" if near in DEFAULT_TARGETS else f" --to {shlex.quote(near)}"
    statement = f"SELECT * FROM {shown} LIMIT 5"
    return f"rowfall query {shlex.quote(statement)}{to}"


def loads_text(
    reports: Sequence[Report], *, verbose: bool = False, width: int = WIDTH
) -> str:  # fmt: skip
    """Return the table of ``rowfall status``, newest first; 80 columns but for long table names.

    Args:
        verbose: a line for each load; else those of one command with ``--tables`` have one.
    """
    if not reports:
        return "no loads yet"
    groups = [[r] for r in reports] if verbose else _by_command(reports)
    rows = [_line_of_load(g[0]) if len(g) == 1 else _line_of_tables(g) for g in groups]
    head = ("load", "outcome", "started (UTC)", "loaded", "rows", "time", "rows/s", "table")
    # Whatever the last column holds, a line fits a terminal.
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    room = max(WIDTH - sum(widths) - 2 * len(widths), LEAST_NAME)
    rows = [(*row[:-1], _end_of(row[-1], room)) for row in rows]
    return render([listed(head, rows, right={3, 4, 5, 6}, width=width)])


def _by_command(reports: Sequence[Report]) -> list[list[Report]]:
    """Return loads that are of one command with ``--tables``, run once or again, together."""
    groups: dict[tuple[str, ...], list[Report]] = {}
    for report in reports:
        key: tuple[str, ...] = (report.load_id,)
        if report.tables:
            source = report.source.partition("?table=")[0]
            source = source if source != report.source else source.rpartition("/")[0]
            key = (report.tables, source, "" if not report.table else report.target)
        groups.setdefault(key, []).append(report)
    return list(groups.values())


def _line_of_load(r: Report) -> tuple[str, ...]:
    return (
        r.load_id[:8],
        r.outcome if r.progress is None else f"running {_percent(r.progress)}",
        r.started[5:16].replace("T", " "),
        f"{r.splits_loaded + r.splits_skipped}/{r.splits}",
        units.count(r.rows),
        units.duration(r.seconds),
        units.count(r.rows / r.seconds) if r.seconds else "-",
        r.table or r.target,
    )


def _line_of_tables(loads: Sequence[Report]) -> tuple[str, ...]:
    """Return the line of many tables: each counts by its newest load."""
    newest: dict[str, Report] = {}
    for load in loads:
        newest.setdefault(load.source, load)
    done = sum(load.outcome == "done" for load in newest.values())
    running = any(load.outcome == "running" for load in newest.values())
    left = f"{units.exact(len(newest) - done)} not done"
    return (
        "tables",
        "running" if running else "done" if done == len(newest) else left,
        loads[0].started[5:16].replace("T", " "),
        f"{done}/{len(newest)}",
        units.count(sum(load.rows for load in loads)),
        "-", "-",  # they ran at the same time
        loads[0].tables,
    )  # fmt: skip


def _end_of(name: str, room: int) -> str:
    """Return a name, or what fits of its end: that tells tables and files apart."""
    return name if len(name) <= room else f"…{name[1 - room :]}"


def _percent(share: float) -> str:
    """Return a share that is not 100 % before the end."""
    return f"{min(int(share * 100), 99)} %"


def leftovers_text(found: Sequence[Leftover]) -> str:
    """Return the table of ``rowfall clean``: what dead loads left."""
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
    head = ("load", "to do", "rows", "on disk", "table")
    return render([grid([head, *rows], right={2, 3}, indent=0)])


def verification_text(
    result: Verification, *, color: bool = False, verbose: bool = False, width: int = WIDTH
) -> str:
    """Return the result of ``rowfall verify``, with source and target below each other."""
    from rich.text import Text

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
    shown = [s for s in result.splits if verbose or s.loaded_rows != s.source_rows]
    if shown and (verbose or not result.ok):
        parts += ["", _verified_splits(shown if verbose else shown[:SHOWN_DIFFERENT])]
        if not verbose and len(shown) > SHOWN_DIFFERENT:
            parts += [f"  and {len(shown) - SHOWN_DIFFERENT:,} more; -v shows all"]
    compared = f"Compared: {result.scope}, in {units.duration(result.seconds)}."
    return render([*parts, "", wrap(compared, indent="  ", width=width)], color=color, width=width)


def _verified_splits(splits: Sequence[VerifiedSplit]) -> RenderableType:
    head = ("in the source", "in the target", "file")
    rows = [
        (
            units.exact(one.source_rows),
            "not clear" if one.loaded_rows is None else units.exact(one.loaded_rows),
            one.split.rpartition("/")[2] or one.split,
        )
        for one in splits
    ]
    return grid([head, *rows], right={0, 1})
