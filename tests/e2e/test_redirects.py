"""Passwords and keys never leave the origin (scheme, host and port) that they were given for."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.scripted import Asked, Reply, Scripted

SIGNED = "Basic " + base64.b64encode(b"u:pw-12345").decode()
SECRETS = {"authorization", "cookie", "x-amz-security-token"}
ETAG = {"ETag": '"one"', "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}
TOKEN = "s3ssion-t0ken"
DATA = b"id,name\n1,x\n2,y\n"


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.fixture
def other() -> Iterator[Scripted]:
    """Another port of the same host: another origin."""
    with Scripted(lambda asked: Reply(DATA, headers=ETAG)) as server:
        yield server


@pytest.fixture
def home(other: Scripted) -> Iterator[Scripted]:
    """Wants a password; /far is there for a HEAD and leads elsewhere by a GET, /near by both."""

    def reply(asked: Asked) -> Reply:
        if asked.headers.get("authorization") != SIGNED:
            return Reply(status=401)
        if asked.path == "/far.csv" and asked.method == "GET":
            return Reply(status=302, headers={"Location": other.url("data.csv?signature=s1gned")})
        if asked.path == "/near.csv":
            return Reply(status=302, headers={"Location": "/here.csv"})
        return Reply(DATA, headers=ETAG)

    with Scripted(reply) as server:
        yield server


def urls(home: Scripted) -> list[str]:
    at = home.host
    return [f"http://u:pw-12345@{at}/{name}.csv" for name in ("far", "near", "plain")]


def told(other: Scripted) -> set[str]:
    """The headers that the other server should never have seen."""
    found = {name for asked in other.asked for name in asked.headers} & SECRETS
    return found | {asked.path for asked in other.asked if TOKEN in str(asked)}


@pytest.mark.parametrize("decoder", ["never", "always"])
def test_a_password_stays_at_home(
    shell: Shell, home: Scripted, other: Scripted, decoder: str
) -> None:
    """One file with a redirect let the engine follow those of all: the password went along."""
    done = shell.ok("load", *urls(home), "--table", "t", "--decoder", decoder)
    assert shell.row("SELECT count(), sum(id) FROM t") == [6, 9]
    assert other.asked
    assert told(other) == set()
    assert all(asked.headers.get("authorization") == SIGNED for asked in home.asked)
    assert not any(secret in done.out + done.err for secret in ("pw-12345", "s1gned"))


def test_a_password_of_a_server_that_pulls_stays_at_home(
    lake: Lake, home: Scripted, other: Scripted
) -> None:
    """A user's profile may allow redirects."""
    to = f"{lake.to}?max_http_get_redirects=10"
    plain = urls(home)[-1]
    done = lake.shell.ok("load", plain, "--table", "t", "--decoder", "never", "--pull", "--to", to)
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [2, 3]
    assert not other.asked
    # Where a redirect leads is a secret: it would be in the server's log.
    done = lake.shell.ok("load", *urls(home), "--table", "t", "--decoder", "never", "--to", to)
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [6, 9]
    assert other.asked
    assert told(other) == set()
    assert not any(secret in done.out + done.err for secret in ("pw-12345", "s1gned"))


@pytest.mark.parametrize("pull", [False, True], ids=["embedded", "server"])
def test_keys_of_s3_do_not_follow_redirects(
    lake: Lake, home: Scripted, other: Scripted, pull: bool
) -> None:
    """A signature lets whoever has it ask the store for the object, for 15 minutes."""
    lake.shell.env |= {
        "AWS_ENDPOINT_URL": f"http://{home.host}", "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hidden-0123",
    }  # fmt: skip
    away = False

    def reply(asked: Asked) -> Reply:
        if away and ("ClickHouse" in asked.headers.get("user-agent", "") or asked.method == "GET"):
            return Reply(status=307, headers={"Location": other.url(asked.path[1:])})
        return Reply(DATA, headers=ETAG)

    home.reply = reply
    load = ("load", "s3://bucket/a.csv", "--table", "t", "--decoder", "never")
    to = ("--to", lake.to) if pull else ()
    lake.shell.ok(*load, *to)
    away = True
    done = lake.shell.run(*load, *to, "--force")
    assert done.code != 0
    assert told(other) == set()


LISTED = (
    b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a.csv</Key><Size>%d</Size>"
    b"<ETag>one</ETag><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
    b"</ListBucketResult>" % len(DATA)
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("source", ["s3://bucket/a.csv", "s3://bucket/*.csv"])
@pytest.mark.parametrize(
    "status", [307, *(pytest.param(n, marks=pytest.mark.long) for n in (301, 302, 308))]
)
def test_a_session_token_does_not_follow_redirects(
    shell: Shell, home: Scripted, other: Scripted, source: str, status: int
) -> None:
    """obstore takes the signature away where a request is led elsewhere, and not the token."""
    shell.env |= {
        "AWS_ENDPOINT_URL": f"http://{home.host}", "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hidden-0123", "AWS_SESSION_TOKEN": TOKEN,
    }  # fmt: skip
    away = ""

    def reply(asked: Asked) -> Reply:
        if "x-amz-security-token" in asked.headers:  # of clients that follow no redirect
            assert asked.headers["user-agent"].startswith(("ClickHouse", "Botocore"))
        if away in ("all", asked.method):
            return Reply(status=status, headers={"Location": other.url(asked.path[1:])})
        if "/*" in asked.path or "/%2A" in asked.path:
            return Reply(status=404)
        return Reply(LISTED) if "list-type=2" in asked.path else Reply(DATA, headers=ETAG)

    home.reply = reply
    load = ("load", source, "--table", "t")
    shell.ok(*load, "--decoder", "always")
    shell.ok(*load, "--decoder", "never", "--force")
    assert shell.row("SELECT count(), sum(id) FROM t") == [4, 6]
    for away in ("all", "GET"):
        for more in ((), ("--decoder", "always"), ("--decoder", "never")):
            done = shell.run(*load, "--force", *more)
            assert done.code in (1, 4, 6)
            assert TOKEN not in done.out + done.err
            if away == "all" or "*" in source:
                assert "redirects to another address" in done.talk
    assert told(other) == set()
