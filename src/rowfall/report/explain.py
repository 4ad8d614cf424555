"""Render a plan beside what happened: text for people, one versioned JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rowfall.core import units
from rowfall.core.load_record import RanStatement
from rowfall.core.patterns import regex
from rowfall.core.results import AttemptRecord, Explanation, PlannedLoad, Report
from rowfall.core.steering import said
from rowfall.report.layout import WIDTH, facts, grid, render, wrap, wrap_sql

if TYPE_CHECKING:
    from rich.console import RenderableType

EXPLANATION_VERSION = 1
# Attempts that are listed: the slowest ones; --json has all.
_SHOWN = 20
# Statements that are listed: a load of one attempt has five to ten; -v and --json have all.
_SHOWN_SQL = 12
# A part of an attempt of less than this share of it is not what it waited for.
_MUCH = 0.3


def explain_document(found: Explanation) -> dict[str, Any]:
    """Return the JSON document of ``rowfall explain``, see docs/reference/json.md."""
    plan = found.plan
    return {
        "rowfall_explanation": EXPLANATION_VERSION,
        "report": asdict(found.report),
        "plan": None if plan is None else {
            **asdict(plan),
            "choices": [
                {"name": name, "value": value, "reason": reason}
                for name, value, reason in plan.choices
            ],
            "settings": [
                {"name": name, "value": value, "reason": reason}
                for name, value, reason in plan.settings
            ],
        },
        "attempts": [
            {**asdict(each), "waited_for": waited_for(each, plan.cores if plan else 1)}
            for each in found.attempts
        ],
        "left_out": found.left_out,
        "record": asdict(found.record),
    }  # fmt: skip


def explain_text(
    found: Explanation, *, color: bool = False, width: int = WIDTH, verbose: bool = False
) -> str:
    """Return plan and reality side by side, the attempts, and the SQL."""
    from rich.text import Text  # 25 ms that the live page of a load does without

    report, plan = found.report, found.plan
    parts: list[RenderableType] = [
        Text(f"load {report.load_id[:8]}  {report.outcome}", "bold"),
        facts([("from", report.source), ("into", report.table or report.target)]),
        "",
    ]
    if plan is None:
        parts.append(wrap(
            "its plan was not kept: an older rowfall has loaded it, or it never came so far. "
            f"rowfall report {report.load_id[:8]} shows what is known.",
            first="  ", indent="  ", width=width,
        ))  # fmt: skip
        return render(parts, color=color, width=width)
    parts += [Text("Plan and what happened", "bold"), _beside(plan, report), ""]
    parts.append(Text("How the rows travelled", "bold"))
    parts.append(facts([(name, _choice(value, why)) for name, value, why in plan.choices if why]))
    parts += ["", Text("Attempts", "bold"), *_attempts(found)]
    if report.steering:
        parts += ["", Text("What was changed between attempts", "bold"), _steering(report)]
    if report.limited_by:
        parts += ["", Text("Limited by", "bold"),
                  wrap(report.limited_by, first="  ", indent="  ", width=width)]  # fmt: skip
    parts += _sql(found, plan, width, verbose=verbose)
    if verbose and plan.settings:
        parts += ["", Text("Settings", "bold")]
        parts.append(facts([(f"{n} = {value}", why) for n, value, why in plan.settings]))
    return render(parts, color=color, width=width)


def _sql(
    found: Explanation, plan: PlannedLoad, width: int, *, verbose: bool
) -> list[RenderableType]:  # fmt: skip
    """Return the statements that ran; those of the plan of a load that has kept none."""
    from rich.text import Text

    ran = found.record.statements
    if not ran and not (plan.sql or plan.ddl):
        return []
    parts: list[RenderableType] = ["", Text("SQL (secrets masked)", "bold")]
    if not ran:
        return parts + [wrap_sql(text, width) for text in (plan.ddl, plan.sql) if text]
    shown = ran if verbose else ran[:_SHOWN_SQL]
    for each in shown:
        parts += [Text(f"-- {ran_as(each)}", "dim"), wrap_sql(each.sql, width)]
    if len(ran) > len(shown):
        parts.append(f"  and {len(ran) - len(shown)} others; -v shows all")
    return parts


def ran_as(statement: RanStatement) -> str:
    """Return how often a statement ran, and which attempt was the first, in words."""
    times = "once" if statement.times == 1 else f"{statement.times:,} times"
    number = regex(r"^\w+?_(\d+)").match(statement.first)
    if number is None:
        return times
    return f"{times}, {'first ' if statement.times > 1 else ''}by attempt {number[1]}"


def _choice(value: str, why: str) -> str:
    return f"{value}: {why}"


def _beside(plan: PlannedLoad, report: Report) -> RenderableType:
    def rate(rows: float | None, seconds: float | None) -> str:
        return units.row_rate(rows / seconds) if rows and seconds else ""

    known = plan.rows is not None
    # Parts and attempts are summed up when a load ends.
    ended = not report.unfinished
    rows = [
        ["", "plan", "happened" if ended else "so far"],
        ["rows", units.exact(plan.rows or 0) if known else "not known", units.exact(report.rows)],
        ["seconds", "not known" if plan.seconds is None else units.forecast(plan.seconds),
         units.duration(report.seconds)],
        ["rate", rate(plan.rows, plan.seconds), rate(report.rows, report.seconds)],
        ["memory", units.memory(plan.memory), units.memory(report.peak_memory)
         if report.peak_memory else ""],
        ["parts", units.exact(plan.parts), units.exact(report.parts_written) if ended else ""],
        ["disk", "" if plan.disk is None else units.size(plan.disk),
         units.size(report.bytes_written) if report.bytes_written else ""],
        ["attempts", units.exact(plan.attempts), (units.exact(report.attempts) if ended else "")
         + (f", {report.retries} again" if report.retries else "")],
    ]  # fmt: skip
    return grid([row for row in rows if row[1] or row[2]])


def _steering(report: Report) -> RenderableType:
    return facts([(units.clock(step.seconds), said(step)) for step in report.steering])


def _attempts(found: Explanation) -> list[RenderableType]:
    if not found.attempts:
        return ["  there were none: nothing was left to load, or the run ended before"]
    shown, cores = found.attempts, found.plan.cores if found.plan else 1
    if len(shown) > _SHOWN:
        slowest = {a.id for a in sorted(shown, key=lambda a: -a.seconds)[:_SHOWN]}
        shown = tuple(a for a in shown if a.id in slowest or a.error)
    lines = [["", "files", "rows", "bytes", "s", "insert", "publish", "waited for"]]
    lines += [
        [
            each.id.partition("_")[2], f"{each.splits:,}", units.count(each.rows),
            units.size(each.bytes_source), f"{each.seconds:.2f}", f"{each.insert_seconds:.2f}",
            f"{each.publish_seconds:.2f}",
            f"failed: {each.error.splitlines()[0]}" if each.error else waited_for(each, cores),
        ]
        for each in shown
    ]  # fmt: skip
    tail: list[RenderableType] = [grid(lines, right=range(7))]
    if more := found.left_out + len(found.attempts) - len(shown):
        tail.append(f"  and {more:,} others")
    return tail


def waited_for(each: AttemptRecord, cores: int) -> str:
    """Return the waits that took much of an attempt's time, in words; "" for none.

    Args:
        cores: that its threads had, so that they waited at the same time.
    """
    if each.error or not each.seconds:
        return ""
    parts = {
        "cores": min(each.core_seconds / max(1, cores), each.insert_seconds),
        "the attempt before": each.waited_seconds,
        "publishing": each.publish_seconds,
    }
    name = max(parts, key=lambda part: parts[part])
    share = parts[name] / each.seconds
    return f"{name}, {units.percent(share)}" if share >= _MUCH else ""
