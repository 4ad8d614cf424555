"""A table of the embedded engine or of a ClickHouse server; staging lies beside it."""

from __future__ import annotations

import copy
import os
import re
from hashlib import blake2b
from pathlib import Path

from rowfall.core import sql, uri
from rowfall.core.errors import UsageError
from rowfall.core.masked import MASK, Secret
from rowfall.core.model import Encoding, Schema
from rowfall.core.options import Options
from rowfall.core.own_files import LEDGER_NAME
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, quoted_list
from rowfall.targets.base import (
    STAGING_PREFIX,
    Caps,
    Publish,
    Scratch,
    scratch_folder,
    state_folder,
)

HTTP_PORT, HTTPS_PORT = 8123, 8443
DEFAULT_DATABASE = "default"
"""Database of tables that are named without one; in a folder the engine itself makes it."""
# Tried in this order; the second is what clickhouse-client knows, too.
PASSWORD_VARIABLES = ("ROWFALL_PASSWORD", "CLICKHOUSE_PASSWORD")
PROMISE = (
    "exactly once: rows are staged and counted, then attached; a re-run after a crash loads only "
    "what is missing"
)


class Table:
    """Rows go to ``database.table``, in a data folder or on a server."""

    def __init__(
        self,
        text: str,
        database: str,
        table: str,
        ledger_path: Path,
        *,
        folder: Path | None = None,
        server: ServerAt | None = None,
    ) -> None:
        self.text = text
        self.folder = folder
        self.server = server
        self.address: ServerAt | None = None
        self.database = database
        self.table = table
        self.ledger_path = ledger_path
        self.secrets: tuple[Secret, ...] = (server.password,) if server and server.password else ()
        self.caps = Caps(Publish.ATTACH if server else Publish.ATTACH_ALONE, PROMISE)
        # Cluster and sharding key by which an INSERT distributes rows.
        self._distributed: tuple[str, str] | None = None

    def on_node(self, server: ServerAt, database: str, table: str) -> Table:
        """Return the target on one node of a cluster, in its own ``database.table``."""
        return Table(self.text, database, table, self.ledger_path, server=server)

    def distributed(self, cluster: str, key: str) -> Table:
        """Return the target for INSERTs that send each row to the shard that the key says."""
        found = copy.copy(self)
        found._distributed = (cluster, key)
        return found

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        if schema.exists and not table:
            return ()
        make = sql.create_table(self.database, table or self.table, schema, if_not_exists=True)
        if self.server is not None:
            return (SqlText.of(make),)  # databases of a server are its administrator's
        if self.database == DEFAULT_DATABASE:  # of the engine, which makes it
            return (SqlText.of(make),)
        return (
            SqlText.of(f"CREATE DATABASE IF NOT EXISTS {sql.name(self.database)} ENGINE = Atomic"),
            SqlText.of(make),
        )

    def into(self, staging: str, schema: Schema) -> SqlText:
        if self._distributed is not None:
            cluster, key = self._distributed
            there = quoted_list((cluster, self.database, staging))
            return SqlText.of(f"FUNCTION cluster({there}, {key})")
        return SqlText.of(sql.qualified(self.database, staging))

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        return f"{STAGING_PREFIX}{attempt_id}"

    def scratch(self, name: str, ledger: Path) -> Scratch:
        """See :class:`rowfall.targets.base.Target`; in a new folder where there is none yet."""
        found = copy.copy(self)
        found.table, found.ledger_path = name, ledger
        if self.folder is None:
            return Scratch(found, like=self.table)
        if self.folder.is_dir():
            if not (self.folder / "metadata" / self.database).exists():
                found.database = DEFAULT_DATABASE  # one that is made would stay
            return Scratch(found, like=self.table)
        found.folder = scratch_folder(self.folder, name)
        return Scratch(found, found.folder)


def embedded(folder: Path, database: str, table: str) -> Table:
    """Return a table in a data folder; the ledger lies in it."""
    return Table(str(folder), database, table, folder / LEDGER_NAME, folder=folder)


def open_folder(text: str, table: str, options: Options, password: Secret | None) -> Table:
    """Return a table of the embedded engine in the data folder ``text``.

    Raises:
        UsageError: the engine would take the folder for another one, or the table for files.
    """
    database, name = _names(table)
    folder = Path(text.removeprefix("file://")).absolute()
    # What follows "?" is a parameter to chDB, so that the data would be in a folder without our
    # lock; of braces it expects files of several names, and waits for them.
    if odd := set(str(folder)) & set("?{}"):
        raise UsageError(
            f"the embedded engine takes no {' or '.join(sorted(odd))} in the path of a data "
            f"folder: {folder}",
            hint="Give another folder with --to.",
        )
    # In its default database a pattern or a path always exists, as a table of files.
    if database in ("", "default") and (set(name) & set("*?") or name.startswith("/")):
        raise UsageError(
            f"the embedded engine takes {name} for files and not for a table",
            hint="Give another name with --table.",
        )
    return embedded(folder, database or DEFAULT_DATABASE, name)


def open_server(text: str, table: str, options: Options, password: Secret | None) -> Table:
    """Return a table of ``clickhouse://user:password@host:port/database?setting=value``.

    Args:
        table: may be ``database.table``, which wins over the database of the URI.
        password: asked for at a prompt; wins over the URI and the environment.

    Raises:
        UsageError: no host, or a path that is not one database.
    """
    database, name = _names(table)
    where = uri.parse(text)
    path = where.path.strip("/")
    why = "" if where.host else f"{where.text} does not say which server"
    if "/" in path:
        why = f"{path!r} is not the name of a database"
    if why:
        raise UsageError(why, hint="Write clickhouse://user@host:8123/database.")
    tls = where.scheme == "clickhouses"
    port = where.port or (HTTPS_PORT if tls else HTTP_PORT)
    found = next((os.environ[v] for v in PASSWORD_VARIABLES if os.environ.get(v)), None)
    secret = password or where.password or (Secret(found) if found else None)
    # A password needs a user.
    user = where.user or ("default" if secret else "")
    settings = dict(where.query)
    cluster = settings.pop("cluster", "")
    server = ServerAt(where.host, port, tls, user, secret, settings, cluster)
    # One ledger a server: several rowfalls share it. The hash keeps odd host names apart.
    digest = blake2b(f"{where.host}:{port}".encode(), digest_size=4).hexdigest()
    host = re.sub(r"[^A-Za-z0-9.-]+", "_", where.host)
    ledger = state_folder() / f"{host}-{port}-{digest}.ledger"
    # Without the password, not with a mask in its place: the text can be pasted and used.
    text = where.text.replace(f":{MASK}@", "@")
    return Table(text, database or path or "default", name, ledger, server=server)


def _names(table: str) -> tuple[str, str]:
    """Return the database, "" where none is given, and the table.

    Raises:
        UsageError: the engine takes no such name.
    """
    if set(table) & set("{}"):
        raise UsageError(
            f"the engine takes no braces in the name of a table: {table}",
            hint="Give another name with --table.",
        )
    database, dot, name = table.rpartition(".")
    if not name.strip() or (dot and not database.strip()):
        raise UsageError(
            f"--table {table!r} names no table",
            hint="Write --table NAME or --table DATABASE.NAME; without it the name of the source "
            "is taken.",
        )
    return database, name
