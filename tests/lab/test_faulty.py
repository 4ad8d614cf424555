"""The fault proxy passes requests on as they are, and does what its script says to one of them."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from lab.clickhouse import ClickHouse
from lab.faulty import Fault, Faulty, exception, first, internal_error, nth, slow_down
from lab.http import Web
from lab.process import wait_until
from lab.seaweed import Seaweed, client


@pytest.fixture
def proxy(web: Web) -> Iterator[Faulty]:
    with Faulty(int(web.endpoint.rpartition(":")[2])) as proxy:
        yield proxy
        assert proxy.errors == []


def get(proxy: Faulty, name: str, timeout: float = 10) -> bytes:
    with urllib.request.urlopen(f"{proxy.endpoint}/{name}", timeout=timeout) as answer:
        body: bytes = answer.read()
        return body


class TestPassing:
    def test_requests_are_counted_and_described(self, proxy: Faulty, web: Web) -> None:
        web.put("faulty/a b", b"abc")
        assert get(proxy, "faulty/a%20b?x=1&y=") == b"abc"
        assert get(proxy, "faulty/a%20b") == b"abc"
        one, two = proxy.requests
        assert (one.number, one.method, one.path) == (1, "GET", "/faulty/a b")
        assert (one.query, two.number) == ({"x": "1", "y": ""}, 2)
        proxy.reset_count()
        get(proxy, "faulty/a%20b")
        assert [request.number for request in proxy.requests] == [1]

    def test_connections_are_kept(self, proxy: Faulty, web: Web) -> None:
        web.put("faulty/keep", b"k" * 100_000)
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
        for method in ("GET", "HEAD", "GET"):
            connection.request(method, "/faulty/keep")
            sock = connection.sock
            assert len(connection.getresponse().read()) == (0 if method == "HEAD" else 100_000)
            assert connection.sock is sock
        connection.close()

    def test_bodies_stream_both_ways(self, clickhouse: ClickHouse) -> None:
        rows = (b"".join(b"%d\n" % number for number in range(at, at + 100_000))
                for at in range(0, 1_000_000, 100_000))  # fmt: skip
        clickhouse.query("CREATE TABLE faulty_stream (a UInt64) ENGINE = MergeTree ORDER BY a")
        with Faulty(clickhouse.http_port) as proxy:
            request = urllib.request.Request(
                f"{proxy.endpoint}/?query=INSERT+INTO+faulty_stream+FORMAT+TSV",
                data=rows,  # chunked
                headers={"X-ClickHouse-User": clickhouse.user,
                         "X-ClickHouse-Key": clickhouse.password},
            )  # fmt: skip
            urllib.request.urlopen(request, timeout=60).close()
            assert proxy.requests[0].head.startswith(b"0\n1\n2\n")
            assert proxy.requests[0].sql == "INSERT INTO faulty_stream FORMAT TSV"
            answer = asked(proxy, clickhouse, "SELECT a FROM faulty_stream ORDER BY a FORMAT TSV")
        assert answer == b"".join(b"%d\n" % number for number in range(1_000_000))

    def test_an_early_answer_reaches_the_client(self, clickhouse: ClickHouse) -> None:
        clickhouse.query("CREATE TABLE faulty_early (a UInt64) ENGINE = MergeTree ORDER BY a")
        with Faulty(clickhouse.http_port) as proxy:
            connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
            connection.putrequest("POST", "/?query=INSERT+INTO+faulty_early+FORMAT+TSV")
            for name, value in (("X-ClickHouse-User", clickhouse.user),
                                ("X-ClickHouse-Key", clickhouse.password),
                                ("Connection", "close"),
                                ("Transfer-Encoding", "chunked")):  # fmt: skip
                connection.putheader(name, value)
            connection.endheaders()
            for _ in range(30):  # the server looks at the first ten million bytes
                connection.send(b"100000\r\n" + b"xyz\n" * (1 << 18) + b"\r\n")
            answer = connection.getresponse()
            assert b"Code: 27" in answer.read()
            connection.close()

    def test_signatures_stay_valid(self, s3: Seaweed) -> None:
        s3.create_bucket("faulty-signed")
        with Faulty(s3.port) as proxy:
            through = client(proxy.endpoint, s3.access_key, s3.secret_key)
            body = bytes(range(256)) * 4096
            through.put_object(Bucket="faulty-signed", Key="a/ü b", Body=body)
            found = through.get_object(Bucket="faulty-signed", Key="a/ü b")["Body"].read()
            assert found == body
            listed = through.list_objects_v2(Bucket="faulty-signed", Prefix="a/")
            assert [item["Key"] for item in listed["Contents"]] == ["a/ü b"]
            assert [r.method for r in proxy.requests] == ["PUT", "GET", "GET"]

    def test_a_service_that_is_down_resets(self, proxy: Faulty) -> None:
        proxy.to = 1
        with pytest.raises(ConnectionResetError):
            get(proxy, "any")

    def test_close_ends_what_waits(self, web: Web) -> None:
        web.put("faulty/wait", b"x")
        with Faulty(int(web.endpoint.rpartition(":")[2]), nth(1, Fault(stall=60))) as proxy:
            caught: list[BaseException] = []

            def ask() -> None:
                try:
                    get(proxy, "faulty/wait", timeout=60)
                except OSError as error:
                    caught.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            wait_until(lambda: bool(proxy.requests), 10, "the request")
            begin = time.monotonic()
        thread.join(10)
        assert not thread.is_alive()
        assert time.monotonic() - begin < 5
        assert caught


class TestFaults:
    @pytest.mark.parametrize(("made", "status", "code"),
                             [(slow_down(), 503, "SlowDown"),
                              (internal_error(), 500, "InternalError")])  # fmt: skip
    def test_s3_errors(self, s3: Seaweed, made: Fault, status: int, code: str) -> None:
        s3.create_bucket(bucket := f"faulty-{status}")
        s3.put(bucket, "k", b"v")
        with Faulty(s3.port, first(2, made, lambda r: r.method == "GET")) as proxy:
            through = client(proxy.endpoint, s3.access_key, s3.secret_key)
            for _ in range(2):
                with pytest.raises(ClientError) as caught:
                    through.get_object(Bucket=bucket, Key="k")
                assert caught.value.response["Error"]["Code"] == code
                assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
            with pytest.raises(ClientError):  # a HEAD has no body and is no GET
                through.head_object(Bucket=bucket, Key="missing")
            assert through.get_object(Bucket=bucket, Key="k")["Body"].read() == b"v"

    def test_a_server_exception(self, clickhouse: ClickHouse) -> None:
        with Faulty(clickhouse.http_port, nth(1, exception(202, "Too many"))) as proxy:
            with pytest.raises(urllib.error.HTTPError) as caught:
                asked(proxy, clickhouse, "SELECT 1")
            with caught.value:
                assert caught.value.headers["X-ClickHouse-Exception-Code"] == "202"
                assert caught.value.read().startswith(b"Code: 202. DB::Exception: Too many. ")
            assert asked(proxy, clickhouse, "SELECT 1") == b"1\n"

    def test_reset_before_and_after(self, clickhouse: ClickHouse) -> None:
        clickhouse.query("CREATE TABLE faulty_reset (a String) ENGINE = MergeTree ORDER BY a")
        for fault in (Fault(reset="before"), Fault(reset="after")):
            sql = f"INSERT INTO faulty_reset VALUES ('{fault.reset}')"
            with (
                Faulty(clickhouse.http_port, nth(1, fault)) as proxy,
                pytest.raises(ConnectionResetError),
            ):
                asked(proxy, clickhouse, sql)
        assert clickhouse.query("SELECT a FROM faulty_reset") == "after\n"

    def test_hooks(self, clickhouse: ClickHouse) -> None:
        rows: list[str] = []

        def look() -> None:
            rows.append(clickhouse.query("SELECT count() FROM faulty_hooks").strip())

        clickhouse.query("CREATE TABLE faulty_hooks (a UInt8) ENGINE = MergeTree ORDER BY a")
        with Faulty(clickhouse.http_port, nth(1, Fault(before=look, after=look))) as proxy:
            asked(proxy, clickhouse, "INSERT INTO faulty_hooks VALUES (1)")
        assert rows == ["0", "1"]

    def test_truncated_answers(self, proxy: Faulty, web: Web) -> None:
        web.put("faulty/long", b"x" * 300_000)
        proxy.script = nth(1, Fault(truncate=100_000))
        with pytest.raises(http.client.IncompleteRead) as caught:
            get(proxy, "faulty/long")
        assert (len(caught.value.partial), caught.value.expected) == (100_000, 200_000)
        assert len(get(proxy, "faulty/long")) == 300_000

    def test_truncated_chunks(self, clickhouse: ClickHouse) -> None:
        fault = Fault(truncate=1000)
        with (
            Faulty(clickhouse.http_port, nth(1, fault)) as proxy,
            pytest.raises(http.client.IncompleteRead),
        ):
            asked(proxy, clickhouse, "SELECT number FROM numbers(100000)")

    def test_a_request_cut_in_its_body(self, s3: Seaweed) -> None:
        s3.create_bucket("faulty-cut")
        with Faulty(s3.port, nth(1, Fault(cut_request=100_000))) as proxy:
            through = client(proxy.endpoint, s3.access_key, s3.secret_key)
            with pytest.raises(BotoCoreError):
                through.put_object(Bucket="faulty-cut", Key="k", Body=b"x" * 1_000_000)
            assert s3.list("faulty-cut") == []
            through.put_object(Bucket="faulty-cut", Key="k", Body=b"x" * 1_000_000)
        assert s3.list("faulty-cut") == ["k"]

    @pytest.mark.parametrize("fault", [Fault(stall=0.4), Fault(stall_answer=0.4)])
    def test_stalls(self, proxy: Faulty, web: Web, fault: Fault) -> None:
        web.put("faulty/stall", b"x")
        proxy.script = nth(1, fault)
        begin = time.monotonic()
        assert get(proxy, "faulty/stall") == b"x"
        assert time.monotonic() - begin > 0.4

    def test_a_client_that_gives_up_is_seen_by_the_service(self, clickhouse: ClickHouse) -> None:
        sql = "SELECT sleepEachRow(0.5) FROM numbers(100) SETTINGS max_block_size = 1"
        stop = "&cancel_http_readonly_queries_on_client_close=1&readonly=2"
        running = f"SELECT count() FROM system.processes WHERE query = '{sql}'"
        with Faulty(clickhouse.http_port) as proxy:
            with pytest.raises(OSError, match="timed out"):
                asked(proxy, clickhouse, sql, stop, timeout=1)
            wait_until(lambda: clickhouse.query(running) == "0\n", 10, "the query to end")

    def test_what_a_script_raises_is_kept(self, proxy: Faulty) -> None:
        proxy.script = nth(1, Fault(before=lambda: 1 // 0))
        with pytest.raises(ConnectionResetError):
            get(proxy, "any")
        wait_until(lambda: bool(proxy.errors), 5, "the error")
        assert isinstance(proxy.errors.pop(), ZeroDivisionError)


def asked(
    proxy: Faulty, server: ClickHouse, sql: str, more: str = "", timeout: float = 30
) -> bytes:
    request = urllib.request.Request(
        f"{proxy.endpoint}/?wait_end_of_query=1{more}",
        data=sql.encode(),
        headers={"X-ClickHouse-User": server.user, "X-ClickHouse-Key": server.password},
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        body: bytes = answer.read()
        return body
