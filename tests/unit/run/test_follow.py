"""Following a stream whose brokers are away."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rowfall.core.errors import SourceError
from rowfall.core.events import Event, Note
from rowfall.run import follow
from unit.small_load import small_session


def test_brokers_that_stay_away_end_it_after_the_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Event] = []

    def away(*_: object) -> None:
        raise SourceError("cannot ask them", transient=True)

    monkeypatch.setattr(follow, "check_follow", lambda _: None)
    monkeypatch.setattr(follow, "_feed", lambda session, _: follow._Topics(session))
    monkeypatch.setattr(follow, "_wait", away)
    monkeypatch.setattr(follow, "AWAY_SECONDS", 0.02)
    with small_session(tmp_path, "d", emit=said.append, patience="0.2s") as session:
        began = time.monotonic()
        with pytest.raises(SourceError, match="cannot ask them"):
            follow.follow(session)
        assert time.monotonic() - began > 0.2
    notes = [event.text for event in said if isinstance(event, Note)]
    assert notes == ["cannot ask them; trying again"]
