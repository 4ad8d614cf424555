"""What the cluster contracts share: asking a node, running statements there, names of databases."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lab.clickhouse import Account, ClickHouse
from lab.cluster import Node
from rowfall.cluster.topology import Cluster, discover
from rowfall.core.masked import Secret
from rowfall.core.model import Ask, Statement
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import read_rows
from rowfall.systems.clickhouse.server import Server

_numbers = itertools.count()


class Login:
    """One node as somebody sees it.

    Attributes:
        server: its engine; asks, run, cluster: what the cluster's functions take.
    """

    def __init__(self, node: Node | ClickHouse, account: Account | None = None) -> None:
        port = node.http if isinstance(node, Node) else node.http_port
        who = account or Account(node.user, node.password)
        self.server = Server("127.0.0.1", port, user=who.user, password=Secret(who.password))
        self.asks: Ask = self.server.ask

    def cluster(self, name: str = "lab") -> Cluster:
        return discover(self.asks, name)

    def run(self, sql: str, settings: Mapping[str, str | int | float] = {}) -> list[list[Any]]:
        statement = Statement(SqlText.of(sql), settings, format="JSONCompactEachRow")
        return read_rows(self.server.run(statement).data)


def add_user(nodes: Node | Iterable[Node], user: str, *grants: str, settings: str = "") -> Account:
    """Make (or replace) a user of one or more nodes."""
    account = Account(user, f"{user}-password-0123456789")
    for node in [nodes] if isinstance(nodes, Node) else nodes:
        node.query(
            f"CREATE USER OR REPLACE {user} IDENTIFIED BY '{account.password}'"
            + (f" SETTINGS {settings}" if settings else "")
        )
        for grant in grants:
            node.query(f"GRANT {grant} TO {user}")
    return account


def new_database() -> str:
    return f"cluster_{os.getpid()}_{next(_numbers)}"


@contextmanager
def paused(node: Node) -> Iterator[None]:
    node.pause()
    try:
        yield
    finally:
        node.resume()


@contextmanager
def down(node: Node) -> Iterator[None]:
    node.kill9()
    try:
        yield
    finally:
        node.start()
