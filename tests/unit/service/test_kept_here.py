"""What a pipeline keeps on this machine: marks of files, the lock of its watcher, its unit."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.core.results import Failure
from rowfall.ledger.pipeline_log import LocalLog, LogLine
from rowfall.project import NamedLoad
from rowfall.service import background, systemd
from rowfall.service.file_marks import FileMarks
from rowfall.service.pipeline import Pipeline, open_pipeline


class SlowLog(LocalLog):
    """A log whose lines arrive when the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "p")
        self.slow, self.read, self.arrive = False, threading.Event(), threading.Event()

    def lines(self, *, files: bool = False) -> list[LogLine]:
        found = super().lines(files=files)
        if self.slow:
            self.read.set()
            self.arrive.wait(10)
        return found


def test_a_mark_is_not_lost_to_an_older_reading_of_the_log(tmp_path: Path) -> None:
    log = SlowLog(tmp_path / "log.sqlite")
    marks = FileMarks(log)
    log.slow = True
    reader = threading.Thread(target=marks.read)
    reader.start()
    assert log.read.wait(10)
    failure = Failure("a.csv", "does not fit", None)
    marker = threading.Thread(target=marks.add, args=(failure, "a.csv", "1"))
    marker.start()
    marker.join(0.2)  # without a lock the mark is there by now
    log.arrive.set()
    reader.join()
    marker.join()
    assert set(marks.failed) == {"a.csv"}
    assert not marks.takes("a.csv", "1")


def pipeline(folder: Path) -> Pipeline:
    path = folder / "rowfall.toml"
    return open_pipeline(
        NamedLoad("p", path, ("in/*.csv",), "/data", "t", None, Options(follow=True))
    )


def test_a_look_at_the_lock_keeps_no_watcher_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path))
    asked = pipeline(tmp_path)
    asked.files.parent.mkdir()
    with Path(f"{asked.files}.lock").open("w") as look:
        fcntl.flock(look, fcntl.LOCK_EX)
        threading.Timer(0.1, lambda: fcntl.flock(look, fcntl.LOCK_UN)).start()
        with background.as_background(asked, "2026-01-01T00:00:00+00:00"):
            assert background.running(asked) is not None
            # One that has begun is waited for by nobody: it would take the place when that stops.
            monkeypatch.setattr(background, "_LOOKED_SECONDS", 3600.0)
            with (
                pytest.raises(UsageError, match="runs already"),
                background.as_background(asked, ""),
            ):
                pass
    assert background.running(asked) is None


@pytest.mark.parametrize("name", ["plain", "a b", "50%", "$x", 'q"q', "it's"])
def test_a_unit_has_any_path(tmp_path: Path, name: str) -> None:
    lines = systemd.unit(pipeline(tmp_path / name)).splitlines()
    # systemd.exec: such a value is a path to the end of its line, quotes would be part of it.
    path = f"{tmp_path}/{name}".replace("%", "%%")
    assert f"WorkingDirectory={path}" in lines
    assert f"EnvironmentFile=-{path}/p.env" in lines


@pytest.mark.parametrize("name", ["a\nb", "a ", "a\\"])
def test_a_unit_refuses_a_path_that_systemd_cannot_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot stand in a unit"):
        systemd.unit(pipeline(tmp_path / name))
