"""Times of files, by which one that was linked is known."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rowfall.core import disk


def test_a_link_changes_the_time_for_good(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("rows")
    noted = disk.changed_at(file)
    assert disk.is_past(noted)
    assert disk.changed_at(file) == noted
    (tmp_path / "folder").mkdir()
    file.rename(file := tmp_path / "folder" / "a")
    (tmp_path / "folder").rename(tmp_path / "other")
    file = tmp_path / "other" / "a"
    noted = disk.changed_at(file)
    assert disk.is_past(noted)
    (tmp_path / "other").rename(tmp_path / "folder")  # as a part gets its name
    file = tmp_path / "folder" / "a"
    assert disk.changed_at(file) == noted
    os.link(file, tmp_path / "link")
    (tmp_path / "link").unlink()
    assert disk.changed_at(file) > noted


def test_a_file_that_is_not_there_has_no_time(tmp_path: Path) -> None:
    assert disk.changed_at(tmp_path / "none") == 0


def test_a_moment_that_does_not_come_is_not_past() -> None:
    assert not disk.is_past(time.time_ns() + 10**12)
