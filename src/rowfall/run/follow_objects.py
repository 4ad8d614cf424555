"""The feed of a source that is listed: batches of new objects, and what became of them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rowfall.contracts.destination import Session
from rowfall.contracts.following import FollowControl, FollowObserver, Lag
from rowfall.core.after import NOTHING
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.listing import CUT_LEAST, MARK, Listing, split_id
from rowfall.core.options import ERROR, IGNORE
from rowfall.core.results import Failure
from rowfall.core.units import parse_duration, parse_size
from rowfall.run.feeds import (
    BATCH_BYTES,
    BATCH_SECONDS,
    POLL_SECONDS,
    Batch,
    pause,
)
from rowfall.run.object_watch import ObjectWatch, WatchRules
from rowfall.run.overwritten import Overwritten
from rowfall.sources.base import ListedObject, ListedSource

# Objects of a batch: the claim of their splits is one line of the journal.
BATCH_FILES = 10_000
# Two requests a second cost 90 cents a day at the prices of S3; a new object waits half of it.
STORE_POLL_SECONDS = 1.0
# Beside a queue listings only find what it did not tell of.
QUEUE_POLL_SECONDS = 10.0
_RANGE = re.compile(r"\[-?\d+:-?\d+\]\Z")


class ObjectFeed:
    """Batches of the objects that a watch finds."""

    splits = True

    def __init__(
        self, session: Session, source: ListedSource, observer: FollowObserver | None
    ) -> None:
        self._session, self._source = session, source
        given = session.options
        rest = pause(given.at_rest, source.rest_seconds)
        default = STORE_POLL_SECONDS if session.source.remote else POLL_SECONDS
        if given.queue is not None:
            default = QUEUE_POLL_SECONDS
        self._poll = parse_duration(given.poll) if given.poll else default
        rules = WatchRules(
            rest=rest,
            rests_always=given.at_rest is not None,
            marker=given.marker or "",
            forget_after=parse_duration(given.forget_after) if given.forget_after else 0.0,
            rescan=parse_duration(given.rescan) if given.rescan else 0.0,
            poll=self._poll,
            takes=observer.takes if observer is not None else None,
        )
        if given.marker and not hasattr(source, "size_of"):
            raise UsageError(
                f"--marker is for folders and buckets, and {session.source.text} is none",
                hint="A web server does not say what is beside a file: name complete ones.",
            )
        self._pause = pause(given.batch_seconds, BATCH_SECONDS)
        self._most = parse_size(given.batch_bytes) if given.batch_bytes else BATCH_BYTES
        # By name alone the first version of an object is the only one.
        self._by_name = given.on_change == IGNORE
        self._overwritten = Overwritten(session, observer) if given.on_change == ERROR else None
        self._files = BATCH_FILES
        self._watch = ObjectWatch(source, rules, self._loaded, session.emit)
        self._began = -self._pause
        # Of the last look, objects of which ranges are loaded: everything is asked for those.
        self._begun: set[str] = set()
        self._settled = False
        self._table = ""
        self._objects: dict[str, ListedObject] = {}
        self._tired: list[tuple[Failure, str]] = []

    # --- what is new --------------------------------------------------------------------------

    def _ids(self, objects: Sequence[ListedObject]) -> list[str]:
        # Once for all: the key is made anew each time, and a restart asks about all objects.
        key, more = self._session.target_key, self._session.listing.projection
        by_name = self._by_name
        return [
            split_id(o.name, "" if by_name else o.version, None, None, key, more) for o in objects
        ]

    def _loaded(self, objects: Sequence[ListedObject]) -> list[bool]:
        """Ask the record which objects are loaded."""
        ids = self._ids(objects)
        large = [
            f"{MARK}{id_}" for item, id_ in zip(objects, ids, strict=True)
            if item.size >= CUT_LEAST
        ]  # fmt: skip
        found = self._session.destination.loaded_among(self._session, [*ids, *large])
        self._begun |= {one for one in found if one.startswith(MARK)}
        loaded = [id_ in found for id_ in ids]
        if self._overwritten is not None:
            loaded = self._overwritten.note_loaded(objects, loaded)
        if self._session.options.after_load != NOTHING and any(loaded):
            from rowfall.run.after import clear_listed

            left = [item for item, there in zip(objects, loaded, strict=True) if there]
            clear_listed(self._session, [(item.name, item.version, item.size) for item in left])
        return loaded

    def next(self) -> Batch | None:
        watch = self._watch
        waits = not watch.ready and watch.heard
        watch.look(self._poll if waits else 0.0)
        if not watch.ready:
            return None
        due = time.monotonic() - self._began >= self._pause
        if not due and watch.ready < self._files and watch.ready_bytes < self._most:
            return None
        self._began = time.monotonic()
        objects = watch.take(self._files, self._most)
        self._objects = {item.name: item for item in objects}
        if self._overwritten is not None:
            return self._unless_overwritten(self._overwritten, objects)
        return self._batch(objects)

    def _unless_overwritten(
        self, overwritten: Overwritten, objects: Sequence[ListedObject]
    ) -> Batch | None:
        """Return a batch of the objects of which no other version is loaded; the others fail."""
        failures, doubtful = overwritten.failures(objects)
        for item in objects:
            if item.name in failures:
                self._tired.append((failures[item.name], item.version))
        left = [item for item in objects if item.name not in failures]
        if not left:
            return None
        overwritten.note_coming(left)
        batch = self._batch(left)
        if not doubtful:
            return batch
        # Attempts of processes that have died may bring them: everything is asked, and they again.
        return replace(batch, known=None, check=partial(overwritten.check, doubtful))

    def _batch(self, objects: Sequence[ListedObject]) -> Batch:
        listing = Listing(self._session.listing.projection)
        listing.by_name = self._by_name
        for item in sorted(objects):
            listing.add(item.name, item.version, item.size)
        names = tuple((item.name, item.version) for item in objects)
        ids = {f"{MARK}{id_}" for id_ in self._ids(objects)}
        begun = bool(ids & self._begun)
        self._begun -= ids
        known = frozenset[str]() if self._settled and not begun else None
        return Batch(self._session.for_batch(listing, None), known, names)

    def wait(self, control: FollowControl) -> None:
        due = self._pause - (time.monotonic() - self._began)
        if self._watch.ready:
            control.wait(max(0.0, min(due, self._poll)))
        elif not self._watch.heard:
            control.wait(self._poll)

    def lag(self) -> Lag:
        watch = self._watch
        return Lag(watch.ready, watch.ready_bytes, watch.waiting, watch.age())

    # --- what became of it --------------------------------------------------------------------

    def loaded(
        self, batch: Batch, known: frozenset[str], failures: Sequence[Failure]
    ) -> list[Failure]:
        self._settled = True
        self._files = min(BATCH_FILES, self._files * 2)
        failed = {_RANGE.sub("", f.split): f for f in failures}
        self._watch.done([o for name, o in self._objects.items() if name not in failed])
        ledger = self._session.ledger
        table = (ledger.table_uuid(self._session.target_key) or "") if ledger else ""
        if self._table and table != self._table:
            self._watch.forget()  # the table was made anew: what it held is gone
        self._table = table
        lasting = [f for name, f in failed.items() if f.lasting and self._is_bad(name)]
        bad = {_RANGE.sub("", f.split) for f in lasting}
        passing = {name: f for name, f in failed.items() if name not in bad}
        self._later([self._objects[n] for n in passing if n in self._objects], passing)
        return lasting

    def prune(self, days: int) -> None:
        if self._overwritten is not None:
            self._overwritten.prune(days)

    def _is_bad(self, name: str) -> bool:
        """Tell whether a file that cannot be loaded is still what was listed.

        Raises:
            SourceError: it cannot be asked for: credentials have expired, a bucket has vanished.
        """
        return name not in self._objects or self._watch.is_same(self._objects[name])

    def _later(self, objects: Sequence[ListedObject], why: dict[str, Failure]) -> None:
        for item in self._watch.back(objects, later=True):
            self._tired.append((why[item.name], item.version))

    def tired(self) -> list[tuple[Failure, str]]:
        found, self._tired = self._tired, []
        return found

    def give_up(self, failure: Failure) -> None:
        name = _RANGE.sub("", failure.split)
        if name in self._objects:
            self._watch.give_up([self._objects[name]])

    def retry(self, names: set[str]) -> None:
        self._watch.retry(names)

    def smaller(self, batch: Batch, error: RowfallError) -> Failure | None:
        objects = [self._objects[name] for name, _ in batch.names]
        self._began = -self._pause  # at once
        if len(objects) > 1:
            self._files = max(1, len(objects) // 2)
            self._watch.back(objects, later=False)
            return None
        if not self._is_bad(objects[0].name):
            self._watch.back(objects, later=True)
            return None
        return Failure(objects[0].name, error.message, error.hint, lasting=True)

    def begin_anew(self, error: RowfallError) -> None:
        self._settled = False
        self._began = -self._pause  # what waited meanwhile has waited for long enough
        self._watch.begin_anew()
        if isinstance(error, SourceError) and not error.transient:
            self._source.renew()

    def close(self) -> None:
        self._watch.close()
