"""A real Ray of one node: its head with the server of clients (``ray://``), by the command ray."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.packages import packages
from lab.process import ServiceError, free_ports, wait_until

_COMMAND = "from ray.scripts.scripts import main; main()"
# 20 s alone; on a busy machine a minute or two.
_START_SECONDS, _END_SECONDS = 240.0, 60.0


def ray_environment(folder: str) -> dict[str, str]:
    """Return the variables by which Ray is found, and keeps its files in a folder."""
    path = str(packages(Path(__file__).parent / "ray.txt"))
    return {"PYTHONPATH": path, "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}


class RayHead:
    """The head of a Ray cluster, which clients reach at :attr:`address`.

    Args:
        env: variables that its workers have besides.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        # Ray's sockets have paths of at most 107 bytes, and the folders of tests are long.
        self.folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        self.env = ray_environment(self.folder)
        own, agent, self.port = free_ports(3)
        self.address = f"ray://127.0.0.1:{self.port}"
        self._log = Path(self.folder, "head.log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-c", _COMMAND, "start", "--head", "--block",
                    "--node-ip-address=127.0.0.1", f"--port={own}", "--num-cpus=2",
                    f"--ray-client-server-port={self.port}", "--include-dashboard=false",
                    # Any free one: else 10,000 ports are its workers'.
                    "--min-worker-port=0", "--max-worker-port=0",
                    f"--dashboard-agent-listen-port={agent}",
                    f"--temp-dir={self.folder}",
                ],
                env={**os.environ, **self.env, **env}, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
            )  # fmt: skip

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise ServiceError(f"the head of Ray has ended: {self._log.read_text()[-800:]}")
        with socket.socket() as client:
            client.settimeout(1)
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self) -> Self:
        try:
            wait_until(self._answers, _START_SECONDS, "the head of Ray")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._process.terminate()  # it ends the processes that it has started
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
