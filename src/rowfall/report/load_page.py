"""Show a load as a page of charts: what it did, second by second, and what held it up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rowfall.core import units
from rowfall.core.load_record import LoadRecord, PartSizes, Sample
from rowfall.core.results import AttemptRecord, Explanation, Report
from rowfall.report.explain import ran_as
from rowfall.report.layout import merges_left
from rowfall.report.loads import OUTCOMES, imbalance_text
from rowfall.report.page import (
    TIME,
    Axis,
    BarChart,
    Chart,
    CodeBlocks,
    Histogram,
    LineChart,
    Mark,
    Page,
    Series,
    StackedBar,
    TextTable,
    Threshold,
    Tile,
    Unit,
)

# Of 100,000 files the slowest are named, as bars and in the table; the others are a histogram.
_SLOWEST, _BARS = 50, 15
_MOST_ERRORS = 100
_SECONDS = Axis("seconds", Unit.SECONDS)
_OLDER = "An older rowfall has loaded this: it kept nothing of it."


def _absent(report: Report, otherwise: str) -> str:
    """Return the reason why there is nothing to draw."""
    if report.outcome == "running":
        return "The load has just begun."
    if report.outcome == "lost":
        return "Its process was gone before it had written down what it did."
    if report.outcome in ("failed", "interrupted") and not report.attempts:
        return "It has ended before its first attempt."
    return otherwise if report.rowfall_version else _OLDER


def load_page(found: Explanation) -> Page:
    report, record = found.report, found.record
    charts = (
        *_over_time(report, record),
        _part_sizes(report),
        _stages(report, record),
        *_shards(report),
        *_files(found),
        _errors(found),
        _plan(found),
        _settings(found),
        _statements(found),
    )
    color, _ = OUTCOMES.get(report.outcome, ("", ""))
    version = f"rowfall {report.rowfall_version}" if report.rowfall_version else ""
    engine = f", engine {report.engine_version}" if report.engine_version else ""
    return Page(
        f"load {report.load_id[:8]}", tuple(c for c in charts if c is not None),
        report.outcome, color, _tiles(report), _facts(report), _warnings(report),
        f"{version}{engine}",
    )  # fmt: skip


def _tiles(report: Report) -> tuple[Tile, ...]:
    seconds, rows = report.seconds, report.rows
    tiles = [Tile("rows", units.count(rows), units.row_rate(rows / seconds) if seconds else "")]
    whole = report.total_seconds or seconds
    share = "" if report.progress is None else f"{units.percent(report.progress)} done"
    tiles.append(Tile("time", units.duration(whole), share))
    if report.bytes_source:
        rate = units.byte_rate(report.bytes_source / seconds) if seconds else ""
        tiles.append(Tile("read", units.size(report.bytes_source), rate))
    if report.bytes_written:
        each = f"{report.bytes_written / rows:.3g} bytes a row" if rows else ""
        tiles.append(Tile("written", units.size(report.bytes_written), each))
    cpu = report.cpu_seconds + report.cpu_seconds_here
    if cpu:
        cores = f"{cpu / seconds:.1f} cores busy" if seconds else ""
        tiles.append(Tile("CPU", units.duration(cpu), cores))
    if report.peak_memory:
        tiles.append(Tile("memory", units.memory(report.peak_memory), "at the peak"))
    if report.parts_written or report.parts_active:
        active = f"{units.exact(report.parts_active)} active at the end"
        tiles.append(Tile("parts", units.exact(report.parts_written), active))
    bad = [units.counted(report.splits_failed, f"failed {report.unit}")] * bool(
        report.splits_failed
    )
    if report.rows_rejected:
        bad.append(units.counted(report.rows_rejected, "bad row"))
    tiles.append(Tile("retries", units.exact(report.retries), ", ".join(bad)))
    return tuple(tiles)


def _facts(report: Report) -> tuple[tuple[str, str], ...]:
    loaded = f"{units.exact(report.splits_loaded)} of {units.exact(report.splits)} loaded"
    if report.splits_skipped:
        loaded += f", {units.exact(report.splits_skipped)} loaded before"
    if report.splits_failed:
        loaded += f", {units.exact(report.splits_failed)} failed"
    return (
        ("limited by", report.limited_by),
        ("source", report.source),
        ("target", f"{report.table} in {report.target}" if report.table else report.target),
        (f"{report.unit}s", loaded),
        ("started", report.started.replace("T", " ").replace("+00:00", " UTC")),
        ("visible", report.visibility),
        ("merges", merges_left(report.merges)),
        *(("note", note) for note in report.notes),
    )


def _warnings(report: Report) -> tuple[str, ...]:
    _, why = OUTCOMES.get(report.outcome, ("", ""))
    told = {"lost", "failed", "partial", "interrupted"}
    return (why.format(unit=report.unit).capitalize() + ".",) if report.outcome in told else ()


# --- over time ------------------------------------------------------------------------------------


def _over_time(report: Report, record: LoadRecord) -> Sequence[Chart]:
    samples = record.samples
    absent = _absent(report, "The load was over before a second sample was taken.")
    if report.rowfall_version and report.seconds > 1 and not samples:
        absent = _OLDER
    if len(_apart(samples)) < 2:
        samples = ()
    apart = _apart(samples)
    happened = sorted(record.happenings, key=lambda each: each.seconds)
    marks = tuple(Mark(each.seconds, each.text) for each in happened)
    rates = [
        (b.seconds, max(0.0, (b.rows - a.rows) / (b.seconds - a.seconds)))
        for a, b in pairwise(apart)
    ]  # fmt: skip
    read = [
        (b.seconds, max(0.0, (b.bytes - a.bytes) / (b.seconds - a.seconds)))
        for a, b in pairwise(apart)
        if a.bytes is not None and b.bytes is not None
    ]
    step = f"Each point stands for the {units.duration(_step(apart))} before it." if rates else ""
    charts: list[Chart] = [
        LineChart("Rows over time", TIME, Axis("rows/s"), _line("rows", rates), (), marks, step,
                  absent, filled=True),
    ]  # fmt: skip
    if any(value for _, value in read):
        charts.append(LineChart("Source over time", TIME, Axis("bytes/s", Unit.BYTES),
                                _line("bytes", read), says="As stored, before unpacking.",
                                filled=True))  # fmt: skip
    memory = [(s.seconds, float(s.memory)) for s in samples if s.memory]
    limit = (Threshold("limit", record.memory_limit),) if record.memory_limit else ()
    charts.append(LineChart(
        "Memory over time", TIME, Axis("resident", Unit.MEMORY), _line("engine", memory), limit,
        absent=absent if not samples else "Nobody may ask the engine for its memory.", filled=True,
    ))  # fmt: skip
    parts = [(s.seconds, float(s.parts)) for s in samples]
    bounds = report.part_sizes or PartSizes()
    named = (
        ("a partition delays inserts at", bounds.delay), ("and refuses them at", bounds.throw)
    )  # fmt: skip
    charts.append(LineChart(
        "Parts over time", TIME, Axis("active parts"),
        _line("parts", parts if any(value for _, value in parts) else []),
        tuple(Threshold(name, value) for name, value in named if value),
        says="Active parts of the table and of what is staged for it.",
        absent=absent if not samples else "No parts were seen.",
    ))  # fmt: skip
    return charts


def _part_sizes(report: Report) -> Chart | None:
    sizes = report.part_sizes
    if sizes is None or not sizes.bytes:
        return None
    every = sum(n for _, n in sizes.bytes)
    lows = (sizes.bytes[0][0] / 4, *(most for most, _ in sizes.bytes))
    few = f"{units.counted(every, 'active part')} at the end, "
    few += f"{units.exact(sizes.fullest)} in the fullest partition; "
    few += _few_parts(sizes)
    return Histogram(
        "Sizes of parts", Axis("on disk", Unit.MEMORY, log=True), Axis("parts"),
        tuple((low, most, n) for low, (most, n) in zip(lows, sizes.bytes, strict=False)), few,
    )  # fmt: skip


def _few_parts(sizes: PartSizes) -> str:
    """Return how long it took until there were few parts, in words."""
    few = units.exact(sizes.few)
    if sizes.few_after is None:
        return f"fewer than {few} were not reached"
    return f"fewer than {few} after {units.duration(sizes.few_after)}"


def _line(name: str, points: Sequence[tuple[float, float]]) -> tuple[Series, ...]:
    return (Series(name, tuple(points)),) if points else ()


def _apart(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples that rates are made of.

    Engines are asked twice a second: between closer samples rates would jump from 0 to the double.
    """
    if not samples:
        return ()
    least = max(0.5, samples[-1].seconds / 100)
    found = [samples[0]]
    for sample in samples[1:]:
        if sample.seconds - found[-1].seconds >= least:
            found.append(sample)
    return found


def _step(samples: Sequence[Sample]) -> float:
    """Return the seconds between two samples, of most of them."""
    steps = sorted(b.seconds - a.seconds for a, b in pairwise(samples))
    return steps[len(steps) // 2]


# --- where the time went --------------------------------------------------------------------------


def _stages(report: Report, record: LoadRecord) -> Chart:
    absent = _absent(
        report, "Nothing has measured it: the load was too short, or its engine has no such log."
    )
    if report.outcome == "running":
        absent = "It is known when the load has ended."
    if record.stages:
        parts, axis = record.stages, Axis("seconds of all threads", Unit.SECONDS)
    else:
        parts, axis = tuple(report.phases.items()), Axis("share of the work", Unit.SHARE)
    parts = tuple((name, value) for name, value in parts if value)
    return StackedBar("Where the time went", axis, (("", parts),) if parts else (), absent=absent)


def _shards(report: Report) -> Sequence[Chart]:
    """Return rows and traffic of the shards of a cluster; none of another target."""
    if not report.shards:
        return ()
    names = [f"shard {s.shard} ({s.node})" for s in report.shards]
    named = list(zip(names, report.shards, strict=True))
    received = sum(s.bytes_received for s in report.shards)
    return (
        BarChart(
            "Rows by shard", Axis("rows"),
            tuple((name, float(s.rows)) for name, s in named),
            tuple(
                (name, f"{units.size(s.bytes_written)} written in {units.duration(s.seconds)}")
                for name, s in named
            ),
            says=imbalance_text(report.imbalance),
        ),
        BarChart(
            "Traffic by shard", Axis("received from other nodes and from here", Unit.BYTES),
            tuple((name, float(s.bytes_received)) for name, s in named),
            tuple(
                (name, f"{units.size(s.bytes_source)} of {report.unit}s"
                       + (f", {units.counted(s.requests, 'request')}" if s.requests else ""))
                for name, s in named
            ),
            says=f"{units.size(received)} in all, by ClickHouse's own protocols; beside it what "
            "each shard has loaded, as stored.",
        ),
    )  # fmt: skip


# --- files and attempts ---------------------------------------------------------------------------


def _files(found: Explanation) -> Sequence[Chart]:
    ended = [each for each in found.attempts if not each.error]
    slowest = sorted(ended, key=lambda each: -each.seconds)[:_SLOWEST]
    absent = _absent(found.report, _OLDER if found.plan is None else "No attempt has ended.")
    names = _names(slowest)
    bars = tuple((name, each.seconds) for name, each in zip(names, slowest, strict=True))[:_BARS]
    notes = tuple(
        (name, f"{units.count(each.rows)} rows")
        for name, each in zip(names, slowest, strict=True)
    )[:_BARS]  # fmt: skip
    charts: list[Chart] = [
        BarChart("Slowest files", _SECONDS, bars, notes,
                 "From the start of the attempt to its rows being visible.", absent),
    ]  # fmt: skip
    bins = found.record.durations
    if len(bins) > 1:
        lows = (bins[0][0] / 2, *(high for high, _ in bins))
        charts.append(Histogram(
            "Attempts by duration", Axis("seconds", Unit.SECONDS, log=True), Axis("attempts"),
            tuple((low, high, n) for low, (high, n) in zip(lows, bins, strict=False)),
        ))  # fmt: skip
    if slowest:
        rows = [
            (name, units.count(each.rows), units.size(each.bytes_source),
             *(f"{seconds:.2f} s" for seconds in (
                 each.seconds, each.insert_seconds, each.waited_seconds, each.publish_seconds
             )))
            for name, each in zip(names, slowest, strict=True)
        ]  # fmt: skip
        every = len(ended) + found.left_out
        charts.append(TextTable(
            "Attempts", ("file", "rows", "bytes", "in all", "insert", "waited", "publish"),
            tuple(rows), frozenset(range(1, 7)),
            f"The slowest {len(rows)} of {every:,}." if every > len(rows) else "",
        ))  # fmt: skip
    return charts


def _names(attempts: Sequence[AttemptRecord]) -> list[str]:
    """Return a name for each attempt that no other one has."""
    found: list[str] = []
    for each in attempts:
        name = each.first or "rows"
        if each.splits > 1:
            name += f" and {each.splits - 1:,} more"
        if name in found:
            name += f" ({each.id.partition('_')[2]})"
        found.append(name)
    return found


def _errors(found: Explanation) -> Chart | None:
    report = found.report
    rows = [
        (f"attempt {each.id.partition('_')[2]}", each.first, each.error, "tried again or given up")
        for each in found.attempts
        if each.error
    ]
    rows += [("given up", f.split, f.error, f.hint or "") for f in report.failures]
    if not rows and not report.retries:
        return TextTable("Retries and errors", ("",), (), absent="There were none.")
    return TextTable(
        "Retries and errors", ("", "file", "error", "what then"), tuple(rows[:_MOST_ERRORS]),
        says=f"The first {_MOST_ERRORS} of {len(rows):,}." if len(rows) > _MOST_ERRORS else "",
        absent=f"{units.exact(report.retries)} retries, of which no error was kept.",
    )  # fmt: skip


# --- plan and SQL ---------------------------------------------------------------------------------


def _plan(found: Explanation) -> Chart | None:
    plan, report = found.plan, found.report
    if plan is None:
        return None
    unknown = "not known"
    # Parts, attempts and memory are summed up when a load ends.
    ended = not report.unfinished
    rows = (
        ("rows", unknown if plan.rows is None else units.count(plan.rows),
         units.count(report.rows)),
        ("seconds", unknown if plan.seconds is None else units.forecast(plan.seconds),
         units.duration(report.seconds)),
        ("memory", units.memory(plan.memory),
         units.memory(report.peak_memory) if report.peak_memory else ""),
        ("parts", units.exact(plan.parts), units.exact(report.parts_written) if ended else ""),
        ("attempts", units.exact(plan.attempts), units.exact(report.attempts) if ended else ""),
        *((name, f"{value}: {why}", "") for name, value, why in plan.choices if why),
    )  # fmt: skip
    head = ("", "plan", "happened" if ended else "so far")
    return TextTable("Plan and what happened", head, rows)


def _settings(found: Explanation) -> Chart | None:
    rows = tuple((name, str(value)) for name, value in found.report.settings.items())
    if not rows and found.plan is not None:  # before the end
        rows = tuple((name, value) for name, value, _ in found.plan.settings)
    if not rows:
        return None
    return TextTable("Settings", ("setting", "value"), rows)


def _statements(found: Explanation) -> Chart | None:
    plan, record = found.plan, found.record
    if plan is None and not record.statements:
        return None
    texts = []
    if record.statements:
        texts = [(ran_as(each), each.sql) for each in record.statements]
    elif plan is not None:
        planned = (("the table", plan.ddl), ("of one attempt, as planned", plan.sql))
        texts = [each for each in planned if each[1]]
    return CodeBlocks("SQL", tuple(texts), "As it ran, secrets masked.", "The load runs no SQL.")
