"""Ways to hurt a running rowfall, by name, and how often it is done."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Process = subprocess.Popen[str]

T = TypeVar("T")

SEED = "ROWFALL_FAULT_SEED"
# The short form, for every day, is a sample of everything below 90 s; 200 rounds leave nothing out.
ROUNDS = int(os.environ.get("ROWFALL_FAULT_ROUNDS", "0"))
ALL_ROUNDS = 200
# Statements that change something; between two others nothing new can go wrong.
CHANGES = ("INSERT", "ALTER", "CREATE", "DROP", "EXCHANGE", "RENAME", "OPTIMIZE")
# What a hurt run may end with: done all the same, resumable, the engine's end, Ctrl-C, kill -9.
CODES = (0, 1, 5, 6, 130, -9)


def rounds(each: int, least: int = 1) -> int:
    """How often a test is done: ``each`` times in the long form, ``least`` in the short one."""
    return max(least, math.ceil(each * ROUNDS / ALL_ROUNDS))


def sample(name: str, cases: Sequence[T], least: int = 1) -> list[T]:
    """Those of the cases that are tried, drawn by the seed: all in the long form."""
    most = min(len(cases), rounds(len(cases), least))
    if most == len(cases):
        return list(cases)
    return random.Random(f"{os.environ[SEED]} {name}").sample(cases, most)


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
    time.sleep(0.05)  # both signals come while the first one is handled
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)


KILLS: Mapping[str, Callable[[Process], None]] = {
    "kill -9 rowfall": kill_rowfall,
    "kill -9 engine child": kill_engine,
    "kill -9 both": kill_both,
    "Ctrl-C": press_ctrl_c,
    "Ctrl-C twice": press_ctrl_c_twice,
}
