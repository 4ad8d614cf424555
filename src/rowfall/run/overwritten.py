"""Finds objects that were loaded and are overwritten since, for ``--on-change error``.

The record of a target knows a version by a digest of name and version together, and cannot tell
that another version of a name is loaded. So the versions of each name are noted beside it, in
:mod:`rowfall.ledger.seen_versions`, before they are loaded. A note alone says nothing: a load that
was killed leaves notes of versions that were never loaded, and the record decides.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.errors import SourceError
from rowfall.core.listing import MARK, split_id
from rowfall.core.results import Failure
from rowfall.ledger.seen_versions import SeenVersion, SeenVersions, name_digest
from rowfall.sources.base import ListedObject

if TYPE_CHECKING:
    from rowfall.contracts.following import FollowObserver

# Ids of one question to the record, see Destination.loaded_among: a version and its ranges.
_MOST = 10_000
_OPTIONS = (
    "--on-change load adds the rows of new versions to those of the old ones, --on-change ignore "
    "leaves new versions out."
)


class Overwritten:
    """Tells of which objects another version is loaded."""

    def __init__(self, session: Session, observer: FollowObserver | None) -> None:
        self._session, self._observer = session, observer
        tables = session.destination.small_tables(session)
        self._seen: SeenVersions
        if tables is not None:
            from rowfall.ledger.seen_versions import SharedVersions

            self._seen = SharedVersions(tables)
        else:
            assert session.ledger is not None  # noqa: S101 - of a load that is followed
            self._seen = session.ledger.seen_versions()

    def _id(self, item: ListedObject, *, by_name: bool = False) -> str:
        version = "" if by_name else item.version
        key, more = self._session.target_key, self._session.listing.projection
        return split_id(item.name, version, None, None, key, more)

    def _digest(self, item: ListedObject) -> str:
        return name_digest(self._session.target_key, item.name)

    def _version(self, item: ListedObject, id_: str) -> SeenVersion:
        when = None if item.modified is None else int(item.modified * 1000)
        return SeenVersion(self._digest(item), id_, item.size, when)

    def _among(self, ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(ids), _MOST):
            some = ids[start : start + _MOST]
            asked = [*some, *(f"{MARK}{one}" for one in some)]
            there = self._session.destination.loaded_among(self._session, asked)
            found |= {one.removeprefix(MARK) for one in there}
        return found

    # --- notes --------------------------------------------------------------------------------

    def note_loaded(self, objects: Sequence[ListedObject], loaded: Sequence[bool]) -> list[bool]:
        """Note versions that were loaded before anybody has noted them.

        Of those that were loaded by ``--on-change ignore`` the record knows the name alone: what is
        there when they are first seen here counts as their version.

        Returns:
            ``loaded``, and True where such a name is loaded and is what was noted.
        """
        found = list(loaded)
        others = [n for n, there in enumerate(loaded) if not there]
        named = self._among([self._id(objects[n], by_name=True) for n in others])
        by_name = {n: id_ for n in others if (id_ := self._id(objects[n], by_name=True)) in named}
        wanted = [n for n, there in enumerate(loaded) if there or n in by_name]
        noted = self._seen.of([self._digest(objects[n]) for n in wanted])
        new: list[SeenVersion] = []
        for n in wanted:
            version = self._version(objects[n], by_name.get(n) or self._id(objects[n]))
            same = [v for v in noted.get(version.name, ()) if v.split == version.split]
            if not same:
                new.append(version)
            if n in by_name:
                found[n] = not same or version in same
        self._seen.add(new)
        return found

    def note_coming(self, objects: Sequence[ListedObject]) -> None:
        """Note versions that are going to be loaded."""
        versions = [self._version(item, self._id(item)) for item in objects]
        noted = self._seen.of([version.name for version in versions])
        there = {(v.name, v.split) for several in noted.values() for v in several}
        self._seen.add([v for v in versions if (v.name, v.split) not in there])

    def prune(self, days: int) -> None:
        """Forget versions that were written more than so many days ago."""
        self._seen.prune(int((time.time() - days * 86_400) * 1000))

    # --- what is found ------------------------------------------------------------------------

    def check(self, objects: Sequence[ListedObject]) -> None:
        """Check that by now no other version of some objects is loaded.

        Raises:
            SourceError: one is, so that they have to be looked at again.
        """
        failures, _ = self.failures(objects)
        for failure in failures.values():
            raise SourceError(f"{failure.split}: {failure.error}", transient=True)

    def failures(
        self, objects: Sequence[ListedObject]
    ) -> tuple[dict[str, Failure], list[ListedObject]]:
        """Tell of which objects another version is loaded.

        What people have asked to load all the same is in neither answer.

        Returns:
            A failure for each of them, by its name; and the objects of which another version was
            noted and is not loaded, unless an attempt that has to be ended brings it.
        """
        noted = self._seen.of([self._digest(item) for item in objects])
        if not noted:
            return {}, []
        own = {self._digest(item): self._id(item) for item in objects}
        ids = sorted({v.split for name, several in noted.items() for v in several
                      if v.split != own[name]})  # fmt: skip
        loaded = self._among(ids)
        found: dict[str, Failure] = {}
        doubtful: list[ListedObject] = []
        for item in objects:
            name, observer = self._digest(item), self._observer
            others = [v for v in noted.get(name, ()) if v.split != own[name]]
            if not others or (observer is not None and observer.wants(item.name, item.version)):
                continue
            there = [v for v in others if v.split in loaded]
            if there:
                found[item.name] = self._failure(item, max(there, key=lambda v: v.modified or 0))
            else:
                doubtful.append(item)
        return found, doubtful

    def _failure(self, item: ListedObject, loaded: SeenVersion) -> Failure:
        now = self._version(item, "")
        out = self._observer.ways_out(item.name) if self._observer is not None else ""
        return Failure(
            item.name,
            f"overwritten since it was loaded: {_text(loaded)} were loaded, and now it has "
            f"{_text(now)}",
            out or _OPTIONS,
            lasting=True,
        )


def _text(version: SeenVersion) -> str:
    """Return the size and the time of a version, for people."""
    size = units.size(version.size)
    exact = f"{version.size:,} bytes"
    said = exact if version.size < 10_000 else f"{size} ({exact})"
    if version.modified is None:
        return said
    at = datetime.fromtimestamp(version.modified / 1000, UTC).isoformat(" ", "milliseconds")
    return f"{said} of {at.removesuffix('+00:00')} UTC"
