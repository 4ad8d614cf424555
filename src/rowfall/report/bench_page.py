"""Show what ``rowfall bench`` has measured as a page, article by article."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from rowfall.core import units
from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchReport, BenchRow
from rowfall.report.bench import HOW, machine_text, only_sampled, published_text, times
from rowfall.report.page import (
    Axis,
    BarChart,
    Chapter,
    Chart,
    HeatMap,
    LineChart,
    Page,
    Series,
    StackedBar,
    TextTable,
    Tile,
    Unit,
)

# "Loading 100B Rows in Minutes" (Altinity): 100 billion rows of three columns by 1, 2 and 4 servers
# of 32 vCPUs, rows a second.
_PUBLISHED = ((1, 89.7e6), (2, 181e6), (4, 289e6))
PUBLISHED_SPEEDUP = Series(
    "published: servers of 32 vCPUs (Altinity)",
    tuple((float(servers), rate / _PUBLISHED[0][1]) for servers, rate in _PUBLISHED),
    dots=True,
)
"""Times as fast as one server, by servers."""
_SECONDS = Axis("seconds", Unit.SECONDS)
# Of --scale tiny (0.002) and thereabouts a load takes 0.3 s to 2 s, most of which is the start of
# processes and of the first statement; of "small" (0.1) that is a tenth.
_LEAST_SCALE = 0.02
_ALL_IS_START = (
    "At this scale nearly all of the time is the start of processes: it shows that everything "
    "runs, and says nothing about speed."
)


def bench_page(found: BenchReport) -> Page:
    """Return the page of a benchmark: for each article its methods beside the published figures,
    what the article draws besides, and all figures as a table."""
    charts: list[Chart | Chapter] = []
    for article, rows in groupby(found.rows, lambda row: row.article):
        charts += _article(article, list(rows), found)
    ran = [row for row in found.rows if row.rounds]
    often = [t for row in ran if row.side == ROWFALL and (t := times(row, found))]
    tiles = (
        Tile("methods", units.exact(len(ran)), f"of {len(found.rows)} have run"),
        Tile("rounds", units.exact(found.wanted), "in turns, medians"),
        Tile("time", units.duration(found.seconds)),
        *((Tile("rowfall", f"{median(often):.2f} times",
                f"as fast as the fastest by hand: median of {len(often)}"),) if often else ()),
    )  # fmt: skip
    return Page(
        "bench", tuple(charts), "incomplete" if found.stopped else "", "yellow", tiles,
        (
            ("machine", machine_text(found)), ("how", HOW),
            ("note", _ALL_IS_START if found.scale < _LEAST_SCALE else ""),
        ),
        (found.stopped,) if found.stopped else (),
        f"rowfall {found.machine['rowfall']}",
    )  # fmt: skip


def _article(article: str, rows: Sequence[BenchRow], found: BenchReport) -> list[Chart | Chapter]:
    source = next((row.published.source for row in rows if row.published), "")
    charts: list[Chart | Chapter] = [Chapter(f"{article} {source}".strip())]
    for table, of in groupby(rows, lambda row: row.table):
        charts += _comparison(table, list(of), found)
    charts += _scaling(rows)
    charts.append(_figures(article, rows, found))
    return charts


def _comparison(table: str, rows: Sequence[BenchRow], found: BenchReport) -> list[Chart]:
    """Return what is drawn of one comparison: rows by each core, and what its methods tell."""
    ran = [row for row in rows if row.rounds]
    names = _names(ran)
    cores = found.machine["cores"]
    count = next((row.rounds[0].rows for row in ran), 0)
    charts: list[Chart] = [BarChart(
        f"{table}, {units.count(count)} rows" if count else table,
        Axis("rows for each second of a core"),
        tuple((name, row.per_core(cores) or 0.0) for name, row in zip(names, ran, strict=True)),
        tuple((name, _said(row, found)) for name, row in zip(names, ran, strict=True)),
        absent=_why(rows),
        groups=tuple((name, row.side) for name, row in zip(names, ran, strict=True)),
        kinds=(BY_HAND, ROWFALL),
        compared=tuple(
            (name, row.published.per_vcpu)
            for name, row in zip(names, ran, strict=True)
            if row.published and row.published.per_vcpu
        ),
        compared_as="published, for each vCPU there",
    )]  # fmt: skip
    return [*charts, *_sweep(ran), *_shards(table, names, ran), *_merges(names, ran)]


def _names(rows: Sequence[BenchRow]) -> list[str]:
    """Return a name for each row that no other one of the comparison has."""
    methods = [row.method for row in rows]
    return [
        row.method if methods.count(row.method) == 1 else f"{row.method} ({row.side})"
        for row in rows
    ]


def _said(row: BenchRow, found: BenchReport) -> str:
    """Return what stands behind a bar: its seconds, and how they compare."""
    often = times(row, found) if row.side == ROWFALL else None
    return f"{row.wall:.2f} s" + (f", {often:.2f} times" if often else "")


def _why(rows: Sequence[BenchRow]) -> str:
    """Return why nothing of a comparison has run, in one sentence."""
    reasons = dict.fromkeys(row.why for row in rows if row.why)
    return f"Not run: {'; '.join(reasons)}." if reasons else "Nothing has run yet."


# --- shards ---------------------------------------------------------------------------------------


def _shards(table: str, names: Sequence[str], ran: Sequence[BenchRow]) -> list[Chart]:
    """Return how the work of each method was spread over the shards of a cluster."""
    told = [
        (name, row.rounds[-1].more["shards"])
        for name, row in zip(names, ran, strict=True)
        if len(row.rounds[-1].more.get("shards", ())) > 1
    ]
    charts: list[Chart] = []
    for key, words, axis in (
        ("read_rows", "read from S3", Axis("rows read")),
        ("stored_rows", "stored", Axis("rows stored")),
    ):
        spread, says = [], []
        for name, shards in told:
            rows = [float(one[key]) for one in shards]
            if key == "read_rows" and only_sampled(shards):
                says.append(f"{name}: read by rowfall itself")
            elif any(rows):
                parts = tuple((f"shard {at}", one) for at, one in enumerate(rows, 1))
                spread.append((name, parts))
                says.append(f"{name}: {_spread(rows)}")
        if spread:
            charts.append(StackedBar(
                f"{table}: rows {words} by shard", axis, tuple(spread), f"{'; '.join(says)}."
            ))  # fmt: skip
    return charts


def _spread(values: Sequence[float]) -> str:
    """Return in words how even some values are."""
    if sum(1 for value in values if value) == 1:
        return "all by one shard"
    more = max(values) * len(values) / sum(values) - 1
    return f"the fullest has {units.percent(more)} more than the average" if more else "even"


def _scaling(rows: Sequence[BenchRow]) -> list[Chart]:
    """Return how methods become faster with the shards, beside the published servers; none where
    there is only one number of shards."""
    points: dict[tuple[str, str], dict[int, float]] = {}
    alone: dict[str, float] = {}
    for row in rows:
        shards = _shards_of(row)
        if shards:
            points.setdefault((row.side, row.method), {})[shards] = _rate(row)
        if shards == 1:
            alone[row.side] = max(alone.get(row.side, 0.0), _rate(row))
    lines = [
        Series(method, tuple((float(n), rate / alone[side]) for n, rate in sorted(rates.items())),
               dots=True)
        for (side, method), rates in points.items()
        if max(rates) > 1 and side in alone
    ]  # fmt: skip
    if not lines:
        return []
    return [LineChart(
        "Scaling with shards", Axis("shards"), Axis("times as fast as one shard"),
        (*lines, PUBLISHED_SPEEDUP),
        says="Beside the fastest of its side into one shard. All shards here share the cores of "
        "this machine: a line that stays at 1 says that spreading costs nothing. The published "
        "servers had cores of their own.",
    )]  # fmt: skip


def _shards_of(row: BenchRow) -> int:
    """Return the shards that a row has loaded into; 0 for what is no cluster."""
    if not row.rounds:
        return 0
    shards = len(row.rounds[-1].more.get("shards", ()))
    return shards or int(row.table.startswith("One server"))


# --- the sweep ------------------------------------------------------------------------------------


def _sweep(ran: Sequence[BenchRow]) -> list[Chart]:
    """Return the sweep of insert threads and blocks as a heat map; none where there is none."""
    cells: dict[tuple[str, str], BenchRow] = {}
    others = []
    for row in ran:
        threads, found, block = row.method.partition(" x ")
        if found and threads.isdigit():
            cells[threads, block] = row
        else:
            others.append(f"{row.method}: {units.row_rate(_rate(row))}")
    if not cells:
        return []
    best = max(cells, key=lambda cell: _rate(cells[cell]))
    counts = dict.fromkeys(threads for threads, _ in cells)
    # Blocks are found from the smallest on: the largest one stands at the top.
    blocks = reversed(dict.fromkeys(block for _, block in cells))
    order = [(x, y) for y in blocks for x in counts if (x, y) in cells]
    return [HeatMap(
        "Sweep of insert threads and blocks", Axis("insert threads"), Axis("rows of a block"),
        Axis("rows/s until few parts are left"),
        tuple((*cell, _rate(cells[cell])) for cell in order), best,
        notes=tuple((*cell, _cell(cells[cell])) for cell in order),
        says=f"Beside it {', '.join(others)}." if others else "",
    )]  # fmt: skip


def _rate(row: BenchRow) -> float:
    return row.rounds[0].rows / row.wall if row.wall else 0.0


def _cell(row: BenchRow) -> str:
    more = row.rounds[-1].more
    parts = f"{units.counted(more['parts'], 'part')} first, " if "parts" in more else ""
    return f"{row.wall:.2f} s, {parts}{units.memory(row.memory or 0)}"


def _merges(names: Sequence[str], ran: Sequence[BenchRow]) -> list[Chart]:
    """Return time until few parts are left, first parts and memory; none where nobody waited."""
    waited = [
        (name, row, row.rounds[-1].more)
        for name, row in zip(names, ran, strict=True)
        if "merged" in row.rounds[-1].more
    ]
    if not waited:
        return []
    last = [(name, row.rounds[-1].wall, more["merged"]) for name, row, more in waited]
    return [
        StackedBar(
            "Time until few parts are left", _SECONDS,
            tuple((name, (("load", max(0.0, wall - merged)), ("merges", merged)))
                  for name, wall, merged in last),
            "Of the last round.",
        ),
        BarChart(
            "Parts at first", Axis("parts"),
            tuple((name, float(more["parts"])) for name, _, more in waited),
            tuple((name, f"{more['left']} left") for name, _, more in waited),
            groups=tuple((name, row.side) for name, row, _ in waited),
        ),
        BarChart(
            "Peak memory", Axis("resident", Unit.MEMORY),
            tuple((name, float(row.memory or 0)) for name, row, _ in waited),
            groups=tuple((name, row.side) for name, row, _ in waited),
        ),
    ]  # fmt: skip


# --- figures --------------------------------------------------------------------------------------


def _figures(article: str, rows: Sequence[BenchRow], found: BenchReport) -> Chart:
    """Return all figures of an article, those that were published among them, and what did not
    run."""
    cores = found.machine["cores"]
    lacking = any(row.why for row in rows)
    lines = []
    for row in rows:
        one, often, per_core = row.published, times(row, found), row.per_core(cores)
        lines.append((
            row.table, row.method, row.side,
            units.count(row.rounds[0].rows) if row.rounds else "",
            "" if row.wall is None else f"{row.wall:.2f}",
            "" if row.cpu is None else f"{row.cpu:.2f}",
            units.memory(row.memory) if row.memory else "",
            "" if per_core is None else units.count(per_core),
            "" if one is None or one.per_vcpu is None else units.count(one.per_vcpu),
            "" if often is None else f"{often:.2f}",
            "" if one is None else published_text(one),
            *[row.why] * lacking,
        ))  # fmt: skip
    return TextTable(
        f"{article}: all figures",
        ("comparison", "method", "side", "rows", "s", "CPU s", "memory", "rows/s/core", "published",
         "times", "published on", *["why not"] * lacking),
        tuple(lines), frozenset(range(3, 10)),
    )  # fmt: skip
