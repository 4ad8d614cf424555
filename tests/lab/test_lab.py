"""The lab's services are real: they start, refuse wrong secrets, and keep data over kill -9."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from http.client import HTTPResponse
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from lab import clickhouse as clickhouse_lab
from lab.clickhouse import LOW_MEMORY, Account, ClickHouse
from lab.disk import MountError
from lab.http import Web
from lab.postgresql import PostgresqlServer
from lab.process import Service, ServiceError, free_ports
from lab.seaweed import Seaweed, client, grpc_ports


class TestSeaweed:
    def test_gives_back_what_was_put(self, s3: Seaweed) -> None:
        s3.create_bucket("lab-put")
        etag = s3.put("lab-put", "a/one.csv", b"1,2\n")
        s3.put("lab-put", "b/two.csv", b"3,4\n")
        assert len(etag) == 32
        assert s3.get("lab-put", "a/one.csv") == b"1,2\n"
        assert s3.list("lab-put") == ["a/one.csv", "b/two.csv"]
        assert s3.list("lab-put", "b/") == ["b/two.csv"]

    @pytest.mark.long  # a thousand requests
    def test_lists_more_than_one_page(self, s3: Seaweed) -> None:
        s3.create_bucket("lab-many")
        keys = [f"k{number:04}" for number in range(1005)]
        for key in keys:
            s3.put("lab-many", key, b"x")
        assert s3.list("lab-many") == keys

    @pytest.mark.parametrize(
        ("access_key", "secret_key"),
        [(Seaweed.access_key, "wrong-secret"), ("nobody", Seaweed.secret_key)],
        ids=["secret", "key"],
    )
    def test_refuses_wrong_credentials(self, s3: Seaweed, access_key: str, secret_key: str) -> None:
        s3.create_bucket(bucket := f"lab-refuse-{access_key}")
        with pytest.raises(ClientError) as caught:
            client(s3.endpoint, access_key, secret_key).list_objects_v2(Bucket=bucket)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403

    def test_keeps_data_over_a_kill(self) -> None:
        with Seaweed() as own:
            own.create_bucket("lab-kill")
            for number in range(20):
                own.put("lab-kill", f"{number:02}", bytes([number]) * 5000)
            own.kill()
            with pytest.raises(BotoCoreError):
                own.list("lab-kill")
            own.start()
            assert own.list("lab-kill") == [f"{number:02}" for number in range(20)]
            assert own.get("lab-kill", "07") == b"\x07" * 5000

    def test_answers_again_after_a_pause(self) -> None:
        with Seaweed() as own:
            own.create_bucket("lab-pause")
            own.pause()
            with pytest.raises(OSError, match="timed out"):
                urllib.request.urlopen(own.endpoint, timeout=0.5)
            own.resume()
            assert own.list("lab-pause") == []


class TestClickHouse:
    def test_runs_statements(self, clickhouse: ClickHouse) -> None:
        clickhouse.query("CREATE DATABASE lab_rows")
        clickhouse.query("CREATE TABLE lab_rows.t (a UInt32) ENGINE = MergeTree ORDER BY a")
        clickhouse.query("INSERT INTO lab_rows.t FORMAT CSV", body=b"1\n2\n3\n")
        assert clickhouse.query("SELECT sum(a) FROM lab_rows.t") == "6\n"

    def test_reports_the_errors_of_the_server(self, clickhouse: ClickHouse) -> None:
        with pytest.raises(ServiceError, match="Code: 60"):
            clickhouse.query("SELECT * FROM missing")

    def test_refuses_a_wrong_password(self, clickhouse: ClickHouse) -> None:
        request = urllib.request.Request(
            f"{clickhouse.endpoint}/?query=SELECT+1",
            headers={"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": "wrong"},
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        with caught.value:
            assert caught.value.code == 403

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to give up")
    def test_runs_unprivileged(self, clickhouse: ClickHouse) -> None:
        assert Path(f"/proc/{clickhouse.pid}").stat().st_uid != 0

    def test_keeps_data_over_kill_and_stop(self) -> None:
        with ClickHouse() as own:
            own.query("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
            own.query("INSERT INTO t SELECT number FROM numbers(100000)")
            for end in (own.kill, own.stop):
                end()
                with pytest.raises(OSError, match="refused"):
                    own.query("SELECT 1")
                own.start()
                assert own.query("SELECT count(), sum(a) FROM t") == "100000\t4999950000\n"

    def test_takes_the_binary_that_the_user_names(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = tmp_path / "clickhouse"
        monkeypatch.setenv("ROWFALL_CLICKHOUSE", str(own))
        with pytest.raises(ServiceError, match="is not a program"):
            clickhouse_lab.binary()
        own.touch(0o755)
        assert clickhouse_lab.binary() == own


class TestClickHouseSwitches:
    def test_replicas_share_a_keeper(self) -> None:
        table = "t (a UInt64) ENGINE = ReplicatedMergeTree('/clickhouse/{shard}/t', '{replica}')"
        with ClickHouse(keeper=True) as one, ClickHouse(join=one) as two:
            for node in (one, two):
                node.query(f"CREATE TABLE {table} ORDER BY a")
            one.query("INSERT INTO t SELECT number FROM numbers(1000)")
            two.query("SYSTEM SYNC REPLICA t")
            assert two.query("SELECT count(), getMacro('replica') FROM t") == "1000\ttwo\n"
            one.kill()
            one.start()
            one.query("INSERT INTO t SELECT number FROM numbers(500)")
            assert one.query("SELECT count(), getMacro('replica') FROM t") == "1500\tone\n"

    def test_tls(self) -> None:
        with ClickHouse(tls=True) as own:
            url = f"https://localhost:{own.https_port}/ping"
            trusting = ssl.create_default_context(cafile=str(own.certificate))
            with urllib.request.urlopen(url, timeout=10, context=trusting) as answer:
                assert answer.read() == b"Ok.\n"
            with pytest.raises(urllib.error.URLError, match="self-signed certificate"):
                urllib.request.urlopen(url, timeout=10)

    def test_little_memory(self) -> None:
        with ClickHouse(memory=LOW_MEMORY) as own:
            own.query("CREATE TABLE t (a String) ENGINE = MergeTree ORDER BY a")
            own.query("INSERT INTO t SELECT toString(number) FROM numbers(100000)")
            with pytest.raises(ServiceError, match="Code: 241"):
                own.query("SELECT uniqExact(cityHash64(number)) FROM numbers(100000000)")
            assert own.query("SELECT count() FROM t") == "100000\n"

    def test_no_space_by_decree(self) -> None:
        with ClickHouse() as own:
            own.query("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
            own.refuse_space()
            with pytest.raises(ServiceError, match="Code: 243"):
                own.query("INSERT INTO t SELECT number FROM numbers(10)")
            own.allow_space()
            own.query("INSERT INTO t SELECT number FROM numbers(10)")
            assert own.query("SELECT count() FROM t") == "10\n"

    def test_a_full_disk(self) -> None:
        own = small_disk_or_skip()
        with own:
            assert own.disk is not None
            own.query("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
            own.disk.fill(leave=2_000_000)
            # One part that fits when it begins and does not when it ends.
            insert = "INSERT INTO t SELECT cityHash64(number) FROM numbers(1000000)"
            with pytest.raises(ServiceError, match=r"No space left|NOT_ENOUGH_SPACE"):
                own.query(insert)
            own.disk.empty()
            own.query(insert)
            own.kill()
            own.start()
            assert own.query("SELECT count() FROM t") == "1000000\n"
            folder = own.folder
        assert not folder.exists()

    def test_users_by_sql_survive_a_restart(self) -> None:
        with ClickHouse() as own:
            own.query("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
            reader = own.add_user("reader", "SELECT ON default.*", settings="readonly = 1")
            writer = own.add_user(
                "writer", "ALL ON default.*", without=["CREATE TABLE ON default.*"]
            )
            own.stop()
            own.start()
            own.query("INSERT INTO t VALUES (7)", account=writer)
            assert own.query("SELECT a FROM t", account=reader) == "7\n"
            for sql, who in (
                ("INSERT INTO t VALUES (8)", reader),
                ("CREATE TABLE u AS t", writer),
                ("CREATE NAMED COLLECTION c AS a = 'b'", writer),
            ):
                with pytest.raises(ServiceError, match=r"Code: (164|497)"):
                    own.query(sql, account=who)
            own.query("CREATE NAMED COLLECTION c AS a = 'b'")

    def test_uri_escapes(self, clickhouse: ClickHouse) -> None:
        uri = clickhouse.uri("db", port=5, account=Account("a@b", "c/d:e"))
        assert uri == "clickhouse://a%40b:c%2Fd%3Ae@127.0.0.1:5/db"


def small_disk_or_skip() -> ClickHouse:
    try:
        return ClickHouse(disk=256)
    except MountError as error:
        pytest.skip(f"no disk of a test's own: {error}")


class TestWeb:
    def test_sends_files_with_their_version(self, web: Web) -> None:
        with _get(web.put("lab/v.csv", b"1\n")) as first:
            assert first.read() == b"1\n"
            assert first.headers["Last-Modified"].endswith("GMT")
            assert first.headers["Accept-Ranges"] == "bytes"
        with _get(web.put("lab/v.csv", b"22\n")) as second:
            assert second.headers["ETag"] != first.headers["ETag"]

    @pytest.mark.parametrize(
        ("wanted", "body", "content_range"),
        [
            ("bytes=0-3", b"0123", "bytes 0-3/10"),
            ("bytes=7-", b"789", "bytes 7-9/10"),
            ("bytes=-2", b"89", "bytes 8-9/10"),
            ("bytes=8-99", b"89", "bytes 8-9/10"),
        ],
    )
    def test_sends_ranges(self, web: Web, wanted: str, body: bytes, content_range: str) -> None:
        with _get(web.put("lab/range", b"0123456789"), Range=wanted) as answer:
            assert answer.status == 206
            assert answer.read() == body
            assert answer.headers["Content-Range"] == content_range

    @pytest.mark.parametrize(
        ("name", "headers", "status"),
        [
            ("lab/missing", {}, 404),
            ("../../etc/passwd", {}, 404),
            ("lab/ten", {"Range": "bytes=10-"}, 416),
            ("lab/ten", {"If-Match": '"old"'}, 412),
            ("lab/ten", {"If-None-Match": "*"}, 304),
        ],
        ids=["missing", "outside", "range", "changed", "same"],
    )
    def test_refuses(self, web: Web, name: str, headers: dict[str, str], status: int) -> None:
        web.put("lab/ten", b"0123456789")
        with pytest.raises(urllib.error.HTTPError) as caught:
            _get(f"{web.endpoint}/{name}", **headers)
        with caught.value:
            assert caught.value.code == status

    def test_head_has_no_body(self, web: Web) -> None:
        request = urllib.request.Request(web.put("lab/head", b"12345"), method="HEAD")
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.headers["Content-Length"] == "5"
            assert answer.read() == b""
        assert ("HEAD", "/lab/head", "") in web.requests


class TestService:
    def test_one_that_cannot_start_is_an_error_with_its_log(self) -> None:
        class Broken(Service):
            name = "broken"

            def command(self) -> tuple[str, ...]:
                return "/bin/sh", "-c", "echo no such disk; exit 3"

            def healthy(self) -> bool:
                return False

        broken = Broken()
        with pytest.raises(ServiceError, match=r"(?s)ended with code 3.*no such disk"), broken:
            pytest.fail("started")
        assert not broken.folder.exists()

    def test_no_other_process_gets_a_port_that_was_given(self) -> None:
        (port,) = free_ports(1)
        program = (
            f"from rowfall.lab.process import is_free, reserve; "
            f"print(is_free({port}), reserve({port}))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.split() == ["True", "False"]

    def test_ports_leave_room_for_grpc(self) -> None:
        ports = grpc_ports(5)
        assert len(set(ports)) == 5
        assert max(ports) < 50_000


def _get(url: str, **headers: str) -> HTTPResponse:
    names = {key.replace("_", "-"): value for key, value in headers.items()}
    answer: HTTPResponse = urllib.request.urlopen(
        urllib.request.Request(url, headers=names), timeout=10
    )
    return answer


@pytest.mark.long
def test_postgresql_starts_again_whatever_its_backends_do() -> None:
    """One that ends late holds the memory of the server that was killed."""
    with PostgresqlServer() as server, server.connect() as connection:
        ((pid,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
        os.kill(pid, signal.SIGSTOP)
        server.kill()
        assert server.start().ask("SELECT 1") == [(1,)]
