"""Opening a cluster for a load: one writer a shard, each with its own local table.

The journal is one table on one server, because its lines have to be in one order. It stays where it
has been begun, on the first replica of the shard that was the first one then: every node is asked
for it, because lists of nodes change. Its writer is the first one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from rowfall.cluster.ddl import Ddl, create_statements, run_on_cluster
from rowfall.cluster.sharding_keys import RAND, ShardingKey, is_free, read_sharding_key
from rowfall.cluster.tables import ClusterTables, column_types, find_tables
from rowfall.cluster.topology import (
    SERVER_UUID,
    Cluster,
    Node,
    check_order,
    discover,
    on_nodes,
    server_uuids,
)
from rowfall.cluster.writer import Writer
from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, RowfallError, TargetError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.model import Ask, Schema, Statement
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import POLL_SECONDS, Engine
from rowfall.ledger.journal import TABLE as JOURNAL
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.target import Table

# ON CLUSTER, nodes begin within a second of each other; what takes longer is left to the user.
ALTER_SECONDS, ALTER_PAUSE_SECONDS = 5.0, 0.5
# Each connection takes two round trips; 16 at once connect to 1,000 nodes in seconds.
AT_ONCE = 16
# All servers together are asked as often as one alone would be (of four that load on one
# machine, looking took 2 % of the CPU), but each of them so often that no line of progress stands
# still.
MOST_PAUSE_SECONDS = 5.0


@dataclass(slots=True)
class OpenCluster:
    """A cluster with connections to the nodes of a load.

    Attributes:
        entry: the server that was named; DDL ON CLUSTER goes through it.
        tables: what there is of the target table on the nodes, by the last :meth:`look_again`.
        writers: the nodes that load, one a shard; all replicas where they are ``unreplicated``.
        connect: connects to any node.
        altering: see :func:`rowfall.cluster.tables.find_tables`.
    """

    cluster: Cluster
    entry: Engine
    tables: ClusterTables
    writers: tuple[Writer, ...]
    connect: Callable[[Node], Engine]
    altering: bool = False

    @property
    def unreplicated(self) -> bool:
        """True when each replica has a table of its own; see :class:`ShardingKey`."""
        return _unreplicated(self.cluster, self.tables)

    @property
    def oldest(self) -> str:
        """Return the lowest version of the writers."""
        return min((w.engine.facts for w in self.writers), key=lambda f: f.release).version

    @property
    def source_engine(self) -> Engine:
        """Return the engine that is asked about the source.

        It is the oldest of the writers that are reached from here, or else the entry. Such
        questions hold keys, and a server that passes a question on logs it.
        """
        near = [w.engine for w in self.writers if w.engine.rows_refused is None]
        return min(near, key=lambda engine: engine.facts.release, default=self.entry)

    def missing(
        self, schema: Schema, options: Options, tables: ClusterTables | None = None
    ) -> tuple[Ddl, ...]:  # fmt: skip
        """Return the statements that make what the nodes lack.

        Args:
            tables: what they have; by default ``self.tables``.

        Raises:
            TargetError: it cannot be made; see :func:`rowfall.cluster.ddl.create_statements`.
        """
        tables = tables or self.tables
        return create_statements(
            tables, self.cluster, None if tables.exists else schema,
            sharding_key=options.shard_key or "", replicated=options.replicated,
        )  # fmt: skip

    def sharding_key(self, options: Options) -> ShardingKey | None:
        """Return the key that says on which shard a row belongs; None where any shard will do.

        Raises:
            UsageError: options that the tables contradict; or views read from the Distributed
                table, which the rows do not pass.
            TargetError: see :func:`rowfall.cluster.sharding_keys.read_sharding_key`.
        """
        tables, wanted = self.tables, options.shard_key
        if wanted and tables.over.sharding_key and wanted != tables.over.sharding_key:
            raise UsageError(
                f"{tables.database}.{tables.table} has the sharding key "
                f"{tables.over.sharding_key}, not {wanted}",
                hint="Leave out --shard-key, or name another table.",
            )
        if options.replicated and tables.exists and not tables.own.engine.replicated:
            raise UsageError(
                f"{'.'.join(tables.local)} is there and not replicated",
                hint="Leave out --replicated, or name another table.",
            )
        there = (tables.database, tables.table)
        over = None if tables.direct else staging.lookup(self.entry.ask, [there]).get(there)
        if over is not None and over.views:
            names = ", ".join(".".join(view) for view in over.views)
            raise UsageError(
                f"{'.'.join(there)} feeds materialized views ({names}), and rows that go straight "
                "into the local tables do not pass it",
                hint=f"Let the views read from {'.'.join(tables.local)} on each node, or load "
                "through the Distributed table by hand.",
            )
        key = tables.over.sharding_key or wanted or RAND
        only = len(self.cluster.shards) == 1
        if not self.unreplicated and (only or (is_free(key) and options.method != DISTRIBUTED)):
            if options.method != FILTER:
                return None
            raise UsageError(
                "--method filter is for tables with a sharding key, and here any row may be on "
                "any shard",
                hint="Leave it out, or give a new table a --shard-key.",
            )
        if options.direct:
            why = f"{key} says where each row belongs"
            if self.unreplicated:
                why = "each replica has a table of its own"
            raise UsageError(
                f"--direct puts whole files on single servers, and {why}",
                hint="Leave it out: attempts are then staged on all of them.",
            )
        return read_sharding_key(self.entry.ask, self.cluster, key, unreplicated=self.unreplicated)

    def find_tables(self) -> ClusterTables:
        """Return the tables of the target's name on all nodes, asked for now."""
        tables = self.tables
        return find_tables(
            self.entry.ask, self.cluster, tables.database, tables.table, altering=self.altering
        )

    def look_again(self) -> None:
        """Ask for the tables anew: a load has dropped some."""
        self.tables = self.find_tables()

    def columns(self, tables: ClusterTables) -> dict[tuple[str, str], dict[Node, dict[str, str]]]:
        """Return the columns of tables on each node, see :func:`column_types`."""
        return column_types(self.entry.ask, self.cluster, tables)

    def create(self, ddl: Ddl, emit: Listener) -> None:
        """Run one of those statements on all nodes.

        Raises:
            TargetError: a node refuses, or has not done it in time.
        """

        def each(node: Node, text: str) -> None:
            self.connect(node).run(Statement(SqlText.of(text)))

        away = run_on_cluster(self.entry.ask, self.entry.ask, self.cluster, ddl, each=each)
        if away:
            names = ", ".join(node.name for node in away)
            emit(
                Note("warning", f"{names} did not answer and makes the {ddl.what} when it is back")
            )


Connects = Callable[[ServerAt, Engine | None], Engine]
"""Connects to a server, through another one where that is given."""


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A table on the shards of a cluster.

    Attributes:
        at: the entry, which names the cluster.
        skip: load into the shards that are there when others are not.
        altering: the load may change columns of the table.
    """

    at: ServerAt
    table: Table
    skip: bool
    altering: bool = False


def open_cluster(
    entry: Engine, target: ClusterTarget, connects: Connects, stack: ExitStack, emit: Listener
) -> OpenCluster:
    """Choose the nodes of a load and connect to them; ``stack`` closes the connections.

    Raises:
        TargetError: no such cluster, a shard without a replica that answers, tables that are not
            alike, a node that can be reached neither from here nor through the entry.
    """
    at = target.at
    asks = entry.ask
    cluster = discover(asks, at.cluster, tls=at.tls)
    tables = _alike(asks, cluster, target.table, altering=target.altering)
    uuids = server_uuids(asks, cluster)

    def look(node: Node, text: str) -> list[list[Any]]:
        there = replace(at, host=node.host, port=node.http_port, tls=node.tls, cluster="")
        server = _connect(node, there, connects, entry, uuids.get(node, ""))
        try:
            return server.ask(text)
        finally:
            if server is not entry:
                server.close()

    keeper = find_journal(asks, cluster, tables, look)
    chosen = _chosen(cluster, keeper, emit, skip=target.skip)
    if _unreplicated(cluster, tables):
        chosen = [keeper, *(node for node in cluster.up if node != keeper)]

    # Several servers of one machine have one address, unless they are in containers.
    machines = Counter(node.host for node in chosen)

    def address(node: Node) -> ServerAt:
        return replace(
            at, host=node.host, port=node.http_port, tls=node.tls, cluster="",
            sharing=max(1, machines[node.host]),
        )  # fmt: skip

    def reach(node: Node) -> Engine:
        return _connect(node, address(node), connects, entry, uuids.get(node, ""))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        tries = [pool.submit(reach, node) for node in chosen]
        for one in tries:
            if one.exception() is None and one.result() is not entry:
                stack.callback(one.result().close)
    servers = [one.result() for one in tries]
    for server in servers:
        server.pause = min(MOST_PAUSE_SECONDS, POLL_SECONDS * len(servers))
    known = dict(zip(chosen, servers, strict=True))

    def connect(node: Node) -> Engine:
        if node not in known:
            known[node] = reach(node)
            stack.callback(known[node].close)
        return known[node]

    writers = tuple(
        Writer(
            number, node.address, known[node], target.table.on_node(address(node), *tables.local),
            node.shard,
        )
        for number, node in enumerate(chosen)
    )  # fmt: skip
    check_order(asks, cluster)
    return OpenCluster(cluster, entry, tables, writers, connect, target.altering)


def _alike(asks: Ask, cluster: Cluster, target: Table, *, altering: bool) -> ClusterTables:
    """Find the tables on the nodes; wait while another load alters them node by node."""
    deadline = time.monotonic() + ALTER_SECONDS
    while True:
        try:
            return find_tables(asks, cluster, target.database, target.table, altering=altering)
        except TargetError as error:
            if not error.transient or time.monotonic() > deadline:
                raise
        time.sleep(ALTER_PAUSE_SECONDS)


def _unreplicated(cluster: Cluster, tables: ClusterTables) -> bool:
    return cluster.replicated and tables.exists and not tables.own.engine.replicated


def find_journal(
    asks: Ask, cluster: Cluster, tables: ClusterTables, look: Callable[[Node, str], list[list[Any]]]
) -> Node:
    """Return the node whose journal knows the tables; of new tables, the one that begins it.

    Args:
        look: asks one node.

    Raises:
        LedgerError: several journals know them, or one knows the table of another node.
        TargetError: none does, and a node is away that may keep it.
    """
    database, name = tables.local[0], ".".join(tables.local)
    named = f"database = {quote(database)} AND name = {quote(JOURNAL)}"
    select = on_nodes(cluster.name, f"SELECT name AS name FROM system.tables WHERE {named}")
    holders = [cluster.nodes[int(number) - 1] for number, _ in asks(select)]
    uuids = ", ".join(sorted({quote(uuid) for uuid in tables.own.uuids.values()}))
    known: list[tuple[Node, str]] = []
    for node in holders if uuids else ():
        rows = look(node, (
            f"SELECT DISTINCT toString(into) FROM {sql.qualified(database, JOURNAL)} "
            f"WHERE event = 'claim' AND toString(into) IN ({uuids})"
        ))  # fmt: skip
        known += [(node, str(into)) for (into,) in rows]
    if len(known) > 1 or any(tables.own.uuids.get(node) != into for node, into in known):
        names = ", ".join(dict.fromkeys(node.name for node, _ in known))
        raise LedgerError(
            f"not one journal says what was loaded into {name}, but several, or that of another "
            f"node's table: see {database}.{JOURNAL} on {names}",
            hint="Count what is in the table, because files may have been loaded twice. Then keep "
            f"one journal: ALTER TABLE {database}.{JOURNAL} DELETE WHERE into = '{known[0][1]}' "
            "on every other node.",
        )
    if known:
        return known[0][0]
    _check_no_journal_away(asks, cluster, tables)
    # Where it keeps those of other tables, however the list of nodes has changed since.
    return (holders or cluster.up)[0]


def _check_no_journal_away(asks: Ask, cluster: Cluster, tables: ClusterTables) -> None:
    """Raise TargetError where a node is away that may keep the journal.

    That is the first one; or any of them, if the table holds rows that no journal knows.
    """
    away = [node for node in cluster.nodes if node.error is not None]
    if not away:
        return
    database, table = map(quote, tables.local)
    rows = (
        "SELECT sum(rows) AS rows FROM system.parts WHERE active AND database = {} AND table = {}"
    )
    filled = tables.exists and any(
        int(count) for _, count in asks(on_nodes(cluster.name, rows.format(database, table)))
    )
    if filled or cluster.nodes[0] in away:
        names = "; ".join(f"{node.name}: {node.error}" for node in away[:4])
        raise TargetError(
            f"nodes of the cluster {cluster.name!r} do not answer ({names}), and no other one "
            f"keeps the journal that says which files are loaded into {'.'.join(tables.local)}",
            hint="Start them again; other nodes cannot stand in for the one that keeps it.",
            transient=True,
        )


def _chosen(cluster: Cluster, keeper: Node, emit: Listener, *, skip: bool) -> list[Node]:
    """Return one replica of each shard: the first that answers, and of the first one ``keeper``.

    Raises:
        TargetError: a shard is away.
    """
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
    return [keeper] + [
        next(node for node in cluster.of(shard) if node.error is None)
        for shard in cluster.shards
        if shard not in cluster.lost and shard != keeper.shard
    ]


def _connect(node: Node, there: ServerAt, connects: Connects, entry: Engine, uuid: str) -> Engine:
    """Connect from here, or else through the entry.

    Args:
        uuid: of the node's server. Its address may mean another one here, and that of the entry
            may stand for many.

    Raises:
        TargetError: neither works.
    """
    try:
        if not node.http_port:
            raise TargetError("it has no HTTP port")
        found = connects(there, None)
        if _uuid(found) == uuid:
            return found
        found.close()
        direct: RowfallError = TargetError("another server answers at its address")
    except RowfallError as error:
        if error.code:  # it was reached, and refuses
            raise
        direct = error
    if _uuid(entry) == uuid:
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


def _uuid(server: Engine) -> str:
    return str(server.ask(SERVER_UUID)[0][0])
