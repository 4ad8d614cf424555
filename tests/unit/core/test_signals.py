"""What ends a load, and what does not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from rowfall.core import signals
from rowfall.core.errors import Interrupted


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(signals, "ends_with_load", False)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have started the tests
    yield
    signal.signal(signal.SIGHUP, before)


def raised(number: signal.Signals) -> None:
    signal.raise_signal(number)
    threading.Event().wait(10)  # its handler is run here


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_ends_a_load(number: signal.Signals) -> None:
    with pytest.raises(Interrupted), signals.terminable():
        raised(number)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_nohup_is_heeded() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals.terminable(), signals.undisturbed():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_what_must_not_be_left_half_done_ends_first() -> None:
    done = []

    def load() -> None:
        with signals.terminable():
            with signals.undisturbed():
                signal.raise_signal(signal.SIGHUP)
                done.append("all of it")
            threading.Event().wait(10)

    with pytest.raises(Interrupted):
        load()
    assert done == ["all of it"]
