"""A real Azure Blob service: Azurite, from the packages that ``azurite/package-lock.json`` pins."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.process import Service, ServiceError, free_ports, reachable

_PINNED = Path(__file__).parent / "azurite"


class Azure(Service):
    """One account with one key; checks signatures, keeps its data over kill -9.

    Attributes:
        port, endpoint: of its blobs; ``http://127.0.0.1:port/account``.
        account, key: what a client needs.
    """

    name = "azurite"
    account = "rowfalllab"
    key = "bGFiLXNlY3JldC0wMTIzNDU2Nzg5LWxhYi1zZWNyZXQtMDEyMzQ1Njc4OQ=="

    def __init__(self) -> None:
        self._packages = reachable(_packages())
        super().__init__()
        (self.port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self.port}/{self.account}"
        self._data = self.folder / "data"
        self._data.mkdir()
        self._own(self._data)

    def command(self) -> Sequence[str | Path]:
        return (
            _tool("node"),
            self._packages / "node_modules/azurite/dist/src/blob/main.js",
            "--silent",
            "--disableTelemetry",
            "--blobHost=127.0.0.1",
            f"--blobPort={self.port}",
            f"--location={self._data}",
        )

    def environment(self) -> Mapping[str, str]:
        return {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}

    def healthy(self) -> bool:
        from obstore.exceptions import BaseError

        try:  # writing proves more than listening
            self.create_bucket("health-probe")
            self.put("health-probe", "k", b"1")
        except BaseError as error:
            raise OSError(str(error)) from error
        return True

    @property
    def env(self) -> dict[str, str]:
        """The variables that point a client at this service."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
        }

    def create_bucket(self, name: str, *, public: bool = False) -> None:
        """A container; names have three letters or more; nothing happens to one that is there."""
        import base64
        import hmac
        from email.utils import formatdate
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        # No library in the environment makes containers.
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        if public:
            headers["x-ms-blob-public-access"] = "container"
        named = "".join(f"{key}:{headers[key]}\n" for key in sorted(headers))
        resource = f"/{self.account}/{self.account}/{name}\nrestype:container"
        text = "PUT" + "\n" * 12 + named + resource
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        url = f"{self.endpoint}/{name}?restype=container"
        request = Request(url, method="PUT", headers={**headers, "Content-Length": "0"})
        try:
            urlopen(request, timeout=10).close()
        except HTTPError as error:
            error.close()
            if error.code != 409:
                raise ServiceError(f"make the container {name}: {error}") from None

    def put(self, container: str, key: str, body: bytes) -> None:
        """Store one blob."""
        self._store(container).put(key, body)

    def delete(self, container: str, key: str) -> None:
        self._store(container).delete(key)

    def list(self, container: str) -> list[str]:
        """All names, in order."""
        return sorted(meta["path"] for page in self._store(container).list() for meta in page)

    def _store(self, container: str) -> Any:
        from obstore.store import AzureStore

        return AzureStore(
            container,
            account_name=self.account,
            account_key=self.key,
            endpoint=self.endpoint,
            client_options={"allow_http": True, "timeout": "10s"},
            retry_config={"max_retries": 0},
        )


def _packages() -> Path:
    """The installed packages, fetched once for all test processes."""
    cache = Path.home() / ".cache" / "rowfall-lab"
    cache.mkdir(parents=True, exist_ok=True)
    pinned = hashlib.sha256((_PINNED / "package-lock.json").read_bytes()).hexdigest()
    path = cache / f"azurite-{pinned[:16]}"
    with (cache / "azurite.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
                _install(Path(folder))
                Path(folder, "done").mkdir()
                Path(folder, "node_modules").rename(Path(folder, "done", "node_modules"))
                Path(folder, "done").rename(path)
    return path


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PINNED / name, folder)
    done = subprocess.run(
        [_tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ServiceError(f"cannot fetch Azurite: {done.stderr.strip()[-500:]}")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServiceError(f"{name} is not installed; the tests of Azure need Node.js 20 and npm")
    return found
