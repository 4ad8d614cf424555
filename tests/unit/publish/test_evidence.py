"""What a partition of the target shows of parts that it does not list, and what is concluded."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from rowfall.ledger.leases import AddedRows, StagedPartition
from rowfall.publish.evidence import NO_UUID, Listed, Partition, sums_up
from rowfall.publish.protocol import Evidence, Traces, judge

OURS, OTHERS = (f"{n:08x}-0000-4000-8000-000000000000" for n in (1, 2))


def part(
    first: int, last: int = 0, rows: int = 10, *, level: int = 0, active: bool = True,
    uuid: str = NO_UUID, version: int = 0,
) -> Listed:  # fmt: skip
    last = last or first
    name = f"p_{first}_{last}_{level}"
    return Listed(
        name, first, last, active, rows, level, version or first, uuid, "MergeTree"
    )  # fmt: skip


def partition(*parts: Listed, before: int = 10, highest: int = 3) -> Partition:
    """One that held ``before`` rows up to a block when it was counted."""
    move = StagedPartition("d", "t", "_rowfall_a", "p", 5, before, highest)
    return Partition(move, parts, frozenset({OURS}))


OLD = part(3)


@pytest.mark.parametrize(
    ("parts", "traces"),
    [
        pytest.param((OLD,), "", id="as it was"),
        pytest.param((OLD, part(4, uuid=OTHERS)), "", id="another attempt has come"),
        pytest.param((OLD, part(4)), "unexplained", id="an INSERT of others, or ATTACH PART"),
        pytest.param((part(3, 4, 20, level=1),), "unlisted", id="merged with a part not listed"),
        pytest.param(
            (part(3, 4, 20, level=1), part(3, active=False), part(4, uuid=OTHERS, active=False)),
            "",
            id="merged with a part of another attempt",
        ),
        pytest.param(
            (part(3, 4, 20, level=1), part(3, active=False), part(4, uuid=OURS, active=False)),
            "unlisted",
            id="merged with a part of ours, which proves nothing about the others",
        ),
        pytest.param((part(4, 4, 0, level=1), OLD), "removed unlisted", id="something was dropped"),
        pytest.param((part(4),), "removed unexplained", id="nothing is left of what it held"),
        pytest.param((), "removed unexplained", id="nothing is left"),
        pytest.param(
            (part(3, rows=15),), "unexplained", id="more rows in an old block: renumbered"
        ),
        pytest.param((part(3, rows=5),), "unexplained", id="fewer rows in an old block"),
        pytest.param((part(3, rows=10, version=9),), "", id="mutated"),
    ],
)
def test_traces(parts: tuple[Listed, ...], traces: str) -> None:
    found = partition(*parts)
    seen = {
        "removed": bool(found.removed),
        "unlisted": found.has_unlisted_blocks,
        "unexplained": found.has_unexplained_rows,
    }
    assert {name for name, there in seen.items() if there} == set(traces.split())


@pytest.mark.parametrize(
    ("others", "added", "ours"),
    [
        (AddedRows(), 0, False),
        (AddedRows(), 1, True),
        (AddedRows(), 5, None),
        # Two rows came before the count or since, and ours is one: 2 is a sum of theirs alone.
        (AddedRows(0, (2,)), 2, False),
        (AddedRows(0, (2,)), 3, True),
        (AddedRows(0, (1,)), 1, None),
        (AddedRows(0, (), 2), 1, None),
        (AddedRows(0, (), 2), 3, True),
    ],
)
def test_a_sum_says_whether_a_row_is_in_it(others: AddedRows, added: int, ours: bool) -> None:
    assert sums_up(partition(OLD), others, added, 1) is ours
    united = partition(replace(OLD, engine="ReplacingMergeTree"))
    assert sums_up(united, others, added, 1) is (True if added == others.most + 1 else None)


def test_an_empty_partition_has_nothing_to_lose() -> None:
    assert not partition(before=0, highest=-1).removed
    assert not partition(before=0, highest=-1).has_unexplained_rows


def test_only_parts_that_cannot_hold_the_rows_are_not_searched() -> None:
    merged = part(4, 6, 20, level=1)
    found = partition(OLD, merged, part(7, uuid=OTHERS), part(8), part(9, uuid=OURS))
    assert found.unrelated_parts == ["p_3_3_0", "p_7_7_0"]
    assert partition(part(3, rows=15)).unrelated_parts == []


def test_rows_that_came() -> None:
    """Plain inserts do not count, whether they are merged by now or not."""
    assert partition(OLD, part(4), part(5, uuid=OTHERS)).rows_added == 10
    merged = (part(3, 5, 30, level=1), part(3, active=False), part(4, active=False))
    assert partition(*merged).rows_added == 10


# --- conclusions ----------------------------------------------------------------------------------

TRUTHS = (True, False, None)


def test_nothing_is_concluded_from_one_witness_against_another() -> None:
    cases = itertools.product((True, False), (True, False), TRUTHS, TRUTHS)
    for hidden, unexplained, counted, found in cases:
        got = judge(Traces(False, hidden, unexplained, counted, found))
        if not hidden and not unexplained:
            assert got is Evidence.NO_PARTS
        elif got is Evidence.ALL_PARTS:
            assert (counted, found) == (True, True)
        elif got is Evidence.NO_PARTS:
            assert found is False
            assert counted is False or not hidden


def test_what_was_taken_out_is_never_judged() -> None:
    for hidden, counted, found in itertools.product((True, False), TRUTHS, TRUTHS):
        traces = Traces(True, hidden, False, counted, found, logged=True)
        assert judge(traces) is Evidence.UNDECIDED


def test_the_log_is_believed_where_the_rows_are() -> None:
    assert judge(Traces(has_unlisted_blocks=True, found=True, logged=True)) is Evidence.ALL_PARTS
    assert judge(Traces(has_unlisted_blocks=True, found=False, logged=True)) is Evidence.UNDECIDED
    assert judge(Traces(has_unexplained_rows=True, found=True)) is Evidence.UNDECIDED
