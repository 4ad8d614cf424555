"""The bucket that a builder serves: signed requests only, whole objects and ranges of them."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rowfall.core.errors import UsageError
from rowfall.systems.clickhouse import part_server
from rowfall.systems.clickhouse.part_server import (
    OfferedObjects,
    PartServer,
    pace_for,
    parse_address,
)


@pytest.fixture(scope="module")
def server() -> Iterator[PartServer]:
    server = PartServer()
    yield server
    server.close()


def ask(offer: OfferedObjects, name: str, method: str = "GET", **more: str) -> tuple[int, bytes]:
    """Ask for an object, signed by another implementation; ``secret`` is another one."""
    secret = more.pop("secret", offer.secret.reveal())
    base = more.pop("url", offer.url)
    request = AWSRequest(method, base + name, headers={k.title(): v for k, v in more.items()})
    S3SigV4Auth(Credentials(offer.key, secret), "s3", "us-east-1").add_auth(request)
    return plain(request.url, method, dict(request.headers.items()))


def plain(
    url: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    at = urlsplit(url)
    connection = http.client.HTTPConnection(str(at.hostname), at.port, timeout=10)
    query = f"?{at.query}" if at.query else ""
    connection.request(method, at.path + query, headers=headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_objects_and_ranges_of_them(server: PartServer, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    offer = server.offer({"a b/ä.bin": tmp_path / "x", "empty": b""})
    assert offer.bytes == 10
    assert ask(offer, "a%20b/%C3%A4.bin") == (200, b"0123456789")
    assert ask(offer, "a%20b/%C3%A4.bin", range="bytes=2-4") == (206, b"234")
    assert ask(offer, "a%20b/%C3%A4.bin", range="bytes=8-") == (206, b"89")
    assert ask(offer, "a%20b/%C3%A4.bin", range="bytes=10-")[0] == 416
    assert ask(offer, "a%20b/%C3%A4.bin", "HEAD") == (200, b"")
    assert ask(offer, "empty") == (200, b"")
    assert ask(offer, "other")[0] == 404
    bucket = offer.url.rstrip("/").rpartition("/")[0]
    listed = ask(offer, "?list-type=2&prefix=" + offer.url.split("/")[-2], url=bucket)
    assert listed[0] == 200
    assert b"<Size>10</Size>" in listed[1]
    server.withdraw(offer)
    assert ask(offer, "empty")[0] == 404


def test_nobody_else_reads_them(server: PartServer) -> None:
    offer = server.offer({"word": b"secret"})
    assert plain(offer.url + "word")[0] == 403
    assert ask(offer, "word", secret="another")[0] == 403
    other = PartServer()
    try:
        foreign = OfferedObjects(offer.url, "another", other.offer({}).secret)
        assert ask(foreign, "word")[0] == 403
    finally:
        other.close()
    assert ask(offer, "word") == (200, b"secret")
    assert offer.secret.reveal() not in str(offer.access("word"))


def test_a_part_as_a_backup_has_it(server: PartServer, tmp_path: Path) -> None:
    for name in ("data.bin", "columns_substreams.txt", "metadata_version.txt"):
        (tmp_path / name).write_text(name)
    offer = server.offer_parts({"all_1_1_0": tmp_path})
    index = ask(offer, ".backup")[1].decode()
    assert "<name>data/rowfall/parts/all_1_1_0/data.bin</name><size>8</size>" in index
    assert "columns_substreams" not in index
    assert "metadata_version" not in index
    assert ask(offer, "data/rowfall/parts/all_1_1_0/data.bin") == (200, b"data.bin")
    assert ask(offer, "metadata/rowfall/parts.sql")[0] == 200


class Clock:
    """Time that passes where somebody sleeps, and only there."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_pace(server: PartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of two cores spends an eighth of one on 4 MB in two files; no byte is changed."""
    clock = Clock()
    monkeypatch.setattr(part_server, "time", clock)
    data = {f"f{n}": os.urandom(2_000_000) for n in (1, 2)}
    for name, content in {**data, "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
    place = "data/rowfall/parts/all_1_1_0/"
    for pace, cores in ((pace_for(2), 2), (pace_for(16), 16)):
        began = clock.now
        offer = server.offer_parts({"all_1_1_0": tmp_path}, pace)
        for name, content in data.items():
            assert ask(offer, f"{place}{name}") == (200, content)
        assert ask(offer, f"{place}empty") == (200, b"")
        # Nobody waits before the first bytes, nor for the work of the last.
        last = 2_000_000 % (128 << 10) * 1.3e-9
        work = 4_000_000 * 1.3e-9 + 2 * 0.4e-3 - last
        assert clock.now - began == pytest.approx(work / 0.125 if cores == 2 else 0.0)


def test_addresses() -> None:
    assert parse_address("10.0.0.7") == ("10.0.0.7", 0)
    assert parse_address("loader.lan:9100") == ("loader.lan", 9100)
    assert parse_address("[::1]:9100") == ("::1", 9100)
    for wrong in ("", "a:b", "http://a", "a/b", "a:99999", "u@a"):
        with pytest.raises(UsageError, match="no address of this machine"):
            parse_address(wrong)
    taken = PartServer()
    try:
        with pytest.raises(UsageError, match="cannot be listened at"):
            PartServer("127.0.0.1", int(taken.address.rpartition(":")[2]))
    finally:
        taken.close()


def test_ranges_that_make_no_sense(server: PartServer, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    offer = server.offer({"x": tmp_path / "x"})
    for asked in ("bytes=5-2", "bytes=-3", "bytes=²-", "bytes=a-b", "lines=1-2", "bytes=1-2,4-5"):
        status, body = ask(offer, "x", range=asked)
        assert (status, body) in ((200, b"0123456789"), (206, b"123456789")), asked
    assert ask(offer, "x", range="bytes=99999999999-")[0] == 416
    bucket = offer.url.rstrip("/").rpartition("/")[0]
    assert ask(offer, "?list-type=2&prefix=none&max-keys=many", url=bucket)[0] == 200
    assert ask(offer, "../../x")[0] == 404
    assert ask(offer, "x%2F..%2Fx")[0] in (403, 404)


def test_only_named_addresses_are_listened_at() -> None:
    def listens(host: str) -> str:
        server = PartServer(host)
        try:
            return str(server._server.server_address[0])
        finally:
            server.close()

    assert listens("127.0.0.1") == listens("localhost") == "127.0.0.1"
    assert listens("127.0.0.2") == "127.0.0.2"
    everywhere = "0.0.0.0"  # noqa: S104 - what is asked for
    assert listens("loader.lan") == everywhere
    assert listens("192.0.2.7") == everywhere  # no address of this machine: a gateway's


def test_strangers_do_not_keep_a_server_from_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many connections that ask for nothing the oldest is closed, of others none."""
    monkeypatch.setattr(part_server, "_STRANGERS", 4)
    own = PartServer()
    offer = own.offer({"word": b"secret"})
    at = urlsplit(offer.url)
    request = AWSRequest("GET", offer.url + "word")
    S3SigV4Auth(Credentials(offer.key, offer.secret.reveal()), "s3", "us-east-1").add_auth(request)
    known = http.client.HTTPConnection(str(at.hostname), at.port, timeout=10)

    def signed() -> bytes:
        known.request("GET", f"{at.path}word", headers=dict(request.headers.items()))
        return known.getresponse().read()

    strangers: list[socket.socket] = []
    try:
        assert signed() == b"secret"
        place = (str(at.hostname), at.port or 0)
        strangers += [socket.create_connection(place, timeout=10) for _ in range(5)]
        assert strangers[0].recv(1) == b""
        assert ask(offer, "word") == (200, b"secret")
        assert signed() == b"secret"
        strangers[-1].sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert b" 403 " in strangers[-1].recv(100)
    finally:
        for stranger in strangers:
            stranger.close()
        known.close()
        own.close()
