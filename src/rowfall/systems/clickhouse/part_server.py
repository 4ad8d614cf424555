"""Serves parts to ClickHouse servers, over HTTP as S3 has it, so that they RESTORE them.

A backup is a list of files and the files themselves; no server writes into it. So what a server
restores needs no bucket: this process answers the three requests that it makes (is an object there,
a listing, the bytes of an object). Each is signed with a secret that lives as long as the load and
that no log of a server holds; the name of the bucket is a random word besides.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.core.sqltext import quote as literal

LOOPBACK = "127.0.0.1"
TABLE = "rowfall.parts"
"""The table that a backup is of, as :meth:`PartServer.offer_parts` writes it."""
# Of a backup only the names and files of parts count: RESTORE takes the table that is there.
_DEFINITION = b"CREATE TABLE rowfall.parts (x UInt8) ENGINE = MergeTree ORDER BY x"
# What a request may stand still: a server that is gone without a word holds a thread until then.
_SILENCE_SECONDS = 120.0
# The same before the first request that is signed: a server sends that at once.
_STRANGERS_SECONDS = 10.0
# Connections without a signed request at a time: of more, the oldest is closed. Servers open up to
# 16 each, and their requests follow within milliseconds.
_STRANGERS = 256
_LIST = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
)
# Of a position in a file; longer ones are no numbers for Python.
_NUMBER = regex(r"[0-9]{1,19}")
_TIME = "2020-01-01T00:00:00.000Z"
# Files of a part that servers do without; each that they read costs them 0.3 ms. No checksum of the
# part knows the first, so CHECK TABLE of older servers takes it for a stranger. Of a part without
# the second the version is the table's; parts lose it where they are attached.
_LEFT_OUT = frozenset(("columns_substreams.txt", "metadata_version.txt"))
Content = Path | bytes
# CPU seconds that a file and its bytes cost the server that restores them: 284 MB of taxi rows in
# 205 files took a server of 24.10 0.44.
_FILE_SECONDS, _BYTE_SECONDS = 0.4e-3, 1.3e-9
# Bytes sent at once: 0.17 ms of such work, so that queries beside it never wait for a whole file.
_CHUNK = 128 << 10

# Servers that are to be spared take over parts with a sixteenth of their cores: at 1/8 of its only
# core, p99 of a query of 85 ms is 1.1 of what it is while nothing is loaded, without a pace 1.4.
_CORES_OF_A_PACE = 16


class Pace:
    """Spreads the work of a server that restores parts over time, all its requests together.

    Args:
        share: of one core, above 0: what the server may spend on it.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._free = 0.0  # when the work that has been sent is done
        self._guard = threading.Lock()

    def wait(self, size: int, *, begins: bool) -> None:
        """Wait until some bytes of a file may be sent.

        Args:
            begins: they are the first of the file.
        """
        work = size * _BYTE_SECONDS + begins * _FILE_SECONDS
        with self._guard:
            now = time.monotonic()
            turn = max(now, self._free)
            self._free = turn + work / self._share
        time.sleep(turn - now)


def pace_for(cores: int) -> Pace | None:
    """Return the pace at which a server of so many cores takes over parts; None from 16 on."""
    share = cores / _CORES_OF_A_PACE
    return Pace(share) if share < 1 else None


@dataclass(frozen=True, slots=True)
class OfferedObjects:
    """Objects with one prefix, which servers may read until they are withdrawn.

    Attributes:
        url: of the prefix. ``bytes``: of all objects.
    """

    url: str
    key: str
    secret: Secret
    bytes: int = 0

    def access(self, name: str = "") -> SqlText:
        """Return ``'url', 'key', 'secret'``: the first arguments of ``s3`` and ``S3``."""
        url = f"{self.url}{quote(name)}"
        return SqlText.of(f"{literal(url)}, {literal(self.key)}, ", self.secret)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST[:PORT]``, 0 for any port.

    Raises:
        UsageError: it has another form.
    """
    parts = urlsplit(f"//{text}")
    try:
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:  # no number
        host, port = "", 0
    if not host or parts.path or parts.query or parts.username:
        raise UsageError(
            f"--build-address {text!r} is no address of this machine",
            hint="Write the name or number by which the servers reach it, and a port if a firewall "
            "asks for one: --build-address 10.0.0.7:9100.",
        )
    return host, port


@functools.cache
def part_server(address: str | None) -> PartServer:
    """Return the server of this process at an address; None for servers on this machine.

    Raises:
        UsageError: it is no address, or cannot be listened at.
    """
    return PartServer(*(parse_address(address) if address else (LOOPBACK, 0)))


class PartServer:
    """Answers signed requests for objects; a thread each.

    Args:
        host: by which servers reach this machine. Only there it listens if that is a number of
            this machine, else at all of its interfaces. ``port``: 0 for any that is free.

    Raises:
        UsageError: the port is taken, or may not be had.
    """

    def __init__(self, host: str = LOOPBACK, port: int = 0) -> None:
        self._bucket = secrets.token_hex(16)
        self._key, self._secret = secrets.token_hex(8), Secret(secrets.token_hex(32))
        self._objects: dict[str, Content] = {}
        self._paces: dict[str, Pace] = {}  # by the prefix of an offer
        self._guard = threading.Lock()
        self.sent = 0
        try:
            self._server = _listening(host, port, partial(_Handler, self))
        except OSError as error:
            raise UsageError(
                f"port {port} of this machine cannot be listened at: {error.strerror}",
                hint="Name another one, or none, in --build-address.",
            ) from None
        port = self._server.server_address[1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def offer(self, objects: Mapping[str, Content], pace: Pace | None = None) -> OfferedObjects:
        """Let servers read some objects, under a prefix of their own.

        Args:
            pace: at which they are sent; by default as fast as they are read.
        """
        prefix = secrets.token_hex(8) + "/"
        with self._guard:
            self._objects |= {prefix + name: content for name, content in objects.items()}
            if pace is not None:
                self._paces[prefix] = pace
        size = sum(map(_size, objects.values()))
        url = f"http://{self.address}/{self._bucket}/{prefix}"
        return OfferedObjects(url, self._key, self._secret, size)

    def offer_parts(self, parts: Mapping[str, Path], pace: Pace | None = None) -> OfferedObjects:
        """Let servers restore parts, given by their names, as a backup of :data:`TABLE`."""
        objects: dict[str, Content] = {"metadata/rowfall/parts.sql": _DEFINITION}
        for name, folder in parts.items():
            objects |= {f"data/rowfall/parts/{name}/{at}": path for at, path in _files(folder)}
        return self.offer({**objects, ".backup": _index(objects)}, pace)

    def withdraw(self, offer: OfferedObjects) -> None:
        """Answer no more requests for what was offered."""
        prefix = offer.url.removeprefix(f"http://{self.address}/{self._bucket}/")
        with self._guard:
            self._objects = {
                name: c for name, c in self._objects.items() if not name.startswith(prefix)
            }
            self._paces.pop(prefix, None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # --- for the handler --------------------------------------------------------------------------

    def find(self, bucket: str, key: str) -> Content | None:
        """Return an object, None where there is none."""
        with self._guard:
            return self._objects.get(key) if bucket == self._bucket else None

    def pace(self, key: str) -> Pace | None:
        """Return the pace at which an object is sent; None for as fast as it goes."""
        return self._paces.get(key.partition("/")[0] + "/")

    def listed(self, prefix: str, most: int) -> list[tuple[str, int]]:
        """Return names and sizes of objects by their prefix."""
        with self._guard:
            names = sorted(name for name in self._objects if name.startswith(prefix))[:most]
            return [(name, _size(self._objects[name])) for name in names]

    def is_signed(self, handler: BaseHTTPRequestHandler) -> bool:
        """Tell whether a request bears the signature (version 4 of AWS) of this server's keys."""
        kind, _, rest = handler.headers.get("Authorization", "").partition(" ")
        fields = dict(item.strip().partition("=")[::2] for item in rest.split(","))
        key, _, scope = fields.get("Credential", "").partition("/")
        if kind != "AWS4-HMAC-SHA256" or key != self._key or scope.count("/") != 3:
            return False
        url = urlsplit(handler.path)
        query = sorted(parse_qsl(url.query, keep_blank_values=True))
        names = fields.get("SignedHeaders", "").split(";")
        headers = {name: " ".join(handler.headers.get(name, "").split()) for name in names}
        request = "\n".join([
            handler.command, quote(unquote(url.path), safe="/-_.~"),
            "&".join(f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in query),
            *(f"{name}:{value}" for name, value in headers.items()), "", ";".join(names),
            handler.headers.get("x-amz-content-sha256", ""),
        ])  # fmt: skip
        hashed = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join([kind, handler.headers.get("x-amz-date", ""), scope, hashed])
        signing = f"AWS4{self._secret.reveal()}".encode()
        for step in (*scope.split("/"), text):
            signing = hmac.digest(signing, step.encode(), "sha256")
        return hmac.compare_digest(signing.hex(), fields.get("Signature", ""))

    def count(self, sent: int) -> None:
        with self._guard:
            self.sent += sent


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A server reads the files of a part at the same time.
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._strangers: dict[Any, None] = {}
        self._guard = threading.Lock()
        super().__init__(*args)

    def server_bind(self) -> None:
        """Bind; that of HTTPServer asks for its own name, which takes seconds without a DNS."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection; who has opened many and asks for nothing loses the oldest."""
        with self._guard:
            self._strangers[request] = None
            oldest = next(iter(self._strangers)) if len(self._strangers) > _STRANGERS else None
            if oldest is not None:
                del self._strangers[oldest]
                with contextlib.suppress(OSError):  # its thread closes it
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.introduce(request)
        super().shutdown_request(request)

    def introduce(self, request: Any) -> None:
        """Count a connection no longer among those that have shown no signed request."""
        with self._guard:
            self._strangers.pop(request, None)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a peer that went away: its statement says what became of it."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _listening(host: str, port: int, handler: Callable[..., BaseHTTPRequestHandler]) -> _Server:
    """Return a server that listens where a host is, see :class:`PartServer`.

    Raises:
        OSError: it cannot.
    """
    kind = _Server6 if ":" in host else _Server
    try:
        at = LOOPBACK if host == "localhost" else str(ipaddress.ip_address(host))
    except ValueError:
        # A name may stand for the loopback here, as that of the machine does on Debian.
        return kind(("", port), handler)
    try:
        return kind((at, port), handler)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        return kind(("", port), handler)  # of a gateway that forwards the port


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _STRANGERS_SECONDS
    disable_nagle_algorithm = True
    server_version, sys_version = "rowfall", ""

    def __init__(self, parts: PartServer, *args: object) -> None:
        self._parts = parts
        super().__init__(*args)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: stderr is for people."""

    def do_HEAD(self) -> None:
        self._answer(head=True)

    def do_GET(self) -> None:
        self._answer(head=False)

    def _answer(self, *, head: bool) -> None:
        if not self._parts.is_signed(self):
            self.close_connection = True
            self._say(403, _error("AccessDenied"), head=head)
            return
        self.connection.settimeout(_SILENCE_SECONDS)
        self.server.introduce(self.connection)  # type: ignore[attr-defined]
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        if not key:
            self._say(200, self._listing(bucket, dict(parse_qsl(url.query))), head=head)
            return
        content = self._parts.find(bucket, key)
        if content is None:
            self._say(404, _error("NoSuchKey"), head=head)
            return
        try:
            self._send(content, self._parts.pace(key), head=head)
        except FileNotFoundError:
            self._say(404, _error("NoSuchKey"), head=head)

    def _listing(self, bucket: str, asked: Mapping[str, str]) -> bytes:
        prefix = asked.get("prefix", "")
        most = asked.get("max-keys", "")
        found = self._parts.listed(prefix, int(most) if _NUMBER.fullmatch(most) else 1000)
        lines = [
            f"<Contents><Key>{escape(name)}</Key><LastModified>{_TIME}</LastModified>"
            f'<ETag>"{_etag(name)}"</ETag><Size>{size}</Size></Contents>'
            for name, size in found
        ]
        return (
            f"{_LIST}<Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>{''.join(lines)}"
            "</ListBucketResult>"
        ).encode()

    def _send(self, content: Content, pace: Pace | None, *, head: bool) -> None:
        with contextlib.ExitStack() as stack:
            file = None if isinstance(content, bytes) else stack.enter_context(content.open("rb"))
            size = len(content) if isinstance(content, bytes) else os.fstat(file.fileno()).st_size  # type: ignore[union-attr]
            start, stop = _range(self.headers.get("Range", ""), size)
            if start >= size > 0:
                self._say(416, _error("InvalidRange"), head=head)
                return
            whole = (start, stop) == (0, size)
            self.send_response(200 if whole else 206)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("ETag", f'"{_etag(self.path)}"')
            self.send_header("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")
            self.send_header("Accept-Ranges", "bytes")
            if not whole:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.end_headers()
            if head:
                return
            if file is None:
                assert isinstance(content, bytes)  # noqa: S101 - else it is a file
                self.wfile.write(content[start:stop])
            else:
                step = max(1, stop - start) if pace is None else _CHUNK
                for at in range(start, stop, step):
                    size = min(step, stop - at)
                    if pace is not None:
                        pace.wait(size, begins=at == start)
                    file.seek(at)
                    self.connection.sendfile(file, at, size)
        self._parts.count(stop - start)

    def _say(self, status: int, body: bytes, *, head: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/xml")
        self.end_headers()
        if not head:
            self.wfile.write(body)


def _range(text: str, size: int) -> tuple[int, int]:
    """Return the first byte and the one behind the last of ``bytes=1-9``; all of them for ""."""
    unit, _, bounds = text.partition("=")
    first, _, last = bounds.partition("-")
    if unit != "bytes" or not _NUMBER.fullmatch(first):
        return 0, size
    stop = min(size, int(last) + 1 if _NUMBER.fullmatch(last) else size)
    return (int(first), stop) if int(first) < stop or int(first) >= size else (0, size)


def _error(code: str) -> bytes:
    return (
        f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'.encode()
    )


def _etag(name: str) -> str:
    """Return what is the same for an object as long as it is offered."""
    return hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()


def _size(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in _LEFT_OUT:
            yield path.relative_to(folder).as_posix(), path


def _index(objects: Mapping[str, Content]) -> bytes:
    """Return the list of a backup's files, as ``.backup`` has it.

    Checksums only tell files of one length apart there: nothing compares them with the bytes. The
    parts have checksums of their own, which a server compares.
    """
    lines = []
    for number, (name, content) in enumerate(objects.items(), 1):
        size = _size(content)
        checksum = f"<checksum>{number:032x}</checksum>" if size else ""
        lines.append(f"<file><name>{escape(name)}</name><size>{size}</size>{checksum}</file>")
    return (
        "<config><version>1</version><deduplicate_files>1</deduplicate_files>"
        "<timestamp>2020-01-01 00:00:00</timestamp>"
        "<uuid>00000000-0000-4000-8000-000000000000</uuid>"
        f"<contents>{''.join(lines)}</contents></config>"
    ).encode()
