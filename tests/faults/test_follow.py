"""Followed folders whose rowfall is killed at any moment: every version is there once."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from e2e.following import put
from e2e.tools import Shell
from gate import ALL
from lab.clickhouse import ClickHouse
from lab.process import let_pass, wait_until


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


@pytest.mark.long
@pytest.mark.parametrize("kind", ["clickhouse", "postgresql", "mariadb", "duckdb", "folder"])
def test_overwritten_files_are_errors_through_kills(
    shell: Shell, request: pytest.FixtureRequest, kind: str
) -> None:
    """Of each name one version is there, and of every other one it is said."""
    draw = random.Random(kind)
    (shell.folder / "in").mkdir()
    name, to = f"errors{os.getpid()}", "./d.duckdb" if kind == "duckdb" else "./d"
    if kind not in ("duckdb", "folder"):
        to = _place(shell, request.getfixturevalue(kind), kind, name)
    kept = re.search(r":([^:@/]+)@", to)
    shell.env["P_PASSWORD"] = unquote(kept[1]) if kept else ""
    uri = re.sub(r":[^:@/]+@", "@", to)
    password = 'password = "env:P_PASSWORD"\n' if kept else ""
    shell.write("rowfall.toml", (
        f'[connections.place]\nuri = "{uri}"\n{password}\n'
        '[pipelines.p]\nsource = "in/*.csv"\ntable = "t"\nto = "place"\nschema = "a Int64"\n'
        'header = "yes"\nat_rest = "0s"\nbatch_seconds = "0"\non_change = "error"\n'
    ))  # fmt: skip
    versions: dict[str, list[int]] = {}
    number = 0

    def write() -> None:
        nonlocal number
        file = f"{draw.randrange(12):02}.csv"
        number += 1
        put(shell.folder / "in" / file, *[number] * (1 + number % 7))
        versions.setdefault(file, []).append(number)

    for _ in range(6):
        running = shell.cli.start("watch", "p", env=shell.env)
        until = time.monotonic() + draw.uniform(1.0, 6.0)
        while time.monotonic() < until:
            write()
            let_pass(draw.uniform(0, 0.3), "files come when they come")
        running.send_signal(signal.SIGKILL)
        running.wait()
    running = shell.cli.start("watch", "p", env=shell.env)

    def status() -> dict[str, Any]:
        let_pass(0.5, "while a file of DuckDB is asked, the watcher cannot write to it")
        return shell.ok("pipeline", "status", "p", "--json").document

    def settled() -> bool:
        found = status()
        return found["state"] == "following" and not found["lag_objects"] + found["waiting"]

    # A status of the process that was killed says the same: this file only the new one has seen.
    (shell.folder / "in" / "bad.csv").write_text("a\nx\n")

    def failed_files() -> set[str]:
        return {Path(one["file"]).name for one in status()["failed_files"]}

    wait_until(lambda: "bad.csv" in failed_files(), 60, "the new watcher has looked")
    wait_until(settled, 60, "everything is decided")
    failed = failed_files()
    running.send_signal(signal.SIGTERM)
    running.wait(20)
    found = [int(row[0]) for row in shell.rows("SELECT a FROM t", "--to", to)]
    there = sorted(set(found))
    assert all(found.count(n) == 1 + n % 7 for n in there), "rows twice, or half of a file"
    for file, numbers in versions.items():
        loaded = [n for n in there if n in numbers]
        assert len(loaded) == 1, (file, numbers, loaded)
        assert (file in failed) == (loaded != numbers[-1:]), (file, numbers, loaded, failed)


def _place(shell: Shell, server: Any, kind: str, name: str) -> str:
    """Make a database for a test; return its address."""
    if kind == "clickhouse":
        server.query(f"CREATE DATABASE {name}")
        return str(server.uri(name))
    if kind == "postgresql":
        server.run(f"CREATE SCHEMA {name}")
        shell.env["PGPASSWORD"] = server.password
        return f"{server.uri}?schema={name}"
    server.query(f"CREATE DATABASE {name}")
    return str(server.uri(name, scheme="mariadb"))
