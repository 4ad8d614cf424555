"""Show a running load: one line on a terminal, a plain line every few seconds elsewhere.

rich redraws the line, prints messages above it and decides on colours. Its Progress has neither a
rank of columns, by which a narrow terminal leaves some out, nor columns that keep their place while
the numbers change: the line itself is made here.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rowfall.core import events, units
from rowfall.core.errors import UsageError
from rowfall.report.layout import ENDLESS, wrap

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

    from rowfall.core.tables import TableReport

BUSY = "looking at the source and the target"  # shown until the load has begun
REDRAWS = 8  # a second
BUSY_AFTER, PLAIN_FIRST, PLAIN_EVERY = 0.5, 2.0, 5.0
SHOWN_FAILURES = 10  # the report has all of them
BAR_RANK, BAR_MIN, BAR_MAX = 6, 5, 30
FILES_RANK = 7
AWAY_SECONDS = 2.0  # a question that comes late is not a lost connection
ROOMY = 110  # columns from which all fields fit with a wider gap
NOW_SECONDS = 3.0  # what "now" is averaged over
ETA_SECONDS = 30.0  # the forecast averages over a longer time, or it jumps with every stall

Clock = Callable[[], float]


class Meter:
    """Totals, rates and forecast of a load, computed from its events."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._heard_at = clock()
        self._samples: deque[tuple[float, int, int]] = deque()
        self.total_bytes: int | None = None
        self.total_rows: int | None = None
        self.files = self.total_files = 0
        self.unit = "file"
        self.latest = events.Progressed(0, None, 0, 0, 0.0)
        self.moving = False

    def hear(self, event: events.Event) -> None:
        """Take in what an event says of the numbers."""
        if isinstance(event, events.LoadStarted):
            self.started(event)
        elif isinstance(event, events.TablesStarted):
            self.total_rows = event.total_rows or None
            self.total_bytes = None if self.total_rows else event.total_bytes or None
            self.total_files, self.unit = event.tables, "table"
            self._heard_at = self._clock()
        elif isinstance(event, events.TableEnded):
            self.files += 1
            if self.total_rows is not None and event.forecast is not None:
                # What was loaded before is no work, and a forecast is a guess.
                self.total_rows += event.report.rows - event.forecast
        elif isinstance(event, events.Progressed):
            self.progressed(event)
        elif isinstance(event, events.AttemptPublished):
            self.files += event.splits

    def started(self, event: events.LoadStarted) -> None:
        self.total_bytes = event.total_bytes or None
        self.total_rows = event.total_rows or None
        self.total_files, self.unit = event.splits - event.resumed, event.unit
        self._heard_at = self._clock()

    def progressed(self, event: events.Progressed) -> None:
        self.latest = event
        self.moving = True
        self._heard_at = self._clock()
        self._samples.append((event.seconds, event.rows, event.bytes or 0))
        # One sample older than the window stays, as the point that the rate is measured from.
        while len(self._samples) > 2 and self._samples[1][0] < event.seconds - ETA_SECONDS:
            self._samples.popleft()

    @property
    def seconds(self) -> float:
        """Return the seconds since the load began; they go on between events: a stall is seen."""
        return self.latest.seconds + max(self._clock() - self._heard_at, 0.0)

    def rates(self, window: float) -> tuple[float, float]:
        """Return (rows, bytes) per second over the last ``window`` seconds."""
        start, rows, size = 0.0, 0, 0
        since = self.seconds - window
        for sample in self._samples:
            if sample[0] > since:
                break
            start, rows, size = sample
        # From that sample on, though it is older than the window: sparse events are no bursts.
        span = max(self.seconds - start, 1e-3)
        return (
            max(self.latest.rows - rows, 0) / span,
            max((self.latest.bytes or 0) - size, 0) / span,
        )

    def averages(self) -> tuple[float, float]:
        """Return (rows, bytes) per second since the load began."""
        span = max(self.seconds, 1e-3)
        return self.latest.rows / span, (self.latest.bytes or 0) / span

    @property
    def by_bytes(self) -> bool:
        return self.total_bytes is not None and self.latest.bytes is not None

    @property
    def share(self) -> float | None:
        """Return the part done, 0..1, by bytes or, for generators, by rows; None if not known."""
        if self.by_bytes:
            return min((self.latest.bytes or 0) / (self.total_bytes or 1), 1.0)
        if self.total_rows is not None:
            return min(self.latest.rows / self.total_rows, 1.0)
        return None

    @property
    def eta(self) -> float | None:
        """Return the seconds left, None if not known or if nothing moves."""
        share = self.share
        if share is None or not self.moving:
            return None
        rows, size = self.rates(ETA_SECONDS)
        if self.by_bytes:
            left, rate = (self.total_bytes or 0) - (self.latest.bytes or 0), size
        else:
            left, rate = (self.total_rows or 0) - self.latest.rows, rows
        return max(left, 0) / rate if rate > 0 else None


class ProgressField(NamedTuple):
    """One field of the line, padded to its usual width; rank 0 is dropped last."""

    rank: int
    text: str
    style: str = ""


def draw(meter: Meter, columns: int) -> Text:
    """Draw the line for a terminal of ``columns``, never wider.

    A field that does not fit is left out and smaller ones behind it still get their chance; the
    choice depends on widths alone, so it changes only with the terminal or a growing number.
    """
    from rich.text import Text

    room = max(columns - 2, 1)  # the terminal echoes ^C behind the line, and that must not wrap
    gap = 2 if columns >= ROOMY else 1
    fields = _fields(meter)
    kept, left = set[int](), room + gap
    for field in sorted(fields):
        if len(field.text) + gap <= left or not kept:
            kept.add(field.rank)
            left -= len(field.text) + gap
    words = [
        _bar(meter.share or 0.0, min(BAR_MIN + left, BAR_MAX))
        if field.rank == BAR_RANK
        else Text(field.text, field.style)
        for field in fields
        if field.rank in kept
    ]
    line = Text(" " * gap).join(words)
    line.truncate(room, overflow="crop")
    line.rstrip()
    return line


def plain(meter: Meter) -> str:
    """Return all facts in one line for logs."""
    clock = [units.clock(meter.seconds)] if meter.share is not None else []
    facts = [text for field in _fields(meter) if (text := field.text.strip())]
    return ", ".join([*clock, *facts])


def _fields(meter: Meter) -> list[ProgressField]:
    """Return all fields from left to right; a rate stands behind what it counts."""
    share, latest = meter.share, meter.latest
    (rows_now, bytes_now), (rows_mean, bytes_mean) = meter.rates(NOW_SECONDS), meter.averages()
    if share is None:
        made = [ProgressField(0, f"{units.clock(meter.seconds):>7}")]
    else:
        # The last rows are read before they are published: 100% would be said too early.
        made = [
            ProgressField(0, f"{min(int(share * 100), 99):>2}%"),
            ProgressField(BAR_RANK, " " * BAR_MIN),
        ]
    if meter.by_bytes or latest.bytes:
        size = _tight(units.size(latest.bytes or 0))
        if meter.total_bytes is not None:
            widest = _tight(units.size_of(meter.total_bytes, meter.total_bytes))
            size = _tight(units.size_of(latest.bytes or 0, meter.total_bytes)).rjust(len(widest))
        made += [
            ProgressField(5, f"{size:>6}"),
            ProgressField(4, f"{_tight(units.byte_rate(bytes_now)):>8}", "cyan"),
            ProgressField(10, f"{'avg ' + _tight(units.size(bytes_mean)):>10}", "dim"),
        ]
    parts = latest.parts if latest.parts < 10_000 else f"{latest.parts // 1000}k"
    of, width = "", 10
    if meter.total_rows is not None:
        of, width = f"/{units.count(meter.total_rows)}", 16
    made += [
        ProgressField(2, f"{units.count(latest.rows)}{of} rows".rjust(width)),
        ProgressField(3, f"{units.count(rows_now) + '/s':>7}", "cyan"),
        ProgressField(9, f"{'avg ' + units.count(rows_mean):>9}", "dim"),
        ProgressField(8, f"{parts:>3} parts"),
        ProgressField(11, f"{_tight(units.memory(latest.memory)):>7}"),
    ]
    if meter.total_files > 1:
        todo = f"{units.exact(meter.total_files)} {meter.unit}s"
        width = 2 * len(todo) - len(meter.unit) - 1  # of "20/20 files"
        made.append(ProgressField(FILES_RANK, f"{units.exact(meter.files)}/{todo}".rjust(width)))
    if latest.away >= AWAY_SECONDS:
        return [*made, ProgressField(1, f"reconnecting {_short(latest.away)}", "yellow")]
    return made if share is None else [*made, ProgressField(1, f"ETA {_short(meter.eta):<5}")]


def _bar(share: float, width: int) -> Text:
    from rich.text import Text

    filled = int(share * width)
    return Text.assemble(("━" * filled, "green"), ("─" * (width - filled), "dim"))


def _tight(text: str) -> str:
    return text.replace(" ", "")


def _short(seconds: float | None) -> str:
    """Return ``1m23s`` or ``12m``: five characters, as more digits of a forecast mean nothing."""
    first, _, second = ("-" if seconds is None else units.clock(seconds)).partition(" ")
    return first + second if len(first + second) <= 5 else first


class Line:
    """The progress line for rich; events come from one thread, redraws from another."""

    def __init__(self, clock: Clock, busy: str) -> None:
        self._meter = Meter(clock)
        self._busy = busy
        self._lock = threading.Lock()  # never held while something is printed

    def hear(self, event: events.Event) -> None:
        with self._lock:
            if isinstance(event, events.Doing) and self._busy:
                self._busy = event.text
            self._meter.hear(event)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            if self._meter.moving:
                line = draw(self._meter, options.max_width)
            else:
                from rich.text import Text

                seconds = self._meter.seconds
                shown = self._busy and seconds > BUSY_AFTER
                line = Text(f"{units.clock(seconds)} {self._busy}" if shown else "")
        line.truncate(options.max_width, overflow="crop")
        yield line

    def __str__(self) -> str:
        with self._lock:
            if self._meter.moving:
                return plain(self._meter)
            return f"{units.clock(self._meter.seconds)}, {self._busy}" if self._busy else ""


class ProgressLines:
    """Takes lines as they are, where nobody sees colours: rich takes 20 ms to import."""

    width = ENDLESS

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write


class MessagePrinter:
    """Listener that prints what happened and no progress, as ``--quiet`` and ``--json`` need it.

    Args:
        console: where to; its settings decide on colours and wrapping.
        level: -1 warnings and failures only, 0 notes too, 1 every attempt.
        busy: shown while there is no progress yet; "" for nothing, where hours may pass.
    """

    def __init__(
        self,
        console: Console | ProgressLines,
        *,
        level: int = 0,
        busy: str = BUSY,
        clock: Clock = time.monotonic,
    ) -> None:
        self.console = console
        self.line = Line(clock, busy)
        self._level = level
        self._failures = 0
        self._unit, self._load = "file", "last"

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

    def say(self, text: str, style: str = "") -> None:
        """Print lines, the first word in ``style``; a CREATE TABLE keeps its line breaks."""
        lines = [
            wrap(x, first="", indent="    ", width=self.console.width) for x in text.split("\n")
        ]
        if isinstance(self.console, ProgressLines):
            self.console.write("\n".join(lines) + "\n")
            return
        from rich.text import Text

        shown = Text("\n".join(lines))
        shown.stylize(style, 0, text.find(" "))
        self.console.print(shown, soft_wrap=True)

    def __call__(self, event: events.Event) -> None:
        self.line.hear(event)
        match event:
            case events.LoadEnded():
                self.close()
                if (more := self._failures - SHOWN_FAILURES) > 0:
                    where = f"rowfall report {self._load} lists them"
                    text = f"failed: {units.counted(more, self._unit)} more; {where}"
                    self.say(text, "red")
                self._failures = 0  # of the next batch of a load that goes on
            case events.LoadStarted():
                self._unit, self._load = event.unit, event.load_id[:8]
                if self._level >= 0:
                    self.say(_opening(event))
            case events.TablesStarted():
                self._unit = "table"
                if self._level >= 0:
                    self.say(_opening_of_tables(event))
            case events.TableEnded():
                self._table_ended(event.report)
            case events.Note(level="detail"):
                if self._level > 0:
                    self.say(f"note: {event.text}", "cyan")
            case events.Note(level="warning"):
                self.say(f"warning: {event.text}", "yellow")
            case events.Note() if self._level >= 0:
                told = event.detail if self._level > 0 and event.level != "question" else ""
                detail = f":\n{event.detail}" if told else ""
                self.say(f"note: {event.text}{detail}", "cyan")
            case events.Steered() if self._level >= 0:
                self.say(f"note: {event.text}", "cyan")
            case events.SplitFailed():
                self._failed(event)
            case events.AttemptStarted() if self._level > 0:
                size = "" if event.bytes is None else f", {units.size(event.bytes)}"
                self.say(
                    f"attempt {event.attempt_id}: {units.counted(event.splits, self._unit)}{size}"
                )
            case events.AttemptPublished() if self._level > 0:
                self.say(
                    f"attempt {event.attempt_id}: published {units.exact(event.rows)} rows of "
                    f"{units.counted(event.splits, self._unit)} in {units.duration(event.seconds)}"
                )
            case _:
                pass

    def _table_ended(self, report: TableReport) -> None:
        """Say that a table has failed, and with -v also that one is loaded."""
        if report.problem is None:
            if self._level > 0:
                rows = units.counted(report.rows, "row")
                took = units.duration(report.seconds)
                self.say(f"table {units.printable(report.source)}: {rows} in {took}")
            return
        self._failures += 1
        if self._failures <= SHOWN_FAILURES:
            what = units.failure(report.source, report.problem.error)
            self.say(f"failed: {units.printable(what)}", "red")

    def _failed(self, event: events.SplitFailed) -> None:
        self._failures += 1
        if self._failures <= SHOWN_FAILURES:
            hint = f"\n  hint: {units.printable(event.hint)}" if event.hint else ""
            what = units.failure(event.split, event.error)
            self.say(f"failed: {units.printable(what)}{hint}", "red")


class LogPrinter(MessagePrinter):
    """Listener for logs, with a line of progress every five seconds, also in a stall."""

    def __init__(self, console: Console | ProgressLines, **more: Any) -> None:
        super().__init__(console, **more)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="rowfall-progress")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def _run(self) -> None:
        wait = PLAIN_FIRST
        while not self._stop.wait(wait):
            if text := str(self.line):
                self.say(text)
            wait = PLAIN_EVERY

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()


class TerminalPrinter(MessagePrinter):
    """Listener for terminals: one line is redrawn in place, messages go above it."""

    def __init__(self, console: Console, *, ask: bool = False, **more: Any) -> None:
        super().__init__(console, **more)
        self._ask = ask
        from rich.live import Live as LiveOfRich

        self._shown_on = console
        self._live = LiveOfRich(
            self.line, console=console, transient=True, refresh_per_second=REDRAWS,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._live.start()
        # Else Ctrl-Z and SIGKILL would leave a terminal without a cursor.
        self._shown_on.show_cursor(True)
        return self

    def close(self) -> None:
        self._live.stop()

    def __call__(self, event: events.Event) -> None:
        super().__call__(event)
        if isinstance(event, events.Note) and event.level == "question" and self._ask:
            self._live.stop()
            self._shown_on.print("Load it as it was found? \\[Y/n] (--yes does not ask) ", end="")
            answer = sys.stdin.readline().strip().lower()
            if answer.startswith("n"):
                raise UsageError("nothing was loaded, as the answer was no", hint=event.detail)
            self.__enter__()


def _opening_of_tables(event: events.TablesStarted) -> str:
    rows = f", about {units.count(event.total_rows)} rows" if event.total_rows else ""
    size = f", {units.size(event.total_bytes)}" if event.total_bytes and not rows else ""
    into = units.printable(event.target)
    many = f", {event.parallel} at a time" if event.parallel > 1 else ", one after the other"
    return f"{units.counted(event.tables, 'table')}{rows}{size} into {into}{many}"


def _opening(event: events.LoadStarted) -> str:
    size = f", {units.size(event.total_bytes)}" if event.total_bytes else ""
    if event.total_bytes is None and event.total_rows:
        size = f", {units.counted(event.total_rows, 'row')}"
    before = f" ({units.exact(event.resumed)} already loaded)" if event.resumed else ""
    into = units.printable(event.table or event.target)
    todo = units.counted(event.splits, event.unit)
    written = f" ({event.format})" if event.format else ""
    return f"load {event.load_id[:8]}: {todo}{size}{before} into {into}{written}"
