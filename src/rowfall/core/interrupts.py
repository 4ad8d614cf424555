"""Treat SIGTERM as Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rowfall.core import signals
from rowfall.core.errors import Interrupted

GO_ON = "Run the same command again to go on."
"""The hint of a load that was interrupted."""


@contextmanager
def terminable(hint: str | None = None) -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that a load in a stopped container can be resumed.

    A second signal changes nothing: stopping takes two seconds at most and must not be cut short.

    Raises:
        Interrupted: one of them came, wherever the block was; with ``hint``.
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
    except KeyboardInterrupt:
        raise Interrupted("interrupted", hint=hint) from None
    finally:
        for number, handler in before.items():
            ignored = stopping and signals.ends_with_load
            signal.signal(number, signal.SIG_IGN if ignored else handler)
