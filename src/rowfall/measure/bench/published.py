"""Figures of the five articles: rows, seconds and vCPUs of loads that have a counterpart here."""

from __future__ import annotations

from rowfall.core.bench_results import PublishedFigure

TITLES = {
    "A1": "Loading 100B Rows in Minutes (Altinity)",
    "A2": "Tips for High-Performance ClickHouse Clusters with S3 Object Storage (Altinity)",
    "A3": "Faster ClickHouse Imports (Mark Litwintschik)",
    "A4": "Load Data at GiB/s (Thorsness, SingleStore)",
    "A5": "Supercharging your large ClickHouse data loads (Tom Schreiber, ClickHouse)",
}
"""Articles by the names that ``rowfall bench`` takes."""


def _figure(article: str, text: str, rows: float, seconds: float, vcpus: int) -> PublishedFigure:
    return PublishedFigure(text, rows, seconds, vcpus, TITLES[article])


A1_DEFAULTS = _figure("A1", "one server of 32 vCPUs, defaults", 1.475e9, 38.36, 32)
A1_TUNED = _figure("A1", "one server of 32 vCPUs, tuned", 1.475e9, 17.33, 32)
A1_ALL = _figure("A1", "one server of 32 vCPUs, tuned, all rows", 100e9, 1115.4, 32)
A1_SINGLESTORE = _figure("A1", "SingleStore pipeline, 256 vCPUs", 100e9, 656.0, 256)
# "About 2 h on 32 vCPUs", for all rows.
A1_GENERATOR = _figure("A1", "written by one server of 32 vCPUs", 100e9, 7200.0, 32)
A1_S3CLUSTER = _figure("A1", "2 servers of 32 vCPUs, s3Cluster", 1.475e9, 56.4, 64)
A1_VIEWS_2 = _figure("A1", "2 servers of 32 vCPUs, views", 100e9, 552.6, 64)
A1_VIEWS_4 = _figure("A1", "4 servers of 32 vCPUs, views", 100e9, 346.4, 128)

A2_READ = _figure("A2", "32 vCPUs, SELECT only", 1.31e9, 159.7, 32)
A2_INSERT = _figure("A2", "32 vCPUs, INSERT SELECT", 1.31e9, 269.6, 32)
A2_S3 = _figure("A2", "4 servers of 8 vCPUs, s3()", 1.31e9, 1082.6, 32)
A2_S3CLUSTER = _figure("A2", "4 servers of 8 vCPUs, s3Cluster()", 1.31e9, 327.2, 32)
A2_READ_S3 = _figure("A2", "4 servers, SELECT from s3()", 1.31e9, 1.31e9 / 2.06e6, 32)
A2_READ_CLUSTER = _figure("A2", "4 servers, SELECT from s3Cluster()", 1.31e9, 1.31e9 / 6.49e6, 32)

_TAXI = 80e6
# All on one i5 of four cores with 8 GB.
A3 = {
    name: _figure("A3", text, _TAXI, seconds, 4)
    for name, text, seconds in (
        ("parquet-hdfs", "Parquet from HDFS", 116.0),
        ("parquet-1", "Parquet, sequential", 158.0),
        ("parquet-4", "Parquet, 4 at once", 168.0),
        ("csv-hdfs", "CSV from HDFS", 191.0),
        ("csv.gz-4", "CSV.gz, 4 at once", 278.0),
        ("csv.gz-1", "CSV.gz, sequential", 285.0),
        ("csv-1", "CSV, sequential", 358.0),
        ("csv-4", "CSV, 4 at once", 366.0),
        ("json-4", "JSON, 2 at once", 522.0),
        ("json-1", "JSON, sequential", 610.0),
        ("json.gz-1", "JSON.gz (489 s in the text, 849 s in the table)", 489.0),
        ("postgresql", "COPY piped into the client", 579.0),
        ("mysql", "database engine MySQL", 657.0),
        ("to-kafka", "console producer", 510.0),
        ("to-postgresql", "\\copy", 692.0),
        ("to-mysql", "LOAD DATA LOCAL INFILE", 1223.0),
        ("dump", "dump to JSONEachRow", 562.0),
    )
}
# Given up after 3,170 rows a second.
A3_KAFKA = _figure("A3", "Kafka engine, given up", 3170.0, 1.0, 4)

A4_PUSH = _figure("A4", "2^31 rows of 512 bytes, 128 vCPUs", 2**31, 18 * 60 + 21.0, 128)
A4_FREE = _figure("A4", "10 M rows of 64 bytes, free tier", 10e6, 9.95, 0)

# "About 4 M rows a second for each server", of 59 cores.
A5_SERVER = _figure("A5", "3 servers of 59 cores, 32 threads x 10 M rows", 65.33e9, 65.33e9 / 12e6,
                    177)  # fmt: skip
