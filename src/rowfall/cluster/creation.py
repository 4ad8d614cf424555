"""The statements that make what a cluster lacks of a table: databases, local tables, Distributed.

Each is there in two forms: ON CLUSTER, and for one node alone where the cluster has no Keeper to
hand statements around. All of them say IF NOT EXISTS, so they may be repeated.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace

from rowfall.cluster.discover import Cluster, Node
from rowfall.cluster.engine_text import Engine, macros_of, parse
from rowfall.cluster.tables import Found, Tables
from rowfall.core import sql
from rowfall.core.errors import TargetError
from rowfall.core.model import Schema
from rowfall.core.sqltext import quote

SHARDING_KEY = "rand()"
# With the uuid a dropped table and the next of its name do not meet in Keeper, where the first
# stays for eight minutes.
_PATH, _PATH_BY_NAME = "/clickhouse/tables/{uuid}/{shard}", "/clickhouse/tables/{shard}/%s/%s"
_REPLICA = "{replica}"
# Macros that the server knows by itself.
_OWN_MACROS = frozenset({"uuid", "database", "table", "server_uuid"})
_HEAD = re.compile(
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


def statements(
    tables: Tables,
    cluster: Cluster,
    schema: Schema | None = None,
    *,
    sharding_key: str = "",
    replicated: bool = False,
) -> tuple[Ddl, ...]:
    """What has to be run, in this order, until every node has the tables; () when nothing is.

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
    if tables.missing:
        _check_databases(tables)
        made.append(_local(tables, cluster, schema, replicated=replicated or cluster.replicated))
    if tables.missing_over:
        at = (tables.database, tables.table)
        if tables.like_over:
            made.append(_copy(tables.like_over, at, cluster))
        else:
            key = sharding_key or SHARDING_KEY
            both = [
                sql.create_distributed(at, tables.local, cluster.name, key, everywhere=everywhere)
                for everywhere in (True, False)
            ]
            made.append(Ddl(f"table {'.'.join(at)}", *both))
    return tuple(made)


def local_schema(tables: Tables, cluster: Cluster, schema: Schema, *, replicated: bool) -> Schema:
    """The schema with the engine that the local table gets.

    Raises:
        TargetError: not a MergeTree; a macro that the replicas need is missing or wrong.
    """
    engine = parse(schema.engine)
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
    return replace(schema, engine=engine.text)


def check_macros(cluster: Cluster, engine: Engine) -> None:
    """Whether the nodes have the macros of a replicated engine, and the right ones.

    Raises:
        TargetError: names the node and the macro.
    """
    path, replica = engine.arguments[:2] if len(engine.arguments) > 1 else ("", "")
    needed = [m for m in macros_of(f"{path} {replica}") if m not in _OWN_MACROS]
    for node in cluster.up:
        if absent := [macro for macro in needed if macro not in node.macros]:
            nothing = not any(other.macros for other in cluster.up)
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
        by_macro[node.macros["shard"]].append(node)
    for macro, nodes in by_macro.items():
        first, seen = nodes[0], dict[str, Node]()
        for node in nodes:
            if node.shard != first.shard:
                raise TargetError(
                    f"{first.name} and {node.name} have the same macro shard = {macro!r}, so they "
                    "would be replicas of each other",
                    hint="Give every shard a macro of its own.",
                )
            twin = seen.setdefault(node.macros["replica"], node)
            if twin is not node:
                raise TargetError(
                    f"{twin.name} and {node.name} have the same macro replica = "
                    f"{node.macros['replica']!r}",
                    hint="Give every replica of a shard a macro of its own.",
                )
    for shard in cluster.shards:
        macros = {node.macros["shard"] for node in cluster.of(shard) if not node.error}
        if len(macros) > 1:
            raise TargetError(
                f"the replicas of shard {shard} have different macros shard: "
                f"{', '.join(sorted(macros))}, so they would not be replicas of each other",
                hint="Give all replicas of a shard the same macro.",
            )


def _check_databases(tables: Tables) -> None:
    """Raises TargetError for a database that hands its statements around by itself."""
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


def _local(tables: Tables, cluster: Cluster, schema: Schema | None, *, replicated: bool) -> Ddl:
    if tables.like:
        return _copy(tables.like, tables.local, cluster, _shared_uuid(tables))
    if schema is None:
        raise ValueError("a table that no node has needs a schema")
    own = local_schema(tables, cluster, schema, replicated=replicated)
    # ON CLUSTER, the server gives all nodes the same one.
    made_up = str(uuid.uuid4()) if "{uuid}" in own.engine else ""
    both = [
        sql.create_table(*tables.local, own, if_not_exists=True, cluster=cluster.name),
        sql.create_table(*tables.local, own, if_not_exists=True, uuid=made_up),
    ]
    return Ddl(f"table {'.'.join(tables.local)}", *both)


def _shared_uuid(tables: Tables) -> str:
    """The uuid that a further replica needs to find the others; "" when it does not matter.

    Raises:
        TargetError: it does, and the tables do not have the same.
    """
    if "{uuid}" not in tables.engine.text:
        return ""
    known = sorted(set(tables.uuids.values()))
    if len(known) > 1:
        raise TargetError(
            f"{'.'.join(tables.local)} is missing on {tables.missing[0].name} and cannot be made "
            "there: its path in Keeper holds the uuid of the table, and the other nodes have "
            f"different ones ({', '.join(known)})",
            hint="Make it there by hand: CREATE TABLE ... UUID '...'.",
        )
    return known[0]


def _copy(like: Found, at: tuple[str, str], cluster: Cluster, uuid_: str = "") -> Ddl:
    """A table like that of another node.

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
        f"{sql.create_head(*at, uuid=uuid_, cluster=name_)} {rest}" for name_ in (cluster.name, "")
    ]
    return Ddl(f"table {name}", *both)
