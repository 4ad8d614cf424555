"""A set of ids of 16 bytes that is kept in temporary files."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from rowfall.core.errors import TargetError
from rowfall.systems.kafka import id_set
from rowfall.systems.kafka.id_set import IdSet


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, runs and slices of which few ids make many."""
    monkeypatch.setattr(id_set, "_FAN", 3)
    monkeypatch.setattr(id_set, "_BLOCK", 4)
    monkeypatch.setattr(id_set, "_SLICE", 64)
    monkeypatch.setattr(id_set, "_TOGETHER", 2)
    monkeypatch.setattr(id_set, "_MOST", 200)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(3))
def test_it_holds_what_a_set_holds(seed: int) -> None:
    draw, ours, known = random.Random(seed), IdSet(), set[bytes]()
    # Few different bytes: many end with zeros, which numpy takes off.
    ids = [bytes(draw.choices((0, 1, 255), k=16)) for _ in range(200)]
    for _ in range(60):
        some = draw.choices(ids, k=draw.choice((1, 5, 40)))
        if draw.random() < 0.6:
            ours.add(b"".join(some))
            known.update(some)
        else:
            ours.discard(b"".join(some))
            known.difference_update(some)
        asked = draw.choices(ids, k=draw.choice((1, 3, 200)))
        assert ours.among(asked) == known.intersection(asked)
    assert any(run.level > 1 for run in ours._runs)
    found = list(ours)
    assert (len(found), set(found)) == (len(known), known)
    ours.discard(b"".join(ids))
    assert not ours
    assert not list(ours)
    assert not ours.among(ids)


def test_many_ids_take_no_memory() -> None:
    """What numpy holds of them is counted by nobody but the process."""
    draw, ours, known = random.Random(3), IdSet(), list[bytes]()
    for number in range(64):
        some = [draw.randbytes(16) for _ in range(1000)]
        known.append(some[0])
        ours.add(b"".join(some))
        assert sum(len(run.added._ids) for run in ours._runs) < 17 * 1000, number
    assert ours.among(known) == set(known)


def test_a_full_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    ours = IdSet()
    for number in range(15):
        ours.add(bytes([number]) * 16)
    with pytest.raises(TargetError, match=r"cannot write what is loaded into .*gone"):
        ours.add(bytes([15]) * 16)


def test_files_go_with_the_set() -> None:
    def opened() -> int:
        """Count the open files without a name; what lists them is a folder."""
        links = []
        for file in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):
                links.append(os.readlink(file))
        return sum(link.endswith("(deleted)") for link in links)

    before, ours = opened(), IdSet()
    for number in range(64):
        ours.add(bytes([number]) * 16)
    assert opened() > before
    del ours
    assert opened() == before
