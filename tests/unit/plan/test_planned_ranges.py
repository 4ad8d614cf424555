"""Which files a plan loads in ranges: what the survey has found, and who parses, decide it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

import pytest

from rowfall.contracts.facts import LoadFacts, PossibleRanges, Reach, WriterFacts
from rowfall.core.errors import UsageError
from rowfall.core.listing import CUT_LEAST, Part, Split
from rowfall.core.model import Encoding, Facts, Kind, Schema
from rowfall.core.options import Options
from rowfall.destinations.clickhouse.server import ServerTables
from rowfall.plan.planner import make_plan
from rowfall.schema.types.strict_reading import strict_column
from rowfall.targets import open_target
from unit.plan.test_planner import Files

SIZE = 8 * CUT_LEAST
CSV = Encoding("CSVWithNames", "none", Kind.TEXT)
KEY = "the target's"


def facts(
    cuts: PossibleRanges, known: Collection[str] = (), program: str | None = "/p"
) -> LoadFacts:
    """Two files of text, of which the first is large, for two shards."""
    source = Files([SIZE, 10])
    listing = source.listing()
    engine = Facts("26.9.2.1", 8, 8 << 30)
    loaded = {i for i, s in enumerate(listing.splits(KEY)) if s.id in known}
    return LoadFacts(
        source, open_target("clickhouse://h/d?cluster=c", "t", Options()), ServerTables(),
        listing, CSV, Schema((strict_column("a", "a", "Int64", Kind.TEXT),)),
        tuple(WriterFacts(engine, "server", n, f"h{n}:8123") for n in (1, 2)),
        reach=Reach(False, "it cannot", source), program=program, cuts=cuts,
        loaded=frozenset(loaded), known=frozenset(known), key=KEY,
    )  # fmt: skip


def ranges() -> tuple[Split, ...]:
    split = facts(PossibleRanges()).listing.split(0, "")
    return tuple(
        replace(split, id="", size=b - a, start=a, stop=b, part=Part(SIZE, head=2))
        for a, b in pairwise((2, SIZE // 2, SIZE))
    )


def test_a_large_file_is_loaded_in_the_ranges_that_were_found() -> None:
    wanted = facts(PossibleRanges(wanted=frozenset({0}), found={0: ranges()}))
    plan = make_plan(wanted, Options())
    assert len(wanted.listing) == 2, "the facts stay as they are"
    assert len(plan.listing) == 3
    assert {i for group in plan.work.groups for i in group.indexes} == {0, 1, 2}
    assert plan.transport.ranges[0].startswith("1 file loaded in 2 ranges")


def test_what_has_loaded_of_a_file_is_not_loaded_again() -> None:
    cut = facts(PossibleRanges(begun=frozenset({0}), found={0: ranges()}))
    first = next(iter(make_plan(cut, Options()).listing.splits(KEY)))
    begun = facts(PossibleRanges(begun=frozenset({0}), found={0: ranges()}), {first.id})
    plan = make_plan(begun, Options())
    assert {i for group in plan.work.groups for i in group.indexes} == {1, 2}
    assert plan.work.loaded == 1
    assert begun.loaded_of(plan.listing) == {0}


def test_an_engine_reads_no_ranges_of_text() -> None:
    cuts = PossibleRanges(wanted=frozenset({0}), found={0: ranges()})
    plan = make_plan(facts(cuts, program=None), Options())
    assert len(plan.listing) == 2
    assert "only rowfall-decode reads ranges of text" in plan.transport.ranges[0]
    begun = PossibleRanges(begun=frozenset({0}), found={0: ranges()})
    with pytest.raises(UsageError, match="loaded in part by ranges and cannot be cut now"):
        make_plan(facts(begun, program=None), Options())


def test_a_file_without_ranges_is_kept_whole() -> None:
    cuts = PossibleRanges(wanted=frozenset({0}), found={0: "its server sends whole files only"})
    plan = make_plan(facts(cuts), Options())
    assert plan.listing is not None
    assert len(plan.listing) == 2
    assert plan.transport.ranges == (
        "1 file kept whole, so some shards may be done before others: "
        "its server sends whole files only",
    )
