"""What the tests of clusters share: a database of its own on every node, and the command."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from e2e.tools import Done, Row, Shell
from lab.cluster import Cluster, Node
from lab.process import wait_until

_numbers = itertools.count()
STAGED = "SELECT name FROM system.tables WHERE database = '{db}' AND name LIKE '\\_rowfall\\_%'"


class Fleet:
    """A database of its own on a cluster, and the command with ``--to`` pointing at it."""

    def __init__(self, shell: Shell, cluster: Cluster) -> None:
        self.shell, self.cluster = shell, cluster
        self.database = f"fleet_{os.getpid()}_{next(_numbers)}"
        self.to = cluster.url(self.database)

    def ends(self, code: int, *args: str, **more: Any) -> Done:
        """Run; the password is not in what is printed."""
        done = self.shell.ends(code, *args, "--to", self.to, **more)
        assert self.cluster.nodes[0].password not in done.out + done.err
        return done

    def ok(self, *args: str, **more: Any) -> Done:
        return self.ends(0, *args, **more)

    def load(self, *args: str, **more: Any) -> dict[str, Any]:
        """The report of a load that ends well."""
        return self.ok("load", *args, "--json", **more).document

    def begin_and_kill(self, env: Mapping[str, str], *args: str) -> None:
        """A load that is killed when some of its splits are visible and others are not."""
        process = subprocess.Popen(
            [sys.executable, "-m", "rowfall", "load", *args, "--to", self.to],
            cwd=self.shell.folder, env={**os.environ, "HOME": str(self.shell.cli.home), **env},
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        node = self.first()[0]
        loaded = "SELECT countIf(event = 'landed') FROM {db}._rowfall_journal"

        def some() -> bool:
            there = self.ask(node, f"EXISTS {self.database}._rowfall_journal") == [[1]]
            return there and self.ask(node, loaded)[0][0] >= 2

        wait_until(some, 60, "nothing lands")
        process.kill()
        process.wait()

    def ask(self, node: Node, sql: str) -> list[Row]:
        """The result of a query with ``{db}`` in it on one node, past rowfall."""
        text = f"{sql.replace('{db}', self.database)} FORMAT JSONCompactEachRow"
        text += " SETTINGS output_format_json_quote_64bit_integers = 0"
        return [json.loads(line) for line in node.query(text).splitlines()]

    def do(self, sql: str, node: Node | None = None) -> None:
        (node or self.cluster.nodes[0]).query(sql.replace("{db}", self.database))

    def first(self) -> Sequence[Node]:
        """The first replica of each shard: the one that loads."""
        return [node for node in self.cluster.nodes if node.replica == 1]

    def counts(self, table: str) -> list[int]:
        """Rows in the local table of each shard, as its first replica has them."""
        return [
            int(self.ask(node, f"SELECT count() FROM {{db}}.{table}")[0][0])
            for node in self.first()
        ]

    def sync(self, table: str) -> None:
        """Wait until every replica has what the others have.

        A question to all shards may go to any of them, and what one had alone when it was killed
        is fetched with growing pauses.
        """
        for node in self.cluster.nodes:
            node.sync(f"{self.database}.{table}")

    def numbers(self, table: str, column: str = "id") -> list[int]:
        """Rows and different values of a column over the whole cluster."""
        question = f"SELECT count(), uniqExact({column}) FROM {{db}}.{table}"
        return self.ask(self.cluster.nodes[0], question)[0]

    def left(self) -> set[str]:
        """Tables of loads that are left anywhere; the journal stays on the first node."""
        found = {str(row[0]) for node in self.cluster.nodes for row in self.ask(node, STAGED)}
        return found - {"_rowfall_journal"}

    def drop(self) -> None:
        self.do("DROP DATABASE IF EXISTS {db} ON CLUSTER lab SYNC")
