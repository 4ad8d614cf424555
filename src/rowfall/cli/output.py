"""Print what commands answer: data goes to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, cast

from rowfall.core.errors import Exit

if TYPE_CHECKING:
    from rowfall.core.results import Report
    from rowfall.report.progress import Talk

_WIDEST = 100  # text for reading gets no better beyond
_ASCII = str.maketrans("━─…", "#-.")


class Output:
    """The output of one command; the common options set its attributes.

    Attributes:
        json: one JSON document on stdout instead of text, no progress.
        quiet: only warnings and errors on stderr.
        verbose: more messages.
        debug: tracebacks.
        began: when the user began to wait, as of ``time.monotonic``.
    """

    def __init__(self, began: float = 0.0) -> None:
        self.began = began or time.monotonic()
        self.json = False
        self.quiet = False
        self.verbose = False
        self.no_color = bool(os.environ.get("NO_COLOR"))
        self.debug = os.environ.get("ROWFALL_DEBUG", "") not in ("", "0")
        self._deaf = False
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed by whoever started us
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we run
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
        sys.stdout.write(_plain(text, sys.stdout.encoding) + "\n")

    def document(self, document: Mapping[str, Any]) -> None:
        """Print a result as one JSON document."""
        sys.stdout.write(json.dumps(document, indent=2) + "\n")

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
        return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)

    def talk(self, text: str) -> None:
        """Print a message that is not a result, unless quiet."""
        if not self.quiet:
            self.emit(text + "\n")

    def help(self, text: str) -> None:
        """Print a message also when quiet: the user asked for it or made a mistake."""
        self.emit(text + "\n")

    def error(self, message: str, hint: str | None, *, label: str = "error: ") -> None:
        """Print ``rowfall: error: <message>``, and the hint on its own line."""
        if label and self._colors(sys.stderr):
            label = f"\x1b[31m{label}\x1b[0m"
        self.emit(f"rowfall: {label}{message}\n" + (f"  hint: {hint}\n" if hint else ""))

    def emit(self, text: str) -> None:
        """Write to stderr now. A closed stderr (``2>&1 | head``) must not stop a load."""
        if self._deaf:
            return
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
        if self.json:
            self.report(report)
        else:
            from rowfall.report.loads import report_text, short_report_text

            color, width = self.talk_color, self.columns
            if self.verbose:
                text = "\n" + report_text(report, color=color, verbose=True, width=width)
            else:
                text = short_report_text(report, color=color, width=width)
            self.talk(text)
        return Exit.DONE if report.outcome == "done" else Exit.PARTIAL

    def listener(self, busy: str | None = None) -> Talk:
        """Return what shows a run: a live line, plain lines without a terminal, or no progress.

        Args:
            busy: shown while there is no progress yet.
        """
        from rich.console import Console

        from rowfall.report import progress
        from rowfall.report.layout import ENDLESS

        terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        console = Console(
            file=cast("IO[str]", _Stderr(self)),
            force_terminal=terminal,
            color_system="auto" if self.talk_color else None,
            highlight=False,
            width=None if terminal else ENDLESS,
        )
        level = -1 if self.quiet else int(self.verbose)
        if self.quiet or self.json:
            return progress.Talk(console, level=level)
        shown = progress.Live if terminal else progress.Plain
        return shown(console, level=level, busy=busy or progress.BUSY)

    def _colors(self, stream: Any) -> bool:
        terminal = bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
        return terminal and not self.no_color


class _Stderr:
    """The file that rich writes to; it may close without an error, like stderr."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.encoding = sys.stderr.encoding

    def write(self, text: str) -> None:
        self._output.emit(text)

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
