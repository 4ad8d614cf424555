"""Packed ids against a set, on a database in memory, with crashes between transactions."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rowfall.engines import packed_ids
from rowfall.engines.packed_ids import PackedId, PackedIds, PackedTables

_DAY = int(time.time() // 86_400)


class Store:
    """The tables; ``crash_at`` lets that transaction from now on fail at its end."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.execute("CREATE TABLE i (place BIGINT PRIMARY KEY, ids BLOB, marks BLOB)")
        self.db.execute(
            "CREATE TABLE r (run BIGINT, target TEXT, bits INT, ids INT, oldest INT, "
            "merged_into INT, steps INT)"
        )
        self.crash_at, self.statements = -1, 0
        self.between = lambda: None

    def rows(self, text: str) -> list[tuple[object, ...]]:
        self.statements += 1
        found = self.db.execute(text).fetchall()
        if text.startswith("SELECT place, ids FROM"):
            self.between()
        return found

    def tables(self, of: str) -> PackedTables:
        return PackedTables(self.rows, "i", "r", f"'{of}'", lambda digits: f"X'{digits}'")

    def packed(self, of: str = "t") -> PackedIds:
        @contextmanager
        def alone(_: bool) -> Iterator[PackedTables]:
            self.db.execute("BEGIN")
            try:
                yield self.tables(of)
                self.crash_at -= 1
                if self.crash_at == 0:
                    raise KeyboardInterrupt
                self.db.execute("COMMIT")
            except BaseException:
                self.db.execute("ROLLBACK")
                raise

        return PackedIds(self.tables(of), lambda: True, alone)

    def add(self, packed: list[PackedId], of: str = "t") -> None:
        self.db.execute("BEGIN")
        packed_ids.add(self.tables(of), packed)
        self.db.execute("COMMIT")


@pytest.mark.parametrize("seed", range(4))
def test_what_was_packed_is_known_whatever_happens(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(packed_ids.time, "time", lambda: _DAY * 86_400.0)  # also at midnight
    monkeypatch.setattr(packed_ids, "_STEP", 3)
    monkeypatch.setattr(packed_ids, "_MOST_MEAN", draw.choice((2, 48)))
    monkeypatch.setattr(packed_ids, "_PLACES_AT_ONCE", 7)
    store, known = Store(), dict[bytes, tuple[str, int]]()
    others = [PackedId(draw.randbytes(16), "other", _DAY) for _ in range(20)]
    store.add(others, "another")
    packed = store.packed()

    def check() -> None:
        asked = [*known, *(draw.randbytes(16) for _ in range(20)), *(one.id for one in others)]
        assert packed.among(asked) == set(known)

    for step in range(40):
        load = f"load {step}"
        new = [
            PackedId(draw.randbytes(16), load, _DAY - 10 + step // 4)
            for _ in range(draw.choice((1, 30, 200)))
        ]
        store.add(new)
        known |= {one.id: (load, one.day) for one in new}
        store.crash_at = draw.choice((-1, 1, 2, 3))
        try:
            packed.merge()
        except KeyboardInterrupt:
            check()
        store.crash_at = -1
        if not step % 7:
            loads = {load, f"load {draw.randrange(40)}"}
            there = [id_ for id_, (by, _) in known.items() if by in loads]
            assert packed.forget(loads) == len(there)
            known = {id_: one for id_, one in known.items() if one[0] not in loads}
    check()
    packed.merge()
    check()
    assert len(store.tables("t").runs()) < 20
    packed.prune(5)  # too few are old enough to read all of them
    kept = packed.among(known)
    assert all(id_ in kept for id_, (_, day) in known.items() if day >= _DAY - 5)
    assert not any(id_ in kept for id_, (_, day) in known.items() if day < _DAY - 6 - 1)
    packed.remove_all()
    assert not packed.holds_any()
    assert packed.among(known) == set()
    assert store.packed("another").among(one.id for one in others) == {one.id for one in others}


def test_ids_that_move_while_they_are_looked_for_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two questions of one look-up, runs become one."""
    monkeypatch.setattr(packed_ids, "_PLACES_AT_ONCE", 1)
    store = Store()
    ids = [PackedId(bytes([number]) * 16, "l", _DAY) for number in range(8)]
    for one in ids:
        store.add([one])
    packed, moved = store.packed(), []

    def between() -> None:
        if not moved:
            moved.append(1)
            packed.merge()

    store.between = between
    # Not all are there: otherwise the first answer would do.
    assert packed.among([*(one.id for one in ids), b"x" * 16]) == {one.id for one in ids}
    assert moved


def test_an_id_costs_less_than_30_bytes_and_a_question_a_few_rows() -> None:
    store, draw = Store(), random.Random(1)
    packed = store.packed()
    for _ in range(8):
        store.add([PackedId(draw.randbytes(16), "l", _DAY) for _ in range(2_000)])
        packed.merge()
    ((size, rows),) = store.db.execute("SELECT sum(length(ids) + length(marks)), count(*) FROM i")
    assert size == 16_000 * 26
    assert rows * 70 / 16_000 < 4
    assert len(store.tables("t").runs()) <= 4


def test_buckets_are_half_full_or_more() -> None:
    for ids in (1, 48, 49, 96, 97, 1_000, 100_000_000):
        mean = ids / 2 ** packed_ids.bits_for(ids)
        assert mean <= 48
        assert mean > 24 or ids <= 48
