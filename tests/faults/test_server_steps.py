"""A real server, hurt before and after every statement of a load that changes something.

The long form leaves no statement, side, kind of kill and kind of load out; the short one draws.
After each: the same command until it succeeds, then every row once and nothing left behind.
"""

from __future__ import annotations

import random
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import pytest

from faults.conftest import Survived
from faults.kills import CHANGES, rounds, sample
from faults.places import HURTS, Make, Place
from faults.scene import Scene, Side
from lab.clickhouse import ClickHouse
from lab.faulty import Request
from lab.process import ServiceError
from lab.rows import COLUMNS, Rows, checksum, create_target
from lab.seaweed import Seaweed

SIDES: tuple[Side, Side] = ("before", "after")
# A new table in place of the old one has the types that it is given.
TYPES = tuple(w for c in re.split(r", (?=[a-z])", COLUMNS) for w in ("--type", c))
REPLACE = ("--replace", *TYPES)
# Every step of a kind of load, of one that is hurt in one way: some 50 loads of 3 to 8 seconds.
LONG = pytest.mark.timeout(1800)


def with_old_rows(server: ClickHouse, database: str) -> None:
    create_target(server, database)
    server.query(f"INSERT INTO {database}.t (id, day) SELECT number + 1e9, '2024-01-05' "
                 "FROM numbers(1000)")  # fmt: skip


def with_rows_to_replace(server: ClickHouse, database: str) -> None:
    create_target(server, database)
    server.query(f"INSERT INTO {database}.t (id, day, name) SELECT number, '2024-02-05', 'old' "
                 "FROM numbers(100)")  # fmt: skip


with_views = partial(create_target, views=True)


@pytest.fixture(scope="session")
def few_in_s3(few: Rows) -> Iterator[Seaweed]:
    with Seaweed() as service:
        few.put(service, "files")
        yield service


@pytest.fixture
def kinds(
    place: Make, few: Rows, request: pytest.FixtureRequest
) -> Mapping[str, Callable[[], Place]]:
    """Kinds of load."""

    def pulled() -> Place:
        return place(*small, "--pull", of=few, s3=request.getfixturevalue("few_in_s3"))

    small = ("--attempt-bytes", "1KB")
    return {
        "plain": partial(place, *small, of=few),
        "--atomic": partial(place, *small, "--atomic", of=few),
        "--replace": partial(place, *small, *REPLACE, of=few, create=with_old_rows),
        "--upsert": partial(place, *small, "--upsert", "id", of=few, create=with_rows_to_replace),
        "--pull": pulled,
        "views": partial(place, *small, of=few, create=with_views),
        "views --atomic": partial(place, *small, "--atomic", of=few, create=with_views),
    }


def changes(requests: Sequence[Request]) -> list[Request]:
    return [r for r in requests if r.sql.lstrip().startswith(CHANGES)]


@contextmanager
def reading(scene: Scene) -> Iterator[set[tuple[int, int]]]:
    """Counts and checksums of the table as readers see it meanwhile."""
    seen: set[tuple[int, int]] = set()
    done = threading.Event()

    def read() -> None:
        asked = ""
        while not done.wait(0.02):
            try:
                asked = scene.database
                found = checksum(scene.server, f"{asked}.t")
            except (OSError, ServiceError):
                continue  # the server is away, or the table is being made
            if asked == scene.database:
                seen.add(found)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def at_each(
    here: Place, hurt: str, cases: Sequence[tuple[Request, Side]], whole: bool
) -> tuple[int, list[str]]:
    """Hurt a load at each of these steps. Returns how often it was met, and what went wrong.

    Args:
        whole: readers may see the table as it was or all of the load, nothing between.
    """
    met, wrong = 0, []
    scene = here.scene
    for request, side in cases:
        try:
            scene.fresh()
            before = checksum(scene.server, f"{scene.database}.t")
            with reading(scene) if whole else no_reader() as seen:
                met += scene.hurt_at(request.number, side, partial(HURTS[hurt], here), fresh=False)
            assert seen <= {before, scene.rows.checksum}, f"readers saw {seen}"
        except AssertionError as error:
            wrong.append(f"{hurt} {side} {request}\n{error}")
            print(wrong[-1], file=sys.stderr, flush=True)  # noqa: T201 - the others take an hour
    return met, wrong


@contextmanager
def no_reader() -> Iterator[set[tuple[int, int]]]:
    yield set()


KINDS = ("plain", "--atomic", "--replace", "--upsert", "--pull", "views", "views --atomic")
# In the first three ways whatever was known is lost.
KILLS = ("kill -9 rowfall", "kill -9 server", "kill -9 both")
OTHERS = tuple(set(HURTS) - set(KILLS))


@pytest.mark.sampled(2)
@LONG
@pytest.mark.parametrize(
    ("kind", "hurt"),
    [
        *sample("kills", [(k, h) for k in KINDS for h in KILLS], least=2),
        *sample("others", [(k, h) for k in KINDS for h in sorted(OTHERS)], least=2),
    ],
)
def test_hurt_at_every_step(
    kinds: Mapping[str, Callable[[], Place]],
    chance: random.Random,
    survived: Survived,
    kind: str,
    hurt: str,
) -> None:
    here = kinds[kind]()
    steps = changes(here.scene.steps())
    cases = [(request, side) for request in steps for side in SIDES]
    chance.shuffle(cases)
    # A kill at every step; what rowfall outlives or answers itself at every third, drawn.
    cases = cases[: rounds(len(cases) if hurt in KILLS else len(cases) // 3)]
    met, wrong = at_each(here, hurt, cases, whole=kind in ("--atomic", "--replace", "--upsert"))
    for _ in range(met):
        survived(f"server, {kind}: {hurt}")
    assert not wrong, f"{len(wrong)} of {len(cases)} steps:\n" + "\n---\n".join(wrong)
    assert met or len(cases) < len(steps), "no load came so far"
