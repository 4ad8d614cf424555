"""Web servers that are busy, or that answer with something else than the data."""

from __future__ import annotations

import gzip

import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.scripted import Asked, Reply, Scripted
from rowfall.stores import http

DATA = b"id,name\n1,x\n2,y\n"
PAGE = b"<!DOCTYPE html>\n<html><body>Log in, please, to see it</body></html>\n"
ETAG = {"ETag": '"one"', "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "whole"])
@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_a_login_page_is_no_table(shell: Shell, name: str, ranges: bool) -> None:
    """It became a table of one column where the server ignores Range."""
    with Scripted(lambda asked: Reply(PAGE, headers=ETAG, ranges=ranges)) as web:
        done = shell.ends(4, "load", web.url(name), "--table", "t")
    assert "is an HTML page, not a table" in done.talk


@pytest.mark.sampled(2)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("headers", [{}, {"Retry-After": "1"}], ids=["", "after"])
def test_a_busy_server_is_asked_again(
    shell: Shell, status: int, headers: dict[str, str]
) -> None:  # fmt: skip
    """One such answer to a HEAD ended the load."""
    refused: list[str] = []

    def reply(asked: Asked) -> Reply:
        if asked.method not in refused:
            refused.append(asked.method)
            return Reply(status=status, headers=headers)
        return Reply(DATA, headers=ETAG)

    with Scripted(reply) as web:
        shell.ok("load", web.url("a.csv"), "--table", "t")
    assert refused == ["HEAD", "GET"]
    assert shell.row("SELECT count(), sum(id) FROM t") == [2, 3]


def test_a_server_that_stays_busy_is_named(shell: Shell) -> None:
    with Scripted(lambda asked: Reply(status=503, headers={"Retry-After": "0"})) as web:
        done = shell.ends(4, "load", web.url("a.csv"), "--table", "t", "--patience", "1s")
    assert "a.csv: the server answered 503" in done.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_an_answer_without_its_length_is_as_long_as_the_listing_says(
    shell: Shell, decoder: str
) -> None:
    """One that was cut at a line end was loaded as a whole file."""
    rows = DATA + b"".join(b"%d,z\n" % n for n in range(3, 20_001))
    sent = [rows[: rows.index(b"\n", 50_000) + 1]]

    def reply(asked: Asked) -> Reply:
        if asked.method == "HEAD":
            return Reply(rows, headers=ETAG)
        return Reply(sent[0], headers=ETAG, endless=True)

    with Scripted(reply) as web:
        load = ("load", web.url("a.csv"), "--table", "t", "--decoder", decoder, "--patience", "1s")
        done = shell.ends(1, *load)
        assert (
            f"the connection broke {len(rows) - len(sent[0]):,} bytes before the end" in done.talk
        )
        assert shell.row("SELECT count() FROM t") == [0]
        sent[0] = rows
        shell.ok(*load)
    assert shell.row("SELECT count() FROM t") == [20_000]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_the_plan_says_that_a_server_cannot_notice_a_cut(
    shell: Shell, clickhouse: ClickHouse, name: str
) -> None:
    """A HEAD without a length, and whole answers without one; gzip has an end of its own."""
    lake = Lake(shell, clickhouse)
    data = gzip.compress(DATA) if name.endswith("gz") else DATA

    def reply(asked: Asked) -> Reply:
        return Reply(data, headers=ETAG, endless="range" not in asked.headers)

    said = "a ClickHouse server takes one that is cut at the end of a line for whole"
    with Scripted(reply) as web:
        words = (web.url(name), "--table", "t")
        pulled = " ".join(lake.ok("plan", *words, "--pull").out.split())
        assert (said in pulled) == (name == "a.csv")
        assert said not in " ".join(lake.ok("plan", *words, "--push").out.split())
        web.reply = lambda asked: Reply(data, headers=ETAG)
        assert said not in " ".join(lake.ok("plan", *words, "--pull").out.split())


# More than the engine takes at once, so that it asks for the rest.
LONG = b"id,name\n" + b"".join(b"%d,name-%d\n" % (n, n) for n in range(150_000))


def test_redirects_that_lead_nowhere(shell: Shell) -> None:
    """Python's own text has three lines."""
    with Scripted(lambda asked: Reply(status=302, headers={"Location": asked.path})) as web:
        done = shell.ends(4, "load", web.url("a.csv"), "--table", "t")
    assert "a.csv: it redirects, and never to a file (302)" in done.talk
    assert "infinite loop" not in done.talk


@pytest.mark.parametrize("head", [200, 405])
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_a_server_that_refuses_every_range_gives_whole_files(
    shell: Shell, decoder: str, head: int
) -> None:
    """It was said to have changed, or, where it answers no HEAD, to be empty."""

    def reply(asked: Asked) -> Reply:
        if asked.method == "HEAD" and head != 200:
            return Reply(status=head)
        return Reply(status=416) if "range" in asked.headers else Reply(DATA, headers=ETAG)

    with Scripted(reply) as web:
        done = shell.ok("load", web.url("a.csv"), "--table", "t", "--decoder", decoder)
    assert "changed" not in done.talk
    assert shell.row("SELECT count(), sum(id) FROM t") == [2, 3]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_chunks_that_end_early_are_a_file_that_fails(shell: Shell, decoder: str) -> None:
    """The engine's own words ended the load with exit 6; the other file is loaded all the same."""

    def reply(asked: Asked) -> Reply:
        cut = len(LONG) - 100_000 if asked.path == "/b.csv" else None
        return Reply(LONG, headers=ETAG, chunked=True, cut=cut)

    with Scripted(reply) as web:
        load = ("load", web.url("{a,b}.csv"), "--table", "t", "--decoder", decoder)
        done = shell.ends(1, *load, "--patience", "1s")
    assert "HTTP_RANGE_NOT_SATISFIABLE" not in done.talk
    assert "b.csv: cannot read" in done.talk
    assert shell.row("SELECT count() FROM t") == [150_000]


def test_bytes_that_drip_are_no_answer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte every half second held a load for ever: each of them counted as life."""
    monkeypatch.setattr(http, "_TIMEOUT", 0.3)
    reply = lambda asked: Reply(DATA * 100, headers=ETAG, drips=0.02)  # noqa: E731
    with Scripted(reply) as web:
        done = shell.ends(4, "load", web.url("a.csv"), "--table", "t", "--patience", "1s")
    assert "a.csv: only 1" in done.talk
    assert "bytes came within 0 s" in done.talk
