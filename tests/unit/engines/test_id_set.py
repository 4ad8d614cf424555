"""A set of ids of 16 bytes."""

from __future__ import annotations

import random
import sys

from rowfall.engines.id_set import IdSet


def test_it_holds_what_a_set_holds() -> None:
    draw, ours, known = random.Random(3), IdSet(), set[bytes]()
    # Few different bytes, so that an id is found across the border of two others as well.
    ids = [bytes(draw.choices((0, 1), k=16)) for _ in range(400)]
    for _ in range(4_000):
        one = draw.choice(ids)
        if draw.random() < 0.6:
            ours.add(one)
            known.add(one)
        else:
            ours.discard(one)
            known.discard(one)
    assert set(ours) == known
    assert len(ours) == len(known)
    assert [one for one in ids if one in ours] == [one for one in ids if one in known]


def test_many_ids_take_little_memory() -> None:
    draw, ours = random.Random(3), IdSet()
    for _ in range(1 << 16):
        ours.add(b"ab" + draw.randbytes(14))
    assert sum(map(sys.getsizeof, ours._buckets.values())) / len(ours) < 17
