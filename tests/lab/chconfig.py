"""The configuration of the lab's ClickHouse: one XML file, written anew when a switch changes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from lab.process import ServiceError

_CONFIG = """\
<clickhouse>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{http}</http_port>
  <tcp_port>{tcp}</tcp_port>
  <path>{data}/</path>
  <tmp_path>{scratch}/</tmp_path>
  <user_files_path>{folder}/user_files/</user_files_path>
  <user_scripts_path>{folder}/user_scripts/</user_scripts_path>
  <format_schema_path>{folder}/format_schemas/</format_schema_path>
  <logger><level>information</level><console>true</console></logger>
  <max_server_memory_usage>{memory}</max_server_memory_usage>
  <mark_cache_size>{mark_cache}</mark_cache_size>
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

_TLS = """\
  <https_port>{https}</https_port>
  <openSSL><server>
    <certificateFile>{certificate}</certificateFile>
    <privateKeyFile>{key}</privateKeyFile>
    <verificationMode>none</verificationMode>
    <loadDefaultCAFile>false</loadDefaultCAFile>
  </server></openSSL>
"""

# Storing metadata in the folder and answering in one round: nothing here needs a second Keeper.
_KEEPER = """\
  <keeper_server>
    <tcp_port>{keeper}</tcp_port>
    <server_id>1</server_id>
    <log_storage_path>{folder}/keeper/log</log_storage_path>
    <snapshot_storage_path>{folder}/keeper/snapshots</snapshot_storage_path>
    <coordination_settings>
      <session_timeout_ms>10000</session_timeout_ms>
      <raft_logs_level>warning</raft_logs_level>
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
  <macros><cluster>lab</cluster><shard>{shard}</shard><replica>{replica}</replica></macros>
  <default_replica_path>/clickhouse/tables/{{uuid}}/{{shard}}</default_replica_path>
  <default_replica_name>{{replica}}</default_replica_name>
"""

_KEEP_FREE = """\
  <storage_configuration><disks><default>
    <keep_free_space_bytes>{bytes}</keep_free_space_bytes>
  </default></disks></storage_configuration>
"""


@dataclass(slots=True)
class Config:
    """What differs between the lab's servers; :meth:`text` is the file.

    Attributes:
        data: folder of the tables; may lie on a small file system.
        memory: ``max_server_memory_usage``.
        https: port, 0 for none; then the folder holds ``server.crt`` and ``server.key``.
        keeper: port of the Keeper that replicated tables use, 0 for none.
        raft: port of the Keeper inside this server, 0 where another server runs it.
        interserver, replica: port and name for replicated tables.
        shard: the macro.
        cluster: sections about a cluster of which this server is a node.
        keep_free: bytes of the disk that the server refuses to fill.
    """

    folder: Path
    data: Path
    http: int
    tcp: int
    user: str
    password: str
    memory: int
    https: int = 0
    keeper: int = 0
    raft: int = 0
    interserver: int = 0
    replica: str = ""
    shard: str = "1"
    cluster: str = ""
    keep_free: int = 0

    def text(self) -> str:
        folder = escape(str(self.folder))
        data = escape(str(self.data))
        return _CONFIG.format(
            http=self.http,
            tcp=self.tcp,
            folder=folder,
            data=data,
            # On the same file system as the data: a full disk is full for both.
            scratch=escape(str(self.data.parent / "scratch")),
            memory=self.memory,
            mark_cache=min(256 << 20, self.memory // 10),
            user=self.user,
            password=hashlib.sha256(self.password.encode()).hexdigest(),
            more="".join(self._more(folder)),
        )

    def _more(self, folder: str) -> list[str]:
        parts = []
        if self.https:
            parts.append(_TLS.format(https=self.https, certificate=f"{folder}/server.crt",
                                     key=f"{folder}/server.key"))  # fmt: skip
        if self.raft:
            parts.append(_KEEPER.format(keeper=self.keeper, raft=self.raft, folder=folder))
        if self.keeper:
            parts.append(_REPLICA.format(keeper=self.keeper, interserver=self.interserver,
                                         shard=self.shard,
                                         replica=escape(self.replica)))  # fmt: skip
        parts.append(self.cluster)
        # Even 0 is written: a disk that the file no longer names keeps its last value.
        return [*parts, _KEEP_FREE.format(bytes=self.keep_free)]


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and localhost that signs itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ServiceError("openssl is not installed; the tests of TLS need it")
    made, key = folder / "server.crt", folder / "server.key"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
    done = subprocess.run(
        [*command, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
         "-keyout", str(key), "-out", str(made)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ServiceError(f"openssl: {done.stderr.strip()}")
    return made, key
