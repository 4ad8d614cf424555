"""Who leads a shared load, who takes part and who is dead: from the lines of its table alone."""

from __future__ import annotations

import json
from typing import Any

from rowfall.ledger import leases
from rowfall.ledger.pipeline_log import ALIVE, CLAIM, EXPIRE, QUIT, LogLine
from rowfall.ledger.team import (
    ENDED,
    LOADING,
    LOST,
    PLAN,
    SILENT_SECONDS,
    WAITING,
    WORK,
    batched,
    read_lines,
)
from rowfall.run.fleet import spread

A, B, C = "there/pid 1 7 aa", "there/pid 2 8 bb", "there/pid 3 9 cc"


def line(number: int, event: str, owner: str, idle: float = 0.0, **said: Any) -> LogLine:
    return LogLine(number, event, owner, "", json.dumps(said) if said else "", idle)


PLANNED = [line(1, CLAIM, A), line(2, CLAIM, B), line(3, PLAN, A, 9.0, since=1, load="x")]


def test_who_came_first_leads_and_its_plan_counts() -> None:
    one, two = read_lines(PLANNED, A), read_lines(PLANNED, B)
    assert (one.leads, two.leads) == (True, False)
    assert two.plan is not None
    assert (two.plan.said["load"], two.plan.seconds) == ("x", 9.0)
    assert [m.owner for m in two.members] == [A, B]
    # One that an error has ended is waited for no more.
    gone = read_lines([*PLANNED, line(4, QUIT, B, state=LOADING)], A).members[1]
    assert (gone.state, gone.works) == ("failed", False)
    # Before the plan there is nobody to load with.
    assert read_lines(PLANNED[:2], B).plan is None


def test_who_comes_behind_a_dead_leader_keeps_the_members() -> None:
    lines = [*PLANNED, line(4, WORK, A, state=LOADING, load="x"), line(5, EXPIRE, A)]
    state = read_lines(lines, B)
    assert (state.leads, state.plan) == (True, None)
    lines.append(line(6, PLAN, B, 2.0, since=1, load="x", age=30.0))
    state = read_lines(lines, B)
    assert state.plan is not None
    assert state.plan.seconds == 32.0
    assert [(m.owner, m.state) for m in state.members] == [(A, LOST), (B, "joining")]
    # Taken for dead by mistake, it works on as one of the others.
    back = read_lines([*lines, line(7, ALIVE, A, state=LOADING, load="x")], A)
    assert (back.leads, back.members[0].state, back.standing.ended) == (False, LOADING, (A,))


def test_silence_of_a_leader_ends_its_lead_and_that_of_a_worker_its_share() -> None:
    silent = SILENT_SECONDS + 1
    lines = [line(1, CLAIM, A, silent), line(2, CLAIM, B, silent), *PLANNED[2:]]
    state = read_lines(lines, B)
    assert (state.standing.dead, [m.state for m in state.members]) == (True, [LOST, "joining"])
    # The clock of the server has jumped back by an hour.
    lines[0] = line(1, CLAIM, A, -3600.0)
    assert read_lines(lines, B).standing.dead


def test_whose_report_is_made_leads_no_other_load() -> None:
    lines = [*PLANNED, line(4, WORK, A, state=ENDED, led=True, outcome="done"), line(5, CLAIM, C)]
    state = read_lines(lines, C)
    assert state.added_up is not None
    assert (state.added_up.owner, state.added_up.report().state) == (A, "done")
    assert state.standing.holder == B
    lines.append(line(6, QUIT, B, state=ENDED))
    assert read_lines(lines, C).leads
    # The next load has its own members.
    lines.append(line(7, PLAN, C, since=5, load="y"))
    state = read_lines(lines, C)
    assert ([m.owner for m in state.members], state.added_up) == ([C], None)


def test_refused_workers_are_none_and_those_that_wait_do_not_work() -> None:
    lines = [*PLANNED, line(4, QUIT, B, state="refused"), line(5, WORK, A, state=WAITING)]
    (member,) = read_lines(lines, A).members
    assert (member.owner, member.works) == (A, False)
    assert read_lines([*PLANNED, line(4, WORK, A, state=LOADING)]).members[0].works


def test_a_process_of_this_machine_that_has_ended_is_dead_at_once() -> None:
    gone = f"{leases.machine_id()} 999999999 1 cc"
    lines = [line(1, CLAIM, gone), line(2, CLAIM, B), line(3, PLAN, gone, since=1)]
    state = read_lines(lines, B)
    assert (state.standing.dead, state.members[0].state) == (True, LOST)


def test_workers_begin_at_places_far_from_each_other() -> None:
    assert [spread(n) for n in range(6)] == [0, 0.5, 0.25, 0.75, 0.125, 0.625]
    assert list(batched([("a", "1", None, None)] * 5, 2))[-1] == [("a", "1", None, None)]
