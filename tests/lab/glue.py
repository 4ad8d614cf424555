"""A catalogue that speaks the protocol of AWS Glue, and S3 beside it: the server of moto.

No service of AWS runs outside of it, so this is a stand-in: the client is the real one (pyiceberg
and boto3), and what the server makes of its requests is moto's. Packages are those that
``glue/*.txt`` pin (``uv pip compile --generate-hashes --no-emit-index-url`` of moto[glue,s3], flask
and flask-cors, and of boto3, for the locked botocore); none is in the environment of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self
from urllib.request import Request, urlopen

from lab.packages import packages
from lab.process import ServiceError, free_ports, wait_until

_HERE = Path(__file__).parent / "glue"


class Glue:
    """Glue and S3 at one address, which forget everything when they end.

    It runs as whoever tests: the user of other services may not read this Python.

    Attributes:
        client: folder of boto3, for ``PYTHONPATH``.
        endpoint: of both.
    """

    def __init__(self) -> None:
        self.client = packages(_HERE / "client.txt")
        (port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{port}"
        main = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", main],
            env={**os.environ, "PYTHONPATH": str(packages(_HERE / "server.txt"))},
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def __enter__(self) -> Self:
        try:
            wait_until(self._up, 60, "moto to answer")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _up(self) -> bool:
        if self._process.poll() is not None:
            self._log.seek(0)
            raise ServiceError(f"moto ended: {self._log.read()[-800:].decode(errors='replace')}")
        with urlopen(f"{self.endpoint}/moto-api/", timeout=5) as answer:
            return bool(answer.status == 200)

    def create_bucket(self, name: str) -> None:
        urlopen(Request(f"{self.endpoint}/{name}", method="PUT"), timeout=10).close()

    def catalogue(self, name: str, warehouse: str) -> dict[str, str]:
        """The variables that make it a catalogue of pyiceberg and point a client at it."""
        settings = {
            "TYPE": "glue", "GLUE__ENDPOINT": self.endpoint, "GLUE__REGION": "us-east-1",
            "S3__ENDPOINT": self.endpoint, "S3__REGION": "us-east-1", "WAREHOUSE": warehouse,
        }  # fmt: skip
        return {
            **{f"PYICEBERG_CATALOG__{name.upper()}__{k}": v for k, v in settings.items() if v},
            "AWS_ACCESS_KEY_ID": "lab", "AWS_SECRET_ACCESS_KEY": "lab-secret",
            "PYTHONPATH": str(self.client),
        }  # fmt: skip
