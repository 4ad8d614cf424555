"""Objects in S3 whose names hold characters that the engine takes for a pattern."""

from __future__ import annotations

import pytest

from e2e.lake import Lake
from e2e.tools import Row, Shell
from lab.clickhouse import ClickHouse
from lab.seaweed import Seaweed

# Each of the first four is a pattern of others, too.
NAMES = ("a*b", "a?b", "a{1..3}b", "a{x,y}b", "axxb", "a1b", "axb")
COUNTS = "SELECT name, count() FROM {db}.t GROUP BY name"
FORMATS = {"parquet": "Parquet", "csv": "CSVWithNames"}
KINDS = ("parquet", pytest.param("csv", marks=pytest.mark.long))


def put(shell: Shell, s3: Seaweed, bucket: str, kind: str) -> list[Row]:
    """Store one object of each name; return the rows of COUNTS."""
    found = []
    for number, name in enumerate(NAMES):
        path, rows = f"{number}.{kind}", 10 + number
        select = f"SELECT number AS id, '{name}' AS name FROM numbers({rows})"
        shell.ok("query", f"{select} INTO OUTFILE '{path}' FORMAT {FORMATS[kind]}", "--write")
        s3.put(bucket, f"in/{name}.{kind}", (shell.folder / path).read_bytes())
        found.append([name, rows])
    return sorted(found)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_patterns(
    shell: Shell, s3: Seaweed, bucket: str, clickhouse: ClickHouse, kind: str
) -> None:
    wanted = put(shell, s3, bucket, kind)
    load = ("load", f"s3://{bucket}/in/", "--table", "t")
    shell.ok(*load, "--to", "data", env=s3.env)
    assert sorted(shell.rows(COUNTS.replace("{db}.", ""), "--to", "data")) == wanted
    lake = Lake(shell, clickhouse)
    for way in ("--pull", "--push"):
        lake.ok(*load, way, "--replace", env=s3.env)
        assert sorted(lake.rows(COUNTS)) == wanted
