"""Ctrl-C, SIGTERM, SIGHUP: treated alike, and put off where they would leave things half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from rowfall.core.errors import Interrupted

ends_with_load = False
"""True in the command, which ends after a load: a late signal must not change its exit code.

A program or a notebook that caught :class:`rowfall.core.errors.Interrupted` goes on, and its next
Ctrl-C has to work.
"""

GO_ON = "Run the same command again to go on."
"""The hint of a load that was interrupted."""

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


@contextmanager
def stopped_by(event: threading.Event) -> Iterator[None]:
    """Let an event end the load that this thread runs, as Ctrl-C does in the main thread.

    Python hands signals to the main thread alone, so whoever runs loads in others passes them on.
    """
    token = _stop.set(event)
    try:
        yield
    finally:
        _stop.reset(token)


def check_stopped() -> None:
    """Raise KeyboardInterrupt where the load of this thread is to end."""
    event = _stop.get()
    if event is not None and event.is_set():
        raise KeyboardInterrupt


def ending() -> list[signal.Signals]:
    """Return the signals that end a load: Ctrl-C, SIGTERM, and SIGHUP of a terminal that goes away.

    Who has it ignored, as nohup does, wants the load to go on.
    """
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) not in (signal.SIG_IGN, None):  # None: of a library in C
        ends.append(signal.SIGHUP)
    return ends


@contextmanager
def undisturbed() -> Iterator[None]:
    """Defer what ends a load until the block is done.

    A server that was started a moment before, and whose process id is not written down yet, would
    outlive the command, and no other would find it; of a load whose workers are being started, some
    would go on. Python hands signals to the main thread alone; in others there is nothing to put
    off.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in ending()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def terminable(hint: str | None = None) -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C: the load is known to be interrupted, and left clean.

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

    before = {number: signal.signal(number, stop) for number in ending()}
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted", hint=hint) from None
    finally:
        for number, handler in before.items():
            ignored = stopping and ends_with_load
            signal.signal(number, signal.SIG_IGN if ignored else handler)
