"""Rows whose number and checksum are known: as files, as a target table, and what must be there.

Every row is a function of its number, so the server itself says what the checksum of all of them
is, and a row that is missing, doubled or damaged shows.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab.seaweed import Seaweed

COLUMNS = (
    "id UInt64, day Date, name String, amount Decimal(12, 2), share Float64, note Nullable(String)"
)
# Partitions of the table, each a part of each of several attempts.
DAYS = 20
_ROWS = (
    f"SELECT number AS id, toDate('2024-01-01') + number % {DAYS} AS day, "
    "toString(cityHash64(number) % 10007) AS name, "
    # Eighths, because ClickHouse reads other fractions differently from version to version.
    "CAST((number * 7919) % 1000000 AS Decimal(12, 2)) AS amount, number / 8 AS share, "
    "if(number % 5 = 0, NULL, concat('n, \"', toString(number % 97), '\"')) AS note "
    "FROM numbers({first}, {count})"
)
# Text of a tuple, so that NULLs count (24.10 cannot hash a tuple that holds one). The sum wraps at
# 2^64; doubled rows change it, their order does not.
CHECKSUM = "count(), sum(cityHash64(toString(tuple(*))))"
# The one table of rowfall's own that stays.
JOURNAL = "_rowfall_journal"


class Asked(Protocol):
    """A server, or a node of a cluster."""

    @property
    def query(self) -> Callable[[str], str]: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Files that hold the rows 0 to ``count`` - 1, each once.

    Attributes:
        folder: where they are; nothing else is in it.
        names: of the files, sorted; those that end in .gz are compressed.
        checksum: count and checksum of all rows, as :func:`checksum` returns them.
    """

    folder: Path
    names: Sequence[str]
    count: int
    checksum: tuple[int, int]

    def bodies(self) -> dict[str, bytes]:
        """The files, to put them elsewhere."""
        return {name: (self.folder / name).read_bytes() for name in self.names}

    def put(self, service: Seaweed, bucket: str) -> None:
        """The files in a new bucket."""
        service.create_bucket(bucket)
        for name, body in self.bodies().items():
            service.put(bucket, name, body)


def make_rows(
    server: Asked, folder: Path, *, files: int = 20, rows: int = 400_000, seed: int = 1
) -> Rows:
    """CSV files with headers and of very different sizes, every third of them compressed.

    Args:
        server: writes the rows.
        folder: is made.
        seed: of the sizes.
    """
    folder.mkdir(parents=True)
    cuts = sorted(random.Random(seed).sample(range(1, rows), files - 1))
    names = []
    for number, (first, end) in enumerate(zip([0, *cuts], [*cuts, rows], strict=True)):
        select = _ROWS.format(first=first, count=end - first)
        body = server.query(f"{select} FORMAT CSVWithNames").encode()
        name = f"part-{number:03}.csv" + (".gz" if number % 3 == 2 else "")
        (folder / name).write_bytes(gzip.compress(body, 1) if name.endswith("gz") else body)
        names.append(name)
    all_rows = f"({_ROWS.format(first=0, count=rows)})"
    return Rows(folder, names, rows, checksum(server, all_rows))


def create_target(
    server: Asked,
    database: str,
    table: str = "t",
    *,
    partitioned: bool = True,
    engine: str = "MergeTree",
    views: bool = False,
) -> None:
    """An empty table for the rows, in a database that is made when it is missing.

    Args:
        partitioned: into :data:`DAYS` partitions.
        views: two materialized views on it as well: every row, and sums by day.
    """
    name = f"{database}.{table}"
    by = "PARTITION BY day " if partitioned else ""
    statements = [
        f"CREATE DATABASE IF NOT EXISTS {database}",
        f"CREATE TABLE {name} ({COLUMNS}) ENGINE = {engine} {by}ORDER BY id",
    ]
    if views:
        statements += [
            f"CREATE TABLE {name}_copy ({COLUMNS}) ENGINE = MergeTree ORDER BY id",
            f"CREATE MATERIALIZED VIEW {name}_each TO {name}_copy AS SELECT * FROM {name}",
            f"CREATE TABLE {name}_days (day Date, n UInt64, amount Decimal(38, 2)) "
            "ENGINE = SummingMergeTree ORDER BY day",
            f"CREATE MATERIALIZED VIEW {name}_sums TO {name}_days AS "
            f"SELECT day, count() AS n, sum(amount) AS amount FROM {name} GROUP BY day",
        ]
    for statement in statements:
        server.query(statement)


def checksum(server: Asked, relation: str) -> tuple[int, int]:
    """Count and checksum of a table or subquery; order makes no difference."""
    count, total = server.query(f"SELECT {CHECKSUM} FROM {relation}").split()
    return int(count), int(total)


def leftovers(server: Asked, database: str) -> list[str]:
    """Tables of rowfall's own that should be gone after a load."""
    found = server.query(
        f"SELECT name FROM system.tables WHERE database = '{database}' "
        f"AND startsWith(name, '_rowfall_') AND name != '{JOURNAL}' ORDER BY name"
    )
    return found.split()


def check_exact(server: Asked, database: str, rows: Rows, table: str = "t") -> None:
    """Every row is in the table once, and in the views of :func:`create_target`; nothing is left.

    Raises:
        AssertionError: says what is wrong.
    """
    name = f"{database}.{table}"
    tables = server.query(f"SHOW TABLES FROM {database}").split()
    assert checksum(server, name) == rows.checksum, f"{name}: {_wrong(server, name, rows)}"
    if f"{table}_copy" in tables:
        assert checksum(server, f"{name}_copy") == rows.checksum, f"the view of every row of {name}"
        sums = "SELECT day, sum(n) AS n, sum(amount) AS a FROM {} GROUP BY day ORDER BY day"
        truth = f"(SELECT day, 1 AS n, amount FROM {name})"
        assert server.query(sums.format(f"{name}_days")) == server.query(sums.format(truth)), (
            f"the view of sums by day of {name}"
        )
    left = leftovers(server, database)
    assert not left, f"left behind: {left}"
    twins = server.query(
        f"SELECT count(), any(name) FROM system.parts WHERE database = '{database}' AND active "
        "AND rows > 0 GROUP BY table, hash_of_all_files HAVING count() > 1"
    )
    assert twins == "", f"the same part twice: {twins}"


def _wrong(server: Asked, name: str, rows: Rows) -> str:
    """Which rows are missing or doubled, for the message of a test."""
    found = server.query(
        f"SELECT count(), uniqExact(id), min(id), max(id) FROM {name} FORMAT TSVWithNames"
    )
    doubled = server.query(
        f"SELECT id, count() AS c FROM {name} GROUP BY id HAVING c > 1 ORDER BY id LIMIT 3"
    )
    missing = server.query(
        f"SELECT number FROM numbers({rows.count}) WHERE number NOT IN (SELECT id FROM {name}) "
        "ORDER BY number LIMIT 3"
    )
    return f"{found}expected {rows.count}; doubled {doubled!r}, missing {missing!r}"
