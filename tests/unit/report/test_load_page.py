"""The page of a load: what is drawn, and the reason where nothing is."""

from __future__ import annotations

from dataclasses import replace

from rowfall.core.load_record import LoadRecord, RecordedEvent, Sample
from rowfall.core.results import Explanation, PlannedLoad, Report, ShardReport
from rowfall.core.steering import BACK_OFF, PARTS, SteeringStep, said
from rowfall.report.load_page import load_page
from rowfall.report.page import Axis, BarChart, LineChart, Page, TextTable, Unit, page_html

SAMPLES = tuple(Sample(float(at), at * 10**6, None, 1 << 30, at) for at in range(10))


def report(**more: object) -> Report:
    known = {"rows": 9_000_000, "seconds": 9.0, "rowfall_version": "0.1.0", **more}
    return Report("1f0c2a91", "done", "a.csv", "d", "t", "now", **known)  # type: ignore[arg-type]


def lines(page: Page) -> dict[str, LineChart]:
    return {chart.title: chart for chart in page.charts if isinstance(chart, LineChart)}


def test_steering_and_what_went_wrong_are_marks_in_the_order_of_time() -> None:
    step = SteeringStep(4.0, BACK_OFF, PARTS, "700 of 1,000 parts", 0.5, 1, waits=False)
    record = LoadRecord(SAMPLES, (
        RecordedEvent(2.0, "retry", "failed: x"), RecordedEvent(4.0, "steering", said(step)),
        RecordedEvent(6.0, "warning", "y"),
    ))  # fmt: skip
    page = load_page(Explanation(report(steering=(step,)), None, record=record))
    rows = lines(page)["Rows over time"]
    assert [mark.at for mark in rows.marks] == [2.0, 4.0, 6.0]
    assert "50 % of the threads" in rows.marks[1].text
    assert {y for _, y in rows.lines[0].points} == {1e6}


def test_a_limit_of_memory_and_shards_are_shown() -> None:
    shards = tuple(
        ShardReport(n, f"h{n}:9000", n * 10, 1, 1, 1, 1, 1.0, 1.0, 1, 1, n * 10**6) for n in (1, 2)
    )
    record = LoadRecord(SAMPLES, memory_limit=2 << 30)
    page = load_page(Explanation(report(shards=shards, imbalance=0.33), None, record=record))
    assert [t.value for t in lines(page)["Memory over time"].thresholds] == [2 << 30]
    (bars,) = [c for c in page.charts if isinstance(c, BarChart) and c.title == "Rows by shard"]
    assert bars.bars == (("shard 1 (h1:9000)", 10.0), ("shard 2 (h2:9000)", 20.0))
    assert "33 %" in bars.says
    (traffic,) = [c for c in page.charts if c.title == "Traffic by shard"]
    assert traffic == BarChart(
        "Traffic by shard", Axis("received from other nodes and from here", Unit.BYTES),
        (("shard 1 (h1:9000)", 1e6), ("shard 2 (h2:9000)", 2e6)),
        (("shard 1 (h1:9000)", "1 B of files, 1 request"),
         ("shard 2 (h2:9000)", "1 B of files, 1 request")),
        "3.00 MB in all, by ClickHouse's own protocols; beside it what each shard has loaded, as "
        "stored.",
    )  # fmt: skip


def test_a_load_that_runs_shows_its_plan_and_settings() -> None:
    plan = PlannedLoad(
        10, 2.0, 1 << 30, 4, None, (("delivery", "pull", "it is near"),),
        (("max_threads", "2", ""),), 1, 3, 2, "CREATE TABLE t", "INSERT INTO t",
    )  # fmt: skip
    running = Report("1f0c2a91", "running", "a.csv", "d", "t", "now", rows=7, seconds=1.0)
    page = load_page(Explanation(running, plan))
    (table,) = [c for c in page.charts if c.title == "Plan and what happened"]
    assert isinstance(table, TextTable)
    assert table.head == ("", "plan", "so far")
    assert table.rows[0] == ("rows", "10", "7")
    # Nobody has counted them yet: that is not 0.
    assert ("parts", "4", "") in table.rows
    assert ("attempts", "3", "") in table.rows
    text = page_html(page)
    assert "CREATE TABLE t" in text
    assert "max_threads" in text
    done = load_page(Explanation(report(parts_written=0, attempts=3), plan))
    (table,) = [c for c in done.charts if c.title == "Plan and what happened"]
    assert isinstance(table, TextTable)
    assert ("parts", "4", "0") in table.rows


def test_each_reason_for_an_empty_chart_is_the_right_one() -> None:
    for more, reason in (
        ({"rowfall_version": "", "seconds": 0.0}, "An older rowfall has loaded this"),
        ({"seconds": 0.1}, "The load was over before a second sample was taken."),
        ({"seconds": 60.0}, "An older rowfall has loaded this"),
    ):
        assert reason in page_html(load_page(Explanation(report(**more), None))), more
    running = Report("1f0c2a91", "running", "a.csv", "d", "t", "now")
    assert "The load has just begun." in page_html(load_page(Explanation(running, None)))
    for outcome in ("failed", "interrupted"):
        stopped = replace(report(seconds=0.0), outcome=outcome)
        text = page_html(load_page(Explanation(stopped, None)))
        assert "It has ended before its first attempt." in text
        assert "An older rowfall" not in text
    lost = Report("1f0c2a91", "lost", "a.csv", "d", "t", "now")
    text = page_html(load_page(Explanation(lost, None)))
    assert "Its process was gone before it had written down what it did." in text
