"""Events of a run. The library emits them; only the command line prints."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rowfall.core.dataclass import dataclass
from rowfall.core.model import Plan
from rowfall.core.results import AttemptRecord, Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rowfall.core.tables import TableReport  # 3 ms that loads of one table save


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A run of a load begins: the first event of it.

    Attributes:
        source, target: as typed, without secrets; ``table``: ``database.table``, "" for none.
        resumed: an earlier run of this load was stopped.
    """

    load_id: str
    source: str
    target: str
    table: str
    resumed: bool


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
class LoadPlanned:
    """The plan of a load is made; nothing was written yet."""

    load_id: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class StageEnded:
    """A stage of a load is over, whether it went well or not.

    Attributes:
        stage: ``plan``, ``prepare``, ``attempts``, ``finish`` or ``verify``.
        seconds: that it took.
    """

    stage: str
    seconds: float


class WarningText(str):
    """A note about a source that is a warning: it may be read otherwise."""

    __slots__ = ()


def noted(text: str) -> Note:
    """Return the event of what a source says of itself."""
    return Note("warning" if isinstance(text, WarningText) else "info", text)


@dataclass(frozen=True, slots=True)
class Note:
    """One line of talk for the user: a decision, a retry, a warning.

    Attributes:
        level: ``info``, or ``warning`` for what is not as promised; ``question`` before the first
            row, for what a listener may ask somebody: one that raises ends the load; ``detail`` for
            what only ``-v`` shows.
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
    """An attempt is over: its rows are visible, or it has failed and is tried again or given up.

    Attributes:
        steps: (name, seconds) of the steps of :mod:`rowfall.publish.protocol` in their order, with
            ``wait_turn`` (for the attempt before) and ``wait_merges`` between them.
        exit, code: of the error, see :class:`rowfall.core.errors.RowfallError`; 0 for none, and
            where another reader takes over.
    """

    record: AttemptRecord
    steps: tuple[tuple[str, float], ...] = ()
    exit: int = 0
    code: int = 0


@dataclass(frozen=True, slots=True)
class Retried:
    """Work of a failed or lost attempt was put back: so many ``attempts`` replace it."""

    attempts: int


@dataclass(frozen=True, slots=True)
class SplitFailed:
    """A split is given up in this run; ``exit`` and ``code`` are those of its error."""

    split: str
    error: str
    hint: str | None
    exit: int = 0
    code: int = 0


@dataclass(frozen=True, slots=True)
class PartsCounted:
    """Before a publish the parts of the target were counted.

    Attributes:
        table: ``database.table``. ``parts``: active ones of its fullest partition that gets rows.
        limit: of a partition, from which the server delays inserts.
    """

    table: str
    parts: int
    limit: int


@dataclass(frozen=True, slots=True)
class MergesWaited:
    """A load has waited ``seconds`` until merges had made room for its parts."""

    table: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Lagged:
    """Tells how much a followed source holds beyond what is loaded, as a poll has found it.

    Of files and objects without those of the batch that begins now, whose plan tells them.

    Attributes:
        objects: files, snapshots or partitions of a topic with something new.
        bytes: of them, as stored; None where nobody knows.
        seconds: since the first of them was seen; 0.0 where there is none.
        offsets: (stream, messages) of each partition of a topic, also of those without any.
    """

    objects: int
    bytes: int | None
    seconds: float
    offsets: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """The report of a load is made; what is asked for behind it (``--verify``) may follow.

    Attributes:
        outcome: done | partial | failed | interrupted.
    """

    load_id: str
    outcome: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run of a load is over: the last event of it.

    Attributes:
        report: None where it was stopped before there was one.
        error: that stopped it, without secrets; "" where failed files are all that went wrong.
        exit, code: of the error, 0 for none.
    """

    load_id: str
    report: Report | None
    error: str = ""
    exit: int = 0
    code: int = 0


@dataclass(frozen=True, slots=True)
class TablesStarted:
    """Many tables of one source are going to be loaded, each by a load of its own.

    Attributes:
        parallel: how many at a time at most. ``total_rows``, ``total_bytes``: of all; None where
            nobody knows.
    """

    source: str
    target: str
    tables: int
    parallel: int
    total_rows: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class TableEnded:
    """One of many tables is loaded, or is given up.

    Attributes:
        forecast: rows that it had in :attr:`TablesStarted.total_rows`; None where nobody knew.
    """

    report: TableReport
    forecast: int | None = None


Event = (
    RunBegan
    | LoadPlanned
    | LoadStarted
    | TablesStarted
    | TableEnded
    | StageEnded
    | Note
    | Doing
    | Steered
    | AttemptStarted
    | Progressed
    | AttemptPublished
    | AttemptEnded
    | Retried
    | SplitFailed
    | PartsCounted
    | MergesWaited
    | Lagged
    | LoadEnded
    | RunEnded
)
Listener = Callable[[Event], None]


@contextmanager
def timed(emit: Listener, stage: str) -> Iterator[None]:
    """Emit how long a stage took, see :class:`StageEnded`."""
    began = time.monotonic()
    try:
        yield
    finally:
        emit(StageEnded(stage, time.monotonic() - began))


def silent(event: Event) -> None:
    """Ignore an event."""


def one_at_a_time(*listeners: Listener) -> Listener:
    """Return a listener that tells the others of one event at a time; threads emit them."""
    guard = threading.Lock()

    def emit(event: Event) -> None:
        with guard:
            for listener in listeners:
                listener(event)

    return emit
