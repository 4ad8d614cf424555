"""A2: the 25-column taxi table, reading alone against inserting, and what each shard has read."""

from __future__ import annotations

from collections.abc import Iterator

from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchRound
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

FULL_ROWS = 4_000_000
_SHAPE = table_of(
    "cabs",
    "ENGINE = MergeTree PARTITION BY toYYYYMM(pickup_date) "
    "ORDER BY (vendor_id, pickup_location_id, pickup_datetime)",
    "pickup_date Date DEFAULT toDate(pickup_datetime) CODEC(Delta, LZ4)",
)
_KEY = "cityHash64(pickup_location_id, dropoff_location_id)"
_SHARDS = 4
_FILES = 16


def comparisons(shop: BenchWorkshop) -> Iterator[ArticleTable]:
    """Give the comparisons of the article."""
    rows = shop.rows(FULL_ROWS)
    reading, inserting = _alone(shop, rows)
    yield ArticleTable("A2", "Read only, csv.gz on disk", rows, reading)
    yield ArticleTable("A2", "Insert, csv.gz on disk", rows, inserting)
    case = ClusterCase(shop, _SHAPE, rows, _SHARDS)
    case.key = _KEY
    tuned = {"max_threads": shop.cores, "max_insert_threads": shop.cores,
             "input_format_parallel_parsing": 0}  # fmt: skip

    def reads(cluster: str) -> str:
        text = f"{_SHAPE.select(case.source(cluster))} FORMAT Null"
        return with_settings(text, max_threads=shop.cores, input_format_parallel_parsing=0)

    def one(lab: Lab) -> str:
        return case.into(case.source(), **tuned)

    def all_shards(lab: Lab) -> str:
        return case.into(case.source(NAME), **tuned)

    yield case.comparison("A2", f"Read only, cluster of {_SHARDS} shards, csv.gz in S3", [
        case.hand("SELECT FROM s3()", lambda _: reads(""), published.A2_READ_S3, stores=False),
        case.hand("SELECT FROM s3Cluster()", lambda _: reads(NAME), published.A2_READ_CLUSTER,
                  stores=False),
    ])  # fmt: skip
    yield case.comparison("A2", f"Insert, cluster of {_SHARDS} shards, csv.gz in S3", [
        case.hand("INSERT SELECT FROM s3()", one, published.A2_S3),
        case.hand("INSERT SELECT FROM s3Cluster()", all_shards, published.A2_S3CLUSTER),
        case.rowfall("rowfall load", published.A2_S3CLUSTER),
    ])  # fmt: skip


def _alone(shop: BenchWorkshop, rows: int) -> tuple[list[Method], list[Method]]:
    """Return the methods that only read, and those that insert."""

    def relation() -> str:
        return files_relation(shop.files("cabs", rows, "csv.gz", _FILES), "CSVWithNames", _SHAPE)

    tuned = {"max_threads": shop.cores, "input_format_parallel_parsing": 0}

    def read() -> BenchRound:
        text = with_settings(f"{_SHAPE.select(relation())} FORMAT Null", **tuned)
        return shop.engine([text], count=f"SELECT {rows}")

    def insert() -> BenchRound:
        text = with_settings(f"INSERT INTO t ({_SHAPE.names}) {_SHAPE.select(relation())}",
                             **tuned, max_insert_threads=shop.cores)  # fmt: skip
        return shop.engine([_SHAPE.ddl("t"), text])

    def load(to: str) -> BenchRound:
        pattern = str(shop.files("cabs", rows, "csv.gz", _FILES)[0].parent / "*.csv.gz")
        if to == "null:":
            return shop.load(pattern, to, "--schema", _SHAPE.structure)
        # As the article's table has it: a column that the files lack is the table's default.
        folder = shop.fresh() / "data"
        shop.engine([_SHAPE.ddl("t")], folder=folder)
        return shop.load(pattern, str(folder), "--table", "t")

    return (
        [Method("SELECT ... FORMAT Null", BY_HAND, read, published.A2_READ),
         Method("rowfall load --to null:", ROWFALL, lambda: load("null:"), published.A2_READ)],
        [Method("INSERT SELECT", BY_HAND, insert, published.A2_INSERT),
         Method("rowfall load", ROWFALL, lambda: load(""), published.A2_INSERT)],
    )  # fmt: skip
