"""Finds a quote of CSV that is opened and not closed before a file ends.

The engine's reader takes all that follows for one value, or the cut value as it is, without a word;
rowfall-decode refuses it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from rowfall.core.errors import RowfallError, UnclosedQuoteError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.core.open_quotes import END, OpenQuotes, error, find_open
from rowfall.schema.text.long_records import UNREADABLE, unpacked
from rowfall.sources.base import Ranged, Source
from rowfall.sources.compression import compression_of
from rowfall.stores.objects import REQUESTS, ObjectSource

# Bytes up to an error that are read for its line: some 0.1 s here. Behind that its byte is told.
_MOST_COUNTED = 256 << 20


def first(
    source: Source, splits: Sequence[Split], encoding: Encoding, most: int, *, breaks: bool
) -> UnclosedQuoteError | None:
    """Return the error about the first object with a quote that is never closed; None for none.

    Takes one small request for each object that is far away and not packed.
    """
    one = partial(find, source, encoding=encoding, most=most, breaks=breaks)
    if not source.remote:
        return next(filter(None, map(one, splits)), None)
    from concurrent.futures import ThreadPoolExecutor  # 4 ms that files here save

    with ThreadPoolExecutor(REQUESTS) as pool:
        return next(filter(None, pool.map(one, splits)), None)


def find(
    source: Source, split: Split, encoding: Encoding, most: int, *, breaks: bool
) -> UnclosedQuoteError | None:
    """Return the error about a quote of an object that is never closed; None for none.

    None, too, where the object cannot be read: who loads it says why. Packed objects are unpacked.

    Args:
        most: bytes of a record. ``breaks``: values may hold line breaks; where they may not, a
            reader refuses what a quote swallows behind its line.
    """
    size = split.part.size if split.part is not None else split.size
    if split.stop is not None and size is not None and split.stop < size:
        return None  # a range that ends with a whole record
    packed = compression_of(split.uri, encoding)
    found: tuple[int, int] | None = None
    with suppress(RowfallError, *UNREADABLE):
        end = None
        if packed == "none" and size and isinstance(source, Ranged):
            end = _of_end(source, split, size, encoding, most, breaks=breaks)
        if end is not None:
            found = _with_line(source, split, end) if end >= 0 else None
        elif isinstance(source, ObjectSource):
            quotes = OpenQuotes(encoding, most, breaks=breaks)
            for piece in unpacked(source.pieces(split), packed):
                quotes.pass_by(piece)
            found = quotes.end()
    return None if found is None else error(split.uri, found, split.id)


def _of_end(
    source: Ranged, split: Split, size: int, encoding: Encoding, most: int, *, breaks: bool
) -> int | None:
    """Return the offset of the open quote of an object, by its end; -1 for none.

    None where only the whole object can be had.
    """
    length = END
    while True:
        begin = max(0, size - length)
        text = source.part(split, begin, size - begin)
        if len(text) < size - begin:
            return None
        at = find_open(text, encoding, whole=not begin, breaks=breaks)
        if at is not None:
            return begin + at if at >= 0 else -1
        if not begin or length >= most:
            return -1
        length = min(16 * length, most)


def _with_line(source: Source, split: Split, at: int) -> tuple[int, int]:
    """Return the line of an offset, 0 where counting takes too long, and the offset."""
    if at > _MOST_COUNTED or source.remote or not isinstance(source, ObjectSource):
        return 0, at
    lines, begin = 1, 0
    for piece in source.pieces(split):
        lines += piece.count(b"\n", 0, max(0, at - begin))
        begin += len(piece)
    return lines, at
