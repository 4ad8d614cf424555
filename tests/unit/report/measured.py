"""What ``tune`` and ``bench`` might have measured, for tests of their pages."""

from __future__ import annotations

from rowfall.core.bench_results import (
    BY_HAND,
    ROWFALL,
    BenchReport,
    BenchRound,
    BenchRow,
    PublishedFigure,
)
from rowfall.core.tuned import Cell, CellFigures, TunedCell, TuneReport

MIB = 1 << 20
LARGE, SMALL = 20_000_000, 5_000_000


def figures(
    rate: float, rows: int = LARGE, *, parts: int = 4, merging: float = 0.5, memory: int = 262 * MIB
) -> CellFigures:
    return CellFigures(
        rows, rate, rows / rate - merging, merging, rows / rate * 1.5, memory, parts, 441_000, 3
    )


def cell(parts: str, threads: int, block: str) -> Cell:
    choices = (("parts by", parts), ("insert threads", str(threads)), ("block", block))
    return Cell(choices, {"set": (f"max_insert_threads={threads}",)})


DEFAULT = TunedCell(cell("decoder", 2, "256 MiB"), figures(27.5e6), ("default",))
BEST = TunedCell(cell("decoder", 1, "256 MiB"), figures(30e6), ("best",))
# Who writes the parts is left to the load.
FORMULA = TunedCell(
    Cell((("insert threads", "1"), ("block", "3.48 GiB")), {}, is_formula=True),
    figures(7.8e6, parts=1, memory=1900 * MIB), ("formula",),
)  # fmt: skip
REFUSED = TunedCell(
    Cell(cell("decoder", 2, "1.00 GiB").choices, {}, "2.00 GiB of blocks are more than --memory"),
    note="2.00 GiB of blocks are more than --memory",
)


def sweep() -> TuneReport:
    """A sweep of two threads, four sizes and two writers, as of a machine of two cores."""
    engine = TunedCell(cell("engine", 1, "16.0 MiB"), figures(24.8e6, parts=29))
    early = TunedCell(cell("decoder", 2, "16.0 MiB"), figures(19.4e6, SMALL))
    cells = (BEST, DEFAULT, engine, FORMULA, early, REFUSED)
    return TuneReport(
        "a/*.csv.gz", "data", "t", cells, BEST, 10, ("1 combination would take more memory",), 64.0,
        ("nightly", "/home/me/nightly.json"),
    )  # fmt: skip


ONE = PublishedFigure("one server of 32 vCPUs", 100e9, 1115.4, 32, "Loading 100B Rows (Altinity)")
SWEPT = PublishedFigure("3 servers of 59 cores", 65e9, 5444.0, 177, "Large loads (ClickHouse)")


def row(
    table: str, method: str, side: str, wall: float, *, article: str = "A1", why: str = "",
    **more: object,
) -> BenchRow:  # fmt: skip
    rounds = [] if why else [BenchRound(wall, wall, 0.5, 300 * MIB, 1_000_000, 0.5, more)]
    return BenchRow(article, table, method, side, ONE if article == "A1" else SWEPT, rounds, why)


def shards(*stored: int, read: int = 1_000_000) -> list[dict[str, int]]:
    """All is read by the first shard."""
    return [
        {"read_rows": read * (not at), "read_bytes": 1, "s3_requests": 4, "stored_rows": rows}
        for at, rows in enumerate(stored)
    ]


def benchmark() -> BenchReport:
    """Two articles: one server and two clusters, and a sweep of six cells."""
    few = "Insert threads x block size, until fewer than 8 parts"
    rows = [
        row("One server", "INSERT SELECT", BY_HAND, 5.0),
        row("One server", "rowfall load", ROWFALL, 2.5),
        row("One server", "rowfall through a pipeline", ROWFALL, 0, why="no SingleStore is there"),
        row("Cluster of 2 shards", "s3Cluster()", BY_HAND, 4.0, shards=shards(600_000, 400_000)),
        row(
            "Cluster of 2 shards",
            "rowfall load",
            ROWFALL,
            2.0,
            shards=shards(500_000, 500_000, read=9_000),
        ),
        row("Cluster of 4 shards", "rowfall load", ROWFALL, 2.0, shards=shards(*[250_000] * 4)),
        row("SingleStore pipeline", "rowfall load", ROWFALL, 0, why="no SingleStore is there"),
        row(few, "defaults", BY_HAND, 4.0, article="A5", parts=12, merged=0.4, left=7),
    ]
    rows += [
        row(few, f"{threads} x 1/{parts} of the rows", BY_HAND, 6.0 / threads + parts / 32,
            article="A5", parts=parts, merged=parts / 64, left=7)
        for threads in (1, 2) for parts in (64, 16, 4)
    ]  # fmt: skip
    machine = {"cores": 2, "cpu": "AMD EPYC", "memory": 24 << 30, "rowfall": "0.1.0"}
    return BenchReport(machine, 0.1, 3, rows, 100.0)
