"""--replace into PostgreSQL, killed at each step: the old rows or the new ones, nothing left."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Cli
from faults.kills import CODES, sample
from lab.postgresql import PostgresqlServer

pytestmark = [pytest.mark.xdist_group("postgresql"), pytest.mark.long]

STEPPER = Path(__file__).with_name("stepper.py")
OLD, NEW = [(10, "old", "old")], [(300, "new", "new")]
_TRIES = 3


class Replaced:
    """A table with old rows, three files with new ones, and the command that replaces it."""

    def __init__(self, rowfall: Cli, server: PostgresqlServer) -> None:
        self.rowfall, self.server, self.schema = rowfall, server, f"r{secrets.token_hex(4)}"
        for number in range(3):
            rows = "".join(f"{number * 100 + i},new\n" for i in range(100))
            (rowfall.cwd / f"{number}.csv").write_text(f"id,v\n{rows}")
        self.command = (
            "load", "*.csv", "--to", f"{server.uri}?schema={self.schema}", "--table", "t",
            "--replace", "--attempt-bytes", "500", "--threads", "2", "--memory", "1GiB",
        )  # fmt: skip

    def fresh(self) -> None:
        self.server.run(
            f"DROP SCHEMA IF EXISTS {self.schema} CASCADE", f"CREATE SCHEMA {self.schema}",
            f"CREATE TABLE {self.schema}.t (id bigint PRIMARY KEY, v text)",
            f"INSERT INTO {self.schema}.t SELECT i, 'old' FROM generate_series(1, 10) i",
        )  # fmt: skip

    def rows(self) -> list[tuple[object, ...]]:
        return self.server.ask(f"SELECT count(*), min(v), max(v) FROM {self.schema}.t")

    def tables(self) -> list[tuple[object, ...]]:
        return self.server.ask(
            f"SELECT tablename FROM pg_tables WHERE schemaname = '{self.schema}' ORDER BY 1"
        )

    def stepped(self, number: int, side: str, kind: str) -> list[str]:
        """Run the command, hurt at a step; return the steps that it has come to."""
        steps = self.rowfall.cwd / "steps"
        steps.unlink(missing_ok=True)
        process = self.rowfall.start(
            *self.command,
            program=[sys.executable, str(STEPPER), str(steps), str(number), side, kind],
        )
        out, err = process.communicate(timeout=100)
        assert process.returncode in CODES, f"{out}\n{err}"
        assert "Traceback" not in err
        return steps.read_text().splitlines()


@pytest.fixture
def replaced(
    rowfall: Cli, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Replaced]:
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    found = Replaced(rowfall, postgresql)
    yield found
    postgresql.run(f"DROP SCHEMA {found.schema} CASCADE")


@pytest.mark.parametrize("kind", ["kill -9 rowfall", "Ctrl-C"])
def test_a_kill_at_each_step(replaced: Replaced, kind: str) -> None:
    replaced.fresh()
    steps = replaced.stepped(0, "before", "")
    assert replaced.rows() == NEW
    assert any("take_place" in step for step in steps)
    places = [(n, side) for n in range(1, len(steps) + 1) for side in ("before", "after")]
    last = next(int(s.split()[0]) for s in steps if "publish_gathered" in s)
    around = [(n, side) for n in (last, last + 1, last + 2) for side in ("before", "after")]
    for number, side in [*sample(f"replace {kind}", places, least=4), *around]:
        replaced.fresh()
        replaced.stepped(number, side, kind)
        assert replaced.rows() in (OLD, NEW)
        said = []
        for _ in range(_TRIES):
            done = replaced.rowfall(*replaced.command)
            said.append(f"[{done.returncode}] {done.stderr}")
            if done.returncode == 0:
                break
        assert replaced.rows() == NEW, said
        assert replaced.tables() == [("_rowfall_loaded",), ("t",)], (number, side, said)
