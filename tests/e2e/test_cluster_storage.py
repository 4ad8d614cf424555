"""Tables on a disk in S3, shared by their replicas: one copy of the data, and every row once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.fleet import Fleet
from e2e.tools import Shell, csv
from lab.cluster import Cluster
from lab.seaweed import Seaweed

pytestmark = pytest.mark.xdist_group("storage")

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


@pytest.fixture
def fleet(shell: Shell, s3: Seaweed, bucket: str) -> Iterator[Fleet]:
    """One shard of two replicas that share a disk in S3."""
    with Cluster.start(1, 2) as cluster:
        for number, node in enumerate(cluster.nodes, 1):
            folder = cluster.folder / f"node{number}"
            extra = folder / "config.d"
            extra.mkdir(exist_ok=True)
            extra.chmod(0o755)
            text = _DISK.format(
                endpoint=s3.endpoint, bucket=bucket, key=s3.env["AWS_ACCESS_KEY_ID"],
                secret=s3.env["AWS_SECRET_ACCESS_KEY"], folder=folder / "data",
            )  # fmt: skip
            (extra / "lake.xml").write_text(text)
            node.stop()
        for node in cluster.nodes:
            node.start()
        cluster.wait()
        yield Fleet(shell, cluster)


def test_a_second_replica_adds_no_second_copy(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
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
    report = fleet.load("in/*.csv", "--table", "t", "--wait", "replicas", "--verify")
    assert report["rows"] == 80_000
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
