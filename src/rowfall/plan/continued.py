"""Go on with streams behind what is loaded of them: offsets of a topic, values of a key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rowfall.contracts.destination import Session
from rowfall.core.errors import UsageError
from rowfall.core.events import Note
from rowfall.core.listing import Listing, continued_id, joined, ranges_by_stream, split_id
from rowfall.core.options import ERROR
from rowfall.ledger import Ledger
from rowfall.sources.base import ByCursor, Continued, IdentifiedStream


def continue_streams(session: Session, known: set[str]) -> tuple[Listing, set[str]]:
    """Return the listing with the ranges that are loaded and those that follow.

    That of any other source is left as it is.

    Args:
        known: ids of splits that are loaded.

    Returns:
        The listing, and the ids of what need not be loaded.

    Raises:
        SourceError: some of what follows is gone, or the stream is another one by its name.
    """
    source, listing = session.source, session.listing
    if not isinstance(source, Continued) or not listing.continued:
        return listing, known
    if not session.destination.continues:
        return listing, set()  # the target holds the whole listing
    by = source if isinstance(source, ByCursor) else None
    if by is not None and known:
        check_streams(session, by, known)
    ranges = ranges_by_stream(known)
    loaded: dict[str, Sequence[tuple[int, int]]] = {}
    versions = dict(streams(listing))
    for uri, version in versions.items():
        stream = split_id(uri, version, None, None, session.target_key, listing.projection)
        if stream in ranges:
            loaded[uri] = ranges[stream]
    if not loaded:
        return listing, known
    if isinstance(source, IdentifiedStream) and session.ledger is not None:
        for uri, own in loaded.items():
            if told := session.ledger.identity(session.target_key, uri):
                source.check_identity(told, joined(own))
    if by is not None and by.cursor is not None and not session.options.replace:
        from rowfall.plan import cursors  # with what loads without the option save

        there = ranges
        if session.options.gathers:
            there = ranges_by_stream(session.destination.loaded_ids(session))
        for uri, own in loaded.items():
            stream = split_id(
                uri, versions[uri], None, None, session.target_key, listing.projection
            )
            cursors.go_on(session, by, joined(own), joined(there.get(stream, ())))
    before = len(source.notes)
    if session.options.limit:
        rest = Listing(continued=True)  # its rows are loaded, whatever has come since
    else:
        rest = source.listing_after({uri: joined(own) for uri, own in loaded.items()})
    for note in source.notes[before:]:
        session.emit(Note("warning", note))
    # Nothing is left to read of those, where what is to be read has sizes.
    size = None if rest.total_size is None or not len(rest) else 0
    found = Listing(listing.projection, continued=True)
    found.label = listing.label
    for uri, own in loaded.items():
        for start, stop in own:
            found.add(uri, versions[uri], size, start, stop)
    for split in rest.splits(""):
        found.add(split.uri, split.version, split.size, split.start, split.stop)
    return found, known


def keep_identity(session: Session, ledger: Ledger, load_id: str) -> None:
    """Record what tells a later load that the streams of this one are the same."""
    source = session.source
    if (
        isinstance(source, IdentifiedStream)
        and session.listing.continued
        and (own := source.identity())
    ):
        for name, _ in streams(session.listing):
            ledger.identify(load_id, name, own)


def check_streams(session: Session, source: ByCursor, known: Collection[str]) -> None:
    """Check that the rows of a source are not loaded already as other ranges.

    Raises:
        UsageError: they are, by another column or by none: all of them would be loaded again.
    """
    options = session.options
    if options.force or options.replace or options.upsert or options.on_conflict != ERROR:
        return
    streams = {one[:32] for one in known}
    for words, (uri, version) in source.other_streams().items():
        stream = split_id(uri, version, None, None, session.target_key, session.listing.projection)
        if stream not in streams:
            continue
        now = f"--cursor {options.cursor}" if options.cursor else "no --cursor"
        again = words.partition(",")[0].removeprefix("no ")
        hint = f"Go on with {words}" if words.startswith("--") else f"Leave out {again}"
        raise UsageError(
            f"{session.source.text} was loaded into {session.table_text} with {words}, and is now "
            f"to be loaded with {now}: all its rows would be loaded again",
            hint=f"{hint}, or load all of it anew: the same command with --replace.",
        )


def _joined(ids: Iterable[str]) -> frozenset[tuple[str, int, int]]:
    """Return stream, start and stop of ranges by their ids, those that touch as one."""
    return frozenset(
        (stream, start, stop)
        for stream, own in ranges_by_stream(ids).items()
        for start, stop in joined(own) if start < stop
    )  # fmt: skip


def loaded_streams(listing: Listing, key: str) -> frozenset[str]:
    """Return ids of all ranges of a listing, those that touch as one.

    Args:
        key: of the target.
    """
    if not listing.continued:
        return frozenset()
    ids = (split.id for split in listing.splits(key))
    return frozenset(continued_id(*one) for one in _joined(ids))


def streams(listing: Listing) -> list[tuple[str, str]]:
    """Return URI and version of the streams that a listing has ranges of."""
    return list(dict.fromkeys((split.uri, split.version) for split in listing.splits("")))


def names_now(session: Session, key: str, ids: Collection[str]) -> dict[str, str]:
    """Return the ids by the session's target key, of ranges that are loaded by another key."""
    listing, here = session.listing, session.target_key
    if not listing.continued:
        return {}
    names = {
        split_id(uri, version, None, None, key, listing.projection): split_id(
            uri, version, None, None, here, listing.projection
        )
        for uri, version in streams(listing)
    }
    return {i: names[i[:32]] + i[32:] for i in ids if i[:32] in names and i[32:]}
