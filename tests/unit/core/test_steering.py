"""What a load takes of a server that others use: decided by what was seen, and nothing else."""

from __future__ import annotations

import pytest

from rowfall.core.steering import (
    BACK_OFF,
    CALM_LOOKS,
    COME_BACK,
    MEMORY,
    MOST_LEVEL,
    PARTS,
    REPLICAS,
    Backoff,
    Observation,
    Pressure,
    SteeringStep,
    decide,
    said,
)

CALM = Pressure(parts=10, delay_parts=100, memory=10, memory_limit=100)
BETWEEN = Pressure(parts=50, delay_parts=100, memory=75, memory_limit=100, lag=30, queue=80)
FULL = {
    PARTS: Pressure(parts=60, delay_parts=100),
    MEMORY: Pressure(memory=85, memory_limit=100),
    REPLICAS: Pressure(lag=60),
}


def follow(
    *pressures: Pressure, course: Backoff | None = None
) -> tuple[Backoff, list[SteeringStep]]:
    """The course after some looks, and the steps on the way."""
    course, steps = course or Backoff(), []
    for number, pressure in enumerate(pressures):
        course, step = decide(course, Observation(5.0 * number, pressure, 1000.0))
        steps += [step] if step is not None else []
    return course, steps


@pytest.mark.parametrize("cause", FULL)
def test_it_backs_off_by_steps_and_comes_back(cause: str) -> None:
    course, steps = follow(*[FULL[cause]] * 5)
    assert [step.share for step in steps] == [0.5, 0.25, 0.25]
    assert [step.waits for step in steps] == [False, False, True]
    assert {(step.action, step.cause) for step in steps} == {(BACK_OFF, cause)}
    assert course.level == MOST_LEVEL
    course, steps = follow(*[CALM] * (CALM_LOOKS * MOST_LEVEL), course=course)
    assert [step.share for step in steps] == [0.25, 0.5, 1.0]
    assert {step.action for step in steps} == {COME_BACK}
    assert {step.cause for step in steps} == {cause}
    assert course == Backoff()


def test_blocks_follow_the_cause() -> None:
    """Fewer parts by larger blocks, less memory by smaller ones; replicas do not mind."""
    assert [step.blocks for step in follow(*[FULL[PARTS]] * 2)[1]] == [2, 4]
    assert [step.blocks for step in follow(*[FULL[MEMORY]] * 2)[1]] == [0.5, 0.25]
    assert [step.blocks for step in follow(*[FULL[REPLICAS]] * 2)[1]] == [1, 1]


def test_nothing_happens_without_pressure() -> None:
    assert follow(CALM, BETWEEN, Pressure()) == (Backoff(), [])


def test_between_the_thresholds_it_stays_as_it_is() -> None:
    """Its own attempt makes parts: one that came back at once would turn round for ever."""
    course, _ = follow(FULL[PARTS])
    held, steps = follow(*[BETWEEN] * 10, course=course)
    assert (held.level, steps) == (1, [])
    # A calm look in between does not count by itself.
    held, steps = follow(*[CALM, BETWEEN] * 5, course=course)
    assert (held.level, steps) == (1, [])


def test_another_cause_is_a_step_of_its_own() -> None:
    course, steps = follow(*[FULL[PARTS]] * 3, FULL[MEMORY])
    assert [step.cause for step in steps] == [PARTS, PARTS, PARTS, MEMORY]
    assert (course.cause, course.blocks) == (MEMORY, 0.25)


def test_what_is_not_known_does_not_press() -> None:
    assert follow(Pressure(parts=10_000, memory=10**12)) == (Backoff(), [])


def test_a_step_is_said_with_its_figures() -> None:
    _, (step,) = follow(Pressure(parts=61, delay_parts=100, merges=2))
    assert said(step) == (
        "backing off, 50 % of the threads, blocks up to 2 x as large: the fullest partition has 61 "
        "parts, and inserts are delayed at 100, 2 merges running"
    )
    _, (_, back) = follow(FULL[MEMORY], *[CALM] * CALM_LOOKS)
    assert said(back) == "coming back, as planned again: the server holds 10 B of 100 B"
