"""What the tests of servers share: a database of its own, and the command that loads into it."""

from __future__ import annotations

import itertools
import json
import os
import re
from typing import Any

from e2e.tools import Done, Row, Shell
from lab.clickhouse import Account, ClickHouse
from lab.seaweed import Seaweed

_numbers = itertools.count()
JOURNAL = "_rowfall_journal"
# What the guide says that a user needs, on the database and besides.
RIGHTS = "SELECT, INSERT, ALTER DELETE, CREATE TABLE, DROP TABLE"
SYSTEM = (
    "SELECT ON system.parts", "SELECT ON system.merge_tree_settings",
    "SELECT ON system.processes",
)  # fmt: skip


class Lake:
    """A database of its own on a server, and the command with ``--to`` pointing at it."""

    def __init__(self, shell: Shell, server: ClickHouse) -> None:
        self.shell, self.server = shell, server
        self.database = f"e2e_{os.getpid()}_{next(_numbers)}"
        self.to = server.uri(self.database)
        server.query(f"CREATE DATABASE {self.database}")

    def ends(self, code: int, *args: str, account: Account | None = None, **more: Any) -> Done:
        """Run; whatever happens, the password is not in what is printed or remembered."""
        to = self.server.uri(self.database, account=account)
        done = self.shell.ends(code, *args, "--to", to, **more)
        password = (account or self.server).password
        assert password not in done.out + done.err
        for ledger in (self.shell.cli.home / "state").rglob("*.ledger*"):
            assert password.encode() not in ledger.read_bytes()
        return done

    def ok(self, *args: str, **more: Any) -> Done:
        return self.ends(0, *args, **more)

    def command_of(
        self, config: dict[str, Any], container: dict[str, Any], s3: Seaweed, bucket: str
    ) -> tuple[list[str], dict[str, str]]:
        """The command and the environment of a pod of deploy/, with the services of the tests.

        Args:
            config: the ConfigMap with rowfall.toml.
        """
        password = self.shell.write("password", self.server.password)
        address, text = re.sub(r":[^:@/]+@", "@", self.to), config["data"]["rowfall.toml"]
        for before, after in (
            ("clickhouse://rowfall@clickhouse-rowfall:8123/default", address),
            ("file:/secrets/password", f"file:{password}"),
            ("s3://lake/", f"s3://{bucket}/"), ("http://s3:8333", s3.endpoint),
        ):  # fmt: skip
            assert before in text
            text = text.replace(before, after)
        path = self.shell.write("config/rowfall.toml", text)
        arguments = [str(path) if a == "/config/rowfall.toml" else a for a in container["args"]]
        names = {one["name"] for one in container["env"]}
        return arguments, {key: value for key, value in s3.env.items() if key in names}

    def load(self, *args: str, **more: Any) -> dict[str, Any]:
        """The report of a load that ends well."""
        return self.ok("load", *args, "--json", **more).document

    def rows(self, sql: str) -> list[Row]:
        """The result of a query with ``{db}`` in it, past rowfall."""
        settings = {"output_format_json_quote_64bit_integers": 0}
        text = f"{sql.format(db=self.database)} FORMAT JSONCompactEachRow"
        return [json.loads(x) for x in self.server.query(text, settings=settings).splitlines()]

    def row(self, sql: str) -> Row:
        (found,) = self.rows(sql)
        return found

    def do(self, *statements: str) -> None:
        for sql in statements:
            self.server.query(sql.format(db=self.database))

    def tables(self) -> set[str]:
        return {r[0] for r in self.rows("SELECT name FROM system.tables WHERE database = '{db}'")}

    def staging(self) -> set[str]:
        return {t for t in self.tables() if t.startswith("_rowfall_")} - {JOURNAL}
