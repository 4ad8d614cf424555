"""A real MariaDB server: Debian's packages, unpacked into a folder of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab import debian
from lab.process import Service, ServiceError, free_ports, reachable
from rowfall.core import uri

_PACKAGE = "mariadb-server-core"
_SPIDER = "mariadb-plugin-spider"
_CLIENT = "mariadb-client-core"
# Of the tables that tests read 10 MB are a lot; by itself the server takes 128 MB for them.
_BUFFERS = "64M"


class MariaDB(Service):
    """One private server with one user who may do everything; keeps its data over kill -9.

    Attributes:
        port: on 127.0.0.1.
        user, password: the account that :meth:`uri` names; :meth:`add_user` makes others.
    """

    name = "mariadb"
    host = "127.0.0.1"
    user = "lab"
    password = "lab-password-0123456789"

    def __init__(self, *, spider: bool = False, **variables: str) -> None:
        """Make the data folder.

        Args:
            spider: it can have tables of Spider, whose partitions are on other servers.
            variables: options of the server, as ``sql_mode``.
        """
        packages = _packages(_SPIDER, "mariadb-spider") if spider else _packages()
        self._root = reachable(packages)
        self._spider = spider
        super().__init__()
        (self.port,) = free_ports(1)
        self._variables = variables
        self._socket = self.folder / "s"
        self._data = self.folder / "data"
        self._made = False

    def command(self) -> Sequence[str | Path]:
        return (
            self._root / "usr/sbin/mariadbd",
            "--no-defaults",
            f"--basedir={self._root / 'usr'}",
            f"--datadir={self._data}",
            f"--tmpdir={self.folder}",
            f"--socket={self._socket}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
            f"--innodb-buffer-pool-size={_BUFFERS}",
            "--innodb-log-file-size=16M",
            "--skip-log-bin",
            *((f"--plugin-dir={self._root / 'usr/lib/mysql/plugin'}",) if self._spider else ()),
            *(f"--{name.replace('_', '-')}={value}" for name, value in self._variables.items()),
        )

    def environment(self) -> Mapping[str, str]:
        return {"LD_LIBRARY_PATH": str(self._root / "usr/lib/x86_64-linux-gnu")}

    def start(self) -> MariaDB:
        if not self._made:
            self._install()
        super().start()
        return self

    def healthy(self) -> bool:
        with self.connect() as connection, connection.cursor() as cursor:
            known = "SELECT 1 FROM information_schema.ENGINES WHERE ENGINE = 'SPIDER'"
            if self._spider and not cursor.execute(known):
                cursor.execute("INSTALL SONAME 'ha_spider'")
            return True

    def _install(self) -> None:
        """Make the system tables and the account.

        The server runs the statements of its own files; mariadb-install-db would need a shell and
        tools at their places.
        """
        self._data.mkdir()
        (self._data / "mysql").mkdir()
        self._own(self._data)
        self._own(self._data / "mysql")
        share = self._root / "usr/share/mysql"
        names = ("mysql_system_tables", "mysql_system_tables_data", "maria_add_gis_sp_bootstrap")
        text = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"
        text += "".join((share / f"{name}.sql").read_text() + "\n" for name in names)
        text += "FLUSH PRIVILEGES;\n"  # without them no account can be made
        text += f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
        text += f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n"
        root = os.geteuid() == 0
        done = subprocess.run(
            [os.fspath(part) for part in (*self.command(), "--bootstrap", "--skip-networking")],
            input=text.encode(), capture_output=True, cwd=self.folder, timeout=60, check=False,
            env={"PATH": os.environ.get("PATH", ""), **self.environment()},
            user="nobody" if root else None, group="nogroup" if root else None,
            extra_groups=[] if root else None,
        )  # fmt: skip
        if done.returncode != 0:
            raise ServiceError(f"cannot install MariaDB: {done.stderr.decode()[-2000:]}")
        self._made = True

    def connect(self, database: str = "", **more: Any) -> Any:
        """Return a connection of PyMySQL that commits by itself; OSError where none can be had."""
        import pymysql

        try:
            return pymysql.connect(
                host="127.0.0.1", port=self.port, user=self.user, password=self.password,
                database=database or None, autocommit=True, charset="utf8mb4", **more,
            )  # fmt: skip
        except pymysql.err.OperationalError as error:
            raise OSError(str(error)) from error

    def query(self, *statements: str, database: str = "") -> list[tuple[Any, ...]]:
        """Run statements and return the rows of the last one."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def uri(self, path: str, *, user: str = "", password: str = "", scheme: str = "mysql") -> str:
        """Return the address of ``database/table`` for rowfall."""
        who, word = quote(user or self.user), quote(password or self.password)
        return f"{scheme}://{who}:{word}@127.0.0.1:{self.port}/{path}"

    def add_user(self, user: str, *grants: str) -> str:
        """Make (or replace) a user with these rights (``SELECT ON d.t``); return the password."""
        password = f"{user}-password-0123456789"
        self.query(f"CREATE OR REPLACE USER '{user}'@'%' IDENTIFIED BY '{password}'")
        for grant in grants:
            self.query(f"GRANT {grant} TO '{user}'@'%'")
        return password


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
