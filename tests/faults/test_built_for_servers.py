"""A server takes over parts that are built here: hurt then, and again until the load ends."""

from __future__ import annotations

import random
from functools import partial

import pytest

from faults.conftest import Survived
from faults.kills import rounds, sample
from faults.places import HURTS, Make
from faults.scene import Side
from lab.process import let_pass
from lab.rows import Rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
SIDES: tuple[Side, Side] = ("before", "after")
BUILD = ("--build", "on")


@pytest.mark.parametrize(
    ("kind", "side"), sample("handed over", [(k, s) for k in HURTS for s in SIDES], 2)
)
def test_hurt_while_parts_are_taken_over(
    place: Make, plain: Rows, chance: random.Random, survived: Survived, kind: str, side: Side
) -> None:
    here = place(*BUILD, of=plain)
    taken = [r for r in here.scene.steps() if r.sql.startswith("RESTORE TABLE rowfall.parts")]
    assert len(taken) > 1  # of the probe, and of attempts
    for request in chance.sample(taken, min(rounds(10), len(taken))):
        if here.scene.hurt_at(request.number, side, partial(HURTS[kind], here)):
            survived(f"parts taken over: {kind} {side}")


@pytest.mark.parametrize("number", range(rounds(50)))
def test_hurt_at_random_moments(
    place: Make, plain: Rows, chance: random.Random, survived: Survived, number: int
) -> None:
    here = place(*BUILD, of=plain)
    here.scene.fresh()
    for kind in chance.choices(list(HURTS), k=chance.randint(1, 3)):
        if here.scene.hurt_after(chance.uniform(0.0, 2.0), partial(HURTS[kind], here)):
            survived(f"parts for a server: {kind} at a random moment")
        if here.scene.server.pid is None:
            here.scene.server.start()
    here.scene.finish()


@pytest.mark.parametrize("number", range(rounds(25)))
def test_several_build_the_same_files_and_one_is_killed(
    place: Make, plain: Rows, chance: random.Random, survived: Survived, number: int
) -> None:
    here = place(*BUILD, of=plain)
    scene, loader = here.scene, here.loader
    scene.fresh()
    together = [loader(scene.proxy.port, scene.database, home=f"own{n}") for n in range(2)]
    let_pass(chance.uniform(0.6, 2.5), "a random moment of both loads")
    running = together[0].poll() is None
    together[0].kill()
    scene.ended(together[0])
    assert scene.ended(together[1]) == 0, scene.said  # nothing is left for it to wait for
    scene.finish()
    if running:
        survived("two build, one killed")
