"""Followed sources in simulated time: what is listed, when, by whom, and what is loaded of it.

``python -m simulator.watching --seeds 1-1000`` in ``tests``. The watch is the code itself
(:mod:`rowfall.run.object_watch`); the store, its listings and the record are models. The publishing
of rows has a simulator of its own (:mod:`simulator.world`): here a batch is loaded or not.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from rowfall.core.errors import SourceError
from rowfall.core.events import Listener
from rowfall.core.listing import Listing, split_id
from rowfall.ledger.seen_versions import SeenVersion
from rowfall.run import name_chunks, object_watch
from rowfall.run.object_watch import ObjectWatch, WatchRules
from rowfall.run.overwritten import Overwritten
from rowfall.sources.base import ListedObject, ListedPage, NotifiedObjects

if TYPE_CHECKING:
    from rowfall.contracts.destination import Session
    from rowfall.contracts.following import FollowObserver

REST = 2.0
# Looks until everything has to be loaded once nothing happens any more.
MOST_LOOKS = 600
PAGE = 5


class Clock:
    """Stands for :mod:`time` in the watch: monotonic time passes, the other clock may jump."""

    def __init__(self) -> None:
        self.now, self.jumped = 1_000.0, 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_700_000_000.0 + self.now + self.jumped


@dataclass
class Scenario:
    """What happens in one seed, and how often.

    Attributes:
        old: behaviours that are put back, to see that they are found.
    """

    seed: int
    old: str = ""
    draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        draw = self.draw
        self.processes = draw.choice((1, 1, 2, 3))
        self.resumes = draw.random() < 0.5
        self.rests = draw.random() < 0.4
        self.told = draw.random() < 0.3
        self.grows = draw.random() < 0.3
        self.stale = draw.choice((0.0, 0.0, 0.1, 0.4))
        self.kills = draw.choice((0.0, 0.02, 0.1))
        self.errors = draw.choice((0.0, 0.0, 0.05))
        self.steps = draw.randrange(20, 120)
        self.rescan = draw.choice((0.0, 0.0, 30.0))
        # By a lease one process follows a pipeline; only there another version is an error.
        self.errors_of_changes = self.processes == 1 and draw.random() < 0.5


class Store:
    """Objects, and listings that may show them later, or as they were.

    Attributes:
        versions: all that were complete, by name, in order. ``partial``: versions of objects while
            they were written.
    """

    text = "model"
    rest_seconds = 0.0

    def __init__(self, scenario: Scenario, clock: Clock) -> None:
        self._scenario, self._clock = scenario, clock
        self.resumes = scenario.resumes
        self.objects: dict[str, ListedObject] = {}
        self.shown: dict[str, ListedObject] = {}
        self.versions: dict[str, list[str]] = {}
        self.partial: set[tuple[str, str]] = set()
        self.writing: dict[str, float] = {}
        self.events: list[str] = []
        self.lost = False
        self.count = 0
        self.calm = False

    # --- what people do -----------------------------------------------------------------------

    def put(self) -> None:
        """Write a new object, a late one, or overwrite one."""
        draw = self._scenario.draw
        if self.objects and draw.random() < 0.25:
            name = draw.choice(sorted(self.objects))
        elif self._scenario.grows and draw.random() < 0.9:
            name = f"m{self.count:06}"
        else:
            name = f"{draw.choice('abmz')}{draw.randrange(10**6):06}"
        if name in self.writing:
            return
        if self._scenario.rests and draw.random() < 0.5:
            self._show(name, complete=False)
            self.writing[name] = self._clock.now + draw.uniform(0, REST * 0.9)
        else:
            self._show(name, complete=True)

    def _show(self, name: str, *, complete: bool) -> None:
        self.count += 1
        version = f"v{self.count}"
        self.objects[name] = ListedObject(name, version, 10, self._clock.time())
        if complete:
            self.versions.setdefault(name, []).append(version)
            if self._scenario.told:
                self.events.append(name)
                if not self.calm and self._scenario.draw.random() < 0.1:
                    self.events.pop()
                    self.lost = True
        else:
            self.partial.add((name, version))

    def pass_time(self) -> None:
        """Go on with what is being written, and let listings catch up."""
        draw = self._scenario.draw
        for name, until in list(self.writing.items()):
            if until <= self._clock.now:
                if not self.calm and draw.random() < 0.3:
                    self._show(name, complete=False)
                    self.writing[name] = self._clock.now + draw.uniform(0, REST * 0.9)
                else:
                    del self.writing[name]
                    self._show(name, complete=True)
        for name, item in self.objects.items():
            if self.calm or draw.random() >= self._scenario.stale:
                self.shown[name] = item
        if not self.calm and self.shown and draw.random() < self._scenario.stale / 4:
            self.shown.pop(draw.choice(sorted(self.shown)))  # missed for a while

    # --- what a watch asks --------------------------------------------------------------------

    def walks(self) -> list[Store]:
        return [self]

    def notices(self, emit: Listener) -> _Told | None:
        return _Told(self) if self._scenario.told else None

    def renew(self) -> None: ...

    def pages(self, after: str = "") -> Iterator[ListedPage]:
        names = sorted(name for name in self.shown if name > after)
        for start in range(0, len(names), PAGE):
            if not self.calm and self._scenario.draw.random() < self._scenario.errors:
                raise SourceError("away", transient=True)
            page = names[start : start + PAGE]
            found = [self.shown[name] for name in page if name in self.shown]
            if not self.calm and self._scenario.draw.random() < self._scenario.stale / 2:
                found += found[-1:]  # a key is repeated
            yield ListedPage(found, page[-1])

    def look(self, name: str) -> ListedObject | None:
        return self.objects.get(name)


class _Told:
    """What the kernel tells one process."""

    def __init__(self, store: Store) -> None:
        self._store, self._at = store, len(store.events)

    def read(self, seconds: float) -> NotifiedObjects:
        store = self._store
        names, self._at = store.events[self._at :], len(store.events)
        missed, store.lost = store.lost, False
        found = [store.objects[n] for n in dict.fromkeys(names) if n not in store.writing]
        return NotifiedObjects(found, (), missed)

    def is_closed(self, name: str) -> bool:
        return name in self._store.objects and name not in self._store.writing

    def close(self) -> None: ...


@dataclass
class Record:
    """What is loaded: version -> how often; and who is loading what.

    Attributes:
        committed: attempts of processes that were killed before anybody could see their rows.
        seen: versions by name, for ``--on-change error``. ``failed``: what was said about objects
            that were overwritten, by version; ``wanted``: those that people load all the same.
    """

    loaded: dict[tuple[str, str], int] = field(default_factory=dict)
    leased: dict[tuple[str, str], int] = field(default_factory=dict)
    committed: list[tuple[str, str]] = field(default_factory=list)
    seen: dict[str, list[SeenVersion]] = field(default_factory=dict)
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    wanted: set[tuple[str, str]] = field(default_factory=set)

    def commit(self, keys: Sequence[tuple[str, str]]) -> None:
        """Make rows visible."""
        for key in keys:
            self.loaded[key] = self.loaded.get(key, 0) + 1

    # --- as what --on-change error asks -------------------------------------------------------

    def of(self, names: Sequence[str]) -> dict[str, list[SeenVersion]]:
        return {name: self.seen[name] for name in names if name in self.seen}

    def add(self, versions: Sequence[SeenVersion]) -> None:
        for version in versions:
            self.seen.setdefault(version.name, []).append(version)

    def prune(self, before: int) -> None: ...

    def overwritten(self) -> Overwritten:
        """Return the code that finds overwritten objects, which asks this record."""
        ids = _Ids(self)
        return Overwritten(cast("Session", _Session(ids, ids)), cast("FollowObserver", ids))


class _Ids:
    """Destination, ledger and observer of a followed load, as far as they are asked."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def small_tables(self, session: object) -> None: ...

    def seen_versions(self) -> Record:
        return self._record

    def loaded_among(self, session: object, ids: Sequence[str]) -> set[str]:
        loaded = {split_id(*key, None, None, "t") for key in self._record.loaded}
        return loaded.intersection(ids)

    def wants(self, name: str, version: str) -> bool:
        return (name, version) in self._record.wanted

    def ways_out(self, name: str) -> str:
        return "pipeline retry"


@dataclass
class _Session:
    """A session as far as the search for overwritten objects asks it."""

    destination: _Ids
    ledger: _Ids
    target_key: str = "t"
    listing: Listing = field(default_factory=lambda: Listing(""))


class Follower:
    """One process that follows, until it is killed.

    Each call of :meth:`step` comes to the next point at which it may be killed.
    """

    def __init__(self, number: int, store: Store, record: Record, scenario: Scenario) -> None:
        self._number, self._store, self._record = number, store, record
        self._scenario = scenario
        # Of its own, so that it shifts nothing else of a seed.
        self._away = random.Random(f"{scenario.seed} {number}")
        rest = REST if scenario.rests else 0.0
        rules = WatchRules(rest=rest, poll=0.5, rescan=scenario.rescan, takes=self._takes)
        self._overwritten = record.overwritten() if scenario.errors_of_changes else None
        self.watch = ObjectWatch(store, rules, self._loaded, lambda _: None)
        self._going = self._follow()
        self.idle = 0

    def _takes(self, name: str, version: str) -> bool:
        key = name, version
        return key not in self._record.failed or key in self._record.wanted

    def _loaded(self, objects: Sequence[ListedObject]) -> list[bool]:
        if not self._store.calm and self._away.random() < self._scenario.errors:
            raise SourceError("the record is away", transient=True)
        found = [(o.name, o.version) in self._record.loaded for o in objects]
        return found if self._overwritten is None else self._overwritten.note_loaded(objects, found)

    def retry(self, key: tuple[str, str]) -> None:
        """Do what ``rowfall pipeline retry`` asks for."""
        self._record.wanted.add(key)
        self.watch.retry({key[0]})

    def _unless_overwritten(self, batch: list[ListedObject]) -> tuple[list[ListedObject], bool]:
        """Return what is to be loaded, and whether attempts of dead processes allow it."""
        record, overwritten = self._record, self._overwritten
        assert overwritten is not None
        failures, doubtful = overwritten.failures(batch)
        if self._scenario.old == "overwritten unnoticed":
            failures, doubtful = {}, []
        bad = [item for item in batch if item.name in failures]
        for item in bad:
            record.failed[item.name, item.version] = failures[item.name].error
        self.watch.give_up(bad)
        left = [item for item in batch if item.name not in failures]
        overwritten.note_coming(left)
        record.commit(record.committed)  # the load brings them to their ends
        record.committed.clear()
        if self._scenario.old == "attempts end behind the question":
            return left, True
        try:
            overwritten.check(doubtful)
        except SourceError:
            return left, False
        return left, True

    def step(self) -> None:
        next(self._going)

    def end(self) -> None:
        """Be killed: its leases end with it."""
        leases = self._record.leased
        for key in [key for key, owner in leases.items() if owner == self._number]:
            del leases[key]

    def _follow(self) -> Iterator[None]:
        watch, record = self.watch, self._record
        while True:
            try:
                watch.look(0.0)
            except SourceError:
                if self._scenario.old == "what was told is forgotten":
                    watch._told.clear()
                watch.begin_anew()
                yield
                continue
            yield
            batch = watch.take(self._scenario.draw.randrange(1, 8), 1 << 40)
            self.idle = 0 if batch or watch.waiting or watch.ready else self.idle + 1
            if not batch:
                continue
            if self._overwritten is not None:
                yield
                batch, good_to_go = self._unless_overwritten(batch)
                if not good_to_go:
                    watch.begin_anew()
                    continue
                yield
            mine, later = [], []
            for item in batch:  # a lease for each; what others have loaded is done
                key = item.name, item.version
                if key in record.loaded and self._scenario.old != "no leases":
                    watch.done([item])
                elif (
                    record.leased.get(key, self._number) != self._number
                    and self._scenario.old != "no leases"
                ):
                    later.append(item)
                else:
                    record.leased[key] = self._number
                    mine.append(item)
            yield
            good = [o for o in mine if self._reads(o)]
            later += [o for o in mine if o not in good]
            yield
            keys = [(item.name, item.version) for item in good]
            if self._overwritten is not None:
                record.committed += keys
                yield  # whoever is killed here has committed, and nobody sees it yet
                record.committed.clear()
            record.commit(keys)
            for item in mine:
                record.leased.pop((item.name, item.version), None)
            yield
            watch.done(good)
            watch.back(later, later=True)
            yield

    def _reads(self, item: ListedObject) -> bool:
        """Tell whether the object is the version that was listed, as CHECK_SOURCE asks."""
        now = self._store.objects.get(item.name)
        return now is not None and now.version == item.version


def simulate(seed: int, old: str = "") -> None:
    """Run one seed.

    Raises:
        AssertionError: a version is there twice or never, or half of an object was loaded.
    """
    scenario, clock = Scenario(seed, old), Clock()
    with _watched_by(clock, old):
        store, record = Store(scenario, clock), Record()
        draw = scenario.draw
        running: list[Follower | None] = [None] * scenario.processes
        for _ in range(scenario.steps):
            if draw.random() < 0.3:
                store.put()
            left = sorted(record.failed.keys() - record.wanted)
            if left and running[0] is not None and draw.random() < 0.05:
                running[0].retry(draw.choice(left))
            _turn(scenario, clock, store, record, running)
        store.calm = True
        for _ in range(MOST_LOOKS):
            _turn(scenario, clock, store, record, running, calm=True)
            if all(one is not None and one.idle > 3 * (len(store.objects) // PAGE + 40)
                   for one in running):  # fmt: skip
                break
        if scenario.errors_of_changes:
            _check_errors(store, record)
        else:
            _check(store, record)


def _turn(
    scenario: Scenario, clock: Clock, store: Store, record: Record,
    running: list[Follower | None], *, calm: bool = False,
) -> None:  # fmt: skip
    draw = scenario.draw
    for number, one in enumerate(running):
        if one is None:
            if calm or draw.random() < 0.3:
                running[number] = Follower(number, store, record, scenario)
            continue
        for _ in range(6 if calm else draw.randrange(4)):
            if not calm and draw.random() < scenario.kills:
                one.end()
                running[number] = None
                break
            one.step()
    # Everything that is looked at again by itself comes within the calm turns.
    clock.now += 10.0 if calm else draw.choice((0.1, 0.5, 1.0, 3.0))
    if not calm and draw.random() < 0.02:
        clock.jumped += draw.choice((-90_000.0, 5.0, 90_000.0))
    store.pass_time()


def _check(store: Store, record: Record) -> None:
    twice = {key: n for key, n in record.loaded.items() if n > 1}
    assert not twice, f"loaded twice: {twice}"
    half = set(record.loaded) & store.partial
    assert not half, f"half of an object was loaded: {half}"
    for name, item in store.objects.items():
        assert (name, item.version) in record.loaded, f"missing: {name} {item.version}"
    for name, version in record.loaded:
        assert version in store.versions[name], f"never written: {name} {version}"


def _check_errors(store: Store, record: Record) -> None:
    """Check that of each name one version is loaded, and of others those that people wanted."""
    twice = {key: n for key, n in record.loaded.items() if n > 1}
    assert not twice, f"loaded twice: {twice}"
    names = [name for name, version in record.loaded if (name, version) not in record.wanted]
    assert len(names) == len(set(names)), f"overwritten unnoticed: {sorted(record.loaded)}"
    for name, item in store.objects.items():
        key = name, item.version
        assert key in record.loaded or key in record.failed, f"missing: {name} {item.version}"
    loaded = {name for name, _ in record.loaded}
    for name, version in record.failed:
        assert name in loaded, f"failed, and no version of it is loaded: {name} {version}"
    half = set(record.loaded) & store.partial
    assert not half, f"half of an object was loaded: {half}"


@contextmanager
def _watched_by(clock: Clock, old: str) -> Iterator[None]:
    """Let the watch see the simulated clock, and chunks and bounds that small stores come to."""
    changes: list[tuple[object, str, object]] = [
        (object_watch, "time", clock), (object_watch, "MOST_HELD", 12),
        (object_watch, "MOST_DECIDED", 6), (object_watch, "LATE_SECONDS", 60.0),
        (object_watch, "MOST_AGAIN", 20.0), (object_watch, "SAFE_SECONDS", 60.0),
        (name_chunks, "LEAST", 3), (name_chunks, "MOST", 12), (name_chunks, "ASKED", 10),
        (object_watch, "LEAST", 3),
    ]  # fmt: skip
    if old == "digests of unfinished chunks":
        changes.append((name_chunks, "all", lambda _: True))
    if old == "taken at the first look":
        changes.append((object_watch, "_rests", lambda rules: False))
    if old == "what was told is forgotten":
        changes.append((object_watch, "SAFE_SECONDS", 1e6))
    if old == "only behind the last name":
        changes.append((object_watch._Listing, "_due_pages", lambda self: 0))
    before = [(where, name, getattr(where, name, None)) for where, name, _ in changes]
    for where, name, value in changes:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in before:
            if value is None:
                delattr(where, name)
            else:
                setattr(where, name, value)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="0-999")
    parser.add_argument("--old", default="")
    given = parser.parse_args()
    low, _, high = given.seeds.partition("-")
    found, began = 0, time.process_time()
    for seed in range(int(low), int(high or low) + 1):
        try:
            simulate(seed, given.old)
        except AssertionError as error:
            found += 1
            sys.stdout.write(f"seed {seed}: {error}\n")
            if found > 5:
                break
    seconds = time.process_time() - began
    sys.stdout.write(f"{seed - int(low) + 1} seeds, {found} violations, {seconds:.1f} s\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
