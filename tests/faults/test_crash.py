"""kill -9 at any moment, then the same command again: every row once, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROWS = 2_000_000
SOURCE = f"generate://taxi?rows={ROWS}"
# One attempt for each of the 8 splits, so that every state of the protocol is met.
OPTIONS = ("--attempt-bytes", "4MB", "--threads", "2", "--memory", "1GiB")
ROUNDS = int(os.environ.get("ROWFALL_FAULT_ROUNDS", "3"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Count and checksum of the source, computed apart from any load."""
    from rowfall.engines.embedded import Embedded
    from rowfall.model import Statement
    from rowfall.options import Options
    from rowfall.sources import open_source
    from rowfall.sqltext import SqlText

    source = open_source([SOURCE], Options())
    engine = Embedded(None)
    try:
        relation = source.relation(list(source.listing().splits("")), None, "")
        data = engine.run(
            Statement(
                SqlText.of(f"SELECT count(), {CHECKSUM} FROM ", relation), format="TabSeparatedRaw"
            )
        ).data
    finally:
        engine.close()
    rows, checksum = data.decode().split()
    assert rows == str(ROWS)
    return rows, checksum


CHECKSUM = "sum(cityHash64(trip_id, pickup_datetime, tuple(total_amount)))"


def children(pid: int) -> Iterator[int]:
    """Child processes of ``pid``: rowfall's engine."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (task / "children").read_text().split())


def kill_rowfall(process: subprocess.Popen[str]) -> None:
    process.kill()


def kill_engine(process: subprocess.Popen[str]) -> None:
    for child in children(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def kill_both(process: subprocess.Popen[str]) -> None:
    kill_engine(process)
    process.kill()


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


def press_ctrl_c_twice(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)


FAULTS = (kill_rowfall, kill_engine, kill_both, press_ctrl_c, press_ctrl_c_twice)


def check(rowfall: Any, expected: tuple[str, str]) -> None:
    """The whole table, read by a process of its own."""
    out = rowfall("query", f"SELECT count(), {CHECKSUM} FROM taxi", "--format", "TSV")
    assert out.returncode == 0, out.stderr
    assert tuple(out.stdout.split()) == expected
    left = rowfall("query", "SELECT name FROM system.tables WHERE name LIKE '%rowfall%'",
                   "--format", "TSV")  # fmt: skip
    assert left.stdout.split() == ["taxi"] or left.stdout == "", left.stdout


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "partition", [(), ("--partition-by", "trip_id % 7")], ids=["plain", "partitioned"]
)
def test_a_load_killed_at_random_moments_ends_with_every_row_once(
    rowfall: Any,
    expected: tuple[str, str],
    fault: Callable[[subprocess.Popen[str]], None],
    partition: tuple[str, ...],
) -> None:
    command = ("load", SOURCE, *OPTIONS, *partition)
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201 - shown by pytest when the test fails
    chance = random.Random(seed)
    survived = 0
    for _ in range(ROUNDS):
        process = rowfall.start(*command)
        time.sleep(chance.uniform(0.3, 2.5))
        if process.poll() is None:
            fault(process)
            survived += 1
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, 1, 6, 130, -9), err
    final = rowfall(*command)
    assert final.returncode == 0, final.stderr
    assert survived
    check(rowfall, expected)


def test_a_finished_load_loads_nothing_again(rowfall: Any, expected: tuple[str, str]) -> None:
    command = ("load", SOURCE, *OPTIONS)
    assert rowfall(*command).returncode == 0
    again = rowfall(*command, "--json")
    assert again.returncode == 0, again.stderr
    assert '"splits_landed": 0' in again.stdout
    check(rowfall, expected)


def test_ctrl_c_stops_within_two_seconds_and_says_how_to_go_on(
    rowfall: Any, expected: tuple[str, str]
) -> None:
    big = "generate://taxi?rows=20_000_000"
    process = rowfall.start("load", big, "--threads", "2", "--memory", "1GiB")
    time.sleep(2.0)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert time.monotonic() - begin < 2.0
    assert process.returncode == 130, err
    assert "same command again" in err


def test_the_ledger_survives_a_kill_between_any_two_writes(rowfall: Any) -> None:
    """kill -9 while attempts are recorded: the file is never damaged."""
    for delay in (0.5, 0.9, 1.3, 1.9):
        process = rowfall.start("load", SOURCE, *OPTIONS)
        time.sleep(delay)
        process.kill()
        process.communicate(timeout=60)
    ledger = rowfall.cwd / "rowfall-data" / "rowfall.ledger"
    with sqlite3.connect(ledger) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
