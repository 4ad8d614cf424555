"""Requests to a bucket by botocore, which signs them and follows no redirect to another host.

obstore follows redirects, and sends the header ``x-amz-security-token`` along to whatever host an
endpoint names (it takes ``Authorization`` away, and has no option to follow none). It also refuses
keys with ``//`` or control characters. So buckets are asked here where keys have a token or a name
is one of those: :class:`ClientStore` has the methods of a store of obstore that rowfall calls. All
else goes through obstore, whose import takes a tenth of the 0.3 s of botocore's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowfall.core import extras
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError
from rowfall.core.s3_access import Access, Keys

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# A store that is away is an error after some 10 s, as with obstore (buckets.PATIENCE).
_CONNECT, _TIMEOUT, _TRIES = 3, 9, 3
# S3 takes 5 GiB in one request and 10,000 parts; four parts at once hold 64 MiB.
PART_BYTES, MOST_PARTS, _PARTS_AT_ONCE = 16 << 20, 10_000, 4
# CopyObject takes 5 GiB; of what is larger the service copies four parts at once.
MOST_COPIED, COPIED_PART = 5 << 30, 512 << 20
_NEVER = datetime.fromtimestamp(0, UTC)  # of services that say no time


def open_service(
    service: str, what: str, place: tuple[str, str | None], keys: Keys | None, **config: Any
) -> Any:
    """Return a client of botocore for a service of Amazon.

    Args:
        what: the message where botocore is missing.
        place: region and endpoint.
        keys: None for requests without a signature.
        config: settings of ``botocore.config.Config``.

    Raises:
        botocore.exceptions.BotoCoreError: the AWS configuration cannot be read.
        UsageError: botocore is not installed.
    """
    try:
        import botocore
        import botocore.session
        from botocore.config import Config
    except ImportError:
        raise extras.missing(what, "aws") from None
    if keys is None:
        config["signature_version"] = botocore.UNSIGNED
    region, endpoint = place
    return botocore.session.Session().create_client(
        service,
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id=keys.key_id if keys else None,
        aws_secret_access_key=keys.secret.reveal() if keys else None,
        aws_session_token=keys.token.reveal() if keys and keys.token else None,
        config=Config(
            connect_timeout=_CONNECT,
            retries={"total_max_attempts": _TRIES, "mode": "standard"},
            **config,
        ),
    )


def open_client(bucket: str, access: Access, keys: Keys | None) -> Any:
    """Return a client of botocore.

    Raises:
        botocore.exceptions.BotoCoreError: the AWS configuration cannot be read.
        UsageError: botocore is not installed.
    """
    client = open_service(
        "s3", "this bucket is asked with botocore, which is not installed",
        (access.region, access.endpoint), keys,
        read_timeout=_TIMEOUT,
        # As base_url writes addresses; "auto" would sign for the endpoint of all regions.
        s3={"addressing_style": "path" if access.endpoint or "." in bucket else "virtual"},
        signature_version="s3v4",
        # By itself botocore adds checksums that many services beside AWS refuse.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )  # fmt: skip
    client.meta.events.register("before-call.s3", _follow_no_region)
    return client


def _follow_no_region(context: dict[str, Any], **_: Any) -> None:
    """Keep botocore from asking other regions, as obstore and the engines are told which it is.

    Of a host that redirects all requests it asks for the region without end (1.44.5).
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


@dataclass(frozen=True, slots=True)
class _Got:
    """An answer, as ``get`` of obstore gives it."""

    body: bytes
    meta: dict[str, Any]

    def bytes(self) -> bytes:
        return self.body


class ClientStore:
    """One bucket, asked by botocore. Errors are those of obstore, in its words."""

    def __init__(self, access: Access, keys: Keys | None, bucket: str) -> None:
        with _as_obstore(""):
            self._client = open_client(bucket, access, keys)
        self._bucket = bucket

    def address(self, key: str, seconds: int) -> str:
        """Return an address that lets anybody read an object for so long."""
        asked = {"Bucket": self._bucket, "Key": key}
        return str(self._client.generate_presigned_url("get_object", asked, seconds))

    def head(self, key: str) -> dict[str, Any]:
        """Return path, size, ETag and time of an object."""
        with _as_obstore(key):
            said = self._client.head_object(Bucket=self._bucket, Key=key)
            return _meta(key, said, said["ContentLength"])

    def get(self, key: str, options: Mapping[str, Any] | None = None) -> _Got:
        """Return an object; ``options`` may have ``range`` (from, to) and ``if_match``."""
        asked = {}
        if options and "range" in options:
            start, stop = options["range"]
            asked["Range"] = f"bytes={start}-{stop - 1}"
        if options and "if_match" in options:
            asked["IfMatch"] = f'"{options["if_match"].strip(chr(34))}"'
        with _as_obstore(key):
            said = self._client.get_object(Bucket=self._bucket, Key=key, **asked)
            with said["Body"] as body:
                if "Range" in asked and "ContentRange" not in said:
                    raise _generic("it sends whole objects where a range is asked for")
                data = bytes(body.read())
        size = str(said.get("ContentRange", "")).rpartition("/")[2]
        return _Got(data, _meta(key, said, int(size) if size.isdigit() else len(data)))

    def list(
        self, prefix: str | None, offset: str | None = None, chunk_size: int = 1000
    ) -> Iterator[Sequence[dict[str, Any]]]:
        """Give the objects of a folder behind ``offset``, in pages."""
        return self.with_prefix(f"{prefix}/" if prefix else "", offset, chunk_size)

    def with_prefix(
        self, prefix: str, after: str | None = None, most: int = 1000
    ) -> Iterator[Sequence[dict[str, Any]]]:
        """Give the objects whose keys start with ``prefix``, in pages."""
        for page in self._pages(prefix, MaxKeys=most, **({"StartAfter": after} if after else {})):
            yield [_listed(item) for item in page.get("Contents", ())]

    def list_with_delimiter(self, prefix: str) -> dict[str, Any]:
        """Return the objects right in a folder."""
        pages = self._pages(f"{prefix.rstrip('/')}/", Delimiter="/")
        return {"objects": [_listed(item) for page in pages for item in page.get("Contents", ())]}

    def put(
        self, key: str, data: bytes | Path, mode: str | Mapping[str, str] = "",
        use_multipart: bool = True,
    ) -> dict[str, Any]:  # fmt: skip
        """Write an object, a large file in parts; return its ETag.

        Args:
            mode: ``create`` only where there is none; ``{"e_tag": ...}`` only over that one.
        """
        if isinstance(data, Path) and use_multipart and data.stat().st_size > PART_BYTES:
            return self._put_parts(key, data)
        asked = {"IfNoneMatch": "*"} if mode == "create" else {}
        if isinstance(mode, Mapping):
            asked = {"IfMatch": mode["e_tag"]}
        body = data.read_bytes() if isinstance(data, Path) else data
        with _as_obstore(key):
            said = self._client.put_object(Bucket=self._bucket, Key=key, Body=body, **asked)
        return {"e_tag": said.get("ETag")}

    def _put_parts(self, key: str, path: Path) -> dict[str, Any]:
        size = path.stat().st_size
        length = max(PART_BYTES, -(-size // MOST_PARTS))

        def send(upload: Mapping[str, Any], number: int) -> dict[str, Any]:
            with path.open("rb") as file:
                file.seek((number - 1) * length)
                body = file.read(length)
            said = self._client.upload_part(**upload, PartNumber=number, Body=body)
            return {"PartNumber": number, "ETag": said["ETag"]}

        return self._upload(key, send, -(-size // length))

    def _upload(
        self, key: str, send: Callable[[Mapping[str, Any], int], dict[str, Any]], parts_count: int
    ) -> dict[str, Any]:
        """Make an object of parts, each sent by ``send(upload, number)``; return its ETag."""
        where = {"Bucket": self._bucket, "Key": key}
        with _as_obstore(key):
            upload = where | {"UploadId": self._client.create_multipart_upload(**where)["UploadId"]}
            try:
                with ThreadPoolExecutor(_PARTS_AT_ONCE) as threads:
                    running = threads.map(partial(send, upload), range(1, parts_count + 1))
                    try:
                        parts = list(running)
                    except BaseException:
                        threads.shutdown(wait=False, cancel_futures=True)
                        raise
                said = self._client.complete_multipart_upload(
                    **upload, MultipartUpload={"Parts": parts}
                )
            except BaseException:
                # The parts of an upload that nobody completes are stored, and paid for, for ever.
                with suppress(Exception):
                    self._client.abort_multipart_upload(**upload)
                raise
        return {"e_tag": said.get("ETag")}

    def end_uploads(self, prefix: str, keys: Collection[str]) -> None:
        """End the uploads of objects that were begun in parts and not completed.

        Args:
            prefix: that all the keys have.
        """
        with _as_obstore(prefix):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=prefix
            )
            for upload in [one for page in pages for one in page.get("Uploads", ())]:
                if upload["Key"] in keys:
                    self._client.abort_multipart_upload(
                        Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )

    def delete(self, key: str, etag: str = "") -> None:
        """Remove an object.

        Args:
            etag: only where it has this one, with its quotes. AWS looks at it, not every service.

        Raises:
            PreconditionError: of obstore: it has another one.
        """
        asked = {"IfMatch": etag} if etag else {}
        with _as_obstore(key):
            self._client.delete_object(Bucket=self._bucket, Key=key, **asked)

    def copy(self, key: str, to: str, size: int, etag: str) -> None:
        """Copy an object that has this ETag inside the bucket, a large one in parts.

        Args:
            etag: with its quotes; "" copies any.

        Raises:
            PreconditionError: of obstore: it has another one.
        """
        source = {"Bucket": self._bucket, "Key": key}
        asked = {"CopySource": source, "CopySourceIfMatch": etag} if etag else {
            "CopySource": source
        }  # fmt: skip
        if size <= MOST_COPIED:
            with _as_obstore(key):
                self._client.copy_object(Bucket=self._bucket, Key=to, **asked)
            return
        length = max(COPIED_PART, -(-size // MOST_PARTS))

        def send(upload: Mapping[str, Any], number: int) -> dict[str, Any]:
            start = (number - 1) * length
            stop = min(size, start + length)
            said = self._client.upload_part_copy(
                **upload, **asked, PartNumber=number, CopySourceRange=f"bytes={start}-{stop - 1}"
            )
            return {"PartNumber": number, "ETag": said["CopyPartResult"]["ETag"]}

        self._upload(to, send, -(-size // length))

    def add_tag(self, key: str, name: str, value: str) -> None:
        """Give an object one more tag; those that it has stay."""
        where = {"Bucket": self._bucket, "Key": key}
        with _as_obstore(key):
            tags = self._client.get_object_tagging(**where).get("TagSet", [])
            wanted = {"Key": name, "Value": value}
            if wanted not in tags:
                tags = [tag for tag in tags if tag["Key"] != name]
                self._client.put_object_tagging(**where, Tagging={"TagSet": [*tags, wanted]})

    def open_reader(self, key: str, buffer_size: int) -> io.BufferedReader:
        """Open an object as a file."""
        return io.BufferedReader(_Ranges(self, key), buffer_size)

    def _pages(self, prefix: str, **asked: Any) -> Iterator[Mapping[str, Any]]:
        # Not by a paginator: its end is where a page has no token, and some services repeat one. So
        # a page that says that more follow is gone on from behind its last key.
        query = {"Bucket": self._bucket, "Prefix": prefix, **asked}
        while True:
            with _as_obstore(""):
                page = self._client.list_objects_v2(**query)
            yield page
            token, former = page.get("NextContinuationToken"), query.get("ContinuationToken")
            if not page.get("IsTruncated"):
                return
            if token and token != former:
                query["ContinuationToken"] = token
                continue
            last = max((item["Key"] for item in page.get("Contents", ())), default="")
            if last <= query.get("StartAfter", ""):
                raise SourceError(
                    f"cannot list s3://{self._bucket}: the service says that more keys follow, and "
                    "gives the same ones again",
                    hint="Name the objects one by one: an address without a pattern needs no "
                    "listing.",
                )
            query.pop("ContinuationToken", None)
            query["StartAfter"] = last


class _Ranges(io.RawIOBase):
    """Reads an object in ranges."""

    def __init__(self, store: ClientStore, key: str) -> None:
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


def _meta(key: str, said: Mapping[str, Any], size: int) -> dict[str, Any]:
    return {
        "path": key, "size": size, "e_tag": said.get("ETag"),
        "last_modified": said.get("LastModified") or _NEVER,
    }  # fmt: skip


def _listed(item: Mapping[str, Any]) -> dict[str, Any]:
    return _meta(item["Key"], item, item["Size"])


@contextmanager
def _as_obstore(key: str) -> Iterator[None]:
    """Raise what a store of obstore raises: callers know one kind of error."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        meta, said = error.response.get("ResponseMetadata", {}), error.response.get("Error", {})
        status, code = int(meta.get("HTTPStatusCode") or 0), str(said.get("Code", ""))
        region = said.get("Region") or meta.get("HTTPHeaders", {}).get("x-amz-bucket-region")
        about = f"<Region>{region}</Region> " if region else ""
        raise _refused(status, code, f"{about}{said.get('Message', '')}", key) from None
    except BotoCoreError as error:
        raise _generic(str(error)) from None


def _refused(status: int, code: str, message: str, key: str) -> Exception:
    from obstore.exceptions import PermissionDeniedError, PreconditionError

    # Where the body says no code, botocore gives the status.
    named = f": <Code>{code}</Code>" if code and not code.isdigit() else ""
    text = f"status code: {status}{named}: {message}"
    if status == 404 and code != "NoSuchBucket":
        return FileNotFoundError(f"status code: 404: {key}")
    if status in (409, 412):
        return PreconditionError(text)
    if status in (401, 403):
        return PermissionDeniedError(text)
    return _generic(text)


def _generic(text: str) -> Exception:
    from obstore.exceptions import GenericError

    return GenericError(text)
