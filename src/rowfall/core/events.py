"""Events of a run. The library emits them; only the command line prints."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rowfall.core.dataclass import dataclass
from rowfall.core.results import AttemptRecord


@dataclass(frozen=True, slots=True)
class LoadStarted:
    """The plan is made and the load is recorded.

    Attributes:
        resumed: splits that were loaded before.
        unit: what people call a split of this source, see :attr:`Listing.unit`.
        format: how the source is read, in one line; "" for generated rows.
    """

    load_id: str
    source: str
    target: str
    table: str
    splits: int
    resumed: int
    total_bytes: int | None
    total_rows: int | None
    unit: str = "file"
    format: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """One line of talk for the user: a decision, a retry, a warning.

    Attributes:
        level: ``info``, or ``warning`` for what is not as promised; ``question`` before the first
            row, for what a listener may ask somebody: one that raises ends the load.
        text: one line.
        detail: further lines for those who want more (``-v``), such as a CREATE TABLE.
    """

    level: str
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt at ``splits`` of ``bytes`` (None: unknown) begins."""

    attempt_id: str
    splits: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Progressed:
    """Totals of the whole load so far.

    Attributes:
        rows: rows read.
        bytes: bytes of the source consumed, as stored (compressed); None when not known.
        parts: active parts of staging and target together.
        memory: bytes resident in the engine process.
        seconds: since the load began.
        away: seconds since a server that loads has answered, 0.0 while it does.
    """

    rows: int
    bytes: int | None
    parts: int
    memory: int
    seconds: float
    away: float = 0.0


@dataclass(frozen=True, slots=True)
class Steered:
    """Between attempts a load takes less of a server that others use, or comes back."""

    text: str


@dataclass(frozen=True, slots=True)
class Doing:
    """A step goes on of which nothing tells the progress: the line of progress shows its text."""

    text: str


@dataclass(frozen=True, slots=True)
class AttemptPublished:
    """The rows of an attempt are visible; ``seconds`` since it began."""

    attempt_id: str
    splits: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """An attempt is over: its rows are visible, or it has failed and is tried again or given up."""

    record: AttemptRecord


@dataclass(frozen=True, slots=True)
class SplitFailed:
    """A split is given up in this run."""

    split: str
    error: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """outcome: done | partial | failed | interrupted."""

    load_id: str
    outcome: str


Event = (
    LoadStarted
    | Note
    | Doing
    | Steered
    | AttemptStarted
    | Progressed
    | AttemptPublished
    | AttemptEnded
    | SplitFailed
    | LoadEnded
)
Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore an event."""


def one_at_a_time(listener: Listener) -> Listener:
    """Return a listener that calls ``listener`` for one event at a time; threads emit them."""
    guard = threading.Lock()

    def emit(event: Event) -> None:
        with guard:
            listener(event)

    return emit
