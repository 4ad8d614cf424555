"""Starts the engine's process before anybody knows what it will open: it needs 0.15 s to import.

Stdlib only and imported first by the commands that will want an engine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, cast


@dataclass(slots=True)
class Child:
    """A child that waits for the line that says what to open; ``stderr`` is its own file."""

    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


_waiting: list[Child] = []
_SERVERS = ("clickhouse://", "clickhouses://")


def prestart(sources: Sequence[str], to: str | None) -> None:
    """Start a child for the next :func:`take`, where the command will want one.

    stdin's descriptor has to be inherited, so its child cannot start early; a server most often
    reads remote sources by itself. A child that nobody takes ends with this process.
    """
    served = to is not None and to.startswith(_SERVERS)
    if not _waiting and "-" not in sources and not (served and all("://" in s for s in sources)):
        _waiting.append(_spawn(()))


def take(fds: Sequence[int]) -> Child:
    """The waiting child, or a new one when descriptors have to be inherited."""
    if _waiting and not fds:
        child = _waiting.pop()
        if child.process.poll() is None:
            return child
    return _spawn(fds)


def _spawn(fds: Sequence[int]) -> Child:
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
    process = subprocess.Popen(
        [sys.executable, "-m", "rowfall.engines._chdb_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        # A session of its own: Ctrl-C in the terminal reaches rowfall only, which then asks.
        start_new_session=True,
        pass_fds=tuple(fds),
        env=_environment(),
    )
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    return Child(process, stdin, stdout, stderr)


def _environment() -> dict[str, str]:
    # Object-store credentials reach the engine inside statements only; a child that inherits
    # AWS_* would silently use them for sources that were asked to be anonymous.
    return {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
