"""Opening files whose names others know."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rowfall.core import disk

WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def test_a_new_file_is_for_this_user_alone(tmp_path: Path) -> None:
    for name, before in (("new", None), ("old", 0o644)):
        path = tmp_path / name
        if before is not None:
            path.touch()
            path.chmod(before)
        os.close(disk.open_own(path, WRITE))
        assert stat.S_IMODE(path.stat().st_mode) == (before or 0o600)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("kept")
    link.symlink_to(precious)
    with pytest.raises(OSError, match="link is a symbolic link"):
        disk.open_own(link, WRITE)
    assert precious.read_text() == "kept"
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match="link is a symbolic link"):
        disk.open_own(link, WRITE)
    assert not (tmp_path / "nowhere").exists()


def test_nothing_but_an_ordinary_file_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe is not an ordinary file"):
        disk.open_own(tmp_path / "pipe", os.O_RDWR | os.O_CREAT)
    with pytest.raises(OSError, match="No such device"):  # nobody reads it
        disk.open_own(tmp_path / "pipe", WRITE)
    with pytest.raises(IsADirectoryError):
        disk.open_own(tmp_path, WRITE)


def test_the_mode_is_that_of_the_last_folder(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        disk.make_folder(tmp_path / "a" / "b", 0o700)
        disk.make_folder(tmp_path / "c")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "c")]
    assert modes == [0o755, 0o700, 0o755]
