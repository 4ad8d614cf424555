"""Loading into tables whose definition has more than columns: what lands, is counted and merged."""

from __future__ import annotations

import pytest

from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.tools import Shell, csv
from lab.clickhouse import ClickHouse
from lab.seaweed import Seaweed

# CREATE TABLE ... these columns. The answers of aggregates may come from the projection.
PROJECTIONS = {
    "normal": "PROJECTION o (SELECT * ORDER BY name)",
    "aggregate": "PROJECTION g (SELECT name, sum(id), count() GROUP BY name)",
    "two": "PROJECTION o (SELECT id, name ORDER BY name), PROJECTION `g 2` (WITH 1 AS one SELECT "
    "name, sum(id + one) GROUP BY name)",
}
ENGINES = {
    "MergeTree": "MergeTree PARTITION BY id % 3 ORDER BY id",
    "ReplacingMergeTree": "ReplacingMergeTree ORDER BY id "
    "SETTINGS deduplicate_merge_projection_mode = 'drop'",
}
ROWS = 5000


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def files(shell: Shell) -> str:
    """Two files, and each name in both of them."""
    for number in range(2):
        of_file = range(number * ROWS // 2, (number + 1) * ROWS // 2)
        shell.write(f"in/f{number}.csv", csv([(i, f"n{i % 7}") for i in of_file], "id", "name"))
    return "in/*.csv"


def sums(column: str = "name") -> str:
    return f"SELECT {column}, count(), sum(id) FROM {{db}}.t GROUP BY 1 ORDER BY 1"


EXPECTED = [
    [f"n{r}", len(range(r, ROWS, 7)), sum(range(r, ROWS, 7))] for r in range(7)
]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.sampled(1)
def test_a_server_counts_what_it_reads_for_projections(
    lake: Lake, projection: str, engine: str
) -> None:
    """24.10 counts the rows of an INSERT once more for each projection."""
    made = f"(id UInt64, name String, {PROJECTIONS[projection]}) ENGINE = {ENGINES[engine]}"
    lake.do(f"CREATE TABLE {{db}}.t {made}")
    report = lake.load(files(lake.shell), "--table", "t", "--attempt-bytes", "1KB")
    assert (report["rows"], report["retries"]) == (ROWS, 0)
    assert lake.rows(sums()) == EXPECTED
    # Parts have their projections: nothing else may be read here.
    forced = "SETTINGS force_optimize_projection = 1"
    if projection == "aggregate":
        assert lake.rows(f"{sums()} {forced}") == EXPECTED
    assert lake.staging() == set()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_the_embedded_engine_loads_into_projections(shell: Shell, projection: str) -> None:
    made = f"CREATE TABLE t (id UInt64, name String, {PROJECTIONS[projection]}) ENGINE = MergeTree "
    shell.folder.joinpath("data").mkdir()
    shell.ok("query", f"{made} ORDER BY id", "--to", "data", "--write")
    report = shell.ok("load", files(shell), "--to", "data", "--table", "t", "--json").document
    assert report["rows"] == ROWS
    assert shell.rows(sums().format(db="default"), "--to", "data") == EXPECTED


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [("--atomic",), ("--direct",)], ids=str)
def test_other_ways_into_a_table_with_projections(lake: Lake, options: tuple[str, ...]) -> None:
    lake.do(f"CREATE TABLE {{db}}.t (id UInt64, name String, {PROJECTIONS['two']}) "
            "ENGINE = MergeTree ORDER BY id")  # fmt: skip
    report = lake.load(files(lake.shell), "--table", "t", "--attempt-bytes", "1KB", *options)
    assert report["rows"] == ROWS
    assert lake.rows(sums()) == EXPECTED


def test_projections_behind_views(lake: Lake) -> None:
    """The rows that views read again are counted beside those of the projections."""
    lake.do(
        f"CREATE TABLE {{db}}.src (id UInt64, name String, {PROJECTIONS['aggregate']}) "
        "ENGINE = MergeTree ORDER BY id",
        f"CREATE TABLE {{db}}.t (id UInt64, name String, {PROJECTIONS['two']}) "
        "ENGINE = MergeTree ORDER BY id",
        "CREATE MATERIALIZED VIEW {db}.v TO {db}.t AS SELECT * FROM {db}.src",
    )
    report = lake.load(files(lake.shell), "--table", "src", "--attempt-bytes", "1KB")
    assert (report["rows"], report["retries"]) == (ROWS, 0)
    assert lake.rows(sums()) == EXPECTED


def test_objects_that_the_server_pulls(lake: Lake, s3: Seaweed, bucket: str) -> None:
    """The statement reads one row more for each object, see sources/_relation.py."""
    files(lake.shell)
    for number in range(2):
        name = f"f{number}.csv"
        s3.put(bucket, name, lake.shell.folder.joinpath("in", name).read_bytes())
    lake.do(f"CREATE TABLE {{db}}.t (id UInt64, name String, {PROJECTIONS['two']}) "
            "ENGINE = MergeTree ORDER BY id")  # fmt: skip
    report = lake.load(
        f"s3://{bucket}/*.csv", "--table", "t", "--pull",
        env={**s3.env, "AWS_ENDPOINT_URL": s3.endpoint},
    )  # fmt: skip
    assert (report["rows"], report["retries"]) == (ROWS, 0)
    assert lake.rows(sums()) == EXPECTED


def test_rows_that_go_to_their_shards(fleet: Fleet) -> None:
    """The statement's own shard reads for its projections what the other one does not report."""
    local = f"(id UInt64, name String, {PROJECTIONS['aggregate']}) ENGINE = ReplicatedMergeTree"
    local += "('/rowfall/{uuid}/{shard}', '{replica}') ORDER BY id"
    fleet.do("CREATE DATABASE {db} ON CLUSTER lab")
    fleet.do(f"CREATE TABLE {{db}}.t_local ON CLUSTER lab {local}")
    fleet.do("CREATE TABLE {db}.t ON CLUSTER lab AS {db}.t_local ENGINE = "
             "Distributed(lab, {db}, t_local, id)")  # fmt: skip
    report = fleet.load(files(fleet.shell), "--table", "t", "--attempt-bytes", "1KB")
    assert (report["rows"], report["retries"]) == (ROWS, 0)
    assert fleet.numbers("t") == [ROWS, ROWS]
