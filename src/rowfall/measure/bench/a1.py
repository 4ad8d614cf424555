"""A1: trips into one server and into clusters, and the generator that wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchRound
from rowfall.core.sql import literal
from rowfall.lab.cluster import NAME, Lab
from rowfall.measure.bench import published
from rowfall.measure.bench.clusters import ClusterCase
from rowfall.measure.bench.ways import (
    ArticleTable,
    BenchWorkshop,
    Method,
    files_relation,
    pids_of,
    s3_relation,
    table_of,
    with_settings,
)
from rowfall.sources.generate import recipe_of

FULL_ROWS = 50_000_000
_SHAPE = table_of(
    "trips",
    "ENGINE = MergeTree PARTITION BY duration_seconds ORDER BY (vehicle_id, distance_miles)",
)
_KEYS = ("--order-by", "(vehicle_id, distance_miles)", "--partition-by", "duration_seconds",
         "--schema", _SHAPE.structure, "--table", "t")  # fmt: skip
_FILES = 20


def comparisons(shop: BenchWorkshop) -> Iterator[ArticleTable]:
    """Give the comparisons of the article."""
    rows = shop.rows(FULL_ROWS)
    yield ArticleTable("A1", "Embedded, csv.gz on disk, 56 partitions", rows, _embedded(shop, rows))
    yield ArticleTable("A1", "One server, csv.gz in S3, 56 partitions", rows, _server(shop, rows))
    yield ArticleTable("A1", "Writing the csv.gz files", rows, _generator(shop, rows))
    yield _cluster(shop, rows, 2)
    yield _cluster(shop, rows, 4)
    yield ArticleTable("A1", "SingleStore pipeline", rows, [
        Method("rowfall load s3:// --to singlestore://", ROWFALL, lambda: _singlestore(shop, rows),
               published.A1_SINGLESTORE),
    ])  # fmt: skip


def _tuned(shop: BenchWorkshop) -> dict[str, int]:
    """Return the settings of the article, for as many threads as there are cores."""
    return {
        "max_threads": shop.cores,
        "max_insert_threads": shop.cores,
        "input_format_parallel_parsing": 0,
        "min_insert_block_size_rows": 5_000_000,
    }


def _embedded(shop: BenchWorkshop, rows: int) -> list[Method]:
    def hand(settings: dict[str, int]) -> Callable[[], BenchRound]:
        def once() -> BenchRound:
            relation = files_relation(_files(shop, rows), "CSVWithNames", _SHAPE)
            insert = f"INSERT INTO t SELECT * FROM {relation}"
            return shop.engine([_SHAPE.ddl("t"), with_settings(insert, **settings)])

        return once

    def load() -> BenchRound:
        pattern = str(_files(shop, rows)[0].parent / "*.csv.gz")
        return shop.load(pattern, str(shop.fresh() / "data"), *_KEYS)

    return [
        Method("INSERT SELECT, defaults", BY_HAND, hand({}), published.A1_DEFAULTS),
        Method("INSERT SELECT, tuned as published", BY_HAND, hand(_tuned(shop)),
               published.A1_TUNED),
        Method("rowfall load", ROWFALL, load, published.A1_ALL),
    ]  # fmt: skip


def _server(shop: BenchWorkshop, rows: int) -> list[Method]:
    def fresh() -> tuple[Lab, str]:
        url = shop.places.put(_files(shop, rows), f"a1-{rows}")
        lab = shop.places.cluster(1)
        node = lab.nodes[0]
        node.query("CREATE DATABASE IF NOT EXISTS bench")
        node.query("DROP TABLE IF EXISTS bench.t SYNC")
        node.query("DROP TABLE IF EXISTS bench._rowfall_journal SYNC")
        node.query(_SHAPE.ddl("bench.t"))
        return lab, url

    def hand(settings: dict[str, int]) -> Callable[[], BenchRound]:
        def once() -> BenchRound:
            lab, url = fresh()
            relation = s3_relation(shop.places, url, "CSVWithNames", _SHAPE)
            insert = with_settings(f"INSERT INTO bench.t SELECT * FROM {relation}", **settings)
            return stored(lab, shop.client(lab, [insert]))

        return once

    def load() -> BenchRound:
        lab, url = fresh()
        to = lab.uri("bench").partition("?")[0]
        found = shop.load(
            url, to, "--table", "t", env=shop.places.s3().env, password=lab.password,
            servers=pids_of(lab),
        )  # fmt: skip
        return stored(lab, found)

    return [
        Method("INSERT SELECT FROM s3(), defaults", BY_HAND, hand({}), published.A1_DEFAULTS),
        Method("INSERT SELECT FROM s3(), tuned", BY_HAND, hand(_tuned(shop)), published.A1_TUNED),
        Method("rowfall load", ROWFALL, load, published.A1_ALL),
    ]


def stored(lab: Lab, found: BenchRound) -> BenchRound:
    """Return the round with the rows that the table ``bench.t`` has."""
    return replace(found, rows=int(lab.nodes[0].query("SELECT count() FROM bench.t")))


def _generator(shop: BenchWorkshop, rows: int) -> list[Method]:
    def hand() -> BenchRound:
        folder = shop.fresh()
        made = recipe_of("trips").select.replace("{range}", f"numbers_mt({rows})")
        to = literal(str(folder / "vehicle_{_partition_id}.csv.gz"))
        write = (
            f"INSERT INTO FUNCTION file({to}, 'CSV', {literal(_SHAPE.structure)}) "
            f"PARTITION BY rand() % {_FILES} SELECT * FROM ({made})"
        )
        read = f"file({literal(str(folder / 'vehicle_*.csv.gz'))}, 'CSV', " \
               f"{literal(_SHAPE.structure)})"  # fmt: skip
        return shop.engine([write], count=f"SELECT count() FROM {read}")

    def load() -> BenchRound:
        to = str(shop.fresh() / "vehicle_{n}.csv.gz")
        return shop.load(f"generate://trips?rows={rows}", to, "--files", str(_FILES))

    return [
        Method("INSERT INTO FUNCTION ... PARTITION BY", BY_HAND, hand, published.A1_GENERATOR),
        Method("rowfall load generate://trips", ROWFALL, load, published.A1_GENERATOR),
    ]


def _cluster(shop: BenchWorkshop, rows: int, shards: int) -> ArticleTable:
    case = ClusterCase(shop, _SHAPE, rows, shards)
    views = published.A1_VIEWS_2 if shards == 2 else published.A1_VIEWS_4
    tuned = _tuned(shop)

    def by_one(lab: Lab) -> str:
        return case.into(case.source(NAME), **tuned)

    def by_shards(lab: Lab) -> str:
        return case.into(case.source(NAME), **tuned, parallel_distributed_insert_select=2)

    methods = [case.hand("s3Cluster(), through one node", by_one,
                         published.A1_S3CLUSTER if shards == 2 else None),
               case.hand("s3Cluster(), each shard its own", by_shards, views),
               case.rowfall("rowfall load", views)]  # fmt: skip
    return case.comparison("A1", f"Cluster of {shards} shards, csv.gz in S3, 56 partitions",
                           methods)  # fmt: skip


def _singlestore(shop: BenchWorkshop, rows: int) -> BenchRound:
    server = shop.places.singlestore()
    url = shop.places.put(_files(shop, rows), f"a1-{rows}")
    return shop.load(
        url, server.address, "--table", f"trips_{rows}", env=shop.places.s3().env,
        password=server.password, servers=server.pids,
    )  # fmt: skip


def _files(shop: BenchWorkshop, rows: int) -> list[Path]:
    return shop.files("trips", rows, "csv.gz", _FILES)
