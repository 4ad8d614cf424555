"""The files that ``--limit`` needs of a source: the first ones, as many as hold its rows."""

from __future__ import annotations

from collections.abc import Collection

from rowfall.contracts.destination import Session
from rowfall.core.errors import RowfallError
from rowfall.core.listing import Listing
from rowfall.core.model import Encoding, Schema
from rowfall.core.sqltext import SqlText
from rowfall.schema import sampling
from rowfall.schema.projection import Scan
from rowfall.sources.base import Ranged, Streamed


def first_files(
    session: Session, listing: Listing, encoding: Encoding | None, schema: Schema,
    known: Collection[str],
) -> Listing:  # fmt: skip
    """Return the files that the rows of ``--limit`` are read from; all of them without the option.

    Their rows are counted, as they are going to be loaded: of one file, then of two, then of four.

    Args:
        known: ids of splits that are loaded. One of this listing stands for all rows of the limit:
            they are loaded by one statement.
    """
    if not schema.limit:
        return listing
    splits = enumerate(listing.splits(session.target_key))
    if there := [i for i, split in splits if split.id in known]:
        return listing.only(there)
    # Ranges of a stream come one after the other, and end when nobody reads them any more.
    connected = isinstance(session.source, Streamed) and not isinstance(session.source, Ranged)
    if len(listing) < 2 or encoding is None or connected or not session.source.replayable:
        return listing
    count = 1
    while count < len(listing) and _rows(session, listing, count, encoding, schema) < schema.limit:
        count *= 2
    return listing.only(range(min(count, len(listing))))


def _rows(
    session: Session, listing: Listing, count: int, encoding: Encoding, schema: Schema
) -> int:  # fmt: skip
    """Return the rows of the first files, at most those of the limit; all where a row is bad."""
    splits = list(listing.splits(session.target_key, range(count)))
    rows = Scan(session.source, splits, encoding, schema).relation()
    settings = sampling.probe_settings(encoding, strict=True)
    try:
        ((found,),) = session.reader.ask(SqlText.of("SELECT count() FROM ", rows), settings)
    except RowfallError:
        return schema.limit  # whoever loads it says what is wrong with it
    return int(found)
