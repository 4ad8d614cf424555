"""Large files on clusters: cut into ranges, so that all shards work on them, each row once."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from e2e.fleet import Fleet
from e2e.large import LINES, ROWS, lines, parquet, shares
from e2e.tools import Shell
from lab.cluster import Cluster
from lab.seaweed import Seaweed


@pytest.fixture
def fleet(shell: Shell, cluster21: Cluster) -> Iterator[Fleet]:
    fleet = Fleet(shell, cluster21)
    yield fleet
    fleet.drop()


@pytest.mark.long
@pytest.mark.parametrize("way", ["--pull", "--push"])
def test_one_parquet_file_loads_on_all_shards(
    fleet: Fleet, s3: Seaweed, bucket: str, way: str
) -> None:
    s3.put(bucket, "big.parquet", parquet())
    args = (f"s3://{bucket}/big.parquet", "--table", "t", way)
    planned = fleet.ok("plan", *args, "--json", env=s3.env).document
    assert planned["listing"]["splits"] >= 4
    assert planned["cutting"][0].startswith("1 file loaded in")
    report = fleet.load(*args, "--verify", env=s3.env)
    assert sum(shares(report)) == ROWS
    assert min(shares(report)) > ROWS * 0.4
    assert fleet.numbers("t") == [ROWS, ROWS]
    if way == "--pull":
        reads_its_own_row_groups(fleet, report["load_id"])
    assert fleet.ok("verify", "last", "--json", env=s3.env).document["ok"]
    again = fleet.load(*args, env=s3.env)
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, planned["listing"]["splits"])
    assert not fleet.left()


def reads_its_own_row_groups(fleet: Fleet, load_id: str) -> None:
    """Check that each shard has read half of the rows."""
    for node in fleet.first():
        ((read,),) = fleet.ask(
            node,
            "SELECT sum(read_rows) FROM system.query_log WHERE type = 'QueryFinish' AND "
            f"query_kind = 'Insert' AND startsWith(query_id, '{load_id}') "
            "AND query LIKE '%big.parquet%'",
        )
        assert 0.4 * ROWS < read < 0.6 * ROWS


@pytest.mark.long
def test_a_parquet_file_in_no_order_stays_whole(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    s3.put(bucket, "mixed.parquet", parquet(key="cityHash64(number)"))
    source = f"s3://{bucket}/mixed.parquet"
    planned = fleet.ok("plan", source, "--table", "t", "--json", env=s3.env).document
    assert planned["listing"]["splits"] == 1
    assert "no column keeps its row groups apart" in planned["cutting"][0]
    fleet.load(source, "--table", "t", "--verify", env=s3.env)
    assert fleet.numbers("t") == [ROWS, ROWS]


@pytest.mark.long
def test_another_cluster_goes_on_with_the_ranges(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    """Killed in the middle; then one node alone, which would have cut nothing, takes the rest."""
    s3.put(bucket, "big.parquet", parquet())
    source = f"s3://{bucket}/big.parquet"
    args = (source, "--pull", "--attempt-bytes", "1MB")
    plan = fleet.ok("plan", *args, "--table", "t", "--json", env=s3.env).document
    splits = plan["listing"]["splits"]
    fleet.begin_and_kill(s3.env, *args, "--table", "t")
    assert 0 < fleet.numbers("t")[0] < ROWS
    fleet.ok("clean", "--yes")  # what was committed on the other shard only that one can publish
    alone = fleet.to.partition("?")[0]
    done = fleet.shell.ok(
        "load", *args, "--table", "t_local", "--to", alone, "--json", env=s3.env
    ).document
    assert done["splits_skipped"] >= 2
    assert done["splits_loaded"] + done["splits_skipped"] == splits
    assert fleet.numbers("t") == [ROWS, ROWS]
    again = fleet.load(*args, "--table", "t", env=s3.env)
    assert again["splits_loaded"] == 0
    assert fleet.numbers("t") == [ROWS, ROWS]
    assert not fleet.left()


@pytest.mark.long
def test_what_is_loaded_whole_is_not_cut_later(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    s3.put(bucket, "big.parquet", parquet())
    source = f"s3://{bucket}/big.parquet"
    fleet.load(source, "--table", "t", "--pull", "--max-errors", "1", env=s3.env)
    assert sorted(fleet.counts("t_local")) == [0, ROWS]
    again = fleet.load(source, "--table", "t", "--pull", env=s3.env)
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, 1)
    assert fleet.numbers("t") == [ROWS, ROWS]


# --- text ----------------------------------------------------------------------------------------


@pytest.fixture
def decoders(fleet: Fleet) -> Iterator[None]:
    """rowfall-decode in every server."""
    fleet.ok("install-decoder")
    yield
    for path in fleet.cluster.folder.glob("node*/user_scripts/rowfall-decode"):
        path.unlink()


@pytest.mark.long
@pytest.mark.parametrize(
    "format",
    [*(pytest.param(f, marks=pytest.mark.long) for f in ("CSVWithNames", "TSV")), "JSONEachRow"],
)
def test_one_text_file_is_decoded_by_all_shards(
    fleet: Fleet, s3: Seaweed, bucket: str, format: str, decoders: None
) -> None:
    key = "big." + {"CSVWithNames": "csv", "TSV": "tsv", "JSONEachRow": "ndjson"}[format]
    s3.put(bucket, key, lines(format))
    schema = "id UInt64, name String, day Date"
    args = (
        f"s3://{bucket}/{key}",
        "--table",
        "t",
        "--pull",
        "--format",
        format,
        "--schema",
        schema,
    )
    planned = fleet.ok("plan", *args, "--json", env=s3.env).document
    assert planned["decoder"] == "rowfall-decode"
    assert planned["listing"]["splits"] >= 3
    report = fleet.load(*args, "--verify", env=s3.env)
    assert sum(shares(report)) == LINES
    assert min(shares(report)) > LINES * 0.2
    assert fleet.numbers("t") == [LINES, LINES]
    assert fleet.ok("verify", "last", "--json", env=s3.env).document["ok"]
    again = fleet.load(*args, env=s3.env)
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, planned["listing"]["splits"])
    assert not fleet.left()


def test_one_local_file_is_pushed_to_all_shards(fleet: Fleet) -> None:
    fleet.shell.write("big.csv", lines())
    report = fleet.load("big.csv", "--table", "t", "--verify")
    assert min(shares(report)) > LINES * 0.2
    assert fleet.numbers("t") == [LINES, LINES]


@pytest.mark.long
@pytest.mark.parametrize("way", ["--pull", pytest.param("--push", marks=pytest.mark.long)])
def test_what_the_decoder_declines_of_a_range_is_read_here(
    fleet: Fleet, s3: Seaweed, bucket: str, decoders: None, way: str
) -> None:
    """A number with a blank in front is for the engine's reader to judge."""
    head, *rest = lines(name="hex(sipHash128(number))").splitlines(keepends=True)
    rest[-10] = rest[-10].replace(b"2499", b" 2499", 1)
    s3.put(bucket, "big.csv", b"".join([head, *rest]))
    done = fleet.ok(
        "load", f"s3://{bucket}/big.csv", "--table", "t", way, "--verify", "--json", env=s3.env
    )
    assert "the engine reads it instead" in str(done.document["notes"])
    assert fleet.numbers("t") == [LINES, LINES]


@pytest.mark.long
def test_a_bad_row_is_named_by_its_line_of_the_file(
    fleet: Fleet, s3: Seaweed, bucket: str, decoders: None
) -> None:
    head, *rest = lines(name="hex(sipHash128(number))").splitlines(keepends=True)
    rest[-10] = b"seven,x,2024-01-01\n"
    s3.put(bucket, "big.csv", b"".join([head, *rest]))
    done = fleet.ends(
        1, "load", f"s3://{bucket}/big.csv", "--table", "t", "--pull", "--type", "id UInt64",
        env=s3.env,
    )  # fmt: skip
    assert f'big.csv line {LINES - 10 + 2} column "id": "seven" does not fit UInt64' in done.talk
    assert 0 < fleet.numbers("t")[0] < LINES - 1
    assert not fleet.left()


def test_a_killed_load_goes_on_with_ranges_of_text(
    fleet: Fleet, s3: Seaweed, bucket: str, decoders: None
) -> None:
    s3.put(bucket, "big.csv", lines())
    args = (f"s3://{bucket}/big.csv", "--pull", "--attempt-bytes", "1MB")
    fleet.begin_and_kill(s3.env, *args, "--table", "t")
    fleet.ok("clean", "--yes")
    alone = fleet.to.partition("?")[0]
    fleet.shell.ok("load", *args, "--table", "t_local", "--to", alone, env=s3.env)
    assert fleet.numbers("t") == [LINES, LINES]
    assert fleet.load(*args, "--table", "t", env=s3.env)["splits_loaded"] == 0
    assert not fleet.left()


def test_compressed_text_stays_whole(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    s3.put(bucket, "big.csv.gz", gzip.compress(lines(), 0))
    source = f"s3://{bucket}/big.csv.gz"
    planned = fleet.ok("plan", source, "--table", "t", "--json", env=s3.env).document
    assert planned["listing"]["splits"] == 1
    assert "gzip can be unpacked from its beginning only" in planned["cutting"][0]
