"""The beginning of an object is read once, whoever asks for a part of it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from rowfall.core.errors import SourceError
from rowfall.core.listing import Split
from rowfall.stores.first_bytes import AHEAD, HEAD
from rowfall.stores.objects import MOST_KEPT, FirstBytesCache


class Store:
    """Objects in memory; ``asked`` are the ranges that were read."""

    def __init__(self, **objects: bytes) -> None:
        self.objects = objects
        self.asked: list[tuple[str, int, int]] = []

    def read(self, split: Split, start: int, length: int) -> bytes:
        self.asked.append((split.uri, start, length))
        if split.uri not in self.objects:
            raise SourceError(f"cannot read {split.uri}")
        return self.objects[split.uri][start : start + length]

    def split(self, name: str, version: str = "1", *, sized: bool = True) -> Split:
        return Split(name, name, version, len(self.objects.get(name, b"x")) if sized else None)


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("size", [1, 500, HEAD - 1, HEAD, HEAD + 1, AHEAD, AHEAD + 1, 3 * AHEAD])
def test_every_part_is_that_of_the_object(size: int, sized: bool) -> None:
    data = random.Random(size).randbytes(size)
    store = Store(a=data)
    heads, chance = FirstBytesCache(store.read), random.Random(7)
    for _ in range(200):
        start = chance.choice((0, 0, chance.randrange(size), chance.randrange(size + 10)))
        length = chance.choice((1, 16, HEAD, AHEAD, chance.randrange(1, 2 * size + 2)))
        found = heads.part(store.split("a", sized=sized), start, length)
        assert found == data[start : start + length]


def test_a_small_object_is_read_once() -> None:
    store = Store(a=b"id,name\n1,a\n")
    heads = FirstBytesCache(store.read)
    for start, length in ((0, AHEAD), (0, 5), (3, 4), (11, 1), (0, HEAD), (12, 5)):
        heads.part(store.split("a"), start, length)
    assert store.asked == [("a", 0, 12)]


def test_what_was_read_ahead_serves_all_smaller_parts() -> None:
    store = Store(a=bytes(1 << 20))
    heads = FirstBytesCache(store.read)
    for length in (AHEAD, HEAD, AHEAD // 3, 4096):
        heads.part(store.split("a"), 0, length)
    assert store.asked == [("a", 0, AHEAD)]
    heads.part(store.split("a"), 1 << 19, 10)  # the middle is none of it
    assert store.asked[1:] == [("a", 1 << 19, 10)]


def test_another_version_is_read_anew_and_so_is_one_without_a_version() -> None:
    store = Store(a=b"one")
    heads = FirstBytesCache(store.read)
    assert heads.part(store.split("a"), 0, 3) == b"one"
    store.objects["a"] = b"two"
    assert heads.part(store.split("a", "2"), 0, 3) == b"two"
    assert heads.part(store.split("a", ""), 0, 3) == b"two"
    store.objects["a"] = b"six"
    assert heads.part(store.split("a", ""), 0, 3) == b"six"


def test_neither_errors_nor_nothing_are_kept() -> None:
    """A store that is away may come back; one without ranges says so with no bytes."""
    store = Store()
    heads = FirstBytesCache(store.read)
    with pytest.raises(SourceError):
        heads.part(store.split("a"), 0, 3)
    store.objects["a"] = b""
    whole = Split("a", "a", "1", None)
    assert heads.part(whole, 0, 3) == b""
    store.objects["a"] = b"one"
    assert heads.part(whole, 0, 3) == b"one"


def test_memory_is_bounded_however_many_objects_there_are() -> None:
    store = Store(**{f"a{n}": bytes(HEAD) for n in range(300)})
    heads = FirstBytesCache(store.read)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: heads.part(store.split(f"a{n}"), 0, HEAD), range(300)))
    kept = [len(data) for data, _ in heads._known.values()]
    assert sum(kept) == heads._size <= MOST_KEPT
