"""A real server: hurt at every step of the protocol, then the same command until it succeeds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from faults.conftest import Survived
from faults.kills import (
    ROUNDS,
    Process,
    kill_rowfall,
    press_ctrl_c,
    press_ctrl_c_twice,
)
from faults.places import Loader
from faults.scene import Scene, Side
from lab.clickhouse import ClickHouse
from lab.faulty import Request
from lab.rows import Rows, create_target, make_rows

# What changes something on the server; between two others nothing new can go wrong.
CHANGES = ("INSERT", "ALTER", "CREATE", "DROP", "EXCHANGE", "RENAME")
SIDES: tuple[Side, Side] = ("before", "after")


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouse]:
    """One that may be killed."""
    with ClickHouse() as server:
        yield server


@pytest.fixture(scope="module")
def rows(server: ClickHouse, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("server") / "files"
    return make_rows(server, folder, files=6, rows=60_000)


class Place:
    """A scene and what loads in it."""

    def __init__(self, server: ClickHouse, rows: Rows, home: Path, *options: str) -> None:
        self.loader = Loader(server, home, [f"{rows.folder}/*"], *options)
        views = "views" in home.name
        self.scene = Scene(server, rows, self.loader, partial(create_target, views=views))

    def close(self) -> None:
        self.scene.close()
        self.loader.close()


Make = Callable[..., Place]


@pytest.fixture
def place(server: ClickHouse, rows: Rows, tmp_path: Path) -> Iterator[Make]:
    """``place("--atomic")``: a scene whose loads have these options."""
    made: list[Place] = []

    def make(*options: str, views: bool = False) -> Place:
        home = tmp_path / f"home{len(made)}{'-views' if views else ''}"
        home.mkdir()
        made.append(Place(server, rows, home, *options))
        return made[-1]

    yield make
    for each in made:
        each.close()


# --- ways to hurt ---------------------------------------------------------------------------------


def restart_server(place: Place, process: Process) -> None:
    """Back while rowfall still waits for it."""
    place.scene.server.kill()
    place.scene.server.start()


def kill_server_and_rowfall(place: Place, process: Process) -> None:
    process.kill()
    place.scene.server.kill()


def cut_network(place: Place, process: Process) -> None:
    """For a second: what is open is reset, what is new is refused."""
    cable = place.loader.network(place.scene.proxy.port)
    cable.refuse()
    cable.cut()
    time.sleep(1)
    cable.accept()


def reset_once(place: Place, process: Process) -> None:
    """Nothing but the reset of the request that a scene always does."""


def fill_disk(place: Place, process: Process) -> None:
    place.scene.server.refuse_space()
    place.scene.mends.append(place.scene.server.allow_space)


def only(hurt: Callable[[Process], object]) -> Callable[[Place, Process], object]:
    return lambda place, process: hurt(process)


HURTS: Mapping[str, Callable[[Place, Process], object]] = {
    "kill -9 rowfall": only(kill_rowfall),
    "kill -9 server": restart_server,
    "kill -9 both": kill_server_and_rowfall,
    "connection reset": reset_once,
    "network cut": cut_network,
    "disk full": fill_disk,
    "Ctrl-C": only(press_ctrl_c),
    "Ctrl-C twice": only(press_ctrl_c_twice),
}


def changes(requests: list[Request]) -> list[Request]:
    return [r for r in requests if r.sql.lstrip().startswith(CHANGES)]


def step(steps: list[Request], chance: random.Random) -> tuple[Request, Side]:
    """One of the steps that change something, three times out of four."""
    some = changes(steps) if chance.random() < 0.75 else steps
    return chance.choice(some), chance.choice(SIDES)


# --- at every step --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("kind", HURTS)
def test_hurt_at_a_step(
    place: Make, chance: random.Random, survived: Survived, kind: str, number: int
) -> None:
    here = place()
    request, side = step(here.scene.steps(), chance)
    print(kind, side, request)  # noqa: T201 - shown by pytest when the test fails
    if here.scene.hurt_at(request.number, side, partial(HURTS[kind], here)):
        survived(f"server: {kind} at a step")
