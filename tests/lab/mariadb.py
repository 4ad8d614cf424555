"""A real MariaDB server: Debian's packages, unpacked into a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab import debian
from lab.process import Service, reachable
from rowfall.core import uri
from rowfall.lab.mariadb import MariaDbServer

_PACKAGE = "mariadb-server-core"
_SPIDER = "mariadb-plugin-spider"
_CLIENT = "mariadb-client-core"


class MariaDB(Service, MariaDbServer):
    """One private server, see :class:`rowfall.lab.mariadb.MariaDbServer`."""

    password = "lab-password-0123456789"

    def __init__(self, *, spider: bool = False, **variables: str) -> None:
        """Make the data folder.

        Args:
            spider: it can have tables of Spider, whose partitions are on other servers.
            variables: options of the server, as ``sql_mode``.
        """
        packages = _packages(_SPIDER, "mariadb-spider") if spider else _packages()
        self._spider = spider
        MariaDbServer.__init__(self, reachable(packages), **variables)

    def command(self) -> Sequence[str | Path]:
        plugins = f"--plugin-dir={self._root / 'usr/lib/mysql/plugin'}"
        return (*super().command(), *((plugins,) if self._spider else ()))

    def healthy(self) -> bool:
        with self.connect() as connection, connection.cursor() as cursor:
            known = "SELECT 1 FROM information_schema.ENGINES WHERE ENGINE = 'SPIDER'"
            if self._spider and not cursor.execute(known):
                cursor.execute("INSTALL SONAME 'ha_spider'")
            return True

    def add_user(self, user: str, *grants: str) -> str:
        """Make (or replace) a user with these rights (``SELECT ON d.t``); return the password."""
        password = f"{user}-password-0123456789"
        self.query(f"CREATE OR REPLACE USER '{user}'@'%' IDENTIFIED BY '{password}'")
        for grant in grants:
            self.query(f"GRANT {grant} TO '{user}'@'%'")
        return password


def programs() -> Path:
    """Return the folder below which the server's programs are, for ``ROWFALL_MARIADB``."""
    return reachable(_packages())


def client() -> tuple[str, dict[str, str]]:
    """Return the command-line client, and the variables that it needs: for benchmarks."""
    libraries = reachable(_packages()) / "usr/lib/x86_64-linux-gnu"
    program = reachable(_packages(_CLIENT, "mariadb-client")) / "usr/bin/mariadb"
    return str(program), {"LD_LIBRARY_PATH": str(libraries)}


SINGLESTORE_URL = os.environ.get("ROWFALL_SINGLESTORE_URL", "")
"""Of the server that ``make test-singlestore`` runs against; "" where MariaDB stands in for it."""


class GivenServer:
    """A live server that somebody else runs; tests make databases there.

    Attributes:
        host, port: where it is.
    """

    def __init__(self, url: str) -> None:
        self._at = uri.parse(url)
        self.host, self.port = self._at.host, self._at.port or 3306

    def connect(self, database: str = "") -> Any:
        """Return a connection of PyMySQL that commits by itself."""
        import pymysql

        password = self._at.password.reveal() if self._at.password else ""
        return pymysql.connect(
            host=self.host, port=self.port, user=self._at.user, password=password,
            database=database or None, autocommit=True, charset="utf8mb4",
        )  # fmt: skip

    def query(self, *statements: str, database: str = "") -> list[tuple[Any, ...]]:
        """Run statements and return the rows of the last one."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def uri(self, path: str, *, scheme: str = "singlestore") -> str:
        """Return the address of ``database/table`` for rowfall."""
        word = quote(self._at.password.reveal() if self._at.password else "", safe="")
        return f"{scheme}://{quote(self._at.user, safe='')}:{word}@{self.host}:{self.port}/{path}"


def _packages(package: str = _PACKAGE, name: str = "mariadb") -> Path:
    return debian.unpacked(name, package, needs=True)
