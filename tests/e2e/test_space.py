"""Loads and the disk: a forecast in the plan, and no byte of what cannot fit."""

from __future__ import annotations

import pytest

from e2e import tools
from e2e.tools import Shell
from rowfall.core import disk

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


def test_rows_of_few_values_take_no_less_than_they_can(shell: Shell) -> None:
    """LZ4 has an end: they were foretold as a fraction of what they took."""
    made = "SELECT number % 7 AS k, intDiv(number, 1000000) AS v, number % 2 AS f FROM numbers({})"
    shell.write("few.csv", tools.made(made.format(2_000_000), "CSVWithNames"))
    plan = shell.ok("plan", "few.csv", "--json").document["forecast"]
    shell.ok("load", "few.csv")
    sizes = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'few'"
    taken = int(shell.ok("query", sizes, "--format", "TSV").out)
    assert taken / 1.5 < plan["disk"] < taken * 3


def test_what_cannot_fit_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 100_000)
    refused = shell.ends(5, "load", TAXI)
    assert "the load does not fit: the rows take about" in refused.talk
    assert "100 kB free" in refused.talk
    assert "--no-space-check" in refused.talk
    assert shell.ok("status").out.count("\n") <= 1  # nothing to resume
    planned = " ".join(shell.ok("plan", TAXI).out.split())
    assert "It would fail: the load does not fit" in planned
    shell.ok("load", TAXI, "--no-space-check")
