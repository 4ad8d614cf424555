"""Somebody detaches a partition and attaches it again between a crash and the next run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Survived
from faults.test_embedded_steps import STEPPER
from lab.process import wait_until
from rowfall.core.model import Statement
from rowfall.core.sqltext import SqlText
from rowfall.systems.clickhouse.embedded import Embedded

KILL = "kill -9 both"
LOAD = ("load", "in.csv", "--table", "t")
# A merge takes the UUID of a part, ATTACH its level and block number: it looks like any INSERT.
DEED = (
    "ALTER TABLE t MODIFY SETTING old_parts_lifetime = 0, cleanup_delay_period = 0, "
    "max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0",
    "DETACH TABLE t",
    "ATTACH TABLE t",
    "OPTIMIZE TABLE t FINAL",
    "ALTER TABLE t DETACH PARTITION tuple()",
    "ALTER TABLE t ATTACH PARTITION tuple()",
)


def stepped(rowfall: Any, steps: Path, number: int, side: str) -> None:
    process = rowfall.start(
        *LOAD, program=[sys.executable, str(STEPPER), str(steps), str(number), side, KILL]
    )
    process.communicate(timeout=60)


@pytest.mark.parametrize("side", [pytest.param("before", marks=pytest.mark.long), "after"])
def test_people_detach_and_attach_after_a_crash(
    rowfall: Any, tmp_path: Path, survived: Survived, side: str
) -> None:
    """A run that was killed before its ATTACH goes on; after it, the user says what is true."""
    rows = "".join(f"{number},n{number}\n" for number in range(1000))
    (rowfall.cwd / "in.csv").write_text(f"id,name\n{rows}")
    data, steps = rowfall.cwd / "rowfall-data", tmp_path / "steps"
    stepped(rowfall, steps, 0, "before")
    taken = steps.read_text().splitlines()
    number = next(int(x.split()[0]) for x in taken if "ATTACH PARTITION ALL" in x)
    data.rename(tmp_path / "whole")
    stepped(rowfall, steps, number, side)
    assert steps.with_suffix(".met").exists()
    engine = Embedded(data, memory=1 << 30)
    for text in DEED:
        engine.run(Statement(SqlText.of(text)))
    outdated = "SELECT count() FROM system.parts WHERE table = 't' AND NOT active"
    wait_until(lambda: engine.ask(outdated) == [[0]], 60, "outdated parts are cleared away")
    engine.close()
    done = rowfall.inside(*LOAD)
    if side == "after":
        assert done.returncode == 3, done.stderr
        assert "was changed after a load was interrupted" in done.stderr
        assert "--loaded all" in done.stderr
        done = rowfall.inside(*LOAD, "--loaded", "all")
        assert "changes nothing" not in done.stderr
    assert done.returncode == 0, done.stderr
    found = rowfall.inside(
        "query", "SELECT count(), uniqExact(id), (SELECT count() FROM system.tables WHERE "
        "startsWith(name, '_rowfall_')) FROM t", "--format", "TSV",
    )  # fmt: skip
    assert found.stdout.split() == ["1000", "1000", "0"]
    survived("people detach and attach a partition")
