"""A file that the engine of a killed export begins late is removed when the export ends."""

from __future__ import annotations

from pathlib import Path

from rowfall.core.options import Options
from rowfall.destinations.files import _remove
from rowfall.ledger import Ledger
from rowfall.targets import open_target


def test_what_attempts_in_vain_have_begun(tmp_path: Path) -> None:
    target = open_target(str(tmp_path / "p.csv"), "t", Options())
    ledger = Ledger(tmp_path / "ledger")
    ledger.begin("a", "print", "source", "target", "key", "{}")
    for number, state in enumerate(("lost", "published")):
        staging = target.staging_name(f"a_{number}", 0, None)
        ledger.attempt_started(f"a_{number}", "a", staging, "key", ())
        if state == "lost":
            ledger.attempt_ended(f"a_{number}", "lost", "killed")
        else:
            ledger.attempt_committed(f"a_{number}", 1, ())
            ledger.attempt_published(f"a_{number}", "key")
        Path(staging).touch()
    for attempt, staging in ledger.ended_in_vain("a").items():
        _remove(attempt, staging)
    ledger.close()
    assert [p.name for p in tmp_path.glob(".p.csv.*")] == [".p.csv.a_1"]
