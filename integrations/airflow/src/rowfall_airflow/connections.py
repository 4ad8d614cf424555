"""Connections of Airflow as addresses of rowfall, and their secrets as variables.

A secret is never in an address: addresses are on the command line and in logs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlencode

SECRET_WORDS = ("password", "secret", "pem", "token", "oauthbearer.config")
"""Parts of the names of secrets, also of those that librdkafka has besides ``sasl.password``."""
# Of a consumer of Airflow's own; rowfall assigns partitions and commits nothing.
_OF_CONSUMERS = ("group.id", "auto.offset.reset", "enable.auto.commit", "bootstrap.servers")
TARGET_VARIABLE = "ROWFALL_PASSWORD"


class ConnectionLike(Protocol):
    """What is read of a connection of Airflow."""

    conn_id: str
    conn_type: str | None
    host: str | None
    schema: str | None
    login: str | None
    password: str | None
    port: int | None

    @property
    def extra_dejson(self) -> dict[str, Any]:
        """The extra as a dictionary."""
        ...


@dataclass(frozen=True)
class Address:
    """Where data is.

    Attributes:
        url: as rowfall writes it, without a secret; "" for a connection that only says who one is.
        environment: variables that hold the secrets.
    """

    url: str
    environment: Mapping[str, str] = field(default_factory=dict)


def target_of(connection: ConnectionLike, database: str | None = None) -> Address:
    """Return the target of a connection.

    Args:
        database: in place of that of the connection; of Kafka the topic.

    Raises:
        ValueError: its type is not one that rowfall loads into, or it says too little.
    """
    return _address(connection, database or "", "", TARGET_VARIABLE)


def source_of(connection: ConnectionLike, path: str) -> Address:
    """Return a source in what a connection names.

    Args:
        path: a table, or of Kafka a topic, perhaps with ``?parameters``; "" for the database; the
            whole address of an object store.

    Raises:
        ValueError: its type is not one that rowfall loads from, or it says too little.
    """
    return _address(connection, "", path, "")


def _address(connection: ConnectionLike, database: str, path: str, variable: str) -> Address:
    kind = connection.conn_type or ""
    if kind not in _MAKERS:
        known = ", ".join(sorted(_MAKERS))
        raise ValueError(
            f"connection {connection.conn_id!r} has the type {kind!r}; rowfall takes {known}"
        )
    return _MAKERS[kind](connection, database, path, variable)


def _clickhouse(connection: ConnectionLike, database: str, path: str, variable: str) -> Address:
    """As apache-airflow-providers-clickhousedb has them, and ``cluster`` in the extra."""
    extra = connection.extra_dejson
    if not extra.get("verify", True):
        raise ValueError(
            f"connection {connection.conn_id!r} says verify: false, and rowfall checks "
            "certificates; name the authority in SSL_CERT_FILE of the worker"
        )
    settings = extra.get("session_settings") or {}
    if isinstance(settings, str):
        settings = json.loads(settings)
    if extra.get("cluster"):
        settings = {"cluster": extra["cluster"], **settings}
    scheme = "clickhouses" if extra.get("secure") else "clickhouse"
    user, database = connection.login or "default", database or connection.schema or "default"
    return _server(
        connection, scheme, user, [database, path], settings, variable or "CLICKHOUSE_PASSWORD"
    )


def _postgres(connection: ConnectionLike, database: str, path: str, variable: str) -> Address:
    names = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")
    settings = {name: v for name in names if (v := connection.extra_dejson.get(name))}
    database = database or connection.schema or _missing(connection, "database (schema)")
    return _server(
        connection, "postgresql", connection.login or "", [database, path], settings,
        variable or "PGPASSWORD",
    )  # fmt: skip


def _mysql(connection: ConnectionLike, database: str, path: str, variable: str) -> Address:
    extra = connection.extra_dejson
    ssl = extra.get("ssl") or {}
    ssl = json.loads(ssl) if isinstance(ssl, str) else ssl
    settings = {"ssl_ca": ssl.get("ca"), "socket": extra.get("unix_socket")}
    database = database or connection.schema or _missing(connection, "database (schema)")
    return _server(
        connection, "mysql", connection.login or "", [database, path],
        {name: value for name, value in settings.items() if value}, variable or "MYSQL_PWD",
    )  # fmt: skip


def _kafka(connection: ConnectionLike, database: str, path: str, variable: str) -> Address:
    """As apache-airflow-providers-apache-kafka has them: all of it in the extra."""
    extra = {name: str(value) for name, value in connection.extra_dejson.items()}
    hosts = extra.get("bootstrap.servers") or _missing(connection, "bootstrap.servers")
    environment = {}
    if password := extra.pop("sasl.password", ""):
        environment["KAFKA_SASL_PASSWORD"] = password
    if secret := next((n for n in extra if any(word in n for word in SECRET_WORDS)), ""):
        raise ValueError(
            f"connection {connection.conn_id!r} has {secret}, and sasl.password is the one secret "
            "that reaches rowfall by a variable; use a connection of rowfall.toml for it"
        )
    settings = {name: value for name, value in extra.items() if name not in _OF_CONSUMERS}
    topic = path or database or _missing(connection, "topic: name it as source or database")
    return Address(_with(f"kafka://{hosts}/{quote(topic, '/?=&')}", settings), environment)


def _aws(connection: ConnectionLike, database: str, path: str, variable: str) -> Address:
    """As apache-airflow-providers-amazon has them, where they hold keys or a profile."""
    extra = connection.extra_dejson
    if extra.get("role_arn"):
        raise ValueError(
            f"connection {connection.conn_id!r} assumes a role; give the worker the role itself, "
            "or name a profile that assumes it (profile_name)"
        )
    service = (extra.get("service_config") or {}).get("s3") or {}
    values = {
        "AWS_ACCESS_KEY_ID": connection.login or extra.get("aws_access_key_id"),
        "AWS_SECRET_ACCESS_KEY": connection.password or extra.get("aws_secret_access_key"),
        "AWS_SESSION_TOKEN": extra.get("aws_session_token"),
        "AWS_REGION": extra.get("region_name"),
        "AWS_ENDPOINT_URL": service.get("endpoint_url") or extra.get("endpoint_url"),
        "AWS_PROFILE": extra.get("profile_name"),
    }
    return Address(path, {name: str(value) for name, value in values.items() if value})


_MAKERS: dict[str, Callable[[ConnectionLike, str, str, str], Address]] = {
    "clickhouse": _clickhouse, "postgres": _postgres, "mysql": _mysql, "kafka": _kafka, "aws": _aws,
}  # fmt: skip


def _server(
    connection: ConnectionLike, scheme: str, user: str, path: list[str],
    settings: Mapping[str, Any], variable: str,
) -> Address:  # fmt: skip
    host = connection.host or "localhost"
    host = f"[{host}]" if ":" in host else host
    port = f":{connection.port}" if connection.port else ""
    who = f"{quote(user, '')}@" if user else ""
    # A table may bring parameters of its own: orders?key=created_at
    places = "/".join(quote(part, "/?=&,") for part in path if part)
    password = connection.password
    return Address(
        _with(f"{scheme}://{who}{host}{port}/{places}", settings),
        {variable: password} if password else {},
    )


def _with(url: str, settings: Mapping[str, Any]) -> str:
    texts = {k: str(int(v)) if isinstance(v, bool) else str(v) for k, v in settings.items()}
    if not texts:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(texts)}"


def _missing(connection: ConnectionLike, what: str) -> str:
    raise ValueError(f"connection {connection.conn_id!r} names no {what}")
