"""Clusters of another configuration: disks in S3, a disk that is full."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from e2e.fleet import Fleet
from e2e.tools import Shell, csv
from lab.cluster import Cluster
from lab.disk import MountError, SmallDisk
from lab.seaweed import Seaweed

pytestmark = pytest.mark.xdist_group("own clusters")

_DISK = """\
<clickhouse><storage_configuration>
  <disks><lake>
    <type>s3</type><endpoint>{endpoint}/{bucket}/disk/</endpoint>
    <access_key_id>{key}</access_key_id><secret_access_key>{secret}</secret_access_key>
    <region>us-east-1</region><metadata_path>{folder}/lake-metadata/</metadata_path>
  </lake></disks>
  <policies><lake><volumes><main><disk>lake</disk></main></volumes></lake></policies>
</storage_configuration></clickhouse>
"""


_LOCAL = """\
<clickhouse><storage_configuration>
  <disks><lake><type>local</type><path>{path}/</path></lake></disks>
  <policies><lake><volumes><main><disk>lake</disk></main></volumes></lake></policies>
</storage_configuration></clickhouse>
"""


def configured(cluster: Cluster, texts: Sequence[str]) -> None:
    """Start all nodes again, each with some configuration of its own."""
    for number, (node, text) in enumerate(zip(cluster.nodes, texts, strict=True), 1):
        extra = cluster.folder / f"node{number}" / "config.d"
        extra.mkdir(exist_ok=True)
        extra.chmod(0o755)
        (extra / "lake.xml").write_text(text)
        node.stop()
    for node in cluster.nodes:
        node.start()
    cluster.wait()


@pytest.fixture
def fleet(shell: Shell, s3: Seaweed, bucket: str) -> Iterator[Fleet]:
    """One shard of two replicas that share a disk in S3."""
    with Cluster.start(1, 2) as cluster:
        configured(cluster, [
            _DISK.format(
                endpoint=s3.endpoint, bucket=bucket, key=s3.env["AWS_ACCESS_KEY_ID"],
                secret=s3.env["AWS_SECRET_ACCESS_KEY"],
                folder=cluster.folder / f"node{number}" / "data",
            )
            for number in (1, 2)
        ])  # fmt: skip
        yield Fleet(shell, cluster)


@pytest.mark.long
@pytest.mark.parametrize("build", ["off", "on"])
def test_a_second_replica_adds_no_second_copy(
    fleet: Fleet, s3: Seaweed, bucket: str, build: str
) -> None:
    """Also where one replica takes over parts that were built: they are put into the store once."""
    on = "ON CLUSTER lab"
    fleet.do(f"CREATE DATABASE {{db}} {on}")
    fleet.do(
        f"CREATE TABLE {{db}}.t_local {on} (id UInt64, name String) "
        "ENGINE = ReplicatedMergeTree('/clickhouse/{database}/{table}/{shard}', '{replica}') "
        "ORDER BY id SETTINGS storage_policy = 'lake', allow_remote_fs_zero_copy_replication = 1"
    )
    fleet.do(f"CREATE TABLE {{db}}.t {on} AS {{db}}.t_local "
             "ENGINE = Distributed(lab, '{db}', t_local, rand())")  # fmt: skip
    for n in range(4):
        rows = [(i, f"{i * 2654435761 % 2**32:x}") for i in range(n * 20_000, (n + 1) * 20_000)]
        fleet.shell.write(f"in/f{n}.csv", csv(rows, "id", "name"))
    given = ("--table", "t", "--wait", "replicas", "--verify", "--build", build)
    report = fleet.load("in/*.csv", *given)
    assert (report["rows"], report["notes"]) == (80_000, [])
    restored = []
    for node in fleet.cluster.nodes:
        fleet.do("SYSTEM FLUSH LOGS", node)
        restored += fleet.ask(
            node, "SELECT count() > 0 FROM system.query_log WHERE type = 'QueryFinish' AND "
            "query LIKE 'RESTORE TABLE rowfall.parts AS {db}.%' AND query NOT LIKE '%_probe FROM%'"
        )  # fmt: skip
    assert sorted(restored) == ([[0], [1]] if build == "on" else [[0], [0]])
    assert not fleet.left()
    parts = "FROM system.parts WHERE database = '{db}' AND table = 't_local' AND active"
    disks, size = f"SELECT DISTINCT disk_name {parts}", f"SELECT sum(bytes_on_disk) {parts}"
    for node in fleet.cluster.nodes:
        assert fleet.ask(node, disks) == [["lake"]]
        # Read from the store: what the staging table had has not been deleted with it.
        fleet.do("SYSTEM DROP MARK CACHE", node)
        count = "SELECT count(), uniqExact(id), sum(length(name)) > 0 FROM {db}.t_local"
        assert fleet.ask(node, count) == [[80_000, 80_000, 1]]
    one = int(fleet.ask(fleet.cluster.nodes[0], size)[0][0])
    kept = sum(len(s3.get(bucket, key)) for key in s3.list(bucket, "disk/"))
    assert one <= kept < 1.5 * one


@pytest.fixture
def small(shell: Shell) -> Iterator[tuple[Fleet, SmallDisk]]:
    """Two shards; the tables of the second one lie on a disk of 24 MB."""
    folder = Path(tempfile.mkdtemp(prefix="rowfall-small-"))
    folder.chmod(0o755)
    try:
        disk = SmallDisk(folder / "disk", 24)
    except MountError as error:
        pytest.skip(str(error))
    try:
        with Cluster.start(2, 1) as cluster:
            places = [cluster.folder / "node1" / "lake", disk.path / "lake"]
            for place in places:
                place.mkdir()
                place.chmod(0o777)
            configured(cluster, [_LOCAL.format(path=place) for place in places])
            yield Fleet(shell, cluster), disk
    finally:
        disk.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
def test_a_full_disk_of_one_shard_costs_no_row(small: tuple[Fleet, SmallDisk]) -> None:
    fleet, disk = small
    on = "ON CLUSTER lab"
    fleet.do(f"CREATE DATABASE {{db}} {on}")
    fleet.do(f"CREATE TABLE {{db}}.t_local {on} (id UInt64, name String) ENGINE = MergeTree "
             "ORDER BY id SETTINGS storage_policy = 'lake'")  # fmt: skip
    for n in range(8):
        rows = [(i, f"{i * 2654435761 % 2**32:x}" * 4) for i in range(n * 9_000, (n + 1) * 9_000)]
        fleet.shell.write(f"in/f{n}.csv", csv(rows, "id", "name"))
    disk.fill(leave=1 << 20)
    done = fleet.shell.run("load", "in/*.csv", "--table", "t", "--to", fleet.to)
    assert done.code in (1, 5), done.err
    assert f"node 127.0.0.1:{fleet.cluster.nodes[1].tcp}: " in done.talk
    assert "Free some space and run the same command again" in done.talk
    disk.empty()
    fleet.load("in/*.csv", "--table", "t")
    assert fleet.numbers("t") == [72_000, 72_000]
    assert all(fleet.counts("t_local"))
    assert not fleet.left()


@pytest.mark.long  # 13 s: it starts a cluster of its own
def test_shards_in_different_time_zones_are_told(shell: Shell) -> None:
    with Cluster.start(2, 1) as cluster:
        fleet = Fleet(shell, cluster)
        zones = ("Europe/Berlin", "Asia/Tokyo")
        configured(cluster, [f"<clickhouse><timezone>{z}</timezone></clickhouse>" for z in zones])
        for n in range(2):
            shell.write(f"in/f{n}.csv", csv([(n, "2026-07-01 12:00:00")], "id", "at"))
        local = fleet.ok("plan", "in/*.csv", "--table", "t", "--schema", "id UInt8, at DateTime")
        told = " ".join(local.out.replace("!", "").split())
        assert "different time zones (Asia/Tokyo, Europe/Berlin)" in told
        assert "reads at in its own" in told
        named = ("--schema", "id UInt8, at DateTime('UTC')")
        assert "time zones" not in fleet.ok("plan", "in/*.csv", "--table", "t", *named).out
        fleet.load("in/*.csv", "--table", "t", *named)
        ask = "SELECT uniqExact(at), any(toUnixTimestamp(at)) FROM {db}.t"
        assert fleet.ask(fleet.cluster.nodes[0], ask) == [[1, 1782907200]]
