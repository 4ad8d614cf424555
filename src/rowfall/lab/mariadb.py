"""A MariaDB server of the lab, where its programs are installed."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from rowfall.lab.process import LabError, free_ports
from rowfall.lab.service import Service

VARIABLE = "ROWFALL_MARIADB"
# Of the tables that tests read 10 MB are a lot; by itself the server takes 128 MB for them.
_BUFFERS = "64M"


class MariaDbServer(Service):
    """One private server with one user who may do everything; keeps its data over kill -9.

    Attributes:
        port: on 127.0.0.1.
        user, password: the account that :meth:`uri` names.
    """

    name = "mariadb"
    password = ""  # a random one, unless a subclass says
    host = "127.0.0.1"
    user = "lab"

    def __init__(self, root: Path, **variables: str) -> None:
        """Make the data folder.

        Args:
            root: folder below which the programs are, as :func:`find_mariadb` finds it.
            variables: options of the server, as ``sql_mode``.
        """
        self._root = root
        super().__init__()
        self.password = self.password or secrets.token_hex(16)
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
            *(f"--{name.replace('_', '-')}={value}" for name, value in self._variables.items()),
        )

    def environment(self) -> Mapping[str, str]:
        return {"LD_LIBRARY_PATH": str(self._root / "usr/lib/x86_64-linux-gnu")}

    def start(self) -> Self:
        if not self._made:
            self._install()
        return super().start()

    def healthy(self) -> bool:
        with self.connect() as connection, connection.cursor() as cursor:
            return bool(cursor.execute("SELECT 1"))

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
            raise LabError(f"cannot install MariaDB: {done.stderr.decode()[-2000:]}")
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


def find_mariadb() -> Path | None:
    """Return the folder below which ``usr/sbin/mariadbd`` is: of ROWFALL_MARIADB, else ``/``."""
    root = Path(os.environ.get(VARIABLE) or "/")
    return root if (root / "usr/sbin/mariadbd").exists() else None
