"""What people do to a table between a crash and the next run, on both engines.

An attempt is committed; its parts were attached or not when everything was killed, under an id that
no log knows. Then somebody detaches, drops or moves parts, and outdated ones are cleared away, so
that no list names the parts any more. The next run ends with every row once, or stops and changes
nothing.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from contract.engines import run, text
from lab.process import wait_until
from rowfall.core.errors import LedgerError
from rowfall.core.model import StagingPair
from rowfall.core.options import ALL, NONE
from rowfall.ledger import Ledger
from rowfall.ledger.leases import StagedPartition
from rowfall.publish.attach import Publisher
from rowfall.publish.evidence import LoadedAnswer
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server
from rowfall.systems.clickhouse.staging import clone, facts

pytestmark = pytest.mark.xdist_group("engine")

Engine = Embedded | Server
_numbers = itertools.count()
# Of the attempt; one partition of the table holds 50 rows before, the other none.
ROWS = 200
EACH = ("1", "2")
OPTIMIZE = ("OPTIMIZE TABLE {db}.t FINAL",)
DETACH = tuple(f"ALTER TABLE {{db}}.t DETACH PARTITION {p}" for p in EACH)
ATTACH = tuple(f"ALTER TABLE {{db}}.t ATTACH PARTITION {p}" for p in EACH)
DROP = tuple(f"ALTER TABLE {{db}}.t DROP PARTITION {p}" for p in EACH)
MOVE = ("CREATE TABLE {db}.x AS {db}.t",
        *(f"ALTER TABLE {{db}}.t MOVE PARTITION {p} TO TABLE {{db}}.x" for p in EACH))  # fmt: skip
INSERT = ("INSERT INTO {db}.t SELECT 1 + number % 2, 2000000 + number, 0 FROM numbers(30)",)
REPLACE = ("CREATE TABLE {db}.y AS {db}.t", "INSERT INTO {db}.y SELECT * FROM {db}.t",
           "INSERT INTO {db}.y VALUES (1, 3000000, 0)",
           "OPTIMIZE TABLE {db}.y FINAL",
           "ALTER TABLE {db}.t REPLACE PARTITION 1 FROM {db}.y",
           "DROP TABLE {db}.y SYNC")  # fmt: skip
SYNC = " SETTINGS mutations_sync = 2"

DEEDS: dict[str, Sequence[str]] = {
    "nothing": (),
    "optimize": OPTIMIZE,
    "insert": INSERT,
    "insert, optimize": (*INSERT, *OPTIMIZE),
    "detach": DETACH,
    "optimize, detach": (*OPTIMIZE, *DETACH),
    "detach, attach": (*DETACH, *ATTACH),
    "optimize, detach, attach": (*OPTIMIZE, *DETACH, *ATTACH),
    "insert, optimize, detach, attach": (*INSERT, *OPTIMIZE, *DETACH, *ATTACH),
    "optimize, drop": (*OPTIMIZE, *DROP),
    "drop, insert": (*DROP, *INSERT),
    "move": MOVE,
    "optimize, move": (*OPTIMIZE, *MOVE),
    "truncate": ("TRUNCATE TABLE {db}.t",),
    "optimize, replace": REPLACE,
    "optimize, delete": (*OPTIMIZE, f"ALTER TABLE {{db}}.t DELETE WHERE k % 7 = 0{SYNC}"),
}
# One for each kind of mistake that was made before, for the gate.
KINDS = ("optimize, detach, attach", "insert, optimize, detach, attach", "detach, attach", "detach",
         "move", "optimize, move", "nothing", "optimize", "insert")  # fmt: skip
# Nobody has taken anything away: the next run goes on by itself.
AUTOMATIC = ("nothing", "optimize", "insert")


@dataclass
class Case:
    """One table and one attempt.

    Attributes:
        before: rows of others that one partition held.
        first: of its rows: other cases of the same engine have other ones.
    """

    deed: str
    attached: bool
    engine: Engine
    database: str
    before: int = 50
    first: int = field(default_factory=lambda: next(_numbers) % 1000 * ROWS)
    moves: tuple[StagedPartition, ...] = ()

    def run(self, *statements: str) -> None:
        for statement in statements:
            run(self.engine, statement.replace("{db}", self.database))

    def ask(self, question: str) -> str:
        return text(self.engine, question.replace("{db}", self.database))

    def crash(self, ledger: Ledger) -> None:
        """Leave what a run leaves that was killed around its ATTACH."""
        self.run(
            "CREATE DATABASE {db}",
            "CREATE TABLE {db}.t (p UInt8, k UInt64, v UInt64) ENGINE = MergeTree PARTITION BY p "
            "ORDER BY k SETTINGS old_parts_lifetime = 0, cleanup_delay_period = 0, "
            "max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, "
            "max_bytes_to_merge_at_max_space_in_pool = 1",
            f"INSERT INTO {{db}}.t SELECT 1, 1000000 + number, 0 FROM numbers({self.before})",
        )
        found = facts(lambda sql: self.engine.ask(sql), self.database, "t")
        assert found is not None
        for statement in clone(found, "_rowfall_a"):
            run(self.engine, *statement.parts)
        for start in (0, ROWS // 2):
            self.run(f"INSERT INTO {{db}}._rowfall_a SELECT 1 + number % 2, number, number "
                     f"FROM numbers({self.first + start}, {ROWS // 2})")  # fmt: skip
        pair = StagingPair(self.database, "t", "_rowfall_a")
        self.moves = Publisher(self.engine, ledger).staged([pair], 24.0).moves
        if self.attached:
            self.run("ALTER TABLE {db}.t ATTACH PARTITION ALL FROM {db}._rowfall_a")

    def cleared(self) -> bool:
        """Tell whether the table lists no outdated part any more."""
        listed = "SELECT count() FROM system.parts WHERE database = '{db}' AND table = 't' AND "
        return self.ask(listed + "NOT active") == "0"

    def rows(self) -> str:
        return self.ask("SELECT count(), sum(k) FROM {db}.t")

    def finish(self, ledger: Ledger, answer: str | None = None) -> bool:
        """Do what the next run does; return False where it stops."""
        publisher = Publisher(self.engine, ledger, answer=LoadedAnswer(answer))
        before = self.rows()
        try:
            publisher.publish("a", publisher.settle("a", self.moves))
        except LedgerError as error:
            stopped = error
        else:
            return True
        assert "was changed after a load was interrupted" in stopped.message
        assert stopped.hint is not None
        assert "--loaded all" in stopped.hint
        assert self.rows() == before
        return False

    def wrong(self) -> str:
        """Return what is wrong with the rows, "" for nothing."""
        if self.deed.endswith("detach"):
            self.run(*ATTACH)
        tables = "{db}.t" if "move" not in self.deed else "merge('{db}', '^[tx]$')"
        counts = f"SELECT k, count() AS n FROM {tables} WHERE k < 1000000 GROUP BY k"
        there, most = self.ask(f"SELECT count(), max(n) FROM ({counts})").split("\t")
        removed = self.attached and any(x in self.deed for x in ("drop", "truncate", "delete"))
        if int(most) > 1:
            return f"rows are there {most} times"
        if int(there) != ROWS and not removed:
            return f"{there} of {ROWS} rows are there"
        return ""


def cases(engine: Engine, ledger: Ledger, deeds: Sequence[str], before: int) -> list[Case]:
    """Return crashed loads to which people have done something, with nothing outdated listed."""
    made = [
        Case(deed, attached, engine, f"people_{os.getpid()}_{next(_numbers)}", before)
        for deed in deeds for attached in (False, True)
    ]  # fmt: skip
    for case in made:
        case.crash(ledger)
        case.run(*DEEDS[case.deed])
    wait_until(lambda: all(case.cleared() for case in made), 60, "outdated parts are cleared away")
    return made


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "rowfall.ledger")


def check(engine: Engine, ledger: Ledger, deeds: Sequence[str], before: int) -> None:
    found = []
    for case in cases(engine, ledger, deeds, before):
        name = f"{case.deed}, killed {'after' if case.attached else 'before'} the ATTACH"
        done = case.finish(ledger)
        if why := case.wrong() if done else "":
            found.append(f"{name}: {why}")
        if not done and case.deed in AUTOMATIC:
            found.append(f"{name}: it stops")
        print(f"{name}: {'goes on' if done else 'stops'}")  # noqa: T201 - the table of the page
        case.run("DROP DATABASE {db} SYNC")
    assert not found, "\n".join(found)


@pytest.mark.sampled(1)
def test_what_people_do_after_a_crash(engine: Engine, ledger: Ledger) -> None:
    check(engine, ledger, KINDS, 50)


@pytest.mark.long
@pytest.mark.parametrize("before", [50, 0])
def test_all_that_people_do_after_a_crash(engine: Engine, ledger: Ledger, before: int) -> None:
    check(engine, ledger, list(DEEDS), before)


@pytest.mark.parametrize("answer", [ALL, NONE])
def test_the_user_says_what_is_true(engine: Engine, ledger: Ledger, answer: str) -> None:
    case = Case("detach", answer == ALL, engine, f"people_{os.getpid()}_{next(_numbers)}")
    case.crash(ledger)
    if not case.attached:
        # Somebody has linked the files: their times do not tell any more.
        case.run("ALTER TABLE {db}._rowfall_a FREEZE")
    case.run(*OPTIMIZE, *DETACH)
    wait_until(case.cleared, 60, "outdated parts are cleared away")
    assert not case.finish(ledger)
    assert case.finish(ledger, answer)
    assert not case.wrong()
    case.run("DROP DATABASE {db} SYNC")
