"""Projecting a load to N nodes: the formula, what limits, and the published measurements."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.errors import UsageError
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.core.results import ATTEMPT_COST, START_SECONDS, Limit, LoadWork, NodeCapacity
from rowfall.measure.scale import (
    MOST_NODES,
    PREFIX_REQUESTS,
    ScaleSource,
    is_whole,
    parse_nodes,
    project,
    requests_rate,
    simulate,
)

MB = 1e6
NODE = NodeCapacity(cores=16, core_rate=25 * MB)


def work(sizes: Sequence[float], *, whole: bool = True, **facts: float) -> LoadWork:
    return LoadWork(array("d", sizes), whole, **facts)  # type: ignore[arg-type]


def test_the_formula() -> None:
    """5,120 files of 25 MB are one second of a core each."""
    found = project(work([25 * MB] * 5120, rows=1e9), replace(NODE, price=3.6), 4)
    # 1,280 files a node, 80 for each core, in 4 attempts of 20 seconds
    assert found.makespan == pytest.approx(80.0)
    assert found.attempts == 4
    assert found.seconds == pytest.approx(START_SECONDS + 80.0 + 4 * ATTEMPT_COST)
    assert found.attempt_seconds == 4 * ATTEMPT_COST
    assert found.idle_seconds == 0
    assert found.node_seconds == pytest.approx(4 * found.seconds)
    assert found.cost == pytest.approx(found.node_seconds / 1000)
    assert found.rows_per_second == pytest.approx(1e9 / found.seconds)
    assert found.bytes_per_second == pytest.approx(5120 * 25 * MB / found.seconds)
    assert found.node_rate == 400 * MB
    assert (found.files_least, found.files_most, found.imbalance) == (1280, 1280, 0)
    assert found.lower_bound == pytest.approx(80.0)
    assert found.limit is Limit.CORES
    assert found.limited_by == "the cores: each node loads 400 MB/s"


def test_parts_cross_zones_on_the_way_to_each_other_replica() -> None:
    files = work([25 * MB] * 400)
    alone = project(files, replace(NODE, zone_price=0.02), 4)
    assert (alone.zone_bytes, alone.zone_cost) == (0, 0)
    three = project(files, replace(NODE, replicas=3, zone_price=0.02), 4)
    assert three.zone_bytes == 2 * 400 * 25 * MB
    assert three.zone_cost == pytest.approx(three.zone_bytes / 1e9 * 0.02)
    assert project(files, replace(NODE, replicas=3), 4).zone_cost is None


def test_without_price_and_rows_there_is_no_cost_and_no_row_rate() -> None:
    found = project(work([25 * MB] * 160), NODE, 1)
    assert (found.cost, found.rows_per_second) == (None, None)


def test_limited_by_the_network() -> None:
    found = project(work([MB] * 100_000), replace(NODE, network=100 * MB), 10)
    assert found.limit is Limit.NETWORK
    assert found.makespan == pytest.approx(100.0)
    assert "100 MB/s reach each node; the cores of a node could load 400 MB/s" in found.limited_by


def test_limited_by_the_store() -> None:
    sizes = [0.1 * MB] * 100_000
    store = requests_rate(sizes, 1)
    assert store == pytest.approx(0.1 * MB * PREFIX_REQUESTS / 3)  # two looks and one range
    assert requests_rate(sizes, 4) == pytest.approx(4 * store)
    found = project(work(sizes, store=store), NODE, 10)
    assert found.limit is Limit.STORE
    assert found.makespan == pytest.approx(1e5 * 3 / PREFIX_REQUESTS)
    more = project(work(sizes, store=store), NODE, 20)
    assert more.makespan == pytest.approx(found.makespan)  # more nodes do not help


def test_limited_by_the_largest_file() -> None:
    sizes = [2500 * MB] + [5 * MB] * 1000
    found = project(work(sizes), NODE, 4)
    assert found.limit is Limit.LARGEST
    assert found.makespan == found.lower_bound == pytest.approx(100.0)
    assert "2.50 GB and keeps one core busy for 1 min 40 s" in found.limited_by
    plain = project(work(sizes, whole=False), NODE, 4)
    assert plain.limit is Limit.LARGEST
    assert plain.makespan == pytest.approx(2500 / 400)  # all cores of one node
    assert "is read by one node" in plain.limited_by


@pytest.mark.parametrize(
    ("files", "whole", "said"),
    [
        (20, True, "20 for 160 cores, so some cores have nothing to do"),
        (200, True, "1.25 for each of 160 cores"),
        (3, False, "3 for 10 nodes, so some nodes have nothing to do"),
        (1, True, "1 for 160 cores"),
    ],
)
def test_limited_by_too_few_files(files: int, whole: bool, said: str) -> None:
    found = project(work([2500 * MB] * files, whole=whole, attempt=math.inf), NODE, 10)
    assert found.limit is Limit.FILES, found.limited_by
    assert said in found.limited_by


def test_limited_by_the_end_of_attempts() -> None:
    """Files of 15 s: 21 of them fit into an attempt of 20 s on 16 cores, and take 30."""
    load = replace(work([375 * MB] * 320), attempt=20 * 16 * 25.0 * MB)
    found = project(load, NODE, 1)
    assert (found.attempts, found.limit) == (15, Limit.ATTEMPTS)
    assert found.makespan == pytest.approx(15 * 30.0)
    assert found.idle_seconds == pytest.approx(15 * 30.0 - 300.0)
    assert "16 cores share 21.3 files" in found.limited_by
    whole = project(replace(load, attempt=None), NODE, 1)
    assert whole.makespan == pytest.approx(300.0)  # four rounds at least
    better = project(replace(load, attempt=math.inf), NODE, 1)
    assert (better.attempts, better.limit) == (1, Limit.CORES)
    assert better.makespan == better.lower_bound == pytest.approx(300.0)


def test_limited_by_start_up() -> None:
    assert project(work([1000.0] * 10), NODE, 2).limit is Limit.START
    assert project(work([0.0] * 10), NODE, 2).limit is Limit.START


SIZES = st.lists(st.integers(0, 10**11), min_size=1, max_size=80)


@given(SIZES, st.integers(1, 12), st.booleans(), st.sampled_from([math.inf, 3e8, 1e7]))
def test_no_projection_beats_its_bound(
    sizes: list[int], nodes: int, whole: bool, network: float
) -> None:
    load = work(sizes, whole=whole)
    found = project(load, replace(NODE, network=network), nodes)
    assert found.makespan >= found.lower_bound * (1 - 1e-9)
    assert found.seconds >= found.makespan + START_SECONDS
    assert found.files_least * nodes <= len(sizes) <= found.files_most * nodes


def test_what_can_be_cut() -> None:
    assert is_whole(Encoding("CSV", "gzip", Kind.TEXT))
    assert is_whole(Encoding("CSV", "auto", Kind.TEXT))
    assert is_whole(Encoding("Avro", "none", Kind.TYPED))
    assert not is_whole(Encoding("CSV", "none", Kind.TEXT))
    assert not is_whole(Encoding("JSONEachRow", "none", Kind.JSON))
    assert not is_whole(Encoding("Parquet", "none", Kind.TYPED))
    assert not is_whole(None)


# --- the published measurements (docs/concepts/scale.md) ------------------------------------------

# 100 billion rows in 1,000 files, 900 GB in memory: one server of 32 vCPU took 1115.4 s, that is 32
# rounds of files on 32 cores.
RATE = 32 * 900e6 / 1115.4


@pytest.mark.parametrize(
    ("nodes", "cores", "published", "projected"),
    [
        (1, 32, 1115.4, 1115.4),
        (2, 32, 552.6, 557.7),
        (4, 16, 583.7, 557.7),
        (4, 32, 346.4, 278.9),
        (10, 16, 252.9, 244.0),
    ],
)
def test_a_hundred_billion_rows(nodes: int, cores: int, published: float, projected: float) -> None:
    found = project(work([900e6] * 1000, attempt=math.inf), NodeCapacity(cores, RATE), nodes)
    assert found.makespan == pytest.approx(projected, abs=0.1)
    assert found.makespan == pytest.approx(published, rel=0.20)
    if (nodes, cores) != (4, 32):
        assert found.makespan == pytest.approx(published, rel=0.05)


def test_taxi_on_four_small_servers_instead_of_a_large_one() -> None:
    """1.31 billion rows in 96 files: 269.6 s on 32 vCPU, 327.2 s on 4 x 8 by way of s3Cluster."""
    rate = 3 * 389e6 / 269.6
    found = project(work([389e6] * 96, attempt=math.inf), NodeCapacity(8, rate), 4)
    assert found.makespan == pytest.approx(269.6, abs=0.1)


# --- what is typed --------------------------------------------------------------------------------


def test_numbers_of_nodes() -> None:
    assert parse_nodes("1, 2,10") == (1, 2, 10)


@pytest.mark.parametrize(
    "text", ["", "a", "1,", "0", "-1", "1,0", "1.5", "1e3", "²", str(MOST_NODES + 1), "9" * 30]
)
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="not a number of nodes"):
        parse_nodes(text)


# --- listings that nobody has --------------------------------------------------------------------


def made(text: str) -> ScaleSource:
    return simulate([text], Options())


def sizes(text: str) -> list[int]:
    listing = made(text).listing
    return [listing.size(i) or 0 for i in range(len(listing))]


def test_equal_files() -> None:
    assert sizes("simulate://csv.gz?files=5&size=2MB") == [2_000_000] * 5


def test_files_of_all_sizes_have_the_mean_that_was_asked_for() -> None:
    found = sizes("simulate://csv.gz?files=1e5&size=25MB&sigma=1")
    assert statistics.mean(found) == pytest.approx(25e6, rel=0.02)
    # Of a lognormal distribution the median is below the mean by exp(sigma^2 / 2).
    assert statistics.median(found) == pytest.approx(25e6 / 1.6487, rel=0.02)


def test_the_same_text_gives_the_same_sizes() -> None:
    text = "simulate://csv?files=100&sigma=1"
    assert sizes(text) == sizes(text)


def test_names_tell_format_and_compression() -> None:
    assert made("simulate://tsv.zst?files=1").encoding.compression == "zstd"
    assert made("simulate://parquet?files=1").encoding.kind is Kind.TYPED
    default = made("simulate://?files=1").encoding
    assert (default.format, default.compression) == ("CSV", "gzip")


def test_prefixes_and_rows() -> None:
    found = made("simulate://csv.gz?files=6&prefixes=3&rows=1.5G")
    folders = {found.listing.uri(i).rpartition("/")[0] for i in range(6)}
    assert len(folders) == found.prefixes == 3
    assert found.rows == 1_500_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("simulate://csv.gz?file=1", "no parameter 'file'"),
        ("simulate://csv.gz?files=0", "files=0 is not possible"),
        ("simulate://csv.gz?files=many", "files=many is not possible"),
        ("simulate://csv.gz?files=1e9", "files=1e9 is not possible"),
        ("simulate://csv.gz?prefixes=-1", "prefixes=-1 is not possible"),
        ("simulate://csv.gz?size=0", "nothing to load"),
        ("simulate://csv.gz?size=big", "'big' is not a size"),
        ("simulate://csv.gz?sigma=9", "sigma=9 is not possible"),
        ("simulate://csv.gz?sigma=nan", "sigma=nan is not possible"),
        ("simulate://csv.gz?seed=2", "no parameter 'seed'"),
        ("simulate://csv.gz?rows=few", "'few' is not a number of rows"),
        ("simulate://odd?files=1", "does not end with the extension of a known format"),
    ],
)
def test_what_makes_no_sense(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(text)
