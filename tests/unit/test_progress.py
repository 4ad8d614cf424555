"""The live line never outgrows the terminal and never jumps; logs stay free of escapes."""

from __future__ import annotations

import random
import re

import pytest

from rowfall import events
from rowfall.meter import Meter
from rowfall.progress import SHOWN_FAILURES, Live, Plain, Talk, draw

ESCAPES = re.compile(r"\x1b\[\d*[A-Za-z]")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def started(total_bytes: int | None = 10**10, total_rows: int | None = None) -> events.LoadStarted:
    return events.LoadStarted(
        "3f2a9c1e77aa",
        "s3://b/*.csv",
        "./rowfall-data",
        "default.t",
        100,
        0,
        total_bytes,
        total_rows,
    )


def feed(meter: Meter, clock: Clock, seconds: float, rows: float, size: float | None) -> None:
    """Let ``seconds`` pass at steady rates per second."""
    begin = meter.latest
    for step in range(1, int(seconds * 5) + 1):
        clock.now += 0.2
        done = step * 0.2
        meter.progressed(
            events.Progressed(
                begin.rows + int(done * rows),
                None if size is None else (begin.bytes or 0) + int(done * size),
                37,
                3 << 30,
                begin.seconds + done,
            )
        )


def test_rates_now_follow_and_averages_do_not() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started())
    feed(meter, clock, 20, 1e6, 100e6)
    feed(meter, clock, 4, 5e6, 500e6)
    assert meter.rates(3.0) == pytest.approx((5e6, 500e6), rel=0.1)
    assert meter.averages() == pytest.approx((40e6 / 24, 4e9 / 24), rel=0.01)
    assert meter.share == pytest.approx(0.4)


def test_a_stall_shows_in_the_rate_now() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started())
    feed(meter, clock, 10, 1e6, 100e6)
    clock.now += 3.1
    assert meter.rates(3.0)[0] < 0.1e6
    assert meter.seconds == pytest.approx(13.1)


def test_eta_by_bytes_by_rows_and_unknown() -> None:
    clock = Clock()
    by_bytes, by_rows, unknown = Meter(clock), Meter(clock), Meter(clock)
    by_bytes.started(started(10**10))
    feed(by_bytes, clock, 20, 1e6, 100e6)
    assert by_bytes.eta == pytest.approx(80, rel=0.05)
    by_rows.started(started(None, 10**8))
    feed(by_rows, clock, 20, 1e6, None)
    assert by_rows.eta == pytest.approx(80, rel=0.05)
    unknown.started(started(None, None))
    feed(unknown, clock, 20, 1e6, None)
    assert unknown.eta is None
    assert "ETA" not in draw(unknown, 200)


@pytest.mark.parametrize("color", [False, True])
def test_the_line_is_never_wider_than_the_terminal(color: bool) -> None:
    chance = random.Random(11)
    clock = Clock()
    for columns in [*range(1, 40, 3), *range(40, 201)]:
        meter = Meter(clock)
        total = int(10 ** chance.uniform(0, 16))
        by_rows = chance.random() < 0.3
        meter.started(started(None, total) if by_rows else started(total))
        feed(
            meter,
            clock,
            chance.uniform(0.3, 2),
            10 ** chance.uniform(0, 9),
            10 ** chance.uniform(0, 13),
        )
        line = ESCAPES.sub("", draw(meter, columns, color=color))
        assert len(line) <= max(columns - 1, 1)
        assert "\n" not in line
        if columns >= 40:
            assert "%" in line
            assert "rows/s" in line
            assert "ETA" in line


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 160])
def test_the_layout_stays_while_the_numbers_change(columns: int) -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started(10**10))
    shapes = set()
    for rows, size in ((9.99e5, 9.99e6), (1e6, 1e7), (1.23e7, 123e6), (5e8, 999e6)):
        feed(meter, clock, 2, rows, size)
        line = draw(meter, columns)
        shapes.add((len(line), line.index("rows/s"), line.index("ETA")))
    assert len(shapes) == 1


def test_eighty_columns_show_the_facts_that_matter() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started(10**10))
    feed(meter, clock, 10, 5.12e6, 512e6)
    line = draw(meter, 80)
    assert len(line) == 79
    for fact in ("51%", "━", "5.1/10.0 GB", "51.2M rows", "5.12M rows/s", "512 MB/s", "ETA 10s"):
        assert fact in line
    assert "37 parts" in draw(meter, 100)
    wide = draw(meter, 160)
    assert "avg 512 MB/s" in wide
    assert "mem 3.00 GiB" in wide


def test_live_redraws_in_place_and_not_too_often() -> None:
    clock, out = Clock(), []
    live = Live(out.append, lambda: 80, clock=clock, ticker=False)
    live(started())
    for step in range(100):
        clock.now += 0.02
        live(events.Progressed(step * 1000, step * 10**6, 1, 1 << 30, step * 0.02))
    lines = [x for x in out if x.startswith("\r")]
    assert 10 <= len(lines) <= 20  # two seconds
    assert not any("\n" in x for x in lines)


def test_talk_goes_above_the_live_line_without_tearing_it() -> None:
    clock, out = Clock(), []
    live = Live(out.append, lambda: 80, clock=clock, ticker=False)
    live(started())
    live(events.Progressed(1000, 10**6, 1, 1 << 30, 1.0))
    out.clear()
    live(events.Note("warning", "trying again in 2 s"))
    erase, text, redraw = out
    assert erase == "\r\x1b[K"
    assert text == "warning: trying again in 2 s\n"
    assert redraw.startswith("\r")
    assert "rows/s" in redraw
    out.clear()
    live(events.LoadEnded("3f2a", "done"))
    live.close()
    assert out == ["\r\x1b[K"]
    out.clear()
    live(events.Progressed(2000, 10**6, 1, 1 << 30, 2.0))
    assert out == []


def test_live_cleans_up_what_a_narrowed_terminal_folded() -> None:
    clock, out = Clock(), []
    columns = 80
    live = Live(out.append, lambda: columns, clock=clock, ticker=False)
    live(started())
    live(events.Progressed(1000, 10**6, 1, 1 << 30, 1.0))
    columns = 40
    clock.now += 1
    live(events.Progressed(2000, 2 * 10**6, 1, 1 << 30, 2.0))
    assert out[-1].startswith("\r\x1b[1A\x1b[J")


def test_plain_lines_come_after_two_seconds_then_every_five() -> None:
    clock, out = Clock(), []
    talk = Plain(out.append, clock=clock)
    talk(started())
    out.clear()
    times = []
    for step in range(1, 200):
        clock.now += 0.1
        talk(events.Progressed(step * 10**5, step * 10**7, 37, 3 << 30, step * 0.1))
        times += [step * 0.1] * len(out)
        assert not any("\x1b" in x or "\r" in x for x in out)
        assert all(x.endswith("\n") for x in out)
        out.clear()
    assert times == pytest.approx([2.0, 7.0, 12.0, 17.0], abs=0.11)


def test_plain_line_has_all_facts() -> None:
    clock, out = Clock(), []
    talk = Plain(out.append, clock=clock)
    talk(started())
    clock.now += 2
    talk(events.Progressed(10**7, 10**9, 37, 3 << 30, 2.0))
    assert out[0] == "load 3f2a9c1e: 100 splits, 10.0 GB into default.t\n"
    for fact in (
        "10%",
        "1.0/10.0 GB",
        "10.0M rows",
        "rows/s (avg 5.00M)",
        "MB/s",
        "ETA",
        "37 parts",
    ):
        assert fact in out[1]


def test_quiet_says_warnings_and_failures_only() -> None:
    out: list[str] = []
    talk = Talk(out.append, level=-1)
    for event in (
        started(),
        events.Note("info", "reading whole files"),
        events.Note("warning", "lost a connection"),
        events.AttemptPublished("a", 1, 2, 3.0),
        events.SplitFailed("f.csv", "cannot parse", "Look at it."),
        events.Progressed(1, 1, 1, 1, 1.0),
        events.LoadEnded("3f", "partial"),
    ):
        talk(event)
    assert out == [
        "warning: lost a connection\n",
        "failed: f.csv: cannot parse\n  hint: Look at it.\n",
    ]


def test_verbose_says_every_attempt() -> None:
    out: list[str] = []
    talk = Talk(out.append, level=1)
    talk(events.AttemptStarted("a1", 10, 420 * 10**6))
    talk(events.AttemptPublished("a1", 10, 1_000_000, 2.1))
    assert out == [
        "attempt a1: 10 splits, 420 MB\n",
        "attempt a1: published 1,000,000 rows of 10 splits in 2.1 s\n",
    ]


def test_a_flood_of_failures_is_counted() -> None:
    out: list[str] = []
    talk = Talk(out.append)
    for number in range(100):
        talk(events.SplitFailed(f"{number}.csv", "gone\x1b[2J", None))
    talk(events.LoadEnded("3f", "failed"))
    assert len(out) == SHOWN_FAILURES + 1
    assert out[-1] == f"failed: {100 - SHOWN_FAILURES} splits more\n"
    assert "\x1b" not in "".join(out)
