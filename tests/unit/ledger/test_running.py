"""The file that says how far a load is."""

from __future__ import annotations

from pathlib import Path

from rowfall.core.events import LoadStarted
from rowfall.ledger.recorder import Recorder, Running, path_of

BEGUN = LoadStarted("1f0c2a91", "a.csv", "data", "t", 1, 0, 1, 1)


def test_what_threads_say_behind_the_end_leaves_no_file(tmp_path: Path) -> None:
    ledger = tmp_path / "rowfall.ledger"
    running = Running(ledger, BEGUN.load_id, Recorder())
    running.hear(BEGUN)
    assert path_of(ledger, BEGUN.load_id).exists()
    running.remove()  # Ctrl-C; the thread that asks for progress goes on for a moment
    running.hear(BEGUN)
    assert not list(tmp_path.iterdir())
