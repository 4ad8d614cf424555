"""A real ClickHouse cluster called ``lab``: one process for each replica, a Keeper in node 1."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self
from urllib.parse import quote

from lab.clickhouse import ClickHouse
from lab.process import wait_until

_MEMORY = 1_500_000_000
_CLUSTER = """\
  <remote_servers><lab><secret>lab-secret-0123456789</secret>{shards}</lab></remote_servers>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
"""
_SHARD = "<shard><internal_replication>true</internal_replication>{replicas}</shard>"
_ADDRESS = "<replica><host>127.0.0.1</host><port>{tcp}</port></replica>"


class _Server(ClickHouse):
    name = "clickhouse-node"

    def __init__(self, first: _Server | None, shard: int, replica: int) -> None:
        super().__init__(memory=_MEMORY, keeper=first is None, join=first)
        self._settings.shard, self._settings.replica = str(shard), str(replica)

    def belong(self, cluster: str) -> None:
        self._settings.cluster = cluster
        self._write_config()


class Node:
    """One server of a cluster.

    Attributes:
        shard, replica: numbers from 1, as in the macros.
        http, tcp: ports on 127.0.0.1.
        user, password: who may do everything; the same on all nodes.
    """

    def __init__(self, server: _Server, shard: int, replica: int) -> None:
        self.server = server
        self.shard, self.replica = shard, replica
        self.http, self.tcp = server.http_port, server.tcp_port
        self.user, self.password = server.user, server.password

    def kill9(self) -> None:
        """End it as a crash would; the data stay."""
        self.server.kill()

    def start(self) -> None:
        """Start it again and wait until it answers."""
        self.server.start()

    def stop(self) -> None:
        """Ask it to end, and wait; the data stay."""
        self.server.stop()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self.server.pause()

    def resume(self) -> None:
        """Let a paused one go on."""
        self.server.resume()

    def query(self, sql: str) -> str:
        """Run one statement; the result as tab-separated lines.

        Raises:
            ServiceError: the server said no; the message is the server's.
            OSError: it cannot be reached.
        """
        return self.server.query(sql)


class Cluster:
    """The running cluster; a context manager that ends in :meth:`stop`.

    Attributes:
        nodes: shard by shard; the first one runs the Keeper, without which there is no ON CLUSTER
            and no insert into a replicated table.
    """

    name = "lab"

    def __init__(self, nodes: Sequence[Node], folder: Path) -> None:
        self.nodes = nodes
        self.folder = folder

    @classmethod
    def start(cls, shards: int = 2, replicas: int = 2, folder: Path | None = None) -> Self:
        """Start ``shards`` x ``replicas`` servers and wait until ON CLUSTER works.

        Args:
            folder: everything that the servers write; by default a temporary one. The unprivileged
                user of a test run as root has to be able to enter it.
        """
        folder = folder or Path(tempfile.mkdtemp(prefix="rowfall-lab-cluster-"))
        servers: list[_Server] = []
        nodes = []
        for shard in range(1, shards + 1):
            for replica in range(1, replicas + 1):
                servers.append(_Server(servers[0] if servers else None, shard, replica))
                nodes.append(Node(servers[-1], shard, replica))
        text = "".join(
            _SHARD.format(
                replicas="".join(_ADDRESS.format(tcp=x.tcp) for x in nodes[at:][:replicas])
            )
            for at in range(0, len(nodes), replicas)
        )
        for server in servers:
            server.belong(_CLUSTER.format(shards=text))
        cluster = cls(nodes, folder)
        try:
            with ThreadPoolExecutor(len(servers)) as pool:
                list(pool.map(lambda server: server.start(), servers))
            wait_until(cluster.healthy, 60, "ON CLUSTER to work")
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @property
    def entry(self) -> str:
        """Host and HTTP port of node 1."""
        return f"127.0.0.1:{self.nodes[0].http}"

    def url(
        self, database: str = "default", user: str = "", password: str = "", *, node: int = 0
    ) -> str:
        """The address for ``--to``, by way of one node; as the lab's user unless told otherwise."""
        at = self.nodes[node]
        who = f"{quote(user or at.user, safe='')}:{quote(password or at.password, safe='')}"
        return f"clickhouse://{who}@127.0.0.1:{at.http}/{database}?cluster={self.name}"

    def healthy(self) -> bool:
        """Whether all nodes carry out what one is told ON CLUSTER."""
        sql = "DROP TABLE IF EXISTS default._lab_probe ON CLUSTER lab"
        return len(self.nodes[0].query(sql).splitlines()) == len(self.nodes)

    def stop(self) -> None:
        """Kill all servers and remove their data."""
        for node in reversed(self.nodes):
            node.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
