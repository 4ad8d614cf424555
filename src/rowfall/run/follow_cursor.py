"""The feed of a table or query of a database that is followed by a column (``--cursor``)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from rowfall.contracts.destination import Session
from rowfall.contracts.following import FollowControl
from rowfall.core.errors import RowfallError
from rowfall.core.results import Failure
from rowfall.run.feeds import Batch
from rowfall.run.follow_snapshots import NewestFeed
from rowfall.sources import open_source
from rowfall.sources.base import ByCursor, Source, Streamed

# A look is a connection and some ten short queries, as psql's \d: ten looks a minute are no load
# for a server, and applications commit all the time, so sooner would mean smaller batches.
POLL_SECONDS = 5.0
# A look reads the keys of the overlap, up to a million. It waits four times as long as that took,
# so that a long overlap keeps no more than a fifth of a core of the database busy.
REST = 4.0

Mark = tuple[int | None, int, int]
"""Number of the highest value; count of the rows of the overlap, and a digest of them."""


class CursorFeed(NewestFeed):
    """Batches of what a database has at or behind the last value of a column.

    Each batch is what the same command without ``--follow`` would load: the source is opened anew,
    asks for the highest value, and the overlap is compared with the target. Whether a batch is
    worth it tells the database alone: its highest value, and the keys of the overlap.
    """

    poll_seconds = POLL_SECONDS

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._source: Source | None = session.source
        self._mark: Mark | None = None
        self._loaded: Mark | None = None
        self._took = 0.0

    def next(self) -> Batch | None:
        if self._source is None:
            self._source = open_source(self._session.sources, self._session.options)
        if self._mark is None:
            begun = time.monotonic()
            self._mark = _mark(self._source)
            self._took = time.monotonic() - begun
            if self._mark == self._loaded:
                self._let_go()
                return None
            listing = self._source.listing()
            listing.projection = self._session.listing.projection
            self.found(Batch(self._session.for_batch(listing, None, self._source), None))
        return self.newest

    def wait(self, control: FollowControl) -> None:
        control.wait(max(self.poll, REST * self._took))

    def loaded(
        self, batch: Batch, known: frozenset[str], failures: Sequence[Failure]
    ) -> list[Failure]:
        cursor = batch.session.source.cursor if isinstance(batch.session.source, ByCursor) else None
        # A batch that made visible what a killed run had gathered has read nothing behind that.
        self._loaded = None if cursor is None or cursor.stopped else self._mark
        self._let_go()
        return super().loaded(batch, known, failures)

    def begin_anew(self, error: RowfallError) -> None:
        """Look at the source again: of its snapshot, if it had one, nothing is left."""
        self._loaded = None
        self._let_go()
        self.newest = None

    def close(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        """Close the connections: an open snapshot keeps the database from clearing old rows."""
        source, self._source, self._mark = self._source, None, None
        if isinstance(source, Streamed):
            with suppress(RowfallError):  # of a server that went away
                source.close()


def _mark(source: Source) -> Mark:
    """Return by what it shows that there is something at or behind the last value.

    Raises:
        RowfallError: the source does not answer, or its overlap has too many rows.
    """
    source.listing()  # a source asks the database now
    count = digest = 0
    if not isinstance(source, ByCursor) or (cursor := source.cursor) is None:
        raise TypeError(source.text)  # refused when following began
    if cursor.highest is not None:
        for overlap in cursor.overlaps([(0, cursor.end)]):
            for row in source.overlap_rows(overlap):
                count += 1
                digest += hash(row)  # whatever the order in which the database gives them
    return cursor.highest, count, digest
