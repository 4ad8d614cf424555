"""Ways to hurt a running rowfall, by name."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Process = subprocess.Popen[str]

ROUNDS = int(os.environ.get("ROWFALL_FAULT_ROUNDS", "5"))
# Of tests that take a server and several seconds: a run by hand may ask for more.
FEW = ROUNDS if ROUNDS > 5 else 2
# What a hurt run may end with: done all the same, resumable, the engine's end, Ctrl-C, kill -9.
CODES = (0, 1, 5, 6, 130, -9)


def children(pid: int) -> Iterator[int]:
    """Child processes of ``pid``: rowfall's engine."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (task / "children").read_text().split())


def kill_rowfall(process: Process) -> None:
    process.kill()


def kill_engine(process: Process) -> None:
    for child in children(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def kill_both(process: Process) -> None:
    kill_engine(process)
    process.kill()


def press_ctrl_c(process: Process) -> None:
    process.send_signal(signal.SIGINT)


def press_ctrl_c_twice(process: Process) -> None:
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)


KILLS: Mapping[str, Callable[[Process], None]] = {
    "kill -9 rowfall": kill_rowfall,
    "kill -9 engine child": kill_engine,
    "kill -9 both": kill_both,
    "Ctrl-C": press_ctrl_c,
    "Ctrl-C twice": press_ctrl_c_twice,
}
