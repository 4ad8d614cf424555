"""Requests to a bucket with temporary keys: signed in the address, and no redirect is followed.

obstore follows redirects, and sends the header ``x-amz-security-token`` along to whatever host an
endpoint names (it takes ``Authorization`` away, and has no option to follow none). So where keys
have a token, buckets are asked here: :class:`TokenStore` has the methods of a store of obstore that
rowfall calls. Keys without a token go through obstore, which is faster.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import io
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote_plus, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from rowfall.core.dataclass import dataclass
from rowfall.core.s3_access import Access, Keys, base_url

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# A store that is away is an error after some 10 s, as with obstore (object_stores.PATIENCE).
_TIMEOUT, _TRIES = 9.0, 3
_PAUSES = (0.1, 0.4)
# An answer to a listing has at most 1,000 keys of 1,024 bytes, which may be encoded.
_MOST_LISTED = 16 << 20
_MOST_SAID = 64 << 10  # of an error
_SECONDS = 900  # that an address is good for
_OWN_PORT = {"http": ":80", "https": ":443"}


def sign(
    access: Access, keys: Keys, method: str, url: str, *,
    query: Mapping[str, str] | None = None, seconds: int = _SECONDS, now: datetime | None = None,
) -> str:  # fmt: skip
    """Return the signed address of a request (Signature Version 4 in the query).

    Args:
        url: of the bucket or object, encoded.
        query: parameters of the request, not encoded.
        now: of the clock by default.
    """
    parts = urlsplit(url)
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{access.region}/s3/aws4_request"
    given = {
        **(query or {}),
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.key_id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
    }
    if keys.token:
        given["X-Amz-Security-Token"] = keys.token.reveal()
    encoded = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in given.items())
    asked = "&".join(f"{name}={value}" for name, value in encoded)
    # A scheme's own port is not in the Host header of some clients, so the address leaves it out.
    host = parts.netloc.rpartition("@")[2].removesuffix(_OWN_PORT.get(parts.scheme, ""))
    canonical = f"{method}\n{parts.path or '/'}\n{asked}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    signed = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashed}"
    key = f"AWS4{keys.secret.reveal()}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, signed.encode(), "sha256").hex()
    return f"{parts.scheme}://{host}{parts.path or '/'}?{asked}&X-Amz-Signature={signature}"


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return None: the answer is an error."""


@cache
def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects)


@dataclass(frozen=True, slots=True)
class _Got:
    """An answer, as ``get`` of obstore gives it."""

    body: bytes
    meta: dict[str, Any]

    def bytes(self) -> bytes:
        return self.body


class TokenStore:
    """One bucket, asked with keys that have a token. Errors are those of obstore, in its words."""

    def __init__(self, access: Access, keys: Keys, bucket: str) -> None:
        self._access, self._keys = access, keys
        self._base = base_url(access, bucket)

    def address(self, key: str, seconds: int) -> str:
        """Return an address that lets anybody read an object for so long."""
        return sign(self._access, self._keys, "GET", self._base + quote(key), seconds=seconds)

    def head(self, key: str) -> dict[str, Any]:
        """Return path, size, ETag and time of an object."""
        headers, _ = self._ask("HEAD", key)
        return _meta(key, headers, int(headers.get("Content-Length") or 0))

    def get(self, key: str, options: Mapping[str, Any] | None = None) -> _Got:
        """Return an object; ``options`` may have ``range`` (from, to) and ``if_match``."""
        asked = {}
        if options and "range" in options:
            start, stop = options["range"]
            asked["Range"] = f"bytes={start}-{stop - 1}"
        if options and "if_match" in options:
            asked["If-Match"] = f'"{options["if_match"].strip(chr(34))}"'
        headers, body = self._ask("GET", key, headers=asked)
        size = headers.get("Content-Range", "").rpartition("/")[2]
        return _Got(body, _meta(key, headers, int(size) if size.isdigit() else len(body)))

    def list(
        self, prefix: str | None, offset: str | None = None, chunk_size: int = 1000
    ) -> Iterator[list[dict[str, Any]]]:
        """Give the objects of a folder behind ``offset``, in pages."""
        for page in self._pages(f"{prefix}/" if prefix else "", offset, chunk_size):
            yield [_listed(item) for item in page.iterfind("{*}Contents")]

    def list_with_delimiter(self, prefix: str) -> dict[str, Any]:
        """Return the objects right in a folder."""
        found: list[dict[str, Any]] = []
        for page in self._pages(f"{prefix.rstrip('/')}/", None, 1000, delimiter="/"):
            found += [_listed(item) for item in page.iterfind("{*}Contents")]
        return {"objects": found}

    def put(
        self, key: str, data: bytes | Path, mode: str | Mapping[str, str] = "",
        use_multipart: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Write an object in one request; return its ETag.

        Args:
            mode: ``create`` only where there is none; ``{"e_tag": ...}`` only over that one.
        """
        headers = {"If-None-Match": "*"} if mode == "create" else {}
        if isinstance(mode, Mapping):
            headers = {"If-Match": mode["e_tag"]}
        if isinstance(data, Path):
            with data.open("rb") as file:
                size = data.stat().st_size
                said, _ = self._ask("PUT", key, headers=headers, body=file, length=size)
        else:
            body = io.BytesIO(data)
            said, _ = self._ask("PUT", key, headers=headers, body=body, length=len(data))
        return {"e_tag": said.get("ETag")}

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._ask("DELETE", key)

    def open_reader(self, key: str, buffer_size: int) -> io.BufferedReader:
        """Open an object as a file."""
        return io.BufferedReader(_Ranges(self, key), buffer_size)

    def _pages(
        self, prefix: str, after: str | None, most: int, delimiter: str = ""
    ) -> Iterator[ET.Element]:
        query = {"list-type": "2", "encoding-type": "url", "max-keys": str(most), "prefix": prefix}
        if delimiter:
            query["delimiter"] = delimiter
        if after:
            query["start-after"] = after
        while True:
            _, body = self._ask("GET", "", query=query)
            try:
                page = ET.fromstring(body)  # noqa: S314 - expat bounds what entities grow to
            except ET.ParseError as error:
                raise _generic(f"Got invalid list response: {error}") from None
            yield page
            token = page.findtext("{*}NextContinuationToken")
            if not token:
                return
            query["continuation-token"] = token

    def _ask(
        self, method: str, key: str, *, query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None, body: IO[bytes] | None = None, length: int = 0,
    ) -> tuple[http.client.HTTPMessage, bytes]:  # fmt: skip
        """Send one request, again where that may help.

        Raises:
            FileNotFoundError, ``obstore.exceptions``: as a store of obstore.
        """
        for pause in (*_PAUSES, None):
            url = sign(self._access, self._keys, method, self._base + quote(key), query=query)
            request = Request(url, method=method, headers=dict(headers or {}))  # noqa: S310
            if body is not None:
                body.seek(0)
                request.data = body
                request.add_header("Content-Length", str(length))
                request.add_header("Content-Type", "application/octet-stream")
            try:
                with _opener().open(request, timeout=_TIMEOUT) as answer:
                    if "Range" in request.headers and answer.status != 206:
                        raise _generic("it sends whole objects where a range is asked for")
                    most = _MOST_LISTED + 1 if query else -1
                    return answer.headers, answer.read(most)
            except HTTPError as error:
                with error:
                    said = error.read(_MOST_SAID).decode(errors="replace")
                if pause is None or not (error.code >= 500 or error.code == 429):
                    raise _refused(error.code, said, key) from None
            except (URLError, OSError, http.client.HTTPException) as error:
                if pause is None:
                    raise _generic(str(getattr(error, "reason", error))) from None
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")


class _Ranges(io.RawIOBase):
    """Reads an object in ranges."""

    def __init__(self, store: TokenStore, key: str) -> None:
        self._store, self._key, self._at = store, key, 0
        self._size = int(store.head(key)["size"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        stop = min(self._size, self._at + len(view))
        if stop <= self._at:
            return 0
        data = self._store.get(self._key, {"range": (self._at, stop)}).body
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def _meta(key: str, headers: http.client.HTTPMessage, size: int) -> dict[str, Any]:
    modified = datetime.fromtimestamp(0, UTC)
    with suppress(ValueError, TypeError):
        modified = parsedate_to_datetime(headers.get("Last-Modified") or "")
    return {"path": key, "size": size, "e_tag": headers.get("ETag"), "last_modified": modified}


def _listed(item: ET.Element) -> dict[str, Any]:
    modified = (item.findtext("{*}LastModified") or "1970-01-01T00:00:00Z").replace("Z", "+00:00")
    return {
        "path": unquote_plus(item.findtext("{*}Key") or ""),
        "size": int(item.findtext("{*}Size") or 0),
        "e_tag": item.findtext("{*}ETag"),
        "last_modified": datetime.fromisoformat(modified),
    }


def _refused(status: int, said: str, key: str) -> Exception:
    from obstore.exceptions import PermissionDeniedError, PreconditionError

    if status == 404 and "NoSuchBucket" not in said:
        return FileNotFoundError(f"status code: 404: {key}")
    if status in (409, 412):
        return PreconditionError(f"status code: {status}: {said}")
    if status in (401, 403):
        return PermissionDeniedError(f"status code: {status}: {said}")
    return _generic(f"status code: {status}: {said}")


def _generic(text: str) -> Exception:
    from obstore.exceptions import GenericError

    return GenericError(text)
