"""A PostgreSQL server of the lab, where its programs are installed."""

from __future__ import annotations

import os
import re
import secrets
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rowfall.lab import process
from rowfall.lab.process import LabError, free_ports
from rowfall.lab.service import Service

VARIABLE = "ROWFALL_POSTGRESQL"


class PostgresqlServer(Service):
    """One server with one superuser; keeps its data over kill -9.

    Attributes:
        port, user, password, database: what a client needs.
        uri: ``postgresql://user@host:port/database``, without the password.
    """

    name = "postgresql"
    password = ""  # a random one, unless a subclass says
    user = "rowfall"
    database = "lab"

    def __init__(self, programs: Path) -> None:
        """Make the data folder.

        Args:
            programs: folder of ``initdb`` and ``postgres``.

        Raises:
            LabError: ``initdb`` fails.
        """
        super().__init__()
        self.password = self.password or secrets.token_hex(16)
        (self.port,) = free_ports(1)
        self.uri = f"postgresql://{self.user}@127.0.0.1:{self.port}/{self.database}"
        self._data = self.folder / "data"
        self._bin = programs
        secret = self.folder / "password"
        secret.write_text(self.password)
        self._own(secret)
        run = process.spawn(
            (
                self._bin / "initdb", "-D", self._data, "-U", self.user, "-A", "scram-sha-256",
                f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
            ),
            self.folder, self.folder / "initdb.log", {},
        )  # fmt: skip
        if run.wait(60):
            raise LabError(f"initdb failed:\n{process.log_end(self.folder / 'initdb.log')}")

    def command(self) -> Sequence[str | Path]:
        # No fsync: a machine that crashes takes the tests with it.
        return (
            self._bin / "postgres", "-D", self._data, "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}",
            "-c", "fsync=off", "-c", "shared_buffers=256MB", "-c", "max_connections=60",
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

    def _end(self, number: signal.Signals) -> None:
        """End the server, and wait until none of its processes is left.

        Those of a server that is killed end by themselves, soon or, on a busy machine, a second
        later. Until then its memory is in use, and another one does not start on the same folder.
        """
        backends = process.children(self.pid) if self.pid is not None else []
        super()._end(number)
        for pid in backends:
            process.end(pid, signal.SIGKILL)

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


def find_postgresql() -> Path | None:
    """Return the folder of ``initdb`` and ``postgres``: of ROWFALL_POSTGRESQL, else the newest.

    Debian and its kin keep them off PATH, one folder for each version.
    """
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda path: [int(digits) for digits in re.findall(r"\d+", path.parent.name)],
    )
    if named := os.environ.get(VARIABLE):
        found = [Path(named)]
    found = [path for path in found if (path / "initdb").exists()]
    return found[-1] if found else None
