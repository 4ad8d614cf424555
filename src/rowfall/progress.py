"""Shows a running load: one steady line on a terminal, a plain line every few seconds elsewhere.

Only consumes events; writes through the function it is given. The line is made by hand: it must
never be wider than the terminal nor change its layout from one redraw to the next, so every field
has a fixed width and a priority that decides what a narrow terminal leaves out.
"""

from __future__ import annotations

import re
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rowfall import events, units
from rowfall.meter import NOW_SECONDS, Clock, Meter

REDRAW_SECONDS = 0.15
PLAIN_FIRST, PLAIN_EVERY = 2.0, 5.0
SHOWN_FAILURES = 10  # the report has all of them
BAR_MIN, BAR_MAX, BAR_RANK = 8, 30, 6
GAP = "  "
_ESCAPES = re.compile(r"\x1b\[\d*m")

Emit = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Piece:
    """One field of the line: ``rank`` 0 is dropped last; ``width`` is kept free for ``text``."""

    rank: int
    text: str
    width: int

    @property
    def padded(self) -> str:
        return self.text.rjust(self.width)


def pieces(meter: Meter) -> list[Piece]:
    """The fields of the line from left to right, without the bar."""
    share, eta, latest = meter.share, meter.eta, meter.latest
    rows_now, bytes_now = meter.rates(NOW_SECONDS)
    rows_mean, bytes_mean = meter.averages()
    made: list[Piece] = []
    if share is None:
        made.append(Piece(0, units.clock(meter.seconds), 7))
    else:
        made.append(Piece(0, f"{int(share * 100)}%", 4))
    if meter.by_bytes:
        total = meter.total_bytes or 0
        width = len(units.size_of(total, total))
        made.append(Piece(3, units.size_of(latest.bytes or 0, total), width))
    elif latest.bytes is not None:
        made.append(Piece(3, units.size(latest.bytes), 7))
    if meter.total_rows is not None:
        of = f"{units.count(latest.rows)}/{units.count(meter.total_rows)} rows"
        made.append(Piece(5, of, 16))
    else:
        made.append(Piece(5, f"{units.count(latest.rows)} rows", 10))
    made.append(Piece(2, units.row_rate(rows_now), 12))
    made.append(Piece(9, f"avg {units.count(rows_mean)}/s", 11))
    if latest.bytes is not None:
        made.append(Piece(4, units.byte_rate(bytes_now), 9))
        made.append(Piece(10, f"avg {units.byte_rate(bytes_mean)}", 13))
    if share is not None:
        # Left-justified, unlike the others: a gap after the word would look torn.
        made.append(Piece(1, f"ETA {'-' if eta is None else units.clock(eta):<7}", 11))
    made.append(Piece(7, f"{units.count(latest.parts)} parts", 9))
    made.append(Piece(8, f"mem {units.memory(latest.memory)}", 12))
    return made


def fit(fields: list[Piece], room: int, *, bar: bool) -> tuple[list[Piece], int]:
    """The fields that fit into ``room`` columns, and the width of the bar (0: none).

    A field that does not fit is left out and smaller ones behind it still get their chance; the
    choice depends on widths alone, so it changes only with the terminal or a growing number.
    """
    kept: set[int] = set()
    used, bar_width = 0, 0
    order = sorted(range(len(fields)), key=lambda i: fields[i].rank)
    for index in order:
        if bar and not bar_width and fields[index].rank > BAR_RANK and used + BAR_MIN < room:
            bar_width = BAR_MIN
            used += BAR_MIN + 1
        need = max(fields[index].width, len(fields[index].text)) + (len(GAP) if kept else 0)
        if used + need <= room:
            kept.add(index)
            used += need
    if bar_width:
        bar_width = min(bar_width + room - used, BAR_MAX)
    return [f for i, f in enumerate(fields) if i in kept], bar_width


def draw(meter: Meter, columns: int, *, color: bool = False, ascii_only: bool = False) -> str:
    """The line for a terminal of ``columns``; the last column stays free, or some would wrap."""
    share = meter.share
    room = max(columns - 1, 1)
    fields, bar_width = fit(pieces(meter), room, bar=share is not None)
    words = [f.padded for f in fields]
    if share is None or not bar_width:
        return GAP.join(words)[:room]
    full, empty = "#-" if ascii_only else "━─"
    filled = int(share * bar_width)
    bar, rest = full * filled, empty * (bar_width - filled)
    plain = GAP.join([f"{words[0]} {bar}{rest}", *words[1:]])
    if len(plain) > room or not color:
        return plain[:room]
    return GAP.join([f"{words[0]} {_paint(bar, '32')}{_paint(rest, '2')}", *words[1:]])


def plain(meter: Meter) -> str:
    """All facts in one line for logs."""
    latest, eta, share = meter.latest, meter.eta, meter.share
    rows_now, bytes_now = meter.rates(NOW_SECONDS)
    rows_mean, bytes_mean = meter.averages()
    words = [units.clock(meter.seconds)]
    if share is not None:
        words.append(f"{int(share * 100)}%")
    if meter.by_bytes:
        words.append(units.size_of(latest.bytes or 0, meter.total_bytes or 0))
    elif latest.bytes is not None:
        words.append(units.size(latest.bytes))
    total = "" if meter.total_rows is None else f"/{units.count(meter.total_rows)}"
    words.append(f"{units.count(latest.rows)}{total} rows")
    words.append(f"{units.row_rate(rows_now)} (avg {units.count(rows_mean)})")
    if latest.bytes is not None:
        words.append(f"{units.byte_rate(bytes_now)} (avg {units.size(bytes_mean)})")
    if eta is not None:
        words.append(f"ETA {units.clock(eta)}")
    words.append(f"{units.count(latest.parts)} parts")
    words.append(f"mem {units.memory(latest.memory)}")
    return ", ".join(words)


def _paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text else ""


class Talk:
    """Listener that prints what happened, and no progress: the whole of ``--quiet``, ``--json``.

    Args:
        emit: writes to the terminal or log and flushes.
        level: -1 warnings and failures only, 0 notes too, 1 every attempt.
        color: whether escape codes may be used.
    """

    def __init__(self, emit: Emit, *, level: int = 0, color: bool = False) -> None:
        self._emit = emit
        self._level = level
        self._color = color
        self._failures = 0
        # Events come from several threads, and the ticker is one more.
        self._lock = threading.RLock()

    def __call__(self, event: events.Event) -> None:
        with self._lock:
            self.hear(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was found; may be called twice."""

    def say(self, text: str) -> None:
        """One or more whole lines."""
        self._emit(text + "\n")

    def hear(self, event: events.Event) -> None:
        match event:
            case events.LoadStarted() if self._level >= 0:
                self.say(_opening(event))
            case events.Note(level="warning"):
                self.say(f"{self._word('warning:', '33')} {units.printable(event.text)}")
            case events.Note() if self._level >= 0:
                self.say(f"{self._word('note:', '36')} {units.printable(event.text)}")
            case events.SplitFailed():
                self._failed(event)
            case events.AttemptStarted() if self._level > 0:
                size = "" if event.bytes is None else f", {units.size(event.bytes)}"
                self.say(f"attempt {event.attempt_id}: {_splits(event.splits)}{size}")
            case events.AttemptPublished() if self._level > 0:
                self.say(
                    f"attempt {event.attempt_id}: published {units.exact(event.rows)} rows of "
                    f"{_splits(event.splits)} in {units.duration(event.seconds)}"
                )
            case events.LoadEnded():
                if self._failures > SHOWN_FAILURES:
                    more = self._failures - SHOWN_FAILURES
                    self.say(f"{self._word('failed:', '31')} {_splits(more)} more")
                self._failures = 0
            case _:
                pass

    def _failed(self, event: events.SplitFailed) -> None:
        self._failures += 1
        if self._failures > SHOWN_FAILURES:
            return
        word = self._word("failed:", "31")
        text = f"{word} {units.printable(event.split)}: {units.printable(event.error)}"
        self.say(text + (f"\n  hint: {units.printable(event.hint)}" if event.hint else ""))

    def _word(self, word: str, code: str) -> str:
        return _paint(word, code) if self._color else word


class Plain(Talk):
    """For logs: the same talk, and a line of progress every five seconds, no control characters."""

    def __init__(
        self, emit: Emit, *, level: int = 0, color: bool = False, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(emit, level=level, color=color)
        self._clock = clock
        self.meter = Meter(clock)
        self._due = clock() + PLAIN_FIRST

    def hear(self, event: events.Event) -> None:
        super().hear(event)
        match event:
            case events.LoadStarted():
                self.meter.started(event)
                self._due = self._clock() + PLAIN_FIRST
            case events.Progressed():
                self.meter.progressed(event)
                self.tick()
            case _:
                pass

    def tick(self) -> None:
        """Print the line when it is due."""
        if self.meter.moving and self._clock() >= self._due:
            while self._due <= self._clock():
                self._due += PLAIN_EVERY  # from when it was due, or the lines drift
            self.say(plain(self.meter))


class Live(Talk):
    """For terminals: one line redrawn in place; talk goes above it.

    Args:
        columns: width of the terminal right now, asked at every redraw.
        ascii_only: the terminal's encoding has no line-drawing characters.
        ticker: redraw from a thread as well, so that a stall shows; off in tests.
    """

    def __init__(
        self,
        emit: Emit,
        columns: Callable[[], int],
        *,
        level: int = 0,
        color: bool = False,
        ascii_only: bool = False,
        clock: Clock = time.monotonic,
        ticker: bool = True,
    ) -> None:
        super().__init__(emit, level=level, color=color)
        self._columns = columns
        self._ascii = ascii_only
        self._clock = clock
        self.meter = Meter(clock)
        self._drawn_at = float("-inf")
        self._shown = 0  # width of the line that is on the screen now
        self._stop = threading.Event()
        if ticker:
            threading.Thread(target=self._run, daemon=True, name="rowfall-progress").start()

    def _run(self) -> None:
        while not self._stop.wait(0.25):
            with self._lock:
                # close() may have won the race for the lock.
                if self.meter.moving and not self._stop.is_set():
                    self.tick()

    def hear(self, event: events.Event) -> None:
        match event:
            case events.LoadStarted():
                self.meter.started(event)
            case events.Progressed():
                self.meter.progressed(event)
                self.tick()
            case events.LoadEnded():
                self._erase()
                self._stop.set()
            case _:
                pass
        super().hear(event)

    def tick(self) -> None:
        """Redraw unless that was done a moment ago."""
        if not self._stop.is_set() and self._clock() - self._drawn_at >= REDRAW_SECONDS:
            self._draw()

    def say(self, text: str) -> None:
        shown = self._shown
        self._erase()
        width = max(self._columns(), 20)
        lines = [part for line in text.split("\n") for part in _folded(line, width)]
        super().say("\n".join(lines))
        if shown:
            self._draw()

    def close(self) -> None:
        with self._lock:
            self._stop.set()
            self._erase()

    def _draw(self) -> None:
        columns = self._columns()
        line = draw(self.meter, columns, color=self._color, ascii_only=self._ascii)
        self._emit(f"{self._home(columns)}{line}\x1b[K")
        self._shown = len(_ESCAPES.sub("", line))
        self._drawn_at = self._clock()

    def _erase(self) -> None:
        if self._shown:
            self._emit(f"{self._home(self._columns())}\x1b[K")
            self._shown = 0

    def _home(self, columns: int) -> str:
        """Back to where the line began; a narrowed terminal has folded it into several rows."""
        rows = (self._shown - 1) // max(columns, 1) if self._shown else 0
        return f"\r\x1b[{rows}A\x1b[J" if rows else "\r"


def _folded(line: str, width: int) -> list[str]:
    """``line`` broken between words; the terminal itself would break inside of them."""
    return textwrap.wrap(
        line,
        width,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    ) or [""]


def _splits(number: int) -> str:
    return f"{units.exact(number)} split" + ("" if number == 1 else "s")


def _opening(event: events.LoadStarted) -> str:
    size = "" if event.total_bytes is None else f", {units.size(event.total_bytes)}"
    if event.total_bytes is None and event.total_rows is not None:
        size = f", {units.exact(event.total_rows)} rows"
    before = f" ({units.exact(event.resumed)} landed before)" if event.resumed else ""
    into = event.table or event.target
    return (
        f"load {event.load_id[:8]}: {_splits(event.splits)}{size}{before} into "
        f"{units.printable(into)}"
    )
