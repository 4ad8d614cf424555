"""The scene finds loaders that lose or double rows: two that are wrong, and one that is right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.kills import Process, kill_rowfall
from faults.scene import Scene, Side
from lab.clickhouse import ClickHouse
from lab.rows import Rows, create_target, make_rows

# Loads files one by one, each by one INSERT. It remembers finished files in a file of its own:
# "late" after the INSERT, "early" before it, "safe" asks the server instead.
LOADER = """\
import pathlib, sys, time, urllib.parse, urllib.request
url, how, memory, folder = sys.argv[1:]
memory = pathlib.Path(memory)

def ask(sql, body=None):
    query = urllib.parse.urlencode({"query": sql, "wait_end_of_query": 1})
    with urllib.request.urlopen(f"{url}&{query}", data=body or b" ", timeout=30) as answer:
        return answer.read().decode()

def loaded(name):
    if how == "safe":
        return ask(f"SELECT count() FROM t WHERE id = {first(name)}") != "0\\n"
    return memory.exists() and name in memory.read_text().split()

def first(name):
    return (pathlib.Path(folder) / name).read_text().split("\\n")[1].split(",")[0]

def remember(name):
    with memory.open("a") as file:
        file.write(name + "\\n")

try:
    for path in sorted(pathlib.Path(folder).iterdir()):
        if loaded(path.name):
            continue
        if how == "early":
            remember(path.name)
        time.sleep(0.2)  # so that it is met while it loads, however fast the machine
        # One partition and one block each, so one INSERT is atomic.
        ask("INSERT INTO t FORMAT CSVWithNames", path.read_bytes())
        if how == "late":
            remember(path.name)
except OSError as error:
    sys.exit(f"cannot load: {error}")
"""


@pytest.fixture(scope="module")
def rows(server: ClickHouse, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("scene") / "files"
    return make_rows(server, folder, files=2, rows=1000)


@pytest.fixture
def scene(server: ClickHouse, rows: Rows, tmp_path: Path) -> Iterator[Callable[[str], Scene]]:
    made: list[Scene] = []

    def make(how: str) -> Scene:
        def start(port: int, database: str) -> Process:
            url = (
                f"http://127.0.0.1:{port}/?database={database}"
                f"&user={server.user}&password={server.password}"
            )
            memory = tmp_path / database
            command = [sys.executable, "-c", LOADER, url, how, str(memory), str(rows.folder)]
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

        def create(server: ClickHouse, database: str) -> None:
            create_target(server, database, partitioned=False)

        made.append(Scene(server, rows, start, create))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.long
def test_a_right_loader_passes_at_every_step(scene: Callable[[str], Scene]) -> None:
    right = scene("safe")
    steps = right.steps()
    assert [step.sql.split()[0] for step in steps] == ["SELECT", "INSERT"] * 2
    for step in steps:
        for side in ("before", "after"):
            assert right.hurt_at(step.number, side, kill_rowfall)
    assert not right.hurt_at(len(steps) + 1, "before", kill_rowfall)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("how", "bad", "good", "message"),
    [("late", "after", "before", "doubled '"), ("early", "before", "after", "missing '")],
)
def test_wrong_loaders_are_found(
    scene: Callable[[str], Scene], how: str, bad: Side, good: Side, message: str, number: int
) -> None:
    wrong = scene(how)
    assert wrong.hurt_at(number, good, kill_rowfall)
    with pytest.raises(AssertionError, match=message):
        wrong.hurt_at(number, bad, kill_rowfall)


def test_a_killed_server_is_started_again(
    scene: Callable[[str], Scene], server: ClickHouse
) -> None:
    right = scene("safe")
    for side in ("before", "after"):
        assert right.hurt_at(2, side, lambda _: server.kill())


def test_random_moments(scene: Callable[[str], Scene]) -> None:
    right = scene("safe")
    right.fresh()
    assert right.hurt_after(0.01, kill_rowfall)
    assert not right.hurt_after(1.5, kill_rowfall)
    right.finish()
