"""Write a run as a log: one line for each event, as text or as JSON for programs."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rowfall.core import units
from rowfall.core.events import (
    Doing,
    Event,
    Lagged,
    LoadEnded,
    LoadPlanned,
    LoadStarted,
    MergesWaited,
    Note,
    PartsCounted,
    Progressed,
    RunBegan,
    RunEnded,
    SplitFailed,
    Steered,
    TableEnded,
    TablesStarted,
)
from rowfall.core.patterns import regex

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
# Progress comes ten times a second; an hour of it in a log is then 360 lines.
_PROGRESS_SECONDS = 10.0
_CAPITAL = regex(r"(?<=[a-z])(?=[A-Z])")


class Log:
    """The lines of one command.

    Args:
        write: takes one line with its end.
        format: ``text`` or ``json``.
    """

    def __init__(self, write: Callable[[str], None], format: str) -> None:
        self._write = write
        self._json = format == JSON
        self._shown = -_PROGRESS_SECONDS
        self._guard = threading.Lock()

    def hear(self, event: Event) -> None:
        """Write an event; progress every ten seconds only."""
        if isinstance(event, RunBegan | LoadPlanned | RunEnded | Lagged | PartsCounted):
            return  # what they hold is in other lines, or comes twice a second
        if isinstance(event, Progressed):
            now = time.monotonic()
            if now - self._shown < _PROGRESS_SECONDS:
                return
            self._shown = now
        level, text = _said(event)
        if self._json:
            name = _CAPITAL.sub("_", type(event).__name__).lower()
            fields = dataclasses.asdict(event)
            fields.pop("level", None)
            self._line(level, name, fields)
        elif text:
            self._text(level, text)

    def say(self, text: str) -> None:
        """Write what a command says besides events."""
        if self._json:
            self._line("info", "message", {"text": text.strip()})
        else:
            for line in text.strip().splitlines():
                self._text("info", line)

    def report(self, document: Mapping[str, Any], text: str) -> None:
        """Write the report of a load."""
        if self._json:
            self._line("info", "report", {"report": document})
        else:
            self.say(text)

    def error(self, document: Mapping[str, Any]) -> None:
        """Write why a command failed."""
        if self._json:
            self._line("error", "error", document)
        else:
            self._text("error", str(document["error"]))
            if document["hint"]:
                self._text("error", f"hint: {document['hint']}")

    def _line(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        line = {"time": _now(), "level": level, "event": event, **fields}
        with self._guard:
            self._write(units.as_json(line) + "\n")

    def _text(self, level: str, text: str) -> None:
        with self._guard:
            self._write(f"{_now()} {level:7} {units.printable(text)}\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _said(event: Event) -> tuple[str, str]:
    """Return the level and the text of an event; attempts have none."""
    match event:
        case LoadStarted():
            where = event.table or event.target
            again = f" ({event.resumed:,} already loaded)" if event.resumed else ""
            what = units.counted(event.splits, event.unit)
            return "info", f"load {event.load_id[:8]}: {what}{again} of {event.source} into {where}"
        case TablesStarted():
            many = f"{units.counted(event.tables, 'table')} of {event.source}"
            return "info", f"{many} into {event.target}"
        case TableEnded():
            told = event.report
            if told.problem is not None:
                return "error", units.failure(told.source, told.problem.error)
            return "info", f"{told.source}: {told.outcome}, {units.counted(told.rows, 'row')}"
        case Note():
            level = {"question": "info", "detail": "debug"}.get(event.level, event.level)
            return level, event.text
        case Steered():
            return "info", event.text
        case SplitFailed():
            hint = f" ({event.hint})" if event.hint else ""
            return "error", units.failure(event.split, event.error) + hint
        case Progressed():
            away = f", no answer for {event.away:.0f} s" if event.away else ""
            done = "" if event.bytes is None else f", {units.size(event.bytes)}"
            return "info", f"{units.count(event.rows)} rows{done}{away}"
        case LoadEnded():
            return "info", f"load {event.load_id[:8]}: {event.outcome}"
        case Doing():
            return "debug", event.text
        case MergesWaited():
            return "info", f"waited {event.seconds:.1f} s for merges of {event.table}"
        case _:
            return "debug", ""
