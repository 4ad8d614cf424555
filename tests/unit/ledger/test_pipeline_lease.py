"""Who holds the lease of a pipeline: from the lines of its log alone."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowfall.engines.small_tables import MYSQL, SmallTables, Value
from rowfall.ledger import leases
from rowfall.ledger.pipeline_lease import SILENT_SECONDS, PipelineLease, judge
from rowfall.ledger.pipeline_log import (
    ALIVE,
    CLAIM,
    EXPIRE,
    FAILED,
    PAUSE,
    QUIT,
    RESUME,
    RETRY,
    LocalLog,
    LogLine,
    SharedLog,
)

A, B = "there/pid 1 7 aa", "there/pid 2 8 bb"
HERE = f"{leases.this_process()} ee"
ENDED = f"{leases.machine_id()} 999999999 1 cc"


def line(number: int, event: str, owner: str = "", idle: float = 0.0) -> LogLine:
    return LogLine(number, event, owner, "", "", idle)


def test_the_earliest_claim_that_has_not_ended_holds_the_lease() -> None:
    lines = [line(1, CLAIM, A), line(2, CLAIM, B)]
    assert (judge(lines, A, shared=True).mine, judge(lines, B, shared=True).mine) == (True, False)
    for event in (QUIT, EXPIRE):
        found = judge([*lines, line(3, event, A)], B, shared=True)
        assert (found.holder, found.mine, found.ended) == (B, True, (A,))
    # A claim behind the end of another one of the same owner is a new one.
    assert judge([line(1, QUIT, A), line(2, CLAIM, A)], A, shared=True).mine


@pytest.mark.parametrize(
    ("owner", "idle", "shared", "dead"),
    [
        (A, 1.0, True, False),
        (A, SILENT_SECONDS + 0.1, True, True),
        (A, -SILENT_SECONDS - 0.1, True, True),  # the clock of the server has jumped back
        (HERE, 3600.0, False, False),  # of one machine only the process itself tells
        (A, 3600.0, False, True),  # before the machine was started anew, or in another container
        (A, 1.0, False, False),
        (ENDED, 0.0, True, True),
        (ENDED, 0.0, False, True),
        (leases.this_process() + " dd", 1.0, False, False),
    ],
    # Names that workers of a test run agree on: the owner holds a process id.
    ids=(
        "alive",
        "silent",
        "jumped back",
        "not shared",
        "before a start",
        "another container",
        "ended",
        "ended here",
        "this process",
    ),
)
def test_who_is_dead(owner: str, idle: float, shared: bool, dead: bool) -> None:
    assert judge([line(1, CLAIM, owner, idle)], B, shared=shared).dead is dead


def test_a_sign_of_life_counts_and_a_holder_is_never_dead_to_itself() -> None:
    lines = [line(1, CLAIM, A, 99.0), line(2, ALIVE, A, 0.5)]
    assert not judge(lines, B, shared=True).dead
    assert not judge([line(1, CLAIM, A, 99.0)], A, shared=True).dead


def test_the_later_of_pause_and_resume_counts() -> None:
    assert judge([line(1, PAUSE)], "", shared=True).paused
    assert not judge([line(1, PAUSE), line(2, RESUME)], "", shared=True).paused
    assert judge([line(3, PAUSE), line(2, RESUME)], "", shared=True).paused


def test_a_lease_goes_from_one_to_the_next(tmp_path: Path) -> None:
    log = LocalLog(tmp_path / "log.sqlite", "p")
    first, second = PipelineLease(log), PipelineLease(log)
    assert first.stand().mine
    assert not second.stand().mine
    assert first.sign({"rows": 3}).sign["rows"] == 3
    first.quit()
    assert second.stand().mine
    # Taken for dead, and back: it claims anew, behind the other one.
    log.append(EXPIRE, second.owner)
    assert first.stand().mine
    before = second.owner
    assert not second.stand().mine
    assert second.owner != before
    first.quit()
    assert second.stand().mine


def test_the_log_of_another_pipeline_is_another(tmp_path: Path) -> None:
    one, two = (LocalLog(tmp_path / "log.sqlite", name) for name in ("p", "q"))
    assert PipelineLease(one).stand().mine
    assert PipelineLease(two).stand().mine
    two.append(PAUSE)
    assert not judge(one.lines(), "", shared=False).paused


def test_a_local_log_keeps_the_last_of_each_kind_and_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    log, other = LocalLog(path, "p"), LocalLog(path, "q")
    for number in range(50):
        log.append(FAILED, item="a.csv", detail=str(number))
        other.append(RETRY, item="a.csv")
    log.append(RETRY, item="a.csv")
    log.append(FAILED, item="b.csv")
    assert [(one.event, one.item, one.detail) for one in log.lines(files=True)] == [
        (FAILED, "a.csv", "49"), (RETRY, "a.csv", ""), (FAILED, "b.csv", ""),
    ]  # fmt: skip
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM line").fetchone() == (4,)
    assert path.stat().st_mode & 0o777 == 0o600


class Statements:
    """Keeps the statements of small tables."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def run(self, text: str) -> None:
        self.said.append(text)

    def ask(self, text: str) -> list[list[Value]]:
        self.said.append(text)
        return []


def test_names_of_files_are_as_long_as_stores_have_them() -> None:
    runner = Statements()
    SharedLog(SmallTables(runner, MYSQL, ""), "p")
    (made,) = runner.said
    assert "`item` mediumtext" in made  # a varchar(512) refuses keys of S3, which have 1,024 bytes


@pytest.mark.parametrize("seed", range(40))
def test_no_two_hold_it_whatever_the_order(seed: int) -> None:
    """In any history two owners that see the same lines agree, and exactly one may hold it."""
    chance = random.Random(seed)
    owners, lines = [f"there/pid {n} 1 {n}" for n in range(4)], []
    for number in range(1, 60):
        owner, event = chance.choice(owners), chance.choice((CLAIM, ALIVE, EXPIRE, QUIT))
        lines = [one for one in lines if (one.event, one.owner) != (event, owner)]
        lines.append(line(number, event, owner, chance.random() * 20))
        holders = [judge(lines, me, shared=True) for me in owners]
        assert sum(found.mine for found in holders) <= 1
        assert len({found.holder for found in holders}) == 1
