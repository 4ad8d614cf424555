"""Where rowfall loads from and to in the fault tests, and what may be done to it there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults.kills import Process, kill_rowfall, press_ctrl_c, press_ctrl_c_twice
from faults.scene import Scene
from lab.clickhouse import Account, ClickHouse
from lab.process import let_pass
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
        home: see above.
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
        self._server, self.home, self._sources = server, home, sources
        self.options = (*OPTIONS, *options)
        self._env = dict(env or {})
        self._account = account
        self._networks: dict[int, Proxy] = {}

    def __call__(self, port: int, database: str, *, home: str = "") -> Process:
        """``home``: another one has a ledger of its own, as another machine would."""
        own = self.home / (home or database)
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


@dataclass
class Place:
    """A scene, and what loads in it."""

    scene: Scene
    loader: Loader

    def close(self) -> None:
        self.scene.close()
        self.loader.close()


Make = Callable[..., Place]
Create = Callable[[ClickHouse, str], None]


# --- ways to hurt ---------------------------------------------------------------------------------


def restart_server(place: Place, process: Process) -> None:
    """Back while rowfall still waits for it."""
    place.scene.server.kill()
    place.scene.server.start()


def kill_server_and_rowfall(place: Place, process: Process) -> None:
    process.kill()
    place.scene.server.kill()


def cut_network(place: Place, process: Process) -> None:
    """For a second: what is open is reset, what is new is refused."""
    cable = place.loader.network(place.scene.proxy.port)
    cable.refuse()
    cable.cut()
    let_pass(1, "a second without a network")
    cable.accept()


def reset_once(place: Place, process: Process) -> None:
    """Nothing but the reset of the request that a scene always does."""


def fill_disk(place: Place, process: Process) -> None:
    place.scene.server.refuse_space()
    place.scene.mends.append(place.scene.server.allow_space)


def only(hurt: Callable[[Process], object]) -> Callable[[Place, Process], object]:
    return lambda place, process: hurt(process)


HURTS: Mapping[str, Callable[[Place, Process], object]] = {
    "kill -9 rowfall": only(kill_rowfall),
    "kill -9 server": restart_server,
    "kill -9 both": kill_server_and_rowfall,
    "connection reset": reset_once,
    "network cut": cut_network,
    "disk full": fill_disk,
    "Ctrl-C": only(press_ctrl_c),
    "Ctrl-C twice": only(press_ctrl_c_twice),
}
