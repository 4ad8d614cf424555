"""Measure a source by itself: listing, the latency of a request, and bytes a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from statistics import median

from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.listing import Split
from rowfall.core.results import Link, LinkKind
from rowfall.sources.base import HasDataFiles, Ranged, Source, Streamed, any_version

LISTING, REQUEST, READING = "listing", "request", "reading"
"""Names of the links."""
# Requests whose latency is taken; the first one opens a connection.
_REQUESTS = 5
# Pieces of objects. Each reader begins with the least, as a slow store gives a large one after its
# patience has ended, and asks for twice as much while a piece comes within this many seconds.
_LEAST_PIECE, _MOST_PIECE, _PIECE_SECONDS = 128 << 10, 4 << 20, 0.25
# Seconds and bytes after which reading has been measured; either is enough.
_SECONDS, _BYTES = 1.5, 512 << 20
# Readers beside each other of one object store: a request waits most of its time.
_READERS_EACH_CORE, _MOST_READERS = 4, 32


@dataclass(frozen=True, slots=True)
class SourceRate:
    """Bytes a second of a source, with some readers and with more of them.

    Attributes:
        more: with ``more_readers``; None where that was not tried.
    """

    rate: float
    readers: int
    more: float | None = None
    more_readers: int = 0


def listing_link(source: Source) -> Link:
    """List a source once more and return the seconds that it took, as a link."""
    began = time.monotonic()
    listing = source.listing()
    seconds = time.monotonic() - began
    what = units.counted(len(listing), listing.unit)
    return Link(LinkKind.SOURCE, LISTING, seconds, "seconds", what)


def read_source(
    source: Source, splits: Sequence[Split], cores: int
) -> tuple[tuple[Link, ...], SourceRate | None]:
    """Read for about a second and throw the bytes away.

    Args:
        splits: of the source, that a load reads first. ``cores``: that parse what is read.

    Returns:
        The links, and the rate; () and None of rows that are made here.

    Raises:
        SourceError: it cannot be read.
    """
    source = any_version(source)
    store, objects = _store(source, splits)
    if store is not None and objects:
        return _read_objects(store, objects, cores, remote=source.remote)
    if isinstance(source, Streamed):
        return _read_streams(source, splits, cores)
    return (), None


def _store(source: Source, splits: Sequence[Split]) -> tuple[Ranged | None, Sequence[Split]]:
    """Return the store whose objects the splits are; None where they are in none."""
    if isinstance(source, HasDataFiles):
        found = [source.in_file(split) for split in splits]
        return (found[0][0], [split for _, split, _ in found]) if found else (None, ())
    whole = list({(s.uri, s.version): s for s in splits}.values())
    return (source, whole) if isinstance(source, Ranged) else (None, ())


def _read_objects(
    store: Ranged, objects: Sequence[Split], cores: int, *, remote: bool
) -> tuple[tuple[Link, ...], SourceRate | None]:
    first = objects[0]
    taken = []
    for _ in range(_REQUESTS + 1):
        began = time.monotonic()
        if not store.part(first, 0, 1):
            return (), None  # its server sends whole objects only
        taken.append(time.monotonic() - began)
    request = Link(LinkKind.SOURCE, REQUEST, median(taken[1:]), "seconds", f"median of {_REQUESTS}")
    readers = min(_MOST_READERS, cores * _READERS_EACH_CORE) if remote else cores
    rate = _rate(store, objects, readers)
    more, more_readers = None, min(_MOST_READERS * 2, readers * 2)
    if remote:
        more = _rate(store, objects, more_readers)
    why = units.counted(readers, "reader")
    reading = Link(LinkKind.SOURCE, READING, rate, "bytes/s", why)
    return (request, reading), SourceRate(rate, readers, more, more_readers)


class _Pieces:
    """Hands out pieces of objects, one of each in turn, and again when all were given."""

    def __init__(self, objects: Sequence[Split]) -> None:
        self._objects, self._guard = objects, threading.Lock()
        self._given, self._at = [0] * len(objects), 0

    def take(self, size: int) -> tuple[Split, int]:
        """Return an object and an offset in it, of the next ``size`` bytes."""
        with self._guard:
            at = self._at % len(self._objects)
            self._at += 1
            offset = self._given[at]
            if offset >= _size(self._objects[at]):
                offset = 0
            self._given[at] = offset + size
            return self._objects[at], offset


def _size(split: Split) -> int:
    return split.part.size if split.part is not None else split.size or 0


def _rate(store: Ranged, objects: Sequence[Split], readers: int) -> float:
    pieces = _Pieces(objects)

    def reader() -> Callable[[], bytes | None]:
        size = _LEAST_PIECE

        def read() -> bytes:
            nonlocal size
            split, offset = pieces.take(size)
            began = time.monotonic()
            data = store.part(split, offset, size)
            if time.monotonic() - began < _PIECE_SECONDS:
                size = min(size * 2, _MOST_PIECE)
            return data

        return read

    return _together([reader() for _ in range(readers)])


def _together(readers: Sequence[Callable[[], bytes | None]]) -> float:
    """Call each reader again and again from a thread of its own; return their bytes a second.

    One that returns None has read all.

    Raises:
        RowfallError: what one of them raised.
    """
    began = time.monotonic()
    sizes, failed = [0] * len(readers), list[RowfallError]()
    ended = [began] * len(readers)

    def run(number: int) -> None:
        try:
            while time.monotonic() - began < _SECONDS and sum(sizes) < _BYTES and not failed:
                data = readers[number]()
                if data is None:
                    break
                sizes[number] += len(data)
                ended[number] = time.monotonic()
        except RowfallError as error:
            failed.append(error)

    threads = [
        threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(readers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return sum(sizes) / max(max(ended) - began, 1e-3)


def _read_streams(
    source: Streamed, splits: Sequence[Split], cores: int
) -> tuple[tuple[Link, ...], SourceRate | None]:
    """Read what this process itself reads: rows of a database, messages of a topic."""
    count = max(1, min(cores, len(splits)))
    streams = [source.stream(split) for split in splits[:count]]
    try:
        rate = _together([_reader(stream) for stream in streams])
    finally:
        for stream in streams:
            with suppress(RowfallError):
                close = getattr(stream, "close", None)
                if close is not None:
                    close()
    if not rate:
        return (), None
    why = units.counted(count, "connection")
    return (Link(LinkKind.SOURCE, READING, rate, "bytes/s", why),), SourceRate(rate, count)


def _reader(stream: Iterator[bytes]) -> Callable[[], bytes | None]:
    return lambda: next(stream, None)
