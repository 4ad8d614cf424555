"""The page of a load: what is drawn, and the reason where nothing is."""

from __future__ import annotations

from rowfall.core.load_record import Happening, LoadRecord, Sample
from rowfall.core.results import Explanation, Report, ShardReport
from rowfall.core.steering import BACK_OFF, PARTS, SteeringStep
from rowfall.report.load_page import load_page
from rowfall.report.page import BarChart, LineChart, Page, page_html

SAMPLES = tuple(Sample(float(at), at * 10**6, None, 1 << 30, at) for at in range(10))


def report(**more: object) -> Report:
    known = {"rows": 9_000_000, "seconds": 9.0, "rowfall_version": "0.1.0", **more}
    return Report("1f0c2a91", "done", "a.csv", "d", "t", "now", **known)  # type: ignore[arg-type]


def lines(page: Page) -> dict[str, LineChart]:
    return {chart.title: chart for chart in page.charts if isinstance(chart, LineChart)}


def test_steering_and_what_went_wrong_are_marks_in_the_order_of_time() -> None:
    step = SteeringStep(4.0, BACK_OFF, PARTS, "700 of 1,000 parts", 0.5, 1, waits=False)
    record = LoadRecord(SAMPLES, (Happening(2.0, "retry", "failed: x"), Happening(6.0, "w", "y")))
    page = load_page(Explanation(report(steering=(step,)), None, record=record))
    rows = lines(page)["Rows over time"]
    assert [mark.at for mark in rows.marks] == [2.0, 4.0, 6.0]
    assert "50 % of the threads" in rows.marks[1].text
    assert {y for _, y in rows.lines[0].points} == {1e6}


def test_a_limit_of_memory_and_shards_are_shown() -> None:
    shards = tuple(
        ShardReport(n, f"h{n}:9000", n * 10, 1, 1, 1, 1, 1.0, 1.0, 1, 1, 1) for n in (1, 2)
    )
    record = LoadRecord(SAMPLES, memory_limit=2 << 30)
    page = load_page(Explanation(report(shards=shards, imbalance=0.33), None, record=record))
    assert [t.value for t in lines(page)["Memory over time"].thresholds] == [2 << 30]
    (bars,) = [c for c in page.charts if isinstance(c, BarChart) and c.title == "Rows by shard"]
    assert bars.bars == (("shard 1 (h1:9000)", 10.0), ("shard 2 (h2:9000)", 20.0))
    assert "33 %" in bars.says


def test_each_reason_for_an_empty_chart_is_the_right_one() -> None:
    for more, said in (
        ({"rowfall_version": "", "seconds": 0.0}, "An older rowfall has loaded this"),
        ({"seconds": 0.1}, "The load was over before a second sample was taken."),
        ({"seconds": 60.0}, "An older rowfall has loaded this"),
    ):
        assert said in page_html(load_page(Explanation(report(**more), None))), more
    running = Report("1f0c2a91", "running", "a.csv", "d", "t", "now")
    assert "The load has just begun." in page_html(load_page(Explanation(running, None)))
    lost = Report("1f0c2a91", "lost", "a.csv", "d", "t", "now")
    text = page_html(load_page(Explanation(lost, None)))
    assert "Its process was gone before it had written down what it did." in text
