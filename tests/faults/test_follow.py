"""Followed folders whose rowfall is killed at any moment: every version is there once."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from e2e.following import put
from e2e.tools import Shell
from gate import ALL
from lab.clickhouse import ClickHouse
from lab.process import wait_until


@pytest.fixture
def shell(rowfall: object) -> Shell:
    return Shell(rowfall)


KILLS = 20 if ALL else 2


def files(folder: Path, numbers: range, draw: random.Random) -> None:
    """Write files under random names; some overwrite one that is there."""
    names = [path.name for path in folder.glob("*.csv")]
    for number in numbers:
        name = f"{draw.randrange(1 << 40):010x}.csv"
        put(folder / name, number)
        names.append(name)


@pytest.mark.parametrize("seed", [7] if not ALL else range(3))
def test_rowfall_is_killed_while_it_follows(
    shell: Shell, clickhouse: ClickHouse, seed: int
) -> None:
    draw = random.Random(seed)
    folder = shell.folder / "in"
    folder.mkdir()
    database = f"follow{os.getpid()}_{seed}"
    clickhouse.query(f"CREATE DATABASE {database}")
    command = (
        "load", str(folder), "--to", clickhouse.uri(database), "--table", "t", "--follow",
        "--header", "yes", "--batch-seconds", "0", "--at-rest", "0",
    )  # fmt: skip
    done = 0

    def rows() -> list[int]:
        text = clickhouse.query(f"EXISTS {database}.t")
        if text != "1\n":
            return []
        return [int(v) for v in clickhouse.query(f"SELECT a FROM {database}.t").split()]

    for _ in range(KILLS):
        running = shell.cli.start(*command)
        # Killed at a moment that the seed chooses, from its start until some batches are loaded.
        aim = len(rows()) + draw.randrange(0, 60)
        until = time.monotonic() + 20
        while len(rows()) < aim and time.monotonic() < until:
            files(folder, range(done, done + 5), draw)
            done += 5
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert len(set(rows())) == len(rows())
    running = shell.cli.start(*command)
    wait_until(lambda: len(rows()) >= done, 60, "all files")
    asked = time.monotonic()
    running.send_signal(signal.SIGTERM)
    running.wait(10)
    assert time.monotonic() - asked < 10
    assert sorted(rows()) == list(range(done))
    clickhouse.query(f"DROP DATABASE {database} SYNC")


@pytest.mark.long
def test_a_folder_is_followed_into_a_data_folder_and_killed(shell: Shell) -> None:
    draw = random.Random(1)
    folder = shell.folder / "in"
    folder.mkdir()
    command = (
        "load", str(folder), "--to", "d", "--table", "t", "--follow", "--header", "yes",
        "--batch-seconds", "0", "--at-rest", "0",
    )  # fmt: skip
    for number in range(5):
        running = shell.cli.start(*command)
        until = time.monotonic() + draw.uniform(1.0, 4.0)
        while time.monotonic() < until:
            files(folder, range(number * 1000, number * 1000 + 3), draw)
            number += 5
        running.send_signal(signal.SIGKILL)
        running.wait()
    written = [int(line) for path in folder.glob("*.csv") for line in path.read_text().split()[1:]]
    shell.ok("load", str(folder), "--to", "d", "--table", "t", "--header", "yes")
    found = [row[0] for row in shell.rows("SELECT a FROM t", "--to", "d")]
    assert sorted(found) == sorted(written)
