"""The record of what is loaded into a table of Iceberg: a chain of files."""

from __future__ import annotations

import pytest

from rowfall.systems.lakes import record
from rowfall.systems.lakes.record import CommittedLoad, LakeRecord, read_record, record_file


def own(name: str, *ids: str) -> CommittedLoad:
    return CommittedLoad((f"{name}_1",), ids, len(ids), "2026-01-01T00:00:00+00:00")


class Chain:
    """Files of a record, each written behind the one before it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.newest = ""

    def read(self) -> LakeRecord:
        return read_record(self.newest, self.files.__getitem__)

    def add(self, load: str, one: CommittedLoad) -> None:
        loads, before = self.read().with_load(load, one)
        self.newest = f"{len(self.files)}.json"
        self.files[self.newest] = record_file(loads, before)


def test_nothing_is_loaded_without_a_record() -> None:
    assert read_record("", {}.__getitem__) == LakeRecord()


def test_a_full_file_is_left_behind_and_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_FULL", 3)
    chain = Chain()
    for number in range(5):
        chain.add(f"load{number}", own(f"load{number}", f"a{number}", f"b{number}"))
    found = chain.read()
    assert found.ids() == {f"{letter}{number}" for letter in "ab" for number in range(5)}
    # A file takes loads until it is full: of the first two, of the next two, of the last.
    assert list(found.head) == ["load4"]
    assert [list(part) for part in found.older] == [["load2", "load3"], ["load0", "load1"]]
    assert (found.name, found.before) == ("4.json", "3.json")
    assert found.has("load0_1")
    assert not found.has("load0_2")


def test_a_load_that_commits_twice_is_one_load() -> None:
    chain = Chain()
    chain.add("load", own("load", "a", "b"))
    chain.add("load", CommittedLoad(("load_2",), ("b", "c"), 2, "2026-01-02T00:00:00+00:00"))
    (one,) = chain.read().head.values()
    assert one == CommittedLoad(
        ("load_1", "load_2"), ("a", "b", "c"), 4, "2026-01-02T00:00:00+00:00"
    )


def test_a_load_that_is_forgotten_is_in_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_FULL", 1)
    chain = Chain()
    for name, ids in (("x", "ab"), ("y", "c"), ("x", "d"), ("y", "e")):
        chain.add(name, own(name, *ids))
    kept = chain.read().without("x")
    assert list(kept) == ["y"]
    assert set(kept["y"].ids) == {"c", "e"}
