"""What the kernel says of local files that are followed."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
from pathlib import Path

import pytest

from rowfall.core.events import silent
from rowfall.stores.file_walks import FileWalk, Inotify, open_notices


@pytest.fixture
def told(tmp_path: Path) -> Inotify:
    walk = FileWalk(str(tmp_path), everything=True, version=lambda status: str(status.st_size))
    found = open_notices([walk], silent)
    assert found is not None
    return found


def test_a_file_that_somebody_writes_is_not_closed(told: Inotify, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("1")
        file.flush()
        assert not told.is_closed(str(path))
    assert told.is_closed(str(path))
    with path.open():
        assert told.is_closed(str(path))  # reading it changes nothing
    assert not told.is_closed(str(tmp_path / "none.csv"))
    told.close()


def test_a_file_that_is_written_through_a_map_is_not_closed(told: Inotify, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"0" * 4096)
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    assert not told.is_closed(str(path))
    mapped.close()
    assert told.is_closed(str(path))
    told.close()


def test_who_writes_while_it_is_asked_ends_nothing(
    told: Inotify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel sends a signal then, which by default ends the process."""
    path, asked, ended = tmp_path / "a.csv", fcntl.fcntl, list[int]()
    path.write_text("1")

    def ask(file: int, what: int, more: int) -> int:
        answer = asked(file, what, more)
        if what == fcntl.F_SETLEASE:
            with pytest.raises(BlockingIOError):
                os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        return answer

    monkeypatch.setattr(fcntl, "fcntl", ask)
    before = signal.signal(signal.SIGIO, lambda number, _: ended.append(number))
    try:
        assert told.is_closed(str(path))
    finally:
        signal.signal(signal.SIGIO, before)
    assert not ended
    told.close()
