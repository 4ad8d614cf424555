"""Render a projection: aligned text for people, one versioned JSON document for programs."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from rowfall.core import units
from rowfall.core.results import ATTEMPT_COST, ScaleReport
from rowfall.report.layout import WIDTH, facts, grid, render, wrap

SCALE_VERSION = 1


def scale_document(found: ScaleReport) -> dict[str, Any]:
    """Return the JSON document of ``rowfall scale``, see docs/reference/json.md."""
    work, node = found.work, found.node
    return {
        "rowfall_scale": SCALE_VERSION,
        "source": found.source,
        "target": found.target,
        "format": None if found.encoding is None else found.encoding.format,
        "compression": None if found.encoding is None else found.encoding.compression,
        "files": found.files,
        "bytes": found.bytes,
        "largest": found.largest,
        "rows": work.rows,
        "whole_files": work.whole,
        "rates": asdict(found.rates),
        "node": {
            "cores": node.cores,
            "network": _number(node.network),
            "price": node.price,
            "replicas": node.replicas,
            "zone_price": node.zone_price,
        },
        "store": _number(work.store),
        "formula": formula(found),
        "projections": [asdict(p) for p in found.projections],
        "notes": list(found.notes),
        "planning_cpu_seconds": found.planning_cpu_seconds,
        "peak_memory": found.peak_memory,
    }


def scale_text(found: ScaleReport, *, color: bool = False, width: int = WIDTH) -> str:
    """Return the projection as text."""
    first = found.projections[0]
    parts: list[RenderableType] = [
        Text("Source", "bold"),
        _source(found),
        "",
        Text("Projection (estimated)", "bold"),
        _table(found),
        "",
        Text("Limited by", "bold"),
        _limits(found),
        "",
        Text("How it is computed", "bold"),
        *(wrap(line, first="  ", indent="      ", width=width) for line in formula(found)),
        wrap(
            f"for nodes = {first.nodes:,}: {first.start_seconds:.1f} s + "
            f"{first.makespan:,.1f} s + {first.attempts:,} x {ATTEMPT_COST} s; "
            f"these files need at least {first.lower_bound:,.1f} s of work there",
            first="  ", indent="      ", width=width,
        ),
        *(wrap(note, first="  ! ", indent="    ", width=width) for note in found.notes),
        f"  planned with {units.duration(found.planning_cpu_seconds)} of CPU, "
        f"{units.memory(found.peak_memory)} of memory",
    ]  # fmt: skip
    return render(parts, color=color, width=width)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _source(found: ScaleReport) -> RenderableType:
    encoding, work = found.encoding, found.work
    what = "generated, sizes as in memory"
    if encoding is not None:
        packed = "not compressed" if encoding.compression == "none" else encoding.compression
        whole = "a file keeps one core busy" if work.whole else "files can be cut"
        what = f"{encoding.format}, {packed}: {whole}"
    files = units.counted(found.files, "file")
    rows = "" if work.rows is None else f"about {units.count(work.rows)}"
    return facts(
        [
            ("from", found.source),
            ("files", f"{files}, {units.size(found.bytes)}, "
             f"the largest has {units.size(found.largest)}"),
            ("format", what),
            ("rows", rows),
        ]
    )  # fmt: skip


def _table(found: ScaleReport) -> RenderableType:
    priced = found.node.price is not None
    crosses = any(each.zone_bytes for each in found.projections)
    zoned = crosses and found.node.zone_price is not None
    rows = found.work.rows is not None
    # Of 80 columns the two of replicas take those of the imbalance, which --json has.
    head = ["nodes", "time", "node-min" if crosses else "node-minutes",
            *(["cost"] if priced else []), *(["replicas"] if crosses else []),
            *(["fee"] if zoned else []), "rows/s" if rows else "bytes/s", "files a node",
            *([] if crosses else ["imbalance"]), "limit"]  # fmt: skip
    lines = [head]
    for each in found.projections:
        rate = units.count(each.rows_per_second or 0) if rows else units.size(each.bytes_per_second)
        least, most = each.files_least, each.files_most
        lines.append(
            [
                f"{each.nodes:,}",
                _time(each.seconds),
                _small(each.node_seconds / 60, 1),
                *([_small(each.cost, 2)] if each.cost is not None else []),
                *([units.size(each.zone_bytes)] if crosses else []),
                *([_small(each.zone_cost or 0.0, 2)] if zoned else []),
                rate,
                f"{least:,}" if least == most else f"{least:,}-{most:,}",
                *([] if crosses else [units.percent(each.imbalance)]),
                each.limit,
            ]
        )
    return grid(lines, right=set(range(len(head) - 1)))


def _small(value: float, digits: int) -> str:
    """Return ``1,035.0``, and 0.023 instead of 0.0."""
    return f"{value:,.{digits}f}" if value >= 10.0**-digits * 5 else f"{value:.2g}"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else units.duration(seconds)


def _limits(found: ScaleReport) -> RenderableType:
    """Return each sentence once, with the numbers of nodes that it is about."""
    about: dict[str, list[str]] = {}
    for each in found.projections:
        about.setdefault(each.limited_by, []).append(f"{each.nodes:,}")
    return grid([(f"{', '.join(counts)}:", text) for text, counts in about.items()])


def formula(found: ScaleReport) -> list[str]:
    """Return the formula with the numbers that it was given."""
    node, work, rates = found.node, found.work, found.rates
    terms = [f"{node.cores} cores x {units.byte_rate(node.core_rate)}"]
    if math.isfinite(node.network):
        terms.append(f"network {units.byte_rate(node.network)}")
    if math.isfinite(work.store):
        terms.append(f"store {units.byte_rate(work.store)} / nodes")
    busiest = (
        "max(its bytes / node rate, the files of its busiest core / core rate)"
        if work.whole
        else "its bytes / node rate"
    )
    lines = [
        f"time = start {work.start:.1f} s + the attempts of the slowest node",
        f"attempt = {busiest} + {ATTEMPT_COST} s",
        f"node rate = min({', '.join(terms)})" if len(terms) > 1 else f"node rate = {terms[0]}",
        f"core rate = {units.byte_rate(rates.core)}: {rates.why}",
    ]
    if rates.reading:
        lines.append(f"reading and parsing alone: {units.byte_rate(rates.reading)} a core")
    if node.replicas > 1:
        fee = "" if node.zone_price is None else f", at {node.zone_price:g} a GB"
        lines.append(
            f"bytes to replicas = the source's bytes x {node.replicas - 1}, as if parts were as "
            f"large as files{fee}"
        )
    if math.isfinite(work.store):
        lines.append(f"store = {units.byte_rate(work.store)}: {work.why_store}")
    return lines
