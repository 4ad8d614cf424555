"""Pages as HTML: complete, escaped, and nothing in them asks a network."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from rowfall.report.page import (
    TIME,
    Axis,
    BarChart,
    Chapter,
    Chart,
    CodeBlocks,
    HeatMap,
    Histogram,
    LineChart,
    Mark,
    Page,
    Series,
    StackedBar,
    TextTable,
    Threshold,
    Tile,
    Unit,
    live_html,
    page_html,
    page_state,
)

RATE = Axis("rows/s")
CHARTS: tuple[Chart, ...] = (
    LineChart("Rates", TIME, RATE, (Series("rows", ((0, 1.0), (1, 4.2e6))),),
              (Threshold("most", 5e6), Threshold("far", 9e9)), (Mark(0.5, "a retry"),)),
    BarChart("Files", Axis("seconds", Unit.SECONDS), (("a.csv", 12.5), ("b.csv", 3.0)),
             (("a.csv", "1.00M rows"),)),
    StackedBar("CPU", Axis("CPU seconds", Unit.SECONDS), (("", (("parse", 3.0), ("sort", 1.0))),)),
    Histogram("Durations", Axis("seconds", Unit.SECONDS), Axis("files"), ((1, 2, 7), (2, 4, 1))),
    HeatMap("Sweep", Axis("threads"), Axis("block"), RATE, (("1", "a", 1e6), ("2", "a", None)),
            ("1", "a"), (("2", "a", "too much memory"),), marks=(("2", "a", "formula"),)),
    TextTable("Errors", ("file", "rows"), (("x.csv", "12"),), frozenset({1})),
    CodeBlocks("SQL", (("CREATE", "CREATE TABLE t\n(a UInt8)"),)),
)  # fmt: skip


class Parsed(HTMLParser):
    """Elements, texts and attributes of a page; raises where they are not balanced."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        kept = self.scripts if self.open[-1:] == ["script"] else self.texts
        kept.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def test_a_page_has_the_data_of_each_chart_as_drawing_and_as_table() -> None:
    page = Parsed(page_html(Page("load 1", CHARTS, "done", "green", (Tile("rows", "4.20M"),))))
    data = json.loads(page.scripts[0])
    drawn = [name for name, chart in data["charts"].items()]
    assert drawn == ["rates", "files", "cpu", "durations", "sweep"]
    holders = [a for tag, a in page.tags if tag == "div" and a.get("class") == "chart"]
    assert [a["id"] for a in holders] == drawn
    for holder in holders:
        assert holder["role"] == "img"
        assert holder["tabindex"] == "0"
        assert len(holder["aria-label"] or "") > 40
    for words in ("4.20M", "12.5 s", "1.00M rows", "sort", "too much memory", "far: 9.00G",
                  "0.50 s: a retry", "CREATE TABLE t\n(a UInt8)"):  # fmt: skip
        assert words in page.text
    # A limit that is far above the line would press it to the ground.
    assert [t["name"] for t in data["charts"]["rates"]["thresholds"]] == ["most"]
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_a_chart_without_data_is_a_sentence(chart: Chart) -> None:
    empty = {
        LineChart: {"lines": (Series("rows", ()),)}, BarChart: {"bars": ()},
        StackedBar: {"rows": ()}, Histogram: {"bins": ()}, HeatMap: {"cells": ()},
        TextTable: {"rows": ()}, CodeBlocks: {"texts": ()},
    }[type(chart)]  # fmt: skip
    gone = replace(chart, **empty, absent="It was over too soon.")  # type: ignore[arg-type]
    page = Parsed(page_html(Page("load 1", (gone,))))
    assert "It was over too soon." in page.text
    assert json.loads(page.scripts[0])["charts"] == {}
    assert not [a for tag, a in page.tags if tag in ("table", "details", "pre")]


def test_charts_stay_in_their_chapter_however_cards_fill_the_lines() -> None:
    charts = (CHARTS[0], Chapter("A1"), CHARTS[1], CHARTS[2], Chapter("A2"), CHARTS[3])
    text = page_html(Page("bench", charts))
    Parsed(text)
    body = text.partition('tabindex="-1">')[2].partition("</main>")[0]
    _, *parts = body.split('<div class="part">')
    found = [re.findall(r'-title">(\w+)</h|<h2 id="(\w+)"', part) for part in parts]
    assert [[a or b for a, b in each] for each in found] == [
        ["Rates"], ["a1", "Files", "CPU"], ["a2", "Durations"],
    ]  # fmt: skip
    assert 'class="part"' not in page_html(Page("load 1", CHARTS))


def test_a_group_has_one_colour_on_all_charts_of_a_page() -> None:
    one = BarChart("Files", RATE, (("a", 1.0),), groups=(("a", "rowfall"),),
                   kinds=("by hand", "rowfall"))  # fmt: skip
    text = page_html(Page("bench", (one,)))
    assert '<ul class="legend"><li><i class="c2 l1"></i>rowfall</li></ul>' in text
    data = json.loads(Parsed(text).scripts[0])
    assert data["charts"]["files"]["kinds"] == ["by hand", "rowfall"]


HOSTILE = "</script><script>alert(1)</script><!--\x1b[31m\u202e\u2028'\"&\udcff.csv"


def test_names_and_errors_are_text_whatever_they_hold() -> None:
    h = HOSTILE
    charts: tuple[Chart, ...] = (
        LineChart(h, Axis(h), Axis(h), (Series(h, ((0, 1), (1, 2))), Series(h + "2", ((0, 1),))),
                  (Threshold(h, 1), Threshold(h, 1e9)), (Mark(1, h),), h),
        BarChart(h, Axis(h), ((h, 1),), ((h, h),), h),
        StackedBar(h, Axis(h), ((h, ((h, 1),)),), h),
        Histogram(h, Axis(h), Axis(h), ((0, 1, 2),), h),
        HeatMap(h, Axis(h), Axis(h), Axis(h), ((h, h, 1),), (h, h), ((h, h, h),), h),
        TextTable(h, (h,), ((h,),)), CodeBlocks(h, ((h, h),)), CodeBlocks(h, (), h, h),
    )  # fmt: skip
    html = page_html(Page(h, charts, h, h, (Tile(h, h, h),), ((h, h),), (h,), h))
    page = Parsed(html)
    assert len(page.scripts) == 3  # the data, the library, ours
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert not [name for _, a in page.tags for name in a if name.startswith("on")]
    data = page.scripts[0]
    assert not set("<>&\x1b\u202e\u2028") & set(data)
    assert not set("\x1b\u202e\u2028\udcff") & set(html)
    html.encode()
    assert "alert(1)" in page.text


def test_no_page_may_fetch_anything_and_only_its_own_scripts_run() -> None:
    html = page_html(Page("load 1", CHARTS))
    page = Parsed(html)
    (policy,) = [a["content"] or "" for tag, a in page.tags if "http-equiv" in a]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.partition("style-src")[0]
    assert "connect-src" not in policy
    loads = [a for _, a in page.tags if "src" in a or ("href" in a and a["href"] != "#charts")]
    assert loads == []
    assert not re.search(r"@import|url\(", html.partition("</style>")[0])
    assert len(html) < 400_000
    watched = Page("load 1", CHARTS)
    live = Parsed(live_html(watched, page_state(watched), "events?token=t"))
    (policy,) = [a["content"] or "" for tag, a in live.tags if "http-equiv" in a]
    assert "connect-src 'self'" in policy
    assert json.loads(live.scripts[0])["events"] == "events?token=t"


def test_the_state_of_a_live_page_is_what_the_page_shows() -> None:
    page = Page("load 1", CHARTS, "running", "yellow")
    html, state = page_html(page), page_state(page)
    assert state["head"] in html
    assert all(each["html"] in html for each in state["charts"])
    json.dumps(state)


def test_one_page_is_one_text() -> None:
    assert page_html(Page("load 1", CHARTS)) == page_html(Page("load 1", CHARTS))


# ---- colours -------------------------------------------------------------------------------------


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21 (WCAG 2.2)."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_texts_and_lines_stand_out_in_light_dark_and_print() -> None:
    style = page_html(Page("x")).partition("<style>")[2].partition("</style>")[0]
    themes = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r"\{[^{}]*--page:[^{}]*\}", style)
    ]
    assert len(themes) == 4  # light, dark by the system, dark by the switch, print
    assert themes[1] == themes[2]
    for theme in themes:
        for back in (theme["page"], theme["card"]):
            for text in ("text", "soft", "link", "green", "yellow", "red"):
                assert contrast(theme[text], back) >= 4.5, (text, back)
            for number in range(1, 9):
                assert contrast(theme[f"c{number}"], back) >= 3, (number, back)
            assert contrast(theme["focus"] if "focus" in theme else theme["link"], back) >= 3
        for number in range(1, 9):  # names of parts stand in them
            assert contrast(theme["card"], theme[f"c{number}"]) >= 4.5, number
        assert contrast(theme["heat-low"], theme["on-low"]) >= 4.5
        assert contrast(theme["heat-high"], theme["on-high"]) >= 4.5
