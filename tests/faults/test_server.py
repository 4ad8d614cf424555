"""A real server: hurt at every step of the protocol, then the same command until it succeeds."""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from faults.conftest import Survived
from faults.kills import (
    FEW,
    ROUNDS,
    Process,
    kill_rowfall,
    press_ctrl_c,
    press_ctrl_c_twice,
)
from faults.places import Loader
from faults.scene import Scene, Side
from lab.clickhouse import Account, ClickHouse
from lab.disk import MountError
from lab.faulty import Fault, Faulty, Request, first, internal_error, slow_down
from lab.process import ServiceError, wait_until
from lab.rows import COLUMNS, Rows, check_exact, checksum, create_target, make_rows
from lab.seaweed import Seaweed

Create = Callable[[ClickHouse, str], None]

TYPES = re.split(r", (?=[a-z])", COLUMNS)
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


@dataclass
class Place:
    """A scene, what loads in it, and the S3 service that it loads from."""

    scene: Scene
    loader: Loader
    s3: Seaweed | None = None

    def close(self) -> None:
        self.scene.close()
        self.loader.close()


Make = Callable[..., Place]


@pytest.fixture
def place(server: ClickHouse, rows: Rows, tmp_path: Path) -> Iterator[Make]:
    """``place("--atomic")``: a scene whose loads have these options."""
    made: list[Place] = []

    def make(
        *options: str, create: Create = create_target, on: ClickHouse = server,
        account: Account | None = None,
    ) -> Place:  # fmt: skip
        home = tmp_path / f"home{len(made)}"
        home.mkdir()
        loader = Loader(on, home, [f"{rows.folder}/*"], *options, account=account)
        made.append(Place(Scene(on, rows, loader, create), loader))
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


@pytest.mark.parametrize("number", range(FEW))
@pytest.mark.parametrize("kind", HURTS)
def test_hurt_at_a_step(
    place: Make, chance: random.Random, survived: Survived, kind: str, number: int
) -> None:
    here = place()
    request, side = step(here.scene.steps(), chance)
    print(kind, side, request)  # noqa: T201 - shown by pytest when the test fails
    if here.scene.hurt_at(request.number, side, partial(HURTS[kind], here)):
        survived(f"server: {kind} at a step")


@pytest.mark.parametrize("number", range(FEW))
def test_hurt_at_random_moments(
    place: Make, chance: random.Random, survived: Survived, number: int
) -> None:
    """Again and again, before the load is allowed to end."""
    here = place()
    here.scene.fresh()
    for kind in chance.choices(list(HURTS), k=chance.randint(1, 3)):
        hurt = partial(HURTS[kind], here)
        if here.scene.hurt_after(chance.uniform(0.4, 2.0), hurt):
            survived(f"server: {kind} at a random moment")
        if here.scene.server.pid is None:
            here.scene.server.start()
    here.scene.finish()


# --- views ----------------------------------------------------------------------------------------

with_views = partial(create_target, views=True)


@pytest.mark.parametrize("number", range(FEW))
def test_views_get_every_row_once(
    place: Make, chance: random.Random, survived: Survived, number: int
) -> None:
    here = place(*chance.choice([(), ("--atomic",)]), create=with_views)
    kind = chance.choice(list(HURTS))
    request, side = step(here.scene.steps(), chance)
    print(kind, side, request)  # noqa: T201 - shown by pytest when the test fails
    if here.scene.hurt_at(request.number, side, partial(HURTS[kind], here)):
        survived(f"views: {kind}")


# --- all or nothing -------------------------------------------------------------------------------


def with_old_rows(server: ClickHouse, database: str) -> None:
    create_target(server, database)
    server.query(f"INSERT INTO {database}.t (id, day) SELECT number + 1e9, '2024-01-05' "
                 "FROM numbers(1000)")  # fmt: skip


@contextmanager
def reading(scene: Scene) -> Iterator[set[tuple[int, int]]]:
    """Counts and checksums of the table as readers see it meanwhile."""
    seen: set[tuple[int, int]] = set()
    done = threading.Event()

    def read() -> None:
        asked = ""
        while not done.wait(0.005):
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


@pytest.mark.parametrize("number", range(FEW))
@pytest.mark.parametrize("option", ["--atomic", "--replace"])
def test_readers_never_see_a_part(
    place: Make, chance: random.Random, survived: Survived, option: str, number: int
) -> None:
    # A new table in place of the old one has the types that it is given.
    types = [word for column in TYPES for word in ("--type", column)]
    here = (
        place("--atomic")
        if option == "--atomic"
        else place("--replace", *types, create=with_old_rows)
    )
    scene = here.scene
    kind = chance.choice(list(HURTS))
    request, side = step(scene.steps(), chance)
    print(kind, side, request)  # noqa: T201 - shown by pytest when the test fails
    scene.fresh()
    before = checksum(scene.server, f"{scene.database}.t")
    with reading(scene) as seen:
        hurt = scene.hurt_at(request.number, side, partial(HURTS[kind], here))
    assert seen <= {before, scene.rows.checksum}
    if hurt:
        survived(f"{option}: {kind}")


# --- several at once ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(FEW))
def test_several_load_the_same_files_and_one_is_killed(
    place: Make, chance: random.Random, survived: Survived, number: int
) -> None:
    here = place(*chance.choice([(), ("--streams", "1")]))
    scene, loader = here.scene, here.loader
    scene.fresh()
    # With a ledger of their own they know each other from the journal only.
    homes = [chance.choice(["", f"other{n}"]) for n in range(chance.choice([2, 3]))]
    together = [loader(scene.proxy.port, scene.database, home=home) for home in homes]
    time.sleep(chance.uniform(0.6, 2.5))
    killed = together[0]
    running = killed.poll() is None
    killed.kill()
    scene.ended(killed)
    for other in together[1:]:
        assert scene.ended(other) == 0, scene.said  # nothing is left for them to wait for
    scene.finish()
    if running:
        survived(f"{len(homes)} at once, one killed")


def test_several_load_the_same_files(place: Make) -> None:
    here = place()
    scene = here.scene
    scene.fresh()
    together = [here.loader(scene.proxy.port, scene.database, home=f"own{n}") for n in range(3)]
    assert [scene.ended(each) for each in together] == [0, 0, 0], scene.said
    check_exact(scene.server, scene.database, scene.rows)


# --- the S3 service -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket(rows: Rows) -> Iterator[Seaweed]:
    """A service that may be killed, with the files in the bucket ``files``."""
    with Seaweed() as service:
        service.create_bucket("files")
        for name, body in rows.bodies().items():
            service.put("files", name, body)
        yield service


@contextmanager
def from_s3(
    server: ClickHouse, rows: Rows, s3: Seaweed, home: Path, *options: str
) -> Iterator[tuple[Place, Faulty]]:
    with Faulty(s3.port) as proxy:
        env = {**s3.env, "AWS_ENDPOINT_URL": proxy.endpoint}
        loader = Loader(server, home, ["s3://files/*"], *options, env=env)
        here = Place(Scene(server, rows, loader), loader, s3)
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


@pytest.mark.parametrize("way", ["--pull", "--push"])
@pytest.mark.parametrize("kind", S3_FAULTS)
def test_s3_answers_badly(
    server: ClickHouse, rows: Rows, bucket: Seaweed, tmp_path: Path,
    chance: random.Random, survived: Survived, kind: str, way: str,
) -> None:  # fmt: skip
    for _ in range(max(1, ROUNDS // 5)):
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


@pytest.mark.parametrize("way", ["--pull", "--push"])
def test_s3_is_stopped_and_started(
    server: ClickHouse, rows: Rows, bucket: Seaweed, tmp_path: Path,
    chance: random.Random, survived: Survived, way: str,
) -> None:  # fmt: skip
    for _ in range(max(1, ROUNDS // 5)):
        with from_s3(server, rows, bucket, tmp_path, way) as (here, proxy):
            here.scene.fresh()
            number = chance.randint(1, 20)

            def stop(request: Request, number: int = number) -> Fault | None:
                return Fault(before=restart) if request.number == number else None

            def restart() -> None:
                bucket.kill()
                bucket.start()

            proxy.script = stop
            here.scene.run()
            proxy.script = None
            here.scene.finish()
            survived(f"S3 {way[2:]}: stopped and started")


# --- memory and disk ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(max(1, ROUNDS // 5)))
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


@pytest.mark.parametrize("number", range(max(1, ROUNDS // 2)))
def test_the_disk_is_filled_in_the_middle(
    small: ClickHouse, place: Make, chance: random.Random, survived: Survived, number: int
) -> None:
    here = place(on=small)
    disk = small.disk
    assert disk is not None

    def fill(process: Process) -> None:
        disk.fill(chance.choice([0, 300_000, 1_000_000]))
        here.scene.mends.append(disk.empty)

    request, side = step(here.scene.steps(), chance)
    print(side, request)  # noqa: T201 - shown by pytest when the test fails
    if here.scene.hurt_at(request.number, side, fill):
        survived("disk filled in the middle")


# --- Ctrl-C ---------------------------------------------------------------------------------------


def wait_until_claimed(scene: Scene) -> None:
    """Until a load has written its first line into the journal."""
    wait_until(lambda: any("'claim'" in r.sql for r in scene.proxy.requests[:-1]), 30, "a claim")


def test_ctrl_c_while_the_files_of_others_are_waited_for(place: Make) -> None:
    here = place()
    scene = here.scene
    scene.fresh()
    holder = here.loader(scene.proxy.port, scene.database)
    wait_until_claimed(scene)
    holder.send_signal(signal.SIGSTOP)
    try:
        waiting = here.loader(scene.proxy.port, scene.database, home="other")
        time.sleep(4)
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGINT)
        assert scene.ended(waiting) == 130
    finally:
        holder.send_signal(signal.SIGCONT)
    assert scene.ended(holder) == 0
    scene.finish()
