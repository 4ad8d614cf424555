"""The tables of a load on the nodes of a cluster: what there is, and whether it can be loaded.

Rows go into a local table on each shard; a Distributed table over it shows all of them. Where the
table itself is a MergeTree on the shards, it is the local one, and nothing is put over it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from itertools import combinations
from typing import Any, TypeVar

from rowfall.cluster.topology import Cluster, Node, on_nodes
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.model import Ask
from rowfall.core.patterns import regex
from rowfall.core.sql import closing, items, tokens
from rowfall.core.sqltext import quote, quoted_list
from rowfall.schema.types.wider_types import lossless
from rowfall.systems.clickhouse.codes import ACCESS_DENIED

LOCAL_SUFFIX = "_local"
"""End of the name of the local tables that rowfall makes."""

_CALL = regex(r"\s*(\w+)\s*(\(?)")
_QUOTED = regex(r"\s*'((?:[^'\\]|\\.|'')*)'\s*\Z", re.DOTALL)
_ESCAPED = regex(r"\\(x[0-9A-Fa-f]{2}|.)|''", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_MACRO = regex(r"\{(\w+)\}")
_FAMILY = regex(r"(Replicated|Shared)?(\w*MergeTree)\Z")
# The path in Keeper and the name of the replica.
_OWN_ARGUMENTS = 2
_Value = TypeVar("_Value")


# What an INSERT may name.
FILLED = ("", "DEFAULT")
# One line of each node at least, so that a node without the tables differs from one that does not
# answer. The names of all tables at once: what it costs is the statement, 8 ms of CPU on each node,
# not what it asks for (joins cost a quarter more than a union).
_TABLES = """\
SELECT 'node' AS kind, '' AS base, '' AS name, '' AS one, '' AS two, '' AS three, '' AS four,
    '' AS five, toUInt64(0) AS place
UNION ALL SELECT 'database', name, '', engine, '', '', '', '', 0
    FROM system.databases WHERE name IN ({databases})
UNION ALL SELECT 'table', database, name, if(engine_full = '', tables.engine, engine_full),
    toString(uuid), create_table_query, partition_key, sorting_key, 0
    FROM system.tables WHERE database IN ({databases}) AND name IN ({tables})
UNION ALL SELECT 'column', database, table, name, type, default_kind, '', '', position
    FROM system.columns WHERE database IN ({databases}) AND table IN ({tables})"""


@dataclass(frozen=True, slots=True)
class TableEngine:
    """A table engine: its name and its arguments as they are written.

    Attributes:
        rest: what follows: ORDER BY, SETTINGS and so on.
    """

    name: str
    arguments: tuple[str, ...] = ()
    rest: str = ""

    @property
    def replicated(self) -> bool:
        """True when all replicas of a shard get what one of them has."""
        match = _FAMILY.match(self.name)
        return match is not None and bool(match[1])

    @property
    def merge_tree(self) -> bool:
        return _FAMILY.match(self.name) is not None

    @property
    def meaning(self) -> str:
        """Return the engine without the arguments that differ from replica to replica."""
        own = _OWN_ARGUMENTS if self.replicated and _is_path(self.arguments) else 0
        return f"{self.name}({', '.join(self.arguments[own:])})"

    @property
    def text(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})" if self.arguments else self.name

    def replicate(self, path: str, replica: str) -> TableEngine:
        """Return the replicated engine of the same family; itself when it is one."""
        if self.replicated:
            return self
        return TableEngine(f"Replicated{self.name}", (path, replica, *self.arguments), self.rest)


@dataclass(frozen=True, slots=True)
class Distributed:
    """The arguments of a Distributed table.

    Attributes:
        cluster: may hold macros.
        database: "" for each server's own default.
        sharding_key: "" when there is none.
    """

    cluster: str
    database: str
    table: str
    sharding_key: str = ""


_NO_ENGINE = TableEngine("")


@dataclass(frozen=True, slots=True)
class NodeTable:
    """A table on one node.

    Attributes:
        definition: its CREATE TABLE, with secrets hidden.
        columns: name, type and kind ("", ``DEFAULT``, ``MATERIALIZED``, ...), in order.
    """

    engine: TableEngine
    uuid: str
    definition: str
    partition_by: str
    order_by: str
    columns: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class LocalTables:
    """The tables of one name that hold the rows, on all nodes.

    Attributes:
        engine: its name is "" where there is none yet.
        missing: nodes (of those that answer) without it.
        like: that of some node, to make others after.
    """

    engine: TableEngine = _NO_ENGINE
    missing: tuple[Node, ...] = ()
    like: NodeTable | None = None
    uuids: Mapping[Node, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DistributedTables:
    """The Distributed tables over local ones, on all nodes.

    Attributes:
        sharding_key: "" without one.
        missing: nodes (of those that answer) without it.
        like: that of some node, to make others after.
    """

    sharding_key: str = ""
    missing: tuple[Node, ...] = ()
    like: NodeTable | None = None


@dataclass(frozen=True, slots=True)
class ClusterTables:
    """The tables behind ``database.table``.

    Attributes:
        local: database and name of the table on each shard that gets the rows.
        direct: ``database.table`` is itself the local table; there is no Distributed over it.
        columns: name and type of those that an INSERT may name; () where there is no table yet.
        databases: for each of the two databases, its engine on each node that has it.
        own: the local tables. ``over``: the Distributed ones over them.
    """

    database: str
    table: str
    local: tuple[str, str]
    direct: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    databases: Mapping[str, Mapping[Node, str]] = field(default_factory=dict)
    own: LocalTables = field(default_factory=LocalTables)
    over: DistributedTables = field(default_factory=DistributedTables)

    @property
    def exists(self) -> bool:
        """True when some node has the local table, so that its columns are given."""
        return self.own.like is not None

    @property
    def complete(self) -> bool:
        """True when nothing has to be made on the nodes that answer."""
        return not (self.own.missing or self.over.missing)


def find_tables(
    asks: Ask, cluster: Cluster, database: str, table: str, *, altering: bool = False
) -> ClusterTables:
    """Find what the nodes that answer have of ``database.table``, in three small statements.

    Args:
        altering: columns may be wider on some nodes, or be there on some only: what an ALTER has
            left that was stopped between two nodes. ``like`` is then the widest table.

    Raises:
        TargetError: the tables of the nodes differ, are of a kind that cannot be loaded, belong to
            another cluster, or are replicated in another way than the cluster's shards.
    """
    named, usual = (database, table), (database, table + LOCAL_SUFFIX)
    bases, tables = _found(asks, cluster, named, usual)
    there = tables[named]
    over = _over(cluster, there, f"{database}.{table}")
    direct = bool(there) and over is None
    at = (over.database, over.table) if over else named if direct else usual
    if at not in tables:  # a Distributed table over one of another name
        more, tables = _found(asks, cluster, at)
        bases |= more
    ours = tables[at]
    name = ".".join(at)
    _check_kinds(ours, name)
    _check_alike(ours, name, _layout)
    widest = _widest(ours)
    if not (altering and widest):
        try:
            _check_alike(ours, name, _differences)
        except TargetError as error:
            # Another load may be adding or widening columns: some nodes are faster than others.
            error.transient = widest is not None
            raise
    _check_replicas(cluster, ours, _paths(asks, cluster, ours, at), name)
    like = (widest if altering else None) or next(iter(ours.values()), None)
    return ClusterTables(
        database,
        table,
        at,
        direct,
        tuple((n, t) for n, t, kind in like.columns if kind in FILLED) if like else (),
        bases,
        LocalTables(
            like.engine if like else _NO_ENGINE,
            tuple(node for node in cluster.up if node not in ours),
            like,
            {node: found.uuid for node, found in ours.items()},
        ),
        DistributedTables(
            over.sharding_key if over else "",
            () if direct else tuple(node for node in cluster.up if node not in there),
            next(iter(there.values()), None) if over else None,
        ),
    )


def column_types(
    asks: Ask, cluster: Cluster, tables: ClusterTables
) -> dict[tuple[str, str], dict[Node, dict[str, str]]]:
    """Return names and types of the columns on each node, of the local and the Distributed table.

    The local one comes first.
    """
    names = [tables.local]
    if not tables.direct:
        names.append((tables.database, tables.table))
    _, found = _found(asks, cluster, *names)
    return {
        name: {node: {n: t for n, t, _ in one.columns} for node, one in found[name].items()}
        for name in names
    }


def _widest(ours: Mapping[Node, NodeTable]) -> NodeTable | None:
    """Return the table whose columns take the values of all others; None where there is none."""
    for one in ours.values():
        own = {name: (type_, kind) for name, type_, kind in one.columns}
        if all(
            name in own and kind == own[name][1] and lossless(type_, own[name][0])
            for other in ours.values()
            for name, type_, kind in other.columns
        ):
            return one
    return None


def _layout(found: NodeTable) -> Mapping[str, str]:
    """Return the properties of a table, besides columns, that all nodes must have alike."""
    return {k: v for k, v in _differences(found).items() if not k.startswith("column ")}


def _found(
    asks: Ask, cluster: Cluster, *names: tuple[str, str]
) -> tuple[dict[str, dict[Node, str]], dict[tuple[str, str], dict[Node, NodeTable]]]:
    """Return the engine of each database and each table, by the nodes that have them.

    Raises:
        TargetError: a node has stopped answering: what it has must not be taken for missing.
    """
    databases, tables = (quoted_list(sorted(set(part))) for part in zip(*names, strict=True))
    rows = asks(on_nodes(cluster.name, _TABLES.format(databases=databases, tables=tables)))
    answers: defaultdict[int, list[list[Any]]] = defaultdict(list)
    for number, *line in rows:
        answers[int(number)].append(line)
    bases: dict[str, dict[Node, str]] = {database: {} for database, _ in names}
    found: dict[tuple[str, str], dict[Node, NodeTable]] = {name: {} for name in names}
    for number, node in enumerate(cluster.nodes, 1):
        if node.error is not None:
            continue
        if number not in answers:
            raise TargetError(
                f"{node.name} of the cluster {cluster.name!r} does not answer any more",
                hint="Run the same command again when it is back.",
                transient=True,
            )
        lines = sorted(answers[number], key=lambda line: int(line[-1]))
        for kind, base, table, *facts, _ in lines:
            if kind == "database":
                bases[base][node] = facts[0]
            elif kind == "table" and (base, table) in found:
                engine, uuid, definition, partition_by, order_by = facts
                columns = tuple(
                    (line[3], line[4], line[5])
                    for line in lines
                    if line[:3] == ["column", base, table]
                )
                found[base, table][node] = NodeTable(
                    parse_engine(engine), uuid, definition, partition_by, order_by, columns
                )
    return bases, found


def _over(cluster: Cluster, there: Mapping[Node, NodeTable], name: str) -> Distributed | None:
    """Return the arguments of a Distributed table; None for a table of another kind, or none.

    Raises:
        TargetError: only some nodes have a Distributed one, or they have different ones; it has
            the shards of another cluster.
    """
    if not any(found.engine.name == "Distributed" for found in there.values()):
        return None
    _check_alike(there, name, _kinds)
    distributed_as = {}
    for node, found in there.items():
        asked = distributed(found.engine)
        on = expand_macros(asked.cluster, node.facts.macros)
        if unknown := macros_of(on):
            raise TargetError(
                f"the cluster of the Distributed table {name}, {asked.cluster!r}, is unknown "
                f"on {node.name}: the macro {unknown[0]!r} is not known",
                hint="The user may need the right SELECT ON system.macros.",
            )
        if on != cluster.name:
            raise TargetError(
                f"the Distributed table {name} shows the cluster {on!r}, not {cluster.name!r} "
                f"(on {node.name})",
                hint=f"Load with ?cluster={on}, or into another table.",
            )
        if not asked.database:
            raise TargetError(
                f"the Distributed table {name} names no database for its local tables",
                hint="Make it with one: Distributed(cluster, database, table).",
            )
        distributed_as[node] = replace(asked, cluster=on)
    _check_alike(distributed_as, name, lambda x: {"local table": f"{x.database}.{x.table}"})
    return next(iter(distributed_as.values()))


def _check_kinds(ours: Mapping[Node, NodeTable], name: str) -> None:
    """Raise TargetError where a local table is no MergeTree."""
    for node, found in ours.items():
        if not found.engine.merge_tree:
            raise TargetError(
                f"{name} is a {found.engine.name or 'table without an engine'} on {node.name}, "
                "and a load into a cluster needs a MergeTree on each shard",
                hint="Name a Distributed table, or a MergeTree that is on every shard.",
            )


def _kinds(found: NodeTable) -> Mapping[str, str]:
    return {"engine": found.engine.name}


def _differences(found: NodeTable) -> Mapping[str, str]:
    """Return the facts that have to be the same on all nodes, by name."""
    columns = {f"column {n}": f"{t} {kind}".strip() for n, t, kind in found.columns}
    return {
        "engine": found.engine.meaning,
        "PARTITION BY": found.partition_by,
        "ORDER BY": found.order_by,
        **columns,
    }


def _check_alike(
    tables: Mapping[Node, _Value], name: str, facts: Callable[[_Value], Mapping[str, str]]
) -> None:
    """Raise a TargetError that names the first node that differs, and the difference."""
    if not tables:
        return
    (first, like), *others = tables.items()
    wanted = facts(like)
    for node, found in others:
        has = facts(found)
        for what in (*wanted, *has):
            ours, its = wanted.get(what) or "missing", has.get(what) or "missing"
            if ours != its:
                raise TargetError(
                    f"{name} is not the same on all nodes: {what} is {its} on {node.name}, "
                    f"and {ours} on {first.name}",
                    hint="Make the tables alike first.",
                )


def _paths(
    asks: Ask, cluster: Cluster, ours: Mapping[Node, NodeTable], at: tuple[str, str]
) -> dict[Node, str]:
    """Return the paths in Keeper of replicated tables, as far as this user may see them."""
    if not any(found.engine.replicated for found in ours.values()):
        return {}
    database, table = map(quote, at)
    of = f"database = {database} AND table = {table}"
    select = f"SELECT zookeeper_path AS path FROM system.replicas WHERE {of}"
    try:
        rows = asks(on_nodes(cluster.name, select))
    except RowfallError as error:
        if error.code != ACCESS_DENIED:
            raise
        return {}
    return {cluster.nodes[int(number) - 1]: path for number, path in rows}


def _check_replicas(
    cluster: Cluster, ours: Mapping[Node, NodeTable], paths: Mapping[Node, str], name: str
) -> None:
    """Raise TargetError where rows would miss a replica of their shard, or reach another shard."""
    for node, found in ours.items():
        copied = found.engine.replicated or cluster.internal_replication is False
        if not copied and len(cluster.of(node.shard)) > 1:
            raise TargetError(
                f"shard {node.shard} has {len(cluster.of(node.shard))} replicas, but {name} is a "
                f"{found.engine.name}, which keeps rows on the server that got them",
                hint="Make it a Replicated one, or name a cluster of which each shard is one "
                "server, or whose Distributed tables write to each replica "
                "(internal_replication = 0).",
            )
    for (one, path), (other, its) in combinations(paths.items(), 2):
        if (one.shard == other.shard) != (path == its):
            how = "different paths" if path != its else "the same path"
            raise TargetError(
                f"{name} has {how} in Keeper on {one.name} and {other.name} ({path}"
                f"{'' if path == its else f', {its}'}), so rows would be "
                f"{'missing on one of them' if path != its else 'in both shards'}",
                hint="Check the macros shard and replica of these servers, and make the table "
                "again.",
            )


# --- table engines as ``system.tables`` writes them ----------------------------------------------


def parse_engine(text: str) -> TableEngine:
    """Parse ``engine_full`` of a table, or the engine of a schema.

    Raises:
        ValueError: it does not look like an engine.
    """
    match = _CALL.match(text)
    if match is None:
        raise ValueError(f"no table engine: {text[:80]!r}")
    if not match[2]:
        return TableEngine(match[1], (), text[match.end() :].strip())
    words = tokens(text[match.end() - 1 :])
    try:
        end = closing(words, 0)
    except ValueError:
        raise ValueError(f"a table engine without an end: {text[:80]!r}") from None
    return TableEngine(match[1], tuple(items(words[1:end])), "".join(words[end + 1 :]).strip())


def distributed(engine: TableEngine) -> Distributed:
    """Return the arguments of a Distributed engine.

    Raises:
        ValueError: there are too few, or they are no names.
    """
    if engine.name != "Distributed" or len(engine.arguments) < 3:
        raise ValueError(f"no Distributed engine: {engine.text[:80]!r}")
    cluster, database, table = (literal_value(argument) for argument in engine.arguments[:3])
    return Distributed(
        cluster, database, table, engine.arguments[3] if engine.arguments[3:] else ""
    )


def literal_value(argument: str) -> str:
    """Return the text that a string literal or a name stands for."""
    quoted = _QUOTED.match(argument)
    if quoted is None:
        return argument.strip().strip('`"')
    return _ESCAPED.sub(_unescape, quoted[1])


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return "'"
    return chr(int(code[1:], 16)) if len(code) == 3 else _ESCAPES.get(code, code)


def macros_of(text: str) -> tuple[str, ...]:
    """Return the names of the macros in a text."""
    return tuple(dict.fromkeys(_MACRO.findall(text)))


def expand_macros(text: str, macros: Mapping[str, str]) -> str:
    """Return the text with the macros of a node in place; unknown ones stay."""
    return _MACRO.sub(lambda match: macros.get(match[1], match[0]), text)


def _is_path(arguments: tuple[str, ...]) -> bool:
    return len(arguments) >= _OWN_ARGUMENTS and all(
        _QUOTED.match(argument) for argument in arguments[:_OWN_ARGUMENTS]
    )
