"""Finds new objects, and new versions of objects, in a source that is listed again and again.

What is known is bounded whatever the source holds: a digest for a thousand names
(:mod:`rowfall.run.name_chunks`), a hundred thousand versions that were decided last, and what
waits to be loaded. Whether an object is loaded says the record in the target, which is asked
about what may be new and never read as a whole.

Three looks find what is new, the cheapest first:

* what the kernel tells of local folders, and a queue of a bucket
  (:class:`rowfall.sources.base.ObjectNotices`);
* where names grow, a listing that begins behind the last name (S3, Google): one request;
* a pass over all names, a page at each look, which finds late names and overwritten objects. It
  goes faster while it finds some.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError
from rowfall.core.events import Listener, Note
from rowfall.run.name_chunks import LEAST, ChunkPass, NameChunks
from rowfall.sources.base import ListedObject, ListedPage, ListedSource, ObjectNotices, ObjectWalk

# Objects that are held, ready or waiting: some 400 bytes each. The pass stops while there are as
# many; what follows is found when these are loaded.
MOST_HELD = 50_000
# Versions that were decided last, so that the record is not asked about them: 200 bytes each.
MOST_DECIDED = 100_000
# A look at late names takes at most so long, so that who waits for a batch does not wait for it.
LOOK_SECONDS = 0.4
# Pages at a look while late names come: 20 requests a second find one in ten million names within
# nine minutes, for 9 dollars a day at the prices of S3.
MOST_PAGES = 10
# So long after a late name the pass goes on fast.
LATE_SECONDS = 600.0
# A pass that cannot begin behind a name takes at most a fifth of the time.
IDLE_SHARE = 4.0
# Where the kernel tells of new files, all are looked at so often all the same: who writes through
# a map of the file, or on another machine, closes nothing here.
SAFE_SECONDS = 600.0
# Places behind which names grow that are not the last: folders of several writers.
MOST_PLACES, PLACE_LOOKS = 8, 120
# Objects far away that are looked at again at one look, so many at a time: each is a request.
MOST_ASKED, REQUESTS = 400, 16
# An object whose load failed for a passing reason is tried again after so long, and twice as long
# the next time, up to ten minutes.
AGAIN_SECONDS, MOST_AGAIN = 2.0, 600.0
# A clock that has moved so far against the monotonic one has jumped.
JUMP_SECONDS = 3600.0

AskLoaded = Callable[[Sequence[ListedObject]], Sequence[bool]]
"""Tells of each object whether this version of it is loaded."""


@dataclass(frozen=True, slots=True)
class WatchRules:
    """What decides when an object is taken.

    Attributes:
        rest: seconds; see :attr:`rowfall.sources.base.ListedSource.rest_seconds`.
        rests_always: also what the kernel calls complete.
        marker: name of the object that says that another one is complete: with ``{name}`` beside
            each, without it one in each folder; "" for none.
        forget_after: seconds; objects that were changed before are never loaded. 0: no bound.
        rescan: seconds within which all names are looked at again; 0 for the default.
        poll: seconds between looks.
        takes: False for a version that people have skipped.
    """

    rest: float = 0.0
    rests_always: bool = False
    marker: str = ""
    forget_after: float = 0.0
    rescan: float = 0.0
    poll: float = 0.5
    takes: Callable[[str, str], bool] | None = None


@dataclass(slots=True)
class _Held:
    """An object that is ready, or waits.

    Attributes:
        since: when it was found, ``due``: when it is looked at again, as of ``time.monotonic``.
        tries: loads of it that failed for a passing reason.
    """

    object: ListedObject
    since: float
    due: float
    tries: int = 0


class ObjectWatch:
    """Finds what is to be loaded of one source.

    Args:
        loaded: asked about at most 10,000 objects at once.
    """

    def __init__(
        self, source: ListedSource, rules: WatchRules, loaded: AskLoaded, emit: Listener
    ) -> None:
        self._rules, self._loaded, self._emit = rules, loaded, emit
        self._source, self._remote = source, bool(getattr(source, "remote", False))
        self._listings = [_Listing(self, walk) for walk in source.walks()]
        self._notices: ObjectNotices | None = source.notices(emit)
        # What was heard and is not judged yet, and whether it is complete.
        self._told: list[tuple[Sequence[ListedObject], bool]] = []
        self._ready: dict[str, _Held] = {}
        self._waiting: dict[str, _Held] = {}
        self._hand: dict[str, _Held] = {}
        self._decided: dict[bytes, None] = {}
        self._said: set[str] = set()
        self._clock = time.time() - time.monotonic()
        self.heard = self._notices is not None
        self._listed = -rules.poll

    # --- looking ------------------------------------------------------------------------------

    def look(self, seconds: float) -> None:
        """Look for what is new; wait for so many seconds where something tells of it.

        Raises:
            SourceError: the source cannot be listed.
        """
        self._check_clock()
        begins = any(listing.is_first for listing in self._listings)
        queued = self.heard and self._remote
        # What is in a queue stays there while too much is held.
        if self._notices is not None and not (queued and self.full):
            self._hear(0.0 if begins else seconds)
        self._look_at_waiting()
        if queued and not begins and time.monotonic() - self._listed < self._rules.poll:
            return  # an event has ended the wait; each listing is a request
        self._listed = time.monotonic()
        for listing in self._listings:
            listing.look(rests=not self.heard or queued)

    def _hear(self, seconds: float) -> None:
        assert self._notices is not None  # noqa: S101 - the caller has looked
        if not self._told:
            try:
                complete, young, missed = self._notices.read(seconds)
            except OSError as error:
                self._hear_no_more(self._notices, error)
                return
            self._told = [(complete, not self._rules.rests_always), (young, False)]
            if missed:
                for listing in self._listings:
                    listing.again()
        # The kernel tells of each once: what could not be asked about is judged at the next look.
        while self._told:
            objects, at_once = self._told[0]
            self.judge(objects, at_once=at_once)
            del self._told[0]

    def _hear_no_more(self, notices: ObjectNotices, error: OSError) -> None:
        why = (error.strerror or str(error)).lower()
        self._emit(Note(
            "warning",
            f"the kernel tells of no more files ({why}); the folder is listed again and again "
            "instead",
        ))  # fmt: skip
        notices.close()
        self._notices, self.heard = None, False

    def _look_at_waiting(self) -> None:
        """Look again at what waits and is due."""
        now, began = time.monotonic(), time.monotonic()
        due = [name for name, held in self._waiting.items() if held.due <= now]
        step = MOST_ASKED if self._remote else 1
        for start in range(0, len(due), step):
            # Of those that are remote there is one step: each is a request.
            if (start and self._remote) or time.monotonic() - began > LOOK_SECONDS:
                return
            some = [self._waiting[name] for name in due[start : start + step]]
            for held, found in zip(some, self._looked_at(some), strict=True):
                self._look_again(held, found)

    def _looked_at(self, some: Sequence[_Held]) -> Iterable[ListedObject | None]:
        """Return objects as they are now.

        Raises:
            SourceError: one cannot be asked for.
        """
        if not self._remote:
            return [self._now(held.object.name) for held in some]
        from concurrent.futures import ThreadPoolExecutor  # 4 ms that files here save

        with ThreadPoolExecutor(REQUESTS) as pool:
            return list(pool.map(lambda held: self._now(held.object.name), some))

    def _now(self, name: str) -> ListedObject | None:
        """Return an object as it is now; None where it is gone.

        Raises:
            SourceError: it cannot be asked for.
        """
        found = (listing.walk.look(name) for listing in self._listings)
        return next((item for item in found if item is not None), None)

    def _look_again(self, held: _Held, found: ListedObject | None) -> None:
        name = held.object.name
        del self._waiting[name]
        if found is None:
            return
        if found.version != held.object.version:
            self._take_up(found)
        elif self._rules.marker and not self._marked(found):
            held.due = time.monotonic() + self._rules.poll
            self._waiting[name] = held
        else:
            self._ready[name] = _Held(found, held.since, held.due, held.tries)

    def _check_clock(self) -> None:
        """Look at everything again where the clock has jumped: it has said what is too old."""
        offset = time.time() - time.monotonic()
        if abs(offset - self._clock) < JUMP_SECONDS:
            return
        hours = (offset - self._clock) / 3600
        self._clock = offset
        if self._rules.forget_after:
            self._emit(Note("warning", f"the clock of this machine has jumped by {hours:+.1f} h"))
            self.forget()

    # --- deciding -----------------------------------------------------------------------------

    def judge(self, objects: Sequence[ListedObject], *, at_once: bool = False) -> list[bool]:
        """Tell of each object whether nothing is left to do about it; take up what is to be loaded.

        Args:
            at_once: they are complete.
        """
        done = [False] * len(objects)
        asked: list[int] = []
        for index, item in enumerate(objects):
            if _digest(item) in self._decided:
                done[index] = True
            elif not self._is_held(item, at_once=at_once):
                asked.append(index)
        for start in range(0, len(asked), 10_000):
            some = asked[start : start + 10_000]
            answers = self._loaded([objects[i] for i in some])
            for index, loaded in zip(some, answers, strict=True):
                done[index] = loaded or self._take_up(objects[index], at_once=at_once)
        return done

    def _is_held(self, item: ListedObject, *, at_once: bool) -> bool:
        """Tell whether this version is ready, waits or is being loaded."""
        held = self._ready.get(item.name) or self._hand.get(item.name)
        if held is not None and held.object.version == item.version:
            return True
        held = self._waiting.get(item.name)
        return held is not None and held.object.version == item.version and not at_once

    def _take_up(self, item: ListedObject, *, at_once: bool = False) -> bool:
        """Take up a version that is not loaded; return True where there is nothing to load."""
        rules, now = self._rules, time.monotonic()
        # Hidden from who loads: it holds no rows, and typed formats cannot read it.
        if not item.size or (rules.takes and not rules.takes(item.name, item.version)):
            return True
        if self._is_too_old(item):
            return True
        if not _is_text(item.name):
            self._say_once(f"{item.name!r} cannot be loaded: its name is not valid UTF-8")
            return True
        before = self._ready.pop(item.name, None) or self._waiting.pop(item.name, None)
        if before is None and self.full:
            # Whoever told of it tells of it once, and a pass may be behind it.
            for listing in self._listings:
                listing.again()
            return False
        held = _Held(item, before.since if before else now, now)
        # Otherwise by the monotonic clock alone, so two looks: the time of a file is that of a
        # clock that may jump, or of another machine.
        complete = (
            self._marked(item) if rules.marker
            else at_once or not _rests(rules) or self._is_closed(item)
        )  # fmt: skip
        if complete:
            self._ready[item.name] = held
        else:
            held.due = now + (rules.poll if rules.marker else rules.rest)
            self._waiting[item.name] = held
        return False

    def _is_closed(self, item: ListedObject) -> bool:
        """Tell whether the kernel says that nobody writes an object that was listed."""
        if self._notices is None or self._rules.rests_always:
            return False
        return self._notices.is_closed(item.name)

    def _is_too_old(self, item: ListedObject) -> bool:
        bound = self._rules.forget_after
        if not bound or item.modified is None or time.time() - item.modified <= bound:
            return False
        self._say_once(
            "objects that were changed before the bound of --forget-after are not loaded: "
            f"{item.name} is the first"
        )
        return True

    def _marked(self, item: ListedObject) -> bool:
        """Tell whether the marker of an object is there."""
        folder, _, name = item.name.rpartition("/")
        marker = f"{folder}/{self._rules.marker.replace('{name}', name)}"
        sized: Callable[[str], int | None] | None = getattr(self._source, "size_of", None)
        return sized is not None and sized(marker) is not None

    def _say_once(self, text: str) -> None:
        kind = text.partition(":")[0]
        if kind not in self._said:
            self._said.add(kind)
            self._emit(Note("warning", text))

    # --- loading ------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """True where as many objects are held as may be."""
        return len(self._ready) + len(self._waiting) >= MOST_HELD

    @property
    def ready(self) -> int:
        """Return the number of objects that can be loaded."""
        return len(self._ready)

    @property
    def ready_bytes(self) -> int:
        """Return their bytes, as stored."""
        return sum(held.object.size for held in self._ready.values())

    @property
    def waiting(self) -> int:
        """Return the number of objects that are not at rest, lack a marker, or wait otherwise."""
        return len(self._waiting)

    def age(self) -> float:
        """Return the seconds since the oldest object that is ready was found."""
        oldest = min((held.since for held in self._ready.values()), default=None)
        return 0.0 if oldest is None else time.monotonic() - oldest

    def take(self, files: int, size: int) -> list[ListedObject]:
        """Take the objects of a batch, in the order in which they became ready.

        Args:
            files: at most so many. ``size``: about so many bytes as stored; one object at least.
        """
        found: list[ListedObject] = []
        left = size
        for name in list(self._ready):
            if len(found) == files or (found and left < self._ready[name].object.size):
                break
            held = self._hand[name] = self._ready.pop(name)
            left -= held.object.size
            found.append(held.object)
        return found

    def done(self, objects: Sequence[ListedObject]) -> None:
        """Note that nothing is left to do about some versions."""
        for item in objects:
            self._hand.pop(item.name, None)
            self._decided[_digest(item)] = None
        while len(self._decided) > MOST_DECIDED:
            del self._decided[next(iter(self._decided))]

    def back(self, objects: Sequence[ListedObject], *, later: bool) -> list[ListedObject]:
        """Take objects back that could not be loaded.

        Args:
            later: look at them again after a while; otherwise they are ready at once.

        Returns:
            Those that have been tried for more than ten minutes.
        """
        tired: list[ListedObject] = []
        for item in objects:
            held = self._hand.pop(item.name, None)
            if held is None:
                continue
            if later:
                held.tries += 1
                wait = min(AGAIN_SECONDS * 2**held.tries, MOST_AGAIN)
                if wait == MOST_AGAIN:
                    tired.append(item)
                held.due = time.monotonic() + wait
                self._waiting[item.name] = held
            else:
                self._ready[item.name] = held
        return tired

    def is_same(self, item: ListedObject) -> bool:
        """Tell whether an object that is being loaded is still what was listed.

        Raises:
            SourceError: it cannot be asked for.
        """
        held = self._hand.get(item.name)
        if held is None:
            return False
        found = self._now(item.name)
        return found is not None and found.version == item.version

    def give_up(self, objects: Sequence[ListedObject]) -> None:
        """Try some versions no more."""
        for item in objects:
            self._waiting.pop(item.name, None)
        self.done(objects)

    def retry(self, names: set[str]) -> None:
        """Try files again that were given up."""
        for name in names:
            with suppress(SourceError):
                found = self._now(name)
                if found is not None:
                    self._decided.pop(_digest(found), None)
                    self.judge([found], at_once=True)

    def forget(self) -> None:
        """Judge everything again: the target is another one."""
        self._decided.clear()
        for listing in self._listings:
            listing.forget()

    def begin_anew(self) -> None:
        """Go on after an error: passes that were broken off begin again."""
        for listing in self._listings:
            listing.break_off()
        for held in self._hand.values():
            self._ready[held.object.name] = held
        self._hand.clear()

    def close(self) -> None:
        """Hear nothing more."""
        if self._notices is not None:
            self._notices.close()


class _Listing:
    """The looks at one walk."""

    def __init__(self, watch: ObjectWatch, walk: ObjectWalk) -> None:
        self.walk = walk
        self._watch, self._rules = watch, watch._rules
        self._chunks = NameChunks()
        self._pass: ChunkPass | None = None
        self._pages: Iterator[ListedPage] = iter(())
        self._first, self._ended, self._is_due = True, False, False
        self._count = self._total = 0
        self._busy = 0.0
        self._next = 0.0
        self._late = -LATE_SECONDS
        self._last = self._tail = ""
        # Place -> looks that have found nothing behind it.
        self._places: dict[str, int] = {}

    def look(self, *, rests: bool) -> None:
        """Look for what is new.

        Args:
            rests: nothing else tells of new objects.
        """
        if self._first:
            self._go_on(pages=1 << 30, seconds=1.0)
        # All names in a page or two: the pass itself is as cheap as what would find less.
        elif self.walk.resumes and self._total > 2:
            self._look_behind()
            self._go_on(self._due_pages(), LOOK_SECONDS)
        elif self._pass is not None or time.monotonic() >= self._next:
            self._go_on(pages=1 << 30, seconds=LOOK_SECONDS)
        if self._pass is None and self._ended:
            self._ended = False
            pause = self._rules.rescan or (0.0 if rests else SAFE_SECONDS)
            pause = 0.0 if self._is_due else max(pause, IDLE_SHARE * self._busy)
            self._next = time.monotonic() + pause

    def _due_pages(self) -> int:
        """Return how many pages of the pass are due at this look."""
        if self._rules.rescan:
            return max(1, round(self._total * self._rules.poll / self._rules.rescan))
        return MOST_PAGES if time.monotonic() - self._late < LATE_SECONDS else 1

    def _go_on(self, pages: int, seconds: float) -> None:
        """Go on with the pass, for so many pages and seconds."""
        began = time.monotonic()
        if self._pass is None:
            if self._watch.full:
                return
            self._is_due = False
            self._pass = ChunkPass(self._chunks, self._judge)
            self._pages, self._count, self._busy = self.walk.pages(), 0, 0.0
        while pages and not self._watch.full and time.monotonic() - began < seconds:
            page = next(self._pages, None)
            if page is None:
                self._busy += time.monotonic() - began
                self._end()
                return
            pages -= 1
            self._count += 1
            self._last = max(self._last, page.last)
            self._pass.add(page.objects)
        self._busy += time.monotonic() - began
        if self._watch.ready == 0:
            self._pass.settle()  # rather than when a batch of questions has come together

    def _end(self) -> None:
        assert self._pass is not None  # noqa: S101 - the caller has it
        self._chunks, self._pass = self._pass.end(), None
        self._total, self._ended = self._count, True
        self._tail = max(self._tail, self._last)
        self._first = False

    def _judge(self, objects: Sequence[ListedObject]) -> Sequence[bool]:
        held = self._watch.ready + self._watch.waiting
        done = self._watch.judge(objects)
        if self._watch.ready + self._watch.waiting > held and not self._first:
            self._late = time.monotonic()
            if self.walk.resumes and self._total > 2:
                found = [item.name for item, no in zip(objects, done, strict=True) if not no]
                self._grew_at(max(found))
        return done

    def _grew_at(self, place: str) -> None:
        self._places[place] = 0
        while len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]

    def _look_behind(self) -> None:
        """Look behind the last name, and in turns behind another place where names have grown."""
        for _ in range(MOST_PAGES):
            page = next(self.walk.pages(self._tail), None)
            if page is None:
                break
            self._watch.judge(page.objects)
            if self._watch.full:
                break  # some of it may not be held, and is looked at again
            self._tail = page.last
            # One that is not full is the last: another request would bring nothing.
            if len(page.objects) < LEAST // 2:
                break
        if not self._places:
            return
        place, looks = next(iter(self._places.items()))
        del self._places[place]
        page = next(self.walk.pages(place), None)
        found = [] if page is None else page.objects
        done = self._watch.judge(found)
        new = [item.name for item, no in zip(found, done, strict=True) if not no]
        if new:
            self._places[max(new)] = 0
        elif looks < PLACE_LOOKS:
            self._places[place] = looks + 1

    @property
    def is_first(self) -> bool:
        """True until all names were looked at once."""
        return self._first

    def again(self) -> None:
        """List everything at the next look, and behind the pass that goes on."""
        self._next, self._is_due = 0.0, True

    def forget(self) -> None:
        """Forget what was listed: all of it is judged again."""
        self._chunks, self._pass = NameChunks(), None
        self._next = 0.0

    def break_off(self) -> None:
        """Begin the pass again, after an error in the middle of it."""
        if self._pass is not None:
            self._chunks, self._pass = self._pass.end(complete=False), None
            self._next = 0.0


def _digest(item: ListedObject) -> bytes:
    text = f"{item.name}\0{item.version}"
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _rests(rules: WatchRules) -> bool:
    """Tell whether an object has to be seen unchanged before it is taken."""
    return rules.rest > 0


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
