"""The clock of a real server jumps by minutes and hours while several rowfalls load."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from faults.conftest import Survived
from faults.kills import rounds
from faults.places import Make
from lab.clickhouse import ClickHouse
from lab.clock import Clock, NoClockError
from lab.process import let_pass
from lab.rows import Rows

# Within a lease, just out of it, hours.
JUMPS = (-86_400, -7_200, -61, -5, 0, 5, 61, 7_200, 86_400)


@pytest.fixture
def clock(server: ClickHouse) -> Iterator[Clock]:
    try:
        clock = Clock(server)
    except NoClockError as error:
        pytest.skip(str(error))
    yield clock
    clock.set(0)
    clock.close()


def now(server: ClickHouse) -> float:
    return float(server.query("SELECT toFloat64(now64(3))"))


@pytest.mark.parametrize("number", range(rounds(20)))
def test_the_clock_of_the_server_jumps(
    server: ClickHouse, clock: Clock, place: Make, few: Rows,
    chance: random.Random, survived: Survived, number: int,
) -> None:  # fmt: skip
    """Living processes look dead to each other, dead ones alive: it costs attempts, never a row."""
    clock.set(7_200)
    assert 7_190 < now(server) - time.time() < 7_260
    here = place("--attempt-bytes", "1KB", of=few)
    scene, loader = here.scene, here.loader
    scene.fresh()
    together = [loader(scene.proxy.port, scene.database, home=f"own{n}") for n in range(2)]
    let_pass(0.5, "both are in the middle of it")
    jumps = 0
    while any(each.poll() is None for each in together) and jumps < 20:
        clock.set(chance.choice(JUMPS))
        jumps += 1
        let_pass(chance.uniform(0.05, 0.5), "a random time at this hour")
    assert [scene.ended(each) for each in together] == [0, 0], "\n---\n".join(scene.said)
    scene.finish()
    assert jumps
    survived("clock of the server jumped")
