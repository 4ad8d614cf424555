"""Opens a cluster for a load: one replica of every shard, each with its own local table.

The journal is kept on the first replica of the first shard, in every run and for every rowfall: it
is one table on one server, because its lines have to be in one order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rowfall.cluster.creation import Ddl, statements
from rowfall.cluster.discover import Asks, Cluster, Node, discover, on_nodes
from rowfall.cluster.on_cluster import run_on_cluster
from rowfall.cluster.sharding_keys import RAND, Keyed, is_free, keyed
from rowfall.cluster.tables import Tables, look
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.model import Schema, Statement
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.core.sqltext import SqlText
from rowfall.engines.ask import ask, asker, read_rows
from rowfall.engines.base import LOOK_SECONDS
from rowfall.targets import staging
from rowfall.targets.base import ServerAt, Target
from rowfall.targets.table import Table

if TYPE_CHECKING:
    from rowfall.engines.server import Server

_WHO = "SELECT toString(serverUUID()) AS uuid"
# Each connection takes two round trips; 16 at once connect to 1,000 nodes in seconds.
AT_ONCE = 16
# All servers together are looked at as often as one alone would be (of four that load on one
# machine, looking took 2 % of the CPU), but each of them so often that no line of progress stands
# still.
MOST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Shards:
    """An open cluster.

    Attributes:
        entry: the server that was named; DDL ON CLUSTER goes through it.
        tables: what there is of the target table on the nodes.
        nodes: those that load, one a shard, each with its engine and the target as it is there;
            all replicas, where they are ``mirrored``.
        reach: connects to any other node.
    """

    cluster: Cluster
    entry: Server
    tables: Tables
    nodes: tuple[tuple[Node, Server, Target], ...]
    reach: Callable[[Node], Server]

    @property
    def mirrored(self) -> bool:
        """Whether each replica has a table of its own, see
        :class:`rowfall.cluster.sharding_keys.Keyed`."""
        return _mirrored(self.cluster, self.tables)

    @property
    def oldest(self) -> str:
        """The lowest version of those nodes."""
        return min((node.version for node, _, _ in self.nodes), key=version_of)

    @property
    def scout(self) -> Server:
        """Who is asked about the source: the oldest of the nodes that are reached from here, or
        else the entry. Such questions hold keys, and who passes a question on logs it."""
        near = [
            (version_of(n.version), i) for i, (n, s, _) in enumerate(self.nodes) if not s.through
        ]
        return self.nodes[min(near)[1]][1] if near else self.entry

    def missing(self, schema: Schema, options: Options) -> tuple[Ddl, ...]:
        """The statements that make what the nodes lack of ``tables``; () when nothing is.

        Raises:
            TargetError: it cannot be made; see :func:`rowfall.cluster.creation.statements`.
        """
        tables = self.tables
        return statements(
            tables, self.cluster, None if tables.exists else schema,
            sharding_key=options.shard_key or "", replicated=options.replicated,
        )  # fmt: skip

    def check(self, options: Options) -> Keyed | None:
        """Whether rows may go straight into the shards' own tables, and by which key; None where
        shards may take the files that they like.

        Raises:
            UsageError: options that the tables contradict; or views read from the Distributed
                table, which the rows do not pass.
            TargetError: see :func:`rowfall.cluster.sharding_keys.keyed`.
        """
        tables, wanted = self.tables, options.shard_key
        if wanted and tables.sharding_key and wanted != tables.sharding_key:
            raise UsageError(
                f"{tables.database}.{tables.table} has the sharding key {tables.sharding_key}, "
                f"not {wanted}",
                hint="Leave out --shard-key, or name another table.",
            )
        if options.replicated and tables.exists and not tables.engine.replicated:
            raise UsageError(
                f"{'.'.join(tables.local)} is there and not replicated",
                hint="Leave out --replicated, or name another table.",
            )
        there = (tables.database, tables.table)
        over = None if tables.direct else staging.lookup(asker(self.entry), [there]).get(there)
        if over is not None and over.views:
            names = ", ".join(".".join(view) for view in over.views)
            raise UsageError(
                f"{'.'.join(there)} feeds materialized views ({names}), and rows that go straight "
                "into the local tables do not pass it",
                hint=f"Let the views read from {'.'.join(tables.local)} on each node, or load "
                "through the Distributed table by hand.",
            )
        key = tables.sharding_key or wanted or RAND
        only = len(self.cluster.shards) == 1
        if not self.mirrored and (only or (is_free(key) and options.method != DISTRIBUTED)):
            if options.method != FILTER:
                return None
            raise UsageError(
                "--method filter is for tables with a sharding key, and here any row may be on "
                "any shard",
                hint="Leave it out, or give a new table a --shard-key.",
            )
        if options.direct:
            why = f"{key} says where each row belongs"
            if self.mirrored:
                why = "each replica has a table of its own"
            raise UsageError(
                f"--direct puts whole files on single servers, and {why}",
                hint="Leave it out: attempts are then staged on all of them.",
            )
        return keyed(asker(self.entry), self.cluster, key, mirrored=self.mirrored)

    def look(self) -> Tables:
        """What there is of the table now."""
        tables = self.tables
        return look(asker(self.entry), self.cluster, tables.database, tables.table)

    def make(self, ddl: Ddl, emit: Listener) -> None:
        """Run one of those statements on all nodes.

        Raises:
            TargetError: a node refuses, or has not done it in time.
        """

        def run(text: str, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
            statement = Statement(SqlText.of(text), settings, format="JSONCompactEachRow")
            return read_rows(self.entry.run(statement).data)

        def each(node: Node, text: str) -> None:
            self.reach(node).run(Statement(SqlText.of(text)))

        away = run_on_cluster(run, asker(self.entry), self.cluster, ddl, each=each)
        if away:
            names = ", ".join(node.name for node in away)
            emit(
                Note("warning", f"{names} did not answer and makes the {ddl.what} when it is back")
            )


Connects = Callable[[ServerAt, "Server | None"], "Server"]
"""Connects to a server, through another one where that is given."""


def open_shards(
    entry: Server, at: ServerAt, target: Table, connects: Connects, stack: ExitStack,
    emit: Listener, *, skip: bool,
) -> Shards:  # fmt: skip
    """Choose and connect to the nodes of a load; ``stack`` closes them.

    Args:
        at: the entry, which names the cluster.
        skip: load into the shards that are there when others are not.

    Raises:
        TargetError: no such cluster, a shard without a replica that answers, tables that are not
            alike, a node that can be reached neither from here nor through the entry.
    """
    asks = asker(entry)
    cluster = discover(asks, at.cluster, tls=at.tls)
    chosen = _chosen(cluster, emit, skip=skip)
    tables = look(asks, cluster, target.database, target.table)
    if _mirrored(cluster, tables):
        chosen = list(cluster.up)
    who = uuids_of(asks, cluster)

    # Several servers of one machine have one address, unless they are in containers.
    machines = Counter(node.host for node in chosen)

    def place(node: Node) -> ServerAt:
        return replace(
            at, host=node.host, port=node.http_port, tls=node.tls, cluster="",
            sharing=max(1, machines[node.host]),
        )  # fmt: skip

    def connect(node: Node) -> Server:
        return _reach(node, place(node), connects, entry, who.get(node, ""))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        tries = [pool.submit(connect, node) for node in chosen]
        for one in tries:
            if one.exception() is None and one.result() is not entry:
                stack.callback(one.result().close)
    servers = [one.result() for one in tries]
    for server in servers:
        server.pause = min(MOST_PAUSE_SECONDS, LOOK_SECONDS * len(servers))
    known = dict(zip(chosen, servers, strict=True))

    def reach(node: Node) -> Server:
        if node not in known:
            known[node] = connect(node)
            stack.callback(known[node].close)
        return known[node]

    nodes = tuple((n, known[n], target.on_node(place(n), *tables.local)) for n in chosen)
    return Shards(cluster, entry, tables, nodes, reach)


def _mirrored(cluster: Cluster, tables: Tables) -> bool:
    return cluster.replicated and tables.exists and not tables.engine.replicated


def uuids_of(asks: Asks, cluster: Cluster) -> dict[Node, str]:
    """Of the servers, which tell them apart; of those that answer."""
    rows = asks(on_nodes(cluster.name, _WHO))
    return {cluster.nodes[int(number) - 1]: str(uuid) for number, uuid in rows}


def version_of(text: str) -> tuple[int, ...]:
    """``24.10.2.80`` as numbers that compare."""
    return tuple(int(n) for n in re.findall(r"\d+", text))


def _chosen(cluster: Cluster, emit: Listener, *, skip: bool) -> list[Node]:
    """The first replica of each shard that answers.

    Raises:
        TargetError: a shard is away, or the node that keeps the journal.
    """
    first = cluster.nodes[0]
    if first.error:
        raise TargetError(
            f"{first.name} of the cluster {cluster.name!r} does not answer: {first.error}; it "
            "keeps the journal that says which files have landed",
            hint="Start it again; the other replicas of its shard cannot stand in for it.",
            transient=True,
        )
    if cluster.lost:
        lost = [f"{n.name}: {n.error}" for s in cluster.lost for n in cluster.of(s)]
        if not skip:
            raise TargetError(
                f"no replica of shard {', '.join(map(str, cluster.lost))} of the cluster "
                f"{cluster.name!r} answers: {'; '.join(lost[:4])}",
                hint="Start it again, or load into the others with --skip-unavailable-shards.",
                transient=True,
            )
        emit(Note("warning", "THE LOAD GOES INTO SOME SHARDS ONLY; away: " + "; ".join(lost)))
    return [
        next(node for node in cluster.of(shard) if not node.error)
        for shard in cluster.shards
        if shard not in cluster.lost
    ]


def _reach(node: Node, there: ServerAt, connects: Connects, entry: Server, who: str) -> Server:
    """Connect from here, or else through the entry.

    Args:
        who: the uuid of the node's server. Its address may mean another one here, and that of the
            entry may stand for many.

    Raises:
        TargetError: neither works.
    """
    try:
        if not node.http_port:
            raise TargetError("it has no HTTP port")
        found = connects(there, None)
        if _uuid(found) == who:
            return found
        found.close()
        direct: RowfallError = TargetError("another server answers at its address")
    except RowfallError as error:
        if error.code:  # it was reached, and refuses
            raise
        direct = error
    if _uuid(entry) == who:
        return entry
    try:
        return connects(there, entry)
    except RowfallError as error:
        raise TargetError(
            f"{node.name} cannot be reached: from here {direct.message}; through the server that "
            f"was named {error.message}",
            hint=error.hint,
            transient=True,
        ) from None


def _uuid(server: Server) -> str:
    return str(ask(server, _WHO)[0][0])
