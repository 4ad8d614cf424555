"""One S3 bucket: what obstore cannot ask for goes through botocore, and errors name what helps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rowfall.core.errors import RowfallError
from rowfall.core.masked import Secret
from rowfall.core.s3_access import Access
from rowfall.sources._bucket import PATIENCE, Bucket, Object, version_of

_REGION = re.compile(r"<Region>([\w-]+)</Region>|expecting '([\w-]+)'")


class S3Bucket(Bucket):
    """Lists with obstore; keys it refuses (control characters, ``//``) go through botocore."""

    odd = "Check the port in --s3-endpoint: it has to be the S3 API, not a console."
    away = "Check --s3-endpoint (http or https, host, port) and that the service runs."

    def __init__(self, name: str, access: Access, scheme: str = "s3") -> None:
        super().__init__(name, scheme, access.where)
        self._access = access
        self._slow: Any = None

    def _open(self) -> Any:
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
        return S3Store(self.name, **PATIENCE, **config)

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
                version = version_of(item.get("ETag"), item["Size"], item["LastModified"])
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
        return Object(key, size, version_of(item.get("ETag"), size, item["LastModified"]))

    def _read_slowly(self, key: str, start: int, length: int) -> bytes:
        span = f"bytes={start}-{start + length - 1}"
        answer = self._client().get_object(Bucket=self.name, Key=key, Range=span)
        return bytes(answer["Body"].read())

    def _secrets(self) -> tuple[Secret | None, ...]:
        with suppress(RowfallError):
            if keys := self._access.keys():
                return keys.secret, keys.token
        return ()

    def _reason(self, text: str, status: int, code: str) -> tuple[str, str] | None:
        if code == "NoSuchBucket":
            return (
                f"no bucket {self.name} at {self.where}",
                f"The endpoint {self.where} answered; check the bucket's name and --s3-endpoint.",
            )
        region = _REGION.search(text)
        if status in (301, 307) or region:
            name = next(filter(None, region.groups()), "") if region else ""
            return (
                f"the bucket {self.name} is in another region than {self._access.region}",
                f"Give its region with --s3-region{' ' + name if name else ''}.",
            )
        if status in (401, 403) or "Expired" in code:  # AWS says 400 ExpiredToken
            return f"access denied by {self.where} ({code or status})", self._denied(code)
        if status in (404, 405) or "Got invalid list response" in text:
            return f"{self.where} does not answer like an S3 service", self.odd
        return None

    def _denied(self, code: str) -> str:
        """What helps where access is denied."""
        if self._access.anonymous:
            return "The bucket is not public: leave out --s3-anonymous and give credentials."
        if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch"):
            return "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile."
        if "Expired" in code:
            return "The session token has expired: get a new one."
        return (
            "Check the keys: they need s3:ListBucket and s3:GetObject (without ListBucket a "
            "missing object looks the same); public buckets need --s3-anonymous."
        )
