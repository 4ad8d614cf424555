"""What a running load writes beside its ledger has its plan: its page and ``explain`` show it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from rowfall.core.events import LoadStarted
from rowfall.core.results import PlannedLoad, Report
from rowfall.ledger.recorder import Recorder, Running, path_of
from rowfall.run import history

PLAN = PlannedLoad(
    10, 2.0, 1 << 30, 4, None, (("delivery", "pull", "it is near"),),
    (("max_threads", "2", "all cores"),), 1, 3, 2, "CREATE TABLE t", "INSERT INTO t",
)  # fmt: skip
LOAD = "1f0c2a91"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "rowfall.ledger"


def started(ledger: Path, plan: PlannedLoad | None) -> Path:
    """A load that begins; the file beside the ledger."""
    recorder = Recorder()
    recorder.plan = None if plan is None else asdict(plan)
    Running(ledger, LOAD, recorder).hear(LoadStarted(LOAD, "a.csv", "data", "t", 1, 0, 1, 1))
    return path_of(ledger, LOAD)


def report(outcome: str) -> Report:
    return Report(LOAD, outcome, "a.csv", "data", "t", "now")


@pytest.mark.parametrize("outcome", ["running", "lost"])
def test_its_plan_is_there_before_the_end(ledger: Path, outcome: str) -> None:
    started(ledger, PLAN)
    assert history.explanation_in(ledger, report(outcome)).plan == PLAN


def test_without_a_plan_there_is_none(ledger: Path) -> None:
    started(ledger, None)
    assert history.unfinished(ledger, report("running")).plan is None


@pytest.mark.parametrize("plan", [{"rows": 1}, {**asdict(PLAN), "choices": 7}, 7, "x"])
def test_a_plan_of_another_version_is_none(ledger: Path, plan: object) -> None:
    path = started(ledger, PLAN)
    path.write_text(json.dumps({**json.loads(path.read_text()), "plan": plan}))
    assert history.unfinished(ledger, report("running")).plan is None


def test_what_only_a_newer_version_knows_is_left_out(ledger: Path) -> None:
    path = started(ledger, PLAN)
    plan = {**asdict(PLAN), "colour": "green"}
    path.write_text(json.dumps({**json.loads(path.read_text()), "plan": plan}))
    assert history.unfinished(ledger, report("running")).plan == PLAN
