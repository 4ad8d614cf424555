"""What a server has read once is remembered, for what it was about, and for a while."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rowfall.deliver.proven_layouts import ProvenLayout


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path))
    return tmp_path


def test_it_is_kept_for_what_it_was_about() -> None:
    server = ["24.10.2.80", "a build", "a server"]
    assert not ProvenLayout(server, "0.1.0").known()
    ProvenLayout(server, "0.1.0").remember()
    assert ProvenLayout(server, "0.1.0").known()
    assert not ProvenLayout(["24.10.2.80", "another build", "a server"], "0.1.0").known()
    assert not ProvenLayout(server, "0.2.0").known()
    ProvenLayout(server, "0.1.0").forget()
    assert not ProvenLayout(server, "0.1.0").known()


def test_it_counts_for_thirty_days(home: Path) -> None:
    layout = ProvenLayout("a server")
    layout.remember()
    (file,) = (home / "proven-layouts").iterdir()
    old = time.time() - 31 * 86_400
    os.utime(file, (old, old))
    assert not layout.known()
    ProvenLayout("another server").remember()  # removes what counts no more
    assert not file.exists()
    layout.remember()
    assert layout.known()


def test_a_folder_that_cannot_be_written_means_a_probe_each_time(home: Path) -> None:
    (home / "proven-layouts").write_text("no folder")
    layout = ProvenLayout("a server")
    layout.remember()
    layout.forget()
    assert not layout.known()
