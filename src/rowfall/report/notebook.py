"""Show a running load to a program's user: in the cell of a notebook, or on stderr.

IPython is never imported for that: it is there already where a notebook runs.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from rich.console import Console

from rowfall.core import events, units
from rowfall.report.html import progress_html
from rowfall.report.layout import ENDLESS
from rowfall.report.progress import BUSY, LogPrinter, MessagePrinter, Meter, TerminalPrinter, plain

REDRAW_AFTER = 0.25  # seconds; events of many small attempts come faster than anybody reads
MOST_MESSAGES = 20  # the report has all of them


def shown(progress: bool | None) -> MessagePrinter | None:
    """Return the listener that shows a load, None for nobody to show it to.

    Args:
        progress: True or False; None shows it where somebody sits in front of IPython.
    """
    if progress is False:
        return None
    shell = _shell()
    if hasattr(shell, "kernel"):
        return Notebook(sys.modules["IPython"].display.display)
    if progress is None and shell is None:
        return None
    terminal = sys.stderr.isatty()
    console = Console(stderr=True, highlight=False, width=None if terminal else ENDLESS)
    return TerminalPrinter(console) if terminal else LogPrinter(console)


def _shell() -> Any:
    """Return the IPython shell that runs this program, None without one."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


class Notebook(MessagePrinter):
    """Listener that draws into the output of a cell, again and again in the same place.

    Args:
        display: ``IPython.display.display``, or what stands for it.
    """

    def __init__(self, display: Any) -> None:
        super().__init__(Console(stderr=True))
        self._meter = Meter()
        self._messages: list[tuple[str, str]] = []
        self._left_out = 0
        self._drawn_at = time.monotonic()
        self._ended = False
        self._drawing = threading.Lock()
        self._handle = display(self._bundle(BUSY), display_id=True, raw=True)

    def say(self, text: str, style: str = "") -> None:
        """Keep a message for the cell; what a load opens with is left to the line of numbers."""
        if style not in ("red", "yellow"):
            return
        if len(self._messages) < MOST_MESSAGES:
            self._messages.append((text, style))
        else:
            self._left_out += 1

    def __call__(self, event: events.Event) -> None:
        super().__call__(event)
        self._meter.hear(event)
        now = time.monotonic()
        if not self._ended and now - self._drawn_at >= REDRAW_AFTER:
            self._drawn_at = now
            self._draw(plain(self._meter) if self._meter.moving else BUSY)

    def close(self) -> None:
        """Leave warnings and failures; the numbers are in the report."""
        if not self._ended:
            self._ended = True
            self._draw("")

    def _draw(self, line: str) -> None:
        with self._drawing:
            self._handle.update(self._bundle(line), raw=True)

    def _bundle(self, line: str) -> dict[str, str]:
        """Return the same as HTML and as text; the frontend takes what it can show."""
        messages = list(self._messages)
        if self._left_out:
            messages.append((f"and {units.counted(self._left_out, 'more message')}", ""))
        share = (self._meter.share or 0.0) if line and self._meter.moving else None
        words = [text for text, _ in messages] + [line]
        return {
            "text/html": progress_html(share, line, messages),
            "text/plain": "\n".join(word for word in words if word),
        }
