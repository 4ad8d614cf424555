"""URIs in parts, and what must never be shown."""

from __future__ import annotations

import itertools

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
        ("http://u:secret@h/x?page=1", "http://u:[HIDDEN]@h/x?page=1"),
        ("http://h/x?X-Amz-Signature=abc&v=2", "http://h/x?X-Amz-Signature=[HIDDEN]&v=2"),
        ("https://gh0-token@h/x", "https://[HIDDEN]@h/x"),
        (
            "https://h/x;jsessionid=1?code=2&v=3",
            "https://h/x;jsessionid=[HIDDEN]?code=[HIDDEN]&v=3",
        ),
        ("https://h/x?capability", "https://h/x?[HIDDEN]"),
        ("https://h/x?raw#access_token=1", "https://h/x?raw#[HIDDEN]"),
        ("https://h/x?path=https://bob:pw@h2/", "https://h/x?path=[HIDDEN]"),
        (
            "clickhouse://bob@h/?max_threads=2&api_key=1a",
            "clickhouse://bob@h/?max_threads=2&api_key=[HIDDEN]",
        ),
        (
            "clickhouse://h/?session_timezone=UTC&max_sessions_for_user=9&word=pwd",
            "clickhouse://h/?session_timezone=UTC&max_sessions_for_user=9&word=[HIDDEN]",
        ),
        (
            "kafka://h/t?security.protocol=SASL_SSL&ssl.key.pem=1a&ssl.key.location=/k",
            "kafka://h/t?security.protocol=SASL_SSL&ssl.key.pem=[HIDDEN]&ssl.key.location=/k",
        ),
        ("mysql://h/d/t?key=id&ssl_ca=/ca.pem", "mysql://h/d/t?key=id&ssl_ca=/ca.pem"),
        ("s3://bucket/part?.csv", "s3://bucket/part?.csv"),
        ("/data/a?token=1.csv", "/data/a?token=1.csv"),
    ],
)
def test_mask(text: str, shown: str) -> None:
    assert uri.mask(text) == shown


_ODD = ("/", "?", "#", "@", "%", "%2f", "/@", "@/", "?@", "#?/", "[", "]", "//", "&x=", "?x=", " /")


@pytest.mark.parametrize(
    "scheme", ["postgresql", "mysql", "clickhouse", "kafka", "https", "s3", "delta+s3"]
)
def test_passwords_that_nobody_has_encoded(scheme: str) -> None:
    """Such a letter ends the host, and the rest of the password stood in messages as a path."""
    first, second = "kQ7x", "Zw9v"
    passwords = [f"{first}{odd}{second}" for odd in _ODD]
    passwords += [f"12/{first}{second}", f"12#{first}{second}", f"9/@{first}"]
    for password, host, user in itertools.product(
        passwords, ("host", "db.example.com:5432", "[::1]:5432"), ("me", "")
    ):
        text = f"{scheme}://{user}:{password}@{host}/db/t"
        said = [uri.mask(text)]
        try:
            said.append(uri.parse(text).text)
        except UsageError as error:
            said.append(f"{error} {error.hint}")
        assert not any(part in one for one in said for part in (first, second)), text


@pytest.mark.parametrize(
    "text", [
        "postgresql://me@host:5432/db", "http://host.x:80/a/@me", "http://minio:9000/@scope/x",
        "s3://bucket/a:b@c/d", "kafka://h1:1,h2:2/t", "duckdb:///a@b/c:d@e", "hdfs://nn:8020/u@x/f",
        "postgresql://[::1]:5432/db", "delta+s3://b/x:y@z", "https://host/a:b@c",
        "postgresql://host/db/t@x", "http://minio:9000/b/v@2/x.csv", "http://minio:9000/b/@2/x.csv",
        "http://minio:9000/npm/pkg@1.2.3/x.csv", "http://minio:9000/b/icon@2x.csv?v=1",
        "http://minio:9000/b/pkg@latest/x.csv", "http://minio:9000/b/v@2.0.0-rc.1/x.csv",
    ],
)  # fmt: skip
def test_addresses_that_hold_no_password(text: str) -> None:
    assert uri.mask(text) == text


@pytest.mark.parametrize(
    "text", [
        "jdbc:postgresql://u:S3cr@h/db?password=S3cr", "jdbc:mysql:/u:S3cr@h/db?password=S3cr",
        "clickhouse:/bob:S3cr@h/db", "postgres//bob:S3cr@h/db", "bob:S3cr@h:8123/db",
        "/data/w/clickhouse:/bob:S3cr@h/db", "S3:/AK:S3cr@bucket/x.csv",
        "http//u:S3cr@h/x?sig=S3cr",
        "sqlalchemy+clickhouse+http://u:S3cr@h/db", "bob:S3cr@[::1]:8123",
    ],
)  # fmt: skip
def test_what_is_nearly_an_address(text: str) -> None:
    """A scheme with one slash too few makes it a path, and messages show paths."""
    assert "S3cr" not in uri.mask_almost(text)


def test_paths_are_shown_as_they_are() -> None:
    for path in ("a.csv", "/x/10:00:00/me@y.csv", "C:/data/a@b.csv", "a@b:c.csv", "x/v@2/a:b.csv"):
        assert uri.mask_almost(path) == path
        assert not uri.is_almost_address(path)


def test_a_password_that_ends_the_host_is_said() -> None:
    with pytest.raises(UsageError) as error:
        uri.parse("postgresql://me:pa/ss@host/db")
    assert "%2F" in str(error.value.hint)
    assert redact("x pa/ss", *uri.secret_values("postgresql://me:pa/ss@host/db")) == "x [HIDDEN]"
    assert uri.parse("postgresql://me:pa%2Fss@host/db").password == Secret("pa/ss")
    with pytest.raises(UsageError, match="a port is a number"):
        uri.parse("postgresql://me:secret/db")  # the host was forgotten


@pytest.mark.parametrize(
    "text", ["https://h/a.csv", "https://h/a.csv?page=2&raw", "http://h:1/?v=1"]
)
def test_an_address_without_secrets_is_its_own_name(text: str) -> None:
    """Ledgers know it by that."""
    assert uri.object_name(text) == text


def test_names_differ_where_only_secrets_do() -> None:
    one, two = (uri.object_name(f"https://h/a?token={n}&v=2") for n in (1, 2))
    assert one != two
    assert one == uri.object_name("https://bob:pw@h/a?token=1&v=2#x")
    assert one.startswith("https://h/a?token=[HIDDEN]&v=2#")
    assert one == uri.former_name("https://h/a?token=1&v=2")
    assert uri.without_secrets(one) == uri.without_secrets(two) == "https://h/a?token=[HIDDEN]&v=2"


def test_what_is_not_known_tells_objects_apart_and_credentials_do_not() -> None:
    names = [
        uri.object_name(f"https://h/a?station={s}&api_key={k}")
        for s, k in (("12", "a"), ("12", "b"), ("13", "a"), ("oslo", "a"), ("rome", "a"))
    ]
    assert len(set(names)) == 5
    shared = list(map(uri.without_secrets, names))
    assert shared[0] == shared[1]
    assert len(set(shared)) == 4
    assert not any(secret in name for name in names for secret in ("12", "oslo", "rome"))
    assert uri.former_name("https://h/a?station=12&v=1") == "https://h/a?station=12&v=1"


@pytest.mark.parametrize(
    "signed",
    [
        "OSSAccessKeyId=a&Expires=1&Signature=s",
        "q-sign-algorithm=sha1&q-ak=a&q-sign-time=1;2&q-key-time=1;2&q-header-list=&q-url-param-list="
        "&q-signature=s",
        "X-Amz-Credential=c&X-Amz-Date=d&X-Amz-Signature=s&X-Amz-Security-Token=t",
        "X-Goog-Algorithm=a&X-Goog-Credential=c&X-Goog-Date=d&X-Goog-Signature=s",
        "sp=r&se=2026-11-23&sv=2020-12-06&sr=b&sig=s",
        "AWSAccessKeyId=AKID&Expires=1&Signature=s",
        "Policy=p&Signature=s&Key-Pair-Id=k",
    ],
)
def test_a_signature_is_no_part_of_a_name(signed: str) -> None:
    assert uri.object_name(f"https://h/a?versionId=1&{signed}") == "https://h/a?versionId=1"
    assert uri.object_name(f"https://h/a?{signed}") == "https://h/a"


def test_a_parameter_called_signature_may_tell_objects_apart() -> None:
    assert uri.object_name("https://h/a?signature=1") != uri.object_name("https://h/a?signature=2")


def test_secret_values_are_found_decoded_and_as_typed() -> None:
    found = uri.secret_values("http://u:a%40b@h/x?token=t1&page=2")
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


@pytest.mark.parametrize(
    "other",
    ["https://h/a", "http://h:81/a", "http://h.evil/a", "http://h@evil/", "http://evil\\@h/",
     "http://x@h/", "http://h:x/"],
)  # fmt: skip
def test_an_origin_is_scheme_host_and_port(other: str) -> None:
    assert uri.origin("http://h/a") == uri.origin("HTTP://H:80/b?c")
    assert uri.origin("https://h/a") == uri.origin("https://h:443/")
    assert uri.origin("http://h/a") != uri.origin(other)


@pytest.mark.parametrize("text", ["x" * 200_000, "x." * 100_000 + " a", "1" * 200_000])
def test_a_long_text_is_looked_through_once(text: str) -> None:
    """From each of its letters it took minutes, in which an agent's server answered nothing."""
    assert uri.mask(text) == uri.mask_almost(text) == text
    assert not uri.is_almost_address(text)


def test_the_scheme_in_a_text_begins_with_a_letter() -> None:
    assert uri.mask_almost("see 1+http://u:hunter22@h/x") == "see 1+http://u:[HIDDEN]@h/x"
