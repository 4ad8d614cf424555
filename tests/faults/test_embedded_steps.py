"""The embedded engine, hurt before and after every statement and every line of the ledger.

The long form leaves no step, side, kind of kill and kind of load out; the short one draws. After
each: the same command until it succeeds, then every row once and nothing left behind.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Survived
from faults.kills import CODES, rounds, sample

STEPPER = Path(__file__).with_name("stepper.py")
ROWS = 2000
KINDS = {
    "plain": ("--partition-by", "id % 3"),
    "--atomic": ("--partition-by", "id % 3", "--atomic"),
    "--replace": ("--replace",),
    "build": ("--build", "on"),
    "build --atomic": ("--build", "on", "--atomic"),
    "build partitions": ("--build", "on", "--partition-by", "id % 3"),
    "build keys with NULL": ("--build", "on", "--null", "\\N"),
    "--upsert": ("--upsert", "id"),
}
# Of tables that are there before; every fifth name is NULL in them.
TABLES = {
    "build keys with NULL": "(id UInt64, name Nullable(String)) ENGINE = MergeTree "
    "PARTITION BY id % 3 ORDER BY (name, id) SETTINGS allow_nullable_key = 1"
}
KILLS = ("kill -9 rowfall", "kill -9 engine child")
OTHERS = ("kill -9 both", "Ctrl-C")
_TRIES = 3
SUMS = (
    "count(), uniqExact(id), sum(id), countIf(name != concat('n', toString(id))), "
    "countIf(name IS NULL)"
)
# Tables of rowfall's own, and parts that the table has twice.
LEFT = (
    "(SELECT toString(groupArray(name)) FROM system.tables WHERE startsWith(name, '_rowfall_')), "
    "(SELECT count() - uniqExact(hash_of_all_files) FROM system.parts WHERE active AND "
    "database = currentDatabase() AND rows > 0)"
)


class Folder:
    """A data folder with rows that are replaced, two files, and the command that loads them."""

    def __init__(self, rowfall: Any, options: Sequence[str], table: str = "") -> None:
        self._rowfall = rowfall
        self._nulls = bool(table)
        self._command = ("load", "in/*.csv", "--table", "t", "--attempt-bytes", "1KB",
                         "--threads", "2", "--memory", "1GiB", *options)  # fmt: skip
        self._steps = rowfall.cwd / "steps"
        for number in range(2):
            self._write(f"in/{number}.csv", range(number * ROWS // 2, (number + 1) * ROWS // 2))
        self._starts_with = bool(table) or "--replace" in options or "--upsert" in options
        if "--upsert" in options:
            (rowfall.cwd / "old.csv").write_text("id,name\n3,old\n1500,old\n")
        else:
            self._write("old.csv", range(10**6, 10**6 + 10))
        self._data = rowfall.cwd / "rowfall-data"
        self._old = rowfall.cwd / "old-data"
        done = rowfall("load", "old.csv", "--table", "old" if table else "t")
        assert done.returncode == 0, done.stderr
        if table:
            made = rowfall("query", f"CREATE TABLE t {table}", "--write")
            assert made.returncode == 0, made.stderr
        self._data.rename(self._old)

    def _write(self, name: str, ids: range) -> None:
        path = self._rowfall.cwd / name
        path.parent.mkdir(exist_ok=True)
        names = ("\\N" if self._nulls and i % 5 == 0 else f"n{i}" for i in ids)
        path.write_text(
            "id,name\n" + "".join(f"{i},{n}\n" for i, n in zip(ids, names, strict=True))
        )

    def fresh(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        if self._starts_with:
            shutil.copytree(self._old, self._data, symlinks=True)

    def steps(self) -> list[str]:
        """The steps of a load that nobody hurts."""
        self.fresh()
        self._stepped(0, "before", "")
        self.check()
        return self._steps.read_text().splitlines()

    def hurt_at(self, number: int, side: str, kind: str) -> bool:
        """Start a fresh load, hurt it at one step, finish it, and check everything.

        Returns:
            Whether it came so far.
        """
        self.fresh()
        said = [self._stepped(number, side, kind)]
        for _ in range(_TRIES):
            done = self._rowfall(*self._command)
            said.append(f"[{done.returncode}] {done.stderr}")
            if done.returncode == 0:
                break
        else:
            raise AssertionError("\n".join(said))
        try:
            self.check()
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *said])) from None
        return bool(self._steps.with_suffix(".met").exists())

    def check(self) -> None:
        out = self._rowfall("query", f"SELECT {SUMS}, {LEFT} FROM t", "--format", "TSV")
        assert out.returncode == 0, out.stderr
        nulls = ROWS // 5 if self._nulls else 0
        expected = [ROWS, ROWS, ROWS * (ROWS - 1) // 2, 0, nulls, [], 0]
        assert out.stdout.split() == [str(x) for x in expected]

    def _stepped(self, number: int, side: str, kind: str) -> str:
        for path in (self._steps, self._steps.with_suffix(".met")):
            path.unlink(missing_ok=True)
        process = self._rowfall.start(
            *self._command,
            program=[sys.executable, str(STEPPER), str(self._steps), str(number), side, kind],
        )
        _, err = process.communicate(timeout=60)
        assert process.returncode in CODES, err
        assert "Traceback" not in err, err
        return f"[{process.returncode}] {err}"


@pytest.mark.sampled(1)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("kind", "hurt"),
    [
        *sample("embedded kills", [(k, h) for k in KINDS for h in KILLS]),
        *sample("embedded others", [(k, h) for k in KINDS for h in OTHERS]),
    ],
)
def test_hurt_at_every_step(
    rowfall: Any, chance: random.Random, survived: Survived, kind: str, hurt: str
) -> None:
    folder = Folder(rowfall, KINDS[kind], TABLES.get(kind, ""))
    steps = folder.steps()
    cases = [(step, side) for step in steps for side in ("before", "after")]
    chance.shuffle(cases)
    cases = cases[: rounds(len(cases) if hurt in KILLS else len(cases) // 4, least=2)]
    wrong = []
    for step, side in cases:
        try:
            if folder.hurt_at(int(step.split()[0]), side, hurt):
                survived(f"embedded, {kind}: {hurt}")
        except AssertionError as error:
            wrong.append(f"{hurt} {side} {step}\n{error}")
            print(wrong[-1], file=sys.stderr, flush=True)  # noqa: T201 - the others take long
    assert not wrong, f"{len(wrong)} of {len(cases)} steps:\n" + "\n---\n".join(wrong)
