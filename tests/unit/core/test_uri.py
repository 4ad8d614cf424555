"""URIs in parts, and what must never be shown."""

from __future__ import annotations

import pytest

from rowfall.core import uri
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret, redact


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("a.csv", "file"),
        ("/data/*.csv", "file"),
        ("file:///data/a.csv", "file"),
        ("-", "stdin"),
        ("S3://bucket/key", "s3"),
        ("https://host/a.csv", "https"),
        ("generate://trips", "generate"),
        ("null:", "null"),
        ("c:/data", "file"),
    ],
)
def test_scheme(text: str, scheme: str) -> None:
    assert uri.scheme_of(text) == scheme


def test_parts() -> None:
    found = uri.parse("clickhouse://bob:p%40ss@host:8123/db?cluster=a%20b")
    assert (found.scheme, found.user, found.host, found.port) == ("clickhouse", "bob", "host", 8123)
    assert found.password == Secret("p@ss")
    assert (found.path, found.query) == ("/db", {"cluster": "a b"})


def test_password_with_an_at_sign() -> None:
    found = uri.parse("mysql://bob:p@s:s@host/db")
    assert (found.user, found.password, found.host) == ("bob", Secret("p@s:s"), "host")
    assert "p@s" not in found.text


def test_no_password_is_none() -> None:
    assert uri.parse("mysql://bob@host/db").password is None


@pytest.mark.parametrize("text", ["", "http://host:port/x", "http://[::1/x"])
def test_malformed(text: str) -> None:
    with pytest.raises(UsageError):
        uri.parse(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:secret@h/x?a=1", "http://u:[HIDDEN]@h/x?a=1"),
        ("http://h/x?X-Amz-Signature=abc&b=2", "http://h/x?X-Amz-Signature=[HIDDEN]&b=2"),
        ("s3://bucket/part?.csv", "s3://bucket/part?.csv"),
        ("/data/a?token=1.csv", "/data/a?token=1.csv"),
    ],
)
def test_mask(text: str, shown: str) -> None:
    assert uri.mask(text) == shown


def test_secret_values_are_found_decoded_and_as_typed() -> None:
    found = uri.secret_values("http://u:a%40b@h/x?token=t1&n=2")
    assert set(found) == {Secret("a%40b"), Secret("a@b"), Secret("t1")}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a%20b.csv", "a%20b.csv"),
        ("file:///a%20b.csv", "/a b.csv"),
        ("file://localhost/a.csv", "/a.csv"),
    ],
)
def test_file_path(text: str, path: str) -> None:
    assert uri.file_path(text) == path


def test_file_of_another_host() -> None:
    with pytest.raises(UsageError, match="host"):
        uri.file_path("file://host/a.csv")


@pytest.mark.parametrize(
    "address",
    [
        "https://h/a?sp=r&sig=SECRET%3D",
        "http://h/x?X-Goog-Signature=SECRET&y=1",
        "h/?access_token=SECRET",
    ],
)
def test_signatures_in_foreign_text_are_masked(address: str) -> None:
    for text in (f"Received error from {address}. HTTP 404", f"'{address}'", f"(uri {address}): x"):
        shown = redact(text)
        assert "SECRET" not in shown
        assert "[HIDDEN]" in shown
    assert redact("a?design=1&signal=2&sign=3") == "a?design=1&signal=2&sign=3"
