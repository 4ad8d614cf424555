"""Named objects that can be read again: what files, web servers and object stores share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from heapq import nlargest
from typing import Any, ClassVar, TypeVar, cast

from rowfall.core import formats, own_files, units
from rowfall.core.errors import ObjectChangedError, RowfallError, SourceError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.decoder import rewriting
from rowfall.sources import from_clause, pipes
from rowfall.sources.base import EMBEDDED, ReaderFeatures
from rowfall.sources.compression import compression_of
from rowfall.stores import completeness, first_bytes
from rowfall.stores.first_bytes import AHEAD, HEAD, FirstBytes

REQUESTS = 32  # at a time, each of one object
HEADS = 8  # objects whose first bytes are looked at, as many as are sampled
READS_PARTS = "The engine cannot ask for one version of each file here"
"""Said where a mixture of versions is possible, see :meth:`ObjectSource.unpinned`."""
MOST_KEPT = 4 << 20
"""Bytes of beginnings that are kept: 64 of them. The headers of thousands of files pass through."""
_Found = TypeVar("_Found")


class ObjectSource(ABC):
    """A source of files or objects, read whole or in ranges; a subclass says how each is reached.

    The engine reads ranges of text, bz2 if it cannot unpack that, and gzip that zeros follow
    through pipes, and all else itself. Empty objects are left out: they hold no rows, and typed
    formats cannot read them.

    Attributes:
        kind: what its objects are called in messages.
        pinned: see :class:`rowfall.sources.base.Pinned`.
        notes: see :class:`rowfall.sources.base.Source`.
    """

    kind: ClassVar[str] = "files"
    remote = True
    replayable = True
    fds: tuple[int, ...] = ()
    made: Schema | None = None
    reader: ReaderFeatures = EMBEDDED
    pinned = True
    notes: tuple[str, ...] = ()

    def __init__(self, text: str, options: Options) -> None:
        self.text = text
        self._options = options
        self._own = OwnPathFilter()
        self._packed = ""  # what the objects are packed with, where their names say otherwise
        self._some_padded = False  # zeros follow the gzip of a short object
        self._beginnings = FirstBytesCache(self._part)
        self._pipes = pipes.Pipes(self)

    @abstractmethod
    def _found(self) -> Iterable[tuple[str, str, int | None]]:
        """Give name, version and size of each object, sorted by name; one may come more than once.

        Raises:
            SourceError: as :meth:`rowfall.sources.base.Source.listing`.
        """

    @abstractmethod
    def _part(self, split: Split, start: int, length: int) -> bytes:
        """Read a part from the store, see :meth:`part`."""

    @abstractmethod
    def _functions(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[from_clause.TableFunction]:
        """Return table functions that read these whole objects, one for a single object.

        A missing object makes the engine raise; where :attr:`pinned` and with a structure, another
        version of it, too, as far as that can be had.
        """

    @abstractmethod
    def _opener(self, split: Split) -> pipes.Opener:
        """Return the function that opens the stored bytes of a whole object."""

    @abstractmethod
    def _problem(self, split: Split) -> str | None:
        """Return the fault of one split, for :meth:`changed`; None where there is none."""

    def _left_out(self) -> str:
        """Return the line about rowfall's own files that were met; "" for none."""
        return self._own.said

    def _path(self, name: str) -> str:
        """Return the part of an object's name that ends with the extension."""
        return name

    def part(self, split: Split, start: int, length: int) -> bytes:
        """See :class:`rowfall.sources.base.Ranged`; the beginning of an object is read once."""
        return self._beginnings.part(split, start, length)

    def listing(self) -> Listing:
        listing = Listing()
        count, last = 0, ""
        for name, version, size in self._found():
            if name == last:
                continue
            count, last = count + 1, name
            if size != 0:
                listing.add(name, version, size)
        if not len(listing):
            raise SourceError(
                f"cannot read {self.text}: all {self.kind} found ({count}) are empty",
                hint="Check what writes them, and whether it has finished.",
            )
        return listing

    def unpinned(self, listing: Listing, encoding: Encoding | None) -> str | None:
        return None

    def encoding(self, listing: Listing) -> Encoding:
        names = [self._path(listing.uri(index)) for index in range(len(listing))]
        heads = self._heads(listing)
        options, said = first_bytes.with_format(heads, names, self._options)
        self._some_padded = any(
            len(head.data) < HEAD and completeness.ends_padded(head.data)
            for head in heads
            if head.packed == pipes.GZIP
        )
        declared = pipes.check_bz2(formats.detect(names, options), names)
        found = first_bytes.examine(heads, declared, options)
        if found.encoding.compression != declared.compression:
            self._packed = found.encoding.compression
        left = self._left_out()
        self.notes = (*([left] if left else ()), *said, *found.notes)
        return rewriting.check(pipes.check_bz2(found.encoding, names))

    def pieces(self, split: Split) -> Iterator[bytes]:
        """Give the stored bytes of a whole object.

        Raises:
            SourceError: it cannot be read, or is another version than the one listed.
        """
        return self._opener(split)()

    def lines_in(self, split: Split, encoding: Encoding, lines: Sequence[int]) -> list[int]:
        pieces = pipes.stored(self._opener(split))
        packed = compression_of(split.uri, encoding)
        return rewriting.locate(pieces, encoding, packed, lines)

    def _heads(self, listing: Listing) -> list[FirstBytes]:
        """Return the first stored bytes of some objects; nothing of what cannot be read.

        Reading those will say why, and the others may be loaded all the same.

        Raises:
            SourceError: none of them came, however long they were asked for.
        """
        away: list[SourceError] = []

        def head(split: Split) -> FirstBytes:
            name, found = self._path(split.uri), b""
            of_types = formats.by_name(name)[0]
            most = HEAD if of_types and of_types.kind is Kind.TYPED else ahead
            try:
                found = self.part(split, 0, min(most, split.size or most))[:HEAD]
                if not found and self.remote:
                    # A server that gives whole objects only may give a login page as well.
                    with closing(cast("Any", self.pieces(split))) as pieces:
                        found = next(pieces, b"")[: min(HEAD, split.size or HEAD)]
            except SourceError as error:
                if error.transient:
                    away.append(error)
            except RowfallError:
                pass
            return FirstBytes(name, found)

        splits = listing.evenly(HEADS)
        ahead = max(HEAD, AHEAD // max(1, len(splits)))  # inference asks for as much
        if self.remote:
            from concurrent.futures import ThreadPoolExecutor  # 4 ms that files here save

            with ThreadPoolExecutor(HEADS) as pool:
                heads = list(pool.map(head, splits))
        else:
            heads = list(map(head, splits))
        if away and len(away) == len(splits):
            # The engine would ask for the same, for minutes, and not say of which file.
            raise away[0]
        return heads

    def _packing(self, name: str) -> str:
        """Return the compression of one object as the engine was asked to read it."""
        asked = self._options.compression
        declared = self._packed or (formats.find_compression(asked) if asked else formats.AUTO)
        return compression_of(self._path(name), declared)

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        return listing.evenly(most)

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        if encoding is not None and encoding.dialect is not None:
            objects = [(s.uri, self._opener(s)) for s in {s.uri: s for s in splits}.values()]
            function = self._pipes.function(objects, encoding, structure, packed=False)
            return from_clause.joined([function], structure)
        ranges, splits = pipes.text_ranges(splits, structure, self.reader, self.part)
        packed, rest = pipes.packed_in_bz2(splits, encoding, self.reader)
        if self.reader is EMBEDDED and (self._some_padded or not self.remote):
            padded = {split.uri for split in rest if self._padded(split, encoding)}
            packed += [split for split in rest if split.uri in padded]
            rest = [split for split in rest if split.uri not in padded]
        here = self._read_here(rest, encoding) if structure and self.pinned else {}
        rest = [split for split in rest if split.uri not in here]
        whole = from_clause.whole_files(rest, encoding)
        functions = self._functions(whole, encoding, structure) if whole else []
        for split, where in from_clause.row_ranges(rest, encoding):
            (function,) = self._functions([split], encoding, structure)
            functions.append(replace(function, where=where))
        if ranges:
            functions.append(self._pipes.function(ranges, encoding, structure, packed=False))
        if packed:
            objects = [(split.uri, self._opener(split)) for split in packed]
            functions.append(self._pipes.function(objects, encoding, structure))
        for stored, group in by_compression(here.values(), encoding).items():
            objects = [(split.uri, self._opener(split)) for split in group]
            functions.append(self._pipes.function(objects, stored, structure, packed=False))
        return from_clause.joined(functions, structure)

    def _padded(self, split: Split, encoding: Encoding | None) -> bool:
        """Tell whether zeros follow the gzip of an object: 20 us for a file here.

        Of others only where a short one was seen to be so: it is a request for each.
        """
        if encoding is None or encoding.kind is Kind.TYPED:
            return False
        if compression_of(split.uri, encoding) != pipes.GZIP:
            return False
        with suppress(SourceError):  # whoever reads it says what is wrong with it
            return completeness.is_padded(partial(self.part, split), split.size, pipes.GZIP)
        return False

    def reads_here(self, encoding: Encoding | None) -> bool:
        """Tell whether rowfall itself can read what the engine cannot ask for by its version."""
        return self.reader is EMBEDDED and encoding is not None and encoding.kind is not Kind.TYPED

    def _read_here(self, splits: Sequence[Split], encoding: Encoding | None) -> dict[str, Split]:
        """Return the text that goes through pipes: no request of the engine names its version."""
        return {}

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        from concurrent.futures import ThreadPoolExecutor

        def problem(split: Split) -> str | None:
            try:
                return self._problem(split)
            except SourceError as error:
                error.object = split.uri
                raise

        with ThreadPoolExecutor(REQUESTS) as pool:
            answers = pool.map(problem, splits)
            return [(split, text) for split, text in zip(splits, answers, strict=True) if text]


class FirstBytesCache:
    """The first bytes of objects, kept by name and version, for all who look at them.

    Format, compression, text, header, columns and places to cut are told by the same first bytes,
    one after the other. Each used to open the file, or to send a request, for itself: three times
    for a small CSV file here, five with gzip, and a request takes 20 to 30 ms in a store far away;
    to HDFS it costs name node and data node 30 ms of CPU.

    Args:
        read: reads them from the store.
    """

    def __init__(self, read: Callable[[Split, int, int], bytes]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[bytes, bool]] = {}
        self._size = 0

    def part(self, split: Split, start: int, length: int) -> bytes:
        """Return a part of an object; what lies in its beginning is read once.

        An object without a version is read anew each time: it may be another one.
        """
        stop = start + length
        near = 0 <= start < stop and (stop <= HEAD or (start == 0 and stop <= AHEAD))
        if not near or not split.version:
            return self._read(split, start, length)
        key = split.uri, split.version
        with self._lock:
            data, whole = self._known.get(key, (b"", False))
        wanted = max(stop, HEAD)
        if split.size is not None:
            wanted = min(wanted, max(split.size, 1))
        if len(data) < wanted and not whole:
            data = self._read(split, 0, wanted)
            # Nothing comes from a server that sends whole files only.
            if data:
                self._keep(key, data, len(data) < wanted)
        return data[start:stop]

    def _keep(self, key: tuple[str, str], data: bytes, whole: bool) -> None:
        with self._lock:
            self._size += len(data) - len(self._known.pop(key, (b"", False))[0])
            self._known[key] = data, whole
            while self._size > MOST_KEPT and len(self._known) > 1:
                oldest = next(iter(self._known))
                self._size -= len(self._known.pop(oldest)[0])


class OwnPathFilter:
    """Tells which paths are rowfall's own, and counts them."""

    def __init__(self) -> None:
        self._count, self._first = 0, ""

    def __call__(self, path: str) -> bool:
        """Tell whether a path is left out."""
        own = own_files.is_own_path(path)
        if own:
            self._count += 1
            self._first = self._first or path
        return own

    @property
    def said(self) -> str:
        """Return the line that says so; "" for nothing."""
        if not self._count:
            return ""
        return f"left out: {units.counted(self._count, 'file')} of rowfall's own ({self._first}" + (
            ", ...)" if self._count > 1 else ")"
        )


def with_data(
    found: Iterable[_Found], name: Callable[[_Found], str], everything: bool,
    nothing: Callable[[int], SourceError],
) -> Iterator[_Found]:  # fmt: skip
    """Give what a folder holds with a known extension, or ``everything``.

    Raises:
        SourceError: there is none; ``nothing`` makes it from the number of other objects.
    """
    others, some = 0, False
    for item in found:
        if everything or formats.is_data(name(item)):
            some = True
            yield item
        else:
            others += 1
    if not some:
        raise nothing(others)


def by_compression(
    splits: Iterable[Split], encoding: Encoding | None
) -> dict[Encoding, list[Split]]:
    """Group objects by how they are to be read; ``auto`` is told by each name."""
    found: dict[Encoding, list[Split]] = {}
    for split in splits:
        if encoding is None:
            raise ValueError("a source of bytes needs an encoding")
        packed = compression_of(split.uri, encoding)
        found.setdefault(replace(encoding, compression=packed), []).append(split)
    return found


def largest(listing: Listing) -> list[Split]:
    """Return the largest objects, one more than are read apart."""
    indexes = nlargest(
        from_clause.APART + 1, range(len(listing)), key=lambda index: listing.size(index) or 0
    )
    return [listing.split(index, "") for index in indexes]


def changed_while_read(name: str) -> ObjectChangedError:
    """Return the error about an object that is another version than the one that was listed."""
    return ObjectChangedError(
        f"cannot read {name}: it changed while it was read",
        hint="Run the same command again when nothing writes to it.",
        transient=True,
    )
