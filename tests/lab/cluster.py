"""A real ClickHouse cluster for tests: the one that ``rowfall lab up`` starts."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote

from lab.clickhouse import binary
from lab.process import wait_until_stopped
from rowfall.lab.cluster import NAME, Lab, LabNode
from rowfall.lab.process import program, wait_until

# A limit, not what it takes (0.5 GB each): a load wants half of what is free, and 512 MiB at least.
_MEMORY = 3_000_000_000
_CLUSTER = '<{name} replace="replace"><secret>{name}</secret>{shards}</{name}>'
_SHARD = "<shard><internal_replication>true</internal_replication>{}</shard>"
_REPLICA = "<replica><host>127.0.0.1</host><port>{}</port></replica>"


class Node:
    """One server of a cluster.

    Attributes:
        shard, replica: numbers from 1, as in the macros.
        http, tcp: ports on 127.0.0.1.
        user, password: who may do everything; the same on all nodes.
    """

    def __init__(self, served: LabNode, binary: Path) -> None:
        self._served, self._binary = served, binary
        self.shard, self.replica = served.shard, served.replica
        self.http, self.tcp = served.config.ports.http, served.config.ports.tcp
        self.user, self.password = served.config.user, served.config.password

    @property
    def pid(self) -> int | None:
        """Of the process, None when it is down."""
        return self._served.pid

    def kill9(self) -> None:
        """End it as a crash would; the data stay."""
        self._served.end(signal.SIGKILL)

    def start(self) -> None:
        """Start it (again) and wait until it answers and reaches the Keeper.

        After node 1 was away, ON CLUSTER takes up to five seconds more, because the others look for
        the Keeper that often: :meth:`Cluster.wait`.
        """
        self._served.begin(self._binary)
        self._served.wait()

    def stop(self) -> None:
        """Ask it to end, and wait; the data stay."""
        self._served.end()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)
        if self.pid is not None:
            wait_until_stopped(self.pid)

    def resume(self) -> None:
        """Let a paused one go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:  # one that was killed meanwhile has nothing to resume
            os.kill(self.pid, number)

    def query(self, sql: str, *, timeout: float = 60) -> str:
        """Run one statement; the result as tab-separated lines.

        Raises:
            ServiceError: the server said no; the message is the server's.
            OSError: it cannot be reached.
        """
        return self._served.query(sql, timeout=timeout)

    def sync(self, table: str) -> None:
        """Wait until a replicated ``database.table`` here has what its other replicas have.

        Where the Keeper was away the table stays read-only until its session is new, which an
        idle one notices only at its next look, once a minute
        (``zookeeper_session_expiration_check_period``).
        """
        database, name = table.split(".")
        closed = (
            "SELECT max(is_readonly OR is_session_expired) FROM system.replicas "
            f"WHERE database = '{database}' AND table = '{name}'"
        )
        wait_until(lambda: self.query(closed).strip() == "0", 90, f"{table} stays read-only")
        self.query(f"SYSTEM SYNC REPLICA {table}")


class Cluster:
    """The running cluster; a context manager that ends in :meth:`stop`.

    Attributes:
        nodes: shard by shard; the first one runs the Keeper, without which there is no ON CLUSTER
            and no insert into a replicated table.
    """

    name = NAME

    def __init__(self, lab: Lab, binary: Path) -> None:
        self._lab = lab
        self.folder = lab.folder
        self.nodes = [Node(served, binary) for served in lab.nodes]
        self._defined: dict[str, Sequence[Sequence[Node]]] = {}
        atexit.register(self.stop)

    @classmethod
    def start(cls, shards: int = 2, replicas: int = 2, folder: Path | None = None) -> Self:
        """Start ``shards`` x ``replicas`` servers and wait until ON CLUSTER works.

        Args:
            folder: everything that the servers write; missing or empty, by default a temporary one.
                The unprivileged user of a test run as root has to be able to enter it.
        """
        # Not below pytest's tmp_path: that is closed to the unprivileged user.
        folder = folder or Path(tempfile.mkdtemp(prefix="rowfall-lab-cluster-"))
        lab = Lab.make(folder, shards, replicas, memory=_MEMORY)
        cluster = cls(lab, program(binary(), folder))
        try:
            lab.up(binary())
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @property
    def entry(self) -> str:
        """Host and HTTP port of node 1."""
        return self._lab.nodes[0].address

    def url(
        self, database: str = "default", user: str = "", password: str = "", *, node: int = 0
    ) -> str:
        """The address for ``--to``, by way of one node; as the lab's user unless told otherwise."""
        at = self.nodes[node]
        who = f"{quote(user or at.user, safe='')}:{quote(password or at.password, safe='')}"
        return f"clickhouse://{who}@127.0.0.1:{at.http}/{database}?cluster={self.name}"

    def define(self, name: str, *shards: Sequence[Node]) -> None:
        """Make all nodes know a cluster of these shards, beside their own one or in its place.

        ``define(cluster.name)`` without shards takes back what was said of the own one.
        """
        self._defined[name] = shards
        text = "".join(_CLUSTER.format(name=n, shards="".join(
            _SHARD.format("".join(_REPLICA.format(node.tcp) for node in nodes)) for nodes in each
        )) for n, each in self._defined.items() if each)  # fmt: skip
        for number, node in enumerate(self.nodes, 1):
            extra = self.folder / f"node{number}" / "config.d"
            extra.mkdir(exist_ok=True)
            extra.chmod(0o755)
            (extra / "clusters.xml").write_text(
                f"<clickhouse><remote_servers>{text}</remote_servers></clickhouse>"
            )
            node.query("SYSTEM RELOAD CONFIG")

    def wait(self) -> None:
        """Wait until ON CLUSTER works again, after node 1 was away."""
        self._lab.wait()

    def stop(self) -> None:
        """Kill all servers and remove their data; may be called more than once."""
        for each in reversed(self.nodes):
            each.kill9()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
