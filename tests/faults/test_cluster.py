"""Loads into a cluster, hurt at any moment: every row is on some shard once."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from faults.conftest import Survived
from faults.kills import ROUNDS, Process, kill_engine, press_ctrl_c, rounds, sample
from lab import mirror
from lab.cluster import Cluster
from lab.islet import only
from lab.process import let_pass, wait_until
from lab.rows import COLUMNS, Rows, checksum, leftovers, make_rows
from lab.seaweed import Seaweed

pytestmark = pytest.mark.timeout(600)

Hurt = Callable[[Process, Cluster], None]
_numbers = itertools.count()
# A load takes 2 s; servers that start again on two cores, and a lease of a dead process, longer.
RUN_SECONDS = 150.0
TRIES = 6
KEEPER_SECONDS = 20.0


def kill_rowfall(process: Process, cluster: Cluster) -> None:
    process.kill()


def kill_first(process: Process, cluster: Cluster) -> None:
    """The node that keeps the journal, and the Keeper."""
    cluster.nodes[0].kill9()


def kill_shard(process: Process, cluster: Cluster) -> None:
    cluster.nodes[2].kill9()


def kill_replica(process: Process, cluster: Cluster) -> None:
    cluster.nodes[3].kill9()


def kill_both(process: Process, cluster: Cluster) -> None:
    process.kill()
    cluster.nodes[2].kill9()


def kill_builder(process: Process, cluster: Cluster) -> None:
    """Into servers, rowfall's child is rowfall-decode."""
    kill_engine(process)


def interrupt(process: Process, cluster: Cluster) -> None:
    press_ctrl_c(process)


def away(process: Process, cluster: Cluster) -> None:
    """Keeper, and the journal: nothing answers for 20 seconds."""
    cluster.nodes[0].pause()
    let_pass(KEEPER_SECONDS, "nothing answers for as long as Keeper waits for its sessions")
    cluster.nodes[0].resume()


HURTS: Mapping[str, Hurt] = {
    "kill -9 rowfall, cluster": kill_rowfall,
    "kill -9 first node": kill_first,
    "kill -9 node of a shard": kill_shard,
    "kill -9 other replica": kill_replica,
    "kill -9 rowfall and a node": kill_both,
    "Ctrl-C, cluster": interrupt,
    "Keeper away for 20 s": away,
}
# Of a load that reaches only the other replica: it is the one that passes on.
FAR = (
    "kill -9 rowfall, cluster", "kill -9 first node", "kill -9 node of a shard",
    "kill -9 other replica",
)  # fmt: skip
MIRRORED = ("kill -9 rowfall, cluster", "kill -9 other replica", "kill -9 rowfall and a node")
WAYS = ("filter", "distributed", "push")
# Of a load whose parts for each shard are made here.
BUILDING: Mapping[str, Hurt] = {
    "kill -9 builder": kill_builder,
    **{kind: HURTS[kind] for kind in ("kill -9 rowfall, cluster", "kill -9 node of a shard")},
}
BUCKET = "by-key"
# What the short form tries of loads by key. Other kinds it tries once, the long form so often:
BY_KEY = (
    ("kill -9 node of a shard", "distributed"), ("kill -9 rowfall, cluster", "push"),
)  # fmt: skip
EACH = {"Keeper away for 20 s": 3}
# Left to test-all: what differs from another kind in the node only, waits for long, or is two of
# the others at once, which the loads into plain replicas meet in the gate, too.
LONG = ("kill -9 other replica", "Keeper away for 20 s", "kill -9 rowfall and a node")


def kinds(names: Iterable[str], long: Container[str]) -> list[pytest.ParameterSet]:
    return [pytest.param(x, marks=[pytest.mark.long] if x in long else []) for x in names]


@pytest.fixture(scope="module")
def files(cluster22: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("cluster") / "files"
    return make_rows(cluster22.nodes[0], folder, files=10, rows=100_000)


class Fleet:
    """One load into a database of its own, as often as it takes."""

    def __init__(
        self, cluster: Cluster, rows: Rows, home: Path, source: str = "",
        options: Sequence[str] = (), env: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.cluster, self.rows, self.home = cluster, rows, home
        self.source = source or f"{rows.folder}/*"
        self.options, self.env = options, env or {}
        # What stands before the command.
        self.runner: tuple[str, ...] = ("-m", "rowfall")
        self.database = f"hurt_{os.getpid()}_{next(_numbers)}"
        self.to = cluster.url(self.database)
        self.said: list[str] = []
        self.log = home

    def start(self, *runner: str) -> Process:
        """Args: runner: what runs the command, :attr:`runner` by default."""
        command = [
            sys.executable, *(runner or self.runner), "load", self.source, "--table", "t",
            "--to", self.to, "--attempt-bytes", "700KB",
            "--schema", COLUMNS, "--order-by", "id", *self.options,
        ]  # fmt: skip
        env = {**os.environ, "HOME": str(self.home), "XDG_STATE_HOME": str(self.home / "state"),
               **self.env}  # fmt: skip
        self.log = self.home / f"{next(_numbers)}.log"
        with self.log.open("w") as log:
            return subprocess.Popen(
                command, cwd=self.home, env=env, text=True, stdout=subprocess.DEVNULL, stderr=log
            )

    def begun(self) -> bool:
        """Whether the plan of the last start is made."""
        return "load " in self.log.read_text()

    def end(self, process: Process) -> int:
        try:
            process.wait(timeout=RUN_SECONDS)
        finally:
            process.kill()
            self.said.append(f"{self.log.read_text()}\n[{process.poll()}]")
        return process.returncode

    def finish(self, code: int) -> None:
        """Run it again until it ends well, if ``code`` says that it has not; every row is there."""
        for _ in range(TRIES):
            if code == 0:
                break
            code = self.end(self.start())
        assert code == 0, "\n".join(self.said)
        self.check()
        self.drop()

    def mend(self) -> None:
        """All nodes run."""
        for node in self.cluster.nodes:
            node.resume()
            with contextlib.suppress(Exception):
                node.query("SELECT 1")
                continue
            node.start()

    def check(self) -> None:
        first = self.cluster.nodes[0]
        for node in self.cluster.nodes:  # a question to all shards may go to any replica
            node.sync(f"{self.database}.t_local")
        assert checksum(first, f"{self.database}.t") == self.rows.checksum, "\n".join(self.said)
        for node in self.cluster.nodes:
            assert leftovers(node, self.database) == [], self.said
        counts = [
            int(node.query(f"SELECT count() FROM {self.database}.t_local"))
            for node in self.cluster.nodes if node.replica == 1
        ]  # fmt: skip
        assert sum(counts) == self.rows.count
        assert all(counts), counts
        if "--shard-key" in self.options:
            wrong = "countIf(id % 2 != _shard_num - 1)"
            assert first.query(f"SELECT {wrong} FROM {self.database}.t").strip() == "0"

    def drop(self) -> None:
        self.cluster.nodes[0].query(f"DROP DATABASE IF EXISTS {self.database} ON CLUSTER lab SYNC")


class Mirrored(Fleet):
    """Into plain tables, of which the cluster itself keeps every replica the same."""

    def begin(self) -> None:
        mirror.configure(self.cluster)
        mirror.create(self.cluster, self.database, COLUMNS)
        self.to = self.to.replace("cluster=lab", f"cluster={mirror.NAME}")

    def check(self) -> None:
        held: dict[int, set[tuple[int, int]]] = {}
        for node in self.cluster.nodes:
            held.setdefault(node.shard, set()).add(checksum(node, f"{self.database}.t_local"))
            assert leftovers(node, self.database) == [], self.said
        assert all(len(each) == 1 for each in held.values()), (held, self.said)
        sums = [each.pop() for each in held.values()]
        assert (sum(n for n, _ in sums), sum(h for _, h in sums) % (1 << 64)) == self.rows.checksum


def keyed(way: str, cluster: Cluster, rows: Rows, s3: Seaweed, home: Path) -> Fleet:
    """A load by a sharding key: pulled in one of the two ways, pushed from here, or as parts that
    are made here; ``any``: one without a key, pulled."""
    key = ("--shard-key", "id")
    if way in ("push", "build"):
        here = ("--build", "on") if way == "build" else ()
        return Fleet(cluster, rows, home, options=(*key, *here))
    pull: tuple[str, ...] = ("--pull", "--decoder", "never")
    if way != "any":
        pull += (*key, "--method", way)
    return Fleet(cluster, rows, home, f"s3://{BUCKET}/*", pull, s3.env)


@pytest.fixture(scope="module")
def unpacked(files: Rows, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The same files, none of them compressed: parts are made of files of one kind."""
    folder = tmp_path_factory.mktemp("unpacked")
    for name, body in files.bodies().items():
        plain = gzip.decompress(body) if name.endswith(".gz") else body
        (folder / name.removesuffix(".gz")).write_bytes(plain)
    names = [name.removesuffix(".gz") for name in files.names]
    return Rows(folder, names, files.count, files.checksum)


@pytest.fixture(scope="module")
def stored(files: Rows, s3: Seaweed) -> Seaweed:
    files.put(s3, BUCKET)
    return s3


@pytest.fixture(scope="module")
def two_files(cluster22: Cluster, s3: Seaweed, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("cluster") / "two"
    rows = make_rows(cluster22.nodes[0], folder, files=2, rows=3_000)
    rows.put(s3, f"{BUCKET}-few")
    return rows


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", kinds(HURTS, LONG))
def test_a_hurt_load_ends_with_every_row_once(
    kind: str, cluster22: Cluster, files: Rows, tmp_path: Path, chance: random.Random,
    survived: Survived,
) -> None:  # fmt: skip
    for number in range(rounds(EACH.get(kind, 8))):
        home = tmp_path / str(number)
        home.mkdir()
        hurt(kind, Fleet(cluster22, files, home), chance)
        survived(kind)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "way"),
    sample("by key", [(kind, way) for kind in HURTS for way in WAYS]) if ROUNDS else BY_KEY,
)
def test_a_hurt_load_by_key_ends_with_every_row_once_on_its_shard(
    kind: str, way: str, cluster22: Cluster, files: Rows, stored: Seaweed, tmp_path: Path,
    chance: random.Random, survived: Survived,
) -> None:  # fmt: skip
    for number in range(rounds(EACH.get(kind, 4))):
        home = tmp_path / str(number)
        home.mkdir()
        hurt(kind, keyed(way, cluster22, files, stored, home), chance)
        survived(f"{kind}, by key")


@pytest.mark.long
@pytest.mark.parametrize("kind", BUILDING)
def test_a_hurt_load_of_parts_for_each_shard(
    kind: str, cluster22: Cluster, unpacked: Rows, s3: Seaweed, tmp_path: Path,
    chance: random.Random, survived: Survived,
) -> None:  # fmt: skip
    """Also where one shard has its parts of an attempt, and the other has not."""
    for number in range(rounds(4)):
        home = tmp_path / str(number)
        home.mkdir()
        hurt(kind, keyed("build", cluster22, unpacked, s3, home), chance)
        survived(f"{kind}, parts by key")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "way"),
    sample("far", [(kind, way) for kind in FAR for way in ("any", "distributed")], least=1),
)
def test_a_hurt_load_of_far_nodes(
    kind: str, way: str, cluster22: Cluster, files: Rows, stored: Seaweed, tmp_path: Path,
    chance: random.Random, survived: Survived,
) -> None:  # fmt: skip
    """The last node alone can be reached from here, and it is none of those that load."""
    for number in range(rounds(4)):
        home = tmp_path / str(number)
        home.mkdir()
        fleet = keyed(way, cluster22, files, stored, home)
        fleet.to = cluster22.url(fleet.database, node=3)
        fleet.runner = (*only(cluster22.nodes[3].http, stored.port), "-m", "rowfall")
        hurt(kind, fleet, chance)
        survived(f"{kind}, far")


@pytest.mark.long  # as many faults as of replicated tables
@pytest.mark.parametrize("kind", kinds(MIRRORED, MIRRORED[:2]))
def test_a_hurt_load_of_plain_replicas(
    kind: str, cluster22: Cluster, files: Rows, tmp_path: Path, chance: random.Random,
    survived: Survived,
) -> None:  # fmt: skip
    for number in range(rounds(8)):
        home = tmp_path / str(number)
        home.mkdir()
        fleet = Mirrored(cluster22, files, home)
        fleet.begin()
        hurt(kind, fleet, chance)
        survived(f"{kind}, mirrored")


@pytest.mark.long
@pytest.mark.parametrize(
    "way",
    [*WAYS, "build"],
)
def test_killed_between_the_shards(
    way: str, cluster22: Cluster, two_files: Rows, s3: Seaweed, tmp_path: Path,
    chance: random.Random, survived: Survived,
) -> None:  # fmt: skip
    """Where an attempt is committed, or visible on one shard and not on the other."""
    at = tmp_path / "steps"
    stepper = str(Path(__file__).with_name("stepper.py"))

    def begun(number: int, side: str, home: Path) -> tuple[Fleet, int]:
        home.mkdir()
        fleet = keyed(way, cluster22, two_files, s3, home)
        fleet.source = fleet.source.replace(BUCKET, f"{BUCKET}-few")
        at.unlink(missing_ok=True)
        return fleet, fleet.end(fleet.start(stepper, str(at), str(number), side, "kill -9 rowfall"))

    fleet, code = begun(0, "before", tmp_path / "listed")
    assert code == 0, fleet.said
    fleet.check()
    fleet.drop()
    words = (
        "ATTACH", "RESTORE", "'commit'", "'landed'", "DROP TABLE", "INTO FUNCTION", "FORMAT Native",
    )  # fmt: skip
    steps = [line.split(" ", 1) for line in at.read_text().splitlines()]
    chosen = [int(n) for n, text in steps if any(word in text for word in words)]
    assert sum("ATTACH" in text for _, text in steps) >= 2, steps
    met = 0
    for number in sample(f"shards {way}", chosen, least=2):
        side = chance.choice(("before", "after"))
        fleet, code = begun(number, side, tmp_path / f"{number}")
        met += code == -signal.SIGKILL
        fleet.finish(code)
        survived("kill -9 rowfall between shards")
    assert met > 0


def hurt(kind: str, fleet: Fleet, chance: random.Random) -> None:
    cluster22 = fleet.cluster
    try:
        process = fleet.start()
        if chance.random() < 0.9:  # else while it looks around
            wait_until(fleet.begun, RUN_SECONDS, "it does not begin")
        let_pass(chance.uniform(0.0, 3.0), "a random moment of the load")
        {**HURTS, **BUILDING}[kind](process, cluster22)
        if kind.startswith(("kill -9 first", "kill -9 node", "kill -9 other")):
            let_pass(chance.uniform(0.0, 2.0), "a random time without the node")
            fleet.mend()
        code = fleet.end(process)
        fleet.mend()
        fleet.finish(code)
    finally:
        fleet.mend()
