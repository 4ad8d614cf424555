"""Which shard a key means, and what both ways to it cost."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.cluster.sharding_keys import ShardingKey, is_free
from rowfall.contracts.facts import (
    ClusterFacts,
    LoadFacts,
    Reach,
    ShardingFacts,
    TargetFacts,
    WriterFacts,
)
from rowfall.core.listing import Listing
from rowfall.core.model import ENGINE, Choice, Column, Encoding, Facts, Kind, Schema
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.destinations.clickhouse.server import ServerTables
from rowfall.engines.base import on_all
from rowfall.plan.planner import make_plan
from rowfall.plan.sharding import sharding_costs
from rowfall.sources import open_source
from rowfall.targets import open_target

FACTS = Facts("24.10.2.80", 8, 8 << 30)
SLOT = re.compile(r"reinterpretAsUInt64\(id\) % (\d+) (?:= (\d+)|BETWEEN (\d+) AND (\d+))")


def holds(condition: str, value: int) -> bool:
    """What the server makes of a condition."""
    if condition == "0":
        return False
    total, one, first, last = SLOT.fullmatch(condition).groups()  # type: ignore[union-attr]
    return int(first or one) <= value % int(total) <= int(last or one)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any), st.integers(0, 2**64 - 1))
def test_every_row_is_kept_by_one_shard(weights: list[int], value: int) -> None:
    keyed = ShardingKey("c", "id", tuple(weights))
    kept = [at for at in range(len(weights)) if holds(keyed.condition(at), value)]
    slots = [at for at, weight in enumerate(weights) for _ in range(weight)]
    assert kept == [slots[value % len(slots)]]
    assert sum(keyed.shares) == pytest.approx(1)


@pytest.mark.parametrize("key", ["rand()", " RAND( )", "rand64()"])
def test_keys_that_leave_it_open(key: str) -> None:
    assert is_free(key)


@pytest.mark.parametrize(
    ("key", "fickle"),
    [
        ("id", False), ("cityHash64(random_name)", False), ("rand() % 3 + id", True),
        ("toUnixTimestamp(now()) + id", True), ("xxHash64(generateUUIDv4())", True),
        ("intHash64(rand)", False), ("currency(id)", False),
    ],
)  # fmt: skip
def test_keys_that_change_between_readings(key: str, fickle: bool) -> None:
    assert ShardingKey("c", key, (1, 1)).varies is fickle
    assert not is_free(key)


def facts_of(shards: int, encoding: Encoding, row: int) -> LoadFacts:
    listing = Listing()
    for number in range(40):
        listing.add(f"s3://b/{number}", "etag", 10_000_000)
    columns = tuple(Column(f"c{n}", "UInt64", "") for n in range(row // 8))
    source = open_source(("generate://trips?rows=9",), Options())
    return LoadFacts(
        source, open_target("clickhouse://h/d?cluster=c", "t", Options()), ServerTables(),
        listing, encoding, Schema(columns),
        tuple(WriterFacts(FACTS, "server", n + 1, f"n{n}:9000") for n in range(shards)),
        reach=Reach(True, "it can", source),
    )  # fmt: skip


ENGINE_PARSES = Choice(ENGINE, "--decoder never")


GZ, PARQUET = Encoding("CSV", "gzip", Kind.TEXT), Encoding("Parquet", "none", Kind.TYPED)


@pytest.mark.parametrize("shards", [2, 4, 16])
def test_reading_text_on_each_shard_is_dearer_than_sending(shards: int) -> None:
    found = sharding_costs(
        facts_of(shards, GZ, 24), ENGINE_PARSES, range(40), [1 / shards] * shards
    )
    assert found is not None
    assert found.cheaper == DISTRIBUTED
    assert found.filtered == pytest.approx(shards * found.read)
    assert found.away == pytest.approx(1 - 1 / shards)
    assert f"{shards}.0x parsing" in found.text(DISTRIBUTED)


def test_reading_on_each_shard_is_cheaper_where_one_has_nearly_all_rows() -> None:
    """With weights 99 to 1 the second shard would send on what it reads: half of all."""
    found = sharding_costs(facts_of(2, GZ, 24), ENGINE_PARSES, range(40), [0.99, 0.01])
    assert found is not None
    assert found.away == pytest.approx(0.5)


def test_a_size_that_is_not_known_has_no_costs() -> None:
    listing = Listing()
    listing.add("kafka://x", "", None)
    facts = replace(facts_of(2, GZ, 24), listing=listing)
    assert sharding_costs(facts, ENGINE_PARSES, range(1), [0.5, 0.5]) is None


def test_filter_gives_all_files_to_all_shards(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number:02}.parquet").write_bytes(b"PAR1")
    source = open_source((f"{tmp_path}/*.parquet",), Options())
    facts = replace(
        facts_of(3, PARQUET, 24), source=source, listing=source.listing(),
        reach=Reach(True, "it can", source),
        table=TargetFacts(
            cluster=ClusterFacts(sharding=ShardingFacts(ShardingKey("c", "id", (1, 1, 1))))
        ),
    )  # fmt: skip
    plan = make_plan(facts, Options(method=FILTER))
    assert {group.writer for group in plan.work.groups} == {0}
    assert [writer.splits for writer in plan.work.writers] == [40] * 3
    assert "WHERE reinterpretAsUInt64(id) % 3 = 0" in plan.texts.example
    plan = make_plan(facts, Options(method=DISTRIBUTED))
    assert sum(writer.splits for writer in plan.work.writers) == 40
    assert "distributed_foreground_insert" in {s.name for s in plan.work.settings}


def test_the_first_error_counts() -> None:
    def fail(number: int) -> int:
        if number:
            raise ValueError(str(number))
        return number

    assert on_all(lambda n: n + 1, [1, 2]) == [2, 3]
    with pytest.raises(ValueError, match="7"):
        on_all(fail, [0, 7])
