"""Credentials of dbt as targets of rowfall, and their passwords apart.

A password goes by ``ROWFALL_PASSWORD``: addresses are on the command line and in logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

# Ports of ClickHouse's own protocol, which one driver of dbt speaks; rowfall speaks HTTP.
_NATIVE_PORTS = (9000, 9440)


class CannotTranslateError(Exception):
    """A profile says something that rowfall cannot do."""


class CredentialsLike(Protocol):
    """What adapters have in common."""

    @property
    def type(self) -> str:
        """Name of the adapter."""
        ...


@dataclass(frozen=True)
class Relation:
    """A table as dbt names it; "" for what the profile says, or for no table."""

    database: str = ""
    schema: str = ""
    table: str = ""


@dataclass(frozen=True)
class Target:
    """Where rowfall loads into.

    Attributes:
        url: without a password. ``table``: as ``--table`` takes it; "" for none.
        password: "" for none.
    """

    url: str
    table: str
    password: str


def target_of(credentials: CredentialsLike, relation: Relation, folder: str) -> Target:
    """Return the target for a table in what a profile connects to.

    Args:
        folder: of the project, which relative paths of the profile are seen from.

    Raises:
        CannotTranslateError: the type is not known here, or the profile says what rowfall cannot
            do.
    """
    made = _MAKERS.get(credentials.type)
    if made is None:
        known = ", ".join(sorted(_MAKERS))
        raise CannotTranslateError(
            f"the profile has the type {credentials.type}; rowfall takes {known} of dbt"
        )
    return made(credentials, relation, folder)


def _postgres(credentials: Any, relation: Relation, folder: str) -> Target:
    names = ("sslmode", "sslrootcert", "sslcert", "sslkey")
    settings = {name: value for name in names if (value := getattr(credentials, name, None))}
    if credentials.role:
        raise CannotTranslateError(
            f"the profile takes on the role {credentials.role}, and rowfall loads as the user; "
            "give the user that role by default: ALTER ROLE ... SET role"
        )
    schema = relation.schema or credentials.schema
    if not relation.table:
        settings["schema"] = schema
    host = f"[{credentials.host}]" if ":" in credentials.host else credentials.host
    database = relation.database or credentials.database
    url = f"postgresql://{_quoted(credentials.user)}@{host}:{credentials.port}/{_quoted(database)}"
    return Target(_with(url, settings), _table(schema, relation), credentials.password or "")


def _clickhouse(credentials: Any, relation: Relation, folder: str) -> Target:
    if not credentials.verify or credentials.client_cert:
        what = "client_cert" if credentials.client_cert else "verify: false"
        raise CannotTranslateError(
            f"the profile says {what}; rowfall checks the certificate of the server (its authority "
            "may be named in SSL_CERT_FILE) and has none of its own"
        )
    settings = dict(credentials.custom_settings or {})
    if credentials.cluster:
        settings = {"cluster": credentials.cluster, **settings}
    # The port of the native protocol says nothing about that of HTTP: the usual one is taken.
    native = credentials.driver == "native" or credentials.port in _NATIVE_PORTS
    port = "" if native or not credentials.port else f":{credentials.port}"
    scheme = "clickhouses" if credentials.secure else "clickhouse"
    database = relation.schema or credentials.schema or "default"
    url = f"{scheme}://{_quoted(credentials.user or 'default')}@{credentials.host}{port}"
    return Target(
        _with(f"{url}/{_quoted(database)}", settings), relation.table, credentials.password or ""
    )


def _duckdb(credentials: Any, relation: Relation, folder: str) -> Target:
    path = credentials.path
    wanted = relation.database
    if wanted and wanted != credentials.database:
        attached = {_alias(each): each.path for each in credentials.attach or ()}
        if wanted not in attached:
            raise CannotTranslateError(
                f"the database {wanted} is neither that of the profile ({credentials.database}) "
                f"nor attached there ({', '.join(attached) or 'nothing is'})"
            )
        path = attached[wanted]
    if path == ":memory:" or "://" in path or path.startswith("md:"):
        raise CannotTranslateError(
            f"the profile's DuckDB is {path}, which no other process can load into; rowfall needs "
            "a file: path: warehouse.duckdb"
        )
    schema = relation.schema or credentials.schema
    place = quote(os.path.join(folder, os.path.expanduser(path)))
    settings = {} if relation.table else {"schema": schema}
    return Target(_with(f"duckdb://{place}", settings), _table(schema, relation), "")


_MAKERS: dict[str, Callable[[Any, Relation, str], Target]] = {
    "clickhouse": _clickhouse, "duckdb": _duckdb, "postgres": _postgres,
}  # fmt: skip


def _table(schema: str, relation: Relation) -> str:
    return f"{schema}.{relation.table}" if relation.table else ""


def _alias(attachment: Any) -> str:
    if attachment.alias:
        return str(attachment.alias)
    return Path(str(attachment.path)).stem


def _with(url: str, settings: Mapping[str, Any]) -> str:
    texts = {k: str(int(v)) if isinstance(v, bool) else str(v) for k, v in settings.items()}
    return f"{url}?{urlencode(texts)}" if texts else url


def _quoted(text: str) -> str:
    return quote(text, "")
