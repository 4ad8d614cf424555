"""What is taken up of a source that is listed again and again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from unittest.mock import Mock

import pytest

from rowfall.core.errors import TargetError
from rowfall.core.events import Event, Listener, Note
from rowfall.run import object_watch
from rowfall.run.object_watch import ObjectWatch, WatchRules
from rowfall.sources.base import ListedObject, ListedPage, NotifiedObjects


class Clock:
    """Stands for :mod:`time`."""

    def __init__(self) -> None:
        self.now, self.wall = 1000.0, 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.wall

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds


class Shelf:
    """A source of objects, its one walk, and what the kernel tells of it."""

    rest_seconds = 0.0
    text = "shelf"

    def __init__(self, *, resumes: bool = False) -> None:
        self.resumes, self.remote = resumes, False
        self.objects: dict[str, ListedObject] = {}
        self.requests = 0
        self.heard: NotifiedObjects | None = None
        self.closed: set[str] = set()

    def put(self, name: str, version: str = "1", size: int = 10, modified: float = 0.0) -> None:
        self.objects[name] = ListedObject(name, version, size, modified)

    def walks(self) -> list[Shelf]:
        return [self]

    def notices(self, emit: Listener) -> Shelf | None:
        return self if self.heard is not None else None

    def read(self, seconds: float) -> NotifiedObjects:
        assert self.heard is not None
        heard, self.heard = self.heard, NotifiedObjects((), (), False)
        return heard

    def is_closed(self, name: str) -> bool:
        return name in self.closed

    def renew(self) -> None: ...

    def close(self) -> None: ...

    def pages(self, after: str = "") -> Iterator[ListedPage]:
        names = sorted(name for name in self.objects if name > after)
        for start in range(0, len(names), 1000):
            self.requests += 1
            page = names[start : start + 1000]
            yield ListedPage([self.objects[n] for n in page if n[0] != "_"], page[-1])
        if not names:
            self.requests += 1

    def look(self, name: str) -> ListedObject | None:
        return self.objects.get(name)

    def size_of(self, name: str) -> int | None:
        return 0 if name in self.objects else None


class Loads:
    """Loads what a watch gives, and remembers it as a record does."""

    def __init__(self, shelf: Shelf, **rules: object) -> None:
        self.shelf, self.said = shelf, list[Event]()
        self.known: set[tuple[str, str]] = set()
        self.asked = 0
        self.watch = ObjectWatch(shelf, WatchRules(**rules), self.loaded, self.said.append)  # type: ignore[arg-type]

    def loaded(self, objects: Sequence[ListedObject]) -> list[bool]:
        self.asked += len(objects)
        return [(o.name, o.version) in self.known for o in objects]

    def round(self, files: int = 100_000) -> list[str]:
        """Look once and load what is ready; return the names."""
        self.watch.look(0)
        taken = self.watch.take(files, 1 << 40)
        self.known |= {(o.name, o.version) for o in taken}
        self.watch.done(taken)
        return [o.name for o in taken]

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.said if isinstance(event, Note)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(object_watch, "time", found)
    return found


def test_late_names_and_overwritten_objects_are_taken(clock: Clock) -> None:
    loads = Loads(shelf := Shelf())
    shelf.put("m")
    assert loads.round() == ["m"]
    shelf.put("a")
    shelf.put("m", "2")
    assert sorted(loads.round()) == ["a", "m"]
    clock.passes(1)
    assert loads.round() == []


def test_a_new_process_asks_the_record(clock: Clock) -> None:
    first = Loads(shelf := Shelf())
    for number in range(3000):
        shelf.put(f"n{number:05}")
    assert len(first.round()) == 3000
    second = Loads(shelf)
    second.known = first.known
    shelf.put("n00500x")
    assert second.round() == ["n00500x"]
    clock.passes(10)
    assert second.round() == []  # the chunk of the new one is asked about once more
    asked = second.asked
    clock.passes(10)
    assert second.round() == []
    assert second.asked == asked


def test_what_is_being_written_waits_until_it_rests(clock: Clock) -> None:
    loads = Loads(shelf := Shelf(), rest=2.0)
    shelf.put("a", "1", modified=clock.wall)
    shelf.put("old", "1", modified=clock.wall - 3600)  # by a clock that nobody trusts
    assert loads.round() == []
    clock.passes(1.5)
    shelf.put("a", "2", modified=clock.wall)
    clock.passes(1)
    assert loads.round() == ["old"]
    clock.passes(1.5)
    assert loads.round() == []  # at 1.5 s behind the second look
    clock.passes(1)
    assert loads.round() == ["a"]


def test_a_clock_that_jumps_makes_nothing_rest(clock: Clock) -> None:
    loads = Loads(shelf := Shelf(), rest=2.0)
    shelf.put("a", "1", modified=clock.wall)
    assert loads.round() == []
    clock.wall -= 86_400
    clock.passes(1)
    assert loads.round() == []
    clock.passes(1.5)
    assert loads.round() == ["a"]


def test_what_the_kernel_calls_complete_is_taken_at_once(clock: Clock) -> None:
    shelf = Shelf()
    shelf.heard = NotifiedObjects((), (), False)
    loads = Loads(shelf, rest=2.0)
    assert loads.round() == []
    one, two = (ListedObject(name, "1", 5, clock.wall) for name in "ab")
    shelf.objects = {"a": one, "b": two}
    shelf.heard = NotifiedObjects([one], [two], False)
    assert loads.round() == ["a"]
    clock.passes(2.5)
    assert loads.round() == ["b"]


def test_what_the_kernel_tells_while_the_record_is_away_is_not_lost(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf()
    shelf.heard = NotifiedObjects((), (), False)
    loads = Loads(shelf, rest=2.0)
    assert loads.round() == []
    shelf.put("a")
    shelf.heard = NotifiedObjects([shelf.objects["a"]], (), False)
    monkeypatch.setattr(loads.watch, "_loaded", Mock(side_effect=TargetError("away")))
    with pytest.raises(TargetError, match="away"):
        loads.round()
    loads.watch.begin_anew()
    monkeypatch.setattr(loads.watch, "_loaded", loads.loaded)
    assert loads.round() == ["a"]


def test_what_is_listed_and_nobody_writes_is_taken_at_once(clock: Clock) -> None:
    """So a watcher that is started again does not wait for what came while it was away."""
    shelf = Shelf()
    shelf.heard = NotifiedObjects((), (), False)
    shelf.put("a")
    shelf.put("b")
    shelf.closed = {"a"}
    loads = Loads(shelf, rest=2.0)
    assert loads.round() == ["a"]
    clock.passes(2.5)
    assert loads.round() == ["b"]


def test_what_nobody_writes_rests_all_the_same_where_people_want_it(clock: Clock) -> None:
    shelf = Shelf()
    shelf.heard = NotifiedObjects((), (), False)
    shelf.put("a")
    shelf.closed = {"a"}
    loads = Loads(shelf, rest=2.0, rests_always=True)
    assert loads.round() == []
    clock.passes(2.5)
    assert loads.round() == ["a"]


def test_what_the_kernel_has_missed_is_listed(clock: Clock) -> None:
    shelf = Shelf()
    shelf.heard = NotifiedObjects((), (), False)
    loads = Loads(shelf)
    loads.round()
    shelf.put("a")
    clock.passes(5)
    assert loads.round() == []  # nobody has told of it
    shelf.heard = NotifiedObjects((), (), True)
    assert loads.round() == ["a"]


@pytest.mark.parametrize(("marker", "name"), [("{name}.done", "f/a.csv.done"), ("_OK", "f/_OK")])
def test_a_marker_says_that_an_object_is_complete(clock: Clock, marker: str, name: str) -> None:
    loads = Loads(shelf := Shelf(), marker=marker, rest=2.0)
    shelf.put("f/a.csv", modified=clock.wall)
    for _ in range(3):
        assert loads.round() == []
        clock.passes(5)
    shelf.put(name, size=0)
    assert loads.round() == ["f/a.csv"]


def test_beside_a_queue_a_poll_lists_once(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many events end the wait; and what is in the queue stays there while all is full."""
    shelf = Shelf(resumes=True)
    shelf.heard, shelf.remote = NotifiedObjects((), (), False), True
    loads = Loads(shelf, poll=10.0)
    for number in range(5000):
        shelf.put(f"n{number:05}")
    assert len(loads.round()) == 5000
    clock.passes(10)
    loads.round()
    before = shelf.requests
    for number in range(20):
        shelf.put(f"a{number}")
        shelf.heard = NotifiedObjects([shelf.objects[f"a{number}"]], (), False)
        assert loads.round() == [f"a{number}"]
        clock.passes(0.4)
    assert shelf.requests == before
    shelf.put("n00001x")
    shelf.put("n99999")
    clock.passes(3)
    assert "n99999" in loads.round()
    assert shelf.requests <= before + 3
    monkeypatch.setattr(object_watch, "MOST_HELD", 1)
    shelf.heard = NotifiedObjects([shelf.objects["n00001x"]], (), False)
    loads.watch.look(0)
    shelf.put("later")
    shelf.heard = told = NotifiedObjects([shelf.objects["later"]], (), False)
    loads.watch.look(0)
    assert shelf.heard is told
    assert loads.round() == ["n00001x"]
    assert loads.round() == ["later"]


def test_two_requests_a_poll_find_what_comes_last(clock: Clock) -> None:
    loads = Loads(shelf := Shelf(resumes=True))
    for number in range(20_000):
        shelf.put(f"n{number:06}")
    taken = 0
    while taken < 20_000:
        taken += len(loads.round())
    for number in range(20_000, 20_050):
        shelf.put(f"n{number:06}")
        before = shelf.requests
        assert loads.round() == [f"n{number:06}"]
        assert shelf.requests - before <= 2
        clock.passes(1)
    # A late name is found within one pass over 21 pages.
    shelf.put("n005000x")
    found = list(itertools.chain.from_iterable(loads.round() for _ in range(25)))
    assert found == ["n005000x"]


def test_a_pass_goes_faster_while_late_names_come(clock: Clock) -> None:
    loads = Loads(shelf := Shelf(resumes=True))
    for number in range(20_000):
        shelf.put(f"n{number:06}")
    while len(loads.known) < 20_000:
        loads.round()
    shelf.put("n005000x")
    while "n005000x" not in {name for name, _ in loads.known}:
        loads.round()
        clock.passes(1)
    shelf.put("n015000x")
    rounds = 0
    while "n015000x" not in {name for name, _ in loads.known}:
        loads.round()
        rounds += 1
        clock.passes(1)
    assert rounds <= 4


def test_a_million_objects_at_once_are_held_in_part(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_watch, "MOST_HELD", 3000)
    loads = Loads(shelf := Shelf())
    for number in range(20_000):
        shelf.put(f"n{number:06}")
    most = 0
    while len(loads.known) < 20_000:
        loads.round(1000)
        most = max(most, loads.watch.ready)
        clock.passes(1)
    assert most <= 3000


def test_what_is_told_while_too_much_is_held_is_listed_at_once(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of each file once, and lists are looked at every ten minutes beside it."""
    monkeypatch.setattr(object_watch, "MOST_HELD", 300)
    shelf = Shelf()
    shelf.heard = NotifiedObjects((), (), False)
    loads = Loads(shelf)
    assert loads.round() == []
    for number in range(1000):
        shelf.put(f"n{number:04}")
    shelf.heard = NotifiedObjects([*shelf.objects.values()], (), False)
    for _ in range(20):
        loads.round(100)
        clock.passes(1)
    assert len(loads.known) == 1000


def test_what_fails_for_a_passing_reason_comes_back(clock: Clock) -> None:
    loads = Loads(shelf := Shelf())
    shelf.put("a")
    loads.watch.look(0)
    taken = loads.watch.take(10, 1 << 30)
    assert loads.watch.back(taken, later=True) == []
    assert loads.round() == []
    clock.passes(5)
    assert loads.round() == ["a"]


def test_what_is_given_up_is_tried_when_asked_or_as_a_new_version(clock: Clock) -> None:
    loads = Loads(shelf := Shelf())
    shelf.put("a")
    loads.watch.look(0)
    loads.watch.give_up(loads.watch.take(10, 1 << 30))
    clock.passes(60)
    assert loads.round() == []
    loads.watch.retry({"a"})
    assert loads.round() == ["a"]
    shelf.put("a", "2")
    clock.passes(60)
    assert loads.round() == ["a"]


def test_what_is_older_than_the_record_is_left_out_and_said(clock: Clock) -> None:
    loads = Loads(shelf := Shelf(), forget_after=86_400.0)
    shelf.put("old", modified=clock.wall - 90_000)
    shelf.put("new", modified=clock.wall - 80_000)
    assert loads.round() == ["new"]
    assert any("--forget-after" in text for text in loads.notes)
    # A clock that was wrong has called everything too old: it is looked at again.
    clock.wall += 10 * 86_400
    shelf.put("now", modified=clock.wall - 10 * 86_400)
    clock.passes(60)
    assert loads.round() == []
    clock.wall -= 10 * 86_400
    assert loads.round() == ["now"]


def test_a_listing_that_misses_and_repeats_names_for_a_while(clock: Clock) -> None:
    loads = Loads(shelf := Shelf())
    for name in "abc":
        shelf.put(name)
    loads.round()
    gone = shelf.objects.pop("b")
    clock.passes(10)
    loads.round()
    shelf.objects["b"] = gone
    shelf.put("c", "2")
    clock.passes(10)
    assert loads.round() == ["c"]
    shelf.put("c", "1")  # as it was listed before
    clock.passes(10)
    assert loads.round() == []
