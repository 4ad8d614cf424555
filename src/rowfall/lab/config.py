"""The configuration of one ClickHouse server of the lab: one XML file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from rowfall.core import disk
from rowfall.core.dataclass import dataclass
from rowfall.lab.process import give

# The pools: a server starts a thread for each place in them at once. By default that is 690 threads
# and 148 MB of its own; with these it is 85 and 95 MB (24.10, no tables). Each of the 16 threads
# for asynchronous inserts asks for work 100 times a second: 2.2 % of a core, with one thread 0.4 %.
# `listen_host` is not for the port by which Keepers vote: that is on all addresses without
# `interserver_listen_host` (22.9 and newer).
_CONFIG = """\
<clickhouse>
  <listen_host>127.0.0.1</listen_host>
  <interserver_listen_host>127.0.0.1</interserver_listen_host>
  <http_port>{http}</http_port>
  <tcp_port>{tcp}</tcp_port>
  <path>{data}/</path>
  <tmp_path>{scratch}/</tmp_path>
  <user_files_path>{folder}/user_files/</user_files_path>
  <user_scripts_path>{folder}/user_scripts/</user_scripts_path>
  <format_schema_path>{folder}/format_schemas/</format_schema_path>
  <logger><level>information</level>
    <log>{folder}/service.log</log><size>50M</size><count>1</count></logger>
  <max_server_memory_usage>{memory}</max_server_memory_usage>
  <mark_cache_size>{mark_cache}</mark_cache_size>
  <background_schedule_pool_size>16</background_schedule_pool_size>
  <background_buffer_flush_schedule_pool_size>2</background_buffer_flush_schedule_pool_size>
  <background_message_broker_schedule_pool_size>4</background_message_broker_schedule_pool_size>
  <background_distributed_schedule_pool_size>4</background_distributed_schedule_pool_size>
  <background_fetches_pool_size>4</background_fetches_pool_size>
  <background_common_pool_size>4</background_common_pool_size>
  <background_move_pool_size>2</background_move_pool_size>
  <async_insert_threads>1</async_insert_threads>
  <query_log><database>system</database><table>query_log</table>
    <flush_interval_milliseconds>1000</flush_interval_milliseconds></query_log>
  <part_log><database>system</database><table>part_log</table>
    <flush_interval_milliseconds>1000</flush_interval_milliseconds></part_log>
  <access_control_path>{folder}/access/</access_control_path>
  <users>
    <{user}>
      <password_sha256_hex>{password}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile><quota>default</quota>
      <access_management>1</access_management>
      <named_collection_control>1</named_collection_control>
    </{user}>
  </users>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
{more}</clickhouse>
"""

# Storing metadata in the folder and answering in one round: nothing here needs a second Keeper. It
# elects itself, for which others would have to have the time that it waits (1 to 2 s by default).
_KEEPER = """\
  <keeper_server>
    <tcp_port>{keeper}</tcp_port>
    <server_id>1</server_id>
    <log_storage_path>{folder}/keeper/log</log_storage_path>
    <snapshot_storage_path>{folder}/keeper/snapshots</snapshot_storage_path>
    <coordination_settings>
      <session_timeout_ms>10000</session_timeout_ms>
      <raft_logs_level>warning</raft_logs_level>
      <heart_beat_interval_ms>50</heart_beat_interval_ms>
      <election_timeout_lower_bound_ms>100</election_timeout_lower_bound_ms>
      <election_timeout_upper_bound_ms>200</election_timeout_upper_bound_ms>
    </coordination_settings>
    <raft_configuration>
      <server>
        <id>1</id>
        <hostname>127.0.0.1</hostname>
        <port>{raft}</port>
      </server>
    </raft_configuration>
  </keeper_server>
"""

_REPLICA = """\
  <zookeeper><node><host>127.0.0.1</host><port>{keeper}</port></node></zookeeper>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <interserver_http_port>{interserver}</interserver_http_port>
  <macros><shard>{shard}</shard><replica>{replica}</replica>{cluster}</macros>
  <default_replica_path>/clickhouse/tables/{{uuid}}/{{shard}}</default_replica_path>
  <default_replica_name>{{replica}}</default_replica_name>
"""

_CLUSTER = """\
  <remote_servers><{name}><secret>{secret}</secret>{shards}</{name}></remote_servers>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
"""
_SHARD = "<shard><internal_replication>true</internal_replication>{replicas}</shard>"
_ADDRESS = "<replica><host>127.0.0.1</host><port>{port}</port></replica>"


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """The part of the configuration that all nodes of a cluster share.

    Attributes:
        name: in ``remote_servers``, and the macro.
        secret: by which the nodes trust each other.
        shards: TCP ports of the replicas of each.
    """

    name: str
    secret: str
    shards: Sequence[Sequence[int]]

    def text(self) -> str:
        shards = "".join(
            _SHARD.format(replicas="".join(_ADDRESS.format(port=port) for port in replicas))
            for replicas in self.shards
        )
        return _CLUSTER.format(name=self.name, secret=self.secret, shards=shards)


@dataclass(slots=True)
class Ports:
    """The ports of one server, all on 127.0.0.1.

    Attributes:
        interserver: for replicated tables, 0 for none.
        keeper: of the Keeper that replicated tables use, 0 for none.
        raft: of the Keeper inside this server, 0 where another server runs it.
    """

    http: int
    tcp: int
    interserver: int = 0
    keeper: int = 0
    raft: int = 0


@dataclass(slots=True)
class Config:
    """The part of the configuration that differs between servers; :meth:`text` is the file.

    Attributes:
        data: folder of the tables; may lie on a small file system.
        memory: ``max_server_memory_usage``.
        shard, replica: macros.
        cluster: of which this server is a node.
        more: further XML.
    """

    folder: Path
    data: Path
    ports: Ports
    user: str
    password: str
    memory: int
    shard: str = "1"
    replica: str = ""
    cluster: ClusterConfig | None = None
    more: str = ""

    def text(self) -> str:
        folder = escape(str(self.folder))
        return _CONFIG.format(
            http=self.ports.http,
            tcp=self.ports.tcp,
            folder=folder,
            data=escape(str(self.data)),
            # On the same file system as the data: a full disk is full for both.
            scratch=escape(str(self.data.parent / "scratch")),
            memory=self.memory,
            mark_cache=min(256 << 20, self.memory // 10),
            user=self.user,
            password=hashlib.sha256(self.password.encode()).hexdigest(),
            more="".join(self._more(folder)),
        )

    def _more(self, folder: str) -> list[str]:
        parts, ports = [self.more], self.ports
        if ports.raft:
            parts.append(_KEEPER.format(keeper=ports.keeper, raft=ports.raft, folder=folder))
        if ports.keeper:
            cluster = f"<cluster>{self.cluster.name}</cluster>" if self.cluster else ""
            parts.append(_REPLICA.format(keeper=ports.keeper, interserver=ports.interserver,
                                         shard=escape(self.shard), replica=escape(self.replica),
                                         cluster=cluster))  # fmt: skip
        if self.cluster:
            parts.append(self.cluster.text())
        return parts

    def write(self, path: Path) -> None:
        """Replace the file at once: the server reads it at any time."""
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)  # of a run that was killed, or a link of the server's user
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(disk.open_own(new, flags), "w", encoding="utf-8") as file:
            give(file.fileno())
            file.write(self.text())
        new.rename(path)
