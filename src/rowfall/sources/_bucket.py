"""One S3 bucket: list, look at one object, and say in plain words why that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rowfall.errors import RowfallError, SourceError
from rowfall.s3access import Access
from rowfall.secrets import redact

_CODE = re.compile(r"<Code>(\w+)</Code>")
_REGION = re.compile(r"<Region>([\w-]+)</Region>|expecting '([\w-]+)'")
_STATUS = re.compile(r"status code: (\d{3})")
_CHUNK = 1000  # keys per answer: S3 gives no more
_PIECE = 4 << 20  # a range of it arrives within the client's 9 s at 0.5 MB/s


class Object(NamedTuple):
    """One object of a listing; ``version`` is the ETag, else ``size-mtime``."""

    key: str
    size: int
    version: str


class Bucket:
    """Lists with obstore; keys it refuses (control characters, ``//``) go through botocore."""

    def __init__(self, name: str, access: Access) -> None:
        self.name = name
        self._access = access
        self._opened: Any = None
        self._slow: Any = None

    def list(self, prefix: str) -> Iterator[Object]:
        """Objects whose key starts with ``prefix``, streamed in the order of the service.

        Raises:
            SourceError: no such bucket, access denied, not reachable; with a hint.
        """
        from obstore.exceptions import InvalidPathError

        try:
            yield from self._list(prefix)
        except InvalidPathError:
            # Listed twice from the start; the caller keeps what it has seen by key.
            yield from self._list_slowly(prefix)
        except RowfallError:
            raise
        except Exception as error:
            raise self._explained(error, f"list s3://{self.name}/{prefix}".rstrip("/")) from error

    def head(self, key: str) -> Object | None:
        """One object, None when there is none.

        Raises:
            SourceError: as :meth:`list`.
        """
        try:
            try:
                meta = self._store().head(key)
            except ValueError:  # obstore refuses the key before it asks
                return self._head_slowly(key)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._explained(error, f"read s3://{self.name}/{key}") from error
        return _object(meta, key)

    def read(self, key: str, start: int, length: int) -> bytes:
        """A range of an object; shorter where the object ends.

        Raises:
            SourceError: as :meth:`list`, or the object is gone.
        """
        try:
            try:
                return bytes(self._store().get_range(key, start=start, length=length))
            except ValueError:  # as in head
                return self._read_slowly(key, start, length)
        except FileNotFoundError as error:
            raise SourceError(f"cannot read s3://{self.name}/{key}: it is gone") from error
        except Exception as error:
            raise self._explained(error, f"read s3://{self.name}/{key}") from error

    def pieces(self, key: str, size: int) -> Iterator[bytes]:
        """A whole object by ranges: no connection stays open while nobody takes its bytes.

        Raises:
            SourceError: as :meth:`read`.
        """
        for start in range(0, size, _PIECE):
            yield self.read(key, start, min(_PIECE, size - start))

    def _list(self, prefix: str) -> Iterator[Object]:
        # obstore lists folders only; inside the folder, start right before the wanted names.
        folder, _, start = prefix.rpartition("/")
        offset = None
        if start and " " < start[-1] <= "~":
            offset = prefix[:-1] + chr(ord(start[-1]) - 1)
        stream = self._store().list(folder or None, offset=offset, chunk_size=_CHUNK)
        for chunk in stream:
            for meta in chunk:
                key = meta["path"]
                if key.startswith(prefix):
                    yield _object(meta, key)
            # Keys come in order: past the prefix nothing can match any more.
            if chunk and start and chunk[-1]["path"] > prefix + "\U0010ffff":
                return

    def _store(self) -> Any:
        if self._opened is None:
            from obstore.store import S3Store

            access, keys = self._access, self._access.keys()
            config: dict[str, Any] = {"region": access.region}
            if access.endpoint is not None:
                config["endpoint"] = access.endpoint
            elif "." not in self.name:
                config["virtual_hosted_style_request"] = True
            if keys is None:
                config["skip_signature"] = True
            else:
                config["access_key_id"] = keys.key_id
                config["secret_access_key"] = keys.secret.reveal()
                if keys.token:
                    config["session_token"] = keys.token.reveal()
            self._opened = S3Store(
                self.name,
                client_options={"allow_http": True, "connect_timeout": "3s", "timeout": "9s"},
                retry_config={
                    "max_retries": 2,
                    "retry_timeout": timedelta(seconds=9),
                    "backoff": {
                        "init_backoff": timedelta(milliseconds=100),
                        "max_backoff": timedelta(seconds=1),
                        "base": 2,
                    },
                },
                **config,
            )
        return self._opened

    def _client(self) -> Any:
        if self._slow is None:
            import botocore
            import botocore.session
            from botocore.config import Config

            keys = self._access.keys()
            signing = {} if keys else {"signature_version": botocore.UNSIGNED}
            self._slow = botocore.session.Session().create_client(
                "s3",
                region_name=self._access.region,
                endpoint_url=self._access.endpoint,
                aws_access_key_id=keys.key_id if keys else None,
                aws_secret_access_key=keys.secret.reveal() if keys else None,
                aws_session_token=keys.token.reveal() if keys and keys.token else None,
                config=Config(
                    connect_timeout=3, read_timeout=9, retries={"total_max_attempts": 3}, **signing
                ),
            )
        return self._slow

    def _list_slowly(self, prefix: str) -> Iterator[Object]:
        pages = self._client().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.name, Prefix=prefix):
            for item in page.get("Contents", ()):
                version = _version(item.get("ETag"), item["Size"], item["LastModified"])
                yield Object(item["Key"], item["Size"], version)

    def _head_slowly(self, key: str) -> Object | None:
        from botocore.exceptions import ClientError

        try:
            item = self._client().head_object(Bucket=self.name, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return None
            raise
        size = item["ContentLength"]
        return Object(key, size, _version(item.get("ETag"), size, item["LastModified"]))

    def _read_slowly(self, key: str, start: int, length: int) -> bytes:
        span = f"bytes={start}-{start + length - 1}"
        answer = self._client().get_object(Bucket=self.name, Key=key, Range=span)
        return bytes(answer["Body"].read())

    def _explained(self, error: Exception, what: str) -> SourceError:
        """The error in the user's words; foreign text is cut to its first line and masked."""
        keys = None
        with suppress(RowfallError):
            keys = self._access.keys()
        text = redact(str(error), keys.secret if keys else None, keys.token if keys else None)
        code, where = _CODE.search(text), self._access.where
        cause, hint, transient = self._reason(text, code[1] if code else "", where)
        return SourceError(f"cannot {what}: {cause}", hint=hint, transient=transient)

    def _reason(self, text: str, code: str, where: str) -> tuple[str, str, bool]:
        found = _STATUS.search(text)
        status = int(found[1]) if found else 0
        if code == "NoSuchBucket":
            return (
                f"no bucket {self.name} at {where}",
                f"The endpoint {where} answered; check the bucket's name and --s3-endpoint.",
                False,
            )
        region = _REGION.search(text)
        if status in (301, 307) or region:
            name = next(filter(None, region.groups()), "") if region else ""
            return (
                f"the bucket {self.name} is in another region than {self._access.region}",
                f"Give its region with --s3-region{' ' + name if name else ''}.",
                False,
            )
        if status in (401, 403):
            return self._denied(code, status, where)
        if status == 404 or "Got invalid list response" in text or status == 405:
            return (
                f"{where} does not answer like an S3 service",
                "Check the port in --s3-endpoint: it has to be the S3 API, not a console.",
                False,
            )
        if status:
            return f"{where} answered {status} {code}".rstrip(), "Try again later.", status >= 500
        reason = _network_reason(text)
        return (
            f"no connection to {where} ({reason})",
            "Check --s3-endpoint (http or https, host, port) and that the service runs.",
            True,
        )

    def _denied(self, code: str, status: int, where: str) -> tuple[str, str, bool]:
        if self._access.anonymous:
            hint = "The bucket is not public: leave out --s3-anonymous and give credentials."
        elif code in ("InvalidAccessKeyId", "SignatureDoesNotMatch"):
            hint = "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile."
        elif "Expired" in code:
            hint = "The session token has expired: get a new one."
        else:
            hint = (
                "Check the keys: they need s3:ListBucket and s3:GetObject (without ListBucket a "
                "missing object looks the same); public buckets need --s3-anonymous."
            )
        return f"access denied by {where} ({code or status})", hint, False


def _network_reason(text: str) -> str:
    lower = text.lower()
    for needle, reason in (
        ("connection refused", "connection refused"),
        ("dns error", "the host name is not known"),
        ("failed to lookup", "the host name is not known"),
        ("certificate", "the TLS certificate is not trusted"),
        ("invalidcontenttype", "it does not speak TLS: use http instead of https"),
        ("corrupt message", "it does not speak TLS: use http instead of https"),
        ("timed out", "no answer in time"),
        ("timeout", "no answer in time"),
    ):
        if needle in lower.replace("retry_timeout", ""):
            return reason
    return text.partition("\n")[0][-160:]


def _object(meta: Any, key: str) -> Object:
    return Object(key, meta["size"], _version(meta["e_tag"], meta["size"], meta["last_modified"]))


def _version(etag: str | None, size: int, modified: datetime) -> str:
    if etag:
        return etag.strip('"')
    return f"{size}-{modified.timestamp():.0f}"
