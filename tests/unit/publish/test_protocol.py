"""The protocol without an engine: attempts that crash anywhere, simulated in memory.

Each process carries out the steps that :func:`next_step` gives, and ends open attempts as
:func:`after_crash` says. What it knows is what was recorded and what the target shows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rowfall.publish.protocol import (
    Action,
    AttemptProgress,
    Evidence,
    ProtocolError,
    Recorded,
    Step,
    after_crash,
    next_step,
)

SPLITS = range(4)
PARTS = 3


def recorded_after(step: Step | None) -> Recorded:
    """Return the state in ledger and journal after ``step``; None for before the first step."""
    if step is None:
        return Recorded.NOTHING
    if step < Step.COMMIT:
        return Recorded.STARTED
    return Recorded.COMMITTED if step < Step.RECORD else Recorded.PUBLISHED


def test_steps_follow_each_other_in_the_order_of_the_protocol() -> None:
    progress, steps = AttemptProgress(), []
    while (step := next_step(progress.step)) is not None:
        progress.enter(step)
        steps.append(step)
    assert steps == list(Step)


@pytest.mark.parametrize("done", [None, *Step])
@pytest.mark.parametrize("wanted", list(Step))
def test_no_step_is_left_out_or_repeated(done: Step | None, wanted: Step) -> None:
    progress = AttemptProgress(done)
    if next_step(done) is wanted:
        progress.enter(wanted)
        assert progress.step is wanted
    else:
        with pytest.raises(ProtocolError):
            progress.enter(wanted)


@pytest.mark.parametrize("step", list(Step))
def test_nothing_is_taken_back_once_a_commit_was_sent(step: Step) -> None:
    assert AttemptProgress(step).may_discard is (step < Step.COMMIT)


@pytest.mark.parametrize("recorded", [r for r in Recorded if r is not Recorded.COMMITTED])
def test_only_committed_attempts_depend_on_the_target(recorded: Recorded) -> None:
    assert {after_crash(recorded, evidence) for evidence in Evidence} == {after_crash(recorded)}


def test_a_committed_attempt_is_not_judged_without_evidence() -> None:
    with pytest.raises(ProtocolError):
        after_crash(Recorded.COMMITTED)


def test_committed_rows_are_only_discarded_where_nothing_is_lost() -> None:
    """Where the table is another one, where a database has taken the rows back, or where a file is
    written again as a whole."""
    discards = {e for e in Evidence if e is not Evidence.NOT_ASKED
                and after_crash(Recorded.COMMITTED, e) is Action.DISCARD}  # fmt: skip
    assert discards == {Evidence.TARGET_GONE, Evidence.ROLLED_BACK, Evidence.OVERWRITES}


def test_rows_that_cannot_follow_their_table_are_kept() -> None:
    assert after_crash(Recorded.COMMITTED, Evidence.UNFIT) is Action.KEEP


@dataclass
class Attempt:
    """One attempt: what was recorded of it, and the parts that its staging holds (None: gone)."""

    split: int
    number: int
    recorded: Recorded = Recorded.NOTHING
    staging: set[int] | None = None


@dataclass
class World:
    """What outlives a process: ledger, staging, and the target with its parts (attempt, part)."""

    attempts: list[Attempt] = field(default_factory=list)
    target: list[tuple[int, int]] = field(default_factory=list)
    loaded: set[int] = field(default_factory=set)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def carry_out(self, attempt: Attempt, step: Step, torn: int | None = None) -> None:
        """Do one step; ``torn``: the server is killed when an ATTACH has taken so many parts."""
        if step is Step.START:
            self.attempts.append(attempt)
        elif step is Step.STAGE:
            attempt.staging = set()
        elif step is Step.DELIVER:
            attempt.staging = set(range(PARTS))
        elif step is Step.PUBLISH:
            self.attach(attempt, torn)
        elif step is Step.RECORD:
            self.loaded.add(attempt.split)
        elif step is Step.DROP:
            attempt.staging = None
        if torn is None:
            attempt.recorded = recorded_after(step)

    def attach(self, attempt: Attempt, torn: int | None = None) -> None:
        assert attempt.staging, "only what was counted is attached"
        parts = sorted(attempt.staging)
        self.target += [(attempt.number, part) for part in parts[:torn]]

    def evidence(self, attempt: Attempt) -> Evidence:
        assert attempt.staging is not None, "staging is dropped after RECORD only"
        there = {part for number, part in self.target if number == attempt.number}
        if not there & attempt.staging:
            return Evidence.NO_PARTS
        return Evidence.ALL_PARTS if attempt.staging <= there else Evidence.SOME_PARTS

    def settle(self, crash: int) -> bool:
        """End open attempts; crash after so many actions. Returns whether all were ended."""
        for attempt in self.attempts:
            asked = Evidence.NOT_ASKED
            if attempt.recorded is Recorded.COMMITTED:
                asked = self.evidence(attempt)
            while attempt.recorded not in (Recorded.ENDED, Recorded.PUBLISHED) or attempt.staging:
                if not crash:
                    return False
                crash -= 1
                asked = self.act(attempt, after_crash(attempt.recorded, asked))
        return True

    def act(self, attempt: Attempt, action: Action) -> Evidence:
        """Do what is to be done about one attempt; returns what is known then."""
        if action is Action.LOAD:
            attempt.recorded = Recorded.ENDED
        elif action is Action.DISCARD:
            attempt.staging, attempt.recorded = None, Recorded.ENDED
        elif action is Action.DROP:
            attempt.staging = None
        elif action is Action.ATTACH:
            self.attach(attempt)
            return Evidence.ALL_PARTS
        elif action is Action.ATTACH_REST:
            there = {part for number, part in self.target if number == attempt.number}
            attempt.staging = (attempt.staging or set()) - there
            return Evidence.NO_PARTS
        elif action is Action.RECORD:
            self.loaded.add(attempt.split)
            attempt.recorded = Recorded.PUBLISHED
        return Evidence.NOT_ASKED

    def load(self, split: int, steps: int, torn: int | None) -> None:
        """Load a split, with a crash after so many steps; a torn ATTACH is a crash, too."""
        attempt = Attempt(split, next(self.numbers))
        progress = AttemptProgress()
        for _ in range(steps):
            step = next_step(progress.step)
            if step is None:
                return
            progress.enter(step)
            tears = torn if step is Step.PUBLISH else None
            self.carry_out(attempt, step, tears)
            if tears is not None:
                return

    def rows(self) -> Counter[tuple[int, int]]:
        """How often each part of each split is visible."""
        splits = {attempt.number: attempt.split for attempt in self.attempts}
        return Counter((splits[number], part) for number, part in self.target)


class Crashes(RuleBasedStateMachine):
    """Runs that settle the past and load what is missing, each of which may crash anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.settled = True

    @rule(crash=st.integers(0, 8))
    def restart(self, crash: int) -> None:
        self.settled = self.world.settle(crash)

    @precondition(lambda self: self.settled and len(self.world.loaded) < len(SPLITS))
    @rule(
        data=st.data(),
        steps=st.integers(1, len(Step)),
        torn=st.none() | st.integers(0, PARTS),
    )
    def load(self, data: st.DataObject, steps: int, torn: int | None) -> None:
        missing = [split for split in SPLITS if split not in self.world.loaded]
        self.world.load(data.draw(st.sampled_from(missing)), steps, torn)
        self.settled = False

    @invariant()
    def nothing_twice(self) -> None:
        assert all(count == 1 for count in self.world.rows().values())

    @invariant()
    def what_counts_as_loaded_is_there(self) -> None:
        rows = self.world.rows()
        assert all(rows[split, part] for split in self.world.loaded for part in range(PARTS))

    @precondition(lambda self: self.settled)
    @invariant()
    def no_half_of_a_split_when_all_is_settled(self) -> None:
        seen = {split for split, _ in self.world.rows()}
        assert seen == self.world.loaded

    def teardown(self) -> None:
        """One run that nobody disturbs brings every row, once."""
        assert self.world.settle(1_000)
        for split in SPLITS:
            if split not in self.world.loaded:
                self.world.load(split, len(Step), None)
        wanted = Counter((split, part) for split in SPLITS for part in range(PARTS))
        assert self.world.rows() == wanted


Crashes.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestCrashes = Crashes.TestCase
