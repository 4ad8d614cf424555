"""Following a stream whose brokers are away."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from rowfall.core.errors import SourceError
from rowfall.core.events import Note
from rowfall.core.options import Options
from rowfall.run import follow


def test_brokers_that_stay_away_end_it_after_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Note] = []
    session: Any = SimpleNamespace(options=Options(patience="0.2s"), emit=said.append)

    def away(*_: object) -> None:
        raise SourceError("cannot ask them", transient=True)

    monkeypatch.setattr(follow, "check_follow", lambda _: None)
    monkeypatch.setattr(follow, "_wait", away)
    monkeypatch.setattr(follow, "AWAY_SECONDS", 0.02)
    began = time.monotonic()
    with pytest.raises(SourceError, match="cannot ask them"):
        follow.follow(session)
    assert 0.2 < time.monotonic() - began < 10
    assert [note.text for note in said] == ["cannot ask them; trying again"]
