"""What is recorded of a load is bounded, however long it is, and is read again by all versions."""

from __future__ import annotations

import json
from itertools import pairwise

from rowfall.core.events import AttemptEnded, LoadStarted, Note, Progressed, SplitFailed
from rowfall.core.load_record import LoadRecord, RanStatement, RecordedEvent, Sample
from rowfall.core.masked import Secret
from rowfall.core.model import Statement
from rowfall.core.results import AttemptRecord
from rowfall.core.sqltext import SqlText
from rowfall.ledger import recorder
from rowfall.ledger.recorder import MOST_HAPPENINGS, MOST_SAMPLES, MOST_STATEMENTS, Recorder


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def started(clock: Clock) -> Recorder:
    found = Recorder(clock)
    clock.now += 5  # planning
    found.hear(LoadStarted("a", "s", "t", "t", 1, 0, None, None))
    return found


def test_samples_are_as_far_from_each_other_as_a_long_load_needs() -> None:
    clock = Clock()
    found = started(clock)
    sizes = []
    for number in range(100_000):  # nearly three hours
        clock.now += 0.1
        found.hear(Progressed(number * 10, number, 3, 1 << 20, 0.0))
        sizes.append(len(found.record().samples) if number % 997 == 0 else 0)
    samples = found.record().samples
    assert max(sizes) <= MOST_SAMPLES + 1
    assert MOST_SAMPLES // 2 <= len(samples) <= MOST_SAMPLES + 1
    assert samples[0].seconds < 0.2
    # The last one is there whatever the step is, and the others are about as far apart.
    assert samples[-1].rows == 999_990
    steps = [round(b.seconds - a.seconds) for a, b in pairwise(samples[:-1])]
    assert max(steps) <= 1.5 * min(steps)


def test_what_happened_has_its_time_and_an_end() -> None:
    clock = Clock()
    found = started(clock)
    clock.now += 2
    found.hear(Note("warning", "memory is short\nmore"))
    found.hear(Note("info", "no matter"))
    clock.now += 1
    found.hear(AttemptEnded(AttemptRecord("a_1", 1, "x.csv", seconds=0.5, error="reset")))
    found.hear(SplitFailed("x.csv", "reset", None))
    assert found.record().happenings == (
        RecordedEvent(2.0, "warning", "memory is short"),
        RecordedEvent(3.0, "retry", "failed: x.csv: reset"),
        RecordedEvent(3.0, "failure", "given up: x.csv"),
    )
    for _ in range(1000):
        found.hear(Note("warning", "w" * 10_000))
    happened = found.record().happenings
    assert len(happened) == MOST_HAPPENINGS
    assert len(happened[-1].text) <= 300


def test_attempts_are_counted_by_duration_and_the_slowest_are_named() -> None:
    found = Recorder(Clock())
    for number in range(100_000):
        seconds = 0.1 + number % 1000 / 100
        found.hear(AttemptEnded(AttemptRecord(f"a_{number}", 1, f"{number}.csv", seconds=seconds)))
    attempts, others = found.attempts()
    assert len(attempts) + others == 100_000
    assert len(attempts) == recorder.SLOWEST
    assert {round(each.seconds, 2) for each in attempts} == {10.09}
    durations = found.record().durations
    assert sum(count for _, count in durations) == 100_000
    assert [most for most, _ in durations] == [
        0.1, 0.178, 0.316, 0.562, 1.0, 1.78, 3.16, 5.62, 10.0, 17.8,
    ]  # fmt: skip
    counted = dict(durations)
    assert counted[0.1] == 100  # 0.1 s exactly
    assert counted[17.8] == 900  # 10.01 to 10.09


def test_statements_that_differ_in_names_and_files_are_one() -> None:
    found = Recorder(Clock())
    secret = Secret("hunter2")
    for number in range(1000):
        found.ran(Statement(
            SqlText.of(
                f"INSERT INTO `db`.`_rowfall_9f{number}_7` SELECT a, b FROM s3("
                f"'http://h/{number}.csv', 'key', ", secret, f", 'CSV') LIMIT {number}"
            ), query_id=f"9f_{number}",
        ))  # fmt: skip
    found.ran(Statement(SqlText.of("INSERT INTO t SELECT x FROM file(['a', 'b'])"), query_id="q"))
    found.ran(Statement(SqlText.of("INSERT INTO t SELECT x FROM file('a')"), query_id="q2"))
    found.ran(Statement(SqlText.of("INSERT INTO t SELECT y FROM file('a')"), query_id="q3"))
    ran = found.record().statements
    assert [(each.times, each.first) for each in ran] == [(1000, "9f_0"), (2, "q"), (1, "q3")]
    assert "hunter2" not in str(ran)
    assert "'key', '[HIDDEN]'" in ran[0].sql
    for number in range(500):
        word = "".join(chr(97 + int(digit)) for digit in str(number))
        found.ran(Statement(SqlText.of(f"DROP TABLE {word}")))
    assert len(found.record().statements) == MOST_STATEMENTS


def test_a_record_is_read_by_other_versions() -> None:
    record = LoadRecord(
        (Sample(0.5, 10, None, 3, 4), Sample(1.0, 20, 5, 3, 4)),
        (RecordedEvent(1.0, "retry", "x"),),
        (RanStatement("SELECT 1", 2, "a_1"),), ((1.0, 3),), (("parse", 1.5),), 1 << 30,
    )  # fmt: skip
    kept = json.loads(json.dumps(recorder.to_json(record)))
    assert recorder.from_json(kept) == record
    assert recorder.from_json({}) == LoadRecord()
    newer = {
        **kept, "more": 1, "samples": [[*each, 99] for each in kept["samples"]],
        "happenings": [{**each, "more": 1} for each in kept["happenings"]],
    }  # fmt: skip
    assert recorder.from_json(newer) == record
