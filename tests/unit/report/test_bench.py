"""``rowfall bench`` as text, Markdown, a page and a document."""

from __future__ import annotations

from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchReport, BenchRound, BenchRow
from rowfall.measure.bench.published import A1_ALL, A5_SERVER
from rowfall.report.bench import bench_document, bench_markdown, bench_text
from rowfall.report.bench_page import bench_page
from rowfall.report.page import page_html

MACHINE = {"cores": 2, "cpu": "AMD EPYC", "memory": 24 << 30, "rowfall": "0.1.0"}


def row(method: str, side: str, *walls: float, why: str = "", table: str = "csv.gz") -> BenchRow:
    rounds = [BenchRound(wall, wall, 0.5, 300 << 20, 1_000_000, 0.5) for wall in walls]
    return BenchRow("A1", table, method, side, A1_ALL, rounds, why)


FOUND = BenchReport(
    MACHINE, 0.1, 3,
    [
        row("INSERT SELECT", BY_HAND, 4.0, 8.0, 5.0),
        row("rowfall load", ROWFALL, 2.0, 2.5, 9.0),
        row("rowfall | cluster", ROWFALL, why="no program clickhouse on PATH"),
        BenchRow("A5", "sweep", "1 x 1/64 of the rows", BY_HAND, A5_SERVER, [
            BenchRound(3.0, 2.0, 0.0, 1 << 30, 10, 0.0, {"parts": 64, "merged": 1.5, "left": 7})]),
        BenchRow("A5", "sweep", "2 x 1/64 of the rows", BY_HAND, A5_SERVER, [
            BenchRound(2.0, 2.0, 0.0, 1 << 30, 10, 0.0, {"parts": 64, "merged": 0.5, "left": 7})]),
    ],
    100.0,
)  # fmt: skip


def test_medians_published_figures_and_reasons_as_text() -> None:
    text = bench_text(FOUND)
    assert "A1 csv.gz, 1.00M rows" in text
    line = next(line for line in text.splitlines() if "rowfall load" in line)
    assert line.split() == ["rowfall", "load", "2.50", "3.00", "200k", "2.80M", "2.00"]
    assert "not run: rowfall | cluster: no program clickhouse on PATH" in text
    assert "64 parts first, 7 after 0.50 s of merges; 1.00 GiB" in text
    assert max(map(len, text.splitlines())) <= 80


def test_markdown_escapes_what_would_end_a_cell() -> None:
    text = bench_markdown(FOUND)
    assert "| rowfall load | 2.50 | 3.00 | 200k | 2.80M | 2.00 |" in text
    assert "A1 csv.gz, 1.00M rows" in text


def test_the_document_has_medians_and_all_rounds() -> None:
    _, ours, skipped, *_ = bench_document(FOUND)["rows"]
    assert (ours["seconds"], ours["times"], len(ours["rounds"])) == (2.5, 2.0, 3)
    assert (skipped["seconds"], skipped["why"]) == (None, "no program clickhouse on PATH")


def test_the_page_has_bars_figures_and_the_sweep() -> None:
    """More of it is in ``test_measured_pages.py``."""
    page = bench_page(FOUND)
    assert any(getattr(chart, "best", None) == ("2", "1/64 of the rows") for chart in page.charts)
    text = page_html(page)
    assert "one server of 32 vCPUs, tuned, all rows" in text
    assert "no program clickhouse on PATH" in text
