"""What an address holds that is not known to be harmless is found nowhere after a load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.lake import Lake
from e2e.tools import Done, Shell
from lab.clickhouse import ClickHouse
from lab.scripted import Asked, Reply, Scripted

NAMES = """
    api_key apikey api-key key k code pwd pass password passwd auth authorization jwt session sid
    sessionid access_key access-key accesskey subscription-key Ocp-Apim-Subscription-Key secret
    client_secret token access_token id_token refresh_token t hash hmac sign sig signature ticket
    otp pin bearer cookie credential
    private_token X-Api-Key appid x-functions-key uuid state nonce wsid u
""".split()  # noqa: SIM905 - a list to read
VALUES = {name: f"s3cr{number:03}et" for number, name in enumerate(NAMES)}
MARK = b"s3cr"
ETAG = {"ETag": '"one"', "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def address(web: Scripted, path: str, user: str = "") -> str:
    query = "&".join(f"{name}={value}" for name, value in VALUES.items())
    url = web.url(f"{path};jsessionid=s3crpath?page=1&{query}&s3crbare")
    return url.replace("://", f"://{user}@") if user else url


def children() -> Iterator[tuple[Path, bytes]]:
    """Arguments and variables of all processes but this one, which is rowfall itself here."""
    for process in Path("/proc").glob("[0-9]*"):
        if process.name != str(os.getpid()):
            for name in ("cmdline", "environ"):
                with suppress(OSError):
                    yield process / name, (process / name).read_bytes()


@pytest.fixture
def web() -> Iterator[Scripted]:
    """Wants all 48 and looks at the machine whenever it is asked for something."""
    seen: list[Path] = []

    def reply(asked: Asked) -> Reply:
        seen.extend(path for path, text in children() if MARK in text)
        if any(f"{name}={value}" not in asked.path for name, value in VALUES.items()):
            return Reply(status=403)
        if asked.path.startswith("/gone"):
            return Reply(status=404, body=f"no {asked.path}".encode())
        return Reply(b"id,name\n1,a\n2,b\n", headers=ETAG)

    with Scripted(reply) as server:
        yield server
    assert seen == []


def nothing_in(shell: Shell, *done: Done) -> None:
    for each in done:
        assert MARK.decode() not in each.out + each.err
    for folder in (shell.folder, shell.cli.home):
        for path in folder.rglob("*"):
            if path.is_file():
                assert MARK not in path.read_bytes(), path


@pytest.mark.parametrize("decoder", ["always", "never"])
def test_no_parameter_of_an_address_is_kept(shell: Shell, web: Scripted, decoder: str) -> None:
    """20 of 35 names stood in clear in the ledger: only what sounds like a secret was hidden."""
    url = address(web, "a.csv")
    load = ("load", url, "--table", "t", "--decoder", decoder, "--log-file", "log.jsonl")
    done = [
        shell.ok("plan", url, "--table", "t", "--decoder", decoder, "-v"),
        shell.ok(*load, "-v", "--verify"),
        shell.ok(*load, "--json"),
        shell.ok("status"),
        shell.ok("report", "last", "--json"),
        shell.ok("report", "last", "-v"),
        shell.run("verify", "last"),
        shell.run("load", address(web, "gone.csv"), "--table", "t", "-v"),
        shell.run("load", address(web, "a.csv", user="s3cruser"), "--table", "t", "--dates", "x"),
        shell.run("load", address(web, "a.parquet"), "--table", "t", "-v"),
        shell.run("load", address(web, "a.zip"), "--table", "t", "-v"),
    ]  # fmt: skip
    assert shell.row("SELECT count(), sum(id) FROM t") == [2, 3]
    assert done[2].document["splits_skipped"] == 1
    assert f"{web.url('a.csv')};jsessionid=[HIDDEN]?page=1&api_key=[HIDDEN]" in done[2].out
    nothing_in(shell, *done)


def test_errors_of_a_connection_name_no_parameter(shell: Shell, web: Scripted) -> None:
    url = address(web, "a.csv")
    web.close()
    nothing_in(shell, shell.ends(4, "load", url, "-v"), shell.ends(4, "plan", url))


@pytest.mark.parametrize("pull", [(), ("--pull",)], ids=["free", "pull"])
def test_no_server_logs_an_address(lake: Lake, web: Scripted, pull: tuple[str, ...]) -> None:
    """The server would write the whole address into its query_log."""
    load = ("load", address(web, "a.csv"), "--table", "t", "-v", "--decoder", "never")
    done = lake.shell.run(*load, *pull, "--to", lake.to)
    if pull:
        assert done.code == 5
        assert "would write into its query_log" in done.talk
    else:
        assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [2, 3]
    nothing_in(lake.shell, done)
    lake.do("SYSTEM FLUSH LOGS")
    found = "SELECT count() FROM system.query_log WHERE query || exception LIKE '%s3' || 'cr%'"
    assert lake.row(found) == [0]


def test_a_name_of_an_older_ledger_is_the_same_object(shell: Shell, web: Scripted) -> None:
    """Parameters that stood in clear there are hidden now: nothing may be loaded twice."""
    import sqlite3
    from contextlib import closing

    from rowfall.core import uri
    from rowfall.core.listing import split_id

    web.reply = lambda asked: Reply(b"id\n1\n", headers={"ETag": '"e"'})
    urls = [web.url(f"a.csv?station={n}&token=abc") for n in ("oslo", "rome")]
    shell.ok("load", urls[0], "--table", "t")
    old = uri.former_name(urls[0])
    assert "station=oslo&token=[HIDDEN]#" in old
    with closing(sqlite3.connect(shell.folder / "rowfall-data/rowfall.ledger")) as db:
        ((key,),) = db.execute("SELECT DISTINCT into_table FROM landed").fetchall()
        name = split_id(old, "e", None, None, key)
        db.execute("UPDATE landed SET id = ?", (name,))
        db.execute("UPDATE split SET id = ?, uri = ?", (name, old))
        db.commit()
    again = shell.ok("load", *urls, "--table", "t", "--json")
    assert again.document["splits_skipped"] == 1
    assert shell.row("SELECT count() FROM t") == [2]
    # Another token for the same station is the same object, another station is not.
    more = shell.ok("load", *(url.replace("abc", "def") for url in urls), "--table", "t", "--json")
    assert more.document["splits_skipped"] == 2
    assert shell.row("SELECT count() FROM t") == [2]
