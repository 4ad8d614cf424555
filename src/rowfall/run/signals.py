"""Ctrl-C and SIGTERM: both stop a run in a way that it can be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that a load in a stopped container can be resumed.

    A second signal changes nothing: stopping takes two seconds at most and must not be cut short.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # The process ends after this; a late second signal must not change its exit code.
            signal.signal(number, signal.SIG_IGN if stopping else handler)
