"""The feed of a lake table: each snapshot brings the data files that are new in it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rowfall.contracts.following import FollowControl, Lag
from rowfall.contracts.session import Session
from rowfall.core.errors import RowfallError
from rowfall.core.results import Failure
from rowfall.core.units import parse_duration
from rowfall.run.follow import Batch
from rowfall.sources import open_source
from rowfall.sources.base import Snapshotted, Streamed

# The metadata of a table are some requests, and writers commit once in seconds or minutes.
POLL_SECONDS = 2.0


class SnapshotFeed:
    """Batches of the newest snapshot of a table, when there is another one."""

    splits = False

    def __init__(self, session: Session, source: Snapshotted) -> None:
        self._session = session
        given = session.options
        self._poll = parse_duration(given.poll) if given.poll else POLL_SECONDS
        self._newest: Batch | None = Batch(session, None)
        self._name, self._loaded = source.snapshot, ""
        self._found = time.monotonic()

    def next(self) -> Batch | None:
        if self._newest is None:
            source = open_source(self._session.sources, self._session.options)
            if isinstance(source, Snapshotted) and source.snapshot != self._loaded:
                listing = source.listing()
                listing.projection = self._session.listing.projection
                session = self._session.for_batch(listing, None, source)
                self._newest, self._name = Batch(session, None), source.snapshot
                self._found = time.monotonic()
            elif isinstance(source, Streamed):
                source.close()
        return self._newest

    def wait(self, control: FollowControl) -> None:
        control.wait(self._poll)

    def lag(self) -> Lag:
        waits = self._newest is not None
        return Lag(int(waits), 0, 0, time.monotonic() - self._found if waits else 0.0)

    def loaded(
        self, batch: Batch, known: frozenset[str], failures: Sequence[Failure]
    ) -> list[Failure]:
        self._newest, self._loaded = None, self._name
        return [f for f in failures if f.lasting]

    def tired(self) -> list[tuple[Failure, str]]:
        return []

    def give_up(self, failure: Failure) -> None:
        """Do nothing: a snapshot that is not loaded ends it."""

    def retry(self, names: set[str]) -> None:
        """Do nothing: a snapshot that is not loaded ends it."""

    def smaller(self, batch: Batch, error: RowfallError) -> Failure | None:
        raise error

    def begin_anew(self, error: RowfallError) -> None:
        """Look for the newest snapshot again: that of the batch may have expired."""
        self._newest, self._loaded = None, ""

    def close(self) -> None:
        """Do nothing: the session has the connections."""
