"""What notebooks show: HTML of plans, reports and rows; progress in a cell."""

from __future__ import annotations

import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import ModuleType
from typing import Any

import pytest

from rowfall.core import events
from rowfall.core.results import Failure, Report, Verification
from rowfall.report import html, notebook
from rowfall.report.progress import MessagePrinter, TerminalPrinter

REPORT = Report(
    "3f2a9c1e77aa", "partial", "in/*.csv", "data", "default.trips", "2026-11-21T09:14:05Z",
    splits=3, splits_loaded=2, splits_failed=1, rows=50_000, bytes_source=2_000_000, seconds=2.0,
    phases={"read": 0.7, "insert": 0.3}, limited_by="The engine's cores.", settings={"a": 1},
    failures=(Failure("in/<b>.csv", "line 3: 'x' is no UInt8", "Correct <it>."),),
)  # fmt: skip


class Balanced(HTMLParser):
    """Fails where a tag is not closed, and keeps the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_a_report_says_what_failed_and_quotes_what_it_says() -> None:
    text = Balanced(html.report_html(REPORT)).text
    for said in ("partial", "2 of 3 files, 1 failed", "50,000", "25.0k rows/s", "Correct <it>."):
        assert said in text
    assert "in/<b>.csv" in text
    many = replace(REPORT, failures=REPORT.failures * 25)
    assert "and 5 more" in Balanced(html.report_html(many)).text


def test_a_verification_names_the_difference() -> None:
    result = Verification("3f2a9c1e77aa", False, 3, 2, "a", "b", "all rows", 0.1)
    assert "different" in Balanced(html.verification_html(result)).text


def test_rows_are_shown_as_text_and_html() -> None:
    rows = [(1, None), (2, "<i>")]
    text = Balanced(html.rows_html(["n", "s"], rows, 40)).text
    for said in ("n", "s", "NULL", "<i>", "first 2 of 40 rows, 2 columns"):
        assert said in text
    assert html.rows_text(["n", "s"], rows, 2).split("\n") == [
        "n  s", "1  NULL", "2  <i>", "2 rows, 2 columns",
    ]  # fmt: skip
    assert html.rows_text([], [], 0) == "0 rows, 0 columns"


class Cell:
    """The output of a cell: what is shown, one after the other."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    def display(self, bundle: dict[str, str], *, display_id: bool, raw: bool) -> Cell:
        assert display_id
        self.update(bundle, raw=raw)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        Balanced(bundle["text/html"])
        self.seen.append(bundle)


def test_a_cell_shows_a_running_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "REDRAW_AFTER", 0.0)
    cell = Cell()
    with notebook.Notebook(cell.display) as show:
        show(events.LoadStarted("3f2a", "in", "data", "t", 4, 0, 1000, None))
        show(events.Progressed(10, 250, 1, 1 << 20, 1.0))
        assert "25%" in cell.seen[-1]["text/plain"]
        assert "width:25.0%" in cell.seen[-1]["text/html"]
        show(events.Note("info", "nobody asks"))
        show(events.SplitFailed("b.csv", "gone", "Put it back."))
        for _ in range(30):
            show(events.Note("warning", "late"))
        show(events.LoadEnded("3f2a", "partial"))
    last = cell.seen[-1]["text/plain"]
    assert "failed: b.csv: gone" in last
    assert "Put it back." in last
    assert "and 11 more messages" in last
    assert "%" not in last
    assert "nobody asks" not in last


class Kernel:
    """The shell of a notebook: one of a terminal has no kernel."""

    kernel = object()


def test_progress_is_shown_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notebook.shown(None) is None
    assert isinstance(notebook.shown(True), MessagePrinter)
    cell = Cell()
    ipython: Any = ModuleType("IPython")
    ipython.display = ModuleType("IPython.display")
    ipython.display.display = cell.display
    ipython.get_ipython = Kernel
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert isinstance(notebook.shown(None), notebook.Notebook)
    assert notebook.shown(False) is None
    ipython.get_ipython = object  # the shell of a terminal
    assert isinstance(notebook.shown(None), MessagePrinter | TerminalPrinter)
