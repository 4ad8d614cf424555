"""The feed of a lake table: each snapshot brings the data files that are new in it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rowfall.contracts.destination import Session
from rowfall.contracts.following import FollowControl, Lag
from rowfall.core.errors import RowfallError
from rowfall.core.results import Failure
from rowfall.core.units import parse_duration
from rowfall.run.feeds import Batch, WholeFeed
from rowfall.sources import open_source
from rowfall.sources.base import Snapshotted, Streamed

# The metadata of a table are some requests, and writers commit once in seconds or minutes.
POLL_SECONDS = 2.0


class NewestFeed(WholeFeed):
    """Batches of a table that is opened anew at each look; one that fails ends it.

    Attributes:
        newest: the batch that is found and not loaded.
        poll: seconds between two looks; ``poll_seconds``: by default.
    """

    poll_seconds = POLL_SECONDS

    def __init__(self, session: Session) -> None:
        self._session = session
        given = session.options.poll
        self.poll = parse_duration(given) if given else self.poll_seconds
        self.newest: Batch | None = None
        self._found = time.monotonic()

    def found(self, batch: Batch) -> None:
        """Take a batch that is to be loaded."""
        self.newest, self._found = batch, time.monotonic()

    def wait(self, control: FollowControl) -> None:
        control.wait(self.poll)

    def lag(self) -> Lag:
        waits = self.newest is not None
        return Lag(int(waits), 0, 0, time.monotonic() - self._found if waits else 0.0)

    def loaded(
        self, batch: Batch, known: frozenset[str], failures: Sequence[Failure]
    ) -> list[Failure]:
        self.newest = None
        return [f for f in failures if f.lasting]


class SnapshotFeed(NewestFeed):
    """Batches of the newest snapshot of a table, when there is another one."""

    def __init__(self, session: Session, source: Snapshotted) -> None:
        super().__init__(session)
        self.found(Batch(session, None))
        self._name, self._loaded = source.snapshot, ""

    def next(self) -> Batch | None:
        if self.newest is None:
            source = open_source(self._session.sources, self._session.options)
            if isinstance(source, Snapshotted) and source.snapshot != self._loaded:
                listing = source.listing()
                listing.projection = self._session.listing.projection
                self.found(Batch(self._session.for_batch(listing, None, source), None))
                self._name = source.snapshot
            elif isinstance(source, Streamed):
                source.close()
        return self.newest

    def loaded(
        self, batch: Batch, known: frozenset[str], failures: Sequence[Failure]
    ) -> list[Failure]:
        self._loaded = self._name
        return super().loaded(batch, known, failures)

    def begin_anew(self, error: RowfallError) -> None:
        """Look for the newest snapshot again: that of the batch may have expired."""
        self.newest, self._loaded = None, ""

    def close(self) -> None:
        """Do nothing: the session has the connections."""
