"""The statements that make what a cluster lacks of a table, and running them on all nodes.

Databases, local tables and Distributed tables are each there in two forms: ON CLUSTER, and for one
node alone where the cluster has no Keeper to hand statements around. All of them say IF NOT EXISTS,
so they may be repeated.

ON CLUSTER puts a statement into a queue in Keeper, from which every node takes it when it can. A
time-out is not a failure: the statement stays in the queue, so the queue is asked.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowfall.cluster.tables import ClusterTables, NodeTable, TableEngine, macros_of, parse_engine
from rowfall.cluster.topology import Cluster, Node
from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.model import Ask, Schema
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.systems.clickhouse.codes import (
    ACCESS_DENIED,
    KEEPER_FAILS,
    NO_KEEPER,
    TIMEOUT_EXCEEDED,
    translate,
)

SHARDING_KEY = "rand()"
# With the uuid a dropped table and the next of its name do not meet in Keeper, where the first
# stays for eight minutes.
_PATH, _PATH_BY_NAME = "/clickhouse/tables/{uuid}/{shard}", "/clickhouse/tables/{shard}/%s/%s"
_REPLICA = "{replica}"
# Macros that the server knows by itself.
_OWN_MACROS = frozenset({"uuid", "database", "table", "server_uuid"})
_HEAD = regex(
    r"CREATE TABLE (?:`(?:[^`\\]|\\.)*`|\w+)\.(?:`(?:[^`\\]|\\.)*`|\w+)(?: UUID '[^']*')?\s*"
)
_HIDDEN = "[HIDDEN]"


@dataclass(frozen=True, slots=True)
class Ddl:
    """One statement that makes something on every node.

    Attributes:
        what: for people, ``table d.t_local``.
        on_cluster, alone: for the whole cluster, and for one node.
    """

    what: str
    on_cluster: str
    alone: str


def create_statements(
    tables: ClusterTables,
    cluster: Cluster,
    schema: Schema | None = None,
    *,
    sharding_key: str = "",
    replicated: bool = False,
) -> tuple[Ddl, ...]:
    """Return the statements to run, in this order, until every node has the tables.

    Args:
        schema: for a local table that no node has yet; those of other nodes are copied otherwise.
        sharding_key: of a new Distributed table.
        replicated: make a replicated table also where each shard is one server.

    Raises:
        TargetError: a macro that the replicas need is missing or wrong; a table cannot be copied;
            a database replicates its tables itself.
    """
    made = [
        _database(database, cluster)
        for database, there in tables.databases.items()
        if any(node not in there for node in cluster.up)
    ]
    if tables.own.missing:
        _check_databases(tables)
        made.append(_local(tables, cluster, schema, replicated=replicated or cluster.replicated))
    if tables.over.missing:
        at = (tables.database, tables.table)
        if tables.over.like:
            made.append(_copy(tables.over.like, at, cluster))
        else:
            key = sharding_key or SHARDING_KEY
            both = [
                sql.create_distributed(at, tables.local, cluster.name, key, everywhere=everywhere)
                for everywhere in (True, False)
            ]
            made.append(Ddl(f"table {'.'.join(at)}", *both))
    return tuple(made)


def local_schema(
    tables: ClusterTables, cluster: Cluster, schema: Schema, *, replicated: bool
) -> Schema:
    """Return the schema with the engine that the local table gets.

    Raises:
        TargetError: not a MergeTree; a macro that the replicas need is missing or wrong.
    """
    engine = parse_engine(schema.layout.engine)
    if not engine.merge_tree:
        raise TargetError(
            f"a table with the engine {engine.name} cannot be loaded into a cluster",
            hint="Choose one of the MergeTree family with --engine.",
        )
    if replicated:
        atomic = all(
            base == "Atomic"
            for there in tables.databases.values()
            for base in there.values()
        )  # fmt: skip
        path = _PATH if atomic else _PATH_BY_NAME % tables.local
        engine = engine.replicate(quote(path), quote(_REPLICA))
    if engine.replicated:
        check_macros(cluster, engine)
    return replace(schema, layout=replace(schema.layout, engine=engine.text))


def check_macros(cluster: Cluster, engine: TableEngine) -> None:
    """Check that the nodes have the macros of a replicated engine, and the right ones.

    Raises:
        TargetError: names the node and the macro.
    """
    path, replica = engine.arguments[:2] if len(engine.arguments) > 1 else ("", "")
    needed = [m for m in macros_of(f"{path} {replica}") if m not in _OWN_MACROS]
    for node in cluster.up:
        if absent := [macro for macro in needed if macro not in node.facts.macros]:
            nothing = not any(other.facts.macros for other in cluster.up)
            raise TargetError(
                f"{node.name} has no macro {absent[0]!r}, which the replicated table needs",
                hint="The user may need the right SELECT ON system.macros." if nothing else
                f"Add <macros> with {', '.join(needed)} to the configuration of that server.",
            )  # fmt: skip
    if "shard" in macros_of(path) and "replica" in macros_of(replica):
        _check_distinct(cluster)


def _check_distinct(cluster: Cluster) -> None:
    by_macro: dict[str, list[Node]] = defaultdict(list)
    for node in cluster.up:
        by_macro[node.facts.macros["shard"]].append(node)
    for macro, nodes in by_macro.items():
        first, seen = nodes[0], dict[str, Node]()
        for node in nodes:
            if node.shard != first.shard:
                raise TargetError(
                    f"{first.name} and {node.name} have the same macro shard = {macro!r}, so they "
                    "would be replicas of each other",
                    hint="Give every shard a macro of its own.",
                )
            other = seen.setdefault(node.facts.macros["replica"], node)
            if other is not node:
                raise TargetError(
                    f"{other.name} and {node.name} have the same macro replica = "
                    f"{node.facts.macros['replica']!r}",
                    hint="Give every replica of a shard a macro of its own.",
                )
    for shard in cluster.shards:
        macros = {node.facts.macros["shard"] for node in cluster.of(shard) if node.error is None}
        if len(macros) > 1:
            raise TargetError(
                f"the replicas of shard {shard} have different macros shard: "
                f"{', '.join(sorted(macros))}, so they would not be replicas of each other",
                hint="Give all replicas of a shard the same macro.",
            )


def _check_databases(tables: ClusterTables) -> None:
    """Raise TargetError for a database that hands its statements around by itself."""
    for database, there in tables.databases.items():
        for node, engine in there.items():
            if engine == "Replicated":
                raise TargetError(
                    f"the database {database} is Replicated on {node.name}: it takes no "
                    "statement ON CLUSTER",
                    hint="Make the table there first; rowfall loads into it.",
                )


def _database(database: str, cluster: Cluster) -> Ddl:
    make = sql.create_database
    return Ddl(f"database {database}", make(database, cluster.name), make(database))


def _local(
    tables: ClusterTables, cluster: Cluster, schema: Schema | None, *, replicated: bool
) -> Ddl:
    if tables.own.like:
        return _copy(tables.own.like, tables.local, cluster, _shared_uuid(tables))
    if schema is None:
        raise ValueError("a table that no node has needs a schema")
    own = local_schema(tables, cluster, schema, replicated=replicated)
    # ON CLUSTER, the server gives all nodes the same one.
    made_up = str(uuid.uuid4()) if "{uuid}" in own.layout.engine else ""
    both = [
        sql.create_table(*tables.local, own, if_not_exists=True, cluster=cluster.name),
        sql.create_table(*tables.local, own, if_not_exists=True, uuid=made_up),
    ]
    return Ddl(f"table {'.'.join(tables.local)}", *both)


def _shared_uuid(tables: ClusterTables) -> str | None:
    """Return the UUID that a further replica needs to find the others; None when it needs none.

    Raises:
        TargetError: it needs one, and the tables of the other replicas have different ones.
    """
    if "{uuid}" not in tables.own.engine.text:
        return None
    known = sorted(set(tables.own.uuids.values()))
    if len(known) > 1:
        raise TargetError(
            f"{'.'.join(tables.local)} is missing on {tables.own.missing[0].name} and cannot be "
            "made there: its path in Keeper holds the uuid of the table, and the other nodes have "
            f"different ones ({', '.join(known)})",
            hint="Make it there by hand: CREATE TABLE ... UUID '...'.",
        )
    return known[0]


def _copy(like: NodeTable, at: tuple[str, str], cluster: Cluster, uuid_: str | None = None) -> Ddl:
    """Return the statement that makes a table like that of another node.

    Raises:
        TargetError: its definition holds a secret, which the server does not show.
    """
    name = ".".join(at)
    head = _HEAD.match(like.definition)
    if head is None or _HIDDEN in like.definition:
        raise TargetError(
            f"{name} is not on all nodes, and cannot be copied from another one: "
            f"{'its definition holds a secret' if head else 'its definition is not understood'}",
            hint="Make it by hand where it is missing.",
        )
    rest = like.definition[head.end() :]
    both = [
        f"{sql.create_head(*at, uuid=uuid_ or '', cluster=each)} {rest}"
        for each in (cluster.name, "")
    ]
    return Ddl(f"table {name}", *both)


# --- ON CLUSTER ----------------------------------------------------------------------------------

Run = Callable[[str, Mapping[str, str | int | float]], list[list[Any]]]
"""Runs a statement with settings and returns its rows as Python values."""

RunOn = Callable[[Node, str], object]
"""Runs a statement on one node."""

# Making a table takes 0.1 s; a node that is busy with an earlier statement of the queue, longer.
AT_ONCE_SECONDS = 10
# A node that has not come so far in two minutes is stuck or down.
PATIENCE_SECONDS = 120.0
PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _Host:
    """Progress of one node; ``code`` is None as long as it has not run the statement."""

    address: str
    code: int | None
    text: str


def run_on_cluster(
    run: Run,
    asks: Ask,
    cluster: Cluster,
    ddl: Ddl,
    *,
    each: RunOn | None = None,
    patience: float = PATIENCE_SECONDS,
) -> tuple[Node, ...]:
    """Run a statement on all nodes and wait until those that answer have done it.

    Args:
        run, asks: of one server, which need not be in the cluster.
        each: for clusters without a Keeper: runs a statement on one node.
        patience: seconds.

    Returns:
        The nodes that did not answer before and have not done it; they do when they are back, or
        not at all where there is no Keeper.

    Raises:
        TargetError: a node refuses or has not done it in time; a right is missing; the Keeper
            does not answer, or there is none and no ``each``.
    """
    mark = f"rowfall-{uuid.uuid4()}"
    settings: dict[str, str | int | float] = {
        "distributed_ddl_task_timeout": AT_ONCE_SECONDS,
        "distributed_ddl_output_mode": "never_throw",  # one line for each host, whatever happens
        "log_comment": mark,  # the queue keeps it: how to find the statement there
    }
    deadline = time.monotonic() + patience
    try:
        hosts = [_host(row) for row in run(ddl.on_cluster, settings)]
    except RowfallError as error:
        if error.code in NO_KEEPER:
            return _one_by_one(cluster, ddl, each, error)
        lost = error.transient and not error.code
        if not lost and error.code != TIMEOUT_EXCEEDED:
            raise _refused(cluster, ddl, error) from None
        hosts = _queued(asks, mark)
        if not hosts:  # it did not get that far
            raise
    nodes = {node.address: node for node in cluster.nodes}
    while True:
        _check_failures(ddl, hosts, nodes)
        left = [host.address for host in hosts if host.code is None]
        late = [at for at in left if at not in nodes or nodes[at].error is None]
        if not late:
            return tuple(nodes[at] for at in left)
        if time.monotonic() > deadline:
            raise TargetError(
                f"the {ddl.what} was not made in time ON CLUSTER {cluster.name} by "
                f"{', '.join(nodes[at].name if at in nodes else at for at in late)}",
                hint="The statement stays in the cluster's queue (system.distributed_ddl_queue); "
                "run the same command again when these servers have caught up.",
                transient=True,
                code=TIMEOUT_EXCEEDED,
            )
        time.sleep(PAUSE_SECONDS)
        hosts = _queued(asks, mark) or hosts


def _host(row: Sequence[Any]) -> _Host:
    host, port, status, text, *_ = row
    return _Host(f"{host}:{port}", None if status is None else int(status), text or "")


def _queued(asks: Ask, mark: str) -> list[_Host]:
    """Return the state of each host in system.distributed_ddl_queue; [] if it is not readable."""
    try:
        rows = asks(
            "SELECT host, port, exception_code, exception_text FROM system.distributed_ddl_queue "
            f"WHERE settings['log_comment'] = {quote(mark)}"
        )
    except RowfallError:
        return []
    return [_host(row) for row in rows]


def _check_failures(ddl: Ddl, hosts: Sequence[_Host], nodes: Mapping[str, Node]) -> None:
    failed = [host for host in hosts if host.code]
    if failed:
        first = failed[0]
        name = nodes[first.address].name if first.address in nodes else first.address
        more = f" (and {len(failed) - 1} more)" if failed[1:] else ""
        raise TargetError(
            f"the {ddl.what} cannot be made on {name}{more}: {first.text}",
            hint=translate(f"Code: {first.code}. DB::Exception: {first.text}").hint
            or "Other nodes may have it by now; run the same command again when it can be made.",
            code=first.code or 0,
        )


def _one_by_one(
    cluster: Cluster, ddl: Ddl, each: RunOn | None, error: RowfallError
) -> tuple[Node, ...]:
    if each is None:
        raise TargetError(
            f"the {ddl.what} cannot be made ON CLUSTER {cluster.name}: {error.message}",
            hint="Without a Keeper no statement runs ON CLUSTER: make it by hand on each node.",
            code=error.code,
        ) from None
    for node in cluster.up:
        try:
            each(node, ddl.alone)
        except RowfallError as refusal:
            raise TargetError(
                f"the {ddl.what} cannot be made on {node.name}: {refusal.message}",
                hint=refusal.hint,
                transient=refusal.transient,
                code=refusal.code,
            ) from None
    return tuple(node for node in cluster.nodes if node.error is not None)


def _refused(cluster: Cluster, ddl: Ddl, error: RowfallError) -> RowfallError:
    what = f"the {ddl.what} cannot be made ON CLUSTER {cluster.name}"
    if error.code in KEEPER_FAILS:
        return TargetError(
            f"{what}: its Keeper does not answer ({error.message.partition('. nodes:')[0]})",
            hint="Statements ON CLUSTER need Keeper; run the same command again when it is up.",
            transient=True,
            code=error.code,
        )
    hint = error.hint
    if error.code == ACCESS_DENIED and hint is None:
        hint = "The user needs CLUSTER ON *.* and the rights of the statement itself."
    return TargetError(
        f"{what}: {error.message}", hint=hint, transient=error.transient, code=error.code
    )
