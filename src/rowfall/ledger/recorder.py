"""Record what a load does while it runs: samples over time, what happened, the slowest attempts.

All of it is bounded, however long a load is: its page has room for some hundred points, and the
record is kept in the ledger with its report. While the load runs, a small file beside the ledger
says how far it is, for ``rowfall status``: the ledger itself is flushed to disk with each change,
which a line a second should not cost; what the file says is worth nothing once its load has ended,
so it is neither flushed nor kept.
"""

from __future__ import annotations

import heapq
import json
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowfall.core import disk
from rowfall.core.dataclass import dataclass
from rowfall.core.events import (
    AttemptEnded,
    AttemptPublished,
    Event,
    LoadEnded,
    LoadStarted,
    Note,
    Progressed,
    SplitFailed,
    Steered,
)
from rowfall.core.load_record import (
    LoadRecord,
    RanStatement,
    RecordedEvent,
    Sample,
)
from rowfall.core.model import Statement
from rowfall.core.patterns import regex
from rowfall.core.results import AttemptRecord

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# More points than a chart of 600 pixels can show; 240 samples are 12 KB of JSON.
MOST_SAMPLES = 240
# So 24 seconds pass before every second sample is dropped for the first time.
FIRST_STEP = 0.1
# Of a load that fails again and again the first ones tell why.
MOST_HAPPENINGS = 100
_MOST_TEXT = 300
# Of attempts, what a page lists; the others are counted by their duration.
SLOWEST = 50
# Distinct statements: a load has ten to thirty.
MOST_STATEMENTS = 50
# Letters of one that are kept, and by which it is known again: 9,000 columns have 300,000.
_MOST_SQL, _MOST_SHAPE = 10_000, 4_000
# The file is written so often at most.
EVERY_SECONDS = 1.0
# What differs from attempt to attempt: strings (also several of them), names that end in digits or
# hold an id, numbers.
_STRING = r"\[?'(?:\\.|[^'\\])*'\]?"
_SHAPE = regex(rf"{_STRING}(?:, {_STRING})*|\w*\d\w*(?:-\w+)*")
# Classes of durations: four for each power of ten.
_CLASSES = 4


class Recorder:
    """Hears the events of a load; threads may ask it at any time.

    Args:
        clock: seconds.

    Attributes:
        plan: of the load, for JSON; None before there is one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.plan: dict[str, Any] | None = None
        self._clock = clock
        self._guard = threading.Lock()
        self._began = clock()
        self._step = FIRST_STEP
        self._samples: list[Sample] = []
        self._latest: Sample | None = None
        self._happenings: list[RecordedEvent] = []
        self._durations: dict[int, int] = {}
        self._slowest: list[tuple[float, int, AttemptRecord]] = []
        self._failed: list[AttemptRecord] = []
        self._ended = 0
        self._statements: dict[str, list[Any]] = {}

    def hear(self, event: Event) -> None:
        with self._guard:
            seconds = round(self._clock() - self._began, 2)
            match event:
                case Progressed():
                    self._sample(Sample(
                        seconds, event.rows, event.bytes, event.memory, event.parts
                    ))  # fmt: skip
                case AttemptEnded():
                    self._attempt(seconds, event.record)
                case Note("warning"):
                    self._happened(seconds, "warning", event.text)
                case Steered():
                    self._happened(seconds, "steering", event.text)
                case SplitFailed():
                    self._happened(seconds, "failure", f"given up: {event.split}")
                case LoadStarted():
                    self._began = self._clock()
                case _:
                    pass

    def ran(self, statement: Statement) -> None:
        """Count a statement; those that differ only in names, files and numbers are one."""
        sql = str(statement.sql)  # secrets stay masked
        shape = _SHAPE.sub("?", sql[:_MOST_SHAPE])
        with self._guard:
            known = self._statements.get(shape)
            if known is not None:
                known[1] += 1
            elif len(self._statements) < MOST_STATEMENTS:
                self._statements[shape] = [sql[:_MOST_SQL], 1, statement.query_id]

    def _sample(self, sample: Sample) -> None:
        self._latest = sample
        if self._samples and sample.seconds - self._samples[-1].seconds < self._step:
            return
        self._samples.append(sample)
        if len(self._samples) >= MOST_SAMPLES:
            self._samples = self._samples[::2]
            self._step *= 2

    def _attempt(self, seconds: float, record: AttemptRecord) -> None:
        self._ended += 1
        if record.error:
            if len(self._failed) < SLOWEST:
                self._failed.append(record)
            about = f"{record.first}: {record.error}" if record.first else record.error
            self._happened(seconds, "retry", f"failed: {about}")
            return
        number = duration_class(record.seconds)
        self._durations[number] = self._durations.get(number, 0) + 1
        entry = (record.seconds, self._ended, record)
        if len(self._slowest) < SLOWEST:
            heapq.heappush(self._slowest, entry)
        else:
            heapq.heappushpop(self._slowest, entry)

    def _happened(self, seconds: float, kind: str, text: str) -> None:
        if len(self._happenings) < MOST_HAPPENINGS:
            line = text.partition("\n")[0][:_MOST_TEXT]
            self._happenings.append(RecordedEvent(seconds, kind, line))

    def record(self) -> LoadRecord:
        """Return what was recorded so far."""
        with self._guard:
            samples = list(self._samples)
            if self._latest is not None and samples[-1] != self._latest:
                samples.append(self._latest)
            low, high = min(self._durations, default=0), max(self._durations, default=-1)
            return LoadRecord(
                tuple(samples), tuple(self._happenings),
                tuple(RanStatement(*each) for each in self._statements.values()),
                durations=tuple(
                    (duration_of(n), self._durations.get(n, 0)) for n in range(low, high + 1)
                ),
            )  # fmt: skip

    def attempts(self) -> tuple[tuple[AttemptRecord, ...], int]:
        """Return failed and slowest attempts, and how many others have ended."""
        with self._guard:
            slowest = [record for *_, record in sorted(self._slowest, reverse=True)]
            found = (*self._failed, *slowest)
            return found, self._ended - len(found)


def duration_class(seconds: float) -> int:
    """Return the number of the class of a duration, see :func:`duration_of`."""
    return math.ceil(math.log10(max(seconds, 1e-3)) * _CLASSES - 1e-9)


def duration_of(number: int) -> float:
    """Return the most seconds of a class of durations."""
    return float(f"{10 ** (number / _CLASSES):.3g}")


# --- as JSON --------------------------------------------------------------------------------------


def to_json(record: LoadRecord) -> dict[str, Any]:
    """Return a record for JSON; samples are lists, which take a third of the room."""
    found = asdict(record)
    names = [field.name for field in fields(Sample)]
    found["samples"] = [[getattr(s, name) for name in names] for s in record.samples]
    return found


def from_json(found: Mapping[str, Any]) -> LoadRecord:
    """Return a record of any version; what only a newer rowfall knows is left out.

    Raises:
        ValueError, TypeError, KeyError: it is none.
    """
    width = len(fields(Sample))
    return LoadRecord(
        tuple(Sample(*each[:width]) for each in found.get("samples", ())),
        tuple(RecordedEvent(**known(RecordedEvent, each)) for each in found.get("happenings", ())),
        tuple(RanStatement(**known(RanStatement, each)) for each in found.get("statements", ())),
        tuple((float(most), int(n)) for most, n in found.get("durations", ())),
        tuple((str(name), float(value)) for name, value in found.get("stages", ())),
        int(found.get("memory_limit", 0)),
    )


def known(kind: type[DataclassInstance], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a dataclass has fields for: a newer rowfall may have written more."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


# --- the file of a running load -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """The record that a load has written so far, while it runs.

    Attributes:
        attempts: the slowest ones and those that failed; ``others``: how many have ended besides.
        plan: as its JSON; None where it has none yet.
    """

    record: LoadRecord = LoadRecord()
    attempts: tuple[AttemptRecord, ...] = ()
    others: int = 0
    plan: dict[str, Any] | None = None


def path_of(ledger: Path, load_id: str) -> Path:
    """Return the file of a load."""
    return ledger.with_name(f"{ledger.name}.{load_id}.running")


def read_progress(ledger: Path, load_id: str) -> dict[str, float]:
    """Return the latest progress of a load: ``share`` (0 to 1), ``rows``, ``bytes``, ``splits``,
    ``loaded``, ``skipped``, ``seconds``; {} where it has written none yet."""
    found = _read(ledger, load_id)
    return {n: float(v) for n, v in found.items() if isinstance(v, int | float)}


def read_record(ledger: Path, load_id: str) -> RunningRecord:
    """Return what a load has recorded so far; nothing where it has written nothing yet, or a
    rowfall of another version runs it."""
    found = _read(ledger, load_id)
    plan = found.get("plan")
    try:
        return RunningRecord(
            from_json(found.get("record", {})),
            tuple(AttemptRecord(*each) for each in found.get("attempts", ())),
            int(found.get("others", 0)),
            plan if isinstance(plan, dict) else None,
        )
    except (ValueError, TypeError, KeyError):
        return RunningRecord()


def _read(ledger: Path, load_id: str) -> dict[str, Any]:
    try:
        found = json.loads(path_of(ledger, load_id).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Running:
    """Records the events of a load, and writes the file from them, at most once a second.

    Args:
        ledger: the file that it lies beside.
    """

    def __init__(
        self, ledger: Path, load_id: str, recorder: Recorder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._path = path_of(ledger, load_id)
        self._recorder = recorder
        self._clock = clock
        self._written = float("-inf")
        self._bytes: int | None = None
        self._rows: int | None = None
        self._says: dict[str, float | None] = {}
        self._guard = threading.Lock()
        self._removed = False

    def hear(self, event: Event) -> None:
        self._recorder.hear(event)
        match event:
            case LoadStarted():
                self._bytes, self._rows = event.total_bytes, event.total_rows
                self._says = {
                    "share": 0.0, "splits": event.splits, "skipped": event.resumed, "loaded": 0,
                }  # fmt: skip
                self._write(self._says)
            case Progressed():
                share = None
                if self._bytes and event.bytes is not None:
                    share = min(event.bytes / self._bytes, 1.0)
                elif self._rows:
                    share = min(event.rows / self._rows, 1.0)
                self._says |= {
                    "share": share, "rows": event.rows, "bytes": event.bytes,
                    "seconds": event.seconds,
                }  # fmt: skip
                if self._clock() - self._written >= EVERY_SECONDS:
                    self._write(self._says)
            case AttemptPublished():
                self._says["loaded"] = (self._says.get("loaded") or 0) + event.splits
            case LoadEnded():
                self.remove()
            case _:
                pass

    def remove(self) -> None:
        """Remove the file: the load has ended. What its threads still say is written no more."""
        with self._guard, suppress(OSError):
            self._removed = True
            self._path.unlink(missing_ok=True)

    def _write(self, says: Mapping[str, float | None]) -> None:
        """Write the file as a whole, so that nobody reads half of it; a full disk is no reason to
        stop a load."""
        self._written = self._clock()
        attempts, others = self._recorder.attempts()
        document = {
            **says,
            "record": to_json(self._recorder.record()),
            # Without names of fields, as 50 of them are written every second.
            "attempts": [[getattr(a, f.name) for f in fields(a)] for a in attempts],
            "others": others,
            "plan": self._recorder.plan,
        }
        with self._guard, suppress(OSError):
            if self._removed:
                return
            whole = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            whole.unlink(missing_ok=True)
            # In a folder that others may write to, a link of this name would lead elsewhere.
            opened = disk.open_own(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(opened, "w") as file:
                file.write(json.dumps(document))
            whole.replace(self._path)
