"""Comparisons on a ClickHouse cluster: one statement by hand against ``rowfall load``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchRound, PublishedFigure
from rowfall.core.sql import literal
from rowfall.lab.cluster import NAME, Lab
from rowfall.measure.bench.places import settle
from rowfall.measure.bench.ways import (
    ArticleTable,
    BenchWorkshop,
    Method,
    TableShape,
    pids_of,
    s3_relation,
    with_settings,
)
from rowfall.measure.processes import BenchError

_ON = f" ON CLUSTER {NAME}"
# The statement ends when the rows are at their shards, not when they wait to be sent there.
_WAIT = {"distributed_foreground_insert": 1}
FILES = 16
"""Of each comparison: four for each of four shards."""


class ClusterCase:
    """One table in objects, and a cluster of so many shards.

    Attributes:
        shards: of the cluster, without replicas.
        key: by which the Distributed table sends rows.
    """

    def __init__(self, shop: BenchWorkshop, shape: TableShape, rows: int, shards: int) -> None:
        self.shop, self.shape, self.rows, self.shards = shop, shape, rows, shards
        self.key = "rand()"

    def comparison(self, article: str, title: str, methods: Sequence[Method]) -> ArticleTable:
        return ArticleTable(article, title, self.rows, methods)

    def hand(
        self, name: str, statement: Callable[[Lab], str], published: PublishedFigure | None = None,
        *, stores: bool = True,
    ) -> Method:  # fmt: skip
        """Return a method that is one statement; ``stores``: it fills the table."""
        return Method(name, BY_HAND, lambda: self._by_hand(statement, stores=stores), published)

    def rowfall(self, name: str, published: PublishedFigure | None = None) -> Method:
        return Method(name, ROWFALL, self._load, published)

    # --- statements -------------------------------------------------------------------------------

    def source(self, cluster: str = "") -> str:
        """Return ``s3()``, or ``s3Cluster()`` of a cluster."""
        return s3_relation(self.shop.places, self._url(), "CSVWithNames", self.shape, cluster)

    def into(self, relation: str, **settings: int) -> str:
        """Return INSERT SELECT into the Distributed table."""
        names = self.shape.names
        insert = f"INSERT INTO bench.t ({names}) {self.shape.select(relation)}"
        return with_settings(insert, **settings, **_WAIT)

    def _url(self) -> str:
        files = self.shop.files(self.shape.name, self.rows, "csv.gz", FILES)
        return self.shop.places.put(files, f"{self.shape.name}-{self.rows}")

    def _tables(self, lab: Lab) -> None:
        node = lab.nodes[0]
        node.query(f"CREATE DATABASE IF NOT EXISTS bench{_ON}")
        for name in ("t", "local"):
            node.query(f"DROP TABLE IF EXISTS bench.{name}{_ON} SYNC")
        node.query(self.shape.ddl("bench.local", _ON))
        node.query(f"CREATE TABLE bench.t{_ON} AS bench.local ENGINE = Distributed("
                   f"{NAME}, bench, local, {self.key})")  # fmt: skip

    # --- sides ------------------------------------------------------------------------------------

    def _by_hand(self, statement: Callable[[Lab], str], *, stores: bool) -> BenchRound:
        self._url()
        lab = self.shop.places.cluster(self.shards)
        self._tables(lab)
        began = lab.nodes[0].query("SELECT now64(6)").strip()
        found = self.shop.client(lab, [statement(lab)])
        rows = int(lab.nodes[0].query("SELECT count() FROM bench.t")) if stores else self.rows
        return replace(found, rows=rows, more={"shards": read_by_shard(lab, began)})

    def _load(self) -> BenchRound:
        url = self._url()
        lab = self.shop.places.cluster(self.shards)
        self._tables(lab)
        began = lab.nodes[0].query("SELECT now64(6)").strip()
        # Into the local table of each shard, as the Distributed table above it is for reading.
        lab.nodes[0].query(f"DROP TABLE IF EXISTS bench._rowfall_journal{_ON} SYNC")
        found = self.shop.load(
            url, lab.uri("bench"), "--table", "local", env=dict(self.shop.places.s3().env),
            password=lab.password, servers=pids_of(lab),
        )  # fmt: skip
        stored = int(lab.nodes[0].query("SELECT count() FROM bench.t"))
        if stored != found.rows:
            raise BenchError(f"rowfall says {found.rows:,} rows, and {stored:,} are there")
        return replace(found, more={**found.more, "shards": read_by_shard(lab, began)})


def read_by_shard(lab: Lab, began: str) -> list[dict[str, int]]:
    """Return what each shard has read from S3 since a moment, by its own query log.

    The rows of a shard's table beside them are where the rows have gone, whoever read them. A
    statement that only sent others to read has their rows in the log as well, and so have those
    that rows were sent to: neither has asked S3 for anything.
    """
    settle()
    shards = []
    for node in lab.nodes:
        node.query("SYSTEM FLUSH LOGS")
        read, size, requests = node.query(
            "SELECT sum(read_rows), sum(read_bytes), "
            "sum(ProfileEvents['S3GetObject']) FROM system.query_log WHERE type = 'QueryFinish' "
            f"AND ProfileEvents['S3GetObject'] > 0 AND event_time_microseconds >= {literal(began)}"
        ).split()
        stored = node.query("SELECT count() FROM bench.local").strip()
        shards.append({"read_rows": int(read), "read_bytes": int(size),
                       "s3_requests": int(requests), "stored_rows": int(stored)})  # fmt: skip
    return shards
