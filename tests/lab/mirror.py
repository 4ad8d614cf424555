"""The lab's nodes as clusters of another kind: ``internal_replication`` is off, so that Distributed
tables write to each replica, and the local tables need no Keeper."""

from __future__ import annotations

from lab.cluster import Cluster

NAME, PAIR = "mirror", "pair"
"""All shards, and the first one alone."""

_CLUSTERS = """\
<clickhouse><remote_servers>
  <mirror><secret>mirror</secret>{all}</mirror><pair><secret>pair</secret>{first}</pair>
</remote_servers></clickhouse>
"""
_SHARD = "<shard><internal_replication>false</internal_replication>{replicas}</shard>"
_REPLICA = "<replica><host>127.0.0.1</host><port>{port}</port></replica>"


def configure(cluster: Cluster) -> None:
    """All nodes know both clusters from now on."""
    shards: dict[int, str] = {}
    for node in cluster.nodes:
        shards[node.shard] = shards.get(node.shard, "") + _REPLICA.format(port=node.tcp)
    texts = [_SHARD.format(replicas=replicas) for replicas in shards.values()]
    for number, node in enumerate(cluster.nodes, 1):
        extra = cluster.folder / f"node{number}" / "config.d"
        extra.mkdir(exist_ok=True)
        extra.chmod(0o755)
        (extra / "mirror.xml").write_text(_CLUSTERS.format(all="".join(texts), first=texts[0]))
        node.query("SYSTEM RELOAD CONFIG")


def create(cluster: Cluster, database: str, columns: str, key: str = "rand()") -> None:
    """``t_local``, a MergeTree on every node, and ``t`` over it."""
    for node in cluster.nodes:
        for sql in (
            "CREATE DATABASE IF NOT EXISTS {db}",
            f"CREATE TABLE {{db}}.t_local ({columns}) ENGINE = MergeTree ORDER BY id",
            f"CREATE TABLE {{db}}.t AS {{db}}.t_local ENGINE = Distributed({NAME}, {{db}}, "
            f"t_local, {key})",
        ):
            node.query(sql.replace("{db}", database))
