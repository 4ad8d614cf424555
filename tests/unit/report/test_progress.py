"""The live line never outgrows the terminal and never jumps; logs stay free of escapes."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from rich.console import Console

from lab.process import let_pass, wait_until
from rowfall.core import events
from rowfall.report import progress
from rowfall.report.layout import ENDLESS
from rowfall.report.progress import (
    SHOWN_FAILURES,
    LogPrinter,
    MessagePrinter,
    Meter,
    TerminalPrinter,
    draw,
    plain,
)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Log(Console):
    """What is written to a log: no terminal, no colours."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        super().__init__(file=self.out, width=ENDLESS, force_terminal=False, color_system=None)

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


class Screen(Console):
    """A terminal that only remembers what was written to it."""

    def __init__(self, width: int = 80) -> None:
        self.out = io.StringIO()
        super().__init__(
            file=self.out, width=width, force_terminal=True, force_interactive=True,
            color_system=None,
        )  # fmt: skip

    @property
    def text(self) -> str:
        return self.out.getvalue()


def wait_for(true: Callable[[], bool]) -> None:
    wait_until(true, 20, "what is shown")


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


def test_rare_events_are_no_bursts() -> None:
    meter = Meter(Clock())
    meter.started(started())
    for second in (10, 20, 30):
        meter.progressed(events.Progressed(second * 1000, second * 10**6, 1, 1, float(second)))
    assert meter.rates(3.0) == pytest.approx((1000, 10**6))


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
    assert "ETA" not in draw(unknown, 200).plain


def test_the_line_is_never_wider_than_the_terminal() -> None:
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
        line = draw(meter, columns).plain
        assert len(line) <= max(columns - 2, 1)
        assert "\n" not in line
        if columns >= 40:
            for fact in ("%", " rows ", "/s", "ETA"):
                assert fact in line


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 160])
def test_the_layout_stays_while_the_numbers_change(columns: int) -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started(10**10))
    shapes = set()
    for rows, size in ((9.99e5, 9.99e6), (1e6, 1e7), (1.23e7, 123e6), (5e8, 999e6)):
        feed(meter, clock, 2, rows, size)
        line = draw(meter, columns).plain
        shapes.add((line.index("%"), line.index(" rows"), line.rindex("/s"), line.index("ETA")))
    assert len(shapes) == 1


def test_eighty_columns_show_the_facts_that_matter() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started(10**10))
    feed(meter, clock, 10, 5.12e6, 512e6)
    assert draw(meter, 80).plain == (
        "51% ━━━━━─────  5.1/10.0GB  512MB/s 51.2M rows 5.12M/s   0/100 files ETA 10s"
    )
    for fact in ("avg 512MB", "avg 5.12M", "37 parts", "3.00GiB", "0/100 files"):
        assert fact in draw(meter, 160).plain


def test_many_parts_and_a_long_way_to_go_still_fit_eighty_columns() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started(99_900 * 10**9))
    for back in (90, 0):
        size, rows = 88_800 * 10**9 - back * 1_030 * 10**6, 10**12 - back * 11_600_000
        meter.progressed(events.Progressed(rows, size, 98_765, 123 << 30, 86_399.0 - back))
    line = draw(meter, 80).plain
    assert len(line) <= 78
    for fact in ("88%", "88.8/99.9TB", "1.03GB/s", "1.00T rows", "11.6M/s", "0/100 files",
                 "ETA 2h59m"):  # fmt: skip
        assert fact in line


def test_the_end_is_not_announced_before_it_is_there() -> None:
    meter = Meter(Clock())
    meter.started(started(1000))
    meter.progressed(events.Progressed(10, 1000, 1, 1, 1.0))
    assert draw(meter, 80).plain.startswith("99%")


def test_generated_rows_have_a_share_and_no_bytes() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started(None, 10**8))
    feed(meter, clock, 10, 5e6, 0)
    line = draw(meter, 80).plain
    assert line.startswith("50% ━")
    assert "50.0M/100M rows" in line
    assert "B/s" not in line


def test_live_shows_one_line_and_takes_it_away() -> None:
    screen = Screen()
    with TerminalPrinter(screen) as live:
        live(started())
        live(events.Progressed(1000, 10**9, 1, 1 << 30, 1.0))
        wait_for(lambda: "ETA" in screen.text)
        live(events.Note("warning", "trying again in 2 s"))
        wait_for(lambda: "ETA" in screen.text.rpartition("again")[2])
        live(events.LoadEnded("3f2a", "done"))
        shown = screen.text
        live(events.Progressed(2000, 10**9, 1, 1 << 30, 2.0))
    assert screen.text == shown
    # The talk replaces the line, which is drawn again below it.
    assert "\r\x1b[2Kwarning: trying again in 2 s\n10%" in screen.text
    assert screen.text.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")
    rows = [r for line in screen.text.split("\n") for r in line.split("\x1b[2K")]
    assert max(len(r.rstrip("\r")) for r in rows) <= 80


def test_live_leaves_the_terminal_alone_whatever_happens() -> None:
    screen = Screen()
    with suppress(KeyboardInterrupt), TerminalPrinter(screen):
        assert screen.text.endswith("\x1b[?25h")  # the cursor is never hidden for long
        raise KeyboardInterrupt
    assert screen.text.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_live_says_what_it_does_before_the_load_begins() -> None:
    clock, screen = Clock(), Screen()
    with TerminalPrinter(screen, busy="counting", clock=clock):
        clock.now += 3
        wait_for(lambda: "3s counting" in screen.text)


def test_talk_on_a_terminal_is_wrapped_between_words() -> None:
    screen = Screen(40)
    path = "s3://bucket/" + "x" * 40
    MessagePrinter(screen)(events.Note("warning", f"{path} was read again because it had changed"))
    assert screen.text.split("\n") == [
        "warning:", f"    {path}", "    was read again because it had", "    changed", "",
    ]  # fmt: skip


def test_plain_lines_come_in_time_also_in_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_FIRST", 0.05)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.1)
    log = Log()
    with LogPrinter(log) as talk:
        wait_for(lambda: log.lines[:1] == ["0s, looking at the source and the target"])
        talk(started())
        talk(events.Progressed(10**6, 10**8, 37, 3 << 30, 1.0))
        wait_for(lambda: sum("1%" in line for line in log.lines) > 2)  # with no event between
        talk(events.LoadEnded("3f2a", "done"))
        count = len(log.lines)
        let_pass(0.3, "a line would have been written by then")
    assert len(log.lines) == count
    assert not any(c in log.out.getvalue() for c in "\x1b\r")


def test_a_log_gets_no_lines_while_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_FIRST", 0.01)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.01)
    log = Log()
    with LogPrinter(log, busy="") as talk:
        talk(events.Doing("counting"))
        let_pass(0.2, "twenty lines would have been written by then")
        assert not log.lines
        talk(started())
        talk(events.Progressed(10**6, 10**8, 37, 3 << 30, 1.0))
        wait_for(lambda: any("1%" in line for line in log.lines))


def test_each_batch_names_its_failures() -> None:
    log = Log()
    talk = MessagePrinter(log)
    for batch in range(3):
        for number in range(progress.SHOWN_FAILURES - 2):
            talk(events.SplitFailed(f"{batch}-{number}.csv", "bad", None))
        talk(events.LoadEnded("3f2a", "partial"))
    assert [line.split()[1].rstrip(":") for line in log.lines] == [
        f"{batch}-{number}.csv"
        for batch in range(3) for number in range(progress.SHOWN_FAILURES - 2)
    ]  # fmt: skip


def test_plain_line_has_all_facts() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started())
    clock.now += 2
    meter.progressed(events.Progressed(10**7, 10**9, 37, 3 << 30, 2.0))
    assert plain(meter) == (
        "2s, 10%, 1.0/10.0GB, 500MB/s, avg 500MB, 10.0M rows, 5.00M/s, avg 5.00M, 37 parts, "
        "3.00GiB, 0/100 files, ETA 18s"
    )


def test_files_done_are_counted_as_they_become_visible() -> None:
    clock = Clock()
    line = progress.Line(clock, "busy")
    line.hear(started())
    line.hear(events.Progressed(10**6, 10**9, 3, 1 << 30, 1.0))
    line.hear(events.AttemptPublished("a_1", 12, 10**6, 1.0))
    assert "12/100 files" in str(line)


def test_a_server_that_is_away_is_said() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(started())
    feed(meter, clock, 10, 1e6, 100e6)
    clock.now += 5
    meter.progressed(events.Progressed(10**7, 10**9, 3, 1 << 30, 15.0, away=5.0))
    line = draw(meter, 80).plain
    assert line.endswith("reconnecting 5s")
    assert len(line) <= 78
    meter.progressed(events.Progressed(10**7, 10**9, 3, 1 << 30, 15.5))
    assert "ETA" in draw(meter, 80).plain


def test_the_line_of_a_real_course_changes_and_its_forecast_holds() -> None:
    """rowfall-decode reads a file in blocks: bytes move, rows of the engine do not."""
    clock = Clock()
    meter = Meter(clock)
    meter.started(started(500 * 10**6))
    shown = list[str]()
    for step in range(240):  # 60 s at 4 events a second; each fourth second a block is written
        clock.now += 0.25
        writes = step % 16 >= 12
        done = meter.latest.bytes or 0
        done += 0 if writes else 500 * 10**6 * 16 // 12 // 240
        meter.progressed(events.Progressed(step // 16 * 10**6, done, 1, 1 << 30, step * 0.25))
        if step % 4 == 3:
            shown.append(draw(meter, 80).plain)
        if 80 <= step < 200:
            assert meter.eta == pytest.approx(60 - step * 0.25, rel=0.3)
    assert all(one != other for one, other in itertools.pairwise(shown))
    assert len({line.partition("%")[0] for line in shown}) > 40


def test_talk_says_what_happens() -> None:
    log = Log()
    created = events.Note("info", "creating t: 1 column", "CREATE TABLE t\n    a UInt8\x1b[2J")
    for event in (started(), created):
        MessagePrinter(log)(event)
    assert log.lines == [
        "load 3f2a9c1e: 100 files, 10.0 GB into default.t",
        "note: creating t: 1 column",
    ]
    verbose = Log()
    MessagePrinter(verbose, level=1)(created)
    assert verbose.lines == [
        "note: creating t: 1 column:",
        "CREATE TABLE t",
        "    a UInt8\\x1b[2J",
    ]


def test_quiet_says_warnings_and_failures_only() -> None:
    log = Log()
    talk = MessagePrinter(log, level=-1)
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
    assert log.lines == [
        "warning: lost a connection",
        "failed: f.csv: cannot parse",
        "  hint: Look at it.",
    ]


def test_verbose_says_every_attempt() -> None:
    log = Log()
    talk = MessagePrinter(log, level=1)
    talk(events.AttemptStarted("a1", 10, 420 * 10**6))
    talk(events.AttemptPublished("a1", 10, 1_000_000, 2.1))
    assert log.lines == [
        "attempt a1: 10 files, 420 MB",
        "attempt a1: published 1,000,000 rows of 10 files in 2.1 s",
    ]


def test_a_flood_of_failures_is_counted() -> None:
    log = Log()
    talk = MessagePrinter(log)
    for number in range(100):
        talk(events.SplitFailed(f"{number}.csv", "gone\x1b[2J", None))
    talk(events.LoadEnded("3f", "failed"))
    assert len(log.lines) == SHOWN_FAILURES + 1
    assert (
        log.lines[-1]
        == f"failed: {100 - SHOWN_FAILURES} files more; rowfall report last lists them"
    )
    assert "\x1b" not in log.out.getvalue()
