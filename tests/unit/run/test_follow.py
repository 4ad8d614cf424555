"""Following a source that is away."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rowfall.contracts.following import FollowControl
from rowfall.core.errors import SourceError
from rowfall.core.events import Event, Note
from rowfall.core.listing import Listing
from rowfall.core.results import Report
from rowfall.run import follow
from rowfall.run.history import record
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


class Clock:
    """Stands for :mod:`time`."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


def hour(tmp_path: Path, clock: Clock, **options: str) -> list[str]:
    """Be away for an hour; return what is said, with a bucket that has answered before."""
    said: list[Event] = []
    with small_session(tmp_path, "d", emit=said.append, **options) as session:
        away, until = follow._Away(session, None), clock.now + 3600
        try:
            while clock.now < until:
                away.after(SourceError("there is no bucket b"), answered=True)
                assert away.pause() <= 30  # so it is found soon after it is back
                clock.now += away.pause()
            away.back()
        finally:
            session.emit(Note("info", f"after {clock.now - 1_000:.0f} s"))
    return [event.text for event in said if isinstance(event, Note)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(follow, "time", found)
    return found


def test_a_bucket_that_vanishes_for_an_hour_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    first, *others, back, _ = hour(tmp_path, clock)
    assert first == "there is no bucket b; trying again"
    assert 10 <= len(others) <= 12  # every five minutes
    assert all(text.startswith("there is no bucket b, for ") for text in others)
    assert back.startswith("back after ")


def test_who_gives_a_patience_is_not_kept_for_an_hour(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(SourceError, match="there is no bucket b"):
        hour(tmp_path, clock, patience="10m")
    assert 600 < clock.now - 1_000 <= 640


def test_large_batches_are_joined_earlier_than_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart asks for all that is not joined: a million files were, of 100 batches."""
    monkeypatch.setattr(follow, "KEPT_FILES", 7)
    with small_session(tmp_path, "d") as session:
        ledger, key = session.ledger, session.target_key
        assert ledger is not None
        kept, ids = [], []
        for number in range(6):
            listing = Listing()
            for file in range(3):
                listing.add(f"/in/{number}-{file}.csv", "v", 5)
            splits, load_id = list(listing.splits(key)), f"load{number}"
            ledger.begin(load_id, "print", "src", "tgt", key, "{}")
            ledger.add_splits(load_id, splits)
            ledger.attempt_started(f"{load_id}_1", load_id, "st", key, splits)
            ledger.attempt_committed(f"{load_id}_1", 3, [])
            ledger.attempt_published(f"{load_id}_1", key)
            kept.append(Report(load_id, "done", "src", "tgt", "t", "", splits_loaded=3, rows=3))
            record(ledger, kept[-1])
            ids += [split.id for split in splits]
        control = FollowControl()
        following = follow._Following(session, follow._Topics(session), None, control)
        following._kept = kept
        control.stop()  # it is looked at before each of them
        following._catch_up()
        assert ledger.loaded(key) == set(ids)
        control._stopped.clear()
        following._catch_up()
        assert ledger.loaded(key) == set(ids[-6:])
        assert ledger.loaded_among(key, ids) == set(ids)
        assert [row.id for row in ledger.loads()] == ["load5", "load4", "load0"]
        assert [(one.load_id, one.rows) for one in kept] == [("load0", 12), ("load4", 3),
                                                             ("load5", 3)]  # fmt: skip
