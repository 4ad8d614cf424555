"""Loads into one server, whose table is one of several: refuse them with the URL that works.

What was loaded is known to a journal on one server. A table that other servers hold as well has one
journal for all of them, so a load has to name the cluster, whichever of them it connects to.
"""

from __future__ import annotations

import shlex

from rowfall.cluster.topology import on_nodes
from rowfall.core import uri
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.model import Ask
from rowfall.core.sqltext import quote

# Each costs a question to its nodes; no server is in so many clusters with replicas of its own.
_MOST_CLUSTERS = 16


def check_alone(ask: Ask, to: str, database: str, table: str) -> None:
    """Check that a replicated table has no other replica than the one on this server.

    Args:
        to: the target as typed, without secrets.

    Raises:
        UsageError: it has, and names the cluster where the configuration has one.
        TargetError: Keeper does not say how many replicas there are, or the user may not ask.
    """
    which = f"database = {quote(database)} AND table = {quote(table)}"
    select = (
        f"SELECT zookeeper_path AS path, total_replicas AS total FROM system.replicas WHERE {which}"
    )
    found = ask(select)
    if not found or not found[0][1]:
        why = "Keeper does not answer the server" if found else "system.replicas does not show it"
        right = "The user may need the right SELECT ON system.replicas."
        raise TargetError(
            f"nobody says how many replicas {database}.{table} has: {why}",
            hint="Run the same command again when Keeper is back." if found else right,
            transient=bool(found),
        )
    path, total = str(found[0][0]), int(found[0][1])
    if total > 1:
        clusters = _clusters(ask, select, path, total)
        raise _refused(to, f"{database}.{table} has {total} replicas", clusters)


def _refused(to: str, why: str, clusters: list[str]) -> UsageError:
    """Return the error that names the URL of the best cluster."""
    message = f"{why}, and one server alone does not know what was loaded through the others"
    if not clusters:
        return UsageError(
            message,
            hint="Add a cluster with all of them to remote_servers in the configuration of each "
            "server, and name it: --to 'clickhouse://host:8123/database?cluster=NAME'.",
        )
    sign = "&" if "?" in to else "?"
    more = f" (or {', '.join(clusters[1:])})" if clusters[1:] else ""
    url = f"{to}{sign}cluster={uri.encode(clusters[0])}"
    return UsageError(message, hint=f"Name their cluster{more}: --to {shlex.quote(url)}.")


def _clusters(ask: Ask, select: str, path: str, total: int) -> list[str]:
    """Return the clusters of which one shard has all replicas of this table, the best first.

    The best one has the table on most nodes: a table on two shards is not that of one of them.
    """
    shapes: dict[str, list[tuple[int, bool]]] = {}
    for name, shard, here in ask(
        "SELECT cluster, shard_num, is_local FROM system.clusters WHERE cluster IN "
        "(SELECT cluster FROM system.clusters WHERE is_local) ORDER BY cluster, shard_num, "
        "replica_num"
    ):
        shapes.setdefault(str(name), []).append((int(shard), bool(here)))
    found: list[tuple[int, str]] = []
    for name, nodes in list(shapes.items())[:_MOST_CLUSTERS]:
        own, there = {shard for shard, here in nodes if here}, 0
        try:
            rows = ask(on_nodes(name, select))
            own = {nodes[int(number) - 1][0] for number, its, _ in rows if its == path}
            there = len(rows)
        except RowfallError:
            pass  # no right REMOTE, or no node answers: its size has to do
        if len(own) == 1 and sum(shard in own for shard, _ in nodes) >= total:
            found.append((-there, name))
    return [name for _, name in sorted(found)]
