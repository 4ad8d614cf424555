"""The course of a load's attempts: when it looks, how it waits, and what settings become of it."""

from __future__ import annotations

import threading

from rowfall.core.errors import EngineError
from rowfall.core.events import Event, Steered
from rowfall.core.model import Setting
from rowfall.core.steering import Pressure
from rowfall.run.steering import LOOK_SECONDS, MOST_WAIT, Steering

FULL, CALM = Pressure(parts=90, delay_parts=100), Pressure(parts=1, delay_parts=100)


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Stopped(threading.Event):
    """Lets time pass instead of waiting."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self.clock.now += timeout or 0.0
        return self.is_set()


class Scripted:
    """A gauge that gives one answer after the other, the last one for ever."""

    def __init__(self, *answers: Pressure | EngineError) -> None:
        self.answers, self.looks = list(answers), 0

    def look(self) -> Pressure:
        self.looks += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, EngineError):
            raise found
        return found


def steering(gauge: Scripted | None) -> tuple[Steering, Clock, list[Event]]:
    clock, heard = Clock(), list[Event]()
    return Steering(gauge, heard.append, Stopped(clock), "", clock), clock, heard


def test_a_short_load_asks_nothing_and_a_long_one_rarely() -> None:
    gauge = Scripted(CALM)
    course, clock, heard = steering(gauge)
    for _ in range(100):
        course.before()
    assert gauge.looks == 0
    for _ in range(100):
        clock.now += LOOK_SECONDS / 4
        course.before()
    assert gauge.looks == 25
    assert (course.steps, heard) == ((), [])


def test_settings_and_streams_follow() -> None:
    planned = (
        Setting("max_threads", 8), Setting("max_insert_threads", 4),
        Setting("min_insert_block_size_bytes", 64 << 20), Setting("async_insert", 0),
    )  # fmt: skip
    course, clock, heard = steering(Scripted(FULL))
    assert course.applied(planned) == planned
    assert course.streams(4) is None
    clock.now += LOOK_SECONDS
    course.counted(1000)
    course.before()
    found = {setting.name: setting.value for setting in course.applied(planned)}
    assert found == {
        "max_threads": 4, "max_insert_threads": 2, "min_insert_block_size_bytes": 128 << 20,
        "async_insert": 0,
    }  # fmt: skip
    assert course.streams(4) == 2
    assert course.streams(1) == 1
    assert course.streams(0) is None
    (step,) = course.steps
    assert step.rate == 1000 / LOOK_SECONDS
    assert [type(event) for event in heard] == [Steered]


def test_blocks_of_one_thread_stay() -> None:
    """Larger ones would take more memory than was planned."""
    planned = (Setting("max_insert_threads", 1), Setting("min_insert_block_size_bytes", 64 << 20))
    course, clock, _ = steering(Scripted(FULL))
    clock.now += LOOK_SECONDS
    course.before()
    assert course.applied(planned) == planned


def test_it_waits_as_long_as_there_is_pressure_and_no_longer_than_it_may() -> None:
    course, clock, _ = steering(Scripted(FULL))
    for _ in range(2):
        clock.now += LOOK_SECONDS
        course.before()
    began = clock.now
    clock.now += LOOK_SECONDS
    course.before()
    assert clock.now - began - LOOK_SECONDS == MOST_WAIT
    course, clock, _ = steering(Scripted(FULL, FULL, FULL, FULL, CALM))
    for _ in range(2):
        clock.now += LOOK_SECONDS
        course.before()
    began = clock.now
    clock.now += LOOK_SECONDS
    course.before()
    assert clock.now - began == 3 * LOOK_SECONDS


def test_a_server_that_does_not_answer_changes_nothing() -> None:
    course, clock, _ = steering(Scripted(EngineError("gone")))
    clock.now += LOOK_SECONDS
    course.before()
    assert course.steps == ()


def test_ctrl_c_ends_the_wait() -> None:
    gauge = Scripted(FULL)
    course, clock, _ = steering(gauge)
    for _ in range(2):
        clock.now += LOOK_SECONDS
        course.before()
    course._stopped.set()  # the event of the queue
    looks = gauge.looks
    clock.now += LOOK_SECONDS
    course.before()
    assert gauge.looks == looks + 1
