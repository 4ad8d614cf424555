"""Cutting Parquet files: whole row groups, all rows once, and only where a column allows it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.listing import Part, Split
from rowfall.core.model import Column
from rowfall.plan.cutting import RowGroup, RowGroups, read_footer, row_ranges

MB = 1 << 20
FILE = Split("", "/data/a.parquet", "1-1", 100 * MB)
ID = ["id", "INT64", "None", 0]


def footer_of(
    *bounds: tuple[object, object], column: Column | None = None, told: list[object] | None = None,
    nulls: object = None, rows: int = 10,
) -> RowGroups:  # fmt: skip
    column = column or Column("id", "Int64", read_type="Int64")
    told = told or ID
    groups = [
        [rows, 10 * MB, [[told[0], True, nulls, None if low is None else str(low), str(high)]]]
        for low, high in bounds
    ]
    return read_footer([[told], groups], [column])


def cut(known: RowGroups, step: int = 8 * MB) -> list[tuple[int | None, int | None, str, str]]:
    found = row_ranges(FILE, known, step)
    assert isinstance(found, list), found
    told = [s.part or Part(0) for s in found]
    assert {p.size for p in told} == {FILE.size}
    return [(s.start, s.stop, p.low, p.high) for s, p in zip(found, told, strict=True)]


def test_a_sorted_file_is_cut_between_its_row_groups() -> None:
    known = footer_of((0, 9), (10, 19), (20, 29))
    assert cut(known) == [(0, 10, "", "10"), (10, 20, "10", "20"), (20, 30, "20", "")]
    assert [s.rows for s in row_ranges(FILE, known, 8 * MB) if isinstance(s, Split)] == [10, 10, 10]


def test_small_row_groups_are_loaded_together() -> None:
    known = footer_of(*((10 * n, 10 * n + 9) for n in range(8)))
    assert cut(known, 32 * MB) == [
        (0, 40, "", "40"), (40, 70, "40", "70"), (70, 80, "70", ""),
    ]  # fmt: skip


@pytest.mark.parametrize("bounds", [
    ((0, 10), (10, 19)),  # 10 is in both
    ((10, 19), (0, 9)),
    ((0, 9), (None, "19")),
    ((0, 9), (-20, -10)),
])  # fmt: skip
def test_what_no_column_keeps_apart_stays_whole(bounds: tuple[tuple[object, object], ...]) -> None:
    assert "no column keeps" in str(row_ranges(FILE, footer_of(*bounds), 8 * MB))


def test_one_row_group_is_not_cut() -> None:
    assert "one row group" in str(row_ranges(FILE, footer_of((0, 9)), 8 * MB))


def test_nulls_have_no_place() -> None:
    nullable = ["id", "INT64", "None", 1]
    rows = ((0, 9), (10, 19))
    assert len(cut(footer_of(*rows, told=nullable, nulls=0))) == 2
    for nulls in (None, 1):
        assert isinstance(
            row_ranges(FILE, footer_of(*rows, told=nullable, nulls=nulls), 8 * MB), str
        )


def test_unsigned_numbers_from_2_63_on_are_not_trusted() -> None:
    unsigned = ["id", "INT64", "Int(bitWidth=64, isSigned=false)", 0]
    column = Column("id", "UInt64", read_type="UInt64")
    assert len(cut(footer_of((0, 9), (10, 19), told=unsigned, column=column))) == 2
    low = footer_of((-9, -5), (-4, -1), told=unsigned, column=column)
    assert isinstance(row_ranges(FILE, low, 8 * MB), str)


@pytest.mark.parametrize(("read", "low", "text"), [
    ("DateTime64(6, 'UTC')", 1_500_000, "fromUnixTimestamp64Micro(1500000)"),
    ("Nullable(DateTime64(3))", 1_500_000, "fromUnixTimestamp64Micro(1500000)"),
    ("DateTime64(3)", 1_500_001, ""),  # it would be read as 1.500
    ("DateTime", 1_500_000, ""),
    ("DateTime", 2_000_000, "fromUnixTimestamp64Micro(2000000)"),
    ("String", 2_000_000, ""),
])  # fmt: skip
def test_times_are_cut_where_they_are_not_rounded(read: str, low: int, text: str) -> None:
    told: list[object] = ["t", "INT64", "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds)", 0]
    known = footer_of((0, 9), (low, low + 1), told=told, column=Column("t", read, read_type=read))
    found = row_ranges(FILE, known, 8 * MB)
    if text:
        assert [low for _, _, low, _ in cut(known)] == ["", text]
    else:
        assert isinstance(found, str)


@given(
    sizes=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40 * MB)), min_size=1, max_size=40),
    step=st.sampled_from([4 * MB, 16 * MB, 64 * MB]),
)
def test_ranges_hold_every_row_once(sizes: list[tuple[int, int]], step: int) -> None:
    groups, at = [], 0
    for rows, size in sizes:
        groups.append(RowGroup(rows, size, {"id": (at, at + rows - 1) if rows else None}))
        at += rows
    known = footer_of((0, 9))
    found = row_ranges(FILE, RowGroups(known.columns, tuple(groups)), step)
    if isinstance(found, str):
        return
    edges = [(s.start or 0, s.stop or 0) for s in found]
    assert edges[0][0] == 0
    assert edges[-1][1] == at
    assert all(one[1] == two[0] for one, two in pairwise(edges))
    told = [s.part or Part(0) for s in found]
    assert (told[0].low, told[-1].high) == ("", "")
    assert all(one.high == two.low != "" for one, two in pairwise(told))
    assert sum(s.size or 0 for s in found) == sum(size for _, size in sizes)
