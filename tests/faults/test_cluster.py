"""Loads into a cluster, hurt at any moment: every row is on some shard once."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from faults.conftest import Survived
from faults.kills import Process, press_ctrl_c, rounds
from lab.cluster import Cluster
from lab.process import wait_until
from lab.rows import COLUMNS, Rows, checksum, leftovers, make_rows

pytestmark = [pytest.mark.xdist_group("cluster22"), pytest.mark.timeout(600)]

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


def interrupt(process: Process, cluster: Cluster) -> None:
    press_ctrl_c(process)


def away(process: Process, cluster: Cluster) -> None:
    """Keeper, and the journal: nothing answers for 20 seconds."""
    cluster.nodes[0].pause()
    time.sleep(KEEPER_SECONDS)
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
# In the short form each is tried once, in the long one so often.
EACH = {"Keeper away for 20 s": 3}


@pytest.fixture(scope="module")
def files(cluster22: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("cluster") / "files"
    return make_rows(cluster22.nodes[0], folder, files=16, rows=160_000)


class Fleet:
    """One load into a database of its own, as often as it takes."""

    def __init__(self, cluster: Cluster, rows: Rows, home: Path) -> None:
        self.cluster, self.rows, self.home = cluster, rows, home
        self.database = f"hurt_{os.getpid()}_{next(_numbers)}"
        self.said: list[str] = []
        self.log = home

    def start(self) -> Process:
        command = [
            sys.executable, "-m", "rowfall", "load", f"{self.rows.folder}/*", "--table", "t",
            "--to", self.cluster.url(self.database), "--attempt-bytes", "700KB",
            "--schema", COLUMNS, "--order-by", "id",
        ]  # fmt: skip
        env = {**os.environ, "HOME": str(self.home), "XDG_STATE_HOME": str(self.home / "state")}
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
            node.query(f"SYSTEM SYNC REPLICA {self.database}.t_local")
        assert checksum(first, f"{self.database}.t") == self.rows.checksum, "\n".join(self.said)
        for node in self.cluster.nodes:
            assert leftovers(node, self.database) == [], self.said
        counts = [
            int(node.query(f"SELECT count() FROM {self.database}.t_local"))
            for node in self.cluster.nodes if node.replica == 1
        ]  # fmt: skip
        assert sum(counts) == self.rows.count
        assert all(counts), counts

    def drop(self) -> None:
        self.cluster.nodes[0].query(f"DROP DATABASE IF EXISTS {self.database} ON CLUSTER lab SYNC")


@pytest.mark.parametrize("kind", HURTS)
def test_a_hurt_load_ends_with_every_row_once(
    kind: str, cluster22: Cluster, files: Rows, tmp_path: Path, chance: random.Random,
    survived: Survived,
) -> None:  # fmt: skip
    for number in range(rounds(EACH.get(kind, 8))):
        home = tmp_path / str(number)
        home.mkdir()
        fleet = Fleet(cluster22, files, home)
        try:
            process = fleet.start()
            if chance.random() < 0.9:  # else while it looks around
                wait_until(fleet.begun, RUN_SECONDS, "it does not begin")
            time.sleep(chance.uniform(0.0, 3.0))
            HURTS[kind](process, cluster22)
            if kind.startswith(("kill -9 first", "kill -9 node", "kill -9 other")):
                time.sleep(chance.uniform(0.0, 2.0))
                fleet.mend()
            code = fleet.end(process)
            fleet.mend()
            for _ in range(TRIES):
                if code == 0:
                    break
                code = fleet.end(fleet.start())
            assert code == 0, "\n".join(fleet.said)
            fleet.check()
            fleet.drop()
            survived(kind)
        finally:
            fleet.mend()
