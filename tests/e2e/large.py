"""Files large enough to be cut for the shards of a cluster."""

from __future__ import annotations

import functools
from typing import Any

from e2e.tools import made

ROWS = 400_000
LINES = 250_000


@functools.cache
def parquet(rows: int = ROWS, key: str = "number") -> bytes:
    """Row groups of about 0.6 MB that hardly pack; ``key`` says what ``id`` is."""
    return made(
        f"SELECT toUInt64({key}) AS id, randomString(40) AS name FROM numbers({rows}) SETTINGS "
        "output_format_parquet_row_group_size = 10000, max_block_size = 10000, max_threads = 1",
        "Parquet",
    )


@functools.cache
def lines(
    format: str = "CSVWithNames", name: str = "concat('n,\"', hex(sipHash128(number)))"
) -> bytes:
    """About 16 MB."""
    return made(
        f"SELECT number AS id, {name} AS name, toDate('2024-01-01') + id % 500 AS day "
        f"FROM numbers({LINES}) SETTINGS max_threads = 1",
        format,
    )


def shares(report: dict[str, Any]) -> list[int]:
    """Rows that each shard has loaded."""
    return [shard["rows"] for shard in report["shards"]]
