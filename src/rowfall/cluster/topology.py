"""The nodes of a cluster and what each can do, all asked through one of them.

``clusterAllReplicas`` takes every replica for a shard of its own: ``_shard_num`` counts the
different addresses of ``system.clusters``, shard by shard, so it tells nodes apart that have the
same host name. What a node is asked stands inside ``view()``: outside of it the entry node puts its
own values in place of ``getSetting()``, and subqueries are its own anywhere (24.10). What the
user's profile sets on the entry node is sent along and hides what it sets on the others.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.model import Ask, version_numbers
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.systems.clickhouse.codes import ACCESS_DENIED, CLUSTER_DOES_NOT_EXIST, NO_NODE_ANSWERS
from rowfall.systems.clickhouse.server_facts import OLDEST, usable_memory

# A node that is up accepts in milliseconds; 2 s cover another continent. One that hangs accepts,
# too, and says nothing: with the server's own patience and three tries each question took 25 s.
IMPATIENT = (
    "connect_timeout_with_failover_ms = 2000, connect_timeout_with_failover_secure_ms = 2000, "
    "handshake_timeout_ms = 2000, connections_with_failover_max_tries = 1"
)
SILENT = "it does not answer"
SERVER_UUID = "SELECT toString(serverUUID()) AS uuid"

# Types are spelled out: the entry node would cut the others' values to the type of its own.
_FACTS = """\
SELECT version() AS version, toUInt64(getSetting('max_threads')) AS cores,
    toUInt64(getSetting('max_memory_usage')) AS one,
    toUInt64(getSetting('max_memory_usage_for_user')) AS mine,
    timezone() AS timezone, toUInt16({port}) AS http"""
_NO_PORT = "0"
_MACROS = "SELECT 'macro' AS what, macro AS item, substitution AS value FROM system.macros"
# One line each instead of a sum: a subquery would be the entry node's.
_MEMORY = """\
SELECT 'memory' AS what, 'limit' AS item, value
FROM system.server_settings WHERE name = 'max_server_memory_usage'
UNION ALL SELECT 'memory', 'held', toString(value) FROM system.metrics
WHERE metric = 'MemoryTracking'
UNION ALL SELECT 'memory', 'free', toString(toInt64(value)) FROM system.asynchronous_metrics
WHERE metric = 'OSMemoryAvailable'"""
# How errors of the server name a node that did not answer, with the cause before it.
_CAUSE = regex(
    r"^(?:Code: \d+\. DB::NetException: )?([^\n]*?) \((?:socket \()?([^\s(),]+:\d+)", re.MULTILINE
)
# Of a user that it does not know, a node says nothing but closes the connection.
_RECEIVED = regex(r"(?:[Rr]eceived from|packet from|->) ([^\s,]+:\d+)")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts that a node tells about itself.

    Attributes:
        version: e.g. ``24.10.2.80``.
        cores: threads that a statement may use there.
        memory: bytes that a load may use.
        timezone: of a DateTime without one.
        macros: what ``{shard}`` and others stand for; empty also where they may not be read.
    """

    version: str = ""
    cores: int = 0
    memory: int = 0
    timezone: str = ""
    macros: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """One server of a cluster; two are equal whatever else is known of them.

    Attributes:
        shard, replica: numbers from 1.
        host: as the other nodes call it; port: of the native protocol.
        http_port: 0 where it has none (or none with TLS, when that was asked for), or does not
            answer; ``tls`` when that is HTTPS.
        facts: what it tells of itself; empty where it does not answer.
        error: why it does not answer; None when it does.
    """

    shard: int
    replica: int
    host: str
    port: int
    http_port: int = field(default=0, compare=False)
    tls: bool = field(default=False, compare=False)
    facts: NodeFacts = field(default_factory=NodeFacts, compare=False)
    error: str | None = field(default=None, compare=False)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """Return ``shard 2 replica 1 (host:port)``, for people."""
        return f"shard {self.shard} replica {self.replica} ({self.address})"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of the configuration.

    Attributes:
        nodes: by shard and replica; those that do not answer, too.
        internal_replication: True when an INSERT into a Distributed table writes to one replica
            of a shard only; None when shards differ.
    """

    name: str
    nodes: tuple[Node, ...]
    internal_replication: bool | None

    @property
    def shards(self) -> tuple[int, ...]:
        return tuple(sorted({node.shard for node in self.nodes}))

    def of(self, shard: int) -> tuple[Node, ...]:
        """Return all replicas of a shard."""
        return tuple(node for node in self.nodes if node.shard == shard)

    @property
    def replicated(self) -> bool:
        """True when some shard has more than one replica."""
        return len(self.nodes) > len(self.shards)

    @property
    def up(self) -> tuple[Node, ...]:
        """Return the nodes that answer."""
        return tuple(node for node in self.nodes if node.error is None)

    @property
    def lost(self) -> tuple[int, ...]:
        """Return the shards of which no replica answers."""
        return tuple(s for s in self.shards if all(node.error is not None for node in self.of(s)))


def discover(asks: Ask, name: str, *, tls: bool = False) -> Cluster:
    """Find the cluster ``name`` as one of its nodes, or any server that knows it, sees it.

    Three or four small statements, 0.1 s; a node that hangs makes it 9 s.

    Args:
        tls: HTTPS ports only. Without, HTTP ports, or HTTPS where a node has no other.

    Raises:
        TargetError: no such cluster; a right is missing; no node answers; one refuses the user or
            is too old; a server is in the cluster twice.
    """
    rows = _shape(asks, name)
    facts, secure = _facts(asks, name, rows, tls=tls)
    more = _more(asks, name)
    why = _causes(asks, name) if len(facts) < len(rows) else {}
    nodes = []
    for number, (shard, replica, host, port, _) in enumerate(rows, 1):
        if number in facts:
            node = _node((shard, replica, host, int(port)), facts[number], more[number], secure)
        else:
            node = Node(shard, replica, host, port, error=why.get(f"{host}:{port}", SILENT))
        nodes.append(node)
    kinds = {bool(row[4]) for row in rows}
    cluster = Cluster(name, tuple(nodes), kinds.pop() if len(kinds) == 1 else None)
    _check(cluster)
    return cluster


def _node(
    at: tuple[int, int, str, int],
    facts: Sequence[Any],
    more: Mapping[str, Mapping[str, str]],
    secure: bool,
) -> Node:
    version, cores, one, mine, timezone, http = facts
    size = {name: int(value) for name, value in more.get("memory", {}).items()}
    limits = [int(one), int(mine), size.get("free", 0)]
    if size.get("limit"):
        limits.append(size["limit"] - size.get("held", 0))
    cores = max(1, int(cores))
    memory = usable_memory(limits, cores)
    macros = dict(more.get("macro", {}))
    return Node(
        *at, int(http), secure, NodeFacts(str(version), cores, memory, str(timezone), macros)
    )


def _shape(asks: Ask, name: str) -> list[list[Any]]:
    """Return shard, replica, host, port and internal replication of each node.

    Raises:
        TargetError: no such cluster, or a server that is in it twice.
    """
    rows = asks(
        "SELECT shard_num, replica_num, host_name, port, internal_replication "
        f"FROM system.clusters WHERE cluster = {quote(name)} ORDER BY shard_num, replica_num"
    )
    if not rows:
        known = [str(row[0]) for row in asks("SELECT DISTINCT cluster FROM system.clusters")]
        there = ", ".join(sorted(known)) or "none"
        raise TargetError(
            f"the server knows no cluster {name!r}",
            hint=f"It knows these: {there}. Name one of them with ?cluster=NAME.",
            code=CLUSTER_DOES_NOT_EXIST,
        )
    twice = [at for at, count in Counter((row[2], row[3]) for row in rows).items() if count > 1]
    if twice:
        host, port = twice[0]
        places = [f"shard {row[0]} replica {row[1]}" for row in rows if (row[2], row[3]) in twice]
        raise TargetError(
            f"the server {host}:{port} is in the cluster {name!r} more than once: "
            f"{', '.join(places)}",
            hint="A load tells shards apart by their servers; name a cluster with one shard each.",
        )
    return rows


def check_order(asks: Ask, cluster: Cluster) -> None:
    """Check that nobody has changed the list of nodes since the cluster was discovered.

    What nodes answer is told apart by their places in it, and a server reads it again by itself.

    Raises:
        TargetError: somebody has.
    """
    now = [tuple(row[:4]) for row in _shape(asks, cluster.name)]
    if now != [(node.shard, node.replica, node.host, node.port) for node in cluster.nodes]:
        raise TargetError(
            f"the nodes of the cluster {cluster.name!r} were changed in the configuration just now",
            hint="Run the same command again.",
            transient=True,
        )


def on_nodes(name: str, select: str) -> str:
    """Return a SELECT of ``_shard_num`` and the rows of ``select`` on each node that answers.

    Args:
        select: without scalar subqueries, which would be the entry node's.
    """
    return (
        f"SELECT _shard_num, * FROM clusterAllReplicas({quote(name)}, view({select})) "
        f"SETTINGS skip_unavailable_shards = 1, {IMPATIENT}"
    )


def server_uuids(asks: Ask, cluster: Cluster) -> dict[Node, str]:
    """Return the uuid of each node's server, which tells it apart; of those that answer."""
    rows = asks(on_nodes(cluster.name, SERVER_UUID))
    return {cluster.nodes[int(number) - 1]: str(uuid) for number, uuid in rows}


def _facts(
    asks: Ask, name: str, shape: Sequence[Sequence[Any]], *, tls: bool
) -> tuple[dict[int, list[Any]], bool]:
    """Return the facts of each node that answers, and True when its port is that of HTTPS.

    A node without the port makes the statement fail for all: their configurations are alike.
    """
    kinds = ("https_port",) if tls else ("http_port", "https_port")
    for kind in (*kinds, ""):
        port = f"getServerPort({quote(kind)})" if kind else _NO_PORT
        try:
            rows = asks(on_nodes(name, _FACTS.format(port=port)))
        except RowfallError as error:
            if error.code in NO_NODE_ANSWERS:
                break
            if not kind or error.code != CLUSTER_DOES_NOT_EXIST:
                raise _refused(name, shape, error) from None
            continue
        return {int(number): values for number, *values in rows}, kind == "https_port"
    return {}, tls


def _more(asks: Ask, name: str) -> Mapping[int, Mapping[str, Mapping[str, str]]]:
    """Return macros and memory of each node, as far as this user may read them."""
    found: dict[int, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    # Both at once, because a node that hangs costs 3 s each time.
    both = f"{_MACROS} UNION ALL {_MEMORY}"
    for select in (both, _MACROS, _MEMORY):
        try:
            rows = asks(on_nodes(name, select))
        except RowfallError as error:
            if error.code in NO_NODE_ANSWERS:
                break
            if error.code != ACCESS_DENIED:
                raise
            continue
        for number, what, item, value in rows:
            found[int(number)][what][item] = value
        if select is both:
            break
    return found


def _causes(asks: Ask, name: str) -> dict[str, str]:
    """Return the reason that each node does not answer, by address, of those the server names."""
    try:
        asks(f"SELECT 1 FROM clusterAllReplicas({quote(name)}, system.one) SETTINGS {IMPATIENT}")
    except RowfallError as error:
        return causes(error.message)
    return {}


def causes(message: str) -> dict[str, str]:
    """Return the reasons, by address, that an error of the server gives for lost connections."""
    lines = message.replace("\\n", "\n")  # of some versions
    return {at: cause.strip().rstrip(".:").lower() for cause, at in _CAUSE.findall(lines)}


def _refused(name: str, shape: Sequence[Sequence[Any]], error: RowfallError) -> RowfallError:
    """Return an error of the first question, with the node that it came from."""
    found = _RECEIVED.search(error.message)
    if found is None:
        return TargetError(
            f"the nodes of the cluster {name!r} cannot be asked: {error.message}",
            hint=error.hint,
            transient=error.transient,
            code=error.code,
        )
    at = next((Node(*row[:4]).name for row in shape if f"{row[2]}:{row[3]}" == found[1]), found[1])
    denied = error.code == ACCESS_DENIED
    return TargetError(
        f"{at} of the cluster {name!r} does not answer this user: {error.message}",
        hint=error.hint if denied else "The user has to exist on every node, with equal rights.",
        code=error.code,
    )


def _check(cluster: Cluster) -> None:
    """Raise TargetError where no node answers, or one is too old."""
    if not cluster.up:
        why = "; ".join(f"{node.name}: {node.error}" for node in cluster.nodes[:4])
        raise TargetError(
            f"no node of the cluster {cluster.name!r} answers: {why}",
            hint="The server that was asked has to reach the others by the native protocol.",
            transient=True,
        )
    old = [
        f"{node.name} is {node.facts.version}"
        for node in cluster.up
        if version_numbers(node.facts.version) < OLDEST
    ]
    if old:
        raise TargetError(
            f"nodes of the cluster {cluster.name!r} are too old: {', '.join(old)}",
            hint="rowfall needs ClickHouse {}.{} or newer on every node.".format(*OLDEST),
        )
