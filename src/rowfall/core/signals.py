"""Put off Ctrl-C and SIGTERM where they would leave something half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ends_with_load = False
"""True in the command, which ends after a load: a late signal must not change its exit code.

A program or a notebook that caught :class:`rowfall.core.errors.Interrupted` goes on, and its next
Ctrl-C has to work.
"""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM until the block is done.

    A server that was started a moment before, and whose process id is not written down yet, would
    outlive the command, and no other would find it; of a load whose workers are being started, some
    would go on. Python hands signals to the main thread alone; in others there is nothing to put
    off.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        each: signal.signal(each, lambda number, _: came.append(number))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)
