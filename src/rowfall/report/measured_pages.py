"""Show what ``doctor`` has measured and what ``scale`` projects as pages of charts."""

from __future__ import annotations

from rowfall.core import units
from rowfall.core.results import DoctorReport, ScaleReport
from rowfall.report.bench_page import PUBLISHED_SPEEDUP
from rowfall.report.doctor import figure
from rowfall.report.page import (
    Axis,
    BarChart,
    Chart,
    CodeBlocks,
    LineChart,
    Page,
    Series,
    TextTable,
    Tile,
    Unit,
)
from rowfall.report.scale import formula


def doctor_page(found: DoctorReport) -> Page:
    """Return the page of what was measured of a load's links."""
    slow = found.slowest
    limits = [link for link in found.links if link.rows_per_second is not None and link.limits]
    links = tuple((f"{link.part}: {link.name}", link.rows_per_second or 0.0) for link in limits)
    rate = found.predicted_rows_per_second
    took = "" if found.predicted_seconds is None else units.duration(found.predicted_seconds)
    best = max((change.gain for change in found.changes), default=None)
    charts: list[Chart] = [
        BarChart(
            "Links, each by itself", Axis("rows/s"),
            (*links, ("the whole load, predicted", rate)),
            tuple((f"{link.part}: {link.name}", figure(link)) for link in limits),
            "The rows a second that a load had if every other link took no time: it goes at the "
            "speed of the slowest.", "No link could be told in rows.",
        ),
        BarChart(
            "What would help most", Axis("times as many rows/s"),
            tuple((f"{c.option}: {c.text}" if c.option else c.text, c.gain) for c in found.changes),
            absent="Nothing that was tried or follows from the links would help.",
        ),
        BarChart(
            "The target's engine", Axis("seconds of its threads", Unit.SECONDS), found.engine,
            absent="The target has no counters, or this user may not see them.",
        ),
        TextTable(
            "Measured", ("", "link", "measured", "rows/s", "what was measured"),
            tuple(
                (str(link.part), link.name, figure(link),
                 "" if link.rows_per_second is None else units.count(link.rows_per_second),
                 link.why)
                for link in found.links
            ), frozenset({2, 3}),
        ),
    ]  # fmt: skip
    return Page(
        "doctor", tuple(charts),
        tiles=(
            Tile("predicted", units.row_rate(rate), took),
            Tile("slowest", slow.name, f"{slow.part}, {figure(slow)}"),
            Tile("could be", "-" if best is None else f"{best:.1f} x", "with the best change"),
            Tile("sample", f"{units.count(found.sample_rows)} rows",
                 f"in {units.duration(found.sample_seconds)}"),
        ),
        facts=(
            ("source", found.source), ("target", found.target), ("table", found.table),
            ("slowest", f"{slow.part}, {slow.name}: {slow.why}"),
            *(("note", note) for note in found.notes),
        ),
        footer=f"measured in {units.duration(found.seconds)}; nothing was left",
    )  # fmt: skip


def scale_page(found: ScaleReport) -> Page:
    """Return the page of a projection, beside how published loads have become faster."""
    made = sorted(found.projections, key=lambda each: each.nodes)
    nodes = Axis("nodes", log=len(made) > 1)
    first, last = made[0], made[-1]
    rows = found.work.rows is not None
    rate = Axis("rows/s" if rows else "bytes/s", Unit.NUMBER if rows else Unit.BYTES, log=nodes.log)
    rates = tuple((p.nodes, p.rows_per_second or p.bytes_per_second) for p in made)
    base = rates[0][1] / rates[0][0]
    speedup = tuple((count, value / base) for count, value in rates)
    even = tuple((count, float(count)) for count, _ in rates)
    charts: list[Chart] = [
        LineChart("Rate by nodes", nodes, rate, (Series("projected", rates, dots=True),)),
        LineChart(
            "Times as fast as one node", nodes, Axis("times", log=nodes.log),
            (Series("projected", speedup, dots=True), PUBLISHED_SPEEDUP,
             Series("each node adds as much", even)),
            says="A load never gains more than its nodes; what it lacks is said below.",
        ),
        LineChart(
            "Time by nodes", nodes, Axis("wall time", Unit.SECONDS, log=nodes.log),
            (Series("projected", tuple((p.nodes, p.seconds) for p in made), dots=True),
             Series("no order of files is faster", tuple(
                 (p.nodes, max(p.lower_bound, 1e-3)) for p in made))),
        ),
    ]  # fmt: skip
    costs = tuple((p.nodes, p.cost) for p in made if p.cost is not None)
    charts.append(LineChart(
        "Cost by nodes", nodes, Axis("price of the nodes"),
        (Series("nodes", costs, dots=True),) if costs else (),
        absent="No price was given: --price N is that of a node for an hour.",
    ))  # fmt: skip
    charts.append(TextTable(
        "Projection", ("nodes", "time", "node-minutes", "cost", "to replicas", "its fee",
                       rate.title, "imbalance", "limit"),
        tuple(
            (f"{p.nodes:,}", units.duration(p.seconds), f"{p.node_seconds / 60:,.1f}",
             "-" if p.cost is None else f"{p.cost:,.2f}",
             units.size(p.zone_bytes) if p.zone_bytes else "-",
             "-" if p.zone_cost is None else f"{p.zone_cost:,.2f}",
             units.count(p.rows_per_second or p.bytes_per_second), units.percent(p.imbalance),
             p.limited_by)
            for p in made
        ), frozenset(range(8)),
    ))  # fmt: skip
    charts.append(CodeBlocks("How it is computed", (("", "\n".join(formula(found))),)))
    return Page(
        "scale", tuple(charts),
        tiles=(
            Tile(units.counted(first.nodes, "node"), units.duration(first.seconds),
                 f"limit: {first.limit}"),
            Tile(units.counted(last.nodes, "node"), units.duration(last.seconds),
                 f"limit: {last.limit}"),
            Tile("files", units.count(found.files), units.size(found.bytes)),
            Tile("rows", units.count(found.work.rows) if found.work.rows else "-",
                 "" if found.work.rows else "not known"),
        ),
        facts=(
            ("source", found.source), ("target", found.target),
            ("a node", f"{found.node.cores} cores, each {units.byte_rate(found.rates.core)} "
                       f"({found.rates.why})"),
            *(("note", note) for note in found.notes),
        ),
        footer="Every number about time is an estimate.",
    )  # fmt: skip
