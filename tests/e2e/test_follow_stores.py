"""Buckets, web servers and lake tables that are followed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from e2e.following import Follower
from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from lab.seaweed import Seaweed
from rowfall.core.errors import SourceError, UsageError
from rowfall.run import follow, object_watch


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def csv(*numbers: int) -> bytes:
    return b"a\n" + b"".join(b"%d\n" % n for n in numbers)


def rows(shell: Shell) -> list[int]:
    return [row[0] for row in shell.rows("SELECT a FROM t ORDER BY a", "--to", "d")]


@pytest.mark.long
def test_a_bucket_that_is_empty_at_first(shell: Shell, s3: Seaweed, bucket: str) -> None:
    """New, late and overwritten objects; what is hidden or of no known format is left out."""

    def put(key: str, *numbers: int) -> Callable[[], object]:
        return lambda: s3.put(bucket, key, csv(*numbers))

    follower = Follower(
        put("in/m.csv", 1),
        put("in/a/late.csv", 2),
        put("in/m.csv", 3),
        put("in/_hidden.csv", 9),
        put("in/notes.txtx", 9),
        put("other/x.csv", 9),
    )
    with environment(s3.env):
        follower.run(f"s3://{bucket}/in/", shell.folder / "d")
        assert rows(shell) == [1, 2, 3]
        s3.put(bucket, "in/b.csv", csv(4))
        report = Follower().run(f"s3://{bucket}/in/**/*.csv", shell.folder / "d")
    assert report.rows == 2  # and _hidden.csv, which a glob names
    assert rows(shell) == [1, 2, 3, 4, 9]


def test_a_bucket_has_to_be_there_at_first(shell: Shell, s3: Seaweed) -> None:
    with environment(s3.env), pytest.raises(SourceError, match="no bucket"):
        Follower().run("s3://never-was/in/", shell.folder / "d")


def test_a_bucket_that_vanishes_and_keys_that_are_refused_for_a_while(
    shell: Shell, s3: Seaweed, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is waited for: the first by its listing, the keys when they are read again."""
    monkeypatch.setattr(follow, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(object_watch, "AGAIN_SECONDS", 0.01)
    s3.put(bucket, "in/a.csv", csv(1))
    secret = s3.env["AWS_SECRET_ACCESS_KEY"]

    def vanish() -> None:
        s3.delete(bucket, "in/a.csv")
        s3._client.delete_bucket(Bucket=bucket)

    def back() -> None:
        s3.create_bucket(bucket)
        s3.put(bucket, "in/b.csv", csv(2))

    def expire() -> None:
        os.environ["AWS_SECRET_ACCESS_KEY"] = "expired"
        follower.source_renews()
        s3.put(bucket, "in/c.csv", csv(3))

    def renewed() -> None:
        os.environ["AWS_SECRET_ACCESS_KEY"] = secret

    follower = Renewing(vanish, back, expire, renewed)
    with environment(s3.env):
        follower.run(f"s3://{bucket}/in/", shell.folder / "d")
    assert rows(shell) == [1, 2, 3]
    assert any("no bucket" in text for text in follower.away), follower.away
    assert any("SignatureDoesNotMatch" in text for text in follower.away), follower.away
    assert follower.failed == []


class Renewing(Follower):
    """A follower whose source reads its credentials anew, as those of a role that expire."""

    def source_renews(self) -> None:
        from rowfall.stores.s3 import S3

        for source in [one for one in self.sources if isinstance(one, S3)]:
            source.renew()


def test_a_marker_in_a_bucket(shell: Shell, s3: Seaweed, bucket: str) -> None:
    s3.put(bucket, "in/day=1/a.csv", csv(1))
    s3.put(bucket, "in/day=2/a.csv", csv(2))
    s3.put(bucket, "in/day=1/_SUCCESS", b"")
    follower = Follower()
    follower.idle = lambda lag: follower.control.stop() if follower.batches else None  # type: ignore[method-assign]
    with environment(s3.env):
        follower.run(f"s3://{bucket}/in/", shell.folder / "d", marker="_SUCCESS")
    assert rows(shell) == [1]


def test_two_processes_load_each_object_once(lake: Lake, s3: Seaweed, bucket: str) -> None:
    """From two machines, as each has a ledger of its own."""
    command = (
        "load", f"s3://{bucket}/in/", "--table", "t", "--to", lake.to, "--follow",
        "--batch-seconds", "0", "--poll", "0.1s",
    )  # fmt: skip
    homes = [str(lake.shell.folder / name) for name in ("one", "two")]
    running = [
        lake.shell.cli.start(*command, env={**s3.env, "ROWFALL_HOME": home}) for home in homes
    ]
    try:
        for number in range(60):
            s3.put(bucket, f"in/{number * 7919 % 100:02}.csv", csv(number))
        wait_until(
            lambda: lake.tables() and lake.row("SELECT count() FROM {db}.t") == [60], 90, "all"
        )
    finally:
        for one in running:
            one.terminate()
        codes = [one.wait(10) for one in running]
    assert set(codes) <= {0, 130}
    assert lake.row("SELECT count(), uniqExact(a) FROM {db}.t") == [60, 60]


@pytest.mark.long
def test_a_delta_table_by_snapshot(shell: Shell) -> None:
    path = str(shell.folder / "lake")

    def write(*numbers: int) -> Callable[[], Any]:
        return lambda: write_deltalake(path, pa.table({"a": pa.array(numbers, pa.int64())}),
                                       mode="append")  # fmt: skip

    write(1, 2)()
    follower = Follower(write(3), write(4, 5))
    follower.run(f"delta+{path}", shell.folder / "d")
    assert rows(shell) == [1, 2, 3, 4, 5]
    Follower(write(6)).run(f"delta+{path}", shell.folder / "d")
    assert rows(shell) == [1, 2, 3, 4, 5, 6]


def test_addresses_of_a_web_server_are_taken_when_they_are_there(
    shell: Shell, web: Any, tmp_path: Path
) -> None:
    files: Path = web.root
    (files / "p1.csv").write_bytes(csv(1))

    def more() -> None:
        (files / "p3.csv").write_bytes(csv(3))

    follower = Follower(more)
    address = f"{web.endpoint}/p{{1..5}}.csv"
    follower.run(address, shell.folder / "d", at_rest="0")
    assert rows(shell) == [1, 3]
    with pytest.raises(UsageError, match="--marker"):
        Follower().run(address, shell.folder / "d", marker="_SUCCESS")


def test_a_table_of_a_database_needs_a_column(shell: Shell, postgresql: PostgresqlServer) -> None:
    """Without one it would never see a second row."""
    name = f"followed{os.getpid()}"
    postgresql.run(f"CREATE TABLE {name} (id bigint PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    shell.env["PGPASSWORD"] = postgresql.password
    command = ("load", f"{postgresql.uri}/{name}", "--follow", "--to", "d")
    assert "Give --cursor COLUMN as well" in shell.ends(2, *command).talk
    postgresql.run(f"DROP TABLE {name}")


def test_what_cannot_be_followed_says_so(shell: Shell) -> None:
    said = shell.ends(2, "load", "generate://trips?rows=5", "--follow", "--to", "d").talk
    assert "is for topics, files, objects of stores, lake tables, and tables of databases" in said
    said = shell.ends(2, "load", ".", "--follow", "--to", "d", "--upsert", "a").talk
    assert "--follow and --upsert exclude each other" in said
    assert json.loads(shell.ok("status", "--to", "d", "--json").out)["loads"] == []
