"""Loads and the disk: a forecast in the plan, and no byte of what cannot fit."""

from __future__ import annotations

import pytest

from e2e.tools import Shell
from rowfall.plan import space

TAXI = "generate://taxi?rows=200_000"


def test_the_forecast_is_near_what_the_rows_take(shell: Shell) -> None:
    plan = shell.ok("plan", TAXI, "--json").document["forecast"]
    assert plan["disk_free"] > plan["disk"]
    shell.ok("load", TAXI)
    sizes = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'taxi'"
    taken = int(shell.ok("query", sizes, "--format", "TSV").out)
    assert taken / 1.5 < plan["disk"] < taken * 1.5
    # The rows that are there say what the next ones take.
    again = shell.ok("plan", f"{TAXI}&seed=2", "--json").document["forecast"]
    assert again["disk"] == pytest.approx(taken, rel=0.02)


def test_what_cannot_fit_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "free_bytes", lambda folder: 100_000)
    refused = shell.ends(5, "load", TAXI)
    assert "the load does not fit: the rows take about" in refused.talk
    assert "100 kB free" in refused.talk
    assert "--no-space-check" in refused.talk
    assert shell.ok("status").out.count("\n") <= 1  # nothing to resume
    planned = " ".join(shell.ok("plan", TAXI).out.split())
    assert "It would fail: the load does not fit" in planned
    shell.ok("load", TAXI, "--no-space-check")
