"""A real PostgreSQL 15: Debian's binaries, installed by apt where they are missing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.process import Service, ServiceError, free_ports
from lab.tls import certificate
from rowfall.lab import process

BIN = Path("/usr/lib/postgresql/15/bin")
_PACKAGE = "postgresql-15"


class PostgresqlServer(Service):
    """One server with one superuser; keeps its data over kill -9.

    Attributes:
        port, user, password, database: what a client needs.
        uri: ``postgresql://user@host:port/database``, without the password.
    """

    name = "postgresql"
    user = "rowfall"
    password = "lab-secret-0123456789"
    database = "lab"

    def __init__(self, *, tls: bool = False) -> None:
        super().__init__()
        (self.port,) = free_ports(1)
        self.uri = f"postgresql://{self.user}@127.0.0.1:{self.port}/{self.database}"
        self._data = self.folder / "data"
        self._bin = _binaries()
        secret = self.folder / "password"
        secret.write_text(self.password)
        self._own(secret)
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
        run = process.spawn(
            (
                self._bin / "initdb", "-D", self._data, "-U", self.user, "-A", "scram-sha-256",
                f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
            ),
            self.folder, self.folder / "initdb.log", {},
        )  # fmt: skip
        if run.wait(60):
            raise ServiceError(f"initdb failed:\n{process.log_end(self.folder / 'initdb.log')}")

    def command(self) -> Sequence[str | Path]:
        # No fsync: a machine that crashes takes the tests with it.
        return (
            self._bin / "postgres", "-D", self._data, "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}",
            "-c", "fsync=off", "-c", "shared_buffers=256MB", "-c", "max_connections=60",
            *self._tls,
        )  # fmt: skip

    def healthy(self) -> bool:
        import psycopg

        try:
            with self.connect("postgres") as connection:
                found = connection.execute(
                    "SELECT 1 FROM pg_database WHERE datname = %s", [self.database]
                ).fetchone()
                if found is None:
                    connection.execute(f"CREATE DATABASE {self.database}")
        except psycopg.Error as error:
            raise OSError(str(error)) from error
        return True

    def connect(self, database: str = "") -> Any:
        """A connection of the superuser; each statement commits."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=self.user, password=self.password,
            dbname=database or self.database, autocommit=True, connect_timeout=5,
        )  # fmt: skip

    def run(self, *statements: str) -> None:
        """Run statements one after the other."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT."""
        with self.connect() as connection:
            rows: list[tuple[Any, ...]] = connection.execute(statement).fetchall()
            return rows


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
