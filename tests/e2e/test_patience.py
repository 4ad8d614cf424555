"""Stores that are busy, stall or break off while they are listed: --patience holds there, too."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from e2e.tools import Shell
from lab.azure import Azure
from lab.faulty import Fault, Faulty, Request, first, internal_error, slow_down
from lab.google import Google
from lab.hdfs import Hdfs
from lab.scripted import Asked, Reply, Scripted
from lab.seaweed import Seaweed
from rowfall.stores import buckets, http
from rowfall.stores import hdfs as webhdfs

BUSY = Fault(status=429, headers={"Content-Type": "text/plain"}, body=b"slow down")
# Longer than the client waits for an answer, see `hasty`.
STALL = Fault(stall=3)
FAULTS = {
    "503": slow_down(), "500": internal_error(), "429": BUSY, "reset": Fault(reset="before"),
    "cut": Fault(truncate=40), "stall": STALL,
}  # fmt: skip


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """One second in place of nine, and no tries of the client's own."""
    options = {**buckets.PATIENCE["client_options"], "timeout": "1s"}
    tries = {**buckets.PATIENCE["retry_config"], "max_retries": 0}
    monkeypatch.setitem(buckets.PATIENCE, "client_options", options)
    monkeypatch.setitem(buckets.PATIENCE, "retry_config", tries)
    for client in (http, webhdfs):
        monkeypatch.setattr(client, "_TIMEOUT", 1.0)


def is_listing(request: Request) -> bool:
    return request.method == "GET" and (
        "list-type" in request.query or request.query.get("comp") == "list"
        or request.path.endswith("/o")
    )  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FAULTS)
def test_a_listing_of_s3(shell: Shell, s3: Seaweed, bucket: str, name: str) -> None:
    for n in range(3):
        s3.put(bucket, f"in/{n}.csv", f"id\n{n}\n".encode())
    with Faulty(s3.port) as proxy:
        shell.env |= {**s3.env, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        proxy.script = first(2, FAULTS[name], is_listing)
        shell.ok("load", f"s3://{bucket}/in/", "--table", "t")
        assert shell.row("SELECT count(), sum(id) FROM t") == [3, 3]
        proxy.script = first(1000, FAULTS[name], is_listing)
        wrong = shell.ends(4, "load", f"s3://{bucket}/in/", "--table", "u", "--patience", "1s")
        assert f"cannot list s3://{bucket}/in" in wrong.talk


def test_a_listing_goes_on_behind_its_last_key(shell: Shell, s3: Seaweed, bucket: str) -> None:
    for n in range(1010):
        s3.put(bucket, f"in/{n:04}.csv", b"id\n1\n" if n % 500 == 0 else b"")
    with Faulty(s3.port) as proxy:
        shell.env |= {**s3.env, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        pages: list[str] = []

        def script(request: Request) -> Fault | None:
            if not is_listing(request):
                return None
            pages.append(request.query.get("start-after", ""))
            return BUSY if len(pages) == 2 else None

        proxy.script = script
        shell.ok("load", f"s3://{bucket}/in/", "--table", "t")
    assert shell.row("SELECT count() FROM t") == [3]
    assert pages[2] == "in/0999.csv"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FAULTS)
def test_a_listing_of_azure(shell: Shell, azure: Azure, name: str) -> None:
    container = f"patience-{name}"
    azure.create_bucket(container)
    azure.put(container, "in/a.csv", b"id\n7\n")
    with Faulty(azure.port) as proxy:
        endpoint = f"http://127.0.0.1:{proxy.port}{urlsplit(azure.endpoint).path}"
        shell.env |= {**azure.env, "AZURE_STORAGE_ENDPOINT": endpoint}
        proxy.script = first(2, FAULTS[name], is_listing)
        shell.ok("load", f"az://{container}/in/", "--table", "t")
    assert shell.row("SELECT count(), sum(id) FROM t") == [1, 7]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FAULTS)
def test_a_listing_of_google(shell: Shell, google: Google, name: str) -> None:
    bucket = f"patience-{name}"
    google.create_bucket(bucket)
    google.put(bucket, "in/a.csv", b"id\n7\n")
    with Faulty(google.port) as proxy:
        shell.env |= {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{proxy.port}"}
        proxy.script = first(2, FAULTS[name], is_listing)
        shell.ok("load", f"gs://{bucket}/in/", "--table", "t")
    assert shell.row("SELECT count(), sum(id) FROM t") == [1, 7]


@pytest.mark.xdist_group("hdfs")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["reset", "cut", "stall"])
def test_a_listing_of_hdfs(shell: Shell, hdfs: Hdfs, name: str) -> None:
    hdfs.put(f"/patience-{name}/a.csv", b"id\n7\n")
    with Faulty(hdfs.http) as proxy:
        proxy.script = first(2, FAULTS[name], lambda asked: "LIST" in asked.query.get("op", ""))
        uri = f"hdfs://127.0.0.1:{hdfs.rpc}/patience-{name}?http={proxy.port}"
        shell.ok("load", uri, "--table", "t")
    assert shell.row("SELECT count(), sum(id) FROM t") == [1, 7]


def test_nobody_at_the_address_is_said_at_once(shell: Shell, bucket: str, s3: Seaweed) -> None:
    shell.env |= {**s3.env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    for source in (f"s3://{bucket}/in/", "http://127.0.0.1:9/a.csv", "hdfs://127.0.0.1:8/a?http=9"):
        done = shell.ends(4, "load", source, "--table", "t", "--patience", "1h")
        assert "connection refused" in done.talk


# --- web servers ----------------------------------------------------------------------------------

ROWS = b"id,name\n" + b"".join(b"%d,name-%d\n" % (n, n) for n in range(50_000))
WHOLE = [50_000, sum(range(50_000))]
COUNTED = "SELECT count(), sum(id) FROM t"
ETAG = {"ETag": '"one"'}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["reset", "stall", "503", "429"])
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_a_web_server(shell: Shell, name: str, decoder: str) -> None:
    """Each question about a file is asked again, with the very first."""
    with (
        Scripted(lambda asked: Reply(ROWS, headers=ETAG)) as web,
        Faulty(int(web.host.rpartition(":")[2])) as proxy,
    ):
        proxy.script = lambda asked: FAULTS[name] if asked.number in (1, 2, 4) else None
        url = f"http://127.0.0.1:{proxy.port}/a.csv"
        shell.ok("load", url, "--table", "t", "--decoder", decoder)
    assert shell.row(COUNTED) == WHOLE


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "whole"])
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_an_answer_that_ends_early_goes_on(shell: Shell, decoder: str, ranges: bool) -> None:
    cut = 0

    def script(asked: Request) -> Fault | None:
        nonlocal cut
        wanted = asked.headers.get("range", "")
        if asked.method == "GET" and not wanted.startswith("bytes=0-") and cut < 1:
            cut += 1
            return Fault(truncate=300_000)
        return None

    with (
        Scripted(lambda asked: Reply(ROWS, headers=ETAG, ranges=ranges)) as web,
        Faulty(int(web.host.rpartition(":")[2]), script) as proxy,
    ):
        url = f"http://127.0.0.1:{proxy.port}/a.csv"
        shell.ok("load", url, "--table", "t", "--decoder", decoder)
    assert cut == 1
    assert shell.row(COUNTED) == WHOLE


@pytest.mark.long
def test_an_answer_that_is_always_short_is_named(shell: Shell) -> None:
    """The engine, which asks on its own for half a minute, does not say of what."""
    with Scripted(lambda asked: Reply(ROWS, headers=ETAG)) as web:
        short = Fault(truncate=20_000)
        script = lambda asked: short if asked.method == "GET" else None  # noqa: E731
        with Faulty(int(web.host.rpartition(":")[2]), script) as proxy:
            url = f"http://127.0.0.1:{proxy.port}/a.csv"
            done = shell.run("load", url, "--table", "t")
    assert done.code in (1, 4)
    assert f"cannot read {url}: the connection broke " in done.talk


@pytest.mark.parametrize("body", [b'{"error": {"code": 401}}', b'{\n  "message": "no"\n}\n'])
def test_an_error_in_json_is_no_table(shell: Shell, body: bytes) -> None:
    with Scripted(lambda asked: Reply(body, headers=ETAG)) as web:
        done = shell.ends(4, "load", web.url("a.csv"), "--table", "t")
        assert "a.csv is JSON, not what its name says" in done.talk
        shell.ok("load", web.url("a.csv"), "--table", "t", "--format", "json")


def test_a_length_that_nobody_says(shell: Shell) -> None:
    """A file of unknown length that is cut behind a line looks whole; that is said."""

    def reply(asked: Asked) -> Reply:
        return Reply(b"id\n1\n", endless=True)

    with Scripted(reply) as web:
        done = shell.ok("load", web.url("a.csv"), "--table", "t")
        assert f"does not say how long 1 file is ({web.url('a.csv')})" in done.talk
