"""A data folder that a load holds is read from a copy of links, never from the folder itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowfall.core.errors import TargetError
from rowfall.core.own_files import COPIES
from rowfall.systems.clickhouse import snapshot as copies
from rowfall.systems.clickhouse.snapshot import remove_stale, snapshot

TABLE = "store/abc/abc-uuid"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    part = tmp_path / TABLE / "all_1_1_0"
    for place in (part, tmp_path / TABLE / "tmp_insert_2", tmp_path / "data/default"):
        place.mkdir(parents=True)
    (part / "data.bin").write_bytes(b"rows")
    (tmp_path / TABLE / "format_version.txt").write_text("1")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/default.sql").write_text("ATTACH DATABASE")
    (tmp_path / "data/default/t").symlink_to("../../" + TABLE)
    return tmp_path


def test_files_of_parts_are_links_and_all_else_is_copied(folder: Path) -> None:
    with snapshot(folder, lambda: 7) as copy:
        there = copy / TABLE
        assert os.path.samefile(there / "all_1_1_0/data.bin", folder / TABLE / "all_1_1_0/data.bin")
        for name in (f"{TABLE}/format_version.txt", "metadata/default.sql"):
            assert (copy / name).read_text() == (folder / name).read_text()
            assert not os.path.samefile(copy / name, folder / name)
        assert not (there / "tmp_insert_2").exists()
        assert (copy / "data/default/t").resolve() == there.resolve()
        (there / "all_1_1_0/data.bin").unlink()
    assert (folder / TABLE / "all_1_1_0/data.bin").read_bytes() == b"rows"
    assert not list(folder.glob(f"{COPIES}*"))


def test_no_copy_is_taken_while_an_attempt_becomes_visible(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PAUSE_SECONDS", 0.0)
    says = iter([None, 1, 2, 2, 2])  # one is being published; one was, during the copy; calm
    with snapshot(folder, lambda: next(says)):
        assert next(says, "asked for all") == "asked for all"
    with pytest.raises(TargetError, match="change too fast"), snapshot(folder, lambda: None):
        pass
    assert not list(folder.glob(f"{COPIES}*"))


def test_copies_of_dead_processes_are_removed(folder: Path) -> None:
    (folder / f"{COPIES}4194999-x/copy").mkdir(parents=True)  # above the highest process number
    (folder / f"{COPIES}{os.getpid()}-x").mkdir()  # of a container where this one's was another's
    (folder / f"{COPIES}{os.getppid()}-x").mkdir()
    remove_stale(folder)
    assert [p.name for p in folder.glob(f"{COPIES}*")] == [f"{COPIES}{os.getppid()}-x"]


def test_copies_of_other_containers_stay_while_they_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their processes have no number here, or that of another one."""
    monkeypatch.setattr(copies.os, "getpid", lambda: 4194999)
    with snapshot(folder, lambda: 7) as copy:
        remove_stale(folder)
        assert (copy / TABLE / "all_1_1_0/data.bin").exists()
        (left,) = folder.glob(f"{COPIES}*")
    left.mkdir()
    remove_stale(folder)
    assert not left.exists()
