"""A real PostgreSQL 15: Debian's binaries, installed by apt where they are missing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.process import Service, ServiceError
from lab.tls import certificate
from rowfall.lab import postgresql

BIN = Path("/usr/lib/postgresql/15/bin")
_PACKAGE = "postgresql-15"


class PostgresqlServer(Service, postgresql.PostgresqlServer):
    """One server, see :class:`rowfall.lab.postgresql.PostgresqlServer`."""

    password = "lab-secret-0123456789"

    def __init__(self, *, tls: bool = False) -> None:
        postgresql.PostgresqlServer.__init__(self, _binaries())
        self._tls: tuple[str, ...] = ()
        if tls:
            files = certificate(self.folder)
            for file in files:
                self._own(file)
            self._tls = tuple(
                part for name, file in zip(("cert", "key"), files, strict=True)
                for part in ("-c", f"ssl_{name}_file={file}")
            )  # fmt: skip
            self._tls += ("-c", "ssl=on")

    def command(self) -> Sequence[str | Path]:
        return (*super().command(), *self._tls)


def _binaries() -> Path:
    """Where the programs are; apt installs them.

    Raises:
        ServiceError: it cannot.
    """
    if not (BIN / "postgres").exists():
        apt = shutil.which("apt-get")
        command = [str(apt), "install", "-y", "--no-install-recommends", _PACKAGE]
        if apt is None or subprocess.run(command, capture_output=True).returncode:
            raise ServiceError(f"no PostgreSQL at {BIN}, and apt-get install {_PACKAGE} failed")
    return BIN
