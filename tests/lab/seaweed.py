"""The S3 service of the lab with what tests ask of it besides."""

from __future__ import annotations

from collections.abc import Sequence

from lab.process import Service
from rowfall.lab.s3 import S3Service, client, grpc_ports

__all__ = ["Seaweed", "client", "grpc_ports"]


class Seaweed(Service, S3Service):
    """One S3 service, see :class:`rowfall.lab.s3.S3Service`."""

    secret_key = "lab-secret-0123456789"

    @property
    def google_env(self) -> dict[str, str]:
        """The variables that take it for Google, which speaks this protocol for HMAC keys."""
        return {
            "GS_ACCESS_KEY_ID": self.access_key,
            "GS_SECRET_ACCESS_KEY": self.secret_key,
            "GOOGLE_BASE_URL": self.endpoint,
        }

    def get(self, bucket: str, key: str) -> bytes:
        """The bytes of one object."""
        body: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def delete(self, bucket: str, key: str) -> None:
        self._client.delete_object(Bucket=bucket, Key=key)

    def list(self, bucket: str, prefix: str = "") -> list[str]:
        """All keys below ``prefix``, in order."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def start_upload(self, bucket: str, key: str) -> None:
        """Begin an upload in parts, and leave it so."""
        self._client.create_multipart_upload(Bucket=bucket, Key=key)

    def uploads(self, bucket: str) -> Sequence[str]:
        """The keys of uploads that nobody has completed, in order."""
        found = self._client.list_multipart_uploads(Bucket=bucket)
        return sorted(item["Key"] for item in found.get("Uploads", ()))
