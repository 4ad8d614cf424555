"""The protocol of those who watch a load that follows its source: what they hear and answer.

``rowfall load --follow`` follows without an observer: it stops at the first file that cannot be
loaded. A service gives one, and a :class:`FollowControl` that other threads use.
"""

from __future__ import annotations

import threading
import time
from enum import Enum
from typing import Protocol

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.results import Failure, Report


class AfterFailure(Enum):
    """An answer to a failed file: whether the load goes on."""

    GO_ON = "go on"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Lag:
    """Counts objects that are found in the source and not loaded.

    Attributes:
        objects, bytes: that are ready; of a topic, its messages are not counted here.
        waiting: objects that are not at rest, lack their marker, or are tried again later.
        seconds: since the oldest object that is ready was found.
    """

    objects: int = 0
    bytes: int = 0
    waiting: int = 0
    seconds: float = 0.0


class FollowObserver(Protocol):
    """Hears of a followed load, in the thread that follows; what it raises ends the load."""

    def takes(self, name: str, version: str) -> bool:
        """Return False to leave out one version of an object, as when people have skipped it."""

    def wants(self, name: str, version: str) -> bool:
        """Return True where people have asked to load one version of an object all the same."""

    def ways_out(self, name: str) -> str:
        """Return what people may do about an object that was overwritten, as a hint; "" for the
        options of the load."""

    def on_failed(self, failure: Failure, version: str) -> AfterFailure:
        """Hear that one version of a file cannot be loaded; nothing of it is visible.

        After ``GO_ON`` it is not tried again by this process, unless
        :meth:`FollowControl.retry` asks for it; a new version of it is.
        """

    def on_batch(self, report: Report, lag: Lag) -> None:
        """Hear that a batch has ended; its rows are visible."""

    def on_away(self, error: RowfallError, seconds: float) -> None:
        """Hear that the source or the target has been away for so long; it is asked again."""

    def idle(self, lag: Lag) -> None:
        """Hear, about twice a second, that there is nothing to load now."""


class FollowControl:
    """Stops, pauses and resumes a followed load, from any thread."""

    def __init__(self) -> None:
        self._stopped, self._running = threading.Event(), threading.Event()
        self._running.set()
        self._guard = threading.Lock()
        self._again: set[str] = set()

    def stop(self) -> None:
        """End the load after the batch that runs now."""
        self._stopped.set()
        self._running.set()

    def pause(self) -> None:
        """Begin no further batch."""
        self._running.clear()

    def resume(self) -> None:
        """Go on after :meth:`pause`."""
        self._running.set()

    def retry(self, name: str) -> None:
        """Try a file once more that has failed."""
        with self._guard:
            self._again.add(name)

    @property
    def stopped(self) -> bool:
        """Tell whether :meth:`stop` was called."""
        return self._stopped.is_set()

    @property
    def paused(self) -> bool:
        """Tell whether no batch may begin."""
        return not self._running.is_set()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until :meth:`stop`."""
        # In pieces: a wait without end would keep Ctrl-C waiting in some versions of Python.
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._stopped.wait(min(left, 0.5)):
            pass

    def asked_again(self) -> set[str]:
        """Return, once, the names of the files that are to be tried again."""
        with self._guard:
            found, self._again = self._again, set()
            return found
