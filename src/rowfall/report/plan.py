"""Render a plan: text to read and to paste from, one versioned JSON document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from rowfall.core import engine_formats, formats, units
from rowfall.core.listing import Listing
from rowfall.core.model import (
    BUILD,
    ENGINE,
    NOT_SPARED,
    SEND,
    WRITE,
    Forecast,
    Kind,
    Plan,
    Schema,
    Setting,
    Transport,
)
from rowfall.core.options import DISTRIBUTED, FILTER
from rowfall.core.patterns import regex
from rowfall.report.deliveries import deliveries_grid
from rowfall.report.layout import WIDTH, facts, grid, merges_left, render, wrap, wrap_sql

# 2: "seats" and "seat" became "writers" and "writer"; 3: "landed" became "loaded".
PLAN_VERSION = 3
DECODER = "rowfall-decode"
_DELIVERIES = {
    "pull": "the engine that stores the rows reads the source itself",
    "push": "this machine reads the source and sends the rows to the target",
    "write": "an engine here reads the source and writes the data files",
    "send": "an engine here reads the source and writes text, which the target takes",
    "build": "this machine writes finished parts, and the engine attaches them",
}
_DDL_COLUMN = regex(r"    [`\"]")
_COMMENT_MIN = 24  # narrower comments are unreadable: they go on a line of their own
_REASON_MIN = 32
_CELL = 24  # of a row that is shown: three fit into 80 columns


def plan_document(plan: Plan, *, every_split: bool = False) -> dict[str, Any]:
    """Return the JSON document of a plan, see docs/reference/json.md.

    Splits are listed only when asked for: there may be a million. The engine's list of known
    settings is left out.
    """
    listing, transport = plan.listing, plan.transport
    decodes, builds = transport.parser.value != ENGINE, transport.parts.value != ENGINE
    by_key = transport.sharding.value in (FILTER, DISTRIBUTED)
    document: dict[str, Any] = {
        "rowfall_plan": PLAN_VERSION,
        "source": plan.source,
        "target": plan.to.text,
        "database": plan.to.database,
        "table": plan.to.table,
        "delivery": transport.delivery.value,
        "placement": plan.to.placement,
        "promise": plan.to.promise,
        "visibility": plan.to.visibility,
        "upsert": plan.to.upsert,
        "upkeep": plan.to.upkeep,
        "first_rows": [list(row) for row in plan.texts.first_rows],
        "encoding": None if plan.encoding is None else asdict(plan.encoding),
        "schema": _schema_document(plan.schema),
        "ddl": plan.texts.ddl,
        "listing": {
            "splits": len(listing),
            "bytes": listing.total_size,
            "rows": listing.total_rows,
        },
        "groups": [
            {"splits": len(g.indexes), "size": g.size, "writer": g.writer} for g in plan.work.groups
        ],
        "lanes": plan.work.lanes,
        "settings": [asdict(s) for s in plan.work.settings],
        "forecast": asdict(plan.forecast),
        "facts": {
            "version": plan.facts.version,
            "cores": plan.facts.cores,
            "memory": plan.facts.memory,
        },
        "example": plan.texts.example,
        "loaded": plan.work.loaded,
        "why": "" if plan.to.placement == "embedded" else transport.delivery.reason,
        "streams": transport.streams,
        "decoder": DECODER if decodes else ENGINE,
        "why_decoder": "" if decodes else transport.parser.reason,
        "sorted_by": list(transport.sort.by),
        "why_unbuilt": "" if builds else transport.parts.reason,
        "compress": transport.compression.value,
        "why_compress": transport.compression.reason if transport.compression.value else "",
        "views": list(plan.to.views),
        "writers": [asdict(writer) for writer in plan.work.writers if writer.shard],
        "spread": transport.sharding.value if by_key else "",
        "why_spread": transport.sharding.reason if by_key else "",
        "cutting": list(transport.ranges),
        "deliveries": [asdict(one) for one in plan.to.deliveries],
    }
    if every_split:
        splits = listing.splits(_into(plan))
        document["listing"]["all"] = [{k: getattr(s, k) for k in _SPLIT} for s in splits]
        for group, made in zip(plan.work.groups, document["groups"], strict=True):
            made["indexes"] = list(group.indexes)
    return document


def _schema_document(schema: Schema) -> dict[str, Any]:
    """Return a schema with all that is said of its layout, fit and checks side by side."""
    document = asdict(schema)
    for part in ("layout", "fit", "checks"):
        document |= document.pop(part)
    for column in document["columns"]:
        column |= column.pop("check")
    return {**document, "lists": sorted(schema.lists)}


def plan_text(
    plan: Plan,
    *,
    every_split: bool = False,
    verbose: bool = False,
    color: bool = False,
    width: int = WIDTH,
) -> str:
    """Return the plan as text; ``verbose`` adds the reason for every column and the layout."""
    sections: list[tuple[str, list[RenderableType]]] = [
        ("Table", _table(plan, verbose, width)),
        ("First rows", _first_rows(plan, width)),
        ("Warnings", _warnings(plan, width)),
        ("Source", [_source(plan, verbose)]),
        (f"{plan.listing.unit.title()}s", _every_split(plan.listing) if every_split else []),
        ("Target", [_target(plan, verbose)]),
        ("Shards", _shards(plan)),
        ("Deliveries (estimated)", _deliveries(plan, verbose)),
        ("Forecast (estimated)", [_forecast(plan)]),
    ]
    if verbose:
        sections += [
            ("Settings", _settings(plan, width)),
            ("SQL of one statement",
             [wrap_sql(plan.texts.example.rstrip(), width)] if plan.texts.example else []),
        ]  # fmt: skip
    parts: list[RenderableType] = []
    for name, content in sections:
        if content:
            parts += [*([""] if parts else []), Text(name, "bold"), *content]
    if not verbose:
        parts += ["", Text("-v shows the reason for each type, the settings and the SQL.", "dim")]
    return render(parts, color=color, width=width)


_SPLIT = ("id", "uri", "version", "size", "start", "stop")


def _into(plan: Plan) -> str:
    return f"{plan.to.database}.{plan.to.table}" if plan.to.table else plan.to.text


def _first_rows(plan: Plan, width: int) -> list[RenderableType]:
    """Return the first rows as they will be stored, as many columns of them as fit into a line."""
    if not plan.texts.first_rows:
        return []
    names = tuple(c.name for c in plan.schema.columns)
    rows: list[tuple[str | None, ...]] = [names, *plan.texts.first_rows]
    columns = [[_cell(value) for value in column] for column in zip(*rows, strict=True)]
    shown, used = 0, 0
    for column in columns:
        used += max(map(cell_len, column)) + 2
        if shown and used > width:
            break
        shown += 1
    lines: list[RenderableType] = [grid(list(zip(*columns[:shown], strict=True)))]
    if hidden := len(columns) - shown:
        lines.append(Text(f"  and {units.counted(hidden, 'column')} more", "dim"))
    return lines


def _cell(value: str | None) -> str:
    """Return a value in one line, cut where it is long."""
    if value is None:
        return "NULL"
    text = units.printable(value.replace("\n", " "))
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _warnings(plan: Plan, width: int) -> list[RenderableType]:
    advice = [wrap(x, indent="    ", first="  ! ", width=width) for x in plan.forecast.advice]
    return [Text(x, "yellow") for x in advice]


def _source(plan: Plan, verbose: bool) -> RenderableType:
    listing, encoding = plan.listing, plan.encoding
    what = f"generated by {'the engine' if plan.transport.parser.value == ENGINE else DECODER}"
    if encoding is not None:
        what = formats.describe(encoding)
    return facts(
        [
            ("from", plan.source),
            ("format", what),
            (f"{listing.unit}s", _split_summary(listing)),
            ("skipped", f"{units.exact(plan.work.loaded)}, which are loaded already"
             if plan.work.loaded else ""),
            *(("ranges", note) for note in plan.transport.ranges),
            *(note for note in plan.schema.notes if note[0] == "read"),
            ("statements", _statements(plan) if verbose or not plan.work.groups else ""),
        ]
    )  # fmt: skip


def _split_summary(listing: Listing) -> str:
    words = [units.exact(len(listing))]
    if listing.total_rows is not None:
        words.append(f"{units.exact(listing.total_rows)} rows")
    elif listing.total_size is not None:
        words.append(units.size(listing.total_size))
    sizes = [size for i in range(len(listing)) if (size := listing.size(i)) is not None]
    if len(sizes) > 1:
        words.append(f"the largest has {units.size(max(sizes))}")
    return ", ".join(words)


def _statements(plan: Plan) -> str:
    if not plan.work.groups:
        return "none: nothing is left to load"
    words = [units.exact(len(plan.work.groups))]
    known = [g.size for g in plan.work.groups if g.size is not None]
    if known and len(plan.work.groups) > 1:
        words.append(f"{units.size(sum(known) / len(known))} each on average")
    elif len(plan.work.groups) > 1:
        splits = sum(len(g.indexes) for g in plan.work.groups) / len(plan.work.groups)
        words.append(f"{units.count(splits)} {plan.listing.unit}s each on average")
    if len(plan.work.groups) > 1:
        words.append(
            "one after the other" if plan.work.lanes == 1 else f"{plan.work.lanes} at a time"
        )
    return ", ".join(words)


def _every_split(listing: Listing) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for index in range(len(listing)):
        rows, size = listing.rows(index), listing.size(index)
        split = listing.split(index, "")
        amount = "?" if size is None else units.size(size)
        if rows is not None:
            amount = f"{units.count(rows)} rows"
        lines.append(f"  {amount:>10}  {units.printable(split.name)}")
    return lines


def _target(plan: Plan, verbose: bool) -> RenderableType:
    transport = plan.transport
    delivery = f"{transport.delivery.value}: {_DELIVERIES[transport.delivery.value]}"
    if transport.delivery.value == BUILD and plan.to.placement != "embedded":
        delivery = f"{BUILD}: this machine writes finished parts, and the server takes them over"
    by_key = transport.sharding.value in (FILTER, DISTRIBUTED)
    machine = (
        f"{plan.to.placement}, ClickHouse {plan.facts.version}, {plan.facts.cores} cores, "
        f"{units.memory(plan.facts.memory)} to use"
    )
    return facts(
        [
            ("to", plan.to.text),
            ("runs", machine if verbose else ""),
            ("delivery", delivery),
            ("because", transport.delivery.reason if plan.to.placement != "embedded" else ""),
            ("streams", f"{transport.streams} at once" if transport.streams and verbose else ""),
            (
                "connections",
                f"{plan.work.lanes}, each with transactions of its own"
                if transport.delivery.value == SEND and verbose
                else "",
            ),
            *_parser(plan),
            *([_packed(transport)] if transport.compression.value else []),
            *([("by key", transport.sharding.reason)] if by_key else []),
            *([("views", ", ".join(plan.to.views))] if plan.to.views else []),
            *([("columns", plan.schema.fit.text)] if plan.schema.fit.text else []),
            ("promise", plan.to.promise),
            ("visible", plan.to.visibility),
            *([("upkeep", plan.to.upkeep)] if plan.to.upkeep else []),
            *([("upsert", plan.to.upsert)] if plan.to.upsert else []),
        ]
    )


def _shards(plan: Plan) -> list[RenderableType]:
    """Return a grid with files, bytes, statements and machine of each shard; [] without shards."""
    rows: list[tuple[str, ...]] = []
    for writer in plan.work.writers if plan.to.placement == "shards" else ():
        share = "nothing to load"
        if writer.splits:
            size = "" if writer.bytes is None else f" {units.size(writer.bytes)}"
            runs = units.counted(writer.attempts, "statement")
            share = f"{units.counted(writer.splits, plan.listing.unit)}{size}, {runs}"
        machine = f"{units.counted(writer.cores, 'core')}, {units.memory(writer.memory)}"
        if writer.version != plan.facts.version:
            machine += f", ClickHouse {writer.version}"
        rows.append((f"shard {writer.shard}", writer.node, share, machine))
    return [grid(rows)] if rows else []


def _deliveries(plan: Plan, verbose: bool) -> list[RenderableType]:
    """Return what each delivery into servers would cost, beside each other; [] if nobody asks."""
    if not verbose and plan.transport.parts.reason == NOT_SPARED:
        return []
    return deliveries_grid(plan.to.deliveries)


def _parser(plan: Plan) -> list[tuple[str, str]]:
    """Return the plan's lines on the parser of the source and the writer of parts, if any."""
    if plan.encoding is not None and engine_formats.is_engine_only(plan.encoding.format):
        unchecked = "rowfall checks the number of rows, not that each value is as it was written"
        return [("parser", f"the engine's {plan.encoding.format} reader: {unchecked}")]
    transport = plan.transport
    text = plan.encoding is not None and plan.encoding.kind in (Kind.TEXT, Kind.JSON)
    if transport.parser.value == ENGINE:
        lines = [("parser", f"the engine's: {transport.parser.reason}")] if text else []
        if transport.delivery.value == SEND:
            lines.append(_text_writer(transport))
        elif transport.parts.value != ENGINE:
            lines.append(("parts", f"made by {DECODER} of what the engine reads"))
        return lines
    names = ", ".join(transport.sort.by)
    lines = [("parser", DECODER + (f", blocks sorted by {names}" if names else ""))]
    if transport.delivery.value == SEND:
        return [*lines, _text_writer(transport)]
    asked = plan.to.placement == "embedded" or transport.parts.reason != NOT_SPARED
    stores = asked and transport.delivery.value != WRITE
    if stores and plan.to.table and transport.parts.value == ENGINE:
        lines.append(("parts", f"the engine's: {transport.parts.reason}"))
    return lines


def _text_writer(transport: Transport) -> tuple[str, str]:
    """Return who writes what another database takes."""
    writes = transport.parts
    by = DECODER if writes.value != ENGINE else "the engine"
    form = "in binary" if transport.binary else "as text"
    return "rows", f"written {form} by {by}: {writes.reason}"


def _packed(transport: Transport) -> tuple[str, str]:
    """Return "blocks" or "packets", and the compression in which they are sent."""
    what = "packets" if transport.delivery.value == SEND else "blocks"
    method = transport.compression.value
    packed = "not compressed" if method == "none" else f"compressed with {method}"
    return what, f"{packed}: {transport.compression.reason}"


def _table(plan: Plan, verbose: bool, width: int) -> list[RenderableType]:
    schema = plan.schema
    # JSON and what is kept as text is a choice that queries depend on.
    reasons = [c.reason if verbose or " kept" in c.reason else "" for c in schema.columns]
    lines: list[RenderableType] = []
    if plan.texts.ddl:
        lines += _commented(plan.texts.ddl.split("\n"), reasons, width)
    elif plan.to.table:
        names = max((len(c.name) for c in schema.columns), default=0)
        columns = [f"    `{units.printable(c.name)}`{' ' * (names - len(c.name))} {c.type}"
                   for c in schema.columns]  # fmt: skip
        kept = "is altered first" if schema.fit.changes else "exists and keeps its definition"
        lines.append(f"  {plan.to.database}.{plan.to.table} {kept}")
        lines += _commented(columns, reasons, width)
    if verbose and schema.notes:
        lines += ["", facts([note for note in schema.notes if note[0] != "read"])]
    return lines


def _commented(lines: list[str], reasons: list[str], width: int) -> list[RenderableType]:
    """Return the lines with each column's reason behind it as an aligned SQL comment.

    Columns are recognised by their order: the lines that begin with four blanks and a quote.
    """
    columns = [i for i, line in enumerate(lines) if _DDL_COLUMN.match(line)]
    if len(columns) != len(reasons) or not any(reasons):
        return list(lines)
    at = max(len(lines[i]) for i in columns) + 2
    room = width - at - 3
    made: list[RenderableType] = list(lines)
    for index, reason in zip(columns, reasons, strict=True):
        if not reason:
            continue
        beside = room >= _COMMENT_MIN
        comment = ["-- " + x for x in wrap(reason, width=room if beside else width - 7).split("\n")]
        dim = Text(("\n" + " " * (at if beside else 4)).join(comment), "dim")
        line = lines[index]
        made[index] = (
            Text(line.ljust(at)) + dim if beside else Text.assemble("    ", dim, "\n", line)
        )
    return made


def _settings(plan: Plan, width: int) -> list[RenderableType]:
    """Return the settings of every statement with their reasons."""
    return _reasoned(plan.work.settings, width)


def _reasoned(settings: Sequence[Setting], width: int) -> list[RenderableType]:
    """Put name, value and reason beside each other, or the reason below if there is no room."""
    reasons = [units.printable(s.reason) for s in settings]
    pairs = [(s.name, str(s.value)) for s in settings]
    at = sum(max((len(x) for x in column), default=0) for column in zip(*pairs, strict=True)) + 6
    if width - at >= _REASON_MIN:
        rows = [(*pair, Text(reason, "dim")) for pair, reason in zip(pairs, reasons, strict=True)]
        return [grid(rows, right={1})] if rows else []
    lines: list[RenderableType] = []
    for (name, value), reason in zip(pairs, reasons, strict=True):
        lines.append(f"  {name} = {value}")
        if reason:
            lines.append(Text(wrap(reason, indent=" " * 6, width=width), "dim"))
    return lines


def _disk(forecast: Forecast) -> str:
    """Return bytes that the rows take on disk, and free ones; "" where no forecast was made."""
    free = "" if forecast.disk_free is None else f"{units.size(forecast.disk_free)} free"
    if forecast.disk is None:
        return free
    return ", ".join(filter(None, (f"about {units.size(forecast.disk)}", free)))


def _forecast(plan: Plan) -> RenderableType:
    forecast = plan.forecast
    rows = "not known until the source is read"
    if forecast.rows is not None:
        rows = f"about {units.exact(forecast.rows)}"
    time = "not known" if forecast.seconds is None else units.forecast(forecast.seconds)
    # Of less than a second the start is most: rows by seconds would be a rate that nothing reaches.
    if forecast.seconds is not None and forecast.rows and forecast.seconds >= 1:
        time += f" ({units.row_rate(forecast.rows / forecast.seconds)})"
    if forecast.unmeasured:
        time += f" or more: {forecast.unmeasured} was not measured"
    return facts(
        [
            ("rows", rows),
            ("time", time),
            ("memory", f"about {units.memory(forecast.memory)} at the peak"),
            ("parts", f"about {units.exact(forecast.parts)} before merges"),
            ("merges", merges_left(forecast.merges)),
            ("disk", _disk(forecast)),
        ]
    )
