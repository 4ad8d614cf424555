"""Runs ``rowfall`` and sends it a signal around one call of a function: SIGKILL, or that of SIGNAL.

With HOLD, the path of a FIFO, the call waits until somebody writes to it; other threads go on.

python killer.py MODULE:CLASS.METHOD NUMBER before|after load ...
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
from typing import Any

from rowfall.cli import main

SIGNAL = signal.Signals[os.environ.get("SIGNAL", "SIGKILL")]


def strike() -> None:
    held = os.environ.get("HOLD")
    if held is None:
        os.kill(os.getpid(), SIGNAL)
    else:
        open(held).close()


def patch(named: str, number: int, side: str) -> None:
    module, _, path = named.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    call, count = getattr(owner, name), itertools.count(1)

    def called(*args: Any, **more: Any) -> Any:
        mine = next(count) == number
        if mine and side == "before":
            strike()
        found = call(*args, **more)
        if mine and side == "after":
            strike()
        return found

    setattr(owner, name, called)


if __name__ == "__main__":
    named, number, side, *arguments = sys.argv[1:]
    patch(named, int(number), side)
    sys.argv = ["rowfall", *arguments]
    main()
