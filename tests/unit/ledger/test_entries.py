"""What other attempts may have added to a partition since an attempt counted it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowfall.ledger.journal import EventBlocks, JournalEntry, added
from rowfall.ledger.leases import AddedRows, StagedPartition

MOVE = StagedPartition("d", "t", "_rowfall_a_1", "p", 10, 0, 7)
# Its lines: claim 10, count 20, commit 30.
MINE = JournalEntry("a_1", "me", EventBlocks(10, 20, 30), moves=(MOVE,), nodes=("n1",))
SHARDS = {"n1": 1, "n2": 1, "n3": 2}


def other(
    counted: int, committed: int, loaded: int = 0, *, seen: int = -1, place: str = "n1",
    partition: str = "p", **lines: int,
) -> JournalEntry:  # fmt: skip
    """One of 5 rows. ``seen``: the highest block when it was counted."""
    moves = (StagedPartition("d", "t", "_rowfall_b_1", partition, 5, 0, seen),)
    blocks = EventBlocks(1, counted, committed, loaded=loaded, **lines)
    return JournalEntry("b_1", "you", blocks, moves=moves, nodes=(place,))


def with_blocks(**blocks: int) -> JournalEntry:
    return replace(MINE, blocks=replace(MINE.blocks, **blocks))


def test_a_commit_without_its_claim_does_not_bind() -> None:
    """The journal was set back in between, and nobody else knows which splits it holds."""
    assert MINE.binding
    assert not with_blocks(claimed=0).binding
    assert not with_blocks(expired=25).binding


@pytest.mark.parametrize(
    ("entry", "bounds"),
    [
        pytest.param(other(12, 14, 16), (0, 0), id="loaded before the count"),
        pytest.param(other(12, 14, 25), (0, 5), id="loaded around the count"),
        pytest.param(other(12, 14, 25, seen=7), (5, 5), id="loaded above the blocks counted"),
        pytest.param(other(12, 35, 40), (5, 5), id="committed later"),
        pytest.param(other(12, 14), (0, 5), id="not known to are loaded"),
        pytest.param(other(12, 14, expired=13), (0, 0), id="expired before its commit"),
        pytest.param(other(12, 0), (0, 0), id="not committed"),
        pytest.param(other(12, 35, 40, partition="q"), (0, 0), id="another partition"),
        pytest.param(other(12, 35, 40, place="n3"), (0, 0), id="another shard"),
        # It may be seen here later, or not yet; or that replica has a table of its own.
        pytest.param(other(4, 5, 8, place="n2"), (0, 0), id="another replica, long ago"),
        pytest.param(other(12, 14, 16, place="n2"), (0, 5), id="another replica, then"),
        pytest.param(other(12, 35, 40, place="n2"), (0, 5), id="another replica, later"),
        pytest.param(other(12, 35, 40, place="n4"), (0, 5), id="a node that is not known"),
    ],
)
def test_bounds_of_what_was_added(entry: JournalEntry, bounds: tuple[int, int]) -> None:
    found = added(MINE, [entry], MOVE, "n1", SHARDS)
    assert (found.least, found.most) == bounds
    found = added(MINE, [entry, other(12, 35, 40)], MOVE, "n1", SHARDS)
    assert (found.least, found.most) == (bounds[0] + 5, bounds[1] + 5)


def test_what_is_loaded_came_as_a_whole() -> None:
    """Before the count or since; of what may be on its way a part may be there."""
    found = added(MINE, [other(12, 14, 25), other(12, 14), other(12, 35, 40)], MOVE, "n1", SHARDS)
    assert found == AddedRows(5, (5,), 5)


@pytest.mark.parametrize(
    ("found", "may_be"),
    [
        (AddedRows(), {0}),
        (AddedRows(3, (2,)), {3, 5}),
        (AddedRows(0, (2, 5)), {0, 2, 5, 7}),
        (AddedRows(0, (5,), 1), {0, 1, 5, 6}),
        # Of more attempts it is not tried which may make a sum.
        (AddedRows(1, tuple(2 << n for n in range(10))), {*range(1, 2048, 2)}),
        (AddedRows(1, tuple(2 << n for n in range(11))), {*range(1, 4096)}),
    ],
)
def test_numbers_of_rows_that_others_make(found: AddedRows, may_be: set[int]) -> None:
    assert {n for n in range(5000) if found.may_be(n)} == may_be


def test_of_an_attempt_on_several_nodes_each_has_its_own_part() -> None:
    moves = tuple(
        StagedPartition("d", "t", "_rowfall_b_1", "p", rows, 0, 7, node=place)
        for place, rows in (("n1", 5), ("n2", 6), ("n3", 7))
    )
    spread = JournalEntry("b_1", "you", EventBlocks(1, 12, 35, loaded=40), moves=moves,
                          nodes=("n1", "n2", "n3"))  # fmt: skip
    for place, rows in (("n1", 5), ("n2", 6), ("n3", 7)):
        mine = replace(MINE, nodes=("n1", "n2", "n3"), moves=moves)
        assert added(mine, [spread], MOVE, place, SHARDS) == AddedRows(rows)


def test_without_a_line_of_its_count_it_may_have_been_made_since_the_claim() -> None:
    """Journals of before there was one."""
    old = with_blocks(counted=0)
    assert added(old, [other(2, 4, 8)], MOVE, "n1", SHARDS) == AddedRows()
    assert added(old, [other(2, 4, 15)], MOVE, "n1", SHARDS) == AddedRows(0, (5,))
