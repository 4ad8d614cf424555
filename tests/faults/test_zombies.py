"""Loads with ``--atomic`` that are taken for dead (zombies), while others load the same files.

One is held at a request for longer than its lease, as far as the others can tell: for them any
silence is too long here. Another machine loads the files meanwhile. Then the first one goes on.
Whether it does or not, the next load leaves nothing behind of either.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Cli
from lab.clickhouse import ClickHouse
from lab.faulty import Fault, Faulty, Request
from lab.process import wait_until
from lab.rows import leftovers
from rowfall.ledger import journal

ROWS = 1000
_numbers = itertools.count()
# Requests of the first load: its first attempt is staged, committed, attached to the shadow; then
# everything is committed, attached to the table and recorded, and the shadow is dropped.
HELD = ["made", "staged", "committed", "gathered", "all committed", "all attached", "recorded",
        "dropped"]  # fmt: skip
GATE = ("gathered", "all attached")


class Held:
    """Holds the first request of a kind until it may go on."""

    def __init__(self, words: str, which: int) -> None:
        self._words, self._which = words, which
        self._seen = itertools.count(1)
        self.met, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Fault | None:
        if self._words not in request.sql or next(self._seen) != self._which:
            return None
        return Fault(before=self._hold)

    def _hold(self) -> None:
        self.met.set()
        self.goes_on.wait(60)


@pytest.fixture
def database(clickhouse: ClickHouse, rowfall: Cli) -> Iterator[str]:
    name = f"zombies_{os.getpid()}_{next(_numbers)}"
    clickhouse.query(f"CREATE DATABASE {name}")
    clickhouse.query(f"CREATE TABLE {name}.t (k UInt64, name String) ENGINE = MergeTree ORDER BY k")
    for number in range(2):
        first = number * ROWS // 2
        lines = "".join(f"{i},n{i}\n" for i in range(first, first + ROWS // 2))
        (rowfall.cwd / f"rows{number}.csv").write_text("k,name\n" + lines)
    yield name
    clickhouse.query(f"DROP DATABASE {name} SYNC")


def held_at(step: str, database: str) -> Held:
    attach = f"ALTER TABLE `{database}`.`t` ATTACH"
    return {
        "made": Held("_whole` AS", 1),
        "staged": Held(f" AS `{database}`.`t`", 2),
        "committed": Held("SELECT 'commit', ", 1),
        "gathered": Held("_whole` ATTACH", 2),
        "all committed": Held("SELECT 'commit', ", 3),
        "all attached": Held(attach, 1),
        "recorded": Held("SELECT 'landed', ", 3),
        "dropped": Held("_whole` SYNC", 1),
    }[step]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [
    pytest.param(("--atomic",), id="atomic"),
    pytest.param((), id="plain", marks=pytest.mark.long),
])  # fmt: skip
@pytest.mark.parametrize("step", [
    pytest.param(step, marks=[] if step in GATE else [pytest.mark.long]) for step in HELD
])  # fmt: skip
def test_nothing_is_left_of_a_zombie(
    rowfall: Cli, clickhouse: ClickHouse, database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, step: str, options: tuple[str, ...],
) -> None:  # fmt: skip
    held = held_at(step, database)
    other = {"XDG_STATE_HOME": str(tmp_path / "other")}
    load = ("load", "rows*.csv", "--table", "t", "--attempt-bytes", "1KB")

    def next_load() -> None:
        done = rowfall.inside(*load, *options, "--to", clickhouse.uri(database), env=other)
        assert done.returncode == 0, done.stderr
        found = clickhouse.query(f"SELECT count(), uniqExact(k) FROM {database}.t").strip()
        assert found == f"{ROWS}\t{ROWS}"

    with Faulty(clickhouse.http_port, held) as proxy:
        to = clickhouse.uri(database, port=proxy.port)
        zombie = rowfall.start(*load, "--atomic", "--to", to)
        try:
            wait_until(lambda: held.met.is_set() or zombie.poll() is not None, 60, "that step")
            assert held.met.is_set(), zombie.communicate()[1]
            monkeypatch.setattr(journal, "LEASE_SECONDS", 0)
            # It may be dead for ever.
            next_load()
            assert leftovers(clickhouse, database) == []
        finally:
            held.goes_on.set()
        _, said = zombie.communicate(timeout=60)
        assert zombie.returncode in (0, 3, 5), said
        assert "Traceback" not in said
        # It may have made something before it found that it is late.
        next_load()
        assert leftovers(clickhouse, database) == []


@pytest.mark.parametrize("folder", [True, pytest.param(False, marks=pytest.mark.long)])
def test_what_others_are_loaded_is_not_shown_again(
    rowfall: Cli, clickhouse: ClickHouse, database: str, folder: bool
) -> None:
    """One file of two was gathered, and another load has brought it into the table since."""
    to = str(rowfall.cwd / "folder") if folder else clickhouse.uri(database)
    (rowfall.cwd / "seed.csv").write_text("k,name\n1000000,a\n")
    bad = rowfall.cwd / "rows1.csv"
    good = bad.read_text()
    load = ("load", "rows*.csv", "--table", "t", "--attempt-bytes", "1KB", "--atomic")
    assert rowfall.inside("load", "seed.csv", "--table", "t", "--to", to).returncode == 0
    bad.write_text("k,name\nx,y\n")
    assert rowfall.inside(*load, "--to", to).returncode == 1
    one = rowfall.inside("load", "rows0.csv", "--table", "t", "--to", to)
    assert one.returncode == 0, one.stderr
    bad.write_text(good)
    done = rowfall.inside(*load, "--to", to)
    assert done.returncode == 0, done.stderr
    select = "SELECT count(), uniqExact(k) FROM t"
    found = rowfall.inside("query", select, "--to", to, "--format", "TSV")
    assert found.stdout == f"{ROWS + 1}\t{ROWS + 1}\n", found.stderr
    assert leftovers(clickhouse, database) == []
