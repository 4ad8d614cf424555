"""kill -9 at any moment, then the same command again: every row once, nothing left behind."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from faults.kills import CODES, KILLS, Process, children, rounds
from lab.process import let_pass, wait_until

ROWS = 750_000
SOURCE = f"generate://taxi?rows={ROWS}"
# One attempt for each of the 3 splits, so that every state of the protocol is met. With 1 GiB it
# ran out of memory four times in one load on a busy machine, which took twice the CPU.
OPTIONS = ("--attempt-bytes", "4MB", "--threads", "2", "--memory", "2GiB")
CHECKSUM = "sum(cityHash64(trip_id, pickup_datetime, tuple(total_amount)))"
LEFT = "SELECT name FROM system.tables WHERE startsWith(name, '_rowfall_')"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Count and checksum of the source, computed apart from any load."""
    from rowfall.core.model import Statement
    from rowfall.core.options import Options
    from rowfall.core.sqltext import SqlText
    from rowfall.sources import open_source
    from rowfall.systems.clickhouse.embedded import Embedded

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


def check(rowfall: Any, expected: tuple[str, str]) -> None:
    """The whole table, read by a process of its own."""
    out = rowfall("query", f"SELECT count(), {CHECKSUM} FROM taxi", "--format", "TSV")
    assert out.returncode == 0, out.stderr
    assert tuple(out.stdout.split()) == expected
    left = rowfall("query", LEFT, "--format", "TSV")
    assert left.returncode == 0, left.stderr
    assert left.stdout == ""


def hurt(process: Process, kind: str, delay: float) -> bool:
    """Do it a while after it has begun. Returns whether there was still somebody to hurt."""
    # Its engine's process is the first thing that it starts; a busy machine needs seconds for that.
    wait_until(lambda: any(children(process.pid)) or process.poll() is not None, 60, "its engine")
    let_pass(delay, "a moment of the load")
    running = process.poll() is None
    if running:
        KILLS[kind](process)
    _, err = process.communicate(timeout=60)
    assert process.returncode in CODES, err
    assert "Traceback" not in err
    return running


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(rounds(200, least=2)))
def test_a_load_hurt_at_random_moments_ends_with_every_row_once(
    rowfall: Any,
    expected: tuple[str, str],
    chance: random.Random,
    survived: Callable[[str], None],
    number: int,
) -> None:
    partition = chance.choice([(), ("--partition-by", "trip_id % 7")])
    command = ("load", SOURCE, *OPTIONS, *partition)
    kinds = [chance.choice(list(KILLS)), *chance.choices(list(KILLS), k=chance.randrange(3))]
    delays = [chance.uniform(0.0, 1.5) for _ in kinds]
    done = [k for k, d in zip(kinds, delays, strict=True) if hurt(rowfall.start(*command), k, d)]
    final = rowfall(*command)
    assert final.returncode == 0, final.stderr
    check(rowfall, expected)
    for kind in done:
        survived(f"embedded: {kind}")


@pytest.mark.long
def test_a_finished_load_loads_nothing_again(rowfall: Any, expected: tuple[str, str]) -> None:
    command = ("load", SOURCE, *OPTIONS)
    assert rowfall(*command).returncode == 0
    again = rowfall(*command, "--json")
    assert again.returncode == 0, again.stderr
    assert '"splits_loaded": 0' in again.stdout
    check(rowfall, expected)


def test_ctrl_c_stops_at_once_and_says_how_to_go_on(
    rowfall: Any, expected: tuple[str, str]
) -> None:
    big = "generate://taxi?rows=20_000_000"
    process = rowfall.start("load", big, "--threads", "2", "--memory", "1GiB")
    ledger = rowfall.cwd / "rowfall-data" / "rowfall.ledger"
    wait_until(ledger.exists, 60, "the load does not begin")
    let_pass(1.0, "Ctrl-C comes while rows are written")
    process.send_signal(signal.SIGINT)
    # 0.3 s measured, and 6.9 s once beside other tests: a flush waits for what all have written.
    # The load itself would take longer than this.
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "same command again" in err


def test_ctrl_c_inside_an_exec_keeps_the_exit_code() -> None:
    """Every dataclass that is imported is made by one."""
    program = (
        "import os, signal\nfrom rowfall import cli\nfrom rowfall.cli import app\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def run(arguments, began):\n"
        "    try:\n"
        "        exec('os.kill(os.getpid(), 2); list(range(100))')\n"
        "    except KeyboardInterrupt:\n"
        "        return 130\n"
        "app.run = run\n"
        "cli.main([])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == 130


def test_the_ledger_survives_a_kill_between_any_two_writes(rowfall: Any) -> None:
    """kill -9 while attempts are recorded: the file is never damaged."""
    ledger = rowfall.cwd / "rowfall-data" / "rowfall.ledger"
    for delay in (0.2, 1.3):
        process = rowfall.start("load", SOURCE, *OPTIONS)
        wait_until(ledger.exists, 60, "the load does not begin")
        let_pass(delay, "a moment of the load")
        process.kill()
        process.communicate(timeout=60)
    with sqlite3.connect(ledger) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
