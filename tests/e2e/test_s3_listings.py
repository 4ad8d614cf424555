"""Listings of S3 services that are cut, repeat themselves, or forget to say how they go on."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

import pytest

from e2e.tools import Shell
from lab.scripted import Asked, Reply, Scripted

KEYS = [f"in/{number:04}.csv" for number in range(6)]
MANY = [f"in/{number:04}.csv" for number in range(1_003)]
# Nothing has a row but the last three.
ROWS = {key: b"id\n%d\n" % n if n > len(MANY) - 4 else b"" for n, key in enumerate(MANY)}
_FILE = re.compile(r"/bucket/(in/\d+\.csv)\Z")

Page = Callable[[str, str, int], bytes]
"""(token, last key that was given, number of the question) -> an answer."""


def page(keys: list[str], token: str | None = None) -> bytes:
    """Return a page of a listing; one with a token, or with an empty one, is not the last."""
    items = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
        f'<ETag>"e"</ETag><Size>{len(ROWS.get(key, b"")) or 5 * (key in KEYS)}</Size></Contents>'
        for key in keys
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult '
        'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix>in/</Prefix>'
        f"<KeyCount>{len(keys)}</KeyCount><MaxKeys>1000</MaxKeys>"
        f"<IsTruncated>{str(token is not None).lower()}</IsTruncated>{items}{more}"
        "</ListBucketResult>"
    ).encode()


def behind(keys: list[str], last: str) -> list[str]:
    return [key for key in keys if key > last]


def repeats_its_token(token: str, last: str, number: int) -> bytes:
    assert number < 1_000
    return page(KEYS[3:] if token else behind(KEYS[:3], last), "T" if behind(KEYS, last) else None)


def repeats_a_key(token: str, last: str, number: int) -> bytes:
    return page(KEYS[2:]) if token else page(behind(KEYS[:3], last), "T" if not last else None)


def forgets_its_token(token: str, last: str, number: int) -> bytes:
    left = behind(MANY, last)
    return page(left[:1000], "" if len(left) > 1000 else None)


def forgets_short_tokens(token: str, last: str, number: int) -> bytes:
    left = behind(KEYS, last)
    return page(left[:4], "" if len(left) > 4 else None)


def goes_on_from_no_key(token: str, last: str, number: int) -> bytes:
    return page(KEYS[:4], "")


def is_cut_once(token: str, last: str, number: int) -> bytes:
    return page(behind(KEYS, last))[: 500 if number == 1 else None]


def is_cut(token: str, last: str, number: int) -> bytes:
    return page(behind(KEYS, last))[:-40]


def load(
    shell: Shell, answer: Page, session: bool, code: int, asked: list[str] | None = None
) -> str:
    asked = [] if asked is None else asked

    def reply(request: Asked) -> Reply:
        parts = urlsplit(request.path)
        query = dict(parse_qsl(parts.query))
        if "list-type" in query:
            asked.append(request.path)
            token, last = query.get("continuation-token", ""), query.get("start-after", "")
            return Reply(answer(token, last, len(asked)))
        if found := _FILE.match(parts.path):
            body = ROWS[found[1]] or b"id\n1\n\n"[: 5 * (found[1] in KEYS)]
            stamp = "Mon, 01 Jan 2024 00:00:00 GMT"
            return Reply(body, headers={"ETag": '"e"', "Last-Modified": stamp})
        return Reply(status=404)

    with Scripted(reply) as web:
        shell.env |= {
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://{web.host}",
            **({"AWS_SESSION_TOKEN": "session"} if session else {}),
        }  # fmt: skip
        words = ("load", "s3://bucket/in/", "--table", "t", "--patience", "1s")
        return shell.ends(code, *words).talk


@pytest.mark.sampled(3)
@pytest.mark.parametrize("session", [False, True], ids=["", "session"])
@pytest.mark.parametrize(
    "answer", [repeats_its_token, repeats_a_key, is_cut_once, forgets_short_tokens]
)
def test_each_object_is_loaded_once(shell: Shell, answer: Page, session: bool) -> None:
    """The first was asked for ever, a page that was cut ended the load, and rows were left out."""
    load(shell, answer, session, 0)
    assert shell.row("SELECT count(), sum(id) FROM t") == [6, 6]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("session", [False, True], ids=["", "session"])
def test_a_full_page_without_a_token_is_not_the_last(shell: Shell, session: bool) -> None:
    """The rest of the keys was left out without a word."""
    load(shell, forgets_its_token, session, 0)
    assert shell.row("SELECT count(), sum(id) FROM t") == [9, 6 + 1000 + 1001 + 1002]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("session", [False, True], ids=["", "session"])
def test_pages_that_do_not_go_on_are_no_end(shell: Shell, session: bool) -> None:
    """Four of six files were loaded, and nothing was said."""
    said = load(shell, goes_on_from_no_key, session, 4)
    assert "says that more keys follow, and gives the same ones again" in " ".join(said.split())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("session", [False, True], ids=["", "session"])
def test_a_whole_listing_costs_one_request_more_at_most(shell: Shell, session: bool) -> None:
    asked: list[str] = []
    load(shell, lambda token, last, number: page(behind(KEYS, last)), session, 0, asked)
    assert len(asked) == (1 if session else 2)


@pytest.mark.parametrize("bucket", ["b", "ab", "x" * 64])
@pytest.mark.parametrize(
    "words", [("s3://{}/a.csv",), ("a.csv", "--to", "s3://{}/out.csv"),
              ("a.csv", "--to", "iceberg+s3://{}/out"), ("delta+s3://{}/t",)],
)  # fmt: skip
def test_names_that_no_bucket_has(shell: Shell, bucket: str, words: tuple[str, ...]) -> None:
    """The engine refused them in its own words, after they had been listed (exit 6)."""
    shell.env |= {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }  # fmt: skip
    shell.write("a.csv", "id\n1\n")
    said = shell.ends(2, "load", *(word.format(bucket) for word in words)).talk
    assert f"the bucket {bucket}: buckets have names of 3 to 63 letters" in " ".join(said.split())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("session", [False, True], ids=["", "session"])
def test_a_page_that_is_always_cut_is_named(shell: Shell, session: bool) -> None:
    said = load(shell, is_cut, session, 4)
    assert "cannot list s3://bucket/in" in said
    assert session or "ends in the middle" in said
