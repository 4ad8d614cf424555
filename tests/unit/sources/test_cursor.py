"""A column that is followed: what comes late within the overlap is loaded, and nothing twice."""

from __future__ import annotations

import itertools
import random
import sqlite3
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowfall.core.errors import UsageError
from rowfall.core.listing import joined
from rowfall.core.options import Options
from rowfall.sources.cursor import (
    MOST_LATE,
    STEPS,
    Cursor,
    CursorKey,
    CursorKeyColumn,
    CursorSql,
    Overlap,
    late,
)
from rowfall.sources.key_ranges import END, KeyKind, SourceColumn


def cursor(overlap: str = "10", type_: str = "Int64", *, values: bool = False) -> Cursor:
    column = SourceColumn("v", type_, "bigint of the database", "v")
    found = Cursor(column, CursorSql("v", values=values), Options(cursor_overlap=overlap), "t")
    found.keys = (CursorKeyColumn("id", "Int32", "id", "id", number=True),)
    return found


class World:
    """A table whose rows are committed late, and a target that remembers ranges."""

    def __init__(self, seed: int, overlap: int, values: bool) -> None:
        self.draw, self.overlap, self.values = random.Random(seed), overlap, values
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE TABLE t (id INTEGER, v INTEGER)")
        self.loaded: list[tuple[int, int]] = []
        self.target: list[tuple[int, int]] = []
        self.next_id = self.seen = 0

    def commit(self, seen: int) -> None:
        """Commit rows: behind the highest value, at it, or below it, less than the overlap."""
        ((high,),) = self.db.execute("SELECT coalesce(max(v), 10) FROM t")
        low = max(seen - self.overlap, 1) if seen else high
        for _ in range(self.draw.randint(0, 4)):
            self.next_id += 1
            value = self.draw.randint(low, max(low, high + self.draw.choice((0, 0, 3))))
            self.db.execute("INSERT INTO t VALUES (?, ?)", (self.next_id, value))

    def run(self, *, whole: bool) -> None:
        """Load; a run that is killed has committed some of its ranges, in any order."""
        one = cursor(str(self.overlap), values=self.values)
        one.take(next(iter(self.db.execute("SELECT max(v) FROM t")))[0])
        self.seen = one.highest or 0
        pieces = joined(self.loaded)
        if pieces:
            assert not one.went_back(pieces[-1][1])
        for overlap in one.overlaps(pieces):
            stored = {(str(i), v) for i, v in self.target if v >= overlap.low - STEPS}
            settled = one.settled(overlap, stored)
            rows = one.rows(self.db.execute(one.question("t", settled)).fetchall())
            one.read_late(late(settled, one.key.step, rows, stored))
        end = one.end
        bounds = sorted({0, end, *(self.draw.randint(1, max(1, end - 1)) for _ in range(3))})
        ranges = [(a, b) for a, b in itertools.pairwise(bounds) if end]
        left = one.rest(ranges, pieces)
        self.draw.shuffle(left)
        for number, (start, stop) in enumerate(left):
            if not whole and number >= len(left) // 2:
                break
            if not whole and self.draw.random() < 0.5:
                self.commit(0)  # the range is read in a later snapshot
            where = one.condition(start, stop) or "true"
            found = self.db.execute(f"SELECT id, v FROM t WHERE {where}").fetchall()
            self.target += found
            self.loaded.append((start, stop))
        assert len(joined(self.loaded)) <= 1 or not whole


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 40), st.sampled_from([0, 1, 5, 40]), st.booleans())
def test_each_row_is_loaded_once(seed: int, overlap: int, values: bool) -> None:
    world = World(seed, overlap, values)
    for _ in range(world.draw.randint(2, 12)):
        world.commit(world.seen if world.draw.random() < 0.7 else 0)
        world.run(whole=world.draw.random() < 0.6)
        if len(joined(world.loaded)) > 1:  # the same command again, before more comes
            world.run(whole=True)
    world.run(whole=True)
    wanted = world.db.execute("SELECT id, v FROM t ORDER BY id").fetchall()
    assert sorted(world.target) == wanted


KEYS = {
    KeyKind.INTEGER: CursorKey("v", "v", KeyKind.INTEGER),
    KeyKind.DECIMAL: CursorKey("v", "v", KeyKind.DECIMAL, scale=2),
    KeyKind.TEXT: CursorKey("v", "v", KeyKind.TEXT),
}


@given(st.text(max_size=12), st.text(max_size=12))
def test_numbers_of_texts_are_in_the_order_of_their_bytes(one: str, other: str) -> None:
    key = KEYS[KeyKind.TEXT]
    a, b = sorted((one, other), key=str.encode)
    numbers = [n if (n := key.number(t)) is not None else 0 for t in (a, b)]
    assert numbers[0] <= numbers[1]
    for text, number in zip((a, b), numbers, strict=True):
        if text.isascii() and "\0" not in text:
            assert key.plain(number).encode() <= text.encode() < key.plain(number + 1).encode() or (
                number + 1 >= END
            )


@pytest.mark.parametrize(
    ("kind", "value", "number"),
    [
        (KeyKind.INTEGER, 7, 7), (KeyKind.INTEGER, 0, None), (KeyKind.DECIMAL, "2.50", 250),
        (KeyKind.DECIMAL, "NaN", None), (KeyKind.TEXT, "", None),
    ],
)  # fmt: skip
def test_numbers(kind: KeyKind, value: object, number: int | None) -> None:
    assert KEYS[kind].number(value) == number
    if number:
        assert KEYS[kind].number(KEYS[kind].plain(number)) == number


def test_days_are_followed_by_days() -> None:
    """Late rows alone move the end by a microsecond, which is no day."""
    found = cursor("1d", "Date32")
    found.take("2024-01-10")
    day = int((datetime(2024, 1, 10) - datetime(1970, 1, 1)) / timedelta(microseconds=1))
    assert found.last(found.end + 3) == day
    (overlap,) = found.overlaps([(0, found.end + 3)])
    assert found.key.plain(overlap.low) == str(date(2024, 1, 9))
    assert found.condition(found.end + 3, found.end + 3 * found.key.step) == (
        "v >= '2024-01-11' AND v < '2024-01-14'"
    )


def test_what_a_long_transaction_brings_is_named_by_ranges() -> None:
    rows = [(str(i), 50) for i in range(MOST_LATE * 2)]
    found = late(Overlap(40, 60), 1, [*rows, ("x", 45), ("y", 45)], {("x", 45)})
    assert found.count == len(rows) + 1
    assert found.runs == ((50, 51),)
    assert found.rows == (("y", 45),)
    one = cursor()
    with pytest.raises(UsageError, match="more than 100,000 rows that are not loaded lie among"):
        one.read_late(late(Overlap(40, 60), 1, [*rows, ("a", 50)], {("a", 50)}))
    with pytest.raises(UsageError, match=r"more than 1,000,000 rows lie in the overlap of 10"):
        list(one.rows(("1", 5) for _ in range(1_000_001)))
