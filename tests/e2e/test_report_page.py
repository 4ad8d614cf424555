"""Report pages in a browser: drawn, without an error, on a phone, by keyboard, dark, on paper."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from e2e.tools import Shell, csv
from lab.browser import Browser
from lab.process import wait_until
from rowfall.core.events import AttemptEnded
from rowfall.core.results import (
    AttemptRecord,
    DoctorReport,
    Explanation,
    Failure,
    Improvement,
    Link,
    LinkKind,
    Report,
)
from rowfall.ledger.recorder import Recorder
from rowfall.report.bench_page import bench_page
from rowfall.report.load_page import load_page
from rowfall.report.measured_pages import doctor_page
from rowfall.report.page import (
    TIME,
    Axis,
    BarChart,
    HeatMap,
    Histogram,
    LineChart,
    Mark,
    Page,
    Series,
    StackedBar,
    Threshold,
    Unit,
    page_html,
)
from rowfall.report.tune_page import tune_page
from unit.report.measured import benchmark, sweep

pytestmark = pytest.mark.xdist_group("browser")

SECONDS = Axis("seconds", Unit.SECONDS)
LONG = "s3://lake/a/folder/with/a/long/name/and/another/one/2023-01-file.csv.gz"
PAGE = Page("load 1f0c2a91", (
    LineChart("Rates", TIME, Axis("rows/s"), (
        Series("rows", tuple((at / 2, 1e6 + at * 1e4) for at in range(60))),
        Series("bytes", tuple((at / 2, 2e6 - at * 1e4) for at in range(60))),
    ), (Threshold("limit", 3e6),), (Mark(12, "a retry"), Mark(20, "6 threads"))),
    LineChart("Scaling", Axis("nodes", log=True), Axis("rows/s", log=True),
              (Series("projected", ((1, 1e6), (4, 3.8e6), (20, 1.7e7)), dots=True),)),
    BarChart("Files", SECONDS, ((LONG, 12.5), ("b.csv", 3.0))),
    StackedBar("CPU", Axis("CPU seconds", Unit.SECONDS),
               (("", (("parse", 30.0), ("sort", 10.0), ("attach", 0.1))),)),
    Histogram("Durations", SECONDS, Axis("files"), ((1, 2, 7), (2, 4, 1))),
    HeatMap("Sweep", Axis("threads"), Axis("rows of a block"), Axis("rows/s"),
            (("1", "a", 1e6), ("2", "a", 2e6), ("1", "b", 3e6), ("2", "b", None)), ("1", "b")),
))  # fmt: skip
# Each drawing with its texts and the number of its marks, and what stands out of the window.
DRAWN = """Array.from(document.querySelectorAll('.chart')).map((each) => ({
    id: each.id,
    marks: each.querySelectorAll('svg path, svg rect, svg circle').length,
    rows: each.parentElement.querySelectorAll('details tbody tr').length,
    texts: Array.from(each.querySelectorAll('svg text')).map((t) => t.textContent),
    wide: each.querySelector('svg').getBoundingClientRect().width > each.clientWidth + 1,
}))"""
TITLES = {
    "rates": ["↑ rows/s", "time since the start →", "limit: 3.00M"],
    "scaling": ["↑ rows/s", "nodes →"], "files": ["seconds →"], "cpu": ["CPU seconds →", "parse"],
    "durations": ["↑ files", "seconds →"], "sweep": ["↑ rows of a block", "threads →"],
}  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_html(PAGE))
    return path


def drawn(browser: Browser) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in browser.run(DRAWN)}


@pytest.mark.parametrize("width", [390, 1280])
def test_every_chart_is_drawn_with_titles_and_without_an_error(
    browser: Browser, page: Path, width: int
) -> None:
    browser.open(page.as_uri(), width=width)
    found = drawn(browser)
    assert set(found) == set(TITLES)
    for name, titles in TITLES.items():
        assert found[name]["marks"] >= 3, name
        assert not set(titles) - set(found[name]["texts"]), (name, found[name]["texts"])
        assert not found[name]["wide"], name
    # Nothing has to be moved sideways, and nothing else was fetched.
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.problems == []
    assert browser.asked == [page.as_uri()]


def test_a_page_is_read_by_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    order = []
    for _ in range(12):
        browser.press("Tab")
        order.append(browser.run("document.activeElement.id || document.activeElement.className"))
    assert order[:3] == ["skip", "theme", "rates"]
    browser.run("document.getElementById('rates').focus()")
    read = "document.getElementById('rates-read').textContent"
    browser.press("ArrowRight")
    assert browser.run(read) == "0.00 s, rows: 1.00M, bytes: 2.00M"
    browser.press("ArrowRight")
    assert browser.run(read) == "0.50 s, rows: 1.01M, bytes: 1.99M"
    # What is said is shown, too.
    tip = "document.querySelector('#rates svg [aria-label=tip]')?.textContent ?? ''"
    browser.wait_for(f"({tip}).includes('1.99M')")
    browser.press("End")
    assert browser.run(read) == "29.5 s, rows: 1.59M, bytes: 1.41M"
    browser.run("document.getElementById('sweep').focus()")
    browser.press("ArrowRight")
    sweep = browser.run("document.getElementById('sweep-read').textContent")
    assert sweep == "threads 1, rows of a block a, rows/s: 1.00M"
    assert browser.run(read) == ""
    names = [
        node["name"]["value"]
        for node in browser.ask("Accessibility.getFullAXTree")["nodes"]
        if node.get("role", {}).get("value") == "image" and not node["ignored"]
    ]
    assert len(names) == len(TITLES)
    assert names[0].startswith("Line chart: Rates; rows/s over time since the start. rows: lowest")
    assert browser.problems == []


def test_a_page_is_light_or_dark_as_the_system_or_by_its_switch(
    browser: Browser, page: Path
) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(245, 246, 248)", "rgb(16, 19, 23)"
    browser.open(page.as_uri(), dark=True)
    assert browser.run(back) == dark
    browser.open(page.as_uri())
    assert browser.run(back) == light
    press = "document.getElementById('theme').click()"
    seen = []
    for _ in range(3):
        browser.run(press)
        seen.append((browser.run("document.getElementById('theme').textContent"),
                     browser.run(back)))  # fmt: skip
    assert seen == [
        ("Colours: light", light), ("Colours: dark", dark), ("Colours: as the system", light),
    ]  # fmt: skip
    # Paper is white, whatever the screen is.
    browser.run(f"{press}; {press}")
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert browser.run(back) == "rgb(255, 255, 255)"
    browser.ask("Emulation.setEmulatedMedia", media="")
    browser.run(press)


def test_a_page_is_printed_as_a_whole(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(page.as_uri())
    browser.print(tmp_path / "report.pdf")
    text = (tmp_path / "report.pdf").read_bytes()
    assert text.startswith(b"%PDF")
    assert text.count(b"/Type /Page\n") + text.count(b"/Type /Page ") + text.count(
        b"/Type /Page/"
    ) in range(1, 6)


# ---- the command ---------------------------------------------------------------------------------


def test_the_report_of_a_load_is_a_page(shell: Shell, browser: Browser) -> None:
    shell.write("a<b>.csv", csv([(i, f"n{i}") for i in range(1000)], "id", "name"))
    shell.ok("load", "a<b>.csv", "--table", "t")
    done = shell.ok("report", "last", "--html", "r.html")
    assert "1,000" in done.out
    assert done.err.startswith("r.html: ")
    browser.open((shell.folder / "r.html").as_uri())
    text = browser.run("document.body.innerText")
    for words in ("default.t", "a<b>.csv", "CREATE TABLE", "Slowest files", "There were none."):
        assert words in text
    assert browser.problems == []
    # A page that is there is replaced, with the rights that new files have.
    (shell.folder / "r.html").write_text("<!DOCTYPE html>old")
    shell.ok("report", "last", "--html", "r.html")
    assert "default.t" in (shell.folder / "r.html").read_text()
    assert (shell.folder / "r.html").stat().st_mode & 0o777 == 0o666 & ~umask()
    assert sorted(p.name for p in shell.folder.iterdir() if p.name.startswith(".row")) == []


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_where_a_page_cannot_be_written(shell: Shell) -> None:
    shell.write("t.csv", b"a\n1\n")
    shell.ok("load", "t.csv")
    (shell.folder / "pages").mkdir()
    for file, said in (
        ("none/r.html", "--html none/r.html: there is no folder none"),
        ("/sys/r.html", "cannot write --html /sys/r.html: Permission denied"),
        ("t.csv", "--html t.csv: that file is there and is no page"),
        ("pages", "--html pages: that is a folder"),
    ):
        refused = shell.run("report", "last", "--html", file)
        assert (refused.code, refused.out) == (2, "")
        assert said in refused.err
    assert (shell.folder / "t.csv").read_bytes() == b"a\n1\n"
    hint = refused.err.partition("hint: ")[2].split()
    assert hint == ["--html", "pages/report.html"]
    shell.ok("report", "last", *hint)
    assert (shell.folder / "pages/report.html").exists()


# ---- loads of other kinds ------------------------------------------------------------------------


@pytest.mark.long  # it has to take seconds
def test_a_load_that_never_finished(shell: Shell, browser: Browser) -> None:
    """Its process was killed: what it had written down is shown, and that it is gone."""
    (shell.folder / "in").mkdir()
    shell.ok("load", "generate://taxi?rows=1_000_000", "--to", "in/{n}.csv")
    process = shell.cli.start("load", "in/*.csv", "--table", "t", "--threads", "1",
                              "--attempt-bytes", "10MB")  # fmt: skip
    try:
        wait_until(lambda: samples(shell) >= 3, 60, "samples of the load")
    finally:
        process.kill()
        process.wait()
    shell.ok("report", "last", "--html", "r.html")
    browser.open((shell.folder / "r.html").as_uri())
    text = browser.run("document.body.innerText")
    assert "lost" in text
    assert "Its process is gone." in text
    assert drawn(browser)["rows-over-time"]["marks"] >= 3
    assert browser.problems == []


def samples(shell: Shell) -> int:
    found = list((shell.folder / "rowfall-data").glob("*.running"))
    try:
        return len(json.loads(found[0].read_text())["record"]["samples"]) if found else 0
    except (OSError, ValueError):
        return 0


def test_a_load_that_an_older_version_has_written(shell: Shell, browser: Browser) -> None:
    """Its ledger has neither samples nor statements; the page says so, and shows the rest."""
    shell.write("t.csv", csv([(i, f"n{i}") for i in range(1000)], "id", "name"))
    shell.ok("load", "t.csv")
    with closing(sqlite3.connect(shell.folder / "rowfall-data/rowfall.ledger")) as ledger:
        ((text,),) = ledger.execute("SELECT document FROM explained")
        older = json.loads(text)
        del older["record"]
        ((report,),) = ledger.execute("SELECT report FROM load")
        first = {k: v for k, v in json.loads(report).items() if k != "part_sizes"}
        ledger.execute("UPDATE explained SET document = ?", (json.dumps(older),))
        ledger.execute("UPDATE load SET report = ?", (json.dumps(first),))
        ledger.commit()
    shell.ok("report", "last", "--html", "r.html")
    browser.open((shell.folder / "r.html").as_uri())
    text = browser.run("document.body.innerText")
    assert "The load was over before a second sample was taken" in text or "older rowfall" in text
    assert "of one attempt, as planned" in text
    assert browser.problems == []
    with closing(sqlite3.connect(shell.folder / "rowfall-data/rowfall.ledger")) as ledger:
        ledger.execute("DELETE FROM explained")  # before plans were kept
        ledger.commit()
    shell.ok("report", "last", "--html", "r.html")
    text = (shell.folder / "r.html").read_text()
    assert "An older rowfall has loaded this: it kept nothing of it." in text


def test_a_page_of_100_000_files_is_small_and_smooth(browser: Browser, tmp_path: Path) -> None:
    recorder = Recorder()
    for number in range(100_000):
        name = f"s3://lake/a/folder/{number:06}-of-a-long-name.csv.gz"
        seconds = 0.05 + number * 7919 % 10_007 / 500
        recorder.hear(AttemptEnded(AttemptRecord(f"a_{number}", 1, name, 10**6, seconds=seconds)))
    attempts, others = recorder.attempts()
    report = Report("1f0c2a91", "done", "s3://lake/*", "data", "t", "2026-11-27T14:00:00+00:00",
                    splits=100_000, splits_loaded=100_000, rows=10**11, seconds=5_000.0,
                    failures=tuple(Failure(f"{n}.csv", "x" * 300) for n in range(5_000)),
    )  # fmt: skip
    found = Explanation(report, None, attempts, others, recorder.record())
    path = tmp_path / "r.html"
    path.write_text(page_html(load_page(found)))
    assert path.stat().st_size < 2_000_000
    browser.open(path.as_uri())
    text = browser.run("document.body.textContent")
    assert "The slowest 50 of 100,000." in text
    assert "The first 100 of 5,000." in text
    # What a change of the window's width costs: all charts are drawn anew.
    took = browser.run(
        "(() => { const began = performance.now();"
        " document.querySelectorAll('.chart').forEach((each) => { each.style.width = '500px'; });"
        " return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame("
        "() => done(performance.now() - began)))); })()"
    )
    assert took < 1_000
    assert browser.problems == []


def test_doctor_and_scale_write_pages(shell: Shell, browser: Browser) -> None:
    shell.ok("scale", "simulate://csv.gz?files=1000&size=25MB&rows=1e9", "--cores", "16",
             "--price", "1.5", "--html", "s.html")  # fmt: skip
    browser.open((shell.folder / "s.html").as_uri())
    found = drawn(browser)
    assert set(found) == {"rate-by-nodes", "times-as-fast-as-one-node", "time-by-nodes",
                          "cost-by-nodes"}  # fmt: skip
    assert {"↑ rows/s", "nodes →", "1", "5", "100"} <= set(found["rate-by-nodes"]["texts"])
    assert "published: servers of 32 vCPUs (Altinity)" in browser.run("document.body.innerText")
    assert browser.problems == []
    link = Link(LinkKind.SOURCE, "reading", 1e8, "bytes/s", "1 reader", 2e6)
    slow = Link(LinkKind.TARGET, "ready rows", 3e5, "rows/s", "10k rows", 3e5)
    examined = DoctorReport(
        "a.csv", "d", "t", 10**6, (link, slow), slow, 2.5e5, 4.0,
        (Improvement("another core", 1.5),), 1000, 1.0, (("working", 1.0),), ("a note",), 12.0,
    )  # fmt: skip
    (shell.folder / "d.html").write_text(page_html(doctor_page(examined)))
    browser.open((shell.folder / "d.html").as_uri())
    found = drawn(browser)
    assert set(found) == {"links-each-by-itself", "what-would-help-most", "the-target-s-engine"}
    assert "300k, 300k rows/s" in found["links-each-by-itself"]["texts"]
    assert browser.problems == []


def looked_at(browser: Browser, file: Path, page: Page) -> dict[str, dict[str, Any]]:
    """Each chart is drawn on a phone and on a screen, with its titles and its table; the drawings.

    Charts of which nothing is known are sentences.
    """
    file.write_text(page_html(page))
    found = {}
    for width, dark in ((390, True), (1280, False)):
        browser.open(file.as_uri(), width=width, dark=dark)
        assert browser.problems == []
        assert browser.run("document.documentElement.scrollWidth") == width
        found = drawn(browser)
        for name, each in found.items():
            assert each["marks"] >= each["rows"] > 0, name
            assert not each["wide"], name
            assert any(text.endswith(" →") for text in each["texts"]), (name, each["texts"])
        lacking = browser.run(
            "Array.from(document.querySelectorAll('.chart')).filter((each) =>"
            " !each.getAttribute('aria-label') || !each.getAttribute('tabindex'))"
            ".map((each) => each.id)"
        )
        assert lacking == []
    return found


def test_a_sweep_is_a_map_and_curves(browser: Browser, tmp_path: Path) -> None:
    found = looked_at(browser, tmp_path / "t.html", tune_page(sweep()))
    assert set(found) == {
        "sweep-parts-by-decoder", "sweep-parts-by-engine", "rows-by-block", "cpu-by-block",
        "peak-memory-by-block", "parts-at-first", "time-until-fewer-than-10-parts",
    }  # fmt: skip
    texts = found["sweep-parts-by-decoder"]["texts"]
    assert {"insert threads →", "↑ block", "30.0M", "default", "formula", "256 MiB"} <= set(texts)
    # The axis of sizes is in powers of two.
    assert "256 MiB" in found["rows-by-block"]["texts"]
    browser.run("document.getElementById('sweep-parts-by-decoder').focus()")
    browser.press("End")
    read = browser.run("document.getElementById('sweep-parts-by-decoder-read').textContent")
    assert read.startswith("insert threads 2, block 16.0 MiB, ")


def test_a_benchmark_is_drawn_article_by_article(browser: Browser, tmp_path: Path) -> None:
    found = looked_at(browser, tmp_path / "b.html", bench_page(benchmark()))
    assert "scaling-with-shards" in found
    assert "sweep-of-insert-threads-and-blocks" in found
    assert any(name.endswith("rows-stored-by-shard") for name in found)
    heads = browser.run("Array.from(document.querySelectorAll('h2')).map((h) => h.textContent)")
    assert [head.split()[0] for head in heads] == ["A1", "A5"]
    # What was published stands on the line of what was measured, in the drawing and the table.
    first = browser.run("document.querySelector('.bar .legend').textContent")
    assert "published, for each vCPU there" in first
    assert "2.80M" in browser.run("document.querySelector('.bar details').textContent")


@pytest.mark.parametrize("command", ["scale", "doctor", "tune", "bench"])
def test_what_takes_long_says_at_once_that_it_cannot_write(shell: Shell, command: str) -> None:
    source = "a1" if command == "bench" else "none-there.csv"
    refused = shell.run(command, source, "--html", "/sys/r.html")
    assert (refused.code, refused.out) == (2, "")
    assert "cannot write --html /sys/r.html" in refused.err
