"""The table of all metrics, and the numbers that events make of them. Stdlib only.

Exporters read the table and the numbers when they are asked; an event costs additions under a lock.
Labels are bounded: tables, partitions of topics and error codes, never names of files.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import field

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Exit
from rowfall.core.events import (
    AttemptEnded,
    Event,
    Lagged,
    LoadPlanned,
    LoadStarted,
    MergesWaited,
    Note,
    PartsCounted,
    Progressed,
    Retried,
    RunEnded,
    SplitFailed,
    StageEnded,
    Steered,
)
from rowfall.core.model import Plan
from rowfall.core.version import __version__

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

# From a load of 1,000 rows to one of an hour: each step is two to three times the one before.
BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0)
# Series of one metric. A topic has at most some thousand partitions; what comes behind is summed up
# under "other", so that no source makes the process and its scrapes grow without end.
MOST_SERIES = 10_000
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as all exporters name it.

    Attributes:
        name: behind ``rowfall_``; it ends with the unit where there is one.
        kind: one of the constants above.
        unit: ``seconds``, ``bytes`` or ``ratio``; "" for numbers of things.
        labels: behind ``pipeline`` and ``table``.
    """

    name: str
    kind: str
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()


def _table(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


METRICS = _table(
    Metric("rows", COUNTER, "Rows that became visible in the target."),
    Metric("bytes", COUNTER, "Bytes of the source, as stored, whose rows are visible.", "bytes"),
    Metric("read_rows", COUNTER, "Rows read so far, visible or not."),
    Metric("read_bytes", COUNTER, "Bytes of the source read so far, as stored.", "bytes"),
    Metric("written_bytes", COUNTER, "Bytes written to the target's disk.", "bytes"),
    Metric("rejected_rows", COUNTER, "Bad rows that were left out."),
    Metric("files", COUNTER, "Files, or ranges of files or streams, by what became of them.",
           labels=("result",)),
    Metric("attempts", COUNTER, "Attempts that have ended.", labels=("outcome",)),
    Metric("retries", COUNTER, "Attempts that replace a failed or lost one."),
    Metric("errors", COUNTER, "Errors of attempts, of files given up and of loads, by the exit "
           "code of their kind and by the engine's error code.", labels=("of", "exit", "code")),
    Metric("warnings", COUNTER, "Warnings."),
    Metric("loads", COUNTER, "Loads that have ended; a batch of a pipeline is a load.",
           labels=("outcome",)),
    Metric("parts_written", COUNTER, "Parts written into the target."),
    Metric("merge_waits", COUNTER, "Waits until merges had made room for new parts."),
    Metric("merge_wait_seconds", COUNTER, "Seconds waited for merges.", "seconds"),
    Metric("steering_changes", COUNTER, "Times that a load took less of a busy server, or more."),
    Metric("stage_seconds", COUNTER, "Seconds spent in each stage of a load and step of an "
           "attempt, all workers together.", "seconds", ("stage",)),
    Metric("running_loads", GAUGE, "Loads that run now."),
    Metric("progress_ratio", GAUGE, "Share of the running load that is read.", "ratio"),
    Metric("parts", GAUGE, "Active parts of the target and of what is staged."),
    Metric("partition_parts", GAUGE, "Active parts of the fullest partition that got rows."),
    Metric("partition_parts_limit", GAUGE,
           "Parts of a partition from which the server delays inserts."),
    Metric("memory_bytes", GAUGE, "Memory held by the process of rowfall and by the engine.",
           "bytes", ("process",)),
    Metric("server_away_seconds", GAUGE, "Seconds since a server that loads has answered.",
           "seconds"),
    Metric("lag_objects", GAUGE, "Files, snapshots or partitions with something not loaded yet."),
    Metric("lag_bytes", GAUGE, "Bytes of the source not loaded yet, as stored.", "bytes"),
    Metric("lag_seconds", GAUGE, "Seconds since the oldest thing not loaded yet was first seen.",
           "seconds"),
    Metric("lag_offsets", GAUGE, "Messages of a partition not loaded yet.",
           labels=("topic", "partition")),
    Metric("last_poll_timestamp_seconds", GAUGE, "Unix time when the source was last looked at.",
           "seconds"),
    Metric("last_load_timestamp_seconds", GAUGE, "Unix time when a load last ended well.",
           "seconds"),
    Metric("load_duration_seconds", HISTOGRAM,
           "Duration of loads; a batch of a pipeline is a load.", "seconds"),
    Metric("attempt_duration_seconds", HISTOGRAM, "Duration of attempts.", "seconds"),
    Metric("build_info", GAUGE, "Version of rowfall and of Python; always 1.",
           labels=("version", "python")),
)  # fmt: skip

Labels = tuple[str, ...]


@dataclass(slots=True)
class Durations:
    """Counts of durations up to each of :data:`BOUNDS`, and above the last."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    sum: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def copy(self) -> Durations:
        return Durations(list(self.counts), self.sum)


Value = float | Durations
Observer = Callable[[Metric, float, Labels], None]


class Figures:
    """The numbers of all metrics in this process; threads may change and read them.

    Args:
        clock: Unix time in seconds.

    Attributes:
        observers: hear each duration of a histogram, for exporters that keep their own.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.observers: list[Observer] = []
        self._clock = clock
        self._guard = threading.Lock()
        self._values: dict[str, dict[Labels, Value]] = {name: {} for name in METRICS}
        # When the oldest thing was seen that is not loaded yet, by pipeline and table.
        self._waiting: dict[Labels, float] = {}
        self.set("build_info", 1, ("", "", __version__, platform.python_version()))

    def add(self, name: str, amount: float, labels: Labels) -> None:
        """Add to a counter, or change a gauge by an amount that may be negative."""
        with self._guard:
            values, labels = self._series(name, labels)
            values[labels] = self._number(values, labels) + amount

    def set(self, name: str, value: float, labels: Labels) -> None:
        """Set a gauge."""
        with self._guard:
            values, labels = self._series(name, labels)
            values[labels] = value

    def observe(self, name: str, seconds: float, labels: Labels) -> None:
        """Count a duration in a histogram."""
        with self._guard:
            values, labels = self._series(name, labels)
            histogram = values.setdefault(labels, Durations())
            assert isinstance(histogram, Durations)  # noqa: S101 - by the table
            histogram.add(seconds)
        for observer in self.observers:
            observer(METRICS[name], seconds, labels)

    def waits(self, labels: Labels, since: float | None) -> None:
        """Note since when something waits to be loaded, as Unix time; None for nothing."""
        with self._guard:
            if since is None:
                self._waiting.pop(labels, None)
            else:
                self._waiting[labels] = since
            self._values["lag_seconds"][labels] = 0.0

    def read(self) -> list[tuple[Metric, dict[Labels, Value]]]:
        """Return all metrics with their numbers as they are now."""
        return [(metric, self.of(metric.name)) for metric in METRICS.values()]

    def of(self, name: str) -> dict[Labels, Value]:
        """Return the numbers of one metric as they are now."""
        with self._guard:
            values = self._values[name]
            if name == "lag_seconds":
                now = self._clock()
                values |= {k: max(0.0, now - since) for k, since in self._waiting.items()}
            elif name == "memory_bytes":
                values["", "", "rowfall"] = own_memory()
            return {k: v.copy() if isinstance(v, Durations) else v for k, v in values.items()}

    def now(self) -> float:
        return self._clock()

    def _series(self, name: str, labels: Labels) -> tuple[dict[Labels, Value], Labels]:
        values = self._values[name]
        if labels not in values and len(values) >= MOST_SERIES:
            labels = (*labels[:1], *[OTHER] * (len(labels) - 1))
        return values, labels

    @staticmethod
    def _number(values: Mapping[Labels, Value], labels: Labels) -> float:
        value = values.get(labels, 0.0)
        assert isinstance(value, float | int)  # noqa: S101 - by the table
        return value


def own_memory() -> float:
    """Return the bytes resident in this process; 0 where the kernel does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return float(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return 0.0


class EventCounter:
    """Turns the events of one pipeline, or of one load, into figures.

    Args:
        pipeline: its name, "" for a load.
    """

    def __init__(self, figures: Figures, pipeline: str = "") -> None:
        self._figures, self._pipeline = figures, pipeline
        self._key: Labels = (pipeline, "")
        self._began: float | None = None  # when planning began; it ends with the run
        self._running = False
        self._most_bytes, self._most_rows = 0, 0  # of the running load, 0 where not known
        self._read_rows = self._read_bytes = 0
        self._lag_objects, self._lag_bytes = 0, 0
        # Of a followed source, what waits behind the batch that is loaded: objects, bytes, and when
        # the oldest was seen.
        self._behind: tuple[int, int, float | None] = (0, 0, None)
        self._partitions: set[Labels] = set()

    def hear(self, event: Event) -> None:
        """Count an event."""
        figures, key = self._figures, self._key
        match event:
            case Progressed():
                self._progressed(event)
            case LoadPlanned():
                self._plan(event.plan)
            case LoadStarted():
                self._started()
            case AttemptEnded():
                self._attempt(event)
            case StageEnded():
                figures.add("stage_seconds", event.seconds, (*key, event.stage))
                if event.stage == "plan":
                    self._began = figures.now() - event.seconds
            case Retried():
                figures.add("retries", event.attempts, key)
            case SplitFailed():
                figures.add("files", 1, (*key, "failed"))
                figures.add("errors", 1, (*key, "file", str(event.exit), str(event.code)))
            case Note("warning"):
                figures.add("warnings", 1, key)
            case Steered():
                figures.add("steering_changes", 1, key)
            case PartsCounted():
                figures.set("partition_parts", event.parts, (self._pipeline, event.table))
                figures.set("partition_parts_limit", event.limit, (self._pipeline, event.table))
            case MergesWaited():
                figures.add("merge_waits", 1, key)
                figures.add("merge_wait_seconds", event.seconds, key)
            case Lagged():
                self._lagged(event)
            case RunEnded():
                self._ended(event)
            case _:
                pass

    def failed(self, exit: int, code: int) -> None:
        """Count an error that ended a command outside of a run."""
        self._figures.add("errors", 1, (*self._key, "load", str(exit), str(code)))

    def _plan(self, plan: Plan) -> None:
        figures, to = self._figures, plan.to
        self._key = key = (
            self._pipeline, ".".join(filter(None, (to.database, to.table))) or to.text
        )  # fmt: skip
        listing, groups = plan.listing, plan.work.groups
        sizes = [group.size for group in groups]
        known = None if None in sizes else sum(size or 0 for size in sizes)
        self._most_bytes, self._most_rows = known or 0, plan.forecast.rows or 0
        splits = sum(len(group.indexes) for group in groups)
        behind: dict[str, int] = {}
        if listing.continued:
            for i in (i for group in groups for i in group.indexes):
                behind[listing.uri(i)] = behind.get(listing.uri(i), 0) + (listing.rows(i) or 0)
        objects, size, since = self._behind
        self._lag(objects + splits, None if known is None else size + known, behind)
        figures.set("last_poll_timestamp_seconds", figures.now(), key)
        figures.waits(key, since or (figures.now() if splits else None))

    def _started(self) -> None:
        figures, key = self._figures, self._key
        self._read_rows = self._read_bytes = 0
        if not self._running:
            figures.add("running_loads", 1, key)
        self._running = True
        # Zeros, so that the first error is an increase and not a series that begins at 1.
        for name in _FROM_ZERO:
            figures.add(name, 0, key)
        for outcome in ("published", "failed"):
            figures.add("attempts", 0, (*key, outcome))
        for result in ("loaded", "failed"):
            figures.add("files", 0, (*key, result))
        for outcome in ("done", "partial", "failed", "interrupted"):
            figures.add("loads", 0, (*key, outcome))

    def _progressed(self, event: Progressed) -> None:
        figures, key = self._figures, self._key
        # Totals fall when an attempt is given up; counters must not.
        figures.add("read_rows", max(0, event.rows - self._read_rows), key)
        self._read_rows = max(self._read_rows, event.rows)
        if event.bytes is not None:
            figures.add("read_bytes", max(0, event.bytes - self._read_bytes), key)
            self._read_bytes = max(self._read_bytes, event.bytes)
        figures.set("parts", event.parts, key)
        figures.set("memory_bytes", event.memory, (*key, "engine"))
        figures.set("server_away_seconds", event.away, key)
        if self._most_bytes and event.bytes is not None:
            figures.set("progress_ratio", min(1.0, event.bytes / self._most_bytes), key)
        elif self._most_rows:
            figures.set("progress_ratio", min(1.0, event.rows / self._most_rows), key)

    def _attempt(self, event: AttemptEnded) -> None:
        figures, key, record = self._figures, self._key, event.record
        figures.add("attempts", 1, (*key, record.outcome))
        figures.observe("attempt_duration_seconds", record.seconds, key)
        for step, seconds in event.steps:
            figures.add("stage_seconds", seconds, (*key, step))
        if event.exit:
            figures.add("errors", 1, (*key, "attempt", str(event.exit), str(event.code)))
        if record.outcome != "published":
            return
        figures.add("rows", record.rows, key)
        figures.add("bytes", record.bytes_source, key)
        figures.add("written_bytes", record.bytes_written, key)
        figures.add("parts_written", record.parts, key)
        figures.add("files", record.splits, (*key, "loaded"))
        self._lag(
            max(0, self._lag_objects - record.splits),
            max(0, self._lag_bytes - record.bytes_source),
        )

    def _lagged(self, event: Lagged) -> None:
        now = self._figures.now()
        since = now - event.seconds if event.objects else None
        self._lag(event.objects, event.bytes, dict(event.offsets))
        self._figures.set("last_poll_timestamp_seconds", now, self._key)
        self._figures.waits(self._key, since)
        # A batch of a topic takes all there is.
        self._behind = (0, 0, None) if event.offsets else (event.objects, event.bytes or 0, since)

    def _lag(
        self, objects: int, size: int | None, offsets: Mapping[str, int] | None = None
    ) -> None:
        figures, key = self._figures, self._key
        self._lag_objects, self._lag_bytes = objects, size or 0
        figures.set("lag_objects", objects, key)
        if size is not None:
            figures.set("lag_bytes", size, key)
        for stream, messages in (offsets or {}).items():
            scheme, _, rest = stream.partition("://")
            if scheme == "kafka":
                topic, _, partition = rest.rpartition("/")
                self._partitions.add(labels := (*key, topic, partition))
                figures.set("lag_offsets", messages, labels)

    def _ended(self, event: RunEnded) -> None:
        figures, key, now = self._figures, self._key, self._figures.now()
        if self._running:
            figures.add("running_loads", -1, key)
            figures.observe("load_duration_seconds", now - (self._began or now), key)
        self._running, self._began = False, None
        report = event.report
        outcome = report.outcome if report is not None else "failed"
        if event.exit:
            outcome = "interrupted" if event.exit == Exit.INTERRUPTED else "failed"
            figures.add("errors", 1, (*key, "load", str(event.exit), str(event.code)))
        figures.add("loads", 1, (*key, outcome))
        figures.set("server_away_seconds", 0, key)
        if report is not None:
            figures.add("rejected_rows", report.rows_rejected, key)
            figures.set("parts", report.parts_active, key)
            if report.merge_seconds:
                figures.add("merge_waits", 1, key)
                figures.add("merge_wait_seconds", report.merge_seconds, key)
        if outcome == "done":
            figures.set("last_load_timestamp_seconds", now, key)
            objects, size, since = self._behind
            self._lag(objects, size)  # what came meanwhile, the next poll finds
            for labels in self._partitions:
                figures.set("lag_offsets", 0, labels)
            figures.waits(key, since)


_FROM_ZERO = (
    "rows", "bytes", "read_rows", "read_bytes", "written_bytes", "rejected_rows", "parts_written",
    "retries", "warnings", "merge_waits", "merge_wait_seconds", "steering_changes",
)  # fmt: skip
