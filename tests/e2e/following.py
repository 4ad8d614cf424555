"""Follows a source in the process of a test: each step is done when nothing is left to load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rowfall.contracts.following import AfterFailure, FollowControl, Lag
from rowfall.core.errors import RowfallError
from rowfall.core.events import Event, Note
from rowfall.core.options import Options
from rowfall.core.results import Failure, Report
from rowfall.run.follow import follow
from rowfall.run.session import Request, open_session

Step = Callable[[], object]
# Looks that have found nothing, one after the other: a pass over all names is due at some of them.
IDLE = 8


def put(path: Path, *numbers: int) -> None:
    """Write a file as most programs do: under another name first."""
    hidden = path.with_name(f".{path.name}.tmp")
    hidden.write_text("a\n" + "".join(f"{n}\n" for n in numbers))
    hidden.rename(path)


class Follower:
    """Observer of one followed load, which does one step after the other.

    Attributes:
        failed: (name, error) of files that could not be loaded. ``away``: errors of outages.
        batches: rows of each batch.
    """

    def __init__(self, *steps: Step, stops: bool = False) -> None:
        self._steps, self._stops = list(steps), stops
        self.control = FollowControl()
        self.failed: list[tuple[str, str]] = []
        self.away: list[str] = []
        self.batches: list[int] = []
        self.said: list[str] = []
        self._idle = 0
        self.skipped: set[str] = set()
        self.wanted: set[str] = set()
        self.sources: list[object] = []

    def takes(self, name: str, version: str) -> bool:
        return name not in self.skipped

    def wants(self, name: str, version: str) -> bool:
        return name in self.wanted

    def ways_out(self, name: str) -> str:
        return ""

    def on_failed(self, failure: Failure, version: str) -> AfterFailure:
        self.failed.append((failure.split, failure.error))
        return AfterFailure.STOP if self._stops else AfterFailure.GO_ON

    def on_batch(self, report: Report, lag: Lag) -> None:
        self.batches.append(report.rows)

    def on_away(self, error: RowfallError, seconds: float) -> None:
        self.away.append(error.message)
        if self._steps and len(self.away) % 2:
            self._steps.pop(0)()

    def idle(self, lag: Lag) -> None:
        self._idle = 0 if lag.objects or lag.waiting else self._idle + 1
        if self._idle < IDLE:
            return
        self._idle = 0
        if self._steps:
            self._steps.pop(0)()
        else:
            self.control.stop()

    def hear(self, event: Event) -> None:
        if isinstance(event, Note):
            self.said.append(event.text)

    def run(self, source: str | list[str], to: str | Path, **options: Any) -> Report:
        """Follow until the last step is done and everything is loaded; ``table``: t."""
        table = options.pop("table", "t")
        given = Options(follow=True, **{"batch_seconds": "0", "poll": "0.05s", **options})
        request = Request(source, str(to), table, given)
        with open_session(request, self.hear, dry=False) as session:
            self.sources.append(session.source)
            return follow(session, self, self.control)
