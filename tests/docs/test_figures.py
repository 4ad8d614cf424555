"""Measured figures in README.md and docs are those of bench/results*.json."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "docs/make_figures.py"))
# A number with a unit of what is measured: "1.2 s", "4 CPU s", "890 MB", "1.4 times as long".
MEASUREMENT = re.compile(
    r"\d[\d.,]*\s*(?:k|M|million|billion)?\s*"
    r"(?:s\b|seconds?\b|minutes?\b|CPU|rows/s|rows for each|[KMG]i?B(?:/s)?\b|times (?:as|the)\b)"
)


@pytest.mark.parametrize("page", MADE["PAGES"])
def test_the_figures_are_those_of_the_results(page: str) -> None:
    """Run ``make figures`` when this fails."""
    text = (ROOT / page).read_text()
    assert "<!-- figures:" in text
    assert MADE["made"](text) == text


def test_a_result_that_changes_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    results = MADE["results"]
    asked = MADE["made"].__globals__

    def faster(name: str) -> Any:
        found = results(name)
        if name == "results":
            for side in found["cases"]["trips-disk"]["sides"]:
                side["wall"] = [2 * wall for wall in side["wall"]]
        return found

    monkeypatch.setitem(asked, "results", faster)
    text = (ROOT / "README.md").read_text()
    assert MADE["made"](text) != text


def test_readme_measures_nothing_outside_of_its_blocks() -> None:
    text = MADE["blank"]((ROOT / "README.md").read_text())
    assert "<!-- figures" not in text
    found = [line for line in text.splitlines() if MEASUREMENT.search(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    ["takes 4.0 seconds", "1.2 s, 1.9 CPU s", "takes 960 MB on disk", "8.1 M rows for each CPU",
     "takes 1.4 times as long", "13.9 M rows/s", "after 205 CPU minutes"],
)  # fmt: skip
def test_what_counts_as_a_measurement(text: str) -> None:
    assert MEASUREMENT.search(text)


def test_articles_compare_the_same_and_say_how_it_was_measured() -> None:
    """A load that nobody does by hand, or into something else, stands beside no published one."""
    text, found = MADE["articles"](), MADE["results"]("results-articles")
    assert "throw them away" not in text
    (kafka,) = (line for line in text.splitlines() if "From Kafka" in line)
    (server,) = (r for r in found["rows"] if r["method"] == "rowfall load kafka:// into the server")
    assert kafka.endswith(f"| {server['rows_per_core_second'] / 1e3:,.0f} |")
    busy = max(one["load"] for row in found["rows"] for one in row["rounds"])
    assert f"to {busy:.0f})" in text or busy <= found["machine"]["cores"]
