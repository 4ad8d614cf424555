"""What a load takes on disk: forecast, warned of where it is tight, refused where it cannot fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rowfall.contracts.facts import LoadFacts, WriterFacts
from rowfall.core.disk import free_bytes
from rowfall.core.listing import Listing
from rowfall.core.model import Column, Facts, Forecast, Schema
from rowfall.core.options import Options
from rowfall.destinations.clickhouse.folder import FolderTables
from rowfall.plan.space import with_space
from rowfall.sources.generate import Generate
from rowfall.systems.clickhouse.target import embedded

MACHINE = Facts("26.9.2.1", 4, 8 << 30)
EMPTY = Forecast(1_000, 1.0, 1 << 30, 1)


def facts_of(*free: int | None, kind: str = "embedded", per_row: float | None = 10.0) -> LoadFacts:
    writers = tuple(
        WriterFacts(MACHINE, kind, node=f"n{i}:9000" if len(free) > 1 else "", disk_free=bytes_)
        for i, bytes_ in enumerate(free, 1)
    )
    return LoadFacts(
        Generate(["generate://trips?rows=10"], Options()), embedded(Path("d"), "default", "t"),
        FolderTables(), Listing(), None, Schema((Column("a", "UInt8"),)), writers,
        stored_row_bytes=per_row,
    )  # fmt: skip


def test_rows_that_fit() -> None:
    found = with_space(EMPTY, facts_of(1_000_000), [1_000], by_key=False)
    assert found == replace(EMPTY, disk=10_000, disk_free=1_000_000)


def test_rows_that_do_not_fit() -> None:
    found = with_space(EMPTY, facts_of(9_000), [1_000], by_key=False)
    assert found.short == "the rows take about 10.0 kB on disk, and there are 9.00 kB free"


@pytest.mark.parametrize(("kind", "tight"), [("embedded", False), ("server", True)])
def test_room_for_merges(kind: str, tight: bool) -> None:
    """A server keeps merged parts while it loads: 1.8 times the rows, measured."""
    found = with_space(EMPTY, facts_of(15_000, kind=kind), [1_000], by_key=False)
    assert found.short == ""
    assert bool(found.advice) == tight


def test_each_node_has_its_own_disks() -> None:
    facts = facts_of(50_000, 5_000, kind="server")
    found = with_space(EMPTY, facts, [100, 900], by_key=False)
    assert (found.disk, found.disk_free) == (10_000, 55_000)
    assert found.short == "the rows take about 9.00 kB on disk, and n2:9000 has 5.00 kB free"
    # A key gives every node about as much, whoever reads the files.
    assert not with_space(EMPTY, facts_of(50_000, 6_000), [1_000, 0], by_key=True).short


@pytest.mark.parametrize("facts", [facts_of(None), facts_of(5, per_row=None)])
def test_what_is_not_known_refuses_nothing(facts: LoadFacts) -> None:
    found = with_space(EMPTY, facts, [1_000], by_key=False)
    assert (found.short, found.advice) == ("", ())
    assert with_space(EMPTY, facts_of(5), [None], by_key=False).short == ""


def test_free_bytes_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    there = free_bytes(tmp_path)
    assert there
    assert free_bytes(tmp_path / "a" / "b") == pytest.approx(there, rel=0.1)
