"""What events make of the figures; whatever the exporter, these are the numbers."""

from __future__ import annotations

import re
import threading

import pytest

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
)
from rowfall.core.listing import Listing
from rowfall.core.results import AttemptRecord, Report
from rowfall.telemetry.figures import (
    BOUNDS,
    COUNTER,
    HISTOGRAM,
    METRICS,
    MOST_SERIES,
    OTHER,
    Durations,
    EventCounter,
    Figures,
    Value,
)
from unit.telemetry.plans import plan_of

KEY = ("clicks", "shop.orders")


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def figures(clock: Clock) -> Figures:
    return Figures(clock)


@pytest.fixture
def counting(figures: Figures) -> EventCounter:
    return EventCounter(figures, "clicks")


def files(*sizes: int) -> Listing:
    listing = Listing()
    for number, size in enumerate(sizes):
        listing.add(f"/in/{number}.csv", "1", size)
    return listing


def began(listing: Listing) -> tuple[Event, ...]:
    plan = plan_of(listing, database="shop", table="orders")
    started = LoadStarted("a", "s", "t", "shop.orders", len(listing), 0, None, None)
    return LoadPlanned("a", plan), StageEnded("plan", 0.5), started


def published(number: int, rows: int, size: int, *steps: tuple[str, float]) -> AttemptEnded:
    record = AttemptRecord(f"a_{number}", 1, "x", rows, size, 2 * size, 3, seconds=1.5)
    return AttemptEnded(record, steps)


def report(outcome: str = "done", **more: int) -> Report:
    return Report("a", outcome, "s", "t", "shop.orders", "", **more)


def tell(counting: EventCounter, *events: Event) -> None:
    for event in events:
        counting.hear(event)


def value(figures: Figures, name: str, *labels: str) -> Value:
    return figures.of(name)[(*KEY, *labels)]


def test_a_load_is_counted(figures: Figures, counting: EventCounter, clock: Clock) -> None:
    tell(counting, *began(files(100, 300)))
    assert value(figures, "running_loads") == 1
    assert (value(figures, "lag_objects"), value(figures, "lag_bytes")) == (2, 400)
    tell(counting, Progressed(10, 40, 7, 1 << 20, 0.5), Progressed(30, 200, 9, 2 << 20, 1.0))
    assert value(figures, "read_rows") == 30
    assert value(figures, "progress_ratio") == 0.5
    assert (value(figures, "parts"), value(figures, "memory_bytes", "engine")) == (9, 2 << 20)
    tell(counting, published(1, 20, 100, ("deliver", 0.75), ("publish", 0.25)))
    assert (value(figures, "lag_objects"), value(figures, "lag_bytes")) == (1, 300)
    clock.now += 4
    assert value(figures, "lag_seconds") == 4.0
    tell(counting, published(2, 40, 300, ("deliver", 1.0)), RunEnded("a", report(rows_rejected=5)))
    counted = {n: value(figures, n) for n in ("rows", "bytes", "written_bytes", "parts_written")}
    assert counted == {"rows": 60, "bytes": 400, "written_bytes": 800, "parts_written": 6}
    assert value(figures, "rejected_rows") == 5
    assert (value(figures, "files", "loaded"), value(figures, "files", "failed")) == (2, 0)
    assert value(figures, "stage_seconds", "deliver") == 1.75
    assert value(figures, "stage_seconds", "plan") == 0.5
    assert (value(figures, "loads", "done"), value(figures, "running_loads")) == (1, 0)
    assert (value(figures, "lag_objects"), value(figures, "lag_seconds")) == (0, 0)
    assert value(figures, "last_load_timestamp_seconds") == 1_004.0
    whole = value(figures, "load_duration_seconds")
    assert isinstance(whole, Durations)
    assert (sum(whole.counts), whole.sum) == (1, 4.5)
    assert whole.counts[BOUNDS.index(5.0)] == 1


def test_counters_do_not_fall_where_an_attempt_is_given_up(
    figures: Figures, counting: EventCounter
) -> None:
    tell(counting, *began(files(100)))
    for rows in (50, 20, 60):
        tell(counting, Progressed(rows, rows, 0, 0, 0.0))
    assert (value(figures, "read_rows"), value(figures, "read_bytes")) == (60, 60)
    # The next load begins at zero again.
    tell(counting, RunEnded("a", report()), *began(files(9)), Progressed(9, 9, 0, 0, 0.0))
    assert value(figures, "read_rows") == 69


def test_errors_have_their_codes(figures: Figures, counting: EventCounter) -> None:
    tell(counting, *began(files(1, 1)))
    failed = AttemptRecord("a_1", 2, "x", outcome="failed", error="memory")
    tell(
        counting, AttemptEnded(failed, (), 6, 241), Retried(2), SplitFailed("x", "no", None, 4, 27)
    )
    tell(counting, Note("warning", "slow"), Note("info", "no matter"))
    tell(counting, RunEnded("a", None, "server is away", 5, 210))
    errors = {k[2:]: v for k, v in figures.of("errors").items() if v}
    assert errors == {
        ("attempt", "6", "241"): 1, ("file", "4", "27"): 1, ("load", "5", "210"): 1,
    }  # fmt: skip
    assert (value(figures, "retries"), value(figures, "warnings")) == (2, 1)
    assert value(figures, "attempts", "failed") == 1
    assert value(figures, "loads", "failed") == 1
    assert value(figures, "lag_objects") == 2, "what failed still waits"


@pytest.mark.parametrize(
    ("exit", "outcome", "counted"),
    [(130, "interrupted", "interrupted"), (7, "done", "failed"), (0, "partial", "partial")],
)
def test_the_outcome_is_that_of_the_command(
    figures: Figures, counting: EventCounter, exit: int, outcome: str, counted: str
) -> None:
    """A load whose rows do not verify has not ended well, whatever its report says."""
    tell(counting, *began(files(1)), RunEnded("a", report(outcome), "x" if exit else "", exit))
    assert {k[2]: v for k, v in figures.of("loads").items() if v} == {counted: 1}
    assert not figures.of("last_load_timestamp_seconds")


def test_a_stream_lags_by_partition(figures: Figures, counting: EventCounter, clock: Clock) -> None:
    listing = Listing(continued=True)
    for partition, stop in ((0, 10), (0, 30), (1, 5)):
        listing.add(f"kafka://clicks/{partition}", "v", None, 0 if stop < 30 else 10, stop)
    tell(counting, *began(listing))
    assert value(figures, "lag_offsets", "clicks", "0") == 30
    tell(counting, RunEnded("a", report()))
    assert value(figures, "lag_offsets", "clicks", "0") == 0
    tell(counting, Lagged(1, None, 2.0, (("kafka://clicks/0", 7), ("kafka://clicks/1", 0))))
    clock.now += 3
    assert value(figures, "lag_seconds") == 5.0
    assert value(figures, "lag_offsets", "clicks", "0") == 7
    assert value(figures, "last_poll_timestamp_seconds") == 1_000.0
    tell(counting, Lagged(0, None, 0.0, (("kafka://clicks/0", 0), ("kafka://clicks/1", 0))))
    assert value(figures, "lag_seconds") == 0


def test_a_followed_folder_lags_by_what_is_behind_the_batch_too(
    figures: Figures, counting: EventCounter, clock: Clock
) -> None:
    """Batches of a backlog follow each other without a pause: it must not seem to be nothing."""
    tell(counting, *began(files(1)), RunEnded("a", report()))
    tell(counting, Lagged(5, 500, 20.0), *began(files(10, 20)))
    assert (value(figures, "lag_objects"), value(figures, "lag_bytes")) == (7, 530)
    assert value(figures, "lag_seconds") == 20.0
    tell(counting, published(1, 3, 10), published(2, 3, 20), RunEnded("a", report()))
    assert (value(figures, "lag_objects"), value(figures, "lag_bytes")) == (5, 500)
    clock.now += 1
    assert value(figures, "lag_seconds") == 21.0
    tell(counting, Lagged(0, 0, 0.0))
    assert (value(figures, "lag_objects"), value(figures, "lag_seconds")) == (0, 0)


def test_parts_and_merges(figures: Figures, counting: EventCounter) -> None:
    tell(counting, *began(files(1)), PartsCounted("shop.orders", 950, 1000))
    tell(counting, MergesWaited("shop.orders", 2.5))
    assert value(figures, "partition_parts") / value(figures, "partition_parts_limit") == 0.95  # type: ignore[operator]
    assert (value(figures, "merge_waits"), value(figures, "merge_wait_seconds")) == (1, 2.5)


def test_series_are_bounded(figures: Figures) -> None:
    """A topic or a command with endless names makes neither the process nor its scrapes grow."""
    for number in range(MOST_SERIES + 500):
        figures.add("rows", 2, ("p", f"t{number}"))
    rows = figures.of("rows")
    assert len(rows) <= MOST_SERIES + 1
    assert rows["p", OTHER] == 1000


def test_threads_count_together(figures: Figures) -> None:
    def add() -> None:
        for _ in range(2_000):
            figures.add("rows", 1, KEY)
            figures.observe("load_duration_seconds", 1.0, KEY)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    durations = figures.of("load_duration_seconds")[KEY]
    assert isinstance(durations, Durations)
    assert (figures.of("rows")[KEY], sum(durations.counts)) == (8_000, 8_000)


def test_names_are_those_of_prometheus_rules() -> None:
    """https://prometheus.io/docs/practices/naming: base units at the end, no labels in names."""
    for metric in METRICS.values():
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", metric.name)
        assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert metric.name.endswith(metric.unit)
        assert ("seconds" in metric.name, "bytes" in metric.name) == (
            metric.unit == "seconds", metric.unit == "bytes"
        )  # fmt: skip
        assert metric.kind != HISTOGRAM or metric.unit == "seconds"
        assert metric.help[:1].isupper()
        assert metric.help.endswith((".", "always 1."))
    assert {m.kind for m in METRICS.values()} == {COUNTER, HISTOGRAM, "gauge"}
