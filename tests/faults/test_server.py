"""A real server and a real S3 service: hurt at random moments, then the same command until it
succeeds. The steps of the protocol one by one are in ``test_server_steps``."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from faults.conftest import Survived
from faults.kills import Process, rounds, sample
from faults.places import HURTS, Loader, Make, Place
from faults.scene import Scene, Side
from lab.clickhouse import ClickHouse
from lab.disk import MountError
from lab.faulty import Fault, Faulty, Request, first, internal_error, slow_down
from lab.process import let_pass, wait_until
from lab.rows import Rows, check_exact
from lab.seaweed import Seaweed

SIDES: tuple[Side, Side] = ("before", "after")


# Of ten loads, some of which wait for the service.
LONG = pytest.mark.timeout(600)


def step(steps: list[Request], chance: random.Random) -> tuple[Request, Side]:
    return chance.choice(steps), chance.choice(SIDES)


@pytest.mark.parametrize("number", range(rounds(100)))
def test_hurt_at_random_moments(
    place: Make, chance: random.Random, survived: Survived, number: int
) -> None:
    """Again and again, before the load is allowed to end."""
    here = place()
    here.scene.fresh()
    for kind in chance.choices(list(HURTS), k=chance.randint(1, 3)):
        hurt = partial(HURTS[kind], here)
        if here.scene.hurt_after(chance.uniform(0.0, 1.6), hurt):
            survived(f"server: {kind} at a random moment")
        if here.scene.server.pid is None:
            here.scene.server.start()
    here.scene.finish()


# --- compressed blocks ----------------------------------------------------------------------------


# Who makes the blocks, and how a request says that they are compressed.
PACKED: Mapping[str, Callable[[Request], bool]] = {
    "decoder": lambda request: "decompress" in request.query,
    "engine": lambda request: request.headers.get("content-encoding") == "lz4",
}


@pytest.mark.long
@LONG
@pytest.mark.parametrize("maker", ["decoder", pytest.param("engine", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("kind", "side"), sample("compressed", [(k, s) for k in HURTS for s in SIDES])
)
def test_hurt_while_compressed_blocks_are_sent(
    place: Make, rows: Rows, plain: Rows, chance: random.Random, survived: Survived,
    kind: str, side: Side, maker: str,
) -> None:  # fmt: skip
    here = place("--compress", "lz4", of=plain if maker == "decoder" else rows)
    sends = [request for request in here.scene.steps() if PACKED[maker](request)]
    assert sends
    for request in chance.sample(sends, min(rounds(10), len(sends))):
        if here.scene.hurt_at(request.number, side, partial(HURTS[kind], here)):
            survived(f"compressed blocks of the {maker}: {kind} {side}")


@pytest.mark.sampled(1)
@LONG
@pytest.mark.parametrize(
    ("kind", "maker"),
    [
        ("kill -9 rowfall", "decoder"),
        ("connection reset", "engine"),
        pytest.param("kill -9 rowfall", "engine", marks=pytest.mark.long),
        pytest.param("connection reset", "decoder", marks=pytest.mark.long),
    ],
)
def test_hurt_in_the_middle_of_compressed_blocks(
    place: Make, rows: Rows, plain: Rows, chance: random.Random, survived: Survived,
    kind: str, maker: str,
) -> None:  # fmt: skip
    """The server has got a part of a frame, which is no block to it."""
    here = place("--compress", "lz4", of=plain if maker == "decoder" else rows)
    here.scene.steps()
    cable = here.loader.network(here.scene.proxy.port)
    sent = cable.passed["up"]
    for _ in range(rounds(20)):
        here.scene.fresh()
        cable.drop_after(up=chance.randint(sent // 4, sent - 1))
        process = here.loader(here.scene.proxy.port, here.scene.database)
        wait_until(lambda p=process: cable.dropped.is_set() or p.poll() is not None, 90, "a cut")
        if kind != "connection reset":
            HURTS[kind](here, process)
        here.scene.ended(process)
        here.scene.finish()
        survived(f"compressed blocks of the {maker}: {kind} in the middle")


# --- several at once ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(rounds(25)))
def test_several_load_the_same_files_and_one_is_killed(
    place: Make, chance: random.Random, survived: Survived, number: int
) -> None:
    here = place(*chance.choice([(), ("--streams", "1")]))
    scene, loader = here.scene, here.loader
    scene.fresh()
    # With a ledger of their own they know each other from the journal only.
    homes = [chance.choice(["", f"other{n}"]) for n in range(chance.choice([2, 3]))]
    together = [loader(scene.proxy.port, scene.database, home=home) for home in homes]
    let_pass(chance.uniform(0.6, 2.5), "a random moment of both loads")
    killed = together[0]
    running = killed.poll() is None
    killed.kill()
    scene.ended(killed)
    for other in together[1:]:
        assert scene.ended(other) == 0, scene.said  # nothing is left for them to wait for
    scene.finish()
    if running:
        survived(f"{len(homes)} at once, one killed")


@pytest.mark.long
def test_several_load_the_same_files(place: Make) -> None:
    here = place()
    scene = here.scene
    scene.fresh()
    together = [here.loader(scene.proxy.port, scene.database, home=f"own{n}") for n in range(3)]
    assert [scene.ended(each) for each in together] == [0, 0, 0], scene.said
    check_exact(scene.server, scene.database, scene.rows)


# --- the S3 service -------------------------------------------------------------------------------


@contextmanager
def from_s3(
    server: ClickHouse, rows: Rows, s3: Seaweed, home: Path, *options: str
) -> Iterator[tuple[Place, Faulty]]:
    with Faulty(s3.port) as proxy:
        env = {**s3.env, "AWS_ENDPOINT_URL": proxy.endpoint}
        loader = Loader(server, home, ["s3://files/*"], *options, env=env)
        here = Place(Scene(server, rows, loader), loader)
        here.scene.codes = (*here.scene.codes, 4)
        try:
            yield here, proxy
        finally:
            here.close()


def reads_object(request: Request) -> bool:
    return request.method == "GET" and ".csv" in request.path


S3_FAULTS: Mapping[str, Fault] = {
    "500": internal_error(),
    "503 SlowDown": slow_down(),
    "reset": Fault(reset="before"),
    "reset in the answer": Fault(reset="after"),
    "truncated body": Fault(truncate=1000),
    "stall": Fault(stall=2),
    "stall in the answer": Fault(stall_answer=2),
}


@pytest.mark.long
@LONG
@pytest.mark.parametrize(
    ("kind", "way"), sample("s3", [(k, w) for k in S3_FAULTS for w in ("--pull", "--push")], 2)
)
def test_s3_answers_badly(
    server: ClickHouse, rows: Rows, bucket: Seaweed, tmp_path: Path,
    chance: random.Random, survived: Survived, kind: str, way: str,
) -> None:  # fmt: skip
    for _ in range(rounds(10)):
        with from_s3(server, rows, bucket, tmp_path, way) as (here, proxy):
            here.scene.fresh()
            left = chance.randint(0, 6)
            script = first(chance.randint(1, 8), S3_FAULTS[kind], of=reads_object)
            skip = iter(range(left))
            proxy.script = lambda r, skip=skip, script=script: (
                None if reads_object(r) and next(skip, None) is not None else script(r)
            )
            here.scene.run()
            proxy.script = None
            here.scene.finish()
            survived(f"S3 {way[2:]}: {kind}")


@pytest.mark.long
@LONG
@pytest.mark.parametrize("way", sample("s3 stopped", ["--pull", "--push"]))
def test_s3_is_stopped_and_started(
    server: ClickHouse, rows: Rows, bucket: Seaweed, tmp_path: Path,
    chance: random.Random, survived: Survived, way: str,
) -> None:  # fmt: skip
    for _ in range(rounds(10)):
        with from_s3(server, rows, bucket, tmp_path, way) as (here, proxy):
            here.scene.fresh()
            number = chance.randint(1, 20)

            back = threading.Event()
            back.set()

            def stop(request: Request, number: int = number) -> Fault | None:
                return Fault(before=restart) if request.number == number else None

            def restart(back: threading.Event = back) -> None:
                back.clear()
                bucket.kill()
                bucket.start()
                back.set()

            proxy.script = stop
            here.scene.run()
            # On a busy machine it needs longer than the load has patience.
            assert back.wait(bucket.start_seconds), proxy.errors
            proxy.script = None
            here.scene.finish()
            survived(f"S3 {way[2:]}: stopped and started")


# --- memory and disk ------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("number", range(rounds(20)))
def test_the_memory_limit_of_the_user_is_hit(
    server: ClickHouse, place: Make, chance: random.Random, survived: Survived, number: int
) -> None:
    account = server.add_user("poor", "SELECT, INSERT, ALTER, CREATE TABLE, DROP TABLE ON *.*")
    here = place(account=account)

    def limit(process: Process) -> None:
        server.query("ALTER USER poor SETTINGS max_memory_usage = 3000000")
        here.scene.mends.append(lambda: server.query("ALTER USER poor SETTINGS NONE"))

    request, side = step(here.scene.steps(), chance)
    if here.scene.hurt_at(request.number, side, limit):
        survived("memory limit of the user")


@pytest.fixture(scope="module")
def small() -> Iterator[ClickHouse]:
    """A server on a disk that can be filled."""
    try:
        server = ClickHouse(disk=400)
    except MountError as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("number", range(rounds(50)))
def test_the_disk_is_filled_in_the_middle(
    small: ClickHouse, place: Make, chance: random.Random, survived: Survived, number: int
) -> None:
    here = place(on=small)
    disk = small.disk
    assert disk is not None

    left = chance.choice([0, 300_000, 1_000_000])

    def fill(process: Process) -> None:
        disk.fill(left)
        here.scene.mends.append(disk.empty)

    # A question does not fill a disk; where one meets a full one, rowfall waits a minute for it.
    writes = [r for r in here.scene.steps() if r.sql.startswith(("INSERT", "CREATE", "ALTER"))]
    request, side = step(writes, chance)
    print(side, request)  # noqa: T201 - shown by pytest when the test fails
    if here.scene.hurt_at(request.number, side, fill):
        survived("disk filled in the middle")


# --- Ctrl-C ---------------------------------------------------------------------------------------


def wait_until_claimed(scene: Scene) -> None:
    """Until a load has written its first line into the journal."""
    wait_until(lambda: any("'claim'" in r.sql for r in scene.proxy.requests[:-1]), 30, "a claim")


def wait_until_it_waits(scene: Scene) -> None:
    """Until a load has given up twice what it cannot have: it asks again every second."""
    begin = len(scene.proxy.requests)

    def asked() -> bool:
        return sum("'release'" in r.sql for r in scene.proxy.requests[begin:]) > 1

    wait_until(asked, 60, "a load that waits")


@pytest.mark.long
def test_ctrl_c_while_the_files_of_others_are_waited_for(place: Make) -> None:
    here = place()
    scene = here.scene
    scene.fresh()
    holder = here.loader(scene.proxy.port, scene.database)
    wait_until_claimed(scene)
    holder.send_signal(signal.SIGSTOP)
    try:
        waiting = here.loader(scene.proxy.port, scene.database, home="other")
        wait_until_it_waits(scene)
        waiting.send_signal(signal.SIGINT)
        assert scene.ended(waiting) == 130
    finally:
        holder.send_signal(signal.SIGCONT)
    assert scene.ended(holder) == 0
    scene.finish()
