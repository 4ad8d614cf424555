"""Print what commands answer: data goes to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import IO, TYPE_CHECKING, Any, cast

from rowfall.core import units
from rowfall.core.errors import Exit

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rowfall.core.events import Event, Listener
    from rowfall.core.results import Report
    from rowfall.core.tables import TablesReport
    from rowfall.report.log import Log
    from rowfall.report.progress import MessagePrinter

_WIDEST = 100  # text for reading gets no better beyond
_ASCII = str.maketrans("━─…", "#-.")


class CommandOutput:
    """The output of one command; the common options set its attributes.

    Attributes:
        json: one JSON document on stdout instead of text, no progress.
        quiet: only warnings and errors on stderr.
        verbose: more messages.
        debug: tracebacks.
        log_file: opened, gets every line of talk and every event as well.
        config: the project file of ``--config``; None to look for it.
        log_format: "" for text. Without ``log_file`` stderr gets such lines and nothing else.
        streamed: rows have gone to stdout, where no document may follow.
        began: when the user began to wait, as of ``time.monotonic``.
    """

    def __init__(self, began: float = 0.0) -> None:
        self.began = began or time.monotonic()
        self.json = False
        self.quiet = False
        self.verbose = False
        self.no_color = bool(os.environ.get("NO_COLOR"))
        self.debug = os.environ.get("ROWFALL_DEBUG", "") not in ("", "0")
        self.log_file: IO[str] | None = None
        self.config: str | None = None
        self.log_format = ""
        self.streamed = False
        self._log: Log | None = None
        self._deaf = False
        for stream in (sys.stdout, sys.stderr):
            # File names need not be valid text, and a locale need not know every character.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    # stdout

    @property
    def to_terminal(self) -> bool:
        """Tell if stdout is a terminal."""
        return sys.stdout.isatty()

    @property
    def data_color(self) -> bool:
        return self._colors(sys.stdout)

    def data(self, text: str) -> None:
        """Print a result as text."""
        text = units.for_terminal(text, styled=self.data_color)
        sys.stdout.write(_plain(text, sys.stdout.encoding) + "\n")

    def document(self, document: Mapping[str, Any]) -> None:
        """Print a result as one JSON document."""
        sys.stdout.write(units.as_json(document, indent=2) + "\n")

    @contextlib.contextmanager
    def rows(self) -> Iterator[int]:
        """Give the file descriptor that rows of a query are written to, by an engine.

        A terminal gets them without what it would obey; files and programs get the very bytes.
        """
        self.flush()
        if not self.to_terminal:
            yield 1
            return
        taken, given = os.pipe()
        copying = threading.Thread(target=self._show, args=(taken,), daemon=True)
        copying.start()
        try:
            yield given
        finally:
            os.close(given)
            copying.join()

    def _show(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="backslashreplace", newline="") as rows:
            try:
                for piece in iter(partial(rows.read, 1 << 16), ""):
                    sys.stdout.write(units.for_terminal(piece))
                sys.stdout.flush()
            except OSError:  # the terminal has gone; the engine must not wait for its pipe
                for _ in iter(partial(rows.read, 1 << 16), ""):
                    pass

    def flush(self) -> None:
        sys.stdout.flush()

    def abandon(self) -> None:
        """Keep the interpreter from flushing into stdout at exit, as nobody reads it any more."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    # stderr

    @property
    def talk_color(self) -> bool:
        return self._colors(sys.stderr)

    @property
    def columns(self) -> int:
        """Return the width of texts that are read, not redrawn."""
        import shutil  # 2 ms that most commands save

        return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)

    def talk(self, text: str) -> None:
        """Print a message that is not a result, unless quiet."""
        if (log := self._logs()) is not None:
            log.say(text)
        if not self.quiet and not self._only_logs:
            self.emit(text + "\n")

    def help(self, text: str) -> None:
        """Print a message also when quiet: the user asked for it or made a mistake."""
        self.emit(text + "\n")

    def error(
        self, message: str, hint: str | None, *, label: str = "error: ", code: int = Exit.BUG
    ) -> None:
        """Print ``rowfall: error: <message>``, and the hint on its own line.

        With ``--json`` stdout gets a document, too; stderr where it holds rows.
        """
        document = error_document(message, hint, code)
        if (log := self._logs()) is not None:
            log.error(document)
        if self.json and self.streamed:
            self.emit(units.as_json(document) + "\n")
            return
        if self.json:
            with contextlib.suppress(OSError, ValueError):  # nobody reads it
                self.document(document)
                self.flush()
        if self._only_logs:
            return
        styled = bool(label) and self._colors(sys.stderr)
        if styled:
            label = f"\x1b[31m{label}\x1b[0m"
        shown = "" if hint is None else hint.replace("\n", "\n        ")
        said = f"{message}\n" + (f"  hint: {shown}\n" if shown else "")
        self.emit(f"rowfall: {label}{units.for_terminal(said)}", styled=styled)

    def emit(self, text: str, *, styled: bool = False) -> None:
        """Write to stderr now. A closed stderr (``2>&1 | head``) must not stop a load.

        Args:
            styled: text with sequences of rich, which go through. Nothing else does that a terminal
                would obey: headers, keys, names, values, and what servers say may hold it.
        """
        if self._deaf:
            return
        text = units.for_terminal(text, styled=styled)
        try:
            sys.stderr.write(_plain(text, sys.stderr.encoding))
            sys.stderr.flush()
        except (OSError, ValueError):
            self._deaf = True

    # reports

    def report(self, report: Report) -> None:
        """Print the report of an earlier load on stdout."""
        from rowfall.report.loads import report_document, report_text

        if self.json:
            self.document(report_document(report))
        else:
            self.data(report_text(
                report, color=self.data_color, verbose=self.verbose, width=self.columns
            ))  # fmt: skip

    def ended(self, report: Report) -> int:
        """Print the report of the run that has just ended and return its exit code."""
        if (log := self._logs()) is not None:
            from rowfall.report.layout import ENDLESS
            from rowfall.report.loads import report_document, short_report_text

            log.report(report_document(report), short_report_text(report, width=ENDLESS))
        if self.json:
            self.report(report)
        elif not self._only_logs:
            from rowfall.report.loads import report_text, short_report_text

            color, width = self.talk_color, self.columns
            if self.verbose:
                text = "\n" + report_text(report, color=color, verbose=True, width=width)
            else:
                text = short_report_text(report, color=color, width=width)
            if not self.quiet:
                self.emit(text + "\n", styled=color)
        return Exit.DONE if report.outcome == "done" else Exit.PARTIAL

    def tables_ended(self, report: TablesReport) -> int:
        """Print the report of many tables that have just ended and return its exit code."""
        from rowfall.report.layout import ENDLESS
        from rowfall.report.tables import tables_document, tables_text

        if (log := self._logs()) is not None:
            log.report(tables_document(report), tables_text(report, verbose=True, width=ENDLESS))
        if self.json:
            self.document(tables_document(report))
        elif not self._only_logs and not self.quiet:
            color = self.talk_color
            text = tables_text(report, color=color, verbose=self.verbose, width=self.columns)
            self.emit(f"{text}\n", styled=color)
        return report.exit

    def listener(
        self, busy: str | None = None, *, ask: bool = False
    ) -> AbstractContextManager[Listener]:
        """Return the listener that shows a run and logs it.

        Args:
            busy: shown while there is no progress yet; "" where hours may pass until then: a log
                gets no lines of it.
            ask: put questions about doubtful choices to the user at the terminal.
        """
        log = self._logs()
        if log is None:
            return self._talk(busy, ask=ask)
        return _logged(log, None if self._only_logs else self._talk(busy, ask=ask))

    def _talk(self, busy: str | None, *, ask: bool) -> MessagePrinter:
        """Return the display of a run: a live line, plain lines without a terminal, or none."""
        from rowfall.report import progress

        level = -1 if self.quiet else int(self.verbose)
        shown = progress.BUSY if busy is None else busy
        if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            lines = progress.ProgressLines(self.emit)
            if self.quiet or self.json:
                return progress.MessagePrinter(lines, level=level)
            return progress.LogPrinter(lines, level=level, busy=shown)
        from rich.console import Console

        console = Console(
            file=cast("IO[str]", _Stderr(self)),
            force_terminal=True,
            color_system="auto" if self.talk_color else None,
            highlight=False,
        )
        if self.quiet or self.json:
            return progress.MessagePrinter(console, level=level)
        ask = ask and sys.stdin.isatty()
        return progress.TerminalPrinter(console, level=level, busy=shown or "waiting", ask=ask)

    @property
    def _only_logs(self) -> bool:
        return bool(self.log_format) and self.log_file is None

    def _logs(self) -> Log | None:
        if self._log is None and (self.log_format or self.log_file is not None):
            from rowfall.report.log import TEXT, Log

            write = self.emit if self.log_file is None else partial(_append, self.log_file)
            self._log = Log(write, self.log_format or TEXT)
        return self._log

    def _colors(self, stream: Any) -> bool:
        terminal = bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
        return terminal and not self.no_color


def error_document(message: str, hint: str | None, code: int) -> dict[str, Any]:
    """Return the JSON document of an error, see docs/reference/json.md."""
    return {"rowfall_error": 1, "error": message, "hint": hint, "exit": int(code)}


@contextlib.contextmanager
def _logged(log: Log, shown: MessagePrinter | None) -> Iterator[Listener]:
    """Give a listener that logs events and shows them."""
    with shown or contextlib.nullcontext():

        def hear(event: Event) -> None:
            log.hear(event)
            if shown is not None:
                shown(event)

        yield hear


class _Stderr:
    """The file that rich writes to; it may close without an error, like stderr."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self.encoding = sys.stderr.encoding

    def write(self, text: str) -> None:
        self._output.emit(text, styled=True)

    def flush(self) -> None:
        """Do nothing, as every write is flushed."""

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def _has_lines(encoding: str | None) -> bool:
    try:
        "━─".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _plain(text: str, encoding: str | None) -> str:
    return text if text.isascii() or _has_lines(encoding) else text.translate(_ASCII)


def _append(file: IO[str], line: str) -> None:
    """Write to the log file. A disk that is full must not stop a load."""
    with contextlib.suppress(OSError, ValueError):
        file.write(line)
        file.flush()
