"""Where rowfall loads from and to in the fault tests: the command, its home, and the network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from faults.kills import Process
from lab.clickhouse import Account, ClickHouse
from lab.proxy import Proxy

# Several attempts for each load, so that one is inserted while the other is published.
OPTIONS = ("--attempt-bytes", "1MB", "--threads", "2")


class Loader:
    """Starts ``rowfall load`` into table ``t``; the start that a scene asks for.

    Args:
        home: gets a folder for the ledger of each database.
        sources: what is loaded.
        options: further options.
        env: further variables.
        account: who loads; the configured user by default.

    Attributes:
        options: may be changed between two loads.
    """

    def __init__(
        self,
        server: ClickHouse,
        home: Path,
        sources: Sequence[str],
        *options: str,
        env: Mapping[str, str] | None = None,
        account: Account | None = None,
    ) -> None:
        self._server, self._home, self._sources = server, home, sources
        self.options = (*OPTIONS, *options)
        self._env = dict(env or {})
        self._account = account
        self._networks: dict[int, Proxy] = {}

    def __call__(self, port: int, database: str, *, home: str = "") -> Process:
        """``home``: another one has a ledger of its own, as another machine would."""
        own = self._home / (home or database)
        own.mkdir(exist_ok=True)
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("AWS_", "ROWFALL_", "XDG_", "CLICKHOUSE_"))
        }
        to = self._server.uri(database, port=self.network(port).port, account=self._account)
        command = ["load", *self._sources, "--to", to, "--table", "t", *self.options]
        return subprocess.Popen(
            [sys.executable, "-m", "rowfall", *command],
            cwd=own,
            env={**kept, "HOME": str(own), "AWS_EC2_METADATA_DISABLED": "true", **self._env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
        )

    def network(self, port: int) -> Proxy:
        """The cable between the command and a port; one for each port, so the target's address
        stays the same."""
        if port not in self._networks:
            self._networks[port] = Proxy(port)
        return self._networks[port]

    def close(self) -> None:
        for network in self._networks.values():
            network.close()
