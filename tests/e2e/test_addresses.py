"""What an object behind HTTP is known by: all of its address but signatures, secrets as digests."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from e2e.tools import Shell, csv
from lab.scripted import Asked, Reply, Scripted
from rowfall.core.listing import split_id

SECRETS = ("tok-one", "tok-two", "tok-three", "s3cr", "0123456789abcdef")


def page(asked: Asked) -> Reply:
    """One row that says which page it is; nothing that changes with the page but the body."""
    query = parse_qs(urlsplit(asked.path).query)
    name = query.get("page_token", query.get("page", ["0"]))[0]
    return Reply(csv([(len(name), 1)], "length", "one").encode())


def tagged(asked: Asked) -> Reply:
    return Reply(b"length,one\n1,1\n", headers={"ETag": '"the-only-one"'})


@pytest.fixture
def pages() -> Iterator[Scripted]:
    with Scripted(page) as server:
        yield server


def ledger_of(shell: Shell) -> Path:
    return shell.folder / "rowfall-data/rowfall.ledger"


def test_pages_that_only_a_token_tells_apart(shell: Shell, pages: Scripted) -> None:
    """The values were masked before the address became the identity: one of three was loaded."""
    url = pages.url("data.csv?page_token={tok-one,tok-two,tok-three}")
    done = shell.ok("load", url, "--table", "t")
    assert shell.rows("SELECT length, count() FROM t GROUP BY 1 ORDER BY 1") == [[7, 2], [9, 1]]
    again = shell.ok("load", url, "--table", "t", "--json")
    assert again.document["splits_skipped"] == 3
    # One after the other, too: no server here says whether these are the same.
    shell.ok("load", pages.url("data.csv?page_token=tok-four"), "--table", "t")
    assert shell.row("SELECT count() FROM t") == [4]
    texts = done.out + done.err + again.out + shell.ok("status").out
    assert not any(secret in texts for secret in SECRETS)
    for path in (shell.folder / "rowfall-data").glob("rowfall.ledger*"):
        assert not any(secret.encode() in path.read_bytes() for secret in SECRETS), path


def test_no_secret_is_kept_for_resume_and_verify(shell: Shell, pages: Scripted) -> None:
    """The ledger kept the arguments of a load as they were typed, passwords included."""
    url = pages.url("data.csv?page_token=tok-one").replace("://", "://bob:s3cr%40et@")
    load = shell.ok("load", url, "--table", "t", "--json").document["load_id"]
    for path in (shell.folder / "rowfall-data").glob("rowfall.ledger*"):
        assert not any(secret.encode() in path.read_bytes() for secret in SECRETS), path
    done = shell.ends(2, "verify", load)
    assert "whose secrets are not kept" in done.talk
    assert "rowfall load" in done.talk
    shell.ok("load", url, "--table", "t", "--verify")


def test_what_an_older_rowfall_loaded_still_counts(shell: Shell, pages: Scripted) -> None:
    name = pages.url("data.csv?page_token=[HIDDEN]")
    url = pages.url("data.csv?page_token=tok-one")
    shell.ok("load", url, "--table", "t")
    with closing(sqlite3.connect(ledger_of(shell))) as db:
        ((key,),) = db.execute("SELECT DISTINCT into_table FROM landed").fetchall()
        version = str(len(page(Asked("GET", "/?page_token=tok-one", {})).body)) + "-None"
        old = split_id(name, version, None, None, key)
        db.execute("UPDATE landed SET id = ?", (old,))
        db.execute("UPDATE split SET id = ?, uri = ?", (old, name))
        db.commit()
    again = shell.ok("load", url, "--table", "t")
    assert "counts as loaded" in again.talk
    assert shell.row("SELECT count() FROM t") == [1]
    # Which of these it was cannot be known.
    done = shell.ends(3, "load", pages.url("data.csv?page_token={tok-one,tok-two}"), "--table", "t")
    assert "one of 2 addresses" in done.talk
    assert "rowfall forget" in done.talk
    assert shell.row("SELECT count() FROM t") == [1]


def test_a_new_token_for_the_same_file(shell: Shell) -> None:
    """Its ETag says that it is the same; a job that gets a new token each day goes on."""
    with Scripted(tagged) as server:
        shell.ok("load", server.url("day1.csv?token=tok-one"), "--table", "t")
        again = shell.ok("load", server.url("day{1,2}.csv?token=tok-two"), "--table", "t")
    assert "day1.csv?token=[HIDDEN]" not in again.out
    assert "differs in its secrets" in again.talk
    assert shell.row("SELECT count() FROM t") == [2]


def test_a_new_signature_for_the_same_file(shell: Shell) -> None:
    """Date and expiry of a signature were part of the identity: each signing was another object."""
    signed = (
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F{n}&X-Amz-Date={n}&"
        "X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature={n}"
    )
    with Scripted(tagged) as server:
        for number in ("20261123T100000Z", "20261123T110000Z"):
            url = server.url("a.csv?versionId=7&" + signed.replace("{n}", number))
            done = shell.ok("load", url, "--table", "t", "--json")
        assert done.document["splits_skipped"] == 1
        shell.ok("load", server.url("a.csv?versionId=8&" + signed), "--table", "t")
    assert shell.row("SELECT count() FROM t") == [2]
