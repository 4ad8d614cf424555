"""The record of what is loaded into a table of Iceberg: a chain of files."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import pytest

from rowfall.engines import id_files
from rowfall.engines.id_files import CommittedLoad, PlannedFile, RecordFile, file_bytes, of_loads
from rowfall.systems.lakes import record
from rowfall.systems.lakes.record import LakeRecord, RecordGoneError, read_file, read_record


def an_id(name: object) -> str:
    return blake2b(str(name).encode(), digest_size=16).hexdigest()


def own(load: str, ids: Iterable[str], at: str = "2026-01-01T00:00:00+00:00") -> CommittedLoad:
    named = tuple(ids)
    return CommittedLoad(load, (f"{load}_1",), named, len(named), at)


class Chain:
    """Files of a record, each written behind the one before it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.newest = ""
        self.written = 0

    def _read(self, name: str, ids: int | None) -> RecordFile:
        try:
            data = self.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None
        return read_file(name, ids, lambda _: data, lambda _: io.BytesIO(data))

    def read(self) -> LakeRecord:
        return read_record(self.newest, self._read)

    def name(self) -> str:
        self.written += 1
        return f"{self.written}.ids"

    def commit(self, planned: Sequence[PlannedFile]) -> None:
        for one in planned:
            self.files[one.name] = file_bytes(one)
            self.newest = one.name

    def add(self, load: str, ids: Iterable[str], at: str = "2026-01-01T00:00:00+00:00") -> None:
        self.commit(self.read().with_load(own(load, ids, at), self.name()))

    def forget(self, *loads: str) -> None:
        self.commit(self.read().without(of_loads(loads), self.name))


def test_nothing_is_loaded_without_a_record() -> None:
    found = Chain().read()
    assert (found.ids(), found.name, found.has("load_1")) == (set(), "", False)


def test_files_of_one_level_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FAN", 3)
    chain = Chain()
    for number in range(14):
        chain.add(f"load{number}", (an_id(f"a{number}"), an_id(f"b{number}")))
    found = chain.read()
    assert found.ids() == {an_id(f"{letter}{n}") for letter in "ab" for n in range(14)}
    # 14 are one of nine, one of three and two of one, the newest first.
    assert [(file.level, file.ids) for file in found.files] == [(0, 2), (0, 2), (1, 6), (2, 18)]
    assert found.has("load0_1")
    assert not found.has("load0_2")
    assert found.of_load("load3") == {an_id("a3"), an_id("b3")}


def test_an_id_is_written_a_few_times_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "FAN", 8)
    chain = Chain()
    for number in range(300):
        chain.add(f"load{number}", (an_id(f"{number} {n}") for n in range(20)))
    assert len(chain.read().files) < 3 * record.FAN
    written = sum(RecordFile("", data).ids for data in chain.files.values())
    assert 2 * 6_000 < written < 3.1 * 6_000
    assert sum(map(len, chain.files.values())) / 6_000 < 100


def test_the_record_says_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads of all sizes, some forgotten, in files that are mapped, and that are not."""
    monkeypatch.setattr(record, "FAN", 3)
    monkeypatch.setattr(record, "_MOST", 900)
    monkeypatch.setattr(record, "_FEW", 20)
    monkeypatch.setattr(record, "SMALL", 1_500)
    monkeypatch.setattr(id_files, "_SLICE", 64)
    draw, chain, known = random.Random(4), Chain(), dict[str, set[str]]()
    for number in range(80):
        load = f"load{draw.randrange(60)}"
        ids = {an_id(f"{number} {n}") for n in range(draw.choice((0, 1, 2, 40, 300)))}
        if draw.random() < 0.2:
            ids.add(f"{an_id(number)}[{number}:{number + 5}]")
        chain.add(load, ids)
        known[load] = known.get(load, set()) | ids
        if draw.random() < 0.1:
            gone = draw.choice(sorted(known))
            chain.forget(gone)
            known[gone] = set()
    found, loaded = chain.read(), set[str]().union(*known.values())
    assert found.ids() == loaded
    asked = [*loaded, *(an_id(f"none {n}") for n in range(1_000)), an_id(1), f"{an_id(1)}+load"]
    assert found.among(asked) == loaded
    assert {load: found.of_load(load) for load in known} == known
    assert any(file.ids > 20 for file in found.files)


def test_a_load_that_commits_twice_is_one_load() -> None:
    chain = Chain()
    a, b, c = map(an_id, "abc")
    chain.add("load", (a, b))
    chain.commit(
        chain.read().with_load(CommittedLoad("load", ("load_2",), (b, c), 2), chain.name())
    )
    found = chain.read()
    assert found.of_load("load") == {a, b, c}
    assert found.has("load_1")
    assert found.has("load_2")


def test_files_before_a_forgotten_load_stay_as_they_are() -> None:
    chain = Chain()
    for name in "xyzx":
        chain.add(name, (an_id(f"{name}{chain.written}"),))
    before = dict(chain.files)
    chain.forget("z")
    assert chain.read().of_load("z") == set()
    assert len(chain.read().ids()) == 3
    assert len(chain.files) == len(before) + 2  # of z, and of x behind it
    chain.forget("none")
    assert len(chain.files) == len(before) + 2


def test_what_is_older_than_asked_is_left_behind() -> None:
    def ago(days: int) -> str:
        return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")

    chain = Chain()
    for days in (40, 30, 5, 0):
        chain.add(f"load{days}", (an_id(days),), ago(days))
    planned, gone = chain.read().forgotten(20, chain.name())
    chain.commit(planned)
    assert gone == ["2.ids", "1.ids"]
    for name in gone:
        del chain.files[name]
    assert chain.read().ids() == {an_id(5), an_id(0)}
    assert chain.read().forgotten(20, "") == ([], [])
    for number in range(2 * record.FAN):
        chain.add(f"new{number}", (an_id(f"new{number}"),), ago(0))
    assert len(chain.read().ids()) == 2 + 2 * record.FAN
    planned, gone = chain.read().forgotten(-1, chain.name())
    chain.commit(planned)
    assert (chain.read().ids(), len(gone) > 1) == (set(), True)


def test_what_is_left_of_a_record_is_one_file() -> None:
    chain = Chain()
    for number in range(4):
        chain.add(f"load{number}", (an_id(number),))
    del chain.files["2.ids"]
    with pytest.raises(RecordGoneError) as caught:
        chain.read()
    assert caught.value.name == "2.ids"
    chain.commit(caught.value.left.with_load(own("load4", (an_id(4),)), chain.name()))
    assert chain.read().ids() == {an_id(2), an_id(3), an_id(4)}


def test_files_of_json_are_read_and_left_behind() -> None:
    chain = Chain()
    a, b = an_id("a"), f"{an_id('b')}[0:7]"
    for name, before, id_ in (("1.json", "", a), ("2.json", "1.json", b)):
        loads = {name: {"attempts": [f"{name}_1"], "splits": [id_], "rows": 1, "at": ""}}
        chain.files[name] = json.dumps({"before": before, "loads": loads}).encode()
    chain.newest = "2.json"
    for number in range(record.FAN):
        chain.add(f"load{number}", (an_id(number),))
    found = chain.read()
    assert {a, b} < found.ids()
    assert len(found.ids()) == 2 + record.FAN
    assert [file.name for file in found.files[-2:]] == ["2.json", "1.json"]
    assert found.has("1.json_1")
    chain.forget("1.json")
    assert a not in chain.read().ids()
    assert b in chain.read().ids()


def test_a_large_record_answers_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [an_id(n) for n in range(30_000)]
    chain = Chain()
    chain.add("load", ids[::2])
    found = chain.read()
    looks, id_at = 0, RecordFile.id_at

    def counted(file: RecordFile, index: int) -> bytes:
        nonlocal looks
        looks += 1
        return id_at(file, index)

    monkeypatch.setattr(RecordFile, "id_at", counted)
    assert found.among(ids[:1_000]) == set(ids[:1_000:2])
    assert looks < 1_000 * 20
