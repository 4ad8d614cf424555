"""A5: insert threads x block size with memory, parts and merges; scaling with the shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchRound
from rowfall.core.machine import free_memory
from rowfall.lab.cluster import NAME, Lab
from rowfall.measure.bench import published
from rowfall.measure.bench.clusters import ClusterCase
from rowfall.measure.bench.ways import (
    ArticleTable,
    BenchWorkshop,
    Method,
    files_relation,
    table_of,
    with_settings,
)

FULL_ROWS = 5_000_000
_SHAPE = table_of("downloads", "ENGINE = MergeTree ORDER BY (project, timestamp)")
_FILES = 8
# Initial parts of a cell: the article's blocks of 1, 10 and 80 M rows made 65,000, 6,500 and 817 of
# its rows. Here a block is that share of the rows.
_PARTS = (64, 16, 4)
_FEWER = 8
"""Parts below which a table counts as merged; 3,000 in the article, of ten thousand times this."""


def comparisons(shop: BenchWorkshop) -> Iterator[ArticleTable]:
    """Give the comparisons of the article."""
    rows = shop.rows(FULL_ROWS)
    yield ArticleTable("A5", f"Insert threads x block size, until fewer than {_FEWER} parts", rows,
                     _sweep(shop, rows))  # fmt: skip
    for shards in (1, 2, 4):
        yield _scaling(shop, rows, shards)


def _sweep(shop: BenchWorkshop, rows: int) -> list[Method]:
    def relation() -> str:
        files = shop.files("downloads", rows, "parquet", _FILES)
        return files_relation(files, "Parquet", _SHAPE)

    def insert(settings: dict[str, int]) -> Callable[[], BenchRound]:
        def once() -> BenchRound:
            text = with_settings(f"INSERT INTO t SELECT * FROM {relation()}", **settings)
            # Merges begin when all is inserted: how many parts there are first is then no chance.
            stop = "SYSTEM STOP MERGES"
            return shop.engine([_SHAPE.ddl("t"), stop, text], fewer=_FEWER)

        return once

    def load() -> BenchRound:
        folder = shop.fresh() / "data"
        pattern = shop.files("downloads", rows, "parquet", _FILES)[0].parent / "*.parquet"
        found = shop.load(str(pattern), str(folder), "--table", "t", "--schema", _SHAPE.structure,
                          "--order-by", "(project, timestamp)")  # fmt: skip
        then = shop.engine([], folder=folder, fewer=_FEWER, count="SELECT count() FROM default.t")
        return replace(
            found, wall=found.wall + then.wall, cpu=found.cpu + then.cpu,
            memory=max(found.memory, then.memory), more={**found.more, **then.more},
        )  # fmt: skip

    threads = max(1, shop.cores // 2)
    formula = {
        "max_insert_threads": threads,
        "min_insert_block_size_bytes": free_memory() // 2 // (3 * threads),
        "min_insert_block_size_rows": 0,
    }
    cells = [
        Method(f"{count} x 1/{parts} of the rows", BY_HAND, insert({
            "max_threads": shop.cores, "max_insert_threads": count,
            "min_insert_block_size_rows": max(1, rows // parts),
            "min_insert_block_size_bytes": 0,
        }), published.A5_SERVER)
        for count in sorted({1, threads, shop.cores}) for parts in _PARTS
    ]  # fmt: skip
    return [
        Method("defaults", BY_HAND, insert({}), published.A5_SERVER),
        *cells,
        Method("the published formula", BY_HAND, insert(formula), published.A5_SERVER),
        Method("rowfall load, then merges", ROWFALL, load, published.A5_SERVER),
    ]


def _scaling(shop: BenchWorkshop, rows: int, shards: int) -> ArticleTable:
    case = ClusterCase(shop, _SHAPE, rows, shards)

    def spread(lab: Lab) -> str:
        source = case.source(NAME)
        return case.into(source, max_threads=shop.cores, parallel_distributed_insert_select=2)

    title = f"Scaling, {shards} shard{'s' if shards > 1 else ''} on the same cores"
    return case.comparison("A5", title, [
        case.hand("s3Cluster(), each shard its own", spread, published.A5_SERVER),
        case.rowfall("rowfall load", published.A5_SERVER),
    ])  # fmt: skip
