"""A table that is followed by a column, into several targets, with a kill at each step.

Between the runs rows come behind the last value, at it and below it. After each kill the same
command is run until it succeeds: then the target has the rows of the source, each once.
"""

from __future__ import annotations

import json
import random
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import Cli
from faults.kills import CODES, sample
from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer

pytestmark = [pytest.mark.xdist_group("postgresql"), pytest.mark.long]

STEPPER = Path(__file__).with_name("stepper.py")
TARGETS = ("folder", "folder --upsert", "folder --replace", "server", "postgresql")
_TRIES = 3


class Followed:
    """A table of PostgreSQL, a target, and the command that follows the table."""

    def __init__(self, rowfall: Cli, server: PostgresqlServer, target: str, to: str) -> None:
        self.rowfall, self.server, self.target = rowfall, server, target
        self.schema = f"c{secrets.token_hex(4)}"
        server.run(
            f"CREATE SCHEMA {self.schema}", f"CREATE SCHEMA {self.schema}_to",
            f"CREATE TABLE {self.schema}.t (id int PRIMARY KEY, at timestamp(6) NOT NULL)",
        )  # fmt: skip
        self.table = f"{self.schema}_to.t" if target == "postgresql" else f"t_{self.schema}"
        self.to = ["--to", to] if to else []
        self.command = (
            "load", f"{server.uri}/t?schema={self.schema}", "--cursor", "at", "--table", self.table,
            "--threads", "2", "--memory", "1GiB", *self.to,
            *(("--upsert", "id") if "--upsert" in target else ()),
            *(("--replace",) if "--replace" in target else ()),
        )  # fmt: skip
        self.rows, self.seconds = 0, 0

    def add(self, seconds: Sequence[float]) -> None:
        """Add a row for each time, from the last one on."""
        values = ", ".join(
            f"({self.rows + n}, timestamp '2024-01-01' + interval '{self.seconds + s} s')"
            for n, s in enumerate(seconds, 1)
        )
        self.server.run(f"INSERT INTO {self.schema}.t VALUES {values}")
        self.rows += len(seconds)
        self.seconds += max(0, int(max(seconds)))

    def stepped(self, number: int, side: str, kind: str) -> list[str]:
        """Run the command and hurt it at a step; return the steps that it has come to."""
        steps = self.rowfall.cwd / "steps"
        steps.unlink(missing_ok=True)
        program, self.rowfall.program = self.rowfall.program, (
            sys.executable, str(STEPPER), str(steps), str(number), side, kind,
        )  # fmt: skip
        try:
            done = self.rowfall(*self.command)
        finally:
            self.rowfall.program = program
        assert done.returncode in CODES, done.stderr
        assert "Traceback" not in done.stderr
        return steps.read_text().splitlines() if steps.exists() else []

    def finish(self) -> None:
        said = []
        for _ in range(_TRIES):
            done = self.rowfall(*self.command)
            said.append(f"[{done.returncode}] {done.stderr}")
            # What a stopped run has gathered is made visible alone, before newer rows.
            if done.returncode == 0 and "a stopped run has gathered" not in done.stderr:
                break
        wanted = self.server.ask(f"SELECT id, at::text FROM {self.schema}.t ORDER BY id")
        found = self.rowfall(
            "query", f"SELECT id, CAST(at AS {self._text}) AS at FROM {self.table} ORDER BY id",
            *self.to, "--format", "JSONCompactEachRow",
        )  # fmt: skip
        there = [json.loads(line) for line in found.stdout.splitlines()]
        assert [(int(i), _plain(at)) for i, at in there] == [(i, _plain(a)) for i, a in wanted], (
            said
        )

    @property
    def _text(self) -> str:
        return "text" if self.target == "postgresql" else "String"


def _plain(moment: str) -> str:
    """Return a time with the digits of a second that it has, without a zone."""
    moment = moment.removesuffix("+00")
    return moment.rstrip("0").rstrip(".") if "." in moment else moment


@pytest.fixture
def followed(
    request: pytest.FixtureRequest, rowfall: Cli, postgresql: PostgresqlServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Followed]:  # fmt: skip
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    target, to = request.param, ""
    if target == "server":
        server: ClickHouse = request.getfixturevalue("clickhouse")
        to = server.uri("default")
    elif target == "postgresql":
        to = postgresql.uri
    found = Followed(rowfall, postgresql, target, to)
    yield found
    postgresql.run(f"DROP SCHEMA {found.schema} CASCADE", f"DROP SCHEMA {found.schema}_to CASCADE")


@pytest.mark.parametrize("followed", TARGETS, indirect=True)
def test_a_kill_at_each_step(followed: Followed) -> None:
    draw = random.Random(f"cursor {followed.target}")

    def some() -> list[float]:
        late = [-draw.random() * 60 for _ in range(draw.randint(0, 2))]
        return [*late, *([0] if draw.random() < 0.3 else []), *draw.sample(range(1, 9), 3)]

    followed.add([n / 10 for n in range(1, 100)])
    followed.finish()
    followed.add(some())
    steps = len(followed.stepped(0, "before", ""))
    assert steps > 2
    cases: list[tuple[int, str, Any]] = [
        (number, side, kind)
        for number in range(1, steps + 1)
        for side in ("before", "after")
        for kind in ("kill -9 rowfall", "Ctrl-C")
    ]
    for number, side, kind in sample(f"cursor {followed.target}", cases, least=6):
        followed.add(some())
        followed.stepped(number, side, kind)
        followed.add(some() if draw.random() < 0.7 else [-1.5, 0])
        followed.finish()
