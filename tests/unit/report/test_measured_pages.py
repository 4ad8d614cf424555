"""The pages of ``tune`` and ``bench``: which charts there are, and what stands in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest

from rowfall.core.tuned import Cell, TunedCell, TuneReport
from rowfall.report.bench_page import bench_page
from rowfall.report.page import (
    BarChart,
    Chapter,
    HeatMap,
    LineChart,
    Page,
    StackedBar,
    TextTable,
    page_html,
)
from rowfall.report.tune_page import tune_page
from unit.report.measured import benchmark, figures, sweep

C = TypeVar("C")


def chart(page: Page, kind: type[C], title: str) -> C:
    (found,) = (each for each in page.charts if isinstance(each, kind) and each.title == title)  # type: ignore[attr-defined]
    return found


def titles(page: Page) -> list[str]:
    return [each.title for each in page.charts]


# --- tune -----------------------------------------------------------------------------------------


def test_a_sweep_has_a_map_for_each_writer_with_the_known_cells_marked() -> None:
    page = tune_page(sweep())
    decoder = chart(page, HeatMap, "Sweep: parts by decoder")
    # Counts from the left, sizes from the bottom, whatever order they were found in.
    assert [(x, y) for x, y, _ in decoder.cells] == [
        ("1", "3.48 GiB"), ("2", "1.00 GiB"), ("1", "256 MiB"), ("2", "256 MiB"), ("2", "16.0 MiB"),
    ]  # fmt: skip
    assert decoder.best == ("1", "256 MiB")
    # The formula leaves to the load who writes parts.
    assert set(decoder.marks) == {("2", "256 MiB", "default"), ("1", "3.48 GiB", "formula")}
    values = {(x, y): value for x, y, value in decoder.cells}
    assert (values["1", "256 MiB"], values["2", "1.00 GiB"]) == (30e6, None)
    assert ("2", "1.00 GiB", "2.00 GiB of blocks are more than --memory") in decoder.notes
    assert ("2", "16.0 MiB", "sample of 5.00M rows") in decoder.notes
    assert "5.00M rows in place of 20.0M" in decoder.says
    assert decoder.value.title == "rows/s until fewer than 10 parts are left"
    engine = chart(page, HeatMap, "Sweep: parts by engine")
    assert (engine.best, engine.marks) == (None, ())


def test_curves_go_over_the_size_of_blocks() -> None:
    page = tune_page(sweep())
    rates = chart(page, LineChart, "Rows by block")
    assert {line.name: len(line.points) for line in rates.lines} == {
        "parts by decoder, insert threads 1": 1, "parts by decoder, insert threads 2": 2,
        "parts by engine, insert threads 1": 1, "the formula": 1,
    }  # fmt: skip
    assert rates.lines[0].points[0] == (256 << 20, 30e6)
    memory = chart(page, LineChart, "Peak memory by block")
    assert max(y for line in memory.lines for _, y in line.points) == 1900 << 20
    cpu = chart(page, LineChart, "CPU by block")
    # Of a million rows: samples are of different sizes.
    assert cpu.lines[0].points[0][1] == pytest.approx(1.5 / 30)


def test_the_finals_show_first_parts_and_the_time_until_there_are_few() -> None:
    page = tune_page(sweep())
    parts = chart(page, BarChart, "Parts at first")
    assert dict(parts.bars)["parts by engine, insert threads 1, block 16.0 MiB"] == 29
    assert len(parts.bars) == 4  # what was given up had a smaller sample
    few = chart(page, StackedBar, "Time until fewer than 10 parts")
    name, halves = few.rows[0]
    assert name.endswith("(best)")
    assert [part for part, _ in halves] == ["load", "merges"]
    text = page_html(page)
    for words in ("rowfall load ... --tuned nightly", "1 combination would take more memory",
                  "1.09 x the default", "0.28 x the default"):  # fmt: skip
        assert words in text, words


def test_a_target_with_one_choice_has_curves_and_no_map() -> None:
    cells = tuple(
        TunedCell(Cell((("connections", str(n)),), {"streams": n} if n != 4 else {}),
                  figures(n * 1e5, parts=0, memory=0), ("default", "best") if n == 4 else ())
        for n in (4, 1, 2)
    )  # fmt: skip
    page = tune_page(TuneReport("a.csv", "postgresql://h/d", "t", cells, cells[0], 0, (), 9.0))
    assert not [each for each in page.charts if isinstance(each, HeatMap)]
    rates = chart(page, LineChart, "Rows by connections")
    assert rates.lines[0].points == ((1.0, 1e5), (2.0, 2e5), (4.0, 4e5))
    text = page_html(page)
    assert "Nobody may ask the target for its memory." in text
    assert "The target makes no parts." in text
    assert "rows/s until" not in text


def test_a_target_without_a_choice_says_so() -> None:
    only = TunedCell(Cell((), {}), figures(1e5), ("default", "best"))
    page = tune_page(TuneReport("a.csv", "null:", "", (only,), only, 0, ("nothing to compare",), 9))
    assert "This target has no choice with this source." in page_html(page)
    assert "as planned (default, best)" in page_html(page)


def test_an_interrupted_sweep_says_so() -> None:
    assert tune_page(replace(sweep(), interrupted=True)).state == "interrupted"


# --- bench ----------------------------------------------------------------------------------------


def test_articles_are_chapters_with_their_figures_at_the_end() -> None:
    page = bench_page(benchmark())
    chapters = [each.title for each in page.charts if isinstance(each, Chapter)]
    assert chapters == ["A1 Loading 100B Rows (Altinity)", "A5 Large loads (ClickHouse)"]
    figures = chart(page, TextTable, "A1: all figures")
    assert len(figures.rows) == 7
    ran, skipped = figures.rows[1], figures.rows[2]
    assert ran[:6] == ("One server", "rowfall load", "rowfall", "1.00M", "2.50", "3.00")
    assert ran[7:10] == ("200k", "2.80M", "2.00")
    assert "one server of 32 vCPUs: 18 min 35 s, 89.7M rows/s" in ran
    assert skipped[-1] == "no SingleStore is there"


def test_what_was_published_stands_beside_what_was_measured() -> None:
    page = bench_page(benchmark())
    bars = chart(page, BarChart, "One server, 1.00M rows")
    assert bars.bars == (("INSERT SELECT", 1e5), ("rowfall load", 2e5))
    assert dict(bars.groups) == {"INSERT SELECT": "by hand", "rowfall load": "rowfall"}
    assert round(dict(bars.compared)["rowfall load"]) == 2_801_685
    assert dict(bars.notes)["rowfall load"] == "2.50 s, 2.00 times"
    none = chart(page, BarChart, "SingleStore pipeline")
    assert (none.bars, none.absent) == ((), "Not run: no SingleStore is there.")


def test_shards_and_scaling_are_drawn() -> None:
    page = bench_page(benchmark())
    stored = chart(page, StackedBar, "Cluster of 2 shards: rows stored by shard")
    assert stored.rows[0] == ("s3Cluster()", (("shard 1", 6e5), ("shard 2", 4e5)))
    assert stored.says == (
        "s3Cluster(): the fullest has 20 % more than the average; rowfall load: even."
    )
    read = chart(page, StackedBar, "Cluster of 2 shards: rows read from S3 by shard")
    assert read.rows == (("s3Cluster()", (("shard 1", 1e6), ("shard 2", 0.0))),)
    assert read.says == ("s3Cluster(): all by one shard; rowfall load: read by rowfall itself.")
    scaling = chart(page, LineChart, "Scaling with shards")
    measured, by_hand, published = scaling.lines
    # The fastest of its side into one: s3Cluster() has no such row of its own.
    assert (by_hand.name, by_hand.points) == ("s3Cluster()", ((2.0, 1.25),))
    assert (measured.name, measured.points) == (
        "rowfall load", ((1.0, 1.0), (2.0, 1.25), (4.0, 1.25)),
    )  # fmt: skip
    assert [x for x, _ in published.points] == [1, 2, 4]
    assert published.points[0][1] == 1.0


def test_the_sweep_of_an_article_is_a_map() -> None:
    page = bench_page(benchmark())
    found = chart(page, HeatMap, "Sweep of insert threads and blocks")
    assert found.best == ("2", "1/4 of the rows")
    assert [(x, y) for x, y, _ in found.cells][:3] == [
        ("1", "1/4 of the rows"), ("2", "1/4 of the rows"), ("1", "1/16 of the rows"),
    ]  # fmt: skip
    assert len(found.cells) == 6
    assert "defaults: 250k rows/s" in found.says
    merges = chart(page, StackedBar, "Time until few parts are left")
    assert merges.rows[0] == ("defaults", (("load", 3.6), ("merges", 0.4)))
    assert dict(chart(page, BarChart, "Parts at first").bars)["2 x 1/64 of the rows"] == 64


def test_two_methods_of_one_name_are_told_apart() -> None:
    found = benchmark()
    found.rows[0].method = "rowfall load"
    bars = chart(bench_page(found), BarChart, "One server, 1.00M rows")
    assert [name for name, _ in bars.bars] == ["rowfall load (by hand)", "rowfall load (rowfall)"]
